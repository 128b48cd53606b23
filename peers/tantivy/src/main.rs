//! tantivy as a peer: one merged segment sorted by date, postings for words and regions, fast
//! fields for ranges.
//! Documents are added newest first, so that pages ordered by date are the first matches, and pages
//! ordered by price need no second key: tantivy breaks ties by document number.

use firndb_bench_protocol::Result;
use firndb_bench_protocol::search::{
    Answer, Car, Engine, Hit, Query, Session, Workload, each_car, each_pair, serve,
};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use tantivy::collector::{Count, TopDocs};
use tantivy::columnar::ColumnValues;
use tantivy::merge_policy::NoMergePolicy;
use tantivy::query::{
    AllQuery, BooleanQuery, EnableScoring, Occur, Query as Tree, RangeQuery, TermQuery,
};
use tantivy::schema::{
    BytesOptions, Field, IndexRecordOption, NumericOptions, Schema, TextFieldIndexing, TextOptions,
    Value,
};
use tantivy::store::Compressor;
use tantivy::{
    DocAddress, DocSet, Index, IndexSettings, IndexSortByField, IndexWriter, Order, ReloadPolicy,
    Searcher, TERMINATED, TantivyDocument, Term,
};

fn main() -> Result<()> {
    serve(&Tantivy)
}

struct Tantivy;

impl Engine for Tantivy {
    type Session = Opened;

    fn version(&self) -> String {
        tantivy::version_string().to_string()
    }

    fn build(&self, workload: Workload, data: &Path, dir: &Path) -> Result<()> {
        let (schema, settings) = match workload {
            Workload::Cars => (
                cars_schema(),
                IndexSettings {
                    sort_by_field: Some(IndexSortByField {
                        field: "date".into(),
                        order: Order::Desc,
                    }),
                    ..IndexSettings::default()
                },
            ),
            Workload::Table1 => (table1_schema(), IndexSettings::default()),
        };
        // Payloads are stored uncompressed, as with all engines.
        let settings = IndexSettings { docstore_compression: Compressor::None, ..settings };
        let builder = Index::builder().schema(schema.clone()).settings(settings);
        let index = builder.create_in_dir(dir)?;
        let mut writer: IndexWriter = index.writer_with_num_threads(1, 1_000_000_000)?;
        writer.set_merge_policy(Box::new(NoMergePolicy));
        match workload {
            Workload::Cars => add_cars(&schema, &writer, data)?,
            Workload::Table1 => each_pair(data, |pair| {
                let mut document = TantivyDocument::new();
                document.add_u64(schema.get_field("id")?, pair.id);
                document.add_text(schema.get_field("f")?, pair.f);
                document.add_text(schema.get_field("g")?, pair.g);
                writer.add_document(document)?;
                Ok(())
            })?,
        }
        writer.commit()?;
        let segments = index.searchable_segment_ids()?;
        if segments.len() > 1 {
            writer.merge(&segments).wait()?;
        }
        writer.garbage_collect_files().wait()?;
        Ok(writer.wait_merging_threads()?)
    }

    fn open(&self, workload: Workload, dir: &Path) -> Result<Opened> {
        let index = Index::open_in_dir(dir)?;
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        let searcher = reader.searcher();
        let segments = searcher.segment_readers();
        if segments.len() != 1 {
            return Err(format!("the index has {} segments instead of one", segments.len()).into());
        }
        let fast = segments[0].fast_fields();
        let columns = match workload {
            Workload::Table1 => None,
            Workload::Cars => Some(Columns {
                id: fast.column_first_or_default("id")?,
                price: fast.column_first_or_default("price")?,
                date: fast.column_first_or_default("date")?,
            }),
        };
        Ok(Opened { schema: index.schema(), searcher, columns })
    }
}

/// Postings of words without positions or lengths.
fn words() -> TextOptions {
    let indexing = TextFieldIndexing::default()
        .set_tokenizer("raw")
        .set_fieldnorms(false)
        .set_index_option(IndexRecordOption::Basic);
    TextOptions::default().set_indexing_options(indexing)
}

fn cars_schema() -> Schema {
    let fast = || NumericOptions::default().set_fast();
    let mut schema = Schema::builder();
    schema.add_u64_field("id", fast());
    schema.add_u64_field("region_id", NumericOptions::default().set_indexed());
    for name in ["mark", "model", "body_type", "color", "tags"] {
        schema.add_text_field(name, words());
    }
    for name in ["year", "price", "mileage", "date", "lat", "lon"] {
        schema.add_i64_field(name, fast());
    }
    schema.add_bytes_field("payload", BytesOptions::default().set_stored());
    schema.build()
}

fn table1_schema() -> Schema {
    let mut schema = Schema::builder();
    schema.add_u64_field("id", NumericOptions::default().set_fast());
    for name in ["f", "g"] {
        schema.add_text_field(name, words());
    }
    schema.build()
}

fn add_cars(schema: &Schema, writer: &IndexWriter, data: &Path) -> Result<()> {
    each_car(data, |car| {
        writer.add_document(document(schema, &car)?)?;
        Ok(())
    })
}

fn document(schema: &Schema, car: &Car<'_>) -> Result<TantivyDocument> {
    let mut document = TantivyDocument::new();
    document.add_u64(schema.get_field("id")?, car.id);
    document.add_u64(schema.get_field("region_id")?, car.region.into());
    document.add_text(schema.get_field("mark")?, car.mark);
    document.add_text(schema.get_field("model")?, car.model);
    document.add_text(schema.get_field("body_type")?, car.body_type);
    document.add_text(schema.get_field("color")?, car.color);
    for tag in car.tags() {
        document.add_text(schema.get_field("tags")?, tag);
    }
    document.add_i64(schema.get_field("year")?, car.year.into());
    document.add_i64(schema.get_field("price")?, car.price.into());
    document.add_i64(schema.get_field("mileage")?, car.mileage.into());
    document.add_i64(schema.get_field("date")?, car.date);
    document.add_i64(schema.get_field("lat")?, car.lat.into());
    document.add_i64(schema.get_field("lon")?, car.lon.into());
    document.add_bytes(schema.get_field("payload")?, car.payload.as_bytes());
    Ok(document)
}

/// An opened index.
struct Opened {
    schema: Schema,
    searcher: Searcher,
    columns: Option<Columns>,
}

/// Values by document.
struct Columns {
    id: Arc<dyn ColumnValues<u64>>,
    price: Arc<dyn ColumnValues<i64>>,
    date: Arc<dyn ColumnValues<i64>>,
}

/// A query in tantivy's API.
enum Prepared {
    Count(Box<dyn Tree>),
    /// The newest matches, this many; with payloads or without.
    Newest(Box<dyn Tree>, usize, bool),
    Cheapest(Box<dyn Tree>, usize),
}

impl Opened {
    fn text(&self, field: &str, word: &str) -> Result<Box<dyn Tree>> {
        let term = Term::from_field_text(self.schema.get_field(field)?, word);
        Ok(Box::new(TermQuery::new(term, IndexRecordOption::Basic)))
    }

    fn any_text(&self, field: &str, words: &[String]) -> Result<Box<dyn Tree>> {
        let terms = words.iter().map(|word| self.text(field, word)).collect::<Result<Vec<_>>>()?;
        Ok(Box::new(BooleanQuery::union(terms)))
    }

    fn region(&self, region: u32) -> Result<Box<dyn Tree>> {
        let term = Term::from_field_u64(self.schema.get_field("region_id")?, region.into());
        Ok(Box::new(TermQuery::new(term, IndexRecordOption::Basic)))
    }

    fn range(&self, field: &str, low: Option<i64>, high: Option<i64>) -> Result<Box<dyn Tree>> {
        let field: Field = self.schema.get_field(field)?;
        let bound = |value: Option<i64>| match value {
            Some(value) => Bound::Included(Term::from_field_i64(field, value)),
            None => Bound::Unbounded,
        };
        Ok(Box::new(RangeQuery::new(bound(low), bound(high))))
    }

    fn between(
        &self,
        field: &str,
        low: impl Into<i64>,
        high: impl Into<i64>,
    ) -> Result<Box<dyn Tree>> {
        self.range(field, Some(low.into()), Some(high.into()))
    }

    fn hit(&self, doc: u32) -> Result<Hit> {
        let columns = self.columns.as_ref().ok_or("the index has no pages")?;
        Ok(Hit { id: columns.id.get_val(doc), keys: [0, 0], payload: 0 })
    }

    fn payload_sum(&self, doc: u32) -> Result<u64> {
        let document: TantivyDocument = self.searcher.doc(DocAddress::new(0, doc))?;
        let value = document.get_first(self.schema.get_field("payload")?);
        let payload = value.as_ref().and_then(|value| value.as_bytes()).ok_or("no payload")?;
        Ok(payload.iter().map(|&byte| u64::from(byte)).sum())
    }

    /// Collects the first matches: documents are already in the requested order.
    fn newest(
        &self,
        tree: &dyn Tree,
        limit: usize,
        payloads: bool,
        answer: &mut Answer,
    ) -> Result<()> {
        let weight = tree.weight(EnableScoring::disabled_from_searcher(&self.searcher))?;
        let mut docs = weight.scorer(self.searcher.segment_reader(0), 1.0)?;
        let mut doc = docs.doc();
        while doc != TERMINATED && answer.hits.len() < limit {
            let payload = if payloads { self.payload_sum(doc)? } else { 0 };
            let columns = self.columns.as_ref().ok_or("the index has no pages")?;
            let keys = [columns.date.get_val(doc), 0];
            answer.push(Hit { keys, payload, ..self.hit(doc)? });
            doc = docs.advance();
        }
        Ok(())
    }
}

impl Session for Opened {
    type Prepared = Prepared;

    fn prepare(&mut self, query: &Query) -> Result<Prepared> {
        let limit = query.kind().limit() as usize;
        let all = |parts| Box::new(BooleanQuery::intersection(parts)) as Box<dyn Tree>;
        Ok(match query {
            Query::Q1 { region } => Prepared::Count(self.region(*region)?),
            Query::Q2 { region, mark, price } => {
                let price = self.between("price", price.0, price.1)?;
                let parts = vec![self.region(*region)?, self.text("mark", mark)?, price];
                Prepared::Newest(all(parts), limit, true)
            }
            Query::Q3 { marks, year, color } => {
                let parts = vec![
                    (Occur::Must, self.any_text("mark", marks)?),
                    (Occur::Must, self.range("year", Some((*year).into()), None)?),
                    (Occur::MustNot, self.text("color", color)?),
                ];
                Prepared::Cheapest(Box::new(BooleanQuery::new(parts)), limit)
            }
            Query::Q4 { lat, lon } => Prepared::Count(all(vec![
                self.between("lat", lat.0, lat.1)?,
                self.between("lon", lon.0, lon.1)?,
            ])),
            Query::Q5 => Prepared::Newest(Box::new(AllQuery), limit, false),
            Query::Q6 { tags, price } => Prepared::Count(all(vec![
                self.any_text("tags", tags)?,
                self.range("price", None, Some((*price).into()))?,
            ])),
            Query::A { f } => Prepared::Count(self.text("f", f)?),
            Query::B { f, g } => Prepared::Count(all(vec![self.text("f", f)?, self.text("g", g)?])),
        })
    }

    fn run(&mut self, query: &Prepared, answer: &mut Answer) -> Result<()> {
        match query {
            Prepared::Count(tree) => answer.set_count(self.searcher.search(tree, &Count)? as u64),
            Prepared::Newest(tree, limit, payloads) => {
                self.newest(tree.as_ref(), *limit, *payloads, answer)?;
            }
            Prepared::Cheapest(tree, limit) => {
                let top = TopDocs::with_limit(*limit).order_by_fast_field("price", Order::Asc);
                let found: Vec<(Option<i64>, DocAddress)> = self.searcher.search(tree, &top)?;
                for (_, address) in found {
                    let columns = self.columns.as_ref().ok_or("the index has no pages")?;
                    let doc = address.doc_id;
                    let keys = [columns.price.get_val(doc), columns.date.get_val(doc)];
                    answer.push(Hit { keys, ..self.hit(doc)? });
                }
            }
        }
        Ok(())
    }
}
