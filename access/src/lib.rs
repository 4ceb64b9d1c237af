//! Who may speak to a coordinator: what it gives to those who may.

use std::fmt;

use serde::{Deserialize, Serialize};

/// All that a worker, or a person, needs to speak to a coordinator. Secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// Where it listens, as `https://host:port`.
    pub coordinator: String,
    /// The certificate of the authority that vouches for it, as PEM; none without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// Opens all calls. None if only what is open to everybody is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
}

/// A secret that opens calls. It is not shown when printed for debugging.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(String);

impl Token {
    /// A token of these characters.
    pub fn new(secret: String) -> Token {
        Token(secret)
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
