//! Staging files on several machines, and publishing them from one.
//!
//! A staged file is an object `NAME/staged/MICROS-BLAKE3`, which no version lists. A publication
//! copies it within the catalog to `NAME/files/NUMBER-BLAKE3`, a name that clean-ups leave alone
//! while version `NUMBER` does not exist, and then creates the manifest. So a version never depends
//! on a staged object, and a clean-up may remove staged objects by age alone: a publication that
//! needs a removed one fails before it creates the manifest.

use super::format::{
    VersionFile, VersionKind, file_number, file_object, staged_dir, staged_object,
};
use super::origin::Content;
use super::publish::{
    ParentFiles, PublishOptions, Published, Stored, check_labels, check_stored, commit,
    find_parent, next_version, now,
};
use super::source::{self, ATTEMPTS, Source};
use super::staged::{Staged, is_stageable};
use super::{Catalog, check_name, pull};
use crate::table::sharded::{MAX_SHARDS, shard_file, shard_hashes, shard_of_hash};
use crate::table::{Access, Table};
use crate::{Error, ErrorKind, Result};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;

/// How a file is staged.
///
/// ```
/// use firndb::catalog::{Catalog, StageOptions, Staged};
/// use std::path::Path;
///
/// /// Stages a shard, and shows how much is sent.
/// fn stage(catalog: &Catalog, shard: &Path) -> firndb::Result<Staged> {
///     let progress = |done, total| println!("{done} of {total} bytes");
///     catalog.stage("offers", shard, &StageOptions::new().progress(&progress))
/// }
/// ```
#[derive(Default)]
#[non_exhaustive]
pub struct StageOptions<'a> {
    pub(crate) progress: Option<&'a dyn Fn(u64, u64)>,
}

impl<'a> StageOptions<'a> {
    /// The default options.
    pub fn new() -> StageOptions<'a> {
        StageOptions::default()
    }

    /// Calls `progress` repeatedly with the bytes sent so far and the bytes to send in total.
    pub fn progress(mut self, progress: &'a dyn Fn(u64, u64)) -> Self {
        self.progress = Some(progress);
        self
    }
}

/// See [`Catalog::stage`].
pub(super) fn stage(
    catalog: &Catalog,
    name: &str,
    path: &Path,
    options: &StageOptions<'_>,
) -> Result<Staged> {
    check_name(name)?;
    let mut attempt = 0;
    loop {
        attempt += 1;
        let source = source::examine(&catalog.disk, path)?;
        match stage_source(catalog, name, &source, options) {
            // The file was replaced meanwhile.
            Err(e)
                if e.kind() == ErrorKind::NotFound
                    && attempt < ATTEMPTS
                    && source.files.iter().any(|file| e.file() == Some(&file.path)) => {}
            done => return done.map_err(|e| e.in_file(path)),
        }
    }
}

fn stage_source(
    catalog: &Catalog,
    name: &str,
    source: &Source,
    options: &StageOptions<'_>,
) -> Result<Staged> {
    let ([file], true) = (&source.files[..], is_stageable(source.kind)) else {
        return Err(Error::invalid(format!(
            "this is a {}; files of tables can be staged, one by one: publish a collection, or the \
             directory of a sharded table, from one machine",
            source.kind.name()
        )));
    };
    let blake3 = file.hash_checked(&catalog.disk)?;
    let hashes = match source.kind {
        VersionKind::Table => {
            let table = Table::open_on(&catalog.disk, &file.path, Access::Map)?;
            file.check_content(table.reader.file.content())?;
            shard_hashes(&table)?
        }
        _ => None,
    };
    let object = staged_object(name, u64::try_from(now()).unwrap_or(0), &blake3);
    let sent = Cell::new(0);
    let progress = |more| {
        sent.set(sent.get() + more);
        options.progress.iter().for_each(|progress| progress(sent.get(), file.bytes));
    };
    let content = Content::File { path: &file.path, bytes: file.bytes, blake3: &blake3 };
    catalog.origin.store(&[(object.clone(), content)], &progress)?;
    Ok(Staged {
        name: name.to_string(),
        object,
        kind: source.kind,
        schema: source.schema.clone(),
        statistics: source.statistics.clone(),
        shard_hashes: hashes,
        file: VersionFile {
            name: file.name.clone(),
            bytes: file.bytes,
            content: format!("{:032x}", file.content),
            blake3,
            since: 0,
        },
    })
}

/// See [`Catalog::publish_staged`].
pub(super) fn publish_staged(
    catalog: &Catalog,
    name: &str,
    staged: &[Staged],
    options: &PublishOptions<'_>,
) -> Result<Published> {
    check_name(name)?;
    check_labels(&options.labels)?;
    check_list(name, staged)?;
    let parent = find_parent(catalog, name)?;
    let mut version = next_version(name, parent.as_ref(), &options.labels);
    (version.kind, version.schema) = (kind_of(staged), staged[0].schema.clone());
    version.statistics = statistics(staged)?;
    version.files = files(staged, version.number);
    let parent_files = ParentFiles::of(parent.as_ref());
    let known: Vec<_> = version.files.iter().map(|file| parent_files.by_hash(file)).collect();
    let stored = check_stored(catalog, parent.as_ref(), &known, options.verify)?;
    // By object, because two shards may be equal: empty ones.
    let (mut new, mut files_repaired) = (BTreeMap::<String, &Staged>::new(), 0);
    for ((file, staged), stored) in version.files.iter_mut().zip(staged).zip(&stored) {
        if let Stored::Intact(known) = stored {
            file.since = known.since;
            continue;
        }
        files_repaired += u64::from(matches!(stored, Stored::Damaged));
        if let Some(equal) = new.insert(file_object(name, file), staged)
            && (equal.bytes(), &equal.file.content) != (staged.bytes(), &staged.file.content)
        {
            let message = format!("two staged files of one BLAKE3 differ: {}", file.blake3);
            return Err(Error::invalid(message));
        }
    }
    put_in_place(catalog, &new, options.verify)?;
    Ok(Published { files_repaired, ..commit(catalog, version)? })
}

/// Checks that a list of staged files makes up a table or a sharded table.
fn check_list(name: &str, staged: &[Staged]) -> Result<()> {
    let shards = staged.len();
    if !(1..=MAX_SHARDS).contains(&shards) {
        let message = format!("{shards} staged files; a version has 1 to {MAX_SHARDS}");
        return Err(Error::invalid(message));
    }
    for (shard, one) in staged.iter().enumerate() {
        let refuse = |why: String| {
            let file = one.file_name();
            Err(Error::invalid(format!("staged file {shard} (`{file}`): {why}")))
        };
        if one.name != name {
            return refuse(format!("it was staged for `{}`, not for `{name}`", one.name));
        }
        if shards == 1 {
            break;
        }
        if one.kind != VersionKind::Table {
            return refuse(format!("a shard is a table, not a file of kind {}", one.kind.name()));
        }
        if one.schema != staged[0].schema {
            return refuse("its value schema differs from the one of the first".to_string());
        }
        let Some((least, greatest)) = one.shard_hashes else { continue };
        let [least, greatest] = [least, greatest].map(|hash| shard_of_hash(hash, shards));
        if (least, greatest) != (shard, shard) {
            return refuse(format!(
                "its keys belong to shards {least} to {greatest} of {shards}, and its position in \
                 the list makes it shard {shard}"
            ));
        }
    }
    Ok(())
}

fn kind_of(staged: &[Staged]) -> VersionKind {
    if staged.len() == 1 { staged[0].kind } else { VersionKind::ShardedTable }
}

/// The statistics of a table, or the sums of those of shards.
fn statistics(staged: &[Staged]) -> Result<BTreeMap<String, u64>> {
    if let [one] = staged {
        return Ok(one.statistics.clone());
    }
    let mut sums = BTreeMap::from([("shards".to_string(), staged.len() as u64)]);
    for name in source::SHARD_STATISTICS {
        let values = staged.iter().map(|one| one.statistics.get(name).copied().unwrap_or(0));
        let sum = values.into_iter().try_fold(0u64, u64::checked_add);
        let sum = sum.ok_or_else(|| Error::invalid(format!("the sum of `{name}` overflows")))?;
        sums.insert(name.to_string(), sum);
    }
    Ok(sums)
}

/// The files of a version, as if all of them were stored for it.
fn files(staged: &[Staged], number: u64) -> Vec<VersionFile> {
    let file = |(shard, one): (usize, &Staged)| {
        let name = if staged.len() == 1 { one.file.name.clone() } else { shard_file(shard) };
        VersionFile { name, since: number, ..one.file.clone() }
    };
    staged.iter().enumerate().map(file).collect()
}

/// Copies staged files to objects of the next version, within the catalog.
fn put_in_place(catalog: &Catalog, files: &BTreeMap<String, &Staged>, verify: bool) -> Result<()> {
    if let Some(missing) = find_missing(catalog, files)? {
        return Err(missing);
    }
    if verify {
        for staged in files.values() {
            pull::verify_object(catalog, &staged.object, staged.bytes(), staged.blake3())?;
        }
    }
    let content =
        |staged: &Staged| Content::Object { from: staged.object.clone(), bytes: staged.bytes() };
    let objects: Vec<(String, Content<'_>)> =
        files.iter().map(|(object, staged)| (object.clone(), content(staged))).collect();
    catalog.origin.store(&objects, &|_| ()).or_else(|e| match e.kind() {
        // A clean-up has removed it since.
        ErrorKind::NotFound => Err(find_missing(catalog, files)?.unwrap_or(e)),
        _ => Err(e),
    })
}

/// The error about the first of these staged objects that the catalog does not have.
fn find_missing(catalog: &Catalog, files: &BTreeMap<String, &Staged>) -> Result<Option<Error>> {
    let objects = files.values().map(|staged| (staged.object.clone(), staged.bytes()));
    let are_intact = catalog.origin.are_intact(&objects.collect::<Vec<_>>())?;
    let missing = files.values().zip(are_intact).find(|(_, is_intact)| !is_intact);
    Ok(missing.map(|(staged, _)| {
        let message = "the staged file is missing or truncated, perhaps because a clean-up has \
                       removed it; nothing was published: stage it again";
        Error::new(ErrorKind::NotFound, message).in_file(staged.object.as_ref())
    }))
}

/// The staged objects of a name with the times of their staging, in microseconds since 1970.
pub(super) fn staged_objects(catalog: &Catalog, name: &str) -> Result<Vec<(String, i64)>> {
    let dir = staged_dir(name);
    let listed = catalog.origin.list(&dir)?;
    let object = |last: &String| {
        let time = i64::try_from(file_number(last)?).unwrap_or(i64::MAX);
        Some((format!("{dir}/{last}"), time))
    };
    Ok(listed.iter().filter_map(object).collect())
}
