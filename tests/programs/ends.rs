//! How programs end: by themselves, by a fault, by their time, and when what watches them is killed. Nothing is left running.

use std::io::{BufRead as _, BufReader};

use super::*;

/// Starts `multicard run` with SIGHUP at its default or ignored, whatever the process of the tests does with it.
fn start_with(option: &str, run: &Command) -> Child {
    let mut command = Command::new("env");
    command.arg(option).arg(run.get_program()).args(run.get_args());
    command.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_program_that_fails_is_told_with_its_code_and_its_last_lines() {
    let scene = Scene::new();
    let plan = r#"
[command]
run = ["python3", "-c", "import sys, os\nprint('loading')\nprint('\\x1b[31mno such file: weights', file=sys.stderr)\nos.{way}"]
[factors]
way = ["_exit(7)", "abort()"]
"#;
    let output = scene.run(plan, &[]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("python3 exited with code 7; end of its output: [31mno such file: weights"), "{stderr}");
    assert!(stderr.contains("python3 was ended by SIGABRT"), "{stderr}");
}

#[test]
fn a_program_that_cannot_be_started_is_told_by_its_name() {
    let scene = Scene::new();
    fs::write(scene.programs().join("plain.py"), "print(1)").unwrap();
    executable::write(&scene.programs().join("garbage"), [0x7f, b'E', b'L', b'F', 0, 1, 2]);
    let plan = "[command]\nrun = [\"{program}\"]\nfolder = \"{programs}\"\n[factors]\n\
                program = [\"./gone\", \"no-such-program\", \"./plain.py\", \"./garbage\", \"./\"]\n";
    let stderr = text(&scene.run(plan, &[]).stderr);
    for expected in [
        "programs/./gone is not found",
        "\"no-such-program\" is not found in PATH",
        "plain.py is not executable: make it so with `chmod +x`",
        "./garbage exited with code",
        "is a folder",
        "0 finished, 5 did not",
    ] {
        assert!(stderr.contains(expected), "{expected}: {stderr}");
    }
    let elsewhere = scene.run("[command]\nrun = [\"true\"]\nfolder = \"/nonexistent/folder\"", &[]);
    assert!(text(&elsewhere.stderr).contains("the program's folder /nonexistent/folder does not exist"));
}

#[test]
fn daemons_that_leave_the_group_end_with_their_program_and_are_named() {
    let scene = Scene::new();
    let [marked, unmarked] = [own_sleep(), own_sleep()];
    let script = format!("setsid sleep {marked} & setsid env -i sleep {unmarked} & sleep 0.3; exit 0");
    scene.finish(&format!("[command]\nrun = [\"sh\", \"-c\", \"{script}\"]"));
    let warning_texts = warnings(&scene.runs()[0]);
    assert!(warning_texts.contains("left processes running when it ended: sleep (process "), "{warning_texts}");
    assert!(with_word(&marked).is_empty() && with_word(&unmarked).is_empty());
}

#[test]
fn a_program_over_its_time_that_ignores_requests_is_killed_with_all_that_it_started() {
    let scene = Scene::new();
    let own = own_sleep();
    let script = format!("trap '' TERM INT HUP; (trap '' TERM; setsid sleep {own}) & while :; do sleep 0.1; done");
    let plan = format!("[command]\nrun = [\"sh\", \"-c\", \"{script}\"]\ntime_limit_s = 1");
    let output = scene.run(&plan, &[]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("timed out") && stderr.contains("time_limit_s = 1"), "{stderr}");
    assert!(scene.left().is_empty() && with_word(&own).is_empty());
}

#[test]
fn gigabytes_and_binary_output_are_kept_to_a_limit_that_is_said() {
    let scene = Scene::new();
    let plan =
        "[command]\nrun = [\"sh\", \"-c\", \"head -c 100000000 /dev/urandom; yes | head -c 1000000000; echo the end\"]";
    scene.finish(plan);
    let run = &scene.runs()[0];
    let log = fs::read(run.join("group.out")).unwrap();
    assert!(log.len() < 10_000_000, "{} bytes", log.len());
    let end = text(&log[log.len() - 300_000..]);
    assert!(end.ends_with("y\nthe end\n") && end.contains("bytes of output are left out here]"));
    assert!(warnings(run).contains("wrote more than 8 MB to its standard output"), "{}", warnings(run));
}

#[test]
fn a_program_that_fills_the_disk_of_its_session_is_logged_whole_once_there_is_room() {
    let scene = Scene::new();
    let disk = scene.folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    // Its steps take more than the last page of a file has room for.
    let program = "head -c 30000000 /dev/zero > \"$1/fill\" 2> /dev/null\n\
                   for step in $(seq 100); do echo \"step $step loss 0.5\"; sleep 0.01; done\n\
                   echo the end\ntouch \"$2\"\nexit 3\n";
    fs::write(scene.programs().join("fills.sh"), program).unwrap();
    let (disk_text, ended) = (disk.display(), scene.programs().join("ended"));
    let run = format!("run = [\"sh\", \"{{programs}}/fills.sh\", \"{disk_text}\", \"{}\"]", ended.display());
    scene.command(&format!("[command]\n{run}\n"));
    let script = "mount -t tmpfs -o size=24m none \"$1\"
        \"$0\" run plan.toml --session \"$1/s\" 2> said & running=$!
        until grep -q free said && test -e \"$2\"; do kill -0 $running; sleep 0.05; done
        rm \"$1/fill\"
        wait $running || test $? = 1
        cat said >&2
        cp -r \"$1/s\" session";
    let Some(output) = seeded::with_mounts(scene.folder.path(), script, &[&disk, &ended]) else { return };
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{:?} {stderr}", output.status.code());
    assert!(stderr.contains("sh exited with code 3; end of its output: ") && stderr.contains("| the end"), "{stderr}");
    let run = &scene.runs()[0];
    let (steady, warm_up) = steps(run);
    assert!(steady.len() + warm_up >= 99, "{} and {warm_up} steps", steady.len());
    assert!(matches!(events(run).last(), Some(Event::Failed { .. })));
    assert!(warnings(run).contains("a part of the program's output is missing"), "{}", warnings(run));
}

#[test]
fn nothing_is_left_when_the_runner_the_supervisor_or_the_workbench_is_killed() {
    for (who, word) in [("runner", "program"), ("supervisor", "group"), ("both", "")] {
        let scene = Scene::new();
        let own = own_sleep();
        let script = format!("setsid sleep {own} & trap '' TERM; echo up; while :; do sleep 0.1; done");
        let mut workbench = scene.start(&format!("[command]\nrun = [\"sh\", \"-c\", \"{script}\"]"));
        scene.wait_for("group.out", "up");
        wait("the program is under way", || !with_word(&own).is_empty());
        let job = scene.runs()[0].join("job.json");
        let of_run = |word: &str| -> Vec<u32> {
            let is = |pid: &u32| {
                let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                words.split(|byte| *byte == 0).nth(1).is_some_and(|second| second == word.as_bytes())
            };
            with_word(job.to_str().unwrap()).into_iter().filter(is).collect()
        };
        if who == "both" {
            workbench.kill().unwrap();
            workbench.wait().unwrap();
            of_run("group").into_iter().chain(of_run("program")).for_each(kill);
            // The next workbench finds the run ended, and ends what is left of it.
            let next = scene.run(&format!("[command]\nrun = [\"sh\", \"-c\", \"{}\"]", "true"), &[]);
            assert_eq!(next.status.code(), Some(0), "{}", text(&next.stderr));
        } else {
            of_run(word).into_iter().for_each(kill);
            let output = workbench.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{who}: {}", text(&output.stderr));
        }
        wait("nothing of the program is left", || scene.left().is_empty() && with_word(&own).is_empty());
    }
}

#[test]
fn an_interrupt_ends_the_program_and_all_that_it_started() {
    let scene = Scene::new();
    let own = own_sleep();
    let script = format!("setsid sleep {own} & echo up; sleep {own}");
    let workbench = scene.start(&format!("[command]\nrun = [\"sh\", \"-c\", \"{script}\"]"));
    scene.wait_for("group.out", "up");
    rustix::process::kill_process(Pid::from_child(&workbench), Signal::INT).unwrap();
    let output = workbench.wait_with_output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    let continues = stderr.lines().find_map(|line| line.strip_prefix("Continue: `multicard run ")).unwrap_or_default();
    assert!(continues.contains(" --session ") && continues.ends_with(" --resume`"), "{stderr}");
    assert!(scene.left().is_empty() && with_word(&own).is_empty());
}

/// Starts `multicard run`, and closes its terminal once its program is up. Returns it and what it prints after it has begun to stop its runs.
fn hang_up(scene: &Scene, run: &Command) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut workbench = start_with("--default-signal=HUP", run);
    scene.wait_for("group.out", "up");
    let (process, stderr) = (Pid::from_child(&workbench), workbench.stderr.take().unwrap());
    rustix::process::kill_process(process, Signal::HUP).unwrap();
    let mut lines = BufReader::new(stderr).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("interrupted: stopping all runs")));
    (workbench, lines)
}

#[test]
fn a_closed_terminal_stops_the_runs_as_an_interrupt_does_though_its_signal_may_come_twice() {
    let scene = Scene::new();
    let own = own_sleep();
    // It ends only when it is killed, some seconds later.
    let script = format!("trap '' TERM; echo up; sleep {own}");
    let run = scene.command(&format!("[command]\nrun = [\"sh\", \"-c\", \"{script}\"]"));
    let (mut workbench, lines) = hang_up(&scene, &run);
    let process = Pid::from_child(&workbench);
    rustix::process::kill_process(process, Signal::HUP).unwrap();
    let rest: Vec<String> = lines.collect();
    assert_eq!(workbench.wait().unwrap().code(), Some(130), "{rest:?}");
    assert!(rest.iter().any(|line| line == "0 finished, 1 did not finish"), "it waited for the end: {rest:?}");
    assert!(scene.left().is_empty() && with_word(&own).is_empty());
}

#[test]
fn an_interrupt_after_a_closed_terminal_does_not_wait_for_the_end_of_the_runs() {
    let scene = Scene::new();
    let go = scene.programs().join("go");
    // It ends only when it is killed, some seconds later, or at the end of this test.
    let script = format!("trap '' TERM; echo up; until [ -e {} ]; do sleep 0.05; done", go.display());
    let run = scene.command(&format!("[command]\nrun = [\"sh\", \"-c\", \"{script}\"]"));
    let (mut workbench, lines) = hang_up(&scene, &run);
    let process = Pid::from_child(&workbench);
    rustix::process::kill_process(process, Signal::INT).unwrap();
    let rest: Vec<String> = lines.collect();
    fs::write(go, "").unwrap();
    assert_eq!(workbench.wait().unwrap().code(), Some(130), "{rest:?}");
    assert!(rest.iter().any(|line| line.starts_with("interrupted again: ")), "{rest:?}");
    wait("the program is gone", || scene.left().is_empty());
}

#[test]
fn a_closed_terminal_leaves_runs_alone_that_were_started_with_nohup() {
    let scene = Scene::new();
    let go = scene.programs().join("go");
    let script = format!("echo up; until [ -e {} ]; do sleep 0.05; done", go.display());
    let run = scene.command(&format!("[command]\nrun = [\"sh\", \"-c\", \"{script}\"]"));
    let workbench = start_with("--ignore-signal=HUP", &run);
    scene.wait_for("group.out", "up");
    rustix::process::kill_process(Pid::from_child(&workbench), Signal::HUP).unwrap();
    fs::write(go, "").unwrap();
    let output = workbench.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn a_program_whose_workbench_was_killed_is_followed_by_the_next_to_its_end() {
    let scene = Scene::new();
    let go = scene.programs().join("go");
    let script = format!("echo up; until [ -e {} ]; do sleep 0.05; done; echo gone", go.display());
    let plan = format!("[command]\nrun = [\"sh\", \"-c\", \"{script}\"]");
    let mut first = scene.start(&plan);
    scene.wait_for("group.out", "up");
    first.kill().unwrap();
    first.wait().unwrap();
    let next = scene.command(&plan).arg("--resume").stderr(Stdio::piped()).spawn().unwrap();
    fs::write(go, "").unwrap();
    let output = next.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(scene.runs().len(), 1, "it was not run again: {}", text(&output.stderr));
    assert_eq!(fs::read_to_string(scene.runs()[0].join("group.out")).unwrap(), "up\ngone\n");
    assert!(matches!(events(&scene.runs()[0]).last(), Some(Event::Finished { .. })));
}

#[test]
fn a_copy_of_a_running_session_that_is_resumed_leaves_the_program_of_the_original_alone() {
    let scene = Scene::new();
    let go = scene.programs().join("go");
    let script = format!("echo up; until [ -e {} ]; do sleep 0.05; done", go.display());
    let plan = format!("repeats = 2\n[command]\nrun = [\"sh\", \"-c\", \"{script}\"]");
    let original = scene.start(&plan);
    scene.wait_for("group.out", "up");
    let copy = scene.folder.path().join("copy");
    succeed(Command::new("cp").arg("-a").arg(scene.session()).arg(&copy));
    let mut resumed = Command::new(env!("CARGO_BIN_EXE_multicard"));
    resumed.arg("run").arg(scene.folder.path().join("plan.toml")).arg("--session").arg(&copy).arg("--resume");
    resumed.env("MULTICARD_WORKER", "/nonexistent/worker").stdin(Stdio::null()).stdout(Stdio::null());
    let resumed = resumed.stderr(Stdio::piped()).spawn().unwrap();
    // It starts a run of its own once it has settled the active one that it was copied with.
    wait("the copy's own run prints", || {
        let runs = fs::read_dir(copy.join("runs")).unwrap().map(|run| run.unwrap().path().join("group.out"));
        runs.filter(|output| fs::read_to_string(output).is_ok_and(|text| text.contains("up"))).count() == 2
    });
    fs::write(go, "").unwrap();
    resumed.wait_with_output().unwrap();
    let output = original.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(matches!(events(&scene.runs()[0]).last(), Some(Event::Finished { .. })));
}

#[test]
fn the_cpu_time_of_children_that_the_system_does_not_count_is_what_was_seen_of_it_and_the_run_is_marked() {
    let scene = Scene::new();
    let program = "import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork() == 0:
    while time.process_time() < 2.5: pass
    os._exit(0)
try: os.wait()
except ChildProcessError: pass
";
    fs::write(scene.programs().join("parent.py"), program).unwrap();
    scene.finish("[command]\nrun = [\"python3\", \"parent.py\"]\nfolder = \"{programs}\"");
    let run = &scene.runs()[0];
    let cpu_s = reading(run, "cpu_time_s").unwrap();
    assert!(cpu_s > 0.8, "{cpu_s} s");
    assert!(
        warnings(run).contains("cpu_time_s is too low: a process of the program ignores SIGCHLD"),
        "{}",
        warnings(run)
    );
}
