//! The Node screen: hardware, software and current load of the machine that runs happen on.

mod data;
mod live;
mod others;
pub(super) mod place;
pub(super) mod rates;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod topology;

use eframe::egui::{Align, Button, Context, Grid, Label, Layout, ScrollArea, Ui};
use poll_promise::Promise;

use super::state::SAMPLES_AT_REST;
use super::theme::{GRID, palette};
use super::widgets::{bytes_text, card, muted, strong};
use super::{Command, Request, Screen, State};
use crate::conduct::Order;
use crate::plan::{CudaState, Key, Node};
use crate::protocol::Sample;
use crate::session::{Places, USUAL_MEASURE_S};
use crate::telemetry::signs_of_use;

use data::Work;

/// Interval at which topology, data sets and disks are read while the screen is shown, in seconds.
const READ_INTERVAL_S: f64 = 5.0;
/// Least width for two columns.
const TWO_COLUMNS: f32 = 900.0;
/// Most GPUs whose column is shorter than that of the data sets.
const FEW_GPUS: usize = 2;

/// A command of the Node screen.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeCommand {
    /// Read the machine again.
    Refresh,
    /// Generate or download a data set.
    Get(Key),
    /// Cancel that.
    CancelGet,
    /// Measure what the machine's devices reach.
    MeasureRates,
    /// Cancel that.
    CancelMeasuring,
}

/// State of the Node screen.
#[derive(Default)]
pub struct NodeState {
    /// The latest sample of the whole machine.
    pub sample: Option<Sample>,
    /// Whether it was taken while the window rests, when samples are few.
    pub sample_is_of_rest: bool,
    /// Whether the machine is being read again.
    refreshing: bool,
    /// Topology, data sets and disks.
    pub(super) places: Option<Places>,
    looking: Option<Promise<Places>>,
    /// When `places` was requested, by the samples' clock; `None` if it is due.
    looked_time_s: Option<f64>,
    /// A data set that is being generated or downloaded.
    work: Option<Work>,
    /// Outcome of the last one.
    outcome: Option<(Key, Result<String, String>)>,
    /// The conductor was asked to measure the machine, or to cancel that, and has not answered.
    measuring_asked: bool,
}

impl NodeState {
    /// A sample of the whole machine, taken at rest or not.
    pub fn take_sample(&mut self, sample: Sample, at_rest: bool) {
        let has_rates = |sample: &Sample| sample.host.cpus_busy.is_some();
        if self.sample.as_ref().is_some_and(has_rates) && !has_rates(&sample) {
            // The first sample at another interval: rates come with the next one.
            return;
        }
        self.sample_is_of_rest = at_rest;
        if self.looked_time_s.is_some_and(|time_s| (sample.time_s - time_s).abs() >= READ_INTERVAL_S) {
            self.looked_time_s = None;
        }
        self.sample = Some(sample);
    }

    /// The conductor has answered, or cannot.
    pub fn order_answered(&mut self) {
        self.measuring_asked = false;
    }

    /// The machine was read.
    pub fn node_changed(&mut self) {
        self.refreshing = false;
        self.looked_time_s = None;
    }
}

impl State {
    /// Executes a command of the Node screen.
    pub fn execute_node(&mut self, command: NodeCommand, context: &Context, requests: &mut Vec<Request>) {
        match command {
            NodeCommand::Refresh => {
                self.machine.refreshing = true;
                requests.push(Request::RefreshNode);
            }
            NodeCommand::Get(set) if self.machine.work.is_none() => {
                self.machine.outcome = None;
                match Work::start(set.clone(), context) {
                    Ok(work) => self.machine.work = Some(work),
                    Err(reason) => self.machine.outcome = Some((set, Err(reason))),
                }
            }
            NodeCommand::Get(_) => {}
            NodeCommand::CancelGet => {
                if let Some(work) = &self.machine.work {
                    work.cancel();
                }
            }
            NodeCommand::MeasureRates => {
                // It says how far it is there.
                self.screen = Screen::Node;
                match rates::refusal(self) {
                    Some(reason) => self.problem(Screen::Node, reason),
                    None => {
                        self.machine.measuring_asked = true;
                        requests.push(Request::Order(Order::MeasureRates(USUAL_MEASURE_S)));
                    }
                }
            }
            NodeCommand::CancelMeasuring => {
                self.machine.measuring_asked = true;
                requests.push(Request::Order(Order::CancelMeasuring));
            }
        }
    }

    /// Takes over the results of background work.
    pub fn poll_node(&mut self, context: &Context, requests: &mut Vec<Request>) {
        let machine = &mut self.machine;
        match machine.work.take().map(Work::result) {
            Some(Ok((set, outcome))) => {
                machine.outcome = Some((set, outcome));
                machine.looked_time_s = None;
            }
            Some(Err(working)) => machine.work = Some(working),
            None => {}
        }
        match machine.looking.take().map(Promise::try_take) {
            // Another machine's session may be open by now.
            Some(Ok(places)) if self.session.as_ref().is_none_or(|session| session.host().is_none()) => {
                machine.places = Some(places);
            }
            Some(Ok(_)) => {}
            Some(Err(looking)) => machine.looking = Some(looking),
            None => {}
        }
        if self.screen != Screen::Node || machine.looked_time_s.is_some() || machine.looking.is_some() {
            return;
        }
        if let Some(node) = &self.node {
            machine.looked_time_s = Some(machine.sample.as_ref().map_or(0.0, |sample| sample.time_s));
            match &self.session {
                Some(session) if session.host().is_some() => requests.push(Request::Places),
                session => {
                    let folder = session.as_ref().map(|session| session.folder.clone());
                    machine.looking = Some(place::look(node.clone(), folder, context));
                }
            }
        }
    }
}

/// Draws the Node screen.
pub fn node_ui(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    ui.horizontal(|ui| {
        ui.heading("Node");
        let host = state.session.as_ref().and_then(|session| session.host());
        ui.label(muted(ui, host.map_or_else(|| "this machine".to_owned(), |host| format!("{host}, over ssh"))));
        if let Some(text) = age_text(state) {
            ui.label(muted(ui, text));
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let looking = state.machine.refreshing || state.node.is_none();
            let text = if looking { "Refreshing …" } else { "Refresh" };
            let response = ui.add_enabled(!looking, Button::new(text));
            if response.on_hover_text("Queries the driver and the worker again; takes seconds").clicked() {
                commands.push(Command::Node(NodeCommand::Refresh));
            }
        });
    });
    ui.add_space(GRID);
    let Some(node) = &state.node else {
        ui.label(muted(ui, "Querying the driver and the worker …"));
        return;
    };
    ScrollArea::vertical().id_salt("node").auto_shrink(false).show(ui, |ui| {
        // Room for the scroll bar.
        ui.set_max_width(ui.available_width() - 3.0 * GRID);
        let gap = 2.0 * GRID;
        if ui.available_width() < TWO_COLUMNS {
            left_ui(ui, state, node);
            ui.add_space(gap);
            right_ui(ui, state, node, commands);
            places_ui(ui, state, node);
            return;
        }
        ui.columns(2, |columns| {
            left_ui(&mut columns[0], state, node);
            right_ui(&mut columns[1], state, node, commands);
            // Below the shorter column.
            places_ui(&mut columns[usize::from(node.gpus.len() > FEW_GPUS)], state, node);
        });
    });
}

/// When the values were read, if that was a while ago.
fn age_text(state: &State) -> Option<String> {
    let sample =
        state.machine.sample.as_ref().filter(|_| state.has_few_samples() || state.machine.sample_is_of_rest)?;
    let time = jiff::Timestamp::from_millisecond((sample.time_s * 1e3) as i64).ok()?;
    let time = time.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M:%S");
    let every_s = SAMPLES_AT_REST.as_secs();
    Some(format!("Values of {time}: read every {every_s} s while nobody touches the window"))
}

fn left_ui(ui: &mut Ui, state: &State, node: &Node) {
    let sample = state.machine.sample.as_ref();
    titled(ui, "Host", |ui| {
        pairs_ui(
            ui,
            "node-host",
            &[
                ("Name", node.hostname.clone()),
                ("System", node.system.clone()),
                ("Processor", node.cpu_model.clone()),
                ("Usable", format!("{} CPUs, {}", node.cpus, bytes_text(node.memory_bytes as f64))),
                ("Driver", node.driver.clone().unwrap_or_else(|| "none".to_owned())),
            ],
        );
        ui.add_space(GRID);
        live::host_ui(ui, node, sample);
    });
    if node.gpus.is_empty() {
        titled(ui, "GPUs", |ui| {
            ui.label("No usable GPU; runs use the CPU.");
            let reason = node.no_gpu_reason.as_deref().unwrap_or("The reason is unknown.");
            ui.add(Label::new(muted(ui, reason)).wrap());
        });
    }
    for gpu in &node.gpus {
        titled(ui, &format!("GPU {}: {}", gpu.index, gpu.name), |ui| {
            let numa = gpu.numa_node.map_or(String::new(), |numa| format!(" · NUMA node {numa}"));
            ui.add(Label::new(muted(ui, format!("{}{numa}", gpu.uuid)).small()).selectable(true));
            if gpu.mig {
                ui.colored_label(palette(ui.visuals()).warning, "MIG mode is on: the whole GPU cannot be used");
            }
            let of_gpu = sample.and_then(|sample| sample.gpus.iter().find(|other| other.uuid == gpu.uuid));
            // During a run or a measurement of ours, the use may be its own.
            if let Some(signs) = of_gpu.filter(|_| !state.uses_machine()).and_then(signs_of_use) {
                ui.colored_label(palette(ui.visuals()).warning, format!("In use by others: {signs}"));
            }
            live::gpu_ui(ui, gpu, of_gpu);
        });
    }
}

fn right_ui(ui: &mut Ui, state: &State, node: &Node, commands: &mut Vec<Command>) {
    titled(ui, "Worker", |ui| worker_ui(ui, node));
    titled(ui, "Measured rates", |ui| rates::rates_ui(ui, state, node, commands));
    titled(ui, "Nsight Systems", |ui| match &node.nsys {
        Ok(nsys) => {
            pairs_ui(ui, "node-nsys", &[("Path", nsys.path.display().to_string()), ("Version", nsys.version.clone())]);
        }
        Err(reason) => {
            ui.add(
                Label::new(muted(
                    ui,
                    format!("Runs cannot be traced by it: {reason}. The built-in trace needs no profiler."),
                ))
                .wrap(),
            );
        }
    });
    titled(ui, "Data sets", |ui| data::data_ui(ui, state, commands));
}

fn places_ui(ui: &mut Ui, state: &State, node: &Node) {
    titled(ui, "Disk space", |ui| place::disks_ui(ui, state.machine.places.as_ref()));
    titled(ui, "Topology", |ui| match &state.machine.places {
        Some(places) => topology::topology_ui(ui, node, &places.topology),
        None => {
            ui.weak("reading …");
        }
    });
}

/// A card with a title.
fn titled(ui: &mut Ui, title: &str, add: impl FnOnce(&mut Ui)) {
    card(ui).show(ui, |ui| {
        ui.take_available_width();
        // Columns justify their content, which stretches wrapped text.
        ui.with_layout(Layout::top_down(Align::LEFT), |ui| {
            ui.label(strong(title));
            add(ui);
        });
    });
    ui.add_space(2.0 * GRID);
}

fn pairs_ui(ui: &mut Ui, id: &str, pairs: &[(&str, String)]) {
    Grid::new(id).num_columns(2).spacing([16.0, 4.0]).show(ui, |ui| {
        for (name, value) in pairs {
            ui.label(muted(ui, *name));
            ui.add(Label::new(value).wrap().selectable(true));
            ui.end_row();
        }
    });
}

fn worker_ui(ui: &mut Ui, node: &Node) {
    let palette = palette(ui.visuals());
    match &node.worker {
        Ok(worker) => {
            ui.colored_label(palette.good, "✓ found");
            let cuda = match &worker.cuda {
                CudaState::Available => "available".to_owned(),
                CudaState::Unavailable { reason } => format!("off: {reason}"),
            };
            let dali = match &worker.dali {
                Ok(folder) => folder.display().to_string(),
                Err(reason) => format!("off: {reason}"),
            };
            pairs_ui(
                ui,
                "node-worker",
                &[
                    ("Path", worker.path.display().to_string()),
                    ("Version", format!("{}, protocol {}", worker.version, worker.protocol_version)),
                    ("libtorch", worker.torch_version.clone()),
                    ("CUDA", cuda),
                    ("NVIDIA DALI", dali),
                ],
            );
        }
        Err(reason) => {
            ui.colored_label(palette.bad, "✗ not found: runs cannot be launched");
            ui.add(Label::new(reason).wrap().selectable(true));
            ui.add_space(GRID);
            let how = "Run `make build` in the source folder, which builds it next to this program, then “Refresh”. Or set \
                       MULTICARD_WORKER to the path of a worker and restart.";
            ui.add(Label::new(muted(ui, how)).wrap());
        }
    }
}
