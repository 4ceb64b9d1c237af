//! Sorts the failures of requests to a bucket by kind, with advice.

use object_store::Error;

use super::super::address::Bucket;
use super::super::lock::OpenError;
use super::super::{Cause, FaultKind, Key, Operation, StorageError, StorageProblem};

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
    let (fault, what) = match &error {
        _ if is_skewed(&error) => (FaultKind::Passing, CLOCK),
        _ if is_unknown(&error) => (FaultKind::Passing, UNREACHABLE),
        Error::NotFound { .. } if action == Operation::Create || is_no_bucket(&error) => {
            (FaultKind::Lasting, NO_BUCKET)
        }
        _ if is_full(&error) => return StorageError::new(FaultKind::Full, action, key, error),
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            (FaultKind::Lasting, denial(&error))
        }
        Error::NotFound { .. } => {
            return StorageError::new(StorageProblem::NotFound, action, key, error);
        }
        Error::AlreadyExists { .. } => {
            return StorageError::new(StorageProblem::AlreadyExists, action, key, error);
        }
        _ if is_denied(&error) => (FaultKind::Lasting, denial(&error)),
        _ => (FaultKind::Lasting, UNREACHABLE),
    };
    // In one line. It has all causes, which the error would tell again one by one.
    let text = error.to_string();
    let source = text.split_whitespace().collect::<Vec<_>>().join(" ").into();
    StorageError::new(fault, action, key, Explained { what, source })
}

/// Advice about a failure, followed by the server's message.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
struct Explained {
    what: &'static str,
    source: Cause,
}

/// Turns the failure of a first request into one that tells what to do about the bucket.
pub(super) fn unusable(bucket: &Bucket, error: StorageError) -> OpenError {
    let (what, source) = match error.problem {
        StorageProblem::Fault(FaultKind::Full) => (
            "it has no space left: free some and run again",
            error.into(),
        ),
        StorageProblem::NotFound | StorageProblem::AlreadyExists => (
            "it does not keep what was created: use another server",
            error.into(),
        ),
        StorageProblem::Fault(_) => match error.source.downcast::<Explained>() {
            Ok(explained) => (explained.what, explained.source),
            Err(source) => (UNREACHABLE, source),
        },
    };
    OpenError::bucket(bucket, what, Some(source))
}

/// Whether the text of a failure has one of these.
fn says(error: &Error, texts: &[&str]) -> bool {
    let said = error.to_string();
    texts.iter().any(|text| said.contains(text))
}

/// Whether the server names the bucket, and not the object, as what is missing.
fn is_no_bucket(error: &Error) -> bool {
    let all = [
        "NoSuchBucket",
        "ContainerNotFound",
        "specified bucket does not exist",
    ];
    says(error, &all)
}

/// Whether the server refuses a request for which the client has no kind of refusal: a listing, or one whose
/// credentials have expired, to which Amazon answers with status 400.
fn is_denied(error: &Error) -> bool {
    let is_denied = says(error, &["403 Forbidden"]) || has_expired(error);
    is_denied && !is_full(error) && !is_skewed(error)
}

/// Whether the server finds the time of a request too far from its own.
fn is_skewed(error: &Error) -> bool {
    says(error, &["<Code>RequestTimeTooSkewed</Code>"])
}

fn denial(error: &Error) -> &'static str {
    if has_expired(error) { EXPIRED } else { DENIED }
}

/// Whether the server says that the credentials were good once.
fn has_expired(error: &Error) -> bool {
    let codes = [
        "<Code>ExpiredToken</Code>",
        "<Code>TokenRefreshRequired</Code>",
    ];
    says(error, &codes)
}

/// Whether a failure is a refusal that only new credentials, other rights or another bucket mend.
pub(in super::super) fn is_refusal(cause: &Cause) -> bool {
    let explained = cause.downcast_ref::<Explained>();
    explained.is_some_and(|explained| [DENIED, EXPIRED, NO_BUCKET].contains(&explained.what))
}

/// Whether the server says that the bucket is elsewhere: a client that went there would tell its credentials.
fn leads_elsewhere(error: &Error) -> bool {
    let all = [
        "301 Moved",
        "302 Found",
        "307 Temporary",
        "308 Permanent",
        "Received redirect",
    ];
    says(error, &all)
}

/// Whether the server has no room.
fn is_full(error: &Error) -> bool {
    let all = ["507 Insufficient Storage", "QuotaExceeded", "StorageFull"];
    says(error, &all)
}
