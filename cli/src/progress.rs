//! The progress of a command as the user sees it: a bar on a terminal, plain lines elsewhere, events for programs.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use chomp_coordinator::status::{JobPhase, Status};
use chomp_download::DownloadProgress;
use chomp_export::ExportProgress;
use chomp_plan::forecast::as_f64;
use chomp_plan::{NO_WORKER, counted};
use chomp_store::tasks::output;
use chomp_table::format::escape_control;
use indicatif::{
    HumanBytes, HumanCount, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle,
};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::TestOverrides;
use crate::stderr::Stderr;

const BAR_EVERY: Duration = Duration::from_millis(100);
/// The interval between lines of progress where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// The length of the bar, in steps: all the work of a job or a stage.
const BAR_STEPS: u64 = 1000;
const BAR: &str = "{prefix} [{wide_bar}] {percent:>3} % {msg}";
/// Of work whose end is not known.
const COUNT: &str = "{prefix} {msg}";

/// The place on stderr where progress, log lines and errors go. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Display {
    bar: ProgressBar,
    stderr: Stderr,
    stop: CancellationToken,
    terminal: bool,
    /// Whether to write events instead of lines.
    json: bool,
    overrides: TestOverrides,
}

/// The channel by which work on another thread reports its progress, and learns that it must end.
#[derive(Clone, Debug)]
pub(crate) struct Teller {
    progress: watch::Sender<Stage>,
    stop: CancellationToken,
}

struct View {
    /// The stage of the work, or its layer. Events report a new stage at once.
    stage: String,
    /// The part of the stage that is done, from 0 to 1; none if nobody knows.
    done: Option<f64>,
    /// The text after the fraction.
    pace: String,
    begun: Option<Event>,
    event: Event,
}

/// A line of JSON for programs; docs/PROGRAMS.md has all of them.
#[derive(Serialize)]
struct Event {
    event: &'static str,
    #[serde(flatten)]
    fields: Value,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stage {
    name: &'static str,
    /// From 0 to 1.
    done: f64,
    /// The things that are done, where nobody knows of how many.
    count: Option<u64>,
    /// The words that are read, and all that are to be read.
    words: Option<(u64, u64)>,
}

/// Foretells how long a stage takes.
struct StageClock {
    event: &'static str,
    stage: &'static str,
    /// The fraction that was done when the stage was first seen, and the time of that.
    first: f64,
    since: Instant,
}

impl Teller {
    pub(crate) fn new(stop: CancellationToken) -> Teller {
        let progress = watch::Sender::default();
        Teller { progress, stop }
    }

    /// Tells the stage of the work, and the part of the stage that is done, from 0 to 1. Breaks if the work is to end.
    pub(crate) fn stage(&self, name: &'static str, done: f64) -> ControlFlow<()> {
        self.tell(Stage {
            name,
            done,
            ..Stage::default()
        })
    }

    /// Tells the stage of the work, and how many things are done where nobody knows of how many. Breaks if the work is
    /// to end.
    pub(crate) fn counted(&self, name: &'static str, count: u64) -> ControlFlow<()> {
        self.tell(Stage {
            name,
            count: Some(count),
            ..Stage::default()
        })
    }

    /// Tells how much of a table is exported. Breaks if the export is to end.
    pub(crate) fn exported(
        &self,
        ExportProgress { read, total }: ExportProgress,
    ) -> ControlFlow<()> {
        self.tell(Stage {
            name: "words",
            done: as_f64(read) / as_f64(total.max(1)),
            words: Some((read, total)),
            ..Stage::default()
        })
    }

    fn tell(&self, stage: Stage) -> ControlFlow<()> {
        self.progress.send_replace(stage);
        if self.stop.is_cancelled() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

impl Display {
    pub(crate) fn new(json: bool, overrides: TestOverrides) -> Display {
        let stderr = Stderr::start(move |count| {
            let text = format!("{count} lines are lost, as nobody has read this output");
            if json {
                let fields = json!({ "text": text });
                let event = "message";
                return Event { event, fields }.line();
            }
            text + "\n"
        });
        Display {
            bar: ProgressBar::hidden(),
            stderr,
            stop: CancellationToken::new(),
            // A terminal that shows no bar, as a dumb one, gets lines.
            terminal: !json && !ProgressDrawTarget::stderr().is_hidden(),
            json,
            overrides,
        }
    }

    pub(crate) fn with(&self, stop: CancellationToken) -> Display {
        Display {
            stop,
            ..self.clone()
        }
    }

    pub(crate) fn stop_token(&self) -> CancellationToken {
        self.stop.clone()
    }

    pub(crate) fn overrides(&self) -> TestOverrides {
        self.overrides
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    pub(crate) fn error(&self, error: &anyhow::Error) {
        let text = format!("{error:#}");
        if !self.tell("failed", json!({ "error": text })) {
            self.line(&format!("error: {}", escape_control(&text, &[])));
        }
    }

    /// Shows a message to people, or sends it as an event with `--json`.
    pub(crate) fn say(&self, text: &str) {
        if !self.tell("message", json!({ "text": text })) {
            self.line(text);
        }
    }

    /// As [`say`](Display::say), for the lines of a batch, of which none is dropped: waits while nobody reads them.
    pub(crate) fn say_in_turn(&self, text: &str) {
        let line = escape_control(text, crate::LAYOUT) + "\n";
        self.bar.suspend(|| self.stderr.write_in_turn(&line));
    }

    /// Sends an event to programs. Does nothing, and is false, without `--json`.
    pub(crate) fn tell(&self, event: &'static str, fields: Value) -> bool {
        if self.json {
            self.event(&Event { event, fields });
        }
        self.json
    }

    fn event(&self, event: &Event) {
        self.print(event.line());
    }

    /// Prints a line, above the bar if there is one, with control characters escaped.
    fn line(&self, line: &str) {
        self.print(format!("{}\n", escape_control(line, crate::LAYOUT)));
    }

    fn print(&self, text: String) {
        self.bar.suspend(|| self.stderr.write(text));
    }

    /// Waits until all lines so far are written, but not for long.
    pub(crate) fn finish(&self) {
        self.stderr.finish();
    }

    /// Shows the progress of a job. With a worker in this process, which is about to join, it does not say that the job
    /// waits for a worker.
    pub(crate) async fn during_job<T>(
        &self,
        status: watch::Receiver<Arc<Status>>,
        has_worker: bool,
        work: impl Future<Output = T>,
    ) -> T {
        let view = |now: &Arc<Status>| View::of_job(now, has_worker);
        self.follow(status, work, view).await
    }

    pub(crate) async fn during_download<T>(
        &self,
        progress: watch::Receiver<DownloadProgress>,
        work: impl Future<Output = T>,
    ) -> T {
        let mut clock = StageClock::start("downloading");
        let view = |now: &DownloadProgress| {
            let done = as_f64(now.bytes) / as_f64(now.bytes_total);
            // The number of bytes is 0 until the manifest is read.
            let all = (now.bytes_total > 0).then_some(HumanBytes(now.bytes_total))?;
            if clock.stage.is_empty() {
                let shards = counted(now.shards_total, "shard");
                self.say(&format!("the table has {all} in {shards}"));
            }
            let fields = json!({
                "shards": now.shards,
                "shards_total": now.shards_total,
                "bytes": now.bytes,
                "bytes_total": now.bytes_total,
            });
            Some(clock.view("downloading", done, &format!("of {all}, "), fields))
        };
        self.follow(progress, work, view).await
    }

    /// Does `work` on a thread that may block, and meanwhile shows the stage that it reports. With `--json`, it
    /// writes events of the name `event`.
    pub(crate) async fn during<T: Send + 'static>(
        &self,
        event: &'static str,
        stop: &CancellationToken,
        work: impl FnOnce(Teller) -> T + Send + 'static,
    ) -> T {
        let teller = Teller::new(stop.clone());
        let progress = teller.progress.subscribe();
        let work = blocking(move || work(teller));
        let mut clock = StageClock::start(event);
        let view = |stage: &Stage| {
            let (name, done) = (stage.name, stage.done);
            if let Some(count) = stage.count {
                return Some(clock.count(name, count));
            }
            let mut fields = json!({ "stage": name, "done": done });
            if let Some((read, total)) = stage.words {
                fields["read"] = read.into();
                fields["total"] = total.into();
            }
            (!name.is_empty()).then(|| clock.view(name, done, "", fields))
        };
        self.follow(progress, work, view).await
    }

    /// Waits for `work`, and meanwhile shows what `view` makes of its progress. Shows nothing while `view` returns
    /// None.
    async fn follow<P, T>(
        &self,
        mut progress: watch::Receiver<P>,
        work: impl Future<Output = T>,
        mut view: impl FnMut(&P) -> Option<View>,
    ) -> T {
        let show = async {
            if self.terminal {
                self.bar.set_style(style(BAR));
                let terminal = self.stderr.for_bar();
                self.bar
                    .set_draw_target(ProgressDrawTarget::term_like(terminal));
                self.bar.set_length(BAR_STEPS);
            }
            // The first progress is shown at once, as short work ends before the bar moves. An error means that the
            // sender is gone, so `work` is about to end.
            let _ = progress.wait_for(|now| view(now).is_some()).await;
            let mut lines = regularly(LINE_EVERY / self.overrides.lease_haste);
            let mut moves = regularly(BAR_EVERY);
            lines.tick().await;
            moves.tick().await;
            let (mut stage, mut is_time) = (String::new(), false);
            loop {
                let now = view(&progress.borrow());
                if let Some(now) = now {
                    let is_next = now.stage != stage;
                    stage.clone_from(&now.stage);
                    self.show(now, is_next, is_time);
                }
                is_time = tokio::select! {
                    _ = lines.tick() => true,
                    _ = moves.tick() => false,
                };
            }
        };
        let done = tokio::select! {
            done = work => done,
            () = show => unreachable!("it shows for as long as it is polled"),
        };
        self.bar.finish_and_clear();
        done
    }

    /// On a terminal, moves the bar. With `--json`, writes events if `is_time` or if the stage is new. Else writes a
    /// line if `is_time`.
    fn show(&self, view: View, is_next: bool, is_time: bool) {
        if self.terminal {
            if is_next {
                let template = if view.done.is_some() { BAR } else { COUNT };
                self.bar.set_style(style(template));
            }
            self.bar
                .set_position(steps(view.done.unwrap_or(0.0), BAR_STEPS));
            self.bar.set_prefix(view.stage);
            self.bar.set_message(view.pace);
        } else if self.json && (is_time || is_next) {
            let begun = view.begun.filter(|_| is_next);
            for event in begun.iter().chain([&view.event]) {
                self.event(event);
            }
        } else if is_time {
            let View { stage, pace, .. } = view;
            let percent = view.done.map(|done| format!("{} % ", steps(done, 100)));
            self.line(&format!("{stage} {}{pace}", percent.unwrap_or_default()));
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).expect("a valid template");
    style.progress_chars("=> ")
}

pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    output(tokio::task::spawn_blocking(work).await).await
}

impl Write for Display {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        if self.tell("log", json!({ "text": text.trim_end() })) {
            return Ok(bytes.len());
        }
        self.print(text.into_owned());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// After a time in which the process was stopped there is one tick, and not all that were missed.
fn regularly(every: Duration) -> Interval {
    let mut interval = tokio::time::interval(every);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

impl Event {
    /// The event as a line of JSON. Control characters that JSON permits are escaped too.
    fn line(&self) -> String {
        let line = serde_json::to_string(self).expect("an event has a form in JSON");
        format!("{}\n", escape_control(&line, &[]))
    }
}

impl View {
    /// The progress of a job; none until its status has positions.
    fn of_job(status: &Arc<Status>, has_worker: bool) -> Option<View> {
        let (bits, layers_done, layers) = (status.bits, status.layer, status.layers);
        let (stage, pace) = if layers_done < layers {
            let rate = status.positions_per_second;
            let rate = (rate > 0.0).then(|| rate_text(rate));
            (format!("layer {}/{layers}", layers_done + 1), rate)
        } else {
            let (done, shards) = (HumanCount(status.shards_done), HumanCount(status.shards));
            let pace = format!("{done}/{shards}");
            ("writing shards".to_owned(), Some(pace))
        };
        let left = status.seconds_left;
        let left = left.map(|left| Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX));
        let waiting = status.waiting_for.as_ref();
        let waiting = waiting.filter(|reason| !(has_worker && *reason == NO_WORKER));
        let pace = match (waiting, pace, left) {
            (Some(reason), ..) => escape_control(reason, &[]).into_owned(),
            (None, Some(pace), None) => pace,
            (None, pace, left) => pace.map_or(String::new(), |pace| pace + ", ") + &time_text(left),
        };
        (status.positions > 0).then(|| View {
            stage: format!("{bits} bits, {stage}"),
            done: Some(status.done),
            pace,
            begun: Some(Event {
                event: "layer",
                fields: json!({ "layers_done": layers_done, "layers": layers }),
            }),
            event: Event {
                event: match status.phase {
                    JobPhase::Publishing => "publishing",
                    _ => "progress",
                },
                fields: json!({
                    "bits": bits,
                    "done": status.done,
                    "layer": layers_done,
                    "layers": layers,
                    "ranges_done": status.ranges_done,
                    "ranges": status.ranges,
                    "shards_done": status.shards_done,
                    "shards": status.shards,
                    "losing": status.losing,
                    "positions_per_second": status.positions_per_second,
                    "seconds_left": status.seconds_left,
                }),
            },
        })
    }
}

impl StageClock {
    fn start(event: &'static str) -> StageClock {
        StageClock {
            event,
            stage: "",
            first: 0.0,
            since: Instant::now(),
        }
    }

    /// `done` is a fraction. The time that is left is foretold from the pace since the stage was first seen.
    fn view(&mut self, stage: &'static str, done: f64, of: &str, mut fields: Value) -> View {
        let since = self.elapsed(stage, done);
        let left = time_left(self.first, done, since);
        fields["seconds_left"] = left.map(|left| left.as_secs_f64()).into();
        let event = self.event;
        View {
            stage: stage.to_owned(),
            done: Some(done),
            pace: format!("{of}{}", time_text(left)),
            begun: None,
            event: Event { event, fields },
        }
    }

    /// So much is done, of nobody knows how much: the pace foretells nothing.
    fn count(&mut self, stage: &'static str, count: u64) -> View {
        let elapsed = self.elapsed(stage, 0.0);
        let seconds = elapsed.as_secs_f64();
        View {
            stage: stage.to_owned(),
            done: None,
            pace: format!("{} after {}", HumanCount(count), HumanDuration(elapsed)),
            begun: None,
            event: Event {
                event: self.event,
                fields: json!({ "stage": stage, "count": count, "seconds": seconds }),
            },
        }
    }

    /// The time since the stage was first seen, when `done` of it was done.
    fn elapsed(&mut self, stage: &'static str, done: f64) -> Duration {
        if stage != self.stage {
            (self.stage, self.first, self.since) = (stage, done, Instant::now());
        }
        self.since.elapsed()
    }
}

pub(crate) fn rate_text(positions_per_second: f64) -> String {
    let positions = HumanCount(whole(positions_per_second));
    format!("{positions} positions/s")
}

/// The time that a stage still takes if it keeps its pace: in the time `since`, the fraction done grew from `before` to
/// `done`.
pub(crate) fn time_left(before: f64, done: f64, since: Duration) -> Option<Duration> {
    let gone = since.as_secs_f64();
    let left = (1.0 - done).max(0.0) / (done - before) * gone;
    (done > before && gone >= 1.0)
        .then(|| Duration::try_from_secs_f64(left).ok())
        .flatten()
}

fn time_text(left: Option<Duration>) -> String {
    left.map_or_else(
        || "starting".to_owned(),
        |left| format!("{} left", HumanDuration(left)),
    )
}

/// The number of `all` steps for a fraction of the work. The last step is done only when all the work is.
pub(crate) fn steps(fraction: f64, all: u64) -> u64 {
    if fraction >= 1.0 {
        return all;
    }
    whole(fraction * as_f64(all)).min(all.saturating_sub(1))
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
            positions: 1 << 35,
            layer: 3,
            layers: 56,
            shards: 1024,
            shards_done: 700,
            positions_per_second: 1.5e9,
            seconds_left: Some(40.0),
            ..Status::default()
        };
        let publishing = Status {
            layer: 56,
            ..running.clone()
        };
        let starting = Status {
            positions_per_second: 0.0,
            seconds_left: None,
            ..running.clone()
        };
        let (layer, left) = ("36 bits, layer 4/56", "40 seconds left");
        let rate = format!("1,500,000,000 positions/s, {left}");
        let shards = format!("700/1,024, {left}");
        let alone = Status {
            waiting_for: Some(NO_WORKER.to_owned()),
            ..starting.clone()
        };
        for (status, has_worker, expected) in [
            (running, true, [layer, &rate]),
            (publishing, true, ["36 bits, writing shards", &shards]),
            (starting, true, [layer, "starting"]),
            (alone.clone(), true, [layer, "starting"]),
            (alone, false, [layer, NO_WORKER]),
        ] {
            let view = View::of_job(&Arc::new(status), has_worker).unwrap();
            assert_eq!([view.stage, view.pace], expected);
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
