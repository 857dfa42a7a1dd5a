//! Opening recordings: reports of nsys are converted once, in the background.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use eframe::egui::Context;
use poll_promise::Promise;

use super::{Shown, zero};
use crate::app::plan::on_thread;
use crate::app::{Screen, State};
use crate::foreign::cache_folder;
use crate::trace::{Progress, Timeline, TraceError, keep_for_timeline};

/// A recording that is being opened.
pub struct Opening {
    /// Its place among all that were asked for.
    order: usize,
    /// Its name.
    pub name: String,
    file: PathBuf,
    shared: Arc<Shared>,
    work: Promise<Result<Timeline, TraceError>>,
}

#[derive(Default)]
struct Shared {
    cancelled: AtomicBool,
    /// In thousandths.
    done: AtomicU32,
}

impl Opening {
    /// Stops it.
    pub fn cancel(&self) {
        self.shared.cancelled.store(true, Ordering::Relaxed);
    }

    /// The part that is done, from 0 to 1.
    pub fn done(&self) -> f32 {
        self.shared.done.load(Ordering::Relaxed) as f32 / 1000.0
    }
}

impl State {
    /// Asks for a recording.
    pub(super) fn choose_recording(&mut self, context: &Context) {
        if self.timeline.choosing.is_none() {
            self.timeline.choosing = Some(on_thread("recording dialog", context, || {
                rfd::FileDialog::new().add_filter("recordings", &["nsys-rep", "qdrep", "sqlite", "events"]).pick_file()
            }));
        }
    }

    /// Begins to open a recording.
    pub(super) fn open_recording(&mut self, file: PathBuf, name: String, context: &Context) {
        self.screen = Screen::Timeline;
        let state = &mut self.timeline;
        state.said = None;
        let is_known = state.runs.iter().map(|run| &run.file).chain(state.opening.iter().map(|one| &one.file));
        if is_known.into_iter().any(|known| *known == file) {
            state.said = Some((format!("{name} is shown already"), true));
            return;
        }
        let shared = Arc::new(Shared::default());
        let work = {
            let (file, shared, context) = (file.clone(), Arc::clone(&shared), context.clone());
            move || open(&file, &shared, &context)
        };
        let work = on_thread("timeline opener", context, work);
        state.asked += 1;
        state.opening.push(Opening { order: state.asked, name, file, shared, work });
    }

    /// Takes over recordings that are open.
    pub(super) fn poll_recordings(&mut self, context: &Context) {
        if let Some(choosing) = self.timeline.choosing.take() {
            match choosing.try_take() {
                Ok(Some(file)) => {
                    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
                    self.open_recording(file, name, context);
                }
                Ok(None) => {}
                Err(choosing) => self.timeline.choosing = Some(choosing),
            }
        }
        let state = &mut self.timeline;
        for Opening { order, name, file, shared, work } in std::mem::take(&mut state.opening) {
            match work.try_take() {
                Ok(Ok(timeline)) => {
                    let timeline = Arc::new(timeline);
                    let of = Arc::clone(&timeline);
                    let splitting = Some(on_thread("timeline split", context, move || of.split()));
                    let zero = zero(&timeline, state.anchor).unwrap_or_else(|| timeline.span().0);
                    let details = std::collections::HashMap::new();
                    let place = state.runs.partition_point(|run| run.order < order);
                    if place < state.runs.len() {
                        state.forget_places();
                    }
                    let shown = Shown { order, name, file, timeline, split: None, zero, details, splitting };
                    state.runs.insert(place, shown);
                    state.fit();
                }
                Ok(Err(TraceError::Cancelled)) => {
                    state.said = Some((format!("{name} was not opened: cancelled"), true));
                }
                Ok(Err(error)) => state.said = Some((error.to_string(), false)),
                Err(work) => state.opening.push(Opening { order, name, file, shared, work }),
            }
        }
    }
}

fn open(file: &Path, shared: &Shared, context: &Context) -> Result<Timeline, TraceError> {
    let mut tell = |progress: Progress| {
        let done = (progress.fraction * 1000.0) as u32;
        if shared.done.swap(done, Ordering::Relaxed) != done {
            context.request_repaint();
        }
        if shared.cancelled.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let cache = cache_folder().map(|folder| folder.join("multicard").join("traces"));
    let events = keep_for_timeline(file, cache, &mut tell)?;
    Timeline::open(&events, &mut tell)
}
