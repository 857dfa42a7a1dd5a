//! Scripts that act as a worker and fail in ways that the real worker cannot be made to fail: they die, hang or write noise.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::WorkerCommand;
use crate::executable;
use crate::plan::{CudaState, Worker};
use crate::protocol::{Device, Event, EventLine, Exit, FailureKind, GroupEvent, GroupLine, PROTOCOL_VERSION};

/// Creates a shell script `multicard-worker` in `folder`, which also serves as the supervisor `multicard` there.
pub(crate) fn script(folder: &Path, body: &str) -> PathBuf {
    let path = folder.join("multicard-worker");
    executable::write(&path, format!("#!/bin/sh\n{body}\n"));
    let supervisor = folder.join("multicard");
    if !supervisor.is_symlink() {
        symlink(&path, supervisor).expect("a link to the script");
    }
    path
}

/// A script that describes itself as a worker of this protocol version.
pub(super) fn describing(protocol_version: u32) -> String {
    format!(
        r#"echo '{{"path":"","version":"0.1.0","protocol_version":{protocol_version},"torch_version":"2.11.0","cuda":{{"state":"available"}}}}'"#
    )
}

/// A worker whose ranks run a shell script. In it `$F` is the run's folder, `$RUN` the run's id, and these functions write
/// lines of the current protocol:
///
/// ```text
/// started RANK [PROTOCOL_VERSION]    step RANK STEP    finished RANK    failed RANK MESSAGE
/// rank_started RANK PID              rank_exited RANK SIGNAL TOLD_TO          (by the supervisor)
/// ```
///
/// `say RANK TIME_S FIELDS` writes any other line of a rank.
pub(crate) fn worker(folder: &Path, body: &str) -> WorkerCommand {
    command(script(folder, &format!("F=$(dirname \"$2\")\nRUN=$(basename \"$F\")\n{}{body}", functions())))
}

/// The worker at `path`, with a description of the current version.
pub(crate) fn command(path: PathBuf) -> WorkerCommand {
    let description = Worker {
        path: path.clone(),
        version: "0.1.0".into(),
        protocol_version: PROTOCOL_VERSION,
        torch_version: "2.11.0".into(),
        cuda: CudaState::Available,
        dali: Err("not installed".into()),
        versions: Default::default(),
    };
    WorkerCommand { path, environment: Vec::new(), description }
}

/// Placeholder that the shell function replaces by its argument.
const FIRST: u32 = 900_000_001;
const SECOND: u32 = 900_000_002;
const PID: u32 = 900_000_003;

fn functions() -> String {
    let rank = |name: &str, time_s: f64, event: Event| {
        let line = EventLine { run: "$RUN".into(), rank: FIRST, time_s, event };
        function(name, "rank-$1.jsonl", &serde_json::to_string(&line).expect("a line"))
    };
    let group = |name: &str, time_s: f64, event: GroupEvent| {
        let line = GroupLine { time_s, event };
        function(name, "group.jsonl", &serde_json::to_string(&line).expect("a line"))
    };
    let started = Event::Started {
        protocol_version: SECOND,
        pid: PID,
        torch_version: "2.11.0".into(),
        device: Device { name: "cpu".into(), gpu_uuid: None },
        world_size: 1,
        seed: 1,
    };
    let step = Event::Step {
        epoch: 1,
        step: SECOND.into(),
        steps: 9,
        duration_s: 0.1,
        load_wait_s: 0.0,
        loss: 1.0,
        units: 8,
        warm_up: false,
        traced: false,
    };
    let exited = GroupEvent::RankExited { rank: FIRST, pid: 7, exit: Exit::Signal(SECOND as i32), told_to: false };
    let say =
        r#"say() { printf '{"run":"%s","rank":%s,"time_s":%s,%s}\n' "$RUN" "$1" "$2" "$3" >> "$F/rank-$1.jsonl"; }"#;
    [
        format!("{say}\n"),
        rank("started", 1.0, started).replace("$2", &format!("${{2:-{PROTOCOL_VERSION}}}")),
        rank("step", 2.0, step),
        rank("failed", 3.0, Event::Failed { kind: FailureKind::Input, message: "$2".into() }),
        rank("finished", 9.0, Event::Finished { duration_s: 8.0 }),
        group("rank_started", 1.0, GroupEvent::RankStarted { rank: FIRST, pid: SECOND }),
        group("rank_exited", 4.0, exited).replace(":false", ":$3"),
    ]
    .concat()
}

/// A shell function that appends a line to a file of the run's folder.
fn function(name: &str, file: &str, line: &str) -> String {
    let line = line.replace(&FIRST.to_string(), "$1").replace(&SECOND.to_string(), "$2");
    let line = line.replace(&PID.to_string(), "$$").replace('"', "\\\"");
    format!("{name}() {{ printf '%s\\n' \"{line}\" >> \"$F/{file}\"; }}\n")
}
