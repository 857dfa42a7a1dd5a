//! A window of this process. Its state folder is that of the environment, so tests with a window run in a process of their own.

use multicard::app::{Command as Click, RunsCommand, SessionsCommand};

use super::driven::{can_be_changed, open, read_only, until};
use super::*;

const HOME: &str = "MULTICARD_TEST_HOME";

/// The scene of a test whose process has its environment; none in the process that starts that one.
fn scene(test: &str) -> Option<Scene> {
    if let Some(home) = std::env::var_os(HOME) {
        return Some(Scene::at(TempDir::new_in(home).unwrap()));
    }
    let home = TempDir::new().unwrap();
    let scene = home.path().join("scene");
    fs::create_dir(&scene).unwrap();
    let mut again = Command::new(std::env::current_exe().unwrap());
    seeded::at_home(&mut again, home.path());
    again.args(["--exact", &format!("window::{test}"), "--nocapture"]).env(HOME, &scene);
    assert!(again.env("MULTICARD_WORKER", "/nonexistent/worker").status().unwrap().success());
    None
}

#[test]
fn a_window_acts_on_what_is_run_closes_without_ending_it_and_survives_its_conductor() {
    let Some(scene) = scene("a_window_acts_on_what_is_run_closes_without_ending_it_and_survives_its_conductor") else {
        return;
    };
    scene.detach("waits.toml");
    scene.await_start(1);
    let mut window = open(scene.session());
    until(&mut window, "the queue is there", |state| state.desk.queue.rows.len() == 3 && state.desk.queue.is_running());
    let last = window.state().window().desk.queue.rows[2].run.clone();
    window.state_mut().send(Click::from(RunsCommand::Cancel(last)));
    until(&mut window, "the last one is cancelled", |state| state.desk.queue.rows[2].state == RunState::Cancelled);
    drop(window);
    let conductor = scene.conductor();
    assert!(!scene.states()[0].is_final() && scene.states()[1] == RunState::Queued, "{:?}", scene.states());

    let mut window = open(scene.session());
    until(&mut window, "the queue is there again", |state| state.desk.queue.rows.len() == 3);
    kill(conductor);
    // One that ended so soon is not replaced unasked; on a slow machine it has lived long enough.
    let is_replaced = || scene.conductors().iter().any(|process| *process != conductor);
    until(&mut window, "the window lost its conductor", |state| !read_only(state).is_empty() || is_replaced());
    if !read_only(window.state().window()).is_empty() {
        window.state_mut().send(Click::Sessions(SessionsCommand::TryAgain));
    }
    until(&mut window, "another conductor took the run up", |state| {
        can_be_changed(state) && state.desk.queue.is_running()
    });
    until(&mut window, "what waits is told", |state| {
        state.desk.queue.paused && state.desk.problems.iter().any(|problem| problem.message.contains("1 run waits"))
    });
    scene.open_gate();
    until(&mut window, "the run has ended", |state| !state.desk.queue.is_running());
    assert!(window.state().window().desk.queue.is_active(), "nobody resumed the queue");
    window.state_mut().send(Click::Pause(false));
    until(&mut window, "all runs have ended", |state| !state.desk.queue.is_active());
    drop(window);
    assert_eq!(scene.states(), [RunState::Finished, RunState::Finished, RunState::Cancelled]);
    wait("the conductor ends", || scene.conductors().is_empty());
}

#[test]
fn a_window_names_a_conductor_of_another_version_and_shows_what_is_finished() {
    let Some(scene) = scene("a_window_names_a_conductor_of_another_version_and_shows_what_is_finished") else {
        return;
    };
    scene.open_gate();
    succeed(&mut scene.multicard(&["run", "waits.toml", "--session", "session"]));
    let socket = multicard::conduct::socket_path(&scene.session()).unwrap();
    impostor(&socket, r#"{"multicard":"9.8.7","messages":99,"process":4711,"detached":true}"#);
    let mut window = open(scene.session());
    until(&mut window, "the other version is named", |state| {
        read_only(state).contains("multicard 9.8.7 (process 4711)")
    });
    until(&mut window, "its runs are shown", |state| state.desk.records.summaries.len() == 3);
}
