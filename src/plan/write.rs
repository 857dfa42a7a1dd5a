//! Writes a plan as TOML: a new file, or into the text of the file that it was read from, whose comments and order are kept.

use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::file::{ONE_ALLOCATION, PLAN_VERSION, is_default};
use super::tracing::{TRACE_CALLS, TRACE_WINDOWS};
use super::workload::GPUS_PER_NODE;
use super::{
    Better, Block, Capture, Checked, GPUS, Level, Limits, Margin, Mode, NODES, OwnMeasure, Plan, PlannedMeasure,
    StudyTable, Tracer, Tracing, command, design_text, search_text,
};

/// TOML's integers cover only half of the range of seeds. Larger seeds are written as this number, which is not a seed, and replaced when
/// the text is made.
const LARGE_SEED: i64 = i64::MIN;

/// The text of a plan's file. `base` is the text of the file from which the plan was read, and the plan in that text: the parts that are
/// equal in both plans keep their text.
pub(super) fn plan(plan: &Plan, base: Option<(&str, &Plan)>) -> String {
    let parsed = base.and_then(|(text, before)| Some((text.parse().ok()?, before)));
    let (mut document, before): (DocumentMut, _) = match parsed {
        Some((document, before)) => (document, Some(before)),
        None => (DocumentMut::new(), None),
    };
    let differs = |same: fn(&Plan, &Plan) -> bool| before.is_none_or(|before| !same(before, plan));
    let top = document.as_table_mut();
    if before.is_none() {
        put(top, "version", PLAN_VERSION.into());
    }
    if differs(|a, b| a.name == b.name) {
        put(top, "name", plan.name.as_str().into());
    }
    if differs(|a, b| named(&a.first) == named(&b.first)) {
        put(top, "workload", named(&plan.first).into());
    }
    if differs(|a, b| a.repeats == b.repeats) {
        put(top, "repeats", i64::from(plan.repeats).into());
    }
    if differs(|a, b| a.seed == b.seed) {
        put(top, "seed", i64::try_from(plan.seed).unwrap_or(LARGE_SEED).into());
    }
    if differs(|a, b| a.order == b.order) {
        put(top, "order", plan.order.name().into());
    }
    if differs(|a, b| a.aa == b.aa) {
        put_or_remove(top, "aa", plan.aa.then(|| true.into()));
    }
    place(top, plan, before);
    if differs(|a, b| a.limits == b.limits) && (before.is_some() || plan.limits != Limits::default()) {
        limits(table(top, "limits"), &plan.limits);
    }
    if differs(|a, b| a.warm_up_steps == b.warm_up_steps) {
        put(table(top, "measure"), "warm_up_steps", (plan.warm_up_steps.cast_signed()).into());
    }
    if differs(|a, b| a.mode == b.mode) && (before.is_some() || !plan.mode.is_full()) {
        mode(table(top, "measure"), plan.mode);
    }
    if differs(|a, b| a.tracing == b.tracing) && (before.is_some() || !plan.tracing.is_off()) {
        tracing(table(top, "measure"), &plan.tracing);
    }
    block(top, &plan.first, before.map(|before| &before.first));
    if differs(|a, b| a.further == b.further) {
        let further = plan.further.iter().map(|further| {
            let mut table = Table::new();
            put(&mut table, "workload", named(further).into());
            block(&mut table, further, None);
            table
        });
        put_all(top, "block", further.collect());
    }
    if differs(|a, b| a.constraints == b.constraints) {
        let constraints = plan.constraints.iter().map(|constraint| {
            let mut table = Table::new();
            put(&mut table, "exclude", constraint.exclude.to_string().into());
            put(&mut table, "reason", constraint.reason.as_str().into());
            table
        });
        put_all(top, "constraint", constraints.collect());
    }
    if differs(|a, b| a.checked == b.checked) {
        checked(top, &plan.checked);
    }
    if differs(|a, b| a.search == b.search) {
        search_text::write(top, plan.search.as_ref());
    }
    if differs(|a, b| a.measures == b.measures) {
        measures(top, &plan.measures);
    }
    if differs(|a, b| a.studies == b.studies) {
        put_all(top, "study", plan.studies.iter().map(study).collect());
    }
    let text = document.to_string();
    if i64::try_from(plan.seed).is_ok() { text } else { text.replace(&LARGE_SEED.to_string(), &plan.seed.to_string()) }
}

fn checked(top: &mut Table, checked: &[Checked]) {
    top.remove("check");
    for Checked { measure, margin } in checked {
        let value = match margin {
            Margin::Absolute(margin) => (*margin).into(),
            Margin::Relative(_) => margin.to_string().into(),
        };
        put(table(top, "check"), measure, value);
    }
}

/// A `[[study]]`.
fn study(study: &StudyTable) -> Table {
    let mut table = Table::new();
    put(&mut table, "name", study.name.as_str().into());
    for entry in &study.entries {
        put_or_remove(&mut table, &entry.key, of_json(&entry.value));
    }
    table
}

/// Writes `[measures]`: a measure with only a formula as that text.
fn measures(top: &mut Table, measures: &[PlannedMeasure]) {
    top.remove("measures");
    for PlannedMeasure { measure: OwnMeasure { key, formula, name, unit, better }, .. } in measures {
        let mut more = InlineTable::new();
        let better = (*better != Better::Neither).then(|| better.name());
        for (key, text) in [("name", name.as_deref()), ("unit", unit.as_deref()), ("better", better)] {
            more.extend(text.map(|text| (key, Value::from(text))));
        }
        let mut value = Value::from(formula.as_str());
        if !more.is_empty() {
            let mut all: InlineTable = [("formula", value)].into_iter().collect();
            all.extend(more);
            value = Value::InlineTable(all);
        }
        put(table(top, "measures"), key, value);
    }
}

fn limits(table: &mut dyn TableLike, limits: &Limits) {
    put_or_remove(table, "run_time_s", limits.run_time_s.map(Value::from));
    put_or_remove(table, "memory_limit_gb", limits.memory_limit_gb.map(Value::from));
    // Exclusive use of the machine is the default.
    put_or_remove(table, "exclusive", (!limits.exclusive).then(|| false.into()));
}

fn mode(table: &mut dyn TableLike, mode: Mode) {
    put_or_remove(table, "mode", (!mode.is_full()).then(|| mode.name().into()));
    put_or_remove(table, "step_precision", mode.step_precision().map(Value::from));
}

fn tracing(table: &mut dyn TableLike, tracing: &Tracing) {
    let capture = tracing.capture();
    let (with, without) = (tracing.has(Tracer::BuiltIn), tracing.has(Tracer::BuiltInWithoutCalls));
    // Calls and windows have keys of their own.
    let is_named = |name: &str| tracing.tracers().iter().any(|tracer| tracer.planned().name() == name);
    let names: Vec<&str> = Tracer::PLANNED.into_iter().filter(|name| is_named(name)).collect();
    put_or_remove(table, Tracer::KEY, (!tracing.is_off()).then(|| one_or_list(&names)));
    // Without this key, calls are recorded.
    let calls: &[&str] = if with { &["on", "off"] } else { &["off"] };
    put_or_remove(table, TRACE_CALLS, without.then(|| one_or_list(calls)));
    let first_s = if let Some(Capture::First { seconds }) = capture { Some(seconds.into()) } else { None };
    put_or_remove(table, "trace_first_s", first_s);
    let steps = if let Some(Capture::Steps { first, last }) = capture { Some([first, last]) } else { None };
    let steps = steps.map(|steps| Value::Array(steps.into_iter().map(u64::cast_signed).collect::<Array>()));
    put_or_remove(table, "trace_steps", steps);
    let windows = match capture {
        Some(Capture::Windows { recorded, period }) => {
            Some(Value::Array([recorded, period].into_iter().map(u64::cast_signed).collect::<Array>()))
        }
        _ => None,
    };
    put_or_remove(table, TRACE_WINDOWS, windows);
}

/// One name, or a list of several.
fn one_or_list(names: &[&str]) -> Value {
    match names {
        [name] => (*name).into(),
        names => Value::Array(names.iter().copied().collect::<Array>()),
    }
}

/// The value of a block's `workload` key.
fn named(block: &Block) -> &str {
    if block.spec.command.is_some() { command::KEY } else { &block.spec.key }
}

/// Writes a block into `top`, which is the file itself or one of its `[[block]]` tables.
fn block(top: &mut Table, block: &Block, before: Option<&Block>) {
    if !block.data.set.is_empty() && before.is_none_or(|before| before.data != block.data) {
        let data = table(top, "data");
        put(data, "set", block.data.set.as_str().into());
        let rule_keys = block.spec.data_sets.iter().flat_map(|rule| &rule.keys).map(|key| &key.key);
        for key in rule_keys.filter(|key| block.data.get(key).is_none()) {
            data.remove(key);
        }
        block.data.keys.iter().for_each(|(key, level)| put(data, key, value(level)));
    }
    let command_and_measures =
        |block: &Block| block.spec.command.clone().map(|command| (command, block.spec.measures.clone()));
    match &block.spec.command {
        Some(_) if before.is_some_and(|before| command_and_measures(before) == command_and_measures(block)) => {}
        Some(command) => command::write(&block.spec, command, top),
        None => drop(top.remove(command::KEY)),
    }
    if before.is_none() {
        table(top, "factors");
    }
    // If the file does not name `gpus`, they follow from `nodes` and `gpus_per_node`.
    let names_gpus =
        block.spec.factor(GPUS_PER_NODE).is_some_and(|each| !is_default(each, block.levels(GPUS_PER_NODE)));
    let is_same = |key: &str| before.is_some_and(|before| before.levels(key) == block.levels(key));
    let is_settled = |key: &str| is_same(key) && (key != GPUS || is_same(GPUS_PER_NODE) && is_same(NODES));
    for (key, levels) in &block.factors {
        if is_settled(key) {
            continue;
        }
        // A command has the factors that its plan names.
        let is_default =
            block.spec.command.is_none() && block.spec.factor(key).is_some_and(|factor| is_default(factor, levels));
        let is_default = is_default && !(names_gpus && *key == GPUS);
        let written = match levels.as_slice() {
            _ if is_default => None,
            [level] => Some(value(level)),
            levels => Some(Value::Array(levels.iter().map(value).collect())),
        };
        // Some settings may be in the data table, because they limit its size.
        let beside_data = top.get("data").and_then(Item::as_table_like).is_some_and(|data| data.contains_key(key));
        put_or_remove(table(top, if beside_data { "data" } else { "factors" }), key, written);
    }
    if before.is_none_or(|before| before.design != block.design) {
        design_text::write(top, block.design.as_ref(), value);
    }
}

/// The table with this name, which is added at the end if it is missing.
fn table<'t>(top: &'t mut Table, name: &str) -> &'t mut dyn TableLike {
    let new_table = || {
        let mut table = Table::new();
        table.decor_mut().set_prefix("\n");
        Item::Table(table)
    };
    let item = top.entry(name).or_insert_with(new_table);
    if !item.is_table_like() {
        *item = new_table();
    }
    match item {
        Item::Table(table) => table,
        Item::Value(Value::InlineTable(table)) => table,
        Item::None | Item::Value(_) | Item::ArrayOfTables(_) => unreachable!("it was made a table above"),
    }
}

/// Writes a value in place of the old one, and keeps the comments around it.
fn put(table: &mut dyn TableLike, key: &str, value: Value) {
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) => {
            let decor = old.decor().clone();
            *old = value;
            *old.decor_mut() = decor;
        }
        None => drop(table.insert(key, Item::Value(value))),
    }
}

/// Writes `[where]`.
fn place(top: &mut Table, plan: &Plan, before: Option<&Plan>) {
    let parts = |plan: &Plan| (plan.site.clone(), plan.one_allocation);
    // A plan of this machine has no such table.
    if before.map_or((None, false), parts) != parts(plan) {
        let table = table(top, "where");
        put_or_remove(table, "site", plan.site.as_deref().map(Value::from));
        put_or_remove(table, "jobs", plan.one_allocation.then(|| ONE_ALLOCATION.into()));
    }
}

fn put_or_remove(table: &mut dyn TableLike, key: &str, value: Option<Value>) {
    match value {
        Some(value) => put(table, key, value),
        None => drop(table.remove(key)),
    }
}

/// Writes `[[name]]` tables in place of all old ones.
fn put_all(top: &mut Table, name: &str, tables: Vec<Table>) {
    top.remove(name);
    if tables.is_empty() {
        return;
    }
    let mut all = ArrayOfTables::new();
    for mut table in tables {
        table.decor_mut().set_prefix("\n");
        all.push(table);
    }
    top.insert(name, Item::ArrayOfTables(all));
}

/// JSON as TOML; `None` for null, which TOML lacks.
fn of_json(json: &serde_json::Value) -> Option<Value> {
    Some(match json {
        serde_json::Value::Null => return None,
        serde_json::Value::Bool(on) => (*on).into(),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.into(),
            None => number.as_f64()?.into(),
        },
        serde_json::Value::String(text) => text.as_str().into(),
        serde_json::Value::Array(items) => Value::Array(items.iter().filter_map(of_json).collect()),
        serde_json::Value::Object(map) => {
            let pairs = map.iter().filter_map(|(key, value)| Some((key.as_str(), of_json(value)?)));
            Value::InlineTable(pairs.collect())
        }
    })
}

fn value(level: &Level) -> Value {
    match level {
        Level::Integer(value) => (*value).into(),
        Level::Number(value) => (*value).into(),
        Level::Text(name) => name.as_ref().into(),
    }
}
