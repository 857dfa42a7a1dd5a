//! Writes a trace as Markdown and as CSV.

use super::value::{Gap, Statistics, Trace};
use crate::foreign::with_ellipsis;
use crate::plan::counted;
use crate::protocol::recorder;
use crate::text_table::{Field, TextTable, markdown_text};

/// Maximum rows of a Markdown list; the other formats contain all.
const SHOWN: usize = 20;
/// Maximum length of a name in Markdown, in characters.
const NAME: usize = 100;

/// The trace as Markdown: the most important parts first, long lists truncated.
pub fn markdown(trace: &Trace) -> String {
    [head(trace), metrics(trace), copies(trace), allocations(trace), gaps(&trace.gaps), calls(trace), proof(trace)]
        .concat()
}

fn head(trace: &Trace) -> String {
    let product = trace.product_version.as_deref().map_or(String::new(), |version| format!(", nsys {version}"));
    let source = match trace.is_pytorch() {
        true => recorder(&trace.schema_version, trace.product_version.as_deref()),
        false => format!("Schema {}{product}", trace.schema_version),
    };
    let mut text = format!("# Trace\n\n{source}; {:.3} s\n", seconds(trace.wall_ns));
    for warning in trace.warnings.iter().chain(&trace.notes) {
        text += &format!("\n> {}\n", markdown_text(&short(warning)));
    }
    if let Some(by) = &trace.steps_by {
        text += &format!("\n- {} of all ranks ({})\n", counted(trace.steps, "step"), markdown_text(&short(by)));
    }
    for gpu in &trace.gpus {
        let name = markdown_text(&short(gpu.name.as_deref().unwrap_or("unknown")));
        let memory = gpu.memory_bytes.map_or(String::new(), |bytes| format!(", {:.1} GB", bytes as f64 / 1e9));
        text += &format!("\n- GPU {}: {name}{memory}\n", gpu.index);
    }
    text
}

fn metrics(trace: &Trace) -> String {
    let head = ["Metric", "Calls", "Seconds", "% of report", "% of shown", "% of wall"];
    let metrics = section("Metrics", &head, &trace.metrics, |metric| {
        let shares = [metric.percent_of_report, metric.percent_of_shown, metric.percent_of_wall].map(tenths);
        let mut row = vec![metric.name.clone(), metric.calls.to_string(), format!("{:.6}", metric.seconds)];
        row.extend(shares);
        row
    });
    let head = ["GPU", "Busy (s)", "Idle (s)", "Communication (s)", "of it overlapped (s)", "Imbalance (%)"];
    let gpus = section("GPUs", &head, &trace.per_gpu, |gpu| {
        let mut row = vec![gpu.gpu.to_string()];
        row.extend([gpu.busy_ns, gpu.idle_ns, gpu.comm_ns, gpu.overlap_ns].map(micros));
        row.push(format!("{:+.1}", 100.0 * gpu.imbalance));
        row
    });
    let families = section("GPU time by family", &["Family", "Calls", "Seconds", "%"], &trace.families, |family| {
        vec![family.family.clone(), family.calls.to_string(), micros(family.total_ns), tenths(family.percent)]
    });
    metrics + &gpus + &families
}

fn copies(trace: &Trace) -> String {
    let head = ["Copy", "From", "To", "Count", "Bytes", "Seconds"];
    let copies = section("Copies", &head, &trace.memcpy, |copy| {
        let numbers = [copy.count.to_string(), copy.bytes.to_string(), micros(copy.total_ns)];
        [[copy.kind.clone(), copy.src.clone(), copy.dst.clone()], numbers].concat()
    });
    let head = ["From", "To", "Count", "Bytes", "Seconds", "GB/s"];
    let transfers = section("Transfers", &head, &trace.transfers, |transfer| {
        vec![
            transfer.from.clone(),
            transfer.to.clone(),
            transfer.count.to_string(),
            transfer.bytes.to_string(),
            micros(transfer.total_ns),
            transfer.bytes_per_s.map_or(String::new(), |speed| format!("{:.2}", speed / 1e9)),
        ]
    });
    copies + &transfers
}

fn allocations(trace: &Trace) -> String {
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
    section("Memory allocated through CUDA since the recording began", &head, &trace.allocations, |kind| {
        let mut row = vec![kind.memory.clone(), kind.gpu.map_or_else(|| "host".to_owned(), |gpu| gpu.to_string())];
        let numbers = [
            kind.allocated,
            kind.allocated_bytes,
            kind.released,
            kind.released_bytes,
            kind.unseen,
            kind.unseen_bytes,
            kind.most_bytes,
            kind.last_bytes,
        ];
        row.extend(numbers.map(|number| number.to_string()));
        row
    })
}

fn gaps(gaps: &[Gap]) -> String {
    let mut causes: Vec<(&str, usize, u64)> = Vec::new();
    for gap in gaps {
        match causes.iter_mut().find(|(cause, ..)| *cause == gap.cause) {
            Some((_, count, total_ns)) => {
                *count += 1;
                *total_ns = total_ns.saturating_add(gap.length_ns);
            }
            None => causes.push((&gap.cause, 1, gap.length_ns)),
        }
    }
    causes.sort_by_key(|(_, _, total_ns)| std::cmp::Reverse(*total_ns));
    let head = ["Meanwhile", "Pauses", "Seconds"];
    let causes = section("Pauses of GPUs by cause", &head, &causes, |(cause, count, total_ns)| {
        vec![(*cause).to_owned(), count.to_string(), micros(*total_ns)]
    });
    let mut longest: Vec<&Gap> = gaps.iter().collect();
    longest.sort_by_key(|gap| std::cmp::Reverse(gap.length_ns));
    let head = ["GPU", "Start (s)", "Length (ms)", "Meanwhile", "In calls"];
    let longest = section("Longest pauses", &head, &longest, |gap| {
        let calls: Vec<&str> = gap.host.iter().map(|call| call.name.as_str()).collect();
        vec![
            gap.gpu.to_string(),
            format!("{:.6}", gap.start_ns as f64 * 1e-9),
            format!("{:.3}", gap.length_ns as f64 * 1e-6),
            gap.cause.clone(),
            calls.join(", "),
        ]
    });
    causes + &longest
}

/// Lists with the statistics of durations.
fn calls(trace: &Trace) -> String {
    const STATISTICS: [&str; 7] = ["Calls", "Total (ns)", "Avg", "Med", "Min", "Max", "StdDev"];
    let named = [&["Name", "%"][..], &STATISTICS].concat();
    let entries = [("CUDA calls", &trace.api), ("Kernels", &trace.kernels)].map(|(title, entries)| {
        section(title, &named, entries, |entry| {
            [vec![entry.name.clone(), tenths(entry.percent)], statistics(&entry.statistics)].concat()
        })
    });
    let title = if trace.is_built_in() || trace.is_pytorch() { "Ranges" } else { "NVTX ranges" };
    let ranges = section(title, &[&["Range", "Domain"][..], &STATISTICS].concat(), &trace.nvtx, |range| {
        let domain = range.domain.clone().unwrap_or_default();
        [vec![range.name.clone(), domain], statistics(&range.statistics)].concat()
    });
    let head = [&["Synchronisation"][..], &STATISTICS].concat();
    let sync = section("Synchronisations", &head, &trace.sync, |sync| {
        [vec![sync.kind.clone()], statistics(&sync.statistics)].concat()
    });
    entries.concat() + &ranges + &sync
}

fn proof(trace: &Trace) -> String {
    if trace.metrics.is_empty() {
        return "\n## Proof\n\nNo factor could be checked: no work of GPUs was recorded.\n".to_owned();
    }
    let proof = &trace.proof;
    format!(
        "\n## Proof\n\n- copies to GPUs read {} memory\n- layout: {}\n- precision: {}\n- strategy: {} ({}, {})\n- CUDA graphs: {}\n",
        proof.pin_memory.seen,
        proof.layout.seen,
        proof.precision.seen,
        proof.strategy.seen,
        counted(proof.strategy.processes, "process"),
        counted(proof.strategy.gpus, "GPU"),
        proof.graphs.seen
    )
}

fn seconds(ns: u64) -> f64 {
    ns as f64 * 1e-9
}

/// A time in seconds, to the microsecond.
fn micros(ns: u64) -> String {
    format!("{:.6}", seconds(ns))
}

/// A section with a table; empty without items.
fn section<T>(title: &str, head: &[&str], items: &[T], row: impl Fn(&T) -> Vec<String>) -> String {
    if items.is_empty() {
        return String::new();
    }
    let mut table = TextTable::new("l".repeat(head.len()), head.iter().copied());
    for item in items.iter().take(SHOWN) {
        table.row(row(item).iter().map(|text| short(text).into()));
    }
    let rest = match items.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("\n{more} more; `--format csv` and `--format json` list all of them.\n"),
    };
    format!("\n## {title}\n\n{}{rest}", table.markdown())
}

/// The start of a long name.
fn short(text: &str) -> String {
    match text.char_indices().nth(NAME) {
        Some((end, _)) => with_ellipsis(&text[..end], ""),
        None => text.to_owned(),
    }
}

fn statistics(durations: &Statistics) -> Vec<String> {
    vec![
        durations.calls.to_string(),
        durations.total_ns.to_string(),
        tenths(durations.avg_ns),
        tenths(durations.med_ns),
        durations.min_ns.to_string(),
        durations.max_ns.to_string(),
        tenths(durations.std_ns),
    ]
}

/// Rounds to one decimal, halves up, as nsys does.
pub(super) fn tenths(value: f64) -> String {
    format!("{:.1}", (value * 10.0).round() / 10.0)
}

/// The trace as CSV: one row per name, with its list in the first column.
pub fn csv(trace: &Trace) -> String {
    let head = "list,name,detail,calls,total_ns,avg_ns,med_ns,min_ns,max_ns,std_ns,percent,bytes";
    let mut table = TextTable::new("", head.split(','));
    let mut row = |texts: [&str; 3], numbers: [String; 9]| {
        table.row(texts.map(Field::from).into_iter().chain(numbers.map(Field::Ready)));
    };
    for entry in &trace.api {
        row(["api", &entry.name, ""], times(&entry.statistics, Some(entry.percent), None));
    }
    for entry in &trace.kernels {
        row(["kernels", &entry.name, ""], times(&entry.statistics, Some(entry.percent), None));
    }
    for entry in &trace.memory {
        row(["memory", &entry.name, ""], times(&entry.statistics, Some(entry.percent), Some(entry.bytes)));
    }
    for sync in &trace.sync {
        row(["sync", &sync.kind, ""], times(&sync.statistics, None, None));
    }
    for range in &trace.nvtx {
        let domain = range.domain.as_deref().unwrap_or_default();
        row(["nvtx", &range.name, domain], times(&range.statistics, None, None));
    }
    for copy in &trace.memcpy {
        let detail = format!("{} to {}", copy.src, copy.dst);
        row(["memcpy", &copy.kind, &detail], total(copy.count, copy.total_ns, None, Some(copy.bytes)));
    }
    for allocation in &trace.allocations {
        let gpu = allocation.gpu.map_or_else(|| "host".to_owned(), |gpu| format!("GPU {gpu}"));
        for (what, count, bytes) in [
            ("allocated", allocation.allocated, allocation.allocated_bytes),
            ("released", allocation.released, allocation.released_bytes),
            ("released of earlier memory", allocation.unseen, allocation.unseen_bytes),
            ("most live of what was allocated", 1, allocation.most_bytes),
            ("live at the end of what was allocated", 1, allocation.last_bytes),
        ] {
            row(["allocations", &allocation.memory, &format!("{gpu}: {what}")], total(count, 0, None, Some(bytes)));
        }
    }
    for family in &trace.families {
        row(["families", &family.family, ""], total(family.calls, family.total_ns, Some(family.percent), None));
    }
    for metric in &trace.metrics {
        let total_ns = (metric.seconds * 1e9).round() as u64;
        let numbers = total(metric.calls, total_ns, Some(metric.percent_of_report), None);
        row(["metrics", &metric.key, &metric.name], numbers);
    }
    for gpu in &trace.per_gpu {
        for (part, ns) in
            [("busy", gpu.busy_ns), ("idle", gpu.idle_ns), ("comm", gpu.comm_ns), ("overlap", gpu.overlap_ns)]
        {
            row(["per_gpu", &gpu.gpu.to_string(), part], total(1, ns, None, None));
        }
    }
    for gap in &trace.gaps {
        let detail = format!("{} at {} ns", gap.cause, gap.start_ns);
        row(["gaps", &gap.gpu.to_string(), &detail], total(1, gap.length_ns, None, None));
    }
    table.csv()
}

/// The fields of a CSV row with statistics.
fn times(durations: &Statistics, percent: Option<f64>, bytes: Option<u64>) -> [String; 9] {
    let [calls, total_ns, .., percent, bytes] = total(durations.calls, durations.total_ns, percent, bytes);
    let [avg, med, std] = [durations.avg_ns, durations.med_ns, durations.std_ns].map(|ns| ns.to_string());
    [calls, total_ns, avg, med, durations.min_ns.to_string(), durations.max_ns.to_string(), std, percent, bytes]
}

/// The fields of a CSV row with only a sum.
fn total(calls: u64, total_ns: u64, percent: Option<f64>, bytes: Option<u64>) -> [String; 9] {
    let percent = percent.map_or(String::new(), |percent| percent.to_string());
    let bytes = bytes.map_or(String::new(), |bytes| bytes.to_string());
    let none = String::new;
    [calls.to_string(), total_ns.to_string(), none(), none(), none(), none(), none(), percent, bytes]
}
