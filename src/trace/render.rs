//! Writes a trace as Markdown and as CSV.

use std::fmt::Write;

use super::value::{Statistics, Trace};

/// Maximum rows of a Markdown list; the other formats have all.
const SHOWN: usize = 20;
/// Maximum length of a name in Markdown, in characters.
const NAME: usize = 100;

/// The trace as Markdown: the most important first, long lists truncated.
pub fn markdown(trace: &Trace) -> String {
    let mut text = String::new();
    let product = trace.product_version.as_deref().map_or(String::new(), |version| format!(", nsys {version}"));
    let _ = writeln!(text, "# Trace\n\nSchema {}{product}; {:.3} s", trace.schema_version, seconds(trace.wall_ns));
    for warning in trace.warnings.iter().chain(&trace.notes) {
        let _ = writeln!(text, "\n> {}", cell(warning));
    }
    for gpu in &trace.gpus {
        let name = gpu.name.as_deref().unwrap_or("unknown");
        let memory = gpu.memory_bytes.map_or(String::new(), |bytes| format!(", {:.1} GB", bytes as f64 / 1e9));
        let _ = writeln!(text, "\n- GPU {}: {}{memory}", gpu.index, cell(name));
    }
    let head = ["Metric", "Calls", "Seconds", "% of report", "% of shown", "% of wall"];
    table(
        &mut text,
        "Metrics",
        &head,
        trace.metrics.len(),
        trace.metrics.iter().map(|metric| {
            let percent = |value: f64| tenths(value);
            vec![
                metric.name.clone(),
                metric.calls.to_string(),
                format!("{:.6}", metric.seconds),
                percent(metric.percent_of_report),
                percent(metric.percent_of_shown),
                percent(metric.percent_of_wall),
            ]
        }),
    );
    let head = ["GPU", "Busy (s)", "Idle (s)", "Communication (s)", "of it overlapped (s)", "Imbalance (%)"];
    table(
        &mut text,
        "GPUs",
        &head,
        trace.per_gpu.len(),
        trace.per_gpu.iter().map(|gpu| {
            let times = [gpu.busy_ns, gpu.idle_ns, gpu.comm_ns, gpu.overlap_ns].map(|ns| format!("{:.6}", seconds(ns)));
            let mut row = vec![gpu.gpu.to_string()];
            row.extend(times);
            row.push(format!("{:+.1}", 100.0 * gpu.imbalance));
            row
        }),
    );
    let head = ["Family", "Calls", "Seconds", "%"];
    table(
        &mut text,
        "GPU time by family",
        &head,
        trace.families.len(),
        trace.families.iter().map(|family| {
            vec![
                family.family.clone(),
                family.calls.to_string(),
                format!("{:.6}", seconds(family.total_ns)),
                tenths(family.percent),
            ]
        }),
    );
    copies(&mut text, trace);
    allocations(&mut text, trace);
    gaps(&mut text, trace);
    let named = ["Name", "%", "Calls", "Total (ns)", "Avg", "Med", "Min", "Max", "StdDev"];
    for (title, entries) in [("CUDA calls", &trace.api), ("Kernels", &trace.kernels)] {
        table(
            &mut text,
            title,
            &named,
            entries.len(),
            entries.iter().map(|entry| {
                let mut row = vec![entry.name.clone(), tenths(entry.percent)];
                row.extend(statistics(&entry.statistics));
                row
            }),
        );
    }
    let named = ["Range", "Domain", "Calls", "Total (ns)", "Avg", "Med", "Min", "Max", "StdDev"];
    table(
        &mut text,
        if trace.is_built_in() { "Ranges" } else { "NVTX ranges" },
        &named,
        trace.nvtx.len(),
        trace.nvtx.iter().map(|range| {
            let mut row = vec![range.name.clone(), range.domain.clone().unwrap_or_default()];
            row.extend(statistics(&range.statistics));
            row
        }),
    );
    let named = ["Synchronisation", "Calls", "Total (ns)", "Avg", "Med", "Min", "Max", "StdDev"];
    table(
        &mut text,
        "Synchronisations",
        &named,
        trace.sync.len(),
        trace.sync.iter().map(|sync| {
            let mut row = vec![sync.kind.clone()];
            row.extend(statistics(&sync.statistics));
            row
        }),
    );
    if trace.metrics.is_empty() {
        text.push_str("\n## Proof\n\nNone of factors: no work of GPUs was recorded.\n");
        return text;
    }
    let proof = &trace.proof;
    let _ = writeln!(
        text,
        "\n## Proof\n\n- copies to GPUs read {} memory\n- layout: {}\n- precision: {}\n- strategy: {} ({} processes, {} GPUs)\n- CUDA graphs: {}",
        proof.pin_memory.seen,
        proof.layout.seen,
        proof.precision.seen,
        proof.strategy.seen,
        proof.strategy.processes,
        proof.strategy.gpus,
        proof.graphs.seen
    );
    text
}

fn copies(text: &mut String, trace: &Trace) {
    let head = ["Copy", "From", "To", "Count", "Bytes", "Seconds"];
    table(
        text,
        "Copies",
        &head,
        trace.memcpy.len(),
        trace.memcpy.iter().map(|copy| {
            vec![
                copy.kind.clone(),
                copy.src.clone(),
                copy.dst.clone(),
                copy.count.to_string(),
                copy.bytes.to_string(),
                format!("{:.6}", seconds(copy.total_ns)),
            ]
        }),
    );
    let head = ["From", "To", "Count", "Bytes", "Seconds", "GB/s"];
    table(
        text,
        "Transfers",
        &head,
        trace.transfers.len(),
        trace.transfers.iter().map(|transfer| {
            vec![
                transfer.from.clone(),
                transfer.to.clone(),
                transfer.count.to_string(),
                transfer.bytes.to_string(),
                format!("{:.6}", seconds(transfer.total_ns)),
                transfer.bytes_per_s.map_or(String::new(), |speed| format!("{:.2}", speed / 1e9)),
            ]
        }),
    );
}

fn allocations(text: &mut String, trace: &Trace) {
    let head = [
        "Memory",
        "GPU",
        "Allocations",
        "Bytes",
        "Releases",
        "Bytes",
        "Of earlier memory",
        "Bytes",
        "Most live of these (bytes)",
        "Live at the end (bytes)",
    ];
    table(
        text,
        "Memory allocated through CUDA since the recording began",
        &head,
        trace.allocations.len(),
        trace.allocations.iter().map(|of| {
            let mut row = vec![of.memory.clone(), of.gpu.map_or_else(|| "host".to_owned(), |gpu| gpu.to_string())];
            let numbers = [
                of.allocated,
                of.allocated_bytes,
                of.released,
                of.released_bytes,
                of.unseen,
                of.unseen_bytes,
                of.most_bytes,
                of.last_bytes,
            ];
            row.extend(numbers.map(|number| number.to_string()));
            row
        }),
    );
}

fn gaps(text: &mut String, trace: &Trace) {
    let mut causes: Vec<(&str, usize, u64)> = Vec::new();
    for gap in &trace.gaps {
        match causes.iter_mut().find(|(cause, ..)| *cause == gap.cause) {
            Some((_, count, total_ns)) => {
                *count += 1;
                *total_ns = total_ns.saturating_add(gap.length_ns);
            }
            None => causes.push((&gap.cause, 1, gap.length_ns)),
        }
    }
    causes.sort_by_key(|(_, _, total_ns)| std::cmp::Reverse(*total_ns));
    let rows = causes.iter().map(|(cause, count, total_ns)| {
        vec![(*cause).to_owned(), count.to_string(), format!("{:.6}", seconds(*total_ns))]
    });
    table(text, "Pauses of GPUs by cause", &["Meanwhile", "Pauses", "Seconds"], causes.len(), rows);
    let mut longest: Vec<_> = trace.gaps.iter().collect();
    longest.sort_by_key(|gap| std::cmp::Reverse(gap.length_ns));
    let head = ["GPU", "Start (s)", "Length (ms)", "Meanwhile", "In calls"];
    table(
        text,
        "Longest pauses",
        &head,
        longest.len(),
        longest.iter().map(|gap| {
            let calls: Vec<String> = gap.host.iter().map(|call| call.name.clone()).collect();
            vec![
                gap.gpu.to_string(),
                format!("{:.6}", gap.start_ns as f64 * 1e-9),
                format!("{:.3}", gap.length_ns as f64 * 1e-6),
                gap.cause.clone(),
                calls.join(", "),
            ]
        }),
    );
}

fn seconds(ns: u64) -> f64 {
    ns as f64 * 1e-9
}

/// A section with a table; empty without rows.
fn table(text: &mut String, title: &str, head: &[&str], count: usize, rows: impl Iterator<Item = Vec<String>>) {
    if count == 0 {
        return;
    }
    let _ = writeln!(text, "\n## {title}\n\n| {} |\n|{}", head.join(" | "), "---|".repeat(head.len()));
    for row in rows.take(SHOWN) {
        let cells: Vec<String> = row.iter().map(|value| cell(value)).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    if count > SHOWN {
        let _ = writeln!(text, "\n{} more; `--format csv` and `json` have them all.", count - SHOWN);
    }
}

/// Text for one table cell: short, on one line, without markup.
fn cell(text: &str) -> String {
    let mut shown = String::new();
    for letter in text.chars().take(NAME) {
        match letter {
            '\\' | '|' | '*' | '`' | '<' | '[' | ']' => shown.extend(['\\', letter]),
            letter if letter.is_control() => shown.push(' '),
            letter => shown.push(letter),
        }
    }
    if text.chars().nth(NAME).is_some() {
        shown.push('…');
    }
    shown
}

/// A percentage with one decimal, as nsys prints it.
fn statistics(of: &Statistics) -> [String; 7] {
    [
        of.calls.to_string(),
        of.total_ns.to_string(),
        tenths(of.avg_ns),
        tenths(of.med_ns),
        of.min_ns.to_string(),
        of.max_ns.to_string(),
        tenths(of.std_ns),
    ]
}

/// Rounds to one decimal, halves up, as nsys does.
pub(super) fn tenths(value: f64) -> String {
    format!("{:.1}", (value * 10.0).round() / 10.0)
}

/// The trace as CSV (RFC 4180 with LF newlines): one row per name, with its list in the first column.
pub fn csv(trace: &Trace) -> String {
    let mut text = "list,name,detail,calls,total_ns,avg_ns,med_ns,min_ns,max_ns,std_ns,percent,bytes\n".to_owned();
    let mut row = |list: &str, name: &str, detail: &str, of: &Statistics, percent: Option<f64>, bytes: Option<u64>| {
        let _ = writeln!(
            text,
            "{list},{},{},{},{},{},{},{},{},{},{},{}",
            quoted(name),
            quoted(detail),
            of.calls,
            of.total_ns,
            of.avg_ns,
            of.med_ns,
            of.min_ns,
            of.max_ns,
            of.std_ns,
            percent.map_or(String::new(), |percent| percent.to_string()),
            bytes.map_or(String::new(), |bytes| bytes.to_string())
        );
    };
    for entry in &trace.api {
        row("api", &entry.name, "", &entry.statistics, Some(entry.percent), None);
    }
    for entry in &trace.kernels {
        row("kernels", &entry.name, "", &entry.statistics, Some(entry.percent), None);
    }
    for entry in &trace.memory {
        row("memory", &entry.name, "", &entry.statistics, Some(entry.percent), Some(entry.bytes));
    }
    for sync in &trace.sync {
        row("sync", &sync.kind, "", &sync.statistics, None, None);
    }
    for range in &trace.nvtx {
        row("nvtx", &range.name, range.domain.as_deref().unwrap_or_default(), &range.statistics, None, None);
    }
    let mut total = |list: &str, name: &str, detail: &str, calls: u64, total_ns: u64, rest: (String, String)| {
        let (percent, bytes) = rest;
        let _ = writeln!(text, "{list},{},{},{calls},{total_ns},,,,,,{percent},{bytes}", quoted(name), quoted(detail));
    };
    for copy in &trace.memcpy {
        let detail = format!("{} to {}", copy.src, copy.dst);
        total("memcpy", &copy.kind, &detail, copy.count, copy.total_ns, (String::new(), copy.bytes.to_string()));
    }
    for of in &trace.allocations {
        let gpu = of.gpu.map_or_else(|| "host".to_owned(), |gpu| format!("GPU {gpu}"));
        for (what, count, bytes) in [
            ("allocated", of.allocated, of.allocated_bytes),
            ("released", of.released, of.released_bytes),
            ("released of earlier memory", of.unseen, of.unseen_bytes),
            ("most live of what was allocated", 1, of.most_bytes),
            ("live at the end of what was allocated", 1, of.last_bytes),
        ] {
            total("allocations", &of.memory, &format!("{gpu}: {what}"), count, 0, (String::new(), bytes.to_string()));
        }
    }
    for family in &trace.families {
        let percent = family.percent.to_string();
        total("families", &family.family, "", family.calls, family.total_ns, (percent, String::new()));
    }
    for metric in &trace.metrics {
        let total_ns = (metric.seconds * 1e9).round() as u64;
        let percent = metric.percent_of_report.to_string();
        total("metrics", &metric.key, &metric.name, metric.calls, total_ns, (percent, String::new()));
    }
    for gpu in &trace.per_gpu {
        for (part, ns) in
            [("busy", gpu.busy_ns), ("idle", gpu.idle_ns), ("comm", gpu.comm_ns), ("overlap", gpu.overlap_ns)]
        {
            total("per_gpu", &gpu.gpu.to_string(), part, 1, ns, (String::new(), String::new()));
        }
    }
    for gap in &trace.gaps {
        let detail = format!("{} at {} ns", gap.cause, gap.start_ns);
        total("gaps", &gap.gpu.to_string(), &detail, 1, gap.length_ns, (String::new(), String::new()));
    }
    text
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}
