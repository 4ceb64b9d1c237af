//! Why calls fail, and how the worker goes on.

use std::sync::Arc;
use std::time::Duration;

use chomp_access::certificate;
use tonic::{Code, Status};

use crate::error::ClientError;
use crate::transport::BoxError;

/// Why a call has no answer; each variant has a reaction of its own.
#[derive(Debug)]
pub(crate) enum CallFailure {
    /// There is no contact, or the coordinator is shutting down: join again and repeat the call.
    Outage(Arc<dyn std::error::Error + Send + Sync>),
    /// The job has stopped there: join again and repeat the call.
    Stopped(String),
    /// The coordinator does not know this worker: join again and repeat the call.
    NotJoined,
    /// The coordinator has no room now: wait and repeat the call.
    Busy(String),
    /// The coordinator does not want this worker: end.
    Refused(String),
    /// The coordinator does not accept this call: repeating it is of no use.
    Rejected(String),
    /// The coordinator breaks the protocol: end.
    Protocol(String),
}

impl CallFailure {
    pub(crate) fn outage(error: impl Into<BoxError>) -> CallFailure {
        CallFailure::Outage(Arc::from(error.into()))
    }

    pub(crate) fn into_error(self, url: &str) -> ClientError {
        let url = url.to_owned();
        let what = match self {
            CallFailure::Outage(source) => {
                return match certificate::refusal(&*source) {
                    Some(what) => ClientError::Certificate { url, what },
                    None => ClientError::Unreachable { url, source },
                };
            }
            CallFailure::Busy(reason) | CallFailure::Refused(reason) => {
                return ClientError::Refused { url, reason };
            }
            CallFailure::Rejected(reason) => return ClientError::Rejected { url, reason },
            CallFailure::Stopped(reason) => format!("has stopped the job: {reason}"),
            CallFailure::NotJoined => {
                "does not keep to the protocol: it does not know a worker that joins".to_owned()
            }
            CallFailure::Protocol(what) => format!("does not keep to the protocol: {what}"),
        };
        ClientError::Other { url, what }
    }
}

impl From<Status> for CallFailure {
    fn from(status: Status) -> CallFailure {
        let reason = || status.message().to_owned();
        match status.code() {
            Code::NotFound => CallFailure::NotJoined,
            Code::ResourceExhausted => CallFailure::Busy(reason()),
            Code::FailedPrecondition
            | Code::Unauthenticated
            | Code::PermissionDenied
            | Code::Unimplemented => CallFailure::Refused(reason()),
            Code::InvalidArgument | Code::OutOfRange | Code::AlreadyExists => {
                CallFailure::Rejected(reason())
            }
            // Data that the coordinator cannot read is among these: its job ends, and a person has to start it again.
            _ => CallFailure::outage(status),
        }
    }
}

/// The outcome of `call`, or an outage if it takes longer than `deadline`.
pub(crate) async fn within<T, E: Into<CallFailure>>(
    deadline: Duration,
    call: impl Future<Output = Result<T, E>>,
) -> Result<T, CallFailure> {
    let outcome = tokio::time::timeout(deadline, call).await;
    let overdue = || format!("no answer within {} seconds", deadline.as_secs());
    outcome
        .map_err(|_| CallFailure::outage(overdue()))?
        .map_err(Into::into)
}
