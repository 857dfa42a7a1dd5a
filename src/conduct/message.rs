//! The messages between a conductor and its clients.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::queue_view::QueueChange;
use crate::plan::{Identity, Key, OwnMeasure, Plan, WorkloadSpec};
use crate::session::{Added, Notice};

/// Version of these messages. It is increased with each change to them.
pub(super) const MESSAGES_VERSION: u32 = 10;

/// The conductor's process and version: the first line to a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conducting {
    /// The conductor's version of multicard.
    pub multicard: String,
    /// Its version of the messages.
    pub messages: u32,
    /// Its process id.
    pub process: u32,
    /// Whether it is a process of its own; otherwise it ends with `multicard run`.
    pub detached: bool,
}

impl Conducting {
    pub(super) fn here(detached: bool) -> Self {
        Self {
            multicard: env!("CARGO_PKG_VERSION").to_owned(),
            messages: MESSAGES_VERSION,
            process: std::process::id(),
            detached,
        }
    }

    /// Whether this version can communicate with it.
    pub(super) fn is_ours(&self) -> bool {
        self.multicard == env!("CARGO_PKG_VERSION") && self.messages == MESSAGES_VERSION
    }
}

/// The first line of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The client's version of the messages.
    pub messages: u32,
    /// Whether the client wants events and samples of runs.
    pub live: bool,
}

impl Hello {
    pub(super) fn new(live: bool) -> Self {
        Self { messages: MESSAGES_VERSION, live }
    }

    pub(super) fn is_ours(self) -> bool {
        self.messages == MESSAGES_VERSION
    }
}

/// An order with a number that its answer repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Letter {
    /// The sender's number; [`News::Answer`] repeats it.
    pub number: u64,
    /// The order.
    pub order: Order,
}

/// A client's request to a conductor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Queue the runs of a plan.
    Launch(Box<Launch>),
    /// Pause or resume the queue.
    Pause(bool),
    /// Stop a run or remove it from the queue.
    Cancel(String),
    /// Stop all runs.
    CancelAll,
    /// Queue no further runs of the search of the plan with this id.
    StopSearch(String),
    /// Queue a run again.
    Retry(String),
    /// Put a run that was cancelled while it waited back into its place in the queue.
    Revive(String),
    /// Move a queued run to this position among the queued ones, from 0.
    Reorder(String, usize),
    /// Save a study, as JSON, under a name.
    SaveStudy(String, serde_json::Value),
    /// Delete a saved study.
    DeleteStudy(String),
    /// Save a user-defined measure.
    SaveMeasure(OwnMeasure),
    /// Delete the user-defined measure with this key.
    DeleteMeasure(Key),
    /// Import a profiler report: as the trace of a run, or as a standalone report.
    Attach(PathBuf, Option<String>),
    /// Cancel imports.
    CancelImports,
    /// Write a note on a run, or on the session if none is named.
    Note(Option<String>, String),
    /// Measure the rates of the machine's devices for this number of seconds each, once nothing runs. The queue's view gives the progress.
    MeasureRates(f64),
    /// Cancel the measurement.
    CancelMeasuring,
    /// Allow the programs that came with the session's archive, by the digest of their command lines.
    Allow(String),
    /// End, if nothing is left to do: only the program that the conductor is a part of may order it. No later order is taken.
    End,
}

/// A plan to launch, as text: the form in which sessions keep plans.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// Identifies this launch. It may be sent again if its answer is lost, and is executed once.
    pub(super) id: String,
    /// The plan's name.
    name: String,
    /// The text of the plan's file.
    toml: String,
    /// The workloads that come with it.
    workloads: Vec<Arc<WorkloadSpec>>,
    /// The folder of the plan's file, where its programs start.
    base: Option<String>,
    /// Folder that other relative paths are relative to.
    pub(super) folder: PathBuf,
    /// Keep repeats that are finished, active or queued already.
    pub(super) only_missing: bool,
    /// The cells to run; `None` for all.
    pub(super) cells: Option<Vec<Identity>>,
    /// Whether the user named the plan's file, so that permission for its programs is not asked for again.
    #[serde(default)]
    pub(super) is_named: bool,
}

impl Launch {
    /// A launch whose relative paths are relative to a folder.
    pub fn new(plan: &Plan, folder: &Path, only_missing: bool) -> Self {
        Self {
            id: format!("{:032x}", rand::random::<u128>()),
            name: plan.name.clone(),
            toml: plan.to_toml(),
            workloads: plan.brought_workloads().into_iter().cloned().collect(),
            base: plan.folder().map(str::to_owned),
            folder: folder.to_owned(),
            only_missing,
            cells: None,
            is_named: false,
        }
    }

    /// This launch, for a plan whose file the user named.
    #[must_use]
    pub fn of_named_file(self) -> Self {
        Self { is_named: true, ..self }
    }

    /// This launch, for some of the plan's cells.
    #[must_use]
    pub fn of_cells(self, cells: Vec<Identity>) -> Self {
        Self { cells: Some(cells), ..self }
    }

    /// The name of its plan.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn plan(&self) -> Result<Plan, String> {
        let plan = Plan::parse_with(&self.toml, &self.name, &self.workloads);
        let mut plan = plan.map_err(|error| error.to_string())?;
        plan.set_folder(self.base.as_deref());
        Ok(plan)
    }
}

/// A conductor's message to its clients.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum News {
    /// The queue changed.
    Queue(QueueChange),
    /// Something happened to a run. Events and samples go only to clients that asked for them.
    Notice(Notice),
    /// The session's index holds something new.
    Records,
    /// An order was executed, or failed.
    Answer {
        /// The number of its letter.
        number: u64,
        /// The runs that a launch added (`None` for other orders), or the reason why the order failed.
        outcome: Result<Option<Added>, String>,
    },
    /// Something failed that no client ordered, such as recording runs.
    Problem(String),
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_is_launched_is_the_plan_that_was_sent() {
        let texts = [
            "version = 1\nname = \"two words\"\nrepeats = 3\nseed = 7\n[factors]\nprecision = [\"fp32\", \"bf16\"]\n",
            "version = 1\n[command]\nrun = [\"./solve\", \"{threads}\"]\n[factors]\nthreads = [1, 2]\n",
        ];
        for text in texts {
            let mut plan = Plan::parse(text, "plan.toml").unwrap();
            plan.set_folder(Some("/plans"));
            let launch = Launch::new(&plan, Path::new("/work"), true);
            let sent = serde_json::to_string(&Order::Launch(Box::new(launch))).unwrap();
            let Order::Launch(launch) = serde_json::from_str(&sent).unwrap() else { panic!("{sent}") };
            assert_eq!(launch.plan().unwrap(), plan);
        }
    }

    #[test]
    fn a_conductor_or_a_client_of_another_version_is_not_ours() {
        let here = Conducting::here(true);
        assert!(here.is_ours());
        assert!(!Conducting { multicard: "0.0.1".to_owned(), ..Conducting::here(true) }.is_ours());
        assert!(!Conducting { messages: MESSAGES_VERSION + 1, ..here }.is_ours());
        assert!(Hello::new(true).is_ours() && !Hello { messages: MESSAGES_VERSION + 1, live: true }.is_ours());
    }
}
