//! Words that wait for their region.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{BUCKET_BITS, low};

/// The most buckets that are filled at a time: the words of a frame are mostly in these.
const WINDOW: usize = 256;
/// A count that a byte cannot say is in four bytes behind this one.
const MORE: u8 = u8::MAX;

/// The words of one thread.
#[derive(Debug)]
pub(super) struct Spill {
    file: File,
    /// The bytes in the file, and those that are to follow.
    written: u64,
    bytes: Vec<u8>,
    region_bits: u32,
    /// By region: the places of words in it, halved.
    waiting: Vec<Vec<u32>>,
    /// How many may wait, and how many more.
    room: u64,
    left: u64,
    pieces: Vec<Vec<RegionPiece>>,
}

/// Words of one region in a file, or behind its end in memory.
#[derive(Clone, Copy, Debug)]
struct RegionPiece {
    start: u64,
    bytes: usize,
}

/// Places by bucket that were read.
struct PlaceList {
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
            file,
            written: 0,
            bytes: Vec::new(),
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
            self.left = self.room;
            self.sort();
            self.file.write_all(&self.bytes)?;
            self.written += self.bytes.len() as u64;
            self.bytes.clear();
        }
        Ok(())
    }

    /// Sorts all that waits by regions and buckets.
    fn sort(&mut self) {
        let mut said = Vec::new();
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
            let start = self.bytes.len();
            self.bytes.extend(&said);
            self.bytes.resize(start + said.len() + 2 * waiting.len(), 0);
            let lows = &mut self.bytes[start + said.len()..];
            for &place in &*waiting {
                let at = &mut places[(place >> BUCKET_BITS) as usize];
                let [first, second, ..] = place.to_le_bytes();
                lows[2 * *at as usize..][..2].copy_from_slice(&[first, second]);
                *at += 1;
            }
            pieces.push(RegionPiece {
                start: self.written + start as u64,
                bytes: self.bytes.len() - start,
            });
            // Next time other regions may have most of the words.
            *waiting = Vec::new();
        }
    }

    /// Ends it: what still waits stays in memory.
    pub(super) fn finish(mut self) -> Spill {
        self.sort();
        self
    }

    fn read(&self, piece: RegionPiece) -> io::Result<Vec<u8>> {
        if let Some(start) = piece.start.checked_sub(self.written) {
            let start = usize::try_from(start).expect("it is in memory");
            return Ok(self.bytes[start..start + piece.bytes].to_vec());
        }
        let mut bytes = vec![0; piece.bytes];
        self.file.read_exact_at(&mut bytes, piece.start)?;
        Ok(bytes)
    }
}

/// The place of a word in its region, halved.
fn place(word: u64, region_bits: u32) -> u32 {
    low((word & ((1 << region_bits) - 1)) / 2)
}

/// The number of buckets of a region.
fn buckets(region_bits: u32) -> usize {
    1 << (region_bits - 1).saturating_sub(BUCKET_BITS)
}

/// How many of these places are in each bucket.
fn counts(places: &[u32], region_bits: u32) -> Vec<u32> {
    let mut counts = vec![0; buckets(region_bits)];
    for &place in places {
        counts[(place >> BUCKET_BITS) as usize] += 1;
    }
    counts
}

/// A region that is put together, bucket after bucket.
pub(super) struct Region {
    /// The bits of the words that say where they are in it.
    bits: u32,
    lists: Vec<PlaceList>,
    /// How many buckets there are, and the first that is not complete.
    buckets: usize,
    next: usize,
    /// The places in this and the next buckets, and the last one of these that has any.
    window: Vec<Bucket>,
    begun: usize,
    places: Vec<u32>,
}

/// The places in a bucket.
#[derive(Clone)]
struct Bucket {
    /// A bit for each place.
    bits: [u64; 1 << (BUCKET_BITS - 6)],
    /// A bit for each number that is not 0 among those.
    some: [u64; 1 << (BUCKET_BITS - 12)],
}

impl Bucket {
    const EMPTY: Bucket = Bucket {
        bits: [0; 1 << (BUCKET_BITS - 6)],
        some: [0; 1 << (BUCKET_BITS - 12)],
    };

    fn insert(&mut self, low: u16) {
        let low = usize::from(low);
        self.bits[low >> 6] |= 1 << (low & 63);
        self.some[low >> 12] |= 1 << (low >> 6 & 63);
    }

    /// Gives all places, ascending, each behind `base`, and forgets them.
    fn drain(&mut self, base: u32, places: &mut Vec<u32>) {
        for (group, some) in (0_u32..).zip(&mut self.some) {
            let mut some = std::mem::take(some);
            while some != 0 {
                let number = group << 6 | some.trailing_zeros();
                some &= some - 1;
                let mut bits = std::mem::take(&mut self.bits[number as usize]);
                while bits != 0 {
                    places.push(base | number << 6 | bits.trailing_zeros());
                    bits &= bits - 1;
                }
            }
        }
    }
}

impl Region {
    /// A region, with the words that wait for it.
    pub(super) fn new(spills: &[Spill], number: usize, bits: u32) -> io::Result<Region> {
        let buckets = buckets(bits);
        let mut lists = Vec::new();
        for spill in spills {
            for &piece in &spill.pieces[number] {
                lists.push(PlaceList::new(spill.read(piece)?, buckets)?);
            }
        }
        Ok(Region {
            bits,
            lists,
            buckets,
            next: 0,
            window: vec![Bucket::EMPTY; buckets.min(WINDOW)],
            begun: 0,
            places: Vec::new(),
        })
    }

    /// Takes the words of a frame that are in the region, whose words are in `span`. Those of later frames are not
    /// below `bound`. Returns how many it has taken.
    pub(super) fn take(&mut self, mut words: Vec<u64>, span: &Range<u64>, bound: u64) -> usize {
        if words.iter().any(|word| !span.contains(word)) {
            words.retain(|word| span.contains(word));
        }
        let count = words.len();
        let bound = bound.clamp(span.start, span.end) - span.start;
        let complete = usize::try_from(bound >> (BUCKET_BITS + 1)).expect("a bucket of the region");
        loop {
            words.retain(|&word| {
                let [first, second, third, fourth] = place(word, self.bits).to_le_bytes();
                let bucket = usize::from(u16::from_le_bytes([third, fourth])) - self.next;
                let Some(these) = self.window.get_mut(bucket) else {
                    return true;
                };
                these.insert(u16::from_le_bytes([first, second]));
                self.begun = self.begun.max(bucket);
                false
            });
            self.complete(complete.min(self.next + WINDOW));
            if words.is_empty() && self.next >= complete {
                return count;
            }
        }
    }

    /// The buckets below this one have all their words.
    fn complete(&mut self, end: usize) {
        let count = end.saturating_sub(self.next);
        for (number, bucket) in (self.next..self.next + count).zip(&mut self.window) {
            for list in &mut self.lists {
                list.take(number).for_each(|low| bucket.insert(low));
            }
            bucket.drain(low((number as u64) << BUCKET_BITS), &mut self.places);
        }
        self.next += count;
        // The buckets that are begun move to the front.
        if count > 0 {
            for bucket in count..=self.begun {
                self.window.swap(bucket - count, bucket);
            }
            self.begun = self.begun.saturating_sub(count);
        }
    }

    /// All places of the region, ascending.
    pub(super) fn finish(mut self) -> Vec<u32> {
        while self.next < self.buckets {
            self.complete(self.buckets.min(self.next + WINDOW));
        }
        self.places
    }
}

impl PlaceList {
    fn new(bytes: Vec<u8>, buckets: usize) -> io::Result<PlaceList> {
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
        Ok(PlaceList {
            counts,
            bytes,
            next,
        })
    }

    /// The lows of the next bucket.
    fn take(&mut self, bucket: usize) -> impl Iterator<Item = u16> {
        let start = self.next;
        self.next += 2 * self.counts[bucket] as usize;
        let lows = self.bytes[start..self.next].as_chunks().0.iter();
        lows.map(|&low| u16::from_le_bytes(low))
    }
}
