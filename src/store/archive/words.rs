//! Texts that identify nobody: words of multicard, its ids, versions, and product names.

use std::collections::HashSet;

use serde_json::Value;
use strum::VariantArray as _;

use crate::plan::{MeasureUnit, RunState, Tracer, command, plan_words, workloads};
use crate::protocol::{BUILT_IN_TRACER, EVENTS_FILE, PASSES, PRODUCTS, PYTORCH_PROFILER, TRACE_METRICS, fact_keys};

/// Words of plan files and logs that belong neither to a workload nor to the format of plans.
const WORDS: &str =
    "backend columns cpu multicard on ondemand own performance powersave repeat schedutil set steps units warm_up";

/// Units of measures.
const UNITS: &str =
    "s ms µs ns min h B kB MB GB TB KiB MiB GiB W kW J kJ Wh kWh °C % Hz MHz GHz FLOP TFLOP/s GB/s MB/s count";

/// Sentences that multicard itself writes into logs. `#` stands for a number, which is kept; `…` for any other text, which is replaced.
const SENTENCES: [&str; 24] = [
    "steps were guessed from …; declare it in [command.readings] to be certain",
    "readings were guessed from …, which contains no step number; declare it in [command.readings] to be certain",
    "the program reported # s of steps but ran for only # s: its step times are impossible; report milliseconds as duration_ms",
    "# s of steps were reported together, after they had ended, so their energy, clocks and load are unknown; let the program report \
     each step when it ends, or with its time_s",
    "the end of the warm-up was not found, so no step counts: step times were still changing, or there were too few steps; let the \
     program run longer, or set measure.warm_up_steps",
    "the program has more than # different readings: from … on, they are left out",
    "the loss of step # is not a finite number",
    "step numbers went back from # to #: the program restarted from a checkpoint, or counts steps from the start of each epoch without \
     reporting the epoch; repeated step numbers replace the earlier ones",
    "step numbers went back, as step # was followed by step #: the program restarted from a checkpoint, or counts steps from the start \
     of each epoch without reporting the epoch; repeated step numbers replace the earlier ones",
    "another run read … at the same time: this run may have taken readings of that run for its own: give each run a file of its own, in \
     {run_folder}",
    "no time passed before step #, or the clock was set back: such steps are left out of statistics",
    "GPU # was used by other programs when the run started: # processes, # GB of memory in use, kernels running # % of the time",
    "GPU # was used by other programs when the run started: # processes, # GB of memory in use",
    "GPU # was used by other programs when the run started: # processes",
    "GPU # was used by other programs when the run started: # process, # GB of memory in use, kernels running # % of the time",
    "GPU # was used by other programs when the run started: # process, # GB of memory in use",
    "GPU # was used by other programs when the run started: # process",
    "GPU # was used by other programs when the run started: # GB of memory in use, kernels running # % of the time",
    "GPU # was used by other programs when the run started: # GB of memory in use",
    "not started: the conductor that ran its queue ended",
    "rank #: … exited with code #; end of its output: …",
    "rank #: … exited with code #",
    "there is no trace: …",
    "nothing was recorded: …",
];

/// Reasons for limited clocks, as NVML names them.
const THROTTLING: &str =
    "hw_power_brake_slowdown hw_slowdown hw_thermal_slowdown sw_power_cap sw_thermal_slowdown sync_boost";

/// The names of the plans in `sessions`. They are kept, because they do not reveal who runs these plans.
const PLANS: [&str; 53] = [
    "2503.15252 Figure 1: strategies",
    "2503.15252 Figure 3, 2505.22905 Figures 3, 4: metrics",
    "2503.15252 Figure 4: iterations by data set",
    "2503.15252 Figure 5: calls by data set",
    "2503.15252 Figure 6: calls by pin_memory",
    "2503.15252, 2505.22905 Figure 2: image sizes",
    "2503.15252, 2505.22905 Table 2: accuracy",
    "2503.15252, 2505.22905 Table 2: precision",
    "2503.15252, 2505.22905 Table 3: accuracy",
    "2503.15252, 2505.22905 Table 3: pin_memory",
    "2503.15252, 2505.22905 Table 5: pin_memory",
    "2505.22905 Figure 10: iterations by data set",
    "2505.22905 Figure 11: calls by data set",
    "2505.22905 Figure 12: calls by pin_memory",
    "2505.22905 Figure 13: techniques by template",
    "2505.22905 Figure 14: LoRA and DPO over GPUs",
    "2505.22905 Figure 16: peak memory",
    "2505.22905 Figure 5: training loss",
    "2505.22905 Figure 6: loaders",
    "2505.22905 Figure 7: timeline of host",
    "2505.22905 Figure 8: timeline of dali",
    "2505.22905 Figure 9: loaders in nhwc",
    "2505.22905 Figures 15, 17: calls and bytes by technique",
    "2505.22905 section 4.1: copies by strategy",
    "2505.22905 section 4.2.1: metrics by precision",
    "Fused kernels",
    "Hugging Face Trainer",
    "NUMA bindings",
    "PyTorch beside multicard",
    "TorchTune LoRA",
    "command quickstart",
    "cost of tracing",
    "cost of windows",
    "design",
    "host, DALI and device loaders at 100 to 700 px",
    "llm-data-sets",
    "llm-pin-memory",
    "llm-quickstart",
    "llm-search",
    "llm-techniques",
    "loaders and layouts on 1 to 4 GPUs, scenario b",
    "nccl-tests",
    "pin_memory on 1 to 4 GPUs",
    "pinned memory, traced",
    "precision and pinned memory",
    "precision, layout and pinned memory",
    "precision, traced",
    "quickstart",
    "search",
    "slurm nodes",
    "slurm scaling",
    "slurm triad",
    "strategies on 1, 2 and 4 GPUs",
];

/// Words in product names: makers, series of GPUs and CPUs, systems.
const PRODUCT_WORDS: &str = "NVIDIA Tesla Quadro GeForce RTX GTX Ada Generation Ti SUPER Laptop GPU MIG PCIe PCIE NVL HBM2 HBM2e HBM3 \
    HBM3e SXM2 SXM3 SXM4 SXM5 Intel(R) Xeon(R) Core(TM) Platinum Gold Silver Bronze CPU Core Processor AMD EPYC Ryzen Threadripper PRO \
    Neoverse Grace ARM Apple w/ Radeon Graphics Linux Debian GNU/Linux Ubuntu LTS Rocky Red Hat Enterprise AlmaLinux CentOS Stream SUSE \
    openSUSE Leap Tumbleweed Server Fedora Arch Amazon Alpine Oracle (bookworm) (bullseye) (trixie) (buster) × x @ cpu CPUs";

/// The words of this version: its workloads with their factors, levels and data sets, rates, facts and metrics.
pub(super) fn of_multicard() -> HashSet<String> {
    let mut words: HashSet<String> =
        WORDS.split_whitespace().chain(THROTTLING.split_whitespace()).map(str::to_owned).collect();
    words.extend(PLANS.iter().copied().chain(plan_words()).map(str::to_owned));
    words.extend(RunState::VARIANTS.iter().map(|state| state.name().to_owned()));
    for spec in workloads() {
        if let Ok(spec) = serde_json::to_value(&**spec) {
            collect(&spec, &mut words);
        }
    }
    words.extend(PRODUCTS.iter().chain(&PASSES).map(|key| (*key).to_owned()));
    words.extend(fact_keys().map(str::to_owned));
    words.extend(command::BUILT_IN.iter().map(|(name, _)| (*name).to_owned()));
    for measure in command::own_measures() {
        words.extend([measure.key.to_string(), measure.name.to_string(), measure.unit.to_string()]);
    }
    words.extend(UNITS.split_whitespace().map(str::to_owned));
    words.extend(TRACE_METRICS.iter().map(|kind| kind.key.to_owned()));
    words.extend([EVENTS_FILE, command::RANKS_PER_NODE].map(str::to_owned));
    words
}

/// A sentence of multicard with the texts in it that are not its own replaced by `hide`; `None` for other texts.
pub(super) fn sentence(text: &str, hide: &mut dyn FnMut(&str) -> String) -> Option<String> {
    SENTENCES.iter().find_map(|sentence| {
        let parts = parts(sentence, text)?;
        let shown = parts.into_iter().map(|(part, is_own)| if is_own { part.to_owned() } else { hide(part) });
        Some(shown.collect())
    })
}

/// The parts of a text that has the form of a sentence, each with whether it is the sentence's own; `None` if it has another form.
fn parts<'t>(sentence: &str, text: &'t str) -> Option<Vec<(&'t str, bool)>> {
    let mut parts = Vec::new();
    let (mut sentence, mut rest) = (sentence, text);
    loop {
        let words = sentence.find(['#', '…']).unwrap_or(sentence.len());
        let after = rest.strip_prefix(&sentence[..words])?;
        parts.push((&rest[..words], true));
        let mut left = sentence[words..].chars();
        let Some(hole) = left.next() else { return after.is_empty().then_some(parts) };
        sentence = left.as_str();
        let next = &sentence[..sentence.find(['#', '…']).unwrap_or(sentence.len())];
        let end = if next.is_empty() { after.len() } else { after.find(next)? };
        let (filled, after) = after.split_at(end);
        let is_number = hole == '#';
        if is_number && !is_short_number(filled) {
            return None;
        }
        parts.push((filled, is_number));
        rest = after;
    }
}

/// A number as multicard writes them in sentences: too short for the number of an account or a telephone.
fn is_short_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    is_digits(whole, 7) && is_digits(fraction, 3)
}

fn collect(value: &Value, words: &mut HashSet<String>) {
    match value {
        Value::String(text) => {
            words.insert(text.clone());
        }
        Value::Array(all) => all.iter().for_each(|one| collect(one, words)),
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            words.insert(key.clone());
            collect(value, words);
        }),
        _ => {}
    }
}

/// A whole number of at most `most` digits.
pub(super) fn is_digits(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The number, the cell and the repeat in the id of a run in the form of sessions; `None` for another text.
pub(super) fn run_parts(text: &str) -> Option<(&str, &str, &str)> {
    let (number, rest) = text.split_once('-')?;
    let (cell, repeat) = rest.rsplit_once('-')?;
    (is_digits(number, 7) && is_cell(cell) && is_digits(repeat, 4)).then_some((number, cell, repeat))
}

/// The id of a cell: the first digits of its checksum, and its tracer if it has one.
pub(super) fn is_cell(text: &str) -> bool {
    let sum = text.split_once('-').map_or(Some(text), |(sum, name)| Tracer::of_name(name).map(|_| sum));
    sum.is_some_and(|sum| {
        // With sixteen digits, one id in a thousand has no letter; account numbers never have letters.
        let is_long = sum.len() == 16 && sum.bytes().any(|byte| byte.is_ascii_lowercase());
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (sum.len() == 8 || is_long) && sum.bytes().all(is_digit)
    })
}

/// The id of a plan: `p1`.
pub(super) fn is_plan(text: &str) -> bool {
    text.strip_prefix('p').is_some_and(|number| is_digits(number, 6))
}

/// A version with up to three numbers, or PyTorch's with its CUDA. An internet address has four numbers.
pub(super) fn is_version(text: &str) -> bool {
    let (numbers, build) = text.split_once('+').unwrap_or((text, "cpu"));
    let is_build = build == "cpu" || build.strip_prefix("cu").is_some_and(|cuda| is_digits(cuda, 4));
    let parts: Vec<&str> = numbers.split('.').collect();
    is_build && (2..=3).contains(&parts.len()) && parts.iter().all(|part| is_digits(part, 3))
}

/// The schema of recordings by the built-in tracer or PyTorch's profiler: `built-in 1`.
pub(super) fn is_schema(text: &str) -> bool {
    let recorders = [BUILT_IN_TRACER, PYTORCH_PROFILER];
    let rest = recorders.iter().find_map(|recorder| text.strip_prefix(recorder));
    rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix(' ').is_some_and(|number| is_digits(number, 3)))
}

/// A share in percent, such as the margin of a check: `2 %`.
pub(super) fn is_share(text: &str) -> bool {
    text.strip_suffix('%').is_some_and(|number| is_short_number(number.trim_end()))
}

/// A list of GPUs: `0,2`.
pub(super) fn is_gpu_list(text: &str) -> bool {
    text.split(',').all(|index| is_digits(index, 2))
}

/// A unit of known symbols and of `words`, in singular or plural, with their products and quotients: `FLOP/s`, `J/token`, `s^2`.
pub(super) fn is_unit(text: &str, words: &HashSet<String>) -> bool {
    let is_symbol = |word: &str| MeasureUnit::symbol(word).is_some() || words.contains(word);
    let is_part = |part: &str| {
        let (word, exponent) = part.split_once('^').unwrap_or((part, "1"));
        let is_known = !word.is_empty() && (word == "1" || is_symbol(word) || words.contains(&format!("{word}s")));
        is_known && is_short_number(exponent)
    };
    let products = text.split('/').map(|product| product.trim_matches(['(', ')']));
    products.flat_map(|product| product.split(['·', '*'])).all(is_part)
}

/// A time in UTC, RFC 3339.
pub(super) fn is_moment(text: &str) -> bool {
    text.len() <= 32 && text.parse::<jiff::Timestamp>().is_ok()
}

/// Links between GPUs: `NV18`, `2 × NV12, 4 × SYS`.
pub(super) fn is_links(text: &str) -> bool {
    let is_link = |word: &str| {
        let word = word.trim_end_matches(',');
        let is_nvlink = word.strip_prefix("NV").is_some_and(|number| is_digits(number, 2));
        is_nvlink || is_digits(word, 3) || matches!(word, "×" | "SYS" | "NODE" | "PHB" | "PXB" | "PIX")
    };
    text.len() <= 60 && text.split(' ').all(is_link)
}

/// The product name of a GPU, a CPU or a system: words that occur in such names, sizes, and model numbers. The first part must be a word.
pub(super) fn is_product(text: &str) -> bool {
    let is_word = |word: &str| PRODUCT_WORDS.split_whitespace().any(|known| known == word);
    let is_known = |word: &str| is_word(word) || is_model(word);
    let mut words = text.split(' ').filter(|word| !word.is_empty());
    let begins = words.next().is_some_and(|word| is_word(word) || is_digits(word, 2));
    begins && text.len() <= 80 && words.all(|word| word.trim_end_matches(',').split('-').all(is_known))
}

/// The number of a model or a size: `H100`, `8480+`, `80GB`, `2.10GHz`, `1g.10gb`.
fn is_model(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let letters = word.bytes().filter(u8::is_ascii_alphabetic).count();
    let plain = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'+');
    plain && (1..=5).contains(&digits) && letters <= 3 && word.len() <= 8
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_the_shipped_plans_are_words_and_no_others() {
        let sessions = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("sessions");
        let files = [sessions.clone(), sessions.join("papers")].map(|folder| std::fs::read_dir(folder).unwrap());
        let plans = files.into_iter().flatten().map(|file| file.unwrap().path()).filter(|file| file.is_file());
        let name = |file: std::path::PathBuf| crate::plan::Plan::read(&file).unwrap().name;
        let mut names: Vec<String> = plans.map(name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names, PLANS);
    }

    /// The names in backticks in a text, without brackets: `design.add` is two.
    fn quoted(text: &str) -> impl Iterator<Item = &str> {
        let quoted = text.split('`').skip(1).step_by(2).map(|name| name.trim_matches(['[', ']']));
        quoted.flat_map(|name| name.split('.')).filter(|word| *word != "KEY")
    }

    #[test]
    fn every_documented_key_and_kind_of_a_plan_is_a_word() {
        let documents = [
            include_str!("../../plan/plan.md"),
            include_str!("../../plan/design.md"),
            include_str!("../../plan/search.md"),
            include_str!("../../program/readings/readings.md"),
        ];
        let words = of_multicard();
        let mut seen = 0;
        for section in documents.iter().flat_map(|document| document.split("\n#")) {
            let title = section.lines().next().unwrap();
            // Archives contain no studies, whose keys the room of figures defines.
            if title.contains("[[study]]") {
                continue;
            }
            let mut is_of_keys = false;
            let mut named: Vec<&str> = if title.contains("`[") { quoted(title).collect() } else { Vec::new() };
            for line in section.lines() {
                let first = line.strip_prefix("| ").and_then(|row| row.split(" |").next());
                match first {
                    None => is_of_keys &= line.starts_with("|--"),
                    Some("key" | "`kind`") => is_of_keys = true,
                    Some(first) if is_of_keys => named.extend(quoted(first)),
                    Some(_) => {}
                }
            }
            seen += named.len();
            named.retain(|word| !words.contains(*word));
            assert_eq!(named, Vec::<&str>::new(), "{title}");
        }
        assert!(seen > 60, "{seen}");
    }

    #[test]
    fn sentences_of_multicard_stay_readable_and_what_they_quote_is_hidden() {
        let shown = |text: &str| sentence(text, &mut |hidden| format!("<{}>", hidden.len()));
        assert_eq!(
            shown("steps were guessed from output such as \"alice …\"; declare it in [command.readings] to be certain")
                .unwrap(),
            "steps were guessed from <26>; declare it in [command.readings] to be certain"
        );
        let own = "4.9 s of steps were reported together, after they had ended, so their energy, clocks and load are unknown; let the \
                   program report each step when it ends, or with its time_s";
        assert_eq!(shown(own).as_deref(), Some(own));
        assert_eq!(
            shown("rank 0: python3 exited with code 2; end of its output: no file /home/alice").unwrap(),
            "rank 0: <7> exited with code 2; end of its output: <19>"
        );
        for other in [
            "the loss of step alice is not a finite number",
            "the loss of step 4111111111111111 is not a finite number",
            "the loss of step 3 is not a finite number, says alice",
            "alice",
            "",
        ] {
            assert_eq!(shown(other), None, "{other}");
        }
    }

    #[test]
    fn units_of_known_symbols_are_known_with_their_products_and_quotients() {
        let words = of_multicard();
        for unit in ["B/s", "FLOP/s", "GFLOP/s", "J/step", "J/token", "tokens/s", "images/(W·s)", "1/s", "s^2", "count"]
        {
            assert!(is_unit(unit, &words), "{unit}");
        }
        for other in ["alice", "alice/s", "B/alice", "/home/alice", "/", "", "s/", "10.1.2.3", "s^4111111111111111"] {
            assert!(!is_unit(other, &words), "{other}");
        }
    }

    #[test]
    fn ids_versions_and_products_are_known_and_what_resembles_them_is_not() {
        for run in ["0001-978cbae2-1", "12345-978cbae2978cbae2-30", "0003-ff1df600-nsys-1", "0003-ff1df600-built-in-1"]
        {
            assert!(run_parts(run).is_some(), "{run}");
        }
        for other in
            ["0001-alice-1", "0001-978cbae2-1-x", "0001-978cbae2-alice-1", "secret", "4111111111111111-978cbae2-1"]
        {
            assert_eq!(run_parts(other), None, "{other}");
        }
        for version in ["2.11.0+cu130", "580.65.06", "13.0", "2.11.0"] {
            assert!(is_version(version), "{version}");
        }
        for other in ["10.1.2.3", "2.11.0+alice", "4111111111", "6.8.0-alice"] {
            assert!(!is_version(other), "{other}");
        }
        for product in [
            "NVIDIA H100 80GB HBM3",
            "NVIDIA A100-SXM4-80GB",
            "Intel(R) Xeon(R) Platinum 8480+ CPU @ 2.10GHz",
            "AMD EPYC 9654 96-Core Processor",
            "Debian GNU/Linux 12 (bookworm)",
            "cpu",
        ] {
            assert!(is_product(product), "{product}");
        }
        for other in ["NVIDIA alice", "alice", "Debian alice", "+1 555 0100"] {
            assert!(!is_product(other), "{other}");
        }
        assert!(is_links("2 × NV12, 4 × SYS") && !is_links("node7"));
        assert!(is_moment("2025-11-22T10:00:00Z") && !is_moment("alice"));
    }
}
