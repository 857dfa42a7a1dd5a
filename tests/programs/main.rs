//! Programs as workloads, end to end: real programs of the shell and of Python's standard library, good ones and bad ones.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use multicard::processes::{self, Process};
use multicard::protocol::{Event, EventLine, Job, read_event_line};
use multicard::store::Reader;
use rustix::process::{Pid, Signal};
use serde_json::Value;
use tempfile::TempDir;

mod alike;
mod clocks;
mod ends;
#[path = "../executable/mod.rs"]
mod executable;
mod files;
mod frameworks;
mod keys;
mod pooling;
mod resumed;
#[path = "../seeded/mod.rs"]
mod seeded;
mod set_ups;
mod shared_files;
mod sources;
mod traced;
mod until;

use seeded::{succeed, text, wait};

/// A session in a folder of its own, and a folder for programs.
struct Scene {
    folder: TempDir,
}

impl Scene {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("programs")).unwrap();
        Self { folder }
    }

    fn programs(&self) -> PathBuf {
        self.folder.path().join("programs")
    }

    fn session(&self) -> PathBuf {
        self.folder.path().join("session")
    }

    /// `multicard run` of a plan; `{programs}` in it is the folder of programs.
    fn command(&self, plan: &str) -> Command {
        let path = self.folder.path().join("plan.toml");
        let text = plan.replace("{programs}", self.programs().to_str().unwrap());
        fs::write(&path, format!("version = 1\n{text}")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_multicard"));
        command.arg("run").arg(path).arg("--session").arg(self.session()).stdin(Stdio::null());
        // No worker is needed, so one that cannot run does no harm.
        command.env("MULTICARD_WORKER", "/nonexistent/worker").env("SECRET_TOKEN", "hunter2-of-this-test");
        command
    }

    fn run(&self, plan: &str, more: &[&str]) -> Output {
        self.command(plan).args(more).output().unwrap()
    }

    /// Runs a plan whose runs all finish.
    #[track_caller]
    fn finish(&self, plan: &str) {
        let output = self.run(plan, &[]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }

    fn start(&self, plan: &str) -> Child {
        self.command(plan).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// A table of the session as JSON, with arguments.
    fn table(&self, more: &[&str]) -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_multicard"));
        command.arg("table").arg(self.session()).args(["--format", "json"]).args(more);
        serde_json::from_slice(&succeed(&mut command).stdout).unwrap()
    }

    /// The folders of runs, in the order in which they were queued.
    fn runs(&self) -> Vec<PathBuf> {
        let mut runs: Vec<PathBuf> = fs::read_dir(self.session().join("runs"))
            .map_or(Vec::new(), |all| all.map(|one| one.unwrap().path()).collect());
        runs.sort();
        runs
    }

    fn job(&self, run: &Path) -> Job {
        serde_json::from_slice(&fs::read(run.join("job.json")).unwrap()).unwrap()
    }

    /// What is left of the programs of all runs.
    fn left(&self) -> Vec<Process> {
        let started = self.runs().into_iter().filter(|run| run.join("job.json").exists());
        let mark = |run: &Path| processes::mark(&self.job(run).program.unwrap().marker, run).unwrap();
        started.flat_map(|run| processes::marked(&mark(&run))).collect()
    }

    /// Waits until the only run's log holds a text.
    fn wait_for(&self, file: &str, text: &str) {
        wait("the log holds the text", || {
            let runs = self.runs();
            let run = runs.first();
            run.is_some_and(|run| fs::read_to_string(run.join(file)).is_ok_and(|log| log.contains(text)))
        });
    }
}

fn events(run: &Path) -> Vec<Event> {
    let log = fs::read_to_string(run.join("rank-0.jsonl")).unwrap();
    let lines =
        log.lines().map(|line| read_event_line(line.as_bytes()).unwrap_or_else(|error| panic!("{line}: {error}")));
    lines.flatten().map(|EventLine { event, .. }| event).collect()
}

fn warnings(run: &Path) -> String {
    let warning = |event| if let Event::Warning { message } = event { Some(message) } else { None };
    events(run).into_iter().filter_map(warning).collect::<Vec<_>>().join("\n")
}

fn reading(run: &Path, key: &str) -> Option<f64> {
    events(run).into_iter().find_map(|event| match event {
        Event::Reading { key: known, value, .. } if known == *key => Some(value),
        _ => None,
    })
}

/// Processes with a word of their command line.
fn with_word(word: &str) -> Vec<u32> {
    let has = |process: &Process| {
        let words = fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|other| other == word.as_bytes())
    };
    processes::living().into_iter().filter(has).map(|process| process.pid).collect()
}

/// A duration for `sleep` that no other process has.
fn own_sleep() -> String {
    format!("9{:09}", rand::random::<u32>())
}

/// A Python with these modules: the one that MULTICARD_TEST_PYTHON names, or python3. Without one, the test says what it leaves out.
fn python_with(modules: &str) -> Option<String> {
    let named = std::env::var("MULTICARD_TEST_PYTHON").ok();
    let all = named.into_iter().chain(["python3".to_owned()]);
    let has = |python: &String| {
        let import = Command::new(python).args(["-c", &format!("import {modules}")]).stderr(Stdio::null()).status();
        import.is_ok_and(|status| status.success())
    };
    let found = all.into_iter().find(has);
    if found.is_none() {
        println!("skipped: neither python3 nor MULTICARD_TEST_PYTHON has {modules}");
    }
    found
}

/// Steps of a run that count, each with its units, and how many are warm-up. A step that is said again replaces the earlier one.
fn steps(run: &Path) -> (Vec<u64>, usize) {
    let mut steps = BTreeMap::new();
    for event in events(run) {
        if let Event::Step { step, units, warm_up, .. } = event {
            steps.insert(step, (u64::from(units), warm_up));
        }
    }
    let (warm_up, steady): (Vec<_>, Vec<_>) = steps.into_values().partition(|(_, warm_up)| *warm_up);
    (steady.into_iter().map(|(units, _)| units).collect(), warm_up.len())
}

fn kill(pid: u32) {
    let _ = rustix::process::kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL);
}

#[test]
fn a_program_becomes_runs_with_their_record_and_no_secret_of_the_environment() {
    let scene = Scene::new();
    let plan = r#"
name = "loops"
repeats = 2
[command]
run = ["sh", "-c", "for i in $(seq \"$1\"); do echo \"turn $i of $MODE\"; done; echo done >&2", "loop", "{turns}", "{fast:--fast}"]
folder = "{programs}"
env = { MODE = "seed {seed} of {gpus} in {run_folder}" }
[factors]
turns = [2, 3]
fast = ["off", "on"]
"#;
    scene.finish(plan);
    let runs = scene.runs();
    assert_eq!(runs.len(), 8);
    let run = runs
        .iter()
        .find(|run| {
            let job = scene.job(run);
            let level = |key: &str| job.levels.get(key).unwrap().to_string();
            (level("turns"), level("fast")) == ("3".to_owned(), "on".to_owned())
        })
        .unwrap();
    let log = fs::read_to_string(run.join("group.out")).unwrap();
    let job = scene.job(run);
    assert!(log.starts_with(&format!("turn 1 of seed {} of 1 in {}", job.seed, run.display())), "{log}");
    assert_eq!(log.lines().count(), 3);
    assert_eq!(fs::read_to_string(run.join("stderr.log")).unwrap(), "done\n");
    let record: Value = serde_json::from_slice(&fs::read(run.join("program.json")).unwrap()).unwrap();
    let words = record["command_line"].as_array().unwrap();
    assert_eq!((words[0].as_str(), words[4].as_str(), words[5].as_str()), (Some("sh"), Some("3"), Some("--fast")));
    assert_eq!(record["folder"].as_str(), scene.programs().to_str());
    assert!(record["environment"].to_string().contains("MULTICARD_READINGS"), "{record}");
    assert_eq!(reading(run, "exit_code"), Some(0.0));
    assert!(reading(run, "program_time_s").is_some_and(|time_s| time_s > 0.0));
    assert!(matches!(events(run).last(), Some(Event::Finished { duration_s }) if *duration_s > 0.0));
    for file in
        fs::read_dir(run).unwrap().chain(fs::read_dir(scene.session()).unwrap()).map(|file| file.unwrap().path())
    {
        let bytes = fs::read(&file).unwrap_or_default();
        assert!(!text(&bytes).contains("hunter2-of-this-test"), "{}", file.display());
    }
    // What is there is kept, and a changed command is another cell.
    let again = scene.run(plan, &["--resume"]);
    assert!(text(&again.stderr).contains("8 existing runs are kept"), "{}", text(&again.stderr));
    let changed = scene.run(&plan.replace("echo done", "echo over"), &["--resume"]);
    assert!(text(&changed.stderr).contains("8 runs queued"), "{}", text(&changed.stderr));
    let table = scene.table(&["--preset", "times"]);
    assert_eq!(table["rows"].as_array().unwrap().len(), 8, "four cells of each command");
    assert!(scene.left().is_empty());
}

#[test]
fn a_wrong_plan_is_refused_with_its_line_before_anything_runs() {
    let scene = Scene::new();
    let output = scene.run("[command]\nrun = [\"true\", \"{modle}\"]\n[factors]\nmodel = [\"a\", \"b\"]", &[]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains(
            "plan.toml:3: command.run: unknown placeholder {modle}: add a factor of that name; did you mean \"model\"?"
        ),
        "{stderr}"
    );
    assert!(scene.runs().is_empty());
    let constrained = "[command]\nrun = [\"true\", \"{threads}\"]\n[factors]\nthreads = [1, 2]\n\
                       [[constraint]]\nexclude = \"threads > 1\"\nreason = \"one is enough\"\n";
    let error_text = text(&scene.run(constrained, &[]).stderr);
    assert!(
        error_text.contains("cannot run here: threads 2: one is enough") && error_text.contains("1 finished"),
        "{stderr}"
    );
    assert!(error_text.contains("-1 started\n"), "without a terminal, there is no bar: {error_text}");
}

#[test]
fn a_run_has_one_port_which_is_free() {
    let scene = Scene::new();
    let script =
        "import os, socket, sys; assert sys.argv[1] == os.environ['PORT']; socket.socket().bind(('127.0.0.1', {port}))";
    let plan =
        format!("[command]\nrun = [\"python3\", \"-c\", \"{script}\", \"{{port}}\"]\nenv = {{ PORT = \"{{port}}\" }}");
    scene.finish(&plan);
}

#[test]
fn a_program_that_is_changed_while_it_runs_is_named_in_a_warning_and_others_are_not() {
    let scene = Scene::new();
    let script = "echo loss 0.5\n[ \"$1\" = stays ] || echo '#' >> \"$0\"\n";
    fs::write(scene.programs().join("train.sh"), script).unwrap();
    let plan =
        "[command]\nrun = [\"sh\", \"{programs}/train.sh\", \"{kind}\"]\n[factors]\nkind = [\"stays\", \"changes\"]\n";
    scene.finish(plan);
    let reader = Reader::open(&scene.session()).unwrap();
    for run in reader.runs().unwrap() {
        let kind = run.levels.get("kind").unwrap().to_string();
        let warned =
            run.ranks[0].warnings.iter().any(|warning| warning.contains("train.sh was changed while the program ran"));
        assert_eq!(warned, kind == "changes", "{kind}: {:?}", run.ranks[0].warnings);
    }
}

#[test]
fn several_commands_stand_side_by_side_in_one_session_and_are_interleaved() {
    let scene = Scene::new();
    let plan = r#"
repeats = 3
[command]
name = "shell"
run = ["sh", "-c", "exit 0", "{size}"]
[factors]
size = [1, 2]
[[block]]
[block.command]
name = "python"
run = ["python3", "-c", "pass", "{size}", "{mode}"]
[block.factors]
size = [1, 2]
mode = "plain"
"#;
    scene.finish(plan);
    let order: Vec<String> = scene.runs().iter().map(|run| scene.job(run).workload.to_string()).collect();
    for repeat in order.chunks(4) {
        assert_eq!(repeat.iter().filter(|name| *name == "python").count(), 2, "{order:?}");
    }
    let table = scene.table(&["--preset", "times"]);
    let keys: Vec<_> = table["columns"].as_array().unwrap().iter().map(|column| column["key"].to_string()).collect();
    assert!(keys.contains(&"\"workload\"".to_owned()) && keys.contains(&"\"size\"".to_owned()), "{keys:?}");
    assert!(!keys.contains(&"\"mode\"".to_owned()), "a factor that the other program lacks is no difference: {keys:?}");
}

#[test]
fn the_plans_to_start_from_can_be_read_and_the_one_that_runs_anywhere_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut commands = Vec::new();
    for file in fs::read_dir(root.join("sessions")).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_some_and(|extension| extension == "toml") {
            let plan = multicard::plan::Plan::read(&file).unwrap_or_else(|error| panic!("{error}"));
            commands.extend(plan.brought_workloads().into_iter().map(|spec| spec.key.to_string()));
        }
    }
    commands.sort();
    assert_eq!(
        commands,
        ["compiled", "nccl-tests", "pytorch", "ring", "torchtune", "trainer", "transpose", "triad", "triad"]
    );
    let scene = Scene::new();
    let text_of_plan = fs::read_to_string(root.join("sessions/command-quickstart.toml")).unwrap();
    let plan = text_of_plan.replace("version = 1\n", "").replace("repeats = 3", "repeats = 1");
    let folder = format!("folder = {:?}", root.join("sessions/programs"));
    let plan = plan.replace("folder = \"programs\"", &folder);
    assert!(plan.contains(&folder), "{plan}");
    let output = scene.command(&plan).current_dir(root).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(scene.runs().len(), 4);
    for run in scene.runs() {
        assert!(fs::read_to_string(run.join("group.out")).unwrap().starts_with("a[1] = 4"));
        let steps = events(&run).into_iter().filter(|event| matches!(event, Event::Step { .. })).count();
        assert_eq!(steps, 20, "each pass is a step");
    }
    assert!(scene.session().join("triad").exists(), "it was compiled into the session");
    let table = scene.table(&["--study", "bandwidth"]);
    let mut peaks = Vec::new();
    for row in table["rows"].as_array().unwrap() {
        let median = |key: &str| row[key]["median"].as_f64().unwrap_or_default();
        assert!(median("bandwidth_gb_per_s") > 0.0 && median("step_time_s") > 0.0, "{row}");
        assert!(median("program_time_s") > 0.0, "{row}");
        // Three arrays; a short program may be gone before it is looked at, and then has no value.
        let bytes = 3.0 * 1e6 * row["levels"]["megabytes"].as_f64().unwrap();
        let peak = row["peak_resident_bytes"]["median"].as_f64();
        assert!(peak.is_none_or(|peak| peak < bytes + 1e8), "{row}");
        peaks.extend(peak.map(|peak| peak / bytes));
    }
    // On a busy machine a program may be looked at before it fills its arrays, but not each of the four.
    assert!(peaks.is_empty() || peaks.iter().any(|share| *share > 0.05), "shares of the arrays: {peaks:?}");
}

#[test]
fn steps_that_only_another_rank_than_the_first_prints_are_told_not_to_be_read() {
    let scene = Scene::new();
    let plan = "[command]\nrun = [\"sh\", \"-c\", \"[ $RANK = $0 ] && echo step 1 loss 0.5; exit 0\", \"{speaker}\"]\n\
                [factors]\ngpus = 0\nranks_per_node = 2\nspeaker = [0, 1]\n";
    scene.finish(plan);
    let mut is_told: Vec<(usize, bool)> = Vec::new();
    for run in scene.runs() {
        let count = events(&run).iter().filter(|event| matches!(event, Event::Step { .. })).count();
        is_told.push((count, warnings(&run).contains("which printed nothing, while rank 1 did")));
    }
    is_told.sort_unstable();
    assert_eq!(is_told, [(0, true), (1, false)]);
}

#[test]
fn packed_programs_are_bound_to_cpus_of_their_own() {
    let scene = Scene::new();
    let plan = "[limits]\nexclusive = false\n[command]\n\
                run = [\"sh\", \"-c\", \"echo $OMP_NUM_THREADS; unset OMP_NUM_THREADS; nproc; sleep 0.3\", \"{turn}\"]\n\
                [factors]\nturn = [1, 2]";
    scene.finish(plan);
    for run in scene.runs() {
        let (job, log) = (scene.job(&run), fs::read_to_string(run.join("group.out")).unwrap());
        let cpus = job.ranks[0].cpus.len();
        assert!(cpus > 0 && log == format!("{cpus}\n{cpus}\n"), "{cpus}: {log}");
    }
}

#[test]
fn a_resume_with_nothing_left_to_do_asks_no_worker_to_describe_itself_and_records_nothing() {
    let scene = Scene::new();
    let (worker, asked) = (scene.programs().join("worker"), scene.programs().join("asked"));
    let script = format!("#!/bin/sh\ntouch {}\nexit 1\n", asked.display());
    executable::write(&worker, script);
    let resume = |repeats: u32| {
        let plan = format!("repeats = {repeats}\n[command]\nrun = [\"true\"]");
        let mut command = scene.command(&plan);
        let output = command.arg("--resume").env("MULTICARD_WORKER", &worker).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    resume(2);
    assert!(asked.exists());
    fs::remove_file(&asked).unwrap();
    let journal = fs::read(scene.session().join("journal.jsonl")).unwrap();
    let stderr = resume(2);
    assert!(stderr.contains("0 runs queued") && stderr.contains("2 existing runs are kept"), "{stderr}");
    assert!(stderr.contains("2 finished, 0 did not"), "{stderr}");
    assert!(!asked.exists());
    assert!(fs::read(scene.session().join("journal.jsonl")).unwrap() == journal);
    let stderr = resume(3);
    assert!(stderr.contains("1 run queued") && stderr.contains("2 existing runs are kept"), "{stderr}");
    assert!(asked.exists());
}

#[test]
fn folders_are_relative_to_the_plan_wherever_multicard_is_started_and_whatever_becomes_of_the_plan() {
    let scene = Scene::new();
    fs::write(scene.programs().join("own.sh"), "echo from $(pwd)").unwrap();
    fs::write(scene.folder.path().join("beside.sh"), "echo beside $(pwd)").unwrap();
    let plan = "[command]\nname = \"in-programs\"\nrun = [\"sh\", \"own.sh\"]\nfolder = \"programs\"\n\
                [[block]]\n[block.command]\nname = \"beside\"\nrun = [\"sh\", \"beside.sh\"]\n";
    let output = scene.command(plan).current_dir("/").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let here = scene.folder.path().display().to_string();
    let mut logs: Vec<String> =
        scene.runs().iter().map(|run| fs::read_to_string(run.join("group.out")).unwrap()).collect();
    logs.sort();
    assert_eq!(logs, [format!("beside {here}\n"), format!("from {here}/programs\n")]);
    // The plan and its programs move together: the same cells.
    let elsewhere = TempDir::new().unwrap();
    let moved = elsewhere.path().join("moved");
    let copied = Command::new("cp").arg("-r").arg(scene.folder.path()).arg(&moved).status().unwrap();
    assert!(copied.success());
    let mut again = Command::new(env!("CARGO_BIN_EXE_multicard"));
    again.arg("run").arg(moved.join("plan.toml")).arg("--session").arg(scene.session()).arg("--resume");
    let stderr = text(&again.output().unwrap().stderr);
    assert!(stderr.contains("2 existing runs are kept") && stderr.contains("0 runs queued"), "{stderr}");
    assert!(stderr.contains(&format!("1 run in another folder, {here}/programs (")), "{stderr}");
    assert!(!stderr.contains("other files"), "{stderr}");
    // A folder that is not there is named whole.
    let gone = scene.run("[command]\nrun = [\"true\"]\nfolder = \"gone\"\n", &[]);
    let error_text = text(&gone.stderr);
    assert!(error_text.contains(&format!("the program's folder {here}/gone does not exist")), "{stderr}");
}

#[test]
fn a_program_of_the_cpu_gets_no_gpu() {
    let scene = Scene::new();
    let plan = "[command]\nrun = [\"sh\", \"-c\", \"echo {gpus}:$CUDA_VISIBLE_DEVICES:$OMP_NUM_THREADS\"]\n[factors]\ngpus = 0\n";
    scene.finish(plan);
    let run = &scene.runs()[0];
    let log = fs::read_to_string(run.join("group.out")).unwrap();
    assert!(log.starts_with("0::") && log.trim().len() > 3, "{log}");
    assert_eq!(scene.job(run).ranks.len(), 1);
}

#[test]
fn a_plan_of_several_programs_lists_the_workload_and_the_factors_that_differ() {
    let scene = Scene::new();
    let plan = scene.folder.path().join("plan.toml");
    let block =
        |name: &str| format!("[block.command]\nname = \"{name}\"\nrun = [\"{name}\", \"{{size}}\", \"{{mode}}\"]\n");
    let text_of_plan = format!(
        "version = 1\nworkload = \"image\"\n[factors]\nimage_size = 100\n[[block]]\n{}[block.factors]\nsize = [1, 2]\n\
         mode = \"slow\"\n",
        block("solver")
    );
    fs::write(&plan, text_of_plan).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_multicard")).arg("plan").arg(&plan).output().unwrap();
    let shown = text(&output.stdout);
    assert!(shown.contains("| cell | workload | size |"), "{shown}");
    assert!(shown.contains("| solver | 2 |"), "{shown}");
}
