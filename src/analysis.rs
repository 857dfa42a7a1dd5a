#![doc = include_str!("analysis/method.md")]

mod absence;
mod activity;
mod alike;
mod all;
mod batch;
mod between_sessions;
mod cell;
mod cell_facts;
mod check;
mod circumstances;
mod clock;
mod commands;
mod comparison;
mod condition;
mod contrast;
#[cfg(test)]
mod coverage_tests;
mod covered;
mod effect;
mod environment;
#[cfg(test)]
pub(crate) mod fixture;
mod fold;
mod history;
mod incomparable;
mod jump;
mod law;
mod limit;
mod loss;
mod made_with;
mod mark;
mod measure;
mod metric;
mod outlier;
mod own;
mod own_list;
mod places;
mod pyramid;
mod quick;
mod record_marks;
mod recorded;
mod recording_cost;
mod renamed_kernels;
mod resolution;
mod rounding;
mod run;
mod run_summary;
mod search;
mod setting;
mod shared_measures;
mod shared_run;
mod shared_units;
mod smooth;
mod steadiness;
mod texts;
mod training;
#[cfg(test)]
mod unlike_tests;
mod until;
mod value;
mod verdict;
mod wall_clock;
mod warm_up;
mod work_difference;

pub use crate::statistics::{CONFIDENCE, INTERVAL_REPEATS, Interval, least_values, median, rank_correlation};
pub use absence::why_absent;
pub use activity::{Activity, Phase};
pub use alike::{AlikeRuns, alike_runs, program_versions};
pub use all::summarise_runs;
pub use batch::{BatchMeans, batch_means};
pub use between_sessions::{SessionComparison, SessionJudgement, judge_sessions};
pub use cell::{
    Cell, CellKey, Source, by_repeat, cell_keys, cells, cells_of, cells_pooling, finished, held, history_facts,
    is_of_session, measure_of, session_facts, sort, step_of, varying,
};
pub use check::{Check, check_between, check_keys, checked_by};
pub use circumstances::{COMMIT, Circumstances, DATE, MACHINE};
pub use clock::{Clock, Contradiction, Doubt};
pub use commands::Commands;
pub use comparison::Comparison;
pub use condition::{Condition, SessionDrift, conditions, session_drift};
pub use effect::{Change, Effect, Effects, Fitted, MOST_INTERACTIONS, MeanCell, Mixed, Reading, effects, mean_cells};
pub use environment::{environment_notes, environments_between, has_differing, split_by, split_note};
pub use history::{
    CHANGE_ERROR, HistoryOrder, LevelChange, OCCASION_FACTS, Occasions, imported_history, level_changes,
};
pub use incomparable::Incomparable;
pub use jump::{SessionJump, session_jump};
pub use law::{LawFit, TimeAt, TimeLaw};
pub use limit::Limits;
pub use loss::LossPoint;
pub use made_with::splitting_facts;
pub use mark::Mark;
pub use measure::{
    Measure, Measures, Origin, OverRanks, OverTime, Scaling, THROUGHPUT, capitalised, is_measured_here, measure,
    metric_measure,
};
pub use metric::{MetricUnit, WINDOW_S, of_window};
pub use outlier::{Outlier, outliers};
pub use own::{OwnOutcome, check_measures, wrong_measures};
pub use own_list::{FormulaName, check_edit, formula_names, needs_measure, with_measure};
pub use places::Places;
pub use pyramid::{Pyramid, View};
pub use quick::{has_warmed_up, relative_half_width};
pub use recorded::{PER_RANK, PER_STEP, RecordedMeasure, RecordedStatistic};
pub use recording_cost::{RecordingCost, TimedStep, recording_cost};
pub use resolution::resolution;
pub use run::{summarise_run, summarise_run_by};
pub use run_summary::{EpochSummary, Recording, RunSummary, summarise_report};
pub use search::{Next, Question, Race, Trial, check_search, step_lines};
pub use setting::{
    CELL, COMMAND, DATA, LevelRank, MADE_WITH, MODE, SESSION, SETTINGS, Setting, TRACE, WORKLOAD, level_name,
    level_rank, setting_key, setting_name,
};
pub use shared_measures::SharedMeasures;
pub use shared_run::refused_copy;
pub use smooth::Smoother;
pub use training::TrainingTime;
pub use until::{
    SpreadSeen, UNTIL_MEASURE, are_without_time, next_repeats, relative_precision, repeats_for, repeats_remark,
    training_times,
};
pub use value::{Intervals, Method, Value, range, ratio, summarise};
pub use verdict::{
    EQUAL_WITHIN, Judgement, Lack, REPEAT, Verdict, judge, judge_comparisons, log_ratios, mean_interval, spread,
    usual_spread,
};
pub use warm_up::LeftOut;
pub use work_difference::{WorkChange, WorkDifference, WorkVerdict, folded, work_difference};

// The plan's values that summaries and cells contain, for code that draws them.
pub use crate::plan::{Better, Key, Level, Levels, Mode, RunState, counted};
pub use crate::protocol::{
    DeviceRates, Environment, IMPORTED_FROM, TRACE_METRICS, TraceList, TraceLists, TraceMetricKind, TracePattern,
    TraceSummary, fact_name,
};
