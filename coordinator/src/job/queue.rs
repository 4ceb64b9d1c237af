//! The queue of commands to the job: those of a participant in order, and all participants in turns.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chomp_plan::ParticipantId;
use tokio::sync::Notify;

use super::handle::{Command, Unheard};
use crate::turns::Turns;

/// The commands of a participant that wait at a time: a few of each of its workers.
pub(super) const WAITING_MAX: usize = 1 << 14;

/// Whose a command is; none if it is the coordinator's own.
pub(super) type Whose = Option<ParticipantId>;

/// Where commands go in. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Sender(Arc<Queue>);

/// Where they come out.
#[derive(Debug)]
pub(super) struct Receiver(Arc<Queue>);

#[derive(Debug)]
struct Queue {
    state: Mutex<State>,
    news: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: Turns<Whose, Command>,
    is_over: bool,
}

pub(super) fn queue() -> (Sender, Receiver) {
    let queue = Arc::new(Queue {
        state: Mutex::default(),
        news: Notify::new(),
    });
    (Sender(Arc::clone(&queue)), Receiver(queue))
}

impl Queue {
    fn now(&self) -> MutexGuard<'_, State> {
        // Commands are put in and taken out whole, whoever panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sender {
    /// Puts a command in, unless too many of the same participant wait.
    pub(super) fn send(&self, whose: Whose, command: Command) -> Result<(), Unheard> {
        if whose.is_some() && self.0.now().waiting.count(whose) >= WAITING_MAX {
            return Err(Unheard::TooMany);
        }
        self.send_always(whose, command)
    }

    /// The same, however many wait: for what takes back something that is there.
    pub(super) fn send_always(&self, whose: Whose, command: Command) -> Result<(), Unheard> {
        let mut state = self.0.now();
        if state.is_over {
            return Err(Unheard::Over);
        }
        state.waiting.push(whose, command);
        drop(state);
        self.0.news.notify_one();
        Ok(())
    }
}

impl Receiver {
    /// The next command, once there is one.
    pub(super) async fn recv(&mut self) -> Command {
        loop {
            if let Some(command) = self.next() {
                return command;
            }
            self.0.news.notified().await;
        }
    }

    /// The next command that is there.
    pub(super) fn next(&mut self) -> Option<Command> {
        self.0.now().waiting.pop()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut state = self.0.now();
        state.is_over = true;
        // Whoever waits for an answer hears that there will be none.
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
    }
}

#[cfg(test)]
mod tests {
    use chomp_plan::{Event, WorkerId};

    use super::*;
    use crate::ready;

    fn left(participant: u32, number: u64) -> (Whose, Command) {
        let participant = ParticipantId(participant);
        let worker = WorkerId {
            participant,
            number,
        };
        (Some(participant), Command::Event(Event::Left { worker }))
    }

    /// Whose the next command is, and its number.
    fn next(commands: &mut Receiver) -> (u32, u64) {
        match ready(commands.recv()) {
            Command::Event(Event::Left { worker }) => (worker.participant.0, worker.number),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_flood_of_commands_delays_nobody_and_is_bounded() {
        let (sender, mut commands) = queue();
        let send = |participant, number| {
            let (whose, command) = left(participant, number);
            sender.send(whose, command)
        };
        for number in 0..WAITING_MAX as u64 {
            send(1, number).unwrap();
        }
        assert_eq!(send(1, 0), Err(Unheard::TooMany));
        send(2, 0).unwrap();
        send(2, 1).unwrap();
        let order: Vec<_> = (0..5).map(|_| next(&mut commands)).collect();
        assert_eq!(order, [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2)]);
        // What takes something back always finds room.
        for number in 0..10 {
            let (whose, command) = left(1, number);
            sender.send_always(whose, command).unwrap();
        }
        assert_eq!(send(1, 0), Err(Unheard::TooMany));
        drop(commands);
        assert_eq!(send(2, 2), Err(Unheard::Over));
    }
}
