//! A workload that a plan brings, from its launch over a reopened session to the Compare screen.

use super::*;
use crate::figure::Look;
use crate::launch::misbehaviour;
use crate::plan::{
    Better, DeclaredMeasure, Estimate, Factor, Hint, NumaNode, NumberFormat, Plan, Shape, Topology, USUAL_DATA,
    USUAL_STEP, Unit, WorkloadSpec, fixture as machines,
};
use crate::session::{Machine, Session};
use crate::store::Reader;

/// A solver of equations by one of three methods on so many threads, which says how far it came.
fn solver() -> WorkloadSpec {
    let methods = Factor::named("method", "Method", &["jacobi", "multigrid", "off"])
        .hints([("jacobi", Hint::Multiplies(NumberFormat::Fp64))]);
    WorkloadSpec {
        key: "solver".into(),
        name: "Solver".into(),
        unit: Unit { one: "cell".into(), many: "cells".into() },
        step: USUAL_STEP.into(),
        data_name: USUAL_DATA.into(),
        factors: vec![
            methods,
            Factor::count("threads", "Threads", 1..=256, 1).unit("threads"),
            Factor::number("tolerance", "Tolerance", 0.0..=1.0, 0.1).idle_where("method", &["off"]),
        ],
        main_factors: vec!["method".into()],
        data_sets: Vec::new(),
        cuts: Vec::new(),
        measures: vec![DeclaredMeasure {
            key: "residual".into(),
            name: "Residual".into(),
            unit: "Pa".into(),
            better: Better::Lower,
            on_speed: false,
            written_steps: None,
            recurring_cells: Default::default(),
            dependent_cells: Default::default(),
        }],
        recurring_cells: Default::default(),
        declared_cells: Default::default(),
        command: None,
        check: |request| match request.levels.get("threads").and_then(Level::as_integer) {
            Some(threads) if threads > i64::from(request.node.cpus) => {
                Err(format!("{threads} threads need as many CPUs: use at most {}", request.node.cpus))
            }
            _ => Ok((
                Shape::default(),
                Estimate { duration_s: 1.0, start_s: 0.5, peak_bytes: 1, host_bytes: 1, ..Estimate::default() },
            )),
        },
    }
}

fn plan() -> Plan {
    let mut plan = Plan::new("solvers", solver().into());
    for (key, levels) in &mut plan.first.factors {
        match &**key {
            "method" => *levels = ["multigrid", "jacobi", "off"].map(Level::text).to_vec(),
            "threads" => *levels = vec![2.into(), 128.into()],
            "tolerance" => *levels = vec![Level::Number(0.5)],
            _ => {}
        }
    }
    plan
}

fn machine(folder: &Path) -> Machine {
    let body = "started 0; step 0 1; step 0 2
        residual=0.25; if grep -q multigrid \"$F/job.json\"; then residual=0.0625; fi
        say 0 3.0 \"\\\"event\\\":\\\"reading\\\",\\\"key\\\":\\\"residual\\\",\\\"value\\\":$residual\"; finished 0";
    let numa = NumaNode { cpus: 4, usable_cpus: vec![0, 1, 2, 3], ..NumaNode::default() };
    let topology = Topology { numa: vec![numa], ..Topology::default() };
    Machine { node: machines::cpu_node(), topology, worker: Some(misbehaviour::worker(folder, body)) }
}

#[test]
fn a_workload_that_a_plan_brings_is_launched_kept_and_compared_after_the_session_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session");
    let mut session = Session::open_or_create(&path, machine(folder.path())).unwrap();
    let added = session.add_plan(&plan(), false).unwrap();
    assert_eq!((added.runs.len(), added.invalid.len()), (3, 3));
    assert_eq!(added.invalid[0].reason, "128 threads need as many CPUs: use at most 4");
    session.run_to_end(|_| ()).unwrap();
    session.leave().unwrap();

    // A later process knows the workload only by what the session keeps of it, even where the index has to be made anew.
    for entry in std::fs::read_dir(&path).unwrap().flatten() {
        if entry.file_name().to_string_lossy().starts_with("index") {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    let mut session = Session::open_or_create(&path, machine(folder.path())).unwrap();
    let again = session.add_plan(&plan(), true).unwrap();
    assert_eq!(
        (again.runs.len(), again.kept),
        (0, 3),
        "the cells are the same: no factor without meaning tells them apart"
    );
    let reader = Reader::open(&path).unwrap();
    let runs: Vec<RunRecord> =
        reader.runs().unwrap().iter().map(|run| reader.run(&run.run).unwrap().unwrap()).collect();
    assert!(runs.iter().all(|run| *run.workload == solver()), "all but the check");
    let refused = session.retry(&runs[0].run).unwrap_err().to_string();
    assert!(refused.contains("solver is a workload that this version does not know"), "{refused}");

    let mut state = state_of(records("/s/solvers", runs));
    change(&mut state, |study| study.measure = Some("residual".into()));
    change(&mut state, |study| study.colour = Place::Setting("method".into()));
    let comparison = &state.own::<CompareScreen>().picture.as_ref().unwrap().comparison;
    let names: Vec<&str> = comparison.settings.iter().map(|levels| &*levels.setting.name).collect();
    // The tolerance of `off` means nothing, and that of the others is the same.
    assert_eq!(names, ["Method"]);
    // In the order of the factor, not of the plan or the alphabet; the first one is the baseline.
    assert_eq!(column(&state, "method"), ["jacobi", "multigrid", "off"]);
    assert_eq!(column(&state, "residual"), ["0.250", "0.0625", "0.250"]);
    let column = comparison.table.columns.iter().find(|column| column.key == "residual").unwrap();
    assert_eq!((column.name.as_str(), column.unit.as_str()), ("Residual", "Pa"));
    // The place of a level in its factor decides its colour, as with built-in factors.
    let looks: Vec<&Look> = comparison.charts[0].series().map(|series| &series.look).collect();
    let levels = [("jacobi", 0), ("multigrid", 1), ("off", 2)];
    assert_eq!(looks, levels.map(|(name, place)| Look::Level(Level::text(name), place)).iter().collect::<Vec<_>>());
}
