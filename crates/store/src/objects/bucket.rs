//! A bucket of an object store as a storage: Amazon S3 and servers like it, Google, Azure.
//!
//! An object is created with the condition that its key has none. A request can end without an answer, or with the
//! error of a server on the way: then it is not known whether the object was created. A proxy on the way may also
//! repeat the request, and return the answer to the second one. So an object with the same bytes is taken for one's
//! own.
//!
//! Several servers accept the condition and ignore it, always or when creations of one key come together: see
//! [`BucketStorage::probe`]. Credentials and addresses come from the environment, under the names that other programs
//! use.

mod client;
mod failure;
mod probe;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{
    Error, GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode,
    PutOptions, RetryConfig,
};

use self::client::ClientConnector;
pub(super) use self::failure::is_refusal;
use self::failure::{failure, is_passing};
use super::address::{Bucket, Service};
use super::lock::OpenError;
use super::patience::StoragePatience;
use super::{FaultKind, Key, LISTED_MAX, Operation, Storage, StorageError, StorageProblem, listed};

const PATIENCE: Duration = Duration::from_mins(10);
/// How long a request may take: a part of the largest size needs 2 MB/s.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(2);
const REMOVALS_MAX: usize = 16;

#[derive(Clone, Debug)]
pub(super) struct BucketStorage {
    store: Arc<dyn ObjectStore>,
    bucket: Bucket,
    patience: Arc<StoragePatience>,
}

impl Bucket {
    /// Takes addresses and credentials from the environment, and sends nothing yet. Requests are repeated for
    /// `patience`, or for ten minutes. Fails with [`OpenError::Bucket`] if the environment contradicts itself.
    pub fn open(&self, patience: Option<Duration>) -> Result<Arc<dyn Storage>, OpenError> {
        let storage = BucketStorage::open(self)?;
        Ok(Arc::new(
            storage.with_patience(patience.unwrap_or(PATIENCE)),
        ))
    }

    /// Opens the bucket for a coordinator, and makes sure that it is fit for a job's data, and if it `has_journal`, for
    /// the journal too: see [`BucketStorage::probe`]. The error says what to do.
    pub async fn open_for_job(&self, has_journal: bool) -> Result<Arc<dyn Storage>, OpenError> {
        let storage = BucketStorage::open(self)?;
        storage.probe(has_journal).await?;
        Ok(Arc::new(storage))
    }
}

impl BucketStorage {
    /// Addresses and credentials come from the environment: for S3 `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
    /// `AWS_REGION`, `AWS_ENDPOINT_URL` and so on, or those of the machine or container it runs on; for Google
    /// `GOOGLE_…`, for Azure `AZURE_STORAGE_…`. Sends nothing yet.
    pub(crate) fn open(bucket: &Bucket) -> Result<BucketStorage, OpenError> {
        let usual = || ClientConnector::new(None, REQUEST_TIMEOUT);
        match bucket.service {
            Service::S3 => BucketStorage::s3(bucket, AmazonS3Builder::from_env(), REQUEST_TIMEOUT),
            Service::Google => BucketStorage::with(bucket, || {
                let builder = GoogleCloudStorageBuilder::from_env();
                let builder = builder.with_bucket_name(&bucket.name).with_retry(once());
                builder.with_http_connector(usual()).build()
            }),
            Service::Azure => BucketStorage::with(bucket, || {
                let builder = MicrosoftAzureBuilder::from_env();
                let builder = builder.with_container_name(&bucket.name).with_retry(once());
                builder.with_http_connector(usual()).build()
            }),
        }
    }

    fn s3(
        bucket: &Bucket,
        mut builder: AmazonS3Builder,
        timeout: Duration,
    ) -> Result<BucketStorage, OpenError> {
        use AmazonS3ConfigKey::{DisableBulkDelete, Endpoint, S3Endpoint};
        let endpoints = [S3Endpoint, Endpoint].map(|key| builder.get_config_value(&key));
        let endpoints: Vec<&str> = endpoints.iter().flatten().map(String::as_str).collect();
        let connector = ClientConnector::new(endpoints.first().copied(), timeout);
        // An address in the clear was chosen on purpose.
        if endpoints.iter().any(|it| it.starts_with("http://")) {
            builder = builder.with_allow_http(true);
        }
        builder = builder
            .with_http_connector(connector)
            // Objects are removed one by one: not all servers know the request that removes many.
            .with_config(DisableBulkDelete, "true")
            .with_bucket_name(&bucket.name)
            .with_retry(once());
        BucketStorage::with(bucket, || builder.build())
    }

    fn with<S: ObjectStore>(
        bucket: &Bucket,
        build: impl FnOnce() -> Result<S, Error>,
    ) -> Result<BucketStorage, OpenError> {
        // Fails if the process has a provider already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let store = build().map_err(|source| {
            let what = "the settings in the environment are wrong";
            OpenError::bucket(bucket, what, Some(source.into()))
        })?;
        let prefix = bucket.prefix.as_ref().map_or("", Key::as_str);
        Ok(BucketStorage {
            store: Arc::new(PrefixStore::new(store, prefix)),
            bucket: bucket.clone(),
            patience: Arc::new(StoragePatience::new(bucket.to_string(), PATIENCE)),
        })
    }

    pub(crate) fn with_patience(self, patience: Duration) -> BucketStorage {
        let patience = Arc::new(StoragePatience::new(self.bucket.to_string(), patience));
        BucketStorage { patience, ..self }
    }

    async fn put(&self, path: &Path, bytes: Bytes) -> Result<(), Error> {
        let options = PutOptions::from(PutMode::Create);
        let put = self.store.put_opts(path, bytes.into(), options).await;
        put.map(drop)
    }

    async fn get_range(&self, path: &Path, range: &Range<u64>) -> Result<Bytes, Error> {
        if range.is_empty() {
            return self.store.head(path).await.map(|_| Bytes::new());
        }
        let most = range.end - range.start;
        // Some servers take no number of more than 63 bits.
        let range = match range.end {
            end if end > i64::MAX as u64 => GetRange::Offset(range.start),
            _ => GetRange::Bounded(range.clone()),
        };
        let options = GetOptions::default().with_range(Some(range));
        take(self.store.get_opts(path, options).await?, most).await
    }

    async fn get(&self, path: &Path, range: &Range<u64>) -> Result<Bytes, Error> {
        let got = self.get_range(path, range).await;
        match got {
            // The reason may be that the object ends before the range.
            Err(error) if is_passing(&error) => match self.store.head(path).await {
                Ok(there) if there.size <= range.start => Ok(Bytes::new()),
                _ => Err(error),
            },
            got => got,
        }
    }

    async fn delete_one(&self, key: &Key) -> Result<(), StorageError> {
        let path = path(key);
        let delete = || async {
            match self.store.delete(&path).await {
                Err(Error::NotFound { .. }) => Ok(()),
                done => done,
            }
        };
        self.retry(key, Operation::Delete, delete).await
    }

    /// Repeats a request until the server answers it, or patience ends.
    async fn retry<T, F: Future<Output = Result<T, Error>>>(
        &self,
        key: &Key,
        action: Operation,
        request: impl Fn() -> F,
    ) -> Result<T, StorageError> {
        let attempt = || async {
            let done = request().await;
            done.map_err(|error| failure(key, action, error))
        };
        self.patience.keep_trying(attempt).await
    }

    async fn create_once(&self, key: &Key, bytes: Bytes) -> Result<(), StorageError> {
        let path = path(key);
        let error = match self.put(&path, bytes.clone()).await {
            Ok(()) => return Ok(()),
            Err(error) => failure(key, Operation::Create, error),
        };
        if error.problem != StorageProblem::AlreadyExists {
            return Err(error);
        }
        match self.get(&path, &(0..bytes.len() as u64 + 1)).await {
            Ok(there) if there == bytes => Ok(()),
            Ok(_) => Err(error),
            // The server may have refused this creation because of another one, which failed afterwards.
            Err(Error::NotFound { .. }) => Err(StorageError {
                problem: FaultKind::Passing.into(),
                ..error
            }),
            Err(unread) => Err(failure(key, Operation::Create, unread)),
        }
    }

    /// The objects in a folder, up to one more than [`LISTED_MAX`]. Objects whose names are no keys are left out.
    async fn list_once(&self, prefix: &Path) -> Result<Vec<(Key, u64)>, Error> {
        let object = async |meta: ObjectMeta| {
            let key = Key::new(meta.location.as_ref()).ok();
            Ok(key.map(|key| (key, meta.size)))
        };
        let objects = self.store.list(Some(prefix)).try_filter_map(object);
        objects.take(LISTED_MAX + 1).try_collect().await
    }
}

/// The client repeats no request: only [`BucketStorage`] does, which can find out whether a creation took place.
fn once() -> RetryConfig {
    RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    }
}

#[async_trait]
impl Storage for BucketStorage {
    async fn create(&self, key: &Key, bytes: Bytes) -> Result<(), StorageError> {
        let attempt = || self.create_once(key, bytes.clone());
        self.patience.keep_trying(attempt).await
    }

    async fn read_at(&self, key: &Key, range: Range<u64>) -> Result<Bytes, StorageError> {
        let path = path(key);
        self.retry(key, Operation::Read, || self.get(&path, &range))
            .await
    }

    async fn list(&self, prefix: &Key) -> Result<Vec<(Key, u64)>, StorageError> {
        let path = path(prefix);
        let list = || self.list_once(&path);
        listed(prefix, self.retry(prefix, Operation::List, list).await?)
    }

    fn waits_for(&self) -> Option<String> {
        self.patience.outages.current()
    }

    async fn delete(&self, keys: &[Key]) -> Result<(), StorageError> {
        let removals: Vec<_> = keys.iter().map(|key| self.delete_one(key)).collect();
        let removals = futures_util::stream::iter(removals).buffer_unordered(REMOVALS_MAX);
        removals.try_collect().await
    }
}

fn path(key: &Key) -> Path {
    Path::from(key.as_str())
}

/// The bytes of an answer; fails as soon as they are more than `most`, whatever length the server announced.
async fn take(answer: GetResult, most: u64) -> Result<Bytes, Error> {
    let mut pieces = answer.into_stream();
    let mut bytes = BytesMut::new();
    while let Some(piece) = pieces.next().await {
        bytes.extend_from_slice(&piece?);
        if bytes.len() as u64 > most {
            let what = format!("the answer has more than the {most} bytes that were asked for");
            return Err(Error::Generic {
                store: "bucket",
                source: what.into(),
            });
        }
    }
    Ok(bytes.freeze())
}

#[cfg(test)]
mod tests;
