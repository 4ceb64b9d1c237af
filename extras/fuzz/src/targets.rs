//! The decoders. Any bytes give an error, or a value that comes back when written; no panic; memory in proportion.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use chomp_access::TokenDigest;
use chomp_proto::v1;
use chomp_query::Certificate;
use chomp_store::Key;
use chomp_store::journal::is_read;
use chomp_store::location::StoreLocation;
use chomp_table::manifest::Manifest;
use chomp_table::shard::{Index, ShardIndex, ShardInfo, TRAILER_LENGTH, decode_shard};
use chomp_table::{Digest, Position, RangeBits, Word, fuzzing, range};
use chomp_testing::definition;
use fastrand::Rng;
use prost::Message;

use crate::seeds::{BITS, range_bits};
use crate::{seal, secrets, seeds, values};

/// The most bytes of a block whose frame is fed.
const BLOCK_BYTES_MAX: u64 = 1 << 17;

/// The most bytes that a word takes in a shard: alone in a data frame.
const WORD_BYTES_MAX: u128 = 9 + 64 + 56 + 1;

/// A decoder.
pub struct Target {
    /// Its name, and that of its corpus folder.
    pub name: &'static str,
    /// Whether the bytes are accepted; panics if a promise is broken.
    pub(crate) check: fn(&[u8]) -> bool,
    pub(crate) seal: fn(&mut [u8], &mut Rng),
    /// The most bytes of memory for each byte of input, with those that `check` needs to write it again.
    pub(crate) memory_factor: usize,
    pub(crate) seeds: fn() -> Vec<Vec<u8>>,
    /// Inputs with secrets, which are made anew for each process.
    pub(crate) fresh: fn() -> Vec<Vec<u8>>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Target {
    /// Inputs that the writers of this project make, and that it accepts.
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        (self.seeds)()
    }

    const fn new(
        name: &'static str,
        check: fn(&[u8]) -> bool,
        seeds: fn() -> Vec<Vec<u8>>,
    ) -> Target {
        Target {
            name,
            check,
            seal: |_, _| {},
            memory_factor: 64,
            seeds,
            fresh: Vec::new,
        }
    }

    const fn sealed(self, seal: fn(&mut [u8], &mut Rng)) -> Target {
        Target { seal, ..self }
    }

    const fn memory(self, memory_factor: usize) -> Target {
        Target {
            memory_factor,
            ..self
        }
    }

    const fn fresh(self, fresh: fn() -> Vec<Vec<u8>>) -> Target {
        Target { fresh, ..self }
    }
}

/// All decoders of bytes from files and peers.
pub static TARGETS: [Target; 21] = [
    Target::new("record", record, seeds::records),
    Target::new("gap-block", gap_block, seeds::gap_blocks),
    Target::new("class-block", class_block, seeds::class_blocks),
    Target::new("frame", frame, seeds::frames),
    Target::new("index", index, seeds::indices).sealed(seal::index),
    Target::new("shard", shard, seeds::shards).sealed(seal::shard),
    Target::new("manifest", manifest, seeds::manifests),
    // In zstd, one byte of a frame may stand for many.
    Target::new("values-shard", values::shard, values::shards)
        .sealed(values::seal_shard)
        .memory(1 << 10),
    Target::new("values-manifest", values::manifest, values::manifests),
    Target::new("box", openings_of_box, seeds::boxes),
    Target::new("part", seeds::read_part, seeds::parts),
    Target::new("segment", |bytes| is_read(bytes, false), seeds::segments).sealed(seal::envelope),
    Target::new(
        "checkpoint",
        |bytes| is_read(bytes, true),
        seeds::checkpoints,
    )
    .sealed(seal::envelope),
    Target::new("access", access, seeds::access),
    Target::new("secrets", secrets_file, Vec::new).fresh(secrets::files),
    Target::new("participants", participants, seeds::participants),
    Target::new("position", position, seeds::positions),
    Target::new("certificate", certificate, seeds::certificates),
    Target::new("range-header", range_header, seeds::range_headers),
    Target::new("result", result, seeds::results),
    Target::new("answer", answer, seeds::answers),
];

/// The output of `chomp box --json`.
fn openings_of_box(bytes: &[u8]) -> bool {
    let Ok(openings) = chomp_query::of_box(bytes) else {
        return false;
    };
    let (rows, columns) = openings
        .last()
        .map_or((0, 0), |one| (one.rows, one.columns));
    let again = serde_json::json!({
        "rows": rows, "columns": columns, "digest": Digest::default(), "openings": openings,
    });
    let again = serde_json::to_vec(&again).expect("numbers become JSON");
    assert_eq!(chomp_query::of_box(&again), Ok(openings));
    true
}

/// A range record; how many range bits its range has, it says itself.
fn record(bytes: &[u8]) -> bool {
    let bits = bytes.get(12..).and_then(|rest| rest.first_chunk());
    let bits = bits.map_or(0, |bits| u32::from_le_bytes(*bits));
    let range_bits = RangeBits::new(bits).unwrap_or_else(range_bits);
    let contents = range::decode_trusting_stored(bytes, range_bits);
    let summary = range::summary(bytes, range_bits);
    let Ok(found) = range::decode(bytes, range_bits) else {
        return false;
    };
    let (range, _) = contents.expect("what is a range has contents");
    assert_eq!(range, found);
    let (said, again) = range::encode(&found, range_bits);
    assert_eq!(again, bytes, "a range has one record");
    assert_eq!(summary, Ok(said), "a range has one summary");
    true
}

/// The number of numbers, and the rest of some bytes.
fn counted(bytes: &[u8]) -> (u64, &[u8]) {
    match bytes.split_first_chunk() {
        Some((count, rest)) => (u16::from_le_bytes(*count).into(), rest),
        None => (0, bytes),
    }
}

fn gap_block(bytes: &[u8]) -> bool {
    let (count, block) = counted(bytes);
    fuzzing::gap_block(block, count)
}

fn class_block(bytes: &[u8]) -> bool {
    let (count, block) = counted(bytes);
    fuzzing::class_block(block, count)
}

fn frame(bytes: &[u8]) -> bool {
    let Some(block) = fuzzing::frame(bytes, BLOCK_BYTES_MAX) else {
        return false;
    };
    assert!(block.len() as u64 <= BLOCK_BYTES_MAX);
    let again = fuzzing::compressed(&block);
    assert_eq!(fuzzing::frame(&again, BLOCK_BYTES_MAX), Some(block));
    true
}

fn start_of_index(bytes: &[u8]) -> Option<(u64, usize)> {
    let trailer = bytes.last_chunk::<TRAILER_LENGTH>()?;
    let start = ShardIndex::start(trailer);
    let at = usize::try_from(start).ok()?;
    (at <= bytes.len()).then_some((start, at))
}

fn index(bytes: &[u8]) -> bool {
    let Some(trailer) = bytes.last_chunk::<TRAILER_LENGTH>() else {
        return false;
    };
    let Ok(index) = ShardIndex::parse_alone(bytes, ShardIndex::start(trailer)) else {
        return false;
    };
    assert!(!index.is_empty() && index.first() <= Some(index.last()));
    assert!(index.word_count() >= index.len() as u64);
    assert_eq!(index.frame_of(index.last()), Some(index.len() - 1));
    // Damage in a frame is an error, whatever the index says of it.
    assert!(index.decode_frame(0, &[0; 9]).is_err());
    true
}

/// A shard with the manifest that it would have.
fn shard(bytes: &[u8]) -> bool {
    let Some((start, at)) = start_of_index(bytes) else {
        return false;
    };
    let Ok(index) = ShardIndex::parse_alone(&bytes[at..], start) else {
        return false;
    };
    let info = ShardInfo {
        name: "shard-0000.zst".to_owned(),
        first: index.first().expect("a first word"),
        last: index.last(),
        entries: index.word_count(),
        bytes: bytes.len() as u64,
        sha256: Digest::of(bytes),
        index_offset: start,
        index_sha256: Digest::of(&bytes[at..]),
        words_sha256: Digest([0; 32]),
    };
    let Ok(words) = decode_shard(bytes, &info) else {
        return false;
    };
    assert_eq!(
        info.check_sizes(),
        Ok(()),
        "a shard has a size that it can have"
    );
    assert!(words.is_sorted_by(|one, next| one < next) && words.iter().all(|word| word % 2 == 0));
    assert_eq!(words.len() as u64, info.entries);
    assert_eq!((words[0], words[words.len() - 1]), (info.first, info.last));
    true
}

fn manifest(bytes: &[u8]) -> bool {
    let Ok(manifest) = Manifest::parse(bytes) else {
        return false;
    };
    let again = manifest.to_bytes();
    assert_eq!(Manifest::parse(&again).as_ref(), Ok(&manifest));
    // Nobody fetches more than words can take: nine bytes each, and a frame with its entry in the index.
    let shards = manifest.shards.iter();
    let promised: u128 = shards.map(|shard| u128::from(shard.bytes)).sum();
    let most = WORD_BYTES_MAX * u128::from(manifest.stored) + 1024 * manifest.shards.len() as u128;
    assert!(promised <= most, "{promised} bytes");
    true
}

fn access(bytes: &[u8]) -> bool {
    match chomp_access::fuzzing::access(bytes) {
        Ok(access) => {
            let again = chomp_access::fuzzing::content(&access);
            assert_eq!(chomp_access::fuzzing::access(&again).ok(), Some(access));
            true
        }
        Err(error) => {
            let text = format!("{error} {error:?}");
            assert!(!text.contains(seeds::SECRET), "{text}");
            false
        }
    }
}

fn secrets_file(bytes: &[u8]) -> bool {
    match chomp_access::fuzzing::secrets(bytes) {
        Ok((_, certificate)) => {
            assert!(certificate.server_config().is_ok());
            true
        }
        Err(error) => {
            let text = format!("{error} {error:?}");
            assert!(!secrets::are_in(&text), "{text}");
            false
        }
    }
}

/// Others can be added to a list that is read, and who is in it can be revoked.
fn participants(bytes: &[u8]) -> bool {
    let Ok(mut list) = chomp_access::fuzzing::participants(bytes) else {
        return false;
    };
    let added = list.add("somebody-else").expect("there is nobody else");
    assert!(list.admit(&TokenDigest::of(added.secret())).is_ok());
    for one in list.clone().iter() {
        assert_eq!(list.admit(&one.token).is_ok(), !one.revoked);
        if !one.revoked {
            list.revoke(&one.name).expect("it has access");
        }
        assert!(list.admit(&one.token).is_err());
    }
    true
}

/// Positions, and what else people and servers write as text.
fn position(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    if let Ok(key) = Key::new(text) {
        assert_eq!(Key::new(key.as_str()), Ok(key));
    }
    if let Ok(location) = StoreLocation::parse(text) {
        let again = location.to_string();
        assert_eq!(
            StoreLocation::parse(&again).ok(),
            Some(location),
            "{again:?}"
        );
    }
    let Ok(position) = text.parse::<Position>() else {
        return false;
    };
    let word = Word::from(&position);
    assert_eq!(Position::from(word), position);
    assert_eq!(position.to_string().parse(), Ok(position));
    assert_eq!(word.mirror().mirror(), word);
    true
}

/// The most bits of a board of which claims are checked: the others would take long.
const CERTIFICATE_BITS: u32 = 14;

static LOSING: LazyLock<Vec<bool>> = LazyLock::new(|| definition::losing(CERTIFICATE_BITS));

/// A certificate comes back when it is written, and what it proves is true.
fn certificate(bytes: &[u8]) -> bool {
    let read = |mut bytes| Certificate::read(&mut bytes, &mut |_| ControlFlow::Continue(()));
    let Ok(found) = read(bytes) else {
        return false;
    };
    let text = found.to_string();
    let again = read(text.as_bytes()).expect("what is written is read");
    assert_eq!(again.to_string(), text);
    let (rows, columns) = found.board;
    let is_small = rows + columns <= CERTIFICATE_BITS;
    if !is_small || found.check(&mut |_| ControlFlow::Continue(())).is_err() {
        return false;
    }
    let board = Position::new(vec![columns; rows as usize]).expect("a small board");
    let mut moves = Word::from(&board).moves();
    let (_, left) = moves
        .find(|(cell, _)| *cell == found.opening)
        .expect("a first move");
    assert!(LOSING[definition::index_of(left)], "{text}");
    true
}

fn range_header(bytes: &[u8]) -> bool {
    [0, 1, 1000, u64::MAX].map(|length| chomp_serve::is_satisfiable(bytes, length))[2]
}

fn result(bytes: &[u8]) -> bool {
    let sent = v1::CompleteRequest::decode(bytes);
    sent.is_ok_and(|sent| chomp_coordinator::is_result(sent, range_bits(), BITS))
}

fn answer(bytes: &[u8]) -> bool {
    let reply = v1::LeaseReply::decode(bytes);
    reply.is_ok_and(|reply| chomp_worker::client::is_answer(reply, range_bits(), BITS))
}
