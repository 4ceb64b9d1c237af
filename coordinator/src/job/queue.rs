//! The queue of commands to the job: those of a participant in order, and all participants in turns.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chomp_plan::ParticipantId;
use chomp_serve::turns::Turns;
use tokio::sync::Notify;

/// The commands of a participant that wait at a time: a few of each of its workers.
pub(crate) const WAITING_MAX: usize = 1 << 14;

/// Why the job does not take a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallRefused {
    /// The job is over.
    #[error("the coordinator is shutting down")]
    ShuttingDown,
    /// Too many calls of the same participant wait.
    #[error("{WAITING_MAX} calls of your participant wait already: come back in 1 s")]
    TooMany,
}

/// The participant of a command; none if the command is the coordinator's own.
pub(super) type Whose = Option<ParticipantId>;

/// The end of the queue where commands go in. Clones share the queue.
#[derive(Debug)]
pub(super) struct Sender<T>(Arc<CallQueue<T>>);

/// The end of the queue where commands come out.
#[derive(Debug)]
pub(super) struct Receiver<T>(Arc<CallQueue<T>>);

#[derive(Debug)]
struct CallQueue<T> {
    state: Mutex<QueueState<T>>,
    news: Notify,
}

#[derive(Debug)]
struct QueueState<T> {
    waiting: Turns<Whose, T>,
    is_over: bool,
}

pub(super) fn queue<T>() -> (Sender<T>, Receiver<T>) {
    let queue = Arc::new(CallQueue {
        state: Mutex::new(QueueState {
            waiting: Turns::default(),
            is_over: false,
        }),
        news: Notify::new(),
    });
    (Sender(Arc::clone(&queue)), Receiver(queue))
}

impl<T> CallQueue<T> {
    fn now(&self) -> MutexGuard<'_, QueueState<T>> {
        // Commands are put in and taken out whole, even if a thread panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        Sender(Arc::clone(&self.0))
    }
}

impl<T> Sender<T> {
    /// Puts a command in, unless too many of the same participant wait.
    pub(super) fn send(&self, whose: Whose, command: T) -> Result<(), CallRefused> {
        if whose.is_some() && self.0.now().waiting.count(whose) >= WAITING_MAX {
            return Err(CallRefused::TooMany);
        }
        self.send_always(whose, command)
    }

    /// Puts a command in, however many wait: for commands that take back what an earlier one asked for.
    pub(super) fn send_always(&self, whose: Whose, command: T) -> Result<(), CallRefused> {
        let mut state = self.0.now();
        if state.is_over {
            return Err(CallRefused::ShuttingDown);
        }
        state.waiting.push(whose, command);
        drop(state);
        self.0.news.notify_one();
        Ok(())
    }
}

impl<T> Receiver<T> {
    /// The next command, once there is one.
    pub(super) async fn recv(&mut self) -> T {
        loop {
            if let Some(command) = self.next() {
                return command;
            }
            self.0.news.notified().await;
        }
    }

    /// The next command that is there.
    pub(super) fn next(&mut self) -> Option<T> {
        self.0.now().waiting.pop()
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.now();
        state.is_over = true;
        // Calls that wait for an answer hear that there will be none.
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ready;

    #[test]
    fn a_flood_of_commands_delays_nobody_and_is_bounded() {
        let (sender, mut commands) = queue();
        let send = |participant, number| {
            sender.send(Some(ParticipantId(participant)), (participant, number))
        };
        for number in 0..WAITING_MAX as u64 {
            send(1, number).unwrap();
        }
        assert_eq!(send(1, 0), Err(CallRefused::TooMany));
        send(2, 0).unwrap();
        send(2, 1).unwrap();
        let order: Vec<_> = (0..5).map(|_| ready(commands.recv())).collect();
        assert_eq!(order, [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2)]);
        // `send_always` finds room in a full queue.
        for number in 0..10 {
            let whose = Some(ParticipantId(1));
            sender.send_always(whose, (1, number)).unwrap();
        }
        assert_eq!(send(1, 0), Err(CallRefused::TooMany));
        drop(commands);
        assert_eq!(send(2, 2), Err(CallRefused::ShuttingDown));
    }
}
