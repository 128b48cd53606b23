//! Conditions on two fields whose documents are stored as points: ranges on both become one window.
//!
//! Where the points hold values, a range on one field alone is a window too, unbounded in the other
//! field. It is found without the keys of the field, which would first have to be derived from all
//! documents (`partition/derived.rs`). Where the points hold ordinals, a range on one field stays a
//! range of ordinals unless the other field has a range as well.

use crate::Result;
use crate::search::codec::points::{EVERYTHING, Points, Window};
use crate::search::exec::clause::Clause;
use crate::search::exec::source::Form;
use crate::search::exec::workspace::Workspace;
use crate::search::model::condition::Interval;
use crate::search::model::value::Key;
use crate::search::partition::Partition;
use crate::search::plan::Test;
use std::ops::Bound;

/// The fields of the point and the window of a test on `field`. `None` if the points of the field
/// hold no values, or if the test names several keys, which become intervals of ordinals.
pub(crate) fn window_of(
    part: &Partition,
    field: usize,
    test: &Test,
) -> Option<([usize; 2], Window)> {
    let values = part.meta(field).values()?;
    let pair = *part.schema.points.iter().find(|pair| pair.contains(&field))?;
    let wanted = match test {
        Test::Exists => Some((0, u64::MAX)),
        Test::Range(range) => ends(range),
        Test::Points(keys) => match keys.as_slice() {
            [Key::Fixed(key)] => Some((*key, *key)),
            _ => return None,
        },
    };
    let last = values.least + u64::from(values.span - 1);
    let range = match wanted {
        Some((low, high)) if low <= high && low <= last && high >= values.least => {
            let value = |key: u64| (key - values.least) as u32;
            (value(low.max(values.least)), value(high.min(last)) + 1)
        }
        _ => (0, 0),
    };
    let mut window = [EVERYTHING; 2];
    window[usize::from(pair[1] == field)] = range;
    Some((pair, window))
}

/// The smallest and the largest key of a range of fixed-width keys; `None` if it is empty.
fn ends(range: &Interval) -> Option<(u64, u64)> {
    let low = match range.low {
        Bound::Unbounded => 0,
        Bound::Included(Key::Fixed(key)) => key,
        Bound::Excluded(Key::Fixed(key)) => key.checked_add(1)?,
        _ => return None,
    };
    let high = match range.high {
        Bound::Unbounded => u64::MAX,
        Bound::Included(Key::Fixed(key)) => key,
        Bound::Excluded(Key::Fixed(key)) => key.checked_sub(1)?,
        _ => return None,
    };
    Some((low, high))
}

/// Whether a window is empty in one of its dimensions.
pub(crate) fn is_empty(window: Window) -> bool {
    window.iter().any(|(start, end)| start >= end)
}

/// The number of documents whose point is in a window.
pub(crate) fn count(part: &Partition, pair: [usize; 2], window: Window) -> Result<u64> {
    for (field, other) in [(0, 1), (1, 0)] {
        let meta = part.meta(pair[field]);
        let whole = meta.values().is_some_and(|values| window[field] == (0, values.span));
        if whole && window[other] == EVERYTHING {
            return Ok(meta.present.into());
        }
    }
    Ok(part.points(pair[0])?.map_or(0, |(points, _)| points.count(window)))
}

impl Workspace<'_> {
    /// Combines the ranges on both fields of each point into one window; `None` if no document can
    /// match.
    pub(crate) fn join_points(&mut self, part: &Partition, base: usize) -> Result<Option<()>> {
        for &pair in &part.schema.points {
            let Some((points, _)) = part.points(pair[0])? else { continue };
            let some = match part.meta(pair[0]).values() {
                Some(_) => self.join_windows(part, pair, base)?,
                None => self.join_ranges(&points, pair, base),
            };
            if some.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    /// `join_points` for points that hold ordinals.
    fn join_ranges(&mut self, points: &Points, pair: [usize; 2], base: usize) -> Option<()> {
        let intervals = &self.scratch.intervals;
        // The side of the point that a clause is a range on, and the range.
        let range = |clause: &Clause| match clause.form {
            Form::Ordinals { field, first, last, .. } if last == first + 1 && !clause.negate => {
                let which = pair.iter().position(|other| *other == field)?;
                Some((which, intervals[first]))
            }
            _ => None,
        };
        let (mut window, mut found) = ([EVERYTHING; 2], [false; 2]);
        for (which, range) in self.clauses[base..].iter().filter_map(range) {
            (window[which], found[which]) = (intersect(window[which], range), true);
        }
        if found != [true; 2] {
            return Some(());
        }
        let mut i = 0;
        self.clauses.retain(|clause| {
            i += 1;
            i <= base || range(clause).is_none()
        });
        self.stats.windows += 1;
        let count = points.count(window);
        self.clauses.push(Clause::new(Form::Window { pair, window }, false, count));
        (count > 0).then_some(())
    }

    /// `join_points` for points that hold values: intersects their windows and counts the result.
    /// Negated windows stay and are counted one by one, after the cheaper count of the
    /// intersection.
    fn join_windows(
        &mut self,
        part: &Partition,
        pair: [usize; 2],
        base: usize,
    ) -> Result<Option<()>> {
        let is_own = |clause: &Clause| match clause.form {
            Form::Window { pair: of, window } => (of == pair).then_some((window, clause.negate)),
            _ => None,
        };
        let (mut window, mut found) = ([EVERYTHING; 2], [false; 2]);
        for (own, _) in self.clauses[base..].iter().filter_map(is_own).filter(|own| !own.1) {
            for (side, range) in own.into_iter().enumerate() {
                window[side] = intersect(window[side], range);
                found[side] |= range != EVERYTHING;
            }
        }
        self.stats.windows += u64::from(found == [true; 2]);
        if is_empty(window) {
            return Ok(None);
        }
        let (documents, mut i) = (u64::from(part.documents), base);
        if found != [false; 2] {
            let count = count(part, pair, window)?;
            if count == 0 {
                return Ok(None);
            }
            let mut number = 0;
            self.clauses.retain(|clause| {
                number += 1;
                number <= base || is_own(clause).is_none_or(|own| own.1)
            });
            if count < documents {
                self.clauses.push(Clause::new(Form::Window { pair, window }, false, count));
            }
        }
        while i < self.clauses.len() {
            if let Some((window, true)) = is_own(&self.clauses[i]) {
                let count = count(part, pair, window)?;
                if count >= documents {
                    return Ok(None);
                }
                if count == 0 {
                    self.clauses.remove(i);
                    continue;
                }
                (self.clauses[i].count, self.clauses[i].least) = (count, count);
            }
            i += 1;
        }
        Ok(Some(()))
    }
}

/// The intersection of two ranges.
fn intersect(a: (u32, u32), b: (u32, u32)) -> (u32, u32) {
    (a.0.max(b.0), a.1.min(b.1))
}
