//! Merging small partitions that rest, under a policy.
//!
//! A run of neighbours becomes one partition in their place, whose documents stand in the order in
//! which they stood: every answer is as before, ties included, and readers go on undisturbed as
//! beside any other change. Each run is a change of its own, so other changes wait for one merge
//! at most, and after a crash some runs are merged and the others are not.
//!
//! 1. `MergePolicy::plan` chooses runs: partitions that are small, rest, and can be joined.
//! 2. `Collection::merge_run` checks under the lock that they are still what they were, and merges.

use crate::search::collection::{Change, Collection};
use crate::search::format::MAX_DOCUMENTS;
use crate::search::format::manifest::Member;
use crate::search::model::value::Key;
use crate::search::partition::Partition;
use crate::{Error, ErrorKind, Result};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

/// Which partitions [`Collection::compact`] merges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergePolicy {
    /// Partitions with fewer documents are small; others are left alone. Default: 65,536.
    pub small: u32,
    /// Documents of a merged partition at most. Default: 1,048,576.
    pub most_documents: u32,
    /// Bytes of the files that become one, at most. Default: 1 GiB.
    pub most_bytes: u64,
    /// So many neighbours are worth a merge. Default: 4; less than 2 counts as 2.
    pub at_least: usize,
    /// How long ago the file of a partition must have been written: what changes soon again should
    /// stay small. Default: one hour.
    pub unchanged_for: Duration,
}

impl Default for MergePolicy {
    fn default() -> MergePolicy {
        MergePolicy {
            small: 1 << 16,
            most_documents: 1 << 20,
            most_bytes: 1 << 30,
            at_least: 4,
            unchanged_for: Duration::from_secs(3600),
        }
    }
}

/// Partitions that became one, or would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// The names that are gone, in their order.
    pub from: Vec<String>,
    /// The name of the partition in their place: that of the first and that of the last with
    /// `.to.` between them, or that of the last if this would be too long or stand elsewhere.
    pub into: String,
    /// Its documents.
    pub documents: u64,
}

/// What a policy looks at.
#[derive(Clone, Copy)]
struct Candidate {
    documents: u64,
    bytes: u64,
    /// It is small and rests.
    fits: bool,
    /// It can be joined with the one before it.
    follows: bool,
}

impl MergePolicy {
    /// Runs to be merged. None has a partition with more documents than the others of its run
    /// together: so a document is merged a few times at most on its way into a large partition.
    fn plan(&self, all: &[Candidate]) -> Vec<Range<usize>> {
        let most = u64::from(self.most_documents.min(MAX_DOCUMENTS));
        let (mut runs, mut start) = (Vec::new(), 0);
        while start < all.len() {
            let (mut documents, mut bytes, mut largest, mut end) = (0, 0, 0, None);
            for (i, one) in all.iter().enumerate().skip(start) {
                documents += one.documents;
                bytes += one.bytes;
                largest = largest.max(one.documents);
                let fits = one.fits && (i == start || one.follows);
                if !fits || documents > most || bytes > self.most_bytes {
                    break;
                }
                if i + 1 - start >= self.at_least.max(2) && largest * 2 <= documents {
                    end = Some(i + 1);
                }
            }
            runs.extend(end.map(|end| start..end));
            start = end.unwrap_or(start + 1);
        }
        runs
    }
}

/// A run of partitions of a set.
pub(crate) struct Run {
    pub(crate) merge: Merge,
    parts: Vec<Arc<Partition>>,
}

impl Collection {
    /// Merges runs of neighbouring partitions of the newest set as a policy says, and calls `tell`
    /// after each. Nothing does this unless somebody calls it. A run that cannot be merged stays as
    /// it is; the others are, and the first error is returned. It needs memory in proportion to the
    /// documents of a merged partition, about 4 bytes a value and the distinct keys of a field.
    ///
    /// Answers stay as they are, order included: where the schema orders documents, only neighbours
    /// are merged whose documents stand in that order already. Names do not stay, but they stay
    /// taken: [`Change::put`] refuses one whose documents were merged. So partitions that a program
    /// is going to replace or remove should not rest for as long as the policy asks. A
    /// [`Cursor`](crate::search::Cursor) names a partition, so pages should be asked of one reader.
    pub fn compact(&self, policy: &MergePolicy, mut tell: impl FnMut(&Merge)) -> Result<()> {
        let mut outcome = Ok(());
        for run in self.runs(policy)? {
            match self.merge_run(&run) {
                Ok(true) => tell(&run.merge),
                Ok(false) => {}
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        outcome
    }

    /// What [`Collection::compact`] would do now.
    pub fn compact_plan(&self, policy: &MergePolicy) -> Result<Vec<Merge>> {
        Ok(self.runs(policy)?.into_iter().map(|run| run.merge).collect())
    }

    /// Starts a thread that calls [`Collection::compact`], and waits for `every`, again and again
    /// until what is returned is dropped. `tell` hears of each merge and of each failure (`Locked`
    /// while another process changes the collection); the next time comes all the same. Panics if
    /// the system has no thread to give.
    pub fn compact_every(
        self: &Arc<Self>,
        policy: MergePolicy,
        every: Duration,
        mut tell: impl FnMut(std::result::Result<&Merge, &Error>) + Send + 'static,
    ) -> Compaction {
        let (stop, stopped) = mpsc::channel();
        let collection = self.clone();
        let thread = thread::spawn(move || {
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                if let Err(error) = collection.compact(&policy, |merge| tell(Ok(merge))) {
                    tell(Err(&error));
                }
            }
        });
        Compaction { stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn runs(&self, policy: &MergePolicy) -> Result<Vec<Run>> {
        self.refresh()?;
        let place = self.place();
        let (set, groups) = (&place.set.reader.set, groups(&place.set.members));
        let now = SystemTime::now();
        let mut all: Vec<Candidate> = Vec::with_capacity(set.partitions.len());
        // The last partition before that has documents.
        let mut last: Option<&Partition> = None;
        for (p, part) in set.partitions.iter().enumerate() {
            let (documents, bytes) = (part.documents.into(), part.file.len());
            let fits = part.documents < policy.small
                && match self.written(part) {
                    // A clock that was set back makes a file look young.
                    Ok(time) => {
                        now.duration_since(time).unwrap_or_default() >= policy.unchanged_for
                    }
                    // Another process has replaced it meanwhile.
                    Err(e) if e.kind() == ErrorKind::NotFound => false,
                    Err(e) => return Err(e),
                };
            let follows = match p.checked_sub(1).map(|before| (&set.partitions[before], last)) {
                Some((before, last)) if fits && all[p - 1].fits && groups[p] == groups[p - 1] => {
                    alike(before, part) && last.map_or(Ok(true), |last| in_order(last, part))?
                }
                _ => false,
            };
            all.push(Candidate { documents, bytes, fits, follows });
            last = if part.documents > 0 { Some(part) } else { last };
        }
        let runs = policy.plan(&all).into_iter().map(|range| Run {
            merge: Merge {
                from: set.names[range.clone()].to_vec(),
                into: match groups[range.start] {
                    Some(_) => set.names[range.start].clone(),
                    None => name_of(&set.names[range.clone()], set.names.get(range.end)),
                },
                documents: all[range.clone()].iter().map(|one| one.documents).sum(),
            },
            parts: set.partitions[range].to_vec(),
        });
        Ok(runs.collect())
    }

    /// Merges a run, unless another change was faster.
    pub(crate) fn merge_run(&self, run: &Run) -> Result<bool> {
        let mut change = self.change()?;
        let names: Vec<&str> = run.merge.from.iter().map(String::as_str).collect();
        if !is_there(&mut change, run, &names)? {
            return Ok(false);
        }
        change.merge_alone(&run.merge.from, &run.merge.into)?;
        change.commit()?;
        Ok(true)
    }
}

/// For each partition the name that it continues, or that others continue. Such partitions are
/// merged with their like only: afterwards they can still be replaced.
fn groups(members: &[Arc<Member>]) -> Vec<Option<&str>> {
    let of = members.iter().map(|m| &*m.relation.of);
    let bases: HashSet<&str> = of.filter(|of| !of.is_empty()).collect();
    let group = |m: &Arc<Member>| {
        let name = if m.relation.of.is_empty() { &*m.name } else { &*m.relation.of };
        bases.get(name).copied()
    };
    members.iter().map(group).collect()
}

/// Whether the partitions of a run are what they were, and the new one would take their place.
fn is_there(change: &mut Change, run: &Run, names: &[&str]) -> Result<bool> {
    let all = change.names();
    let Some(start) = all.iter().position(|name| *name == names[0]) else { return Ok(false) };
    let same = all.get(start..start + names.len()) == Some(names);
    let before_next = all.get(start + names.len()).is_none_or(|next| *run.merge.into < **next);
    if !same || !before_next {
        return Ok(false);
    }
    for (name, part) in names.iter().zip(&run.parts) {
        if !Arc::ptr_eq(&change.open(name)?, part) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A name that stands at the place of these names, the next of which is `next`.
fn name_of(names: &[String], next: Option<&String>) -> String {
    const TO: &str = ".to.";
    let (first, last) = (&names[0], &names[names.len() - 1]);
    let from = first.split_once(TO).map_or(&**first, |(from, _)| from);
    let to = last.rsplit_once(TO).map_or(&**last, |(_, to)| to);
    let name = format!("{from}{TO}{to}");
    let in_place = name >= *first && next.is_none_or(|next| name < *next);
    if in_place && name.len() <= crate::search::collection::MAX_NAME { name } else { last.clone() }
}

/// Whether two partitions can be joined.
fn alike(a: &Partition, b: &Partition) -> bool {
    let (a, b) = (&*a.schema, &*b.schema);
    let fields = || match a.dynamic.is_some() {
        // Those that both have.
        true => b.fields.iter().all(|f| a.field(&f.name).is_none_or(|(_, known)| known.is_like(f))),
        false => {
            a.fields.len() == b.fields.len()
                && a.fields.iter().zip(&b.fields).all(|(a, b)| a.is_like(b))
        }
    };
    let points = || a.clone().adopt_points(b).is_ok();
    a.order == b.order && a.payload == b.payload && a.dynamic == b.dynamic && fields() && points()
}

/// Whether the documents of `b` may stand behind those of `a` in the order of their schema.
fn in_order(a: &Partition, b: &Partition) -> Result<bool> {
    if b.documents == 0 {
        return Ok(true);
    }
    for by in &a.schema.order {
        let keys = (key(a, &by.field, a.documents - 1)?, key(b, &by.field, 0)?);
        let order = match &keys {
            (Some(a), Some(b)) if by.descending => b.cmp(a),
            (Some(a), Some(b)) => a.cmp(b),
            // Those without a value come last.
            (a, b) => a.is_none().cmp(&b.is_none()),
        };
        if order != Ordering::Equal {
            return Ok(order == Ordering::Less);
        }
    }
    Ok(true)
}

/// The key of a document in a single-valued field.
fn key(part: &Partition, field: &str, doc: u32) -> Result<Option<Key>> {
    let Some((field, _)) = part.schema.field(field) else { return Ok(None) };
    let (dictionary, ord) = (part.dictionary(field)?, part.column_or_derived(field)?.get(doc));
    Ok((ord < part.meta(field).distinct).then(|| dictionary.key(ord)))
}

/// A thread that merges partitions until this is dropped, which waits for a merge under way.
pub struct Compaction {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Compaction {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // A panic of `tell` was reported where it happened.
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(policy: &MergePolicy, documents: &[u64]) -> Vec<(usize, usize)> {
        let one = |&documents: &u64| Candidate {
            documents,
            bytes: documents * 10,
            fits: documents < u64::from(policy.small),
            follows: true,
        };
        let runs = policy.plan(&documents.iter().map(one).collect::<Vec<_>>());
        runs.into_iter().map(|run| (run.start, run.end)).collect()
    }

    #[test]
    fn runs_are_of_small_neighbours_none_of_which_outweighs_the_others() {
        let policy =
            MergePolicy { small: 100, most_documents: 200, at_least: 3, ..MergePolicy::default() };
        assert_eq!(plan(&policy, &[]), []);
        assert_eq!(plan(&policy, &[1, 1]), []);
        assert_eq!(plan(&policy, &[1, 1, 1]), [(0, 3)]);
        assert_eq!(plan(&policy, &[1, 1, 500, 1, 1, 1]), [(3, 6)]);
        assert_eq!(plan(&policy, &[90, 1, 1, 1, 1]), [(1, 5)], "90 outweighs what is beside it");
        assert_eq!(plan(&policy, &[1, 1, 1, 90, 1]), [(0, 3)]);
        assert_eq!(plan(&policy, &[30, 30, 30, 90, 1, 1, 1, 1]), [(0, 8)]);
        assert_eq!(plan(&policy, &[90, 90, 90, 90, 90, 90]), [], "two are not enough");
        assert_eq!(plan(&policy, &[60, 60, 60, 60, 60, 60]), [(0, 3), (3, 6)]);
        assert_eq!(plan(&policy, &[0, 0, 0, 0]), [(0, 4)]);
        let few_bytes = MergePolicy { most_bytes: 30, ..policy };
        assert_eq!(plan(&few_bytes, &[1, 1, 1, 1, 1]), [(0, 3)]);
    }

    #[test]
    fn a_document_is_merged_a_few_times_only() {
        let policy = MergePolicy { small: 4096, at_least: 4, ..MergePolicy::default() };
        let (mut sizes, mut written) = (Vec::new(), 0);
        for _ in 0..4096 {
            sizes.extend([1]);
            for (start, end) in plan(&policy, &sizes).into_iter().rev() {
                let sum: u64 = sizes[start..end].iter().sum();
                written += sum;
                sizes.splice(start..end, [sum]);
            }
        }
        assert!(written <= 4096 * 12 && sizes.len() < 32, "{written} written, {sizes:?}");
    }

    #[test]
    fn names_stand_in_the_place_of_theirs() {
        let name = |names: &[&str], next: Option<&str>| {
            let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
            name_of(&names, next.map(str::to_string).as_ref())
        };
        assert_eq!(name(&["2013-01", "2013-02"], None), "2013-01.to.2013-02");
        assert_eq!(name(&["2013-01.to.2013-02", "2013-03"], Some("2014")), "2013-01.to.2013-03");
        assert_eq!(name(&["a.to.b", "c.to.d"], Some("e")), "a.to.d");
        assert_eq!(name(&["a", "a.b"], Some("a.c")), "a.b", "`a.to.a.b` would stand behind `a.c`");
        let long = "x".repeat(60);
        assert_eq!(name(&[&format!("a{long}"), &format!("b{long}")], None), format!("b{long}"));
    }
}
