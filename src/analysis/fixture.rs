//! Records of made-up runs for tests, with numbers that can be checked by hand.
#![allow(clippy::unwrap_used)]

use super::{RunSummary, summarise_run};
use crate::plan::{AskedCell, Data, Level, Levels, Mode, Plan, RunState, Tracer, asked_cells, image};
use crate::protocol::{
    CopiedBytes, Device, DeviceRates, Evidence, NOTHING_RECORDED, Rate, TRACE_METRICS, TraceMetric, TraceMetricKind,
    TraceOutcome, TraceSummary,
};
use crate::store::{RankRecord, ReadingRecord, RunRecord, StepRecord, TelemetryRecord};

/// A cell: its id, its levels and its ranks.
pub(crate) struct FixtureCell {
    id: String,
    levels: Levels,
    ranks: u32,
}

pub(crate) fn cell(precision: &str, gpus: i64, strategy: &str) -> FixtureCell {
    let levels = Levels::new(vec![
        ("precision", Level::text(precision)),
        ("strategy", Level::text(strategy)),
        ("gpus", Level::Integer(gpus)),
        ("batch_size", Level::Integer(64)),
    ]);
    FixtureCell { id: format!("{precision}-{gpus}-{strategy}"), levels, ranks: gpus as u32 }
}

/// A finished run: 2 epochs of 10 steps, the first 4 steps warm-up and ten times slower, rank 0 the slowest.
pub(crate) fn run(cell: &FixtureCell, repeat: u32, step_time_s: f64) -> RunRecord {
    RunRecord {
        run: format!("{}-r{repeat}", cell.id),
        plan: "made up".to_owned(),
        launch: "p1".to_owned(),
        cell: cell.id.clone(),
        workload: image::spec(),
        levels: cell.levels.clone(),
        data: Data::of_set("digits"),
        repeat,
        counts_rows: false,
        seed: u64::from(repeat),
        state: RunState::Finished,
        reason: None,
        placement: None,
        warnings: Vec::new(),
        environment: None,
        start_order: None,
        beside: Vec::new(),
        queued_time_s: 1_000.0,
        started_time_s: Some(1_001.0),
        ended_time_s: Some(1_001.0 + 100.0 * step_time_s),
        ranks: (0..cell.ranks).map(|rank| rank_record(rank, step_time_s / (1.0 + f64::from(rank) / 8.0))).collect(),
        tracer: Tracer::Off,
        mode: Mode::Full,
        warm_up: None,
        checked: Default::default(),
        own_measures: Default::default(),
        design: None,
        trace: None,
        rates: Vec::new(),
        telemetry: TelemetryRecord {
            peak_device_bytes: Some(12_345_678_901),
            energy_j: Some(1_500.0),
            samples: 10,
            ..TelemetryRecord::default()
        },
    }
}

/// A finished run of a cell that a plan asks for.
pub(crate) fn run_of(asked: &AskedCell, plan: &Plan, repeat: u32, step_time_s: f64) -> RunRecord {
    let gpus = asked.levels.get("gpus").and_then(Level::as_number).unwrap_or(1.0) as u32;
    let cell = FixtureCell { id: asked.identity.digits(4), levels: asked.levels.clone(), ranks: gpus };
    RunRecord {
        workload: asked.workload.clone(),
        data: asked.data.clone(),
        mode: plan.mode,
        ..run(&cell, repeat, step_time_s)
    }
}

pub(crate) fn finished() -> RunRecord {
    run(&cell("fp32", 2, "ddp-ds"), 1, 0.016)
}

/// The run of a program that logs only each tenth step from its tenth step on, up to step 110. These steps take an eighth of the time.
pub(crate) fn logging_each_tenth(mut record: RunRecord) -> RunRecord {
    for step in record.ranks.iter_mut().flat_map(|rank| rank.steps.iter_mut().skip(10)) {
        (step.step, step.epoch) = (10 * (step.step - 9), 1);
        (step.duration_s, step.load_wait_s) = (step.duration_s / 8.0, step.load_wait_s / 8.0);
    }
    record
}

fn rank_record(rank: u32, step_time_s: f64) -> RankRecord {
    let step = |step: u64| StepRecord {
        step,
        time_s: 1_002.0 + step as f64 * step_time_s,
        epoch: if step <= 10 { 1 } else { 2 },
        duration_s: if step <= 4 { 10.0 * step_time_s } else { step_time_s },
        load_wait_s: if step <= 4 { 1.0 } else { step_time_s / 4.0 },
        loss: 2.0 / step as f64,
        units: 64,
        warm_up: step <= 4,
        traced: false,
    };
    let memory = [
        ("peak_active_bytes", 3_500_000_000.0),
        ("peak_allocated_bytes", 3_000_000_000.0 + f64::from(rank)),
        ("peak_reserved_bytes", 4_000_000_000.0),
    ];
    let epoch = |epoch: u32, duration_s: f64| {
        let readings = [
            ("accuracy", 1.0 - 0.1 / f64::from(epoch)),
            ("epoch_time_s", duration_s),
            ("evaluation_time_s", 0.5),
            ("loader_start_s", 0.1),
            ("received_bytes", 640.0 * 784.0),
            ("skipped_updates", 0.0),
            ("test_loss", 0.4 / f64::from(epoch)),
            ("test_units", 2_000.0),
            ("train_loss", (0.5 + f64::from(rank) / 10.0) / f64::from(epoch)),
            ("units", 640.0),
        ];
        readings.map(|(key, value)| reading_record(key, value, Some(epoch)))
    };
    let memory = memory.map(|(key, value)| reading_record(key, value, None));
    RankRecord {
        rank,
        device: Some(Device { name: "cpu".to_owned(), gpu_uuid: None }),
        steps: (1..=20).map(step).collect(),
        readings: memory.into_iter().chain(epoch(1, 46.0 * step_time_s)).chain(epoch(2, 10.0 * step_time_s)).collect(),
        duration_s: Some(99.0 * step_time_s),
        ..RankRecord::default()
    }
}

pub(crate) fn reading_record(key: &str, value: f64, epoch: Option<u32>) -> ReadingRecord {
    ReadingRecord { key: key.into(), value, epoch, step: None, time_s: 1_010.0 }
}

/// A reading of an epoch that the test can change.
pub(crate) fn reading<'a>(rank: &'a mut RankRecord, key: &str, epoch: u32) -> &'a mut f64 {
    let found = rank.readings.iter_mut().find(|one| one.key == *key && one.epoch == Some(epoch));
    &mut found.expect("a reading of that key and epoch").value
}

/// A report with time in copies to GPUs and in launches.
pub(crate) fn trace(copies_s: f64, launches_s: f64) -> TraceSummary {
    let metric = |(place, kind): (usize, &TraceMetricKind)| TraceMetric {
        key: kind.key.to_owned(),
        calls: 1,
        seconds: [copies_s, launches_s].get(place).copied().unwrap_or(0.0),
        percent_of_report: 0.0,
        percent_of_shown: 0.0,
        percent_of_wall: 0.0,
    };
    let metrics = TRACE_METRICS.iter().enumerate().map(metric).collect();
    TraceSummary { file: "trace.nsys-rep".to_owned(), gpus: 1, metrics, ..TraceSummary::default() }
}

/// A finished run that a profiler recorded, whose factor did not take effect.
pub(crate) fn traced(repeat: u32, copies_s: f64) -> RunRecord {
    let mut record = run(&cell("fp16", 1, "single"), repeat, 0.5);
    record.cell = "fp16-nsys".to_owned();
    record.run = format!("traced-{repeat}");
    record.tracer = Tracer::Nsys;
    let seen = "0 bytes copied from pinned memory, 9 from pageable memory".to_owned();
    let pin = Evidence { factor: "pin_memory".to_owned(), asked: "on".to_owned(), seen, in_effect: false };
    let trace = TraceSummary { evidence: vec![pin], ..trace(copies_s, 3.0) };
    record.trace = Some(TraceOutcome::Imported(Box::new(trace)));
    record
}

/// The relative deviations of three repeats.
const NOISE: [f64; 3] = [0.0, 0.012, -0.007];

/// A step's time: each level multiplies it by a factor.
fn step_time_s(cell: &AskedCell) -> f64 {
    let gpus = cell.levels.get("gpus").and_then(Level::as_number).unwrap();
    let factor = |key: &str, level: &Level| match (key, level.as_text().unwrap_or_default()) {
        ("precision", "fp64") => 1.6,
        ("precision", "fp16") => 0.7,
        ("pin_memory", "on") => 0.82,
        ("strategy", "ddp" | "ddp-rr") => gpus,
        ("loader", "dali") => 0.74,
        ("layout", "nhwc") => 0.9,
        ("technique", "qlora") => 1.7,
        ("technique", "dpo") => 1.35,
        ("technique", "qat") => 2.2,
        ("data_set", "grammar") => 0.6,
        ("data_set", "samsum") => 0.8,
        ("data_set", "slimorca") => 1.3,
        ("image_size", _) => (level.as_number().unwrap() / 500.0).powi(2),
        _ => 1.0,
    };
    let of_levels: f64 = cell.levels.iter().map(|(key, level)| factor(key, level)).product();
    0.2 * of_levels * (1.0 + 0.06 * (gpus - 1.0))
}

/// A profiler's report of a run with this step time.
fn whole_trace(gpus: u32, step_time_s: f64) -> TraceSummary {
    let wall_s = 100.0 * step_time_s;
    let metric = |(place, kind): (usize, &TraceMetricKind)| {
        let place = place as f64;
        let seconds = wall_s * (0.02 + 0.03 * place) * (1.0 + 0.1 * f64::from(gpus));
        TraceMetric {
            key: kind.key.to_owned(),
            calls: 100,
            seconds,
            percent_of_report: 5.0 + 4.0 * place,
            percent_of_shown: 0.0,
            percent_of_wall: 100.0 * seconds / f64::from(gpus) / wall_s,
        }
    };
    let bytes = (1e10 * step_time_s) as u64;
    let copied = CopiedBytes { host_to_device: bytes / 100, device_to_device: 4 * bytes, device_to_host: bytes / 1000 };
    TraceSummary {
        metrics: TRACE_METRICS.iter().enumerate().map(metric).collect(),
        wall_s,
        gpus,
        copied: Some(copied),
        ..trace(0.0, 0.0)
    }
}

/// FLOP and bytes of a step: narrower numbers take fewer bytes.
fn work_of(cell: &AskedCell) -> (f64, f64) {
    let width = match cell.levels.get("precision").and_then(Level::as_text) {
        Some("fp64") => 8.0,
        Some("fp16" | "bf16") => 2.0,
        _ => 4.0,
    };
    (4e11, 5e9 * width)
}

/// Leaves a run's recording without work of GPUs.
pub(crate) fn without_metrics(run: &mut RunRecord) {
    if let Some(TraceOutcome::Imported(trace)) = &mut run.trace {
        trace.metrics.clear();
    }
}

/// The outcome of the recording of a run in which no process opened the tracer.
pub(crate) fn nothing_recorded() -> TraceOutcome {
    TraceOutcome::Failed(NOTHING_RECORDED.to_owned())
}

/// Rates of the runs' device.
pub fn rates() -> DeviceRates {
    let rate = |(key, per_s): (&str, f64)| Rate {
        key: key.into(),
        per_s,
        low_per_s: 0.99 * per_s,
        high_per_s: 1.01 * per_s,
        samples: 50,
        size: 4096,
    };
    let rates = [("fp64", 1.2e13), ("fp32", 2.5e13), ("fp16", 1.4e14), ("copy", 8e11), ("add", 9e11)];
    DeviceRates {
        device: Device { name: "cpu".to_owned(), gpu_uuid: None },
        time_s: None,
        torch_version: "2.11.0".to_owned(),
        threads: Some(16),
        rates: rates.map(rate).into(),
        sm_clock_mhz: None,
        throttle_reasons: Vec::new(),
        others_cpus: None,
    }
}

/// How much a tracer changes a step's time in a plan with several tracers.
fn cost(tracer: Tracer, plan: &Plan) -> f64 {
    match tracer {
        Tracer::BuiltIn => 1.08,
        Tracer::BuiltInWithoutCalls => 1.03,
        // Runs in windows have the times of the steps that are not recorded.
        Tracer::InWindows | Tracer::InWindowsWithoutCalls => 1.0,
        Tracer::Nsys if plan.tracing.has(Tracer::Off) => 1.25,
        Tracer::Off | Tracer::Nsys => 1.0,
    }
}

/// A run that is long enough for every chart: 200 steps, energy of 500 W per GPU, and a report if nsys traces it.
fn long_run_of(cell: &AskedCell, plan: &Plan, repeat: u32) -> RunRecord {
    let cost = cost(cell.tracer, plan);
    let step_time_s = step_time_s(cell) * (1.0 + NOISE[repeat as usize - 1]) * cost;
    let number = |key: &str| cell.levels.get(key).and_then(Level::as_number);
    let (gpus, batch) = (number("gpus").unwrap(), number("batch_size").unwrap());
    let units = number("train_images").or(number("rows")).filter(|units| *units > 0.0).unwrap_or(51_760.0);
    let planned = number("epochs").unwrap() * (units / gpus / batch).floor();
    let mut record = run_of(cell, plan, repeat, step_time_s);
    let steady_time_s = 196.0 * step_time_s;
    record.telemetry.steady_time_s = Some(steady_time_s);
    record.telemetry.steady_energy_j = Some(500.0 * gpus * steady_time_s);
    for rank in &mut record.ranks {
        // Enough steps to show how steady they are.
        let last = rank.steps[19];
        rank.steps.extend((21..=200_u64).map(|step| StepRecord {
            step,
            time_s: last.time_s + (step - 20) as f64 * last.duration_s,
            duration_s: last.duration_s * (1.0 + 0.01 * [0.0, 1.0, -0.5, 2.0, -1.0][step as usize % 5]),
            ..last
        }));
        // A clock behind the durations would count as set during the run.
        let mut time_s = 1_002.0;
        for step in &mut rank.steps {
            time_s += step.duration_s;
            step.time_s = time_s;
        }
        rank.readings.push(reading_record("planned_steps", planned, None));
        let (flop, bytes) = work_of(cell);
        rank.readings.extend(
            [("flop_per_step", flop), ("bytes_per_step", bytes)].map(|(key, work)| reading_record(key, work, None)),
        );
        rank.duration_s = Some(time_s - 1_001.0);
        record.ended_time_s = Some(record.ended_time_s.unwrap_or(0.0).max(time_s + 1.0));
    }
    record.rates = vec![rates().into()];
    record.tracer = cell.tracer;
    if record.tracer == Tracer::Nsys {
        record.trace = Some(TraceOutcome::Imported(Box::new(whole_trace(gpus as u32, step_time_s))));
    }
    record
}

/// Three repeats of each cell of a plan, whose times follow from the levels.
pub(crate) fn runs_of(plan: &Plan) -> Vec<RunSummary> {
    let repeats = |cell: &AskedCell| [1, 2, 3].map(|repeat| summarise_run(&long_run_of(cell, plan, repeat)));
    asked_cells(plan).iter().flat_map(repeats).collect()
}

/// Made-up noise that is the same each time.
pub(crate) struct Noise(rand_chacha::ChaCha8Rng);

impl Noise {
    pub(crate) fn new(seed: u64) -> Self {
        Self(rand::SeedableRng::seed_from_u64(seed))
    }

    /// A standard normal number (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let mut uniform = || (f64::from(rand::Rng::next_u32(&mut self.0)) + 0.5) / 4_294_967_296.0;
        let radius = (-2.0 * uniform().ln()).sqrt();
        radius * (2.0 * std::f64::consts::PI * uniform()).cos()
    }

    /// An autoregressive series with mean 0 and variance 1.
    pub(crate) fn correlated(&mut self, length: usize, correlation: f64) -> Vec<f64> {
        let innovation = (1.0 - correlation * correlation).sqrt();
        let mut last = self.normal();
        (0..length)
            .map(|_| {
                last = correlation * last + innovation * self.normal();
                last
            })
            .collect()
    }
}
