//! The whole chain with the real worker: a plan becomes training runs, a session, and tables.
#![cfg(feature = "torch")]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

mod early_ends;
#[path = "../training/mod.rs"]
mod training;

use training::{alone, multicard, rank_logs, run_command, table, text};

/// A small plan: two precisions, two layouts, a few steps of tiny images.
const SMALL: &str = r#"
version = 1
name = "small"
workload = "image"
repeats = 1
[measure]
warm_up_steps = 1
[data]
set = "digits"
[factors]
precision = ["fp32", "fp64"]
layout = ["nchw", "nhwc"]
image_size = 32
batch_size = 16
train_images = 96
test_images = 32
loader_workers = 1
epochs = 2
"#;

/// Runs a plan into a session of its own.
fn run_plan(folder: &TempDir, plan: &str, more: &[&str]) -> (Output, PathBuf) {
    let (mut command, session) = run_command(folder, plan);
    (command.args(more).output().unwrap(), session)
}

/// Runs a plan of which every run finishes.
#[track_caller]
fn finish_plan(folder: &TempDir, plan: &str, more: &[&str]) -> (Output, PathBuf) {
    let (output, session) = run_plan(folder, plan, more);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    (output, session)
}

/// The small plan's first cell alone.
fn one_cell() -> String {
    SMALL.replace(r#"["fp32", "fp64"]"#, r#""fp32""#).replace(r#"["nchw", "nhwc"]"#, r#""nchw""#)
}

/// The decisions in a session's journal.
fn journal(session: &Path) -> Vec<Value> {
    let journal = fs::read_to_string(session.join("journal.jsonl")).unwrap();
    journal.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_plan_becomes_finished_runs_and_tables() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let (output, session) = finish_plan(&folder, SMALL, &["--format", "json"]);
    let events: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let count = |name: &str| events.iter().filter(|event| event["event"] == name).count();
    assert_eq!(count("started"), 4);
    assert_eq!(count("finished"), 4);
    // Four cells, two epochs, 96 images in batches of 16.
    assert_eq!(count("step"), 4 * 2 * 6);
    let readings = |key: &str| -> Vec<f64> {
        let of_key = events.iter().filter(|event| event["event"] == "reading" && event["key"] == key);
        of_key.map(|event| event["value"].as_f64().unwrap()).collect()
    };
    assert_eq!(readings("accuracy").len(), 4 * 2);
    assert_eq!(readings("parameters"), [2_236_682.0; 4]);
    let not_in_effect: Vec<_> =
        events.iter().filter(|event| event["event"] == "evidence" && event["in_effect"] == false).collect();
    assert!(not_in_effect.is_empty(), "{not_in_effect:?}");

    let times = table(&session, "times", &[]);
    let rows = times["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        assert!(row["step_time_s"]["median"].as_f64().unwrap() > 0.0);
        assert_eq!(row["step_time_s"]["n"], 1);
        assert!(row["step_time_s"]["low"].is_null(), "one repeat shows no interval");
    }
    for preset in ["loss", "memory"] {
        assert!(!table(&session, preset, &[])["rows"].as_array().unwrap().is_empty(), "{preset}");
    }

    let before = [table(&session, "times", &[]), table(&session, "loss", &[]), table(&session, "memory", &[])];
    for file in ["session.sqlite", "session.sqlite-wal", "session.sqlite-shm"] {
        let _ = fs::remove_file(session.join(file));
    }
    let rebuilt = multicard(&["session", "rebuild", session.to_str().unwrap()]).output().unwrap();
    assert!(rebuilt.status.success(), "{}", text(&rebuilt.stderr));
    assert_eq!(before, [table(&session, "times", &[]), table(&session, "loss", &[]), table(&session, "memory", &[])]);
}

#[test]
fn what_a_tracer_costs_is_told_by_pairs_of_twins_that_one_plan_runs_side_by_side() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let plan = SMALL
        .replace(r#"["fp32", "fp64"]"#, "\"fp32\"")
        .replace("repeats = 1", "repeats = 3")
        .replace("epochs = 2", "epochs = 1")
        .replace("warm_up_steps = 1", "warm_up_steps = 1\ntrace = [\"off\", \"built-in\"]");
    let (_, session) = finish_plan(&folder, &plan, &[]);
    let mut runs: Vec<PathBuf> = fs::read_dir(session.join("runs")).unwrap().flatten().map(|run| run.path()).collect();
    runs.sort();
    assert_eq!(runs.len(), 2 * 2 * 3);
    let readings_of = |run: &Path| {
        let job: Value = serde_json::from_slice(&fs::read(run.join("job.json")).unwrap()).unwrap();
        let is_traced = job["built_in_trace"] == true;
        assert_eq!(run.join("trace.events").exists(), is_traced, "{}", run.display());
        (job["levels"]["layout"].clone(), job["seed"].clone(), is_traced)
    };
    for twins in runs.chunks(2) {
        let (one, other) = (readings_of(&twins[0]), readings_of(&twins[1]));
        assert_eq!((&one.0, &one.1, one.2), (&other.0, &other.1, !other.2), "{one:?} {other:?}");
    }
    let cost = table(&session, "trace-cost", &[]);
    let rows = cost["rows"].as_array().unwrap();
    let levels: Vec<_> =
        rows.iter().map(|row| (row["levels"]["layout"].as_str().unwrap(), row["trace"].as_str().unwrap())).collect();
    assert_eq!(levels, [("nchw", "off"), ("nhwc", "off"), ("nchw", "built-in"), ("nhwc", "built-in")]);
    for row in rows.iter().filter(|row| row["trace"] == "built-in") {
        assert_eq!(row["step_cost"]["n"], 3, "pairs by repeat: {row}");
    }
    let picture = folder.path().join("cost.svg");
    let mut figure =
        multicard(&["figure", session.to_str().unwrap(), "--preset", "trace-cost", "--out", picture.to_str().unwrap()]);
    assert!(figure.status().unwrap().success());
    let picture = fs::read_to_string(picture).unwrap();
    assert!(
        picture.contains("Cost in step time (%)")
            && picture.contains("pairs of repeats")
            && picture.contains(">Trace built-in<"),
        "{picture}"
    );
}

#[test]
fn a_quick_run_extrapolates_to_what_the_full_run_takes_and_is_never_taken_for_one() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let full = SMALL
        .replace(r#"["fp32", "fp64"]"#, r#""fp32""#)
        .replace(r#"["nchw", "nhwc"]"#, "\"nchw\"\nwidth_multiplier = 0.35")
        .replace("batch_size = 16", "batch_size = 4")
        .replace("train_images = 96", "train_images = 800");
    // At 4 images per step, the usual rate diverges for some seeds.
    let full = full.replace("epochs = 2", "epochs = 2\nlearning_rate = 0.001");
    let quick = full.replace("warm_up_steps = 1", "warm_up_steps = 1\nmode = \"quick\"\nstep_precision = 0.5");
    // Other processes may come and go during two runs: some pair has the same speed.
    let is_near = |(quick, full): (f64, f64)| (quick / full - 1.0).abs() < 0.2;
    let mut found = Vec::new();
    for repeats in 1..=6 {
        let with_repeats = |plan: &str| plan.replace("repeats = 1", &format!("repeats = {repeats}"));
        for plan in [&quick, &full] {
            let (output, _) = finish_plan(&folder, &with_repeats(plan), &["--resume"]);
            let kept = match repeats - 1 {
                1 => "1 existing run is kept".to_owned(),
                runs => format!("{runs} existing runs are kept"),
            };
            assert_eq!(text(&output.stderr).contains(&kept), repeats > 1, "{}", text(&output.stderr));
        }
        let (_, session) = run_command(&folder, &full);
        let times = table(&session, "times", &[]);
        let rows = times["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 2, "quick and full runs are cells of their own: {times}");
        let [full, quick] = [0, 1].map(|row| &rows[row]);
        assert!(quick["marks"].to_string().contains("quick") && !full["marks"].to_string().contains("quick"));
        assert!(quick["accuracy"].is_null() && full["accuracy"]["median"].as_f64().unwrap() > 0.0, "{times}");
        assert!(times["notes"].to_string().contains("of 400 steps, training time extrapolated"), "{times}");
        let time = |row: &Value| row["training_time_s"]["median"].as_f64().unwrap();
        for log in rank_logs(&session) {
            let steps = Steps::of(&log);
            match log.contains("\"planned_steps\"") {
                false => assert_eq!(steps.made, 400, "a full run makes all its steps"),
                // Beside other processes, steps may be too uneven for any end before the last.
                true => {
                    assert!(steps.made < 400 || steps.half_width > 0.4, "a quick run goes on without need: {steps:?}");
                }
            }
        }
        found.push((time(quick), time(full)));
        if is_near(found[found.len() - 1]) {
            break;
        }
    }
    assert!(is_near(found[found.len() - 1]), "quick and full training times: {found:?}");
}

/// Steps of a run of 400.
#[derive(Debug)]
struct Steps {
    made: usize,
    /// Half the interval of the mean steady step, as a share, after the last step at which the run may decide to end early.
    half_width: f64,
}

impl Steps {
    fn of(log: &str) -> Self {
        let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let steps: Vec<Value> = events.filter(|event| event["event"] == "step").collect();
        let opens = |index: usize| index == 0 || steps[index - 1]["epoch"] != steps[index]["epoch"];
        let counts = |index: &usize| steps[*index]["warm_up"] == false && !opens(*index);
        let steady = (0..steps.len().min(325)).filter(counts).map(|index| steps[index]["duration_s"].as_f64().unwrap());
        let half_width = multicard::analysis::relative_half_width(&steady.collect::<Vec<_>>());
        Self { made: steps.len(), half_width: half_width.unwrap_or(f64::INFINITY) }
    }
}

#[test]
fn repeats_go_on_until_the_training_time_is_known_as_asked() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let one = one_cell();
    let (output, session) = finish_plan(&folder, &one, &["--until", "50%", "--most-repeats", "7"]);
    assert!(text(&output.stderr).contains("5 more runs of 1 cell\n"), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("training time known to ±"), "{}", text(&output.stderr));
    let row = table(&session, "times", &[])["rows"][0].clone();
    let n = row["training_time_s"]["n"].as_u64().unwrap();
    assert!(n == 6 || n == 7, "{n}");
    let plan = folder.path().join("plan.toml");
    let outlook =
        multicard(&["plan", plan.to_str().unwrap(), "--session", session.to_str().unwrap()]).output().unwrap();
    // Runs that others held up foretell nothing.
    let foretold = match row["marks"].to_string().contains("contended") {
        true => &["judging by the spread of", "two finished repeats that had CPUs to themselves"][..],
        false => &["judging by the spread of"],
    };
    let outlook = text(&outlook.stdout);
    assert!(foretold.iter().any(|note| outlook.contains(note)), "{foretold:?}: {outlook}");
    let (refused, _) = run_plan(&folder, &one, &["--until", "fast"]);
    assert!(text(&refused.stderr).contains("such as 1%"), "{}", text(&refused.stderr));
}

/// The number of CPUs that any processes kept busy during one second.
fn busy_cpus() -> f64 {
    let ticks = || -> Vec<f64> {
        let text = fs::read_to_string("/proc/stat").unwrap();
        let fields = text.lines().next().unwrap().split_whitespace().skip(1);
        fields.map(|field| field.parse().unwrap()).collect()
    };
    let before = ticks();
    std::thread::sleep(std::time::Duration::from_secs(1));
    let after = ticks();
    [0, 1, 2, 5, 6].iter().map(|&field| after[field] - before[field]).sum::<f64>() / 100.0
}

#[test]
fn a_run_beside_busy_loops_is_marked_contended_and_one_alone_is_not() {
    let _alone = alone();
    let one = one_cell().replace("train_images = 96", "train_images = 192");
    let marks = || {
        let folder = TempDir::new().unwrap();
        let (_, session) = finish_plan(&folder, &one, &[]);
        table(&session, "times", &[])
    };
    let over = std::sync::atomic::AtomicBool::new(false);
    let beside = std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().unwrap().get() {
            scope.spawn(|| {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let marked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let folder = TempDir::new().unwrap();
            let (_, session) =
                finish_plan(&folder, "version = 1\nrepeats = 1\n[command]\nrun = [\"sleep\", \"2\"]\n", &[]);
            [marks(), table(&session, "times", &[])]
        }));
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        marked.unwrap()
    });
    let [beside, program] = beside;
    assert!(
        program["rows"][0]["marks"].to_string().contains("contended"),
        "all time of a program without steps counts: {program}"
    );
    assert!(beside["rows"][0]["marks"].to_string().contains("contended"), "{beside}");
    assert!(beside["notes"].to_string().contains("CPUs busy in the time that counts"), "{beside}");
    // Where others keep this machine busy, no run is alone on it.
    if busy_cpus() < 0.1 {
        let alone = marks();
        assert!(!alone["rows"][0]["marks"].to_string().contains("contended") || busy_cpus() > 0.1, "{alone}");
    }
}

#[test]
fn resuming_runs_only_what_is_missing() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let one = one_cell();
    finish_plan(&folder, &one, &[]);
    let more = one.replace("repeats = 1", "repeats = 2");
    let (_, session) = finish_plan(&folder, &more, &["--resume"]);
    assert_eq!(fs::read_dir(session.join("runs")).unwrap().count(), 2);
    let rows = table(&session, "times", &[]);
    assert_eq!(rows["rows"][0]["step_time_s"]["n"], 2);
    assert_eq!(rows["rows"][0]["step_time_s"]["method"], "range");
    // What has finished needs no worker; what is left to do does.
    let without_worker = |plan: &str| {
        let (mut command, _) = run_command(&folder, plan);
        let output = command.arg("--resume").env("MULTICARD_WORKER", "/nonexistent/worker").output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let (code, stderr) = without_worker(&more);
    assert!(code == Some(0) && stderr.contains("2 existing runs are kept"), "{stderr}");
    let (code, stderr) = without_worker(&one.replace("repeats = 1", "repeats = 3"));
    assert!(code == Some(2) && stderr.contains("MULTICARD_WORKER names /nonexistent/worker"), "{stderr}");
    assert_eq!(fs::read_dir(session.join("runs")).unwrap().count(), 2);
}

#[test]
fn colour_files_are_made_trained_on_and_named_when_they_are_corrupt() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let set = folder.path().join("scenario-b");
    let set = set.to_str().unwrap();
    let created =
        multicard(&["data", "make", "--scenario", "b", "--count", "40", "--format", "png", set]).output().unwrap();
    assert!(created.status.success(), "{}", text(&created.stderr));
    let again = multicard(&["data", "make", "--scenario", "b", set]).output().unwrap();
    assert_eq!(again.status.code(), Some(2), "a set that is there is left alone");

    let plan = SMALL
        .replace("set = \"digits\"", &format!("set = \"folder\"\nfolder = \"{set}\""))
        .replace(r#"["fp32", "fp64"]"#, r#""fp32""#)
        .replace(r#"["nchw", "nhwc"]"#, "\"nhwc\"\nscenario = \"b\"")
        .replace("train_images = 96", "train_images = 39")
        .replace("test_images = 32", "test_images = 7")
        .replace("batch_size = 16", "batch_size = 8")
        .replace("epochs = 2", "epochs = 1\nloader = [\"host\", \"device\"]");
    let (_, session) = finish_plan(&folder, &plan, &[]);
    let losses = table(&session, "loss", &[]);
    let loss = |row: usize| losses["rows"][row]["train_loss"]["median"].as_f64().unwrap();
    // Batch norm over eight images of so few pixels magnifies roundings.
    assert!((loss(0) - loss(1)).abs() < 0.1, "{losses}");
    let loading = table(&session, "loading", &[]);
    assert!(loading["rows"][0]["loader_start_s"]["median"].as_f64().unwrap() > 0.0, "{loading}");

    let class = Path::new(set).join("train/3");
    let broken = fs::read_dir(&class).unwrap().next().unwrap().unwrap().path();
    fs::write(&broken, "not an image").unwrap();
    let plan = plan.replace("[\"host\", \"device\"]", "\"host\"");
    for decode in ["once", "each_epoch"] {
        for (corrupt, code) in [("stop", 1), ("skip", 0)] {
            let folder = TempDir::new().unwrap();
            let data = format!("set = \"folder\"\ndecode = \"{decode}\"\ncorrupt = \"{corrupt}\"");
            let (run, session) = run_plan(&folder, &plan.replace("set = \"folder\"", &data), &[]);
            assert_eq!(run.status.code(), Some(code), "{decode} {corrupt}: {}", text(&run.stderr));
            let message = format!("{} cannot be decoded", broken.display());
            let count = rank_logs(&session).iter().filter(|log| log.contains(&message)).count();
            assert_eq!(count, 1, "{decode} {corrupt}");
        }
    }
}

#[test]
fn an_untrained_model_guesses_one_of_as_many_classes_as_a_set_has_folders_but_at_least_ten() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let set = folder.path().join("set");
    let make = ["data", "make", "--scenario", "b", "--count", "40", "--format", "png", set.to_str().unwrap()];
    assert!(multicard(&make).status().unwrap().success());
    let plan = SMALL
        .replace("set = \"digits\"", &format!("set = \"folder\"\nfolder = \"{}\"", set.display()))
        .replace(r#"["fp32", "fp64"]"#, "\"fp32\"\npasses = \"inference\"")
        .replace(r#"["nchw", "nhwc"]"#, "\"nhwc\"\nscenario = \"b\"")
        .replace("train_images = 96", "train_images = 39")
        .replace("test_images = 32", "test_images = 7")
        .replace("batch_size = 16", "batch_size = 8")
        .replace("epochs = 2", "epochs = 1");
    for classes in [10.0_f64, 12.0] {
        let folder = TempDir::new().unwrap();
        let (_, session) = finish_plan(&folder, &plan, &[]);
        let losses = table(&session, "loss", &[]);
        let loss = losses["rows"][0]["train_loss"]["median"].as_f64().unwrap();
        assert!((loss - classes.ln()).abs() < 0.01, "{classes} classes: {losses}");
        let logs = rank_logs(&session).concat();
        let bytes = (39 + 7) * 32 * 32 * 3;
        assert!(logs.contains(&format!(r#""key":"set_bytes_in_memory","value":{bytes}.0"#)), "{logs}");
        assert!(logs.contains(r#""key":"load_from_disk_s""#), "{logs}");
        // The folders are in alphabetical order, so that images of the digit 9 have the twelfth label.
        for class in ["train/10", "train/11", "test/10", "test/11"] {
            fs::create_dir_all(set.join(class)).unwrap();
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_losses_bit_for_bit() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let one = one_cell();
    let losses = |output: &Output| -> Vec<String> {
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let lines = text(&output.stdout);
        let steps = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        steps.filter(|event| event["event"] == "step").map(|event| event["loss"].to_string()).collect()
    };
    let (first, _) = run_plan(&folder, &one, &["--format", "json"]);
    let other = TempDir::new().unwrap();
    let (second, _) = run_plan(&other, &one, &["--format", "json"]);
    let (first, second) = (losses(&first), losses(&second));
    assert_eq!(first.len(), 12);
    assert_eq!(first, second);
}

/// When each run was under way, from its journal: (started, ended), in the order of starting.
fn spans(session: &Path) -> Vec<(f64, f64)> {
    let lines = journal(session);
    let time = |decision: &str, run: &Value| {
        let line = lines.iter().find(|line| line["decision"] == decision && line["run"] == *run).unwrap();
        line["time_s"].as_f64().unwrap()
    };
    let started = lines.iter().filter(|line| line["decision"] == "run_started").map(|line| &line["run"]);
    started.map(|run| (time("run_started", run), time("run_ended", run))).collect()
}

/// Two cells of one rank.
fn two_cells() -> String {
    SMALL.replace(r#"["fp32", "fp64"]"#, r#""fp32""#).replace("repeats = 1", "repeats = 2")
}

#[test]
fn runs_that_may_share_the_machine_go_side_by_side_and_their_times_enter_no_table() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let plan = two_cells().replace("[measure]", "[limits]\nexclusive = false\n[measure]");
    let (output, session) = finish_plan(&folder, &plan, &[]);
    assert!(text(&output.stderr).contains("share the machine"), "{}", text(&output.stderr));
    let spans = spans(&session);
    assert_eq!(spans.len(), 4);
    assert!(spans.windows(2).any(|pair| pair[1].0 < pair[0].1), "none met another: {spans:?}");
    // Where two run at a time, each has CPUs of its own.
    let placed: Vec<Value> = journal(&session).into_iter().filter(|line| line["decision"] == "run_placed").collect();
    let cpus = |line: &Value| line["placement"]["ranks"][0]["cpus"].clone();
    for line in &placed {
        assert_eq!(cpus(line).as_array().unwrap().len(), 1, "{line}");
        for other in line["beside"].as_array().unwrap() {
            let other = placed.iter().find(|line| line["run"] == *other).unwrap();
            assert_ne!(cpus(line), cpus(other), "{line} {other}");
        }
    }
    let met = |line: &&Value| !line["beside"].as_array().unwrap().is_empty();
    assert!(placed.iter().filter(met).count() > 0, "{placed:?}");
    let rows = table(&session, "times", &[]);
    let shared = rows["rows"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["marks"].as_array().unwrap().iter().any(|mark| mark == "shared node"));
    let shared: Vec<&Value> = shared.collect();
    assert!(!shared.is_empty(), "{rows}");
    // Each of the first two runs met the other.
    for row in shared {
        assert!(row["step_time_s"].is_null() || row["step_time_s"]["n"].as_u64() < Some(2), "{row}");
        assert_eq!(row["train_loss"]["n"], 2, "losses are their own: {row}");
    }
}

#[test]
fn exclusive_runs_never_overlap() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let (_, session) = finish_plan(&folder, &two_cells(), &[]);
    let spans = spans(&session);
    assert_eq!(spans.len(), 4);
    assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{spans:?}");
    let rows = table(&session, "times", &[]);
    assert!(rows["rows"].as_array().unwrap().iter().all(|row| row["step_time_s"]["n"] == 2), "{rows}");
}
