//! How long runs take, by a clock that cannot be set.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::protocol::{Event, EventLine};

/// What is known about the durations of runs that have not ended, by run.
#[derive(Default)]
pub(super) struct Durations(BTreeMap<String, Times>);

#[derive(Default)]
struct Times {
    /// When this process started the run; `None` if an earlier process did.
    started: Option<Instant>,
    /// When the first rank reported its start.
    heard: Option<Instant>,
    /// The longest duration that a rank reported, in seconds.
    reported_s: Option<f64>,
}

impl Durations {
    /// Notes that a run starts now.
    pub fn start(&mut self, run: &str) {
        self.times(run).started = Some(Instant::now());
    }

    /// Notes what an event that arrives now says about the duration of its run.
    pub fn event(&mut self, line: &EventLine) {
        match line.event {
            Event::Started { .. } => {
                self.times(&line.run).heard.get_or_insert_with(Instant::now);
            }
            Event::Finished { duration_s } => {
                let times = self.times(&line.run);
                times.reported_s = Some(times.reported_s.map_or(duration_s, |longest_s| longest_s.max(duration_s)));
            }
            _ => {}
        }
    }

    /// The duration of a run that is known to have ended now, in seconds; `None` if this process did not start it and no rank reported a
    /// duration. A run of a program ended with the last process of the program: the lines that the program wrote may be read much later.
    pub fn end(&mut self, run: &str, is_program: bool) -> Option<f64> {
        let Times { started, heard, reported_s } = self.0.remove(run).unwrap_or_default();
        let Some(started) = started else { return reported_s };
        let known_after_s = started.elapsed().as_secs_f64();
        let by_program_s = heard
            .zip(reported_s.filter(|_| is_program))
            .map(|(heard, reported_s)| heard.saturating_duration_since(started).as_secs_f64() + reported_s);
        Some(by_program_s.map_or(known_after_s, |by_program_s| by_program_s.min(known_after_s)))
    }

    fn times(&mut self, run: &str) -> &mut Times {
        self.0.entry(run.to_owned()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::protocol::{Device, PROTOCOL_VERSION};

    fn line(run: &str, event: Event) -> EventLine {
        EventLine { run: run.to_owned(), rank: 0, time_s: 1.0, event }
    }

    fn started() -> Event {
        Event::Started {
            protocol_version: PROTOCOL_VERSION,
            pid: 1,
            torch_version: String::new(),
            device: Device { name: "cpu".to_owned(), gpu_uuid: None },
            world_size: 1,
            seed: 0,
        }
    }

    #[test]
    fn a_run_of_a_program_lasts_until_the_program_ended_and_another_run_until_its_end_is_known() {
        let mut durations = Durations::default();
        let begun = Instant::now();
        for run in ["program", "worker"] {
            durations.start(run);
            durations.event(&line(run, started()));
            durations.event(&line(run, Event::Finished { duration_s: 0.0 }));
        }
        let at_most_s = begun.elapsed().as_secs_f64();
        let late = Duration::from_millis(20);
        thread::sleep(late);
        let ended = |durations: &mut Durations, run, is_program| durations.end(run, is_program).unwrap_or(f64::NAN);
        assert!(ended(&mut durations, "program", true) <= at_most_s);
        assert!(ended(&mut durations, "worker", false) >= late.as_secs_f64());
    }

    #[test]
    fn no_run_lasts_longer_than_until_its_end_is_known_and_one_of_an_earlier_process_as_long_as_it_reported() {
        let mut durations = Durations::default();
        durations.start("own");
        for run in ["own", "earlier"] {
            durations.event(&line(run, started()));
            durations.event(&line(run, Event::Finished { duration_s: 1e6 }));
            durations.event(&line(run, Event::Finished { duration_s: 3.0 }));
        }
        assert!(durations.end("own", true).is_some_and(|duration_s| duration_s < 1e6));
        assert_eq!(durations.end("earlier", true), Some(1e6));
        assert_eq!(durations.end("earlier", true), None);
    }
}
