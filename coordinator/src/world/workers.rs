//! How workers do a task, honest ones and liars.

use bytes::Bytes;
use chomp_plan::{ParticipantId, SubmissionId, Task, Unit, Work, WorkerId};
use chomp_store::merge::{Cut, Merger};
use chomp_store::part::{PartBuilder, read_record};
use chomp_store::{Key, Merged, PartName, Storage, StorageProblem, StoreError, published};
use chomp_table::manifest::folder_name;
use chomp_table::range;
use chomp_table::sources::sources;
use chomp_table::{Digest, Head};

use super::coordinator::TaskResult;
use super::coordinator::{Coordinator, shard_size};
use super::expected::Record;
use super::state::{Trouble, World};
use crate::arbiter::ArbiterError;
use crate::job::PutTarget;
use crate::ready;
use crate::testing::range_bits;
use crate::tools::WorkerResult;

impl World {
    /// Does a task, its part and shard being durable then.
    pub(super) fn do_task(&mut self, worker: WorkerId, task: &Task) -> Result<TaskResult, Trouble> {
        let result = match &task.work {
            Work::Evaluate { layer, heads } => {
                let name = PartName {
                    layer: *layer,
                    lease: task.lease.0,
                };
                self.evaluate(worker, name, heads)?
            }
            Work::Merge {
                shard,
                head,
                skip,
                written,
            } => {
                let place = (*shard, *head, *skip);
                let merged = match written {
                    None => self.write_shard(worker, place)?,
                    Some(written) => self.read_shard(worker, place, *written)?,
                };
                WorkerResult::Merged(Box::new(merged))
            }
        };
        Ok(TaskResult {
            worker,
            lease: task.lease,
            result,
        })
    }

    fn coordinator(&self) -> Result<&Coordinator, Trouble> {
        self.coordinator.as_ref().ok_or(Trouble::Other)
    }

    /// Whether this worker lies about a unit now, about which nobody has lied before: so a lie has one participant
    /// behind it.
    fn lies(&mut self, worker: WorkerId, unit: Unit) -> bool {
        let lies = self.perils.lies && self.rng.once_in(4) && !self.harm.lies.contains(&unit);
        if lies {
            self.count("lies");
            self.harm.lies.insert(unit);
            self.harm.liars.insert(worker.participant);
        }
        lies
    }

    /// Puts a part with the records of these ranges, or of some of them.
    fn evaluate(
        &mut self,
        worker: WorkerId,
        name: PartName,
        heads: &[Head],
    ) -> Result<WorkerResult, Trouble> {
        let some = if self.perils.chaos && self.rng.once_in(5) {
            self.rng.some(heads)
        } else {
            Vec::new()
        };
        let heads = if some.is_empty() { heads } else { &some };
        let mut records = Vec::new();
        for &head in heads {
            records.push(self.compute(head)?);
        }
        if let Some(index) = self.rng.index(heads.len())
            && self.lies(worker, Unit::Range(heads[index]))
        {
            records[index] = self.expected.lie(heads[index]).clone();
        }
        let mut builder = PartBuilder::default();
        for (summary, record) in records {
            builder.push(summary, &record);
        }
        let (bytes, placed) = builder.finish();
        // Who may not put it through the coordinator writes it all the same.
        let length = bytes.len() as u64;
        let desk = self.coordinator.as_mut().map(|it| &mut it.desk);
        let _transfer = desk.map(|desk| desk.begin_put(worker, PutTarget::Part(name), length));
        match ready(self.storage.create(&name.key(), bytes)) {
            Ok(()) => Ok(WorkerResult::Ranges(placed)),
            Err(error) if error.problem == StorageProblem::AlreadyExists => {
                panic!("two parts of one lease")
            }
            Err(_) => Err(Trouble::Other),
        }
    }

    /// The record of a range, as its sources in the store make it.
    fn compute(&self, head: Head) -> Result<Record, Trouble> {
        let mut are_right = true;
        for source in sources(head, range_bits()) {
            let (digest, _) = self.record(source)?;
            are_right &= digest == self.expected.digest(source);
        }
        if are_right {
            return Ok(self.expected.record(head).clone());
        }
        let evaluated = ready(self.coordinator()?.tools.evaluate(head));
        let (summary, record) = evaluated.map_err(|error| trouble(&error))?;
        Ok((summary, record.into()))
    }

    /// The record that the journal has of a range.
    fn record(&self, head: Head) -> Result<(Digest, Bytes), Trouble> {
        let ledger = self.coordinator()?.tools.journal.ledger();
        let place = ledger.place(head).ok_or(Trouble::Other)?;
        match ready(read_record(&*self.storage, head, place)) {
            Ok(record) => Ok((place.digest, record)),
            Err(StoreError::Lost { head, .. }) => Err(Trouble::Lost(head, place.digest)),
            Err(_) => Err(Trouble::Other),
        }
    }

    /// Merges a shard that begins there.
    fn merge(&self, place: (u32, Head, u64)) -> Result<(Merged, Bytes), Trouble> {
        let ledger = self.coordinator()?.tools.journal.ledger();
        let (bits, words) = (self.settings.size, self.settings.shard_words);
        let cut = Cut::new(&ledger, bits, words, place).map_err(|_| Trouble::Other)?;
        drop(ledger);
        let mut filling = Merger::new(bits, range_bits(), shard_size(&self.settings), cut);
        while let Some(head) = filling.next() {
            let (digest, record) = self.record(head)?;
            let decoded = range::decode(&record, range_bits());
            let (range, stored) = decoded.map_err(|_| Trouble::Lost(head, digest))?;
            let pushed = filling.push(range.head, &range.losing, stored);
            pushed.map_err(|_| Trouble::Other)?;
        }
        let (merged, bytes) = filling.finish().map_err(|_| Trouble::Other)?;
        Ok((merged, bytes.unwrap_or_default().into()))
    }

    /// Merges a shard and writes it, now or later. A liar says something else of it, writes something else, or both.
    fn write_shard(
        &mut self,
        worker: WorkerId,
        place: (u32, Head, u64),
    ) -> Result<Merged, Trouble> {
        let (mut merged, mut bytes) = self.merge(place)?;
        if self.lies(worker, Unit::Shard(place.0)) {
            // The owner's machine may be wrong, but forges nothing.
            let is_owner = worker.participant == ParticipantId::OWNER;
            let what = if is_owner { 0 } else { self.rng.below(3) };
            if what > 0 {
                self.count("forged files");
                bytes = vec![0; bytes.len()].into();
                if let Some(info) = &mut merged.shard {
                    info.sha256 = Digest::of(&bytes);
                }
            }
            if what < 2 {
                match merged.sums.last_mut().filter(|_| self.rng.once_in(2)) {
                    Some(sums) => sums.unpaired ^= 1,
                    None => merged.leaf.digest = Digest::of(b"a lie"),
                }
            }
        }
        let length = bytes.len() as u64;
        let desk = self.coordinator.as_mut().map(|it| &mut it.desk);
        let may = desk.is_some_and(|desk| {
            let target = PutTarget::Shard(place.0);
            desk.begin_put(worker, target, length).is_ok()
        });
        if let Some(file) = merged.file().filter(|_| may) {
            let folder = folder_name(self.settings.size);
            let key = published::key(&folder, &file.name).expect("the name of a shard");
            if self.perils.chaos && self.rng.once_in(6) {
                self.late_files.push((key, bytes));
                return Err(Trouble::Other);
            }
            self.put_shard(&key, bytes)?;
        }
        Ok(merged)
    }

    pub(super) fn put_shard(&self, key: &Key, bytes: Bytes) -> Result<(), Trouble> {
        let folder = folder_name(self.settings.size);
        let put = ready(published::put(&*self.storage, &folder, key, bytes));
        put.map_err(|_| Trouble::Other)
    }

    /// Reads a shard and compares it with what was said of it, and with the records. A liar says of a shard in order
    /// that it is not, or has other words.
    fn read_shard(
        &mut self,
        worker: WorkerId,
        place: (u32, Head, u64),
        written: SubmissionId,
    ) -> Result<Merged, Trouble> {
        let unit = Unit::Shard(place.0);
        let desk = &self.coordinator()?.desk;
        let said = desk.said(unit, Some(written));
        let said = said.ok_or(Trouble::Other)?;
        let (own, _) = self.merge(place)?;
        let mut file = Bytes::new();
        if let Some(info) = said.file() {
            let read = ready(published::read(&*self.storage, self.settings.size, &info));
            let read = read.map_err(|_| Trouble::Other)?;
            file = read.unwrap_or_default();
        }
        let is_whole = said
            .file()
            .is_none_or(|info| Digest::of(&file) == info.sha256);
        if !is_whole || own.compare(said.shard.as_ref(), &file).is_err() {
            self.count("lost shards");
            return Err(Trouble::Unreadable);
        }
        let mut merged = Merged {
            shard: said.shard.clone(),
            ..own
        };
        if self.lies(worker, unit) {
            if self.rng.once_in(3) {
                return Err(Trouble::Unreadable);
            }
            merged.leaf.digest = Digest::of(b"a lie");
        }
        Ok(merged)
    }
}

fn trouble(error: &ArbiterError) -> Trouble {
    match error.lost() {
        Some((head, digest)) => Trouble::Lost(head, digest),
        None => Trouble::Other,
    }
}
