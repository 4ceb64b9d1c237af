//! What the user sees while a job runs: a bar on a terminal, plain lines elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use chomp_coordinator::plan::Progress;
use chomp_table::RangeBits;
use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::watch;

/// How often the bar moves.
const BAR_EVERY: Duration = Duration::from_millis(100);
/// How often a line is written where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// Below this, a rate says nothing about the time left.
const RATE_AFTER: Duration = Duration::from_millis(300);

/// The place on stderr where progress, log lines and errors go. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Display {
    bar: ProgressBar,
    terminal: bool,
}

impl Display {
    pub(crate) fn new() -> Display {
        Display {
            bar: ProgressBar::hidden(),
            terminal: io::stderr().is_terminal(),
        }
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Prints an error and its causes.
    pub(crate) fn error(&self, error: &anyhow::Error) {
        self.line(&format!("error: {error:#}"));
    }

    /// Prints a line, above the bar if there is one.
    pub(crate) fn line(&self, line: &str) {
        // When stderr is gone there is nobody left to tell.
        self.bar
            .suspend(|| writeln!(io::stderr(), "{line}").unwrap_or(()));
    }

    /// Shows how the job goes on, for as long as it is polled.
    pub(crate) async fn follow(
        &self,
        progress: watch::Receiver<Progress>,
        bits: u32,
        range_bits: RangeBits,
    ) {
        let follower = Follower::new(&progress.borrow(), bits, range_bits);
        if self.terminal {
            let style = ProgressStyle::with_template("{prefix} [{wide_bar}] {percent:>3} % {msg}")
                .expect("a valid template");
            self.bar.set_style(style.progress_chars("=> "));
            self.bar.set_length(follower.positions);
            self.show(follower.status(&progress.borrow()));
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        loop {
            tokio::time::sleep(if self.terminal { BAR_EVERY } else { LINE_EVERY }).await;
            let status = follower.status(&progress.borrow());
            if self.terminal {
                self.show(status);
            } else {
                let percent = status.done * 100 / follower.positions;
                self.line(&format!("{} {percent} % {}", status.stage, status.pace));
            }
        }
    }

    /// Shows how a download goes on, for as long as it is polled.
    pub(crate) async fn follow_download(
        &self,
        progress: watch::Receiver<chomp_download::Progress>,
    ) {
        if self.terminal {
            let template =
                "{msg} [{wide_bar}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
            let style = ProgressStyle::with_template(template).expect("a valid template");
            self.bar.set_style(style.progress_chars("=> "));
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        loop {
            let now = *progress.borrow();
            let shards = format!("shards {}/{}", now.shards, now.shards_total);
            if self.terminal {
                self.bar.set_length(now.bytes_total);
                self.bar.set_position(now.bytes);
                self.bar.set_message(shards);
            } else if let Some(percent) = (now.bytes * 100).checked_div(now.bytes_total) {
                self.line(&format!("{shards} {percent} %"));
            }
            tokio::time::sleep(if self.terminal { BAR_EVERY } else { LINE_EVERY }).await;
        }
    }

    /// Moves the bar.
    fn show(&self, status: Status) {
        self.bar.set_prefix(status.stage);
        self.bar.set_message(status.pace);
        self.bar.set_position(status.done);
    }

    /// Takes the bar away.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Write for Display {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bar.suspend(|| io::stderr().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Turns counts into words. The rate is that of this run alone: what was there before it cost
/// nothing now.
struct Follower {
    start: Instant,
    /// All positions of the table.
    positions: u64,
    /// The positions of a range, as far as they belong to the table.
    per_range: u64,
    bits: u32,
}

struct Status {
    stage: String,
    pace: String,
    done: u64,
}

impl Follower {
    #[expect(clippy::disallowed_methods, reason = "a rate is about time")]
    fn new(progress: &Progress, bits: u32, range_bits: RangeBits) -> Follower {
        let positions = 1 << (bits - 1);
        let per_range = positions / progress.ranges;
        debug_assert_eq!(per_range, range_bits.positions().min(positions));
        Follower {
            start: Instant::now(),
            positions,
            per_range,
            bits,
        }
    }

    fn status(&self, progress: &Progress) -> Status {
        let done = progress.ranges_done * self.per_range;
        let fresh = (progress.ranges_done - progress.ranges_resumed) * self.per_range;
        let elapsed = self.start.elapsed();
        let stage = if progress.layer < progress.layers {
            format!(
                "{} bits, layer {}/{}",
                self.bits,
                progress.layer + 1,
                progress.layers
            )
        } else {
            format!("{} bits, writing shards", self.bits)
        };
        let pace = if progress.layer == progress.layers {
            String::new()
        } else if fresh == 0 || elapsed < RATE_AFTER {
            "starting".to_owned()
        } else {
            let millis = elapsed.as_millis();
            let rate = u128::from(fresh) * 1000 / millis;
            let left = u128::from(self.positions - done) * millis / u128::from(fresh) / 1000;
            let count = |number| u64::try_from(number).unwrap_or(u64::MAX);
            format!(
                "{} positions/s, {} left",
                HumanCount(count(rate)),
                HumanDuration(Duration::from_secs(count(left)))
            )
        };
        Status { stage, pace, done }
    }
}
