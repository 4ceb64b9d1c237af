//! The progress of a command as the user sees it: a bar on a terminal, plain lines elsewhere, events for programs.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use chomp_coordinator::status::{JobPhase, Status};
use chomp_download::DownloadProgress;
use chomp_export::ExportProgress;
use chomp_table::format::shown;
use indicatif::{
    HumanBytes, HumanCount, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle,
};
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::Haste;
use crate::events::{ProgramEvent, Stage};

/// How often the bar moves.
const BAR_EVERY: Duration = Duration::from_millis(100);
/// How often a line is written where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// The length of the bar, in steps: all the work of a job or a stage.
const BAR_STEPS: u64 = 1000;

/// The forms of the bar: of a job or a stage, of a download, of an export.
const STAGE_BAR: &str = "{prefix} [{wide_bar}] {percent:>3} % {msg}";
const DOWNLOAD_BAR: &str =
    "{msg} [{wide_bar}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
const EXPORT_BAR: &str = "words [{wide_bar}] {percent:>3} %, {eta} left";

/// The place on stderr where progress, log lines and errors go. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Display {
    bar: ProgressBar,
    terminal: bool,
    /// Whether to write events instead of lines.
    json: bool,
    haste: Haste,
}

/// Where work on a thread of its own tells how far it is, and hears when to end.
#[derive(Clone, Debug)]
pub(crate) struct Teller<P> {
    progress: watch::Sender<P>,
    stop: CancellationToken,
}

/// Some progress, as it is shown.
#[derive(Default)]
struct View {
    /// The place of the bar.
    done: u64,
    all: u64,
    /// The texts before the bar and after it.
    before: String,
    after: String,
    /// All of it, where there is no bar.
    line: String,
    /// The same for programs.
    events: Vec<ProgramEvent>,
    /// Whether it is told at once, and not when it is time for a line.
    is_news: bool,
}

impl<P: Default> Teller<P> {
    pub(crate) fn new(stop: CancellationToken) -> Teller<P> {
        let progress = watch::Sender::default();
        Teller { progress, stop }
    }

    /// Tells how far the work is. Breaks if it is to end.
    pub(crate) fn tell(&self, progress: P) -> ControlFlow<()> {
        self.progress.send_replace(progress);
        if self.stop.is_cancelled() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

impl Teller<Stage> {
    /// Tells the stage of the work, and the part of the stage that is done, from 0 to 1.
    pub(crate) fn stage(&self, name: &'static str, done: f64) -> ControlFlow<()> {
        let seconds_left = None;
        self.tell(Stage {
            name,
            done,
            seconds_left,
        })
    }
}

impl Display {
    pub(crate) fn new(json: bool, haste: Haste) -> Display {
        Display {
            bar: ProgressBar::hidden(),
            // A terminal that shows no bar, as a dumb one, gets lines.
            terminal: !json && !ProgressDrawTarget::stderr().is_hidden(),
            json,
            haste,
        }
    }

    pub(crate) fn haste(&self) -> Haste {
        self.haste
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

    /// Works for a job, and shows how the job goes on meanwhile.
    pub(crate) async fn during_job<T>(
        &self,
        status: watch::Receiver<Arc<Status>>,
        work: impl Future<Output = T>,
    ) -> T {
        let mut layer = None;
        let view = |now: &Arc<Status>| {
            if now.positions == 0 {
                // The job has not been asked yet.
                return None;
            }
            let is_next = layer.replace(now.layer) != Some(now.layer);
            let (layers_done, layers) = (now.layer, now.layers);
            let next = is_next.then_some(ProgramEvent::Layer {
                layers_done,
                layers,
            });
            let events = next.into_iter().chain([ProgramEvent::progress(now)]);
            let (before, after) = (stage(now), pace(now));
            Some(View {
                done: steps(now.done, BAR_STEPS),
                all: BAR_STEPS,
                line: format!("{before} {} % {after}", steps(now.done, 100)),
                before,
                after,
                events: events.collect(),
                is_news: self.json && is_next,
            })
        };
        self.follow(STAGE_BAR, status, work, view).await
    }

    /// Downloads, and shows how that goes on meanwhile.
    pub(crate) async fn during_download<T>(
        &self,
        progress: watch::Receiver<DownloadProgress>,
        work: impl Future<Output = T>,
    ) -> T {
        let mut is_begun = false;
        let view = |now: &DownloadProgress| {
            // What the table has is known first.
            let percent = (now.bytes * 100).checked_div(now.bytes_total)?;
            let is_news = !std::mem::replace(&mut is_begun, true);
            if is_news && !self.json {
                let (shards, size) = (now.shards_total, HumanBytes(now.bytes_total));
                self.line(&format!("the table has {size} in {shards} shards"));
            }
            let shards = format!("shards {}/{}", now.shards, now.shards_total);
            Some(View {
                done: now.bytes,
                all: now.bytes_total,
                line: format!("{shards} {percent} %"),
                after: shards,
                events: vec![ProgramEvent::Downloading {
                    shards: now.shards as u64,
                    shards_total: now.shards_total as u64,
                    bytes: now.bytes,
                    bytes_total: now.bytes_total,
                }],
                is_news,
                ..View::default()
            })
        };
        self.follow(DOWNLOAD_BAR, progress, work, view).await
    }

    /// Does work on a thread that may block, and shows the stage that it tells, as this event, meanwhile.
    pub(crate) async fn during<T: Send + 'static>(
        &self,
        event: impl Fn(Stage) -> ProgramEvent,
        stop: &CancellationToken,
        work: impl FnOnce(Teller<Stage>) -> T + Send + 'static,
    ) -> T {
        let (mut first, mut since) = (Stage::default(), Instant::now());
        let view = |now: &Stage| {
            let is_next = now.name != first.name;
            if is_next {
                (first, since) = (*now, Instant::now());
            }
            let left = time_left(first.done, now.done, since.elapsed());
            let seconds_left = left.map(|left| left.as_secs_f64());
            let (name, percent) = (now.name, steps(now.done, 100));
            let after = left.map_or_else(|| "starting".to_owned(), time_text);
            Some(View {
                done: steps(now.done, BAR_STEPS),
                all: BAR_STEPS,
                before: name.to_owned(),
                line: format!("{name} {percent} %, {after}"),
                after,
                events: vec![event(Stage {
                    seconds_left,
                    ..*now
                })],
                is_news: self.json && is_next,
            })
        };
        self.during_blocking(STAGE_BAR, stop, work, view).await
    }

    /// Exports on a thread that may block, and shows how that goes on meanwhile.
    pub(crate) async fn during_export<T: Send + 'static>(
        &self,
        stop: &CancellationToken,
        work: impl FnOnce(Teller<ExportProgress>) -> T + Send + 'static,
    ) -> T {
        let view = |&ExportProgress { read, total }: &ExportProgress| {
            // How many there are is known first.
            (total > 0).then(|| View {
                done: read,
                all: total,
                line: format!("{} of {} words read", HumanCount(read), HumanCount(total)),
                events: vec![ProgramEvent::Exporting { read, total }],
                ..View::default()
            })
        };
        self.during_blocking(EXPORT_BAR, stop, work, view).await
    }

    async fn during_blocking<P: Default + Send + Sync + 'static, T: Send + 'static>(
        &self,
        bar: &str,
        stop: &CancellationToken,
        work: impl FnOnce(Teller<P>) -> T + Send + 'static,
        view: impl FnMut(&P) -> Option<View>,
    ) -> T {
        let teller = Teller::new(stop.clone());
        let progress = teller.progress.subscribe();
        let work = blocking(move || work(teller));
        self.follow(bar, progress, work, view).await
    }

    fn show(&self, view: View, is_line: bool) {
        if self.terminal {
            self.bar.set_length(view.all);
            self.bar.set_position(view.done);
            self.bar.set_prefix(view.before);
            self.bar.set_message(view.after);
        } else if self.json && (is_line || view.is_news) {
            view.events.iter().for_each(|event| self.event(event));
        } else if is_line || view.is_news {
            self.line(&view.line);
        }
    }

    /// Waits for `work`, and shows meanwhile what `view` makes of its progress: in a bar of this form if stderr is a
    /// terminal.
    async fn follow<P, T>(
        &self,
        bar: &str,
        mut progress: watch::Receiver<P>,
        work: impl Future<Output = T>,
        mut view: impl FnMut(&P) -> Option<View>,
    ) -> T {
        let show = async {
            if self.terminal {
                let style = ProgressStyle::with_template(bar).expect("a valid template");
                self.bar.set_style(style.progress_chars("=> "));
                self.bar.set_draw_target(ProgressDrawTarget::stderr());
            }
            // What is to be seen first is shown at once: short work ends before the bar moves.
            let mut next = None;
            let is_seen = |now: &P| {
                next = view(now);
                next.is_some()
            };
            // If nothing is told any more, the work ends.
            let _ = progress.wait_for(is_seen).await;
            let mut is_line = false;
            let mut lines = regularly(LINE_EVERY / self.haste.leases);
            lines.tick().await;
            let mut moves = regularly(BAR_EVERY);
            moves.tick().await;
            loop {
                if let Some(view) = next {
                    self.show(view, is_line);
                }
                is_line = tokio::select! {
                    _ = lines.tick() => true,
                    _ = moves.tick() => false,
                };
                next = view(&progress.borrow());
            }
        };
        let done = tokio::select! {
            done = work => done,
            () = show => unreachable!("it shows for as long as it is polled"),
        };
        self.bar.finish_and_clear();
        done
    }
}

/// Does work on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
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

/// Ticks at regular times. After a time in which the process was stopped there is one tick, and not all that were
/// missed.
fn regularly(every: Duration) -> Interval {
    let mut interval = tokio::time::interval(every);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// The layer that the job has reached, or the shards that it has written.
fn stage(status: &Status) -> String {
    let bits = status.bits;
    if status.phase == JobPhase::Publishing {
        let (done, shards) = (HumanCount(status.shards_done), HumanCount(status.shards));
        return format!("{bits} bits, writing shards, {done}/{shards}");
    }
    let layer = (status.layer + 1).min(status.layers);
    format!("{bits} bits, layer {layer}/{}", status.layers)
}

/// How fast it goes, and how long it will take; or what it waits for.
fn pace(status: &Status) -> String {
    if let Some(waits) = &status.waiting_for {
        return shown(waits, &[]).into_owned();
    }
    let is_evaluating = status.phase != JobPhase::Publishing && status.positions_per_second > 0.0;
    let rate = is_evaluating.then(|| rate(status.positions_per_second));
    let left = status.seconds_left.map(|seconds| {
        let left = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        time_text(left)
    });
    if rate.is_none() && left.is_none() {
        return "starting".to_owned();
    }
    rate.into_iter().chain(left).collect::<Vec<_>>().join(", ")
}

/// How fast positions are evaluated.
pub(crate) fn rate(positions_per_second: f64) -> String {
    let positions = HumanCount(whole(positions_per_second));
    format!("{positions} positions/s")
}

/// The time that a stage still takes, if it goes on as fast as in the time `since`, when the part `before` was done.
pub(crate) fn time_left(before: f64, done: f64, since: Duration) -> Option<Duration> {
    let gone = since.as_secs_f64();
    let left = (1.0 - done).max(0.0) / (done - before) * gone;
    (done > before && gone >= 1.0)
        .then(|| Duration::try_from_secs_f64(left).ok())
        .flatten()
}

fn time_text(left: Duration) -> String {
    format!("{} left", HumanDuration(left))
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

    #[test]
    fn what_is_left_is_told_while_ranges_are_missing_and_while_shards_are_written() {
        let running = Status {
            bits: 36,
            layer: 3,
            layers: 56,
            shards: 1024,
            shards_done: 700,
            positions_per_second: 1.5e9,
            seconds_left: Some(40.0),
            ..Status::default()
        };
        let publishing = Status {
            phase: JobPhase::Publishing,
            layer: 56,
            ..running.clone()
        };
        let starting = Status {
            positions_per_second: 0.0,
            seconds_left: None,
            ..running.clone()
        };
        let (layer, shards) = ("layer 4/56", "writing shards, 700/1,024");
        for (status, expected) in [
            (
                running,
                [layer, "1,500,000,000 positions/s, 40 seconds left"],
            ),
            (publishing, [shards, "40 seconds left"]),
            (starting, [layer, "starting"]),
        ] {
            assert_eq!(stage(&status), format!("36 bits, {}", expected[0]));
            assert_eq!(pace(&status), expected[1]);
        }
    }

    #[test]
    fn what_is_left_of_a_stage_follows_from_what_was_done_in_this_run() {
        let seconds = Duration::from_secs;
        for (before, done, since, left) in [
            (0.0, 0.25, seconds(10), Some(seconds(30))),
            (0.5, 0.75, seconds(10), Some(seconds(10))),
            (0.5, 0.5, seconds(10), None),
            (0.0, 0.5, Duration::from_millis(20), None),
        ] {
            assert_eq!(time_left(before, done, since), left);
        }
    }

    #[test]
    fn the_last_step_is_made_at_the_end() {
        assert_eq!(steps(0.4999, 100), 49);
        assert_eq!(steps(0.999_999, 100), 99);
        assert_eq!(steps(1.0, 100), 100);
    }
}
