//! Fuzzing of what is read from files, other processes and other machines: plans, studies, the lines of logs, jobs, `session.toml`,
//! archives, figures' files, what programs say and write of their steps, what a relay says over ssh, results of other programs, and whole sessions. Seeds are changed byte by byte and word by word, and each result must be taken or refused: without a panic, in
//! good time, and what is taken must be written and read back as the same.
//!
//! `make fuzz` gives each parser 20 s. `cargo test --test fuzz -- --ignored --nocapture` with `MULTICARD_FUZZ_S` seconds (default 10)
//! and `MULTICARD_FUZZ_SEED` prints how often each parser was called; `MULTICARD_FUZZ_TARGET` names one, and `MULTICARD_FUZZ_N` ends it
//! after so many calls. Inputs that once did harm are kept in `tests/seeds/found` and tried by `make test`.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use std::io::{Cursor, Write};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use multicard::dataset;
use multicard::figure::paper::{Provenance, read_provenance};
use multicard::figure::{SavedStudy, presets};
use multicard::foreign;
use multicard::import::{Mapping, read_bytes, results};
use multicard::plan::command::ReadingsSpec;
use multicard::plan::{Plan, Worker, expand};
use multicard::program::readings::{Place, Readings, Stream, WarmUp};
use multicard::protocol::{Event, EventLine, GroupLine, Job, Sample, read_event_line, read_sample_line};
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

const RELAY: &[&str] = &[
    "[\"reset\",0]\n",
    "[{\"file\":{\"path\":\"runs/a/rank-0.jsonl\",\"offset\":0,\"new\":true}},4]\n{}\n\n",
    "[{\"synced\":{\"exists\":false}},0]\n",
    "[{\"closed\":{\"channel\":1,\"reason\":\"\\u001b[2J\"}},0]\n",
    "\"offset\":",
    "\"new\":",
    "true",
    "false",
    "..",
    "/",
    "\\u0000",
    "session.toml",
    "journal.jsonl",
    "origin",
    "runs/",
    ".sqlite",
    "},",
    "]\n",
    "\n",
];

const TABLES: &[&str] = &[
    ",",
    ";",
    "\t",
    "\"",
    "\"\"",
    "\n",
    "\r\n",
    "step",
    "epoch",
    "loss",
    "time_s",
    "duration_s",
    "units",
    "nan",
    "inf",
    "-",
    "\u{feff}",
    "# ",
];

const OUTPUT: &[&str] = &[
    " 3/100 [00:03<00:22,  4.00it/s, loss=0.5]",
    "{'loss': 0.5, 'epoch': 0.01}",
    "step ",
    "epoch ",
    "loss: ",
    "loss=",
    "[",
    "]",
    "/",
    "\r",
    "\n",
    "\u{1b}[A",
    "nan",
    "1e999",
];

/// Tags and lengths of protobuf's fields.
const EVENTS: &[&str] =
    &["\u{9}", "\u{10}", "*", "\n", "\u{12}", "\u{15}", "B", "\u{0}", "\u{1}", "\u{7f}", "loss", "_hparams_/"];

/// Words of files that describe a language model.
const CONFIG: &[&str] = &[
    "0",
    "-1",
    "1e308",
    "9223372036854775807",
    "18446744073709551615",
    "null",
    "true",
    "false",
    "[]",
    "{}",
    "\"\"",
    "\"dtype\":",
    "\"BF16\"",
    "\"shape\":",
    "\"data_offsets\":",
    "\"head_dim\":",
    "\"rope_theta\":",
    "\"num_attention_heads\":",
    "\"normalizer\":",
    "\"pre_tokenizer\":",
    "\"post_processor\":",
    "\"model\":",
    "\"vocab\":",
    "\"merges\":",
    "\"Sequence\"",
    "\"ByteLevel\"",
    "\"WordPiece\"",
    "\"Unigram\"",
    ",",
    "}",
    "]",
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
    Target { name: "relay", weight: 2, takes: relay, words: RELAY },
    Target { name: "lines", weight: 2, takes: json_lines, words: JSON },
    Target { name: "table", weight: 2, takes: table, words: TABLES },
    Target { name: "tensorboard", weight: 2, takes: event_file, words: EVENTS },
    Target { name: "output", weight: 2, takes: output, words: OUTPUT },
    Target { name: "config", weight: 1, takes: config, words: CONFIG },
    Target { name: "weights", weight: 1, takes: weights, words: CONFIG },
    Target { name: "tokenizer", weight: 1, takes: tokenizer, words: CONFIG },
    Target { name: "json-rows", weight: 1, takes: json_rows, words: JSON },
    Target { name: "csv-rows", weight: 1, takes: csv_rows, words: TABLES },
    Target { name: "parquet-rows", weight: 1, takes: parquet_rows, words: EVENTS },
    Target { name: "import-csv", weight: 2, takes: imported, words: TABLES },
    Target { name: "import-json", weight: 2, takes: imported, words: JSON },
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
    let written = match read_provenance(bytes) {
        Ok(provenance) => provenance.about(),
        Err(error) => error.to_string(),
    };
    assert!(!written.is_empty() && !foreign::message(&written).contains(foreign::misleads));
    read_provenance(bytes).is_ok()
}

/// Takes what a relay says of a session, from its greeting on. Whatever it is, it stays in the copy, takes no more space than it has
/// bytes, and is harmless to show.
fn relay(bytes: &[u8]) -> bool {
    let home = memory();
    let copy = home.path().join("a/copy");
    let mut stream = b"Welcome\nmulticard-relay {\"frames\":2,\"multicard\":\"0.1.0\",\"home\":\"/\"}\n".to_vec();
    let mut packed = ZlibEncoder::new(&mut stream, Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap();
    let taken = multicard::remote::replay(&stream, &copy);
    let mut length = 0;
    for path in files(home.path()) {
        let about = fs::symlink_metadata(&path).unwrap();
        assert!(path.starts_with(&copy) && about.is_file(), "{}", path.display());
        length += about.len();
    }
    assert!(length <= bytes.len() as u64, "{length} bytes of {}", bytes.len());
    let shown = taken.as_ref().map_or(Vec::new(), |(_, shown)| shown.clone());
    assert!(shown.iter().all(|text| !text.contains(foreign::misleads)), "{shown:?}");
    taken.is_ok()
}

fn memory() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }.unwrap()
}

/// Reads what a program says, in two parts, as its runner does. What the log of its run then holds can be read back. True if steps or
/// readings were found and nothing was left out.
fn said_by_a_program(bytes: &[u8], file: Option<&str>) -> bool {
    let folder = memory();
    let (run_folder, working_folder) = (folder.path().join("run"), folder.path().to_owned());
    let place = Place { run_folder, working_folder, started_s: 1_763_800_000.0 };
    let declared: Vec<String> = file.iter().map(|name| (*name).to_owned()).collect();
    let spec = ReadingsSpec { files: declared.clone(), ..ReadingsSpec::default() };
    let mut readings = Readings::new(&spec, &declared, &place, WarmUp::Steps(1));
    let mut events = Vec::new();
    let half = bytes.len() / 2;
    for (part, now_s) in [(&bytes[..half], 1_763_800_001.0), (&bytes[half..], 1_763_800_002.0)] {
        match file {
            Some(name) => {
                let path = place.working_folder.join(name);
                fs::OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(part).unwrap();
            }
            None => readings.output(Stream::Output, part, now_s),
        }
        readings.poll(now_s, &mut events);
    }
    readings.finish(1_763_800_003.0, &mut events);
    let mut has = (false, false);
    for (time_s, event) in events {
        has.0 |= matches!(event, Event::Step { .. } | Event::Reading { .. });
        has.1 |= matches!(&event, Event::Warning { message } if message.contains("left out"));
        let line = serde_json::to_vec(&EventLine { run: "r1".to_owned(), rank: 0, time_s, event }).unwrap();
        let read = read_event_line(&line);
        assert!(read.is_ok(), "{}: {read:?}", String::from_utf8_lossy(&line));
    }
    has == (true, false)
}

fn json_lines(bytes: &[u8]) -> bool {
    said_by_a_program(bytes, Some("steps.jsonl"))
}

fn table(bytes: &[u8]) -> bool {
    said_by_a_program(bytes, Some("steps.csv"))
}

/// Reads an event file of TensorBoard whose checksums fit, so that what is in its records is looked at.
fn event_file(bytes: &[u8]) -> bool {
    let mut file = bytes.to_vec();
    let mut at = 0;
    while let Some(header) = file.get(at..at + 12) {
        let length = u64::from_le_bytes(header[..8].try_into().unwrap());
        let sum = masked_crc(&header[..8]);
        file[at + 8..at + 12].copy_from_slice(&sum);
        let Some(end) = usize::try_from(length).ok().and_then(|length| (at + 12).checked_add(length)) else { break };
        let Some(data) = file.get(at + 12..end).filter(|_| end + 4 <= file.len()) else { break };
        let sum = masked_crc(data);
        file[end..end + 4].copy_from_slice(&sum);
        at = end + 4;
    }
    said_by_a_program(&file, Some("events.out.tfevents.1"))
}

/// CRC-32C, as TFRecord masks it.
fn masked_crc(bytes: &[u8]) -> [u8; 4] {
    let mut crc = !0_u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & 0_u32.wrapping_sub(crc & 1));
        }
    }
    (!crc).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

/// A file of a plan that trains a language model, beside whole ones of the others. What is taken can be planned and, where it is text,
/// made into tokens.
fn model_file(bytes: &[u8], name: &str) -> bool {
    let folder = memory();
    let at = |name: &str| folder.path().join(name);
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    fs::copy(from.join("golden/llm/config.json"), at("config.json")).unwrap();
    fs::copy(from.join("oracles/llm/tokenizer.json"), at("tokenizer.json")).unwrap();
    fs::write(at("rows.jsonl"), "{\"instruction\": \"Move.\", \"input\": \"\", \"output\": \"I move.\"}\n").unwrap();
    fs::write(at(name), bytes).unwrap();
    let [model, weights] = match name {
        "config.json" => ["config", ""],
        "model.safetensors" => ["config", "weights"],
        _ => ["tiny", ""],
    };
    let (set, rows) = if model == "tiny" {
        ("file", "rows = 1\nbatch_size = 1\n")
    } else {
        ("uniform", "rows = 8\nrow_tokens = 9\n")
    };
    let (source, shown) = (if set == "file" { "files" } else { "stand-in" }, folder.path().display());
    let rows_file = if name.starts_with("rows.") { name } else { "rows.jsonl" };
    let mut text =
        format!("version = 1\nworkload = \"llm\"\n[data]\nset = \"{source}\"\nconfig = \"{shown}/config.json\"\n");
    if set == "file" {
        text += &format!("file = \"{shown}/{rows_file}\"\ntokenizer = \"{shown}/tokenizer.json\"\n");
    }
    if !weights.is_empty() {
        text += &format!("weights = \"{shown}\"\n");
    }
    text += &format!("[factors]\nmodel = \"{model}\"\ndata_set = \"{set}\"\n{rows}");
    if set == "file" {
        let template = if name == "rows.parquet" { "chat" } else { "instruct" };
        text += &format!("template = \"{template}\"\nmax_tokens = 64\n");
    }
    let plan = Plan::parse(&text, "fuzzed").unwrap();
    let checked = dataset::check_models(plan.blocks().next().unwrap());
    let matrix = expand(&plan, &serde_json::from_value(node()).unwrap());
    let read = matrix.cells.iter().try_for_each(|cell| dataset::check(&cell.levels, &cell.data, folder.path()));
    let error = checked.as_ref().err().or(read.as_ref().err());
    assert!(error.is_none_or(|error| !error.to_string().is_empty()));
    error.is_none() && !matrix.cells.is_empty()
}

fn config(bytes: &[u8]) -> bool {
    model_file(bytes, "config.json")
}

/// Reads the header of weights, whose length and numbers are whole.
fn weights(bytes: &[u8]) -> bool {
    const NUMBERS_BYTES: usize = 98_944;
    let mut file = (bytes.len() as u64).to_le_bytes().to_vec();
    file.extend(bytes);
    file.resize(file.len() + NUMBERS_BYTES, 0);
    model_file(&file, "model.safetensors")
}

fn tokenizer(bytes: &[u8]) -> bool {
    model_file(bytes, "tokenizer.json")
}

fn json_rows(bytes: &[u8]) -> bool {
    model_file(bytes, "rows.json")
}

fn csv_rows(bytes: &[u8]) -> bool {
    model_file(bytes, "rows.csv")
}

fn parquet_rows(bytes: &[u8]) -> bool {
    model_file(bytes, "rows.parquet")
}

/// Reads results of another program, and makes runs of them with the deduced mapping. All values that are taken must be
/// finite, and a mapping that is written must be read as the same.
fn imported(bytes: &[u8]) -> bool {
    let table = match read_bytes(bytes) {
        Ok(table) => table,
        Err(problems) => {
            assert!(!problems.is_empty() && problems.iter().all(|problem| !problem.to_string().is_empty()));
            return false;
        }
    };
    assert!(table.rows.iter().all(|row| row.fields.len() == table.columns.len()));
    let mapping = Mapping::deduced(&table);
    let mut again = Mapping::deduced(&table);
    again.change(&mapping.toml()).unwrap();
    assert_eq!(again.toml(), mapping.toml());
    match results(&table, &mapping, "fuzzed") {
        Ok(results) => {
            assert_eq!(results.runs.len(), table.rows.len());
            assert!(results.runs.iter().flat_map(|run| &run.values).all(|(_, value)| value.is_finite()));
            let mut ids: Vec<&str> = results.runs.iter().map(|run| run.run.as_str()).collect();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), results.runs.len(), "each run has an id of its own");
            true
        }
        Err(problems) => {
            assert!(!problems.is_empty());
            false
        }
    }
}

/// A machine with two CPUs and no GPU.
fn node() -> serde_json::Value {
    serde_json::json!({
        "hostname": "node", "system": "Linux", "cpu_model": "CPU", "cpus": 2, "memory_bytes": 1_u64 << 34, "numa_nodes": 1,
        "driver": null, "no_gpu_reason": "no driver", "gpus": [], "nsys": {"Err": "none"}, "worker": {"Err": "none"},
    })
}

fn output(bytes: &[u8]) -> bool {
    said_by_a_program(bytes, None)
}

/// What a relay says of a small session, uncompressed.
fn relayed(sample: &[u8]) -> Vec<u8> {
    let file =
        |path: &str, offset: u64, new: bool| serde_json::json!({"file": {"path": path, "offset": offset, "new": new}});
    let sample: serde_json::Value = serde_json::from_slice(sample).unwrap();
    let frames: [(serde_json::Value, &[u8]); 11] = [
        (file("journal.jsonl", 0, true), b""),
        (file("session.toml", 0, true), b"version = 1\n"),
        (file("journal.jsonl", 0, true), b"{\"decision\":\"run_queued\",\"run\":\"a\"}\n"),
        (file("runs/a/rank-0.jsonl", 0, true), b"{\"event\":1}\n"),
        (file("runs/a/rank-0.jsonl", 12, false), b"{\"event\":2}\n"),
        (serde_json::json!({"synced": {"exists": true}}), b""),
        (serde_json::json!({"node": node()}), b""),
        (serde_json::json!({"sample": sample}), b""),
        (serde_json::json!({"bytes": {"channel": 1}}), b"{\"queue\":{}}\n"),
        (serde_json::json!({"problem": "reading it"}), b""),
        (serde_json::json!({"closed": {"channel": 1, "reason": null}}), b""),
    ];
    let mut lines = Vec::new();
    for (message, body) in frames {
        lines.extend(format!("[{message},{}]\n", body.len()).bytes());
        lines.extend(body);
    }
    lines
}

/// Results of other programs.
fn import_seeds() -> [(&'static str, &'static [u8]); 4] {
    [
        (
            "import-csv",
            b"kernel,threads,rep,time (ms),host,commit,date\na,1,1,1.5,n1,abc,2026-11-26\na,1,2,1.7,n1,abc,2026-11-26\n",
        ),
        ("import-csv", b"\xef\xbb\xbfname;memory_mb;time_s;note\r\n\"a; b\";12;1.5;\r\nc;NA;2;x\r\n"),
        (
            "import-json",
            b"{\"batch\": 8, \"in\": {\"loss\": 0.5}, \"tokens/s\": 9e3}\n{\"batch\": 16, \"tokens/s\": 1e4}\n",
        ),
        (
            "import-json",
            br#"{"results": [{"command": "s 1", "times": [1.0, 1.1], "exit_codes": [0, 0], "parameters": {"n": "1"}}]}"#,
        ),
    ]
}

/// Files of plans that train language models, by their targets.
fn model_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let read = |file: &str| fs::read(tests.join(file)).unwrap();
    let weights = read("golden/llm/model.safetensors");
    let header_bytes = u64::from_le_bytes(weights[..8].try_into().unwrap()) as usize;
    let csv = b"instruction,input,output\r\nMove.,,I move.\r\n\"Say, what?\",\"\"\"It\"\"\",That\n".to_vec();
    vec![
        ("config", read("golden/llm/config.json")),
        ("weights", weights[8..8 + header_bytes].to_vec()),
        ("tokenizer", read("oracles/llm/tokenizer.json")),
        ("json-rows", read("oracles/llm/alpaca.jsonl")),
        ("csv-rows", csv),
        ("parquet-rows", read("oracles/llm/slimorca/0000.parquet")),
    ]
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
    let samples = fs::read(files(session.path()).into_iter().find(|file| file.ends_with("samples.jsonl")).unwrap());
    add("relay", &relayed(samples.unwrap().split(|byte| *byte == b'\n').next().unwrap()));
    add("lines", b"{\"step\": 1, \"loss\": 0.5}\n{\"step\": 2, \"loss\": NaN, \"units\": 8, \"duration_s\": 0.25}\n{\"tokens_per_s\": 9.5}\n");
    add("lines", b"{\"phase\": \"warm_up\"}\n{\"step\": 1, \"epoch\": 0.5, \"rank\": 0, \"time_s\": 1763800009.5, \"warm_up\": true}\n");
    add("table", b"step,epoch,loss,time_s\n1,0,0.5,1763800000.5\n2,0,0.25,1763800001.5\n3,1,nan,1763800002\n");
    add("table", b"# Step;\"train loss\";duration_ms\r\n1;0.5;12.5\r\n2;\"0.4\";12\r\n");
    for name in ["simple", "tensor"] {
        let file = format!("tests/golden/tensorboard/events.out.tfevents.{name}");
        add("tensorboard", &fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap());
    }
    add(
        "output",
        b"  1%|#  | 3/100 [00:03<00:22,  4.00it/s, loss=0.5]\r  2%|#  | 4/100 [00:04<00:22,  4.00it/s, loss=0.25]\n",
    );
    add("output", b"epoch 1, step 12/100, loss: 0.5\nEpoch: [1] step [13/100] Loss 6.9e-01 (7.0e-01)\n");
    add("output", b"{'loss': 0.5, 'learning_rate': 5e-05, 'epoch': 0.01}\n{'eval_loss': 0.5, 'epoch': 0.02}\n");
    model_seeds().iter().for_each(|(name, bytes)| add(name, bytes));
    import_seeds().iter().for_each(|(name, bytes)| add(name, bytes));
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
