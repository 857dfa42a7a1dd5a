//! A window on the laptop that shows a session of the node.

use egui_kittest::Harness;
use multicard::app::{App, Command as Click, PlanCommand, RunsCommand, Screen, SessionsCommand, Settings, State};

use super::*;

fn open(session: &str) -> Harness<'static, App> {
    let session = PathBuf::from(session);
    Harness::builder().build_eframe(move |context| App::new(&context.egui_ctx, Settings::default(), Some(session)))
}

fn until(window: &mut Harness<'_, App>, what: &str, met: impl Fn(&State) -> bool) {
    let start = Instant::now();
    while !met(window.state().state()) {
        let state = window.state().state();
        assert!(start.elapsed() < PATIENCE, "{what}: {:?}, {:?}, {:?}", state.session, state.problems, state.queue);
        window.step();
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn read_only(state: &State) -> &str {
    state.session.as_ref().and_then(|session| session.read_only.as_deref()).unwrap_or_default()
}

fn can_be_changed(state: &State) -> bool {
    state.session.as_ref().is_some_and(|session| session.read_only.is_none())
}

#[test]
fn a_window_runs_a_session_there_says_when_its_line_breaks_and_shows_the_copy_without_one() {
    let test = "window::a_window_runs_a_session_there_says_when_its_line_breaks_and_shows_the_copy_without_one";
    let Some(scene) = Scene::alone(test) else { return };
    // The session is made there.
    let mut window = open(&scene.address());
    until(&mut window, "the session is open", can_be_changed);
    assert_eq!(window.state().state().session.as_ref().unwrap().name(), "session on node");
    window.state_mut().send(Click::Show(Screen::Plan));
    until(&mut window, "the node was sampled", |state| state.machine.sample.is_some());
    window.state_mut().send(Click::Plan(PlanCommand::OpenFile(scene.laptop("waits.toml"))));
    until(&mut window, "the plan is open", |state| state.plan.plan().name == "waits");
    window.state_mut().send(Click::Plan(PlanCommand::Launch));
    until(&mut window, "the queue is there", |state| state.queue.rows.len() == 3 && state.queue.is_running());
    let last = window.state().state().queue.rows[2].run.clone();
    window.state_mut().send(Click::Runs(RunsCommand::Cancel(last)));
    until(&mut window, "the last one is cancelled", |state| state.queue.rows[2].state == RunState::Cancelled);
    let conductor = scene.processes("conduct");

    scene.cut();
    until(&mut window, "the break is said", |state| {
        read_only(state).contains("no line to node") && read_only(state).contains("trying again in 1 s")
    });
    until(&mut window, "the line is back", |state| can_be_changed(state) && state.queue.rows.len() == 3);
    assert_eq!(scene.processes("conduct"), conductor, "the node did not notice");
    scene.open_gate();
    until(&mut window, "all runs have ended", |state| !state.queue.is_active() && state.records.summaries.len() == 3);
    let folder = window.state().state().session.as_ref().unwrap().folder.clone();
    drop(window);
    assert_eq!(scene.states(), [RunState::Finished, RunState::Finished, RunState::Cancelled]);
    wait("no relay is left behind", || scene.processes("relay").is_empty());

    // The folder of the copy leads to the node as well, and is what there is without it.
    fs::rename(scene.at("authorized_keys"), scene.at("no_keys")).unwrap();
    let mut window = open(folder.to_str().unwrap());
    until(&mut window, "the refusal is said", |state| read_only(state).contains("refuses the login"));
    until(&mut window, "the copy is shown", |state| state.records.summaries.len() == 3);
    fs::rename(scene.at("no_keys"), scene.at("authorized_keys")).unwrap();
    window.state_mut().send(Click::Sessions(SessionsCommand::TryAgain));
    until(&mut window, "it is open again", can_be_changed);
    window.state_mut().send(Click::OpenSession(PathBuf::from("ssh://node")));
    until(&mut window, "a bad address is named", |state| {
        state.problems.iter().any(|problem| problem.message.contains("ssh://[user@]host[:port]/path"))
    });
}
