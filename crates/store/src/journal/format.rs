//! The bytes of segments and checkpoints.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use bytes::Bytes;
use chomp_table::format::{Damage, Fields, ensure};
use chomp_table::{Digest, Head, RangeBits, RangeSummary};

use crate::entry::{Entry, StruckOut};
use crate::envelope::{BadObject, ObjectKind, Writer, open};
use crate::finders::Finders;
use crate::keys::PartName;
use crate::ledger::{DoneRanges, Ledger};
use crate::merged::Merged;
use crate::part::Placed;

pub(super) const SEGMENT: ObjectKind = ObjectKind {
    magic: b"chompseg",
    version: 5,
    oldest: 2,
};
pub(super) const CHECKPOINT: ObjectKind = ObjectKind {
    magic: b"chompchk",
    version: 5,
    oldest: 2,
};

/// The bytes of a range in an entry.
const RANGE: usize = 8 + 8 + 8 + 32 + 4 + 4;
/// The bytes of an entry with one range, and the finders of two.
pub(super) const RANGE_ENTRY: usize = 4 + 8 + 4 + (4 + 2 * 4) + 4 + RANGE;
/// The codes of jobs of Grundy values, which earlier versions wrote instead of the range bits.
const VALUES: RangeInclusive<u32> = 264..=280;
/// The longest reason why somebody was found out, in bytes; what is longer is cut.
const REASON_BYTES_MAX: usize = 1 << 10;

impl Ledger {
    pub(super) fn new(table: u64, range_bits: RangeBits) -> Ledger {
        Ledger {
            next: 0,
            last: Digest([0; 32]),
            table,
            range_bits,
            worked: None,
            withdrawn: false,
            ranges: DoneRanges::default(),
            lost: DoneRanges::default(),
            shards: BTreeMap::new(),
            outcasts: BTreeMap::new(),
        }
    }
}

/// Takes the next segment in.
pub(super) fn read_segment(ledger: &mut Ledger, bytes: &[u8]) -> Result<(), BadObject> {
    let (mut fields, digest) = open(SEGMENT, bytes)?;
    let head = Heading::read(&mut fields)?;
    let follows = head.number == ledger.next && head.previous == ledger.last;
    ensure(follows, || "it does not follow from the segment before")?;
    let same_table = head.table == ledger.table && ledger.takes(head.range_bits);
    ensure(same_table, || "it is of another table")?;
    // All or none, and entries take more memory than their bytes: so each is read twice.
    let mut checked = fields.clone();
    while !checked.is_empty() {
        read(&mut checked, head.range_bits)?;
    }
    ledger.range_bits = head.range_bits;
    while !fields.is_empty() {
        ledger.apply(&read(&mut fields, head.range_bits)?);
    }
    (ledger.next, ledger.last) = (head.number + 1, digest);
    Ok(())
}

/// The first fields of a segment or a checkpoint.
struct Heading {
    number: u64,
    previous: Digest,
    table: u64,
    range_bits: RangeBits,
}

impl Heading {
    fn read(fields: &mut Fields) -> Result<Heading, BadObject> {
        let (number, previous) = (fields.u64()?, Digest(fields.array()?));
        let (table, code) = (fields.u64()?, fields.u32()?);
        if VALUES.contains(&code) {
            return Err(BadObject::Values);
        }
        let range_bits = RangeBits::new(code);
        Ok(Heading {
            number,
            previous,
            table,
            range_bits: range_bits
                .ok_or_else(|| Damage::new(format!("it claims {code} range bits")))?,
        })
    }
}

/// The bytes of the segment that follows `ledger`, or of its checkpoint, and their digest.
pub(super) fn encode(
    kind: ObjectKind,
    ledger: &Ledger,
    entries: impl FnOnce(&mut Writer),
) -> (Vec<u8>, Digest) {
    let mut writer = Writer::new(kind);
    writer.u64(ledger.next).digest(&ledger.last);
    writer.u64(ledger.table).u32(ledger.range_bits.get());
    entries(&mut writer);
    writer.finish()
}

/// The bytes of the checkpoint of `ledger`.
pub(super) fn encode_checkpoint(ledger: &Ledger) -> Bytes {
    let (bytes, _) = encode(CHECKPOINT, ledger, |writer| {
        if ledger.withdrawn {
            let heads = Vec::new();
            write(writer, &Entry::Withdrawn { heads });
        }
        if let Some((bits, seconds)) = ledger.worked {
            write(writer, &Entry::Worked { bits, seconds });
        }
        // Earlier results of these participants are marked as distrusted; later ones may be trusted again.
        for (&participant, outcast) in &ledger.outcasts {
            write_found_out(writer, participant, outcast);
        }
        if !ledger.lost.is_empty() {
            write_ranges(writer, &ledger.lost);
            let heads = ledger.lost.iter().map(|(head, ..)| head).collect();
            write(writer, &Entry::Lost { heads });
        }
        write_ranges(writer, &ledger.ranges);
        for (&(bits, _), (merged, finders)) in &ledger.shards {
            write_shard(writer, bits, finders, merged);
        }
    });
    bytes.into()
}

fn write_ranges(writer: &mut Writer, ranges: &DoneRanges) {
    // Ranges that share a part mostly follow each other, or not: each may have an entry of its own.
    let mut done = ranges.iter().peekable();
    while let Some((head, place, finders)) = done.next() {
        let mut run = vec![place.placed(head)];
        while let Some(&(head, next, found)) = done.peek()
            && (next.lease, next.replicas) == (place.lease, place.replicas)
            && found == finders
        {
            run.push(next.placed(head));
            done.next();
        }
        write_done(writer, place.lease, place.replicas, finders, &run);
    }
}

/// The ledger of the first segment, or of a checkpoint.
pub(super) fn decode(kind: ObjectKind, bytes: &[u8], number: u64) -> Result<Ledger, BadObject> {
    let (mut fields, digest) = open(kind, bytes)?;
    let heading = Heading::read(&mut fields)?;
    ensure(heading.number == number, || {
        format!("its content is that of number {}", heading.number)
    })?;
    let mut ledger = Ledger::new(heading.table, heading.range_bits);
    while !fields.is_empty() {
        ledger.apply(&read(&mut fields, heading.range_bits)?);
    }
    if kind.magic == SEGMENT.magic {
        (ledger.next, ledger.last) = (number + 1, digest);
    } else {
        (ledger.next, ledger.last) = (number, heading.previous);
    }
    Ok(ledger)
}

pub(super) fn write(writer: &mut Writer, entry: &Entry) {
    match entry {
        Entry::Opened { coordinator, bits } => {
            writer.u32(1).u64(*coordinator).u32(*bits);
        }
        Entry::Done {
            part,
            replicas,
            finders,
            ranges,
        } => write_done(writer, part.lease, *replicas, finders, ranges),
        Entry::Withdrawn { heads } => {
            writer.u32(3);
            write_heads(writer, heads);
        }
        Entry::Shard {
            bits,
            finders,
            merged,
        } => write_shard(writer, *bits, finders, merged),
        Entry::Confirmed { finders, heads } => {
            writer.u32(10);
            write_finders(writer, finders);
            write_heads(writer, heads);
        }
        Entry::Lost { heads } => {
            writer.u32(11);
            write_heads(writer, heads);
        }
        Entry::FoundOut {
            participant,
            outcast,
        } => write_found_out(writer, *participant, outcast),
        Entry::Worked { bits, seconds } => {
            writer.u32(12).u32(*bits).u64(*seconds);
        }
        Entry::Pruned => {
            writer.u32(5);
        }
    }
}

fn write_heads(writer: &mut Writer, heads: &[Head]) {
    writer.u32(count(heads.len()));
    for head in heads {
        writer.u64(head.0);
    }
}

fn write_finders(writer: &mut Writer, finders: &Finders) {
    writer.u32(count(finders.iter().len()));
    for participant in finders.iter() {
        writer.u32(participant);
    }
}

fn write_found_out(writer: &mut Writer, participant: u32, outcast: &StruckOut) {
    let StruckOut { serial, reason } = outcast;
    let reason = &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)];
    writer.u32(9).u32(participant).u32(*serial);
    writer.u32(count(reason.len())).bytes(reason.as_bytes());
}

fn write_done(
    writer: &mut Writer,
    lease: u64,
    replicas: u32,
    finders: &Finders,
    ranges: &[Placed],
) {
    writer.u32(6).u64(lease).u32(replicas);
    write_finders(writer, finders);
    writer.u32(count(ranges.len()));
    for placed in ranges {
        let summary = &placed.summary;
        writer
            .u64(summary.head.0)
            .u64(summary.count)
            .u64(summary.stored);
        writer.digest(&summary.digest);
        writer.u32(placed.offset).u32(placed.length);
    }
}

fn write_shard(writer: &mut Writer, bits: u32, finders: &Finders, merged: &Merged) {
    let text = serde_json::to_vec(merged).expect("numbers, texts and lists always become JSON");
    writer.u32(7).u32(bits);
    write_finders(writer, finders);
    writer.u32(count(text.len())).bytes(&text);
}

fn count(count: usize) -> u32 {
    u32::try_from(count).expect("memory ends before that many")
}

fn read(fields: &mut Fields, range_bits: RangeBits) -> Result<Entry, Damage> {
    Ok(match fields.u32()? {
        1 => Entry::Opened {
            coordinator: fields.u64()?,
            bits: fields.u32()?,
        },
        kind @ (2 | 6) => {
            let (lease, replicas) = (fields.u64()?, fields.u32()?);
            let finders = if kind == 6 {
                read_finders(fields)?
            } else {
                Finders::default()
            };
            let ranges = fields.u32()?;
            ensure(replicas > 0, || "ranges that nobody computed")?;
            let bytes = fields.bytes(ranges.saturating_mul(count(RANGE)))?;
            let mut of_ranges = Fields::new("it", bytes);
            let mut done = Vec::with_capacity(ranges as usize);
            while !of_ranges.is_empty() {
                done.push(read_placed(&mut of_ranges, range_bits)?);
            }
            let first = done.first();
            let first = first.ok_or_else(|| Damage::new("a part without ranges"))?;
            Entry::Done {
                part: PartName {
                    layer: first.summary.head.layer(),
                    lease,
                },
                replicas,
                finders,
                ranges: done,
            }
        }
        3 => Entry::Withdrawn {
            heads: read_heads(fields)?,
        },
        kind @ (4 | 7) => {
            let bits = fields.u32()?;
            let finders = if kind == 7 {
                read_finders(fields)?
            } else {
                Finders::default()
            };
            let length = fields.u32()?;
            let merged = Merged::parse(fields.bytes(length)?, bits);
            let merged =
                merged.map_err(|damage| Damage::new(format!("a shard in it: {damage}")))?;
            Entry::Shard {
                bits,
                finders,
                merged,
            }
        }
        5 => Entry::Pruned,
        8 => Entry::Confirmed {
            finders: Finders::default(),
            heads: read_heads(fields)?,
        },
        10 => Entry::Confirmed {
            finders: read_finders(fields)?,
            heads: read_heads(fields)?,
        },
        11 => Entry::Lost {
            heads: read_heads(fields)?,
        },
        12 => Entry::Worked {
            bits: fields.u32()?,
            seconds: fields.u64()?,
        },
        9 => {
            let (participant, serial, length) = (fields.u32()?, fields.u32()?, fields.u32()?);
            ensure(
                length as usize <= REASON_BYTES_MAX,
                || "a reason that is too long",
            )?;
            let reason = str::from_utf8(fields.bytes(length)?);
            let reason = reason.map_err(|_| Damage::new("a reason in no UTF-8"))?;
            let reason = reason.to_owned();
            Entry::FoundOut {
                participant,
                outcast: StruckOut { serial, reason },
            }
        }
        kind => {
            return Err(Damage::new(format!(
                "it has an entry of the unknown kind {kind}"
            )));
        }
    })
}

fn read_heads(fields: &mut Fields) -> Result<Vec<Head>, Damage> {
    let heads = fields.u32()?;
    let bytes = fields.bytes(heads.saturating_mul(8))?;
    let heads = bytes.as_chunks().0.iter();
    Ok(heads.map(|&head| Head(u64::from_le_bytes(head))).collect())
}

fn read_finders(fields: &mut Fields) -> Result<Finders, Damage> {
    let finders = fields.u32()?;
    let bytes = fields.bytes(finders.saturating_mul(4))?;
    let finders = bytes.as_chunks().0.iter();
    let finders: Vec<u32> = finders.map(|&number| u32::from_le_bytes(number)).collect();
    ensure(
        finders.is_sorted_by(|one, next| one < next),
        || "finders out of order",
    )?;
    Ok(Finders::new(finders))
}

fn read_placed(fields: &mut Fields, range_bits: RangeBits) -> Result<Placed, Damage> {
    let summary = RangeSummary {
        head: Head(fields.u64()?),
        count: fields.u64()?,
        stored: fields.u64()?,
        digest: Digest(fields.array()?),
    };
    let placed = Placed {
        summary,
        offset: fields.u32()?,
        length: fields.u32()?,
    };
    placed.check(range_bits)?;
    Ok(placed)
}
