//! A catalog in an object store.
//!
//! Objects are created by one put or by a multipart upload: they exist as a whole or not at all,
//! and are durable once the store has responded. Objects that must not be replaced are put with
//! `If-None-Match: *`, the one condition that all stores implement; there is no compare-and-swap.
//! Files are put without a condition: their names are derived from their content, so a second put
//! of the same name stores the same bytes.
//!
//! HDFS files, however, grow while they are written. They are written under names that begin with a
//! dot and end in `.tmp` and a number, and are renamed when complete. `sweep` removes those of
//! crashed writers.

use crate::failure;
#[cfg(feature = "hdfs")]
use crate::hdfs::Hdfs;
use crate::runtime::{Runtime, died};
use crate::upload::{self, MadeOf, Upload};
use firndb::catalog::{Content, Origin};
use firndb::{Error, Result, redact_url};
use futures_util::StreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::{
    ClientOptions, GetOptions, GetRange, ListResult, ObjectStore, ObjectStoreExt, PutMode,
    RetryConfig,
};
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::sync::{Arc, mpsc};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Age at which a temporary file counts as abandoned. If its writer is still active after all, or a
/// clock is wrong, that publication fails; nothing is damaged.
const LEFT: Duration = Duration::from_secs(24 * 3600);

/// Attempts to create an object when the store reports a conflict but the object does not exist.
const ATTEMPTS: usize = 5;

/// Time limits and retries for an object store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Longest time to establish a connection.
    pub connect: Duration,
    /// Longest time for one request and its response, each of at most a few MiB.
    pub request: Duration,
    /// Retries of a request after a failure that may be temporary.
    pub retries: usize,
}

impl Default for Patience {
    fn default() -> Patience {
        let (connect, request) = (Duration::from_secs(5), Duration::from_secs(60));
        Patience { connect, request, retries: 4 }
    }
}

/// A catalog in an object store, below a prefix.
#[derive(Debug)]
pub struct ObjectOrigin {
    store: Arc<dyn ObjectStore>,
    prefix: String,
    /// The location for messages, without a trailing slash.
    place: String,
    runtime: Runtime,
    /// Whether the store lists incomplete objects under temporary names.
    has_temporaries: bool,
}

impl ObjectOrigin {
    /// Opens the objects of an S3 bucket whose names begin with `prefix`. Endpoint, region,
    /// credentials and all other settings come from the environment: `AWS_ENDPOINT_URL`,
    /// `AWS_REGION`, `AWS_ACCESS_KEY_ID` and so on. Does not contact the store yet.
    pub fn s3(bucket: &str, prefix: &str, patience: Patience) -> Result<ObjectOrigin> {
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self::s3_with(std::env::vars_os().filter_map(text), bucket, prefix, patience)
    }

    /// [`ObjectOrigin::s3`] with these variables instead of the environment.
    pub fn s3_with(
        variables: impl IntoIterator<Item = (String, String)>,
        bucket: &str,
        prefix: &str,
        patience: Patience,
    ) -> Result<ObjectOrigin> {
        let options = ClientOptions::new()
            .with_connect_timeout(patience.connect)
            .with_timeout(patience.request);
        let retry = RetryConfig {
            max_retries: patience.retries,
            retry_timeout: patience.request.saturating_mul(2),
            ..RetryConfig::default()
        };
        let mut builder = AmazonS3Builder::new().with_client_options(options);
        for (name, value) in variables {
            if name.starts_with("AWS_")
                && let Ok(key) = name.to_ascii_lowercase().parse()
            {
                builder = builder.with_config(key, value);
            }
        }
        let place = format!("s3://{bucket}/{prefix}");
        let store = builder.with_bucket_name(bucket).with_retry(retry).build();
        let store = store.map_err(|e| Error::invalid(failure::root(&e)).in_file(place.as_ref()))?;
        ObjectOrigin::new(Arc::new(store), prefix, &place)
    }

    /// Opens the files of HDFS below the folder `/prefix`, through the name node `HOST:PORT` or a
    /// name service of the Hadoop configuration (`HADOOP_CONF_DIR`). Does not contact HDFS yet.
    #[cfg(feature = "hdfs")]
    pub fn hdfs(server: &str, prefix: &str, patience: Patience) -> Result<ObjectOrigin> {
        let runtime = Runtime::new()?;
        let store = Arc::new(Hdfs::new(server, runtime.handle().clone(), patience)?);
        let prefix = prefix.to_string();
        let place = format!("hdfs://{server}/{prefix}").trim_end_matches('/').to_string();
        Ok(ObjectOrigin { store, prefix, place, runtime, has_temporaries: true })
    }

    /// Opens any object store. `place` is its name in errors. The store must support puts that fail
    /// if the object exists (`PutMode::Create`).
    pub fn new(store: Arc<dyn ObjectStore>, prefix: &str, place: &str) -> Result<ObjectOrigin> {
        let (prefix, place) = (prefix.to_string(), redact_url(place.trim_end_matches('/')));
        let runtime = Runtime::new()?;
        Ok(ObjectOrigin { store, prefix, place, runtime, has_temporaries: false })
    }

    fn path(&self, object: &str) -> Path {
        Path::from(format!("{}/{object}", self.prefix))
    }

    /// The name of an object in errors.
    fn named(&self, object: &str) -> String {
        format!("{}/{object}", self.place)
    }

    /// Lists a folder.
    fn look(&self, folder: &str) -> Result<ListResult> {
        self.wait(folder, |store, path| async move { store.list_with_delimiter(Some(&path)).await })
    }

    /// Removes temporary files that were last modified before this time, in seconds since 1970.
    fn sweep_before(&self, folder: &str, time: i64) -> Result<()> {
        let there = self.look(folder)?.objects;
        let left = there.iter().filter(|meta| meta.last_modified.timestamp() < time);
        let names = left.filter_map(|meta| meta.location.filename());
        let names = names.filter(|name| is_hidden(name) && name.contains(".tmp"));
        let left: Vec<String> = names.map(|name| format!("{folder}/{name}")).collect();
        if left.is_empty() { Ok(()) } else { self.remove(&left) }
    }

    /// Waits for calls on the store.
    fn wait<T: Send + 'static, F>(
        &self,
        object: &str,
        call: impl FnOnce(Arc<dyn ObjectStore>, Path) -> F,
    ) -> Result<T>
    where
        F: Future<Output = object_store::Result<T>> + Send + 'static,
    {
        let named = self.named(object);
        let call = call(self.store.clone(), self.path(object));
        self.runtime.wait(async move { call.await.map_err(|e| failure::of_store(e, &named)) })
    }
}

impl Origin for ObjectOrigin {
    fn create(&self, object: &str, bytes: &[u8]) -> Result<()> {
        let bytes = bytes::Bytes::copy_from_slice(bytes);
        self.wait(object, |store, path| async move {
            let mut attempt = 1;
            loop {
                let put = store.put_opts(&path, bytes.clone().into(), PutMode::Create.into()).await;
                match put {
                    // S3 reports a conflict even if the concurrent put fails in the end.
                    Err(object_store::Error::AlreadyExists { .. })
                        if attempt < ATTEMPTS && is_missing(&*store, &path).await => {}
                    done => return done.map(drop),
                }
                attempt += 1;
            }
        })
    }

    fn store(&self, objects: &[(String, Content<'_>)], progress: &dyn Fn(u64)) -> Result<()> {
        let uploads = objects.iter().map(|(object, content)| Upload {
            to: self.path(object),
            named: self.named(object),
            from: match content {
                Content::File { path, bytes, blake3 } => {
                    MadeOf::File(path.to_path_buf(), *bytes, blake3.to_string())
                }
                Content::Object { from, bytes } => {
                    MadeOf::Object(self.path(from), self.named(from), *bytes)
                }
            },
        });
        let (send, said) = mpsc::channel();
        let work = upload::all(self.store.clone(), uploads.collect(), send.clone());
        self.runtime.handle().spawn(async move {
            let outcome = work.await;
            let _ = send.send(upload::Said::Done(outcome));
        });
        for said in said {
            match said {
                upload::Said::Stored(bytes) => progress(bytes),
                upload::Said::Done(outcome) => return outcome,
            }
        }
        Err(died())
    }

    fn hint(&self, object: &str, bytes: &[u8]) -> Result<()> {
        let bytes = bytes::Bytes::copy_from_slice(bytes);
        self.wait(
            object,
            |store, path| async move { store.put(&path, bytes.into()).await.map(drop) },
        )
    }

    fn read(&self, object: &str, offset: u64, len: usize) -> Result<Vec<u8>> {
        if len == 0 {
            return Ok(Vec::new());
        }
        self.wait(object, |store, path| async move {
            let range = GetRange::Bounded(offset..offset.saturating_add(len as u64));
            let options = GetOptions { range: Some(range), ..GetOptions::default() };
            let read = async { store.get_opts(&path, options).await?.bytes().await };
            match read.await {
                Ok(bytes) => Ok(bytes.to_vec()),
                // Stores reject a range that starts at the end of the object.
                Err(e @ object_store::Error::Generic { .. }) => match store.head(&path).await {
                    Ok(meta) if meta.size <= offset => Ok(Vec::new()),
                    _ => Err(e),
                },
                Err(e) => Err(e),
            }
        })
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let objects = self.look(folder)?.objects;
        Ok(sorted(objects.iter().filter_map(|meta| meta.location.filename())))
    }

    fn list_folders(&self, folder: &str) -> Result<Vec<String>> {
        let folders = self.look(folder)?.common_prefixes;
        Ok(sorted(folders.iter().filter_map(Path::filename)))
    }

    fn remove(&self, objects: &[String]) -> Result<()> {
        let paths: Vec<_> = objects.iter().map(|object| Ok(self.path(object))).collect();
        self.wait("", |store, _| async move {
            let paths = futures_util::stream::iter(paths);
            let mut outcomes = store.delete_stream(Box::pin(paths));
            while let Some(outcome) = outcomes.next().await {
                match outcome {
                    Err(object_store::Error::NotFound { .. }) | Ok(_) => {}
                    Err(e) => return Err(e),
                }
            }
            Ok(())
        })
    }

    fn are_intact(&self, objects: &[(String, u64)]) -> Result<Vec<bool>> {
        let folder = |object: &str| object.rsplit_once('/').map_or("", |(dir, _)| dir).to_string();
        let folders: BTreeSet<String> = objects.iter().map(|(object, _)| folder(object)).collect();
        let mut sizes = HashMap::new();
        for folder in folders {
            for meta in self.look(&folder)?.objects {
                sizes.insert(meta.location, meta.size);
            }
        }
        let is_intact = |(object, bytes): &(String, u64)| {
            let path = self.path(object);
            if sizes.get(&path) == Some(bytes) {
                return Ok(true);
            }
            // The list may lag behind.
            let found = self.wait(object, |store, path| async move {
                match store.head(&path).await {
                    Err(object_store::Error::NotFound { .. }) => Ok(None),
                    found => found.map(|meta| Some(meta.size)),
                }
            });
            Ok(found? == Some(*bytes))
        };
        objects.iter().map(is_intact).collect()
    }

    fn sweep(&self, folder: &str) -> Result<()> {
        if !self.has_temporaries {
            return Ok(());
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let before = now.saturating_sub(LEFT).as_secs();
        self.sweep_before(folder, i64::try_from(before).unwrap_or(i64::MAX))
    }
}

async fn is_missing(store: &dyn ObjectStore, path: &Path) -> bool {
    matches!(store.head(path).await, Err(object_store::Error::NotFound { .. }))
}

fn sorted<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> =
        names.filter(|name| !is_hidden(name)).map(str::to_string).collect();
    names.sort_unstable();
    names
}

/// No object of a catalog has such a name.
fn is_hidden(name: &str) -> bool {
    name.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use firndb::catalog::{Catalog, PublishOptions};
    use firndb::table::TableBuilder;
    use object_store::memory::InMemory;

    /// The next publication stores missing or truncated objects again. Objects damaged in place are
    /// stored again by a publication that verifies.
    #[test]
    fn publication_repairs_objects() {
        let dir = std::env::temp_dir().join(format!("firndb-mends-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("words.table");
        let mut table = TableBuilder::create(&path).unwrap();
        table.add(b"key", b"value").unwrap();
        table.finish().unwrap();
        let store = Arc::new(InMemory::new());
        let origin = Arc::new(ObjectOrigin::new(store, "p", "memory://p").unwrap());
        let catalog = Catalog::at(origin.clone());
        let mut version =
            catalog.publish("words", &path, &PublishOptions::default()).unwrap().version;
        for (damage, verify) in [("gone", false), ("cut", false), ("none", false), ("bit", true)] {
            let object = version.object(&version.files[0]);
            let mut bytes = origin.read(&object, 0, 1 << 20).unwrap();
            match damage {
                "gone" => origin.remove(std::slice::from_ref(&object)).unwrap(),
                "cut" => origin.hint(&object, &bytes[1..]).unwrap(),
                "bit" => {
                    bytes[99] ^= 1;
                    origin.hint(&object, &bytes).unwrap();
                }
                _ => {}
            }
            let whole = [(object, bytes.len() as u64)];
            let is_intact = damage == "none" || damage == "bit";
            assert_eq!(origin.are_intact(&whole).unwrap(), [is_intact], "{damage}");
            let options = PublishOptions::new().verify(verify);
            let published = catalog.publish("words", &path, &options).unwrap();
            version = published.version;
            assert_eq!(published.files_repaired, u64::from(damage != "none"), "{damage}");
            catalog.verify(&version, |_| ()).unwrap();
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn temporary_files_are_hidden_and_swept_when_old() {
        let store = Arc::new(InMemory::new());
        let mut origin = ObjectOrigin::new(store, "p", "memory://p").unwrap();
        let names = [".a.tmp.1", ".a.tmp.27", ".note", "b", "b.tmp.1"];
        for name in names {
            origin.create(&format!("n/files/{name}"), b"x").unwrap();
        }
        let all = |origin: &ObjectOrigin| {
            let there = origin.look("n/files").unwrap().objects;
            there.iter().filter_map(|meta| meta.location.filename()).count()
        };
        assert_eq!(origin.list("n/files").unwrap(), ["b", "b.tmp.1"]);
        origin.sweep_before("n/files", i64::MAX).unwrap();
        assert_eq!(all(&origin), 3);
        origin.create("n/files/.a.tmp.1", b"x").unwrap();
        for has_temporaries in [false, true] {
            origin.has_temporaries = has_temporaries;
            origin.sweep("n/files").unwrap();
            origin.sweep("n/nothing").unwrap();
            assert_eq!(all(&origin), 4, "it is still being written");
        }
    }
}
