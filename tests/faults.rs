//! What disks, clocks and other programs do to a session: cut and garbled logs, set clocks, full disks, folders that cannot be
//! written, file systems on which SQLite's index may not lie.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use multicard::analysis::{Mark, summarise_run};
use multicard::store::{Reader, RebuildReport, RunRecord, Store, StoreError, rebuild};
use tempfile::TempDir;

mod seeded;

use seeded::{command, copy, files, multicard, records, session, succeed, tables, text, with_mounts};

fn remade(session: &Path) -> RebuildReport {
    rebuild(session, &mut |_, _| {}).unwrap()
}

/// The logs of the session, in its folder.
fn logs(session: &Path) -> Vec<String> {
    let logs = files(session).into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    logs.map(|path| path.strip_prefix(session).unwrap().to_str().unwrap().to_owned()).collect()
}

/// Cuts a log at some bytes: what is left must be read as the whole lines before, and a torn line must be named.
fn cut(session: &Path, log: &str, places: impl Iterator<Item = usize>) {
    let (path, before) = (session.join(log), records(session));
    let whole = fs::read(&path).unwrap();
    for at in places.take_while(|at| *at < whole.len()) {
        fs::write(&path, &whole[..at]).unwrap();
        let report = remade(session);
        assert_eq!(report.damaged, Vec::<String>::new(), "{log} cut at {at}");
        let lines = whole[..at].iter().filter(|byte| **byte == b'\n').count();
        let torn = at > 0 && whole[at - 1] != b'\n';
        // Nobody reads the supervisor's log again.
        if !log.ends_with("group.jsonl") {
            let place = format!("{log}:{}: ", lines + 1);
            assert_eq!(report.torn.iter().filter(|text| text.starts_with(&place)).count(), usize::from(torn), "{at}");
        }
        for record in records(session) {
            let before_run = before.iter().find(|before_run| before_run.run == record.run).unwrap();
            for rank in &record.ranks {
                let whole = &before_run.ranks.iter().find(|before_rank| before_rank.rank == rank.rank).unwrap();
                assert!(
                    whole.steps.starts_with(&rank.steps)
                        && rank.readings.iter().all(|one| whole.readings.contains(one))
                );
            }
            assert!(record.telemetry.samples <= before_run.telemetry.samples);
        }
    }
    fs::write(&path, &whole).unwrap();
    remade(session);
    for (now, before) in records(session).iter().zip(&before) {
        assert_eq!(now, before, "{log}");
    }
}

/// Puts a byte that no log has in the place of others: its line must be named, and the other runs stay as they are.
fn garble(session: &Path, log: &str, places: impl Iterator<Item = usize>) {
    let (path, before) = (session.join(log), records(session));
    let whole = fs::read(&path).unwrap();
    for at in places.take_while(|at| *at < whole.len()) {
        let mut bytes = whole.clone();
        bytes[at] = if at % 2 == 0 { 0 } else { 0xff };
        fs::write(&path, bytes).unwrap();
        let report = remade(session);
        let line = 1 + whole[..at].iter().filter(|byte| **byte == b'\n').count();
        let place = format!("{log}:{line}: ");
        let named = report.damaged.iter().chain(&report.torn).any(|text| text.starts_with(&place));
        assert!(named || log.ends_with("group.jsonl"), "{place}{report:?}");
        for (record, before_run) in records(session)
            .iter()
            .filter_map(|record| Some((record, before.iter().find(|record_before| record_before.run == record.run)?)))
        {
            if !log.contains(&record.run) && log != "journal.jsonl" {
                assert_eq!(record, before_run);
            }
        }
    }
    fs::write(&path, &whole).unwrap();
    // A log of the same length is not read again by itself.
    remade(session);
}

#[test]
fn logs_cut_or_garbled_at_many_bytes_are_read_and_named() {
    let session = session();
    for log in logs(session.path()) {
        cut(session.path(), &log, (0..).step_by(131));
        garble(session.path(), &log, (0..).step_by(137));
    }
}

#[test]
#[ignore = "takes minutes: every byte"]
fn logs_cut_or_garbled_at_every_byte_are_read_and_named() {
    let session = session();
    let mut bytes = 0;
    for log in logs(session.path()) {
        bytes += fs::metadata(session.path().join(&log)).unwrap().len();
        cut(session.path(), &log, 0..);
        garble(session.path(), &log, 0..);
    }
    println!("{bytes} cuts and {bytes} garbled bytes");
}

#[test]
fn a_journal_whose_lines_are_out_of_order_is_named() {
    let session = session();
    let path = session.path().join("journal.jsonl");
    let (journal, before) = (fs::read_to_string(&path).unwrap(), records(session.path()));
    let reversed: String = journal.lines().rev().map(|line| format!("{line}\n")).collect();
    fs::write(&path, reversed).unwrap();
    let report = remade(session.path());
    // Once a run.
    assert_eq!(report.damaged.len(), before.len(), "{:?}", report.damaged);
    for run in before {
        let words = format!("it queues the run {}, which earlier lines already mention", run.run);
        assert!(report.damaged.iter().any(|named| named.starts_with("journal.jsonl:") && named.contains(&words)));
    }
    let home = TempDir::new().unwrap();
    let shown = multicard(home.path(), &["session", "show", session.path().to_str().unwrap()]);
    assert!(text(&shown.stderr).contains("out of order"), "{}", text(&shown.stderr));
}

#[test]
fn a_session_file_cut_at_any_byte_is_refused_by_name() {
    let session = session();
    let path = session.path().join("session.toml");
    let whole = fs::read(&path).unwrap();
    let content = whole.trim_ascii_end().len();
    for at in 0..content {
        fs::write(&path, &whole[..at]).unwrap();
        let error = Reader::open(session.path()).err().unwrap_or_else(|| panic!("opened, cut at {at}")).to_string();
        assert!(error.contains("session.toml"), "{error}");
    }
}

#[test]
fn a_clock_that_is_set_changes_no_measure() {
    let session = session();
    let measures = || -> Vec<String> {
        remade(session.path());
        let measures = |record| {
            let mut summary = summarise_run(record);
            // The picture of what ranks did when is drawn by that clock, and left out with a mark where that was set.
            summary.activity.clear();
            // So is the start that the clock told.
            summary.started_s = None;
            summary.marks.retain(|mark| *mark != Mark::ClockSet);
            format!("{summary:?}")
        };
        records(session.path()).iter().map(measures).collect()
    };
    let before = measures();
    let logs = logs(session.path()).into_iter().filter(|log| !log.ends_with("samples.jsonl"));
    let whole: Vec<_> = logs.map(|log| (fs::read_to_string(session.path().join(&log)).unwrap(), log)).collect();
    // From the middle of each log on, the clock is an hour back, or an hour ahead.
    for shift_s in [-3600.0, 3600.0] {
        for (text, log) in &whole {
            let middle = text.lines().count() / 2;
            let shifted = text.lines().enumerate().map(|(number, line)| {
                let (before, rest) = line.split_once("\"time_s\":").unwrap();
                let (time_s, after) = rest.split_once(',').unwrap();
                let time_s: f64 = time_s.parse().unwrap();
                let time_s = if number < middle { time_s } else { time_s + shift_s };
                format!("{before}\"time_s\":{time_s},{after}\n")
            });
            let shifted: String = shifted.collect();
            fs::write(session.path().join(log), shifted).unwrap();
        }
        assert_eq!(measures(), before, "{shift_s}");
        let marked = |record: &RunRecord| summarise_run(record).marks.contains(&Mark::ClockSet);
        assert!(records(session.path()).iter().any(marked), "{shift_s}");
    }
    let runs = records(session.path()).into_iter().map(|record| record.run);
    assert!(runs.is_sorted(), "the order is the journal's");
}

#[test]
fn a_second_workbench_may_read_and_is_told_so() {
    let (home, session) = (TempDir::new().unwrap(), session());
    let path = session.path().display().to_string();
    let first = Store::open(session.path()).unwrap();
    assert!(matches!(Store::open(session.path()), Err(StoreError::InUse { .. })));
    let refused = multicard(home.path(), &["session", "rebuild", &path]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("is writing this session: attach to it"), "{}", text(&refused.stderr));
    assert!(!tables(home.path(), session.path())[0].is_empty());
    drop(first);
    assert!(multicard(home.path(), &["session", "rebuild", &path]).status.success());
}

#[test]
fn a_session_that_another_user_writes_comes_without_advice_to_attach_to_it_or_to_end_it() {
    let (home, session) = (TempDir::new().unwrap(), session());
    let _first = Store::open(session.path()).unwrap();
    fs::write(session.path().join("session.lock"), "process 4711 of anna on node7 (multicard conduct)").unwrap();
    let rebuild = |user: &str| {
        let mut command = command(home.path());
        command.args(["session", "rebuild"]).arg(session.path()).env("USER", user);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    };
    let other = rebuild("berta");
    assert!(
        other.contains("process 4711 of anna on node7 (multicard conduct) is writing this session: only"),
        "{other}"
    );
    assert!(!other.contains("attach") && !other.contains("stop"), "{other}");
    let own = rebuild("anna");
    assert!(own.contains("is writing this session: attach to it (`multicard attach`)"), "{own}");
}

#[test]
fn where_the_index_may_not_lie_beside_the_logs_it_lies_in_local_state() {
    let (home, session) = (TempDir::new().unwrap(), session());
    let path = session.path().display().to_string();
    let before = multicard(home.path(), &["table", &path]);
    without_index(session.path());
    let mut elsewhere = command(home.path());
    let after = elsewhere.env("MULTICARD_INDEX", "state").args(["table", &path]).output().unwrap();
    assert!(after.status.success(), "{}", text(&after.stderr));
    assert_eq!(text(&after.stdout), text(&before.stdout));
    assert!(files(session.path()).iter().all(|path| !path.to_string_lossy().contains("sqlite")));
    let indexes = files(&home.path().join("state/multicard/indexes"));
    assert!(indexes.iter().any(|path| path.extension().is_some_and(|extension| extension == "sqlite")), "{indexes:?}");
}

#[test]
fn an_index_in_local_state_is_not_used_for_another_session_that_took_the_place_of_its_own() {
    let home = TempDir::new().unwrap();
    let on_it = |arguments: &[&str]| {
        let mut command = command(home.path());
        command.env("MULTICARD_INDEX", "state").args(arguments).current_dir(home.path());
        succeed(&mut command)
    };
    let rows = |times: [&str; 2]| -> String {
        (1..5).map(|rep| format!("gcc,{rep},{}{rep}\nicc,{rep},{}{rep}\n", times[0], times[1])).collect()
    };
    for (file, times) in [("a.csv", ["1.5", "1.0"]), ("b.csv", ["1.0", "1.5"])] {
        fs::write(home.path().join(file), format!("compiler,rep,time (s)\n{}", rows(times))).unwrap();
    }
    let session = home.path().join("s");
    let import = |file: &str| {
        on_it(&["import", file, "--session", "s", "--yes"]);
        fs::metadata(session.join("journal.jsonl")).unwrap().len()
    };
    let table = || {
        let output = on_it(&["table", "s", "--format", "csv"]);
        (text(&output.stdout), text(&output.stderr))
    };
    let bytes = import("a.csv");
    let first = table();
    // The times in a journal do not all have the same number of digits.
    let is_as_long = (0..200).any(|_| {
        fs::remove_dir_all(&session).unwrap();
        import("b.csv") == bytes
    });
    assert!(is_as_long);
    let second = table();
    assert!(second != first && !second.1.contains("damaged"), "{second:?}");
    on_it(&["session", "rebuild", "s"]);
    assert_eq!(table(), second);
}

/// Refuses locks of files below the folder `LOCKLESS`, as NFS does without lockd.
const WITHOUT_LOCKS: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int flock(int file, int operation) {
  char link[64], path[PATH_MAX] = {0};
  snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  const char *folder = getenv("LOCKLESS");
  if (readlink(link, path, sizeof(path) - 1) > 0 && strncmp(path, folder, strlen(folder)) == 0) {
    errno = ENOLCK;
    return -1;
  }
  return syscall(SYS_flock, file, operation);
}
"#;

#[test]
fn a_session_on_a_file_system_without_locks_is_read_and_writing_it_is_refused_with_what_to_do() {
    let (home, session) = (TempDir::new().unwrap(), session());
    let before = tables(home.path(), session.path());
    without_index(session.path());
    let [source, library, plan] = ["locks.c", "locks.so", "own.toml"].map(|name| home.path().join(name));
    fs::write(&source, WITHOUT_LOCKS).unwrap();
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    assert!(compiled.expect("cc, which links this test").success());
    fs::write(&plan, "version = 1\n[command]\nname = \"own\"\nrun = [\"true\"]\n").unwrap();
    let folder = session.path().canonicalize().unwrap();
    let on_it = |arguments: &[&str]| {
        let mut command = command(home.path());
        command.env("LD_PRELOAD", &library).env("LOCKLESS", &folder).env("MULTICARD_INDEX", "state");
        command.args(arguments).stdin(Stdio::null()).output().unwrap()
    };
    let path = folder.to_str().unwrap();
    let table = on_it(&["table", path, "--preset", "times", "--format", "md"]);
    assert!(table.status.success(), "{}", text(&table.stderr));
    assert_eq!(text(&table.stdout), before[0]);
    let run = on_it(&["run", plan.to_str().unwrap(), "--session", path]);
    assert_eq!(run.status.code(), Some(2));
    let message = text(&run.stderr);
    assert!(message.contains("No locks available") && message.contains("such as a local disk"), "{message}");
}

/// Takes away the index and what belongs to it.
fn without_index(session: &Path) {
    for file in files(session).iter().filter(|path| path.to_string_lossy().contains("session.sqlite")) {
        fs::remove_file(file).unwrap();
    }
}

#[test]
fn a_session_in_a_folder_that_cannot_be_written_can_be_read() {
    let (home, session) = (TempDir::new().unwrap(), session());
    let before = tables(home.path(), session.path());
    without_index(session.path());
    let script = "mount --bind \"$1\" \"$1\"; mount -o remount,bind,ro \"$1\"
        \"$0\" table \"$1\" --preset times --format md
        if \"$0\" session import \"$2\" --session \"$1/copy\"; then exit 9; fi";
    let archive = home.path().join("a.zip");
    multicard::store::export_session(session.path(), &archive, &mut |_, _| std::ops::ControlFlow::Continue(()))
        .unwrap();
    let Some(output) = with_mounts(home.path(), script, &[session.path(), &archive]) else { return };
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), before[0]);
    assert!(text(&output.stderr).contains("Read-only file system"), "{}", text(&output.stderr));
    assert!(files(session.path()).iter().all(|path| !path.to_string_lossy().contains("sqlite")));
}

#[test]
fn a_full_disk_is_told_and_leaves_sessions_and_archives_whole() {
    let (home, session, room) = (TempDir::new().unwrap(), session(), TempDir::new().unwrap());
    let before = tables(home.path(), session.path());
    let archive = home.path().join("a.zip");
    multicard::store::export_session(session.path(), &archive, &mut |_, _| std::ops::ControlFlow::Continue(()))
        .unwrap();
    let logs = home.path().join("logs");
    copy(&seeded::seeds().join("session"), &logs);
    // Room for the logs and nothing else; then for all.
    let script = "mount -t tmpfs -o size=400k none \"$1\"; cp -r \"$2\" \"$1/s\"
        head -c 400000 /dev/zero > \"$1/fill\" || true
        if \"$0\" session rebuild \"$1/s\" >&2; then exit 9; fi
        if \"$0\" table \"$1/s\" >&2; then exit 8; fi
        if \"$0\" session import \"$3\" --session \"$1/copy\" >&2; then exit 7; fi
        if \"$0\" session export \"$2\" --out \"$1/b.zip\" >&2; then exit 6; fi
        rm \"$1/fill\"; ls -A \"$1\" >&2; test \"$(ls -A \"$1\")\" = s
        diff -r -x 'session.*' \"$2\" \"$1/s\" >&2
        mount -o remount,size=16m \"$1\"; \"$0\" table \"$1/s\" --preset times --format md";
    let Some(output) = with_mounts(home.path(), script, &[room.path(), &logs, &archive]) else { return };
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{:?} {stderr}", output.status.code());
    assert_eq!(text(&output.stdout), before[0]);
    assert!(stderr.contains("free some space") && stderr.contains("are free"), "{stderr}");
}

#[test]
fn pipes_into_which_nobody_writes_are_refused_and_others_are_read() {
    let home = TempDir::new().unwrap();
    let pipe = home.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let plan = home.path().join("plan.toml");
    fs::write(&plan, "version = 1\n[command]\nrun = [\"true\"]\n").unwrap();
    let [pipe, plan] = [pipe, plan].map(|path| path.display().to_string());
    for (arguments, found) in [
        (&["plan", &pipe][..], "a pipe that no program writes to"),
        (&["run", &pipe], "a pipe that no program writes to"),
        (&["command", "test", &plan, "--log", &pipe], "a pipe that no program writes to"),
        (&["trace", &pipe], "not a regular file"),
        (&["session", "import", &pipe, "--session", "to"], "not a regular file"),
    ] {
        let mut child =
            command(home.path()).args(arguments).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let start = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if start.elapsed() > Duration::from_secs(60) {
                child.kill().unwrap();
                panic!("{arguments:?} waits for the pipe");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let output = child.wait_with_output().unwrap();
        let stderr = text(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains(found), "{arguments:?}: {stderr}");
    }
    let program = env!("CARGO_BIN_EXE_multicard");
    let script = format!(
        "{program} plan <(sleep 0.2; cat {plan}) && {program} command test {plan} --log <(echo step 1 loss 0.5)"
    );
    let mut bash = Command::new("bash");
    seeded::at_home(&mut bash, home.path());
    let output = bash.args(["-ec", &script]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn what_a_limit_of_the_process_keeps_from_working_is_told_with_that_limit() {
    let home = TempDir::new().unwrap();
    let plan = home.path().join("plan.toml");
    fs::write(&plan, "version = 1\n[command]\nrun = [\"true\"]\n").unwrap();
    let limited = |limit: &str, session: &str| {
        let program = env!("CARGO_BIN_EXE_multicard");
        let script = format!("ulimit {limit}; exec {program} run {} --session {session}", plan.display());
        let mut bash = Command::new("bash");
        seeded::at_home(&mut bash, home.path());
        let output = bash.args(["-c", &script]).current_dir(home.path()).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    for (limit, advice) in [("-n 12", "ulimit -n"), ("-n 16", "ulimit -n"), ("-f 4", "ulimit -f")] {
        let (code, stderr) = limited(limit, &format!("session{limit}").replace(' ', ""));
        assert!(code == Some(2) && stderr.contains(advice), "{limit}: {code:?} {stderr}");
    }
}

#[test]
fn a_small_stack_is_enough_for_help_and_for_tables() {
    let (home, from) = (TempDir::new().unwrap(), session());
    let (program, table) = (env!("CARGO_BIN_EXE_multicard"), format!("table {}", from.path().display()));
    for arguments in ["help trust", "--help", table.as_str()] {
        let mut bash = Command::new("bash");
        seeded::at_home(&mut bash, home.path());
        let output = bash.args(["-c", &format!("ulimit -s 256; exec {program} {arguments}")]).output().unwrap();
        assert!(output.status.success(), "{arguments}: {:?} {}", output.status, text(&output.stderr));
    }
}

#[test]
fn a_session_is_read_where_neither_it_nor_the_home_can_be_written() {
    let (home, from) = (TempDir::new().unwrap(), session());
    let (disk, temporary) = (home.path().join("disk"), home.path().join("temporary"));
    fs::create_dir(&disk).unwrap();
    fs::create_dir(&temporary).unwrap();
    let script = "mount -t tmpfs none \"$1\"
        mkdir \"$1/home\"
        cp -r \"$2\" \"$1/session\"
        rm -f \"$1\"/session/session.sqlite*
        mount -o remount,ro \"$1\"
        export HOME=\"$1/home\" TMPDIR=\"$3\"
        unset XDG_STATE_HOME XDG_DATA_HOME XDG_CACHE_HOME XDG_CONFIG_HOME
        \"$0\" session show \"$1/session\" --format json
        \"$0\" table \"$1/session\" > /dev/null";
    let Some(output) = with_mounts(home.path(), script, &[&disk, from.path(), &temporary]) else { return };
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs: u64 = shown["runs"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(runs as usize, records(from.path()).len(), "{shown}");
}

#[test]
fn a_session_is_usable_by_its_owner_whatever_root_did_in_it_and_a_file_that_forbids_that_is_named_with_its_owner() {
    const OWNER: u32 = 4711;
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can become another user");
        return;
    }
    let (home, scene) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let set_mode = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    set_mode(scene.path(), 0o755);
    // The other user may not be able to enter the folder of the built program.
    let (program, owned) = (scene.path().join("multicard"), scene.path().join("owned"));
    let link = "ln \"$0\" \"$1\" || cp \"$0\" \"$1\"";
    succeed(Command::new("sh").args(["-c", link, env!("CARGO_BIN_EXE_multicard")]).arg(&program));
    let session = owned.join("session");
    copy(&seeded::seeds().join("session"), &session);
    succeed(Command::new("chown").args(["-R", &format!("{OWNER}:{OWNER}")]).arg(&owned));
    let as_owner = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        seeded::at_home(&mut command, &owned);
        command.args(arguments).arg(&session).current_dir(&owned).uid(OWNER).gid(OWNER);
        command
    };
    let owner_of = |path: &Path| path.metadata().unwrap().uid();
    let made = ["session.sqlite", "session.lock", "session.sqlite.lock"].map(|name| session.join(name));

    succeed(command(home.path()).arg("table").arg(&session));
    assert_eq!(made.each_ref().map(|path| owner_of(path)), [OWNER; 3]);
    succeed(&mut as_owner(&["table"]));

    // As versions left them that did not give them to the owner.
    for path in &made {
        chown(path, Some(0), Some(0)).unwrap();
    }
    succeed(&mut as_owner(&["table"]));
    assert_eq!(owner_of(&made[0]), OWNER, "it was made anew");
    succeed(&mut as_owner(&["session", "rebuild"]));

    set_mode(&made[2], 0o600);
    let stderr = seeded::refused(&mut as_owner(&["table"]));
    assert!(stderr.contains("session.sqlite.lock") && stderr.contains("it belongs to root"), "{stderr}");
    assert!(stderr.contains("`chown 4711`"), "{stderr}");
    set_mode(&session.join("session.toml"), 0o000);
    let stderr = seeded::refused(&mut as_owner(&["table"]));
    assert!(stderr.contains("session.toml") && stderr.contains("it is yours"), "{stderr}");
    set_mode(&session, 0o000);
    let stderr = seeded::refused(&mut as_owner(&["table"]));
    assert!(stderr.contains("session.toml") && stderr.contains("owned/session is yours"), "{stderr}");
}
