//! Reads a plan's TOML. Checks every key, level, type and range, and reports all problems found.

mod constraints;
mod measure;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::checked_table::{Table, integer, kind, real, shortened};
use super::data::{Data, DataSetRule};
use super::file::{MAX_REPEATS, ONE_ALLOCATION, ONE_PER_RUN, PLAN_VERSION};
use super::problem::{NAME_RULE, PlanError, Problems, is_name, quoted, suggestion};
use super::tracing::TRACE_WINDOWS;
use super::workload::{GPUS_PER_NODE, command, gpus_of, usual_workload, workloads};
use super::{
    Better, Block, Capture, Checked, DesignKind, Domain, Factor, GPUS, GpuChoice, Key, Level, Limits, Margin, Mode,
    NODES, Order, Plan, Tracer, WorkloadSpec, design_text, own, search_text, study,
};
use constraints::{CONSTRAINT_KEYS, constraints};
use measure::{MEASURE_KEYS, mode, tracing};

const TOP_KEYS: &[&str] = &[
    "version",
    "name",
    "workload",
    "command",
    "repeats",
    "seed",
    "order",
    "aa",
    "where",
    "limits",
    "measure",
    "data",
    "factors",
    "design",
    "block",
    "constraint",
    "check",
    "search",
    "measures",
    "study",
];
/// The factor that selects the data set, in workloads that have one.
const SET: &str = "data_set";
const BLOCK_KEYS: &[&str] = &["workload", "command", "data", "factors", "design"];
const LIMIT_KEYS: &[&str] = &["run_time_s", "memory_limit_gb", "exclusive"];
const PLACE_KEYS: &[&str] = &["site", "jobs"];

/// The words of plan files that multicard defines, apart from those of workloads: keys of tables, and names of choices.
pub fn plan_words() -> impl Iterator<Item = &'static str> {
    let keys: [&[&str]; 10] = [
        TOP_KEYS,
        BLOCK_KEYS,
        LIMIT_KEYS,
        PLACE_KEYS,
        MEASURE_KEYS,
        CONSTRAINT_KEYS,
        design_text::KEYS,
        design_text::ADD_KEYS,
        search_text::KEYS,
        own::KEYS,
    ];
    let choices: [&[&str]; 8] = [
        Order::NAMES,
        Mode::NAMES,
        DesignKind::NAMES,
        design_text::CHOICES,
        Better::NAMES,
        &Tracer::NAMES,
        GpuChoice::NAMES,
        &[ONE_PER_RUN, ONE_ALLOCATION],
    ];
    keys.into_iter().chain(choices).flatten().copied().chain(command::words())
}

pub(super) fn plan(text: &str, origin: &str, more: &[Arc<WorkloadSpec>]) -> Result<Plan, PlanError> {
    let mut problems = Problems::new(origin, text);
    let document = match DeTable::parse(text) {
        Ok(document) => document,
        Err(error) => {
            problems.add(&error.span().unwrap_or(0..0), "", format!("not TOML: {}", error.message()));
            return Err(problems.into_error());
        }
    };
    let top = Table { name: String::new(), entries: document.get_ref() };
    // The meaning of keys of another version or workload is unknown, so nothing else is reported.
    version(&top, &mut problems);
    if problems.any() {
        return Err(problems.into_error());
    }
    let blocks = top.tables("block", &mut problems);
    let commands = {
        let tables: Vec<&Table> = std::iter::once(&top).chain(blocks.iter().map(|(_, table)| table)).collect();
        command::defined(&tables, &mut problems)
    };
    if problems.any() {
        return Err(wrong_command(problems, Problems::new(origin, text), &top, &blocks));
    }
    let known: Vec<&Arc<WorkloadSpec>> = commands.iter().chain(more).chain(workloads()).collect();
    let spec = workload(&top, &known, &mut problems);
    if problems.any() {
        return Err(problems.into_error());
    }

    top.check_keys(TOP_KEYS, &spec.factors, &mut problems);
    let mut plan = Plan::new("", spec.clone());
    plan.name = name(&top, origin, &mut problems);
    if let Some(repeats) = top.whole("repeats", 1..=MAX_REPEATS.into(), &mut problems) {
        plan.repeats = repeats as u32;
    }
    plan.seed = top.whole("seed", 0..=u64::MAX, &mut problems).unwrap_or(plan.seed);
    plan.order = match top.choice("order", Order::NAMES, &mut problems) {
        Some(name) => name.parse().unwrap_or_default(),
        None => Order::default(),
    };
    plan.aa = top.switch("aa", &mut problems).unwrap_or(false);
    (plan.site, plan.one_allocation) = place(&top, &spec, &mut problems);
    if let Some(limits) = top.table("limits", &mut problems) {
        limits.check_keys(LIMIT_KEYS, &spec.factors, &mut problems);
        plan.limits = Limits {
            run_time_s: limits.positive("run_time_s", 1e9, &mut problems),
            memory_limit_gb: limits.positive("memory_limit_gb", 1e6, &mut problems),
            exclusive: limits.switch("exclusive", &mut problems).unwrap_or(true),
        };
    }
    if let Some(measure) = top.table("measure", &mut problems) {
        measure.check_keys(MEASURE_KEYS, &spec.factors, &mut problems);
        plan.warm_up_steps =
            measure.whole("warm_up_steps", 0..=1_000_000_000, &mut problems).unwrap_or(plan.warm_up_steps);
        plan.mode = mode(&measure, &mut problems);
        plan.tracing = tracing(&measure, &mut problems);
    }
    plan.first = block(&top, &spec, &mut problems);
    for (_, table) in blocks {
        let before = problems.any();
        let spec = workload(&table, &known, &mut problems);
        // Without the workload, the meaning of its keys is unknown.
        if before || !problems.any() {
            table.check_keys(BLOCK_KEYS, &spec.factors, &mut problems);
            plan.further.push(block(&table, &spec, &mut problems));
        }
    }
    only_whole_runs(&plan, &top, &mut problems);
    plan.constraints = constraints(&top, &plan, &mut problems);
    plan.checked = checked(&top, &mut problems);
    plan.search = search_text::read(&top, &mut problems);
    search_text::report(plan.search_conflicts(), &top, &mut problems);
    plan.measures = own::measures(&top, &mut problems);
    plan.studies = study::studies(&top, &mut problems);
    if let Some(reason) = plan.too_large() {
        let span = top.find("factors").map_or(0..0, |(span, _)| span);
        problems.add(&span, "factors", reason);
    }
    if problems.any() { Err(problems.into_error()) } else { Ok(plan) }
}

/// `[where]`: the site of the runs, and whether they share an allocation there.
fn place(top: &Table, spec: &WorkloadSpec, problems: &mut Problems) -> (Option<String>, bool) {
    let Some(table) = top.table("where", problems) else { return (None, false) };
    table.check_keys(PLACE_KEYS, &spec.factors, problems);
    let one_allocation = match table.text("jobs", problems) {
        None | Some((_, ONE_PER_RUN)) => false,
        Some((_, ONE_ALLOCATION)) => true,
        Some((span, other)) => {
            let message = format!("{other:?} is not one of {ONE_PER_RUN:?} and {ONE_ALLOCATION:?}");
            problems.add(&span, table.path("jobs"), message);
            false
        }
    };
    let Some((span, name)) = table.text("site", problems) else { return (None, one_allocation) };
    if !is_name(name) {
        problems.add(&span, table.path("site"), format!("is not a name of a site: {NAME_RULE}"));
    }
    (Some(name.to_owned()), one_allocation)
}

/// Only the worker can end a run once its steps suffice.
const RUNS_TO_ITS_END: &str = "cannot be used with commands: their runs always run to their end";
/// Only the worker can mark the part of a run to record.
const IS_RECORDED_WHOLE: &str = "cannot be used with programs of your own: multicard does not control their steps. Leave it out: such runs \
    are recorded as a whole";

/// Rejects what programs of the plan's own cannot do.
fn only_whole_runs(plan: &Plan, top: &Table, problems: &mut Problems) {
    if plan.blocks().all(|block| block.spec.command.is_none()) {
        return;
    }
    let Some(measure) = top.table("measure", problems) else { return };
    let whole = plan.tracing.capture().is_none_or(|capture| capture == Capture::Whole);
    // Blocks without a command may use the windows.
    let in_windows = !whole && plan.blocks().all(|block| block.spec.command.is_some());
    let refused = [
        ("mode", !plan.mode.is_full(), RUNS_TO_ITS_END),
        ("trace_first_s", !whole, IS_RECORDED_WHOLE),
        ("trace_steps", !whole, IS_RECORDED_WHOLE),
        (TRACE_WINDOWS, in_windows, IS_RECORDED_WHOLE),
    ];
    for (key, _, why) in refused.into_iter().filter(|(_, refused, _)| *refused) {
        if let Some((span, _)) = measure.find(key) {
            problems.add(&span, measure.path(key), why);
        }
    }
}

/// `[check]`: measures with their margins.
fn checked(top: &Table, problems: &mut Problems) -> Vec<Checked> {
    let Some(table) = top.table("check", problems) else { return Vec::new() };
    let mut checked: Vec<(Range<usize>, Checked)> = Vec::new();
    for (key, value) in table.entries {
        let name = key.get_ref().as_ref();
        let margin = match value.get_ref() {
            DeValue::String(text) => text.parse().map_err(str::to_owned),
            _ => match real(value).filter(|margin| *margin > 0.0 && margin.is_finite()) {
                Some(margin) => Ok(Margin::Absolute(margin)),
                None => Err("must be a number above 0, or a share of the value such as \"2 %\"".to_owned()),
            },
        };
        match margin {
            Ok(margin) if is_name(name) => checked.push((key.span(), Checked { measure: name.into(), margin })),
            Ok(_) => problems.add(&key.span(), table.path(name), format!("is not a key of a measure: {NAME_RULE}")),
            Err(message) => problems.add(&value.span(), table.path(name), message),
        }
    }
    // In the order of the file: the first measure that both cells report is decisive.
    checked.sort_by_key(|(span, _)| span.start);
    checked.into_iter().map(|(_, checked)| checked).collect()
}

/// The cells of a table with `data` and `factors`.
fn block(table: &Table, spec: &Arc<WorkloadSpec>, problems: &mut Problems) -> Block {
    let mut block = Block::new(spec.clone());
    let data_table = table.table("data", problems);
    let factor_table = table.table("factors", problems);
    if let Some(table) = &data_table {
        block.data = data(table, spec, problems);
    }
    if let Some(table) = &factor_table {
        let keys: Vec<&Key> = spec.factors.iter().map(|factor| &factor.key).collect();
        table.check_keys(&keys, &spec.factors, problems);
    }
    for (key, ticked) in &mut block.factors {
        let Some(factor) = spec.factor(key) else { continue };
        let beside_data = data_table.as_ref().filter(|_| spec.cuts.contains(key));
        if let Some(levels) = factor_levels(factor, beside_data, factor_table.as_ref(), problems) {
            *ticked = levels;
        } else if let Some(level) =
            data_table.as_ref().and_then(|table| set_level(table, spec)).filter(|_| factor.key == SET)
        {
            *ticked = vec![level];
        }
    }
    name_all_gpus(&mut block, factor_table.as_ref());
    block.design = design_text::read(table, spec, level, problems);
    block
}

/// Why a command cannot be read: unknown keys if there are some, since it lacks what is in a misspelt table, and otherwise these problems.
fn wrong_command(
    problems: Problems,
    mut misspelt: Problems,
    top: &Table,
    blocks: &[(Range<usize>, Table)],
) -> PlanError {
    top.check_keys(TOP_KEYS, &[], &mut misspelt);
    blocks.iter().for_each(|(_, table)| table.check_keys(BLOCK_KEYS, &[], &mut misspelt));
    if misspelt.any() { misspelt.into_error() } else { problems.into_error() }
}

/// If a block names `gpus_per_node` but not `gpus`, sets `gpus` to `nodes` × `gpus_per_node`.
fn name_all_gpus(block: &mut Block, named: Option<&Table>) {
    let is_named = |key: &str| named.is_some_and(|table| table.find(key).is_some());
    if block.spec.command.is_some() || is_named(GPUS) || !is_named(GPUS_PER_NODE) {
        return;
    }
    let levels = |key: &str| block.factors.iter().find(|(known, _)| known == key).map(|(_, levels)| levels.as_slice());
    let all = gpus_of(levels(NODES).unwrap_or_default(), levels(GPUS_PER_NODE).unwrap_or_default());
    if let (Some(all), Some((_, gpus))) = (all, block.factors.iter_mut().find(|(key, _)| *key == *GPUS)) {
        *gpus = all;
    }
}

fn version(top: &Table, problems: &mut Problems) {
    match top.find("version") {
        None => problems.add(&(0..0), "version", format!("missing: a plan starts with version = {PLAN_VERSION}")),
        Some((span, value)) => match integer(value) {
            Some(version) if version == i128::from(PLAN_VERSION) => {}
            Some(version) if version > i128::from(PLAN_VERSION) => {
                let message =
                    format!("version {version} is newer than this multicard's {PLAN_VERSION}: use a newer one");
                problems.add(&span, "version", message);
            }
            _ => problems.add(&span, "version", format!("this version does not exist: write version = {PLAN_VERSION}")),
        },
    }
}

/// The workload that a table names, or the default one.
fn workload(table: &Table, known: &[&Arc<WorkloadSpec>], problems: &mut Problems) -> Arc<WorkloadSpec> {
    if let Some(name) = command::name_in(table) {
        return known.iter().find(|spec| spec.key == name).map_or_else(usual_workload, |spec| Arc::clone(spec));
    }
    let mut names: Vec<&str> = known.iter().map(|spec| &*spec.key).chain([command::KEY]).collect();
    names.dedup();
    let chosen = table.choice("workload", &names, problems);
    let named = chosen.map(|name| known.iter().find(|spec| spec.key == *name));
    if let (Some((span, _)), Some(None)) = (table.find("workload"), named) {
        let message = "\"command\" needs a table [command] with run = [\"program\", \"argument\", …]";
        problems.add(&span, table.path("workload"), message);
    } else if let Some((span, _)) = table.find(command::KEY) {
        let message = "has no effect with another workload: write workload = \"command\"";
        problems.add(&span, table.path(command::KEY), message);
    }
    let spec = named.flatten().copied();
    spec.map_or_else(usual_workload, Arc::clone)
}

fn name(top: &Table, origin: &str, problems: &mut Problems) -> String {
    match top.text("name", problems) {
        Some((span, name)) => {
            if !is_name(name) {
                problems.add(&span, "name", NAME_RULE);
            }
            name.to_owned()
        }
        None => {
            let stem = Path::new(origin).file_stem().map(|stem| stem.to_string_lossy().into_owned());
            stem.filter(|stem| is_name(stem)).unwrap_or_else(|| "untitled".to_owned())
        }
    }
}

/// The level that `set` names if the data set is a factor: `set = "samsum"`.
fn set_level(data: &Table, spec: &WorkloadSpec) -> Option<Level> {
    let (_, value) = data.find("set")?;
    level(spec.factor(SET)?, value).ok()
}

/// The data set that a table names, with its settings.
fn data(table: &Table, spec: &WorkloadSpec, problems: &mut Problems) -> Data {
    let rule_keys = |rule: &DataSetRule| rule.keys.iter().map(|key| key.key.clone()).collect::<Vec<_>>();
    let mut keys: Vec<Key> = vec!["set".into()];
    keys.extend(spec.data_sets.iter().flat_map(rule_keys));
    keys.extend(spec.cuts.iter().cloned());
    keys.dedup();
    table.check_keys(&keys, &spec.factors, problems);
    let sets: Vec<&Key> = spec.data_sets.iter().map(|rule| &rule.key).collect();
    let is_level = set_level(table, spec).is_some();
    let chosen =
        if is_level { None } else { table.choice("set", &sets, problems) }.or_else(|| sets.first().map(|set| &***set));
    let Some(rule) = chosen.and_then(|set| spec.data_set(set)) else { return Data::default() };
    let mut data = rule.default_data();
    for other in spec.data_sets.iter().flat_map(|other| &other.keys) {
        let Some((span, value)) = table.find(&other.key) else { continue };
        let path = table.path(&other.key);
        let Some(key) = rule.keys.iter().find(|key| key.key == other.key) else {
            if !problems.has(&path) {
                let with: Vec<String> = spec
                    .data_sets
                    .iter()
                    .filter(|set| rule_keys(set).contains(&other.key))
                    .map(|set| format!("{:?}", &*set.key))
                    .collect();
                let message =
                    format!("set = {:?} has no {}; did you mean set = {}?", &*rule.key, other.key, with.join(" or "));
                problems.add(&span, path, message);
            }
            continue;
        };
        match level(key, value) {
            Ok(level) => data = data.with(&key.key, level),
            Err(message) if !problems.has(&path) => problems.add(&span, path, message),
            Err(_) => {}
        }
    }
    for key in rule.required.iter().filter(|key| table.find(key).is_none()) {
        if let Some((span, _)) = table.find("set") {
            let message = format!("missing: set = {:?} needs {key} = \"…\"", &*rule.key);
            problems.add(&span, table.path(key), message);
        }
    }
    // In the order of the rule, not of the file.
    data.keys.sort_by_key(|(key, _)| rule.keys.iter().position(|known| known.key == *key));
    data
}

/// The ticked levels of a factor, from `[factors]` or, for some, `[data]`.
fn factor_levels(
    factor: &Factor,
    data: Option<&Table>,
    factors: Option<&Table>,
    problems: &mut Problems,
) -> Option<Vec<Level>> {
    let beside_data = data.and_then(|table| table.find(&factor.key));
    let ticked = factors.and_then(|table| table.find(&factor.key));
    let (table, (span, value)) = match (beside_data, ticked) {
        (Some((first, _)), Some((span, _))) => {
            let (first, second) = (problems.line(&first), problems.line(&span));
            let message =
                format!("given in [data] (line {first}) and in [factors] (line {second}): remove one of them");
            let key = factors.map_or(String::new(), |table| table.path(&factor.key));
            problems.add(&span, key, message);
            return None;
        }
        (Some(entry), None) => (data, entry),
        (None, Some(entry)) => (factors, entry),
        (None, None) => return None,
    };
    let key = table.map_or(String::new(), |table| table.path(&factor.key));
    let mut levels = Vec::new();
    match value.get_ref() {
        DeValue::Array(items) => {
            if items.is_empty() {
                problems.add(&span, &key, "an empty list: name at least one level, or remove the line");
            }
            let mut seen = std::collections::HashSet::new();
            let text = items.iter().find_map(|item| item.get_ref().as_str());
            for item in items {
                match level(factor, item) {
                    Ok(level) if seen.contains(&level) => {
                        problems.add(&item.span(), &key, format!("{level} is listed twice"));
                    }
                    Ok(level) => {
                        seen.insert(level.clone());
                        levels.push(level);
                    }
                    Err(message) => {
                        let mixed = text.and_then(|text| mixed(item.get_ref(), text)).unwrap_or_default();
                        problems.add(&item.span(), &key, format!("{message}{mixed}"));
                    }
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

/// The end of a message about a number in a list of levels that contains a text as well.
fn mixed(number: &DeValue, text: &str) -> Option<String> {
    let number = match number {
        DeValue::Integer(number) => shortened(&number.to_string()),
        DeValue::Float(number) => shortened(&number.to_string()),
        _ => return None,
    };
    let text = quoted(text);
    Some(format!("; in this list {number} is a number and {text} is a text: write all as numbers or all in quotes"))
}

/// One level of a factor, or why it is invalid.
fn level(factor: &Factor, value: &Spanned<DeValue>) -> Result<Level, String> {
    let written = value.get_ref();
    let out_of_range = |number: String, min: String, max: String| {
        format!("{number} is out of range: {} goes from {min} to {max}", factor.key)
    };
    match &factor.domain {
        Domain::Path => match written {
            DeValue::String(path) if path.is_empty() => Err("empty: give the path of a folder".to_owned()),
            DeValue::String(path) => Ok(Level::text(path)),
            _ => Err(format!("must be a string, not {}", kind(written))),
        },
        Domain::Names(names) => match written {
            DeValue::String(name) => match names.iter().find(|known| ***known == **name) {
                Some(known) => Ok(Level::Text(known.clone())),
                None => Err(format!("unknown level {}{}", quoted(name), suggestion(name, names))),
            },
            DeValue::Boolean(on) if names.iter().any(|name| **name == *"on") => {
                Err(format!("{on} is not a level; did you mean {:?}?", if *on { "on" } else { "off" }))
            }
            _ => Err(format!("must be a string, not {}; possible levels: {}", kind(written), names.join(", "))),
        },
        Domain::GpuSet(names) => match written {
            DeValue::String(text) => text.parse().map(|choice: GpuChoice| Level::text(&choice.to_string())),
            _ => Err(format!(
                "must be a string, not {}: {}, or a list of GPUs such as \"0,2\"",
                kind(written),
                names.join(", ")
            )),
        },
        Domain::Integer { min, max } => {
            let DeValue::Integer(text) = written else {
                return Err(format!("must be a whole number, not {}", kind(written)));
            };
            let number = integer(value).and_then(|number| i64::try_from(number).ok());
            let number = number.filter(|number| (min..=max).contains(&number));
            number
                .map(Level::Integer)
                .ok_or_else(|| out_of_range(shortened(&text.to_string()), min.to_string(), max.to_string()))
        }
        Domain::Number { min, max } => {
            let number = real(value).ok_or_else(|| format!("must be a number, not {}", kind(written)))?;
            if !(min..=max).contains(&&number) {
                return Err(out_of_range(number.to_string(), min.to_string(), max.to_string()));
            }
            // -0.0 and 0.0 are the same level.
            Ok(Level::Number(number + 0.0))
        }
    }
}
