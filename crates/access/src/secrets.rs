//! The coordinator's side: what it keeps secret, and the certificate that it shows.
//!
//! The file is a JSON object: `format` (3), `secret` (random characters), `hosts` (the names and addresses in the
//! certificate), `certificate` and `key` (PEM). It is private, and stands in no folder that is served. By this file a
//! coordinator that starts again shows the certificate that its clients know.

use std::path::Path;

use ring::hmac;
use serde::{Deserialize, Serialize};

use crate::certificate::{Certificate, CertificateError};
use crate::error::FileError;
use crate::private::{self, PrivateKind};
use crate::token::random_text;

/// The fewest characters of a secret: 32 bytes, as digits of six bits.
const SECRET_CHARS_MIN: usize = 43;
// No label is the start of another: so a number that follows from one label follows from no other.
const TABLE_LABEL: &[u8] = b"chomp table\0";
const SEED_LABEL: &[u8] = b"chomp seed\0";

const FORMAT: u32 = 3;
pub(crate) const KIND: PrivateKind = PrivateKind {
    name: "file of a coordinator's secrets",
    own: true,
};

/// Why there are no secrets.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// The file is of no use.
    #[error(transparent)]
    File(#[from] FileError),
    /// There is no certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileContent {
    format: u32,
    secret: String,
    hosts: Vec<String>,
    certificate: String,
    key: String,
}

/// The names and addresses by which clients may reach a coordinator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    /// The hosts in access files, which the certificate has to be for.
    pub advertised: Vec<String>,
    /// Hosts that come and go: a certificate is for these if they were there when it was made.
    pub others: Vec<String>,
}

/// The secret of one table, from which its numbers follow. It is not shown when printed for debugging.
#[derive(Debug)]
pub struct Secrets(hmac::Key);

impl Secrets {
    /// For a coordinator whose workers end with it too. Panics if the system gives no random numbers.
    pub fn in_memory() -> Secrets {
        Secrets::new(&random_text())
    }

    /// Makes the file if there is none, and a new certificate if the one there is not for all advertised `hosts`. Fails
    /// if the file is not this user's own, or others can read it. Panics if the system gives no random numbers.
    pub fn open(path: &Path, hosts: &Hosts) -> Result<(Secrets, Certificate), SecretsError> {
        let secret = match private::read::<FileContent>(path, KIND) {
            Ok(content) => {
                let opened = Secrets::from_content(&content, path)?;
                let advertised = &hosts.advertised;
                if advertised.iter().all(|host| content.hosts.contains(host)) {
                    return Ok(opened);
                }
                tracing::warn!(
                    "the certificate is made anew, as it is not for {}: put the field \"ca\" of the new access file \
                     into the access files that were given out",
                    advertised.join(", ")
                );
                content.secret
            }
            Err(FileError::Missing { .. }) => random_text(),
            Err(error) => return Err(error.into()),
        };
        let secrets = Secrets::new(&secret);
        let name = format!("Chomp table {:016x}", secrets.table_id());
        let mut hosts = [&hosts.advertised[..], &hosts.others].concat();
        hosts.sort_unstable();
        hosts.dedup();
        let certificate = Certificate::new(&name, &hosts)?;
        let content = FileContent {
            format: FORMAT,
            secret,
            hosts,
            certificate: certificate.pem().to_owned(),
            key: certificate.key_pem().to_owned(),
        };
        private::write(path, &content)?;
        Ok((secrets, certificate))
    }

    pub(crate) fn from_content(
        content: &FileContent,
        path: &Path,
    ) -> Result<(Secrets, Certificate), FileError> {
        if content.format != FORMAT || content.secret.len() < SECRET_CHARS_MIN {
            let what = format!("it has another format than {FORMAT}, or no whole secret");
            return Err(KIND.malformed(path, what));
        }
        let certificate = Certificate::from_pem(content.certificate.clone(), content.key.clone());
        let what = "its key and certificate do not belong together";
        let certificate = certificate.ok_or_else(|| KIND.malformed(path, what))?;
        Ok((Secrets::new(&content.secret), certificate))
    }

    fn new(secret: &str) -> Secrets {
        Secrets(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()))
    }

    /// The number that names the table to its workers. It tells nothing of the secret.
    pub fn table_id(&self) -> u64 {
        self.number_of(TABLE_LABEL)
    }

    /// A number that follows from the secret and `turn`, and that nobody else knows.
    pub fn seed(&self, turn: u64) -> u64 {
        self.number_of(&[SEED_LABEL, &turn.to_le_bytes()].concat())
    }

    fn number_of(&self, text: &[u8]) -> u64 {
        let mac = hmac::sign(&self.0, text);
        let start = mac.as_ref().first_chunk().expect("a MAC has 32 bytes");
        u64::from_le_bytes(*start)
    }
}
