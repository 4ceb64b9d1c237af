//! The critical path, which no number of workers can shorten.

use chomp_table::{Head, head};

use crate::forecast::{Costs, Forecast, as_f64, losing_total};

/// The critical path of a job: each layer waits for a range of the layer before, so a job takes at
/// least the number of layers times what a range takes from its sources to the journal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CriticalPath {
    /// The number of layers.
    pub layers: f64,
    /// The average seconds to evaluate a range and encode its record.
    pub evaluation: f64,
    /// The seconds until its part is durable, and then the segment of the journal that names it.
    pub commit: f64,
    /// The seconds until a source arrives.
    pub fetch: f64,
}

impl CriticalPath {
    /// The critical path of a job with these costs.
    pub fn new(forecast: &Forecast, costs: &Costs) -> CriticalPath {
        let ranges = as_f64(forecast.ranges());
        let heads = (0..forecast.ranges()).map(Head);
        let evaluation: f64 = heads.map(|head| costs.evaluation(forecast, head)).sum();
        let layers = head::layer_count(forecast.bits(), forecast.range_bits());
        CriticalPath {
            layers: as_f64(layers as u64),
            evaluation: (evaluation + losing_total(forecast.bits()) * costs.encode) / ranges,
            commit: 2.0 * costs.commit + costs.control(1),
            fetch: costs.fetch,
        }
    }

    /// The seconds of the whole path.
    pub fn seconds(&self) -> f64 {
        self.layers * (self.evaluation + self.commit + self.fetch)
    }
}
