//! Planted bugs, each of which the sweeps must notice: a test that never fails proves nothing.
//!
//! Some are in the code ([`Failpoint`]). Others are syncs that the store requests and the disk
//! ignores, which has the same effect as a missing call.

use super::crash::Sweep;
use super::faults;
use super::workloads::{ALL, Workload};
use crate::disk::SimDisk;
use crate::log::failpoints::{Failpoint, active};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Seeds that are tried until a sweep notices.
const SEEDS: u64 = 3;

fn workload(name: &str) -> Workload {
    *ALL.iter().find(|(known, _)| *known == name).expect("a workload of this name")
}

/// What a sweep over this workload reports, by an error or by a panic.
fn noticed(name: &str, prepare: &dyn Fn(&SimDisk)) -> Option<String> {
    let sweep = |seed| Sweep { workload: workload(name), seed, prepare }.go();
    (1..=SEEDS).find_map(|seed| match catch_unwind(AssertUnwindSafe(|| sweep(seed))) {
        Ok(Ok(_)) => None,
        Ok(Err(what)) => Some(what),
        Err(_) => Some(format!("{name}, seed {seed}: a panic")),
    })
}

#[track_caller]
fn caught(failpoint: Failpoint, name: &str) {
    active::FAILPOINT.set(Some(failpoint));
    let what = noticed(name, &|_| {});
    active::FAILPOINT.set(None);
    let what = what.unwrap_or_else(|| panic!("{failpoint:?} went unnoticed in `{name}`"));
    println!("{failpoint:?}: {}", what.chars().take(240).collect::<String>());
}

#[track_caller]
fn caught_lie(lie: fn(&str, &Path) -> bool, name: &str) {
    let what = noticed(name, &|disk| disk.lie_about(lie));
    let what = what.unwrap_or_else(|| panic!("the missing sync went unnoticed in `{name}`"));
    println!("{}", what.chars().take(240).collect::<String>());
}

/// A test per failpoint: its name, and the workload that notices it.
macro_rules! failpoints {
    ($($test:ident: $failpoint:ident in $workload:literal;)*) => {
        $(#[test]
        fn $test() {
            caught(Failpoint::$failpoint, $workload);
        })*
    };
}

failpoints! {
    notices_an_acknowledgement_without_sync: AcknowledgeWithoutSync in "puts with sync";
    notices_that_only_the_active_segment_is_synced: SyncActiveOnly in "rollover";
    notices_names_without_sync: NameWithoutDirectorySync in "puts with sync";
    notices_a_segment_taken_for_durable_too_early: DurableTooFar in "rollover";
    notices_a_skipped_checksum: SkipChecksum in "both durabilities mixed";
    notices_half_a_batch: AcceptHalfBatch in "batches";
    notices_a_hole_between_segments: IgnoreLinks in "rollover";
    notices_records_after_a_torn_end: ResumeTornSegment in "many small records";
    notices_a_wrong_order_of_replay: ReplayBackwards in "process death and reopen";
    notices_deletes_that_are_not_replayed: ForgetDeletesOnReplay in "deletes and puts again";
    notices_a_checkpoint_trusted_too_far: TrustCheckpoint in "checkpoint and tail";
    notices_a_checkpoint_before_the_sync: CheckpointBeforeSync in "checkpoint over a tail";
    notices_a_forgotten_tombstone: ForgetTombstone in "deletes and compaction";
    notices_an_expired_record_dropped: ForgetExpired in "expiry and compaction";
    notices_a_forgotten_expiry: ForgetExpiry in "expiry and compaction";
    notices_a_removal_before_the_sync: RemoveBeforeSync in "compaction of everything";
    notices_a_record_moved_over_a_newer_one: MoveOverDeferred in "compaction during puts";
    notices_a_forgotten_removal: ForgetRemoval in "compaction of everything";
    notices_a_hint_before_the_sync: HintBeforeSync in "hints";
    notices_keys_that_are_not_compared: SettleWithoutComparing in "close and reopen";
    notices_closing_without_sync: CloseWithoutSync in "close and reopen";
    notices_a_backup_without_its_newest_segment: BackupWithoutNewest in "backup";
    notices_a_backup_without_a_sync_of_its_directory: BackupWithoutDirectorySync in "backup";
}

#[test]
fn notices_a_missing_sync_of_segments() {
    caught_lie(
        |verb, path| verb == "sync" && path.extension().is_some_and(|e| e == "log"),
        "rollover",
    );
}

#[test]
fn notices_a_missing_sync_of_the_directory() {
    caught_lie(|verb, path| verb == "sync_dir" && path == Path::new(super::DIR), "rollover");
}

#[test]
fn notices_a_missing_sync_of_the_directory_above() {
    caught_lie(|verb, path| verb == "sync_dir" && path == Path::new("/"), "puts with sync");
}

#[test]
fn notices_a_swallowed_error_of_a_sync() {
    active::FAILPOINT.set(Some(Failpoint::SwallowFailedSync));
    let swept = faults::sweep(workload("puts with sync"), 1, 1);
    active::FAILPOINT.set(None);
    // An acknowledged write is lost: the sweep says so, and nothing panics.
    println!("{}", swept.expect_err("a swallowed error went unnoticed"));
}
