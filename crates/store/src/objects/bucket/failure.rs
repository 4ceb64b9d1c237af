//! Sorts the failures of requests to a bucket by kind, with advice.

use object_store::Error;

use super::super::{Cause, Key, Operation, StorageError, StorageProblem};

const DENIED: &str = "access is denied: check the credentials in the environment (AWS_ACCESS_KEY_ID and \
                      AWS_SECRET_ACCESS_KEY, GOOGLE_…, AZURE_STORAGE_…) and what they permit: to read, \
                      create, list and remove objects";
const EXPIRED: &str = "the credentials have expired: put new ones into the environment (AWS_ACCESS_KEY_ID, \
                       AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN) and run the same command again, which goes on \
                       where this one was";
const NO_BUCKET: &str = "the bucket does not exist: create it, or correct its name";
const UNREACHABLE: &str = "it does not answer as it should: check that the server is up, and its address and \
                           region in the environment (AWS_ENDPOINT_URL, AWS_REGION)";

const CLOCK: &str = "the clock of this machine and that of the server differ: set them";

/// Whether anything can have happened, and may happen when the request is made again: there is no answer, or it has no
/// kind of its own, such as 500 and 503.
pub(super) fn is_unknown(error: &Error) -> bool {
    match error {
        Error::Generic { .. } => !is_full(error) && !is_denied(error) && !leads_elsewhere(error),
        // The clock may be set at this moment.
        Error::PermissionDenied { .. } => is_skewed(error),
        Error::JoinError { .. } => true,
        _ => false,
    }
}

/// Finds the kind of a failed request, and adds advice where there is some.
pub(super) fn failure(key: &Key, action: Operation, error: Error) -> StorageError {
    let explained = |problem, what| {
        let source = Said::of(&error);
        StorageError::new(problem, action, key, Explained { what, source })
    };
    let problem = match &error {
        _ if is_skewed(&error) => return explained(StorageProblem::Away, CLOCK),
        _ if is_unknown(&error) => return explained(StorageProblem::Away, UNREACHABLE),
        Error::NotFound { .. } if action == Operation::Create || is_no_bucket(&error) => {
            return explained(StorageProblem::Failed, NO_BUCKET);
        }
        _ if is_full(&error) => StorageProblem::Full,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            return explained(StorageProblem::Failed, denial(&error));
        }
        Error::NotFound { .. } => StorageProblem::NotFound,
        Error::AlreadyExists { .. } => StorageProblem::AlreadyExists,
        _ if is_denied(&error) => return explained(StorageProblem::Failed, denial(&error)),
        _ => return explained(StorageProblem::Failed, UNREACHABLE),
    };
    StorageError::new(problem, action, key, error)
}

/// Advice about a failure, followed by the server's message.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
struct Explained {
    what: &'static str,
    source: Said,
}

/// The server's message in one line. It has all causes, which an [`Error`] would tell again one by one.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Said(String);

impl Said {
    fn of(error: &Error) -> Said {
        let text = error.to_string();
        Said(text.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

/// The cause of a failed first request, without the advice.
pub(super) fn said(error: StorageError) -> Cause {
    match error.problem {
        StorageProblem::Failed | StorageProblem::Away => {}
        _ => return error.into(),
    }
    match error.source.downcast::<Explained>() {
        Ok(explained) => explained.source.into(),
        Err(source) => source,
    }
}

/// The advice about a failed first request.
pub(super) fn advice(error: &StorageError) -> &'static str {
    match error.problem {
        StorageProblem::Failed
        | StorageProblem::Away
        | StorageProblem::Damaged
        | StorageProblem::Unsure => {
            let explained = error.source.downcast_ref::<Explained>();
            explained.map_or(UNREACHABLE, |explained| explained.what)
        }
        StorageProblem::Full => "it has no space left: free some and run again",
        StorageProblem::NotFound | StorageProblem::AlreadyExists => {
            "it does not keep what was created: use another server"
        }
    }
}

/// Whether the server names the bucket, and not the object, as what is missing.
fn is_no_bucket(error: &Error) -> bool {
    let text = error.to_string();
    [
        "NoSuchBucket",
        "ContainerNotFound",
        "specified bucket does not exist",
    ]
    .iter()
    .any(|name| text.contains(name))
}

/// Whether the server refuses a request for which the client has no kind of refusal: a listing, or one whose credentials
/// have expired, to which Amazon answers with status 400.
fn is_denied(error: &Error) -> bool {
    let is_denied = error.to_string().contains("403 Forbidden") || has_expired(error);
    is_denied && !is_full(error) && !is_skewed(error)
}

/// Whether the server finds the time of a request too far from its own.
fn is_skewed(error: &Error) -> bool {
    error
        .to_string()
        .contains("<Code>RequestTimeTooSkewed</Code>")
}

fn denial(error: &Error) -> &'static str {
    if has_expired(error) { EXPIRED } else { DENIED }
}

/// Whether the server says that the credentials were good once.
fn has_expired(error: &Error) -> bool {
    let text = error.to_string();
    ["ExpiredToken", "TokenRefreshRequired"]
        .iter()
        .any(|code| text.contains(&format!("<Code>{code}</Code>")))
}

/// Whether a failure is a refusal that only new credentials, other rights or another bucket mend.
pub(in super::super) fn is_refusal(cause: &Cause) -> bool {
    let explained = cause.downcast_ref::<Explained>();
    explained.is_some_and(|explained| [DENIED, EXPIRED, NO_BUCKET].contains(&explained.what))
}

/// Whether the server says that the bucket is elsewhere: a client that went there would tell its credentials.
fn leads_elsewhere(error: &Error) -> bool {
    let text = error.to_string();
    [
        "301 Moved",
        "302 Found",
        "307 Temporary",
        "308 Permanent",
        "Received redirect",
    ]
    .iter()
    .any(|status| text.contains(status))
}

/// Whether the server has no room.
fn is_full(error: &Error) -> bool {
    let text = error.to_string();
    ["507 Insufficient Storage", "QuotaExceeded", "StorageFull"]
        .iter()
        .any(|name| text.contains(name))
}
