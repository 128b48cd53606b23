//! Uploads files to an object store: several concurrently, large ones in parts.
//!
//! The number of pieces in memory and in transit is bounded, whatever the number and size of the
//! files. If one file fails, no new piece is started, and multipart uploads are aborted. After a
//! crash their parts remain in the store, invisible, until the bucket's rule for incomplete uploads
//! removes them.
//!
//! Files are hashed while they are sent. A file that was replaced or modified since it was examined
//! does not become an object.

use crate::failure;
use bytes::Bytes;
use firndb::{Error, ErrorKind, Result};
use futures_util::stream::{self, FuturesUnordered, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use tokio::sync::Semaphore;

/// Bytes per piece; S3 requires at least 5 MiB.
const PIECE: u64 = 8 << 20;

/// Most pieces per upload; the limit of S3.
const MAX_PIECES: u64 = 10_000;

/// Pieces in transit concurrently.
const AT_ONCE: usize = 8;

/// Longest object that S3 copies in one call.
const MAX_COPY: u64 = 5 << 30;

/// An object to create.
pub(crate) struct Upload {
    pub(crate) to: Path,
    /// Its name in errors.
    pub(crate) named: String,
    pub(crate) from: MadeOf,
}

/// The source of an object.
pub(crate) enum MadeOf {
    /// A file, its length and its BLAKE3.
    File(PathBuf, u64, String),
    /// Another object of the store, its name in errors, and its length.
    Object(Path, String, u64),
}

/// An event reported to the caller.
pub(crate) enum Said {
    /// This many more bytes are stored.
    Stored(u64),
    Done(Result<()>),
}

/// State shared by all uploads of a call.
struct Work {
    store: Arc<dyn ObjectStore>,
    slots: Arc<Semaphore>,
    /// The first error. After it nothing new is started.
    failed: Mutex<Option<Error>>,
    said: mpsc::Sender<Said>,
}

/// Creates all objects, or returns the first error.
pub(crate) async fn all(
    store: Arc<dyn ObjectStore>,
    uploads: Vec<Upload>,
    said: mpsc::Sender<Said>,
) -> Result<()> {
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    let work = &Work { store, slots, failed: Mutex::new(None), said };
    let each = uploads.into_iter().map(|upload| async move {
        if let Err(error) = work.one(&upload).await {
            work.failed().get_or_insert(error);
        }
    });
    stream::iter(each).buffer_unordered(AT_ONCE).collect::<()>().await;
    let failed = work.failed().take();
    failed.map_or(Ok(()), Err)
}

impl Work {
    async fn one(&self, upload: &Upload) -> Result<()> {
        self.go_on()?;
        let there = self.store.head(&upload.to).await;
        match &upload.from {
            // Stored by an earlier attempt, or by another publisher of the same file.
            MadeOf::File(_, bytes, _) if there.is_ok_and(|meta| meta.size == *bytes) => {
                self.tell(*bytes);
                Ok(())
            }
            MadeOf::File(file, bytes, blake3) => {
                let source = Source::file(file, blake3).await?;
                self.send(upload, &source, *bytes).await
            }
            MadeOf::Object(from, named, bytes) => {
                let meta = self.store.head(from).await;
                let found = meta.map_err(|e| failure::of_store(e, named))?.size;
                if found != *bytes {
                    let message = format!("the object has {found} bytes, and should have {bytes}");
                    return Err(Error::corrupt(message).in_file(named.as_ref()));
                }
                if found > MAX_COPY {
                    let source = Source::Object(self.store.clone(), from.clone(), named.clone());
                    return self.send(upload, &source, found).await;
                }
                let copied = self.store.copy(from, &upload.to).await;
                copied.map_err(|e| failure::of_store(e, named))
            }
        }
    }

    fn failed(&self) -> MutexGuard<'_, Option<Error>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An error that is not reported, because another upload has already failed.
    fn go_on(&self) -> Result<()> {
        match *self.failed() {
            Some(_) => Err(Error::new(ErrorKind::Io, "another file could not be sent")),
            None => Ok(()),
        }
    }

    fn tell(&self, bytes: u64) {
        let _ = self.said.send(Said::Stored(bytes));
    }

    async fn send(&self, upload: &Upload, source: &Source, bytes: u64) -> Result<()> {
        let error = |e| failure::of_store(e, &upload.named);
        if bytes <= PIECE {
            let _slot = self.slots.acquire().await;
            let content = source.read(0, bytes).await?;
            source.check(blake3::Hasher::new().update(&content))?;
            self.store.put(&upload.to, content.into()).await.map_err(error)?;
            self.tell(bytes);
            return Ok(());
        }
        let mut parts = self.store.put_multipart(&upload.to).await.map_err(error)?;
        let mut hash = blake3::Hasher::new();
        let sent = self.send_parts(&mut *parts, upload, source, bytes, &mut hash).await;
        match sent.and_then(|()| source.check(&hash)) {
            Ok(()) => parts.complete().await.map(drop).map_err(error),
            Err(e) => {
                // Best effort: the bucket's rule for incomplete uploads does the same later.
                let _ = parts.abort().await;
                Err(e)
            }
        }
    }

    async fn send_parts(
        &self,
        parts: &mut dyn MultipartUpload,
        upload: &Upload,
        source: &Source,
        bytes: u64,
        hash: &mut blake3::Hasher,
    ) -> Result<()> {
        let piece = PIECE.max(bytes.div_ceil(MAX_PIECES));
        let mut on_the_way = FuturesUnordered::new();
        let mut at = 0;
        while at < bytes {
            let len = piece.min(bytes - at);
            let slot = loop {
                // All slots may be held by the parts of this very file.
                match self.slots.clone().try_acquire_owned() {
                    Ok(slot) => break Some(slot),
                    Err(_) if on_the_way.is_empty() => {
                        break self.slots.clone().acquire_owned().await.ok();
                    }
                    Err(_) => drop(on_the_way.try_next().await?),
                }
            };
            self.go_on()?;
            let content = source.read(at, len).await?;
            hash.update(&content);
            let put = parts.put_part(content.into());
            let named = upload.named.clone();
            on_the_way.push(async move {
                let _slot = slot;
                put.await.map_err(|e| failure::of_store(e, &named))?;
                self.tell(len);
                Ok::<(), Error>(())
            });
            at += len;
        }
        while on_the_way.try_next().await?.is_some() {}
        Ok(())
    }
}

/// The source of bytes that can be read repeatedly.
enum Source {
    /// A file, its path, and the expected BLAKE3.
    File(Arc<std::fs::File>, PathBuf, String),
    Object(Arc<dyn ObjectStore>, Path, String),
}

impl Source {
    async fn file(path: &std::path::Path, blake3: &str) -> Result<Source> {
        let owned = path.to_path_buf();
        let open = move || {
            // Opening a pipe would block until it has a writer.
            match std::fs::metadata(&owned)?.is_file() {
                true => std::fs::File::open(owned),
                false => Err(std::io::Error::other("it is not a regular file")),
            }
        };
        let opened = tokio::task::spawn_blocking(open).await;
        let file = opened.map_err(|e| failed_task(&e))?;
        let file = file.map_err(|e| Error::io("open the file", path, e))?;
        Ok(Source::File(Arc::new(file), path.to_path_buf(), blake3.to_string()))
    }

    /// An error if the bytes that were read are not the ones to send.
    fn check(&self, hash: &blake3::Hasher) -> Result<()> {
        match self {
            Source::File(_, path, blake3) if *hash.finalize().to_hex() != **blake3 => {
                let message = "the file was replaced or changed while it was being published";
                Err(Error::new(ErrorKind::NotFound, message).in_file(path))
            }
            _ => Ok(()),
        }
    }

    async fn read(&self, at: u64, len: u64) -> Result<Bytes> {
        match self {
            Source::File(file, path, _) => {
                let file = file.clone();
                let read = move || {
                    let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
                    file.read_exact_at(&mut bytes, at).map(|()| bytes)
                };
                let read = tokio::task::spawn_blocking(read).await.map_err(|e| failed_task(&e))?;
                read.map(Bytes::from).map_err(|e| Error::io("read the file", path, e))
            }
            Source::Object(store, path, named) => {
                let read = store.get_range(path, at..at + len).await;
                read.map_err(|e| failure::of_store(e, named))
            }
        }
    }
}

fn failed_task(error: &dyn std::error::Error) -> Error {
    Error::new(ErrorKind::Io, format!("a thread that was reading died: {error}"))
}
