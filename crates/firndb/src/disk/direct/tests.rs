//! Reads that bypass the page cache, one after another and concurrently.

use crate::disk::direct::Direct;
use crate::disk::direct::buffer::PAGE;
use crate::disk::direct::reads::BUFFER;
#[cfg(target_os = "linux")]
use crate::disk::direct::ring::{ENTRIES, RING, Ring};
use crate::disk::direct::uncached_file::Extent;
use crate::disk::in_child;
use crate::{Error, Result};
use firndb_testing::{skipped, this_test};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

/// A file with these bytes; `None` if its file system has no reads that bypass the page cache.
fn file_of(name: &str, bytes: &[u8]) -> Option<(Direct, PathBuf)> {
    let name = format!("firndb-direct-{name}-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, bytes).unwrap();
    match Direct::open(&path) {
        Ok(file) => Some((file, path)),
        Err(e) => {
            skipped(&this_test(), format!("no reads that bypass the page cache: {e}"));
            std::fs::remove_file(&path).unwrap();
            None
        }
    }
}

/// Extents, each with its index.
fn numbered(pieces: &[Extent]) -> impl Iterator<Item = Result<(Extent, usize)>> {
    pieces.iter().enumerate().map(|(number, &piece)| Ok((piece, number)))
}

#[test]
fn memory_of_long_reads_is_freed() {
    let bytes: Vec<u8> = (0..3u32 << 20).map(|i| (i * 7 % 251) as u8).collect();
    let Some((file, path)) = file_of("long", &bytes) else { return };
    let pieces: Vec<Extent> =
        (0..100).map(|i| (i, if i % 3 == 0 { 100 } else { 2 << 20 })).collect();
    let mut seen = 0;
    let visit = |n: usize, read: &[u8]| {
        assert!(read == &bytes[n..n + pieces[n].1]);
        seen += 1;
        Ok(())
    };
    file.read_many(numbered(&pieces), 32, visit).unwrap();
    assert_eq!(seen, pieces.len());
    assert!(file.read(5, 2 << 20).unwrap() == bytes[5..][..2 << 20]);
    let kept = BUFFER.with_borrow(|buffer| buffer.bytes.len()) + kept_by_ring();
    assert!(kept <= 64 * 3 * PAGE, "{kept} bytes are kept");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_forked_child_does_not_use_the_ring_of_its_parent() {
    let bytes: Vec<u8> = (0..100_000u32).map(|i| (i * 7 % 251) as u8).collect();
    let Some((file, path)) = file_of("forked", &bytes) else { return };
    let pieces: Vec<Extent> = (0..100).map(|i| (i * 191, 100)).collect();
    let is_right = || {
        let mut right = 0;
        let visit = |n: usize, read: &[u8]| {
            right += usize::from(read == &bytes[pieces[n].0 as usize..][..pieces[n].1]);
            Ok(())
        };
        file.read_many(numbered(&pieces), 32, visit).is_ok() && right == pieces.len()
    };
    assert!(is_right());
    assert!(in_child(is_right));
    assert!(is_right());
    std::fs::remove_file(&path).unwrap();
}

/// Bytes in the buffers of this thread's ring.
fn kept_by_ring() -> usize {
    #[cfg(target_os = "linux")]
    return RING.with_borrow(|ring| {
        assert_eq!(ENTRIES, 64);
        let buffers = ring.iter().flatten().flat_map(|ring| &ring.buffers);
        buffers.map(|buffer| buffer.bytes.len()).sum::<usize>()
    });
    #[cfg(not(target_os = "linux"))]
    0
}

#[test]
fn any_range_can_be_read_concurrently_and_sequentially() {
    let bytes: Vec<u8> = (0..100_000u32).map(|i| (i * 7 % 251) as u8).collect();
    let Some((file, path)) = file_of("any", &bytes) else { return };
    let pieces: Vec<Extent> =
        (0..500).map(|i| (i * 191, [0, 1, 200, 4096, 4097, 243][i as usize % 6])).collect();
    let expected = |n: usize| &bytes[pieces[n].0 as usize..][..pieces[n].1];
    for depth in [1, 7, 32, 1000] {
        let mut seen = vec![false; pieces.len()];
        let visit = |n: usize, read: &[u8]| {
            assert_eq!(read, expected(n));
            assert!(!std::mem::replace(&mut seen[n], true));
            Ok(())
        };
        file.read_many(numbered(&pieces), depth, visit).unwrap();
        assert!(seen.iter().all(|&seen| seen));
    }
    let sequential = Direct::open_without_ring(&path).unwrap();
    let mut order = Vec::new();
    let visit = |n: usize, read: &[u8]| {
        assert_eq!(read, expected(n));
        order.push(n);
        Ok(())
    };
    sequential.read_many(numbered(&pieces), 32, visit).unwrap();
    assert!(order.into_iter().eq(0..pieces.len()), "one after another");
    assert_eq!(file.read(99_999, 1).unwrap(), bytes[99_999..]);
    assert!(file.read(99_999, 2).is_err());
    let too_long = [(0, 10), (99_999, 2)];
    for file in [&file, &sequential] {
        assert!(file.read_many(numbered(&too_long), 4, |_, _| Ok(())).is_err());
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn extents_are_taken_only_when_a_slot_is_free() {
    let Some((file, path)) = file_of("room", &[7; 100_000]) else { return };
    let (asked, seen) = (Cell::new(0), Cell::new(0));
    let extents = (0..100).map(|i| {
        asked.set(asked.get() + 1);
        // Four reads in flight, and four that are completed but not visited.
        assert!(asked.get() <= seen.get() + 8);
        Ok(((i * 700, 10), ()))
    });
    let visit = |(), read: &[u8]| {
        assert_eq!(read, [7; 10]);
        seen.set(seen.get() + 1);
        Ok(())
    };
    file.read_many(extents, 4, visit).unwrap();
    assert_eq!((asked.get(), seen.get()), (100, 100));
    std::fs::remove_file(&path).unwrap();
}

/// The device starts with the first group before the kernel has all reads.
#[test]
#[cfg(target_os = "linux")]
fn reads_are_submitted_in_groups_of_doubling_size() {
    let Some((file, path)) = file_of("groups", &[7; 100_000]) else { return };
    let groups = || {
        let take = |ring: &mut Ring| std::mem::take(&mut ring.groups);
        RING.with_borrow_mut(|ring| ring.iter_mut().flatten().next().map(take))
    };
    let pieces: Vec<Extent> = (0..100).map(|i| (i * 700, 10)).collect();
    file.read_many(numbered(&pieces), 32, |_, _| Ok(())).unwrap();
    let Some(first) = groups() else { return skipped(&this_test(), "no io_uring") };
    assert_eq!(first[..5], [2, 4, 8, 16, 2], "of {first:?}");
    assert_eq!(first.iter().sum::<usize>(), 100);
    file.read_many(numbered(&pieces[..5]), 32, |_, _| Ok(())).unwrap();
    assert_eq!(groups().unwrap(), [2, 3]);
    file.read_many(numbered(&[]), 32, |_, _| Ok(())).unwrap();
    assert!(groups().unwrap().is_empty());
    std::fs::remove_file(&path).unwrap();
}

/// The iterator of extents and the visitor may fail or panic. Then no more extents are taken or
/// visited, and later reads of the thread get their own bytes.
#[test]
fn an_error_or_panic_ends_the_reads_and_leaves_later_ones_intact() {
    let bytes: Vec<u8> = (0..100_000u32).map(|i| (i * 7 % 251) as u8).collect();
    let Some((file, path)) = file_of("fails", &bytes) else { return };
    let sequential = Direct::open_without_ring(&path).unwrap();
    let pieces: Vec<Extent> = (0..100).map(|i| (i * 700, 300)).collect();
    let check = |n: usize, read: &[u8]| assert_eq!(read, &bytes[n * 700..][..300]);
    for (number, panics) in [0, 1, 2, 5, 60].into_iter().flat_map(|n| [(n, false), (n, true)]) {
        // Extents taken and extents visited.
        let counts = [Cell::new(0), Cell::new(0)];
        let fail = |n: usize, failing: bool, count: &Cell<usize>| {
            count.set(count.get() + 1);
            match failing && count.get() > number {
                true if panics => panic!("wanted of {n}"),
                true => Err(Error::invalid("wanted")),
                false => Ok(()),
            }
        };
        for (finds, one_by_one) in [(true, false), (true, true), (false, false), (false, true)] {
            counts.iter().for_each(|count| count.set(0));
            let extents = numbered(&pieces).map(|extent| {
                let (extent, n) = extent?;
                fail(n, finds, &counts[0]).map(|()| (extent, n))
            });
            let visit = |n: usize, read: &[u8]| {
                check(n, read);
                fail(n, !finds, &counts[1])
            };
            let done = catch_unwind(AssertUnwindSafe(|| match one_by_one {
                true => sequential.read_many(extents, 8, visit),
                false => file.read_many(extents, 8, visit),
            }));
            assert_eq!(done.is_err(), panics);
            let error = done.map_or_else(|_| "wanted".into(), |done| done.unwrap_err().to_string());
            assert!(error.contains("wanted"), "{error}");
            assert_eq!(counts[usize::from(!finds)].get(), number + 1, "none after it");
            let mut seen = 0;
            let visit = |n: usize, read: &[u8]| {
                check(n, read);
                seen += 1;
                Ok(())
            };
            file.read_many(numbered(&pieces), 8, visit).unwrap();
            assert_eq!(seen, 100);
        }
    }
    std::fs::remove_file(&path).unwrap();
}
