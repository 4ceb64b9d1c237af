//! Shared by all formats: errors and their texts, and reading integers from untrusted bytes.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::Write;

/// Why some bytes are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the variants are named for what they are")]
pub enum FormatError {
    #[error("{what} has format {found}, and this program knows format {known}: use a newer chomp")]
    Newer {
        /// The name of what was read, as `the manifest`.
        what: &'static str,
        found: u32,
        known: u32,
    },
    #[error(transparent)]
    Damaged(#[from] Damage),
}

/// A description for people of what is wrong with some bytes: a program can only refuse them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Damage {
    what: String,
}

impl Damage {
    /// Damage that is described by `what`.
    pub fn new(what: impl Into<String>) -> Damage {
        Damage { what: what.into() }
    }
}

/// An error and its causes on one line.
pub fn describe(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Makes a stranger's text safe for a terminal or a log. Control characters but those that are `kept` become escapes,
/// as do characters that show words in another order. Escapes have the form of JSON, so JSON stays the same JSON.
pub fn escape_control<'a>(text: &'a str, kept: &[char]) -> Cow<'a, str> {
    let commands = |char: char| {
        let reorders = matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}')
            || ('\u{2028}'..='\u{202e}').contains(&char)
            || ('\u{2066}'..='\u{2069}').contains(&char);
        (char.is_control() || reorders) && !kept.contains(&char)
    };
    if !text.contains(commands) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        if commands(char) {
            write!(shown, "\\u{:04x}", u32::from(char)).expect("a string takes any text");
        } else {
            shown.push(char);
        }
    }
    Cow::Owned(shown)
}

/// Fails with the damage that `what` describes unless `condition` holds.
pub fn ensure<T: Into<String>>(condition: bool, what: impl FnOnce() -> T) -> Result<(), Damage> {
    if condition {
        Ok(())
    } else {
        Err(Damage::new(what()))
    }
}

/// Takes fields, all little-endian, from the start of some bytes.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    what: &'static str,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// The fields of `bytes`, which are `what` in an error text.
    pub fn new(what: &'static str, bytes: &'a [u8]) -> Fields<'a> {
        Fields { what, rest: bytes }
    }

    /// The next `N` bytes. Fails with [`Damage`] if there are fewer.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        let split = self.rest.split_first_chunk();
        let (field, rest) = split.ok_or_else(|| self.cut_short())?;
        self.rest = rest;
        Ok(*field)
    }

    /// The next `length` bytes. Fails with [`Damage`] if there are fewer.
    pub fn bytes(&mut self, length: u32) -> Result<&'a [u8], Damage> {
        let split = self.rest.split_at_checked(length as usize);
        let (field, rest) = split.ok_or_else(|| self.cut_short())?;
        self.rest = rest;
        Ok(field)
    }

    fn cut_short(&self) -> Damage {
        Damage::new(format!("{} is cut short", self.what))
    }

    /// The next four bytes. Fails with [`Damage`] if there are fewer.
    pub fn u32(&mut self) -> Result<u32, Damage> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next eight bytes. Fails with [`Damage`] if there are fewer.
    pub fn u64(&mut self) -> Result<u64, Damage> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a magic number and a version, which must be `known`. Fails if it is another magic number or version.
    pub fn version(&mut self, magic: [u8; 8], known: u32) -> Result<(), FormatError> {
        let found = self.array()?;
        ensure(found == magic, || {
            format!("this is not {}: it starts with {found:02x?}", self.what)
        })?;
        match self.u32()? {
            found if found > known => Err(FormatError::Newer {
                what: self.what,
                found,
                known,
            }),
            found => Ok(ensure(found == known, || {
                format!("{} has the unknown format {found}", self.what)
            })?),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_commands_a_terminal_is_shown() {
        for (text, escaped) in [
            ("", ""),
            ("plain é 漢 \\ \u{1f600}", "plain é 漢 \\ \u{1f600}"),
            ("\u{1b}[2J", "\\u001b[2J"),
            ("a\r\n\tb", "a\\u000d\n\tb"),
            ("\0\u{7f}\u{9b}", "\\u0000\\u007f\\u009b"),
            ("\u{202e}txt\u{2066}", "\\u202etxt\\u2066"),
        ] {
            assert_eq!(escape_control(text, &['\n', '\t']), escaped);
        }
        assert_eq!(escape_control("a\nb", &[]), "a\\u000ab");
    }

    #[test]
    fn json_that_is_shown_is_the_same_json() {
        let every: String = ('\0'..'\u{3000}').collect();
        let json = serde_json::to_string(&every).expect("a text becomes JSON");
        let shown = escape_control(&json, &[]);
        assert_ne!(shown, json);
        assert!(!shown.contains(char::is_control));
        assert_eq!(serde_json::from_str::<String>(&shown).ok(), Some(every));
    }
}
