//! Why calls fail, and how the worker goes on.

use std::sync::Arc;
use std::time::Duration;

use chomp_access::certificate;
use chomp_proto::EXPIRED_HEADER;
use tonic::{Code, Status};

use crate::error::ClientError;
use crate::transport::BoxError;

/// Why a call has no answer, by what is to be done.
#[derive(Debug)]
pub(crate) enum CallFailure {
    /// There is no contact, or the coordinator is going: join again and repeat the call.
    Outage(Arc<dyn std::error::Error + Send + Sync>),
    /// The job has stopped there: the same.
    Stopped(String),
    /// The coordinator does not know this worker: the same.
    NotJoined,
    /// It has no room now: wait and repeat the call.
    Busy(String),
    /// By its clock the token has expired: if it was good before, the clock may have jumped.
    Expired(String),
    /// It does not want this worker: end.
    Refused(String),
    /// It does not want this call: repeating it is of no use.
    Unfit(String),
    /// It says something that it never should: end.
    Protocol(String),
}

/// A call took too long.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {} seconds", .0.as_secs())]
struct Overdue(Duration);

impl CallFailure {
    pub(crate) fn outage(error: impl Into<BoxError>) -> CallFailure {
        CallFailure::Outage(Arc::from(error.into()))
    }

    /// Whether the certificate of what is there is not accepted.
    pub(crate) fn is_of_certificate(&self) -> bool {
        matches!(self, CallFailure::Outage(source) if certificate::refusal(&**source).is_some())
    }

    /// The error to end with.
    pub(crate) fn into_error(self, url: &str) -> ClientError {
        let url = url.to_owned();
        match self {
            CallFailure::Outage(source) => match certificate::refusal(&*source) {
                Some(what) => ClientError::Certificate { url, what },
                None => ClientError::Unreachable { url, source },
            },
            CallFailure::Stopped(reason) => ClientError::Stopped { url, reason },
            CallFailure::Busy(reason)
            | CallFailure::Expired(reason)
            | CallFailure::Refused(reason) => ClientError::Refused { url, reason },
            CallFailure::Unfit(reason) => ClientError::Unfit { url, reason },
            CallFailure::NotJoined => ClientError::Protocol {
                url,
                what: "it does not know a worker that joins".to_owned(),
            },
            CallFailure::Protocol(what) => ClientError::Protocol { url, what },
        }
    }

    /// The error to end with when joining failed: there every refusal is for good.
    pub(crate) fn into_joining_error(self, url: &str) -> ClientError {
        match self {
            CallFailure::Unfit(reason) => CallFailure::Refused(reason).into_error(url),
            other => other.into_error(url),
        }
    }
}

impl From<Status> for CallFailure {
    fn from(status: Status) -> CallFailure {
        let reason = || status.message().to_owned();
        match status.code() {
            Code::NotFound => CallFailure::NotJoined,
            Code::ResourceExhausted => CallFailure::Busy(reason()),
            Code::Unauthenticated if status.metadata().contains_key(EXPIRED_HEADER) => {
                CallFailure::Expired(reason())
            }
            Code::FailedPrecondition
            | Code::Unauthenticated
            | Code::PermissionDenied
            | Code::Unimplemented => CallFailure::Refused(reason()),
            Code::InvalidArgument | Code::OutOfRange | Code::AlreadyExists => {
                CallFailure::Unfit(reason())
            }
            // Data that the coordinator cannot read ends its job, and a person looks after it.
            Code::Ok
            | Code::Cancelled
            | Code::Unknown
            | Code::DeadlineExceeded
            | Code::Aborted
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss => CallFailure::outage(status),
        }
    }
}

/// The outcome of `call`, or an outage if it takes longer than `deadline`.
pub(crate) async fn within<T, E: Into<CallFailure>>(
    deadline: Duration,
    call: impl Future<Output = Result<T, E>>,
) -> Result<T, CallFailure> {
    match tokio::time::timeout(deadline, call).await {
        Ok(outcome) => outcome.map_err(Into::into),
        Err(_) => Err(CallFailure::outage(Overdue(deadline))),
    }
}
