//! The secret that opens calls. It is never shown.
//!
//! A token is `chomp1-` and 32 random bytes, as 43 digits of six bits. A coordinator keeps only its digest: the SHA-256
//! of all its characters. So nobody learns a token from the list of participants.

use std::fmt;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::hex::{hex, unhex};
use crate::secrets::{Random, random};

const PREFIX: &str = "chomp1-";
const BYTES: usize = 32;
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

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
        let bytes: [u8; BYTES] = random()?;
        let digit = |number: usize| {
            let (at, shift) = (6 * number / 8, 6 * number % 8);
            let next = bytes.get(at + 1).copied().unwrap_or(0);
            let value = u16::from_le_bytes([bytes[at], next]) >> shift & 63;
            char::from(DIGITS[usize::from(value)])
        };
        let digits = (0..(8 * BYTES).div_ceil(6)).map(digit);
        Ok(Token(PREFIX.chars().chain(digits).collect()))
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
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// The digest of a text that may be a token.
    pub fn of(text: &str) -> TokenDigest {
        let digest = digest(&SHA256, text.as_bytes());
        TokenDigest(digest.as_ref().try_into().expect("it has 32 bytes"))
    }
}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl Serialize for TokenDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        hex(&self.0).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for TokenDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TokenDigest, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = unhex(&text).ok_or_else(|| de::Error::custom("32 bytes as hex"))?;
        Ok(TokenDigest(bytes))
    }
}
