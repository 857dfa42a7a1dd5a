//! Measurements of the machine: between runs, device by device, and what is left of those that do not come to their end.

use super::*;
use crate::protocol::{Device, Rate, RateLine};

/// What a worker says of a device, as commands of a shell.
fn echoed(lines: &[RateLine]) -> String {
    lines.iter().map(|line| format!("echo '{}'; ", serde_json::to_string(line).unwrap())).collect()
}

fn device(name: &str, gpu_uuid: Option<&str>) -> RateLine {
    let device = Device { name: name.to_owned(), gpu_uuid: gpu_uuid.map(str::to_owned) };
    RateLine::Device { device, torch_version: "2.11.0".to_owned(), threads: None }
}

fn begins() -> RateLine {
    RateLine::Begins { key: "fp32".into() }
}

fn rate() -> RateLine {
    RateLine::Rate(Rate { key: "fp32".into(), per_s: 2e12, low_per_s: 1e12, high_per_s: 3e12, samples: 9, size: 512 })
}

/// Measures the CPUs until a file `go` lies beside the worker, whose process is in the file `pid`; trains well.
fn until_go() -> String {
    let (before, after) = (echoed(&[device("cpu", None), begins()]), echoed(&[rate()]));
    let waits = "until [ -e \"$at/go\" ]; do sleep 0.01; done";
    format!(
        "if [ \"$1\" = rates ]; then at=$(dirname \"$0\"); echo $$ > \"$at/pid\"; {before}{waits}; {after}exit; fi\n{WELL}"
    )
}

fn devices(session: &Session) -> Vec<String> {
    session.flush().unwrap();
    let rates = session.reader().unwrap().rates().unwrap();
    rates.iter().map(|rates| rates.device.name.clone()).collect()
}

fn until_stage(session: &mut Session, met: impl Fn(&Stage) -> bool) {
    let start = Instant::now();
    while !session.measurement().is_some_and(|measurement| met(&measurement.stage)) {
        assert!(start.elapsed() < DEADLINE, "{:?}", session.measurement());
        session.advance(PATIENCE).unwrap();
    }
}

fn is_measuring(stage: &Stage) -> bool {
    matches!(stage, Stage::Measures { .. })
}

#[test]
fn no_run_starts_while_the_machine_is_measured_also_of_a_queue_that_was_paused() {
    let scene = Scene::new(&until_go());
    let mut session = scene.with_runs(1);
    session.pause_queue();
    session.measure_rates(1.0).unwrap();
    until_stage(&mut session, is_measuring);
    assert!(session.measure_rates(1.0).unwrap_err().to_string().contains("a measurement is waiting or running"));
    session.resume_queue().unwrap();
    for _ in 0..20 {
        session.advance(PATIENCE).unwrap();
    }
    assert_eq!((states(&session), session.is_idle()), (vec![RunState::Queued], false));
    fs::write(scene.folder.path().join("go"), "").unwrap();
    to_end(&mut session);
    assert_eq!((states(&session), devices(&session)), (vec![RunState::Finished], vec!["cpu".to_owned()]));
    assert_eq!(session.measurement().map(|measurement| &measurement.stage), Some(&Stage::Measured));
    let measured_s = session.reader().unwrap().rates().unwrap()[0].time_s;
    assert!(measured_s.is_some() && measured_s <= kept(&session)[0].started_time_s);
}

#[test]
fn what_was_measured_before_a_device_failed_is_kept() {
    let (first, second) = (device("first", Some("GPU-0")), RateLine::Failed { message: "it fell off".to_owned() });
    let (first, second) = (echoed(&[first, begins(), rate()]), echoed(&[second]));
    let mut scene = Scene::new(&format!("if [ \"$4\" = GPU-0 ]; then {first}else {second}exit 1; fi"));
    scene.machine.node = fixture::gpu_node(3);
    let mut session = scene.open();
    session.measure_rates(1.0).unwrap();
    until_stage(&mut session, |stage| matches!(stage, Stage::Failed(_)));
    let measurement = session.measurement().unwrap();
    assert_eq!((measurement.devices, measurement.measured), (3, 1));
    assert_eq!(measurement.stage, Stage::Failed("it fell off".to_owned()));
    assert_eq!(devices(&session), ["first"]);
    // It can be tried again.
    session.measure_rates(1.0).unwrap();
}

#[test]
fn a_measurement_that_is_cancelled_or_left_ends_its_worker_and_keeps_nothing() {
    let scene = Scene::new(&until_go());
    let pid = || fs::read_to_string(scene.folder.path().join("pid")).unwrap().trim().to_owned();
    let lives = |pid: &str| Path::new("/proc").join(pid).exists();
    let mut session = scene.open();
    session.measure_rates(1.0).unwrap();
    until_stage(&mut session, is_measuring);
    assert!(lives(&pid()));
    session.cancel_measuring();
    until_stage(&mut session, |stage| *stage == Stage::Cancelled);
    assert!(!lives(&pid()) && devices(&session).is_empty());
    session.measure_rates(1.0).unwrap();
    until_stage(&mut session, is_measuring);
    session.leave().unwrap();
    assert!(!lives(&pid()));
    assert!(devices(&scene.open()).is_empty());
}

#[test]
fn a_measurement_of_no_or_endless_duration_is_refused_and_one_that_waits_is_cancelled_at_once() {
    let scene = Scene::new(UNTIL_TOLD);
    let mut session = scene.with_runs(1);
    for duration_s in [0.0, -1.0, 1e9, f64::NAN] {
        let refused = session.measure_rates(duration_s).unwrap_err().to_string();
        assert!(refused.contains("0.1 to 600 s"), "{refused}");
    }
    let run = runs(&session)[0].clone();
    until_running(&mut session, &run);
    session.measure_rates(1.0).unwrap();
    for _ in 0..5 {
        session.advance(PATIENCE).unwrap();
    }
    assert_eq!(session.measurement().map(|measurement| &measurement.stage), Some(&Stage::Waits));
    session.cancel_measuring();
    assert_eq!(session.measurement().map(|measurement| &measurement.stage), Some(&Stage::Cancelled));
    session.cancel(&run).unwrap();
    to_end(&mut session);
}
