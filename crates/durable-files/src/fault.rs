//! The kinds of fault. What follows from a fault depends on its kind alone, and here is decided of which kind it is.
//!
//! | kind | what follows |
//! |---|---|
//! | [`Passing`](FaultKind::Passing) | it is tried again, with pauses that grow, for some minutes; people are told when that begins and when it is over |
//! | [`Lasting`](FaultKind::Lasting) | the command ends soon, with the first cause and what to do |
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
    /// It stays until a person mends it: no space, no permission, a wrong address.
    Lasting,
    /// What is there is not what was written.
    Damage,
    /// It is not known what the disk holds. Linux reports a failed sync once, and may have dropped what it could not
    /// write: so neither another sync nor reading tells.
    Unsure,
}

impl FaultKind {
    /// The kind of an error of the system. A failed sync has to be told by whoever asked for it.
    pub fn of(error: &io::Error) -> FaultKind {
        if Unfit::of(error).is_some() {
            return FaultKind::Damage;
        }
        if matches!(
            error.kind(),
            ErrorKind::TimedOut | ErrorKind::WouldBlock | ErrorKind::Interrupted
        ) {
            return FaultKind::Passing;
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

    /// The kind of an HTTP answer that is no success. An object that is not there is for the caller to judge.
    pub fn of_status(status: u16) -> FaultKind {
        match status {
            // No such method, no such version, no space.
            501 | 505 | 507 => FaultKind::Lasting,
            408 | 425 | 429 | 500..=599 => FaultKind::Passing,
            _ => FaultKind::Lasting,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_a_kind() {
        let of = |errno: Errno| FaultKind::of(&io::Error::from(errno));
        for errno in [
            Errno::EIO,
            Errno::ESTALE,
            Errno::EMFILE,
            Errno::ETIMEDOUT,
            Errno::EINTR,
        ] {
            assert_eq!(of(errno), FaultKind::Passing, "{errno}");
        }
        for errno in [
            Errno::ENOSPC,
            Errno::EDQUOT,
            Errno::EACCES,
            Errno::EROFS,
            Errno::EPERM,
        ] {
            assert_eq!(of(errno), FaultKind::Lasting, "{errno}");
        }
        assert_eq!(FaultKind::of(&Unfit::Pipe.into()), FaultKind::Damage);
        for (status, fault) in [
            (403, FaultKind::Lasting),
            (404, FaultKind::Lasting),
            (429, FaultKind::Passing),
            (500, FaultKind::Passing),
            (503, FaultKind::Passing),
            (507, FaultKind::Lasting),
        ] {
            assert_eq!(FaultKind::of_status(status), fault, "{status}");
        }
    }
}
