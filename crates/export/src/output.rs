//! The output of an export: it counts and hashes the bytes that pass.

use std::io::{self, Write};

use chomp_table::Digest;
use chomp_table::digest::DigestBuilder;

/// Counts and hashes bytes, and passes them on. Callers give it large pieces.
pub(crate) struct Output<'a> {
    to: &'a mut (dyn Write + Send),
    digest: DigestBuilder,
    bytes: u64,
}

impl Output<'_> {
    pub(crate) fn new(to: &mut (dyn Write + Send)) -> Output<'_> {
        Output {
            to,
            digest: DigestBuilder::default(),
            bytes: 0,
        }
    }

    /// The number of bytes that passed, and their digest.
    pub(crate) fn digest(&self) -> (u64, Digest) {
        (self.bytes, self.digest.clone().finish())
    }
}

impl Write for Output<'_> {
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
