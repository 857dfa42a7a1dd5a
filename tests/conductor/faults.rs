//! What disturbs conductors: other programs and users at their sockets, sessions that are moved away or removed, full disks.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::*;

#[test]
fn a_conductor_of_another_version_is_named_and_finished_runs_can_be_read() {
    let scene = Scene::new();
    scene.open_gate();
    succeed(&mut scene.multicard(&["run", "waits.toml", "--session", "session"]));
    scene.detach("waits.toml");
    let socket = scene.socket();
    succeed(&mut scene.multicard(&["attach", "session"]));
    wait("the conductor ends", || scene.conductors().is_empty());
    impostor(&socket, r#"{"multicard":"9.8.7","messages":99,"process":4711,"detached":true,"more":[]}"#);
    for arguments in [&["attach", "session"][..], &["stop", "session"], &["run", "waits.toml", "--session", "session"]]
    {
        let output = scene.multicard(arguments).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(
            stderr.contains("multicard 9.8.7 (process 4711)") && stderr.contains(env!("CARGO_PKG_VERSION")),
            "{stderr}"
        );
    }
    let table = succeed(&mut scene.multicard(&["table", "session"]));
    assert!(text(&table.stdout).contains("waits") || !table.stdout.is_empty());
}

#[test]
fn of_conductors_that_race_for_a_new_session_one_conducts_and_the_others_name_it() {
    let scene = Scene::new();
    let mut racers: Vec<Child> = (0..5).map(|_| scene.start(&["conduct", "session", "--linger", "1000000"])).collect();
    let living = |racers: &mut Vec<Child>| {
        let ended = racers.iter_mut().filter_map(|racer| racer.try_wait().unwrap()).count();
        racers.len() - ended
    };
    let start = Instant::now();
    while living(&mut racers) > 1 {
        assert!(start.elapsed() < PATIENCE, "{} of them conduct", living(&mut racers));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(living(&mut racers), 1);
    let winner = racers.iter().position(|racer| scene.conductors() == [racer.id()]).unwrap();
    let winner = racers.swap_remove(winner);
    for loser in racers {
        let process = winner.id();
        let (is_ok, stderr) = ended(loser);
        assert!(!is_ok && stderr.contains(&format!("process {process} ")), "{stderr}");
        assert!(stderr.contains("is writing this session"), "{stderr}");
    }
    scene.open_gate();
    succeed(&mut scene.multicard(&["run", "waits.toml", "--session", "session"]));
    kill_process(Pid::from_child(&winner), Signal::TERM).unwrap();
    assert!(ended(winner).0);
    assert_eq!(scene.states(), ALL_FINISHED);
}

#[test]
fn what_listens_and_is_no_conductor_is_named() {
    let scene = Scene::new();
    scene.detach("waits.toml");
    let socket = scene.socket();
    scene.finish();
    wait("the conductor ends", || scene.conductors().is_empty());
    impostor(&socket, "220 mail.example.org ESMTP");
    let output = scene.multicard(&["stop", "session"]).output().unwrap();
    assert!(
        text(&output.stderr).contains("unreadable message from the session's conductor"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn clients_that_write_nonsense_or_break_off_disturb_nobody() {
    let scene = Scene::new();
    scene.detach("waits.toml");
    let socket = scene.socket();
    for nonsense in [
        "",
        "\n",
        "GET / HTTP/1.1\r\n\r\n",
        "{\"messages\":1,\"live\":true}\n{\"order\":",
        "{\"messages\":2,\"live\":false}\n",
    ] {
        let mut stream = UnixStream::connect(&socket).unwrap();
        let _ = stream.write_all(nonsense.as_bytes());
    }
    scene.finish();
    assert_eq!(scene.states(), ALL_FINISHED);
}

#[test]
fn a_session_that_is_moved_away_is_named_and_its_queue_goes_on_once_it_is_back() {
    let scene = Scene::under_way();
    let mut watched = scene.start(&["attach", "session"]);
    let mut stderr = BufReader::new(watched.stderr.take().unwrap()).lines();
    assert_eq!(stderr.next().unwrap().unwrap(), "3 runs under way or queued; Ctrl-C leaves them running");
    fs::rename(scene.session(), scene.path("moved")).unwrap();
    let named = stderr.find_map(|line| line.ok().filter(|line| line.contains("moved, removed or replaced"))).unwrap();
    assert!(named.contains("session") && named.contains("put the session back"), "{named}");
    fs::rename(scene.path("moved"), scene.session()).unwrap();
    scene.open_gate();
    assert!(stderr.any(|line| line.is_ok_and(|line| line.contains("nothing is left to run"))));
    assert!(watched.wait().unwrap().success());
    assert_eq!(scene.states(), ALL_FINISHED);
}

#[test]
fn stop_ends_the_conductor_and_the_runs_of_a_session_that_was_renamed() {
    let scene = Scene::under_way();
    let conductor = scene.conductor();
    fs::rename(scene.session(), scene.path("moved")).unwrap();
    let stopped = scene.multicard(&["stop", "moved"]).output().unwrap();
    let stderr = text(&stopped.stderr);
    assert_eq!(stopped.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains(&format!("ended the conductor, process {conductor}, which cannot be reached")), "{stderr}");
    assert!(scene.conductors().is_empty());
    wait("its runs have ended", || scene.processes("group").is_empty());
    let runs = Reader::open(&scene.path("moved")).unwrap().runs().unwrap();
    assert!(runs.len() == 3 && runs.iter().all(|run| run.state == RunState::Cancelled), "{runs:?}");
}

/// Waits until the active run has a sample. The first sample makes a file, which would be at the old path of a session that is moved.
fn await_sample(scene: &Scene) {
    wait("a sample is recorded", || {
        let runs = fs::read_dir(scene.session().join("runs")).unwrap().flatten();
        runs.filter(|run| run.path().join("samples.jsonl").exists()).count() == 1
    });
}

#[test]
fn nothing_is_run_at_the_path_of_a_session_that_was_moved_away_and_the_conductor_that_holds_the_path_is_named() {
    let scene = Scene::under_way();
    let (conductor, moved) = (scene.conductor(), scene.path("moved"));
    await_sample(&scene);
    fs::rename(scene.session(), &moved).unwrap();
    let refuse = || {
        for way in [None, Some("--detach")] {
            let output = scene.multicard(&["run", "waits.toml", "--session", "session"]).args(way).output().unwrap();
            let stderr = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{stderr}");
            let named = format!("session: process {conductor} still conducts the session that was here and is now ");
            let advice = format!("`multicard stop {}`", moved.canonicalize().unwrap().display());
            assert!(stderr.contains(&named) && stderr.contains(&advice), "{stderr}");
            assert!(!stderr.contains("queued"), "{stderr}");
        }
    };
    refuse();
    // Runs of another session at this path would come into the queue of the one that was moved.
    fs::create_dir(scene.session()).unwrap();
    fs::copy(moved.join("session.toml"), scene.session().join("session.toml")).unwrap();
    refuse();
    fs::remove_dir_all(scene.session()).unwrap();
    fs::rename(&moved, scene.session()).unwrap();
    scene.finish();
    assert_eq!(scene.states(), ALL_FINISHED);
}

#[test]
fn no_command_for_the_session_that_took_the_place_of_a_renamed_one_reaches_the_runs_of_the_renamed_one() {
    let scene = Scene::under_way();
    let (conductor, moved) = (scene.conductor(), scene.path("moved"));
    await_sample(&scene);
    fs::rename(scene.session(), &moved).unwrap();
    fs::create_dir(scene.session()).unwrap();
    for file in ["session.toml", "journal.jsonl"] {
        fs::copy(moved.join(file), scene.session().join(file)).unwrap();
    }
    for arguments in [
        &["stop", "session"][..],
        &["stop", "session", "--now"],
        &["stop", "session", "--queued"],
        &["attach", "session"],
        &["session", "note", "session", "words"],
    ] {
        let stderr = seeded::refused(&mut scene.multicard(arguments));
        let named = format!("session: process {conductor} still conducts the session that was here and is now ");
        assert!(stderr.contains(&named), "{arguments:?}: {stderr}");
    }
    fs::remove_dir_all(scene.session()).unwrap();
    fs::rename(&moved, scene.session()).unwrap();
    assert_eq!(scene.conductors(), [conductor]);
    scene.finish();
    assert_eq!(scene.states(), ALL_FINISHED);
}

#[test]
fn one_interrupt_ends_a_run_whose_session_was_moved_away_and_names_the_runs_whose_ends_are_not_recorded() {
    let scene = Scene::new();
    let run = scene.start(&["run", "waits.toml", "--session", "session"]);
    scene.await_start(1);
    let moved = scene.path("moved");
    fs::rename(scene.session(), &moved).unwrap();
    let interrupt = |run: &Child| kill_process(Pid::from_child(run), Signal::INT).unwrap();
    let (code, stderr) = ended_after(run, "moved, removed or replaced", interrupt);
    assert_eq!(code, Some(130), "{stderr}");
    let records = Reader::open(&moved).unwrap().runs().unwrap();
    let runs: Vec<&str> = records.iter().map(|record| record.run.as_str()).collect();
    assert!(stderr.contains(&format!("it is not recorded how 3 runs ended: {}.", runs.join(", "))), "{stderr}");
    wait("its run has ended", || scene.processes("group").is_empty());
    succeed(&mut scene.multicard(&["stop", "moved"]));
    let records = Reader::open(&moved).unwrap().runs().unwrap();
    assert!(records.len() == 3 && records.iter().all(|record| record.state.is_final()), "{records:?}");
}

#[test]
fn stop_ends_the_conductor_that_was_started_with_a_relative_path_in_a_folder_that_was_renamed() {
    let scene = Scene::new();
    let [old, new] = ["project", "renamed"].map(|name| scene.path(name));
    fs::create_dir(&old).unwrap();
    let mut run = scene.multicard(&["run", "../waits.toml", "--session", "session", "--detach"]);
    succeed(run.current_dir(&old));
    wait("a program is under way", || started(&old.join("session")) == 1 && scene.runs_program());
    fs::rename(&old, &new).unwrap();
    let stopped = scene.multicard(&["stop", "renamed/session"]).output().unwrap();
    let stderr = text(&stopped.stderr);
    assert_eq!(stopped.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("ended the conductor, process ") && stderr.contains("cannot be reached"), "{stderr}");
    let runs = Reader::open(&new.join("session")).unwrap().runs().unwrap();
    assert!(runs.len() == 3 && runs.iter().all(|run| run.state == RunState::Cancelled), "{runs:?}");
}

#[test]
fn stop_of_queued_runs_of_a_renamed_session_leaves_the_active_run_to_its_end() {
    let scene = Scene::under_way();
    fs::rename(scene.session(), scene.path("moved")).unwrap();
    let stopped = succeed(&mut scene.multicard(&["stop", "--queued", "moved"]));
    assert!(text(&stopped.stderr).contains("1 active run goes on to the end"), "{}", text(&stopped.stderr));
    scene.open_gate();
    use RunState::{Cancelled, Finished};
    let states = || -> Vec<RunState> {
        let runs = Reader::open(&scene.path("moved")).and_then(|reader| reader.runs());
        runs.unwrap_or_default().iter().map(|run| run.state).collect()
    };
    wait("the active run finishes", || states() == [Finished, Cancelled, Cancelled]);
}

#[test]
fn stop_of_queued_runs_does_not_end_the_run_in_a_terminal_whose_session_was_renamed() {
    let scene = Scene::new();
    let mut host = scene.start(&["run", "waits.toml", "--session", "session"]);
    scene.await_start(1);
    await_sample(&scene);
    fs::rename(scene.session(), scene.path("moved")).unwrap();
    let refused = scene.multicard(&["stop", "--queued", "moved"]).output().unwrap();
    let stderr = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    let names = format!("`multicard run` (process {}) conducts it under the old name", host.id());
    assert!(stderr.contains(&names) && stderr.contains("give the folder its old name"), "{stderr}");
    assert!(host.try_wait().unwrap().is_none());
    // What the message advises is possible.
    fs::rename(scene.path("moved"), scene.session()).unwrap();
    succeed(&mut scene.multicard(&["stop", "--queued", "session"]));
    scene.open_gate();
    let (_, printed) = ended(host);
    use RunState::{Cancelled, Finished};
    assert_eq!(scene.states(), [Finished, Cancelled, Cancelled], "{printed}");
}

/// A session whose active run has written the process of its program into the file `program`.
fn with_known_program() -> (Scene, u32) {
    let scene = Scene::new();
    scene.plan("known", 2, "echo $$ > program; while [ ! -e gate ]; do sleep 0.02; done");
    scene.detach("known.toml");
    let read = || fs::read_to_string(scene.path("program")).ok().and_then(|text| text.trim().parse().ok());
    wait("a program is under way", || read().is_some());
    let program = read().unwrap();
    (scene, program)
}

/// Removes the session. Its run writes on meanwhile, and a file that appears in a folder keeps it from being removed.
fn remove(scene: &Scene) {
    wait("the folder is removed", || fs::remove_dir_all(scene.session()).is_ok() || !scene.session().exists());
}

/// Waits until no process of the session is left.
fn await_end(scene: &Scene, program: u32) {
    wait("the conductor ends", || scene.conductors().is_empty());
    wait("the run ends", || scene.processes("group").is_empty() && scene.processes("program").is_empty());
    wait("the program ends", || !Path::new(&format!("/proc/{program}")).exists());
}

#[test]
fn the_conductor_and_the_active_run_of_a_session_that_was_removed_end() {
    let (scene, program) = with_known_program();
    assert_eq!((scene.conductors().len(), scene.processes("group").len()), (1, 1));
    remove(&scene);
    await_end(&scene, program);
}

#[test]
fn a_session_that_is_moved_to_another_disk_leaves_no_process_and_its_active_run_is_interrupted_there() {
    let (scene, program) = with_known_program();
    // Where a folder cannot be renamed, mv copies and then removes it.
    succeed(Command::new("cp").arg("-a").arg(scene.session()).arg(scene.path("moved")));
    remove(&scene);
    await_end(&scene, program);
    succeed(&mut scene.multicard(&["stop", "moved"]));
    let runs = Reader::open(&scene.path("moved")).unwrap().runs().unwrap();
    let states: Vec<RunState> = runs.iter().map(|run| run.state).collect();
    assert_eq!(states, [RunState::Interrupted, RunState::Cancelled]);
}

#[test]
fn a_session_that_cannot_be_conducted_says_why() {
    let scene = Scene::new();
    fs::create_dir(scene.session()).unwrap();
    File::create(scene.session().join("thesis.tex")).unwrap();
    let output = scene.multicard(&["run", "waits.toml", "--session", "session", "--detach"]).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("thesis.tex") && stderr.matches("multicard:").count() == 1, "{stderr}");
    let output = scene.multicard(&["attach", "session"]).output().unwrap();
    assert!(text(&output.stderr).contains("not a session"), "{}", text(&output.stderr));
}

#[test]
fn a_folder_whose_path_is_not_utf8_is_refused_before_it_is_made() {
    let scene = Scene::new();
    let name = OsStr::from_bytes(b"s\xff");
    for way in [None, Some("--detach")] {
        let output = scene.multicard(&["run", "waits.toml", "--session"]).arg(name).args(way).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        let words = "the path of a session must be UTF-8, and ";
        assert!(stderr.contains(words) && stderr.contains("s\\xFF\" is not: rename the folder"), "{stderr}");
        assert!(!scene.home.path().join(name).exists());
    }
}

#[test]
fn a_folder_of_sockets_that_others_may_enter_is_closed_to_them_first() {
    let scene = Scene::new();
    let folder = scene.path("state/multicard/conductors");
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    scene.detach("waits.toml");
    assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    scene.finish();
}

/// Runs a script with a disk of 24 MB at `$1`, which `fill` fills; `await` waits for a condition. None where mounts are not permitted.
fn on_small_disk(scene: &Scene, script: &str) -> Option<Output> {
    let disk = scene.path("disk");
    fs::create_dir(&disk).unwrap();
    let before = "mount -t tmpfs -o size=24m none \"$1\"
        fill() { head -c 30000000 /dev/zero > disk/fill 2> /dev/null || true; }
        await() { tries=0; until eval \"$1\"; do tries=$((tries + 1)); test $tries -lt 1200; sleep 0.05; done; }";
    with_mounts(scene.home.path(), &format!("{before}\n{script}"), &[&disk])
}

/// What the run that was under way while the disk was full could not log, it logged later.
fn assert_all_finished(output: &Output) {
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{:?} {stderr}", output.status.code());
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(shown["runs"]["finished"].as_u64(), Some(3), "{shown} {stderr}");
}

#[test]
fn a_full_disk_is_told_by_a_detached_conductor_whose_queue_goes_on_once_there_is_space() {
    let scene = Scene::new();
    // The first run ends while nothing can be written: neither its log nor the journal.
    let script = "\"$0\" run waits.toml --session \"$1/s\" --detach
        await 'test -n \"$(ls disk/s/runs/*/rank-0.jsonl 2> /dev/null)\"'
        \"$0\" attach \"$1/s\" 2> said & following=$!
        await 'grep -q under said'
        fill
        touch gate
        await 'grep -q free said'
        sleep 1
        test \"$(ls \"$1/s/runs\" | wc -l)\" = 1
        rm \"$1/fill\"
        wait $following
        cat said >&2
        \"$0\" session show \"$1/s\" --format json";
    let Some(output) = on_small_disk(&scene, script) else { return };
    assert_all_finished(&output);
    let stderr = text(&output.stderr);
    assert!(stderr.contains("nothing is left to run"), "{stderr}");
}

#[test]
fn a_run_in_a_terminal_waits_for_a_full_disk_as_a_detached_one_does() {
    let scene = Scene::new();
    // The second run is to start while there is no space.
    let script = "\"$0\" run waits.toml --session \"$1/s\" 2> said & running=$!
        await 'test -n \"$(ls disk/s/runs/*/rank-0.jsonl 2> /dev/null)\"'
        fill
        touch gate
        await 'grep -q free said'
        sleep 1
        test \"$(ls \"$1/s/runs\" | wc -l)\" = 1
        rm \"$1/fill\"
        wait $running
        cat said >&2
        \"$0\" session show \"$1/s\" --format json";
    let Some(output) = on_small_disk(&scene, script) else { return };
    assert_all_finished(&output);
}

#[test]
fn a_disk_without_room_for_more_files_counts_as_full() {
    let scene = Scene::new();
    // A few of its 400 files stay free: enough for the session, and too few for a run.
    let script = "mkdir few; mount -t tmpfs -o size=24m,nr_inodes=400 none few
        touch gate $(seq -f few/%g 350)
        \"$0\" run waits.toml --session few/s 2> said & running=$!
        await 'grep -q \"more files can be made\" said'
        sleep 1
        test -z \"$(ls few/s/runs)\"
        rm $(seq -f few/%g 350)
        wait $running
        cat said >&2
        \"$0\" session show few/s --format json";
    let Some(output) = on_small_disk(&scene, script) else { return };
    assert_all_finished(&output);
}

#[test]
fn a_run_whose_files_have_no_space_waits_though_the_sessions_disk_has_some() {
    let scene = Scene::new();
    let script = "mkdir -p \"$1/runs\" s/runs
        mount --bind \"$1/runs\" s/runs
        fill
        touch gate
        \"$0\" run waits.toml --session s 2> said & running=$!
        await 'grep -q \"waits for space\" said'
        rm \"$1/fill\"
        wait $running
        cat said >&2
        \"$0\" session show s --format json";
    let Some(output) = on_small_disk(&scene, script) else { return };
    assert_all_finished(&output);
}

#[test]
fn a_run_in_a_terminal_that_waits_for_a_full_disk_can_be_interrupted() {
    let scene = Scene::new();
    let script = "\"$0\" run waits.toml --session \"$1/s\" 2> said & running=$!
        await 'test -n \"$(ls disk/s/runs/*/rank-0.jsonl 2> /dev/null)\"'
        fill
        await 'grep -q \"No space\\|free\" said'
        kill -INT $running
        await 'grep -q \"stopping all runs\" said'
        sleep 1
        ! kill -0 $running 2> /dev/null || kill -INT $running
        wait $running || test $? = 130
        cat said >&2";
    let Some(output) = on_small_disk(&scene, script) else { return };
    assert!(output.status.success(), "{:?} {}", output.status.code(), text(&output.stderr));
    let names_home = |entry: fs::DirEntry| {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        text(&words).contains(scene.home.path().to_str().unwrap())
    };
    wait("its runs have ended", || !fs::read_dir("/proc").unwrap().flatten().any(names_home));
}

#[test]
fn whoever_can_only_read_a_session_reads_its_waiting_runs_as_queued_while_its_conductor_lives() {
    let scene = Scene::under_way();
    let script = "mount --bind \"$1\" \"$1\"; mount -o remount,bind,ro \"$1\"
        \"$0\" session show \"$1\" --format json";
    let count = |state: &str| {
        let output = with_mounts(scene.home.path(), script, &[&scene.session()])?;
        assert!(output.status.success(), "{}", text(&output.stderr));
        let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        Some(shown["runs"][state].as_u64().unwrap_or(0))
    };
    let Some(queued) = count("queued") else { return };
    assert_eq!((queued, count("interrupted")), (2, Some(0)));
    kill(scene.conductor());
    wait("the conductor is gone", || scene.conductors().is_empty());
    assert_eq!(count("interrupted"), Some(2), "the first run goes on");
}

/// What Python prints as another user; none where only root could become one, or there is no Python.
fn as_another_user(script: &str, argument: &Path) -> Option<Child> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can become another user");
        return None;
    }
    let mut python = Command::new("python3");
    python.args(["-c", script]).arg(argument).current_dir("/").uid(4711).gid(4711);
    let started = python.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    started.inspect_err(|error| println!("skipped: python3: {error}")).ok()
}

#[test]
fn another_user_is_not_answered_by_a_conductor_and_does_not_pass_for_one() {
    let scene = Scene::new();
    scene.detach("waits.toml");
    let socket = scene.socket();
    let open_to_all = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    // Not even if the folder's mode, which is the first guard, were undone.
    let ask = "import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print('connected', flush=True)
try:
    s.sendall(b'{\"messages\":1,\"live\":true}\\n'); print('heard', s.recv(100))
except OSError as error: print('heard', b'', error)";
    let refused = as_another_user(ask, &socket);
    if let Some(refused) = refused {
        let output = refused.wait_with_output().unwrap();
        assert!(text(&output.stderr).contains("PermissionError"), "{}", text(&output.stderr));
        socket.ancestors().take_while(|path| path.starts_with(scene.home.path())).for_each(open_to_all);
        let output = as_another_user(ask, &socket).unwrap().wait_with_output().unwrap();
        let stdout = text(&output.stdout);
        assert!(stdout.starts_with("connected\nheard b''"), "{stdout} {}", text(&output.stderr));
    }
    scene.finish();
    assert_eq!(scene.states(), ALL_FINISHED);
    wait("the conductor ends", || scene.conductors().is_empty());
    open_to_all(socket.parent().unwrap());
    let pretend = "import socket, sys
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print('listening', flush=True)
c, _ = s.accept(); print('heard', c.recv(100))";
    let Some(mut pretender) = as_another_user(pretend, &socket) else { return };
    let mut output_text = BufReader::new(pretender.stdout.take().unwrap()).lines();
    assert_eq!(output_text.next().unwrap().unwrap(), "listening");
    let output = scene.multicard(&["attach", "session"]).output().unwrap();
    let error = text(&output.stderr);
    assert!(
        output.status.code() == Some(2) && error.contains("the conductor belongs to the user with id 4711"),
        "{error}"
    );
    assert_eq!(output_text.next().unwrap().unwrap(), "heard b''");
    pretender.wait().unwrap();
}

#[test]
fn a_session_that_another_users_conductor_holds_is_named_and_can_be_read() {
    let scene = Scene::under_way();
    // Another user has other sockets.
    let mut attach = scene.multicard(&["attach", "session"]);
    let output = attach.env("XDG_STATE_HOME", scene.path("other")).output().unwrap();
    let stderr = text(&output.stderr);
    assert!(
        output.status.code() == Some(2)
            && stderr.contains("is writing this session")
            && stderr.contains("(multicard conduct)"),
        "{stderr}"
    );
    let mut table = scene.multicard(&["table", "session"]);
    succeed(table.env("XDG_STATE_HOME", scene.path("other")));
    scene.finish();
    assert_eq!(scene.states(), ALL_FINISHED);
}
