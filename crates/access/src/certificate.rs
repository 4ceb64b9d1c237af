//! Why the certificate of a server is not accepted, for people.

use std::error::Error;
use std::io;

use rustls::CertificateError;
use rustls::pki_types::UnixTime;

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// Why the certificate of a server was refused, if a request failed for that.
pub fn refusal(error: &(dyn Error + 'static)) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(rustls::Error::InvalidCertificate(why)) = of_tls(error) {
            return Some(tell(why));
        }
        cause = error.source();
    }
    None
}

/// The error of TLS that this is, or that errors of a stream wrap: their sources leave out what they wrap.
fn of_tls<'a>(mut error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    loop {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        error = error.downcast_ref::<io::Error>()?.get_ref()?;
    }
}

fn tell(why: &CertificateError) -> String {
    match why {
        CertificateError::NotValidYet => {
            "by the clock of this machine it is not valid yet; is the clock right?".to_owned()
        }
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "by the clock of this machine it is not valid for another {}; is the clock right?",
            apart(*time, *not_before)
        ),
        CertificateError::Expired => {
            "by the clock of this machine it has expired; if the clock is right, the server needs a new one"
                .to_owned()
        }
        CertificateError::ExpiredContext { time, not_after } => format!(
            "by the clock of this machine it expired {} ago; if the clock is right, the server needs a new one",
            apart(*not_after, *time)
        ),
        CertificateError::UnknownIssuer => {
            "neither the access file (--access FILE) nor an authority that this machine trusts vouches for it"
                .to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is that of a server with another name".to_owned()
        }
        other => other.to_string(),
    }
}

/// The time from one moment to another.
fn apart(from: UnixTime, to: UnixTime) -> String {
    match to.as_secs().saturating_sub(from.as_secs()) {
        seconds if seconds < 2 * DAY_SECONDS => format!("{} minutes", seconds / 60 + 1),
        seconds => format!("{} days", seconds / DAY_SECONDS),
    }
}
