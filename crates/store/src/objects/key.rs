//! Keys: the names of objects.

use std::fmt;
use std::sync::Arc;

/// The name of an object: components joined by `/`, such as `work/parts/0003/00000000000000ff`.
///
/// A component has letters, digits, `-`, `_` and `.`, and does not start with `.`: so a key cannot
/// leave its directory, and cannot be mistaken for a file that is still being written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

/// A text that is not a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a key: at most {} bytes, components of letters, digits, '-', '_' and '.' that do not start with '.'",
    Key::BYTES_MAX
)]
pub struct KeyError {
    /// The text.
    pub text: String,
}

impl Key {
    /// The most bytes that a key may have, so that any file system takes it.
    pub const BYTES_MAX: usize = 200;

    /// `text` as a key. Fails if it is not one.
    pub fn new(text: &str) -> Result<Key, KeyError> {
        let is_key = text.len() <= Self::BYTES_MAX && text.split('/').all(is_component);
        is_key
            .then(|| Key(Arc::from(text)))
            .ok_or_else(|| KeyError {
                text: text.to_owned(),
            })
    }

    /// The text of the key.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the key of an object in the folder `prefix` or its subfolders.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn is_in(&self, prefix: &Key) -> bool {
        self.0
            .strip_prefix(&*prefix.0)
            .is_some_and(|rest| rest.starts_with('/'))
    }
}

pub(crate) fn is_component(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !text.is_empty() && !text.starts_with('.') && text.bytes().all(allowed)
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_key() {
        let longest = "a".repeat(Key::BYTES_MAX);
        for text in ["work/job", "table-32/SHA256SUMS", "a.b/c_d", &longest] {
            assert_eq!(Key::new(text).unwrap().as_str(), text);
        }
        let too_long = "a".repeat(Key::BYTES_MAX + 1);
        for text in [
            "", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/.b", "a b", "a#1", "a\\b", "ä",
            "a\0", "a%2e", &too_long,
        ] {
            assert!(Key::new(text).is_err(), "{text}");
        }
    }
}
