//! A set as queries see it: bundles in the places of the partitions they are made of.
//!
//! Here a bundle is merged, and places in a view become places in the set below, and back.

use crate::Result;
use crate::disk::envelope::{Envelope, EnvelopeWriter, Kind};
use crate::disk::{Append, Map};
use crate::search::build::builder::empty_keys;
use crate::search::build::join::{Pieces, join_field};
use crate::search::build::partition_writer::{
    FieldData, Site, document_order, reorder, write_field, write_keys, write_points,
};
use crate::search::codec::payload;
use crate::search::codec::points::choice::Medium;
use crate::search::collect::request::DocAddress;
use crate::search::format::{FieldMeta, encode_meta, global, section};
use crate::search::model::query::{Cursor, OrderBy};
use crate::search::model::schema::{Payload, Schema};
use crate::search::partition::Partition;
use crate::search::partition::set::PartitionSet;
use crate::search::stats::{BaseStatistics, SearchSet, Statistics};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// What a query pays for a partition beyond the first of what could be a bundle, nanoseconds.
const MISS_CREDIT: u64 = 1000;

pub(crate) fn miss_credit(cut: &Range<usize>) -> u64 {
    (cut.len() as u64 - 1) * MISS_CREDIT
}

/// A set as queries see it: bundles in the places of their partitions.
pub(crate) struct BundleView {
    pub(crate) set: SearchSet,
    /// For each field of the schema whether all bundles have it.
    pub(crate) fields: Vec<bool>,
    /// For each partition of `set`.
    pub(crate) lanes: Vec<ViewPartition>,
    /// What queries pay because of cuts that are no bundles.
    pub(crate) miss_credit: u64,
}

/// A partition of a view: a bundle, or a partition of the set below.
pub(crate) struct ViewPartition {
    /// The number of the partition below, or of the first of several.
    first: usize,
    pub(crate) bundle: Option<Arc<Bundle>>,
}

/// Partitions merged in memory.
pub(crate) struct Bundle {
    pub(crate) members: Vec<Arc<Partition>>,
    /// Member i has the documents `starts[i]..starts[i + 1]`.
    starts: Vec<u32>,
    pub(crate) part: Arc<Partition>,
    pub(crate) fields: Vec<bool>,
}

/// The order in which documents of a bundle with these fields stand: that of the set's schema, if
/// they tell it; else they stay in the order of partitions and documents.
pub(crate) fn order_within(schema: &Schema, fields: &[bool]) -> Vec<OrderBy> {
    let told = |key: &OrderBy| schema.field(&key.field).is_some_and(|(i, f)| fields[i] && !f.multi);
    if schema.order.iter().all(told) { schema.order.clone() } else { Vec::new() }
}

impl BundleView {
    pub(crate) fn new(
        set: &SearchSet,
        fields: Vec<bool>,
        cuts: &[Range<usize>],
        made: Vec<Option<Arc<Bundle>>>,
    ) -> BundleView {
        let mut lanes = Vec::new();
        let loose = |lanes: &mut Vec<ViewPartition>, range: Range<usize>| {
            lanes.extend(range.map(|first| ViewPartition { first, bundle: None }));
        };
        let (mut at, mut unpaid) = (0, 0);
        for (cut, bundle) in cuts.iter().zip(made) {
            if bundle.is_none() {
                unpaid += miss_credit(cut);
                continue;
            }
            loose(&mut lanes, at..cut.start);
            lanes.push(ViewPartition { first: cut.start, bundle });
            at = cut.end;
        }
        loose(&mut lanes, at..set.partitions.len());
        let partitions = lanes.iter().map(|lane| match &lane.bundle {
            Some(bundle) => (lane.first, Some(bundle.part.clone())),
            None => (lane.first, None),
        });
        let mut view = set.with(partitions.collect());
        // Of few bundles and nothing else a statistics is made in no time.
        let bundled = lanes.iter().filter(|lane| lane.bundle.is_some()).count();
        if lanes.len() > 2 * bundled {
            let ends = lanes.iter().skip(1).map(|lane| lane.first).chain([set.partitions.len()]);
            let below = BaseStatistics {
                statistics: set.statistics.clone(),
                lanes: lanes.iter().map(|lane| lane.first).zip(ends).map(|(a, b)| a..b).collect(),
            };
            let own = Statistics::new(set.schema.fields.len(), lanes.len());
            view.statistics = Arc::new(own.above(below));
        }
        BundleView { set: view, fields, lanes, miss_credit: unpaid }
    }

    pub(crate) fn has(&self, mut fields: impl Iterator<Item = usize>) -> bool {
        fields.all(|field| self.fields[field])
    }

    /// The lane that holds a partition of the set below.
    fn lane_of(&self, p: usize) -> usize {
        self.lanes.partition_point(|lane| lane.first <= p) - 1
    }

    pub(crate) fn bundle(&self, cut: &Range<usize>) -> Option<&Arc<Bundle>> {
        self.lanes[self.lane_of(cut.start)].bundle.as_ref()
    }

    /// The bundles, and the numbers of their partitions in the set below.
    pub(crate) fn bundles(&self) -> impl Iterator<Item = (Range<usize>, &Arc<Bundle>)> {
        self.lanes.iter().filter_map(|lane| {
            let bundle = lane.bundle.as_ref()?;
            Some((lane.first..lane.first + bundle.members.len(), bundle))
        })
    }

    /// How many of the partitions below are in bundles, and in how many.
    pub(crate) fn bundled(&self) -> (u64, u64) {
        let members = self.lanes.iter().filter_map(|lane| lane.bundle.as_ref());
        members.fold((0, 0), |(all, n), bundle| (all + bundle.members.len() as u64, n + 1))
    }

    /// Where a document is in the set below.
    pub(crate) fn place(&self, (lane, doc): DocAddress) -> DocAddress {
        let ViewPartition { first, bundle } = &self.lanes[lane as usize];
        let Some(bundle) = bundle else { return (*first as u32, doc) };
        let i = bundle.starts.partition_point(|&start| start <= doc) - 1;
        ((first + i) as u32, doc - bundle.starts[i])
    }

    /// A cursor of the set below, in terms of this one.
    pub(crate) fn cursor(&self, below: &PartitionSet, cursor: &Cursor) -> Cursor {
        let at = |partition: String, doc| Cursor { keys: cursor.keys.clone(), partition, doc };
        // Everything in partitions before p and `seen` documents of p is behind the cursor.
        let (p, seen) = match below.names.binary_search(&cursor.partition) {
            Ok(p) => (p, cursor.doc.saturating_add(1).min(below.partitions[p].documents)),
            Err(0) => return cursor.clone(),
            Err(next) => (next - 1, below.partitions[next - 1].documents),
        };
        let number = self.lane_of(p);
        let lane = &self.lanes[number];
        let before = lane.bundle.as_ref().map_or(0, |bundle| bundle.starts[p - lane.first]);
        match (before + seen, number) {
            (0, 0) => at(String::new(), 0),
            (0, _) => at(self.set.names[number - 1].clone(), u32::MAX),
            (seen, _) => at(self.set.names[number].clone(), seen - 1),
        }
    }
}

impl Bundle {
    /// Merges the wanted fields of some partitions. `before` is a bundle of most of them: what it
    /// has of them is taken from there.
    pub(crate) fn new(
        set: &PartitionSet,
        cut: Range<usize>,
        wanted: &[bool],
        before: Option<&Bundle>,
    ) -> Result<Bundle> {
        let members = set.partitions[cut].to_vec();
        let starts = starts(&members);
        let documents = *starts.last().unwrap_or(&0);
        let order = order_within(&set.schema, wanted);
        let schema = Schema { order, payload: Payload::Raw, ..(*set.schema).clone() };
        let (whole, pieces) = (Pieces::whole(&members), before.map(|old| old.pieces(&members)));
        let join = |i: usize| {
            let has = |before: &&Bundle| before.fields[i];
            let pieces = pieces.as_ref().filter(|_| before.as_ref().is_some_and(has));
            join_field(&schema.fields[i], pieces.unwrap_or(&whole))
        };
        let like = |old: &Schema| old.order == schema.order && old.points == schema.points;
        let same = before.filter(|old| old.is_of(&members) && like(&old.part.schema));
        let mut joined: Vec<Option<FieldData>> = schema.fields.iter().map(|_| None).collect();
        let origins: Option<Arc<[u32]>> = match same {
            Some(before) => before.part.origins.clone(),
            None => {
                for (i, _) in schema.order.iter().filter_map(|key| schema.field(&key.field)) {
                    joined[i] = Some(join(i)?);
                }
                let ordinals = |i: usize| joined[i].as_ref().map(|data| &data.ordinals);
                let origins = document_order(&schema, documents, ordinals)?;
                // Documents that did not move are numbered as before.
                origins.filter(|origins| !origins.is_sorted()).map(Arc::from)
            }
        };
        let mut out = Memory(Vec::with_capacity(before.map_or(0, Bundle::size)));
        let mut w = EnvelopeWriter::new(&mut out, Kind::Partition)?;
        payload::write(&mut w, Payload::Raw, documents, &mut |_, _| Ok(()))?;
        let mut ready = |i: usize| -> Result<FieldData> {
            let mut data = joined[i].take().map_or_else(|| join(i), Ok)?;
            if let Some(origins) = &origins {
                data.ordinals = reorder(&data.ordinals, origins);
            }
            Ok(data)
        };
        // Both fields of a point at the same time; if one is copied, it has none.
        let fresh = |i: &usize| wanted[*i] && !same.is_some_and(|same| same.fields[*i]);
        let mut paired: Vec<Option<FieldData>> = schema.fields.iter().map(|_| None).collect();
        for &i in schema.points.iter().filter(|pair| pair.iter().all(fresh)).flatten() {
            paired[i] = Some(ready(i)?);
        }
        let points = write_points(&mut w, &schema, (documents, IN_MEMORY), |i| paired[i].as_ref())?;
        // Of fields that nobody asks for there is nothing; but an empty dictionary is one.
        let site = |in_points| Site { documents, medium: IN_MEMORY, in_points };
        let mut metas = Vec::with_capacity(wanted.len());
        for (i, field) in schema.fields.iter().enumerate() {
            metas.push(match same.filter(|same| same.fields[i]) {
                Some(same) => copy_field(&mut w, &same.part, i)?,
                None if wanted[i] => {
                    let data = paired[i].take().map_or_else(|| ready(i), Ok)?;
                    write_field(&mut w, i, field, data, site(points.get(&i).copied()))?
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

    /// Memory that it takes, bytes.
    pub(crate) fn memory(&self) -> u64 {
        let origins = self.part.origins.as_ref().map_or(0, |origins| origins.len() as u64 * 4);
        self.part.file.len() + origins
    }

    /// Bytes of the file in it.
    fn size(&self) -> usize {
        self.part.file.len() as usize
    }

    /// Whether these are its partitions.
    pub(crate) fn is_of(&self, parts: &[Arc<Partition>]) -> bool {
        let pairs = || parts.iter().zip(&self.members);
        parts.len() == self.members.len() && pairs().all(|(a, b)| Arc::ptr_eq(a, b))
    }

    /// For each of these partitions its number in the bundle, as far as the order is the same.
    pub(crate) fn members_of(
        &self,
        parts: &[Arc<Partition>],
    ) -> impl Iterator<Item = Option<usize>> {
        parts.iter().scan(0, |next, part| {
            let rest = &self.members[*next..];
            let found = rest.iter().position(|member| Arc::ptr_eq(member, part));
            Some(found.map(|further| {
                *next += further + 1;
                *next - 1
            }))
        })
    }

    /// Partitions in terms of this bundle, as far as it has them.
    fn pieces<'p>(&'p self, parts: &'p [Arc<Partition>]) -> Pieces<'p> {
        let mut pieces = Pieces::new();
        let bundle = pieces.source(&self.part);
        for (part, member) in parts.iter().zip(self.members_of(parts)) {
            let (source, docs) = match member {
                Some(i) => (bundle, self.starts[i]..self.starts[i + 1]),
                None => (pieces.source(part), 0..part.documents),
            };
            pieces.push(source, docs);
        }
        pieces
    }
}

/// The numbers of the first documents of partitions that stand one after the other, and the end.
fn starts(parts: &[Arc<Partition>]) -> Vec<u32> {
    let ends = parts.iter().scan(0, |end, part| {
        *end += part.documents;
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

/// The partition in a file in memory, checked.
fn in_memory(bytes: Memory, like: Option<&Partition>) -> Result<Partition> {
    let path = Path::new("(partitions merged in memory)");
    let file = Envelope::open(Map::from_vec(bytes.0), path, Kind::Partition)?;
    let part = Partition::parse(file, like)?;
    part.ready()?;
    Ok(part)
}

fn copy_field(w: &mut EnvelopeWriter, part: &Partition, field: usize) -> Result<FieldMeta> {
    for i in 0..part.file.entries() {
        let id = part.file.entry(i).id;
        if (section(field, 0)..section(field, 16)).contains(&id) {
            w.section(id, part.file.section(i)?)?;
        }
    }
    Ok(*part.meta(field))
}

/// Where bundles are.
const IN_MEMORY: Medium = Medium::Memory;

/// A file in memory.
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
