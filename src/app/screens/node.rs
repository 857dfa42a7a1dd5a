//! The Node screen: hardware, software and current load of the machine that runs happen on.

mod data;
mod doctor;
mod live;
mod place;
mod rates;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod topology;

use std::time::Duration;

use eframe::egui::{Align, Button, Context, Grid, Label, Layout, ScrollArea, Ui};
use poll_promise::Promise;

use crate::app::command::{Command, ScreenCommand, ScreenName};
use crate::app::desk::{Desk, News, SAMPLES_AT_REST};
use crate::app::engine::{Request, Sampling, UiEvent};
use crate::app::screen::{self, Executes, Screen};
use crate::app::task::taken;
use crate::app::theme::{GRID, palette};
use crate::app::widgets::{card, muted, prose, strong};
use crate::app::words::{bytes_text, shell_word};
use crate::conduct::Order;
use crate::plan::{CudaState, Key, Node, counted};
use crate::session::{Places, USUAL_MEASURE_S};
use crate::telemetry::signs_of_use;

use data::Work;

/// Interval at which topology, data sets and disks are read while the screen is shown, in seconds.
const READ_INTERVAL_S: f64 = 5.0;
/// Least widths for two columns and for three.
const TWO_COLUMNS: f32 = 900.0;
const THREE_COLUMNS: f32 = 1500.0;
/// Up to this number of GPUs, their column is shorter than the one with the data sets.
const FEW_GPUS: usize = 2;

/// A command of the Node screen.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeCommand {
    /// Read the machine again.
    Refresh,
    /// Generate or download a data set.
    Get(Key),
    /// Cancel getting the data set.
    CancelGet,
    /// Measure the rates of the machine's devices.
    MeasureRates,
    /// Cancel the measurement.
    CancelMeasuring,
}

impl ScreenCommand for NodeCommand {
    const SCREEN: ScreenName = ScreenName::NODE;
}

/// The data that the screen is drawn from.
type View<'a> = screen::View<'a, NodeScreen>;

/// The Node screen.
#[derive(Default)]
pub struct NodeScreen {
    /// Whether the machine is being read again.
    refreshing: bool,
    /// Topology, data sets and disks.
    places: Option<Places>,
    looking: Option<Promise<Places>>,
    /// When `places` was requested, by the samples' clock; `None` if it is due.
    looked_time_s: Option<f64>,
    /// A data set that is being generated or downloaded.
    work: Option<Work>,
    /// Outcome of the last work on a data set.
    outcome: Option<(Key, Result<String, String>)>,
    /// Whether the conductor was asked to measure the machine, or to cancel that, and has not answered yet.
    measuring_asked: bool,
}

impl Executes for NodeScreen {
    type Command = NodeCommand;

    fn execute(&mut self, command: NodeCommand, desk: &mut Desk, context: &Context) {
        match command {
            NodeCommand::Refresh => {
                self.refreshing = true;
                desk.ask(Request::RefreshNode);
            }
            NodeCommand::Get(set) if self.work.is_none() => {
                self.outcome = None;
                match Work::start(set.clone(), context) {
                    Ok(work) => self.work = Some(work),
                    Err(reason) => self.outcome = Some((set, Err(reason))),
                }
            }
            NodeCommand::Get(_) => {}
            NodeCommand::CancelGet => {
                if let Some(work) = &self.work {
                    work.cancel();
                }
            }
            NodeCommand::MeasureRates => {
                // The card shows its progress.
                desk.screen = ScreenName::NODE;
                match rates::refusal(desk) {
                    Some(reason) => desk.problem(ScreenName::NODE, reason),
                    None => {
                        self.measuring_asked = true;
                        desk.order(Order::MeasureRates(USUAL_MEASURE_S));
                    }
                }
            }
            NodeCommand::CancelMeasuring => {
                self.measuring_asked = true;
                desk.order(Order::CancelMeasuring);
            }
        }
    }
}

impl Screen for NodeScreen {
    fn ui(&self, desk: &Desk, ui: &mut Ui, commands: &mut Vec<Command>) {
        node_ui(ui, View { own: self, desk }, commands);
    }

    fn poll(&mut self, desk: &mut Desk, context: &Context) {
        if let Some(ended) = self.work.take_if(|work| work.has_ended()) {
            (self.outcome, self.looked_time_s) = (Some(ended.outcome()), None);
        }
        let is_here = desk.session.as_ref().is_none_or(|session| session.host().is_none());
        // A session of another machine may have been opened in the meantime.
        if let Some(places) = taken(&mut self.looking).filter(|_| is_here) {
            self.places = Some(places);
        }
        if desk.screen != ScreenName::NODE || self.looked_time_s.is_some() || self.looking.is_some() {
            return;
        }
        if let Some(node) = &desk.node {
            self.looked_time_s = Some(desk.sample.as_ref().map_or(0.0, |sample| sample.time_s));
            if is_here {
                let folder = desk.session.as_ref().map(|session| session.folder.clone());
                self.looking = Some(place::look(node.clone(), folder, context));
            } else {
                desk.ask(Request::Places);
            }
        }
    }

    fn receive_news(&mut self, news: News, desk: &mut Desk) {
        match news {
            News::Node => (self.refreshing, self.looked_time_s) = (false, None),
            News::Sample => {
                let is_old = |time_s: f64| {
                    desk.sample.as_ref().is_some_and(|now| (now.time_s - time_s).abs() >= READ_INTERVAL_S)
                };
                self.looked_time_s.take_if(|time_s| is_old(*time_s));
            }
            // The session may be on another machine.
            News::Session | News::SessionAgain => (self.places, self.measuring_asked) = (None, false),
            News::Answered | News::Failed => self.measuring_asked = false,
            _ => {}
        }
    }

    fn take(&mut self, event: UiEvent) -> Option<UiEvent> {
        let UiEvent::Places(places) = event else { return Some(event) };
        self.places = Some(*places);
        None
    }

    fn palette(&self, desk: &Desk) -> Vec<(String, Command)> {
        let (name, command) = if desk.queue.is_measuring() {
            ("Cancel measuring rates", NodeCommand::CancelMeasuring)
        } else {
            ("Measure rates of the machine", NodeCommand::MeasureRates)
        };
        vec![(name.to_owned(), command.into())]
    }

    /// The command that describes the machine; or the command that measures it, if its rates are on screen and this window could measure
    /// them.
    fn command_line(&self, desk: &Desk) -> Result<String, String> {
        let has_rates = !desk.records.rates.is_empty() || desk.queue.measurement.is_some();
        let session = desk.session.as_ref().filter(|_| has_rates && rates::refusal(desk).is_none());
        let measure = session.map(|session| format!(" measure --session {}", shell_word(&session.place())));
        Ok(format!("multicard node{}", measure.unwrap_or_default()))
    }

    fn sampling(&self) -> Option<Sampling> {
        Some(Sampling { interval: Duration::from_secs(1), only_use: false })
    }
}

/// Draws the Node screen.
fn node_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    ui.horizontal(|ui| {
        ui.heading("Node");
        let host = view.session.as_ref().and_then(|session| session.host());
        ui.label(muted(ui, host.map_or_else(|| "this machine".to_owned(), |host| format!("{host}, over ssh"))));
        if let Some(text) = age_text(view) {
            ui.label(muted(ui, text));
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let looking = view.own.refreshing || view.node.is_none();
            let text = if looking { "Refreshing …" } else { "Refresh" };
            let response = ui.add_enabled(!looking, Button::new(text));
            if response.on_hover_text("Queries the driver and the worker again; takes seconds").clicked() {
                commands.push(Command::from(NodeCommand::Refresh));
            }
        });
    });
    ui.add_space(GRID);
    let Some(node) = &view.node else {
        ui.label(muted(ui, "Querying the driver and the worker …"));
        return;
    };
    ScrollArea::vertical().id_salt("node").auto_shrink(false).show(ui, |ui| {
        // Room for the scroll bar.
        ui.set_max_width(ui.available_width() - 3.0 * GRID);
        let gap = 2.0 * GRID;
        if ui.available_width() < TWO_COLUMNS {
            left_ui(ui, view, node);
            ui.add_space(gap);
            right_ui(ui, view, node, commands);
            places_ui(ui, view, node, commands);
            return;
        }
        let count = if ui.available_width() < THREE_COLUMNS { 2 } else { 3 };
        ui.columns(count, |columns| {
            left_ui(&mut columns[0], view, node);
            right_ui(&mut columns[1], view, node, commands);
            // If there are two columns, these cards stand below the shorter one.
            let place = if count == 3 { 2 } else { usize::from(node.gpus.len() > FEW_GPUS) };
            places_ui(&mut columns[place], view, node, commands);
        });
    });
}

/// When the values were read, if that was a while ago.
fn age_text(view: View<'_>) -> Option<String> {
    let sample = view.sample.as_ref().filter(|_| view.has_few_samples() || view.sample_is_of_rest)?;
    let time = jiff::Timestamp::from_millisecond((sample.time_s * 1e3) as i64).ok()?;
    let time = time.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M:%S");
    let every_s = SAMPLES_AT_REST.as_secs();
    Some(format!("Values of {time}: read every {every_s} s while nobody touches the window"))
}

fn left_ui(ui: &mut Ui, view: View<'_>, node: &Node) {
    let sample = view.sample.as_ref();
    titled(ui, "Host", |ui| {
        pairs_ui(
            ui,
            "node-host",
            &[
                ("Name", node.hostname.clone()),
                ("System", node.system.clone()),
                ("Processor", node.cpu_model.clone()),
                ("Usable", format!("{}, {}", counted(node.cpus, "CPU"), bytes_text(node.memory_bytes as f64))),
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
            let mut checks = view.own.places.iter().flat_map(|places| &places.checks);
            let is_checked = checks.any(|check| check.found.contains(reason));
            let reason = if is_checked { "Checks says why." } else { reason };
            ui.add(Label::new(prose(ui, reason, palette(ui.visuals()).muted)).wrap());
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
            // While this session runs or measures something, it may itself be what uses the GPU.
            if let Some(signs) = of_gpu.filter(|_| !view.uses_machine()).and_then(signs_of_use) {
                ui.colored_label(palette(ui.visuals()).warning, format!("Used by other programs: {signs}"));
            }
            live::gpu_ui(ui, gpu, of_gpu);
        });
    }
}

fn right_ui(ui: &mut Ui, view: View<'_>, node: &Node, commands: &mut Vec<Command>) {
    // The multicard on another machine may be a version without these checks.
    if view.own.places.as_ref().is_none_or(|places| !places.checks.is_empty()) {
        titled(ui, "Checks", |ui| doctor::checks_ui(ui, view.own.places.as_ref()));
    }
    titled(ui, "Worker", |ui| worker_ui(ui, node));
    titled(ui, "Measured rates", |ui| rates::rates_ui(ui, view, node, commands));
    titled(ui, "Nsight Systems", |ui| match &node.nsys {
        Ok(nsys) => {
            pairs_ui(ui, "node-nsys", &[("Path", nsys.path.display().to_string()), ("Version", nsys.version.clone())]);
        }
        Err(reason) => {
            let text = format!("Nsight Systems cannot trace runs: {reason}. The built-in trace needs no profiler.");
            ui.add(Label::new(prose(ui, &text, palette(ui.visuals()).muted)).wrap());
        }
    });
}

fn places_ui(ui: &mut Ui, view: View<'_>, node: &Node, commands: &mut Vec<Command>) {
    titled(ui, "Disk space", |ui| place::disks_ui(ui, view.own.places.as_ref()));
    titled(ui, "Topology", |ui| match &view.own.places {
        Some(places) => topology::topology_ui(ui, node, &places.topology),
        None => {
            ui.weak("reading …");
        }
    });
    titled(ui, "Data sets", |ui| data::data_ui(ui, view, commands));
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
            ui.add(Label::new(prose(ui, value, ui.visuals().text_color())).wrap().selectable(true));
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
            ui.colored_label(palette.bad, "✗ not usable: built-in workloads cannot run, but programs of your own can");
            ui.add(Label::new(prose(ui, reason, ui.visuals().text_color())).wrap().selectable(true));
            ui.add_space(GRID);
            ui.add(Label::new(muted(ui, "Then press “Refresh”.")).wrap());
        }
    }
}
