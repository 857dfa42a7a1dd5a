//! The curves kept in memory: a bounded number, chosen and running runs first, smoothed in the background.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use eframe::egui::Context;
use poll_promise::Promise;

use crate::app::curves::Curves;
use crate::app::curves::{Smooth, Track};
use crate::app::engine::{LiveBatch, RunCurves};
use crate::app::task::taken;

/// Most runs whose curves are kept.
pub(super) const KEPT_RUNS: usize = 16;
/// Most runs that are shown automatically.
pub(super) const AUTOMATIC_RUNS: usize = 4;
/// Most batches of new data that wait until the recorded curves of a run are read.
const WAITING_BATCHES: usize = 1000;
/// Most values smoothed within a frame, which takes about a millisecond.
const SMOOTHED_AT_ONCE: usize = 50_000;

/// A run that is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// The run's id.
    pub run: String,
    /// Index of its colour and marker, where these stand for no level.
    pub slot: usize,
    automatic: bool,
}

/// A run whose recorded curves are being read.
struct Reading {
    folder: PathBuf,
    waiting: Vec<LiveBatch>,
}

/// Smoothed columns of one generation of a run's curves.
struct Smoothed {
    run: String,
    generation: u64,
    tracks: Vec<Vec<Smooth>>,
}

/// The curves kept in memory.
#[derive(Default)]
pub struct Shelf {
    curves: BTreeMap<String, Arc<Curves>>,
    /// Runs in the order of their last update.
    order: Vec<String>,
    chosen: Vec<Chosen>,
    /// Whether finished runs were shown beside those that run.
    is_offered: bool,
    /// Running runs that the user has hidden.
    unwanted: Vec<String>,
    wanted: Vec<String>,
    reading: BTreeMap<String, Reading>,
    smoothing: Option<Promise<Vec<Smoothed>>>,
}

impl Shelf {
    /// The runs that are drawn, in the order they were chosen.
    pub fn chosen(&self) -> impl Iterator<Item = &Chosen> {
        self.chosen.iter()
    }

    /// The run if it is drawn.
    pub fn choice(&self, run: &str) -> Option<&Chosen> {
        self.chosen.iter().find(|chosen| chosen.run == run)
    }

    /// The curves of a run.
    pub fn curves(&self, run: &str) -> Option<&Curves> {
        self.curves.get(run).map(Arc::as_ref)
    }

    /// Whether a run's recorded curves are being read.
    pub fn is_reading(&self, run: &str) -> bool {
        self.reading.contains_key(run) || self.wanted.iter().any(|wanted| wanted == run)
    }

    /// Shows or hides a run.
    pub fn choose(&mut self, run: &str, on: bool) {
        self.unwanted.retain(|unwanted| unwanted != run);
        if on {
            if let Some(chosen) = self.chosen.iter_mut().find(|chosen| chosen.run == run) {
                chosen.automatic = false;
                return;
            }
            self.add(run, false);
            if !self.curves.contains_key(run) {
                self.want(run);
            }
        } else {
            self.chosen.retain(|chosen| chosen.run != run);
            self.wanted.retain(|wanted| wanted != run);
            self.unwanted.push(run.to_owned());
        }
    }

    /// Shows finished runs, the oldest first, as far as there is room beside those that run: what is drawn is the same whether the window
    /// was there while they ran or not. Once the user has chosen runs, none is added.
    pub fn offer<'a>(&mut self, runs: impl FnOnce() -> Vec<&'a str>) {
        let is_chosen_by_user = self.chosen.iter().any(|chosen| !chosen.automatic) || !self.unwanted.is_empty();
        if self.is_offered || is_chosen_by_user {
            return;
        }
        let runs = runs();
        self.is_offered = !runs.is_empty();
        let room = AUTOMATIC_RUNS.saturating_sub(self.chosen.len());
        let new: Vec<&str> = runs.into_iter().filter(|run| self.choice(run).is_none()).collect();
        for run in &new[new.len().saturating_sub(room)..] {
            self.add(run, true);
            self.want(run);
        }
    }

    /// Hides all runs.
    pub fn choose_none(&mut self) {
        for run in self.chosen.iter().map(|chosen| chosen.run.clone()).collect::<Vec<_>>() {
            self.choose(&run, false);
        }
    }

    fn want(&mut self, run: &str) {
        if !self.is_reading(run) {
            self.wanted.push(run.to_owned());
        }
    }

    fn add(&mut self, run: &str, automatic: bool) {
        // The place of a run in its session gives it the same colour whenever it is drawn, unless another one has it.
        let place = place_in_session(run) % KEPT_RUNS;
        let is_free = |slot: &usize| self.chosen.iter().all(|chosen| chosen.slot != *slot);
        let slot = (place..).find(is_free).unwrap_or(place);
        self.chosen.push(Chosen { run: run.to_owned(), slot, automatic });
    }

    /// Reads the drawn runs again and drops all others, because steps may have been missed; the drawn runs stay visible until then.
    pub fn read_anew(&mut self) {
        self.reading.clear();
        let Self { curves, order, chosen, .. } = self;
        let is_drawn = |run: &String| chosen.iter().any(|chosen| chosen.run == *run);
        curves.retain(|run, _| is_drawn(run));
        order.retain(is_drawn);
        for run in self.chosen.iter().map(|chosen| chosen.run.clone()).collect::<Vec<_>>() {
            self.want(&run);
        }
    }

    /// The runs to read now.
    pub fn ask(&mut self, folder: &Path) -> impl Iterator<Item = String> + use<> {
        let asked = std::mem::take(&mut self.wanted);
        for run in &asked {
            let reading = Reading { folder: folder.to_owned(), waiting: Vec::new() };
            self.reading.insert(run.clone(), reading);
        }
        asked.into_iter()
    }

    /// Takes over new steps and samples.
    pub fn take(&mut self, batch: LiveBatch) {
        let run = batch.run.clone();
        if !self.curves.contains_key(&run) {
            // The start of a run that was already active must be read from the session. Samples alone do not show this.
            if batch.steps.first().is_none_or(|step| step.step.step > 1) {
                self.want(&run);
            }
            if !self.unwanted.contains(&run) && self.choice(&run).is_none() {
                self.add(&run, true);
            }
        }
        if let Some(reading) = self.reading.get_mut(&run) {
            reading.waiting.push(batch.clone());
            if reading.waiting.len() > WAITING_BATCHES {
                self.reading.remove(&run);
            }
        }
        let curves = Arc::make_mut(self.curves.entry(run.clone()).or_default());
        append(curves, batch);
        self.used(&run);
    }

    /// Takes over the recorded curves of a run.
    pub fn take_curves(&mut self, read: RunCurves) {
        // Curves of another session, or curves that are not wanted any more.
        let Some(reading) = self.reading.remove(&read.run).filter(|reading| reading.folder == read.folder) else {
            return;
        };
        // Smoothing in progress belongs to the replaced curves.
        self.smoothing = None;
        let mut curves = read.curves;
        for batch in reading.waiting {
            append(&mut curves, batch);
        }
        self.curves.insert(read.run.clone(), Arc::new(curves));
        self.used(&read.run);
    }

    /// Drops surplus automatically shown runs, then surplus curves, oldest first.
    fn used(&mut self, run: &str) {
        self.order.retain(|other| *other != run);
        self.order.push(run.to_owned());
        let automatic = |chosen: &&Chosen| chosen.automatic && chosen.run != run;
        if self.chosen.iter().filter(automatic).count() >= AUTOMATIC_RUNS {
            let age = |chosen: &&Chosen| self.order.iter().position(|other| *other == chosen.run);
            let oldest = self.chosen.iter().filter(automatic).min_by_key(age).map(|chosen| chosen.run.clone());
            self.chosen.retain(|chosen| Some(&chosen.run) != oldest.as_ref());
        }
        while self.order.len() > KEPT_RUNS {
            let old = self.order.iter().position(|run| self.choice(run).is_none()).unwrap_or(0);
            let run = self.order.remove(old);
            self.curves.remove(&run);
            self.chosen.retain(|chosen| chosen.run != run);
        }
    }

    /// Smooths curves with `factor`: short ones at once, others in the background.
    pub fn smooth(&mut self, factor: f32, context: &Context) {
        if let Some(done) = taken(&mut self.smoothing) {
            done.into_iter().for_each(|smoothed| self.install(smoothed, factor));
        } else if self.smoothing.is_some() {
            return;
        }
        let mut long = Vec::new();
        for Chosen { run, .. } in &self.chosen {
            let Some(curves) = self.curves.get_mut(run) else { continue };
            if curves.tracks().all(|track| track.is_smooth(factor)) {
                continue;
            }
            let values: usize = curves.tracks().map(|track| track.times.len() * track.columns.len()).sum();
            if factor == 0.0 || values <= SMOOTHED_AT_ONCE {
                Arc::make_mut(curves).tracks_mut().for_each(|track| track.smooth(factor));
            } else {
                long.push((run.clone(), Arc::clone(curves)));
            }
        }
        if long.is_empty() {
            return;
        }
        let context = context.clone();
        self.smoothing = Some(Promise::spawn_thread("smoothing", move || {
            let smoothed = |(run, curves): (String, Arc<Curves>)| Smoothed {
                tracks: curves.tracks().map(|track| track.smoothed(factor)).collect(),
                generation: curves.generation,
                run,
            };
            let all = long.into_iter().map(smoothed).collect();
            context.request_repaint();
            all
        }));
    }

    /// Whether all drawn curves are smoothed with `factor`.
    pub fn is_smooth(&self, factor: f32) -> bool {
        let curves = self.chosen.iter().filter_map(|chosen| self.curves(&chosen.run));
        curves.flat_map(Curves::tracks).all(|track| track.is_smooth(factor))
    }

    fn install(&mut self, smoothed: Smoothed, factor: f32) {
        let Some(curves) = self.curves.get_mut(&smoothed.run) else { return };
        // The columns changed in the meantime: they are smoothed again.
        if curves.generation != smoothed.generation {
            return;
        }
        for (track, columns) in Arc::make_mut(curves).tracks_mut().zip(smoothed.tracks) {
            for (column, smooth) in track.columns.iter_mut().zip(columns) {
                column.smooth = (smooth.factor == factor).then_some(smooth);
            }
            track.catch_up();
        }
    }
}

/// How many runs were queued before one, by the number that its id begins with.
pub(super) fn place_in_session(run: &str) -> usize {
    let number = run.split('-').next().and_then(|number| number.parse::<usize>().ok());
    number.map_or(0, |number| number.saturating_sub(1))
}

fn append(curves: &mut Curves, batch: LiveBatch) {
    if batch.withdraws_steps {
        curves.withdraw_steps();
    }
    curves.append(batch.steps, batch.samples);
    curves.tracks_mut().for_each(Track::catch_up);
}
