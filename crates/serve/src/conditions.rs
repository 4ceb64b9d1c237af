//! Which part of a file a request wants: `If-None-Match`, `Range` and `If-Range` of RFC 9110.
//!
//! The crate `headers` reads these headers, but does not tell which answer follows from them. Reading them is thirty
//! lines.

use std::ops::Range;

use http::HeaderMap;
use http::header::{HeaderValue, IF_NONE_MATCH, IF_RANGE, RANGE};

/// How to answer a request for a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The client has it already.
    Nothing,
    /// All of it.
    Whole,
    /// These bytes; at least one.
    Part(Range<u64>),
    /// Bytes that the file does not have.
    Beyond,
}

/// How to answer a request with these headers for a file of `bytes` bytes with this entity tag.
pub(crate) fn wanted(headers: &HeaderMap, etag: &HeaderValue, bytes: u64) -> Wanted {
    let mut known = headers.get_all(IF_NONE_MATCH).iter();
    if known.any(|tags| names(tags, etag)) {
        return Wanted::Nothing;
    }
    let mut ranges = headers.get_all(RANGE).iter();
    let (Some(range), None) = (ranges.next(), ranges.next()) else {
        return Wanted::Whole;
    };
    // A part of another version is of no use. Dates are never equal to a tag.
    if headers.get(IF_RANGE).is_some_and(|tag| tag != etag) {
        return Wanted::Whole;
    }
    range
        .to_str()
        .ok()
        .and_then(|range| part(range, bytes))
        .unwrap_or(Wanted::Whole)
}

/// Whether a file of `bytes` bytes has the part that a `Range` with this value wants.
///
/// # Panics
///
/// If it would be given bytes that it does not have, or none.
#[cfg(feature = "fuzzing")]
pub fn is_part(value: &[u8], bytes: u64) -> bool {
    let Ok(value) = HeaderValue::from_bytes(value) else {
        return false;
    };
    let etag = HeaderValue::from_static("\"a\"");
    let headers = HeaderMap::from_iter([(RANGE, value)]);
    let Wanted::Part(part) = wanted(&headers, &etag, bytes) else {
        return false;
    };
    assert!(part.start < part.end && part.end <= bytes, "{part:?}");
    true
}

/// Whether one of a list of tags is `etag`, or all are meant.
fn names(tags: &HeaderValue, etag: &HeaderValue) -> bool {
    let (Ok(tags), Ok(etag)) = (tags.to_str(), etag.to_str()) else {
        return false;
    };
    // The tags here have no commas.
    tags.split(',').map(str::trim).any(|tag| {
        let tag = tag.strip_prefix("W/").unwrap_or(tag);
        tag == "*" || tag == etag
    })
}

/// The bytes of a `Range`. None if it is to be ignored: what nobody understands, and several parts
/// at once.
fn part(range: &str, bytes: u64) -> Option<Wanted> {
    let (unit, range) = range.split_once('=')?;
    let (first, last) = range.trim().split_once('-')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let part = match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(bytes),
        (Some(first), None) if last.is_empty() => first..bytes,
        (None, Some(length)) if first.is_empty() => bytes.saturating_sub(length)..bytes,
        _ => return None,
    };
    Some(if part.is_empty() {
        Wanted::Beyond
    } else {
        Wanted::Part(part)
    })
}

/// A number of digits alone; the largest there is for those that are larger.
fn number(digits: &str) -> Option<u64> {
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: &str = "\"abc\"";

    fn with(headers: &[(&'static str, &str)], bytes: u64) -> Wanted {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        wanted(&map, &HeaderValue::from_static(TAG), bytes)
    }

    #[test]
    fn ranges_are_those_of_the_rules() {
        for (range, expected) in [
            ("bytes=0-0", Wanted::Part(0..1)),
            ("bytes=0-99", Wanted::Part(0..100)),
            ("bytes=0-100", Wanted::Part(0..100)),
            ("bytes=7-", Wanted::Part(7..100)),
            ("bytes=99-", Wanted::Part(99..100)),
            ("bytes=99-18446744073709551615", Wanted::Part(99..100)),
            ("bytes=99-99999999999999999999999", Wanted::Part(99..100)),
            ("bytes=-1", Wanted::Part(99..100)),
            ("bytes=-100", Wanted::Part(0..100)),
            ("bytes=-101", Wanted::Part(0..100)),
            ("Bytes = 1-2", Wanted::Part(1..3)),
            ("bytes=100-", Wanted::Beyond),
            ("bytes=100-200", Wanted::Beyond),
            ("bytes=18446744073709551615-", Wanted::Beyond),
            ("bytes=99999999999999999999999-", Wanted::Beyond),
            ("bytes=-0", Wanted::Beyond),
            ("bytes=0-1,5-6", Wanted::Whole),
            ("bytes=5-6, 7-8", Wanted::Whole),
            ("bytes=2-1", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("bytes=--1", Wanted::Whole),
            ("bytes=+1-2", Wanted::Whole),
            ("bytes=1-+2", Wanted::Whole),
            ("bytes=0x1-2", Wanted::Whole),
            ("bytes=1-2x", Wanted::Whole),
            ("bytes=", Wanted::Whole),
            ("bytes", Wanted::Whole),
            ("", Wanted::Whole),
            ("lines=1-2", Wanted::Whole),
        ] {
            assert_eq!(with(&[("range", range)], 100), expected, "{range}");
        }
        for range in ["bytes=0-0", "bytes=0-", "bytes=-1"] {
            assert_eq!(with(&[("range", range)], 0), Wanted::Beyond, "{range}");
        }
        let twice = [("range", "bytes=1-2"), ("range", "bytes=1-2")];
        assert_eq!(with(&twice, 100), Wanted::Whole);
    }

    #[test]
    fn a_part_is_of_the_version_that_is_meant() {
        let range = ("range", "bytes=1-2");
        for (tag, expected) in [
            (TAG, Wanted::Part(1..3)),
            ("\"abd\"", Wanted::Whole),
            ("abc", Wanted::Whole),
            ("W/\"abc\"", Wanted::Whole),
            ("Fri, 20 Nov 2026 13:00:00 GMT", Wanted::Whole),
        ] {
            assert_eq!(with(&[range, ("if-range", tag)], 100), expected, "{tag}");
        }
        assert_eq!(with(&[("if-range", TAG)], 100), Wanted::Whole);
    }

    #[test]
    fn what_is_known_is_not_sent_again() {
        for (tags, known) in [
            (TAG, true),
            ("W/\"abc\"", true),
            ("\"x\", \"abc\"", true),
            ("*", true),
            ("\"x\"", false),
            ("abc", false),
            ("", false),
        ] {
            let headers = [("if-none-match", tags), ("range", "bytes=1-2")];
            let expected = if known {
                Wanted::Nothing
            } else {
                Wanted::Part(1..3)
            };
            assert_eq!(with(&headers, 100), expected, "{tags}");
        }
    }
}
