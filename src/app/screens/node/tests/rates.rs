//! The rates of the machine: measuring them, and what was measured.

use eframe::egui::Key;

use super::*;
use crate::app::Records;
use crate::protocol::{Device, DeviceRates, Rate};
use crate::session::{Measurement, Stage};

fn worker() -> Worker {
    Worker {
        path: "/opt/multicard-worker".into(),
        version: "0.1.0".to_owned(),
        protocol_version: 1,
        torch_version: "2.11.0".to_owned(),
        cuda: CudaState::Available,
        dali: Err("not installed".into()),
        versions: Default::default(),
    }
}

/// The Node screen of a machine with GPUs and an open session.
fn with_session(gpus: u32) -> Harness<'static, Window> {
    let mut harness = window(Node { worker: Ok(worker()), ..node(gpus) }, places(Topology::default()));
    harness.state_mut().state.desk.session =
        Some(crate::app::desk::OpenSession { folder: "/sessions/study".into(), read_only: None });
    harness.run();
    harness
}

fn tell(harness: &mut Harness<'_, Window>, measured: usize, stage: Stage) {
    let left = vec!["fp16 of NVIDIA H100 cannot be measured: no kernel".to_owned()];
    let measurement = Measurement { time_s: 1.7e9, duration_s: 10.0, devices: 2, measured, left, stage };
    let queue = QueueView { measurement: Some(measurement), ..QueueView::default() };
    harness.state_mut().state.take(UiEvent::Queue(Arc::new(queue)));
    harness.run();
}

fn is_disabled(harness: &Harness<'_, Window>, label: &str) -> bool {
    harness.get_by_label(label).accesskit_node().is_disabled()
}

fn asks() -> Request {
    Request::Order(Order::MeasureRates(10.0))
}

#[test]
fn the_button_says_what_it_does_and_how_long_and_its_progress_can_be_cancelled_with_the_keyboard() {
    let mut harness = with_session(2);
    assert!(sees(&harness, "on 2 GPUs, one after another: 20\u{a0}s"));
    // From the first control on, Tab reaches it.
    let is_focused = |harness: &Harness<'_, Window>, label: &str| {
        harness.query_by_label(label).is_some_and(|button| button.accesskit_node().is_focused())
    };
    let reach = |harness: &mut Harness<'_, Window>, label: &str| {
        for _ in 0..40 {
            if is_focused(harness, label) {
                return;
            }
            harness.key_press(Key::Tab);
            harness.run();
        }
        panic!("Tab never reaches {label}");
    };
    reach(&mut harness, "Measure rates");
    harness.key_press(Key::Enter);
    harness.run();
    assert_eq!(harness.state().requests, [asks()]);
    assert!(is_disabled(&harness, "Measure rates"), "until the conductor answers");
    tell(&mut harness, 0, Stage::Waits);
    harness.state_mut().state.take(UiEvent::Done(ScreenName::NODE));
    harness.run();
    assert!(sees(&harness, "Waits until the runs and imports under way have ended"));
    assert!(harness.query_by_label("Measure rates").is_none());

    tell(&mut harness, 1, Stage::Measures { device: "NVIDIA H100".to_owned(), key: "bf16".into() });
    // What the worker does is not others' doing.
    let host = HostSample { cpus_busy: Some(16.0), ..HostSample::default() };
    harness.state_mut().state.take(UiEvent::NodeSample(Box::new(Sample { host, ..Sample::default() })));
    harness.run();
    assert!(!sees(&harness, "rates measured now would be too low"));
    assert!(
        sees(&harness, "Measuring bf16 of NVIDIA H100 (2 of 2)")
            && sees(&harness, "fp16 of NVIDIA H100 cannot be measured")
    );
    let progress = harness.get_by_label("Rates measured").accesskit_node().numeric_value().unwrap();
    assert!((0.5..1.0).contains(&progress), "{progress}");
    reach(&mut harness, "Cancel measuring");
    harness.key_press(Key::Enter);
    harness.run();
    assert_eq!(harness.state().requests, [asks(), Request::Order(Order::CancelMeasuring)]);
    tell(&mut harness, 1, Stage::Cancelled);
    harness.state_mut().state.take(UiEvent::Done(ScreenName::NODE));
    harness.run();
    assert!(sees(&harness, "Cancelled; kept: the rates of 1 of 2 devices"));
    assert!(!is_disabled(&harness, "Measure rates"));
    tell(&mut harness, 0, Stage::Failed("the worker ended".to_owned()));
    assert!(sees(&harness, "Measuring failed: the worker ended"));
    assert!(sees(&harness, "Other programs use this machine: rates measured now would be too low"));
}

#[test]
fn a_machine_that_cannot_be_measured_says_why_and_is_asked_nothing() {
    let mut harness = with_session(0);
    let refuses = |harness: &mut Harness<'_, Window>, reason: &str| {
        harness.run();
        assert!(is_disabled(harness, "Measure rates") && sees(harness, reason), "{reason}");
    };
    harness.state_mut().state.desk.session.as_mut().unwrap().read_only =
        Some("Read-only: no connection to node".to_owned());
    refuses(&mut harness, "Read-only: no connection to node");
    harness.state_mut().state.desk.session = None;
    refuses(&mut harness, "open or create one first");
    let context = harness.ctx.clone();
    let state = &mut harness.state_mut().state;
    // From the command palette it can be asked all the same.
    state.execute(Command::from(NodeCommand::MeasureRates), &context);
    assert!(
        state.desk.take_requests().is_empty() && state.desk.problems[0].message.contains("open or create one first")
    );
    let mut harness = window(node(0), places(Topology::default()));
    harness.state_mut().state.desk.session =
        Some(crate::app::desk::OpenSession { folder: "/s".into(), read_only: None });
    refuses(&mut harness, "no worker to measure with");
}

#[test]
fn rates_are_shown_by_device_with_their_units_and_when_they_were_measured() {
    let mut harness = with_session(2);
    let rate = |key: &str, per_s| Rate {
        key: key.into(),
        per_s,
        low_per_s: 0.98 * per_s,
        high_per_s: 1.03 * per_s,
        samples: 40,
        size: if key == "copy" { 1 << 30 } else { 8192 },
    };
    let device = |gpu: u32, rates: Vec<Rate>, throttle_reasons: Vec<String>| {
        Arc::new(DeviceRates {
            device: Device { name: "NVIDIA H100".to_owned(), gpu_uuid: Some(format!("GPU-{gpu}")) },
            time_s: Some(1.7e9),
            torch_version: "2.11.0".to_owned(),
            threads: None,
            rates,
            sm_clock_mhz: Some(1700.0),
            throttle_reasons,
            others_cpus: None,
        })
    };
    let rates = vec![
        device(0, vec![rate("fp64", 5.53e13), rate("copy", 2.8e12)], Vec::new()),
        device(1, vec![rate("copy", 2.7e12)], vec!["sw_power_cap".to_owned()]),
    ];
    harness.state_mut().state.desk.records = Arc::new(Records { rates, ..Records::default() });
    harness.run();
    for name in ["fp64 of GPU 0: 55.3 TFLOP/s", "copy of GPU 0: 2800 GB/s", "copy of GPU 1: 2700 GB/s"] {
        assert!(harness.query_by_label(name).is_some(), "{name}");
    }
    let day = jiff::Timestamp::from_second(1_700_000_000).unwrap().to_zoned(jiff::tz::TimeZone::system());
    assert_eq!(harness.query_all_by_label_contains(&day.strftime("%Y-%m-%d %H:%M").to_string()).count(), 2);
    assert!(sees(&harness, "The clocks of GPU 1 were limited by the power limit"));
    assert!(harness.query_by_label("tf32").is_none(), "no device was measured at it");
    assert!(harness.query_by_label("Measure rates again").is_some());
}
