//! Workloads, each around one feature of a store, small enough to crash at every operation.

use super::work::Run;

/// A named workload.
pub(crate) type Workload = (&'static str, fn(&mut Run));

pub(crate) const ALL: &[Workload] = &[
    ("puts without sync", puts),
    ("puts with sync", synced_puts),
    ("both durabilities mixed", mixed),
    ("overwrites of one key", overwrites),
    ("deletes and puts again", deletes),
    ("batches", batches),
    ("batches over segments, synced", large_batches),
    ("rollover", rollover),
    ("rollover into prepared segments", prepared),
    ("records larger than a segment", large_records),
    ("close and reopen", reopens),
    ("open and close, nothing else", empty),
    ("process death and reopen", kills),
    ("hints", hints),
    ("checkpoint and tail", checkpoints),
    ("checkpoint over a tail", checkpoint_over_tail),
    ("many small records", small_records),
    ("compaction of everything", compactions),
    ("compaction step by step", steps),
    ("compaction during puts", compaction_during_puts),
    ("deletes and compaction", tombstones),
    ("compaction, then process death", compact_and_die),
    ("expiry", expiry),
    ("expiry and compaction", expiry_and_compaction),
    ("expiry that is changed and kept", changed_expiry),
    ("backup", backups),
    ("updates", updates),
    ("a snapshot over a compaction", snapshots),
    ("everything at random", anything),
    ("everything at random, in batches", anything_in_batches),
];

fn puts(run: &mut Run) {
    for n in 0..10 {
        let length = 4 + run.random.below(300);
        run.put(n, length, false);
    }
    run.sync();
    for n in 0..6 {
        let length = 4 + run.random.below(900);
        run.put(n, length, false);
    }
}

fn synced_puts(run: &mut Run) {
    for n in 0..10 {
        let length = 4 + run.random.below(700);
        run.put(n, length, true);
    }
}

fn mixed(run: &mut Run) {
    for _ in 0..16 {
        let (n, length) = (run.random.below(8) as usize, 4 + run.random.below(800));
        let is_sync = run.random.percent(30);
        run.put(n, length, is_sync);
    }
}

fn overwrites(run: &mut Run) {
    for i in 0..14 {
        let length = 4 + run.random.below(900);
        run.put(3, length, i % 5 == 2);
    }
}

fn deletes(run: &mut Run) {
    for i in 0..24 {
        let (n, is_sync) = (run.random.below(5) as usize, run.random.percent(25));
        let length = 4 + run.random.below(600);
        if i % 3 == 2 { run.delete(n, is_sync) } else { run.put(n, length, is_sync) }
    }
}

fn batches(run: &mut Run) {
    for i in 0..8 {
        let first = run.random.below(8) as usize;
        let length = 4 + run.random.below(260);
        run.batch(&[first, first + 1, first + 2, first + 4, first + 5], length, i % 3 == 1);
        run.put(first, 40, false);
    }
}

fn large_batches(run: &mut Run) {
    for i in 0..5 {
        let length = 300 + run.random.below(900);
        run.batch(&[0, 1, 2, 3, 4, 6, 7], length, i % 2 == 0);
        run.batch(&[i, i + 1], 30, false);
    }
}

fn rollover(run: &mut Run) {
    for n in 0..12 {
        let (length, is_sync) = (900 + run.random.below(900), run.random.percent(20));
        run.put(n, length, is_sync);
    }
    run.sync();
    run.put(1, 100, false);
}

fn prepared(run: &mut Run) {
    for n in 0..12 {
        let (length, is_sync) = (500 + run.random.below(900), run.random.percent(20));
        run.put(n, length, is_sync);
        run.maintain(1);
    }
}

fn large_records(run: &mut Run) {
    run.put(0, 200, false);
    for n in 1..5 {
        let length = 3000 + run.random.below(8000);
        run.put(n, length, n % 2 == 0);
        run.put(n + 3, 90, false);
    }
    run.put(0, 5000, false);
}

fn reopens(run: &mut Run) {
    for n in 0..5 {
        for i in 0..3 {
            let length = 4 + run.random.below(700);
            run.put(n + i, length, false);
        }
        run.delete(n + 1, false);
        run.reopen();
        run.compare();
    }
}

fn empty(run: &mut Run) {
    for _ in 0..3 {
        run.reopen();
    }
    run.put(1, 10, true);
    run.delete(1, true);
    run.reopen();
    run.kill();
}

fn kills(run: &mut Run) {
    for n in 0..5 {
        for i in 0..4 {
            let (length, is_sync) = (4 + run.random.below(800), run.random.percent(15));
            run.put(n + i, length, is_sync);
        }
        run.delete(n + 1, false);
        run.kill();
    }
}

fn hints(run: &mut Run) {
    for n in 0..4 {
        run.put(n, 400, false);
        run.put(n + 1, 300, false);
        run.delete(n, false);
        run.roll();
        run.maintain(2);
    }
    run.kill();
    run.put(1, 50, true);
}

fn checkpoints(run: &mut Run) {
    for n in 0..3 {
        run.put(n, 500, false);
        run.put(n + 1, 200, false);
        run.delete(n, false);
        run.roll();
        run.checkpoint();
        run.put(n + 2, 60, n == 1);
        if n == 1 {
            run.kill();
        }
    }
    run.delete(2, true);
}

/// Records that the checkpoint treats as overwritten or deleted were so only by the unsynced tail.
fn checkpoint_over_tail(run: &mut Run) {
    for n in 0..6 {
        run.put(n, 200, false);
    }
    run.roll();
    for i in 0..3 {
        let length = 4 + run.random.below(300);
        run.put(i, length, false);
        run.delete(i + 3, false);
        run.checkpoint();
        run.put(i + 1, 30, false);
        run.delete(i, false);
    }
}

/// Records of one size, so that a record written after a torn end may end where an old one begins.
fn small_records(run: &mut Run) {
    for n in 0..70 {
        run.put(n % 3, 16, false);
    }
}

/// A few segments, with stale records in all of them.
fn layers(run: &mut Run) {
    for n in 0..3 {
        for i in 0..4 {
            let length = 4 + run.random.below(300);
            run.put(n * 2 + i, length, false);
        }
        run.roll();
    }
}

fn compactions(run: &mut Run) {
    layers(run);
    run.compact(0.0);
    run.put(2, 100, false);
    run.compact(0.2);
    run.put(3, 100, true);
}

fn steps(run: &mut Run) {
    for _ in 0..3 {
        layers(run);
        run.maintain(6);
    }
    run.compare();
}

/// Deferred puts over records that compaction is about to move.
fn compaction_during_puts(run: &mut Run) {
    for _ in 0..2 {
        layers(run);
        run.sync();
        run.roll(); // Its link states that everything before it is durable.
        run.checkpoint();
        for _ in 0..3 {
            for _ in 0..3 {
                let (n, length) = (run.random.below(8) as usize, 4 + run.random.below(100));
                run.put(n, length, false);
            }
            run.evacuate();
            run.compare();
        }
        run.kill();
    }
}

fn tombstones(run: &mut Run) {
    layers(run);
    run.delete(1, false);
    run.delete(2, false);
    run.roll();
    run.put(5, 700, false);
    run.delete(4, true);
    run.compact(0.3);
    run.kill();
    run.compact(0.0);
    run.compact(0.0);
    run.reopen();
    run.compare();
}

fn compact_and_die(run: &mut Run) {
    layers(run);
    run.delete(3, false);
    run.compact(0.1);
    run.kill();
    run.put(3, 30, false);
    run.compact(0.0);
    run.kill();
    run.reopen();
}

fn expiry(run: &mut Run) {
    for n in 0..8 {
        let ttl = 10 + run.random.below(100);
        run.put(n, 200, false);
        run.put_until(n, 150, n % 3 == 0, Some(ttl));
        run.wait(9);
    }
    run.kill();
    run.put(0, 100, false);
    run.compare();
}

fn expiry_and_compaction(run: &mut Run) {
    // Values that do not expire, and older versions of those that do, in a segment that is not
    // compacted while most of it is live.
    run.put(6, 1800, false);
    run.put(7, 1500, false);
    for n in 0..6 {
        run.put(n, 20, false);
    }
    run.roll();
    for n in 0..6 {
        run.put_until(n, 100, n == 3, Some(20 + 20 * n as u64));
    }
    run.roll();
    run.put(0, 60, false);
    run.wait(65);
    run.compare();
    run.compact(0.5);
    run.kill();
    run.wait(40);
    run.compact(0.0);
    run.kill();
    run.compact(0.0);
    run.compare();
}

fn changed_expiry(run: &mut Run) {
    for n in 0..6 {
        run.put_until(n, 120, false, Some(60));
    }
    run.set_expiry(0, false, None);
    run.set_expiry(1, true, Some(200));
    run.update(2, 90, false);
    run.roll();
    run.update(3, 40, true);
    run.set_expiry(4, false, Some(0));
    run.set_expiry(7, true, Some(10));
    run.compact(0.2);
    run.wait(70);
    run.compare();
    run.update(5, 60, false); // Expired: the new record does not expire.
    run.set_expiry(3, true, None); // Expired: it remains absent.
    run.kill();
    run.compact(0.0);
    run.wait(200);
    run.compare();
}

fn backups(run: &mut Run) {
    layers(run);
    run.delete(2, false);
    run.backup();
    run.put(1, 300, false);
    run.delete(3, false);
    run.compact(0.0);
    run.put(1, 500, false);
    run.backup();
    run.put(2, 50, true);
}

fn updates(run: &mut Run) {
    for n in 0..14 {
        let (length, is_sync) = (4 + run.random.below(500), run.random.percent(20));
        run.update(n % 3, length, is_sync);
        if n % 5 == 4 {
            run.delete(n % 3, false);
        }
    }
}

fn snapshots(run: &mut Run) {
    layers(run);
    run.snapshot();
    run.delete(1, false);
    run.put(2, 300, false);
    run.compact(0.0);
    run.put(4, 200, true);
    run.snapshot();
    run.kill();
}

fn anything(run: &mut Run) {
    for _ in 0..36 {
        let n = run.random.below(8) as usize;
        let (length, is_sync) = (4 + run.random.below(1000), run.random.percent(15));
        match run.random.below(40) {
            0..14 => run.put(n, length, is_sync),
            14..20 => run.delete(n, is_sync),
            20..23 => run.batch(&[n, n + 1, n + 3], length, is_sync),
            23..25 => run.update(n, length, is_sync),
            25 => run.put_until(n, length, is_sync, Some(30)),
            26..30 => run.maintain(1),
            30 => run.compact(0.0),
            31 => run.compact(0.4),
            32 => run.checkpoint(),
            33 => run.roll(),
            34 => run.sync(),
            35 => run.reopen(),
            36 => run.kill(),
            37 => run.wait(12),
            38 => run.snapshot(),
            _ => run.compare(),
        }
    }
}

fn anything_in_batches(run: &mut Run) {
    for _ in 0..24 {
        let n = run.random.below(8) as usize;
        let (length, is_sync) = (4 + run.random.below(700), run.random.percent(15));
        match run.random.below(20) {
            0..10 => run.batch(&[n, n + 1, n + 2, n + 4], length, is_sync),
            10..12 => run.delete(n, is_sync),
            12..15 => run.maintain(2),
            15 => run.compact(0.0),
            16 => run.compact(0.5),
            17 => run.kill(),
            18 => run.reopen(),
            _ => run.checkpoint(),
        }
    }
}
