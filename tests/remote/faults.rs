//! What disturbs a session that is seen from afar: an ssh that is killed, a node that cannot be reached for a while, a full disk here, a
//! session that is moved away there; and commands that an address cannot have.

use super::*;

/// The ssh that a command of the laptop runs.
fn ssh_of(child: &Child) -> Pid {
    let pid = child.id();
    let mut of_line = Vec::new();
    // Threads have children of their own.
    for task in fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        of_line.extend(children.split_whitespace().map(|child| child.parse::<i32>().unwrap()));
    }
    assert_eq!(of_line.len(), 1);
    Pid::from_raw(of_line[0]).unwrap()
}

impl Scene {
    /// A `run` over the line, once the first of its three runs has begun.
    fn run_in_foreground(&self) -> Child {
        let mut run = self.start(&["run", "waits.toml", "--session", &self.address()]);
        hear(&mut run, "3 runs queued");
        self.await_start();
        run
    }

    /// An `attach` over the line to three detached runs, once the first has begun.
    fn attach_to_runs(&self) -> Child {
        self.detach("waits.toml");
        self.await_start();
        let mut watched = self.start(&["attach", &self.address()]);
        hear(&mut watched, "3 runs under way or queued");
        watched
    }

    /// Whether the node can be reached from now on; lines that are up stay up.
    fn reachable(&self, is: bool) {
        let (config, hidden) = (self.at("ssh_config"), self.at("ssh_config_of_before"));
        if is {
            fs::rename(hidden, config).unwrap();
        } else {
            let text = fs::read_to_string(&config).unwrap();
            fs::rename(&config, hidden).unwrap();
            let lines = text.lines().map(|line| if line.starts_with("  Port ") { "  Port 1" } else { line });
            fs::write(config, lines.collect::<Vec<_>>().join("\n")).unwrap();
        }
    }
}

#[test]
fn a_killed_ssh_is_replaced_by_another() {
    let scene = Scene::new();
    let mut watched = scene.attach_to_runs();
    let conductor = scene.processes("conduct");
    kill_process(ssh_of(&watched), Signal::KILL).unwrap();
    let message = hear(&mut watched, "reached node again");
    assert!(message.contains("no connection to node: it broke; trying again in 1 s"), "{message}");
    hear(&mut watched, "runs under way or queued");
    assert_eq!(scene.processes("conduct"), conductor);
    scene.open_gate();
    hear(&mut watched, "nothing is left to run");
    assert!(watched.wait().unwrap().success());
    assert_eq!(logs(&scene.copy()), logs(&scene.node("session")));
}

#[test]
fn a_run_in_the_foreground_goes_on_over_the_next_line() {
    let scene = Scene::new();
    let mut run = scene.run_in_foreground();
    scene.cut();
    let message = hear(&mut run, "reached node again");
    assert!(message.contains("no connection to node") && message.contains("trying again in 1 s"), "{message}");
    scene.open_gate();
    hear(&mut run, "3 finished, 0 did not");
    assert!(run.wait().unwrap().success());
    assert_eq!(scene.states(), ALL_FINISHED);
}

#[test]
fn runs_that_ended_while_their_node_could_not_be_reached_are_counted_by_its_records() {
    let scene = Scene::new();
    let mut run = scene.run_in_foreground();
    scene.reachable(false);
    scene.cut();
    hear(&mut run, "trying again in 2 s");
    scene.open_gate();
    wait("all runs have ended", || scene.states() == ALL_FINISHED);
    wait("their conductor has ended", || scene.processes("conduct").is_empty());
    scene.reachable(true);
    hear(&mut run, "3 finished, 0 did not");
    assert!(run.wait().unwrap().success());
}

#[test]
fn a_launch_whose_answer_is_lost_with_the_line_is_answered_over_the_next_and_queues_nothing_twice() {
    let scene = Scene::new();
    scene.plan("others", 2, "true");
    scene.detach("waits.toml");
    // It launches once the runs that are there have ended.
    let mut run = scene.start(&["run", "others.toml", "--resume", "--session", &scene.through("held", "multicard")]);
    hear(&mut run, "waiting for the runs");
    fs::write(scene.at("hold"), "3").unwrap();
    scene.open_gate();
    wait("the node has the launch", || scene.states().len() == 5);
    scene.cut();
    fs::remove_file(scene.at("hold")).unwrap();
    let message = hear(&mut run, "reached held again");
    assert!(message.contains("no connection to held") && !message.contains("2 runs queued"), "{message}");
    hear(&mut run, "2 runs queued");
    hear(&mut run, "2 finished, 0 did not");
    assert!(run.wait().unwrap().success());
    assert_eq!(scene.states(), [RunState::Finished; 5]);
}

#[test]
fn a_line_that_breaks_before_the_launch_is_sent_is_told_with_the_fact_that_nothing_was_queued() {
    let scene = Scene::new();
    scene.plan("others", 2, "true");
    scene.detach("waits.toml");
    // It launches once the runs that are there have ended.
    let mut run = scene.start(&["run", "others.toml", "--resume", "--session", &scene.address()]);
    hear(&mut run, "waiting for the runs");
    scene.cut();
    let output = run.wait_with_output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("nothing was queued there; repeat the command") && !stderr.contains("go on"), "{stderr}");
    assert_eq!(scene.states().len(), 3);
}

#[test]
fn a_launch_that_was_not_answered_before_the_line_broke_is_told_and_made_once_when_it_is_repeated_with_resume() {
    let scene = Scene::new();
    scene.plan("others", 2, "true");
    scene.detach("waits.toml");
    let mut run = scene.start(&["run", "others.toml", "--resume", "--session", &scene.through("held", "multicard")]);
    hear(&mut run, "waiting for the runs");
    fs::write(scene.at("hold"), "3").unwrap();
    scene.open_gate();
    wait("the node has the launch", || scene.states().len() == 5);
    // Without it, there is no further line.
    fs::remove_file(scene.at("hold.py")).unwrap();
    scene.cut();
    hear(&mut run, "trying again in 1 s");
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    let output = run.wait_with_output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("it is not known whether the runs are queued there"), "{stderr}");
    assert!(stderr.contains("with --resume") && !stderr.contains("go on"), "{stderr}");
    succeed(&mut scene.multicard(&["run", "others.toml", "--resume", "--session", &scene.address()]));
    assert_eq!(scene.states(), [RunState::Finished; 5]);
}

#[test]
fn an_interrupt_without_a_line_leaves_the_runs_and_says_how_to_follow_them() {
    let scene = Scene::new();
    let mut run = scene.run_in_foreground();
    scene.reachable(false);
    scene.cut();
    hear(&mut run, "trying again in 1 s");
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    hear(&mut run, &format!("the runs queued there go on: multicard attach {}", scene.address()));
    assert_eq!(run.wait().unwrap().code(), Some(130));
    assert!(!scene.states().iter().any(|state| state.is_final()));
}

#[test]
fn a_session_that_is_moved_away_on_the_node_is_named_here_and_goes_on_once_it_is_back() {
    let scene = Scene::new();
    let mut watched = scene.attach_to_runs();
    fs::rename(scene.node("session"), scene.node("moved")).unwrap();
    hear(&mut watched, "was moved, removed or replaced: put the session back");
    fs::rename(scene.node("moved"), scene.node("session")).unwrap();
    scene.open_gate();
    hear(&mut watched, "nothing is left to run");
    assert!(watched.wait().unwrap().success());
    assert_eq!(logs(&scene.copy()), logs(&scene.node("session")));
}

#[test]
fn a_full_disk_here_is_named_and_the_copy_is_whole_once_there_is_space() {
    let scene = Scene::new();
    scene.open_gate();
    succeed(&mut scene.multicard(&["run", "waits.toml", "--session", &scene.address()]));
    let disk = scene.at("disk");
    fs::create_dir(&disk).unwrap();
    let script = "mount -t tmpfs -o size=8m none \"$1\"
        export XDG_CACHE_HOME=\"$1\" MULTICARD_SSH=\"ssh -F $2\"
        head -c 10000000 /dev/zero > \"$1/fill\" 2> /dev/null || true
        code=0
        \"$0\" table \"$3\" || code=$?
        test $code = 2
        rm \"$1/fill\"
        \"$0\" table \"$3\"";
    let (config, address) = (scene.at("ssh_config"), scene.address());
    let Some(output) = seeded::with_mounts(&scene.at("laptop"), script, &[&disk, &config, Path::new(&address)]) else {
        return;
    };
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{:?} {stderr}", output.status.code());
    assert!(stderr.contains("cannot keep the copy of the session in") && stderr.contains("No space left"), "{stderr}");
    assert!(text(&output.stdout).contains("| 3 |"), "{}", text(&output.stdout));
}

#[test]
fn every_command_takes_the_address_of_a_session_or_says_what_to_type_instead() {
    let scene = Scene::new();
    scene.open_gate();
    let address = scene.address();
    succeed(&mut scene.multicard(&["run", "waits.toml", "--session", &address]));
    fs::write(scene.laptop("report.nsys-rep"), "no report").unwrap();
    let line = |words: &str| -> Vec<String> {
        words.split(' ').map(|word| if word == "@" { address.clone() } else { word.to_owned() }).collect()
    };
    for words in [
        "attach @",
        "stop @",
        "run waits.toml --session @ --resume",
        "plan waits.toml --session @",
        "table @",
        "study @",
        "study @ --save mine --form bars",
        "table @ --study mine",
        "study @ --delete mine",
        "figure @ --measure total_time_s --out figure.svg",
        "diff @ @",
        "claims @",
        "export @ --what runs --output runs.csv",
        "cite @",
        "methods @",
        "report @ --out report",
        "session show @",
        "session note @ seen",
        "session export @ --out session.zip",
    ] {
        let arguments = line(words);
        let output = scene.multicard(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).output().unwrap();
        // A session is a copy of itself.
        let expected = if words.starts_with("diff") { Some(2) } else { Some(0) };
        assert_eq!(output.status.code(), expected, "{words}: {}", text(&output.stderr));
    }
    for (words, instead) in [
        ("conduct @", "ssh node "),
        ("session rebuild @", "session rebuild session"),
        ("session import session.zip --session @", "session import FILE.zip --session session"),
        ("trace report.nsys-rep --session @", "import it there: ssh node "),
    ] {
        let arguments = line(words);
        let output = scene.multicard(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}: {stderr}");
        assert!(stderr.contains(instead), "{words}: {stderr}");
    }
    assert!(!scene.laptop("ssh:").exists(), "an address was taken for a folder");
    assert_eq!(logs(&scene.copy()), logs(&scene.node("session")));
}
