//! Makes the checks of a table of Grundy values, and writes their lines of the report.

use chomp_plan::counted;
use chomp_plan::forecast::as_f64;
use chomp_table::values::Values;
use chomp_verify::Watch;
use chomp_verify::report::{Check, Level};
use chomp_verify::sample::SampleReport;
use chomp_verify::values::{self, Areas, TILES_CHECKED};
use indicatif::{HumanBytes, HumanCount};

use super::checks::Checks;
use super::lanes::in_order;

impl Checks {
    /// Makes all checks of the level, up to the first damage.
    pub(super) fn values(&mut self, table: &Values) -> anyhow::Result<()> {
        let all = table.manifest().tiles;
        let tiles = match self.args.level {
            Level::Full => all,
            _ => all.min(TILES_CHECKED),
        };
        let areas = self.value_shards(table, tiles)?;
        self.definition(table, &areas, tiles)?;
        drop(areas);
        self.known(table)?;
        if self.args.level == Level::Sample {
            let check = |sample, watch: Watch<'_>| values::check_sample(table, sample, watch);
            self.sample(table.manifest().fingerprint, check, |report| {
                describe_sample(report, all)
            })?;
        }
        Ok(())
    }

    /// Checks every byte. Returns the values of at most `tiles` tiles.
    fn value_shards(&mut self, table: &Values, tiles: u32) -> anyhow::Result<Areas> {
        let shards = table.manifest().shards().count();
        let kept = values::position_count(tiles);
        let threads = self
            .context
            .shard_threads(values::shard_bytes(table), kept)?;
        let teller = &self.context.teller;
        let watch = |fraction| teller.stage("every byte", fraction);
        let areas = in_order(
            threads,
            shards,
            |number| table.read_shard(number),
            |checked| values::gather(table, tiles, checked, &watch),
        );
        let areas = self.report.record(Check::Shards, areas, |_| {
            let manifest = table.manifest();
            format!(
                "{} values in {}, {}: digests, order, mirror pairs, counts and fingerprints",
                HumanCount(manifest.shards().map(|shard| shard.stored).sum()),
                counted(shards, "shard"),
                HumanBytes(manifest.shards().map(|shard| shard.bytes).sum())
            )
        })?;
        Ok(areas)
    }

    fn known(&mut self, table: &Values) -> anyhow::Result<()> {
        let known = values::check_known(table);
        self.report.record(Check::Known, known, |areas| {
            format!(
                "{} of losing positions by tiles, as others have found them",
                counted(areas, "count")
            )
        })?;
        Ok(())
    }

    fn definition(&mut self, table: &Values, areas: &Areas, tiles: u32) -> anyhow::Result<()> {
        let (context, pieces) = (&self.context, areas.pieces());
        let checked = in_order(
            context.threads.get(),
            pieces.len(),
            |number| areas.check(table, &pieces[number]),
            |checked| {
                let mut positions = 0_u64;
                for piece in checked {
                    positions += piece?;
                    let fraction = as_f64(positions) / as_f64(values::position_count(tiles));
                    if context.teller.stage("the definition", fraction).is_break() {
                        return Err(chomp_verify::CheckError::Stopped);
                    }
                }
                Ok(positions)
            },
        );
        self.report.record(Check::Definition, checked, |&positions| {
            format!(
                "{} positions, all of at most {tiles} tiles, have the least value that none of their moves leads to",
                HumanCount(positions)
            )
        })?;
        Ok(())
    }
}

fn describe_sample(report: &SampleReport, tiles: u32) -> String {
    // Positions of at most `TILES_CHECKED` tiles are all checked, so the sample begins above.
    let least = if tiles > TILES_CHECKED {
        TILES_CHECKED + 1
    } else {
        1
    };
    format!(
        "{} positions of {least} to {tiles} tiles, with {} moves, have the least value that none of these leads to \
         (seed {}); if more than 1 in {} had not, this would have been noticed with 99 %",
        HumanCount(report.positions),
        HumanCount(report.moves),
        report.seed,
        HumanCount(report.one_in_of_all),
    )
}
