//! Words that wait for their region.

use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{BUCKET_BITS, low};

/// A count that a byte cannot say is in four bytes behind this one.
const MORE: u8 = u8::MAX;

/// The words of one thread.
pub(super) struct Spill {
    file: BufWriter<File>,
    region_bits: u32,
    /// By region: the places of words in it, halved.
    waiting: Vec<Vec<u32>>,
    /// How many may wait, and how many more.
    room: u64,
    left: u64,
    pieces: Vec<Vec<Piece>>,
}

/// Words of one region in a file.
#[derive(Clone, Copy, Debug)]
struct Piece {
    start: u64,
    bytes: u64,
}

/// The words of all threads.
#[derive(Debug, Default)]
pub(super) struct Spilled {
    files: Vec<(File, Vec<Vec<Piece>>)>,
    region_bits: u32,
}

/// Places by bucket that were read.
struct List {
    counts: Vec<u32>,
    bytes: Vec<u8>,
    /// Where the lows of the next bucket are.
    next: usize,
}

impl Spill {
    pub(super) fn new(
        scratch: &Path,
        regions: usize,
        region_bits: u32,
        room: u64,
    ) -> io::Result<Spill> {
        let file = tempfile::tempfile_in(scratch)?;
        Ok(Spill {
            file: BufWriter::with_capacity(1 << 20, file),
            region_bits,
            waiting: vec![Vec::new(); regions],
            room: room.max(1),
            left: room.max(1),
            pieces: vec![Vec::new(); regions],
        })
    }

    pub(super) fn push(&mut self, word: u64) -> io::Result<()> {
        let region = usize::try_from(word >> self.region_bits).expect("a region of the table");
        self.waiting[region].push(place(word, self.region_bits));
        self.left -= 1;
        if self.left == 0 {
            self.write()?;
        }
        Ok(())
    }

    /// Writes all that waits.
    fn write(&mut self) -> io::Result<()> {
        self.left = self.room;
        let (mut said, mut lows) = (Vec::new(), Vec::new());
        for (waiting, pieces) in self.waiting.iter_mut().zip(&mut self.pieces) {
            if waiting.is_empty() {
                continue;
            }
            let mut places = counts(waiting, self.region_bits);
            said.clear();
            let mut before = 0;
            for place in &mut places {
                let count = std::mem::replace(place, before);
                before += count;
                match u8::try_from(count) {
                    Ok(count) if count < MORE => said.push(count),
                    _ => {
                        said.push(MORE);
                        said.extend(count.to_le_bytes());
                    }
                }
            }
            lows.clear();
            lows.resize(2 * waiting.len(), 0);
            for &place in &*waiting {
                let at = &mut places[(place >> BUCKET_BITS) as usize];
                let [first, second, ..] = place.to_le_bytes();
                lows[2 * *at as usize..][..2].copy_from_slice(&[first, second]);
                *at += 1;
            }
            pieces.push(Piece {
                start: self.file.stream_position()?,
                bytes: (said.len() + lows.len()) as u64,
            });
            self.file.write_all(&said)?;
            self.file.write_all(&lows)?;
            waiting.clear();
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<Spilled> {
        self.write()?;
        let file = self.file.into_inner();
        Ok(Spilled {
            files: vec![(file.map_err(io::IntoInnerError::into_error)?, self.pieces)],
            region_bits: self.region_bits,
        })
    }
}

/// The place of a word in its region, halved.
fn place(word: u64, region_bits: u32) -> u32 {
    low((word & ((1 << region_bits) - 1)) / 2)
}

/// How many of these places are in each bucket.
fn counts(places: &[u32], region_bits: u32) -> Vec<u32> {
    let mut counts = vec![0; 1 << (region_bits - 1).saturating_sub(BUCKET_BITS)];
    for &place in places {
        counts[(place >> BUCKET_BITS) as usize] += 1;
    }
    counts
}

impl Spilled {
    pub(super) fn add(&mut self, other: Spilled) {
        self.region_bits = other.region_bits;
        self.files.extend(other.files);
    }

    /// The places of a region, halved and ascending: of those that wait, and of `words`, which ascend.
    pub(super) fn region(&self, number: usize, words: &[u64]) -> io::Result<Vec<u32>> {
        let own = words.iter().map(|&word| place(word, self.region_bits));
        let own: Vec<u32> = own.collect();
        let mut all = counts(&own, self.region_bits);
        let mut lists = Vec::new();
        for (file, pieces) in &self.files {
            for piece in &pieces[number] {
                let mut bytes = vec![0; usize::try_from(piece.bytes).expect("it was in memory")];
                file.read_exact_at(&mut bytes, piece.start)?;
                let list = List::new(bytes, all.len())?;
                for (all, count) in all.iter_mut().zip(&list.counts) {
                    *all += count;
                }
                lists.push(list);
            }
        }
        let mut places = Vec::with_capacity(all.iter().sum::<u32>() as usize);
        let mut own = &own[..];
        let mut lows: Vec<u16> = Vec::new();
        for (bucket, count) in (0_u32..).zip(all) {
            lows.clear();
            let window = &own[..own.len().min(count as usize)];
            let these;
            (these, own) =
                own.split_at(window.partition_point(|place| place >> BUCKET_BITS == bucket));
            lows.extend(these.iter().map(|place| {
                let [first, second, ..] = place.to_le_bytes();
                u16::from_le_bytes([first, second])
            }));
            for list in &mut lists {
                lows.extend(list.take(bucket));
            }
            lows.sort_unstable();
            places.extend(
                lows.iter()
                    .map(|&low| bucket << BUCKET_BITS | u32::from(low)),
            );
        }
        Ok(places)
    }
}

impl List {
    fn new(bytes: Vec<u8>, buckets: usize) -> io::Result<List> {
        let (mut counts, mut next) = (Vec::with_capacity(buckets), 0);
        let cut = || io::Error::from(io::ErrorKind::UnexpectedEof);
        for _ in 0..buckets {
            let mut count = u32::from(*bytes.get(next).ok_or_else(cut)?);
            next += 1;
            if count == u32::from(MORE) {
                let more = bytes[next..].first_chunk().ok_or_else(cut)?;
                (count, next) = (u32::from_le_bytes(*more), next + 4);
            }
            counts.push(count);
        }
        Ok(List {
            counts,
            bytes,
            next,
        })
    }

    /// The lows of the next bucket.
    fn take(&mut self, bucket: u32) -> impl Iterator<Item = u16> {
        let start = self.next;
        self.next += 2 * self.counts[bucket as usize] as usize;
        let lows = self.bytes[start..self.next].as_chunks().0.iter();
        lows.map(|&low| u16::from_le_bytes(low))
    }
}
