//! The built-in studies: presets of the command line and of the window.

use std::sync::LazyLock;

use thiserror::Error;

use super::study::{Along, CURVES, DECLARED, Form, Law, Place, RATIO, Runs, SPEEDUP, STEP_COST, Study};
use crate::analysis::{HistoryOrder, MetricUnit, RunSummary, THROUGHPUT, TRACE_METRICS, imported_history};
use crate::papers::{Artefact, artefacts};
use crate::plan::suggestion;

const SCALING: &[&str] = &["training_time_s", "epoch_time_s", THROUGHPUT, SPEEDUP, RATIO];
const TOTALS: &[&str] = &["training_time_s", "total_time_s", "accuracy", SPEEDUP, RATIO];
/// The columns of Tables 2 and 3 of 2503.15252; 2505.22905 has the same ones.
const TABLE_2: &[&str] = &["training_time_s", "total_time_s", "accuracy", "speedup_over_1_gpu", "speedup_over_fp64"];
const TABLE_3: &[&str] =
    &["training_time_s", "total_time_s", "accuracy", "speedup_over_1_gpu", "speedup_over_pageable"];
/// Metrics that the papers draw for image sizes, GPUs and pinned memory. multicard sums gradients with AllReduce; the papers show
/// AllGather.
const OF_LOADING: &[&str] =
    &["host_to_device", "cuda_launch_kernel", "cuda_stream_synchronize", "nccl_all_gather", "nccl_all_reduce"];
const OF_PRECISION: &[&str] = &["host_to_device", "cuda_memcpy_async", "nccl_broadcast", "cuda_event_destroy"];

const PAUSES: &[&str] = &["loader_start_s", "load_wait_s", "epoch_time_s", "training_time_s"];
/// The papers' iteration time is a mean.
const ITERATIONS: &[&str] = &[MEAN_STEP, "step_time_s", "training_time_s", "speedup_over_1_gpu"];
/// The columns of Table 5 in both papers.
const TABLE_5: &[&str] = &[MEAN_STEP, "step_time_s", "training_time_s", "time_saved_over_pageable"];
const MEAN_STEP: &str = "mean_step_time_s";
const MEMORY: &[&str] = &["peak_allocated_bytes", "peak_reserved_bytes", "step_time_s"];
/// The metrics of Table 1 in both papers.
const SEVEN: &[&str] = &[
    "host_to_device",
    "cuda_launch_kernel",
    "cuda_stream_synchronize",
    "nccl_all_gather",
    "cuda_event_synchronize",
    "cuda_event_destroy",
    "cuda_memcpy_async",
];
const OF_TUNING: &[&str] = &["cuda_launch_kernel", "cuda_stream_synchronize", "host_to_device"];
const OF_TECHNIQUES: &[&str] =
    &["cuda_event_synchronize", "cuda_launch_kernel", "cuda_stream_synchronize", "nccl_all_gather", "host_to_device"];
/// Includes AllGather, which runs use on two and more GPUs.
const OF_PINNING: &[&str] = &["cuda_launch_kernel", "host_to_device", "nccl_all_gather"];
const COPIES: &[&str] = &["host_to_device_bytes", "device_to_device_bytes", "device_to_host_bytes", "copied_bytes"];

static BUILT_IN: LazyLock<Vec<Study>> = LazyLock::new(|| {
    let all: Vec<&str> = TRACE_METRICS.iter().map(|metric| metric.key).collect();
    let mut studies = vec![
        study(
            "times",
            "step, training, epoch and total time, throughput and speed-up, with accuracy and loss as a check",
            Form::Bars,
            "training_time_s",
            &[
                "step_time_s",
                "training_time_s",
                "epoch_time_s",
                "total_time_s",
                THROUGHPUT,
                SPEEDUP,
                RATIO,
                "accuracy",
                "train_loss",
                DECLARED,
            ],
        ),
        study(
            "loading",
            "throughput, waiting for data in each step, and the start of the loader in each epoch",
            Form::Bars,
            "load_wait_s",
            &[THROUGHPUT, "step_time_s", "load_wait_s", "loader_start_s", "epoch_time_s", "training_time_s"],
        ),
        losses("loss", "training loss, test loss and accuracy after each epoch"),
        study(
            "memory",
            "peak GPU memory: in tensors, reserved, active, in the warm-up, and on the device",
            Form::Memory,
            "",
            &[
                "peak_allocated_bytes",
                "peak_reserved_bytes",
                "peak_active_bytes",
                "warm_up_peak_bytes",
                "peak_device_bytes",
            ],
        ),
        study(
            "scaling",
            "training time over GPUs next to its ideal, and efficiency",
            Form::Scaling,
            "training_time_s",
            SCALING,
        ),
        study("speedup", "throughput over that of the baseline", Form::Bars, SPEEDUP, &[THROUGHPUT, SPEEDUP]),
        study(
            "effects",
            "how many times as fast each level is as its factor's first one, all else being equal, and how factors interact",
            Form::Effects,
            "training_time_s",
            SCALING,
        ),
        study(
            "tornado",
            "all effects of levels and interactions of two factors, the largest first",
            Form::Tornado,
            "training_time_s",
            &[],
        ),
        study(
            "interactions",
            "training time over the levels of one factor for each level of another, for the pairs that interact most",
            Form::Interactions,
            "training_time_s",
            &[],
        ),
        study(
            "pareto",
            "training time over memory and energy, and the cells that no other cell beats",
            Form::Pareto,
            "training_time_s",
            &[],
        ),
        Study {
            across: Some("gpus".into()),
            law: Law::Amdahl,
            ..study(
                "scatter",
                "training time over the number of GPUs, with Amdahl's law; choose any two measures, or a factor that is a number",
                Form::Scatter,
                "training_time_s",
                &[],
            )
        },
        study(
            "history",
            "training time over sessions by their dates, with the places where its level changes; choose any measure",
            Form::History,
            "training_time_s",
            &[],
        ),
        study(
            "steadiness",
            "how far the steps of a run spread, whether they drift, and how surely the run tells its mean",
            Form::Bars,
            "step_spread",
            &["step_time_s", "step_spread", "step_drift", "step_lag_one", "step_error"],
        ),
        study(
            "energy",
            "joules for each image or token, power, clock and temperature of the GPUs in steady steps",
            Form::Bars,
            "energy_per_unit_j",
            &[
                "energy_per_unit_j",
                "steady_energy_j",
                "power_w",
                "step_time_s",
                "sm_clock_mhz",
                "temperature_c",
                "temperature_rise_c",
                "run_order",
            ],
        ),
        study(
            "roofline",
            "the model's FLOP rate over its arithmetic intensity, and their shares of the measured rates of the devices",
            Form::Roofline,
            "flop_per_s",
            &[
                "step_time_s",
                "flop_per_step",
                "bytes_per_step",
                "intensity",
                "flop_per_s",
                "flop_share",
                "bytes_per_s",
                "bytes_share",
                "energy_per_unit_j",
            ],
        ),
        study(
            "repeats",
            "every repeat of every cell",
            Form::Repeats,
            "training_time_s",
            &["training_time_s", "epoch_time_s", "step_time_s", "total_time_s"],
        ),
        study("map", "training time over two factors as a field of colours", Form::Map, "training_time_s", SCALING),
        study(
            "parts",
            "how the time of a step is divided: waiting for data, everything else",
            Form::Parts,
            "step_time_s",
            &[MEAN_STEP, "step_time_s", "load_wait_s"],
        ),
        Study {
            runs: Runs::All,
            baseline: Some("each trace=off".to_owned()),
            colour: Place::Setting("trace".into()),
            ..study(
                "trace-cost",
                "the cost of recording: how much longer steps of recorded runs are than those of the same cells without a recording",
                Form::Bars,
                STEP_COST,
                &["step_time_s", STEP_COST, "peak_allocated_bytes"],
            )
        },
        study(
            "activity",
            "what each rank of a run did at each time",
            Form::Activity,
            "total_time_s",
            &["total_time_s", "epoch_time_s"],
        ),
        metrics(
            "metrics",
            "time of the papers' CUDA and NCCL metrics in traced runs and reports",
            &all,
            MetricUnit::Seconds,
        ),
        metrics(
            "metrics-percent-of-report",
            "the same as nsys shows it: Time (%) of the list that contains each metric",
            &all,
            MetricUnit::OfReport,
        ),
        metrics(
            "metrics-percent-of-wall",
            "the same as a share of the recorded time, divided by the number of GPUs",
            &all,
            MetricUnit::OfWall,
        ),
    ];
    studies.extend(of_papers());
    studies
});

/// The studies of all tables and figures of the papers, by arXiv number.
fn of_papers() -> Vec<Study> {
    artefacts().iter().map(of_paper).collect()
}

/// The study of a table or figure of a paper: which settings are on rows, columns and colours, and which measure is shown.
fn of_paper(artefact: &Artefact) -> Study {
    let id = artefact.id();
    let about = format!("{}: {}", artefact.shows, artefact.quantity);
    let bars = |measure: &str, measures: &[&str], rows: &str, colour: &str| Study {
        rows: Place::Setting(rows.into()),
        colour: Place::Setting(colour.into()),
        ..study(&id, &about, Form::Bars, measure, measures)
    };
    let scaling = |colour: &str| Study { form: Form::Scaling, ..bars("training_time_s", TOTALS, "gpus", colour) };
    let within = |study: Study, filter: &str| Study { filter: filter.to_owned(), ..study };
    let metrics = |keys: &[&str], unit: MetricUnit| metrics(&id, &about, keys, unit);
    let study = match (artefact.paper.as_str(), artefact.name.as_str()) {
        ("2503.15252", "fig-1") => scaling("strategy"),
        (_, "fig-2") => scaling("image_size"),
        (_, "table-1") => metrics(SEVEN, MetricUnit::Seconds),
        (_, "table-2") => bars("training_time_s", TABLE_2, "gpus", "precision"),
        (_, "table-3") => bars("training_time_s", TABLE_3, "gpus", "pin_memory"),
        (_, "fig-3") => metrics(OF_LOADING, MetricUnit::OfShown),
        ("2505.22905", "fig-4") => metrics(OF_LOADING, MetricUnit::Seconds),
        (_, "strategy-metrics") => Study {
            runs: Runs::Traced,
            ..bars("host_to_device_s", &["host_to_device_s", "host_to_device_bytes"], "gpus", "strategy")
        },
        (_, "precision-metrics") => metrics(OF_PRECISION, MetricUnit::Seconds),
        ("2505.22905", "fig-5") => Study {
            measure: Some("train_loss".into()),
            colour: Place::Setting("precision".into()),
            ..losses(&id, &about)
        },
        ("2505.22905", "fig-6") => bars("training_time_s", TOTALS, "gpus", "loader"),
        ("2505.22905", "fig-7") => within(
            Study { form: Form::Activity, runs: Runs::All, ..bars("", PAUSES, "gpus", "loader") },
            "scenario = b and loader = host",
        ),
        (_, "fig-8") => within(
            Study { form: Form::Activity, runs: Runs::All, ..bars("", PAUSES, "gpus", "loader") },
            "scenario = b and loader = dali",
        ),
        (_, "fig-9") => within(bars("training_time_s", TOTALS, "gpus", "loader"), "layout = nhwc"),
        ("2503.15252", "fig-4") | (_, "fig-10") => {
            within(bars(MEAN_STEP, ITERATIONS, "gpus", "data_set"), "workload = llm")
        }
        (_, "table-4") => within(bars("units", &["units", "step_time_s"], "data_set", "data_set"), "workload = llm"),
        (_, "table-5") => within(bars(MEAN_STEP, TABLE_5, "gpus", "pin_memory"), "workload = llm"),
        ("2503.15252", "fig-5") | (_, "fig-11") => within(metrics(OF_TUNING, MetricUnit::Of720), "workload = llm"),
        ("2503.15252", "fig-6") | (_, "fig-12") => {
            Study { shares: true, ..within(metrics(OF_PINNING, MetricUnit::Of720), "workload = llm") }
        }
        (_, "fig-13") => Study {
            columns: Place::Setting("gpus".into()),
            ..within(bars(MEAN_STEP, ITERATIONS, "data_set", "technique"), "workload = llm")
        },
        (_, "fig-14") => Study {
            columns: Place::Setting("data_set".into()),
            ..within(bars("training_time_s", ITERATIONS, "gpus", "technique"), "workload = llm")
        },
        (_, "fig-15") => within(metrics(OF_TECHNIQUES, MetricUnit::OfWall), "workload = llm"),
        (_, "fig-16") => Study {
            columns: Place::Setting("data_set".into()),
            ..within(bars("peak_allocated_bytes", MEMORY, "gpus", "technique"), "workload = llm")
        },
        (_, "fig-17") => Study {
            runs: Runs::Traced,
            ..within(bars("copied_bytes", COPIES, "data_set", "technique"), "workload = llm")
        },
        // A drawing of the node, without measurements.
        _ => study(&id, &about, Form::Scaling, "images_per_s", SCALING),
    };
    Study { paper: Some(id.as_str().into()), ..study }
}

fn study(name: &str, about: &str, form: Form, measure: &str, measures: &[&str]) -> Study {
    Study {
        name: name.to_owned(),
        about: about.to_owned(),
        form,
        measure: (!measure.is_empty()).then(|| measure.into()),
        measures: measures.iter().copied().map(Into::into).collect(),
        ..Study::default()
    }
}

fn losses(name: &str, about: &str) -> Study {
    Study { by_epoch: true, ..study(name, about, Form::Loss, "", &CURVES) }
}

fn metrics(name: &str, about: &str, metrics: &[&str], metric_unit: MetricUnit) -> Study {
    let metrics = metrics.iter().copied().map(Into::into).collect();
    let form = Form::Metrics;
    Study { runs: Runs::Traced, metrics, metric_unit, ..study(name, about, form, "", &[]) }
}

/// The error for a name that no built-in study has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown preset {given:?}{}", suggestion(given, &names()))]
pub struct UnknownPreset {
    /// The name that was given.
    pub given: String,
}

/// All built-in studies: first those for any cells, then the figures of papers, whose names contain a `/`.
pub fn presets() -> &'static [Study] {
    &BUILT_IN
}

/// The study with which a session opens, if it is not the usual one: the history of imported results of many dates or
/// commits, which a reader could not distinguish by the colours of bars.
pub fn opening_study(runs: &[RunSummary]) -> Option<Study> {
    let along = match imported_history(runs)? {
        HistoryOrder::Dates => Along::Dates,
        HistoryOrder::Commits => Along::Commits,
    };
    let history = BUILT_IN.iter().find(|study| study.form == Form::History)?;
    Some(Study { along, ..history.clone() })
}

/// A built-in study by its name.
pub fn preset(name: &str) -> Result<Study, UnknownPreset> {
    let known = BUILT_IN.iter().find(|study| study.name == name);
    known.cloned().ok_or_else(|| UnknownPreset { given: name.to_owned() })
}

fn names() -> Vec<&'static str> {
    BUILT_IN.iter().map(|study| study.name.as_str()).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_preset_is_answered_with_the_nearest_and_another_name_with_those_that_exist() {
        let error = |name: &str| preset(name).map(drop).unwrap_err().to_string();
        assert_eq!(error("memroy"), "unknown preset \"memroy\"; did you mean \"memory\"?");
        assert!(
            error("foo").starts_with("unknown preset \"foo\"; there are times, loading, loss, memory"),
            "{}",
            error("foo")
        );
    }

    #[test]
    fn every_preset_is_found_by_its_name_and_has_known_measures_and_metrics_only() {
        let run = crate::analysis::summarise_run(&crate::analysis::fixture::finished());
        let cells = crate::analysis::cells(std::slice::from_ref(&run));
        for known in presets() {
            assert_eq!(preset(&known.name).as_ref(), Ok(known));
            assert_eq!(known.known(&cells).0, *known);
            assert!(!known.about.is_empty() && known.hidden.is_empty());
            assert!(known.baseline.is_none() || known.name == "trace-cost", "{}", known.name);
            assert!(crate::plan::Filter::parse(&known.filter).is_ok(), "{}", known.name);
        }
    }

    #[test]
    fn the_help_of_plans_names_every_form_and_the_measure_that_is_drawn() {
        let help = include_str!("../plan/plan.md");
        let row = |key: &str| help.lines().find(|line| line.starts_with(&format!("| `{key}` |"))).unwrap_or_default();
        let named = |form: &Form| row("form").contains(&format!("`{}`", form.key()));
        assert!(Form::ALL.iter().all(named), "{}", row("form"));
        let measure = format!("| `{}` |", Study::default().shown_measure());
        assert!(row("measure").ends_with(&measure), "{}", row("measure"));
    }

    #[test]
    fn every_table_and_figure_of_both_papers_is_a_preset_under_its_id() {
        for artefact in artefacts() {
            let id = artefact.id();
            assert_eq!(preset(&id).map(|study| study.paper), Ok(Some(id.as_str().into())), "{id}");
        }
        for id in ["2505.22905/table-2", "2505.22905/table-3", "2505.22905/fig-2"] {
            assert!(preset(id).is_ok(), "{id}");
        }
        let shown = |id: &str| preset(id).map(|study| (study.form, study.rows, study.colour));
        assert_eq!(shown("2505.22905/table-2"), shown("2503.15252/table-2"));
        let loaders = preset("2505.22905/fig-9").map(|study| (study.colour, study.filter));
        assert_eq!(loaders, Ok((Place::Setting("loader".into()), "layout = nhwc".to_owned())));
    }
}
