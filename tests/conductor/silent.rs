//! Conductors that live and say nothing: they are named with their process and state, interrupts are obeyed, and they can be ended.

use super::*;

fn signal(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process.cast_signed()).unwrap(), signal).unwrap();
}

/// Starts a command whose interrupts do what they do in a terminal: a shell that starts tests in the background has them ignored, and
/// what it starts inherits that.
fn start_as_in_a_terminal(scene: &Scene, arguments: &[&str]) -> Child {
    let command = scene.multicard(arguments);
    let mut inner = Command::new("env");
    inner.arg("--default-signal=INT,TERM").arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        inner.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => inner.env(name, value),
            None => inner.env_remove(name),
        };
    }
    inner.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// What a child says until it ends, within a time in which it would answer even on a slow machine, and its exit code.
fn ended_in_time(mut child: Child) -> (Option<i32>, String) {
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("it does not end: {}", text(&child.wait_with_output().unwrap().stderr));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    (output.status.code(), text(&output.stderr))
}

#[test]
fn a_stopped_conductor_is_named_by_every_command_that_needs_it_and_stop_now_ends_it_and_its_runs() {
    let scene = Scene::under_way();
    let conductor = scene.conductor();
    signal(conductor, Signal::STOP);
    let commands = [
        &["attach", "session"][..],
        &["stop", "session"],
        &["run", "waits.toml", "--session", "session", "--detach"],
        &["session", "note", "session", "words"],
    ];
    let started = commands.map(|command| scene.start(command));
    for (child, command) in started.into_iter().zip(commands) {
        let (code, stderr) = ended_in_time(child);
        let named = format!("its conductor (process {conductor}, which is stopped) has sent nothing for 10 s");
        assert!(code == Some(2) && stderr.contains(&named), "{command:?}: {code:?} {stderr}");
        assert!(stderr.contains(&format!("kill -CONT {conductor}")) && stderr.contains("stop --now"), "{stderr}");
    }
    let (code, stderr) = ended_in_time(scene.start(&["stop", "session", "--now"]));
    assert!(
        code == Some(0) && stderr.contains(&format!("ended the conductor, process {conductor}")),
        "{code:?} {stderr}"
    );
    wait("its runs have ended", || scene.processes("group").is_empty());
    wait("no conductor is left", || scene.conductors().is_empty());
    assert_eq!(scene.states(), [RunState::Cancelled; 3]);
}

#[test]
fn interrupts_end_what_waits_for_a_stopped_conductor_at_once() {
    let scene = Scene::under_way();
    let conductor = scene.conductor();
    signal(conductor, Signal::STOP);
    for command in ["attach", "stop"] {
        for interrupt in [Signal::INT, Signal::TERM] {
            let child = start_as_in_a_terminal(&scene, &[command, "session"]);
            wait("it has connected", || {
                let files = fs::read_dir(format!("/proc/{}/fd", child.id())).into_iter().flatten().flatten();
                let mut files = files.filter_map(|file| fs::read_link(file.path()).ok());
                files.any(|file| file.to_string_lossy().starts_with("socket:"))
            });
            let asked = Instant::now();
            signal(child.id(), interrupt);
            let (code, stderr) = ended_in_time(child);
            assert!(asked.elapsed() < Duration::from_secs(5), "{command} {interrupt:?}: {code:?} {stderr}");
        }
    }
    // What was attached before the conductor was stopped says so, and goes on with it.
    signal(conductor, Signal::CONT);
    let mut watched = scene.start(&["attach", "session"]);
    let mut stderr = BufReader::new(watched.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(stderr.next().unwrap().contains("runs under way"));
    signal(conductor, Signal::STOP);
    let stderr_line = stderr.next().unwrap();
    assert!(
        stderr_line.contains(&format!("(process {conductor}, which is stopped) has sent nothing")),
        "{stderr_line}"
    );
    signal(conductor, Signal::CONT);
    scene.open_gate();
    assert!(stderr.any(|line| line.contains("nothing is left to run")));
    assert!(watched.wait().unwrap().success());
    assert_eq!(scene.states(), ALL_FINISHED);
}
