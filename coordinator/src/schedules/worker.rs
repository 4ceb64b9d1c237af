//! What workers do with a task.

use bytes::Bytes;
use chomp_plan::{Unit, Work, WorkerId};
use chomp_store::part::{PartBuilder, read_record};
use chomp_store::{Merged, PartName, Problem, Storage, published};
use chomp_table::sources::sources;
use chomp_table::{Digest, Head};

use super::expected::Record;
use super::world::{Held, TaskResult, Trouble, World};
use crate::arbiter::{ArbiterError, Arbitrated};
use crate::job::{Target, WorkerResult};
use crate::ready;
use crate::testing::range_bits;

impl World {
    /// Does a task, its part and shard being durable then.
    pub(super) fn do_task(&mut self, held: &Held) -> Result<TaskResult, Trouble> {
        let result = match &held.task.work {
            Work::Evaluate { layer, heads } => {
                let heads = self.chosen(heads);
                let records = self.evaluate(held.worker, &heads)?;
                let mut builder = PartBuilder::default();
                for (summary, record) in records {
                    builder.push(summary, &record);
                }
                let (bytes, placed) = builder.finish();
                let name = PartName {
                    layer: *layer,
                    lease: held.task.lease.0,
                };
                // Who may not put it through the coordinator writes it all the same.
                let length = bytes.len() as u64;
                let desk = self.coordinator.as_mut().map(|it| &mut it.desk);
                let _transfer =
                    desk.map(|desk| desk.begin_put(held.worker, Target::Part(name), length));
                self.put(name, bytes)?;
                WorkerResult::Ranges(placed)
            }
            Work::Merge {
                shard,
                written: None,
                ..
            } => {
                let mut merged = self.merge(*shard)?;
                if self.perils.lies
                    && self.replicas > 1
                    && self.rng.once_in(8)
                    && self.lied_shards.insert(*shard)
                {
                    merged.leaf.digest = Digest::of(b"a lie");
                    if let Some(info) = &mut merged.shard {
                        info.sha256 = Digest::of(b"a lie");
                    }
                    self.lied(held.worker);
                }
                WorkerResult::Merged(Box::new(merged))
            }
            Work::Merge {
                shard,
                written: Some(written),
                ..
            } => {
                let desk = &self.coordinator.as_ref().ok_or(Trouble::Other)?.desk;
                let said = desk.said(Unit::Shard(*shard), Some(written.submission));
                let said = said.ok_or(Trouble::Other)?;
                self.read_shard(&said)?;
                let own = if written.is_own {
                    (*said).clone()
                } else {
                    self.merge(*shard)?
                };
                WorkerResult::Merged(Box::new(Merged {
                    shard: said.shard,
                    ..own
                }))
            }
        };
        Ok(TaskResult {
            worker: held.worker,
            lease: held.task.lease,
            result,
        })
    }

    /// Merges a shard, and puts it in place.
    fn merge(&self, shard: u32) -> Result<Merged, Trouble> {
        let coordinator = self.coordinator.as_ref().ok_or(Trouble::Other)?;
        let merged = ready(coordinator.tools.arbiter.merge(shard, None));
        match merged.map_err(|error| trouble(&error))? {
            Arbitrated::Shard { merged, .. } => Ok(*merged),
            Arbitrated::Range { .. } => unreachable!("a shard was merged"),
        }
    }

    /// Reads a shard, which is to be what was said of it.
    fn read_shard(&mut self, said: &Merged) -> Result<(), Trouble> {
        if let Some(file) = said.file() {
            let read = ready(published::read(&*self.storage, self.bits, &file));
            let is_whole = |read: Bytes| Digest::of(&read) == file.sha256;
            if !read.ok().flatten().is_some_and(is_whole) {
                self.seen.lost_shards += 1;
                return Err(Trouble::Other);
            }
        }
        Ok(())
    }

    /// All of the heads, or some.
    fn chosen(&mut self, heads: &[Head]) -> Vec<Head> {
        if self.perils.chaos && self.rng.once_in(5) {
            let some = self.rng.some(heads);
            if !some.is_empty() {
                return some;
            }
        }
        heads.to_vec()
    }

    /// The records of these ranges, as their sources in the store make them; at times a lie among
    /// them.
    fn evaluate(&mut self, worker: WorkerId, heads: &[Head]) -> Result<Vec<Record>, Trouble> {
        let mut records = Vec::new();
        for &head in heads {
            let right = self.has_right_sources(head)?;
            records.push(if right {
                self.expected.record(head).clone()
            } else {
                let arbiter = &self
                    .coordinator
                    .as_ref()
                    .ok_or(Trouble::Other)?
                    .tools
                    .arbiter;
                let evaluated = ready(arbiter.evaluate(head)).map_err(|error| trouble(&error))?;
                (evaluated.0, evaluated.1.into())
            });
        }
        if self.perils.lies
            && self.rng.once_in(8)
            && let Some(index) = self.rng.index(heads.len())
            && self.lies.insert(heads[index])
        {
            records[index] = self.expected.lie(heads[index]).clone();
            self.lied(worker);
        }
        Ok(records)
    }

    /// Reads the sources of a range; whether all are what they should be.
    fn has_right_sources(&self, head: Head) -> Result<bool, Trouble> {
        let coordinator = self.coordinator.as_ref().ok_or(Trouble::Other)?;
        let mut right = true;
        for source in sources(head, range_bits()) {
            let place = coordinator.tools.journal.ledger().place(source).copied();
            let place = place.ok_or(Trouble::Other)?;
            match ready(read_record(&*self.storage, source, &place)) {
                Ok(_) => {}
                Err(chomp_store::StoreError::Lost { head, .. }) => {
                    return Err(Trouble::Lost(head, place.digest));
                }
                Err(_) => return Err(Trouble::Other),
            }
            right &= place.digest == self.expected.record(source).0.digest;
        }
        Ok(right)
    }

    fn put(&self, name: PartName, bytes: Bytes) -> Result<(), Trouble> {
        match ready(self.storage.create(&name.key(), bytes)) {
            Ok(()) => Ok(()),
            Err(error) if error.problem == Problem::AlreadyExists => {
                panic!("two parts of one lease")
            }
            Err(_) => Err(Trouble::Other),
        }
    }

    fn lied(&mut self, worker: WorkerId) {
        self.liars.insert(worker.to_string());
    }
}

fn trouble(error: &ArbiterError) -> Trouble {
    match error.lost() {
        Some((head, digest)) => Trouble::Lost(head, digest),
        None => Trouble::Other,
    }
}
