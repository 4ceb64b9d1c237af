//! The kinds of fault. What follows from a fault depends on its kind alone, and here is decided of which kind it is.
//!
//! | kind | what follows |
//! |---|---|
//! | [`Passing`](FaultKind::Passing) | it is tried again, with pauses that grow, for some minutes; people are told when that begins and when it is over |
//! | [`Full`](FaultKind::Full), [`Lasting`](FaultKind::Lasting) | the command ends soon, with the first cause and what to do |
//! | [`Damage`](FaultKind::Damage) | the object is lost: its ranges are computed again, a checkpoint is passed over, and the job goes on |
//! | [`Unsure`](FaultKind::Unsure) | nothing is acknowledged any more, and the process ends: the next one finds out what there is |
//!
//! A wrong result is none of these: it leads to the participant whose it is.

use std::io::{self, ErrorKind};

use nix::errno::Errno;

use crate::Unfit;

/// The kind of a fault, which decides what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// It may be gone in a moment: no answer, a server that starts anew, a disk that does not respond.
    Passing,
    /// There is no space, until a person frees some.
    Full,
    /// It stays until a person mends it: no permission, a wrong address.
    Lasting,
    /// The bytes there are not those that were written.
    Damage,
    /// It is not known what the disk holds. Linux reports a failed sync once, and may have dropped what it could not
    /// write: so neither another sync nor reading tells.
    Unsure,
}

/// A call to the system that some file systems do not have, however long one waits.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the variants are named for what they are")]
pub enum RareCall {
    Lock,
    Link,
    Sync,
}

impl RareCall {
    /// If the file system does not have the call, the error says what to do, and is [`ErrorKind::Unsupported`].
    pub fn explain(self, source: io::Error) -> io::Error {
        let (kind, lacks) = match self {
            RareCall::Lock => (
                ErrorKind::Unsupported,
                "has no locks (flock): mount it with them, Lustre with `-o flock` and NFS with its lock service, or \
                 use a directory on another one",
            ),
            RareCall::Link => (
                ErrorKind::PermissionDenied,
                "has no hard links, with which an object gets its name when it is whole: use a directory on another \
                 one, or a bucket",
            ),
            RareCall::Sync => (
                ErrorKind::InvalidInput,
                "cannot sync (fsync), without which a power cut loses what was finished: use a directory on another \
                 one",
            ),
        };
        let has_none =
            matches!(self, RareCall::Lock) && source.raw_os_error() == Some(Errno::ENOLCK as i32);
        if has_none || [ErrorKind::Unsupported, kind].contains(&source.kind()) {
            io::Error::new(
                ErrorKind::Unsupported,
                format!("its file system {lacks} ({source})"),
            )
        } else {
            source
        }
    }
}

impl FaultKind {
    /// The kind of an error of the system. The error does not show that a sync failed: the caller of a sync has to
    /// choose [`FaultKind::Unsure`] itself.
    pub fn of(error: &io::Error) -> FaultKind {
        if Unfit::of(error).is_some() {
            return FaultKind::Damage;
        }
        match error.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock | ErrorKind::Interrupted => {
                return FaultKind::Passing;
            }
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => return FaultKind::Full,
            _ => {}
        }
        match error.raw_os_error().map(Errno::from_raw) {
            Some(
                Errno::EIO
                | Errno::ESTALE
                | Errno::EMFILE
                | Errno::ENFILE
                | Errno::ENOMEM
                | Errno::ENOBUFS
                | Errno::EBUSY
                | Errno::ENOLCK
                | Errno::ENODEV
                | Errno::ENXIO
                | Errno::ENETDOWN
                | Errno::ENETUNREACH
                | Errno::ENETRESET
                | Errno::ECONNABORTED
                | Errno::ECONNREFUSED
                | Errno::ECONNRESET
                | Errno::ENOTCONN
                | Errno::EPIPE
                | Errno::EHOSTDOWN
                | Errno::EHOSTUNREACH,
            ) => FaultKind::Passing,
            _ => FaultKind::Lasting,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_a_kind() {
        use FaultKind::{Damage, Full, Lasting, Passing};
        for (errno, kind) in [
            (Errno::EIO, Passing),
            (Errno::ESTALE, Passing),
            (Errno::EMFILE, Passing),
            (Errno::ETIMEDOUT, Passing),
            (Errno::EINTR, Passing),
            (Errno::ENOSPC, Full),
            (Errno::EDQUOT, Full),
            (Errno::EACCES, Lasting),
            (Errno::EROFS, Lasting),
            (Errno::EPERM, Lasting),
            (Errno::EFBIG, Lasting),
        ] {
            assert_eq!(FaultKind::of(&errno.into()), kind, "{errno}");
        }
        assert_eq!(FaultKind::of(&Unfit::Pipe.into()), Damage);
    }
}
