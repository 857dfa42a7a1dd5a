//! Tries a site: asks Slurm about its settings, and runs a test job. The job shows whether a node shares this machine's
//! files, has the same multicard, and can start the worker.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::at_site::Where;
use super::doctor::Check;
use super::trial::Scratch;
use super::{Machine, Notice, Session, SessionError};
use crate::launch::{self, Nodes, WorkerCommand};
use crate::plan::{CudaState, Plan, RunState, Worker};
use crate::protocol::{Environment, Site, build};

/// The first lines of the plan that tests a site.
const PLAN: &str = "version = 1\nname = \"site\"\n[limits]\nrun_time_s = 120\n[command]\nname = \"nothing\"\n";
/// Longest output of the worker that describes itself.
const MOST_OUTPUT_BYTES: u64 = 1 << 20;

/// The plan of the test job, on this number of nodes. The worker describes itself; if it cannot start, the job succeeds nevertheless. Without a
/// worker, the job does nothing.
fn plan_of(site: &Site, nodes: u32, worker: Option<&WorkerCommand>) -> Result<Plan, String> {
    let mut words: Vec<String> = ["sh", "-c", "\"$@\"; true", "sh"].map(str::to_owned).into();
    match worker {
        None => words.push("true".to_owned()),
        Some(worker) => {
            words.push("env".to_owned());
            words.extend(worker.environment.iter().map(|(name, value)| format!("{name}={value}")));
            words.extend([worker.path.display().to_string(), "describe".to_owned()]);
        }
    }
    // Braces mark placeholders, so literal braces are doubled.
    let words: Vec<String> = words.iter().map(|word| word.replace('{', "{{").replace('}', "}}")).collect();
    let words = serde_json::to_string(&words).map_err(|error| error.to_string())?;
    let plan = Plan::parse(&format!("{PLAN}run = {words}\n[factors]\nnodes = {nodes}\n"), "site")
        .map_err(|error| error.to_string())?;
    Ok(Plan { site: Some(site.name.clone()), ..plan })
}

/// Tries this number of a site's nodes from a folder that they are to share, and passes what the run waits for to `tell`. It takes as long as Slurm lets the
/// run wait; `stop` cancels it.
pub fn examine_site(
    site: &Site,
    nodes: u32,
    machine: Machine,
    folder: &Path,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&str),
) -> Vec<Check> {
    let settings = "Settings";
    // In a container there are only programs of plans.
    let may_have_worker = machine.node.worker.is_ok() && site.container.is_empty();
    let worker = may_have_worker.then(launch::find_worker).and_then(Result::ok);
    let plan = match plan_of(site, nodes, worker.as_ref()) {
        Ok(plan) => plan,
        Err(error) => return vec![Check::bad(settings, error, "report this")],
    };
    let correct = || match launch::sites_file() {
        Ok(file) => format!("edit [{}] in {}", site.name, file.display()),
        Err(_) => "edit sites.toml".to_owned(),
    };
    if let Err(error) = Where::of(&plan, &machine.node) {
        return vec![Check::bad(settings, error.to_string(), correct())];
    }
    let mut checks = vec![partition(site)];
    let begun = Instant::now();
    match probe(&plan, machine, folder, stop, tell) {
        Ok((environment, printed)) => {
            checks.push(node(&environment, folder, begun.elapsed()));
            checks.extend(worker.map(|worker| worker_check(site, &worker, &printed)));
        }
        Err(reason) => checks.push(Check::bad("Run", reason, correct())),
    }
    checks
}

/// Checks that the worker on the node has the same version as here, and can use CUDA at a site with GPUs. `printed` are
/// the worker's stdout and the end of its stderr.
fn worker_check(site: &Site, here: &WorkerCommand, printed: &(String, String)) -> Check {
    let name = "Worker";
    let (stdout, stderr) = printed;
    let found = stdout.lines().find_map(|line| serde_json::from_str::<Worker>(line).ok());
    let Some(described) = found else {
        let path = here.path.display();
        let reason = if stderr.is_empty() { "it printed nothing" } else { stderr.as_str() };
        return Check::bad(
            name,
            format!(
                "{path} does not start on the node: {reason}; built-in workloads cannot run at the site, programs of your own can"
            ),
            "put the worker and its libtorch into folders that nodes and this machine share (`multicard setup`)",
        );
    };
    let own = &here.description;
    let version = |worker: &Worker| format!("{} with torch {}", worker.version, worker.torch_version);
    if (&described.version, &described.torch_version) != (&own.version, &own.torch_version) {
        let found = format!("the node's worker is {}, and this machine's {}", version(&described), version(own));
        return Check::bad(name, found, "install one version in a folder that nodes and this machine share");
    }
    let cuda = match &described.cuda {
        CudaState::Available => ", which can use CUDA".to_owned(),
        CudaState::Unavailable { reason } if site.gres.is_some() => {
            let found = format!("the worker on the node cannot use CUDA: {reason}");
            return Check::bad(name, found, "let the node's administrator check the driver (`nvidia-smi` in a job)");
        }
        CudaState::Unavailable { .. } => String::new(),
    };
    Check::good(name, format!("{}{cuda}", version(&described)))
}

/// Describes the nodes of the site's partition.
fn partition(site: &Site) -> Check {
    let name = "Partition";
    let all = match launch::nodes() {
        Ok(all) => all,
        Err(error) => return Check::bad(name, error.to_string(), "sinfo"),
    };
    let is_ours = |at: &&Nodes| {
        site.partition.as_ref().map_or(at.is_default, |named| named.split(',').any(|one| one == at.partition))
    };
    let words = |at: &Nodes| {
        let gpus = match (at.gpus, at.gpu_type.as_str()) {
            (0, _) => String::new(),
            (gpus, "") => format!(", {gpus} GPUs"),
            (gpus, gpu_type) => format!(", {gpus} × {gpu_type}"),
        };
        let (count, cpus, gigabytes) = (at.count, at.cpus, at.memory_bytes as f64 / 1e9);
        format!("{} of {count} × {cpus} CPUs, {gigabytes:.1} GB{gpus}, limit {}", at.partition, at.time_limit)
    };
    let found: Vec<String> = all.iter().filter(is_ours).map(words).collect();
    Check::good(name, found.join("; "))
}

/// Checks what the test run found on its node.
fn node(environment: &Environment, folder: &Path, took: Duration) -> Check {
    let fact = |key: &str| environment.get(key).unwrap_or("unknown").to_owned();
    let own = (env!("CARGO_PKG_VERSION"), build());
    let on_node = (environment.get("multicard").unwrap_or_default(), environment.get("multicard_build"));
    let (hostname, gpus, cpus) = (fact("hostname"), fact("gpus"), fact("cpus"));
    let gpus = if gpus == "none" { "no GPU".to_owned() } else { gpus };
    let found = format!(
        "a run on {hostname} ({cpus} CPUs, {gpus}) ended after {:.0} s; it shares {}",
        took.as_secs_f64(),
        folder.display()
    );
    if own == on_node {
        return Check::good("Run", format!("{found}; multicard {}", own.0));
    }
    let version =
        |(version, build): (&str, Option<&str>)| build.map_or(version.to_owned(), |at| format!("{version} ({at})"));
    Check::bad(
        "Run",
        format!("{found}, but its multicard is {}, and this one {}", version(on_node), version(own)),
        "install one version in a folder that nodes and this machine share",
    )
}

/// Runs a plan of one run in a session of its own below `folder`. Returns the environment of its node, the output of its program, and the
/// end of its stderr.
fn probe(
    plan: &Plan,
    machine: Machine,
    folder: &Path,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&str),
) -> Result<(Environment, (String, String)), String> {
    let words = |error: SessionError| error.to_string();
    let scratch = Scratch::new(folder, "multicard-site").map_err(words)?;
    let mut session = Session::open_or_create(&scratch.folder().join("session"), machine).map_err(words)?;
    let runs = session.add_plan(plan, false).map_err(words)?.runs;
    let (mut end, mut is_stopped) = (None, false);
    while !session.is_idle() {
        if stop.load(Ordering::Relaxed) && !is_stopped {
            is_stopped = true;
            session.cancel_all().map_err(words)?;
        }
        for notice in session.advance(Duration::from_millis(50)).map_err(words)? {
            end = end_in(notice, tell).or(end);
        }
    }
    match end {
        Some((RunState::Finished, _)) => {}
        Some((state, reason)) => return Err(reason.unwrap_or_else(|| state.name().to_owned())),
        None => return Err("the run was not started".to_owned()),
    }
    session.flush().map_err(words)?;
    let run = runs.first().map(String::as_str).unwrap_or_default();
    let record = session.reader().map_err(words)?.run(run).map_err(|error| error.to_string())?;
    let environment = record.and_then(|record| record.environment).map(|environment| Environment::clone(&environment));
    let environment = environment.ok_or_else(|| "the node did not describe itself".to_owned())?;
    Ok((environment, launch::output(&session.folder().join("runs").join(run), MOST_OUTPUT_BYTES)))
}

/// The run's end and its reason, if a notice tells that. What the run waits for is passed to `tell`.
fn end_in(notice: Notice, tell: &mut dyn FnMut(&str)) -> Option<(RunState, Option<String>)> {
    match notice {
        Notice::Waits { reason: Some(reason), .. } => {
            tell(&reason);
            None
        }
        Notice::State { state, reason, .. } => state.is_final().then_some((state, reason)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_test_job_waits_for_is_told_and_its_last_state_is_its_end() {
        let mut reasons: Vec<String> = Vec::new();
        let mut end = |notice: Notice| end_in(notice, &mut |reason| reasons.push(reason.to_owned()));
        let waits = |reason: Option<&str>| Notice::Waits { run: "0001-a-1".into(), reason: reason.map(str::to_owned) };
        assert_eq!((end(waits(Some("for resources"))), end(waits(None))), (None, None));
        let state = |state, reason: Option<&str>| Notice::State {
            run: "0001-a-1".into(),
            state,
            reason: reason.map(str::to_owned),
        };
        assert_eq!(end(state(RunState::Running, None)), None);
        let failed = (RunState::Failed, Some("code 1".to_owned()));
        assert_eq!(end(state(RunState::Failed, Some("code 1"))), Some(failed));
        assert_eq!(reasons, ["for resources"]);
    }
}
