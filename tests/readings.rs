//! Readings from the log of a rank to a table: a user-defined measure, logs of either protocol, and damage in them.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use multicard::analysis::{
    Better, Measure, Measures, Origin, OverRanks, OverTime, RunSummary, Source, summarise_run_by,
};
use multicard::figure::{CellValue, Study, compare};
use multicard::plan::{Data, Level, Levels, Mode, Node, RunState, Tracer, image};
use multicard::store::{Decision, Reader, RunRecord, Store, rebuild};
use tempfile::TempDir;

fn node() -> Node {
    serde_json::from_value(serde_json::json!({
        "hostname": "node", "system": "Linux", "cpu_model": "CPU", "cpus": 2, "memory_bytes": 1_u64 << 34, "numa_nodes": 1,
        "driver": null, "no_gpu_reason": "no driver", "gpus": [], "nsys": {"Err": "none"}, "worker": {"Err": "none"},
    }))
    .unwrap()
}

/// A session with one finished run of a rank whose log is this.
fn session(log: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    let store = Store::create(folder.path(), &node()).unwrap();
    let run = || "r1".to_owned();
    store
        .decide(Decision::RunQueued {
            run: run(),
            plan: "p1".to_owned(),
            cell: "c1".to_owned(),
            workload: image::KEY.into(),
            levels: Levels::new(vec![("precision", Level::text("fp32")), ("gpus", Level::Integer(1))]),
            data: Data::of_set("digits"),
            repeat: 1,
            tracer: Tracer::Off,
            mode: Mode::Full,
            seed: 1,
        })
        .unwrap();
    store.decide(Decision::RunStarted { run: run(), pid: 1 << 30, process_start: 1 }).unwrap();
    fs::create_dir_all(store.run_folder("r1")).unwrap();
    let log = log.to_owned() + &line(r#""event":"finished","duration_s":9.0"#);
    fs::write(store.run_folder("r1").join("rank-0.jsonl"), log).unwrap();
    store
        .decide(Decision::RunEnded { run: run(), state: RunState::Finished, reason: None, duration_s: Some(9.0) })
        .unwrap();
    drop(store);
    folder
}

fn line(event: &str) -> String {
    format!("{{\"run\":\"r1\",\"rank\":0,\"time_s\":17.5,{event}}}\n")
}

fn started(version: u32) -> String {
    let device = r#""device":{"name":"cpu","gpu_uuid":null},"world_size":1,"seed":1"#;
    line(&format!(r#""event":"started","protocol_version":{version},"pid":7,"torch_version":"2.11.0",{device}"#))
}

fn steps(units: &str) -> String {
    (1..=6).fold(String::new(), |mut text, step| {
        let times = format!(r#""duration_s":0.{step},"load_wait_s":0.01,"loss":2.5"#);
        let counts = format!(r#""epoch":1,"step":{step},"steps":6,"{units}":8,"warm_up":{}"#, step < 3);
        let _ = write!(text, "{}", line(&format!(r#""event":"step",{counts},{times}"#)));
        text
    })
}

fn read(session: &Path) -> RunRecord {
    Reader::open(session).unwrap().run("r1").unwrap().unwrap()
}

fn summary(session: &Path) -> RunSummary {
    summarise_run_by(&read(session), Measures::built_in())
}

#[test]
fn a_measure_of_ones_own_is_a_reading_and_an_entry_and_stands_in_a_table() {
    let reading = |epoch: u32, value: f64| {
        line(&format!(r#""event":"reading","key":"perplexity","value":{value},"epoch":{epoch}"#))
    };
    let folder = session(&(started(2) + &steps("units") + &reading(1, 31.5) + &reading(2, 12.25)));
    let entry = Measure {
        name: "Perplexity".to_owned(),
        better: Better::Lower,
        origin: Origin::Readings(OverRanks::First, OverTime::Last),
        ..Measure::new("perplexity")
    };
    let measures = Arc::new(Measures::of_units("images").with([entry]));
    let runs = [summarise_run_by(&read(folder.path()), &measures)];
    let study = Study { measure: Some("perplexity".into()), ..Study::default() };
    let comparison = compare(&[Source { session: "", runs: &runs, reports: &[] }], &study);
    let column = comparison.table.columns.iter().position(|column| column.key == "perplexity").unwrap();
    assert_eq!(comparison.table.columns[column].name, "Perplexity");
    let CellValue::Measure(value) = &comparison.table.rows[0].values[column] else { panic!("no value") };
    assert_eq!(value.median, 12.25);
    assert_eq!(comparison.charts[0].y.name, "Perplexity");
}

#[test]
fn a_reading_without_an_entry_is_kept_and_known_by_its_key() {
    let folder = session(&(started(2) + &line(r#""event":"reading","key":"gradient_norm","value":1.5"#)));
    let summary = summary(folder.path());
    let unregistered: Vec<_> = summary.unregistered().map(|(key, value)| (key.to_string(), value)).collect();
    assert_eq!(unregistered, [("gradient_norm".to_owned(), 1.5)]);
}

#[test]
fn logs_of_both_protocols_give_the_same_measures() {
    let epoch = r#""duration_s":1.5,"train_loss":0.5,"images":48,"received_bytes":64,"loader_start_s":0.25,"skipped_updates":0"#;
    let test = r#""event":"evaluation","epoch":1,"duration_s":0.5,"test_loss":2.25,"accuracy":0.75,"images":25"#;
    let memory = r#""peak_allocated_bytes":100,"peak_reserved_bytes":200,"peak_active_bytes":150"#;
    let first = started(1)
        + &line(r#""event":"model","name":"m","parameters":7"#)
        + &steps("images")
        + &line(&format!(r#""event":"epoch","epoch":1,{epoch}"#))
        + &line(test)
        + &line(&format!(r#""event":"memory",{memory}"#))
        + &line(&format!(r#""event":"memory",{memory},"warm_up":true"#));
    let reading = |key: &str, value: f64, epoch: &str| {
        line(&format!(r#""event":"reading","key":"{key}","value":{value}{epoch}"#))
    };
    let of_epoch = [
        ("epoch_time_s", 1.5),
        ("train_loss", 0.5),
        ("units", 48.0),
        ("received_bytes", 64.0),
        ("loader_start_s", 0.25),
        ("skipped_updates", 0.0),
        ("evaluation_time_s", 0.5),
        ("test_loss", 2.25),
        ("accuracy", 0.75),
        ("test_units", 25.0),
    ];
    let of_run = [
        ("parameters", 7.0),
        ("peak_allocated_bytes", 100.0),
        ("peak_reserved_bytes", 200.0),
        ("peak_active_bytes", 150.0),
        ("warm_up_peak_bytes", 100.0),
    ];
    let second = started(2)
        + &steps("units")
        + &of_epoch.map(|(key, value)| reading(key, value, r#","epoch":1"#)).concat()
        + &of_run.map(|(key, value)| reading(key, value, "")).concat();
    let [first, second] = [first, second].map(|log| {
        let folder = session(&log);
        assert_eq!(rebuild(folder.path(), &mut |_, _| {}).unwrap().damaged, [""; 0]);
        summary(folder.path())
    });
    assert_eq!(first.values, second.values);
    assert_eq!((first.value("accuracy"), first.value("train_loss")), (Some(0.75), Some(0.5)));
    assert_eq!(first.epochs, second.epochs);
}

#[test]
fn damage_in_logs_of_either_protocol_is_named_and_the_rest_is_shown() {
    for (version, units, epoch_time) in [
        (1, "images", r#""event":"evaluation","epoch":1,"duration_s":0.5,"accuracy":0.75,"images":25"#),
        (2, "units", r#""event":"reading","key":"accuracy","value":"three quarters","epoch":1"#),
    ] {
        let nan = line(r#""event":"reading","key":"test_loss","value":null,"epoch":1"#);
        let long = line(&format!(r#""event":"reading","key":"{}","value":1"#, "k".repeat(4 << 20)));
        let unknown = line(&format!(r#""event":"{}""#, "rumour".repeat(1 << 20)));
        let log = started(version) + "\u{0}garbage\n" + &steps(units) + &line(epoch_time) + &nan + &long + &unknown;
        let folder = session(&log);
        let report = rebuild(folder.path(), &mut |_, _| {}).unwrap();
        let places: Vec<&str> = report.damaged.iter().map(|text| text.split(": ").next().unwrap()).collect();
        assert_eq!(places, [2, 9, 11, 12].map(|line| format!("runs/r1/rank-0.jsonl:{line}")), "protocol {version}");
        assert!(report.damaged.iter().all(|text| text.chars().count() < 400), "protocol {version}");
        assert!(report.damaged[2].contains("4194304 bytes"), "{}", report.damaged[2]);
        let summary = summary(folder.path());
        // Four steady steps of 0.3 to 0.6 s.
        assert_eq!(summary.value("step_time_s"), Some(0.45), "protocol {version}");
        assert_eq!((summary.value("accuracy"), summary.value("test_loss")), (None, None));
        assert!(summary.marks.iter().any(|mark| mark.to_string().starts_with("test_loss is not a finite number")));
    }
}
