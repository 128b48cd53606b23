//! The memory of a running query: clauses of the current partition, scratch memory, and counters.

use crate::search::exec::clause::Clause;
use crate::search::exec::scratch::Scratch;
use crate::search::exec::source::Form;
use crate::search::partition::Partition;
use crate::search::partition::set::QueryLimits;

/// What a query touched, for `explain`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stats {
    /// Partitions that were visited.
    pub(crate) partitions: u64,
    /// Partitions that the statistics ruled out.
    pub(crate) pruned: u64,
    /// Conjunctions that iterated over one clause and checked the others.
    pub(crate) by_list: u64,
    /// Conjunctions that combined bitsets.
    pub(crate) by_words: u64,
    /// Partitions whose count followed from stored counts.
    pub(crate) by_count: u64,
    /// Partitions that were searched by a walk through the first key of the order.
    pub(crate) walks: u64,
    /// Small partitions, which combine all conditions in one bitset.
    pub(crate) small: u64,
    /// Times that ranges on both fields of a point became one window.
    pub(crate) windows: u64,
    /// List entries that were decoded into bitsets.
    pub(crate) postings: u64,
    /// Documents that were checked one by one.
    pub(crate) docs: u64,
    /// Words of bitsets that were combined.
    pub(crate) words: u64,
    /// Partitions that were searched in bundles, and the number of bundles.
    pub(crate) bundled: (u64, u64),
    /// Threads that ran at the same time; 0 for a query on one thread.
    pub(crate) threads: u64,
}

impl Stats {
    /// Adds the counters of another thread.
    pub(crate) fn add(&mut self, other: &Stats) {
        self.partitions += other.partitions;
        self.pruned += other.pruned;
        self.by_list += other.by_list;
        self.windows += other.windows;
        self.by_words += other.by_words;
        self.by_count += other.by_count;
        self.walks += other.walks;
        self.small += other.small;
        self.postings += other.postings;
        self.docs += other.docs;
        self.words += other.words;
    }
}

/// The memory of one query, reused from partition to partition.
pub(crate) struct Workspace<'r> {
    pub(crate) limits: &'r QueryLimits,
    pub(crate) scratch: Box<Scratch>,
    pub(crate) stats: Stats,
    pub(crate) clauses: Vec<Clause<'r>>,
}

impl<'r> Workspace<'r> {
    pub(crate) fn new(limits: &'r QueryLimits, scratch: Box<Scratch>) -> Workspace<'r> {
        Workspace { limits, scratch, stats: Stats::default(), clauses: Vec::new() }
    }

    /// Drops the clauses of the current partition.
    pub(crate) fn reset(&mut self) {
        self.clauses.clear();
        self.scratch.intervals.clear();
        self.scratch.bits_used = 0;
    }

    /// The number of matches, if it follows from the counts of the clauses alone.
    pub(crate) fn exact_count(&self, part: &Partition) -> Option<u64> {
        match self.clauses.as_slice() {
            [] => Some(u64::from(part.documents)),
            [clause] if self.is_exact(clause) => Some(clause.at_most(part.documents)),
            _ => None,
        }
    }

    /// Whether the count of a clause is exact.
    pub(crate) fn is_exact(&self, clause: &Clause) -> bool {
        match clause.form {
            Form::Ordinals { first, last, multi, .. } => {
                let one_key = last == first + 1 && {
                    let (start, end) = self.scratch.intervals[first];
                    end == start + 1
                };
                !multi || one_key
            }
            Form::Documents(..) | Form::Window { .. } | Form::Bits(_) => true,
        }
    }

    /// The documents that satisfy all clauses over ranges of documents.
    pub(crate) fn doc_range(&self, part: &Partition, base: usize) -> (u32, u32) {
        let narrow = |docs, clause: &Clause| clause.narrowed(docs, part.documents).unwrap_or(docs);
        let (start, end) = self.clauses[base..].iter().fold((0, part.documents), narrow);
        (start.min(end), end)
    }
}
