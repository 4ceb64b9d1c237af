//! The keys of the objects of a table.
//!
//! | key | object |
//! |---|---|
//! | `work/journal/<number, 10 digits>` | [a segment of the journal](super::journal) |
//! | `work/checkpoints/<number, 10 digits>` | [what all segments below this number add up to](super::journal) |
//! | `work/parts/<layer, 4 digits>/<lease, 16 hex>` | [the result of a task](super::part) |
//! | `table-<bits, 2 digits>/<name>`, `values-<tiles, 3 digits>/<name>` | an object of the published table |
//!
//! Zeros pad numbers so that keys sort as their numbers do: no journal has more than ten digits of segments.

use chomp_table::manifest::MANIFEST_NAME;

use crate::objects::Key;

/// The name of a part: the layer of its ranges, and the lease under which they were computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartName {
    /// The layer of its ranges.
    pub layer: u32,
    /// The lease. No two tasks have the same, under one coordinator or several.
    pub lease: u64,
}

impl PartName {
    /// The key of the part.
    pub fn key(self) -> Key {
        key(&format!("work/parts/{:04}/{:016x}", self.layer, self.lease))
    }

    /// The part that has this key, if one can have it.
    pub fn of(key: &Key) -> Option<PartName> {
        let mut components = key.as_str().rsplit('/');
        let lease = u64::from_str_radix(components.next()?, 16).ok()?;
        let layer = components.next()?.parse().ok()?;
        let name = PartName { layer, lease };
        (name.key() == *key).then_some(name)
    }
}

fn key(text: &str) -> Key {
    Key::new(text).expect("made of letters, digits, hyphens and single slashes, and short")
}

pub(crate) fn segment(number: u64) -> Key {
    key(&format!("work/journal/{number:010}"))
}

pub(crate) fn segments_prefix() -> Key {
    key("work/journal")
}

pub(crate) fn number_of(key: &Key) -> Option<u64> {
    let number = key.as_str().rsplit('/').next()?.parse().ok()?;
    (segment(number) == *key || checkpoint(number) == *key).then_some(number)
}

pub(crate) fn checkpoint(number: u64) -> Key {
    key(&format!("work/checkpoints/{number:010}"))
}

pub(crate) fn checkpoints_prefix() -> Key {
    key("work/checkpoints")
}

/// Whether this is an object of the journal, or a folder of it.
pub(crate) fn is_of_journal(key: &Key) -> bool {
    number_of(key).is_some() || [segments_prefix(), checkpoints_prefix()].contains(key)
}

pub(crate) fn parts_prefix() -> Key {
    key("work/parts")
}

pub(crate) fn manifest(folder: &str) -> Key {
    key(&format!("{folder}/{MANIFEST_NAME}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published;

    #[test]
    fn keys_are_read_back() {
        let name = PartName {
            layer: 137,
            lease: 0xfedc_ba98_7654_3210,
        };
        assert_eq!(name.key().as_str(), "work/parts/0137/fedcba9876543210");
        assert_eq!(PartName::of(&name.key()), Some(name));
        assert_eq!(number_of(&segment(12)), Some(12));
        assert_eq!(number_of(&checkpoint(u64::MAX)), Some(u64::MAX));
        let folder = "table-20";
        let shard = published::key(folder, "a.zst").unwrap();
        assert_eq!(shard.as_str(), "table-20/a.zst");
        assert_eq!(published::key(folder, MANIFEST_NAME), Ok(manifest(folder)));
    }

    #[test]
    fn other_names_are_none() {
        for text in [
            "work/parts/0137/ff",
            "work/parts/137/00000000000000ff",
            "work/parts/0137/00000000000000FF",
            "work/parts/0137/a/00000000000000ff",
            "work/parts/0137/1000000000000000ff",
            "a-1",
        ] {
            assert_eq!(PartName::of(&key(text)), None, "{text}");
        }
        for text in ["work/journal/1", "work/journal/00000000001", "0000000001"] {
            assert_eq!(number_of(&key(text)), None, "{text}");
        }
    }
}
