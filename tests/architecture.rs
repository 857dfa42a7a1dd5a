//! Which room may use which: reads the paths in `src/` and enforces the lists below.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use multicard::plan::{self, Domain};

mod source;

/// Each room and the rooms it may use.
const ROOMS: &[(&str, &[&str])] = &[
    ("foreign", &[]),
    ("plan", &["foreign"]),
    ("protocol", &["plan", "foreign"]),
    ("dataset", &["foreign", "plan"]),
    ("processes", &["foreign"]),
    ("program", &["foreign", "plan", "protocol", "processes", "analysis", "trace"]),
    ("launch", &["foreign", "plan", "protocol", "processes"]),
    ("telemetry", &["plan", "protocol", "processes"]),
    ("setup", &["foreign", "dataset", "launch"]),
    ("store", &["foreign", "plan", "protocol"]),
    ("statistics", &[]),
    ("text_table", &["foreign"]),
    ("trace", &["foreign", "plan", "protocol", "statistics", "text_table"]),
    ("analysis", &["plan", "protocol", "store", "statistics"]),
    ("papers", &["plan", "analysis"]),
    ("figure", &["foreign", "plan", "analysis", "papers", "text_table"]),
    ("export", &["foreign", "plan", "protocol", "store", "analysis", "text_table"]),
    ("import", &["foreign", "plan", "protocol", "store", "statistics", "analysis"]),
    (
        "session",
        &["foreign", "plan", "protocol", "dataset", "program", "launch", "telemetry", "store", "trace", "analysis"],
    ),
    ("conduct", &["foreign", "plan", "processes", "launch", "session"]),
    ("remote", &["foreign", "plan", "protocol", "conduct", "session", "store", "telemetry"]),
    (
        "app",
        &[
            "conduct",
            "remote",
            "foreign",
            "plan",
            "protocol",
            "dataset",
            "program",
            "launch",
            "telemetry",
            "store",
            "trace",
            "analysis",
            "papers",
            "figure",
            "export",
            "import",
            "session",
        ],
    ),
    (
        "cli",
        &[
            "app",
            "conduct",
            "remote",
            "foreign",
            "plan",
            "protocol",
            "dataset",
            "program",
            "launch",
            "telemetry",
            "store",
            "trace",
            "analysis",
            "papers",
            "figure",
            "export",
            "import",
            "session",
            "setup",
            "text_table",
            "processes",
        ],
    ),
    ("worker", &["foreign", "plan", "protocol", "dataset", "analysis", "trace"]),
];

/// Crates that only some rooms may use.
const CRATES: &[(&str, &[&str])] = &[
    ("rusqlite", &["store", "trace"]),
    ("parquet", &["dataset", "export"]),
    ("nvml_wrapper", &["telemetry"]),
    ("tch", &["worker"]),
    ("torch_sys", &["worker"]),
    ("clap", &["cli"]),
    ("indicatif", &["cli"]),
    ("ureq", &["dataset"]),
    ("eframe", &["app"]),
    ("egui_plot", &["app"]),
    ("egui_table", &["app"]),
    ("poll_promise", &["app"]),
    ("rfd", &["app"]),
    ("zbus", &["conduct"]),
    ("zip", &["store", "setup"]),
    ("krilla", &["figure"]),
    ("tiny_skia", &["figure"]),
    ("harfrust", &["figure"]),
    ("subsetter", &["figure"]),
];

/// Rooms that implement workloads, or are about some of them. All others know no workload by name.
const KNOW_WORKLOADS: &[(&str, &str)] = &[
    ("plan", "workloads are values of this room"),
    ("dataset", "implements the data sets that workloads declare"),
    ("worker", "implements the tasks of workloads"),
    ("papers", "the papers are about two of the workloads"),
];

/// Modules of other rooms that name factors or levels, each with its reason.
const NAME_FACTORS: &[(&str, &str)] = &[
    ("figure/built_in", "the studies of the papers' figures and tables"),
    ("figure/sibling", "the columns of the papers' tables"),
    ("import/amount", "words of the columns of other programs"),
];

/// Keys and levels that are words of these rooms too, with other meanings.
const ORDINARY_WORDS: &[&str] = &[
    "adamw",
    "all",
    "collectives",
    "conv",
    "copies",
    "device",
    "gpus",
    "gpus_per_node",
    "host",
    "kernels",
    "loop",
    "model",
    "nodes",
    "numa",
    "off",
    "on",
    "optimizer",
    "per_rank",
    "plain",
    "rows",
    "run",
    "training",
];

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Every file of `src/` with the room it belongs to.
fn files_by_room() -> Vec<(String, PathBuf)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&source, &mut files);
    let room = |file: &PathBuf| {
        let first = file.strip_prefix(&source).unwrap().components().next().unwrap();
        first.as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned()
    };
    files.into_iter().map(|file| (room(&file), file)).collect()
}

/// The code of a file without its comments.
fn code(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    text.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

/// The first segments of paths that start with `prefix`, such as `plan` in `crate::plan::Level`; braces after
/// the prefix are looked into.
fn used(code: &str, prefix: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (start, _) in code.match_indices(prefix) {
        let before = code[..start].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = &code[start + prefix.len()..];
        let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
        if let Some(list) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut fresh = true;
            for (at, c) in list.char_indices() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => fresh = true,
                    c if fresh && !c.is_whitespace() => {
                        names.insert(word(&list[at..]));
                        fresh = false;
                    }
                    _ => {}
                }
            }
        } else {
            names.insert(word(rest));
        }
    }
    names
}

#[test]
fn rooms_use_only_the_rooms_they_may() {
    let mut offences = Vec::new();
    for (room, file) in files_by_room() {
        let Some((_, allowed)) = ROOMS.iter().find(|(name, _)| *name == room) else { continue };
        // The worker is a binary of its own: to it, the library is `multicard`, and `crate` is itself.
        let prefix = if room == "worker" { "multicard::" } else { "crate::" };
        for name in used(&code(&file), prefix) {
            let is_room = ROOMS.iter().any(|(other, _)| *other == name);
            if is_room && name != room && !allowed.contains(&name.as_str()) {
                offences.push(format!("{}: {room} may not use {name}", file.display()));
            }
        }
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

#[test]
fn every_file_belongs_to_a_room() {
    for (room, file) in files_by_room() {
        let known = room == "lib" || room == "main" || ROOMS.iter().any(|(name, _)| *name == room);
        assert!(known, "{} belongs to no room that this test knows", file.display());
    }
}

#[test]
fn crates_stay_in_their_rooms() {
    let mut offences = Vec::new();
    for (room, file) in files_by_room() {
        let code = code(&file);
        for (name, rooms) in CRATES {
            let uses = !used(&code, &format!("{name}::")).is_empty() || code.contains(&format!("use {name};"));
            if uses && !rooms.contains(&room.as_str()) {
                offences.push(format!("{}: {name} belongs to {}", file.display(), rooms.join(", ")));
            }
        }
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

#[test]
fn the_workbench_does_not_need_libtorch() {
    let output = Command::new("readelf").args(["-d", env!("CARGO_BIN_EXE_multicard")]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("NEEDED"), "readelf says nothing: {}", String::from_utf8_lossy(&output.stderr));
    let torch: Vec<_> = text.lines().filter(|line| line.contains("NEEDED") && line.contains("torch")).collect();
    assert!(torch.is_empty(), "{torch:?}");
}

/// What names a workload in code: its module in `plan` and the types of its levels; its key, the keys of its factors and their levels
/// as texts.
fn names_of_workloads() -> (BTreeSet<String>, BTreeSet<String>) {
    let mut texts = BTreeSet::new();
    for spec in plan::workloads() {
        texts.insert(spec.key.to_string());
        for factor in &spec.factors {
            texts.insert(factor.key.to_string());
            if let Domain::Names(names) = &factor.domain {
                texts.extend(names.iter().map(ToString::to_string));
            }
        }
    }
    for word in ORDINARY_WORDS {
        assert!(texts.remove(*word), "{word:?} names nothing of a workload: take it off the list");
    }
    let modules = plan::workloads().iter().map(|spec| spec.key.to_string());
    (modules.chain(["Kernels", "OptimizerImpl", "Passes"].map(str::to_owned)).collect(), texts)
}

/// What of a module's code names a workload.
fn named_workloads(code: &str, paths: &BTreeSet<String>, texts: &BTreeSet<String>) -> Vec<String> {
    let used: BTreeSet<String> = ["crate::plan::", "plan::"].iter().flat_map(|prefix| used(code, prefix)).collect();
    let in_paths = paths.intersection(&used).map(|name| format!("plan::{name}"));
    let in_texts = texts.iter().map(|text| format!("\"{text}\"")).filter(|text| code.contains(text.as_str()));
    in_paths.chain(in_texts).collect()
}

#[test]
fn rooms_between_plan_and_worker_know_no_workload_by_name() {
    let (paths, texts) = names_of_workloads();
    let (mut offences, mut excused) = (Vec::new(), BTreeSet::new());
    for module in source::modules("lib.rs") {
        let Some(room) = module.path.first() else { continue };
        if KNOW_WORKLOADS.iter().any(|(known, _)| known == room) {
            continue;
        }
        let named = named_workloads(&module.code, &paths, &texts);
        let path = module.path.join("/");
        let excuse = NAME_FACTORS.iter().find(|(module, _)| *module == path);
        match excuse {
            Some((module, _)) if !named.is_empty() => drop(excused.insert(*module)),
            _ => offences.extend(named.iter().map(|name| format!("src/{path}.rs: {name}"))),
        }
    }
    assert!(offences.is_empty(), "let a hint of the factor or the workload say it:\n{}", offences.join("\n"));
    for (module, reason) in NAME_FACTORS {
        assert!(excused.contains(module), "src/{module}.rs ({reason}) names none any more: take it off the list");
    }
}

#[test]
fn names_of_workloads_are_found_in_paths_and_texts() {
    let (paths, texts) = names_of_workloads();
    let named = |code: &str| named_workloads(code, &paths, &texts);
    assert_eq!(named("use crate::plan::{Level, image::Strategy, llm};"), ["plan::image", "plan::llm"]);
    assert_eq!(named("if plan::image::KEY == key {}"), ["plan::image"]);
    assert_eq!(
        named(r#"let is_llm = key == "llm" && levels.get("precision") == "fp16";"#),
        [r#""fp16""#, r#""llm""#, r#""precision""#]
    );
    assert!(named("use image::RgbaImage; let precision = 0.01;").is_empty());
}

#[test]
fn used_names_are_found_in_lists_and_paths() {
    let names =
        used("use crate::{plan::{Level, Node}, store};\nlet a = crate::launch::place();\nmy_crate::x();", "crate::");
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["launch", "plan", "store"]);
}
