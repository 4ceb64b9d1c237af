//! The keys of the objects of a table.
//!
//! | key | object |
//! |---|---|
//! | `work/job` | [what the working files are for](super::job) |
//! | `work/epochs/<10 digits>` | [one for each owner there ever was](super::epoch) |
//! | `work/parts/<layer, 4 digits>/<first head, 16 hex>-<epoch, 10 digits>` | [the result of a task](super::part) |
//! | `work/seals/<bits, 2 digits>/<layer, 4 digits>` | [says that a layer is complete](super::seal) |
//! | `work/publications/<bits, 2 digits>/<shards, 6 digits>` | [how far a publication has come](super::checkpoint) |
//! | `table-<bits, 2 digits>/<name>` | an object of the published table |
//!
//! Numbers are padded with zeros so that keys sort as their numbers do.

use chomp_table::Head;

use crate::storage::{Key, KeyError};

/// The largest epoch: the largest number of ten digits.
pub(super) const EPOCH_MAX: u64 = 9_999_999_999;

fn key(text: &str) -> Key {
    Key::new(text).expect("made of letters, digits, hyphens and single slashes, and short")
}

pub(super) fn job() -> Key {
    key("work/job")
}

pub(super) fn epochs() -> Key {
    key("work/epochs")
}

pub(super) fn epoch(epoch: u64) -> Key {
    key(&format!("work/epochs/{epoch:010}"))
}

pub(super) fn epoch_of(key: &Key) -> Option<u64> {
    let number = key.as_str().rsplit('/').next()?.parse().ok()?;
    (number <= EPOCH_MAX && epoch(number) == *key).then_some(number)
}

pub(super) fn parts() -> Key {
    key("work/parts")
}

/// What the key of a part tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartName {
    pub(super) layer: u32,
    pub(super) first: Head,
    pub(super) epoch: u64,
}

impl PartName {
    pub(super) fn key(self) -> Key {
        let (layer, Head(first), epoch) = (self.layer, self.first, self.epoch);
        key(&format!("work/parts/{layer:04}/{first:016x}-{epoch:010}"))
    }

    pub(super) fn of(key: &Key) -> Option<PartName> {
        let mut segments = key.as_str().rsplit('/');
        let (first, epoch) = segments.next()?.split_once('-')?;
        let name = PartName {
            layer: segments.next()?.parse().ok()?,
            first: Head(u64::from_str_radix(first, 16).ok()?),
            epoch: epoch.parse().ok()?,
        };
        (name.key() == *key).then_some(name)
    }
}

pub(super) fn all_seals() -> Key {
    key("work/seals")
}

pub(super) fn seals(bits: u32) -> Key {
    key(&format!("work/seals/{bits:02}"))
}

pub(super) fn seal(bits: u32, layer: u32) -> Key {
    key(&format!("work/seals/{bits:02}/{layer:04}"))
}

/// The bits of the job that a seal is of.
pub(super) fn bits_of_seal(key: &Key) -> Option<u32> {
    let folder = key.as_str().rsplit('/').nth(1)?;
    folder
        .parse()
        .ok()
        .filter(|&bits| layer_of_seal(key, bits).is_some())
}

pub(super) fn layer_of_seal(key: &Key, bits: u32) -> Option<u32> {
    let layer = key.as_str().rsplit('/').next()?.parse().ok()?;
    (seal(bits, layer) == *key).then_some(layer)
}

pub(super) fn all_checkpoints() -> Key {
    key("work/publications")
}

pub(super) fn checkpoints(bits: u32) -> Key {
    key(&format!("work/publications/{bits:02}"))
}

pub(super) fn checkpoint(bits: u32, shards: usize) -> Key {
    key(&format!("work/publications/{bits:02}/{shards:06}"))
}

/// The number of shards before a checkpoint of a job of `bits` bits.
pub(super) fn shards_of_checkpoint(key: &Key, bits: u32) -> Option<usize> {
    let shards = key.as_str().rsplit('/').next()?.parse().ok()?;
    (checkpoint(bits, shards) == *key).then_some(shards)
}

/// The bits of the job of a checkpoint, and the number of shards before it.
pub(super) fn bits_and_shards(key: &Key) -> Option<(u32, usize)> {
    let bits = key.as_str().rsplit('/').nth(1)?.parse().ok()?;
    Some((bits, shards_of_checkpoint(key, bits)?))
}

pub(super) fn published(bits: u32, name: &str) -> Result<Key, KeyError> {
    Key::new(&format!("table-{bits:02}/{name}"))
}

pub(super) fn manifest(bits: u32) -> Key {
    key(&format!("table-{bits:02}/manifest.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_back() {
        let name = PartName {
            layer: 137,
            first: Head(0xfedc_ba98_7654_3210),
            epoch: EPOCH_MAX,
        };
        assert_eq!(
            name.key().as_str(),
            "work/parts/0137/fedcba9876543210-9999999999"
        );
        assert_eq!(PartName::of(&name.key()), Some(name));
        assert_eq!(epoch_of(&epoch(12)), Some(12));
        assert_eq!(layer_of_seal(&seal(40, 136), 40), Some(136));
        assert_eq!(shards_of_checkpoint(&checkpoint(40, 272), 40), Some(272));
        assert_eq!(published(20, "a.zst").unwrap().as_str(), "table-20/a.zst");
        assert_eq!(published(20, "manifest.json").unwrap(), manifest(20));
    }

    #[test]
    fn other_names_are_none() {
        for text in [
            "work/parts/0137/00000000000000ff",
            "work/parts/137/00000000000000ff-0000000001",
            "work/parts/0137/00000000000000FF-0000000001",
            "work/parts/0137/ff-0000000001",
            "work/parts/0137/00000000000000ff-1",
            "work/parts/0137/a/00000000000000ff-0000000001",
            "work/parts/0137/1000000000000000ff-0000000001",
            "a-1",
        ] {
            assert_eq!(PartName::of(&key(text)), None, "{text}");
        }
        for text in [
            "work/epochs/1",
            "work/epochs/99999999999",
            "work/epochs/00000000-1",
            "0000000001",
        ] {
            assert_eq!(epoch_of(&key(text)), None, "{text}");
        }
        for text in [
            "work/seals/40/1",
            "work/seals/41/0001",
            "work/seals/40/4294967296",
        ] {
            assert_eq!(layer_of_seal(&key(text), 40), None, "{text}");
        }
        for text in [
            "work/publications/40/1",
            "work/publications/41/000001",
            "work/publications/40/00001",
            "work/publications/40/-00001",
        ] {
            assert_eq!(shards_of_checkpoint(&key(text), 40), None, "{text}");
        }
    }
}
