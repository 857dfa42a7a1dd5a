//! Notices when the device does not finish a queued step in time.
//!
//! Within a step, GPUs wait for each other: if one rank hangs, so do the training threads of the others. NCCL's own watchdog cannot
//! see into replayed graphs and hangs too if the other rank is stopped. This one keeps running.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Watches the steps of one rank until dropped.
pub struct Watchdog {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    board: Mutex<Board>,
    changed: Condvar,
}

#[derive(Default)]
struct Board {
    /// Start of the time in which the device has owed a step; `None` while it owes none.
    owed_since: Option<Instant>,
    /// Whether the thread is waiting without a limit until a step is queued.
    asleep: bool,
    ended: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self, limit: Duration, alarm: impl FnOnce()) {
        let mut board = self.lock();
        while !board.ended {
            let left = board.owed_since.map(|since| limit.saturating_sub(since.elapsed()));
            board.asleep = left.is_none();
            board = match left {
                None => self.changed.wait(board).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => {
                    drop(board);
                    return alarm();
                }
                Some(left) => self.changed.wait_timeout(board, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }
}

impl Watchdog {
    /// Calls `alarm` once, on its own thread, if the device owes a step for longer than `limit`.
    pub fn start(limit: Duration, alarm: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new().name("watchdog".into()).spawn(move || own.watch(limit, alarm))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// A step is about to be queued. Time counts from here unless the device already owes others.
    pub fn given(&self) {
        let mut board = self.shared.lock();
        if board.owed_since.is_none() {
            self.owe(&mut board);
        }
    }

    /// A step has finished; `owed` tells whether the device owes more, including steps queued before the watch began.
    pub fn done(&self, owed: bool) {
        let mut board = self.shared.lock();
        if owed { self.owe(&mut board) } else { board.owed_since = None }
    }

    fn owe(&self, board: &mut Board) {
        board.owed_since = Some(Instant::now());
        // A thread that waits with a limit looks again by itself.
        if board.asleep {
            self.shared.changed.notify_one();
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the alarm has already been printed.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc::{Receiver, sync_channel};

    use super::*;

    /// Long enough for a slow machine; reaching it is a failure.
    const DEADLINE: Duration = Duration::from_secs(60);

    fn watchdog(limit: Duration) -> (Watchdog, Receiver<()>) {
        let (sender, alarms) = sync_channel(1);
        (Watchdog::start(limit, move || sender.send(()).unwrap()).unwrap(), alarms)
    }

    #[test]
    fn a_step_that_does_not_end_raises_the_alarm() {
        let (watchdog, alarms) = watchdog(Duration::from_millis(10));
        watchdog.given();
        alarms.recv_timeout(DEADLINE).unwrap();
        // Also a step queued before the watch began, known from another's end.
        let (watchdog, alarms) = self::watchdog(Duration::from_millis(10));
        while !watchdog.shared.lock().asleep {
            thread::yield_now();
        }
        watchdog.done(true);
        alarms.recv_timeout(DEADLINE).unwrap();
        // Also after others have finished.
        let (watchdog, alarms) = self::watchdog(Duration::from_millis(10));
        watchdog.given();
        watchdog.done(true);
        alarms.recv_timeout(DEADLINE).unwrap();
    }

    #[test]
    fn nothing_owed_raises_none_however_long_it_takes() {
        let (watchdog, alarms) = watchdog(Duration::from_millis(1));
        let shared = Arc::clone(&watchdog.shared);
        drop(watchdog);
        // It has ended without an alarm, and its sender with it.
        assert!(shared.lock().owed_since.is_none());
        alarms.recv_timeout(DEADLINE).unwrap_err();
    }

    #[test]
    fn each_step_that_ends_gives_the_next_one_its_whole_time() {
        let (watchdog, alarms) = watchdog(DEADLINE);
        watchdog.given();
        let first = watchdog.shared.lock().owed_since.unwrap();
        watchdog.given();
        assert_eq!(watchdog.shared.lock().owed_since, Some(first), "the oldest counts");
        watchdog.done(true);
        assert!(watchdog.shared.lock().owed_since.unwrap() >= first);
        watchdog.done(false);
        assert_eq!(watchdog.shared.lock().owed_since, None);
        drop(watchdog);
        alarms.recv_timeout(DEADLINE).unwrap_err();
    }
}
