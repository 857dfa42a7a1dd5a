//! What leaves the tool: exported tables, read back by pandas and DuckDB and held against the session's own logs; what `diff`,
//! `session show`, `methods` and `cite` say of real sessions.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use multicard::plan::{Data, Key, Level, Levels, Mode, RunState, Tracer};
use multicard::store::{Decision, Store};
use multicard::telemetry::read_node;
use tempfile::TempDir;

mod seeded;

use seeded::{command, golden, succeed};

const TABLES: [&str; 6] = ["runs", "steps", "epochs", "samples", "evidence", "environment"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A session with what exports must bear: text that looks like a formula, losses that are no numbers, readings of steps, levels of
/// several kinds under one key, a run that never started.
fn odd(folder: &Path) -> PathBuf {
    let session = folder.join("odd");
    let store = Store::create(&session, &read_node()).unwrap();
    let name = "=HYPERLINK(\"x\"), \"quoted\"";
    store
        .decide(Decision::PlanAdded {
            plan: "p1".into(),
            name: name.into(),
            toml: String::new(),
            workloads: Vec::new(),
        })
        .unwrap();
    let queue = |run: &str, batch: Level| {
        let levels = Levels::new(vec![
            ("precision", Level::text("-fp16")),
            ("batch", batch),
            ("rank", Level::Integer(8)),
            ("learning_rate", Level::Number(0.5)),
        ]);
        let queued = Decision::RunQueued {
            run: run.into(),
            plan: "p1".into(),
            cell: "c1".into(),
            workload: Key::from("image"),
            levels,
            data: Data::of_set("digits"),
            repeat: 1,
            seed: 7,
            tracer: Tracer::Off,
            mode: Mode::Full,
        };
        store.decide(queued).unwrap();
    };
    queue("0001-a", Level::Integer(64));
    queue("0002-a", Level::text("auto"));
    let line = |event: &str| format!("{{\"run\":\"0001-a\",\"rank\":0,\"time_s\":1700000000.25,{event}}}\n");
    let mut log = line(
        r#""event":"started","protocol_version":2,"pid":1,"torch_version":"2.11.0","device":{"name":"cpu","gpu_uuid":null},"world_size":1,"seed":7"#,
    );
    log += &line(r#""event":"evidence","factor":"precision","asked":"-fp16","seen":"@half, +0","in_effect":true"#);
    for step in 1..=300 {
        let loss = if step == 17 { "null".to_owned() } else { (1.0 / f64::from(step)).to_string() };
        let (epoch, warm_up) = (1 + step / 200, step <= 3);
        log += &line(&format!(
            r#""event":"step","epoch":{epoch},"step":{step},"steps":300,"duration_s":{},"load_wait_s":1e-7,"loss":{loss},"units":64,"warm_up":{warm_up}"#,
            0.1 + f64::from(step) / 3e4
        ));
        if step % 2 == 0 {
            log += &line(&format!(r#""event":"reading","key":"gradient_norm","value":-1e-30,"step":{step}"#));
        }
    }
    log += &line(r#""event":"reading","key":"accuracy","value":null,"epoch":1"#);
    log += &line(r#""event":"finished","duration_s":40.0"#);
    fs::create_dir_all(session.join("runs/0001-a")).unwrap();
    fs::write(session.join("runs/0001-a/rank-0.jsonl"), log).unwrap();
    let ended = Decision::RunEnded { run: "0001-a".into(), state: RunState::Finished, reason: None, duration_s: None };
    store.decide(ended).unwrap();
    drop(store);
    session
}

/// Exports all tables of a session in both formats.
fn export(folder: &Path, session: &Path) -> PathBuf {
    let out = session.with_extension("tables");
    fs::create_dir(&out).unwrap();
    for table in TABLES {
        for ending in ["csv", "parquet"] {
            let file = out.join(format!("{table}.{ending}"));
            succeed(command(folder).arg("export").arg(session).args(["--what", table, "--output"]).arg(file));
        }
    }
    out
}

/// Runs Python with pandas and DuckDB, which `.ci/from-pypi readers` installs.
fn python(arguments: &[&Path]) -> String {
    let readers =
        Command::new("python3").arg(root().join(".ci/from-pypi")).args(["readers", "--print"]).output().unwrap();
    let readers = PathBuf::from(String::from_utf8(readers.stdout).unwrap().trim());
    assert!(readers.is_dir(), "pandas and DuckDB are not in {}: type `make readers`", readers.display());
    let output = succeed(Command::new("python3").env("PYTHONPATH", readers).args(arguments));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn pandas_and_duckdb_read_back_what_the_logs_say() {
    let folder = TempDir::new().unwrap();
    let oracle = root().join("tests/oracles/exported.py");
    for session in [golden(folder.path(), "gpu"), golden(folder.path(), "ranks"), odd(folder.path())] {
        let output = python(&[&oracle, &session, &export(folder.path(), &session)]);
        assert!(output.contains("agree"), "{output}");
    }
}

#[test]
fn tables_have_typed_columns_safe_text_and_a_row_for_a_run_that_never_started() {
    let folder = TempDir::new().unwrap();
    let session = odd(folder.path());
    let export = |arguments: &[&str]| {
        let output = succeed(command(folder.path()).arg("export").arg(&session).args(arguments));
        String::from_utf8(output.stdout).unwrap()
    };
    let runs = export(&["--what", "runs"]);
    let head = runs.lines().next().unwrap();
    assert!(head.starts_with("session,plan,run,run_order,cell,workload,data,mode,traced,repeat,seed,state,"), "{head}");
    assert!(head.ends_with("marks,precision,batch,factor_rank,learning_rate,reading,unit,value,in_tables"), "{head}");
    let first = runs.lines().nth(1).unwrap();
    assert!(first.starts_with(r#"odd,"'=HYPERLINK(""x""), ""quoted""",0001-a,,c1,image,"#), "{first}");
    assert!(first.contains(",'-fp16,64,8,0.5,"), "{first}");
    let never = runs.lines().last().unwrap();
    assert!(never.contains(",0002-a,,") && never.ends_with(",'-fp16,auto,8,0.5,,,,false"), "{never}");
    let steps = export(&["--what", "steps", "--filter", "batch=64 and state=finished"]);
    assert!(steps.lines().next().unwrap().ends_with(",units,warm_up,recorded,gradient_norm"), "{steps}");
    assert_eq!(steps.lines().count(), 301);
    assert!(steps.lines().nth(17).unwrap().contains(",NaN,64,false,"));
    assert!(steps.lines().nth(2).unwrap().ends_with(",64,true,false,-1e-30"));
    assert!(steps.lines().nth(1).unwrap().ends_with(",64,true,false,"));
}

#[test]
fn a_wrong_filter_or_folder_leaves_no_file_and_says_what_is_wrong() {
    let folder = TempDir::new().unwrap();
    let session = odd(folder.path());
    let stderr_of = |arguments: &[&str]| {
        let mut command = command(folder.path());
        let output = command.current_dir(folder.path()).arg("export").arg(&session).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, text) = stderr_of(&["--what", "runs", "--filter", "gpus >"]);
    assert!(code == Some(2) && text.contains("--filter") && text.contains("character"), "{text}");
    let (code, text) = stderr_of(&["--what", "steps", "--output", "missing/steps.parquet"]);
    assert!(code == Some(2) && text.contains("writing missing/steps.parquet"), "{text}");
    let (code, text) = stderr_of(&["--what", "steps", "--filter", "precision=fp99", "--output", "none.parquet"]);
    assert!(code == Some(0) && text.contains("no run of the session matches"), "{text}");
    assert!(folder.path().join("none.parquet").exists());
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().ends_with(".part")), "{left:?}");
}

#[test]
fn links_pipes_and_devices_stay_what_they_are_whatever_command_writes_to_them() {
    let folder = TempDir::new().unwrap();
    let session = golden(folder.path(), "repeats");
    let at = |name: &str| folder.path().join(name);
    let run = |arguments: &[&str]| {
        let mut command = command(folder.path());
        command.current_dir(folder.path()).arg(arguments[0]).arg(&session).args(&arguments[1..]).output().unwrap()
    };
    let rows = &["export", "--what", "runs", "--output"][..];
    let table = run(&["export", "--what", "runs"]).stdout;
    // A device that a rename would replace, by a link: no test puts the machine's own at risk.
    symlink("/dev/null", at("null.csv")).unwrap();
    symlink("/dev/null", at("null.svg")).unwrap();
    fs::write(at("file.csv"), "before").unwrap();
    symlink("file.csv", at("link.csv")).unwrap();
    symlink("file.svg", at("link.svg")).unwrap();
    for (arguments, name) in [
        (rows, "null.csv"),
        (rows, "link.csv"),
        (&["figure", "--preset", "times", "--out"], "null.svg"),
        (&["figure", "--preset", "times", "--out"], "link.svg"),
    ] {
        let output = run(&[arguments, &[name]].concat());
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(at(name).is_symlink(), "{name}");
    }
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    assert_eq!(fs::read(at("file.csv")).unwrap(), table);
    assert!(fs::read_to_string(at("file.svg")).unwrap().contains("<svg"));
    // Standard output by its name, which is a pipe here and a file there.
    let output = run(&[rows, &["/dev/stdout"]].concat());
    assert!(output.status.success() && output.stdout == table, "{}", String::from_utf8_lossy(&output.stderr));
    let to_file = fs::File::create(at("whole.csv")).unwrap();
    let mut command = command(folder.path());
    succeed(command.arg("export").arg(&session).args(["--what", "runs", "-o", "/dev/stdout"]).stdout(to_file));
    assert_eq!(fs::read(at("whole.csv")).unwrap(), table);
    assert!(Command::new("mkfifo").arg(at("pipe.csv")).status().unwrap().success());
    let output = run(&[rows, &["pipe.csv"]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(2) && stderr.contains("pipe.csv: it is a socket, or a pipe that no program reads"),
        "{stderr}"
    );
    let mut reader = Command::new("cat").arg(at("pipe.csv")).stdout(Stdio::piped()).spawn().unwrap();
    // It is refused until the reader has opened it.
    let start = Instant::now();
    while !run(&[rows, &["pipe.csv"]].concat()).status.success() {
        assert!(start.elapsed() < Duration::from_secs(60));
    }
    let mut heard = Vec::new();
    reader.stdout.take().unwrap().read_to_end(&mut heard).unwrap();
    assert!(reader.wait().unwrap().success());
    assert_eq!(heard, table);
    assert!(fs::symlink_metadata(at("pipe.csv")).unwrap().file_type().is_fifo());
    // What must not exist yet is not replaced, be it a link that leads nowhere.
    symlink("nowhere", at("new.zip")).unwrap();
    let mut command = seeded::command(folder.path());
    let output = command.args(["session", "export"]).arg(&session).arg("--out").arg(at("new.zip")).output().unwrap();
    assert!(output.status.code() == Some(2) && at("new.zip").is_symlink(), "{:?}", output.status);
}

/// The same session with all times of steps longer, as if its machine had become slower.
fn slowed(folder: &Path, session: &Path, factor: f64) -> PathBuf {
    let slow = folder.join(format!("times-{factor}"));
    for entry in fs::read_dir(session.join("runs")).unwrap() {
        let run = entry.unwrap();
        let to = slow.join("runs").join(run.file_name());
        fs::create_dir_all(&to).unwrap();
        for file in fs::read_dir(run.path()).unwrap() {
            let file = file.unwrap();
            let text = fs::read_to_string(file.path()).unwrap();
            let is_log = file.file_name().to_string_lossy().starts_with("rank-");
            let line = |line: &str| {
                let mut event: serde_json::Value = serde_json::from_str(line).unwrap();
                if event["event"] == "step" {
                    event["duration_s"] = (event["duration_s"].as_f64().unwrap() * factor).into();
                }
                event.to_string() + "\n"
            };
            let text = if is_log { text.lines().map(line).collect() } else { text };
            fs::write(to.join(file.file_name()), text).unwrap();
        }
    }
    for file in ["session.toml", "journal.jsonl"] {
        fs::copy(session.join(file), slow.join(file)).unwrap();
    }
    slow
}

#[test]
fn sessions_after_a_change_are_worse_no_worse_or_open_by_the_spread_between_sessions() {
    let folder = TempDir::new().unwrap();
    let session = golden(folder.path(), "repeats");
    let sessions = |factors: [f64; 3]| factors.map(|factor| slowed(folder.path(), &session, factor));
    let (before, slower) = (sessions([1.0, 1.005, 0.995]), sessions([1.25, 1.256, 1.244]));
    let diff = |before: &[PathBuf], after: &[PathBuf], options: &[&str]| {
        let mut command = command(folder.path());
        let output = command.arg("diff").args(before).arg("--").args(after).args(options).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, table, _) = diff(&before, &slower, &[]);
    assert_eq!((code, table.matches("slower").count()), (Some(1), 2), "{table}");
    assert!(table.contains("environment before: not recorded"), "{table}");
    let (code, table, _) = diff(&slower, &before, &["--margin", "2%"]);
    assert_eq!((code, table.matches("faster").count()), (Some(0), 2), "{table}");
    let (code, table, _) = diff(&before, &sessions([1.001, 0.997, 1.003]), &["--margin", "2%"]);
    assert_eq!((code, table.matches("equal within 2 %").count()), (Some(0), 2), "{table}");
    // A difference that is within the asked bound is no regression.
    let (code, table, _) = diff(&before, &slower, &["--margin", "40%"]);
    assert_eq!((code, table.matches("equal within 40 %").count()), (Some(0), 2), "{table}");
    let (code, _, stderr) = diff(&before, &slower, &["--margin", "0.4"]);
    assert!(code == Some(2) && stderr.contains("is that 0.4 % or 40 %?"), "{stderr}");
    // One session a side does not tell how far sessions differ.
    let (code, table, _) = diff(&before[..1], &slower[..1], &[]);
    assert_eq!((code, table.matches("each side is one session").count() > 1), (Some(3), true), "{table}");
    let (code, _, stderr) = diff(&before, &[golden(folder.path(), "gpu")], &[]);
    assert!(code == Some(2) && stderr.contains("no cell in common"), "{stderr}");
    let mut several = command(folder.path());
    let output = several.arg("diff").args(&before).output().unwrap();
    assert!(output.status.code() == Some(2) && String::from_utf8_lossy(&output.stderr).contains("put -- between"));
}

#[test]
fn no_output_replaces_the_journal_of_a_session_or_files_of_other_writers() {
    let folder = TempDir::new().unwrap();
    let session = golden(folder.path(), "repeats");
    let project = folder.path().join("project");
    fs::create_dir(&project).unwrap();
    let at = |name: &str| project.join(name);
    let journal = session.join("journal.jsonl");
    let kept = fs::read(&journal).unwrap();
    for name in ["README.md", "page.html", "fig.tex", "drawing.svg"] {
        fs::write(at(name), "of another writer\n").unwrap();
    }
    let path = |path: PathBuf| path.display().to_string();
    let figure = ["--preset", "times", "--out"].map(str::to_owned);
    for (word, arguments, expected) in [
        (
            "export",
            vec!["--what".to_owned(), "runs".into(), "--output".into(), path(journal.clone())],
            "belongs to the session",
        ),
        ("report", vec!["--out".to_owned(), path(session.clone())], "a session's folder"),
        ("report", vec!["--out".to_owned(), path(project.clone())], "README.md exists, and multicard did not write it"),
        ("report", vec!["--out".to_owned(), path(at("page.html"))], "page.html exists"),
        ("figure", [&figure[..], &[path(at("drawing.svg"))]].concat(), "drawing.svg exists"),
        (
            "figure",
            [&figure[..], &[path(at("new.svg")), "--tex".to_owned(), path(at("fig.tex"))]].concat(),
            "fig.tex exists",
        ),
    ] {
        let output = command(folder.path()).arg(word).arg(&session).args(&arguments).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && stderr.contains(expected), "{word} {arguments:?}: {stderr}");
    }
    assert_eq!(fs::read(&journal).unwrap(), kept);
    assert!(!session.join("README.md").exists() && !at("new.svg").exists() && !at("figures").exists());
    for name in ["README.md", "page.html", "fig.tex", "drawing.svg"] {
        assert_eq!(fs::read_to_string(at(name)).unwrap(), "of another writer\n");
    }
    // Its own outputs are replaced, as a Makefile does.
    for _ in 0..2 {
        let out = at("own.pdf");
        let drawn =
            ["--preset", "times", "--out", out.to_str().unwrap(), "--tex", &path(at("own.tex"))].map(str::to_owned);
        succeed(command(folder.path()).arg("figure").arg(&session).args(drawn));
        succeed(command(folder.path()).arg("report").arg(&session).arg("--out").arg(at("report")));
        succeed(command(folder.path()).arg("report").arg(&session).arg("--out").arg(at("own.html")));
        succeed(command(folder.path()).arg("manual").arg("--out").arg(at("manual.html")));
    }
}

#[test]
fn a_full_standard_output_is_named() {
    let folder = TempDir::new().unwrap();
    let session = golden(folder.path(), "repeats");
    for arguments in [&["table"][..], &["export", "--what", "runs"]] {
        let mut command = command(folder.path());
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = command.arg(arguments[0]).arg(&session).args(&arguments[1..]).stdout(full).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(2) && stderr.contains("writing to standard output: No space left"),
            "{stderr}"
        );
    }
}

#[test]
fn copies_of_a_session_are_refused_as_further_sessions_with_both_names() {
    let folder = TempDir::new().unwrap();
    let session = golden(folder.path(), "repeats");
    let (copy, again) = (folder.path().join("copy"), folder.path().join("again"));
    seeded::copy(&session, &copy);
    let archive = folder.path().join("archive-of-it.zip");
    succeed(command(folder.path()).args(["session", "export"]).arg(&session).arg("--out").arg(&archive));
    succeed(command(folder.path()).args(["session", "import"]).arg(&archive).arg("--session").arg(&again));
    for other in [&copy, &again] {
        for word in ["table", "diff"] {
            let output = command(folder.path()).arg(word).arg(&session).arg(other).output().unwrap();
            let stderr = String::from_utf8(output.stderr).unwrap();
            let expected = format!("{} and {} both contain the run", session.display(), other.display());
            assert!(output.status.code() == Some(2) && stderr.contains(&expected), "{word}: {stderr}");
        }
    }
    let changed = slowed(folder.path(), &session, 1.25);
    let diff = command(folder.path()).arg("diff").args([&session, &copy]).arg("--").arg(&changed).output().unwrap();
    assert_eq!(diff.status.code(), Some(2), "{}", String::from_utf8_lossy(&diff.stdout));
    // The same runs with other numbers are no copy.
    assert_ne!(command(folder.path()).arg("diff").args([&session, &changed]).output().unwrap().status.code(), Some(2));
}

#[test]
fn old_sessions_say_what_they_did_not_record() {
    let folder = TempDir::new().unwrap();
    let session = golden(folder.path(), "gpu");
    let stderr_of = |arguments: &[&str]| {
        let output = succeed(command(folder.path()).args(arguments).arg(&session));
        String::from_utf8(output.stdout).unwrap()
    };
    let shown = stderr_of(&["session", "show"]);
    assert!(shown.contains("- runs: 8 finished") && shown.ends_with("Not recorded.\n"), "{shown}");
    let methods = stderr_of(&["methods"]);
    for part in ["NVIDIA H100", "was not recorded", "Each cell has 2 finished repeats", "holds the true median in 50 %"]
    {
        assert!(methods.contains(part), "{part:?}: {methods}");
    }
    let cited = stderr_of(&["cite"]);
    assert!(cited.contains("@software{multicard,") && cited.contains("@misc{measurements-gpu,"), "{cited}");
    assert!(cited.contains("8 finished runs of 8") && cited.contains("NVIDIA H100"), "{cited}");
}

#[test]
fn energy_of_steady_steps_is_told_for_each_image_of_runs_on_gpus_alone() {
    let folder = TempDir::new().unwrap();
    let table = |session: &Path| {
        let mut command = command(folder.path());
        let output = succeed(command.arg("table").arg(session).args(["--preset", "energy", "--format", "json"]));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let on_gpu = table(&golden(folder.path(), "gpu"));
    let rows = on_gpu["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        let median = |key: &str| row[key]["median"].as_f64().unwrap();
        // An H100 draws 50 to 700 W; a small network takes well below a joule for each image.
        assert!((50.0..700.0).contains(&median("power_w")), "{row}");
        assert!((1e-4..1.0).contains(&median("energy_per_unit_j")), "{row}");
    }
    let on_cpu = table(&golden(folder.path(), "repeats"));
    assert!(
        on_cpu["notes"].to_string().contains("energy: none, because these runs used no GPU"),
        "{}",
        on_cpu["notes"]
    );
}
