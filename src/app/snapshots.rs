//! Image snapshots of the window: cards, curves, bars with intervals, the topology.
//!
//! They are compared with `tests/golden/window`. Set `UPDATE_SNAPSHOTS=1` to renew them, then look at them.
#![allow(clippy::unwrap_used)]

mod raster;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use eframe::egui::accesskit::Role;
use eframe::egui::{Context, Theme, Ui};
use egui_kittest::kittest::Queryable as _;
use egui_kittest::{Harness, SnapshotOptions};

use self::raster::Raster;
use super::curves::LiveStep;
use super::desk::OpenSession;
use super::{
    Command, Curves, LiveCommand, PlanCommand, Records, RunCurves, ScreenName, Settings, UiEvent, Window as State,
    install_theme, shell_ui,
};
use crate::analysis::{fixture, summarise_run};
use crate::plan::fixture::gpu_node;
use crate::plan::{Gpu, Link, LinkKind, Node, NumaNode, Plan, RunState, Topology, obtainable};
use crate::protocol::{Device, DeviceRates, GpuSample, HostSample, Rate, Sample};
use crate::session::{Disk, Places};
use crate::store::StepRecord;

const SIZE: [f32; 2] = [1280.0, 800.0];
/// The C library's sines may differ between machines, and with them the edges of some curves.
const PIXELS_THAT_MAY_DIFFER: usize = 20;
const START_S: f64 = 1_000.0;

/// The window's content without its threads.
struct Window(State);

impl eframe::App for Window {
    fn ui(&mut self, ui: &mut Ui, _frame: &mut eframe::Frame) {
        let Self(state) = self;
        let mut commands = Vec::new();
        shell_ui(ui, state, &mut commands);
        for command in commands {
            state.execute(command, ui.ctx());
        }
        // The Node screen would read the machine that runs the test.
        if state.desk.screen != ScreenName::NODE {
            state.poll(&ui.ctx().clone());
        }
    }
}

/// Draws the window until a widget with this role and name appears, then compares the picture.
fn snapshot(name: &str, size: [f32; 2], theme: Theme, state: State, role: Role, shows: &str) {
    let content = |context: &mut eframe::CreationContext<'_>| {
        install_theme(&context.egui_ctx);
        Window(state)
    };
    let harness = Harness::builder().with_max_steps(24).with_size(size).with_theme(theme).renderer(Raster::default());
    let mut window = harness.build_eframe(content);
    let begin = Instant::now();
    loop {
        window.step();
        if window.query_by_role_and_label(role, shows).is_some() {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{shows} does not appear");
        std::thread::sleep(Duration::from_millis(1));
    }
    // Layout settles in the next frames.
    window.run_steps(4);
    let options = SnapshotOptions::new().output_path("tests/golden/window").max_failed_pixels(PIXELS_THAT_MAY_DIFFER);
    window.snapshot_options(name, &options);
}

fn node() -> Node {
    let mut node = gpu_node(4);
    node.nsys = Err("it is not on PATH".to_owned());
    for gpu in &mut node.gpus {
        *gpu = Gpu { numa_node: Some(gpu.index / 2), ..gpu.clone() };
    }
    node.worker.as_mut().unwrap().version = "1.2.3".to_owned();
    node
}

fn state_of(screen: ScreenName) -> State {
    let mut state = State::new(Settings::default());
    state.take(UiEvent::Node(Arc::new(node())));
    state.desk.screen = screen;
    state
}

/// Three precisions on 1, 2 and 4 GPUs, five repeats each; one run of them failed.
fn records() -> Arc<Records> {
    let mut runs = Vec::new();
    for (precision, step_time_s) in [("fp64", 0.0312), ("fp32", 0.0158), ("fp16", 0.0091)] {
        for gpus in [1, 2, 4] {
            let cell = fixture::cell(precision, gpus, "ddp-ds");
            let slower = 1.0 + 0.03 * (gpus as f64).log2();
            let run = |repeat: u32, spread| fixture::run(&cell, repeat, step_time_s * slower * (1.0 + spread));
            runs.extend(
                [0.0, 0.05, -0.04, 0.02, 0.09].into_iter().zip(1..).map(|(spread, repeat)| run(repeat, spread)),
            );
        }
    }
    let last = runs.last_mut().unwrap();
    last.state = RunState::Failed;
    last.reason = Some("rank 2: out of memory".to_owned());
    let summaries = runs.iter().filter(|run| run.state.is_final()).map(summarise_run).collect();
    Arc::new(Records { folder: folder(), runs: runs.into(), summaries, ..Records::default() }.folded())
}

fn folder() -> PathBuf {
    PathBuf::from("/sessions/precision")
}

fn with_records(mut state: State) -> State {
    state.take(UiEvent::Session { folder: folder(), read_only: None });
    state.take(UiEvent::Records(records()));
    state
}

/// A falling, noisy loss over two epochs of 150 steps.
fn steps(rank: u32, step_time_s: f64) -> impl Iterator<Item = LiveStep> {
    (1..=300_u64).map(move |step| {
        // Multiples of the golden ratio spread evenly and look random.
        let noise = ((step + 97 * u64::from(rank)) as f64 * 0.618_033_988_75).fract() - 0.5;
        let duration_s = step_time_s * (1.0 + 0.08 * noise) * if step <= 5 { 6.0 } else { 1.0 };
        let record = StepRecord {
            step,
            // Ranks end a step at slightly different times.
            time_s: START_S + 3.0 + step as f64 * step_time_s + 1e-4 * f64::from(rank),
            epoch: if step <= 150 { 1 } else { 2 },
            duration_s,
            load_wait_s: duration_s / 20.0,
            loss: 2.3 / (1.0 + step as f64 / 40.0) + 0.25 * noise,
            units: 64,
            warm_up: step <= 5,
            traced: false,
        };
        LiveStep { rank, step: record }
    })
}

fn samples(gpus: u32, power_w: f64) -> impl Iterator<Item = Sample> {
    (0..60).map(move |tick| {
        let time_s = START_S + f64::from(tick) / 10.0;
        let trains = tick > 30;
        let gpu = |index: u32| GpuSample {
            uuid: format!("GPU-{index}"),
            memory_used_bytes: Some(if trains { 9_400_000_000 } else { 600_000_000 * u64::from(tick / 10) }),
            busy: Some(if trains { 0.93 - 0.01 * f64::from(index) } else { 0.0 }),
            power_w: Some(if trains { power_w + f64::from((tick + 7 * index) % 9) } else { 75.0 }),
            temperature_c: Some(35.0 + f64::from(tick) / 6.0 + f64::from(index)),
            ..GpuSample::default()
        };
        Sample { time_s, gpus: (0..gpus).map(gpu).collect(), ..Sample::default() }
    })
}

#[test]
fn a_first_window_shows_what_can_be_ticked_on_four_gpus() {
    snapshot("plan-light", SIZE, Theme::Light, state_of(ScreenName::PLAN), Role::Button, "Launch 6 runs");
}

/// Five switches in eight cells, whose main effects are mixed with interactions.
fn designed() -> State {
    let text = "version = 1\nname = \"five switches\"\nrepeats = 3\n[factors]\nprecision = [\"fp32\", \"bf16\"]\n\
                layout = [\"nchw\", \"nhwc\"]\npin_memory = [\"off\", \"on\"]\nbatch_size = [64, 128]\ngpus = [1, 2]\n\
                [design]\nkind = \"fraction\"\nruns = 8\n[[design.add]]\nkind = \"d-optimal\"\nruns = 2\n";
    let mut state = state_of(ScreenName::PLAN);
    let plan = Plan::parse(text, "p.toml").unwrap();
    state.execute(PlanCommand::Begin(Box::new(plan)).into(), &Context::default());
    state
}

#[test]
fn a_design_says_what_it_tells_apart() {
    snapshot("design-light", SIZE, Theme::Light, designed(), Role::Button, "Launch 30 runs");
}

#[test]
fn a_design_fits_into_a_small_window() {
    snapshot("design-small-dark", [1000.0, 700.0], Theme::Dark, designed(), Role::Button, "Launch 30 runs");
}

#[test]
fn curves_of_two_runs_share_a_clock() {
    let mut state = with_records(state_of(ScreenName::LIVE));
    for (run, ranks, step_time_s, power_w) in
        [("fp32-1-ddp-ds-r1", 1, 0.0158, 420.0), ("fp16-2-ddp-ds-r1", 2, 0.0094, 510.0)]
    {
        let choose = Command::from(LiveCommand::Choose(run.to_owned(), true));
        state.execute(choose, &Context::default());
        state.poll(&Context::default());
        let curves = Curves::build((0..ranks).flat_map(|rank| steps(rank, step_time_s)), samples(ranks, power_w));
        state.take(UiEvent::Curves(Box::new(RunCurves { folder: folder(), run: run.to_owned(), curves })));
    }
    snapshot("live-dark", SIZE, Theme::Dark, state, Role::Image, "Loss over time");
}

#[test]
fn bars_have_the_intervals_of_their_repeats_and_the_table_says_them() {
    let state = with_records(state_of(ScreenName::COMPARE));
    snapshot("compare-light", SIZE, Theme::Light, state, Role::Row, "Cell fp64 · 1 GPU");
}

#[test]
fn the_topology_of_four_gpus_is_drawn_with_its_interconnects() {
    let mut state = state_of(ScreenName::NODE);
    let pairs = (0..4).flat_map(|a| (a + 1..4).map(move |b| (a, b)));
    let kind = |a, b| if a / 2 == b / 2 { LinkKind::NvLink(18) } else { LinkKind::Sys };
    let numa = |id: u32| NumaNode {
        id,
        cpu_list: format!("{}-{}", 32 * id, 32 * id + 31),
        cpus: 32,
        usable_cpus: (32 * id..32 * (id + 1)).collect(),
        memory_bytes: Some(500_000_000_000),
        gpus: vec![2 * id, 2 * id + 1],
    };
    let topology = Topology {
        links: pairs.map(|(a, b)| Link { a, b, kind: kind(a, b) }).collect(),
        numa: (0..2).map(numa).collect(),
    };
    let disk = Disk { name: "Data".to_owned(), folder: "/data".into(), space: Some((400_000_000_000, 1 << 40)) };
    let sets = obtainable().enumerate().map(|(place, (_, files))| {
        let present = (place % 2 == 0).then_some(55_000_000);
        (Ok(format!("/data/{}", files.key).into()), present)
    });
    let sets = sets.collect();
    state.take(UiEvent::Places(Box::new(Places { topology, sets, disks: vec![disk], checks: Vec::new() })));
    let mut sample = samples(4, 480.0).last().unwrap();
    sample.host =
        HostSample { cpus_busy: Some(21.5), memory_used_bytes: Some(180_000_000_000), ..HostSample::default() };
    state.take(UiEvent::NodeSample(Box::new(sample)));
    state.desk.session = Some(OpenSession { folder: folder(), read_only: None });
    let of_gpu = |gpu: &Gpu| {
        let device = Device { name: gpu.name.clone(), gpu_uuid: Some(gpu.uuid.clone()) };
        // Without a time, which would be shown in the viewer's time zone.
        let mut rates = DeviceRates { device, time_s: None, ..fixture::rates() };
        for (key, per_s) in [("tf32", 4.12e14), ("bf16", 7.93e14)] {
            rates.rates.push(Rate { key: key.into(), per_s, ..rates.rates[0].clone() });
        }
        Arc::new(rates)
    };
    let rates = state.desk.node.iter().flat_map(|node| &node.gpus).map(of_gpu).collect();
    state.desk.records = Arc::new(Records { rates, ..Records::default() });
    snapshot("node-dark", [1280.0, 1100.0], Theme::Dark, state, Role::Button, "Refresh");
}
