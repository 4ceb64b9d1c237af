//! The lies of a coordinator in memory.

use chomp_proto::v1;

pub(super) type LieAboutJob = fn(&mut v1::JoinReply);
pub(super) type LieAboutTask = fn(&mut v1::Task);

/// Changes what is said. The truth, unless told otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lies {
    pub(super) join: LieAboutJob,
    pub(super) task: LieAboutTask,
    /// The bytes by which answers about objects overstate their length.
    pub(super) more_bytes: u64,
}

impl Default for Lies {
    fn default() -> Lies {
        Lies {
            join: |_| {},
            task: |_| {},
            more_bytes: 0,
        }
    }
}
