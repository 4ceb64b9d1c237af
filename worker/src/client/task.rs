//! Tasks, as they are leased.

use chomp_proto::v1::{self, task};
use chomp_store::part::{self, Placed};
use chomp_table::{Digest, Head, RangeSummary};

use super::{Job, LeaseId};
use crate::link::Failure;

/// A leased task.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) lease: LeaseId,
    /// All segments of the journal below this number have to be known.
    pub(crate) journal: u64,
    pub(crate) work: Work,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// Ranges of one layer are to be evaluated, heads ascending.
    Evaluate { layer: u32, heads: Vec<Head> },
    /// The record of a range, in the part of the lease `part`, is to be checked.
    Check { range: Placed, part: u64, seed: u64 },
    /// A shard is to be written, which begins after `skip` stored words of the range `head`.
    Merge { shard: u32, head: Head, skip: u64 },
    /// A file of the table is to be read and compared, if there is one.
    ReadBack { file: Option<File> },
}

/// What a file of the table should be.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: Digest,
}

impl Task {
    /// The task in a message about `job`.
    pub(super) fn read(message: v1::Task, job: &Job) -> Result<Task, Failure> {
        let work = match message.work {
            Some(task::Work::Evaluate(v1::Evaluate { layer, heads })) => {
                let heads: Vec<Head> = heads.into_iter().map(Head).collect();
                let fits = |head: &Head| head.layer() == layer && is_of(*head, job);
                let sound = !heads.is_empty()
                    && heads.is_sorted_by(|one, next| one < next)
                    && heads.iter().all(fits);
                if !sound {
                    return Err(wrong("ranges to evaluate that are not those of a layer"));
                }
                Work::Evaluate { layer, heads }
            }
            Some(task::Work::Check(v1::Check {
                range: Some(range),
                part,
                seed,
            })) => Work::Check {
                range: placed(&range, job)?,
                part,
                seed,
            },
            Some(task::Work::Merge(v1::Merge { shard, head, skip })) => {
                let head = Head(head);
                if !is_of(head, job) {
                    return Err(wrong("a shard that begins beyond the table"));
                }
                Work::Merge { shard, head, skip }
            }
            Some(task::Work::ReadBack(v1::ReadBack { file })) => Work::ReadBack {
                file: file.map(File::read).transpose()?,
            },
            Some(task::Work::Check(_)) | None => return Err(wrong("a task without content")),
        };
        Ok(Task {
            lease: LeaseId(message.lease),
            journal: message.journal,
            work,
        })
    }
}

impl File {
    fn read(file: v1::File) -> Result<File, Failure> {
        if file.bytes > part::BYTES_MAX {
            return Err(wrong(&format!("a file to read with {} bytes", file.bytes)));
        }
        let sha256 = file.sha256.as_slice().try_into();
        Ok(File {
            name: file.name,
            bytes: file.bytes,
            sha256: Digest(sha256.map_err(|_| wrong("a file to read without its digest"))?),
        })
    }
}

fn is_of(head: Head, job: &Job) -> bool {
    head.0 < job.range_bits.heads(job.bits)
}

fn wrong(what: &str) -> Failure {
    Failure::Protocol(format!("it leases {what}"))
}

fn placed(summary: &v1::Summary, job: &Job) -> Result<Placed, Failure> {
    let head = Head(summary.head);
    let digest = summary.digest.as_slice().try_into().map(Digest);
    match digest {
        Ok(digest) if is_of(head, job) => {
            let placed = Placed {
                summary: RangeSummary {
                    head,
                    count: summary.count,
                    stored: summary.stored,
                    digest,
                },
                offset: summary.offset,
                length: summary.length,
            };
            let checked = placed.check(job.range_bits);
            checked.map_err(|damage| wrong(&damage.to_string()))?;
            Ok(placed)
        }
        _ => Err(wrong("a check of something that is no range")),
    }
}

/// The same on the wire.
pub(super) fn summary(placed: &Placed) -> v1::Summary {
    v1::Summary {
        head: placed.summary.head.0,
        count: placed.summary.count,
        stored: placed.summary.stored,
        digest: placed.summary.digest.0.to_vec(),
        offset: placed.offset,
        length: placed.length,
    }
}
