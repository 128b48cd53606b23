//! What a query knows before it visits partitions.

use crate::Result;
use crate::search::model::value::Key;
use crate::search::partition::set::QueryLimits;
use crate::search::plan::{Node, Plan, Test};
use crate::search::stats::{LeafStatistics, SearchSet};
use std::ops::Bound as Edge;

/// Partitions between asking for memory and using it.
pub(crate) const AHEAD: usize = 4;

/// The set, the plan and the limits of a query, and what the statistics know of its conditions.
pub(crate) struct QueryContext<'r> {
    pub(crate) set: &'r SearchSet,
    pub(crate) plan: &'r Plan,
    pub(crate) limits: &'r QueryLimits,
    /// For each leaf what the statistics know of it.
    pub(crate) known: Vec<Option<LeafStatistics>>,
    /// For each leaf that is a range of fixed-width keys: the smallest and the largest.
    pub(crate) ranges: Vec<Option<(u64, u64)>>,
    /// The parts of a root `and`, the rarest first as far as the statistics know.
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

    /// What to apply first: conditions whose ordinals are known, by how many there are; then the
    /// others.
    pub(crate) fn rarity(&self, node: &Node) -> u64 {
        match node {
            Node::Leaf(leaf, false) => {
                let known = self.known[*leaf].as_ref().and_then(|known| known.total);
                known.unwrap_or(u64::MAX / 2)
            }
            _ => u64::MAX,
        }
    }

    /// Documents that satisfy the rarest condition that all matches must satisfy, as far as the
    /// statistics knows; else a number beyond all documents.
    pub(crate) fn rarest(&self) -> Option<u64> {
        match &self.plan.root {
            Node::And(parts) => self.order.first().map(|&i| self.rarity(&parts[i])),
            root => Some(self.rarity(root)),
        }
    }

    /// Whether a condition of the root leaves less than a few documents a partition on average.
    pub(crate) fn is_rare(&self) -> bool {
        self.rarest().is_some_and(|total| total < 16 * self.set.partitions.len() as u64)
    }

    /// Whether the statistics rules a partition out.
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

    /// Brings what the conditions touch first in a small partition into the cache: called some
    /// partitions ahead, so that the misses of several partitions overlap.
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

/// A range of fixed-width keys by its ends, which belong to it.
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
