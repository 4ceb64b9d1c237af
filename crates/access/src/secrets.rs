//! The coordinator's side: what it keeps secret, and the certificate that it shows.
//!
//! The file is a JSON object: `format` (3), `secret` (32 random bytes, as 43 digits of six bits), `hosts` (the names and addresses in the
//! certificate), `certificate` and `key` (PEM). It is private, and stands in no folder that is served. So a coordinator
//! that starts again is known to the clients that it had before.

use std::fmt;
use std::path::Path;

use ring::hmac;
use ring::rand::{RandomlyConstructable, SystemRandom, generate};
use serde::{Deserialize, Serialize};

use crate::certificate::{Certificate, CertificateError};
use crate::error::FileError;
use crate::private::{self, PrivateKind};

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const DIGITS_OF_SECRET: usize = 43;
// No label begins like another, so no number that follows from one follows from another.
const TABLE_LABEL: &[u8] = b"chomp table\0";
const SEED_LABEL: &[u8] = b"chomp seed\0";

const FORMAT: u32 = 3;
pub(crate) const KIND: PrivateKind = PrivateKind {
    name: "file of a coordinator's secrets",
    own: true,
    bytes_max: private::BYTES_MAX,
};

/// The system gives no random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random numbers")]
pub struct Random;

/// Why there are no secrets.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// The file is of no use.
    #[error(transparent)]
    File(#[from] FileError),
    /// There is no certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// Secrets are random.
    #[error(transparent)]
    Random(#[from] Random),
}

/// The content of the file, in JSON.
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

/// The secret of one table, from which its numbers follow.
pub struct Secrets(hmac::Key);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({:016x})", self.table_id())
    }
}

impl Secrets {
    /// A secret that ends with the process: for a coordinator whose workers end with it too.
    ///
    /// # Errors
    ///
    /// If the system gives no random numbers.
    pub fn in_memory() -> Result<Secrets, Random> {
        Ok(Secrets::new(&random_text()?))
    }

    /// The secrets in the file at `path`, which is made if there is none, and the certificate of a coordinator that
    /// clients reach by these `hosts`. A certificate that is not for all that are advertised is made anew.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or written, is damaged, is not this user's own, or can be read by others; or if a
    /// host cannot be in a certificate.
    pub fn open(path: &Path, hosts: &Hosts) -> Result<(Secrets, Certificate), SecretsError> {
        let mut content = match private::read::<FileContent>(path, KIND) {
            Ok(content) => {
                let advertised = &hosts.advertised;
                let opened = Secrets::from_content(&content, path)?;
                if advertised.iter().all(|host| content.hosts.contains(host)) {
                    return Ok(opened);
                }
                tracing::warn!(
                    "the certificate is made anew, as it is not for {}: put the field \"ca\" of the new access file \
                     into the access files that were given out",
                    advertised.join(", ")
                );
                content
            }
            Err(FileError::Missing { .. }) => FileContent {
                format: FORMAT,
                secret: random_text()?,
                hosts: Vec::new(),
                certificate: String::new(),
                key: String::new(),
            },
            Err(error) => return Err(error.into()),
        };
        let secrets = Secrets::new(&content.secret);
        content.hosts = [&hosts.advertised[..], &hosts.others].concat();
        content.hosts.sort_unstable();
        content.hosts.dedup();
        let name = format!("Chomp table {:016x}", secrets.table_id());
        let certificate = Certificate::new(&name, &content.hosts)?;
        certificate.pem().clone_into(&mut content.certificate);
        certificate.key_pem().clone_into(&mut content.key);
        let bytes = serde_json::to_vec_pretty(&content).expect("texts always become JSON");
        private::write(path, &bytes)?;
        Ok((secrets, certificate))
    }

    pub(crate) fn from_content(
        content: &FileContent,
        path: &Path,
    ) -> Result<(Secrets, Certificate), FileError> {
        if content.format != FORMAT {
            let what = format!("the unknown format {}", content.format);
            return Err(KIND.malformed(path, what));
        }
        if content.secret.len() != DIGITS_OF_SECRET {
            return Err(KIND.malformed(path, "the secret has another length"));
        }
        let certificate = Certificate::from_pem(content.certificate.clone(), content.key.clone());
        // The errors of the parser may quote what they choke on.
        let certificate = certificate
            .map_err(|_| KIND.malformed(path, "its key and certificate do not belong together"))?;
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

    /// The number that the MAC of `text` begins with.
    fn number_of(&self, text: &[u8]) -> u64 {
        let mac = hmac::sign(&self.0, text);
        let start = mac.as_ref().first_chunk().expect("a MAC has 32 bytes");
        u64::from_le_bytes(*start)
    }
}

/// 32 random bytes, as digits of six bits.
pub(crate) fn random_text() -> Result<String, Random> {
    let bytes: [u8; 32] = random()?;
    let digit = |number: usize| {
        let (at, shift) = (6 * number / 8, 6 * number % 8);
        let next = bytes.get(at + 1).copied().unwrap_or(0);
        let value = u16::from_le_bytes([bytes[at], next]) >> shift & 63;
        char::from(DIGITS[usize::from(value)])
    };
    Ok((0..DIGITS_OF_SECRET).map(digit).collect())
}

/// Random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Random>
where
    [u8; N]: RandomlyConstructable,
{
    let bytes = generate(&SystemRandom::new()).map_err(|_| Random)?;
    Ok(bytes.expose())
}
