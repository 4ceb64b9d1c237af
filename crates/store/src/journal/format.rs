//! The bytes of segments and checkpoints.

use bytes::Bytes;
use chomp_plan::{Finders, ParticipantId, Party, REPLICAS_MAX, WorkerId};
use chomp_table::format::{Damage, Fields, ensure};
use chomp_table::{Digest, Head, RangeBits, RangeSummary};

use crate::entry::Entry;
use crate::envelope::{BadObject, ObjectKind, Writer, open};
use crate::keys::PartName;
use crate::ledger::{Ledger, RangeMap};
use crate::part::PlacedRange;
use crate::shard_summary::ShardSummary;

pub(super) const SEGMENT: ObjectKind = ObjectKind {
    magic: b"chompseg",
    version: 6,
};
pub(super) const CHECKPOINT: ObjectKind = ObjectKind {
    magic: b"chompchk",
    version: 6,
};

/// The bytes of a range in an entry.
const RANGE: usize = 8 + 8 + 8 + 32 + 4 + 4;
/// The most bytes of an entry with one range: as many have found it as have to, and one has checked it.
pub(super) const RANGE_ENTRY: usize = 4 + 8 + 4 + (4 + 4 + FINDERS_MAX * FINDER) + 4 + RANGE;
const FINDERS_MAX: usize = REPLICAS_MAX as usize + 1;
const FINDER: usize = 4 + 8;
/// The longest reason why a party is out, in bytes; what is longer is cut.
const REASON_BYTES_MAX: usize = 1 << 10;

pub(super) fn read_segment(ledger: &mut Ledger, bytes: &[u8]) -> Result<(), BadObject> {
    let (mut fields, digest) = open(SEGMENT, bytes)?;
    let head = Heading::read(&mut fields)?;
    let follows = head.number == ledger.next_segment && head.previous == ledger.last_segment_digest;
    ensure(follows, || "it does not follow from the segment before")?;
    let same_table = head.table == ledger.table && ledger.takes(head.range_bits);
    ensure(same_table, || "it is of another table")?;
    // All entries are applied or none. In memory they are larger than their bytes: so they are not kept, but read
    // twice.
    let mut checked = fields.clone();
    while !checked.is_empty() {
        read(&mut checked, head.range_bits)?;
    }
    ledger.range_bits = head.range_bits;
    while !fields.is_empty() {
        ledger.apply(&read(&mut fields, head.range_bits)?);
    }
    (ledger.next_segment, ledger.last_segment_digest) = (head.number + 1, digest);
    Ok(())
}

/// The digest of a coordinator's secret, if that coordinator took the table over with the segment in `bytes`.
pub(super) fn opened_by(bytes: &[u8]) -> Result<Option<u64>, BadObject> {
    let (mut fields, _) = open(SEGMENT, bytes)?;
    let range_bits = Heading::read(&mut fields)?.range_bits;
    Ok(match read(&mut fields, range_bits)? {
        Entry::Opened { secret_digest, .. } => Some(secret_digest),
        _ => None,
    })
}

struct Heading {
    number: u64,
    previous: Digest,
    table: u64,
    range_bits: RangeBits,
}

impl Heading {
    fn read(fields: &mut Fields) -> Result<Heading, Damage> {
        let (number, previous) = (fields.u64()?, Digest(fields.array()?));
        let (table, bits) = (fields.u64()?, fields.u32()?);
        let range_bits = RangeBits::new(bits);
        Ok(Heading {
            number,
            previous,
            table,
            range_bits: range_bits
                .ok_or_else(|| Damage::new(format!("it claims {bits} range bits")))?,
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
    writer
        .u64(ledger.next_segment)
        .digest(&ledger.last_segment_digest);
    writer.u64(ledger.table).u32(ledger.range_bits.get());
    entries(&mut writer);
    writer.finish()
}

/// The bytes of a checkpoint of `ledger`. A reader applies the entries one after the other, as those of a segment. So a
/// lost range is in two entries: the first says that the range is done, and the second that its record is lost.
pub(super) fn encode_checkpoint(ledger: &Ledger) -> Bytes {
    let (bytes, _) = encode(CHECKPOINT, ledger, |writer| {
        if let Some((bits, seconds)) = ledger.worked {
            write(writer, &Entry::Worked { bits, seconds });
        }
        for (&party, reason) in &ledger.out {
            let reason = reason.clone();
            write(writer, &Entry::Out { party, reason });
        }
        if !ledger.lost.is_empty() {
            write_ranges(writer, &ledger.lost);
            let heads = ledger.lost.iter().map(|(head, ..)| head).collect();
            write(writer, &Entry::Lost { heads });
        }
        write_ranges(writer, &ledger.ranges);
        for (&(bits, _), (summary, finders)) in &ledger.shards {
            write_shard(writer, bits, finders, summary);
        }
    });
    bytes.into()
}

fn write_ranges(writer: &mut Writer, ranges: &RangeMap) {
    // Ranges that follow each other share an entry if they have the same lease, replicas and finders.
    let mut done = ranges.iter().peekable();
    while let Some((head, row, finders)) = done.next() {
        let mut run = vec![row.placed(head)];
        while let Some(&(head, next, found)) = done.peek()
            && (next.lease, next.replicas) == (row.lease, row.replicas)
            && found == finders
        {
            run.push(next.placed(head));
            done.next();
        }
        let done = Entry::Done {
            part: row.part(),
            replicas: row.replicas,
            finders: finders.clone(),
            ranges: run,
        };
        write(writer, &done);
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
        (ledger.next_segment, ledger.last_segment_digest) = (number + 1, digest);
    } else {
        (ledger.next_segment, ledger.last_segment_digest) = (number, heading.previous);
    }
    Ok(ledger)
}

pub(super) fn write<'w>(writer: &'w mut Writer, entry: &Entry) -> &'w mut Writer {
    match entry {
        Entry::Opened {
            secret_digest,
            bits,
        } => writer.u32(1).u64(*secret_digest).u32(*bits),
        Entry::Done {
            part,
            replicas,
            finders,
            ranges,
        } => {
            writer.u32(6).u64(part.lease).u32(*replicas);
            writer.finders(finders).u32(count(ranges.len()));
            for placed in ranges {
                let RangeSummary {
                    head,
                    count,
                    stored,
                    digest,
                } = placed.summary;
                writer.u64(head.0).u64(count).u64(stored).digest(&digest);
                writer.u32(placed.offset).u32(placed.length);
            }
            writer
        }
        Entry::Withdrawn { heads } => writer.u32(3).heads(heads),
        Entry::Shard {
            bits,
            finders,
            summary,
        } => write_shard(writer, *bits, finders, summary),
        Entry::Confirmed {
            finders,
            heads,
            shards: (bits, shards),
        } => {
            writer.u32(10).finders(finders).heads(heads);
            let start = writer.u32(*bits).u32(count(shards.len()));
            shards
                .iter()
                .fold(start, |writer, &number| writer.u32(number))
        }
        Entry::Lost { heads } => writer.u32(11).heads(heads),
        Entry::Out { party, reason } => {
            let reason = &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)];
            let (is_worker, number) = match party {
                Party::Participant(_) => (0, 0),
                Party::Worker(worker) => (1, worker.number),
            };
            writer.u32(9).u32(party.participant().0);
            writer.u32(is_worker).u64(number);
            writer.text(reason.as_bytes())
        }
        Entry::Worked { bits, seconds } => writer.u32(12).u32(*bits).u64(*seconds),
        Entry::Pruned => writer.u32(5),
    }
}

fn write_shard<'w>(
    writer: &'w mut Writer,
    bits: u32,
    finders: &Finders,
    summary: &ShardSummary,
) -> &'w mut Writer {
    let writer = writer.u32(7).u32(bits).finders(finders);
    writer.text(&summary.to_json())
}

impl Writer {
    fn heads(&mut self, heads: &[Head]) -> &mut Writer {
        let start = self.u32(count(heads.len()));
        heads.iter().fold(start, |writer, head| writer.u64(head.0))
    }

    fn finders(&mut self, finders: &Finders) -> &mut Writer {
        let workers = finders.workers();
        let start = self.u32(finders.wanted()).u32(count(workers.len()));
        workers.iter().fold(start, |writer, worker| {
            writer.u32(worker.participant.0).u64(worker.number)
        })
    }

    fn text(&mut self, text: &[u8]) -> &mut Writer {
        self.u32(count(text.len())).bytes(text)
    }
}

fn count(count: usize) -> u32 {
    u32::try_from(count).expect("memory ends before that many")
}

fn read(fields: &mut Fields, range_bits: RangeBits) -> Result<Entry, Damage> {
    Ok(match fields.u32()? {
        1 => Entry::Opened {
            secret_digest: fields.u64()?,
            bits: fields.u32()?,
        },
        6 => {
            let (lease, replicas) = (fields.u64()?, fields.u32()?);
            let finders = read_finders(fields)?;
            ensure(replicas > 0, || "ranges that nobody computed")?;
            let ranges = read_list::<RANGE>(fields)?.iter();
            let ranges = ranges.map(|bytes| read_placed(bytes, range_bits));
            let ranges: Vec<PlacedRange> = ranges.collect::<Result<_, _>>()?;
            let first = ranges.first();
            let first = first.ok_or_else(|| Damage::new("a part without ranges"))?;
            let layer = first.summary.head.layer();
            Entry::Done {
                part: PartName { layer, lease },
                replicas,
                finders,
                ranges,
            }
        }
        3 => Entry::Withdrawn {
            heads: read_heads(fields)?,
        },
        7 => {
            let bits = fields.u32()?;
            let finders = read_finders(fields)?;
            let length = fields.u32()?;
            let summary = ShardSummary::parse(fields.bytes(length)?, bits);
            let summary =
                summary.map_err(|damage| Damage::new(format!("a shard in it: {damage}")))?;
            Entry::Shard {
                bits,
                finders,
                summary,
            }
        }
        5 => Entry::Pruned,
        10 => Entry::Confirmed {
            finders: read_finders(fields)?,
            heads: read_heads(fields)?,
            shards: (fields.u32()?, read_numbers(fields)?),
        },
        11 => Entry::Lost {
            heads: read_heads(fields)?,
        },
        12 => Entry::Worked {
            bits: fields.u32()?,
            seconds: fields.u64()?,
        },
        9 => {
            let (participant, is_worker) = (fields.u32()?, fields.u32()?);
            let (worker, length) = (fields.u64()?, fields.u32()?);
            let party = match (is_worker, worker) {
                (0, 0) => Party::Participant(ParticipantId(participant)),
                (1, worker) => Party::Worker(WorkerId::new(participant, worker)),
                _ => return Err(Damage::new("a party of no kind")),
            };
            ensure(
                length as usize <= REASON_BYTES_MAX,
                || "a reason that is too long",
            )?;
            let reason = String::from_utf8(fields.bytes(length)?.to_owned());
            let reason = reason.map_err(|_| Damage::new("a reason in no UTF-8"))?;
            Entry::Out { party, reason }
        }
        kind => {
            return Err(Damage::new(format!(
                "it has an entry of the unknown kind {kind}"
            )));
        }
    })
}

/// Reads a list: the number of its items, and then the items, of `N` bytes each.
fn read_list<'a, const N: usize>(fields: &mut Fields<'a>) -> Result<&'a [[u8; N]], Damage> {
    let items = fields.u32()?.saturating_mul(count(N));
    Ok(fields.bytes(items)?.as_chunks().0)
}

fn read_heads(fields: &mut Fields) -> Result<Vec<Head>, Damage> {
    let heads = read_list(fields)?.iter();
    Ok(heads.map(|&head| Head(u64::from_le_bytes(head))).collect())
}

fn read_numbers(fields: &mut Fields) -> Result<Vec<u32>, Damage> {
    let numbers = read_list(fields)?.iter();
    Ok(numbers.map(|&number| u32::from_le_bytes(number)).collect())
}

fn read_finders(fields: &mut Fields) -> Result<Finders, Damage> {
    let wanted = fields.u32()?;
    let finder = |bytes: &[u8; FINDER]| {
        let mut fields = Fields::new("it", bytes);
        Ok(WorkerId::new(fields.u32()?, fields.u64()?))
    };
    let finders = read_list::<FINDER>(fields)?.iter().map(finder);
    let finders = finders.collect::<Result<Vec<WorkerId>, Damage>>()?;
    ensure(
        finders.is_sorted_by(|one, next| one < next),
        || "finders out of order",
    )?;
    Ok(Finders::new(wanted, finders))
}

fn read_placed(bytes: &[u8; RANGE], range_bits: RangeBits) -> Result<PlacedRange, Damage> {
    let mut fields = Fields::new("it", bytes);
    let summary = RangeSummary {
        head: Head(fields.u64()?),
        count: fields.u64()?,
        stored: fields.u64()?,
        digest: Digest(fields.array()?),
    };
    let placed = PlacedRange {
        summary,
        offset: fields.u32()?,
        length: fields.u32()?,
    };
    placed.validate(range_bits)?;
    Ok(placed)
}
