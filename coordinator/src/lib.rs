//! The coordinator of a table: leases tasks, keeps the journal of what is done, publishes the table.
//!
//! Records go from worker to worker through the [store](chomp_store). The coordinator reads one only to audit a record
//! that is reported as lost, and to find what is wrong with a table that contradicts itself. What workers cannot settle
//! is left to a worker in this process, the referee.
//!
//! | module | holds |
//! |---|---|
//! | [`job`] | tells the plan what happens, does what the plan asks for, and writes the journal |
//! | `error` | why a job does not go on, and why a call of a worker is refused |
//! | `effects` | work that the plan asks for and that takes time |
//! | `tools` | what that work needs, and the handles that the plan keeps |
//! | `referee` | starts the worker that settles what others cannot |
//! | `records` | reads the records of ranges |
//! | `contradiction` | finds the ranges of which one is wrong, if a table contradicts itself |
//! | [`publish`] | makes a table of the shards that workers have written |
//! | `background` | keeps work for a CPU off the threads that serve calls |
//! | `service` | the gRPC calls; the wire types end there |
//! | `relay` | the objects of the store over HTTP, for workers that cannot reach the store |
//! | [`auth`] | the rule of each call and route: who may use it |
//! | `participants` | the participants of the job, as their file has them now |
//! | `log_lines` | the log lines that a participant may cause |
//! | `message_budget` | the messages of calls on their way, bounded in memory and time |
//! | `pages` | the pages of the job: health, status and metrics |
//! | [`status`] | the status of a job, as JSON: made every half second for those that follow the job |
//! | [`server`] | starts and stops all of this |
//!
//! # What always holds
//!
//! * No evaluation or merge is accepted before a segment of the journal that says so is durable. A result that is
//!   pending until other participants find the same is answered at once, and kept.
//! * No record is decoded, except in an audit and in the search for a contradiction.
//! * Calls, messages, transfers and workers have named limits.
//! * A call or route without a rule is refused to everybody.
//! * A text that a worker sends is cut, and its control characters are escaped, before it reaches a log or a terminal.

pub mod auth;
mod background;
mod contradiction;
mod effects;
mod error;
pub mod job;
pub use job::status;
mod log_lines;
mod message_budget;
mod pages;
mod participants;
pub mod publish;
mod records;
mod referee;
mod relay;
pub mod server;
mod service;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use service::is_result;
mod tools;

#[cfg(test)]
mod testing;

/// The outcome of a future that is complete when first polled, as those of a simulation are.
#[cfg(test)]
pub(crate) fn ready<F: Future>(future: F) -> F::Output {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => panic!("a simulated storage makes nobody wait"),
    }
}
