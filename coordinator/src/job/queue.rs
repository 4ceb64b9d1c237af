//! The queue of commands to the job: those of a participant in order, and all participants in turns.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chomp_plan::ParticipantId;
use chomp_serve::turns::Turns;
use tokio::sync::Notify;

use crate::error::{Refusal, WAITING_MAX};

/// The participant of a command; none if the command is the coordinator's own.
pub(super) type Whose = Option<ParticipantId>;

/// The commands on their way to the job.
#[derive(Debug)]
pub(super) struct CallQueue<T> {
    /// The commands that wait; none when the job is over.
    waiting: Mutex<Option<Turns<Whose, T>>>,
    news: Notify,
}

/// The end of the queue where commands come out. The job is over when it is dropped.
#[derive(Debug)]
pub(super) struct Receiver<T>(Arc<CallQueue<T>>);

pub(super) fn queue<T>() -> (Arc<CallQueue<T>>, Receiver<T>) {
    let queue = Arc::new(CallQueue {
        waiting: Mutex::new(Some(Turns::default())),
        news: Notify::new(),
    });
    (Arc::clone(&queue), Receiver(queue))
}

impl<T> CallQueue<T> {
    fn waiting(&self) -> MutexGuard<'_, Option<Turns<Whose, T>>> {
        // Commands are put in and taken out whole, even if a thread panicked.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a command in, unless too many of the same participant wait.
    pub(super) fn send(&self, whose: Whose, command: T) -> Result<(), Refusal> {
        let is_full = |waiting: &Turns<_, _>| waiting.count(whose) >= WAITING_MAX;
        if whose.is_some() && self.waiting().as_ref().is_some_and(is_full) {
            return Err(Refusal::TooManyCalls);
        }
        self.send_always(whose, command)
    }

    /// Puts a command in, however many wait: for commands that take back what an earlier one asked for.
    pub(super) fn send_always(&self, whose: Whose, command: T) -> Result<(), Refusal> {
        let mut waiting = self.waiting();
        let turns = waiting.as_mut().ok_or(Refusal::ShuttingDown)?;
        turns.push(whose, command);
        drop(waiting);
        self.news.notify_one();
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
        self.0.waiting().as_mut()?.pop()
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        // Calls that wait for an answer hear that there will be none.
        let waiting = self.0.waiting().take();
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
        assert_eq!(send(1, 0), Err(Refusal::TooManyCalls));
        send(2, 0).unwrap();
        send(2, 1).unwrap();
        let order: Vec<_> = (0..5).map(|_| ready(commands.recv())).collect();
        assert_eq!(order, [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2)]);
        // `send_always` finds room in a full queue.
        for number in 0..10 {
            let whose = Some(ParticipantId(1));
            sender.send_always(whose, (1, number)).unwrap();
        }
        assert_eq!(send(1, 0), Err(Refusal::TooManyCalls));
        drop(commands);
        assert_eq!(send(2, 2), Err(Refusal::ShuttingDown));
    }
}
