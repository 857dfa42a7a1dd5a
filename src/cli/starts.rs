//! What runs that take long to start are doing, in words for the terminal.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use crate::conduct::QueueRow;
use crate::figure::duration_text;
use crate::plan::{RunState, counted};
use crate::protocol::{Event, EventLine, Phase};

/// How often the user is told of a run that has no step yet.
const INTERVAL: Duration = Duration::from_secs(30);

/// What is known of the start of a run.
#[derive(Default)]
struct Start {
    /// The time at which it was first seen to be active.
    since: Option<Instant>,
    /// How many intervals had passed when the user was last told of it.
    reported_intervals: u64,
    /// The ranks that have started.
    ranks: HashSet<u32>,
    world_size: u32,
    /// Whether its ranks are workers, which report their phases. Programs may never report a step.
    is_of_workers: bool,
    phase: Option<Phase>,
}

impl Start {
    /// What the run is doing before its first step; `None` if nobody knows or if its start is over.
    fn doing(&self, state: RunState) -> Option<String> {
        let doing = match (state, self.phase) {
            (RunState::Starting, _) if self.ranks.is_empty() => "none of its ranks has reported yet".to_owned(),
            (RunState::Starting, _) => format!("{} of {} started", self.ranks.len(), counted(self.world_size, "rank")),
            _ if !self.is_of_workers => return None,
            (_, None) => "its ranks open the device and join each other".to_owned(),
            (_, Some(Phase::Start)) => "its ranks build the model".to_owned(),
            (_, Some(Phase::Load)) => "its ranks load the data set".to_owned(),
            (_, Some(Phase::WarmUp | Phase::Steady | Phase::Evaluate)) => return None,
        };
        Some(doing)
    }
}

/// The runs that have no step yet.
#[derive(Default)]
pub(super) struct Starts(HashMap<String, Start>);

impl Starts {
    /// Takes over what a rank reported.
    pub fn event(&mut self, line: &EventLine) {
        match &line.event {
            Event::Started { world_size, torch_version, .. } => {
                let start = self.0.entry(line.run.clone()).or_default();
                start.ranks.insert(line.rank);
                (start.world_size, start.is_of_workers) = (*world_size, !torch_version.is_empty());
            }
            Event::Phase { phase } => {
                if let Some(start) = self.0.get_mut(&line.run) {
                    start.phase = Some(*phase);
                }
            }
            _ => {}
        }
    }

    /// What to tell the user now of the runs in these rows of the queue: once in each [`INTERVAL`] of a start, what the run is doing.
    pub fn news<'q>(&mut self, rows: impl Iterator<Item = &'q QueueRow>, now: Instant) -> Vec<String> {
        let open: Vec<&QueueRow> = rows.filter(|row| !row.state.is_final() && row.step == 0).collect();
        let names: HashSet<&str> = open.iter().map(|row| row.run.as_str()).collect();
        self.0.retain(|run, _| names.contains(run.as_str()));
        let mut news = Vec::new();
        // What a run waits for at its site is told elsewhere.
        for row in open.into_iter().filter(|row| row.state.is_active() && row.waits.is_none()) {
            let run = &row.run;
            let start = self.0.entry(run.clone()).or_default();
            let elapsed = now.saturating_duration_since(*start.since.get_or_insert(now));
            let intervals = elapsed.as_secs() / INTERVAL.as_secs();
            if intervals > start.reported_intervals {
                start.reported_intervals = intervals;
                let doing = start.doing(row.state);
                let text = |doing: String| {
                    format!("run {run}: starting for {}: {doing}", duration_text(elapsed.as_secs_f64()))
                };
                news.extend(doing.map(text));
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Device, PROTOCOL_VERSION};

    fn row(state: RunState, step: u64) -> QueueRow {
        QueueRow { step, ..QueueRow::in_state("a", state) }
    }

    fn line(rank: u32, event: Event) -> EventLine {
        EventLine { run: "a".to_owned(), rank, time_s: 0.0, event }
    }

    fn started(rank: u32, torch_version: &str) -> EventLine {
        let event = Event::Started {
            protocol_version: PROTOCOL_VERSION,
            pid: 1,
            torch_version: torch_version.to_owned(),
            device: Device { name: "cpu".to_owned(), gpu_uuid: None },
            world_size: 2,
            seed: 0,
        };
        line(rank, event)
    }

    #[test]
    fn a_long_start_is_told_every_30_s_with_what_the_run_is_doing() {
        let (mut starts, begin) = (Starts::default(), Instant::now());
        let news = |starts: &mut Starts, row: QueueRow, after_s: u64| {
            starts.news([row].iter(), begin + Duration::from_secs(after_s))
        };
        assert!(news(&mut starts, row(RunState::Starting, 0), 0).is_empty());
        assert!(news(&mut starts, row(RunState::Starting, 0), 29).is_empty());
        let texts = news(&mut starts, row(RunState::Starting, 0), 31);
        assert_eq!(texts, ["run a: starting for 31 s: none of its ranks has reported yet"]);
        assert!(news(&mut starts, row(RunState::Starting, 0), 59).is_empty());
        starts.event(&started(0, "2.11.0"));
        let texts = news(&mut starts, row(RunState::Starting, 0), 60);
        assert_eq!(texts, ["run a: starting for 1 min 0 s: 1 of 2 ranks started"]);
        starts.event(&started(1, "2.11.0"));
        starts.event(&line(0, Event::Phase { phase: Phase::Load }));
        let texts = news(&mut starts, row(RunState::Running, 0), 95);
        assert_eq!(texts, ["run a: starting for 1 min 35 s: its ranks load the data set"]);
        assert!(news(&mut starts, row(RunState::Running, 1), 200).is_empty(), "it has begun to train");
    }

    #[test]
    fn nothing_is_told_of_running_programs_without_steps_and_of_runs_that_wait_at_their_site() {
        let (mut starts, begin) = (Starts::default(), Instant::now());
        let later = begin + Duration::from_secs(90);
        starts.event(&started(0, ""));
        assert!(starts.news([row(RunState::Running, 0)].iter(), begin).is_empty());
        assert!(starts.news([row(RunState::Running, 0)].iter(), later).is_empty());
        let waiting = QueueRow { waits: Some("Priority".to_owned()), ..row(RunState::Starting, 0) };
        let mut starts = Starts::default();
        assert!(starts.news([waiting.clone()].iter(), begin).is_empty());
        assert!(starts.news([waiting].iter(), later).is_empty());
    }
}
