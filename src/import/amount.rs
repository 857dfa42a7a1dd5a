//! Amounts per unit of time, energy or power in the names of columns: `tokens/s`, `ops_per_ms`, `tok_s`, `GFLOPS/W`.
//!
//! `A/U` and `A per U` are amounts of A per U, whatever A is. The only exception is a quantity that is measured in U, because physicists write
//! `latency/ms` for a latency in ms. `A_U` usually is a quantity A in the unit U: `step_s` is the time of a step. It is an amount per U only
//! if A is a word of [`COUNTED`]: `tok_s` are tokens per second.

use crate::plan::MeasureUnit;

/// Words for what an amount is per, with this unit.
const PER: [(&str, &str); 21] = [
    ("s", "s"),
    ("sec", "s"),
    ("second", "s"),
    ("ms", "ms"),
    ("us", "µs"),
    ("ns", "ns"),
    ("min", "min"),
    ("minute", "min"),
    ("h", "h"),
    ("hour", "h"),
    ("day", "d"),
    ("w", "W"),
    ("watt", "W"),
    ("mw", "mW"),
    ("kw", "kW"),
    ("j", "J"),
    ("joule", "J"),
    ("mj", "mJ"),
    ("kj", "kJ"),
    ("wh", "Wh"),
    ("kwh", "kWh"),
];
/// Words in the names of times. `latency/ms` is a time in ms.
pub(super) const TIMES: [&str; 4] = ["time", "times", "latency", "duration"];
/// Words in the names of energies and powers. `power/W` is a power in W.
const ENERGIES: [&str; 6] = ["consumption", "draw", "energies", "energy", "power", "tdp"];
/// What programs count, in plural or as a usual abbreviation. A prefix may be before such a word: `ktok`, `gflops`.
const COUNTED: [&str; 59] = [
    "bytes",
    "docs",
    "documents",
    "events",
    "examples",
    "flop",
    "flops",
    "fps",
    "frames",
    "gb",
    "gbit",
    "gib",
    "images",
    "img",
    "imgs",
    "inferences",
    "instructions",
    "ips",
    "it",
    "items",
    "iterations",
    "iters",
    "its",
    "kb",
    "kbit",
    "kib",
    "mb",
    "mbit",
    "messages",
    "mib",
    "msgs",
    "operations",
    "ops",
    "packets",
    "particles",
    "points",
    "predictions",
    "qps",
    "queries",
    "records",
    "req",
    "reqs",
    "requests",
    "rows",
    "rps",
    "samples",
    "sentences",
    "seqs",
    "sequences",
    "steps",
    "tb",
    "tib",
    "tok",
    "tokens",
    "toks",
    "tps",
    "transactions",
    "txns",
    "words",
];
/// Letters for thousands, millions and so on before a word of [`COUNTED`].
const PREFIXES: [char; 5] = ['k', 'm', 'g', 't', 'p'];
/// Words for what is counted and for what takes long. `epochs_s` may be epochs per second or the time of all epochs.
const UNCLEAR: [&str; 12] =
    ["batches", "calls", "epochs", "files", "jobs", "lookups", "reads", "runs", "tasks", "tests", "updates", "writes"];
/// Words for speeds without a unit. More of them per watt is better.
const SPEEDS: [&str; 5] = ["bandwidth", "perf", "performance", "score", "throughput"];

/// An amount per unit, as the name of a column writes it.
pub(super) struct Amount {
    /// Its unit: `tokens/s`, `GFLOPS/W`. `None` if the name may mean seconds, joules or watts just as well.
    pub unit: Option<String>,
    /// What its key is made from; `None` if the key is made as for other columns.
    pub stem: Option<String>,
}

impl Amount {
    /// `None` if the name is not that of an amount per unit.
    pub(super) fn of(name: &str) -> Option<Self> {
        let spelled = name.replace('/', " per ");
        let words: Vec<&str> = words(&spelled).collect();
        let (last, before) = words.split_last()?;
        let per = unit_called(last)?;
        match before.split_last() {
            Some((word, counted)) if plain(word) == "per" => {
                let thing = plain(counted.last()?);
                let is_quantity = name.contains('/') && quantities(per).contains(&thing.as_str());
                if is_quantity { None } else { Some(Self::spelled_out(counted, &thing, last, per)) }
            }
            _ => Self::joined(before, last),
        }
    }

    /// An amount of `thing`, the last of the counted words, per a unit that the word `last` stands for.
    fn spelled_out(counted: &[&str], thing: &str, last: &str, per: &str) -> Self {
        let all = plain(&counted.join(" "));
        if is_time(per) {
            // In units such as MB, capital and small letters differ in meaning.
            let unit = counted.last().copied().filter(|word| MeasureUnit::symbol(word).is_some()).unwrap_or(thing);
            // Rates per other times are converted to rates per second, and have no unit in their keys.
            return Self { unit: Some(format!("{unit}/{per}")), stem: (per != "s").then_some(all) };
        }
        let rate = || counted.split_last().and_then(|(last, before)| Self::joined(before, last)?.unit);
        let above = match counted {
            [.., one, word, per] if plain(word) == "per" => format!("{one}/{per}"),
            _ => rate().unwrap_or_else(|| counted.last().copied().unwrap_or(thing).to_owned()),
        };
        let below = if MeasureUnit::symbol(last).is_some() { last } else { per };
        Self { unit: Some(format!("{above}/{below}")), stem: Some(format!("{all}_per_{}", plain(below))) }
    }

    /// An amount of the last of the counted words per the unit `last`, which follows without a word for "per".
    fn joined(counted: &[&str], last: &str) -> Option<Self> {
        let (thing, last) = (plain(counted.last()?), plain(last));
        // `time_to_100_steps_s` and `wall_per_tok_s` are times.
        let is_other = |word: &&str| word.eq_ignore_ascii_case("per") || TIMES.contains(&plain(word).as_str());
        if counted.iter().any(is_other) {
            return None;
        }
        let is_seconds = ["s", "sec"].contains(&last.as_str());
        let is_rate = is_seconds && is_counted(&thing);
        let is_unclear = is_seconds && UNCLEAR.contains(&thing.as_str())
            || ["w", "j"].contains(&last.as_str()) && is_counted(&thing);
        let ending = if is_rate { "per_s" } else { last.as_str() };
        let stem = format!("{}_{ending}", plain(&counted.join(" ")));
        (is_rate || is_unclear).then(|| Self { unit: is_rate.then(|| format!("{thing}/s")), stem: Some(stem) })
    }
}

/// The words of a name, separated by signs and blanks.
fn words(name: &str) -> impl Iterator<Item = &str> {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || ['\u{b5}', '\u{3bc}'].contains(&letter);
    name.split(move |letter: char| !is_letter(letter)).filter(|word| !word.is_empty())
}

/// A name in small letters, with `_` for everything else. Both signs of micro, U+00B5 and U+03BC, become `u`.
pub(super) fn plain(name: &str) -> String {
    let words: Vec<&str> = words(name).collect();
    let letter = |letter: char| match letter {
        '\u{b5}' | '\u{3bc}' => 'u',
        _ => letter.to_ascii_lowercase(),
    };
    words.join("_").chars().map(letter).collect()
}

/// The unit that a word after "per" stands for.
fn unit_called(word: &str) -> Option<&'static str> {
    let word = plain(word);
    PER.iter().find(|(known, _)| *known == word).map(|(_, unit)| *unit)
}

/// Words in the names of what is measured in a unit.
fn quantities(unit: &str) -> &'static [&'static str] {
    if is_time(unit) { &TIMES } else { &ENERGIES }
}

fn is_time(unit: &str) -> bool {
    MeasureUnit::parse(unit).is_like(&MeasureUnit::parse("s"))
}

/// Whether a word stands for something that is counted.
fn is_counted(word: &str) -> bool {
    let bare = word.strip_prefix(PREFIXES).filter(|bare| bare.len() > 2);
    COUNTED.contains(&word) || bare.is_some_and(|bare| COUNTED.contains(&bare))
}

/// What a rate counts, and how many of its unit of time are in a second: `ops` and 1000 for `ops/ms`. `None` if the unit is not one per time.
pub(super) fn per_second(unit: &str) -> Option<(&str, f64)> {
    let (counted, per) = unit.rsplit_once('/')?;
    is_time(per).then(|| (counted, MeasureUnit::parse(per).factor.recip()))
}

/// Whether a unit is one of energy efficiency: something that is counted, a speed or a rate, per energy or power. Of other amounts per
/// energy, such as `EUR/kWh`, it is unknown whether high ones are good.
pub(super) fn is_efficiency(unit: &str) -> bool {
    let Some((above, per)) = unit.rsplit_once('/') else { return false };
    let (thing, per) = (plain(above), MeasureUnit::parse(per));
    let is_per_energy = ["J", "W"].iter().any(|base| per.is_like(&MeasureUnit::parse(base)));
    let is_wanted = is_counted(&thing) || SPEEDS.contains(&thing.as_str()) || per_second(above).is_some();
    is_per_energy && is_wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_per_unit_has_its_unit_as_it_is_written_and_a_key_with_this_unit() {
        for (name, unit, stem) in [
            ("GFLOPS/W", "GFLOPS/W", Some("gflops_per_w")),
            ("GFLOPS per W", "GFLOPS/W", Some("gflops_per_w")),
            ("MIPS/mW", "MIPS/mW", Some("mips_per_mw")),
            ("decode tokens_per_j", "tokens/J", Some("decode_tokens_per_j")),
            ("inferences/Wh", "inferences/Wh", Some("inferences_per_wh")),
            ("Performance per watt", "Performance/W", Some("performance_per_w")),
            ("GB/s/W", "GB/s/W", Some("gb_per_s_per_w")),
            ("tok_s per W", "tok/s/W", Some("tok_s_per_w")),
            ("cost_per_kWh", "cost/kWh", Some("cost_per_kwh")),
            ("prefill_tok_s", "tok/s", Some("prefill_tok_per_s")),
            ("samples_sec", "samples/s", Some("samples_per_s")),
            ("read_mb_s", "mb/s", Some("read_mb_per_s")),
            ("kops_s", "kops/s", Some("kops_per_s")),
            ("ops/ms", "ops/ms", Some("ops")),
            ("tokens_per_s", "tokens/s", None),
            ("Tokens/s", "tokens/s", None),
            ("MB/s", "MB/s", None),
            ("read GB_per_s", "GB/s", None),
            ("TFLOP/s", "TFLOP/s", None),
        ] {
            let found = Amount::of(name).map(|amount| (amount.unit, amount.stem));
            assert_eq!(found, Some((Some(unit.to_owned()), stem.map(str::to_owned))), "{name}");
        }
    }

    #[test]
    fn quantities_in_a_unit_are_no_amounts_per_unit() {
        let times = ["time_s", "wall_s", "load_s", "warmup_s", "step_s", "iter_s", "epoch_s", "sample_s", "process_s"];
        let with_times =
            ["time_to_100_steps_s", "latency_tokens_s", "latency/ms", "requests_ms", "latency_min", "wall_per_tok_s"];
        let energies = ["power/W", "GPU energy/J", "cpu_w", "energy_per_token_j", "pkg_j"];
        for name in times.iter().chain(&with_times).chain(&energies).chain(&["s", "per_s", "/s", "", "tokens"]) {
            assert!(Amount::of(name).is_none(), "{name}");
        }
    }

    #[test]
    fn a_name_that_may_mean_a_quantity_or_an_amount_per_unit_has_no_unit() {
        for name in ["epochs_s", "calls_s", "tokens_j", "gflops_w"] {
            let found = Amount::of(name).map(|amount| (amount.unit, amount.stem));
            assert_eq!(found, Some((None, Some(name.to_owned()))), "{name}");
        }
    }

    #[test]
    fn efficiencies_are_what_is_counted_per_energy_or_power() {
        for unit in ["GFLOPS/W", "tokens/J", "GB/J", "perf/W", "tokens/s/W", "Mtokens/kWh", "req/mJ"] {
            assert!(is_efficiency(unit), "{unit}");
        }
        for unit in ["EUR/kWh", "°C/W", "J/token", "tokens/s", "W", "Wh/d", "s/W", ""] {
            assert!(!is_efficiency(unit), "{unit}");
        }
    }
}
