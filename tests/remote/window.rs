//! A window on the laptop that shows a session of the node.

use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;
use multicard::app::{App, Command as Click, PlanCommand, PlanScreen, RunsCommand, ScreenName, SessionsCommand};
use multicard::store::SessionHeading;

use super::driven::{can_be_changed, open, read_only, until};
use super::*;

#[test]
fn a_window_runs_a_session_there_says_when_its_line_breaks_and_shows_the_copy_without_one() {
    let test = "window::a_window_runs_a_session_there_says_when_its_line_breaks_and_shows_the_copy_without_one";
    let Some(scene) = Scene::alone(test) else { return };
    // The session is made there.
    let mut window = open(scene.address());
    until(&mut window, "the session is open", can_be_changed);
    assert_eq!(window.state().window().desk.session.as_ref().unwrap().name(), "session on node");
    window.state_mut().send(Click::Show(ScreenName::PLAN));
    until(&mut window, "the node was sampled", |state| state.desk.sample.is_some());
    window.state_mut().send(Click::from(PlanCommand::OpenFile(scene.laptop("waits.toml"))));
    until(&mut window, "the plan is open", |state| state.screen::<PlanScreen>().unwrap().plan().name == "waits");
    window.state_mut().send(Click::from(PlanCommand::Launch));
    until(&mut window, "the queue is there", |state| state.desk.queue.rows.len() == 3 && state.desk.queue.is_running());
    let last = window.state().window().desk.queue.rows[2].run.clone();
    window.state_mut().send(Click::from(RunsCommand::Cancel(last)));
    until(&mut window, "the last one is cancelled", |state| state.desk.queue.rows[2].state == RunState::Cancelled);
    let conductor = scene.processes("conduct");

    scene.cut();
    until(&mut window, "the break is said", |state| {
        read_only(state).contains("no connection to node") && read_only(state).contains("trying again in 1 s")
    });
    until(&mut window, "the line is back", |state| can_be_changed(state) && state.desk.queue.rows.len() == 3);
    assert_eq!(scene.processes("conduct"), conductor, "the node did not notice");
    scene.open_gate();
    until(&mut window, "all runs have ended", |state| {
        !state.desk.queue.is_active() && state.desk.records.summaries.len() == 3
    });
    let folder = window.state().window().desk.session.as_ref().unwrap().folder.clone();
    drop(window);
    assert_eq!(scene.states(), [RunState::Finished, RunState::Finished, RunState::Cancelled]);
    wait("no relay is left behind", || scene.processes("relay").is_empty());

    // The folder of the copy leads to the node as well, and is what there is without it.
    fs::rename(scene.at("authorized_keys"), scene.at("no_keys")).unwrap();
    let mut window = open(folder);
    until(&mut window, "the refusal is said", |state| read_only(state).contains("refuses the login"));
    until(&mut window, "the copy is shown", |state| state.desk.records.summaries.len() == 3);
    fs::rename(scene.at("no_keys"), scene.at("authorized_keys")).unwrap();
    window.state_mut().send(Click::Sessions(SessionsCommand::TryAgain));
    until(&mut window, "it is open again", can_be_changed);
    window.state_mut().send(Click::OpenSession(PathBuf::from("ssh://node")));
    until(&mut window, "a bad address is named", |state| {
        state.desk.problems.iter().any(|problem| problem.message.contains("ssh://[user@]host[:port]/path"))
    });
}

#[test]
fn a_launch_whose_answer_is_lost_is_said_and_answered_over_the_next_line_without_a_second_one() {
    let test = "window::a_launch_whose_answer_is_lost_is_said_and_answered_over_the_next_line_without_a_second_one";
    let Some(scene) = Scene::alone(test) else { return };
    let mut window = open(scene.through("held", "multicard"));
    until(&mut window, "the session is open", can_be_changed);
    window.state_mut().send(Click::Show(ScreenName::PLAN));
    until(&mut window, "the node was sampled", |state| state.desk.sample.is_some());
    window.state_mut().send(Click::from(PlanCommand::OpenFile(scene.laptop("waits.toml"))));
    until(&mut window, "the plan is open", |state| state.screen::<PlanScreen>().unwrap().plan().name == "waits");
    // From here on the node hears, and is not heard.
    fs::write(scene.at("hold"), "1000").unwrap();
    window.state_mut().send(Click::from(PlanCommand::Launch));
    until(&mut window, "the node has the launch", |_| scene.states().len() == 3);
    assert!(window.state().window().desk.queue.rows.is_empty());
    scene.cut();
    until(&mut window, "the loss is said", |state| {
        state.desk.problems.iter().any(|problem| problem.message.contains("before the launch of waits was answered"))
    });
    fs::remove_file(scene.at("hold")).unwrap();
    until(&mut window, "it is answered", |state| {
        state.desk.screen == ScreenName::RUNS && state.desk.queue.rows.len() == 3
    });
    assert!(window.state().window().desk.problems.is_empty(), "{:?}", window.state().window().desk.problems);
    scene.open_gate();
    until(&mut window, "all runs have ended", |state| {
        !state.desk.queue.is_active() && state.desk.records.summaries.len() == 3
    });
    assert_eq!(scene.states(), ALL_FINISHED);
}

#[test]
fn the_node_screen_shows_the_disks_and_data_sets_there_and_its_sessions_are_archived_from_here() {
    let test = "window::the_node_screen_shows_the_disks_and_data_sets_there_and_its_sessions_are_archived_from_here";
    let Some(scene) = Scene::alone(test) else { return };
    let mut window = open(scene.address());
    until(&mut window, "the session is open", can_be_changed);
    let folder = window.state().window().desk.session.as_ref().unwrap().folder.clone();
    window.state_mut().send(Click::Show(ScreenName::NODE));
    let start = Instant::now();
    let shows = |window: &Harness<'_, App>, text: &str| window.query_all_by_label_contains(text).next().is_some();
    let node_folder = scene.node("session").display().to_string();
    while !shows(&window, &node_folder) {
        assert!(start.elapsed() < PATIENCE, "the disk of {node_folder} is never shown");
        window.step();
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(shows(&window, "free of") && shows(&window, "NUMA node 0"));
    // Nobody gets a data set on a machine that is not looked at.
    let program = scene.at("multicard").display().to_string();
    assert!(shows(&window, &format!("ssh node {program} data make digits")), "the digits are not there");
    assert!(window.query_by_label("Generate the digits").is_none());
    assert!(shows(&window, "node, over ssh") && shows(&window, "Copy the command that gets digits"));

    window.state_mut().send(Click::Sessions(SessionsCommand::Archive(folder.clone(), true)));
    let start = Instant::now();
    while !SessionHeading::read(&scene.node("session")).unwrap().is_archived() {
        assert!(start.elapsed() < PATIENCE, "it is never archived");
        window.step();
        std::thread::sleep(Duration::from_millis(10));
    }
    wait("the copy has it as well", || SessionHeading::read(&folder).unwrap().is_archived());
}

#[cfg(feature = "torch")]
#[test]
fn the_node_screen_has_the_other_machine_measured_there() {
    use multicard::app::NodeCommand;

    let Some(scene) = Scene::alone("window::the_node_screen_has_the_other_machine_measured_there") else { return };
    scene.give_worker();
    let mut window = open(scene.address());
    until(&mut window, "the session is open", can_be_changed);
    window.state_mut().send(Click::Show(ScreenName::NODE));
    until(&mut window, "the node has a worker", |state| {
        state.desk.node.as_ref().is_some_and(|node| node.worker.is_ok())
    });
    window.state_mut().send(Click::from(NodeCommand::MeasureRates));
    until(&mut window, "it is measured", |state| state.desk.queue.is_measuring());
    wait("the worker is the node's", || scene.processes("rates").len() == 1);
    // The window goes, and the node measures on.
    drop(window);
    wait("the rates are kept there", || !scene.rates(&scene.node("session")).is_empty());
    let mut window = open(scene.address());
    until(&mut window, "they are shown", |state| !state.desk.records.rates.is_empty());
    assert_eq!(*window.state().window().desk.records.rates[0], scene.rates(&scene.node("session"))[0]);
}
