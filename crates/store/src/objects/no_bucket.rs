//! Buckets in a build without the feature `buckets`: none can be opened.

use std::sync::Arc;
use std::time::Duration;

use super::address::Bucket;
use super::{Cause, OpenError, Storage};

const WITHOUT: &str = "this program was built without buckets; \
                       `cargo install --path cli --profile dist --features full` builds it with them";

impl Bucket {
    /// Always fails: see the build with the feature.
    pub fn open(&self, _patience: Option<Duration>) -> Result<Arc<dyn Storage>, OpenError> {
        Err(OpenError::bucket(self, WITHOUT, None))
    }

    /// Always fails: see the build with the feature.
    #[expect(
        clippy::unused_async,
        reason = "with the feature it waits for the server"
    )]
    pub async fn open_for_job(&self, _has_journal: bool) -> Result<Arc<dyn Storage>, OpenError> {
        Err(OpenError::bucket(self, WITHOUT, None))
    }
}

/// No failure comes from a bucket.
pub(super) fn is_refusal(_: &Cause) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use crate::location::StoreLocation;

    #[tokio::test]
    async fn without_buckets_one_is_refused_with_the_command_that_builds_them_in() {
        let bucket = StoreLocation::parse("s3://bucket/tables").unwrap();
        for refused in [bucket.open_view(), bucket.open(None).await] {
            let refused = refused.unwrap_err().to_string();
            assert!(refused.starts_with("cannot use s3://bucket/tables: this program was built"));
            assert!(refused.contains("--features full"), "{refused}");
        }
    }
}
