//! The coordinator's side: makes tokens, checks them, and keeps the secrets that this takes.
//!
//! A token is `chomp2-<participant>-<serial>-<expiry>-<mac>`: the numbers of the participant and of its credential, in
//! decimal; the expiry in seconds since 1970 or `never`; and the HMAC-SHA256 of all before it, as 64 hex digits. So a
//! coordinator that starts again knows the tokens that it gave out before. The list of
//! [participants](crate::participants) says which tokens were taken back.
//!
//! The secrets file is a JSON object: `format` (2), `secret` (32 bytes as hex), `authority_key` and
//! `authority` (PEM), and `inode`, that of the file itself. It is private, and stands in no folder that is served.
//! A folder that somebody else has packed unpacks to files of this user, perhaps of mode 600, but with other inodes. So
//! no folder brings secrets that somebody else knows. A file keeps its inode when it is moved on its disk, and when the
//! machine starts again.
//!
//! Version history: format 1 had no inode. A file of format 1 is taken for a copy.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use chomp_durable_files::put_private;
use ring::hmac;
use ring::rand::{SystemRandom, generate};
use rustls::ServerConfig;
use serde::{Deserialize, Serialize};

use crate::authority::{Authority, AuthorityError};
use crate::error::FileError;
use crate::private::{self, PrivateKind};
use crate::token::{Holder, Token};

/// How every token of this form begins.
const PREFIX: &str = "chomp2";
/// The expiry of a token that has none.
const NEVER: &str = "never";
/// The MAC of this text is the name of the table. No token begins like this text, so neither MAC
/// can be taken for the other.
const TABLE_LABEL: &[u8] = b"chomp table\0";
const SEED_LABEL: &[u8] = b"chomp seed\0";

const FORMAT: u32 = 2;
const FORMAT_WITHOUT_INODE: u32 = 1;
pub(crate) const KIND: PrivateKind = PrivateKind {
    name: "file of a coordinator's secrets",
    fields: &["format", "secret", "authority_key", "authority", "inode"],
    own: true,
    bytes_max: private::BYTES_MAX,
};

/// Why a caller is turned away. The texts say what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// It has no token.
    #[error("no token: give --access FILE")]
    Missing,
    /// It has something else, or the token of another table.
    #[error("the token is not of this table's coordinator")]
    Wrong,
    /// Its token was good once.
    #[error("the token has expired: make a new access file at the coordinator")]
    Expired,
    /// Its token was taken back, or another one took its place.
    #[error(
        "the token was taken back or renewed: ask the owner of the table for a new access file"
    )]
    Revoked,
}

/// Why there are no secrets.
#[derive(Debug, thiserror::Error)]
pub enum IssuerError {
    /// The file of the secrets is of no use.
    #[error(transparent)]
    File(#[from] FileError),
    /// The certificates are of no use.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// Secrets are random.
    #[error("the system gives no random numbers")]
    Random,
}

/// The content of the secrets file, in JSON.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Secrets {
    format: u32,
    secret: String,
    authority_key: String,
    authority: String,
    #[serde(default)]
    inode: u64,
}

impl Secrets {
    fn write(mut self, path: &Path) -> Result<(), FileError> {
        let content = |inode| {
            self.format = FORMAT;
            self.inode = inode;
            serde_json::to_vec_pretty(&self).expect("texts always become JSON")
        };
        Ok(put_private(path, content)?)
    }
}

/// Makes and checks the tokens of one table, and vouches for its coordinator.
pub struct Issuer {
    key: hmac::Key,
    table: u64,
    authority: Arc<Authority>,
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Issuer({:016x})", self.table)
    }
}

impl Issuer {
    /// An issuer whose secrets end with the process: for a coordinator whose workers end with it too.
    ///
    /// # Errors
    ///
    /// If the system gives no random numbers.
    pub fn in_memory() -> Result<Issuer, IssuerError> {
        Issuer::new(&random()?, Authority::new)
    }

    /// The issuer whose secrets are in the file at `path`, which is made if there is none. The
    /// caller owns the table that they are for.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or written, is damaged, was copied there, or can be read by others.
    pub fn open(path: &Path) -> Result<Issuer, IssuerError> {
        match private::read::<Secrets>(path, KIND) {
            Ok((secrets, inode)) => {
                let is_copy = secrets.inode != inode;
                let issuer = Issuer::from_secrets(secrets, path)?;
                if is_copy {
                    let path = path.to_owned();
                    return Err(FileError::Copied { path }.into());
                }
                Ok(issuer)
            }
            Err(FileError::Missing { .. }) => {
                let secret = random()?;
                let issuer = Issuer::new(&secret, Authority::new)?;
                let secrets = Secrets {
                    format: FORMAT,
                    secret: hex(&secret),
                    authority_key: issuer.authority.key_pem(),
                    authority: issuer.authority.pem().to_owned(),
                    inode: 0,
                };
                secrets.write(path)?;
                Ok(issuer)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Accepts a copy of the file of the secrets in place of the file. The caller knows that the copy is their own.
    ///
    /// # Errors
    ///
    /// As [`Issuer::open`], but for a copy.
    pub fn adopt(path: &Path) -> Result<(), IssuerError> {
        let (secrets, _) = private::read::<Secrets>(path, KIND)?;
        Issuer::from_secrets(secrets.clone(), path)?;
        Ok(secrets.write(path)?)
    }

    pub(crate) fn from_secrets(secrets: Secrets, path: &Path) -> Result<Issuer, IssuerError> {
        let wrong = |what: &str| KIND.malformed(path, what);
        if ![FORMAT_WITHOUT_INODE, FORMAT].contains(&secrets.format) {
            return Err(wrong(&format!("the unknown format {}", secrets.format)).into());
        }
        let secret =
            unhex(&secrets.secret).ok_or_else(|| wrong("the secret is not 32 bytes as hex"))?;
        Issuer::new(&secret, |name| {
            Authority::from_pem(name, &secrets.authority_key, secrets.authority)
        })
        .map_err(|error| match error {
            // The errors of the parser may quote what they choke on.
            IssuerError::Authority(_) => {
                wrong("its secret, key and certificate do not belong together").into()
            }
            error => error,
        })
    }

    fn new(
        secret: &[u8; 32],
        authority: impl FnOnce(String) -> Result<Authority, AuthorityError>,
    ) -> Result<Issuer, IssuerError> {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let table = number_of(&key, TABLE_LABEL);
        let authority = authority(format!("Chomp table {table:016x}"))?;
        Ok(Issuer {
            key,
            table,
            authority: Arc::new(authority),
        })
    }

    /// A token of `holder` that is good until `expires`, in seconds since 1970, or for ever.
    pub fn issue(&self, holder: Holder, expires: Option<u64>) -> Token {
        let Holder { number, serial } = holder;
        let expires = expires.map_or_else(|| NEVER.to_owned(), |at| at.to_string());
        let text = format!("{PREFIX}-{number}-{serial}-{expires}");
        let mac = hmac::sign(&self.key, text.as_bytes());
        Token::new(format!("{text}-{}", hex(mac.as_ref())))
    }

    /// The holder of `token`, if this issuer made it and it has not expired.
    ///
    /// # Errors
    ///
    /// If it is no such token.
    pub fn check(&self, token: Option<&str>, now: u64) -> Result<Holder, Denied> {
        let token = token.ok_or(Denied::Missing)?;
        let (text, mac) = token.rsplit_once('-').ok_or(Denied::Wrong)?;
        let mac: [u8; 32] = unhex(mac).ok_or(Denied::Wrong)?;
        hmac::verify(&self.key, text.as_bytes(), &mac).map_err(|_| Denied::Wrong)?;
        // From here on it is a token that was made here.
        let mut fields = text.split('-');
        let mut field = || fields.next().ok_or(Denied::Wrong);
        let (prefix, number, serial, expires) = (field()?, field()?, field()?, field()?);
        if prefix != PREFIX || fields.next().is_some() {
            return Err(Denied::Wrong);
        }
        let holder = Holder {
            number: number.parse().map_err(|_| Denied::Wrong)?,
            serial: serial.parse().map_err(|_| Denied::Wrong)?,
        };
        if expires == NEVER {
            return Ok(holder);
        }
        let expires: u64 = expires.parse().map_err(|_| Denied::Wrong)?;
        if now < expires {
            Ok(holder)
        } else {
            Err(Denied::Expired)
        }
    }

    /// The number that names the table to its workers. It tells nothing of the secrets.
    pub fn table_id(&self) -> u64 {
        self.table
    }

    /// A number that follows from the secrets and `turn`, and that nobody else knows.
    pub fn seed(&self, turn: u64) -> u64 {
        number_of(&self.key, &[SEED_LABEL, &turn.to_le_bytes()].concat())
    }

    /// The certificate by which clients know the coordinator, as PEM.
    pub fn ca_pem(&self) -> &str {
        self.authority.pem()
    }

    /// The TLS configuration of a server that clients reach by these DNS names and IP addresses. Its certificate is
    /// renewed in time by `clock`, which tells the seconds since 1970.
    ///
    /// # Errors
    ///
    /// If there is no name, or one that cannot be in a certificate.
    pub fn server_config(
        &self,
        names: &[String],
        clock: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Result<ServerConfig, IssuerError> {
        Ok(Arc::clone(&self.authority).server_config(names, clock)?)
    }
}

/// Random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], IssuerError>
where
    [u8; N]: ring::rand::RandomlyConstructable,
{
    let bytes = generate(&SystemRandom::new()).map_err(|_| IssuerError::Random)?;
    Ok(bytes.expose())
}

/// The number that the MAC of `text` begins with.
fn number_of(key: &hmac::Key, text: &[u8]) -> u64 {
    let mac = hmac::sign(key, text);
    let start = mac.as_ref().first_chunk().expect("a MAC has 32 bytes");
    u64::from_le_bytes(*start)
}

fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(digit).collect()
}

/// The `N` bytes that exactly 2 `N` lower case hex digits stand for.
fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = |at: usize| text.get(2 * at..2 * at + 2);
    let bytes = (0..N).map(|at| u8::from_str_radix(digits(at)?, 16).ok());
    let bytes: Vec<u8> = bytes.collect::<Option<_>>()?;
    // Other texts have a sign, upper case letters or more digits.
    (hex(&bytes) == text).then(|| bytes.try_into().ok())?
}

#[cfg(test)]
mod tests;
