//! The secret that opens calls. It is never shown.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The participant that a token is of, and which of its credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The number of the participant. It is never given to another one.
    pub number: u32,
    /// Which of its credentials this is: each renewal has a greater one.
    pub serial: u32,
}

impl Holder {
    /// The first credential of the owner of the table.
    pub const OWNER: Holder = Holder {
        number: 0,
        serial: 0,
    };
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
