//! What the changes of each parser's input start from: the files of a session, shipped plans, golden files and made-up lines.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use multicard::figure::paper::{Provenance, read_provenance};
use multicard::figure::presets;
use multicard::store::export_session;
use tempfile::TempDir;

use super::parsers::node;
use super::seeded::{files, seeds, session};

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
pub fn corpus() -> BTreeMap<&'static str, Vec<Vec<u8>>> {
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
    add(
        "composed",
        b"version = 1\ncolumns = 2\nwidth = \"page\"\nshare = [\"legend\", \"y\"]\n[[panel]]\nsession = \"a\"\npreset = \"loss\"\nlog = true\n\
          [panel.overrides]\nlegend = \"off\"\n[[panel]]\nsession = [\"a\", \"../b\"]\ntitle = \"B\"\nspan = 2\nform = \"scaling\"\n",
    );
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
    let (small, place) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let out = place.path().join("session.zip");
    fs::copy(session.path().join("session.toml"), small.path().join("session.toml")).unwrap();
    fs::write(small.path().join("journal.jsonl"), "").unwrap();
    for folder in [small.path(), session.path()] {
        export_session(folder, &out, &mut |_, _| ControlFlow::Continue(())).unwrap();
        add("archive", &fs::read(&out).unwrap());
        fs::remove_file(&out).unwrap();
    }
    corpus
}
