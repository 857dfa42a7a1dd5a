//! Fuzzing of what is read from files, other processes and other machines: plans, studies, the lines of logs, jobs, `session.toml`,
//! archives, figures' files, descriptions of composed figures, what programs say and write of their steps, what a relay says over ssh,
//! results of other programs, and whole sessions. Seeds are changed byte by byte and word by word, and each result must be taken or
//! refused: without a panic, in good time, and what is taken must be written and read back as the same.
//!
//! `make fuzz` gives each parser 20 s. `cargo test --test fuzz -- --ignored --nocapture` with `MULTICARD_FUZZ_S` seconds (default 10)
//! and `MULTICARD_FUZZ_SEED` prints how often each parser was called; `MULTICARD_FUZZ_TARGET` names one, and `MULTICARD_FUZZ_N` ends it
//! after so many calls. Inputs that once did harm are kept in `tests/seeds/found` and tried by `make test`.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use multicard::plan::Worker;
use multicard::protocol::{GroupLine, Job};
use multicard::store::{JournalLine, Reader, rebuild, verify_archive};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

mod corpus;
#[path = "../mutation/mod.rs"]
mod mutation;
mod parsers;
#[path = "../seeded/mod.rs"]
mod seeded;
mod words;

use corpus::corpus;
use parsers::{
    composed, event, event_file, figure, imported, model_file, plan, relay, round_trip, said_by_a_program, sample,
    session_file, study, weights,
};
use seeded::{files, seeds, session};
use words::{COMPOSED, CONFIG, EVENTS, FIGURE, JSON, OUTPUT, RELAY, RESULTS, TABLES, TOML, ZIP};

/// Inputs between two looks at the clock.
const BATCH: u32 = 1000;
/// No input may take more of a CPU, without optimisation.
const LIMIT: Duration = Duration::from_secs(5);

/// A parser: its name, how often it is called compared with others, and whether it took the bytes.
struct Target {
    name: &'static str,
    weight: u32,
    takes: fn(&[u8]) -> bool,
    words: &'static [&'static str],
}

const TARGETS: &[Target] = &[
    Target { name: "plan", weight: 4, takes: plan, words: TOML },
    Target { name: "event", weight: 8, takes: event, words: JSON },
    Target { name: "journal", weight: 4, takes: round_trip::<JournalLine>, words: JSON },
    Target { name: "sample", weight: 4, takes: sample, words: JSON },
    Target { name: "group", weight: 4, takes: round_trip::<GroupLine>, words: JSON },
    Target { name: "job", weight: 4, takes: round_trip::<Job>, words: JSON },
    Target { name: "worker", weight: 2, takes: round_trip::<Worker>, words: JSON },
    Target { name: "session", weight: 2, takes: session_file, words: TOML },
    Target {
        name: "archive",
        weight: 1,
        takes: |bytes| verify_archive(Cursor::new(bytes), Path::new("fuzzed.zip")).is_ok(),
        words: ZIP,
    },
    Target { name: "study", weight: 2, takes: study, words: JSON },
    Target { name: "figure", weight: 2, takes: figure, words: FIGURE },
    Target { name: "composed", weight: 2, takes: composed, words: COMPOSED },
    Target { name: "relay", weight: 2, takes: relay, words: RELAY },
    Target { name: "lines", weight: 2, takes: |bytes| said_by_a_program(bytes, Some("steps.jsonl")), words: JSON },
    Target { name: "table", weight: 2, takes: |bytes| said_by_a_program(bytes, Some("steps.csv")), words: TABLES },
    Target { name: "tensorboard", weight: 2, takes: event_file, words: EVENTS },
    Target { name: "output", weight: 2, takes: |bytes| said_by_a_program(bytes, None), words: OUTPUT },
    Target { name: "config", weight: 1, takes: |bytes| model_file(bytes, "config.json"), words: CONFIG },
    Target { name: "weights", weight: 1, takes: weights, words: CONFIG },
    Target { name: "tokenizer", weight: 1, takes: |bytes| model_file(bytes, "tokenizer.json"), words: CONFIG },
    Target { name: "json-rows", weight: 1, takes: |bytes| model_file(bytes, "rows.json"), words: JSON },
    Target { name: "csv-rows", weight: 1, takes: |bytes| model_file(bytes, "rows.csv"), words: TABLES },
    Target { name: "parquet-rows", weight: 1, takes: |bytes| model_file(bytes, "rows.parquet"), words: EVENTS },
    Target { name: "import-csv", weight: 2, takes: imported, words: TABLES },
    Target { name: "import-json", weight: 2, takes: imported, words: RESULTS },
];

/// Calls a parser; an input that does harm is kept and named.
fn call(target: &Target, bytes: &[u8]) -> bool {
    let began = mutation::cpu_time();
    let taken = catch_unwind(AssertUnwindSafe(|| (target.takes)(bytes)));
    let took = mutation::cpu_time().saturating_sub(began);
    if taken.is_err() || took > LIMIT {
        let kept = std::env::temp_dir().join(format!("{}-{}.bin", target.name, std::process::id()));
        fs::write(&kept, bytes).unwrap();
        panic!("{}: {took:.1?}, kept in {}", target.name, kept.display());
    }
    taken.unwrap()
}

/// Changes the seeds for as long as asked; by parser, how often it was called and how often it took what it got.
fn fuzz(time: Duration, seed: u64, only: Option<&str>) -> BTreeMap<&'static str, (u64, u64)> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let corpus = corpus();
    let wheel: Vec<&Target> = TARGETS
        .iter()
        .filter(|target| only.is_none_or(|name| name == target.name))
        .flat_map(|target| std::iter::repeat_n(target, target.weight as usize))
        .collect();
    assert!(!wheel.is_empty(), "there is no target {only:?}");
    let mut counts: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    // What was taken although it was changed is changed further, as far as it leads.
    let mut pool = corpus.clone();
    let most = number("MULTICARD_FUZZ_N", u64::MAX);
    let begun = Instant::now();
    while begun.elapsed() < time && counts.values().map(|(calls, _)| calls).sum::<u64>() < most {
        for _ in 0..BATCH {
            let target = wheel[random.random_range(0..wheel.len())];
            let inputs = &pool[target.name];
            let mut bytes = inputs[random.random_range(0..inputs.len())].clone();
            let other = &inputs[random.random_range(0..inputs.len())];
            for _ in 0..random.random_range(1..5) {
                mutation::edit(&mut bytes, other, target.words, &mut random);
            }
            if random.random_range(0..40) == 0 && !bytes.is_empty() {
                bytes.truncate(random.random_range(0..bytes.len()));
            }
            let taken = call(target, &bytes);
            let count = counts.entry(target.name).or_default();
            *count = (count.0 + 1, count.1 + u64::from(taken));
            if taken && random.random_range(0..16) == 0 && bytes.len() < 8192 {
                let inputs = pool.get_mut(target.name).unwrap();
                if inputs.len() < 256 {
                    inputs.push(bytes);
                } else {
                    let at = random.random_range(corpus[target.name].len().min(255)..inputs.len());
                    inputs[at] = bytes;
                }
            }
        }
    }
    counts
}

/// Changes one file of a whole session at a time; how many sessions were rebuilt and read.
fn fuzz_sessions(time: Duration, seed: u64) -> u64 {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let session = session();
    let logs: Vec<(PathBuf, Vec<u8>)> =
        files(session.path()).into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    let begun = Instant::now();
    let mut count = 0;
    while begun.elapsed() < time {
        let (path, whole) = &logs[random.random_range(0..logs.len())];
        let mut bytes = whole.clone();
        for _ in 0..random.random_range(1..8) {
            mutation::edit(&mut bytes, whole, JSON, &mut random);
        }
        fs::write(path, bytes).unwrap();
        if let Ok(report) = rebuild(session.path(), &mut |_, _| {}) {
            // Whatever is left out is named by its file and line.
            for place in report.damaged.iter().chain(&report.torn) {
                assert!(place.contains(".jsonl:"), "{place}");
            }
            let reader = Reader::open(session.path()).unwrap();
            for record in reader.runs().unwrap() {
                reader.run(&record.run).unwrap().unwrap();
                // A garbled journal may name a run by what is no folder's name.
                let _ = reader.samples(&record.run);
            }
        }
        fs::write(path, whole).unwrap();
        count += 1;
    }
    count
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn seeds_and_inputs_that_once_did_harm_are_taken_or_refused() {
    for (name, seeds) in corpus() {
        let target = TARGETS.iter().find(|target| target.name == name).unwrap();
        for seed in seeds {
            assert!(call(target, &seed), "{name}: {}", String::from_utf8_lossy(&seed));
        }
    }
    for path in files(&seeds().join("found")) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some(target) = TARGETS.iter().find(|target| name.starts_with(target.name)) else { continue };
        call(target, &fs::read(&path).unwrap());
    }
}

#[test]
fn a_thousand_changed_inputs_are_taken_or_refused() {
    let counts = fuzz(Duration::from_millis(1), 1, None);
    assert_eq!(counts.values().map(|(calls, _)| calls).sum::<u64>(), u64::from(BATCH));
    assert!(fuzz_sessions(Duration::from_millis(1), 1) > 0);
}

#[test]
#[ignore = "runs as long as asked: MULTICARD_FUZZ_S, default 10"]
fn changed_inputs_are_taken_or_refused() {
    let seed = number("MULTICARD_FUZZ_SEED", 1);
    let only = std::env::var("MULTICARD_FUZZ_TARGET").ok();
    let counts = fuzz(Duration::from_secs(number("MULTICARD_FUZZ_S", 10)), seed, only.as_deref());
    for (name, (calls, taken)) in &counts {
        println!("{name}: {calls} calls, {taken} taken");
        assert!(*taken > 0 && taken < calls, "{name}");
    }
    println!("{} executions, seed {seed}", counts.values().map(|(calls, _)| calls).sum::<u64>());
}

#[test]
#[ignore = "runs as long as asked, for each parser: MULTICARD_FUZZ_S, default 10"]
fn changed_inputs_of_each_parser_are_taken_or_refused() {
    let (time, seed) = (Duration::from_secs(number("MULTICARD_FUZZ_S", 10)), number("MULTICARD_FUZZ_SEED", 1));
    for target in TARGETS {
        let (calls, taken) = fuzz(time, seed, Some(target.name))[target.name];
        println!("{}: {calls} calls, {taken} taken, seed {seed}", target.name);
        assert!(taken > 0 && taken < calls, "{}", target.name);
    }
}

#[test]
#[ignore = "runs as long as asked: MULTICARD_FUZZ_S, default 10"]
fn changed_sessions_are_rebuilt_or_refused() {
    let seed = number("MULTICARD_FUZZ_SEED", 1);
    let count = fuzz_sessions(Duration::from_secs(number("MULTICARD_FUZZ_S", 10)), seed);
    println!("{count} sessions, seed {seed}");
}
