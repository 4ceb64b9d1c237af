//! A SHA-256 digest: 32 bytes, written as 64 hexadecimal digits.

use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

/// A text is not 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a digest is written as 64 hexadecimal digits in lower case")]
pub struct DigestError;

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest::of_parts(&[bytes])
    }

    /// The digest of the concatenation of `parts`.
    pub fn of_parts(parts: &[&[u8]]) -> Digest {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update(part);
        }
        Digest(hasher.finalize().into())
    }
}

/// Marks digests with a secret, so that only its owner can mark bytes as their own. `Debug` does not show the secret.
#[derive(Clone)]
pub struct Seal(Digest);

impl Seal {
    /// The seal with this secret.
    pub fn new(secret: &[u8]) -> Seal {
        Seal(Digest::of(secret))
    }

    /// The mark of a digest. Secret and digest have a fixed length, so nobody can extend a known mark to another one.
    #[must_use]
    pub fn mark(&self, digest: Digest) -> Digest {
        Digest::of_parts(&[&self.0.0, &digest.0])
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal(..)")
    }
}

/// Computes the digest of bytes that come one after the other.
#[derive(Clone, Debug, Default)]
pub struct DigestBuilder(Sha256);

impl DigestBuilder {
    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all bytes.
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

impl Write for DigestBuilder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Counts and hashes bytes, and passes them on. Callers give it large pieces.
#[derive(Debug)]
pub struct Hashed<W> {
    to: W,
    digest: DigestBuilder,
    bytes: u64,
}

impl<W> Hashed<W> {
    /// A writer that passes bytes on to `to`.
    pub fn new(to: W) -> Hashed<W> {
        Hashed {
            to,
            digest: DigestBuilder::default(),
            bytes: 0,
        }
    }

    /// The number of bytes that passed, and their digest.
    pub fn digest(&self) -> (u64, Digest) {
        (self.bytes, self.digest.clone().finish())
    }

    /// The writer to which the bytes were passed on.
    pub fn into_inner(self) -> W {
        self.to
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.to.write(bytes)?;
        self.digest.push(&bytes[..taken]);
        self.bytes += taken as u64;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    /// Accepts exactly what [`Display`](fmt::Display) writes, so that a digest has one text.
    fn from_str(text: &str) -> Result<Digest, DigestError> {
        let value = |digit: u8| match digit {
            b'0'..=b'9' => Ok(digit - b'0'),
            b'a'..=b'f' => Ok(digit - b'a' + 10),
            _ => Err(DigestError),
        };
        let digits: &[u8; 64] = text.as_bytes().try_into().map_err(|_| DigestError)?;
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = value(pair[0])? << 4 | value(pair[1])?;
        }
        Ok(Digest(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_form() {
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let digest = Digest::of(b"abc");
        assert_eq!(digest.to_string(), text);
        assert_eq!(text.parse(), Ok(digest));
        assert_eq!(Digest::of_parts(&[b"a", b"", b"bc"]), digest);
        let mut builder = DigestBuilder::default();
        builder.push(b"ab");
        builder.push(b"c");
        assert_eq!(builder.finish(), digest);
        assert_eq!(
            serde_json::to_string(&digest).unwrap(),
            format!("\"{text}\"")
        );
        assert_eq!(
            serde_json::from_str::<Digest>(&format!("\"{text}\"")).unwrap(),
            digest
        );
        for wrong in [
            "",
            &text[1..],
            &text.to_uppercase(),
            &text.replace('b', "g"),
            &format!("{text}0"),
        ] {
            assert_eq!(wrong.parse::<Digest>(), Err(DigestError), "{wrong}");
        }
    }

    #[test]
    fn what_passes_is_counted_and_hashed() {
        let mut hashed = Hashed::new(Vec::new());
        for piece in [&b"ab"[..], b"", b"c"] {
            hashed.write_all(piece).unwrap();
        }
        assert_eq!(hashed.digest(), (3, Digest::of(b"abc")));
        assert_eq!(hashed.into_inner(), b"abc");
    }
}
