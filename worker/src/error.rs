//! Why a worker ends.

use std::sync::Arc;

use crate::transport::BoxError;

/// Why the worker gives up a call, or the coordinator for good.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClientError {
    /// Its address, or its certificate, cannot be used.
    #[error("the coordinator's address {url} cannot be used")]
    Access {
        url: String,
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// There is no connection, and there was none for the whole time that the worker waits for one.
    #[error(
        "the coordinator at {url} cannot be reached: check the address, and that it is running"
    )]
    Unreachable {
        url: String,
        /// The last failure.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    #[error("the certificate of the coordinator at {url} is not accepted: {what}")]
    Certificate { url: String, what: String },
    #[error("the coordinator at {url} refuses: {reason}")]
    Refused { url: String, reason: String },
    #[error("the coordinator at {url} does not accept a call: {reason}")]
    Rejected { url: String, reason: String },
    /// It has stopped the job, and did not start it again for as long as the worker waits for that; or it has another
    /// job than before, which needs evaluators of another size; or it does not keep to the protocol.
    #[error("the coordinator at {url} {what}")]
    Other { url: String, what: String },
}

impl ClientError {
    pub(crate) fn access(url: String, source: BoxError) -> ClientError {
        ClientError::Access {
            url,
            source: Arc::from(source),
        }
    }
}
