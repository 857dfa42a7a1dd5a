//! The loop: next batch, step, report. One for every strategy and precision.

use std::ffi::CString;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use multicard::plan::{CUDA_GRAPH_WARM_UP_STEPS, ImageSettings};
use multicard::protocol::{Event, FailureKind, Job, Phase, RankPlace};

use crate::binding;
use crate::capture::CaptureWindow;
use crate::clock::{StepClock, StepDone, StepInfo};
use crate::device::RankDevice;
use crate::image::data::{Batch, Epoch, Loader, Mode};
use crate::image::evidence;
use crate::image::fence;
use crate::image::set;
use crate::job;
use crate::parallel::{self, Coverage, Peers};
use crate::report::{FAILED, Report, Stop};
use crate::shim::{NvtxRange, exit_now};
use crate::trainer::Trainer;
use crate::watchdog::Watchdog;

/// In the first steps cuDNN tries its algorithms.
const TRIAL_STEPS: u64 = 3;

/// So many losses in a row that are no numbers end a run.
const NOT_FINITE: u32 = 5;
/// With loss scaling it takes this many halvings until the scale is useless.
const NOT_FINITE_SCALED: u32 = 40;

/// What the loop works on.
struct Run<'a> {
    job: &'a Job,
    settings: &'a ImageSettings,
    device: &'a RankDevice,
    peers: Option<&'a Rc<Peers>>,
    report: &'a mut Report,
    trainer: Trainer,
    clock: StepClock,
    capture: CaptureWindow,
    phase: Phase,
    /// Steps given to the device so far, and in the whole run.
    step: u64,
    steps: u64,
    losses: Losses,
    /// Where this rank runs, as its job says.
    place: Option<&'a RankPlace>,
    /// Looks after steps that wait for other GPUs.
    watchdog: Option<Watchdog>,
    /// Steps given to the device that are not over.
    owed: u64,
}

/// Losses in a row that were no numbers.
struct Losses {
    not_finite: u32,
    limit: u32,
}

impl Losses {
    /// Takes the next loss. With loss scaling some may overflow; more than that in a row are an error.
    fn see(&mut self, loss: f64) -> Result<(), String> {
        self.not_finite = if loss.is_finite() { 0 } else { self.not_finite + 1 };
        if self.not_finite < self.limit {
            return Ok(());
        }
        Err(format!("{} losses in a row were no numbers", self.not_finite))
    }
}

/// What the steps of an epoch add up to.
#[derive(Default)]
struct Sums {
    loss: f64,
    images: u64,
    bytes: u64,
    /// Kept in the first epoch.
    coverage: Option<Coverage>,
}

/// Trains one rank as its job says, beside its peers where there are some, and tells its log. `Started` is already told.
pub fn run(
    job: &Job,
    rank: u32,
    settings: &ImageSettings,
    device: &RankDevice,
    peers: Option<&Rc<Peers>>,
    report: &mut Report,
) -> Result<(), Stop> {
    report.event(Event::Phase { phase: Phase::Start })?;
    let capture = CaptureWindow::new(job.trace, rank);
    let mut trainer = Trainer::new(settings, device.device, job.seed, rank)?;
    trainer.spread(parallel::strategy(settings, &trainer, &device.devices, peers)?);
    let model = trainer.model();
    report.event(Event::Model { name: "mobilenet_v2".into() })?;
    report.reading("parameters", model.parameter_count() as f64, None, None)?;
    let clock = StepClock::new(device.device, trainer.arithmetic().weights())?;

    report.event(Event::Phase { phase: Phase::Load })?;
    let set = set::read(job, settings, peers)?;
    for message in set.left_out {
        report.event(Event::Warning { message })?;
    }
    report.event(Event::Evidence(set.copies))?;
    let shard = parallel::shard(settings, peers);
    report.reading("unit_copies", shard.copies() as f64, None, None)?;
    // Models of one process are fed from one loader.
    let fed = ImageSettings { batch_size: settings.batch_size * device.devices.len(), ..settings.clone() };
    let loader = |samples, mode| Loader::new(samples, &fed, device.device, job.seed, mode, shard, fence::new);
    let mut train = loader(Arc::new(set.train), Mode::Train)?;
    let mut test = loader(Arc::new(set.test), Mode::Evaluate)?;
    let steps = (train.batches() * settings.epochs) as u64;
    if steps == 0 {
        let message = format!(
            "train_images = {} gives {} devices no full batch of {}: lower batch_size or take more images",
            settings.train_images, settings.gpus, settings.batch_size
        );
        return Err(Stop::failed(FailureKind::Input, message));
    }

    let limit = if trainer.arithmetic().scale().is_some() { NOT_FINITE_SCALED } else { NOT_FINITE };
    let (phase, losses) = (Phase::Load, Losses { not_finite: 0, limit });
    let place = job::place(job, rank);
    let watchdog =
        peers.filter(|_| device.device.is_cuda()).map(|peers| watch_steps(peers, settings, report)).transpose()?;
    let mut run = Run {
        job,
        settings,
        device,
        peers,
        report,
        trainer,
        clock,
        capture,
        phase,
        step: 0,
        steps,
        losses,
        place,
        watchdog,
        owed: 0,
    };
    match (run.epochs(&mut train, &mut test), peers) {
        // Freeing what the run holds may wait for the other ranks, which wait for this one.
        (Err(stop), Some(peers)) => give_up(run.report, &peers.explain(stop)),
        (outcome, _) => outcome,
    }
}

/// Ends the process, which hangs, when a step does not end.
fn watch_steps(peers: &Peers, settings: &ImageSettings, report: &Report) -> Result<Watchdog, Stop> {
    let limit = Peers::step_timeout(settings.cuda_graph);
    let (explain, mut report) = (peers.hang(limit), report.clone());
    Watchdog::start(limit, move || give_up(&mut report, &explain()))
        .map_err(|error| Stop::failed(FailureKind::Engine, format!("starting the watchdog failed: {error}")))
}

/// Tells why the rank failed and ends its process at once. For a rank among others.
fn give_up(report: &mut Report, stop: &Stop) -> ! {
    eprintln!("multicard-worker: {stop}");
    // Where the log cannot be written, the line above is what is left.
    let _ = report.failed(stop);
    exit_now(FAILED)
}

/// Waits for the device, which owes nothing then, and for all ranks.
fn meet(device: &RankDevice, peers: Option<&Rc<Peers>>, watchdog: Option<&Watchdog>) -> Result<(), Stop> {
    device.synchronize()?;
    if let Some(watchdog) = watchdog {
        watchdog.done(false);
    }
    peers.map_or(Ok(()), |peers| peers.meet())
}

impl Run<'_> {
    fn epochs(&mut self, train: &mut Loader, test: &mut Loader) -> Result<(), Stop> {
        for epoch in 1..=self.settings.epochs as u32 {
            self.train(epoch, train)?;
            self.evaluate(epoch, test)?;
            self.report_memory(self.step < self.memory_counts_from())?;
        }
        let replays = self.trainer.replays();
        self.report.event(Event::Evidence(evidence::cuda_graph(self.settings, replays, self.steps)))?;
        if let Some(peers) = self.peers {
            let evidence = parallel::weights(self.settings, self.trainer.model(), peers)?;
            self.report.event(Event::Evidence(evidence))?;
        }
        Ok(())
    }

    fn report_memory(&mut self, warm_up: bool) -> Result<(), Stop> {
        for (key, value) in self.device.memory(warm_up)? {
            self.report.reading(key, value, None, None)?;
        }
        Ok(())
    }

    fn enter(&mut self, phase: Phase) -> Result<(), Stop> {
        if self.phase == phase {
            return Ok(());
        }
        self.phase = phase;
        self.report.event(Event::Phase { phase })
    }

    fn warm_up(&self, step: u64) -> bool {
        step <= self.job.warm_up_steps.max(self.settings.own_warm_up_steps())
    }

    /// The step from which memory counts. Before it, libraries try their algorithms, which takes more memory than they then need.
    /// A graph's memory is that of its capture: a replay allocates nothing.
    fn memory_counts_from(&self) -> u64 {
        if self.settings.cuda_graph {
            CUDA_GRAPH_WARM_UP_STEPS
        } else {
            self.job.warm_up_steps.max(self.settings.own_warm_up_steps()) + 1
        }
    }

    /// Whether a step that does not end means that a rank hangs: trying algorithms and capturing take their time.
    fn is_watched(&self) -> bool {
        if self.settings.cuda_graph { self.trainer.replays().steps > 0 } else { self.step > TRIAL_STEPS }
    }

    fn train(&mut self, epoch: u32, loader: &mut Loader) -> Result<(), Stop> {
        let (skipped_before, _) = self.trainer.arithmetic().skipped()?;
        let coverage = (epoch == 1).then(|| Coverage::new(self.settings.train_images));
        let mut sums = Sums { coverage, ..Sums::default() };
        let mut kept = None;
        let _range = NvtxRange::new(&CString::new(format!("epoch {epoch}")).unwrap_or_default());
        self.enter(if self.warm_up(self.step + 1) { Phase::WarmUp } else { Phase::Steady })?;
        self.device.synchronize()?;
        let begin = Instant::now();
        self.clock.begin()?;
        let mut batches = loader.epoch(epoch);
        while let Some(batch) = load_next(&mut batches)? {
            self.step += 1;
            let warm_up = self.warm_up(self.step);
            if !warm_up {
                self.enter(Phase::Steady)?;
            }
            self.capture.before_step(self.step, || meet(self.device, self.peers, self.watchdog.as_ref()))?;
            if self.step == self.memory_counts_from() && self.step > 1 {
                self.report_memory(true)?;
            }
            if let Some(watchdog) = self.watchdog.as_ref().filter(|_| self.is_watched()) {
                watchdog.given();
            }
            self.owed += 1;
            let loss = {
                let _range = NvtxRange::new(c"step");
                self.trainer.step(&batch.images, &batch.labels)?
            };
            let info = StepInfo { step: self.step, load_wait_s: batch.wait_s, images: batch.count as u32 };
            self.clock.end_step(info, &loss)?;
            self.capture.after_step(self.step, || meet(self.device, self.peers, self.watchdog.as_ref()))?;
            sums.bytes += batch.bytes * batch.received_batches as u64;
            if let Some(coverage) = &mut sums.coverage {
                coverage.see(&batch.indices, batch.count * batch.received_batches);
            }
            self.report_steps(epoch, false, &mut sums)?;
            if self.step == 1 {
                // Looking costs time: in the warm-up, or else after the epoch.
                if warm_up { self.tell_evidence(&batch)? } else { kept = Some(batch) }
            }
        }
        self.report_steps(epoch, true, &mut sums)?;
        let duration_s = begin.elapsed().as_secs_f64();
        if let Some(batch) = kept {
            self.tell_evidence(&batch)?;
        }
        let (skipped, usable) = self.trainer.arithmetic().skipped()?;
        for (key, value) in [
            ("epoch_time_s", duration_s),
            ("train_loss", sums.loss / sums.images.max(1) as f64),
            ("units", sums.images as f64),
            ("received_bytes", sums.bytes as f64),
            ("loader_start_s", batches.start_s().unwrap_or_default()),
            ("skipped_updates", (skipped - skipped_before) as f64),
        ] {
            self.report.reading(key, value, Some(epoch), None)?;
        }
        if let Some(coverage) = sums.coverage {
            self.report.event(Event::Evidence(coverage.evidence(self.settings, self.peers)?))?;
            self.report.event(Event::Evidence(evidence::gpus(self.settings, &self.trainer)?))?;
        }
        if usable { Ok(()) } else { Err(not_finite(self.step, "the loss scale has collapsed")) }
    }

    /// Tells the steps that are over; with `all`, waits for those that are not.
    fn report_steps(&mut self, epoch: u32, all: bool, sums: &mut Sums) -> Result<(), Stop> {
        while let Some(StepDone { info, duration_s, loss }) = self.clock.next_done(all)? {
            self.owed = self.owed.saturating_sub(1);
            if let Some(watchdog) = &self.watchdog {
                watchdog.done(self.owed > 0 && self.is_watched());
            }
            sums.loss += loss * f64::from(info.images);
            sums.images += u64::from(info.images);
            self.report.event(Event::Step {
                epoch,
                step: info.step,
                steps: self.steps,
                duration_s,
                load_wait_s: info.load_wait_s,
                loss,
                units: info.images,
                warm_up: self.warm_up(info.step),
            })?;
            self.losses.see(loss).map_err(|found| not_finite(info.step, &found))?;
        }
        Ok(())
    }

    fn tell_evidence(&mut self, batch: &Batch) -> Result<(), Stop> {
        for evidence in evidence::gather(self.settings, &self.trainer, batch)? {
            self.report.event(Event::Evidence(evidence))?;
        }
        if let Some(place) = self.place {
            self.report.event(Event::Evidence(binding::evidence(self.settings.numa, place)))?;
        }
        Ok(())
    }

    fn evaluate(&mut self, epoch: u32, loader: &mut Loader) -> Result<(), Stop> {
        self.enter(Phase::Evaluate)?;
        let _range = NvtxRange::new(c"evaluate");
        let begin = Instant::now();
        let mut totals = self.trainer.totals()?;
        let mut batches: Epoch = loader.epoch(epoch);
        while let Some(batch) = load_next(&mut batches)? {
            self.trainer.evaluate(&batch.images, &batch.labels, &mut totals)?;
        }
        let score = self.trainer.score(&totals)?;
        let duration_s = begin.elapsed().as_secs_f64();
        for (key, value) in [
            ("evaluation_time_s", duration_s),
            ("test_loss", score.loss),
            ("accuracy", score.accuracy),
            ("test_units", score.images as f64),
        ] {
            self.report.reading(key, value, Some(epoch), None)?;
        }
        Ok(())
    }
}

/// The next batch, as a range in a profiler's timeline.
fn load_next(batches: &mut Epoch) -> Result<Option<Batch>, Stop> {
    let _range = NvtxRange::new(c"load");
    batches.next().map_err(|error| Stop::engine(&error))
}

fn not_finite(step: u64, found: &str) -> Stop {
    let message = format!("training diverged by step {step}: {found}; lower learning_rate or choose a wider precision");
    Stop::failed(FailureKind::NotFinite, message)
}

#[cfg(test)]
#[path = "train_tests.rs"]
mod tests;
