//! The study that `table` and `figure` show: a study by its name, and changes to it. `multicard study` lists the
//! studies of a session, saves and deletes them.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};

use clap::Args;

use super::conduct::ordered_or;
use super::material::{Material, saved};
use super::percent::share;
use super::{Format, OK, Outcome, print, say, session_folder, variant};
use crate::analysis::{
    MetricUnit, SETTINGS, Source, TRACE_METRICS, cells_of, setting_key, splitting_facts, why_absent,
};
use crate::conduct::Order;
use crate::figure::{self, Along, Form, Law, Over, Place, SavedStudy, Study};
use crate::plan::{Filter, FilterError, Key, Level, factor_key, suggestion, workloads};
use crate::store::{Decision, Reader, Store};
use crate::text_table::TextTable;

/// A study by name, and changes to it.
#[derive(Args)]
pub(super) struct StudyArguments {
    /// Start from this built-in study: times (unless --form is given), loading, loss, memory, scaling, speedup, effects, tornado,
    /// interactions, pareto, scatter, history, steadiness, energy, repeats, map, parts, activity, metrics, or one of a paper's such as
    /// 2505.22905/fig-6.
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Start from this study, which the session keeps or multicard has built in; see `multicard study`.
    #[arg(long, value_name = "NAME", conflicts_with = "preset")]
    study: Option<String>,
    /// The kind of chart.
    #[arg(long, value_parser = variant::<Form>())]
    form: Option<Form>,
    /// Include only these cells: words that occur in their levels, or comparisons such as "precision=fp16 and gpus>=2", joined
    /// by and, or, not and parentheses.
    #[arg(long, value_parser = filter)]
    filter: Option<String>,
    /// Key of the measure to show. Recordings are measured by pattern: kernel:PATTERN, api.count.per_step:PATTERN, nccl:AllReduce;
    /// `multicard help method` explains these and lists all others.
    #[arg(long, value_name = "KEY")]
    measure: Option<Key>,
    /// In the form scatter: key of the measure on the x axis, or of a factor with numbers.
    #[arg(long, value_name = "KEY")]
    across: Option<Key>,
    /// In the form scatter: the law that is fitted.
    #[arg(long, value_parser = variant::<Law>())]
    law: Option<Law>,
    /// In the form history: the order of sessions.
    #[arg(long, value_parser = variant::<Along>())]
    along: Option<Along>,
    /// Baseline of ratios: a cell's id, levels such as precision=fp32,gpus=1 (quoted as in filters: name="a b"), or "each gpus=1", which
    /// compares every cell with the cell that has this level and otherwise the same levels. Default: the first cell that has the measure.
    #[arg(long, value_name = "CELL")]
    baseline: Option<String>,
    /// Name the fastest cell among those whose GPUs use at most this many GB.
    #[arg(long, value_name = "GB", value_parser = positive)]
    max_memory: Option<f64>,
    /// Name the fastest cell among those with at least this accuracy, such as 99%.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    min_accuracy: Option<f64>,
    /// Call a ratio equal if it is surely within this share of 1, such as 2% [default: 1%].
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    equal_within: Option<f64>,
    /// Join the repeats of a cell even if they differ in these facts of their environment, such as hostname,driver.
    #[arg(long, value_name = "FACTS", value_delimiter = ',', value_parser = fact)]
    pool: Option<Vec<Key>>,
    /// Property that groups bars: a factor, data, auto or nothing.
    #[arg(long, value_name = "KEY")]
    rows: Option<Key>,
    /// Property that makes panels side by side: a factor, data, auto or nothing.
    #[arg(long, value_name = "KEY")]
    columns: Option<Key>,
    /// Property that colours distinguish: a factor, data, auto or nothing.
    #[arg(long, value_name = "KEY", alias = "color")]
    colour: Option<Key>,
    /// Horizontal axis of losses.
    #[arg(long, value_parser = variant::<Over>())]
    over: Option<Over>,
    /// Keys of the profiler metrics to show, separated by commas.
    #[arg(long, value_name = "KEYS", value_delimiter = ',', value_parser = metric)]
    metrics: Option<Vec<Key>>,
    /// Unit of profiler metrics. Only figures have percent-of-shown.
    #[arg(long, value_parser = variant::<MetricUnit>())]
    metric_unit: Option<MetricUnit>,
    /// Include traced runs; tracing costs time.
    #[arg(long)]
    traced: bool,
    /// Use a logarithmic axis for values.
    #[arg(long)]
    log: bool,
}

/// Checks a filter before anything is read.
fn filter(text: &str) -> Result<String, FilterError> {
    Filter::parse(text).map(|_| text.to_owned())
}

/// A fact of the environment by which cells are split.
fn fact(text: &str) -> Result<Key, String> {
    let known = splitting_facts();
    if known.contains(&text) { Ok(text.into()) } else { Err(format!("use one of {}", known.join(", "))) }
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "give a number above 0".to_owned())
}

fn percent(text: &str) -> Result<f64, String> {
    share(text, 0.0..=100.0, "from 0 to 100, such as 2%")
}

fn metric(text: &str) -> Result<Key, String> {
    let known: Vec<&str> = TRACE_METRICS.iter().map(|metric| metric.key).collect();
    if known.contains(&text) { Ok(text.into()) } else { Err(format!("use one of {}", known.join(", "))) }
}

impl StudyArguments {
    /// The requested study, for the sessions in folders. A study by name is the first one of this name that a session has saved.
    pub fn study(&self, folders: &[PathBuf]) -> Result<Study, Box<dyn Error>> {
        let mut study = match (&self.study, &self.preset, self.form) {
            (Some(name), ..) => {
                let mut known: Vec<SavedStudy> = Vec::new();
                for folder in folders {
                    known.extend(saved(folder)?);
                }
                figure::find_study(&known, name)?
            }
            (None, None, Some(_)) => Study::default(),
            (None, name, _) => figure::preset(name.as_deref().unwrap_or("times"))?,
        };
        study.measure = self.measure.clone().or(study.measure);
        study.across = self.across.clone().or(study.across);
        study.law = self.law.unwrap_or(study.law);
        study.along = self.along.unwrap_or(study.along);
        if self.traced {
            study = study.with_traced();
        }
        study.form = self.form.unwrap_or(study.form);
        study.filter = self.filter.clone().unwrap_or(study.filter);
        study.baseline = self.baseline.clone().or(study.baseline);
        study.limits.memory_bytes = self.max_memory.map(|gb| gb * 1e9).or(study.limits.memory_bytes);
        study.limits.accuracy = self.min_accuracy.or(study.limits.accuracy);
        study.equal_within = self.equal_within.unwrap_or(study.equal_within);
        study.pool = self.pool.clone().unwrap_or(study.pool);
        for (place, asked) in
            [(&mut study.rows, &self.rows), (&mut study.columns, &self.columns), (&mut study.colour, &self.colour)]
        {
            if let Some(key) = asked {
                *place = Place::from(key.clone());
            }
        }
        study.over = self.over.unwrap_or(study.over);
        study.metrics = self.metrics.clone().unwrap_or(study.metrics);
        study.metric_unit = self.metric_unit.unwrap_or(study.metric_unit);
        study.log |= self.log;
        Ok(study)
    }

    /// What a table says if it was asked for shares of the shown metrics: they depend on which metrics are chosen, and a table chooses none.
    pub fn unit_of_figures(&self) -> Option<String> {
        let is_asked = self.metric_unit == Some(MetricUnit::OfShown);
        is_asked.then(|| {
            "metrics are in seconds: `multicard figure` draws percent-of-shown, tables do not have it".to_owned()
        })
    }

    /// Rejects a requested measure or baseline that the sessions do not have, and a factor that no workload has.
    pub fn check(&self, sources: &[Source]) -> Result<(), String> {
        self.check_factors(sources)?;
        let runs = sources.iter().flat_map(|source| source.runs.iter().chain(source.reports));
        if let Some(why) = self.measure.as_ref().and_then(|asked| why_absent(runs.clone(), asked)) {
            return Err(why);
        }
        let known = figure::known_measures(sources);
        let is_recorded = |asked: &Key| runs.clone().any(|run| run.measures.is_of_reports(asked));
        let asked = self.measure.as_ref().filter(|asked| !is_recorded(asked));
        if let Some(asked) = asked.filter(|asked| known.iter().all(|(key, _)| key != *asked)) {
            let mut programs = runs.clone().filter(|run| run.workload.command.is_some());
            if programs.any(|run| run.unregistered().any(|(key, _)| key == asked)) {
                return Err(format!(
                    "measure {asked}: the program reports it, but its plan does not say what it is: add an entry to [command.measures] in the \
                     plan; `multicard export --what runs` has the values"
                ));
            }
            let known: Vec<&str> = known.iter().map(|(key, _)| &**key).collect();
            return Err(format!("unknown measure {:?}{}", &**asked, suggestion(asked, &known)));
        }
        if let Some(asked) = self.across.as_ref().filter(|asked| known.iter().all(|(key, _)| key != *asked)) {
            let is_number = |level: Option<&Level>| level.is_some_and(|level| level.as_number().is_some());
            if !runs.clone().any(|run| is_number(run.levels.get(asked))) {
                let known: Vec<&str> = known.iter().map(|(key, _)| &**key).collect();
                let near = suggestion(asked, &known);
                return Err(format!("--across {asked}: this is neither a measure nor a factor with numbers{near}"));
            }
        }
        self.baseline.as_deref().map_or(Ok(()), |asked| check_baseline(sources, asked))
    }

    /// Rejects a misspelt factor, which would leave an empty table. A factor of another workload is accepted: no cell has it.
    fn check_factors(&self, sources: &[Source]) -> Result<(), String> {
        let factors = workloads().iter().flat_map(|spec| &spec.factors).map(|factor| &*factor.key);
        let levels =
            sources.iter().flat_map(|source| source.runs).flat_map(|run| run.levels.iter().map(|(key, _)| &**key));
        // Filters know a GPU's name too.
        let settings = SETTINGS.into_iter().chain(["gpu"]);
        // The session's own factors come first, since a message names only some.
        let own: BTreeSet<&str> = levels.collect();
        let others: BTreeSet<&str> = settings.chain(factors).filter(|key| !own.contains(key)).collect();
        let known: Vec<&str> = own.into_iter().chain(others).collect();
        let refuse = |argument: &str, key: &str| {
            let is = |name: &str| known.iter().any(|known| known.eq_ignore_ascii_case(name));
            let is_known = is(key) || is(factor_key(key)) || is(setting_key(key));
            if is_known {
                Ok(())
            } else {
                Err(format!("--{argument}: unknown factor {key:?}{}", suggestion(key, &known)))
            }
        };
        let filter = self.filter.as_deref().and_then(|text| Filter::parse(text).ok()).unwrap_or_default();
        filter.keys().into_iter().try_for_each(|key| refuse("filter", key))?;
        if !filter.is_empty() {
            filter.among(&cells_of(sources).iter()).map_err(|error| format!("--filter: {error}"))?;
        }
        for (argument, asked) in [("rows", &self.rows), ("columns", &self.columns), ("colour", &self.colour)] {
            if let Some(Place::Setting(key)) = asked.clone().map(Place::from) {
                refuse(argument, &key)?;
            }
        }
        Ok(())
    }
}

/// Rejects a baseline that matches no cell.
pub(super) fn check_baseline(sources: &[Source], asked: &str) -> Result<(), String> {
    if figure::has_baseline(sources, asked) {
        return Ok(());
    }
    Err(format!(
        "baseline {asked}: no cell has this id or these levels (write them as precision=fp32,gpus=1, or \"each gpus=1\")"
    ))
}

#[derive(Args)]
pub(super) struct Arguments {
    /// Session folder, or the name of a session in the default folder.
    session: PathBuf,
    /// Save the study given by the other options under this name, replacing one of the same name.
    #[arg(long, value_name = "NAME", conflicts_with = "delete")]
    save: Option<String>,
    /// Delete the saved study of this name.
    #[arg(long, value_name = "NAME")]
    delete: Option<String>,
    #[command(flatten)]
    study: StudyArguments,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Md)]
    format: Format,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let folder = session_folder(&arguments.session)?;
    if let Some(name) = &arguments.save {
        if let Some(reason) = figure::refused_name(name) {
            return Err(format!("--save {name:?}: {reason}").into());
        }
        let study = arguments.study.study(std::slice::from_ref(&folder))?;
        arguments.study.check(&Material::read(&folder)?.sources())?;
        let study = serde_json::to_value(Study { name: name.clone(), ..study })?;
        let order = Order::SaveStudy(name.clone(), study.clone());
        ordered_or(&folder, &order, || {
            Ok(Store::open(&folder)?.decide(Decision::StudySaved { name: name.clone(), study: study.clone() })?)
        })?;
        let session = arguments.session.display();
        say(format_args!("saved study {name}: multicard figure {session} --study {name:?}"));
        return Ok(OK);
    }
    if let Some(name) = &arguments.delete {
        let saved = saved(&folder)?;
        if !saved.iter().any(|known| known.name == *name) {
            let names: Vec<&str> = saved.iter().map(|known| known.name.as_str()).collect();
            let names =
                if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
            return Err(format!("{} has no saved study {name:?}: {names}", arguments.session.display()).into());
        }
        ordered_or(&folder, &Order::DeleteStudy(name.clone()), || {
            Ok(Store::open(&folder)?.decide(Decision::StudyDeleted { name: name.clone() })?)
        })?;
        say(format_args!("deleted study {name}"));
        return Ok(OK);
    }
    list(&folder, arguments.format)
}

fn list(folder: &Path, format: Format) -> Outcome {
    if format == Format::Json {
        let saved = Reader::open(folder)?.studies()?;
        let built_in: Vec<_> = figure::presets().iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
        let saved: Vec<serde_json::Value> =
            saved.iter().map(|(_, text)| serde_json::from_str(text)).collect::<Result<_, _>>()?;
        let lists = serde_json::json!({ "saved": saved, "built_in": built_in });
        print(&serde_json::to_string_pretty(&lists)?)?;
        return Ok(OK);
    }
    let mut table = TextTable::new("llll", ["Study", "Origin", "Form", "Shows"]);
    for SavedStudy { name, study, .. } in saved(folder)? {
        let (form, about) = study.map_or_else(|reason| ("?", reason), |study| (study.form.key(), study.about));
        table.row([name.into(), "session".into(), form.into(), about.into()]);
    }
    for study in figure::presets() {
        let Study { name, form, about, .. } = study;
        table.row([name.as_str().into(), "multicard".into(), form.key().into(), about.as_str().into()]);
    }
    print(&table.markdown())?;
    Ok(OK)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::analysis::{fixture, setting_name, summarise_run};
    use crate::figure::Runs;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        study: StudyArguments,
    }

    #[test]
    fn a_table_says_that_it_has_no_shares_of_the_shown_metrics() {
        let note = |words: &[&str]| Line::try_parse_from(words).unwrap().study.unit_of_figures();
        assert!(note(&["table", "--metric-unit", "percent-of-shown"]).unwrap().contains("in seconds"));
        assert_eq!(note(&["table", "--metric-unit", "percent-of-wall"]), None);
        assert_eq!(note(&["table", "--preset", "2503.15252/fig-3"]), None);
    }

    #[test]
    fn filters_and_arrangements_may_name_settings_also_where_a_factor_has_their_key() {
        let runs = [summarise_run(&fixture::finished())];
        let sources = [Source { session: "", runs: &runs, reports: &[] }];
        let check = |words: &[&str]| {
            let line = Line::try_parse_from(std::iter::once(&"table").chain(words)).unwrap();
            line.study.check(&sources)
        };
        for key in SETTINGS.into_iter().flat_map(|key| [key.to_owned(), setting_name(key)]) {
            assert_eq!(check(&["--filter", &format!("{key}=x")]), Ok(()), "{key}");
            for place in ["--rows", "--columns", "--colour"] {
                assert_eq!(check(&[place, &key]), Ok(()), "{key}");
            }
        }
        let refused = check(&["--filter", "setting_precision=fp32"]).unwrap_err();
        assert!(refused.contains("unknown factor \"setting_precision\""), "{refused}");
    }

    #[test]
    fn the_arguments_that_the_window_copies_ask_for_the_same_study() {
        let mut study = Study { form: Form::Loss, over: Over::Time, runs: Runs::All, log: true, ..Study::default() };
        study.filter = "precision=\"a b\" or gpus>=2".to_owned();
        study.measure = Some("step_time_s".into());
        (study.across, study.law) = (Some("gpus".into()), Law::AlphaBeta);
        study.along = Along::Commits;
        study.baseline = Some("precision=fp32,gpus=1".to_owned());
        (study.limits.memory_bytes, study.limits.accuracy) = (Some(16e9), Some(0.57));
        study.equal_within = 0.07;
        (study.rows, study.colour) = (Place::Nothing, Place::Setting("gpus".into()));
        study.metrics = vec![TRACE_METRICS[0].key.into()];
        let words = figure::arguments(&study, &[]).unwrap();
        assert!(["57%", "7%"].iter().all(|percent| words.iter().any(|word| word == percent)), "{words:?}");
        let line = Line::try_parse_from(std::iter::once("table".to_owned()).chain(words)).unwrap();
        assert_eq!(line.study.study(&[PathBuf::from("/nowhere")]).unwrap(), study);

        let refused = Line::try_parse_from(["table", "--min-accuracy", "0.9"]).err().unwrap();
        assert!(refused.to_string().contains("is that 0.9 % or 90 %? Write 0.9% or 90%"), "{refused}");

        let own = Study { measures: vec!["step_time_s".into()], ..Study::default() };
        assert!(figure::arguments(&own, &[]).unwrap_err().contains("save it as a study first"));
    }
}
