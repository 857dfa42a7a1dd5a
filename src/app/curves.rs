//! The curves of one run: losses, step times and telemetry, ready to draw. The curves grow during the run.

mod kind;
mod track;

pub use kind::{Kind, XAxis};
pub use track::{Column, Smooth, Track};

use crate::protocol::{GpuSample, Sample};
use crate::store::StepRecord;

/// One step of one rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LiveStep {
    /// The rank.
    pub rank: u32,
    /// The step.
    pub step: StepRecord,
}

/// Start of an epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EpochStart {
    /// The epoch, from 1.
    pub epoch: u32,
    /// Its time, in seconds since the Unix epoch.
    pub time_s: f64,
    /// Its first step.
    pub step: u64,
}

/// The curves of one run.
#[derive(Clone, Debug, Default)]
pub struct Curves {
    /// Losses and step times of each rank.
    ranks: Vec<RankTrack>,
    /// Losses and step times of all ranks together, if there is more than one rank.
    joined: Track,
    samples: Track,
    gpus: Vec<String>,
    /// Epochs from the second on.
    pub epochs: Vec<EpochStart>,
    /// Time and number of the first and the last warm-up step.
    pub warm_up: Option<[(f64, u64); 2]>,
    /// Changes whenever columns are replaced.
    pub generation: u64,
    last_epoch: u32,
    start_s: Option<f64>,
}

#[derive(Clone, Debug, Default)]
struct RankTrack {
    rank: u32,
    track: Track,
    units: Vec<u32>,
    /// Steps already in the joined track.
    joined: usize,
}

impl Curves {
    /// Builds the curves of a run from its steps and samples.
    pub fn build(steps: impl IntoIterator<Item = LiveStep>, samples: impl IntoIterator<Item = Sample>) -> Self {
        let mut curves = Self::default();
        curves.append(steps, samples);
        curves
    }

    /// Appends new steps and samples; known ones are skipped.
    pub fn append(&mut self, steps: impl IntoIterator<Item = LiveStep>, samples: impl IntoIterator<Item = Sample>) {
        steps.into_iter().for_each(|step| self.step(&step));
        samples.into_iter().for_each(|sample| self.sample(&sample));
        self.join();
    }

    /// Drops all steps; the samples stay.
    pub fn withdraw_steps(&mut self) {
        let (samples, gpus) = (std::mem::take(&mut self.samples), std::mem::take(&mut self.gpus));
        let (start_s, generation) = (self.start_s, self.generation + 1);
        *self = Self { samples, gpus, start_s, generation, ..Self::default() };
    }

    /// Time of the first step or sample, in seconds since the Unix epoch.
    pub fn start_s(&self) -> f64 {
        self.start_s.unwrap_or(0.0)
    }

    /// Whether there are no data yet.
    pub fn is_empty(&self) -> bool {
        self.ranks.is_empty() && self.samples.times.is_empty()
    }

    /// Number of sampled GPUs.
    pub fn gpus(&self) -> usize {
        self.gpus.len()
    }

    /// The steps of the run as a whole.
    pub fn steps(&self) -> Option<&Track> {
        match &self.ranks[..] {
            [] => None,
            [one] => Some(&one.track),
            _ => Some(&self.joined),
        }
    }

    /// The telemetry of the run.
    pub fn samples(&self) -> &Track {
        &self.samples
    }

    /// The tracks and columns of a quantity: one for the run, or with `apart` one for each rank or GPU, with its name.
    pub fn of(&self, kind: Kind, apart: bool) -> Vec<(Option<String>, &Track, usize)> {
        if let Some(column) = Kind::OF_STEPS.iter().position(|k| *k == kind) {
            if apart && self.ranks.len() > 1 {
                return self.ranks.iter().map(|r| (Some(format!("rank {}", r.rank)), &r.track, column)).collect();
            }
            return self.steps().map(|track| (None, track, column)).into_iter().collect();
        }
        if let Some(column) = Kind::OF_HOST.iter().position(|k| *k == kind) {
            return vec![(None, &self.samples, column)];
        }
        let Some(place) = Kind::OF_GPUS.iter().position(|k| *k == kind) else { return Vec::new() };
        if self.gpus.is_empty() {
            return Vec::new();
        }
        if apart && self.gpus.len() > 1 {
            let gpu = |gpu| (Some(format!("GPU {gpu}")), &self.samples, gpu_column(gpu, place));
            return (0..self.gpus.len()).map(gpu).collect();
        }
        vec![(None, &self.samples, whole_column(place))]
    }

    /// Number of ranks or GPUs that have a quantity.
    pub fn parts(&self, kind: Kind) -> usize {
        match kind {
            Kind::Loss | Kind::StepTime => self.ranks.len(),
            Kind::HostCpus | Kind::HostMemory => 1,
            _ => self.gpus.len(),
        }
    }

    /// All tracks, always in the same order.
    pub fn tracks(&self) -> impl Iterator<Item = &Track> {
        self.ranks.iter().map(|rank| &rank.track).chain([&self.joined, &self.samples])
    }

    /// All tracks in the same order, mutable.
    pub fn tracks_mut(&mut self) -> impl Iterator<Item = &mut Track> {
        self.ranks.iter_mut().map(|rank| &mut rank.track).chain([&mut self.joined, &mut self.samples])
    }

    fn step(&mut self, LiveStep { rank, step }: &LiveStep) {
        let known = self.ranks.iter().position(|known| known.rank == *rank);
        let index = known.unwrap_or_else(|| self.add_rank(*rank));
        let Some(of_rank) = self.ranks.get_mut(index) else { return };
        let number = step.step as f64;
        let last = of_rank.track.steps.last().copied().zip(of_rank.track.times.last().copied());
        if let Some((_, last_s)) = last.filter(|(last, _)| *last >= number) {
            if step.step == 1 && step.time_s > last_s {
                // The run was started again.
                *self = Self { generation: self.generation + 1, ..Self::default() };
                self.step(&LiveStep { rank: *rank, step: *step });
            }
            return;
        }
        let started_s = step.time_s - step.duration_s;
        of_rank.track.push(step.time_s, Some(number), [step.loss, step.duration_s]);
        of_rank.units.push(step.stored_units().unwrap_or_default());
        self.started(started_s);
        if index > 0 {
            return;
        }
        if step.epoch > self.last_epoch {
            if self.last_epoch > 0 {
                self.epochs.push(EpochStart { epoch: step.epoch, time_s: started_s, step: step.step });
            }
            self.last_epoch = step.epoch;
        }
        if step.warm_up {
            let first = self.warm_up.map_or((started_s, step.step), |[first, _]| first);
            self.warm_up = Some([first, (step.time_s, step.step)]);
        }
    }

    fn started(&mut self, time_s: f64) {
        if time_s.is_finite() && self.start_s.is_none_or(|start| time_s < start) {
            self.start_s = Some(time_s);
        }
    }

    fn add_rank(&mut self, rank: u32) -> usize {
        let index = self.ranks.partition_point(|known| known.rank < rank);
        self.ranks.insert(index, RankTrack { rank, track: Track::with_columns(2), ..RankTrack::default() });
        // The joined track lacks this rank.
        self.joined = Track::with_columns(2);
        self.ranks.iter_mut().for_each(|rank| rank.joined = 0);
        self.generation += 1;
        index
    }

    /// Joins the steps that all ranks have done.
    fn join(&mut self) {
        if self.ranks.len() < 2 {
            return;
        }
        loop {
            // The next step of each rank; the largest one is next for all.
            let next = |rank: &RankTrack| rank.track.steps.get(rank.joined).copied();
            let Some(nexts) = self.ranks.iter().map(next).collect::<Option<Vec<f64>>>() else { return };
            let step = nexts.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if nexts.iter().any(|next| *next < step) {
                for (rank, next) in self.ranks.iter_mut().zip(&nexts) {
                    rank.joined += usize::from(*next < step);
                }
                continue;
            }
            let (mut time_s, mut duration_s, mut loss, mut units) = (f64::NEG_INFINITY, 0.0, 0.0, 0.0);
            for rank in &mut self.ranks {
                let at = rank.joined;
                let value = |column| rank.track.value(column, at);
                let weight = f64::from(rank.units.get(at).copied().unwrap_or(0).max(1));
                time_s = rank.track.times.get(at).copied().unwrap_or(time_s).max(time_s);
                duration_s = value(1).max(duration_s);
                loss += weight * value(0);
                units += weight;
                rank.joined += 1;
            }
            self.joined.push(time_s, Some(step), [loss / units, duration_s]);
        }
    }

    fn sample(&mut self, sample: &Sample) {
        let time_s = sample.time_s;
        if self.samples.times.last().is_some_and(|last| *last >= time_s) {
            return;
        }
        self.started(time_s);
        let columns = Kind::OF_HOST.len() + Kind::OF_GPUS.len();
        if self.samples.columns.is_empty() {
            self.samples = Track::with_columns(columns);
        }
        for gpu in &sample.gpus {
            if !self.gpus.contains(&gpu.uuid) {
                self.gpus.push(gpu.uuid.clone());
                self.samples.add_columns(Kind::OF_GPUS.len());
                self.generation += 1;
            }
        }
        if let (Some(hole_s), Some(last)) = (sample.hole_s, self.samples.times.last()) {
            let middle = (time_s - hole_s / 2.0).clamp(*last, time_s);
            self.samples.push(middle, None, []);
        }
        let gpus: Vec<Option<&GpuSample>> =
            self.gpus.iter().map(|uuid| sample.gpus.iter().find(|gpu| gpu.uuid == *uuid)).collect();
        let mut row = vec![sample.host.cpus_busy, sample.host.memory_used_bytes.map(|bytes| bytes as f64)];
        for kind in Kind::OF_GPUS {
            let values: Vec<Option<f64>> = gpus.iter().map(|gpu| gpu.and_then(|gpu| reading(gpu, kind))).collect();
            row.push(kind.of_all(&values));
        }
        for gpu in gpus {
            row.extend(Kind::OF_GPUS.iter().map(|kind| gpu.and_then(|gpu| reading(gpu, *kind))));
        }
        self.samples.push(time_s, None, row.into_iter().map(|value| value.unwrap_or(f64::NAN)));
    }
}

fn whole_column(place: usize) -> usize {
    Kind::OF_HOST.len() + place
}

fn gpu_column(gpu: usize, place: usize) -> usize {
    Kind::OF_HOST.len() + (gpu + 1) * Kind::OF_GPUS.len() + place
}

fn reading(gpu: &GpuSample, kind: Kind) -> Option<f64> {
    match kind {
        Kind::Memory => gpu.memory_used_bytes.map(|bytes| bytes as f64),
        Kind::Power => gpu.power_w,
        Kind::Busy => gpu.busy,
        Kind::SmActivity => gpu.sm_activity,
        Kind::Temperature => gpu.temperature_c,
        Kind::Loss | Kind::StepTime | Kind::HostCpus | Kind::HostMemory => None,
    }
}
