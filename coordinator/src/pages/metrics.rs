//! The numbers behind `/metrics`, in the text format of `OpenMetrics`.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use chomp_serve::net::Permits;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::status::Status;

/// The content type of `/metrics`.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The bytes of objects that went through the proxy since the start.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// To workers.
    pub(crate) fetched: AtomicU64,
    /// From workers.
    pub(crate) submitted: AtomicU64,
}

/// All numbers of a job at one moment.
pub(super) fn text(
    status: &Status,
    permits: &Permits,
    refusals: u64,
    traffic: &Traffic,
) -> Result<String, fmt::Error> {
    let threads = status
        .workers
        .iter()
        .map(|worker| u64::from(worker.threads));
    let mut page = MetricsPage(Registry::with_prefix("chomp"));
    page.gauge(
        "layer",
        "The lowest layer that is not complete",
        status.layer,
    );
    page.gauge("layers", "The layers of the job", status.layers);
    page.gauge("ranges", "The ranges of the job", status.ranges);
    page.gauge("ranges_done", "The ranges on disk", status.ranges_done);
    page.gauge(
        "shards",
        "The shards of the table, once no range is missing",
        status.shards,
    );
    page.gauge("shards_done", "The shards on disk", status.shards_done);
    page.gauge("positions", "The positions of the table", status.positions);
    page.gauge(
        "positions_done",
        "The positions of the ranges on disk",
        status.positions_done,
    );
    page.gauge(
        "losing_positions",
        "The losing positions of the ranges on disk",
        status.losing,
    );
    page.gauge("leases", "The leases that stand", status.leases);
    page.gauge(
        "submissions",
        "The results that wait for votes of others, or are being written",
        status.submissions,
    );
    page.gauge(
        "workers",
        "The workers that are there",
        status.workers.len() as u64,
    );
    page.gauge(
        "threads",
        "The threads of the workers",
        threads.sum::<u64>(),
    );
    page.gauge(
        "connections_open",
        "The connections that are open",
        permits.open(),
    );
    page.counter(
        "connections_refused",
        "The connections refused as too many",
        permits.refused(),
    );
    page.counter(
        "calls_refused",
        "The calls refused for want of a good token",
        refusals,
    );
    page.bytes(
        "fetched",
        "The bytes of objects sent to workers that do not reach the store",
        &traffic.fetched,
    );
    page.bytes(
        "submitted",
        "The bytes of objects received from workers that do not reach the store",
        &traffic.submitted,
    );
    let mut text = String::new();
    encode(&mut text, &page.0)?;
    Ok(text)
}

/// The numbers so far.
struct MetricsPage(Registry);

impl MetricsPage {
    fn gauge(&mut self, name: &str, help: &str, value: impl Into<u64>) {
        let gauge = Gauge::<u64, AtomicU64>::default();
        gauge.set(value.into());
        self.0.register(name, help, gauge);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.0.register(name, help, counter(value));
    }

    fn bytes(&mut self, name: &str, help: &str, value: &AtomicU64) {
        let counter = counter(value.load(Ordering::Relaxed));
        self.0.register_with_unit(name, help, Unit::Bytes, counter);
    }
}

fn counter(value: u64) -> Counter {
    let counter = Counter::default();
    counter.inc_by(value);
    counter
}
