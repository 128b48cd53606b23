//! Looking again: a store that is open for reading only goes on from where the log ended when it
//! looked last.
//!
//! The log is one order of all changes, and compaction appends what it moves, so whatever happened
//! since is in the records behind that end: they are put into the index as opening puts those
//! behind a checkpoint. A delete may be missing, where compaction found nothing left that it hides;
//! then all that it hid was in segments that are gone, and what the index still has of those goes,
//! too. (A segment that was written and compacted away in the meantime is not missed: what was live
//! in it was appended again.)
//!
//! Everything is read and checked before the index changes.
//!
//! Mostly little happened. Where no file came or went, and no segment began that was made
//! beforehand, whatever is new is in the segment in which the log ended: if there are zeros behind
//! its end nothing is, and otherwise only that segment is read. As each of these things stays as it
//! is once it has happened, what the reader shows then is a state that there was during the call.

use crate::log::format::record::{Header, Kind};
use crate::log::index::writer::{IndexWriter, create};
use crate::log::open::chain::{Chain, File, scan, survey};
use crate::log::open::durable_end::{self as end, End};
use crate::log::open::loader::Loader;
use crate::log::open::recovery::{Found, is_transient, look};
use crate::log::open::store::Shared;
use crate::log::options::Access;
use crate::log::segments::segment::{Bytes, SEGMENTS_MAX, Segment, Table, file_name, number_of};
use crate::log::write::group_commit::Position;
use crate::{ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// If more than this share of the log is new, and it is more than so many bytes, opening anew is
/// quicker: that reads hints, and not the records.
const SHARE: u64 = 4;
const MUCH: u64 = 64 << 20;

/// Bytes at the beginning of a segment, before the end of the log and behind it that say whether
/// it is as it was: the fifth byte of a record is never 0.
const LOOK: usize = 64;

/// What a refresh goes on from.
pub(crate) struct Seen {
    /// Of the files in the directory, sorted, before the log was read.
    pub(crate) names: Vec<String>,
    /// Where the log ended.
    pub(crate) last: Position,
    /// The right to change the index.
    pub(crate) index: IndexWriter,
}

/// What happened since.
struct News {
    names: Vec<String>,
    /// Where the log ends.
    last: Position,
    /// Segments that are to be read.
    new: Vec<New>,
    /// Slots of those that are gone.
    gone: Vec<usize>,
}

/// A segment of the log as it is now.
struct New {
    segment: Arc<Segment>,
    header: Header,
    /// Where its new records begin.
    from: u64,
}

impl Shared {
    /// Brings a store that is open for reading only up to date. `false` if it must be opened anew.
    /// Until then it shows what it showed, or some of the changes if there was no memory for all.
    pub(crate) fn catch_up(&mut self) -> Result<bool> {
        let Some(seen) = &self.seen else { return Ok(false) };
        if self.options.access == Access::Buffered {
            return Ok(false); // What was read before is not in memory, to compare it with.
        }
        match self.disk.check_held() {
            // Another directory is at the path now.
            Err(e) if e.kind() == ErrorKind::Failed => return Ok(false),
            checked => checked?,
        }
        let news = match self.news_of_last(seen) {
            Ok(None) => self.news(seen.last),
            // The writer may have removed a file meanwhile; or something is damaged.
            Err(e) if is_transient(&e) => self.news(seen.last),
            news => news,
        };
        match news {
            Ok(Some(news)) => Ok(self.take_in(news).is_ok()),
            Ok(None) => Ok(false),
            // And here again.
            Err(e) if is_transient(&e) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// What happened since the log ended there; `None` if it is not the same log any more, or too
    /// much happened.
    fn news(&self, last: Position) -> Result<Option<News>> {
        let Found { id, names, chain, .. } = look(&self.disk, &self.dir, &self.options)?;
        let members = chain.members()?;
        if id != self.id || chain.last < last || is_much(&members, last) {
            return Ok(None);
        }
        let table = self.table.load();
        let mut known: BTreeMap<u64, _> = table.iter().map(|s| (s.number, s)).collect();
        // Slots of segments that are gone are left alone: the index has places there.
        let mut free = (0..SEGMENTS_MAX).filter(|&slot| table.get(slot).is_none());
        let mut new = Vec::new();
        for &(number, end) in &members {
            let before = known.remove(&number);
            let slot = before.map(|segment| segment.slot).or_else(|| free.next());
            let is_same_log = match before {
                Some(before) if number == last.0 => {
                    before.end() <= end && chain.begins_with(number, before.filled())
                }
                Some(before) => before.end() == end,
                None => number > last.0,
            };
            let (true, Some(slot)) = (is_same_log, slot) else { return Ok(None) };
            // What was copied because somebody wrote to it is mapped when it has a hint.
            let is_sealed = |before: &Arc<Segment>| {
                before.hint.get().is_none() && chain.hints.contains(&number)
            };
            if before.is_none_or(|before| before.end() < end || is_sealed(before)) {
                new.push(self.read_anew(&chain, (number, end), slot, before)?);
            }
        }
        let gone = known.values().map(|segment| segment.slot).collect();
        Ok(Some(News { names, last: chain.last, new, gone }))
    }

    /// What happened since, if that can only be in the segment in which the log ended; `None` if
    /// there may be more.
    fn news_of_last(&self, seen: &Seen) -> Result<Option<News>> {
        let (number, end) = seen.last;
        let has_begun = |later: u64| -> Result<bool> {
            let file = self.disk.open(&self.dir.join(file_name(later)))?;
            let mut head = [0; LOOK];
            if file.len()? >= LOOK as u64 {
                file.read_at(0, &mut head)?;
                return Ok(head != [0; LOOK]);
            }
            Ok(true)
        };
        let table = self.table.load();
        let before = table.iter().find(|segment| segment.number == number);
        let Some(before) = before.filter(|before| before.hint.get().is_none()) else {
            return Ok(None);
        };
        if self.disk.list(&self.dir)? != seen.names {
            return Ok(None);
        }
        let later = seen.names.iter().filter_map(|name| number_of(name)).filter(|&n| n > number);
        for later in later {
            if has_begun(later)? {
                return Ok(None);
            }
        }
        let mut news =
            News { names: seen.names.clone(), last: seen.last, new: vec![], gone: vec![] };
        if self.is_as_it_was(before, end)? {
            return Ok(Some(news));
        }
        let known_end = End::read(&*self.disk, &self.dir)?.and_then(|end| end.position(self.id));
        let names = [file_name(number)];
        let files = survey(&self.disk, &self.dir, &names, &BTreeSet::new(), &self.options)?;
        let [File { map, head: Ok(head), .. }] = &files[..] else { return Ok(None) };
        if !map.starts_with(before.filled()) {
            return Ok(None);
        }
        let mut is_plain = true;
        news.last.1 = scan(map, &head.header, end, |_, record, _| {
            is_plain &= matches!(record.kind, Kind::Put | Kind::Delete);
            Ok(())
        })?;
        if !is_plain {
            return Ok(None);
        }
        end::check(known_end, news.last, &self.dir)?;
        if news.last.1 == end {
            // Behind it is what a writer that died left, or writes just now.
            return Ok(Some(news));
        }
        let bytes = Bytes::Sealed(map.clone(), news.last.1 as usize);
        let segment =
            Segment::new(number, before.slot, before.alignment_log2, before.path.clone(), bytes);
        segment.inherit(before);
        news.new.push(New { segment: Arc::new(segment), header: head.header, from: end });
        Ok(Some(news))
    }

    /// Whether nothing was appended to a segment that ended here. (Who puts another segment in its
    /// place under an open reader, with the same last record, is found out when that one grows.)
    fn is_as_it_was(&self, before: &Segment, end: u64) -> Result<bool> {
        let file = self.disk.open(&before.path)?;
        let filled = before.filled();
        let length = usize::try_from(file.len()?).unwrap_or(usize::MAX);
        let behind = length.min(before.align(end) as usize + LOOK);
        if behind < filled.len() || filled.len() < LOOK {
            return Ok(false);
        }
        let mut tail = vec![0; behind - (filled.len() - LOOK)];
        let mut head = [0; LOOK];
        file.read_at(0, &mut head)?;
        file.read_at((filled.len() - LOOK) as u64, &mut tail)?;
        let (known, new) = tail.split_at(LOOK);
        let is_same = filled.starts_with(&head) && filled.ends_with(known);
        Ok(is_same && new.iter().all(|&byte| byte == 0))
    }

    /// A segment as it is now, in the place of what it was `before`. What is new is checked.
    fn read_anew(
        &self,
        chain: &Chain,
        (number, end): Position,
        slot: usize,
        before: Option<&Arc<Segment>>,
    ) -> Result<New> {
        let path = self.dir.join(file_name(number));
        let (file, head) = chain.part(number, &path)?;
        let bytes = Bytes::Sealed(file.map.clone(), end as usize);
        let segment = Segment::new(number, slot, head.header.alignment_log2, path, bytes);
        chain.set_hint(&*self.disk, self.options.access, &self.dir, &segment);
        if let Some(before) = before {
            segment.inherit(before);
        }
        let from = before.map_or(head.end, |before| before.end());
        if from < end {
            segment.expect_all();
        }
        let found = scan(segment.filled(), &head.header, from, |_, _, _| Ok(()))?;
        if found != end {
            return Err(segment.damage(found));
        }
        Ok(New { segment: Arc::new(segment), header: head.header, from })
    }

    /// Puts that into the index. After an error (there is no memory for it) the index has only some
    /// of it, and is no good for another refresh.
    fn take_in(&mut self, news: News) -> Result<()> {
        let Some(mut seen) = self.seen.take() else { return Ok(()) };
        if news.new.is_empty() && news.gone.is_empty() {
            (seen.names, seen.last) = (news.names, news.last);
            self.seen = Some(seen);
            return Ok(());
        }
        let mut table = Table::clone(&self.table.load());
        news.new.iter().for_each(|new| table.put(new.segment.slot, Arc::clone(&new.segment)));
        let (empty, _) = create(0);
        let index = std::mem::replace(&mut self.index, empty);
        let mut loader = Loader::over(self.id, index, seen.index, table);
        let mut new = news.new.iter();
        let done = new.try_for_each(|new| {
            let bytes = new.segment.contents()?;
            loader.scan_from(&new.segment, &bytes, &new.header, new.from)
        });
        if done.is_ok() && !news.gone.is_empty() {
            news.gone.iter().for_each(|&slot| drop(loader.table.take(slot)));
            loader.sweep();
        }
        self.counters.keys.store(loader.writer.entries(), Ordering::Relaxed);
        self.counters.live_bytes.store(loader.live_bytes(), Ordering::Relaxed);
        let (names, last) = (news.names, news.last);
        self.seen = done.is_ok().then_some(Seen { names, last, index: loader.writer });
        self.index = loader.index;
        self.table.store(Arc::new(loader.table));
        done
    }
}

/// Whether so much is behind `last` that opening anew is quicker.
fn is_much(members: &[Position], last: Position) -> bool {
    let before = |&(number, end): &Position| match number.cmp(&last.0) {
        std::cmp::Ordering::Less => end,
        std::cmp::Ordering::Equal => last.1.min(end),
        std::cmp::Ordering::Greater => 0,
    };
    let all: u64 = members.iter().map(|member| member.1).sum();
    let new = all - members.iter().map(before).sum::<u64>();
    new > MUCH && new > all / SHARE
}
