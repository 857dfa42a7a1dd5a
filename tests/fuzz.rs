//! Fuzzing of what is read from files and other processes: plans, studies, the lines of logs, jobs, `session.toml`, archives, figures'
//! files, and whole sessions. Seeds are changed byte by byte and word by word, and each result must be taken or refused: without a panic, in
//! good time, and what is taken must be written and read back as the same.
//!
//! `make fuzz` gives each parser 20 s. `cargo test --test fuzz -- --ignored --nocapture` with `MULTICARD_FUZZ_S` seconds (default 10)
//! and `MULTICARD_FUZZ_SEED` prints how often each parser was called; `MULTICARD_FUZZ_TARGET` names one, and `MULTICARD_FUZZ_N` ends it
//! after so many calls. Inputs that once did harm are kept in `tests/seeds/found` and tried by `make test`.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use std::io::Cursor;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use multicard::figure::paper::{Provenance, read_provenance};
use multicard::figure::{SavedStudy, presets};
use multicard::plan::{Plan, Worker};
use multicard::protocol::{GroupLine, Job, Sample, read_event_line, read_sample_line};
use multicard::store::{JournalLine, Reader, export_session, parse_session_file, rebuild, verify_archive};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

mod mutation;
mod seeded;

use seeded::{files, seeds, session};

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

const JSON: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "null",
    "true",
    "false",
    "{}",
    "[]",
    "\\u0000",
    "\\ud800",
    "\n",
    "\"run\":",
    "\"rank\":",
    "\"time_s\":",
    "\"event\":",
    "\"reading\"",
    "\"key\":",
    "\"value\":",
    "\"units\":",
    "\"images\":",
    "\"started\"",
    "\"step\"",
    "\"epoch\"",
    "\"evaluation\"",
    "\"phase\"",
    "\"memory\"",
    "\"evidence\"",
    "\"warning\"",
    "\"finished\"",
    "\"failed\"",
    "\"kind\":",
    "\"decision\":",
    "\"plan_added\"",
    "\"run_queued\"",
    "\"run_started\"",
    "\"run_ended\"",
    "\"levels\":",
    "\"data\":",
    "\"loss\":",
    "\"duration_s\":",
    "\"gpus\":",
    "\"rank_exited\"",
    "\"exit\":",
    "\"protocol_version\":",
    "\"version\":",
    "\"ranks\":",
    "\"limits\":",
];
const TOML: &[&str] = &[
    "[",
    "]",
    "[[",
    "=",
    "\"",
    "'",
    "\"\"\"",
    "#",
    "\n",
    ".",
    ",",
    "{",
    "}",
    "true",
    "inf",
    "nan",
    "1979-05-27",
    "version = 1",
    "[factors]",
    "[data]",
    "[limits]",
    "[measure]",
    "workload = \"image\"",
    "precision",
    "layout",
    "image_size",
    "batch_size",
    "\"fp32\"",
    "\"fp16\"",
    "strategy",
    "gpus",
    "epochs",
    "train_images",
    "repeats",
    "seed",
    "order",
    "set",
    "folder",
    "run_time_s",
    "memory_limit_gb",
    "\\u0000",
    "\u{feff}",
    "é",
];
const ZIP: &[&str] = &[
    "PK\u{1}\u{2}",
    "PK\u{3}\u{4}",
    "PK\u{5}\u{6}",
    "PK\u{6}\u{6}",
    "PK\u{6}\u{7}",
    "../",
    "/",
    "\\",
    "manifest.json",
    "session.toml",
    "\0\0",
    "\u{1}\0",
    "\u{8}\0",
];

const FIGURE: &[&str] = &[
    "iTXt",
    "tEXt",
    "zTXt",
    "IHDR",
    "IDAT",
    "IEND",
    "\0\0\0\0",
    "\u{7f}",
    "multicard-figure\0",
    "<svg",
    "<metadata id=\"multicard-figure\">",
    "</metadata>",
    "&lt;",
    "&#x0;",
    "&",
    "%PDF-1.7",
    "{\"multicard_figure\":",
    "endstream",
    "\"study\":",
    "\"spec\":",
    "\"preset\":",
    "null",
    "{",
    "}",
    "[",
    "]",
    "1",
    "2",
    "9",
];

const TARGETS: &[Target] = &[
    Target { name: "plan", weight: 4, takes: plan, words: TOML },
    Target { name: "event", weight: 8, takes: event, words: JSON },
    Target { name: "journal", weight: 4, takes: round_trip::<JournalLine>, words: JSON },
    Target { name: "sample", weight: 4, takes: sample, words: JSON },
    Target { name: "group", weight: 4, takes: round_trip::<GroupLine>, words: JSON },
    Target { name: "job", weight: 4, takes: round_trip::<Job>, words: JSON },
    Target { name: "worker", weight: 2, takes: round_trip::<Worker>, words: JSON },
    Target { name: "session", weight: 2, takes: session_file, words: TOML },
    Target { name: "archive", weight: 1, takes: archive, words: ZIP },
    Target { name: "study", weight: 2, takes: study, words: JSON },
    Target { name: "figure", weight: 2, takes: figure, words: FIGURE },
];

fn plan(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    match Plan::parse(&text, "fuzzed") {
        Ok(plan) => {
            let written = plan.to_toml();
            assert_eq!(Plan::parse(&written, "written").unwrap(), plan, "{written}");
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

/// Parses a line, and reads back what is written of it.
fn round_trip<T: DeserializeOwned + Serialize + Debug>(bytes: &[u8]) -> bool {
    match serde_json::from_slice::<T>(bytes) {
        Ok(value) => {
            let written = serde_json::to_string(&value).unwrap();
            let read: T = serde_json::from_str(&written).unwrap();
            // NaN is not equal to itself; its text is.
            assert_eq!(format!("{read:?}"), format!("{value:?}"), "{written}");
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

/// Reads a line of a log, of either protocol, and reads back what is written of it, which is of the newer one.
fn event(bytes: &[u8]) -> bool {
    match read_event_line(bytes) {
        Ok(events) => {
            assert!(!events.is_empty());
            for event in &events {
                let written = serde_json::to_vec(event).unwrap();
                let read = read_event_line(&written).unwrap();
                assert_eq!(format!("{read:?}"), format!("[{event:?}]"), "{}", String::from_utf8_lossy(&written));
            }
            true
        }
        Err(error) => {
            assert!(!error.is_empty());
            false
        }
    }
}

/// Reads a sample; what is taken has no impossible value.
fn sample(bytes: &[u8]) -> bool {
    let is_taken = read_sample_line(bytes).is_ok();
    is_taken && round_trip::<Sample>(bytes)
}

fn session_file(bytes: &[u8]) -> bool {
    parse_session_file(&String::from_utf8_lossy(bytes), Path::new("session.toml")).is_ok()
}

fn archive(bytes: &[u8]) -> bool {
    verify_archive(Cursor::new(bytes), Path::new("fuzzed.zip")).is_ok()
}

/// Reads a study as sessions keep it, and reads back what is written of it.
fn study(bytes: &[u8]) -> bool {
    match SavedStudy::read("fuzzed", &String::from_utf8_lossy(bytes)).study {
        Ok(study) => {
            let written = serde_json::to_string(&study).unwrap();
            assert_eq!(SavedStudy::read("fuzzed", &written).study.unwrap(), study, "{written}");
            true
        }
        Err(error) => {
            assert!(!error.is_empty());
            false
        }
    }
}

/// Reads where a figure comes from out of a PNG, an SVG or a PDF; what is told of it is harmless to a terminal.
fn figure(bytes: &[u8]) -> bool {
    let said = match read_provenance(bytes) {
        Ok(provenance) => provenance.about(),
        Err(error) => error.to_string(),
    };
    assert!(!said.is_empty() && !multicard::foreign::message(&said).contains(multicard::foreign::misleads));
    read_provenance(bytes).is_ok()
}

/// What each target starts from.
fn corpus() -> BTreeMap<&'static str, Vec<Vec<u8>>> {
    let session = session();
    let mut corpus: BTreeMap<&str, Vec<Vec<u8>>> = BTreeMap::new();
    let mut add = |name: &'static str, bytes: &[u8]| corpus.entry(name).or_default().push(bytes.to_vec());
    for path in files(session.path()) {
        let bytes = fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let kind = match name {
            "journal.jsonl" => "journal",
            "samples.jsonl" => "sample",
            "group.jsonl" => "group",
            "session.toml" => "session",
            "job.json" => "job",
            _ if name.starts_with("rank-") => "event",
            _ => continue,
        };
        if name.ends_with(".jsonl") {
            bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).for_each(|line| add(kind, line));
        } else {
            add(kind, &bytes);
        }
    }
    // Beside the plans lie the programs of some.
    let shipped = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("sessions"));
    for path in shipped.into_iter().filter(|path| path.extension().is_some_and(|end| end == "toml")) {
        add("plan", &fs::read(path).unwrap());
    }
    for path in files(&seeds().join("plan")) {
        add("plan", &fs::read(path).unwrap());
    }
    for line in fs::read_to_string(seeds().join("events.jsonl")).unwrap().lines() {
        add("event", line.as_bytes());
    }
    for study in presets() {
        add("study", serde_json::to_string(study).unwrap().as_bytes());
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/sessions");
    let [png, svg] = ["times.png", "times.svg"].map(|name| fs::read(golden.join(name)).unwrap());
    let provenance = Provenance { multicard_figure: 2, ..read_provenance(&svg).unwrap() };
    let attached = format!("%PDF-1.7\n{}\nendstream", provenance.json());
    [png.as_slice(), &svg, attached.as_bytes()].into_iter().for_each(|bytes| add("figure", bytes));
    add("worker", &fs::read(seeds().join("worker.json")).unwrap());
    let out = session.path().join("session.zip");
    let small = TempDir::new().unwrap();
    fs::copy(session.path().join("session.toml"), small.path().join("session.toml")).unwrap();
    fs::write(small.path().join("journal.jsonl"), "").unwrap();
    for folder in [small.path(), session.path()] {
        export_session(folder, &out, &mut |_, _| ControlFlow::Continue(())).unwrap();
        add("archive", &fs::read(&out).unwrap());
        fs::remove_file(&out).unwrap();
    }
    corpus
}

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
            let of = &pool[target.name];
            let mut bytes = of[random.random_range(0..of.len())].clone();
            let other = &of[random.random_range(0..of.len())];
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
                let of = pool.get_mut(target.name).unwrap();
                if of.len() < 256 {
                    of.push(bytes);
                } else {
                    let at = random.random_range(corpus[target.name].len().min(255)..of.len());
                    of[at] = bytes;
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
