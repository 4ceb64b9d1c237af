//! Standard error, written by a thread of its own. So work does not stop if nobody reads stderr, as behind a full pipe
//! or on a terminal that is stopped with Ctrl-S. Lines of progress that find no room in the queue are dropped, and a
//! later line says how many. Users and passwords in addresses are not written.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use console::Term;
use indicatif::TermLike;
use parking_lot::{Condvar, Mutex, MutexGuard};

const WAITING_MAX: usize = 1 << 10;
/// How long the program waits at its end for texts to be written.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Clones share the texts that wait to be written.
#[derive(Clone, Debug)]
pub(crate) struct Stderr {
    shared: Arc<Shared>,
    /// If no thread could be started, callers write themselves.
    has_thread: bool,
}

#[derive(Debug, Default)]
struct Shared {
    texts: Mutex<Texts>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Texts {
    waiting: VecDeque<String>,
    is_writing: bool,
    /// The lines dropped since their number was last reported.
    dropped: u64,
}

#[derive(Debug)]
struct BarTerminal {
    stderr: Stderr,
    /// The text drawn since the last flush.
    drawn: Mutex<String>,
}

impl Stderr {
    /// Starts the thread. `tell_dropped` is the line that says how many lines were dropped.
    pub(crate) fn start(tell_dropped: impl Fn(u64) -> String + Send + 'static) -> Stderr {
        let shared: Arc<Shared> = Arc::default();
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name("stderr".to_owned());
        let thread = thread.spawn(move || of_thread.write_all(tell_dropped));
        Stderr {
            shared,
            has_thread: thread.is_ok(),
        }
    }

    /// Writes a text when it is its turn, or drops it if too many wait.
    pub(crate) fn write(&self, text: String) {
        if !self.try_write(text) {
            self.shared.texts.lock().dropped += 1;
        }
    }

    /// Writes a text after those that wait, and drops none, however long nobody reads.
    pub(crate) fn write_in_turn(&self, text: &str) {
        let mut texts = self.shared.texts.lock();
        self.shared.changed.wait_while(&mut texts, Texts::are_left);
        drop(texts);
        write_now(text);
    }

    fn try_write(&self, text: String) -> bool {
        if !self.has_thread {
            write_now(&text);
            return true;
        }
        let mut texts = self.shared.texts.lock();
        let has_room = texts.waiting.len() < WAITING_MAX;
        if has_room {
            texts.waiting.push_back(text);
            self.shared.changed.notify_all();
        }
        has_room
    }

    /// Waits until the queue is written, but not for long.
    pub(crate) fn finish(&self) {
        let mut texts = self.shared.texts.lock();
        let changed = &self.shared.changed;
        changed.wait_while_for(&mut texts, Texts::are_left, LAST_LINES);
    }

    pub(crate) fn for_bar(&self) -> Box<dyn TermLike> {
        Box::new(BarTerminal {
            stderr: self.clone(),
            drawn: Mutex::default(),
        })
    }
}

impl Texts {
    fn are_left(&mut self) -> bool {
        self.is_writing || !self.waiting.is_empty()
    }
}

impl Shared {
    fn write_all(&self, tell_dropped: impl Fn(u64) -> String) {
        let mut texts = self.texts.lock();
        loop {
            let text = match texts.waiting.pop_front() {
                Some(text) => text,
                // The number of dropped lines is written after the queue, as the lines that filled the queue are older.
                None if texts.dropped > 0 => tell_dropped(std::mem::take(&mut texts.dropped)),
                None => {
                    texts.is_writing = false;
                    self.changed.notify_all();
                    self.changed.wait(&mut texts);
                    continue;
                }
            };
            texts.is_writing = true;
            MutexGuard::unlocked(&mut texts, || write_now(&text));
        }
    }
}

fn write_now(text: &str) {
    // Without standard error, no error can be reported.
    let mut stderr = io::stderr().lock();
    let written = stderr.write_all(without_passwords(text).as_bytes());
    written.and_then(|()| stderr.flush()).unwrap_or(());
}

/// The text without the names and passwords of users in addresses.
pub(crate) fn without_passwords(text: &str) -> Cow<'_, str> {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        let ends = |sign: char| sign.is_whitespace() || "\"'`<>".contains(sign);
        let (address, behind) = after.split_at(after.find(ends).unwrap_or(after.len()));
        let authority = address.split(['/', '?', '#']).next().unwrap_or_default();
        let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
        // A password may contain a slash. The text before that slash has no @, and does not end in a port.
        let is_whole = authority.contains('@') || port.bytes().all(|byte| byte.is_ascii_digit());
        let host = if is_whole { authority } else { address };
        shown += before;
        shown += "://";
        match host.rfind('@') {
            Some(at) => shown.extend(["…", &address[at..]]),
            None => shown += address,
        }
        rest = behind;
    }
    if shown.is_empty() {
        return text.into();
    }
    (shown + rest).into()
}

impl BarTerminal {
    fn draw(&self, text: &str) {
        self.drawn.lock().push_str(text);
    }

    fn move_cursor(&self, n: usize, direction: char) {
        if n > 0 {
            self.draw(&format!("\x1b[{n}{direction}"));
        }
    }
}

impl TermLike for BarTerminal {
    fn width(&self) -> u16 {
        Term::stderr().size().1
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.move_cursor(n, 'A');
        Ok(())
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.move_cursor(n, 'B');
        Ok(())
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.move_cursor(n, 'C');
        Ok(())
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.move_cursor(n, 'D');
        Ok(())
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.draw(text);
        self.draw("\n");
        Ok(())
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.draw(text);
        Ok(())
    }

    fn clear_line(&self) -> io::Result<()> {
        self.draw("\r\x1b[2K");
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let drawn = std::mem::take(&mut *self.drawn.lock());
        if !drawn.is_empty() {
            // A bar that was not drawn is drawn anew soon.
            self.stderr.try_write(drawn);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_addresses_are_not_shown() {
        for (text, shown) in [
            (
                "at http://alice:secret@host:7171/x, no",
                "at http://…@host:7171/x, no",
            ),
            (
                "\"s3://a:se@cret@b/c\" and https://t0ken@d",
                "\"s3://…@b/c\" and https://…@d",
            ),
            ("http://a:sec/ret@host/", "http://…@host/"),
            (
                "http://host:80/games/poisons/3x4@1,1",
                "http://host:80/games/poisons/3x4@1,1",
            ),
            (
                "http://[::1]:80/a@b http://c",
                "http://[::1]:80/a@b http://c",
            ),
            ("no address: a@b", "no address: a@b"),
        ] {
            assert_eq!(without_passwords(text), shown);
        }
    }
}
