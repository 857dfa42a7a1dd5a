//! When the processes of a program ended. The thread that watches a program also reads what it reports, which may take longer than the
//! program itself.

use std::process::Child;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The moments at which processes end.
pub(super) struct Exits(Vec<Arc<OnceLock<Instant>>>);

impl Exits {
    /// Waits for the end of each of these processes, which nobody has waited for yet, on a thread of its own.
    pub fn of<'c>(children: impl IntoIterator<Item = &'c Child>) -> Self {
        Self(children.into_iter().map(exit_of).collect())
    }

    /// When the last of the processes ended; now if this is unknown.
    pub fn last(&self) -> Instant {
        let now = Instant::now();
        self.0.iter().map(|exit| exit.get().copied().unwrap_or(now)).max().unwrap_or(now)
    }
}

/// The moment at which a process ends; it stays empty if the system cannot tell.
fn exit_of(child: &Child) -> Arc<OnceLock<Instant>> {
    let exit = Arc::new(OnceLock::new());
    if let Ok(handle) = pidfd_open(Pid::from_child(child), PidfdFlags::empty()) {
        let noted = Arc::clone(&exit);
        let wait = move || {
            loop {
                match poll(&mut [PollFd::new(&handle, PollFlags::IN)], None) {
                    Err(Errno::INTR) => {}
                    Err(_) => return,
                    Ok(_) => break,
                }
            }
            let _ = noted.set(Instant::now());
        };
        let _ = thread::Builder::new().name("exit".to_owned()).spawn(wait);
    }
    exit
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_process_ends_at_its_exit_and_not_when_its_exit_is_asked_for() {
        let begun = Instant::now();
        let mut running = Command::new("sleep").arg("600").spawn().unwrap();
        let mut ended = Command::new("true").spawn().unwrap();
        let (of_ended, of_both) = (Exits::of([&ended]), Exits::of([&ended, &running]));
        while of_ended.0[0].get().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(60));
            thread::sleep(Duration::from_millis(1));
        }
        let at = of_ended.last();
        assert!(at >= begun && ended.wait().unwrap().success());
        assert_eq!(of_ended.last(), at, "the exit stays where it was");
        assert!(of_both.last() > at, "one of them still runs");
        running.kill().unwrap();
        running.wait().unwrap();
    }
}
