//! What ends early: interrupted and killed runs, plans that are refused, a full disk, a closed pipe, a deleted log.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::training::{alone, data_folder, rank_logs, run_command, text, wait_for, worker};
use super::{SMALL, journal, one_cell, run_plan};

/// The process of the rank of the first run, once it has said `word`.
fn pid_of_first_run(session: &Path, word: &str) -> Option<u64> {
    let log = rank_logs(session).into_iter().next().filter(|log| log.contains(word))?;
    let started: Value = serde_json::from_str(log.lines().next()?).ok()?;
    started["pid"].as_u64()
}

#[test]
fn an_interrupt_ends_the_whole_group_and_exits_130() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let plan = SMALL.replace("epochs = 2", "epochs = 10000");
    let (mut command, session) = run_command(&folder, &plan);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    let pid = wait_for(|| pid_of_first_run(&session, "\"step\""));
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    // One was running, three never started.
    let stderr = text(&output.stderr);
    assert!(stderr.contains("0 finished, 4 did not"), "{stderr}");
    wait_for(|| (!Path::new(&format!("/proc/{pid}")).exists()).then_some(()));
}

#[test]
fn a_rank_that_is_killed_fails_its_run_and_the_queue_goes_on() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let plan = SMALL.replace(r#"["nchw", "nhwc"]"#, r#""nchw""#).replace("epochs = 2", "epochs = 8");
    let (mut command, session) = run_command(&folder, &plan);
    let mut child = command.spawn().unwrap();
    let pid = wait_for(|| pid_of_first_run(&session, "\"started\""));
    assert!(Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let ended: Vec<Value> = journal(&session).into_iter().filter(|line| line["decision"] == "run_ended").collect();
    let states: Vec<_> = ended.iter().map(|line| line["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["failed", "finished"]);
    assert!(ended[0]["reason"].as_str().unwrap().contains("SIGKILL"), "{}", ended[0]["reason"]);
}

#[test]
fn bad_input_is_named_and_exits_2_with_nothing_written() {
    let cases = [
        ("misspelt key", SMALL.replace("precision =", "precison ="), "precision"),
        ("unknown level", SMALL.replace("\"fp32\"", "\"fp23\""), "fp32"),
        ("wrong type", SMALL.replace("image_size = 32", "image_size = \"big\""), "image_size"),
        ("empty factor", SMALL.replace(r#"["fp32", "fp64"]"#, "[]"), "precision"),
        ("newer version", SMALL.replace("version = 1", "version = 99"), "99"),
        ("study of no form", format!("{SMALL}[[study]]\nname = \"mine\"\nform = \"bras\"\n"), ":21: study.form: "),
        ("absent data", SMALL.replace("\"digits\"", "\"mnist\""), "mnist"),
    ];
    for (name, plan, expected) in cases {
        let folder = TempDir::new().unwrap();
        let (output, session) = run_plan(&folder, &plan, &[]);
        assert_eq!(output.status.code(), Some(2), "{name}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(expected), "{name}: {}", text(&output.stderr));
        assert!(!session.exists(), "{name} left a session behind");
    }
}

#[test]
fn without_a_worker_the_message_says_what_to_do() {
    let folder = TempDir::new().unwrap();
    let (mut command, session) = run_command(&folder, SMALL);
    let output = command.env("MULTICARD_WORKER", folder.path().join("absent")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("absent"), "{}", text(&output.stderr));
    assert!(!session.exists());
}

#[test]
fn a_disk_that_fills_up_is_told_and_what_is_missing_is_run_once_there_is_room() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("plan.toml");
    fs::write(&file, SMALL).unwrap();
    let room = folder.path().join("room");
    fs::create_dir(&room).unwrap();
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-Urm", "sh", "-euc", script, env!("CARGO_BIN_EXE_multicard")]).arg(&room).arg(&file);
        command.env("MULTICARD_WORKER", worker()).env("MULTICARD_DATA", data_folder());
        command.output()
    };
    if !unshare("mount -t tmpfs none /mnt").is_ok_and(|output| output.status.success()) {
        println!("skipped: this system does not permit mounts in a user namespace (unshare -Urm)");
        return;
    }
    let output = unshare(
        "mount -t tmpfs -o size=16m none \"$1\"
        \"$0\" run \"$2\" --session \"$1/s\" 2> \"$1.said\" & run=$!
        until [ -n \"$(ls \"$1\"/s/runs/*/rank-0.jsonl 2> /dev/null)\" ]; do kill -0 $run; sleep 0.02; done
        dd if=/dev/zero of=\"$1/fill\" bs=64k 2> /dev/null || true
        until grep -q 'space on' \"$1.said\"; do kill -0 $run; sleep 0.02; done
        rm \"$1/fill\"; mount -o remount,size=64m \"$1\"
        wait $run || test $? = 1
        cat \"$1.said\" >&2
        \"$0\" run \"$2\" --session \"$1/s\" --resume
        \"$0\" table \"$1/s\" --preset times --format json",
    );
    let output = output.unwrap();
    assert!(output.status.success(), "{:?} {}", output.status.code(), text(&output.stderr));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("free some space"), "{stderr}");
    let times: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = times["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row["step_time_s"]["n"] == 1), "{times}");
}

/// A plan of two runs that take a while.
fn long_plan() -> String {
    SMALL.replace(r#"["fp32", "fp64"]"#, r#""fp32""#).replace("epochs = 2", "epochs = 200")
}

#[test]
fn a_closed_pipe_interrupts_a_run_and_the_journal_says_so() {
    use std::io::{BufRead, BufReader};
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let (mut command, session) = run_command(&folder, &long_plan());
    let mut child = command.args(["--format", "json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // As `| head -1` does.
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("cannot write events: writing to standard output: Broken pipe"),
        "{}",
        text(&output.stderr)
    );
    let journal = fs::read_to_string(session.join("journal.jsonl")).unwrap();
    assert_eq!(journal.lines().filter(|line| line.contains(r#""decision":"run_ended""#)).count(), 2, "{journal}");
    assert_eq!(journal.matches(r#""state":"cancelled""#).count(), 2, "{journal}");
}

#[test]
fn a_run_whose_log_is_deleted_while_it_runs_has_not_finished() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let (mut command, session) = run_command(&folder, &one_cell().replace("train_images = 96", "train_images = 64"));
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    let steps = |log: &String| log.contains(r#""event":"step""#);
    wait_for(|| rank_logs(&session).iter().any(steps).then_some(()));
    let run = fs::read_dir(session.join("runs")).unwrap().flatten().next().unwrap().path();
    fs::remove_file(run.join("rank-0.jsonl")).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("rank-0.jsonl was deleted, replaced or cut off"), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("0 finished, 1 did not"), "{}", text(&output.stderr));
}
