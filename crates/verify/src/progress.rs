//! How far marking has come, as bytes that a later run reads.
//!
//! ```text
//! 64 hexadecimal digits   SHA-256 of what follows the line feed
//! 1 line feed
//! JSON                    the fields of `MarkingProgress`
//! ```
//!
//! A window that agreed once always agrees, as long as the table and the program are the same. So the
//! bytes name both. Bytes that name others, or that have changed, are refused.
//!
//! The bytes are at most 8 MiB, which is more than 65,536 windows take.

use std::collections::BTreeMap;

use chomp_table::format::Damage;
use chomp_table::{Digest, Table};
use serde::{Deserialize, Serialize};

use crate::folder::FolderLists;
use crate::marking::{window_bits_min, window_count};
use crate::report::FullReport;
use crate::{CheckError, ensure};

/// The most bytes of a progress.
pub const PROGRESS_BYTES_MAX: u64 = 8 << 20;

const FORMAT: u32 = 1;

/// The table that is marked, and the program that marks it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// The program, with its version.
    pub software: String,
    /// The bits of the table.
    pub bits: u32,
    /// Its fingerprint.
    pub fingerprint: Digest,
    /// SHA-256 of its manifest, which has the digests of all its bytes.
    pub manifest_sha256: Digest,
}

/// How far marking has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarkingProgress {
    format: u32,
    /// The table and the program.
    pub subject: Subject,
    /// The windows have 2^`window_bits` words.
    pub window_bits: u32,
    /// The windows that agreed: their numbers, and how many positions in each are losing.
    pub windows: BTreeMap<u64, u64>,
    /// Wall time of the runs so far, in milliseconds.
    pub millis: u64,
    /// CPU time of the runs so far, in milliseconds.
    pub cpu_millis: u64,
}

impl Subject {
    /// The subject of marking `table`, whose lists are `lists`, by `software`.
    pub fn new(table: &Table, lists: &FolderLists, software: String) -> Subject {
        Subject {
            software,
            bits: table.manifest().bits,
            fingerprint: table.manifest().fingerprint,
            manifest_sha256: lists.manifest_sha256,
        }
    }
}

impl MarkingProgress {
    /// The progress before the first window.
    pub fn new(subject: Subject, window_bits: u32) -> MarkingProgress {
        MarkingProgress {
            format: FORMAT,
            subject,
            window_bits,
            windows: BTreeMap::new(),
            millis: 0,
            cpu_millis: 0,
        }
    }

    /// The bytes to be kept.
    pub fn to_bytes(&self) -> Vec<u8> {
        let json = serde_json::to_vec(self).expect("numbers and texts have a form in JSON");
        let mut bytes = format!("{}\n", Digest::of(&json)).into_bytes();
        bytes.extend(json);
        bytes
    }

    /// The progress in `bytes`, if it is about `subject`. Fails if the bytes have changed, or are about something else.
    pub fn parse(bytes: &[u8], subject: &Subject) -> Result<MarkingProgress, Damage> {
        let not_ours = || Damage::new("it is not as it was written");
        let line = bytes.iter().position(|&byte| byte == b'\n');
        let (digest, json) = bytes.split_at(line.ok_or_else(not_ours)?);
        let json = &json[1..];
        if digest != Digest::of(json).to_string().as_bytes() {
            return Err(not_ours());
        }
        let not_json = |error| Damage::new(format!("it is not understood: {error}"));
        let progress: MarkingProgress = serde_json::from_slice(json).map_err(not_json)?;
        let found = &progress.subject;
        let damage = if progress.format != FORMAT {
            format!("it has the format {}", progress.format)
        } else if found.software != subject.software {
            let (by, this) = (&found.software, &subject.software);
            format!("it was written by {by}, and this is {this}")
        } else if found != subject {
            format!(
                "it is about another table, of {} bits with the fingerprint {} and a manifest with the SHA-256 {}",
                found.bits, found.fingerprint, found.manifest_sha256
            )
        } else if !progress.is_sound() {
            "it has windows that the table has not".into()
        } else {
            return Ok(progress);
        };
        Err(Damage::new(damage))
    }

    /// The numbers of the windows that are left, ascending.
    pub fn left(&self) -> Vec<u64> {
        let all = 0..self.windows_total();
        all.filter(|number| !self.windows.contains_key(number))
            .collect()
    }

    /// The number of windows, done or not.
    pub fn windows_total(&self) -> u64 {
        window_count(self.subject.bits, self.window_bits)
    }

    /// The result of marking, when no window is left. Fails if the windows together have another number of losing
    /// positions than the table. Panics if a window is left.
    pub fn finish(&self, table: &Table, windows_before: u64) -> Result<FullReport, CheckError> {
        assert!(self.left().is_empty(), "a window is left");
        let manifest = table.manifest();
        let losing = self.windows.values().sum();
        ensure(losing == manifest.losing, || {
            let said = manifest.losing;
            format!("marking finds {losing} losing positions, and the manifest says {said}")
        })?;
        Ok(FullReport {
            positions: manifest.positions,
            losing,
            window_bits: self.window_bits,
            windows: self.windows_total(),
            windows_before,
        })
    }

    fn is_sound(&self) -> bool {
        let bits = self.subject.bits;
        let window = |(number, losing): (&u64, &u64)| {
            *number < self.windows_total() && *losing <= 1 << self.window_bits.saturating_sub(1)
        };
        (window_bits_min(bits)..=bits).contains(&self.window_bits)
            && self.windows.iter().all(window)
    }
}
