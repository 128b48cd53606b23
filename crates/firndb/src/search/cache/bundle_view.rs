//! Builds bundles, and presents a set in which bundles replace the partitions they consist of.
//!
//! A view translates its document addresses to those of the underlying set, and page tokens of that
//! set to its own.

use crate::Result;
use crate::disk::envelope::{Envelope, EnvelopeWriter, Kind};
use crate::disk::{Append, Map};
use crate::search::build::builder::empty_keys;
use crate::search::build::join::{JoinInput, join_field};
use crate::search::build::partition_writer::{
    FieldContext, FieldData, document_order, reorder, write_field, write_keys, write_points,
};
use crate::search::codec::payload;
use crate::search::codec::points::choice::Medium;
use crate::search::collect::request::DocAddress;
use crate::search::format::{FieldMeta, encode_meta, global, section};
use crate::search::model::query::{OrderBy, PageToken};
use crate::search::model::schema::{Payload, Schema};
use crate::search::partition::Partition;
use crate::search::partition::set::PartitionSet;
use crate::search::stats::{BaseStatistics, SearchSet, Statistics};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The credit a query earns per partition that a bundle would have saved, in nanoseconds.
const MISS_CREDIT: u64 = 1000;

/// The credit a query earns because these partitions are not bundled.
pub(crate) fn miss_credit(range: &Range<usize>) -> u64 {
    (range.len() as u64 - 1) * MISS_CREDIT
}

/// A set in which bundles replace their partitions.
pub(crate) struct BundleView {
    pub(crate) set: SearchSet,
    /// For each field of the schema, whether all bundles contain it.
    pub(crate) fields: Vec<bool>,
    /// The partitions of `set`.
    partitions: Vec<ViewPartition>,
    /// The credit that each query earns because some bundles have not been built.
    pub(crate) miss_credit: u64,
}

/// A partition of a view: a bundle, or a partition of the underlying set.
pub(crate) struct ViewPartition {
    /// The number of the first (or only) partition in the underlying set.
    first: usize,
    pub(crate) bundle: Option<Arc<Bundle>>,
}

/// Consecutive partitions merged in memory. Holds index structures only, without payloads.
pub(crate) struct Bundle {
    pub(crate) members: Vec<Arc<Partition>>,
    /// Member i has the original document numbers `starts[i]..starts[i + 1]`.
    starts: Vec<u32>,
    pub(crate) part: Arc<Partition>,
    /// For each field of the schema, whether `part` contains it.
    pub(crate) fields: Vec<bool>,
}

/// The document order of a bundle with these fields: the schema's, if the fields of that order are
/// all among them; otherwise none, which keeps documents in the order of their partitions.
pub(crate) fn bundle_order(schema: &Schema, fields: &[bool]) -> Vec<OrderBy> {
    let available =
        |key: &OrderBy| schema.field(&key.field).is_some_and(|(i, f)| fields[i] && !f.multi);
    if schema.order.iter().all(available) { schema.order.clone() } else { Vec::new() }
}

impl BundleView {
    /// A view of `set`. `built` has the bundle of each candidate range, or `None`; `fields` are
    /// those that all bundles contain.
    pub(crate) fn new(
        set: &SearchSet,
        fields: Vec<bool>,
        candidates: &[Range<usize>],
        built: Vec<Option<Arc<Bundle>>>,
    ) -> BundleView {
        let mut partitions = Vec::new();
        let push_unbundled = |partitions: &mut Vec<ViewPartition>, range: Range<usize>| {
            partitions.extend(range.map(|first| ViewPartition { first, bundle: None }));
        };
        let (mut next, mut total_credit) = (0, 0);
        for (range, bundle) in candidates.iter().zip(built) {
            if bundle.is_none() {
                total_credit += miss_credit(range);
                continue;
            }
            push_unbundled(&mut partitions, next..range.start);
            partitions.push(ViewPartition { first: range.start, bundle });
            next = range.end;
        }
        push_unbundled(&mut partitions, next..set.partitions.len());
        let replacements = partitions.iter().map(|part| match &part.bundle {
            Some(bundle) => (part.first, Some(bundle.part.clone())),
            None => (part.first, None),
        });
        let mut view = set.with(replacements.collect());
        // If at least half of the view's partitions are bundles, its own statistics are cheap.
        let bundled = partitions.iter().filter(|part| part.bundle.is_some()).count();
        if partitions.len() > 2 * bundled {
            let starts = partitions.iter().map(|part| part.first);
            let ends = starts.clone().skip(1).chain([set.partitions.len()]);
            let base = BaseStatistics {
                statistics: set.statistics.clone(),
                members: starts.zip(ends).map(|(start, end)| start..end).collect(),
            };
            let own = Statistics::new(set.schema.fields.len(), partitions.len());
            view.statistics = Arc::new(own.with_base(base));
        }
        BundleView { set: view, fields, partitions, miss_credit: total_credit }
    }

    /// Whether all bundles contain these fields.
    pub(crate) fn has(&self, mut fields: impl Iterator<Item = usize>) -> bool {
        fields.all(|field| self.fields[field])
    }

    /// The number in the view of the partition that contains partition p of the underlying set.
    fn partition_of(&self, p: usize) -> usize {
        self.partitions.partition_point(|part| part.first <= p) - 1
    }

    /// The bundle of a candidate range.
    pub(crate) fn bundle(&self, range: &Range<usize>) -> Option<&Arc<Bundle>> {
        self.partitions[self.partition_of(range.start)].bundle.as_ref()
    }

    /// The bundles, with the numbers of their members in the underlying set.
    pub(crate) fn bundles(&self) -> impl Iterator<Item = (Range<usize>, &Arc<Bundle>)> {
        self.partitions.iter().filter_map(|part| {
            let bundle = part.bundle.as_ref()?;
            Some((part.first..part.first + bundle.members.len(), bundle))
        })
    }

    /// The number of partitions that are in bundles, and the number of bundles.
    pub(crate) fn bundled(&self) -> (u64, u64) {
        let bundles = self.partitions.iter().filter_map(|part| part.bundle.as_ref());
        bundles.fold((0, 0), |(all, n), bundle| (all + bundle.members.len() as u64, n + 1))
    }

    /// Translates a document address of the view to the underlying set. The document number must be
    /// the original one ([`Partition::origins`]).
    pub(crate) fn place(&self, (part, doc): DocAddress) -> DocAddress {
        let ViewPartition { first, bundle } = &self.partitions[part as usize];
        let Some(bundle) = bundle else { return (*first as u32, doc) };
        let i = bundle.starts.partition_point(|&start| start <= doc) - 1;
        ((first + i) as u32, doc - bundle.starts[i])
    }

    /// Translates a page token of the underlying set `base` to the view.
    pub(crate) fn page_token(&self, base: &PartitionSet, token: &PageToken) -> PageToken {
        let at = |partition: String, doc| PageToken { keys: token.keys.clone(), partition, doc };
        // The page token is past all partitions before p, and past the first `seen` documents of p.
        let (p, seen) = match base.names.binary_search(&token.partition) {
            Ok(p) => (p, token.doc.saturating_add(1).min(base.partitions[p].documents)),
            Err(0) => return token.clone(),
            Err(next) => (next - 1, base.partitions[next - 1].documents),
        };
        let number = self.partition_of(p);
        let part = &self.partitions[number];
        let before = part.bundle.as_ref().map_or(0, |bundle| bundle.starts[p - part.first]);
        match (before + seen, number) {
            (0, 0) => at(String::new(), 0),
            (0, _) => at(self.set.names[number - 1].clone(), u32::MAX),
            (seen, _) => at(self.set.names[number].clone(), seen - 1),
        }
    }
}

impl Bundle {
    /// Merges the wanted fields of a range of partitions. `before` is a bundle of most of them;
    /// what it contains is copied from there.
    pub(crate) fn new(
        set: &PartitionSet,
        range: Range<usize>,
        wanted: &[bool],
        before: Option<&Bundle>,
    ) -> Result<Bundle> {
        let members = set.partitions[range].to_vec();
        let starts = starts(&members);
        let documents = *starts.last().unwrap_or(&0);
        let order = bundle_order(&set.schema, wanted);
        let schema = Schema { order, payload: Payload::Raw, ..(*set.schema).clone() };
        let whole = JoinInput::all_of(&members);
        let incremental = before.map(|old| old.join_input(&members));
        let join = |i: usize| {
            let incremental = incremental.as_ref().filter(|_| before.is_some_and(|b| b.fields[i]));
            join_field(&schema.fields[i], incremental.unwrap_or(&whole))
        };
        let like = |old: &Schema| old.order == schema.order && old.points == schema.points;
        let reused = before.filter(|old| old.consists_of(&members) && like(&old.part.schema));
        let mut joined: Vec<Option<FieldData>> = schema.fields.iter().map(|_| None).collect();
        let origins: Option<Arc<[u32]>> = match reused {
            Some(before) => before.part.origins.clone(),
            None => {
                for (i, _) in schema.order.iter().filter_map(|key| schema.field(&key.field)) {
                    joined[i] = Some(join(i)?);
                }
                let ordinals = |i: usize| joined[i].as_ref().map(|data| &data.ordinals);
                let origins = document_order(&schema, documents, ordinals)?;
                // Without reordering, numbers are the original ones.
                origins.filter(|origins| !origins.is_sorted()).map(Arc::from)
            }
        };
        let mut out = Memory(Vec::with_capacity(before.map_or(0, Bundle::file_len)));
        let mut w = EnvelopeWriter::new(&mut out, Kind::Partition)?;
        payload::write(&mut w, Payload::Raw, documents, &mut |_, _| Ok(()))?;
        let mut take_sorted = |i: usize| -> Result<FieldData> {
            let mut data = joined[i].take().map_or_else(|| join(i), Ok)?;
            if let Some(origins) = &origins {
                data.ordinals = reorder(&data.ordinals, origins);
            }
            Ok(data)
        };
        // Points need the data of both fields. If one of them is copied, there are no points.
        let must_join = |i: &usize| wanted[*i] && !reused.is_some_and(|source| source.fields[*i]);
        let mut paired: Vec<Option<FieldData>> = schema.fields.iter().map(|_| None).collect();
        for &i in schema.points.iter().filter(|pair| pair.iter().all(must_join)).flatten() {
            paired[i] = Some(take_sorted(i)?);
        }
        let points = write_points(&mut w, &schema, (documents, IN_MEMORY), |i| paired[i].as_ref())?;
        // Fields that are not wanted get an empty dictionary, because each field must have one.
        let context = |in_points| FieldContext { documents, medium: IN_MEMORY, in_points };
        let mut metas = Vec::with_capacity(wanted.len());
        for (i, field) in schema.fields.iter().enumerate() {
            metas.push(match reused.filter(|source| source.fields[i]) {
                Some(reused) => copy_field(&mut w, &reused.part, i)?,
                None if wanted[i] => {
                    let data = paired[i].take().map_or_else(|| take_sorted(i), Ok)?;
                    write_field(&mut w, i, field, data, context(points.get(&i).copied()))?
                }
                None => {
                    write_keys(&mut w, i, &empty_keys(field), 0).map(|_| FieldMeta::default())?
                }
            });
        }
        w.section(global::META, &encode_meta(documents, &schema, &metas))?;
        w.finish()?;
        let mut part = in_memory(out, before.map(|before| &*before.part))?;
        part.origins = origins;
        Ok(Bundle { members, starts, part: Arc::new(part), fields: wanted.to_vec() })
    }

    /// Memory in use, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let origins = self.part.origins.as_ref().map_or(0, |origins| origins.len() as u64 * 4);
        self.part.file.len() + origins
    }

    /// The size of its partition file in bytes.
    fn file_len(&self) -> usize {
        self.part.file.len() as usize
    }

    /// Whether these are exactly its members.
    pub(crate) fn consists_of(&self, parts: &[Arc<Partition>]) -> bool {
        let pairs = || parts.iter().zip(&self.members);
        parts.len() == self.members.len() && pairs().all(|(a, b)| Arc::ptr_eq(a, b))
    }

    /// For each of these partitions, its number among the members. `None` if it is not a member, or
    /// if its order relative to other partitions differs.
    pub(crate) fn members_of(
        &self,
        parts: &[Arc<Partition>],
    ) -> impl Iterator<Item = Option<usize>> {
        parts.iter().scan(0, |next, part| {
            let rest = &self.members[*next..];
            let found = rest.iter().position(|member| Arc::ptr_eq(member, part));
            Some(found.map(|skipped| {
                *next += skipped + 1;
                *next - 1
            }))
        })
    }

    /// The input for a join of these partitions. Members of this bundle are read from the bundle.
    fn join_input<'p>(&'p self, parts: &'p [Arc<Partition>]) -> JoinInput<'p> {
        let mut input = JoinInput::new();
        let bundle = input.add_source(&self.part);
        for (part, member) in parts.iter().zip(self.members_of(parts)) {
            let (source, docs) = match member {
                Some(i) => (bundle, self.starts[i]..self.starts[i + 1]),
                None => (input.add_source(part), 0..part.documents),
            };
            input.push(source, docs);
        }
        input
    }
}

/// The number of the first document of each partition after concatenation, and the total.
fn starts(parts: &[Arc<Partition>]) -> Vec<u32> {
    let ends = parts.iter().scan(0, |end, part| {
        *end += part.documents;
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

/// Opens and checks a partition file in memory. `like` may share its parsed schema.
fn in_memory(bytes: Memory, like: Option<&Partition>) -> Result<Partition> {
    let path = Path::new("(partitions merged in memory)");
    let file = Envelope::open(Map::from_vec(bytes.0), path, Kind::Partition)?;
    let part = Partition::parse(file, like)?;
    part.ready()?;
    Ok(part)
}

/// Copies the sections of a field from another bundle.
fn copy_field(w: &mut EnvelopeWriter, part: &Partition, field: usize) -> Result<FieldMeta> {
    for i in 0..part.file.entries() {
        let id = part.file.entry(i).id;
        if (section(field, 0)..section(field, 16)).contains(&id) {
            w.section(id, part.file.section(i)?)?;
        }
    }
    Ok(*part.meta(field))
}

/// The medium of bundles.
const IN_MEMORY: Medium = Medium::Memory;

/// A file that is written to memory.
struct Memory(Vec<u8>);

impl Append for Memory {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
}
