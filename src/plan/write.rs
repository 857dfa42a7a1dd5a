//! Writes a plan as TOML.

use std::fmt::Write;

use toml::Value;

use super::file::{PLAN_VERSION, is_default};
use super::{Block, Capture, Level, Plan};

pub(super) fn plan(plan: &Plan) -> String {
    let mut out = String::new();
    line(&mut out, "version", PLAN_VERSION);
    line(&mut out, "name", string(&plan.name));
    line(&mut out, "workload", string(&plan.first.spec.key));
    line(&mut out, "repeats", plan.repeats);
    line(&mut out, "seed", plan.seed);
    line(&mut out, "order", string(plan.order.name()));

    let limits = [("run_time_s", plan.limits.run_time_s), ("memory_limit_gb", plan.limits.memory_limit_gb)].into_iter();
    let limits = limits.filter_map(|(key, limit)| Some((key, Value::Float(limit?))));
    // Having the machine to itself is what a run does anyway.
    let shared = (!plan.limits.exclusive).then_some(("exclusive", Value::Boolean(false)));
    let mut limits = limits.chain(shared).peekable();
    if limits.peek().is_some() {
        out.push_str("\n[limits]\n");
    }
    limits.for_each(|(key, limit)| line(&mut out, key, limit));

    out.push_str("\n[measure]\n");
    line(&mut out, "warm_up_steps", plan.warm_up_steps);
    if let Some(capture) = plan.tracing.capture() {
        line(&mut out, "trace", string(plan.tracing.name()));
        match capture {
            Capture::Whole => {}
            Capture::First { seconds } => line(&mut out, "trace_first_s", Value::Float(seconds)),
            Capture::Steps { first, last } => line(&mut out, "trace_steps", format_args!("[{first}, {last}]")),
        }
    }

    block(&mut out, "", &plan.first);
    for further in &plan.further {
        out.push_str("\n[[block]]\n");
        line(&mut out, "workload", string(&further.spec.key));
        block(&mut out, "block.", further);
    }
    out
}

/// The tables of a block; `table` is what their names start with.
fn block(out: &mut String, table: &str, block: &Block) {
    if !block.data.set.is_empty() {
        let _ = write!(out, "\n[{table}data]\n");
        line(out, "set", string(&block.data.set));
        block.data.keys.iter().for_each(|(key, level)| line(out, key, value(level)));
    }
    let _ = write!(out, "\n[{table}factors]\n");
    for (key, levels) in &block.factors {
        if block.spec.factor(key).is_some_and(|factor| is_default(factor, levels)) {
            continue;
        }
        match levels.as_slice() {
            [level] => line(out, key, value(level)),
            levels => line(out, key, Value::Array(levels.iter().map(value).collect())),
        }
    }
}

fn line(out: &mut String, key: &str, value: impl std::fmt::Display) {
    // Writing to a String does not fail.
    let _ = writeln!(out, "{key} = {value}");
}

fn string(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn value(level: &Level) -> Value {
    match level {
        Level::Integer(value) => Value::Integer(*value),
        Level::Number(value) => Value::Float(*value),
        Level::Text(name) => string(name),
    }
}
