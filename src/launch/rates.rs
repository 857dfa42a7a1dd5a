//! Starts the worker to measure a device, and reads its output.

use std::io::{BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::worker::WorkerCommand;
use crate::protocol::{DeviceRates, Exit, RateLine};

/// How often the caller is asked whether to continue.
const TICK: Duration = Duration::from_millis(100);
/// The most lines that wait to be read.
const LINES: usize = 64;
/// How long to wait for the worker's last lines after it has ended.
const WORDS_LIMIT: Duration = Duration::from_secs(1);

/// The device to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured<'a> {
    /// The GPU's UUID; `None` for the CPUs.
    pub gpu_uuid: Option<&'a str>,
    /// Number of threads for arithmetic on CPUs.
    pub threads: u32,
    /// How long the measurement may take, without the worker's start.
    pub duration_s: f64,
}

/// A running worker, which is killed when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // A worker that has already ended cannot be killed, but must be reaped.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Measures a device. `started` receives the worker's process id. `each` receives every line, and `None` ten times a second; it may cancel,
/// and then the result is `None`.
///
/// # Errors
/// The worker cannot be started, or its failure.
pub fn measure_rates(
    worker: &WorkerCommand,
    measured: &Measured,
    started: &mut dyn FnMut(u32),
    each: &mut dyn FnMut(Option<&RateLine>) -> ControlFlow<()>,
) -> Result<Option<DeviceRates>, String> {
    let mut command = Command::new(&worker.path);
    command.args(["rates", &measured.duration_s.to_string(), &measured.threads.to_string()]).args(measured.gpu_uuid);
    command.env("CUDA_VISIBLE_DEVICES", measured.gpu_uuid.unwrap_or_default());
    command.envs(worker.environment.iter().map(|(key, value)| (key, value))).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let shown = worker.path.display();
    let child = command.spawn().map_err(|error| format!("the worker {shown} cannot be started: {error}"))?;
    let mut running = Running(child);
    started(running.0.id());
    let (Some(output), Some(errors)) = (running.0.stdout.take(), running.0.stderr.take()) else {
        return Err(format!("the worker {shown} has no output"));
    };
    let lines = read_on_a_thread(output)?;
    let words = read_on_a_thread(errors)?;
    let mut last_words = String::new();
    let mut measured: Option<DeviceRates> = None;
    loop {
        keep_last(&mut last_words, words.try_iter());
        let line = match lines.recv_timeout(TICK) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) if each(None).is_continue() => continue,
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => break,
        };
        // Libraries may print lines of their own.
        let Ok(line) = serde_json::from_str::<RateLine>(&line) else { continue };
        if each(Some(&line)).is_break() {
            return Ok(None);
        }
        match (line, &mut measured) {
            (RateLine::Device { device, torch_version, threads }, _) => {
                measured = Some(DeviceRates {
                    device,
                    time_s: None,
                    torch_version,
                    threads,
                    rates: Vec::new(),
                    sm_clock_mhz: None,
                    throttle_reasons: Vec::new(),
                    others_cpus: None,
                });
            }
            (RateLine::Rate(rate), Some(measured)) => measured.rates.push(rate),
            (RateLine::Failed { message }, _) => return Err(message),
            _ => {}
        }
    }
    let exit = running.0.wait().map(Exit::from);
    match (measured, exit) {
        (Some(measured), Ok(exit)) if exit.is_success() => measured.check().map(|()| Some(measured)),
        (_, exit) => {
            let end = Instant::now() + WORDS_LIMIT;
            let rest = || words.recv_timeout(end.saturating_duration_since(Instant::now())).ok();
            keep_last(&mut last_words, std::iter::from_fn(rest));
            let output = if last_words.is_empty() { "it printed nothing" } else { &last_words };
            Err(format!("the worker {shown} ended while it measured ({exit:?}): {output}"))
        }
    }
}

/// The lines of a stream, until its end.
fn read_on_a_thread(stream: impl Read + Send + 'static) -> Result<Receiver<String>, String> {
    let (sender, lines) = sync_channel(LINES);
    let read = move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    };
    let thread = thread::Builder::new().name("rates".into()).spawn(read);
    thread
        .map_err(|error| format!("cannot start a thread to read the worker's output: {error}: end other programs"))?;
    Ok(lines)
}

/// Keeps the last line that is not empty.
fn keep_last(last: &mut String, lines: impl Iterator<Item = String>) {
    if let Some(line) = lines.filter(|line| !line.trim().is_empty()).last() {
        line.trim().clone_into(last);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::misbehaviour::{command, script};
    use super::*;
    use crate::protocol::{Device, Rate};

    const MEASURED: Measured = Measured { gpu_uuid: None, threads: 2, duration_s: 0.5 };

    /// The result of a worker that runs these lines of shell script.
    fn found(body: &str, is_asked: impl Fn(Option<&RateLine>) -> bool) -> Result<Option<DeviceRates>, String> {
        let folder = tempfile::tempdir().unwrap();
        let worker = command(script(folder.path(), body));
        let mut each =
            |line: Option<&RateLine>| if is_asked(line) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
        measure_rates(&worker, &MEASURED, &mut |_| {}, &mut each)
    }

    fn echo(line: &RateLine) -> String {
        format!("echo '{}'\n", serde_json::to_string(line).unwrap())
    }

    fn device() -> String {
        let device = Device { name: "cpu".into(), gpu_uuid: None };
        echo(&RateLine::Device { device, torch_version: "2.11.0".into(), threads: Some(2) })
    }

    fn rate(per_s: f64) -> Rate {
        Rate { key: "fp32".into(), per_s, low_per_s: per_s, high_per_s: per_s, samples: 3, size: 512 }
    }

    #[test]
    fn rates_are_read_between_lines_of_libraries_and_the_worker_gets_what_is_asked() {
        let begins = echo(&RateLine::Begins { key: "fp32".into() });
        let asked = r#"[ "$*" = "rates 0.5 2" ] || exit 9"#;
        let body =
            format!("{asked}\n{}echo 'a library says hello'\n{begins}{}", device(), echo(&RateLine::Rate(rate(1e9))));
        let rates = found(&body, |_| true).unwrap().unwrap();
        assert_eq!((rates.device.name.as_str(), rates.threads, rates.rates), ("cpu", Some(2), vec![rate(1e9)]));
    }

    #[test]
    fn a_worker_that_fails_dies_or_says_impossible_rates_is_an_error() {
        let failed = echo(&RateLine::Failed { message: "no such GPU".into() });
        assert_eq!(found(&format!("{failed}exit 1"), |_| true).unwrap_err(), "no such GPU");
        assert!(found(&format!("{}kill -9 $$", device()), |_| true).unwrap_err().contains("Signal(9)"));
        assert!(found("exit 0", |_| true).unwrap_err().contains("ended while it measured"));
        let last = found("echo first >&2; echo 'out of memory' >&2; exit 1", |_| true).unwrap_err();
        assert!(last.ends_with(": out of memory"), "{last}");
        let impossible = format!("{}{}", device(), echo(&RateLine::Rate(rate(0.0))));
        assert_eq!(found(&impossible, |_| true).unwrap_err(), "the rate fp32 is 0");
    }

    #[test]
    fn a_worker_that_is_no_longer_wanted_is_ended() {
        let body = format!("{}exec sleep 1000", device());
        assert_eq!(found(&body, |line| line.is_some()), Ok(None), "between lines");
        assert_eq!(found(&body, |line| line.is_none()), Ok(None), "at a line");
    }
}
