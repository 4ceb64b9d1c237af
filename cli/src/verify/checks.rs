//! Makes the checks of `chomp verify`, one after the other, and writes their lines of the report.

use std::path::Path;

use chomp_plan::counted;
use chomp_table::reader::AnyTable;
use chomp_table::{Digest, Table, TableError};
use chomp_verify::bytes::{self, ComputedFacts};
use chomp_verify::folder::{self, FolderLists};
use chomp_verify::known::{self, Compared};
use chomp_verify::marking::LosingCounts;
use chomp_verify::progress;
use chomp_verify::report::{Check, Facts, Level, Report, TableFacts, ValuesFacts};
use chomp_verify::sample::{self, Sample, SampleReport};
use chomp_verify::{CheckError, Watch};
use indicatif::{HumanBytes, HumanCount};

use super::CheckContext;
use super::VerifyArgs;
use super::lanes::in_order;
use crate::machine;
use crate::progress::Display;

pub(super) struct Checks {
    pub(super) args: VerifyArgs,
    pub(super) context: CheckContext,
    pub(super) report: Report,
    pub(super) say: Display,
    /// Whether a later run goes on where this one ended, if it was stopped.
    pub(super) resumable: bool,
}

impl Checks {
    /// Makes all checks of the level, up to the first damage; words that are not the published ones end it only at the
    /// level quick. `path` is the place of the report.
    pub(super) fn run(&mut self, path: &Path) -> anyhow::Result<()> {
        match self.files()? {
            (AnyTable::Losing(table), lists) => self.losing(&table, &lists, path),
            (AnyTable::Values(table), _) => self.values(&table),
        }
    }

    fn losing(&mut self, table: &Table, lists: &FolderLists, path: &Path) -> anyhow::Result<()> {
        let content = self.shards(table)?;
        let known = self.known_results(&content);
        if let (Err(error), true) = (&known, self.args.level > Level::Quick) {
            // The further checks find positions that are wrong.
            self.say.say(&format!("{error:#}"));
        }
        if self.args.level == Level::Sample {
            let check = |sample, watch: Watch<'_>| sample::check_sample(table, sample, watch);
            self.sample(table.manifest().fingerprint, check, describe_sample)?;
        }
        if self.args.level == Level::Full {
            let software = self.report.software.clone();
            let subject = progress::Subject::new(table, lists, software);
            let counts = LosingCounts::new(&content.survey);
            self.full(table, (subject, &counts), path)?;
        }
        known
    }

    /// The report, with the present date, and whether what was done is kept.
    pub(super) fn finish(mut self) -> (Report, bool) {
        self.report.date = machine::date();
        self.report.seconds += self.context.meter.wall().as_secs_f64();
        self.report.cpu_seconds += self.context.meter.cpu().as_secs_f64();
        (self.report, self.resumable)
    }

    fn files(&mut self) -> anyhow::Result<(AnyTable, FolderLists)> {
        let open = || -> Result<(AnyTable, FolderLists), TableError> {
            let lists = FolderLists::read(&self.report.folder)?;
            Ok((lists.open(&self.report.folder)?, lists))
        };
        let opened = open().map_err(Into::into);
        let opened = self.report.record(Check::Files, opened, |(table, _)| {
            let shards = counted(table.manifest().shards().len(), "shard");
            format!("manifest.json and SHA256SUMS, which agree about {shards}")
        });
        let (table, lists) = opened?;
        self.report.table = Some(match &table {
            AnyTable::Losing(table) => Facts::Losing(TableFacts::new(table, &lists)),
            AnyTable::Values(table) => Facts::Values(ValuesFacts::new(table, &lists)),
        });
        let shards = table.manifest().shards();
        let shards = shards.iter().map(|shard| &shard.name[..]);
        self.report.warnings = folder::warnings_of_strangers(&self.report.folder, shards)?;
        Ok((table, lists))
    }

    fn shards(&mut self, table: &Table) -> anyhow::Result<ComputedFacts> {
        let manifest = table.manifest();
        let shards = manifest.shards.len();
        let threads = self.context.shard_threads(bytes::shard_bytes(table), 0)?;
        let teller = &self.context.teller;
        let watch = |fraction| teller.stage("every byte", fraction);
        let content = in_order(
            threads,
            shards,
            |number| bytes::check_shard(table, number),
            |checked| bytes::check_all(table, checked, &watch),
        );
        let content = self.report.record(Check::Shards, content, |_| {
            let bytes = manifest.shards.iter().map(|shard| shard.bytes).sum();
            format!(
                "{} words in {}, {}: digests, order, mirror pairs, counts and fingerprints, \
                 and what is proved",
                HumanCount(manifest.stored),
                counted(shards, "shard"),
                HumanBytes(bytes)
            )
        })?;
        if let Some(Facts::Losing(facts)) = &mut self.report.table {
            facts.add(&content);
        }
        Ok(content)
    }

    fn known_results(&mut self, content: &ComputedFacts) -> anyhow::Result<()> {
        let compare = || {
            let fingerprints = content.check_known_fingerprints()?;
            Ok((fingerprints, known::compare(&content.survey)?))
        };
        let said = compare();
        self.report.record(Check::Known, said, |(fingerprints, counts)| {
            let Compared {
                by_bits,
                by_area,
                inside,
            } = counts;
            format!(
                "{fingerprints} published fingerprints; of the counts of others {by_bits} by bits, {by_area} by \
                 area, {inside} inside boxes"
            )
        })?;
        Ok(())
    }

    /// Checks random positions. Nobody who makes a table chooses them: unless a seed is given, it is the beginning of
    /// the fingerprint, which depends on every position.
    pub(super) fn sample(
        &mut self,
        fingerprint: Digest,
        check: impl FnOnce(Sample, Watch<'_>) -> Result<SampleReport, CheckError>,
        describe: impl FnOnce(&SampleReport) -> String,
    ) -> anyhow::Result<()> {
        let digits = &fingerprint.to_string()[..13];
        let usual = || u64::from_str_radix(digits, 16).expect("hexadecimal digits");
        let sample = Sample {
            positions: self.args.sample.unwrap_or(super::SAMPLE),
            seed: self.args.seed.unwrap_or_else(usual),
            memory: self.context.rest_bytes(),
        };
        let teller = &self.context.teller;
        let watch = |fraction| teller.stage("random positions", fraction);
        let decided = check(sample, &watch);
        let decided = self.report.record(Check::Sample, decided, describe)?;
        self.report.sample = Some(decided);
        Ok(())
    }
}

fn describe_sample(report: &SampleReport) -> String {
    let picks = |count: u64, from: &str| format!("{} {from}", HumanCount(count));
    format!(
        "{}, {} and {}, with {} moves, agree with the rules (seed {}); if more than 1 in {} of all positions, or 1 \
         in {} of those listed, did not, this would have been noticed with 99 %",
        picks(report.of_all, "positions of all"),
        picks(report.of_listed, "of those listed"),
        picks(report.beside_listed, "beside such"),
        HumanCount(report.moves),
        report.seed,
        HumanCount(report.one_in_of_all),
        HumanCount(report.one_in_of_listed),
    )
}
