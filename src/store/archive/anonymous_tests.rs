#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::plan::{Interactions, Key};
use crate::store::{Reader, RunRecord, export_anonymous, import_session, number_of, rebuild};

/// Texts that tell who or where somebody is, or open something that is theirs.
const SECRETS: [&str; 42] = [
    "alice.smith@example.org",
    "alice",
    "Alice Sérénité Smith",
    "node7.secret-lab.example",
    "gpu-box-alice",
    "10.20.30.40",
    "fe80::1ff:fe23:4567:890a",
    "00:1a:2b:3c:4d:5e",
    "/home/alice/thesis/train.py",
    "~alice/run.sh",
    "secret-project/data/train.csv",
    "..\\alice\\train.csv",
    "C:\\Users\\alice\\secret.csv",
    "\\\\fileserver\\alice\\secret",
    "secret_dataset_v2.parquet",
    "https://alice:hunter2@example.org/repo.git",
    "git@example.org:alice/secret.git",
    "s3://secret-bucket/alice",
    "postgres://alice:hunter2@db.example.org/runs",
    "registry.example.org/alice/secret:latest",
    "AKIAIOSFODNN7EXAMPLE",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH",
    "sk-proj-abcdefghijklmnopqrstuvwxyz012345",
    "xoxb-1234-5678-abcdefghijkl",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2VjcmV0",
    "-----BEGIN OPENSSH PRIVATE KEY-----",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKey alice@box",
    "WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567",
    "password: hunter2",
    "6f1ed002ab5595859014ebf0951522d9a1b2c3d4",
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "550e8400-e29b-41d4-a716-446655440000",
    "GPU-5a7f0d7e-01b2-4c3d-8e9f-0123456789ab",
    "4111111111111111",
    "+1 555 0100 199",
    "078-05-1120",
    "DE89370400440532013000",
    "52.520008, 13.404954",
    "File \"train.py\", line 7\nValueError: token=hunter2",
    "sh -c 'curl -H \"Authorization: Bearer hunter2\" example.org'",
];

fn golden(folder: &Path, name: &str) -> PathBuf {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/sessions");
    let (archive, session) = (folder.join("golden.zip"), folder.join(name));
    let packed = File::open(kept.join(format!("{name}.zip.gz"))).unwrap();
    io::copy(&mut GzDecoder::new(packed), &mut File::create(&archive).unwrap()).unwrap();
    import_session(&archive, &session, &mut |_, _| ControlFlow::Continue(())).unwrap();
    session
}

/// Files of a session, by their paths.
fn files(session: &Path) -> Vec<String> {
    let runs = fs::read_dir(session.join("runs")).unwrap().flatten();
    let logs = runs.flat_map(|run| fs::read_dir(run.path()).unwrap().flatten().map(|file| file.path()));
    let name = |path: PathBuf| path.strip_prefix(session).unwrap().to_str().unwrap().to_owned();
    let mut files: Vec<String> = logs.map(name).chain(["journal.jsonl", "session.toml"].map(str::to_owned)).collect();
    files.retain(|path| is_log(path));
    files.sort();
    files
}

/// Calls `each` with the path of every text, and of every key.
fn plant(value: &Value, each: &mut dyn FnMut(&[usize], bool)) {
    fn walk(value: &Value, path: &mut Vec<usize>, each: &mut dyn FnMut(&[usize], bool)) {
        let inner: Vec<&Value> = match value {
            Value::String(_) => {
                each(path, false);
                return;
            }
            Value::Array(all) => all.iter().collect(),
            Value::Object(fields) => fields.values().collect(),
            _ => return,
        };
        for (at, inner) in inner.into_iter().enumerate() {
            path.push(at);
            if value.is_object() {
                each(path, true);
            }
            walk(inner, path, each);
            path.pop();
        }
    }
    walk(value, &mut Vec::new(), each);
}

/// Each place of a value with each secret; of a large value, each with one of them.
fn plants(value: &Value) -> Vec<(Vec<usize>, bool, &'static str)> {
    let mut places = Vec::new();
    plant(value, &mut |path, is_key| places.push((path.to_vec(), is_key)));
    let secrets_each = if places.len() > 60 { 1 } else { SECRETS.len() };
    let with_secrets = places.into_iter().enumerate().flat_map(|(number, (path, is_key))| {
        let secrets = SECRETS.into_iter().cycle().skip(number).take(secrets_each);
        secrets.map(move |secret| (path.clone(), is_key, secret))
    });
    with_secrets.collect()
}

fn put(value: &mut Value, path: &[usize], is_key: bool, secret: &str) {
    match (value, path) {
        (Value::Object(fields), [at]) if is_key => {
            let key = fields.keys().nth(*at).unwrap().clone();
            let kept = fields.remove(&key).unwrap();
            fields.insert(secret.to_owned(), kept);
        }
        (Value::Object(fields), [at, rest @ ..]) => put(fields.values_mut().nth(*at).unwrap(), rest, is_key, secret),
        (Value::Array(all), [at, rest @ ..]) => put(&mut all[*at], rest, is_key, secret),
        (value, _) => *value = Value::String(secret.to_owned()),
    }
}

/// What a line has, without its values: lines of one shape need one test.
fn shape(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let tag = ["decision", "event"].iter().find_map(|key| fields.get(*key)).map(Value::to_string);
            let inner: Vec<String> = fields.iter().map(|(key, value)| format!("{key}:{}", shape(value))).collect();
            format!("{tag:?}{{{}}}", inner.join(","))
        }
        Value::Array(all) => all.first().map_or_else(|| "[]".to_owned(), |first| format!("[{}]", shape(first))),
        Value::String(_) => "s".to_owned(),
        _ => "n".to_owned(),
    }
}

fn finds(written: &str, secret: &str) -> bool {
    let escaped = serde_json::to_string(secret).unwrap();
    written.contains(secret) || written.contains(escaped.trim_matches('"'))
}

/// Lines that the kept sessions lack.
const MORE: [(Kind, &str); 9] = [
    (Kind::Journal, r#"{"time_s":1,"decision":"noted","run":"0001-978cbae2-1","note":"n"}"#),
    (Kind::Journal, r#"{"time_s":1,"decision":"study_saved","name":"n","study":{"measure":"m"}}"#),
    (Kind::Journal, r#"{"time_s":1,"decision":"study_deleted","name":"n"}"#),
    (
        Kind::Journal,
        r#"{"time_s":1,"decision":"searched","plan":"p1","step":{"step":"begun","candidates":["c"],"first_repeat":1}}"#,
    ),
    (Kind::Journal, r#"{"time_s":1,"decision":"run_ended","run":"0001-978cbae2-1","state":"failed","reason":"r"}"#),
    (Kind::Events, r#"{"run":"0001-978cbae2-1","rank":0,"time_s":1,"event":"warning","message":"m"}"#),
    (Kind::Events, r#"{"run":"0001-978cbae2-1","rank":0,"time_s":1,"event":"failed","kind":"engine","message":"m"}"#),
    (Kind::Events, r#"{"run":"0001-978cbae2-1","rank":0,"time_s":1,"event":"reading","key":"own","value":1}"#),
    (Kind::Group, r#"{"time_s":1,"event":"rank_not_started","rank":0,"reason":"r"}"#),
];

#[test]
fn no_secret_in_any_field_or_key_is_in_an_anonymous_archive() {
    let folder = TempDir::new().unwrap();
    let mut lines: Vec<(Kind, Value)> =
        MORE.iter().map(|(kind, line)| (*kind, serde_json::from_str(line).unwrap())).collect();
    let mut shapes = HashSet::new();
    for name in ["commands", "traced", "ranks"] {
        let session = golden(folder.path(), name);
        for path in files(&session) {
            let kind = Kind::of(&path).unwrap();
            let text = fs::read_to_string(session.join(&path)).unwrap();
            if kind == Kind::Session {
                continue;
            }
            let whole = [text.as_str()];
            let texts: Vec<&str> = if kind == Kind::Job { whole.into() } else { text.lines().collect() };
            for text in texts {
                let value: Value = serde_json::from_str(text).unwrap();
                if shapes.insert(shape(&value)) {
                    lines.push((kind, value));
                }
            }
        }
    }
    assert!(lines.len() > 30, "{}", lines.len());
    let mut names = Pseudonyms::new([]);
    let mut planted_count = 0;
    for (kind, line) in &lines {
        for (path, is_key, secret) in plants(line) {
            let mut changed = line.clone();
            put(&mut changed, &path, is_key, secret);
            let text = changed.to_string();
            let written = match kind {
                Kind::Job => names.job(&text).unwrap_or_default(),
                _ => serde_json::to_string(&names.line(*kind, text.as_bytes()).unwrap_or_default()).unwrap(),
            };
            assert!(!finds(&written, secret), "{secret} at {path:?} of {text}: {written}");
            planted_count += 1;
        }
    }
    assert!(planted_count > 5_000, "{planted_count}");
}

#[test]
fn no_secret_in_the_description_of_a_machine_or_in_a_plan_is_in_an_anonymous_archive() {
    let folder = TempDir::new().unwrap();
    let session = golden(folder.path(), "traced");
    let text = fs::read_to_string(session.join("session.toml")).unwrap();
    let file: Value = serde_json::to_value(toml::from_str::<toml::Value>(&text).unwrap()).unwrap();
    let plan = r#"version = 1
name = "mine"
[command]
name = "solve"
run = ["./solve", "--threads={threads}", "--mode={kind}"]
setup = ["make"]
folder = "work"
unit = "cases"
[command.env]
TOKEN = "t"
[command.readings]
patterns = ['loss (?<loss>\S+)']
[command.measures.residual]
name = "Residual"
unit = "r"
[factors]
threads = [1, 2]
kind = ["fast", "slow"]
[[constraint]]
exclude = "threads = 2"
reason = "why"
"#;
    assert!(Plan::parse(plan, "plan").is_ok(), "{:?}", Plan::parse(plan, "plan"));
    let plan: Value = serde_json::to_value(toml::from_str::<toml::Value>(plan).unwrap()).unwrap();
    for (is_plan, value) in [(false, file), (true, plan)] {
        let mut names = Pseudonyms::new([]);
        for (path, is_key, secret) in plants(&value) {
            let mut changed = value.clone();
            put(&mut changed, &path, is_key, secret);
            let text = toml::to_string(&serde_json::from_value::<toml::Value>(changed).unwrap()).unwrap();
            let written =
                if is_plan { names.plan_text(&text, "plan") } else { names.session_file(&text).unwrap_or_default() };
            assert!(!finds(&written, secret), "{secret} at {path:?}: {written}");
        }
    }
}

#[test]
fn checks_and_designs_of_an_anonymous_plan_are_those_of_the_plan() {
    const PLAN: &str = r#"version = 1
name = "mine"
aa = true
order = "sequential"
[where]
site = "lab"
jobs = "one-allocation"
[limits]
exclusive = false
[check]
quality = "2 %"
val_loss = 0.005
[command]
name = "solve"
run = ["./solve", "--threads={threads}", "--kind={kind}", "--tile={tile}"]
[command.factor.tile]
name = "Tile"
help = "how much a thread solves"
[command.measures.quality]
better = "higher"
[factors]
threads = [1, 2]
kind = ["fast", "slow"]
tile = [8, 16]
gpu_set = "0,2"
"#;
    for (design, has_pairs) in [
        ("kind = 'fraction'\nruns = 4\n[[design.add]]\nkind = 'fold-over'\nfactor = 'tile'\n", false),
        ("kind = 'one-at-a-time'\nbase = { kind = 'slow', tile = 16 }\n", false),
        ("kind = 'latin-hypercube'\nruns = 9\nlog = ['tile']\n", false),
        ("kind = 'd-optimal'\nminutes = 30\nrun_s = 20\ninteractions = [['threads', 'kind']]\n", true),
        ("kind = 'plackett-burman'\ninteractions = 'all'\n", false),
    ] {
        let text = format!("{PLAN}[design]\n{design}");
        let plan = Plan::parse(&text, "plan").unwrap();
        let mut names = Pseudonyms::new([]);
        let written = names.plan_text(&text, "plan");
        let read = Plan::parse(&written, "plan").unwrap();
        let checked: Vec<_> = plan.checked.iter().map(|one| (names.word(&one.measure), one.margin)).collect();
        let own: Vec<_> = read.checked.iter().map(|one| (one.measure.to_string(), one.margin)).collect();
        assert_eq!(own, checked, "{written}");
        assert_ne!(checked[0].0, "quality");
        let (before, after) = (plan.first.design.unwrap(), read.first.design.unwrap());
        assert_eq!((before.kind, before.size), (after.kind, after.size), "{written}");
        assert_eq!((before.base.len(), before.added.len()), (after.base.len(), after.added.len()), "{written}");
        assert_eq!(before.logarithmic.len(), after.logarithmic.len(), "{written}");
        match &after.interactions {
            Interactions::These(pairs) if has_pairs => {
                assert_eq!(pairs[0], (Key::from(&*names.word("threads")), Key::from("kind")));
            }
            interactions => assert_eq!(interactions, &before.interactions),
        }
        assert_eq!((read.aa, read.order, read.one_allocation), (true, plan.order, true), "{written}");
        assert!(!read.limits.exclusive && !written.contains("lab") && !written.contains("solve"), "{written}");
    }
}

#[test]
fn an_anonymous_mapping_of_imported_runs_says_which_column_numbers_repeats() {
    let text =
        "name = \"sorting\"\n[columns]\nalice = \"factor\"\nbob = \"repeat\"\nslow = \"measure ms lower as eve\"\n";
    let written = Pseudonyms::new([]).plan_text(text, "alice.csv");
    assert_eq!(numbers_repeats(&written), Some(true), "{written}");
    assert!(["alice", "bob", "slow", "eve", "sorting"].iter().all(|secret| !written.contains(secret)), "{written}");
}

#[test]
fn an_anonymous_session_has_the_numbers_the_states_and_plans_that_can_be_read() {
    let folder = TempDir::new().unwrap();
    for name in ["commands", "traced", "ranks", "cells"] {
        let from = golden(folder.path(), name);
        let (archive, to) =
            (folder.path().join(format!("{name}.zip")), folder.path().join(format!("{name}-anonymous")));
        export_anonymous(&from, &archive, [], &mut |_, _| ControlFlow::Continue(())).unwrap();
        import_session(&archive, &to, &mut |_, _| ControlFlow::Continue(())).unwrap();
        let [before, after] = [&from, &to].map(|session| rebuild(session, &mut |_, _| {}).unwrap());
        assert_eq!((before.runs, before.damaged), (after.runs, after.damaged), "{name}");
        let records = |session: &Path| -> Vec<RunRecord> {
            let reader = Reader::open(session).unwrap();
            reader.runs().unwrap().iter().map(|record| reader.run(&record.run).unwrap().unwrap()).collect()
        };
        let numbers = |record: RunRecord| {
            let ranks: Vec<_> = record.ranks.iter().map(|rank| (rank.steps.clone(), rank.readings.len())).collect();
            // What is not a number is not equal to itself; its text is.
            let recorded = record.trace.as_ref().map(std::mem::discriminant);
            let number = number_of(&record.run).to_owned();
            let facts = (number, record.state, record.repeat, record.levels.iter().count());
            format!("{:?}", (facts, recorded, ranks))
        };
        let cells = |session: &Path| records(session).into_iter().map(|record| record.cell).collect::<Vec<_>>();
        let [ids, replaced] = [&from, &to].map(|session| cells(session));
        let first =
            |ids: &[String]| -> Vec<_> { ids.iter().map(|id| ids.iter().position(|other| other == id)).collect() };
        assert_eq!(first(&ids), first(&replaced), "{name}: runs of one cell stay together");
        assert!(replaced.iter().all(|id| !ids.contains(id)), "{name}: no checksum of levels is left");
        let [before, after] = [&from, &to].map(|session| records(session).into_iter().map(numbers).collect::<Vec<_>>());
        assert_eq!(before, after, "{name}");
        let reader = Reader::open(&to).unwrap();
        for (plan, name, text) in reader.plans().unwrap() {
            let brought = reader.brought_workloads(&plan).unwrap();
            let read = Plan::parse_with(&text, &name, &brought);
            assert!(read.is_ok(), "{read:?} of {text}");
        }
    }
}

#[test]
fn what_is_known_of_imported_cells_follows_their_ids() {
    let mut names = Pseudonyms::new([]);
    let steps = ["alice", "978cbae2"].map(|cell| (cell.to_owned(), Tree::Integer(60)));
    let written = names.value("written_steps", Tree::Object(steps.into()));
    let cell = names.text("cell", "alice");
    assert_ne!(cell, "alice");
    assert_eq!(serde_json::to_string(&written).unwrap(), format!("{{\"{cell}\":60,\"00000001\":60}}"));
    for list in ["recurring_cells", "dependent_cells", "declared_cells"] {
        let cells = Tree::Array(vec![Tree::Text("alice".to_owned())]);
        assert_eq!(serde_json::to_string(&names.value(list, cells)).unwrap(), format!("[\"{cell}\"]"), "{list}");
    }
}

#[test]
fn what_differed_differs_still_and_what_was_the_same_is_the_same() {
    let mut names = Pseudonyms::new(["test_loss".to_owned()]);
    assert_eq!(names.word("/home/alice/a"), "/path-1");
    assert_eq!(names.word("/home/alice/b"), "/path-2");
    assert_eq!(names.word("/home/alice/a"), "/path-1");
    assert_eq!(
        (names.word("alice"), names.word("bob"), names.word("alice")),
        ("text_1".into(), "text_2".into(), "text_1".into())
    );
    assert_eq!(
        (names.word("test_loss"), names.word("precision"), names.word("fp16")),
        ("test_loss".into(), "precision".into(), "fp16".into())
    );
    assert_eq!(names.word("--batch={alice}"), "text_3{text_1}");
    assert_eq!(names.path("runs/0001-978cbae2-1/rank-0.jsonl"), "runs/0001-00000001-1/rank-0.jsonl");
    assert_eq!(names.path("runs/bob/rank-0.jsonl"), "runs/text_2/rank-0.jsonl");
    for (field, kept) in [
        ("file", "trace.events"),
        ("schema_version", "built-in 1"),
        ("schema_version", "PyTorch profiler 1"),
        ("schema_version", "3.14.1"),
        ("cpus", "96"),
        ("gpu_power_limit_w", "700"),
        ("device", "NVIDIA H100 80GB HBM3"),
    ] {
        assert_eq!(names.text(field, kept), kept, "{field}");
    }
    assert_eq!(["alice-1", "alice-2", "alice-1"].map(|name| names.text("hostname", name)), ["host", "host_2", "host"]);
    assert_eq!(["B/s", "FLOP/s", "count"].map(|unit| names.text("unit", unit)), ["B/s", "FLOP/s", "count"]);
    assert_eq!(names.text("file", "alice.nsys-rep"), "text_4");
    assert_eq!(names.text("schema_version", "alice"), "text_1");
}

#[test]
fn the_checksum_of_a_cells_levels_is_replaced_by_the_same_number_wherever_it_occurs() {
    let mut names = Pseudonyms::new([]);
    let ids = [
        ("cell", "978cbae2", "00000001"),
        ("run", "0001-978cbae2-1", "0001-00000001-1"),
        ("beside", "0002-51a1b427-3", "0002-00000002-3"),
        ("name", "0031-51a1b427-nsys-1", "0031-00000002-nsys-1"),
        ("cell", "978cbae2-built-in", "00000001-built-in"),
        ("recurring_cells", "978cbae2978cbae2", "00000003"),
        ("declared_cells", "51a1b427", "00000002"),
    ];
    for (field, id, replaced) in ids {
        assert_eq!(names.text(field, id), replaced, "{field}");
        assert!(words::is_cell(replaced) || words::run_parts(replaced).is_some(), "{replaced} has the form of an id");
    }
}

#[test]
fn only_logs_are_kept() {
    for kept in [
        "session.toml",
        "journal.jsonl",
        "runs/r1/rank-0.jsonl",
        "runs/r1/job.json",
        "runs/r1/samples.jsonl",
        "runs/r1/group.jsonl",
    ] {
        assert!(is_log(kept), "{kept}");
    }
    for left in [
        "runs/r1/stderr.log",
        "runs/r1/group.out",
        "runs/r1/readings.jsonl",
        "runs/r1/report.sqlite",
        "runs/r1/model/a.json",
        "notes.txt",
        "queue.json",
    ] {
        assert!(!is_log(left), "{left}");
    }
}

#[test]
fn readers_are_shown_that_a_text_was_replaced_and_every_other_text_as_it_is() {
    let mut names = Pseudonyms::new(Vec::new());
    for secret in ["weights in folder of alice", "/home/alice/run.sh"] {
        let replacement = names.word(secret);
        assert_eq!(shown_text(&replacement), "left out: the archive is anonymous", "{replacement}");
        assert_eq!(shown_text(secret), secret);
    }
    assert_eq!(
        ["text_", "text_long", "/path-1/a", "per_rank"].map(shown_text),
        ["text_", "text_long", "/path-1/a", "per_rank"]
    );
    let host = |hostname: &str, system: &str| {
        let node = Node { hostname: hostname.into(), system: system.into(), ..crate::plan::fixture::cpu_node() };
        shown_host(&node).to_owned()
    };
    assert_eq!([host("host", "text_44"), host("host_2", "text_44")], ["left out: the archive is anonymous"; 2]);
    assert_eq!([host("host", "Linux 6.8"), host("hostel", "text_44")], ["host", "hostel"]);
}

#[test]
fn an_event_is_kept_without_the_piece_of_another_line_before_it() {
    let mut names = Pseudonyms::new([]);
    let event = r#"{"run":"0001-978cbae2-1","rank":0,"time_s":1.0,"event":"phase","phase":"load"}"#;
    let joined = format!(r#"{{"run":"0001-978cbae2-1","rank":1,"secret{event}"#);
    let [alone, after] = [event, &joined].map(|line| {
        let line = names.line(Kind::Events, line.as_bytes());
        serde_json::to_string(&line.unwrap()).unwrap()
    });
    assert!(alone.contains("load"), "{alone}");
    assert_eq!(alone, after);
}
