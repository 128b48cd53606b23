//! Reads field values of hits.

use crate::search::model::types::Type;
use crate::search::model::value::{Value, key_to_f64, key_to_i64};
use crate::search::partition::FieldView;
use crate::search::partition::Partition;
use crate::search::partition::set::PartitionSet;
use crate::search::reader::Hit;
use crate::{Error, Result};

/// Reads the values of one field of many hits. A look-up is prepared once per partition;
/// [`Reader::value`](crate::search::Reader::value) prepares it once per hit.
///
/// ```
/// use firndb::search::{Query, Reader, query::all};
///
/// /// The prices of the first 100 offers.
/// fn prices(reader: &Reader) -> firndb::Result<Vec<String>> {
///     let page = reader.search(&Query::new(all()).limit(100))?;
///     let mut price = reader.field("price")?;
///     let mut prices = Vec::new();
///     for &hit in &page.hits {
///         prices.push(price.value(hit)?.map_or("none".to_string(), |value| value.to_string()));
///     }
///     Ok(prices)
/// }
/// ```
pub struct FieldReader<'r> {
    pub(crate) set: &'r PartitionSet,
    pub(crate) field: usize,
    pub(crate) ty: Type,
    /// The number of the partition of the last hit, and its view of the field. There is no view if
    /// the partition does not have the field.
    pub(crate) view: Option<(u32, Option<FieldView<'r>>)>,
}

impl<'r> FieldReader<'r> {
    /// The value of a hit; `None` if it has none. The smallest value if there are several.
    #[inline]
    pub fn value(&mut self, hit: Hit) -> Result<Option<Value>> {
        match self.view(hit.partition)? {
            Some(view) => view.value(hit.doc),
            None => Ok(None),
        }
    }

    /// Calls `each` with the value of each hit, in the order of `hits`, for a field of type `u64`.
    /// In a loop over a page this takes a third of the time of [`FieldReader::value`].
    /// `InvalidArgument` if the field has another type.
    #[inline]
    pub fn each_u64(&mut self, hits: &[Hit], each: impl FnMut(Option<u64>)) -> Result<()> {
        self.check_type(&[Type::U64], "u64")?;
        self.each_key(hits, |key| key, each)
    }

    /// Like [`FieldReader::each_u64`], for a field of type `i64` or `timestamp` (microseconds since
    /// 1970).
    #[inline]
    pub fn each_i64(&mut self, hits: &[Hit], each: impl FnMut(Option<i64>)) -> Result<()> {
        self.check_type(&[Type::I64, Type::Timestamp], "i64 or timestamp")?;
        self.each_key(hits, key_to_i64, each)
    }

    /// Like [`FieldReader::each_u64`], for a field of type `f64`.
    #[inline]
    pub fn each_f64(&mut self, hits: &[Hit], each: impl FnMut(Option<f64>)) -> Result<()> {
        self.check_type(&[Type::F64], "f64")?;
        self.each_key(hits, key_to_f64, each)
    }

    /// Like [`FieldReader::each_u64`], for a field of type `bool`.
    #[inline]
    pub fn each_bool(&mut self, hits: &[Hit], each: impl FnMut(Option<bool>)) -> Result<()> {
        self.check_type(&[Type::Bool], "bool")?;
        self.each_key(hits, |key| key != 0, each)
    }

    /// Like [`FieldReader::each_u64`], for a field of type `string`. Equal values of hits in a row
    /// are decoded once.
    pub fn each_str(&mut self, hits: &[Hit], mut each: impl FnMut(Option<&str>)) -> Result<()> {
        self.check_type(&[Type::String], "string")?;
        let mut last: Option<((u32, u32), Value)> = None;
        for hit in hits {
            let Some(view) = self.view(hit.partition)? else {
                each(None);
                continue;
            };
            let Some(ord) = view.ordinal(hit.doc)? else {
                each(None);
                continue;
            };
            let at = (hit.partition, ord);
            if last.as_ref().is_none_or(|(of, _)| *of != at) {
                last = Some((at, view.value_of(ord)?));
            }
            match &last {
                Some((_, Value::Str(text))) => each(Some(text)),
                _ => each(None),
            }
        }
        Ok(())
    }

    /// Calls `each` with all values of each hit, ascending, in the order of `hits`, for a field of
    /// any type. The slice is empty for a hit without a value.
    pub fn each_list(&mut self, hits: &[Hit], mut each: impl FnMut(&[Value])) -> Result<()> {
        let mut values = Vec::new();
        for hit in hits {
            values.clear();
            if let Some(view) = self.view(hit.partition)? {
                view.values(hit.doc, &mut values)?;
            }
            each(&values);
        }
        Ok(())
    }

    fn check_type(&self, types: &[Type], wanted: &str) -> Result<()> {
        if types.contains(&self.ty) {
            return Ok(());
        }
        let name = &self.set.schema.fields[self.field].name;
        Err(Error::invalid(format!("field `{name}` is not of type {wanted}: read it by `value`")))
    }

    #[inline(always)]
    fn each_key<T>(
        &mut self,
        hits: &[Hit],
        decode: impl Fn(u64) -> T,
        mut each: impl FnMut(Option<T>),
    ) -> Result<()> {
        let mut hits = hits;
        while let Some(&Hit { partition, .. }) = hits.first() {
            let end = hits.iter().position(|hit| hit.partition != partition);
            let (group, rest) = hits.split_at(end.unwrap_or(hits.len()));
            hits = rest;
            let (part, local) = self.part(partition)?;
            let Some(local) = local else {
                group.iter().for_each(|_| each(None));
                continue;
            };
            let Some((ords, keys)) = part.fixed(local)? else {
                let view = FieldView::new(part, local)?;
                for hit in group {
                    each(view.fixed_key(hit.doc)?.map(&decode));
                }
                continue;
            };
            for hit in group {
                part.check(hit.doc)?;
                let ord = ords.get(hit.doc as usize) as usize;
                each((ord < keys.len()).then(|| decode(keys.get(ord))));
            }
        }
        Ok(())
    }

    /// The partition, and its number of the field; `None` if it does not have the field.
    #[inline(always)]
    fn part(&self, partition: u32) -> Result<(&'r Partition, Option<usize>)> {
        let part = self.set.partitions.get(partition as usize);
        let part = part.ok_or_else(|| Error::invalid("there is no such partition"))?;
        Ok((part, self.set.local(partition as usize, self.field)))
    }

    /// The view of the field in a partition; `None` if the partition does not have the field.
    #[inline]
    fn view(&mut self, partition: u32) -> Result<Option<&FieldView<'r>>> {
        if self.view.as_ref().is_none_or(|(of, _)| *of != partition) {
            let (part, local) = self.part(partition)?;
            self.view =
                Some((partition, local.map(|local| FieldView::new(part, local)).transpose()?));
        }
        Ok(self.view.as_ref().and_then(|(_, view)| view.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::format::Ordered;
    use crate::search::testing::reader_of;
    use crate::search::{Document, Field, PartitionBuilder, Roles, Schema};
    use crate::search::{Query, query};

    #[test]
    fn a_stored_field_with_sorted_unique_values_has_no_column() {
        const DOCUMENTS: u64 = 40_000;
        type ValueOf = fn(u64) -> u64;
        let cases: [(ValueOf, Ordered); 4] = [
            (|n| 7 + n * 3, Ordered::Ascending),
            (|n| DOCUMENTS - n, Ordered::Descending),
            // One key per two documents; unordered documents.
            (|n| n / 2, Ordered::No),
            (|n| n ^ 1, Ordered::No),
        ];
        for (value_of, ordered) in cases {
            let schema = Schema::new([Field::new("id", Type::U64, Roles::STORED)]).unwrap();
            let mut builder = PartitionBuilder::new(schema);
            (0..DOCUMENTS)
                .for_each(|n| builder.add(&Document::new().set("id", value_of(n))).unwrap());
            let reader = reader_of([builder]);
            reader.verify().unwrap();
            let meta = reader.set.partitions[0].meta(0);
            assert_eq!(
                (meta.ordered, meta.column_bits.is_none()),
                (ordered, ordered != Ordered::No)
            );
            let hits: Vec<Hit> =
                (0..DOCUMENTS as u32).map(|doc| Hit { partition: 0, doc }).collect();
            let mut values = Vec::new();
            reader.field("id").unwrap().each_u64(&hits, |value| values.extend(value)).unwrap();
            assert!(values.iter().copied().eq((0..DOCUMENTS).map(value_of)));
            assert_eq!(reader.value(hits[77], "id").unwrap(), Some(value_of(77).into()));
        }
    }

    /// Every column has the values of `Reader::values`, of single partitions and of several that
    /// lack a field.
    #[test]
    fn columns_of_hits_have_the_values_of_each_hit() {
        let mut schema = vec![
            Field::new("f", Type::F64, Roles::FULL).nullable(),
            Field::new("b", Type::Bool, Roles::FULL).nullable(),
            Field::new("s", Type::String, Roles::FULL).nullable(),
            Field::new("m", Type::I64, Roles::FILTERABLE.with(Roles::STORED)).multi(),
        ];
        let mut parts = Vec::new();
        for part in 0..3i64 {
            let mut builder = PartitionBuilder::new(Schema::new(schema.clone()).unwrap());
            for i in 0..40i64 {
                let mut document = Document::new();
                if i % 3 > 0 {
                    document = document.set("f", i as f64 / 4.0 - 3.0).set("b", i % 2 == 0);
                }
                for value in 0..i % 4 {
                    document = document.set("m", part * 100 + value);
                }
                if part < 2 && i % 5 > 0 {
                    document = document.set("s", format!("text {}", i / 7));
                }
                builder.add(&document).unwrap();
            }
            parts.push(builder);
            if part == 1 {
                schema.remove(2);
            }
        }
        let reader = reader_of(parts);
        let hits = reader.search(&Query::new(query::all()).limit(1000)).unwrap().hits;
        assert_eq!(hits.len(), 120);
        let values = |name: &str| -> Vec<Vec<Value>> {
            hits.iter().map(|hit| reader.values(*hit, name).unwrap()).collect()
        };
        let first = |name: &str| -> Vec<Option<Value>> {
            values(name).into_iter().map(|values| values.into_iter().next()).collect()
        };
        let mut seen = Vec::new();
        reader.field("f").unwrap().each_f64(&hits, |v| seen.push(v.map(Value::F64))).unwrap();
        assert_eq!(std::mem::take(&mut seen), first("f"));
        reader.field("b").unwrap().each_bool(&hits, |v| seen.push(v.map(Value::Bool))).unwrap();
        assert_eq!(std::mem::take(&mut seen), first("b"));
        reader.field("s").unwrap().each_str(&hits, |v| seen.push(v.map(Value::from))).unwrap();
        assert_eq!(std::mem::take(&mut seen), first("s"));
        let mut lists = Vec::new();
        reader.field("m").unwrap().each_list(&hits, |v| lists.push(v.to_vec())).unwrap();
        assert_eq!(lists, values("m"));
        assert!(reader.field("s").unwrap().each_f64(&hits, |_| ()).is_err());
    }

    #[test]
    fn a_reader_of_chosen_partitions_sees_only_their_documents() {
        let schema = Schema::new([Field::new("id", Type::U64, Roles::FULL)]).unwrap();
        let parts = (0..3u64).map(|part| {
            let mut builder = PartitionBuilder::new(schema.clone());
            for id in 0..=part {
                builder.add(&Document::new().set("id", part * 10 + id)).unwrap();
            }
            builder
        });
        let reader = reader_of(parts);
        let names: Vec<String> = reader.partitions().into_iter().map(|part| part.name).collect();
        let chosen = reader.with_partitions(&[&names[2], &names[0], &names[2]]).unwrap();
        assert_eq!((chosen.len(), chosen.partitions().len(), reader.len()), (4, 2, 6));
        assert_eq!(chosen.count(&query::eq("id", 10u64)).unwrap(), 0);
        assert_eq!(chosen.count(&query::eq("id", 22u64)).unwrap(), 1);
        let none = reader.with_partitions(&[] as &[&str]).unwrap();
        assert_eq!((none.len(), none.count(&query::eq("id", 0u64)).unwrap()), (0, 0));
        let missing = reader.with_partitions(&["missing"]).err().unwrap();
        assert_eq!(missing.kind(), crate::ErrorKind::NotFound);
    }
}
