//! Memory that a query works in: the clauses of the partition that it visits, scratch memory, and
//! counts of what it touched.

use crate::search::exec::clause::{Clause, Form};
use crate::search::exec::scratch::Scratch;
use crate::search::partition::Partition;
use crate::search::partition::set::QueryLimits;

/// What a query touched, for `explain`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stats {
    pub(crate) partitions: u64,
    pub(crate) pruned: u64,
    pub(crate) by_list: u64,
    pub(crate) by_words: u64,
    pub(crate) by_count: u64,
    pub(crate) walks: u64,
    /// Small partitions: all conditions in one bitset.
    pub(crate) small: u64,
    /// Ranges of both fields of a point became a window.
    pub(crate) windows: u64,
    /// Entries of lists that were put into bitsets.
    pub(crate) postings: u64,
    pub(crate) docs: u64,
    pub(crate) words: u64,
    /// Partitions that were asked as bundles, and the number of these.
    pub(crate) bundled: (u64, u64),
    /// Threads that worked on it at the same time; 0 if it was one.
    pub(crate) threads: u64,
}

impl Stats {
    /// Adds what another thread touched.
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

/// The memory of one query, used for one partition after another.
pub(crate) struct Workspace<'r> {
    pub(crate) limits: &'r QueryLimits,
    pub(crate) scratch: Box<Scratch>,
    pub(crate) stats: Stats,
    pub(crate) clauses: Vec<Clause>,
}

impl<'r> Workspace<'r> {
    pub(crate) fn new(limits: &'r QueryLimits, scratch: Box<Scratch>) -> Workspace<'r> {
        Workspace { limits, scratch, stats: Stats::default(), clauses: Vec::new() }
    }

    /// Forgets the clauses of a partition.
    pub(crate) fn reset(&mut self) {
        self.clauses.clear();
        self.scratch.intervals.clear();
        self.scratch.bits_used = 0;
    }

    /// The number of matches of partition `p` if no document must be looked at for it.
    pub(crate) fn count_bound(&self, part: &Partition) -> Option<u64> {
        match self.clauses.as_slice() {
            [] => Some(u64::from(part.documents)),
            [clause] if self.is_exact(clause) => Some(clause.at_most(part.documents)),
            _ => None,
        }
    }

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

    /// The documents that clauses over ranges of documents leave.
    pub(crate) fn left(&self, part: &Partition, base: usize) -> (u32, u32) {
        let narrow = |docs, clause: &Clause| clause.narrowed(docs, part.documents).unwrap_or(docs);
        let (start, end) = self.clauses[base..].iter().fold((0, part.documents), narrow);
        (start.min(end), end)
    }
}
