//! What a query knows before it visits partitions: its plan, its limits, and the statistics.

use crate::Result;
use crate::search::model::value::Key;
use crate::search::partition::set::QueryLimits;
use crate::search::plan::{Node, Plan, Test};
use crate::search::stats::{LeafStatistics, SearchSet};
use std::ops::Bound as Edge;

/// How many partitions ahead memory is prefetched.
pub(crate) const AHEAD: usize = 4;

/// The partitions, plan and limits of a query, and statistics of its conditions.
pub(crate) struct QueryContext<'r> {
    pub(crate) set: &'r SearchSet,
    pub(crate) plan: &'r Plan,
    pub(crate) limits: &'r QueryLimits,
    /// Statistics for each leaf.
    pub(crate) known: Vec<Option<LeafStatistics>>,
    /// For each leaf that is a range of fixed-width keys: its bounds, inclusive.
    pub(crate) ranges: Vec<Option<(u64, u64)>>,
    /// The parts of a root `and`, rarest first according to the statistics.
    pub(crate) order: Vec<usize>,
}

impl<'r> QueryContext<'r> {
    pub(crate) fn new(set: &'r SearchSet, plan: &'r Plan, limits: &'r QueryLimits) -> Result<Self> {
        let mut query = QueryContext {
            set,
            plan,
            limits,
            known: Vec::new(),
            order: Vec::new(),
            ranges: Vec::with_capacity(plan.leaves.len()),
        };
        for leaf in &plan.leaves {
            query.known.push(set.statistics.known(set, leaf)?);
            let fixed = set.schema.fields[leaf.field].ty.is_fixed();
            query.ranges.push(if fixed { fixed_range(&leaf.test) } else { None });
        }
        if let Node::And(parts) = &plan.root {
            let mut order: Vec<usize> = (0..parts.len()).collect();
            order.sort_by_key(|&i| query.rarity(&parts[i]));
            query.order = order;
        }
        Ok(query)
    }

    /// Sort key for conditions: those with known counts by these, then the others.
    pub(crate) fn rarity(&self, node: &Node) -> u64 {
        match node {
            Node::Leaf(leaf, false) => {
                let known = self.known[*leaf].as_ref().and_then(|known| known.total);
                known.unwrap_or(u64::MAX / 2)
            }
            _ => u64::MAX,
        }
    }

    /// Documents of the rarest condition that all matches must satisfy, according to the
    /// statistics; a number larger than any count if they have none.
    pub(crate) fn rarest(&self) -> Option<u64> {
        match &self.plan.root {
            Node::And(parts) => self.order.first().map(|&i| self.rarity(&parts[i])),
            root => Some(self.rarity(root)),
        }
    }

    /// Whether a condition that all matches must satisfy has less than 16 documents per partition.
    pub(crate) fn is_rare(&self) -> bool {
        self.rarest().is_some_and(|total| total < 16 * self.set.partitions.len() as u64)
    }

    /// Whether the statistics rule a partition out.
    pub(crate) fn pruned(&self, p: usize) -> bool {
        let absent = |node: &Node| match node {
            Node::Leaf(leaf, false) => {
                self.known[*leaf].as_ref().is_some_and(|known| known.absent(p))
            }
            Node::Nothing => true,
            _ => false,
        };
        match &self.plan.root {
            Node::And(parts) => parts.iter().any(absent),
            Node::Or(parts) => parts.iter().all(absent),
            root => absent(root),
        }
    }

    /// Prefetches what the conditions read first in a small partition. Called [`AHEAD`] partitions
    /// ahead, so that the cache misses of several partitions overlap.
    pub(crate) fn prefetch(&self, p: usize) {
        let Some(part) = self.set.partitions.get(p) else { return };
        if !part.is_small() {
            return;
        }
        for (leaf, known) in self.plan.leaves.iter().zip(&self.known) {
            if let Some(field) = self.set.local(p, leaf.field) {
                let keys = known.as_ref().is_none_or(|known| known.ordinals(p).is_none());
                part.prefetch(field, keys);
            }
        }
    }
}

/// The inclusive bounds of a range of fixed-width keys.
fn fixed_range(test: &Test) -> Option<(u64, u64)> {
    let Test::Range(range) = test else { return None };
    let low = match range.low {
        Edge::Unbounded => 0,
        Edge::Included(Key::Fixed(key)) => key,
        _ => return None,
    };
    match range.high {
        Edge::Unbounded => Some((low, u64::MAX)),
        Edge::Included(Key::Fixed(key)) => Some((low, key)),
        _ => None,
    }
}
