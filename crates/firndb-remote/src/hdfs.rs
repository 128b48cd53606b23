//! HDFS as an object store: wraps the client of the crate `hdfs-native-object-store` and adds what
//! a catalog needs.
//!
//! The client writes a file under a temporary name and renames it once it is complete, with or
//! without replacing an existing file. Hence puts are atomic, and exactly one of two concurrent
//! creates succeeds. But the client waits indefinitely for an unresponsive server, and its copies
//! grow under their final names. This wrapper limits the duration of every step, abandons the
//! connections after a timeout, and makes copies atomic.

use crate::failure;
use crate::store::Patience;
use firndb::Error;
use futures_util::stream::{self, BoxStream, StreamExt};
use hdfs_native_object_store::{HdfsObjectStore, HdfsObjectStoreBuilder};
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
    UploadPart,
};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;

/// An HDFS file system. Clones refer to the same one.
#[derive(Clone)]
pub(crate) struct Hdfs(Arc<Shared>);

struct Shared {
    /// `hdfs://` and a host with its port, or the name of a service in the Hadoop configuration.
    url: String,
    handle: Handle,
    /// Longest duration of one step.
    limit: Duration,
    client: Mutex<Arc<HdfsObjectStore>>,
}

impl fmt::Debug for Hdfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hdfs").field(&self.0.url).finish()
    }
}

impl fmt::Display for Hdfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.url)
    }
}

impl Hdfs {
    /// Opens the file system of a name node, `HOST:PORT`, or of a name service. Does not contact it
    /// yet. Connections run on `handle`.
    pub(crate) fn new(server: &str, handle: Handle, patience: Patience) -> firndb::Result<Hdfs> {
        let url = format!("hdfs://{server}");
        let client = connect(&url, &handle).map_err(|e| {
            let message = format!(
                "{}; write hdfs://HOST:PORT/PREFIX, or set HADOOP_CONF_DIR to where hdfs-site.xml \
                 tells of this service",
                failure::root(&e)
            );
            Error::invalid(message).in_file(url.as_ref())
        })?;
        let client = Mutex::new(Arc::new(client));
        Ok(Hdfs(Arc::new(Shared { url, handle, limit: patience.request, client })))
    }

    fn client(&self) -> Arc<HdfsObjectStore> {
        self.0.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs one step with the time limit.
    async fn step<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        match tokio::time::timeout(self.0.limit, work).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.late()),
        }
    }

    /// Applies the time limit to each item of a stream.
    fn steps<T: Send + 'static>(
        &self,
        items: BoxStream<'static, Result<T>>,
    ) -> BoxStream<'static, Result<T>> {
        let next = |(mut items, hdfs): (BoxStream<'static, Result<T>>, Hdfs)| async move {
            match tokio::time::timeout(hdfs.0.limit, items.next()).await {
                Ok(item) => item.map(|item| (item, (items, hdfs))),
                Err(_) => Some((Err(hdfs.late()), (stream::empty().boxed(), hdfs))),
            }
        };
        stream::unfold((items, self.clone()), next).boxed()
    }

    /// The error of a step that exceeded the limit. The client considers a silent connection alive,
    /// so it is given new connections.
    fn late(&self) -> object_store::Error {
        if let Ok(client) = connect(&self.0.url, &self.0.handle) {
            *self.0.client.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(client);
        }
        let source = format!("no answer within {:?}", self.0.limit).into();
        object_store::Error::Generic { store: "HDFS", source }
    }
}

fn connect(url: &str, handle: &Handle) -> Result<HdfsObjectStore> {
    HdfsObjectStoreBuilder::new().with_url(url).with_io_runtime(handle.clone()).build()
}

#[async_trait::async_trait]
impl ObjectStore for Hdfs {
    async fn put_opts(&self, to: &Path, bytes: PutPayload, how: PutOptions) -> Result<PutResult> {
        self.step(self.client().put_opts(to, bytes, how)).await
    }

    async fn put_multipart_opts(
        &self,
        to: &Path,
        how: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let parts = self.step(self.client().put_multipart_opts(to, how)).await?;
        Ok(Box::new(Parts { parts, hdfs: self.clone() }))
    }

    async fn get_opts(&self, from: &Path, what: GetOptions) -> Result<GetResult> {
        let mut got = self.step(self.client().get_opts(from, what)).await?;
        got.payload = match got.payload {
            GetResultPayload::Stream(pieces) => GetResultPayload::Stream(self.steps(pieces)),
            other => other,
        };
        Ok(got)
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.steps(self.client().delete_stream(paths))
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.steps(self.client().list(prefix))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.step(self.client().list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, how: CopyOptions) -> Result<()> {
        if how.mode != CopyMode::Overwrite {
            return Err(object_store::Error::NotImplemented {
                operation: "a copy that replaces nothing".to_string(),
                implementer: self.to_string(),
            });
        }
        let mut pieces = self.get_opts(from, GetOptions::default()).await?.into_stream();
        let mut parts = self.put_multipart_opts(to, PutMultipartOptions::default()).await?;
        let copied = async {
            while let Some(piece) = pieces.next().await {
                parts.put_part(piece?.into()).await?;
            }
            parts.complete().await.map(drop)
        };
        let copied = copied.await;
        if copied.is_err() {
            let _ = parts.abort().await; // Best effort: `sweep` removes what remains.
        }
        copied
    }
}

/// An upload whose steps have the time limit.
#[derive(Debug)]
struct Parts {
    parts: Box<dyn MultipartUpload>,
    hdfs: Hdfs,
}

#[async_trait::async_trait]
impl MultipartUpload for Parts {
    fn put_part(&mut self, bytes: PutPayload) -> UploadPart {
        let (put, hdfs) = (self.parts.put_part(bytes), self.hdfs.clone());
        Box::pin(async move { hdfs.step(put).await })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.hdfs.step(self.parts.complete()).await
    }

    async fn abort(&mut self) -> Result<()> {
        self.hdfs.step(self.parts.abort()).await
    }
}
