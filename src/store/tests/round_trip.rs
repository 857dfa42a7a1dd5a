//! Readers return what was written to a session.

use std::path::Path;
use std::sync::Arc;

use super::fixture::*;
use crate::plan::{Better, Command, Margin, Mode, OwnMeasure, Plan, RunState, WarmUp, WorkloadSpec};
use crate::protocol::{
    Device, DeviceRates, Environment, Event, Evidence, FailureKind, Phase, Placement, RankPlace, Rate,
};
use crate::store::{Decision, LoadRecord, Reader, RunProcess, Store, index_path, rebuild};

/// Two ranks of the run `r1` say all that ranks can, and its GPU is sampled; gives the evidence of rank 0.
fn say_a_run(store: &Store) -> Evidence {
    for rank in [1, 0] {
        say(store, "r1", rank, 0.0, started());
        say(store, "r1", rank, 0.5, Event::Model { name: "MobileNetV2".to_owned() });
        say(store, "r1", rank, 0.5, reading("parameters", 2_236_682.0, None));
        say(store, "r1", rank, 1.0, phase(Phase::WarmUp));
        for number in 1..=10 {
            if number == 3 {
                say(store, "r1", rank, 3.0, phase(Phase::Steady));
            }
            say(store, "r1", rank, number as f64, step(number));
        }
        for (time_s, bytes) in [(11.0, 100.0), (11.5, 50.0)] {
            say(store, "r1", rank, time_s, reading("peak_allocated_bytes", bytes, None));
        }
        for epoch in [2, 1] {
            say(store, "r1", rank, 11.0, reading("train_loss", 0.7 / f64::from(epoch), Some(epoch)));
        }
        let norm = Event::Reading { key: "gradient_norm".into(), value: f64::NAN, epoch: Some(1), step: Some(4) };
        say(store, "r1", rank, 11.0, norm);
        say(store, "r1", rank, 11.0, phase(Phase::Evaluate));
        say(store, "r1", rank, 12.5, Event::Warning { message: "slow disk".to_owned() });
    }
    let evidence = Evidence {
        factor: "layout".to_owned(),
        asked: "nhwc".to_owned(),
        seen: "batch strides 30000, 1, 300, 3".to_owned(),
        in_effect: true,
    };
    say(store, "r1", 0, 12.6, Event::Evidence(evidence.clone()));
    say(store, "r1", 0, 13.0, Event::Finished { duration_s: 13.0 });
    let failed = Event::Failed { kind: FailureKind::OutOfMemory, message: "too much".to_owned() };
    say(store, "r1", 1, 13.0, failed);
    for (time_s, energy_j, reasons) in [(0.0, 5.0, &["idle"][..]), (5.0, 105.0, &["power"]), (12.0, 205.0, &["heat"])] {
        store.sample("r1", sample(time_s, energy_j, reasons)).unwrap();
    }
    evidence
}

#[test]
fn steps_that_a_rank_withdraws_are_gone_with_the_losses_of_their_epochs_and_its_other_readings_stay() {
    let (_folder, store) = session();
    for decision in [plan_added(), queued("r1"), run_started("r1")] {
        store.decide(decision).unwrap();
    }
    let norm = |step: u64| Event::Reading { key: "norm".into(), value: 1.0, epoch: None, step: Some(step) };
    let loss = |value: f64| Event::Reading { key: "train_loss".into(), value, epoch: Some(1), step: None };
    let before = [started(), phase(Phase::Steady), step(7), step(900), norm(7), loss(0.5), step(8)];
    // Some of the steps are in the index, others are not yet.
    for (place, event) in before.into_iter().enumerate() {
        say(&store, "r1", 0, place as f64, event);
        store.flush().unwrap();
    }
    for (time_s, event) in [(9.0, step(9)), (10.0, Event::StepsWithdrawn), (12.0, step(2)), (13.0, loss(0.25))] {
        say(&store, "r1", 0, time_s, event);
    }
    store.flush().unwrap();
    let record = store.reader().unwrap().run("r1").unwrap().unwrap();
    assert_eq!(record.ranks[0].steps.iter().map(|step| step.step).collect::<Vec<_>>(), [2]);
    let mut readings: Vec<(&str, f64)> =
        record.ranks[0].readings.iter().map(|reading| (reading.key.as_str(), reading.value)).collect();
    readings.sort_by_key(|(one, _)| *one);
    assert_eq!(readings, [("norm", 1.0), ("train_loss", 0.25)]);
}

#[test]
fn runs_of_one_cell_share_their_levels() {
    let (_folder, store) = session();
    for decision in [plan_added(), queued("r1"), queued("r2")] {
        store.decide(decision).unwrap();
    }
    store.flush().unwrap();
    let runs = store.reader().unwrap().runs().unwrap();
    let precision = |place: usize| runs[place].levels.get("precision").and_then(|level| level.as_text()).unwrap();
    assert!(std::ptr::eq(precision(0), precision(1)));
}

#[test]
fn a_run_comes_back_as_it_was_said() {
    let (_folder, store) = session();
    store.decide(plan_added()).unwrap();
    store.decide(queued("r1")).unwrap();
    store.decide(queued("r2")).unwrap();
    store.flush().unwrap();
    let reader = store.reader().unwrap();
    assert_eq!(reader.run("r1").unwrap().unwrap().state, RunState::Queued);
    store.decide(run_started("r1")).unwrap();
    store.flush().unwrap();
    assert_eq!(reader.run("r1").unwrap().unwrap().state, RunState::Starting);
    let process = RunProcess { run: "r1".to_owned(), pid: 17, process_start: 1234 };
    assert_eq!(reader.processes().unwrap(), [process]);

    let evidence = say_a_run(&store);
    store.flush().unwrap();
    assert_eq!(reader.run("r1").unwrap().unwrap().state, RunState::Running, "its ranks are up");
    store.decide(ended("r1", RunState::Failed)).unwrap();
    store.flush().unwrap();

    let runs = reader.runs().unwrap();
    assert_eq!(runs.iter().map(|run| run.run.as_str()).collect::<Vec<_>>(), ["r1", "r2"]);
    assert!(runs[0].ranks.iter().all(|rank| rank.steps.is_empty()));
    let run = reader.run("r1").unwrap().unwrap();
    assert_eq!((run.plan.as_str(), run.state, run.seed), ("precision", RunState::Failed, u64::MAX));
    assert_eq!(run.launch, "p1", "the launch, whatever the plan is called");
    assert_eq!(run.levels, levels());
    assert!(run.queued_time_s <= run.started_time_s.unwrap() && run.started_time_s <= run.ended_time_s);
    let [zero, one] = &run.ranks[..] else { panic!("two ranks") };
    assert_eq!((zero.rank, one.rank), (0, 1));
    assert_eq!(zero.steps.len(), 10);
    assert_eq!(zero.steps, reader.steps("r1", 0).unwrap());
    assert_eq!((zero.steps[2].step, zero.steps[2].duration_s, zero.steps[2].loss), (3, 0.1 * 3.0, 2.3 / 3.0));
    assert_eq!((zero.steps[1].warm_up, zero.steps[2].warm_up), (true, false));
    assert_eq!(zero.steps[2].time_s, 3.0, "when it was told");
    let readings: Vec<_> =
        zero.readings.iter().map(|one| (one.key.as_str(), one.value, one.epoch, one.step, one.time_s)).collect();
    let expected = [
        ("parameters", 2_236_682.0, None, None, 0.5),
        ("peak_allocated_bytes", 100.0, None, None, 11.0),
        ("peak_allocated_bytes", 50.0, None, None, 11.5),
        ("train_loss", 0.7, Some(1), None, 11.0),
        ("gradient_norm", f64::NAN, Some(1), Some(4), 11.0),
        ("train_loss", 0.35, Some(2), None, 11.0),
    ];
    assert_eq!(format!("{readings:?}"), format!("{expected:?}"), "by epoch, step, key and time");
    assert_eq!((zero.last_reading("train_loss"), zero.last_reading("accuracy")), (Some(0.35), None));
    assert_eq!((zero.evidence.as_slice(), one.evidence.len()), (&[Arc::new(evidence)][..], 0));
    assert_eq!(one.warnings, ["slow disk"]);
    assert_eq!((zero.duration_s, zero.failure.as_ref()), (Some(13.0), None));
    assert_eq!(one.failure, Some((FailureKind::OutOfMemory, "too much".to_owned())));
    assert_eq!((run.telemetry.energy_j, run.telemetry.samples), (Some(200.0), 3));
    assert_eq!(run.telemetry.throttle_reasons, ["power"], "only while steps counted");
    assert_eq!(reader.processes().unwrap(), []);
    assert_eq!(reader.run("r3").unwrap(), None);
}

#[test]
fn energy_and_load_of_steps_that_were_said_after_they_had_ended_are_not_known() {
    let run_that_says = |steps_at: fn(u64) -> f64| {
        let (_folder, store) = session();
        store.decide(plan_added()).unwrap();
        store.decide(queued("r1")).unwrap();
        store.decide(run_started("r1")).unwrap();
        say(&store, "r1", 0, 0.0, started());
        say(&store, "r1", 0, steps_at(1), phase(Phase::Steady));
        // Step n takes n tenths of a second.
        (1..=10).for_each(|number| say(&store, "r1", 0, steps_at(number), step(number)));
        say(&store, "r1", 0, 8.0, Event::Finished { duration_s: 8.0 });
        for tick in 0..=8_u32 {
            let reasons: &[&str] = if tick == 2 { &["heat"] } else { &[] };
            store.sample("r1", sample(f64::from(tick), 100.0 * f64::from(tick), reasons)).unwrap();
        }
        store.flush().unwrap();
        store.reader().unwrap().run("r1").unwrap().unwrap().telemetry
    };
    let in_time = run_that_says(|number| 0.5 * number as f64);
    assert!(in_time.steady_energy_j.is_some_and(|energy_j| energy_j > 400.0), "{in_time:?}");
    let late = run_that_says(|_| 6.9);
    assert_eq!((late.energy_j, late.steady_energy_j, late.steady_time_s), (Some(800.0), None, None));
    assert_eq!(late.load, LoadRecord::default());
    assert_eq!(late.throttle_reasons, ["heat"], "at any time");
}

#[test]
fn the_energy_of_a_program_ends_with_it_though_what_it_printed_was_read_later() {
    let (_folder, store) = session();
    let command = Command { name: "mine".into(), run: vec!["./mine".to_owned()], ..Command::default() };
    let spec = WorkloadSpec { command: Some(command.into()), ..WorkloadSpec::unknown("mine") };
    let workloads = vec![serde_json::to_value(&spec).unwrap()];
    let (name, toml) = ("precision".to_owned(), "version = 1\n".to_owned());
    store.decide(Decision::PlanAdded { plan: "p1".to_owned(), name, toml, workloads }).unwrap();
    let Decision::RunQueued { run, plan, cell, levels, data, repeat, tracer, mode, seed, .. } = queued("r1") else {
        panic!("a queued run")
    };
    let workload = "mine".into();
    store.decide(Decision::RunQueued { run, plan, cell, workload, levels, data, repeat, tracer, mode, seed }).unwrap();
    store.decide(run_started("r1")).unwrap();
    say(&store, "r1", 0, 0.0, started());
    say(&store, "r1", 0, 1.0, phase(Phase::Steady));
    (1..=10).for_each(|number| say(&store, "r1", 0, 0.5 * number as f64, step(number)));
    say(&store, "r1", 0, 5.5, reading("program_time_s", 5.5, None));
    say(&store, "r1", 0, 8.0, reading("exit_code", 0.0, None));
    say(&store, "r1", 0, 5.5, Event::Finished { duration_s: 5.5 });
    for tick in 0..=8_u32 {
        store.sample("r1", sample(f64::from(tick), 100.0 * f64::from(tick), &[])).unwrap();
    }
    store.flush().unwrap();
    let telemetry = store.reader().unwrap().run("r1").unwrap().unwrap().telemetry;
    assert_eq!((telemetry.energy_j, telemetry.steady_energy_j), (Some(550.0), Some(450.0)));
}

#[test]
fn places_come_back_and_runs_that_met_know_of_each_other() {
    let (_folder, store) = session();
    let places = Placement { ranks: vec![RankPlace::on_cpu(0, 3)], links: "NV18".to_owned() };
    for (run, beside) in [("r1", vec![]), ("r2", vec!["r1".to_owned()]), ("r3", vec![])] {
        store.decide(queued(run)).unwrap();
        let (run, placement, warnings) = (run.to_owned(), places.clone(), vec![format!("{run} is warned of")]);
        let mut environment = Environment::default();
        environment.set("driver", Some("580.65"));
        let environment = Some(environment).filter(|_| run != "r3");
        store.decide(Decision::RunPlaced { run, placement, beside, warnings, environment }).unwrap();
    }
    for run in ["r2", "r1"] {
        store.decide(Decision::RunStarted { run: run.to_owned(), pid: 1, process_start: 2 }).unwrap();
    }
    store.decide(queued("r4")).unwrap();
    store.flush().unwrap();
    let reader = store.reader().unwrap();
    let seen = |run: &str| reader.run(run).unwrap().unwrap();
    assert_eq!(
        (seen("r1").beside, seen("r2").beside, seen("r3").beside),
        (vec!["r2".into()], vec!["r1".into()], vec![])
    );
    assert_eq!((seen("r2").placement, seen("r2").warnings), (Some(places), vec!["r2 is warned of".to_owned()]));
    assert_eq!((seen("r4").placement, seen("r4").warnings), (None, vec![]));
    let driver = |run: &str| seen(run).environment.map(|known| known.get("driver").unwrap_or_default().to_owned());
    assert_eq!(["r1", "r2", "r3", "r4"].map(driver), [Some("580.65".into()), Some("580.65".into()), None, None]);
    assert_eq!(["r1", "r2", "r3"].map(|run| seen(run).start_order), [Some(2), Some(1), None]);
    let listed = reader.runs().unwrap();
    assert!(listed[0].environment.as_ref().zip(listed[1].environment.as_ref()).is_some_and(|(a, b)| Arc::ptr_eq(a, b)));
    assert_eq!(reader.runs().unwrap()[0], seen("r1"));
}

#[test]
fn samples_come_back_in_order_without_torn_or_damaged_lines() {
    let (folder, store) = session_of_r1();
    let samples = [sample(0.0, 5.0, &["idle"]), sample(0.1, 6.0, &[])];
    for sample in &samples {
        store.sample("r1", sample.clone()).unwrap();
    }
    store.flush().unwrap();
    append(folder.path(), "runs/r1/samples.jsonl", "no sample\n{\"time_s\":0.2,");
    let reader = store.reader().unwrap();
    assert_eq!(reader.samples("r1").unwrap(), samples);
    assert_eq!(reader.samples("r2").unwrap(), [], "nobody sampled it");
    assert!(reader.samples("../r1").is_err(), "it leads out of the session");
}

#[test]
fn the_node_and_the_plans_come_back() {
    let (_folder, store) = session();
    store.decide(plan_added()).unwrap();
    store.flush().unwrap();
    let reader = store.reader().unwrap();
    assert_eq!(reader.node().unwrap(), node());
    let plan = ("p1".to_owned(), "precision".to_owned(), "version = 1\n".to_owned());
    assert_eq!(reader.plans().unwrap(), [plan]);
}

#[test]
fn saved_studies_come_back_as_the_journal_last_said_also_from_a_rebuilt_index() {
    let (_folder, store) = session();
    let path = store.folder().to_owned();
    let saved = |name: &str, form: &str| Decision::StudySaved {
        name: name.to_owned(),
        study: serde_json::json!({ "form": form }),
    };
    for decision in [saved("a", "bars"), saved("b", "loss"), saved("a", "map")] {
        store.decide(decision).unwrap();
    }
    store.decide(Decision::StudyDeleted { name: "b".to_owned() }).unwrap();
    store.flush().unwrap();
    let expected = [("a".to_owned(), r#"{"form":"map"}"#.to_owned())];
    assert_eq!(store.reader().unwrap().studies().unwrap(), expected);
    drop(store);
    rebuild(&path, &mut |_, _| {}).unwrap();
    assert_eq!(Reader::open(&path).unwrap().studies().unwrap(), expected);
}

#[test]
fn own_measures_come_back_as_the_journal_last_said_with_each_run_also_from_a_rebuilt_index() {
    let (_folder, store) = session();
    let path = store.folder().to_owned();
    store.decide(queued("r1")).unwrap();
    let saved = |key: &str, formula: &str| Decision::MeasureSaved { measure: OwnMeasure::new(key, formula) };
    for decision in [saved("a", "step_time_s"), saved("b", "a / 2"), saved("a", "2 * step_time_s")] {
        store.decide(decision).unwrap();
    }
    store.decide(Decision::MeasureDeleted { key: "b".into() }).unwrap();
    store.flush().unwrap();
    let expected = [OwnMeasure::new("a", "2 * step_time_s")];
    assert_eq!(*store.reader().unwrap().own_measures().unwrap(), expected);
    drop(store);
    rebuild(&path, &mut |_, _| {}).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(*reader.own_measures().unwrap(), expected);
    assert_eq!(*reader.run("r1").unwrap().unwrap().own_measures, expected);
}

#[test]
fn a_run_knows_the_warm_up_that_the_plan_of_its_launch_asks_for() {
    let (_folder, store) = session();
    let quick = Mode::Quick { step_precision: 0.01 };
    for (number, (toml, asked)) in [
        ("version = 1\n", Mode::Full),
        ("version = 1\n[measure]\nwarm_up_steps = 30\n", Mode::Full),
        ("version = 1\n[measure]\nwarm_up_steps = 30\n", quick),
        ("version = 1\nname = \"warm_up_steps\"\n", Mode::Full),
        ("warm_up_steps of no plan", Mode::Full),
        ("name = \"imported\"\n[columns]\na = \"measure\"\n", Mode::Full),
    ]
    .into_iter()
    .enumerate()
    {
        let mut run = queued(&format!("r{number}"));
        if let Decision::RunQueued { plan, mode, .. } = &mut run {
            (*plan, *mode) = (format!("p{number}"), asked);
        }
        let (plan, name, workloads) = (format!("p{number}"), "warm".to_owned(), Vec::new());
        store.decide(Decision::PlanAdded { plan, name, toml: toml.to_owned(), workloads }).unwrap();
        store.decide(run).unwrap();
    }
    store.flush().unwrap();
    let found: Vec<_> = store.reader().unwrap().runs().unwrap().into_iter().map(|run| run.warm_up).collect();
    let usual = Some(WarmUp::Steps(10));
    assert_eq!(found, [usual, Some(WarmUp::Steps(30)), None, usual, None, None]);
}

#[test]
fn results_are_judged_as_the_latest_plan_with_their_workload_says() {
    let (_folder, store) = session();
    let solve = |unit: &str, better: &str, margin: &str| {
        format!(
            "version = 1\n[command]\nname = \"solve\"\nrun = [\"./solve\"]\n[command.measures.q]\nunit = \"{unit}\"\nbetter = \"{better}\"\n\
             [check]\nq = {margin}\n"
        )
    };
    let add = |plan: &str, toml: String| {
        let parsed = Plan::parse(&toml, plan).unwrap();
        let workloads =
            parsed.brought_workloads().into_iter().map(|spec| serde_json::to_value(spec).unwrap()).collect();
        let (plan, name) = (plan.to_owned(), plan.to_owned());
        store.decide(Decision::PlanAdded { plan, name, toml, workloads }).unwrap();
        store.flush().unwrap();
    };
    add("p1", solve("ms", "lower", "\"20 %\""));
    let mut run = queued("r1");
    if let Decision::RunQueued { workload, .. } = &mut run {
        *workload = "solve".into();
    }
    store.decide(run).unwrap();
    store.flush().unwrap();
    let reader = store.reader().unwrap();
    let judged = || {
        let run = reader.runs().unwrap().remove(0);
        let measure = run.workload.measures.iter().find(|measure| measure.key == "q").unwrap();
        (run.checked.iter().map(|checked| checked.margin).collect::<Vec<_>>(), measure.better)
    };
    assert_eq!(judged(), (vec![Margin::Relative(0.2)], Better::Lower));
    // The open reader learns of later plans, also if they queue no run.
    add("p2", solve("ms", "higher", "\"1 %\""));
    assert_eq!(judged(), (vec![Margin::Relative(0.01)], Better::Higher));
    // A plan of another workload says nothing about this one.
    add("p3", "version = 1\n[check]\naccuracy = 0.5\n".to_owned());
    assert_eq!(judged(), (vec![Margin::Relative(0.01)], Better::Higher));
    // The margin of a plan that prints seconds, for values in milliseconds.
    add("p4", solve("s", "higher", "0.5"));
    let [Margin::Absolute(margin)] = judged().0[..] else { panic!("{:?}", judged()) };
    assert!((margin - 500.0).abs() < 1e-9, "{margin}");
    // Without a check, the usual measures are checked.
    let unchecked = solve("ms", "higher", "0.5").replace("[check]\nq = 0.5\n", "");
    add("p5", unchecked);
    assert_eq!(judged(), (Vec::new(), Better::Higher));
}

#[test]
fn a_journal_with_very_many_measures_opens_with_the_first_and_says_so() {
    let (folder, store) = session_of_r1();
    drop(store);
    let saved = |number: usize| {
        format!(
            "{{\"time_s\":1.0,\"decision\":\"measure_saved\",\"measure\":{{\"key\":\"m{number}\",\"formula\":\"m{} + 1 s\"}}}}\n",
            number + 1
        )
    };
    append(folder.path(), "journal.jsonl", &(0..3000).map(saved).collect::<String>());
    for is_rebuilt in [false, true] {
        if is_rebuilt {
            rebuild(folder.path(), &mut |_, _| {}).unwrap();
        }
        let reader = Reader::open(folder.path()).unwrap();
        let own = reader.own_measures().unwrap();
        assert_eq!((own.len(), &*own[0].key, &*own[999].key), (1000, "m0", "m999"));
        let damage = reader.damage().unwrap();
        assert!(
            matches!(&damage[..], [only] if only.contains("3000 user-defined measures, and the first 1000")),
            "{damage:?}"
        );
    }
}

#[test]
fn a_loss_that_is_no_number_keeps_its_step() {
    let (folder, store) = session_of_r1();
    let Event::Step { epoch, steps, duration_s, load_wait_s, units, warm_up, .. } = step(1) else { unreachable!() };
    let lost =
        Event::Step { epoch, step: 1, steps, duration_s, load_wait_s, loss: f64::NAN, units, warm_up, traced: false };
    say(&store, "r1", 0, 1.0, lost);
    store.flush().unwrap();
    assert!(store.reader().unwrap().steps("r1", 0).unwrap()[0].loss.is_nan());
    drop(store);
    let report = rebuild(folder.path(), &mut |_, _| {}).unwrap();
    assert_eq!((report.events, report.damaged), (1, vec![]));
    assert!(Reader::open(folder.path()).unwrap().steps("r1", 0).unwrap()[0].loss.is_nan());
}

#[test]
fn a_session_opened_again_goes_on_where_it_was() {
    let (folder, store) = session_of_r1();
    store.sample("r1", sample(0.0, 1.0, &[])).unwrap();
    drop(store);
    let store = Store::open(folder.path()).unwrap();
    store.sample("r1", sample(1.0, 4.0, &[])).unwrap();
    store.flush().unwrap();
    let telemetry = store.reader().unwrap().run("r1").unwrap().unwrap().telemetry;
    assert_eq!((telemetry.samples, telemetry.energy_j), (2, Some(3.0)));
}

#[test]
fn what_ranks_said_while_nobody_listened_is_found_when_the_session_is_opened() {
    let (folder, store) = session_of_r1();
    say(&store, "r1", 0, 0.0, started());
    drop(store);
    log(folder.path(), &line("r1", 0, 1.0, step(1)));
    assert_eq!(Reader::open(folder.path()).unwrap().steps("r1", 0).unwrap().len(), 1, "a reader looks too");
    log(folder.path(), &line("r1", 0, 2.0, step(2)));
    let store = Store::open(folder.path()).unwrap();
    assert_eq!(store.reader().unwrap().steps("r1", 0).unwrap().len(), 2);
}

#[test]
fn a_run_that_ended_has_all_its_logs_hold() {
    let (folder, store) = session_of_r1();
    log(folder.path(), &line("r1", 0, 0.0, started()));
    log(folder.path(), &line("r1", 0, 1.0, step(1)));
    store.decide(ended("r1", RunState::Finished)).unwrap();
    store.flush().unwrap();
    assert_eq!(store.reader().unwrap().steps("r1", 0).unwrap().len(), 1);
}

#[test]
fn a_reader_does_not_wait_for_a_writer_in_the_middle_of_a_transaction() {
    let (folder, store) = session_of_r1();
    store.flush().unwrap();
    let writing = rusqlite::Connection::open(index_path(folder.path())).unwrap();
    writing.execute_batch("BEGIN IMMEDIATE; DELETE FROM run").unwrap();
    // If it waited for the lock, which is never released, it would fail as busy after a second.
    assert_eq!(Reader::open(folder.path()).unwrap().runs().unwrap().len(), 1);
    writing.execute_batch("ROLLBACK").unwrap();
}

#[test]
fn the_index_of_a_local_folder_is_in_it() {
    let (folder, _store) = session();
    assert_eq!(index_path(folder.path()), folder.path().join("session.sqlite"));
    assert!(Path::new(&index_path(folder.path())).is_file());
}

#[test]
fn a_sample_after_the_end_of_its_run_does_not_open_the_log_again() {
    let (folder, store) = session_of_r1();
    store.decide(run_started("r1")).unwrap();
    store.sample("r1", sample(1.0, 5.0, &[])).unwrap();
    store.decide(ended("r1", RunState::Finished)).unwrap();
    store.sample("r1", sample(2.0, 6.0, &[])).unwrap();
    store.flush().unwrap();
    assert_eq!(store.reader().unwrap().samples("r1").unwrap().len(), 1);
    let open =
        std::fs::read_dir("/proc/self/fd").unwrap().flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
    let log = folder.path().canonicalize().unwrap().join("runs/r1/samples.jsonl");
    assert_eq!(open.filter(|path| *path == log).count(), 0);
}

#[test]
fn the_last_rates_of_each_device_come_back_with_every_run_also_from_a_rebuilt_index() {
    let (_folder, store) = session();
    let path = store.folder().to_owned();
    let measured = |name: &str, per_s: f64| DeviceRates {
        device: Device { name: name.to_owned(), gpu_uuid: None },
        time_s: Some(1.7e9),
        torch_version: "2.11.0".to_owned(),
        threads: Some(2),
        rates: vec![Rate {
            key: "fp32".into(),
            per_s,
            low_per_s: 0.9 * per_s,
            high_per_s: 1.1 * per_s,
            samples: 9,
            size: 512,
        }],
        sm_clock_mhz: None,
        throttle_reasons: Vec::new(),
        others_cpus: Some(1.25),
    };
    store.decide(queued("r1")).unwrap();
    for (name, per_s) in [("cpu", 1e10), ("a GPU", 1e13), ("cpu", 2e10)] {
        store.decide(Decision::RatesMeasured { rates: measured(name, per_s) }).unwrap();
    }
    store.flush().unwrap();
    let expected = [measured("cpu", 2e10), measured("a GPU", 1e13)].map(Arc::new);
    assert_eq!(store.reader().unwrap().run("r1").unwrap().unwrap().rates, expected);
    // A rate of 0 would make every share infinite.
    store.decide(Decision::RatesMeasured { rates: measured("cpu", 0.0) }).unwrap();
    let before_time = DeviceRates { time_s: Some(-1.0), ..measured("cpu", 3e10) };
    store.decide(Decision::RatesMeasured { rates: before_time }).unwrap();
    drop(store);
    let report = rebuild(&path, &mut |_, _| {}).unwrap();
    assert_eq!(report.damaged.len(), 2, "{report:?}");
    assert_eq!(Reader::open(&path).unwrap().rates().unwrap(), expected);
}
