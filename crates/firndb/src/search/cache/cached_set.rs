//! A partition set with the in-memory state that its readers share.

use crate::Result;
use crate::search::cache::bundles::Bundles;
use crate::search::model::schema::Schema;
use crate::search::partition::Partition;
use crate::search::partition::set::PartitionSet;
use crate::search::stats::SearchSet;
use std::ops::Deref;
use std::sync::Arc;

/// A partition set, its statistics, and its bundles.
pub(crate) struct CachedSet {
    set: SearchSet,
    pub(crate) bundles: Bundles,
}

impl Deref for CachedSet {
    type Target = SearchSet;

    fn deref(&self) -> &SearchSet {
        &self.set
    }
}

impl CachedSet {
    /// Creates a set of named partitions, sorted by name.
    pub(crate) fn new(named: Vec<(String, Arc<Partition>)>) -> Result<CachedSet> {
        let set = SearchSet::new(PartitionSet::new(named)?);
        let bundles = Bundles::new(&set.partitions);
        Ok(CachedSet { set, bundles })
    }

    /// An empty set with the fields of this schema.
    pub(crate) fn empty(schema: Arc<Schema>) -> CachedSet {
        CachedSet { set: SearchSet::new(PartitionSet::empty(schema)), bundles: Bundles::new(&[]) }
    }

    /// The set of these partitions, which succeeds this one. Reuses the statistics
    /// and bundles of partitions that both sets have. `names` must ascend.
    pub(crate) fn next(
        &self,
        names: &[&str],
        partitions: Vec<Arc<Partition>>,
    ) -> Result<CachedSet> {
        let set = self.set.next(names, partitions)?;
        let bundles = match set.schema.fields == self.schema.fields {
            true => self.bundles.inherit(&self.set, &set),
            false => Bundles::new(&set.partitions),
        };
        Ok(CachedSet { set, bundles })
    }
}
