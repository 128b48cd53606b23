//! Compaction: merges runs of small partitions that have not changed recently, under a policy.
//!
//! A run of adjacent partitions becomes one partition in the same position, with the documents in
//! the same order. Query results stay the same, ties included, and open readers are not affected.
//! Each run is merged by a change of its own, so other changes wait for one merge at most, and
//! after a crash some runs are merged and others are not.
//!
//! 1. `MergePolicy::plan` selects runs of partitions that are small, unchanged and can be joined.
//! 2. `Collection::merge_run` checks under the lock that the partitions of the run are unchanged,
//!    and merges them.

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
///
/// ```
/// use firndb::search::{Collection, MergePolicy};
/// use std::time::Duration;
///
/// /// Merges small partitions that have not changed for a day.
/// fn compact(collection: &Collection) -> firndb::Result<()> {
///     let day = Duration::from_secs(24 * 3600);
///     let policy = MergePolicy::default().small(10_000).unchanged_for(day);
///     collection.compact(&policy, |merge| println!("{:?} became {}", merge.from, merge.into))
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MergePolicy {
    /// Partitions with fewer documents are small. Others are never merged. Default: 65,536.
    pub small: u32,
    /// The maximum number of documents of a merged partition. Default: 1,048,576.
    pub most_documents: u32,
    /// The maximum total size, in bytes, of the files merged into one partition. Default: 1 GiB.
    pub most_bytes: u64,
    /// The minimum number of adjacent partitions to merge. Default: 4; less than 2 counts as 2.
    pub at_least: usize,
    /// The minimum age of the file of a partition: partitions that are likely to change again
    /// should stay small. Default: one hour.
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

/// Partitions that were merged into one, or would be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Merge {
    /// The names of the merged partitions, in order.
    pub from: Vec<String>,
    /// The name of the new partition: the first and the last name joined by `.to.`, or the last
    /// name if that would be too long or sort differently.
    pub into: String,
    /// The number of its documents.
    pub documents: u64,
}

/// The properties of a partition that a policy considers.
#[derive(Clone, Copy)]
struct Candidate {
    documents: u64,
    bytes: u64,
    /// Whether it is small and has not changed recently.
    is_eligible: bool,
    /// Whether it can be joined with the partition before it.
    joins_previous: bool,
}

impl MergePolicy {
    /// Sets the number of documents below which a partition is small.
    pub fn small(mut self, small: u32) -> MergePolicy {
        self.small = small;
        self
    }

    /// Sets the maximum number of documents of a merged partition.
    pub fn most_documents(mut self, most_documents: u32) -> MergePolicy {
        self.most_documents = most_documents;
        self
    }

    /// Sets the maximum total size, in bytes, of the files merged into one partition.
    pub fn most_bytes(mut self, most_bytes: u64) -> MergePolicy {
        self.most_bytes = most_bytes;
        self
    }

    /// Sets the minimum number of adjacent partitions to merge.
    pub fn at_least(mut self, at_least: usize) -> MergePolicy {
        self.at_least = at_least;
        self
    }

    /// Sets the minimum age of the file of a partition.
    pub fn unchanged_for(mut self, unchanged_for: Duration) -> MergePolicy {
        self.unchanged_for = unchanged_for;
        self
    }

    /// Selects runs to merge. No partition of a run has more documents than the others together, so
    /// a document is merged only a few times before it is in a large partition.
    fn plan(&self, all: &[Candidate]) -> Vec<Range<usize>> {
        let max_documents = u64::from(self.most_documents.min(MAX_DOCUMENTS));
        let (mut runs, mut start) = (Vec::new(), 0);
        while start < all.len() {
            let (mut documents, mut bytes, mut largest, mut end) = (0, 0, 0, None);
            for (i, candidate) in all.iter().enumerate().skip(start) {
                documents += candidate.documents;
                bytes += candidate.bytes;
                largest = largest.max(candidate.documents);
                let is_eligible = candidate.is_eligible && (i == start || candidate.joins_previous);
                if !is_eligible || documents > max_documents || bytes > self.most_bytes {
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

/// A run of partitions of a set to merge.
pub(crate) struct Run {
    pub(crate) merge: Merge,
    parts: Vec<Arc<Partition>>,
}

impl Collection {
    /// Merges runs of adjacent partitions of the newest set, as the policy selects, and calls
    /// `on_merge` after each merge. Compaction runs only when it is called. If a run cannot be
    /// merged, it is left as it is, the other runs are merged, and the first error is returned.
    /// Memory grows with the documents of a merged partition: about 4 bytes per value, plus the
    /// distinct keys of one field.
    ///
    /// Query results do not change, order included: if the schema orders documents, only partitions
    /// whose documents are in that order already are merged. Names change, and the old names stay
    /// reserved: [`Change::put`] refuses a name whose documents were merged. So set `unchanged_for`
    /// longer than a partition may stay unchanged before the program replaces or removes it. A
    /// [`PageToken`](crate::search::PageToken) names a partition, so read all pages of a query with
    /// one reader.
    pub fn compact(&self, policy: &MergePolicy, mut on_merge: impl FnMut(&Merge)) -> Result<()> {
        let mut result = Ok(());
        for run in self.runs(policy)? {
            match self.merge_run(&run) {
                Ok(true) => on_merge(&run.merge),
                Ok(false) => {}
                Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }

    /// Returns the merges that [`Collection::compact`] would perform now.
    pub fn compact_plan(&self, policy: &MergePolicy) -> Result<Vec<Merge>> {
        Ok(self.runs(policy)?.into_iter().map(|run| run.merge).collect())
    }

    /// Starts a thread that calls [`Collection::compact`] every `every`, until the returned handle
    /// is dropped. Calls `on_event` after each merge and on each failure (`Locked` while another
    /// process changes the collection); the thread continues after a failure. Panics if the system
    /// cannot start a thread.
    pub fn compact_every(
        self: &Arc<Self>,
        policy: MergePolicy,
        every: Duration,
        mut on_event: impl FnMut(std::result::Result<&Merge, &Error>) + Send + 'static,
    ) -> Compaction {
        let (stop, stopped) = mpsc::channel();
        let collection = self.clone();
        let thread = thread::spawn(move || {
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                if let Err(error) = collection.compact(&policy, |merge| on_event(Ok(merge))) {
                    on_event(Err(&error));
                }
            }
        });
        Compaction { stop: Some(stop), thread: Some(thread) }
    }

    /// The runs of the newest set that the policy selects.
    pub(crate) fn runs(&self, policy: &MergePolicy) -> Result<Vec<Run>> {
        self.refresh()?;
        let open_dir = self.open_dir();
        let (set, groups) = (&open_dir.set.reader.set, name_groups(&open_dir.set.members));
        let now = SystemTime::now();
        let mut all: Vec<Candidate> = Vec::with_capacity(set.partitions.len());
        // The last partition so far that has documents.
        let mut last: Option<&Partition> = None;
        for (p, part) in set.partitions.iter().enumerate() {
            let (documents, bytes) = (part.documents.into(), part.file.len());
            let is_eligible = part.documents < policy.small
                && match self.written(part) {
                    // If the clock was set back, the file counts as new.
                    Ok(time) => {
                        now.duration_since(time).unwrap_or_default() >= policy.unchanged_for
                    }
                    // Another process has replaced the partition.
                    Err(e) if e.kind() == ErrorKind::NotFound => false,
                    Err(e) => return Err(e),
                };
            let joins_previous =
                match p.checked_sub(1).map(|before| (&set.partitions[before], last)) {
                    Some((before, last))
                        if is_eligible && all[p - 1].is_eligible && groups[p] == groups[p - 1] =>
                    {
                        can_join(before, part)
                            && last.map_or(Ok(true), |last| is_in_order(last, part))?
                    }
                    _ => false,
                };
            all.push(Candidate { documents, bytes, is_eligible, joins_previous });
            last = if part.documents > 0 { Some(part) } else { last };
        }
        let runs = policy.plan(&all).into_iter().map(|range| Run {
            merge: Merge {
                from: set.names[range.clone()].to_vec(),
                into: match groups[range.start] {
                    Some(_) => set.names[range.start].clone(),
                    None => merged_name(&set.names[range.clone()], set.names.get(range.end)),
                },
                documents: all[range.clone()].iter().map(|candidate| candidate.documents).sum(),
            },
            parts: set.partitions[range].to_vec(),
        });
        Ok(runs.collect())
    }

    /// Merges a run. Returns false if its partitions were changed meanwhile.
    pub(crate) fn merge_run(&self, run: &Run) -> Result<bool> {
        let mut change = self.change()?;
        let names: Vec<&str> = run.merge.from.iter().map(String::as_str).collect();
        if !is_unchanged(&mut change, run, &names)? {
            return Ok(false);
        }
        change.merge_exactly(&run.merge.from, &run.merge.into)?;
        change.commit()?;
        Ok(true)
    }
}

/// For each partition, the name that it continues or under which it has continuations. Such
/// partitions are merged only with partitions of the same name, so that the name can still be
/// replaced.
fn name_groups(members: &[Arc<Member>]) -> Vec<Option<&str>> {
    let of = members.iter().map(|m| &*m.relation.of);
    let bases: HashSet<&str> = of.filter(|of| !of.is_empty()).collect();
    let group = |m: &Arc<Member>| {
        let name = if m.relation.of.is_empty() { &*m.name } else { &*m.relation.of };
        bases.get(name).copied()
    };
    members.iter().map(group).collect()
}

/// Whether the partitions of a run are unchanged, and the new one would have their position.
fn is_unchanged(change: &mut Change, run: &Run, names: &[&str]) -> Result<bool> {
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

/// The name of the partition merged from `names`. It sorts where they do: before `next`, the name
/// that follows them.
fn merged_name(names: &[String], next: Option<&String>) -> String {
    const TO: &str = ".to.";
    let (first, last) = (&names[0], &names[names.len() - 1]);
    let from = first.split_once(TO).map_or(&**first, |(from, _)| from);
    let to = last.rsplit_once(TO).map_or(&**last, |(_, to)| to);
    let name = format!("{from}{TO}{to}");
    let keeps_position = name >= *first && next.is_none_or(|next| name < *next);
    if keeps_position && name.len() <= crate::search::collection::MAX_NAME {
        name
    } else {
        last.clone()
    }
}

/// Whether two partitions can be joined.
fn can_join(a: &Partition, b: &Partition) -> bool {
    let (a, b) = (&*a.schema, &*b.schema);
    let fields = || match a.dynamic.is_some() {
        // In a dynamic schema, the fields that both have must match.
        true => b
            .fields
            .iter()
            .all(|f| a.field(&f.name).is_none_or(|(_, known)| known.equals_except_scanned(f))),
        false => {
            a.fields.len() == b.fields.len()
                && a.fields.iter().zip(&b.fields).all(|(a, b)| a.equals_except_scanned(b))
        }
    };
    let points = || a.clone().merge_points(b).is_ok();
    a.order == b.order && a.payload == b.payload && a.dynamic == b.dynamic && fields() && points()
}

/// Whether the documents of `b` may follow those of `a` in the order of their schema.
fn is_in_order(a: &Partition, b: &Partition) -> Result<bool> {
    if b.documents == 0 {
        return Ok(true);
    }
    for by in &a.schema.order {
        let keys = (key(a, &by.field, a.documents - 1)?, key(b, &by.field, 0)?);
        let order = match &keys {
            (Some(a), Some(b)) if by.descending => b.cmp(a),
            (Some(a), Some(b)) => a.cmp(b),
            // Documents without a value come last.
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

/// The handle of a thread that compacts a collection. Dropping it stops the thread, and waits for a
/// merge in progress.
pub struct Compaction {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Compaction {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // The panic hook has reported a panic of `on_event`.
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(policy: &MergePolicy, documents: &[u64]) -> Vec<(usize, usize)> {
        let candidate = |&documents: &u64| Candidate {
            documents,
            bytes: documents * 10,
            is_eligible: documents < u64::from(policy.small),
            joins_previous: true,
        };
        let runs = policy.plan(&documents.iter().map(candidate).collect::<Vec<_>>());
        runs.into_iter().map(|run| (run.start, run.end)).collect()
    }

    #[test]
    fn no_partition_of_a_run_outweighs_the_others() {
        let policy =
            MergePolicy { small: 100, most_documents: 200, at_least: 3, ..MergePolicy::default() };
        assert_eq!(plan(&policy, &[]), []);
        assert_eq!(plan(&policy, &[1, 1]), []);
        assert_eq!(plan(&policy, &[1, 1, 1]), [(0, 3)]);
        assert_eq!(plan(&policy, &[1, 1, 500, 1, 1, 1]), [(3, 6)]);
        assert_eq!(plan(&policy, &[90, 1, 1, 1, 1]), [(1, 5)], "90 outweighs the rest");
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
    fn merged_names_sort_where_the_old_names_did() {
        let name = |names: &[&str], next: Option<&str>| {
            let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
            merged_name(&names, next.map(str::to_string).as_ref())
        };
        assert_eq!(name(&["2013-01", "2013-02"], None), "2013-01.to.2013-02");
        assert_eq!(name(&["2013-01.to.2013-02", "2013-03"], Some("2014")), "2013-01.to.2013-03");
        assert_eq!(name(&["a.to.b", "c.to.d"], Some("e")), "a.to.d");
        assert_eq!(name(&["a", "a.b"], Some("a.c")), "a.b", "`a.to.a.b` would sort after `a.c`");
        let long = "x".repeat(60);
        assert_eq!(name(&[&format!("a{long}"), &format!("b{long}")], None), format!("b{long}"));
    }
}
