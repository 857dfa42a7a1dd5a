//! Tests of the Node screen, by accessible names.

mod rates;

use std::sync::Arc;
use std::time::Duration;

use egui_kittest::Harness;
use egui_kittest::kittest::{NodeT as _, Queryable as _};

use super::*;
use crate::app::Settings;
use crate::app::Window as State;
use crate::app::dressed::dressed;
use crate::app::engine::UiEvent;
use crate::conduct::{QueueRow, QueueView};
use crate::plan::{Gpu, Link, LinkKind, Nsys, NumaNode, RunState, Topology, Worker};
use crate::protocol::Sample;
use crate::protocol::{GpuSample, HostSample};
use crate::session::{Check, Disk, Health};

struct Window {
    state: State,
    commands: Vec<Command>,
    requests: Vec<Request>,
}

fn node(gpus: u32) -> Node {
    let gpu = |index| Gpu {
        index,
        uuid: format!("GPU-{index}"),
        name: "NVIDIA H100".to_owned(),
        memory_bytes: 80_000_000_000,
        numa_node: Some(index),
        mig: false,
        compute_capability: Some((9, 0)),
    };
    Node {
        hostname: "node7".to_owned(),
        system: "Debian".to_owned(),
        cpu_model: "EPYC".to_owned(),
        cpus: 16,
        memory_bytes: 64_000_000_000,
        numa_nodes: 2,
        nodes: 1,
        driver: (gpus > 0).then(|| "550.90".to_owned()),
        no_gpu_reason: (gpus == 0).then(|| "no NVIDIA driver found: install the driver".to_owned()),
        gpus: (0..gpus).map(gpu).collect(),
        nsys: Err("it is not on PATH".to_owned()),
        tracer: Err("it was not built".to_owned()),
        worker: Err("no worker: tried /opt/multicard-worker".to_owned()),
    }
}

fn places(topology: Topology) -> Places {
    let set = |bytes| (Ok("/data/digits".into()), bytes);
    let disk = Disk { name: "Data".to_owned(), folder: "/data".into(), space: Some((4_000_000_000, 1 << 40)) };
    Places { topology, sets: vec![set(Some(55_000_000)), set(None)], disks: vec![disk], checks: Vec::new() }
}

fn window(node: Node, places: Places) -> Harness<'static, Window> {
    let mut state = State::new(Settings::default());
    state.take(UiEvent::Node(Arc::new(node)));
    state.desk.screen = ScreenName::NODE;
    state.own_mut::<NodeScreen>().places = Some(places);
    let window = Window { state, commands: Vec::new(), requests: Vec::new() };
    let show = |ui: &mut Ui, window: &mut Window| {
        State::draw::<NodeScreen>(ui, &window.state, &mut window.commands);
        for command in std::mem::take(&mut window.commands) {
            window.state.execute(command, ui.ctx());
            window.requests.extend(window.state.desk.take_requests());
            ui.ctx().request_repaint();
        }
    };
    dressed(Harness::builder().with_size([1200.0, 1400.0]), window, show)
}

fn sees(harness: &Harness<'_, Window>, text: &str) -> bool {
    harness.query_all_by_label_contains(text).next().is_some()
}

#[test]
fn a_machine_without_gpus_and_worker_says_why_and_lists_its_data() {
    let topology = Topology { links: Vec::new(), numa: vec![NumaNode { cpus: 16, ..NumaNode::default() }] };
    let mut harness = window(node(0), places(topology));
    assert!(sees(&harness, "no NVIDIA driver found"));
    assert!(sees(&harness, "tried /opt/multicard-worker") && sees(&harness, "programs of your own can"));
    assert!(sees(&harness, "✓ 55.0 MB") && sees(&harness, "not present"));
    assert!(sees(&harness, "Download MNIST") && !sees(&harness, "Generate digits"));
    assert!(sees(&harness, "Less than 5 GB"));
    assert!(sees(&harness, "NUMA node 0") && sees(&harness, "memory –"));
    harness.get_by_label("Refresh").click();
    harness.run();
    assert_eq!(harness.state().requests, [Request::RefreshNode]);
    assert!(harness.get_by_label("Refreshing …").accesskit_node().is_disabled());
}

#[test]
fn why_there_is_no_gpu_stands_once() {
    let checks = vec![Check {
        name: "NVIDIA driver".to_owned(),
        health: Health::Absent,
        found: "no NVIDIA driver found: install the driver; runs use the CPU".to_owned(),
        remedy: None,
    }];
    let harness = window(node(0), Places { checks, ..places(Topology::default()) });
    assert_eq!(harness.query_all_by_label_contains("no NVIDIA driver found").count(), 1);
    assert!(sees(&harness, "Checks says why."));
}

#[test]
fn the_longest_card_is_in_the_column_with_the_fewest_others() {
    let left = |gpus| window(node(gpus), places(Topology::default())).get_by_label("Data sets").rect().left();
    let (few, many) = (left(0), left(8));
    assert!(few < many, "without GPUs in the left column, at {few}; below many in the right one, at {many}");
}

#[test]
fn what_the_machine_lacks_stands_first_with_what_to_type_and_what_it_has_is_one_line() {
    let check = |name: &str, health, remedy: Option<&str>| Check {
        name: name.to_owned(),
        health,
        found: format!("{name} was looked at"),
        remedy: remedy.map(str::to_owned),
    };
    let checks = vec![
        check("ssh", Health::Good, None),
        check("NVIDIA DALI", Health::Absent, Some("multicard setup dali")),
        check("PyTorch 2.11.0", Health::Bad, Some("multicard setup")),
        check("Display", Health::Good, None),
    ];
    let harness = window(node(0), Places { checks, ..places(Topology::default()) });
    let top = |text: &str| harness.get_by_label(text).rect().top();
    let bad = top("✗ PyTorch 2.11.0: PyTorch 2.11.0 was looked at");
    assert!(bad < top("multicard setup") && top("multicard setup") < top("multicard setup dali"));
    assert!(top("multicard setup dali") < top("✓ ssh, Display"));
    // A machine whose multicard examines nothing has no list.
    assert!(!sees(&window(node(0), places(Topology::default())), "Checks"));
}

#[test]
fn a_large_window_has_a_third_column() {
    let mut harness = window(node(1), places(Topology::default()));
    let lefts = |harness: &Harness<'_, Window>| {
        ["Host", "Worker", "Topology"].map(|title| harness.get_by_label(title).rect().left())
    };
    let [host, worker, topology] = lefts(&harness);
    assert!(host == topology && topology < worker, "below the shorter column: {:?}", lefts(&harness));
    harness.set_size([2440.0, 1400.0].into());
    harness.run();
    let [host, worker, topology] = lefts(&harness);
    assert!(host < worker && worker < topology, "{:?}", lefts(&harness));
}

#[test]
fn code_in_reasons_and_remedies_stands_without_backticks() {
    let lacking = Node {
        no_gpu_reason: Some("the driver is not loaded: load it (`modprobe nvidia`)".to_owned()),
        worker: Err("PyTorch was not found: type `multicard setup`".to_owned()),
        ..node(0)
    };
    let checks = vec![Check {
        name: "Open files".to_owned(),
        health: Health::Bad,
        found: "only `trace` needs it".to_owned(),
        remedy: Some("as root, put `* hard nofile 1024` into limits.conf".to_owned()),
    }];
    let harness = window(lacking, Places { checks, ..places(Topology::default()) });
    for text in [
        "the driver is not loaded: load it (modprobe nvidia)",
        "PyTorch was not found: type multicard setup",
        "✗ Open files: only trace needs it",
        "as root, put * hard nofile 1024 into limits.conf",
    ] {
        assert!(sees(&harness, text), "{text}");
    }
    assert!(!sees(&harness, "`"));
}

#[test]
fn a_worker_is_described() {
    let worker = Worker {
        path: "/opt/multicard-worker".into(),
        version: "0.1.0".to_owned(),
        protocol_version: 1,
        torch_version: "2.11.0".to_owned(),
        cuda: CudaState::Unavailable { reason: "libcuda.so.1 is missing".to_owned() },
        dali: Err("not installed".into()),
        versions: Default::default(),
    };
    let harness = window(Node { worker: Ok(worker), ..node(0) }, places(Topology::default()));
    assert!(sees(&harness, "✓ found") && sees(&harness, "2.11.0") && sees(&harness, "off: libcuda.so.1 is missing"));
}

#[test]
fn a_machine_without_nsight_systems_says_why_and_what_records_without_it() {
    let lacks = "Nsight Systems cannot trace runs: it is not on PATH. The built-in trace needs no profiler.";
    assert!(sees(&window(node(2), places(Topology::default())), lacks));
    let nsys = Ok(Nsys { path: "/opt/nsight/nsys".into(), version: "2025.3".to_owned() });
    let harness = window(Node { nsys, ..node(2) }, places(Topology::default()));
    assert!(sees(&harness, "/opt/nsight/nsys") && sees(&harness, "2025.3") && !sees(&harness, "cannot trace runs"));
}

#[test]
fn bars_show_known_values_and_a_dash_for_unknown_ones() {
    let mut harness = window(node(2), places(Topology::default()));
    let value = |harness: &Harness<'_, Window>, name: &str| {
        let node = harness.get_by_label(name).accesskit_node();
        (node.numeric_value(), node.value())
    };
    let dash = Some("–".to_owned());
    assert_eq!(value(&harness, "GPU 0 Memory"), (None, dash.clone()), "before the first sample");
    let second = GpuSample {
        uuid: "GPU-1".to_owned(),
        memory_used_bytes: Some(20_000_000_000),
        busy: Some(0.5),
        throttle_reasons: vec!["sw_power_cap".to_owned()],
        ..GpuSample::default()
    };
    let host = HostSample { cpus_busy: Some(4.0), ..HostSample::default() };
    let sample = Sample { gpus: vec![second], host, ..Sample::default() };
    harness.state_mut().state.take(UiEvent::NodeSample(Box::new(sample)));
    harness.run();
    assert_eq!(value(&harness, "GPU 1 Memory"), (Some(0.25), Some("20.0 GB of 80.0 GB".to_owned())));
    assert_eq!(value(&harness, "GPU 1 Busy").0, Some(0.5));
    assert_eq!(value(&harness, "GPU 1 SM activity"), (None, dash.clone()));
    assert_eq!(value(&harness, "GPU 0 Memory"), (None, dash));
    assert_eq!(value(&harness, "Host CPUs busy").0, Some(0.25));
    assert!(sees(&harness, "the power limit"));
    assert!(sees(&harness, "Used by other programs: 20.0 GB of memory in use, kernels running 50 % of the time"));
}

#[test]
fn interconnects_are_drawn_with_the_numa_nodes() {
    let numa = |id| NumaNode { id, cpus: 8, cpu_list: "0-7".to_owned(), gpus: vec![id], ..NumaNode::default() };
    let links = vec![Link { a: 0, b: 1, kind: LinkKind::NvLink(18) }];
    let harness = window(node(3), places(Topology { links, numa: vec![numa(0), numa(1)] }));
    assert_eq!(harness.query_all_by_label("NV18").count(), 2, "both directions");
    assert!(sees(&harness, "8 CPUs (0-7)") && sees(&harness, "NUMA node of GPU 2: unknown"));
}

#[test]
fn while_nobody_touches_the_window_and_nothing_runs_samples_are_few_and_the_time_of_the_values_is_said() {
    let mut harness = window(node(0), places(Topology::default()));
    let watch = |harness: &mut Harness<'_, Window>, is_at_rest: bool| {
        harness.state_mut().state.watch_node(is_at_rest);
        let requests = harness.state_mut().state.desk.take_requests();
        harness.run();
        requests
    };
    let every =
        |seconds: u64| Request::WatchNode(Some(Sampling { interval: Duration::from_secs(seconds), only_use: false }));
    let sample = || UiEvent::NodeSample(Box::new(Sample { time_s: 1.7e9, ..Sample::default() }));
    let says = |harness: &Harness<'_, Window>| sees(harness, "read every 20 s while nobody touches the window");
    assert_eq!(watch(&mut harness, false), [every(1)]);
    harness.state_mut().state.take(sample());
    assert_eq!((watch(&mut harness, false), says(&harness)), (Vec::new(), false));
    assert_eq!((watch(&mut harness, true), says(&harness)), (vec![every(20)], true));
    harness.state_mut().state.take(sample());
    assert_eq!((watch(&mut harness, false), says(&harness)), (vec![every(1)], true), "the sample is still an old one");
    harness.state_mut().state.take(sample());
    harness.run();
    assert!(!says(&harness));
    // The first sample at another interval has no rates.
    let host = HostSample { cpus_busy: Some(1.0), ..HostSample::default() };
    let complete = Sample { host, time_s: 1.7e9, ..Sample::default() };
    for each in [UiEvent::NodeSample(Box::new(complete.clone())), sample()] {
        harness.state_mut().state.take(each);
    }
    assert_eq!(harness.state().state.desk.sample.as_ref(), Some(&complete));
    // While runs go on, the machine is what is watched.
    let row = QueueRow::in_state("0001-a-1", RunState::Running);
    harness.state_mut().state.take(UiEvent::Queue(Arc::new(QueueView { rows: vec![row], ..QueueView::default() })));
    assert_eq!((watch(&mut harness, true), says(&harness)), (Vec::new(), false));
    harness.state_mut().state.desk.screen = ScreenName::RUNS;
    assert_eq!(watch(&mut harness, false), [Request::WatchNode(None)]);
    assert!(harness.state().state.desk.sample.is_none());
}
