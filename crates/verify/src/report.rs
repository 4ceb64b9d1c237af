//! The report of a check: what was checked, and the results. `docs/FORMAT.md` describes the fields.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use chomp_table::format::describe;
use chomp_table::values::Values;
use chomp_table::{Digest, Table, TableError};
use serde::{Serialize, Serializer};

use crate::CheckError;
use crate::bytes::ComputedFacts;
use crate::folder::FolderLists;
use crate::sample::SampleReport;

const FORMAT: u32 = 2;

/// How much is checked. Each level has the checks of the levels before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Every byte of the table; in a table of values also the values of few tiles, by the definition.
    Quick,
    /// Random positions, by the definition.
    Sample,
    /// Every position, by marking; every value, by the definition.
    Full,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Level, String> {
        [Level::Quick, Level::Sample, Level::Full]
            .into_iter()
            .find(|level| level.to_string() == text)
            .ok_or_else(|| "levels are quick, sample and full".to_owned())
    }
}

/// A kind of check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// The files that are there, and the two lists `manifest.json` and `SHA256SUMS`.
    Files,
    /// Every byte of every shard, compared with the manifest and with what is proved.
    Shards,
    /// Published fingerprints, and results of others.
    Known,
    /// All values up to some number of tiles, by the definition.
    Definition,
    /// Random positions.
    Sample,
    /// All positions.
    Full,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A check that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckLine {
    /// The check.
    pub check: Check,
    /// Whether it passed.
    pub passed: bool,
    /// A description of what was checked, or of what is wrong.
    pub what: String,
}

/// The result of all checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckVerdict {
    /// All checks of the level passed.
    Passed,
    /// A check failed. The checks after it were not made, unless it is [`Check::Known`].
    #[serde(rename = "damaged")]
    Failed,
}

/// A shard that was checked.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShardLine {
    pub name: String,
    pub bytes: u64,
    /// The number of its words or values.
    pub entries: u64,
    pub sha256: Digest,
}

/// A table of losing positions, as its manifest describes it. If all checks passed, the bytes of the table agree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableFacts {
    bits: u32,
    positions: u64,
    losing: u64,
    stored: u64,
    losing_by_bits: Vec<u64>,
    /// The fingerprint; that of the manifest until all words are read.
    fingerprint: Digest,
    /// The [linear SHA-256](crate::linear), missing until all words are read, as the manifest does not have it.
    linear_sha256: Option<Digest>,
    manifest_sha256: Digest,
    sha256sums_sha256: Digest,
    made_by: String,
    replicas: u32,
    shards: Vec<ShardLine>,
}

/// A table of values, as its manifest describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ValuesFacts {
    tiles: u32,
    positions: u64,
    stored: u64,
    fingerprint: Digest,
    manifest_sha256: Digest,
    sha256sums_sha256: Digest,
    made_by: String,
    replicas: u32,
    shards: Vec<ShardLine>,
}

/// A table of either kind, as its manifest describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Facts {
    /// Losing positions.
    Losing(TableFacts),
    /// Grundy values.
    Values(ValuesFacts),
}

/// The result of marking all positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FullReport {
    /// The positions, the empty one included.
    pub positions: u64,
    /// How many of them are losing.
    pub losing: u64,
    /// The windows have 2^`window_bits` words.
    pub window_bits: u32,
    /// The number of windows.
    pub windows: u64,
    /// How many of them earlier runs had done.
    pub windows_before: u64,
}

/// The report of a check.
#[expect(missing_docs, reason = "the fields are named for what they are")]
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    format: u32,
    /// The program that checked, with its version.
    pub software: String,
    pub level: Level,
    pub result: CheckVerdict,
    /// A description of the damage, if a check failed.
    pub damage: Option<String>,
    /// When the check ended, in UTC, as in RFC 3339.
    pub date: String,
    /// Wall time, in seconds. If this run continued earlier ones, their time counts too.
    pub seconds: f64,
    /// CPU time, in seconds, counted in the same way.
    pub cpu_seconds: f64,
    #[serde(serialize_with = "lossy")]
    pub folder: PathBuf,
    /// The table, if its manifest could be read.
    pub table: Option<Facts>,
    /// The checks that were made, in this order.
    pub checks: Vec<CheckLine>,
    /// Texts about things that are unusual but no damage.
    pub warnings: Vec<String>,
    /// The random positions, if they were decided and passed.
    pub sample: Option<SampleReport>,
    /// The marking, if it was done and passed.
    pub full: Option<FullReport>,
}

impl TableFacts {
    /// The facts about `table`, whose lists are `lists`.
    pub fn new(table: &Table, lists: &FolderLists) -> TableFacts {
        let manifest = table.manifest();
        let shards = manifest.shards.iter();
        let shards = shards.map(|shard| ShardLine {
            name: shard.name.clone(),
            bytes: shard.bytes,
            entries: shard.entries,
            sha256: shard.sha256,
        });
        TableFacts {
            bits: manifest.bits,
            positions: manifest.positions,
            losing: manifest.losing,
            stored: manifest.stored,
            losing_by_bits: manifest.losing_by_bits.clone(),
            fingerprint: manifest.fingerprint,
            linear_sha256: None,
            manifest_sha256: lists.manifest_sha256,
            sha256sums_sha256: lists.sha256sums_sha256,
            made_by: manifest.software.clone(),
            replicas: manifest.replicas,
            shards: shards.collect(),
        }
    }

    /// Adds the fingerprints that were computed from all words.
    pub fn add(&mut self, computed: &ComputedFacts) {
        let by_bits = &computed.fingerprints.by_bits;
        self.fingerprint = *by_bits.last().expect("0 bits have a fingerprint too");
        self.linear_sha256 = computed.linear_sha256.last().copied();
    }
}

impl ValuesFacts {
    /// The facts about `table`, whose lists are `lists`.
    pub fn new(table: &Values, lists: &FolderLists) -> ValuesFacts {
        let manifest = table.manifest();
        let shards = manifest.shards().map(|shard| ShardLine {
            name: shard.name.clone(),
            bytes: shard.bytes,
            entries: shard.stored,
            sha256: shard.sha256,
        });
        ValuesFacts {
            tiles: manifest.tiles,
            positions: crate::values::position_count(manifest.tiles),
            stored: manifest.shards().map(|shard| shard.stored).sum(),
            fingerprint: manifest.fingerprint,
            manifest_sha256: lists.manifest_sha256,
            sha256sums_sha256: lists.sha256sums_sha256,
            made_by: manifest.software.clone(),
            replicas: manifest.replicas,
            shards: shards.collect(),
        }
    }
}

impl Report {
    /// A report without checks yet.
    pub fn new(software: String, level: Level, folder: PathBuf) -> Report {
        Report {
            format: FORMAT,
            software,
            level,
            result: CheckVerdict::Passed,
            damage: None,
            date: String::new(),
            seconds: 0.0,
            cpu_seconds: 0.0,
            folder,
            table: None,
            checks: Vec::new(),
            warnings: Vec::new(),
            sample: None,
            full: None,
        }
    }

    /// Adds the line of a check: what it looked at, or what is wrong. An error that does not say that the table is
    /// wrong, such as a file that cannot be read, adds no line. Returns the error of the check.
    pub fn record<T>(
        &mut self,
        check: Check,
        said: Result<T, CheckError>,
        what: impl FnOnce(&T) -> String,
    ) -> Result<T, CheckError> {
        match &said {
            Ok(value) => {
                self.push(check, true, what(value));
            }
            Err(error @ (CheckError::Wrong(_) | CheckError::Table(TableError::Damaged { .. }))) => {
                let what = describe(error);
                self.result = CheckVerdict::Failed;
                self.damage = Some(what.clone());
                self.push(check, false, what);
            }
            Err(CheckError::Table(_) | CheckError::Stopped) => {}
        }
        said
    }

    fn push(&mut self, check: Check, passed: bool, what: String) {
        self.checks.push(CheckLine {
            check,
            passed,
            what,
        });
    }

    /// The report as JSON: the content of its file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("a report always becomes JSON");
        bytes.push(b'\n');
        bytes
    }
}

/// A path as text: its bytes need not be UTF-8, and JSON is.
fn lossy<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_a_line_for_each_check() {
        for (level, text) in [
            (Level::Quick, "quick"),
            (Level::Sample, "sample"),
            (Level::Full, "full"),
        ] {
            assert_eq!((text.parse(), &*level.to_string()), (Ok(level), text));
        }
        assert!("fuller".parse::<Level>().is_err());
        let mut report = Report::new("chomp".into(), Level::Quick, "folder".into());
        report.record(Check::Files, Ok(3), i32::to_string).unwrap();
        let wrong: Result<i32, _> = Err(CheckError::Wrong("it is wrong".into()));
        report
            .record(Check::Known, wrong, i32::to_string)
            .unwrap_err();
        let lines = report.checks.iter();
        let lines = lines.map(|line| format!("{} {} {}", line.check, line.passed, line.what));
        let lines: Vec<String> = lines.collect();
        assert_eq!(lines[0], "files true 3");
        assert!(lines[1].starts_with("known false it is wrong"), "{lines:?}");
        let bytes = report.to_bytes();
        let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(
            (&json["result"], &json["checks"][1]["check"]),
            (&"damaged".into(), &"known".into())
        );
        assert_eq!(bytes.last(), Some(&b'\n'));
    }
}
