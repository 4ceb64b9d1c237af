//! The progress of a job as the user sees it: a bar on a terminal, plain lines elsewhere.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use chomp_coordinator::status::{JobPhase, Status};
use chomp_table::format::shown;
use indicatif::{
    HumanBytes, HumanCount, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle,
};
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::events::ProgramEvent;
use crate::stage::{self, Stage};

/// How often the bar moves.
const BAR_EVERY: Duration = Duration::from_millis(100);
/// How often a line is written where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// The length of the bar, in steps: all the work of a job or a stage.
const BAR_STEPS: u64 = 1000;

/// The form of the bar of a job or a stage.
const STAGE_BAR: &str = "{prefix} [{wide_bar}] {percent:>3} % {msg}";

/// The place on stderr where progress, log lines and errors go. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Display {
    bar: ProgressBar,
    terminal: bool,
    /// Whether to write events instead of lines.
    json: bool,
    /// The divisor of waiting times: 1, but in tests.
    haste: u32,
}

impl Display {
    pub(crate) fn new(json: bool, haste: u32) -> Display {
        Display {
            bar: ProgressBar::hidden(),
            // A terminal that shows no bar, as a dumb one, gets lines.
            terminal: !json && !ProgressDrawTarget::stderr().is_hidden(),
            json,
            haste,
        }
    }

    pub(crate) fn haste(&self) -> u32 {
        self.haste
    }

    fn line_every(&self) -> Duration {
        LINE_EVERY / self.haste
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Prints an error and its causes.
    pub(crate) fn error(&self, error: &anyhow::Error) {
        if self.json {
            let error = format!("{error:#}");
            self.event(&ProgramEvent::Failed { error });
        } else {
            self.line(&format!("error: {}", shown(&format!("{error:#}"), &[])));
        }
    }

    /// Shows a message to people, or sends it as an event with `--json`.
    pub(crate) fn say(&self, text: &str) {
        if self.json {
            let text = text.to_owned();
            self.event(&ProgramEvent::Message { text });
        } else {
            self.line(text);
        }
    }

    /// Sends an event, with `--json` only.
    pub(crate) fn tell(&self, event: &ProgramEvent) {
        if self.json {
            self.event(event);
        }
    }

    fn event(&self, event: &ProgramEvent) {
        let line = serde_json::to_string(event).expect("an event has a form in JSON");
        self.line(&line);
    }

    /// Prints a line, above the bar if there is one, with control characters escaped.
    fn line(&self, line: &str) {
        let line = shown(line, crate::LAYOUT);
        // When stderr is gone there is nobody left to tell.
        self.bar
            .suspend(|| writeln!(io::stderr(), "{line}").unwrap_or(()));
    }

    /// Shows how the job goes on, for as long as it is polled.
    pub(crate) async fn follow(&self, status: watch::Receiver<Arc<Status>>) {
        self.bar.set_length(BAR_STEPS);
        self.show_bar(STAGE_BAR);
        let mut lines = regularly(self.line_every());
        lines.tick().await;
        let mut bar = regularly(BAR_EVERY);
        let mut layer = None;
        loop {
            let is_line = tokio::select! {
                _ = lines.tick() => true,
                _ = bar.tick() => false,
            };
            let now = Arc::clone(&status.borrow());
            if now.positions == 0 {
                // The job has not been asked yet.
                continue;
            }
            if self.terminal {
                self.bar.set_prefix(stage(&now));
                self.bar.set_message(pace(&now));
                self.bar.set_position(steps(now.done, BAR_STEPS));
            } else if self.json {
                if layer.replace(now.layer) != Some(now.layer) {
                    self.tell(&ProgramEvent::Layer {
                        layers_done: now.layer,
                        layers: now.layers,
                    });
                    self.tell(&ProgramEvent::progress(&now));
                } else if is_line {
                    self.tell(&ProgramEvent::progress(&now));
                }
            } else if is_line {
                let percent = steps(now.done, 100);
                self.line(&format!("{} {percent} % {}", stage(&now), pace(&now)));
            }
        }
    }

    /// Shows how a download goes on, for as long as it is polled.
    pub(crate) async fn follow_download(
        &self,
        mut progress: watch::Receiver<chomp_download::DownloadProgress>,
    ) {
        let known = progress
            .wait_for(|now| now.shards_total > 0)
            .await
            .map(|now| *now);
        if let (false, Ok(now)) = (self.json, known) {
            let (shards, size) = (now.shards_total, HumanBytes(now.bytes_total));
            self.line(&format!("the table has {size} in {shards} shards"));
        }
        self.show_bar("{msg} [{wide_bar}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left");
        loop {
            let now = *progress.borrow();
            let shards = format!("shards {}/{}", now.shards, now.shards_total);
            if self.terminal {
                self.bar.set_length(now.bytes_total);
                self.bar.set_position(now.bytes);
                self.bar.set_message(shards);
            } else if self.json {
                self.event(&ProgramEvent::Downloading {
                    shards: now.shards as u64,
                    shards_total: now.shards_total as u64,
                    bytes: now.bytes,
                    bytes_total: now.bytes_total,
                });
            } else if let Some(percent) = (now.bytes * 100).checked_div(now.bytes_total) {
                self.line(&format!("{shards} {percent} %"));
            }
            tokio::time::sleep(if self.terminal {
                BAR_EVERY
            } else {
                self.line_every()
            })
            .await;
        }
    }

    /// Does work on a thread that may block, and shows the stage that it tells, as this event, meanwhile.
    pub(crate) async fn during<T: Send + 'static>(
        &self,
        event: fn(Stage, Option<f64>) -> ProgramEvent,
        work: impl FnOnce(watch::Sender<Stage>) -> T + Send + 'static,
    ) -> T {
        let (progress, stages) = watch::channel(Stage::default());
        let work = tokio::task::spawn_blocking(move || work(progress));
        let done = tokio::select! {
            done = work => {
                done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
            }
            () = self.follow_stages(stages, event) => unreachable!("it follows for as long as it is polled"),
        };
        self.clear();
        done
    }

    /// Shows how the stages of some work go on, for as long as it is polled. `event` makes the event for `--json` of a
    /// stage and the seconds that are left of it.
    async fn follow_stages(
        &self,
        stages: watch::Receiver<Stage>,
        event: fn(Stage, Option<f64>) -> ProgramEvent,
    ) {
        self.bar.set_length(BAR_STEPS);
        self.show_bar(STAGE_BAR);
        let mut lines = regularly(self.line_every());
        lines.tick().await;
        let mut bar = regularly(BAR_EVERY);
        let mut first = *stages.borrow();
        let mut since = Instant::now();
        loop {
            let is_line = tokio::select! {
                _ = lines.tick() => true,
                _ = bar.tick() => false,
            };
            let now = *stages.borrow();
            let is_new = now.name != first.name;
            if is_new {
                (first, since) = (now, Instant::now());
            }
            let left = stage::time_left(first.done, now.done, since.elapsed());
            if self.terminal {
                self.bar.set_prefix(now.name);
                self.bar.set_message(stage::pace(left));
                self.bar.set_position(steps(now.done, BAR_STEPS));
            } else if self.json && (is_line || is_new) {
                self.event(&event(now, left.map(|left| left.as_secs_f64())));
            } else if is_line {
                let percent = steps(now.done, 100);
                self.line(&format!("{} {percent} %, {}", now.name, stage::pace(left)));
            }
        }
    }

    /// Shows how an export goes on, for as long as it is polled.
    pub(crate) async fn follow_export(
        &self,
        progress: watch::Receiver<chomp_export::ExportProgress>,
    ) {
        self.show_bar("words [{wide_bar}] {percent:>3} %, {eta} left");
        loop {
            tokio::time::sleep(if self.terminal {
                BAR_EVERY
            } else {
                self.line_every()
            })
            .await;
            let chomp_export::ExportProgress { read, total } = *progress.borrow();
            if self.terminal {
                self.bar.set_length(total);
                self.bar.set_position(read);
            } else if self.json {
                self.event(&ProgramEvent::Exporting { read, total });
            } else {
                let (read, total) = (HumanCount(read), HumanCount(total));
                self.line(&format!("{read} of {total} words read"));
            }
        }
    }

    /// Shows a bar of this form, if stderr is a terminal.
    fn show_bar(&self, template: &str) {
        if self.terminal {
            let style = ProgressStyle::with_template(template).expect("a valid template");
            self.bar.set_style(style.progress_chars("=> "));
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// Takes the bar away.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Write for Display {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.json {
            let text = String::from_utf8_lossy(bytes).trim_end().to_owned();
            self.tell(&ProgramEvent::Log { text });
            return Ok(bytes.len());
        }
        self.bar.suspend(|| io::stderr().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Ticks at regular times. After a time in which the process was stopped there is one tick, and not all that were missed.
fn regularly(every: Duration) -> Interval {
    let mut interval = tokio::time::interval(every);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// How large the table of a job is.
pub(crate) fn size(status: &Status) -> String {
    format!("{} bits", status.bits)
}

/// The layer that the job has reached, or the shards that it has written.
fn stage(status: &Status) -> String {
    let size = size(status);
    if status.phase == JobPhase::Publishing {
        let (done, shards) = (HumanCount(status.shards_done), HumanCount(status.shards));
        return format!("{size}, writing shards, {done}/{shards}");
    }
    let layer = (status.layer + 1).min(status.layers);
    format!("{size}, layer {layer}/{}", status.layers)
}

/// How fast it goes, and how long it will take; or what it waits for.
fn pace(status: &Status) -> String {
    if let Some(waits) = &status.waiting_for {
        return shown(waits, &[]).into_owned();
    }
    let left = status.seconds_left.map(|seconds| {
        let left = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        format!("{} left", HumanDuration(left))
    });
    let rate =
        (status.phase != JobPhase::Publishing && status.positions_per_second > 0.0).then(|| {
            format!(
                "{} positions/s",
                HumanCount(whole(status.positions_per_second))
            )
        });
    match (rate, left) {
        (Some(rate), Some(left)) => format!("{rate}, {left}"),
        (None, Some(left)) => left,
        (Some(rate), None) => rate,
        (None, None) => "starting".to_owned(),
    }
}

/// How many of `all` steps are done, if this part of the work is, from 0 to 1. The last step is done only when all the
/// work is.
pub(crate) fn steps(part: f64, all: u64) -> u64 {
    if part >= 1.0 {
        return all;
    }
    #[expect(clippy::cast_precision_loss, reason = "there are few steps")]
    let steps = whole(part * all as f64);
    steps.min(all.saturating_sub(1))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is shown is not negative, and need not be exact"
)]
fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> Status {
        Status {
            bits: 36,
            layer: 3,
            layers: 56,
            ranges: 1024,
            shards: 1024,
            shards_done: 700,
            positions_per_second: 1.5e9,
            seconds_left: Some(40.0),
            done: 0.4999,
            ..Status::default()
        }
    }

    #[test]
    fn what_is_left_is_told_while_ranges_are_missing_and_while_shards_are_written() {
        let running = status();
        assert_eq!(stage(&running), "36 bits, layer 4/56");
        assert_eq!(pace(&running), "1,500,000,000 positions/s, 40 seconds left");
        let publishing = Status {
            phase: JobPhase::Publishing,
            layer: 56,
            ..status()
        };
        assert_eq!(stage(&publishing), "36 bits, writing shards, 700/1,024");
        assert_eq!(pace(&publishing), "40 seconds left");
        let starting = Status {
            positions_per_second: 0.0,
            seconds_left: None,
            ..status()
        };
        assert_eq!(pace(&starting), "starting");
    }

    #[test]
    fn the_last_step_is_made_at_the_end() {
        assert_eq!(steps(0.4999, 100), 49);
        assert_eq!(steps(0.999_999, 100), 99);
        assert_eq!(steps(1.0, 100), 100);
    }
}
