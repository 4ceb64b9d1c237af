//! The secret that opens calls. It is never shown.
//!
//! A token is `chomp1-` and 32 random bytes, as 43 digits of six bits. A coordinator keeps only its digest: the SHA-256
//! of all its characters. So nobody learns a token from the list of participants.

use std::fmt;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::secrets::{Random, random_text};

const PREFIX: &str = "chomp1-";

/// A secret that opens calls. It is not shown when printed for debugging.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(String);

impl Token {
    /// A token of these characters.
    pub fn new(secret: String) -> Token {
        Token(secret)
    }

    /// A new token, which nobody can guess.
    ///
    /// # Errors
    ///
    /// If the system gives no random numbers.
    pub fn random() -> Result<Token, Random> {
        Ok(Token(format!("{PREFIX}{}", random_text()?)))
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

/// The SHA-256 of a token, as hex. The token does not follow from it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenDigest(String);

impl TokenDigest {
    /// The digest of a text that may be a token.
    pub fn of(text: &str) -> TokenDigest {
        let digest = digest(&SHA256, text.as_bytes());
        let digits = digest
            .as_ref()
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15]);
        let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
        TokenDigest(digits.map(digit).collect())
    }
}
