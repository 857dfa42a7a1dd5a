//! The built-in measures: their names, units and meaning.

use super::{
    COUNT, DRAM_ACTIVITY, EPOCHS_TO_GOAL, FP16_ACTIVITY, FP32_ACTIVITY, FP64_ACTIVITY, GPU_BUSY, INT_ACTIVITY, Measure,
    NVLINK_RECEIVE, NVLINK_SEND, Origin, OverRanks, OverTime, SHARE, SM_ACTIVITY, STEP_TIME, Scaling, TENSOR_ACTIVITY,
    capitalised,
};
use crate::analysis::limit;
use crate::analysis::metric::{COPIED, MetricUnit, key_in};
use crate::analysis::training::{PLANNED_STEPS, TRAINING_TIME};
use crate::plan::{Better, Key};
use crate::protocol::{TRACE_METRICS, TraceMetricKind};

/// The keys of the measures of steady steps only, besides rates of units.
const OF_STEADY_STEPS: [&str; 15] = [
    STEP_TIME,
    "mean_step_time_s",
    TRAINING_TIME,
    "load_wait_s",
    "steady_energy_j",
    "energy_per_unit_j",
    "power_w",
    limit::FLOP_RATE,
    limit::FLOP_SHARE,
    limit::BYTES_RATE,
    limit::BYTES_SHARE,
    "step_spread",
    "step_drift",
    "step_lag_one",
    "step_error",
];

/// The built-in measures that can be chosen, in the order of columns.
pub(super) fn list(units: &str, step: &str, [distinct_rate, processed_rate]: [&Key; 2]) -> Vec<Measure> {
    use Better::{Higher, Lower};
    use OverRanks::{First, Max, MeanByUnits};
    use OverTime::{Last, LastWithLoss, Median, MedianOfSteady};
    let rate = |key: &Key, name: &str| {
        let rate = Measure::derived(key.clone(), format!("Throughput ({name} {units})"), &format!("{units}/s"));
        Measure { on_speed: true, better: Higher, scaling: Scaling::Linear, ..rate }
    };
    let singular = units.strip_suffix('s').unwrap_or(units);
    let scaled = |measure: Measure, shown_unit: &str, shown_factor: f64| Measure {
        shown_unit: shown_unit.to_owned(),
        shown_factor,
        ..measure
    };
    let of_speed = |measure: Measure| Measure { on_speed: true, ..measure.better(Higher) };
    let capital = capitalised(step);
    let (plain, share) = (Measure::plain, Measure::share);
    let mut list = vec![
        Measure::time(STEP_TIME, format!("{capital} time")).scaling(Scaling::Constant),
        Measure::time("mean_step_time_s", format!("Mean {step} time")).scaling(Scaling::Constant),
        Measure::time(TRAINING_TIME, "Training time").scaling(Scaling::Inverse),
        Measure::time("epoch_time_s", "Epoch time").read(Max, MedianOfSteady).scaling(Scaling::Inverse),
        Measure::time("total_time_s", "Total time").scaling(Scaling::Inverse),
        rate(distinct_rate, "distinct"),
        rate(processed_rate, "processed"),
        Measure::time("load_wait_s", format!("Wait for data per {step}")),
        Measure::time("loader_start_s", "Loader start-up per epoch").read(Max, Median),
        share("recording_cost", "Cost of recording within a run").better(Lower).read(OverRanks::Slowest, Last),
        share("recording_cost_low", "Cost of recording, lower end").better(Lower).read(OverRanks::Slowest, Last),
        share("recording_cost_high", "Cost of recording, upper end").better(Lower).read(OverRanks::Slowest, Last),
        plain("recording_pairs", "Windows compared").read(OverRanks::Slowest, Last),
        Measure::time("recording_begin_s", "Beginning to record a window").read(OverRanks::Slowest, Last),
        Measure::time("recording_end_s", "Ending to record a window").read(OverRanks::Slowest, Last),
        Measure::time("load_from_disk_s", "Reading of the set before training").read(Max, OverTime::Max),
        Measure::time("cudnn_trials_s", "Trials of cuDNN's engines").read(Max, OverTime::Max),
        plain("train_loss", "Training loss").better(Lower).read(MeanByUnits, LastWithLoss),
        plain("test_loss", "Test loss").better(Lower).read(First, Last),
        Measure { possible: SHARE, ..share("accuracy", "Accuracy").better(Higher).read(First, Last) },
        Measure::derived(EPOCHS_TO_GOAL, "Epochs to 98 % accuracy", "").better(Lower),
        Measure::bytes("peak_allocated_bytes", "Peak allocated").read(Max, OverTime::Max),
        Measure::bytes("peak_reserved_bytes", "Peak reserved").read(Max, OverTime::Max),
        Measure::bytes("peak_active_bytes", "Peak active").read(Max, OverTime::Max),
        Measure::bytes("warm_up_peak_bytes", "Peak allocated in warm-up").read(Max, OverTime::Max),
        Measure { origin: Origin::Derived, ..Measure::bytes("peak_device_bytes", "Peak on the device") },
        Measure::bytes("set_bytes_in_memory", "Set in memory, all ranks").read(OverRanks::Sum, OverTime::Max),
        Measure { on_speed: true, ..Measure::derived("energy_j", "Energy", "J").better(Lower) },
        Measure { on_speed: true, ..Measure::derived("steady_energy_j", "Energy of steady steps", "J").better(Lower) },
        Measure {
            on_speed: true,
            ..Measure::derived("energy_per_unit_j", format!("Energy per {singular}"), &format!("J/{singular}"))
                .better(Lower)
        },
        Measure { on_speed: true, ..Measure::derived("power_w", "Power of all GPUs in steady steps", "W") },
        scaled(Measure::derived(limit::FLOP, format!("Model FLOP per {step}"), "FLOP"), "GFLOP", 1e-9),
        scaled(Measure::derived(limit::BYTES, format!("Model bytes per {step}"), "B"), "GB", 1e-9),
        Measure::derived(limit::INTENSITY, "Arithmetic intensity", "FLOP/B"),
        of_speed(scaled(Measure::derived(limit::FLOP_RATE, "Model FLOP rate per device", "FLOP/s"), "TFLOP/s", 1e-12)),
        of_speed(share(limit::FLOP_SHARE, "Model FLOP rate over the measured rate (MFU)")),
        of_speed(scaled(Measure::derived(limit::BYTES_RATE, "Model byte rate per device", "B/s"), "GB/s", 1e-9)),
        of_speed(share(limit::BYTES_SHARE, "Model byte rate over the measured bandwidth")),
    ];
    list.extend(circumstances(units, step));
    for measure in &mut list {
        let is_rate = [distinct_rate, processed_rate].contains(&&measure.key);
        measure.is_of_steady_steps = is_rate || OF_STEADY_STEPS.contains(&&*measure.key);
    }
    list
}

/// Measures of the circumstances of a run.
fn circumstances(units: &str, step: &str) -> Vec<Measure> {
    use Better::Lower;
    use OverRanks::{First, Max};
    use OverTime::{Last, Median, MedianOfSteady, Sum};
    let share = Measure::share;
    let count = |key: &str, name: &str| Measure { possible: COUNT, ..Measure::plain(key, name) };
    let rate = |key: &str, name: &str| Measure {
        shown_unit: "GB/s".to_owned(),
        shown_factor: 1e-9,
        ..Measure::derived(key, name, "B/s")
    };
    vec![
        Measure::time("evaluation_time_s", "Test time per epoch").read(Max, MedianOfSteady),
        Measure::bytes("received_bytes", "Received per epoch and rank").read(Max, Median),
        count("skipped_updates", "Skipped updates").better(Lower).read(Max, Sum),
        count("parameters", "Parameters").read(First, Last),
        count("unit_copies", &format!("Ranks that process the same {units}")).read(First, Last),
        count("units", &format!("Processed {units} per epoch")).read(OverRanks::Sum, Median),
        count("test_units", &format!("Test {units}")).read(First, OverTime::Max),
        share("step_spread", &format!("Spread of {step}s")).better(Lower),
        share("step_drift", "Drift over the run"),
        Measure::derived("step_lag_one", format!("Correlation of neighbouring {step}s"), ""),
        share("step_error", &format!("Error of the mean {step}")).better(Lower),
        share("clock_ratio", &format!("Told time of {step}s over the time in which they arrived")),
        Measure::derived("others_cpus", "CPUs busy with others", "CPUs").better(Lower),
        Measure::derived("runnable_tasks", "Runnable tasks", "").better(Lower),
        Measure::derived("temperature_c", "GPU temperature", "°C"),
        Measure::derived("temperature_rise_c", "GPU temperature rise", "°C"),
        Measure::derived("sm_clock_mhz", "GPU clock", "MHz"),
        share("sm_clock_change", "Change of the GPU clock over the run"),
        Measure { possible: SHARE, ..share(GPU_BUSY, "GPU busy: time in which a kernel ran") },
        Measure { possible: SHARE, ..share(SM_ACTIVITY, "SMs busy: cycles with a warp on them") },
        Measure { possible: SHARE, ..share(TENSOR_ACTIVITY, "Tensor cores busy: cycles") },
        Measure { possible: SHARE, ..share(FP64_ACTIVITY, "FP64 pipe busy: cycles") },
        Measure { possible: SHARE, ..share(FP32_ACTIVITY, "FP32 pipe busy: cycles") },
        Measure { possible: SHARE, ..share(FP16_ACTIVITY, "FP16 pipe busy: cycles, tensor cores apart") },
        Measure { possible: SHARE, ..share(INT_ACTIVITY, "Integer pipe busy: cycles") },
        Measure { possible: SHARE, ..share(DRAM_ACTIVITY, "Memory bandwidth in use") },
        rate("pcie_receive_bytes_per_s", "Received over PCIe per GPU"),
        rate("pcie_send_bytes_per_s", "Sent over PCIe per GPU"),
        rate(NVLINK_RECEIVE, "Received over NVLink per GPU"),
        rate(NVLINK_SEND, "Sent over NVLink per GPU"),
        Measure::named("clock_offset_s", "Clock of a node ahead of the first node’s", "s").read(Max, OverTime::Max),
        Measure::named("clock_offset_error_s", "Largest error of a node’s clock comparison", "s")
            .read(Max, OverTime::Max),
        Measure::derived("run_order", "Place in the session", ""),
        count(PLANNED_STEPS, &format!("{}s of the plan", capitalised(step))).read(Max, OverTime::Max),
    ]
}

/// A measure for each metric and unit, in the order of [`TRACE_METRICS`] and [`MetricUnit::ALL`], then bytes of copies.
pub(super) fn metric_measures() -> Vec<Measure> {
    let measure_in = |kind: &TraceMetricKind, unit: MetricUnit| match unit {
        MetricUnit::Seconds | MetricUnit::Of720 => {
            let shown_unit = if unit == MetricUnit::Of720 { "s of 720 s" } else { "s" }.to_owned();
            Measure { better: Better::Neither, shown_unit, ..Measure::time(key_in(kind.key, unit), kind.name) }
        }
        _ => Measure::derived(key_in(kind.key, unit), kind.name, unit.name()),
    };
    let copied = COPIED.map(|(key, name)| Measure { origin: Origin::Derived, ..Measure::bytes(key, name) });
    TRACE_METRICS
        .iter()
        .flat_map(|kind| MetricUnit::ALL.iter().map(|unit| measure_in(kind, *unit)))
        .chain(copied)
        .collect()
}
