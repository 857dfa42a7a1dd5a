//! Trials with real processes.

use std::sync::atomic::AtomicBool;

use super::*;

#[test]
fn a_trial_goes_on_until_its_run_ends_by_itself_and_starts_nothing_once_it_is_stopped() {
    let scene = Scene::new(WELL);
    let tried = |is_stopped: bool| {
        let trial = try_once(&plan(2, ""), 600.0, scene.machine.clone(), &AtomicBool::new(is_stopped)).unwrap();
        (trial.end, trial.steps)
    };
    assert_eq!(tried(false), (Some("It ended by itself.".to_owned()), 3));
    assert_eq!(tried(true), (None, 0));
}
