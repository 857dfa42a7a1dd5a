//! The training loop (next batch, step, report), shared by all workloads, strategies and precisions.

use std::ffi::CString;
use std::time::Instant;

use multicard::analysis::TimedStep;
use multicard::foreign::say;
use multicard::plan::{CUDA_GRAPH_WARM_UP_STEPS, Shape};
use multicard::protocol::{self, Event, Evidence, FailureKind, Job, Phase, RankPlace};
use tch::Tensor;

use crate::binding;
use crate::capture::CaptureWindow;
use crate::checkpoint::{self, Checkpoint, Keeper};
use crate::clock::{StepClock, StepDone, StepInfo};
use crate::device::RankDevice;
use crate::module::{Tensors, parameter_count};
use crate::nodes;
use crate::parallel::{self, Peers};
use crate::proof;
use crate::quick::Quick;
use crate::report::{FAILED, Report, Stop};
use crate::shim::{self, NvtxRange, exit_now};
use crate::task::{Batch, Data, Epoch, Rank, Readings, Task};
use crate::trainer::Trainer;
use crate::watchdog::Watchdog;

/// Folder of the trained model within a run's folder.
const MODEL_FOLDER: &str = "model";
/// The first steps, in which cuDNN tries its algorithms.
const TRIAL_STEPS: u64 = 3;

/// A run ends after this many consecutive losses that are not finite.
const NOT_FINITE: u32 = 5;
/// With loss scaling, a run ends after this many such losses: each overflow halves the scale, which is useless by then.
const NOT_FINITE_SCALED: u32 = 40;

/// The state of the loop.
struct Run<'a, T: Task> {
    rank: Rank<'a>,
    report: &'a mut Report,
    trainer: Trainer<T>,
    shape: Shape,
    clock: StepClock,
    capture: CaptureWindow,
    phase: Phase,
    /// Steps queued on the device so far, over all epochs.
    step: u64,
    steps: u64,
    /// In quick mode, ends the run once its steady step time is known precisely enough.
    quick: Option<Quick>,
    /// The last step in the checkpoint that the run resumes from; 0 without one.
    resumed: u64,
    losses: Losses,
    /// Watches steps that wait for other GPUs.
    watchdog: Option<Watchdog>,
    /// Steps queued on the device that have not finished.
    owed: u64,
    /// Shapes of the last step's inputs. Steps with the same shapes do the same work, which is reported once.
    shapes: Vec<Vec<i64>>,
}

/// Counts consecutive losses that are not finite.
struct Losses {
    not_finite: u32,
    limit: u32,
}

impl Losses {
    /// Takes the next loss. Too many in a row that are not finite are an error; loss scaling allows for more.
    fn see(&mut self, loss: f64) -> Result<(), String> {
        self.not_finite = if loss.is_finite() { 0 } else { self.not_finite + 1 };
        if self.not_finite < self.limit {
            return Ok(());
        }
        Err(format!("{} losses in a row were no numbers", self.not_finite))
    }
}

/// Sums over the steps of an epoch.
#[derive(Default)]
struct Sums {
    loss: f64,
    loss_weight: f64,
    units: u64,
}

/// Opens one rank's device, joins its peers, trains as the job says and writes the log.
pub fn start<T: Task>(task: T, job: &Job, place: &RankPlace, report: &mut Report) -> Result<(), Stop> {
    let ranks = job.ranks.len();
    let device = RankDevice::open(place, job.shape.devices_per_process as usize, job.limits.memory_limit_bytes);
    let unavailable = protocol::Device { name: "unavailable".into(), gpu_uuid: place.gpu_uuid.clone() };
    report.event(Event::Started {
        protocol_version: protocol::PROTOCOL_VERSION,
        pid: std::process::id(),
        torch_version: shim::torch_version(),
        device: device.as_ref().map_or(unavailable, |device| device.described.clone()),
        world_size: ranks as u32,
        seed: job.seed,
    })?;
    let device = device?;
    task.flags().set()?;
    // Operations run one after another: inter-op threads would only take CPUs from intra-op threads.
    shim::set_threads(place.compute_threads.max(1), 1)?;
    let mut log = report.clone();
    let hangs = move |stop| give_up(&mut log, &stop);
    let Some(peers) = Peers::join(place.rank, ranks as u32, job.shape.nodes(), device.device, hangs)? else {
        return run(task, Rank { job, place, device: &device, peers: None }, report);
    };
    nodes::report(&peers, job.shape.nodes(), report)?;
    let rank = Rank { job, place, device: &device, peers: Some(&peers) };
    run(task, rank, report).map_err(|stop| peers.explain(stop))?;
    peers.leave()
}

/// Trains one rank as its job says, with its peers if any, and writes the log after its `Started` event.
pub fn run<T: Task>(task: T, rank: Rank, report: &mut Report) -> Result<(), Stop> {
    let Rank { job, place, device, peers } = rank;
    report.event(Event::Phase { phase: Phase::Start })?;
    let capture = CaptureWindow::new(job.trace, job.tracer(), place.rank);
    let shape = job.shape;
    let mut trainer = Trainer::new(task, &device.devices, peers, job.seed, shape.cuda_graph)?;
    report.event(Event::Model { name: trainer.task().model().into() })?;
    report.reading("parameters", parameter_count(trainer.module()) as f64, None, None)?;
    let numbers = 1 + trainer.measures().len();
    let clock = StepClock::new(device.device, trainer.arithmetic().losses(), numbers)?;

    report.event(Event::Phase { phase: Phase::Load })?;
    let mut data = trainer.task().data(rank, report)?;
    let steps = data.batches() as u64 * u64::from(trainer.task().epochs());
    let quick = job.mode.step_precision().map(|precision| Quick::new(precision, steps, shape.warm_up_steps));
    if quick.is_some() {
        report.reading("planned_steps", steps as f64, None, None)?;
    }
    let checkpoint = Checkpoint::of(job).map_err(|reason| Stop::failed(FailureKind::Input, reason))?;
    if let Some(checkpoint) = &checkpoint {
        trainer.resume(checkpoint, place.rank)?;
        let Checkpoint { run, step, .. } = checkpoint;
        let message =
            format!("continues from step {step} of run {run}: times and losses of epochs cover the steps after it");
        report.event(Event::Warning { message })?;
    }
    let resumed = checkpoint.map_or(0, |checkpoint| checkpoint.step);

    let limit = if trainer.arithmetic().scale().is_some() { NOT_FINITE_SCALED } else { NOT_FINITE };
    let (phase, losses) = (Phase::Load, Losses { not_finite: 0, limit });
    let watched = peers.filter(|_| device.device.is_cuda());
    let watchdog = watched.map(|peers| watch_steps(peers, shape.cuda_graph, report)).transpose()?;
    let (step, owed, shapes) = (0, 0, Vec::new());
    let mut run = Run {
        rank,
        report,
        trainer,
        shape,
        clock,
        capture,
        phase,
        step,
        steps,
        quick,
        resumed,
        losses,
        watchdog,
        owed,
        shapes,
    };
    match (run.epochs(&mut data).map_err(|stop| run.explain_memory(stop)), peers) {
        // Do not drop the run: freeing what it holds may wait for other ranks, which wait for this one.
        (Err(stop), Some(peers)) => give_up(run.report, &peers.explain(stop)),
        (outcome, _) => outcome,
    }
}

/// Ends the process if a step does not end.
fn watch_steps(peers: &Peers, cuda_graph: bool, report: &Report) -> Result<Watchdog, Stop> {
    let limit = Peers::step_timeout(cuda_graph);
    let (explain, mut report) = (peers.hang(limit), report.clone());
    parallel::watch(limit, move || give_up(&mut report, &explain()))
}

/// Logs why the rank failed and ends its process at once. For ranks with peers.
fn give_up(report: &mut Report, stop: &Stop) -> ! {
    say(format_args!("multicard-worker: {stop}"));
    // If the log cannot be written, at least stderr has the reason.
    let _ = report.failed(stop);
    exit_now(FAILED)
}

/// Waits for the device to finish, and for all ranks.
fn meet(rank: Rank, watchdog: Option<&Watchdog>) -> Result<(), Stop> {
    rank.device.synchronize()?;
    if let Some(watchdog) = watchdog {
        watchdog.done(false);
    }
    rank.peers.map_or(Ok(()), |peers| peers.meet())
}

impl<T: Task> Run<'_, T> {
    fn epochs(&mut self, data: &mut T::Data) -> Result<(), Stop> {
        for epoch in 1..=self.trainer.task().epochs() {
            let whole = self.train(epoch, data)?;
            if self.quick.is_none() {
                self.evaluate(epoch, data)?;
            }
            self.report_memory(self.step < self.memory_counts_from())?;
            if !whole {
                break;
            }
        }
        self.report_readings(self.capture.readings(), None)?;
        let replays = self.trainer.replays();
        self.report_evidence(vec![proof::cuda_graph(self.shape.cuda_graph, replays, self.step - self.resumed)])?;
        let held = self.trainer.strategy().held()?;
        let exports = self.trainer.task().save_every().is_some();
        if exports {
            self.trainer.finish()?;
        }
        if exports && self.rank.place.rank == 0 {
            let folder = self.rank.job.folder.join(MODEL_FOLDER);
            let exported = self.trainer.task().export(self.trainer.module(), &folder);
            exported
                .map_err(|error| Stop::engine(&format!("writing the model to {} failed: {error}", folder.display())))?;
            checkpoint::drop_of(self.rank.job);
        }
        if let Some(peers) = self.rank.peers {
            let task = self.trainer.task();
            let (key, level) = (task.strategy_key(), task.strategy());
            let evidence = match held {
                Some((seen, in_effect)) => proof::evidence(key, level, seen, in_effect),
                None => proof::weights((key, level), self.trainer.module(), peers)?,
            };
            self.report_evidence(vec![evidence])?;
        }
        Ok(())
    }

    fn report_readings(&mut self, readings: Readings, epoch: Option<u32>) -> Result<(), Stop> {
        readings.into_iter().try_for_each(|(key, value)| self.report.reading(key, value, epoch, None))
    }

    fn report_evidence(&mut self, evidence: Vec<Evidence>) -> Result<(), Stop> {
        evidence.into_iter().try_for_each(|evidence| self.report.event(Event::Evidence(evidence)))
    }

    fn report_memory(&mut self, warm_up: bool) -> Result<(), Stop> {
        let peaks = self.rank.device.memory(warm_up)?;
        self.report_readings(peaks, None)
    }

    /// Adds to an out-of-memory failure what the memory was used for.
    fn explain_memory(&self, stop: Stop) -> Stop {
        let Stop::Failed { kind: FailureKind::OutOfMemory, message } = stop else { return stop };
        let allocated = match self.rank.device.allocated() {
            Ok(bytes) => allocated(bytes, &self.trainer.held()),
            Err(error) => format!("what was allocated cannot be found: {error}"),
        };
        Stop::failed(FailureKind::OutOfMemory, format!("{message}\n{allocated}"))
    }

    fn enter(&mut self, phase: Phase) -> Result<(), Stop> {
        if self.phase == phase {
            return Ok(());
        }
        self.phase = phase;
        self.report.event(Event::Phase { phase })
    }

    fn warm_up(&self, step: u64) -> bool {
        step < self.first_steady_step()
    }

    /// The first step that counts; `None` while a quick run is still warming up.
    fn first_steady_step(&self) -> u64 {
        let asked = match &self.quick {
            Some(quick) => quick.steady_from().unwrap_or(u64::MAX),
            None => self.rank.job.warm_up_steps.saturating_add(1),
        };
        asked.max(self.shape.warm_up_steps + 1).saturating_add(self.resumed)
    }

    /// Whether to make another step, if there is a batch.
    fn goes_on(&mut self) -> Result<bool, Stop> {
        let peers = self.rank.peers.map(|peers| &**peers);
        self.quick.as_mut().map_or(Ok(true), |quick| quick.goes_on(self.step, peers))
    }

    /// The step from which peak memory counts. Before it, libraries try algorithms, which takes more memory than training. With a
    /// graph, only the capture counts: replays allocate nothing.
    fn memory_counts_from(&self) -> u64 {
        let first_replay = self.resumed + CUDA_GRAPH_WARM_UP_STEPS;
        if self.shape.cuda_graph { first_replay } else { self.first_steady_step() }
    }

    /// Whether a slow step means that a rank hangs. Trying algorithms and capturing graphs are slow too.
    fn is_watched(&self) -> bool {
        if self.shape.cuda_graph { self.trainer.replays().steps > 0 } else { self.step > TRIAL_STEPS }
    }

    /// Trains for an epoch. Returns false if a quick run ended within it.
    fn train(&mut self, epoch: u32, data: &mut T::Data) -> Result<bool, Stop> {
        let (skipped_before, _) = self.trainer.arithmetic().skipped()?;
        let mut sums = Sums::default();
        let mut kept = None;
        let _range = NvtxRange::around_windows(&CString::new(format!("epoch {epoch}")).unwrap_or_default());
        self.enter(if self.warm_up(self.step + 1) { Phase::WarmUp } else { Phase::Steady })?;
        self.rank.device.synchronize()?;
        let begin = Instant::now();
        self.clock.begin()?;
        let mut batches = data.train(epoch);
        let whole = loop {
            if !self.goes_on()? {
                break false;
            }
            let Some(batch) = load_next(&mut batches)? else { break true };
            self.step += 1;
            if self.step <= self.resumed {
                // Batches come in the same order in the resumed run.
                self.clock.begin()?;
                continue;
            }
            let warm_up = self.warm_up(self.step);
            if !warm_up {
                self.enter(Phase::Steady)?;
            }
            let first_steady = self.first_steady_step();
            self.capture.before_step(self.step, first_steady, || meet(self.rank, self.watchdog.as_ref()))?;
            if self.step == self.memory_counts_from() && self.step > 1 {
                self.report_memory(true)?;
            }
            if let Some(watchdog) = self.watchdog.as_ref().filter(|_| self.is_watched()) {
                watchdog.given();
            }
            self.owed += 1;
            let seen = {
                let _range = NvtxRange::new(c"step");
                self.trainer.step(batch.inputs())?
            };
            let info = StepInfo {
                step: self.step,
                load_wait_s: batch.wait_s(),
                units: batch.units(),
                loss_weight: batch.loss_weight(),
            };
            self.clock.end_step(info, &seen)?;
            self.report_work(epoch, batch.inputs())?;
            self.capture.after_step(self.step, || meet(self.rank, self.watchdog.as_ref()))?;
            self.report_steps(epoch, false, &mut sums)?;
            self.keep_checkpoint(epoch, &mut sums)?;
            if self.step == self.resumed + 1 {
                // Gathering evidence costs time, so it is done during warm-up or else after the epoch.
                if warm_up { self.report_proof(&batch)? } else { kept = Some(batch) }
            }
        };
        self.capture.after_epoch(self.step, || meet(self.rank, self.watchdog.as_ref()))?;
        self.report_steps(epoch, true, &mut sums)?;
        let duration_s = begin.elapsed().as_secs_f64();
        if let Some(batch) = kept {
            self.report_proof(&batch)?;
        }
        let (skipped, usable) = self.trainer.arithmetic().skipped()?;
        self.report_readings(vec![("skipped_updates", (skipped - skipped_before) as f64)], Some(epoch))?;
        // A quick run's last epoch is cut short and must not pass for a whole one.
        if self.quick.is_none() {
            let own = vec![
                ("epoch_time_s", duration_s),
                ("train_loss", if sums.loss_weight > 0.0 { sums.loss / sums.loss_weight } else { 0.0 }),
                ("units", sums.units as f64),
            ];
            self.report_readings(own, Some(epoch))?;
            self.report_readings(batches.readings(), Some(epoch))?;
        }
        if whole {
            self.report_evidence(batches.proof(self.rank.peers.map(|peers| &**peers))?)?;
        }
        if epoch == 1 {
            self.report_evidence(vec![proof::gpus(self.shape.devices() as usize, self.trainer.strategy())?])?;
        }
        if usable { Ok(whole) } else { Err(not_finite(self.step, "the loss scale has collapsed")) }
    }

    /// Writes a checkpoint if one is due. A resumed run does not repeat the steps before it, so every rank has written its events of
    /// these steps before the checkpoint replaces the previous one. No rank's next step contains the wait for it.
    fn keep_checkpoint(&mut self, epoch: u32, sums: &mut Sums) -> Result<(), Stop> {
        let due = self.trainer.task().save_every().is_some_and(|every| self.step.is_multiple_of(every));
        if !due {
            return Ok(());
        }
        self.report_steps(epoch, true, sums)?;
        self.report.flush()?;
        let rank = self.rank.place.rank;
        let part = self.trainer.strategy().is_sharded().then_some(rank);
        let keeper = Keeper::new(self.rank.job, self.step);
        let kept = |outcome: Result<(), String>| outcome.map_err(|text| Stop::engine(&text));
        if rank == 0 {
            kept(keeper.begin())?;
        }
        meet(self.rank, self.watchdog.as_ref())?;
        if rank == 0 || part.is_some() {
            kept(keeper.write(part, &self.trainer.state()?))?;
        }
        meet(self.rank, self.watchdog.as_ref())?;
        if rank == 0 {
            kept(keeper.end())?;
        }
        Ok(self.clock.begin()?)
    }

    /// Reports finished steps; with `all`, waits for the others too.
    fn report_steps(&mut self, epoch: u32, all: bool, sums: &mut Sums) -> Result<(), Stop> {
        while let Some(StepDone { info, duration_s, seen }) = self.clock.next_done(all)? {
            let loss = seen.first().copied().unwrap_or(f64::NAN);
            self.owed = self.owed.saturating_sub(1);
            if let Some(watchdog) = &self.watchdog {
                watchdog.done(self.owed > 0 && self.is_watched());
            }
            sums.loss += loss * info.loss_weight;
            sums.loss_weight += info.loss_weight;
            sums.units += u64::from(info.units);
            let traced = self.capture.touches(info.step, self.first_steady_step());
            if let Some(quick) = &mut self.quick {
                quick.see(epoch, info.step, (!traced).then_some(duration_s));
            }
            let warm_up = self.warm_up(info.step);
            if !warm_up {
                self.capture.took(TimedStep { epoch, step: info.step, duration_s });
            }
            self.report.event(Event::Step {
                epoch,
                step: info.step,
                steps: self.steps,
                duration_s,
                load_wait_s: info.load_wait_s,
                loss,
                units: info.units,
                warm_up,
                traced,
            })?;
            for (key, value) in self.trainer.measures().into_iter().zip(&seen[1..]) {
                self.report.reading(key, *value, Some(epoch), Some(info.step))?;
            }
            self.losses.see(loss).map_err(|reason| not_finite(info.step, &reason))?;
        }
        Ok(())
    }

    /// Reports the model's work in the step that was just queued, if it differs from the one before.
    fn report_work(&mut self, epoch: u32, inputs: &T::Inputs) -> Result<(), Stop> {
        let shapes: Vec<_> = inputs.all().iter().map(Tensor::size).collect();
        if shapes == self.shapes {
            return Ok(());
        }
        self.shapes = shapes;
        let work = self.trainer.work(inputs);
        for (key, value) in [("flop_per_step", work.flop), ("bytes_per_step", work.bytes)] {
            self.report.reading(key, value, Some(epoch), Some(self.step))?;
        }
        Ok(())
    }

    fn report_proof(&mut self, batch: &<T::Data as Data>::Batch) -> Result<(), Stop> {
        self.report_evidence(self.trainer.task().proof(&self.trainer, batch)?)?;
        self.report_readings(self.trainer.task().preparation(batch)?, None)?;
        self.report_evidence(vec![binding::evidence(self.shape.binding, self.rank.place)])
    }

    fn evaluate(&mut self, epoch: u32, data: &mut T::Data) -> Result<(), Stop> {
        self.enter(Phase::Evaluate)?;
        let _range = NvtxRange::new(c"evaluate");
        let begin = Instant::now();
        let mut totals = self.trainer.totals()?;
        let mut batches = data.test(epoch);
        loop {
            let batch = load_next(&mut batches)?;
            if !self.trainer.goes_on(batch.is_some())? {
                break;
            }
            match batch {
                Some(batch) => self.trainer.evaluate(batch.inputs(), &mut totals)?,
                None => self.trainer.evaluate_nothing()?,
            }
        }
        let score = self.trainer.score(&totals)?;
        let duration_s = begin.elapsed().as_secs_f64();
        self.report_readings(vec![("evaluation_time_s", duration_s)], Some(epoch))?;
        self.report_readings(score, Some(epoch))
    }
}

/// Breakdown of the peak memory: `held` lives between steps, the rest within one.
fn allocated(most: u64, held: &[(&'static str, u64)]) -> String {
    let gigabytes = |bytes: u64| format!("{:.2} GB", bytes as f64 / 1e9);
    let rest = most.saturating_sub(held.iter().map(|(_, bytes)| bytes).sum());
    let rest = ("activations and work space", rest);
    let kinds = held.iter().chain([&rest]).filter(|(_, bytes)| *bytes > 0);
    let kinds: Vec<_> = kinds.map(|(kind, bytes)| format!("{kind} {}", gigabytes(*bytes))).collect();
    format!("At most {} were allocated: {}", gigabytes(most), kinds.join(", "))
}

/// The next batch, loaded within a range for profilers.
fn load_next<E: Epoch>(batches: &mut E) -> Result<Option<E::Batch>, Stop> {
    let _range = NvtxRange::new(c"load");
    batches.next()
}

fn not_finite(step: u64, reason: &str) -> Stop {
    let message =
        format!("training diverged by step {step}: {reason}; lower learning_rate or choose a wider precision");
    Stop::failed(FailureKind::NotFinite, message)
}

#[cfg(test)]
#[path = "train_tests.rs"]
mod tests;
