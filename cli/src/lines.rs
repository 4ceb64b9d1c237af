//! The lines of standard input.

use std::io::{BufRead, BufReader, Read};

use anyhow::Context;

use crate::exit::usage;

/// The most bytes of a line. A position of 200,000 rows has 400,000.
pub(crate) const LINE_BYTES_MAX: usize = 1 << 20;
const BUFFER_BYTES: usize = 64 << 10;

/// The first bytes of files that are no lines of text, and the advice for them.
const FOREIGN: [(&[u8], &str); 4] = [
    (
        b"\xff\xfe",
        "UTF-16: convert it, as `iconv -f UTF-16 -t UTF-8` does",
    ),
    (
        b"\xfe\xff",
        "UTF-16: convert it, as `iconv -f UTF-16 -t UTF-8` does",
    ),
    (
        b"\x1f\x8b",
        "compressed by gzip: decompress it, as `gzip -dc` does",
    ),
    (
        b"\x28\xb5\x2f\xfd",
        "compressed by zstd, as shards are: --table takes a shard, and `zstd -dc` decompresses lines",
    ),
];

/// Lines, each with its number, counted from 1. After a line that is too long the next ones follow; any other error is
/// the last item.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    input: BufReader<R>,
    number: u64,
    has_ended: bool,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(input: R) -> Lines<R> {
        Lines {
            input: BufReader::with_capacity(BUFFER_BYTES, input),
            number: 0,
            has_ended: false,
        }
    }

    /// The next line; none at the end of the input.
    fn line(&mut self) -> anyhow::Result<Option<String>> {
        let mut line = Vec::new();
        let mut limited = (&mut self.input).take(LINE_BYTES_MAX as u64 + 1);
        let read = limited.read_until(b'\n', &mut line);
        self.has_ended = read.is_err() || line.is_empty();
        read.context("cannot read stdin")?;
        self.number += 1;
        let mut foreign = FOREIGN.iter();
        if let Some((_, advice)) = foreign.find(|(magic, _)| line.starts_with(magic))
            && self.number == 1
        {
            self.has_ended = true;
            return Err(usage(format!("stdin is {advice}")));
        }
        if line.len() > LINE_BYTES_MAX {
            if !line.ends_with(b"\n") {
                self.input.skip_until(b'\n').context("cannot read stdin")?;
            }
            let number = self.number;
            return Err(usage(format!(
                "line {number} of stdin has more than {LINE_BYTES_MAX} bytes"
            )));
        }
        let text = String::from_utf8_lossy(&line);
        let text = text
            .trim_start_matches('\u{feff}')
            .trim_end_matches(['\n', '\r']);
        Ok((!line.is_empty()).then(|| text.to_owned()))
    }
}

impl<R: Read> Iterator for Lines<R> {
    type Item = (u64, anyhow::Result<String>);

    fn next(&mut self) -> Option<(u64, anyhow::Result<String>)> {
        if self.has_ended {
            return None;
        }
        let line = self.line().transpose()?;
        Some((self.number, line))
    }
}

/// A line without the comment that ends it.
pub(crate) fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers_of(input: &[u8]) -> Vec<(u64, Option<String>)> {
        let lines = Lines::new(input).map(|(number, line)| (number, line.ok()));
        lines.collect()
    }

    #[test]
    fn lines_follow_one_that_is_too_long() {
        let long = "1".repeat(LINE_BYTES_MAX);
        for (end, expected) in [
            ("", [None, Some("2"), Some("")]),
            ("1", [None, Some("2"), Some("")]),
        ] {
            let input = format!("{long}{end}\n2\r\n\n");
            let expected = expected.map(|line| line.map(str::to_owned));
            assert_eq!(
                numbers_of(input.as_bytes()),
                [1, 2, 3].into_iter().zip(expected).collect::<Vec<_>>()
            );
        }
        let whole = "1".repeat(LINE_BYTES_MAX - 1);
        assert_eq!(
            numbers_of(format!("{whole}\n").as_bytes()),
            [(1, Some(whole))]
        );
    }

    #[test]
    fn foreign_files_are_named_and_not_read_on() {
        for (input, named) in [
            (&b"\xff\xfe3\0\n\x002\0"[..], "UTF-16"),
            (b"\xfe\xff\x003\0\n", "UTF-16"),
            (b"\x1f\x8b\x08\n3\n", "gzip"),
            (b"\x28\xb5\x2f\xfd\n3\n", "zstd"),
        ] {
            let lines: Vec<_> = Lines::new(input).collect();
            assert_eq!(lines.len(), 1);
            let error = lines[0].1.as_ref().unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
        assert_eq!(numbers_of("\u{feff}3\n\u{feff}2".as_bytes()).len(), 2);
    }
}
