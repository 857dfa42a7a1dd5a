//! Reads a plan's TOML: every key, level, type and range is checked, and every problem found is told.

use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::checked_table::{Table, integer, kind, real, shortened};
use super::file::PLAN_VERSION;
use super::problem::{PlanError, Problems, quoted, suggestion};
use super::{
    Capture, Corrupt, DataSet, Decode, Domain, Factor, Level, Limits, Order, Plan, Tracing, Workload, factor, factors,
};

const TOP_KEYS: &[&str] =
    &["version", "name", "workload", "repeats", "seed", "order", "limits", "measure", "data", "factors"];
/// Factors that may stand beside the data set that they cut.
const DATA_FACTORS: &[&str] = &["train_images", "test_images"];

pub(super) fn plan(text: &str, origin: &str) -> Result<Plan, PlanError> {
    let mut problems = Problems::new(origin, text);
    let document = match DeTable::parse(text) {
        Ok(document) => document,
        Err(error) => {
            problems.add(&error.span().unwrap_or(0..0), "", format!("not TOML: {}", error.message()));
            return Err(problems.into_error());
        }
    };
    let top = Table { name: "", entries: document.get_ref() };
    // What the keys of another version or workload mean is not known: say only that.
    version(&top, &mut problems);
    if problems.any() {
        return Err(problems.into_error());
    }
    let workload = workload(&top, &mut problems);
    if problems.any() {
        return Err(problems.into_error());
    }

    top.check_keys(TOP_KEYS, workload, &mut problems);
    let mut plan = Plan::new("", workload);
    plan.name = name(&top, origin, &mut problems);
    if let Some(repeats) = top.whole("repeats", 1..=1000, &mut problems) {
        plan.repeats = repeats as u32;
    }
    plan.seed = top.whole("seed", 0..=u64::MAX, &mut problems).unwrap_or(plan.seed);
    plan.order = match top.choice("order", Order::NAMES, &mut problems) {
        Some("sequential") => Order::Sequential,
        _ => Order::Interleaved,
    };
    if let Some(limits) = top.table("limits", &mut problems) {
        limits.check_keys(&["run_time_s", "memory_limit_gb", "exclusive"], workload, &mut problems);
        plan.limits = Limits {
            run_time_s: limits.positive("run_time_s", 1e9, &mut problems),
            memory_limit_gb: limits.positive("memory_limit_gb", 1e6, &mut problems),
            exclusive: limits.switch("exclusive", &mut problems).unwrap_or(true),
        };
    }
    if let Some(measure) = top.table("measure", &mut problems) {
        measure.check_keys(&["warm_up_steps", "trace", "trace_first_s", "trace_steps"], workload, &mut problems);
        plan.warm_up_steps =
            measure.whole("warm_up_steps", 0..=1_000_000_000, &mut problems).unwrap_or(plan.warm_up_steps);
        plan.tracing = tracing(&measure, &mut problems);
    }
    let data_table = top.table("data", &mut problems);
    let factor_table = top.table("factors", &mut problems);
    if let Some(table) = &data_table {
        plan.data = data(table, workload, &mut problems);
    }
    if let Some(table) = &factor_table {
        let keys: Vec<&str> = factors(workload).iter().map(|factor| &*factor.key).collect();
        table.check_keys(&keys, workload, &mut problems);
    }
    for (key, ticked) in &mut plan.factors {
        let Some(factor) = factor(workload, key) else { continue };
        if let Some(levels) = factor_levels(factor, data_table.as_ref(), factor_table.as_ref(), &mut problems) {
            *ticked = levels;
        }
    }
    if let Some(reason) = plan.too_large() {
        let span = top.find("factors").map_or(0..0, |(span, _)| span);
        problems.add(&span, "factors", reason);
    }
    if problems.any() { Err(problems.into_error()) } else { Ok(plan) }
}

fn version(top: &Table, problems: &mut Problems) {
    match top.find("version") {
        None => problems.add(&(0..0), "version", format!("missing: a plan starts with version = {PLAN_VERSION}")),
        Some((span, value)) => match integer(value) {
            Some(found) if found == i128::from(PLAN_VERSION) => {}
            Some(found) if found > i128::from(PLAN_VERSION) => {
                let message = format!("version {found} is newer than this multicard's {PLAN_VERSION}: use a newer one");
                problems.add(&span, "version", message);
            }
            _ => problems.add(&span, "version", format!("there is no such version: write version = {PLAN_VERSION}")),
        },
    }
}

fn workload(top: &Table, problems: &mut Problems) -> Workload {
    let names = Workload::ALL.map(Workload::name);
    let chosen = top.choice("workload", &names, problems);
    let workload = Workload::ALL.into_iter().find(|workload| Some(workload.name()) == chosen);
    let workload = workload.unwrap_or(Workload::Image);
    if let (Some((span, _)), true) = (top.find("workload"), factors(workload).is_empty()) {
        let message = format!("{:?} is not available in this version: use \"image\"", workload.name());
        problems.add(&span, "workload", message);
    }
    workload
}

fn name(top: &Table, origin: &str, problems: &mut Problems) -> String {
    match top.text("name", problems) {
        Some((span, name)) => {
            if name.trim().is_empty() || name.chars().any(char::is_control) {
                problems.add(&span, "name", "a name has letters, and no line breaks or control characters");
            }
            name.to_owned()
        }
        None => {
            let stem = Path::new(origin).file_stem().map(|stem| stem.to_string_lossy().into_owned());
            stem.filter(|stem| !stem.chars().any(char::is_control)).unwrap_or_else(|| "untitled".to_owned())
        }
    }
}

fn data(table: &Table, workload: Workload, problems: &mut Problems) -> DataSet {
    table.check_keys(&["set", "folder", "decode", "corrupt", "train_images", "test_images"], workload, problems);
    let set = table.choice("set", DataSet::NAMES, problems).unwrap_or("digits");
    let folder = table.text("folder", problems);
    if let Some((span, "")) = &folder {
        problems.add(span, "data.folder", "empty: give the path of a folder");
    }
    let decode = match table.choice("decode", Decode::NAMES, problems) {
        Some("each_epoch") => Decode::EachEpoch,
        _ => Decode::Once,
    };
    let corrupt = match table.choice("corrupt", Corrupt::NAMES, problems) {
        Some("skip") => Corrupt::Skip,
        _ => Corrupt::Stop,
    };
    for key in ["decode", "corrupt"] {
        if let (Some((span, _)), true) = (table.find(key), set != "folder") {
            let message = format!("set = {set:?} has no image files; did you mean set = \"folder\"?");
            problems.add(&span, format!("data.{key}"), message);
        }
    }
    match (set, folder) {
        ("mnist", folder) => DataSet::Mnist { folder: folder.map(|(_, folder)| PathBuf::from(folder)) },
        ("folder", Some((_, folder))) => DataSet::Folder { folder: PathBuf::from(folder), decode, corrupt },
        ("folder", None) => {
            // A folder of the wrong type was told already.
            if let (Some((span, _)), None) = (table.find("set"), table.find("folder")) {
                problems.add(&span, "data.folder", "missing: set = \"folder\" needs folder = \"…\"");
            }
            DataSet::Digits
        }
        (_, Some((span, _))) => {
            let message = format!("set = {set:?} has no folder; did you mean set = \"mnist\" or \"folder\"?");
            problems.add(&span, "data.folder", message);
            DataSet::Digits
        }
        (_, None) => DataSet::Digits,
    }
}

/// Whether runs are traced, and which part of them.
fn tracing(measure: &Table, problems: &mut Problems) -> Tracing {
    let on = measure.choice("trace", Tracing::NAMES, problems) == Some("nsys");
    let first_s = measure.positive("trace_first_s", 1e9, problems);
    let steps = measure.steps("trace_steps", problems);
    for key in ["trace_first_s", "trace_steps"] {
        if let (Some((span, _)), false) = (measure.find(key), on) {
            problems.add(&span, measure.path(key), "means nothing without trace = \"nsys\"");
        }
    }
    match (on, first_s, steps) {
        (false, ..) => Tracing::Off,
        (true, Some(_), Some(_)) => {
            let span = measure.find("trace_steps").map_or(0..0, |(span, _)| span);
            problems.add(&span, "measure.trace_steps", "trace_first_s is given too: leave one of them");
            Tracing::Off
        }
        (true, Some(seconds), None) => Tracing::Nsys(Capture::First { seconds }),
        (true, None, Some((first, last))) => Tracing::Nsys(Capture::Steps { first, last }),
        (true, None, None) => Tracing::Nsys(Capture::Whole),
    }
}

/// The ticked levels of a factor, from `[factors]` or, for some, `[data]`.
fn factor_levels(
    factor: &Factor,
    data: Option<&Table>,
    factors: Option<&Table>,
    problems: &mut Problems,
) -> Option<Vec<Level>> {
    let beside_data = data.filter(|_| DATA_FACTORS.contains(&&*factor.key)).and_then(|table| table.find(&factor.key));
    let ticked = factors.and_then(|table| table.find(&factor.key));
    let (table, (span, value)) = match (beside_data, ticked) {
        (Some((first, _)), Some((span, _))) => {
            let (first, second) = (problems.line(&first), problems.line(&span));
            let message = format!("given in [data] (line {first}) and in [factors] (line {second}): leave one of them");
            problems.add(&span, format!("factors.{}", factor.key), message);
            return None;
        }
        (Some(entry), None) => ("data", entry),
        (None, Some(entry)) => ("factors", entry),
        (None, None) => return None,
    };
    let key = format!("{table}.{}", factor.key);
    let mut levels = Vec::new();
    match value.get_ref() {
        DeValue::Array(items) => {
            if items.is_empty() {
                problems.add(&span, &key, "an empty list: name at least one level, or leave the line out");
            }
            let mut seen = std::collections::HashSet::new();
            for item in items {
                match level(factor, item) {
                    Ok(level) if seen.contains(&level) => {
                        problems.add(&item.span(), &key, format!("{level} stands twice in the list"));
                    }
                    Ok(level) => {
                        seen.insert(level.clone());
                        levels.push(level);
                    }
                    Err(message) => problems.add(&item.span(), &key, message),
                }
            }
        }
        _ => match level(factor, value) {
            Ok(level) => levels.push(level),
            Err(message) => problems.add(&value.span(), &key, message),
        },
    }
    (!levels.is_empty()).then_some(levels)
}

/// One level of a factor, or what is wrong with it.
fn level(factor: &Factor, value: &Spanned<DeValue>) -> Result<Level, String> {
    let found = value.get_ref();
    let out_of_range = |number: String, min: String, max: String| {
        format!("{number} is out of range: {} goes from {min} to {max}", factor.key)
    };
    match &factor.domain {
        Domain::Names(names) => match found {
            DeValue::String(name) => match names.iter().find(|known| ***known == **name) {
                Some(known) => Ok(Level::Text(known.clone())),
                None => Err(format!("unknown level {}{}", quoted(name), suggestion(name, names))),
            },
            DeValue::Boolean(on) if names.iter().any(|name| **name == *"on") => {
                Err(format!("{on} is no level; did you mean {:?}?", if *on { "on" } else { "off" }))
            }
            _ => Err(format!("must be a string, not {}; there are {}", kind(found), names.join(", "))),
        },
        Domain::Integer { min, max } => {
            let DeValue::Integer(text) = found else {
                return Err(format!("must be a whole number, not {}", kind(found)));
            };
            let number = integer(value).and_then(|number| i64::try_from(number).ok());
            let number = number.filter(|number| (min..=max).contains(&number));
            number
                .map(Level::Integer)
                .ok_or_else(|| out_of_range(shortened(&text.to_string()), min.to_string(), max.to_string()))
        }
        Domain::Number { min, max } => {
            let number = real(value).ok_or_else(|| format!("must be a number, not {}", kind(found)))?;
            if !(min..=max).contains(&&number) {
                return Err(out_of_range(number.to_string(), min.to_string(), max.to_string()));
            }
            // -0.0 and 0.0 are one level.
            Ok(Level::Number(number + 0.0))
        }
    }
}
