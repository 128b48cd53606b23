//! HDFS as a store of objects: the client of the crate `hdfs-native-object-store`, and what a
//! catalog needs beyond it.
//!
//! The client writes a file beside its name and renames it when it is whole, with or without leave
//! to replace: so puts are atomic, and of two creates one wins. But it waits for ever for a server
//! that says nothing, and its copies grow under their final names. Here every step has a time,
//! after which the connections are given up, and copies come into being whole.

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

/// A file system of HDFS. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Hdfs(Arc<Shared>);

struct Shared {
    /// `hdfs://` and a host with its port, or the name of a service in Hadoop's configuration.
    url: String,
    handle: Handle,
    /// The longest time for one step.
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
    /// The file system of a name node, `HOST:PORT`, or of a name service. Nothing is asked of it
    /// yet; `handle` is where its connections live.
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

    /// The outcome of one step.
    async fn step<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        match tokio::time::timeout(self.0.limit, work).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.late()),
        }
    }

    /// Each item in its time.
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

    /// The error of a step that took too long. A connection over which nothing comes any more looks
    /// alive to the client, so it gets new ones.
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
            let _ = parts.abort().await; // Best effort: what stays is swept later.
        }
        copied
    }
}

/// An upload whose steps have their times.
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
