//! What each parser has to hold: bytes are taken or refused with a reason, and what is taken is written and read back as the same.

use std::fmt::Debug;
use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use multicard::dataset;
use multicard::figure::paper::read_provenance;
use multicard::figure::{Composition, CompositionFile, SavedStudy};
use multicard::foreign;
use multicard::import::{Mapping, read_bytes, results};
use multicard::plan::command::ReadingsSpec;
use multicard::plan::{Plan, WarmUp, expand};
use multicard::program::readings::{Place, Readings, Stream};
use multicard::protocol::{Event, EventLine, Sample, read_event_line, read_sample_line};
use multicard::store::parse_session_file;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::seeded::{files, memory};

pub fn plan(bytes: &[u8]) -> bool {
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
pub fn round_trip<T: DeserializeOwned + Serialize + Debug>(bytes: &[u8]) -> bool {
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
pub fn event(bytes: &[u8]) -> bool {
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
pub fn sample(bytes: &[u8]) -> bool {
    let is_taken = read_sample_line(bytes).is_ok();
    is_taken && round_trip::<Sample>(bytes)
}

pub fn session_file(bytes: &[u8]) -> bool {
    parse_session_file(&String::from_utf8_lossy(bytes), Path::new("session.toml")).is_ok()
}

/// Reads a study as sessions keep it, and reads back what is written of it.
pub fn study(bytes: &[u8]) -> bool {
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
pub fn figure(bytes: &[u8]) -> bool {
    let written = match read_provenance(bytes) {
        Ok(provenance) => provenance.about(),
        Err(error) => error.to_string(),
    };
    assert!(!written.is_empty() && !foreign::message(&written).contains(foreign::misleads));
    read_provenance(bytes).is_ok()
}

/// Reads the description of a composed figure, makes its panels of built-in studies, and reads back what a figure's file would contain of
/// it. True if no part of it is left out.
pub fn composed(bytes: &[u8]) -> bool {
    let file = match CompositionFile::parse(&String::from_utf8_lossy(bytes), "fuzzed") {
        Ok(file) => file,
        Err(error) => {
            assert!(!error.is_empty());
            return false;
        }
    };
    let mut problems = file.problems.clone();
    let mut composition = file.composition.clone();
    let mut is_whole = true;
    for table in &file.panels {
        match file.panel(table, table.sessions.clone(), &[]) {
            Ok((panel, wrong)) => {
                composition.panels.push(panel);
                problems.extend(wrong);
            }
            Err(error) => {
                assert!(!error.is_empty());
                is_whole = false;
            }
        }
    }
    assert!(problems.iter().all(|problem| !problem.to_string().is_empty()));
    let written = serde_json::to_string(&composition).unwrap();
    assert_eq!(serde_json::from_str::<Composition>(&written).unwrap(), composition, "{written}");
    is_whole && problems.is_empty()
}

/// Takes what a relay says of a session, from its greeting on. Whatever it is, it stays in the copy, takes no more space than it has
/// bytes, and is harmless to show.
pub fn relay(bytes: &[u8]) -> bool {
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

/// Reads what a program says, in two parts, as its runner does. What the log of its run then holds can be read back. True if steps or
/// readings were found and nothing was left out.
pub fn said_by_a_program(bytes: &[u8], file: Option<&str>) -> bool {
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

/// Reads an event file of TensorBoard whose checksums fit, so that what is in its records is looked at.
pub fn event_file(bytes: &[u8]) -> bool {
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
pub fn model_file(bytes: &[u8], name: &str) -> bool {
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

/// Reads the header of weights, whose length and numbers are whole.
pub fn weights(bytes: &[u8]) -> bool {
    const NUMBERS_BYTES: usize = 98_944;
    let mut file = (bytes.len() as u64).to_le_bytes().to_vec();
    file.extend(bytes);
    file.resize(file.len() + NUMBERS_BYTES, 0);
    model_file(&file, "model.safetensors")
}

/// Reads results of another program, and makes runs of them with the deduced mapping. All values that are taken must be
/// finite, and a mapping that is written must be read as the same.
pub fn imported(bytes: &[u8]) -> bool {
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
pub fn node() -> serde_json::Value {
    serde_json::json!({
        "hostname": "node", "system": "Linux", "cpu_model": "CPU", "cpus": 2, "memory_bytes": 1_u64 << 34, "numa_nodes": 1,
        "driver": null, "no_gpu_reason": "no driver", "gpus": [], "nsys": {"Err": "none"}, "worker": {"Err": "none"},
    })
}
