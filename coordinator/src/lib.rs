//! The coordinator of a table: hands out ranges, keeps what comes back, publishes the table.
//!
//! | module | holds |
//! |---|---|
//! | [`plan`] | which ranges to compute next and what to do with a result: no clock, no I/O |
//! | [`storage`] | immutable objects by key: a directory, or a simulation that fails on demand |
//! | [`store`] | what the objects of a table mean: the journal of finished work |
//! | [`audit`] | decides some words itself, to see whether a result is right |
//! | [`publish`] | merges the ranges into the shards of a table |
//! | [`import`] | makes ranges again from the shards of a published table |
//! | `errands` | what the plan wants to be done and takes time, done on the store |
//! | [`forecast`] | what a job will cost, before it is run |
//! | `later` | work that another thread does meanwhile |
//! | [`job`] | feeds the plan and does what it asks for |
//! | `service` | the gRPC calls; the wire types end there |
//! | [`auth`] | who may call what |
//! | `http` | what is shown of the job to people and machines |
//! | [`status`] | what is told of a job |
//! | [`server`] | all of it, started and stopped |

pub mod audit;
pub mod auth;
mod chance;
mod errands;
pub mod forecast;
mod http;
pub mod import;
pub mod job;
mod later;
pub mod plan;
pub mod publish;
pub mod server;
mod service;
pub mod status;
pub mod storage;
pub mod store;

#[cfg(test)]
mod schedules;

/// The outcome of a future that is complete when first polled, as those of a simulation are.
#[cfg(test)]
pub(crate) fn ready<F: Future>(future: F) -> F::Output {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => panic!("a simulated storage makes nobody wait"),
    }
}
