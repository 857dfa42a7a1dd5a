//! Reads a plan's TOML. Checks every key, level, type and range, and reports all problems found.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::checked_table::{Table, integer, kind, real, shortened};
use super::data::{Data, DataSetRule};
use super::file::{MAX_REPEATS, ONE_ALLOCATION, ONE_PER_RUN, PLAN_VERSION};
use super::filter::{Filter, Known};
use super::problem::{NAME_RULE, PlanError, Problems, is_name, quoted, suggestion};
use super::tracing::{TRACE_CALLS, TRACE_WINDOWS};
use super::workload::{GPUS_PER_NODE, command, gpus_of, usual_workload, workloads};
use super::{
    Block, Capture, Checked, Constraint, Domain, Factor, GPUS, GpuChoice, Key, Level, Limits, Margin, Mode, NODES,
    Order, Plan, Tracer, Tracing, WorkloadSpec, design_text, own, search_text, study,
};

/// Keys of `[measure]`.
const MEASURE_KEYS: &[&str] = &[
    "warm_up_steps",
    "mode",
    "step_precision",
    Tracer::KEY,
    TRACE_CALLS,
    "trace_first_s",
    "trace_steps",
    TRACE_WINDOWS,
];

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
const CONSTRAINT_KEYS: &[&str] = &["exclude", "reason"];
const BLOCK_KEYS: &[&str] = &["workload", "command", "data", "factors", "design"];

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
        limits.check_keys(&["run_time_s", "memory_limit_gb", "exclusive"], &spec.factors, &mut problems);
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
    table.check_keys(&["site", "jobs"], &spec.factors, problems);
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

/// Rejects what programs of the plan's own cannot do: only the worker can end a run when its steps suffice, or mark the part to record.
fn only_whole_runs(plan: &Plan, top: &Table, problems: &mut Problems) {
    if plan.blocks().all(|block| block.spec.command.is_none()) {
        return;
    }
    let Some(measure) = top.table("measure", problems) else { return };
    let whole = plan.tracing.capture().is_none_or(|capture| capture == Capture::Whole);
    // Blocks without a command may use the windows.
    let in_windows = !whole && plan.blocks().all(|block| block.spec.command.is_some());
    let refused = [
        ("mode", !plan.mode.is_full()),
        ("trace_first_s", !whole),
        ("trace_steps", !whole),
        (TRACE_WINDOWS, in_windows),
    ];
    for (key, _) in refused.into_iter().filter(|(_, refused)| *refused) {
        if let Some((span, _)) = measure.find(key) {
            problems.add(&span, measure.path(key), "cannot be used with commands: their runs always run to their end");
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

/// The keys that a constraint may use: the factors of all blocks, with their levels.
fn known_to_constraints(plan: &Plan) -> Vec<(&str, Known<'_>)> {
    let specs = || plan.blocks().map(|block| &block.spec);
    let mut known: Vec<(&str, Known)> = vec![
        ("workload", Known::Names(specs().map(|spec| &*spec.key).collect())),
        ("data", Known::Names(specs().flat_map(|spec| &spec.data_sets).map(|rule| &*rule.key).collect())),
    ];
    // A factor of a user's program may have the key of a setting. Then it may also have numbers as levels.
    known.retain(|(key, _)| specs().any(|spec| spec.factor(key).is_none()));
    let is_setting = |key: &str| ["workload", "data"].contains(&key);
    for factor in specs().flat_map(|spec| &spec.factors) {
        let known_domain = known.iter_mut().find(|(key, _)| *key == &*factor.key);
        match (&factor.domain, known_domain) {
            (Domain::Names(names), Some((_, Known::Names(all)))) => all.extend(names.iter().map(|name| &**name)),
            (Domain::Names(names), None) => {
                known.push((&factor.key, Known::Names(names.iter().map(|name| &**name).collect())));
            }
            (Domain::GpuSet(_), None) => known.push((&factor.key, Known::Text)),
            (_, None) => known.push((&factor.key, Known::Number)),
            (_, Some((_, values @ Known::Names(_)))) if is_setting(&factor.key) => *values = Known::Text,
            (_, Some(_)) => {}
        }
    }
    known
}

/// The cells that a constraint excludes, or what is wrong with its text.
fn excluded(exclude: &str, known: &[(&str, Known)]) -> Result<Filter, String> {
    match Filter::parse_known(exclude, known) {
        Ok(filter) if filter.is_empty() => {
            Err("empty: name the cells to leave out, such as \"gpus > 2 and precision = fp64\"".to_owned())
        }
        Ok(filter) => Ok(filter),
        Err(error) => Err(error.to_string()),
    }
}

/// The reason of a constraint, or what is wrong with its text.
fn reasoned(reason: &str) -> Result<&str, String> {
    let reason = reason.trim();
    if reason.is_empty() { Err("empty: say why these cells are left out".to_owned()) } else { Ok(reason) }
}

impl Plan {
    /// A constraint made from its two texts.
    ///
    /// # Errors
    /// What is wrong, as for a plan file, with the name of the wrong field.
    pub fn constraint(&self, exclude: &str, reason: &str) -> Result<Constraint, (&'static str, String)> {
        let exclude = excluded(exclude, &known_to_constraints(self)).map_err(|error| ("exclude", error))?;
        let reason = reasoned(reason).map_err(|error| ("reason", error))?;
        Ok(Constraint { exclude, reason: reason.to_owned() })
    }
}

/// The cells that the `[[constraint]]` tables exclude.
fn constraints(top: &Table, plan: &Plan, problems: &mut Problems) -> Vec<Constraint> {
    let known = known_to_constraints(plan);
    let mut constraints = Vec::new();
    for (span, table) in top.tables("constraint", problems) {
        table.check_keys(CONSTRAINT_KEYS, &plan.first.spec.factors, problems);
        for key in CONSTRAINT_KEYS.iter().filter(|key| table.find(key).is_none()) {
            problems.add(
                &span,
                table.path(key),
                format!("missing: a constraint needs {}", CONSTRAINT_KEYS.join(" and ")),
            );
        }
        let (exclude, reason) = (table.text("exclude", problems), table.text("reason", problems));
        let (Some((exclude_span, exclude)), Some((reason_span, reason))) = (exclude, reason) else { continue };
        if let Err(message) = reasoned(reason) {
            problems.add(&reason_span, table.path("reason"), message);
        }
        match excluded(exclude, &known) {
            Ok(exclude) => constraints.push(Constraint { exclude, reason: reason.to_owned() }),
            Err(message) => problems.add(&exclude_span, table.path("exclude"), message),
        }
    }
    constraints
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
            Some(found) if found == i128::from(PLAN_VERSION) => {}
            Some(found) if found > i128::from(PLAN_VERSION) => {
                let message = format!("version {found} is newer than this multicard's {PLAN_VERSION}: use a newer one");
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

/// The mode of the runs, full or quick.
fn mode(measure: &Table, problems: &mut Problems) -> Mode {
    let quick = measure.choice("mode", Mode::NAMES, problems) == Some("quick");
    let Some((span, value)) = measure.find("step_precision") else {
        return if quick { Mode::Quick { step_precision: Mode::STEP_PRECISION } } else { Mode::Full };
    };
    let (least, most) = Mode::STEP_PRECISIONS;
    let valid = real(value).filter(|share| (least..=most).contains(share));
    match valid {
        Some(step_precision) if quick => return Mode::Quick { step_precision },
        Some(_) => problems.add(&span, measure.path("step_precision"), "has no effect without mode = \"quick\""),
        None => {
            let message = format!("must be a share from {least} to {most}: 0.01 is ±1 %");
            problems.add(&span, measure.path("step_precision"), message);
        }
    }
    Mode::Full
}

/// Which tracer records runs, and which part of each run.
fn tracing(measure: &Table, problems: &mut Problems) -> Tracing {
    let tracing = Tracing::by(&tracers(measure, problems), Capture::Whole);
    for (key, needs) in [
        ("trace_first_s", (!tracing.is_off(), "trace = \"nsys\" or \"built-in\"")),
        ("trace_steps", (!tracing.is_off(), "trace = \"nsys\" or \"built-in\"")),
        (TRACE_WINDOWS, (tracing.has_built_in(), "trace = \"built-in\"")),
        (TRACE_CALLS, (tracing.has_built_in(), "trace = \"built-in\"")),
    ] {
        if let (Some((span, _)), (false, tracer)) = (measure.find(key), needs) {
            problems.add(&span, measure.path(key), format!("has no effect without {tracer}"));
        }
    }
    let first_s = measure.positive("trace_first_s", 1e9, problems);
    let steps = measure.steps("trace_steps", problems);
    let parts = [
        ("trace_first_s", first_s.map(|seconds| Capture::First { seconds })),
        ("trace_steps", steps.map(|(first, last)| Capture::Steps { first, last })),
        (TRACE_WINDOWS, windows(measure, problems)),
    ];
    let given: Vec<(&str, Capture)> = parts.into_iter().filter_map(|(key, part)| Some((key, part?))).collect();
    match given[..] {
        [] => tracing,
        [(_, part)] => tracing.with_capture(part),
        [(first, _), .., (last, _)] => {
            let span = measure.find(last).map_or(0..0, |(span, _)| span);
            problems.add(&span, measure.path(last), format!("{first} is given too: remove one of them"));
            Tracing::default()
        }
    }
}

/// The tracers of a plan. `trace` names them; `trace_calls` says whether the built-in one records calls.
fn tracers(measure: &Table, problems: &mut Problems) -> Vec<Tracer> {
    let factor = Factor::named(Tracer::KEY, "Trace", &Tracer::PLANNED);
    let named = factor_levels(&factor, None, Some(measure), problems).unwrap_or_default();
    let mut tracers: Vec<Tracer> = named.iter().filter_map(|level| Tracer::of_name(level.as_text()?)).collect();
    let calls = Factor::named(TRACE_CALLS, "Calls", &["on", "off"]);
    let Some(calls) = factor_levels(&calls, None, Some(measure), problems) else { return tracers };
    let is_asked = |name: &str| calls.iter().any(|level| level.as_text() == Some(name));
    if tracers.contains(&Tracer::BuiltIn) && is_asked("off") {
        tracers.push(Tracer::BuiltInWithoutCalls);
        tracers.retain(|tracer| *tracer != Tracer::BuiltIn || is_asked("on"));
    }
    tracers
}

/// `trace_windows`: how many steps of each period are recorded.
fn windows(measure: &Table, problems: &mut Problems) -> Option<Capture> {
    let (span, value) = measure.find(TRACE_WINDOWS)?;
    let numbers: Vec<Option<u64>> = match value.get_ref() {
        DeValue::Array(items) => {
            items.iter().map(|item| integer(item).and_then(|number| u64::try_from(number).ok())).collect()
        }
        _ => Vec::new(),
    };
    let least = Capture::LEAST_REST;
    match numbers[..] {
        [Some(recorded @ 2..=1_000_000), Some(period @ ..=1_000_000_000)] if period >= recorded + least => {
            Some(Capture::Windows { recorded, period })
        }
        _ => {
            let message = format!(
                "must be the number of recorded steps (2 or more) and of steps in a period (at least {least} more), such as [4, 20]"
            );
            problems.add(&span, measure.path(TRACE_WINDOWS), message);
            None
        }
    }
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
            for item in items {
                match level(factor, item) {
                    Ok(level) if seen.contains(&level) => {
                        problems.add(&item.span(), &key, format!("{level} is listed twice"));
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

/// One level of a factor, or why it is invalid.
fn level(factor: &Factor, value: &Spanned<DeValue>) -> Result<Level, String> {
    let found = value.get_ref();
    let out_of_range = |number: String, min: String, max: String| {
        format!("{number} is out of range: {} goes from {min} to {max}", factor.key)
    };
    match &factor.domain {
        Domain::Path => match found {
            DeValue::String(path) if path.is_empty() => Err("empty: give the path of a folder".to_owned()),
            DeValue::String(path) => Ok(Level::text(path)),
            _ => Err(format!("must be a string, not {}", kind(found))),
        },
        Domain::Names(names) => match found {
            DeValue::String(name) => match names.iter().find(|known| ***known == **name) {
                Some(known) => Ok(Level::Text(known.clone())),
                None => Err(format!("unknown level {}{}", quoted(name), suggestion(name, names))),
            },
            DeValue::Boolean(on) if names.iter().any(|name| **name == *"on") => {
                Err(format!("{on} is not a level; did you mean {:?}?", if *on { "on" } else { "off" }))
            }
            _ => Err(format!("must be a string, not {}; possible levels: {}", kind(found), names.join(", "))),
        },
        Domain::GpuSet(names) => match found {
            DeValue::String(text) => text.parse().map(|choice: GpuChoice| Level::text(&choice.to_string())),
            _ => Err(format!(
                "must be a string, not {}: {}, or a list of GPUs such as \"0,2\"",
                kind(found),
                names.join(", ")
            )),
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
            // -0.0 and 0.0 are the same level.
            Ok(Level::Number(number + 0.0))
        }
    }
}
