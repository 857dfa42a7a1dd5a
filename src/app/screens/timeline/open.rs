//! Opens recordings; reports of nsys are converted once, in the background.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use eframe::egui::Context;

use super::TimelineScreen;
use super::{Shown, TimelineCommand, counters};
use crate::analysis::RunSummary;
use crate::app::command::ScreenName;
use crate::app::desk::Desk;
use crate::app::task::{Task, on_thread, taken};
use crate::foreign::cache_folder;
use crate::protocol::EVENTS_FILE;
use crate::trace::{Progress, StepsFrom, Timeline, TraceError, keep_for_timeline};

/// The message if a dialog ended without a file, which happens at once if the system has no dialog.
const NOTHING_CHOSEN: &str =
    "No recording was chosen. If no dialog appeared: multicard timeline FILE opens one from a terminal.";

/// Endings of recordings; `gz` is that of packed traces of PyTorch's profiler.
const RECORDINGS: [&str; 6] = ["nsys-rep", "qdrep", "sqlite", "events", "json", "gz"];

/// A recording that is being opened.
pub struct Opening {
    /// Its number among all recordings that were opened.
    order: usize,
    /// Its name.
    pub name: String,
    file: PathBuf,
    cell: Option<String>,
    /// Reads the recording, and the telemetry samples next to it.
    pub task: Task<Result<(Timeline, Vec<counters::Counter>), TraceError>>,
}

impl Opening {
    /// Its file, its name and its cell.
    pub(super) fn named(&mut self) -> (&PathBuf, &mut String, &mut Option<String>) {
        (&self.file, &mut self.name, &mut self.cell)
    }
}

impl TimelineScreen {
    /// Asks the user to choose a recording.
    pub(super) fn choose_recording(&mut self, context: &Context) {
        if self.choosing.is_none() {
            self.choosing = Some(on_thread("recording dialog", context, || {
                rfd::FileDialog::new().add_filter("recordings", &RECORDINGS).pick_file()
            }));
        }
    }

    /// Begins to open a recording.
    pub(super) fn open_recording(&mut self, file: PathBuf, name: String, desk: &mut Desk, context: &Context) {
        desk.screen = ScreenName::TIMELINE;
        let mut cells = desk.records.summaries.iter();
        self.outcome = None;
        let is_known = self.runs.iter().map(|run| &run.file).chain(self.opening.iter().map(|one| &one.file));
        if is_known.into_iter().any(|known| *known == file) {
            self.outcome = Some((format!("{name} is already shown"), true));
            return;
        }
        let from = file.clone();
        let task = Task::start("timeline opener", context, move |tell| open(&from, &StepsFrom::Found, tell));
        self.opened += 1;
        // The folder of a run has the name of the run; the name on screen may be another one.
        let folder = file.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let is_of = |summary: &&RunSummary| summary.run == name || summary.run == folder;
        let cell = cells.find(is_of).map(|summary| summary.cell.clone());
        self.opening.push(Opening { order: self.opened, name, file, cell, task });
    }

    /// Opens the run at an index again, divided into other steps. The new run takes the place of the old one.
    pub(super) fn divide(&mut self, place: usize, steps: StepsFrom, context: &Context) {
        let Some(run) = self.runs.get(place) else { return };
        if self.opening.iter().any(|one| one.file == run.file) {
            return;
        }
        self.outcome = None;
        let file = run.file.clone();
        let task = Task::start("timeline opener", context, move |tell| open(&file, &steps, tell));
        let (order, name, file, cell) = (run.order, run.name.clone(), run.file.clone(), run.cell.clone());
        self.opening.push(Opening { order, name, file, cell, task });
    }

    /// Takes over recordings that are open.
    pub(super) fn poll_recordings(&mut self, desk: &mut Desk, context: &Context) {
        match taken(&mut self.choosing) {
            Some(Some(file)) => {
                let name = name_of(&file);
                self.open_recording(file, name, desk, context);
            }
            Some(None) => self.outcome = Some((NOTHING_CHOSEN.to_owned(), true)),
            None => {}
        }
        let ended: Vec<Opening> = self.opening.extract_if(.., |opening| opening.task.has_ended()).collect();
        for Opening { order, name, file, cell, task } in ended {
            match task.result() {
                Ok((timeline, counters)) => {
                    let timeline = Arc::new(timeline);
                    let splitting_timeline = Arc::clone(&timeline);
                    let splitting =
                        Some(Task::start("timeline split", context, move |tell| splitting_timeline.split(tell)));
                    // A run that was divided again stays at its place.
                    let before =
                        self.runs.iter().position(|run| run.order == order).map(|place| self.runs.remove(place));
                    let zero = before.as_ref().map_or(timeline.span().0, |before| before.zero);
                    self.folds.entry(file.clone()).or_insert_with(|| desk.settings.folds_of(&file));
                    let details = std::collections::HashMap::new();
                    let place = self.runs.partition_point(|run| run.order < order);
                    if place < self.runs.len() {
                        self.forget_places();
                    }
                    let shown = Shown {
                        order,
                        name,
                        file,
                        timeline,
                        counters,
                        split: None,
                        zero,
                        details,
                        splitting,
                        cell,
                        path: None,
                        following: None,
                    };
                    self.runs.insert(place, shown);
                    if before.is_none() {
                        self.anchor_opened(order, context);
                        self.fit_work();
                    }
                }
                Err(TraceError::Cancelled) => {
                    self.outcome = Some((format!("{name} was not opened, because it was cancelled"), true));
                }
                Err(error) => self.outcome = Some((error.to_string(), false)),
            }
        }
    }
}

/// The name of a recording. Runs' recordings all have the same file name, so the name of the run's folder is used.
fn name_of(file: &Path) -> String {
    let name = match file.file_name() {
        Some(name) if name == EVENTS_FILE => file.parent().and_then(Path::file_name).unwrap_or(name),
        Some(name) => name,
        None => file.as_os_str(),
    };
    name.to_string_lossy().into_owned()
}

impl TimelineCommand {
    /// Opens a file.
    pub fn file(file: PathBuf) -> Self {
        let name = name_of(&file);
        Self::Open(file, name)
    }
}

fn open(
    file: &Path,
    steps: &StepsFrom,
    tell: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(Timeline, Vec<counters::Counter>), TraceError> {
    let cache = cache_folder().map(|folder| folder.join("multicard").join("traces"));
    let events = keep_for_timeline(file, cache, tell)?;
    let timeline = Timeline::open_divided(&events, steps, tell)?;
    let counters = timeline.epoch_ns().map_or_else(Vec::new, |epoch_ns| counters::beside(file, epoch_ns));
    Ok((timeline, counters))
}
