//! Sorts the failures of requests to a bucket by kind, with advice.

use object_store::Error;

use super::super::FaultKind::{self, Full, Lasting, Passing};
use super::super::address::Bucket;
use super::super::lock::OpenError;
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
const FULL: &str = "the server has no space left, or permits no more: free some and run again";

/// Texts in an error, each with its kind of fault, whatever the variant of [`Error`]: Amazon refuses expired
/// credentials with status 400, and a refused listing is an [`Error::Generic`]. The first text that is there counts.
const ANSWERS: [(&str, FaultKind, &str); 15] = [
    // Passing, since the clock may be set right during the retries.
    ("<Code>RequestTimeTooSkewed</Code>", Passing, CLOCK),
    ("507 Insufficient Storage", Full, FULL),
    ("QuotaExceeded", Full, FULL),
    ("StorageFull", Full, FULL),
    ("<Code>ExpiredToken</Code>", Lasting, EXPIRED),
    ("<Code>TokenRefreshRequired</Code>", Lasting, EXPIRED),
    ("NoSuchBucket", Lasting, NO_BUCKET),
    ("ContainerNotFound", Lasting, NO_BUCKET),
    ("specified bucket does not exist", Lasting, NO_BUCKET),
    ("403 Forbidden", Lasting, DENIED),
    // The bucket is elsewhere: a client that follows would send its credentials to another server.
    ("301 Moved", Lasting, UNREACHABLE),
    ("302 Found", Lasting, UNREACHABLE),
    ("307 Temporary", Lasting, UNREACHABLE),
    ("308 Permanent", Lasting, UNREACHABLE),
    ("Received redirect", Lasting, UNREACHABLE),
];

/// The kind of a failure, and what to do about it; none if the server answers that an object is missing or exists.
fn fault(error: &Error) -> Option<(FaultKind, &'static str)> {
    let text = error.to_string();
    let answer = ANSWERS.iter().find(|(said, ..)| text.contains(said));
    match error {
        _ if let Some(&(_, kind, what)) = answer => Some((kind, what)),
        Error::NotFound { .. } | Error::AlreadyExists { .. } => None,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => Some((Lasting, DENIED)),
        // No answer, or one without a kind of its own, such as 500 and 503.
        Error::Generic { .. } | Error::JoinError { .. } => Some((Passing, UNREACHABLE)),
        _ => Some((Lasting, UNREACHABLE)),
    }
}

/// Whether the request may succeed when it is repeated. Whether it took effect is not known.
pub(super) fn is_passing(error: &Error) -> bool {
    matches!(fault(error), Some((Passing, _)))
}

/// Finds the kind of a failed request, and adds advice where there is some.
pub(super) fn failure(key: &Key, action: Operation, error: Error) -> StorageError {
    let (kind, what) = match (fault(&error), &error) {
        (Some(fault), _) => fault,
        (None, Error::NotFound { .. }) if action == Operation::Create => (Lasting, NO_BUCKET),
        (None, Error::NotFound { .. }) => {
            return StorageError::new(StorageProblem::NotFound, action, key, error);
        }
        (None, _) => return StorageError::new(StorageProblem::AlreadyExists, action, key, error),
    };
    // In one line. The text has all causes, which the sources of the error would repeat one by one.
    let text = error.to_string();
    let source = text.split_whitespace().collect::<Vec<_>>().join(" ").into();
    StorageError::new(kind, action, key, Explained { what, source })
}

#[derive(Debug, thiserror::Error)]
#[error("{what}")]
struct Explained {
    what: &'static str,
    source: Cause,
}

/// Turns the failure of a first request into one that tells what to do about the bucket.
pub(super) fn unusable(bucket: &Bucket, error: StorageError) -> OpenError {
    let (what, source) = match error.source.downcast::<Explained>() {
        Ok(explained) => (explained.what, explained.source),
        Err(source) => (
            "it does not keep what was created: use another server",
            source,
        ),
    };
    OpenError::bucket(bucket, what, Some(source))
}

pub(in super::super) fn is_refusal(cause: &Cause) -> bool {
    let explained = cause.downcast_ref::<Explained>();
    explained.is_some_and(|explained| [DENIED, EXPIRED, NO_BUCKET].contains(&explained.what))
}
