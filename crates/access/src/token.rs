//! The secret that authorizes calls. It is never shown.
//!
//! A token is `chomp1-` and 32 random bytes, as 64 hexadecimal digits. A coordinator keeps only its digest: the SHA-256
//! of all its characters. So nobody learns a token from the list of participants.

use std::fmt;

use chomp_table::Digest;
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

const PREFIX: &str = "chomp1-";

/// A secret that authorizes calls. It is not shown when printed for debugging.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(String);

impl Token {
    /// A token of these characters.
    pub fn new(secret: String) -> Token {
        Token(secret)
    }

    /// A new token, which nobody can guess. Panics if the system gives no random numbers.
    pub fn random() -> Token {
        Token(format!("{PREFIX}{}", random_text()))
    }

    /// The characters, to be sent to the coordinator and nowhere else.
    pub fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The SHA-256 of a token. The token does not follow from it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenDigest(pub(crate) Digest);

impl TokenDigest {
    /// The digest of a text that may be a token.
    pub fn of(text: &str) -> TokenDigest {
        TokenDigest(Digest::of(text.as_bytes()))
    }
}

/// 32 random bytes, as hexadecimal digits.
pub(crate) fn random_text() -> String {
    let mut bytes = [0; 32];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.expect("the system gives random numbers");
    Digest(bytes).to_string()
}
