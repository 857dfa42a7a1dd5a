//! Compares the clocks of a run's nodes: the first node asks the others for their times, over the pipes of a step, which Slurm itself
//! connects. No port is open for this.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::answer::{collect, exit_before, received};
use crate::protocol::{Clock, Exit, now_s};

/// How often each node is asked. The fastest answer counts.
const ROUNDS: usize = 10;
/// How long the answers to a question are awaited, once all nodes have answered one.
const ROUND_LIMIT: Duration = Duration::from_secs(2);
/// Answers that wait to be read; the thread that reads them waits when there are more.
const ANSWERS: usize = 1024;

/// Answers each line of stdin with this node's number and its time, until stdin ends.
pub fn tell_time(node: u32) {
    for line in io::stdin().lock().lines() {
        // The first node may have ended.
        if line.is_err() || writeln!(io::stdout(), "{node} {}", now_s()).is_err() {
            return;
        }
    }
}

/// A step whose processes answered questions about their time.
pub(super) struct Asked {
    /// How it ended; `None` if it did not end in time and was killed.
    pub exit: Option<Exit>,
    /// Its stderr.
    pub stderr: String,
    /// The clock of each node; `None` for a node that did not answer.
    pub clocks: Vec<Option<Clock>>,
}

/// A line that a node wrote, and when it was read.
type Answer = (String, f64);

/// Runs a command that starts [`tell_time`] on each node, and asks for the times.
///
/// # Errors
/// It cannot be started.
pub(super) fn ask(mut command: Command, nodes: u32, limit: Duration) -> io::Result<Asked> {
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let deadline = Instant::now() + limit;
    let stderr = collect("answer-stderr", child.stderr.take());
    let answers = answers(&mut child);
    let mut compared = Compared::of(nodes as usize);
    if let Some(mut questions) = child.stdin.take() {
        for round in 0..ROUNDS {
            let until = if round == 0 { deadline } else { deadline.min(Instant::now() + ROUND_LIMIT) };
            if !compared.round(&mut questions, &answers, until) {
                break;
            }
        }
        // Its stdin ends here, which ends the processes on the nodes.
    }
    let exit = exit_before(&mut child, deadline);
    Ok(Asked { exit, stderr: received(&stderr, deadline), clocks: compared.clocks })
}

/// Reads the answers on a thread, so that the time of each is known.
fn answers(child: &mut Child) -> Receiver<Answer> {
    let (sender, receiver) = sync_channel(ANSWERS);
    if let Some(pipe) = child.stdout.take() {
        let read = move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                if sender.send((line, now_s())).is_err() {
                    return;
                }
            }
        };
        // If the thread cannot be started, no answer comes.
        let _ = thread::Builder::new().name("clocks".into()).spawn(read);
    }
    receiver
}

/// The results of comparing the clocks of nodes.
struct Compared {
    clocks: Vec<Option<Clock>>,
    /// Whether each node has answered the question of this round.
    have_answered: Vec<bool>,
}

impl Compared {
    fn of(nodes: usize) -> Self {
        Self { clocks: vec![None; nodes], have_answered: vec![false; nodes] }
    }

    /// Asks all nodes once; returns whether all of them answered.
    fn round(&mut self, questions: &mut ChildStdin, answers: &Receiver<Answer>, until: Instant) -> bool {
        self.have_answered.fill(false);
        let asked_s = now_s();
        if questions.write_all(b"\n").and_then(|()| questions.flush()).is_err() {
            return false;
        }
        while self.have_answered.contains(&false) {
            let left = until.saturating_duration_since(Instant::now());
            let Ok((line, heard_s)) = answers.recv_timeout(left) else { return false };
            self.take(&line, asked_s, heard_s);
        }
        true
    }

    /// Takes an answer to a question that was asked at `asked_s`. Other lines are left out.
    fn take(&mut self, line: &str, asked_s: f64, heard_s: f64) {
        let Some((node, told_s)) = line.trim().split_once(' ') else { return };
        let (Ok(node), Ok(told_s)) = (node.parse::<usize>(), told_s.parse::<f64>()) else { return };
        let (Some(clock), Some(has_answered)) = (self.clocks.get_mut(node), self.have_answered.get_mut(node)) else {
            return;
        };
        *has_answered = true;
        let new = Clock { ahead_s: told_s - f64::midpoint(asked_s, heard_s), error_s: (heard_s - asked_s).abs() / 2.0 };
        if told_s.is_finite() && clock.is_none_or(|best| new.error_s < best.error_s) {
            *clock = Some(new);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Two nodes whose answers are a shell's; the clock of the second one is 100 s behind.
    fn nodes(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_clock_that_is_behind_is_found_and_the_step_ends_once_it_was_asked() {
        let script = "while read -r _; do now=$(date +%s.%N); echo \"0 $now\"; echo noise; echo \"1 $((${now%.*} - 100)).${now#*.}\"; done";
        let asked = ask(nodes(script), 2, Duration::from_secs(60)).unwrap();
        assert_eq!((asked.exit, asked.stderr.as_str()), (Some(Exit::Code(0)), ""));
        let clocks = asked.clocks.into_iter().map(Option::unwrap).collect::<Vec<_>>();
        for (clock, ahead_s) in clocks.iter().zip([0.0, -100.0]) {
            assert!((clock.ahead_s - ahead_s).abs() <= clock.error_s + 1e-3, "{clock:?}");
        }
    }

    #[test]
    fn a_node_that_does_not_answer_has_no_clock_and_the_step_tells_why() {
        let asked =
            ask(nodes("read -r _; echo 0 5.0; echo n2 is gone >&2; exit 3"), 2, Duration::from_secs(60)).unwrap();
        assert_eq!((asked.exit, asked.stderr.trim()), (Some(Exit::Code(3)), "n2 is gone"));
        assert!(asked.clocks[0].is_some() && asked.clocks[1].is_none(), "{:?}", asked.clocks);
    }

    #[test]
    fn the_fastest_answer_counts() {
        let mut compared = Compared::of(1);
        compared.take("0 10.5", 0.0, 20.0);
        compared.take("0 31", 29.0, 31.0);
        compared.take("0 90", 40.0, 60.0);
        compared.take("7 90", 40.0, 60.0);
        assert_eq!(compared.clocks, [Some(Clock { ahead_s: 1.0, error_s: 1.0 })]);
    }
}
