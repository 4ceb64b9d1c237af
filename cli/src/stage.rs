//! A stage of some long work, as progress shows it.

use std::time::Duration;

use indicatif::HumanDuration;

/// A stage, and how far it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    /// The part of the stage that is done, from 0 to 1.
    pub(crate) done: f64,
}

/// The time that a stage still takes, if it goes on as fast as in the time `since`, when the part `before` was done.
pub(crate) fn time_left(before: f64, done: f64, since: Duration) -> Option<Duration> {
    let gone = since.as_secs_f64();
    let left = (1.0 - done).max(0.0) / (done - before) * gone;
    (done > before && gone >= 1.0)
        .then(|| Duration::try_from_secs_f64(left).ok())
        .flatten()
}

/// The text beside the bar of a stage.
pub(crate) fn pace(left: Option<Duration>) -> String {
    left.map_or_else(
        || "starting".to_owned(),
        |left| format!("{} left", HumanDuration(left)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_from_what_was_done_in_this_run() {
        let seconds = Duration::from_secs;
        assert_eq!(time_left(0.0, 0.25, seconds(10)), Some(seconds(30)));
        assert_eq!(time_left(0.5, 0.75, seconds(10)), Some(seconds(10)));
        assert_eq!(time_left(0.5, 0.5, seconds(10)), None);
        assert_eq!(time_left(0.0, 0.5, Duration::from_millis(20)), None);
        assert_eq!(pace(Some(seconds(30))), "30 seconds left");
        assert_eq!(pace(None), "starting");
    }
}
