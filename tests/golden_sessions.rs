//! Sessions and figures that version 0.1 wrote, and one of commands, which are younger, kept in `tests/golden/sessions`: they open in every later version, their numbers
//! stay what they were bit for bit, and resuming them runs nothing anew. Words may change; what is compared is numbers and
//! structure. Since 0.1 these are defined anew, and `src/analysis` has its own golden numbers for them: intervals of six and more
//! repeats (0.1: bootstrap), ratios of several repeats (0.1: of their medians), the table and the points of `effects`. Measures of
//! memory that are the same in every cell are one bar now, and a loss of one epoch is drawn over steps or said. Tables may have more
//! columns. Rates that are whole numbers have no verdict any more, and runs without steps that count may be `contended` (`commands`).
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use multicard::store::{Decision, Reader, Store};
use serde_json::Value;
use tempfile::TempDir;

mod compared;
#[cfg(feature = "torch")]
mod executable;
mod seeded;
#[cfg(feature = "torch")]
mod training;

use compared::Comparison;
use seeded::{command, gunzip, succeed};

fn golden_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/sessions")
}

/// The names of the archives.
fn names() -> Vec<String> {
    let files = fs::read_dir(golden_folder()).unwrap().map(|entry| entry.unwrap().path());
    let names = files.filter_map(|file| Some(file.file_name()?.to_str()?.strip_suffix(".json.gz")?.to_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// An archive, imported into a folder that goes with this value.
struct Golden {
    folder: TempDir,
    session: PathBuf,
    /// What 0.1 said of it.
    expected: Value,
}

impl Golden {
    fn import(name: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let session = seeded::golden(folder.path(), name);
        let expected = gunzip(&golden_folder().join(format!("{name}.json.gz")));
        let expected = serde_json::from_reader(expected).unwrap();
        Self { folder, session, expected }
    }

    /// Its runs as 0.1 listed them and as they are listed now: id, state, cell, repeat.
    fn runs(&self) -> [Vec<(String, String, String, u64)>; 2] {
        let text = |run: &Value, key: &str| run[key].as_str().unwrap().to_owned();
        let expected = self.expected["runs"].as_array().unwrap().iter();
        let expected = expected
            .map(|run| (text(run, "run"), text(run, "state"), text(run, "cell"), run["repeat"].as_u64().unwrap()));
        let found = Reader::open(&self.session).unwrap().runs().unwrap();
        let found = found.into_iter().map(|run| {
            let state = serde_json::to_value(run.state).unwrap().as_str().unwrap().to_owned();
            (run.run.to_string(), state, run.cell.to_string(), u64::from(run.repeat))
        });
        [expected.collect(), found.collect()]
    }

    /// What this version says of it to the same arguments; nothing where there is nothing to draw.
    fn output_for(&self, arguments: &[&str]) -> Result<Value, String> {
        let (asked_for, rest) = arguments.split_first().unwrap();
        let mut asked = command(self.folder.path());
        asked.arg(asked_for).arg(&self.session).args(rest);
        if let Some(drawn) = drawn_by_0_1(rest).filter(|_| *asked_for == "figure" && !rest.contains(&"--measure")) {
            asked.args(["--measure", drawn]);
        }
        // 0.1 showed both layouts; the preset now shows that of the paper alone.
        if rest.contains(&"2505.22905/fig-9") {
            asked.args(["--filter", ""]);
        }
        let file = self.folder.path().join("figure.svg");
        if *asked_for == "table" {
            asked.args(["--format", "json"]);
        } else {
            asked.arg("--out").arg(&file);
        }
        let output = asked.output().unwrap();
        match output.status.code() {
            Some(0) if *asked_for == "table" => Ok(serde_json::json!({ "table": json(&output.stdout) })),
            Some(0) => Ok(json(
                &succeed(command(self.folder.path()).arg("figure").arg(&file).args(["--format", "json"])).stdout,
            )),
            Some(2) => Ok(Value::Null),
            _ => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }
}

/// The time that 0.1 drew for a preset which draws the training time now.
fn drawn_by_0_1(arguments: &[&str]) -> Option<&'static str> {
    let preset = arguments.iter().skip_while(|argument| **argument != "--preset").nth(1)?;
    match *preset {
        "times" | "scaling" | "effects" | "repeats" | "map" => Some("epoch_time_s"),
        "2503.15252/fig-1" | "2503.15252/fig-2" | "2503.15252/table-2" | "2503.15252/table-3" | "2505.22905/fig-6"
        | "2505.22905/fig-9" => Some("total_time_s"),
        _ => None,
    }
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

/// Does something with each session, some at a time; fails with everything that was said.
fn with_each(work: impl Fn(&str) -> Option<String> + Sync) {
    let names = names();
    assert!(names.len() >= 7, "{names:?}");
    let waiting = Mutex::new(names);
    let outputs = Mutex::new(Vec::new());
    let worker = || {
        loop {
            let Some(name) = waiting.lock().unwrap().pop() else { break };
            let differences = work(&name);
            outputs.lock().unwrap().extend(differences.map(|differences| format!("session {name}:\n{differences}")));
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
    let outputs_in_order = outputs.into_inner().unwrap();
    assert!(outputs_in_order.is_empty(), "{}", outputs_in_order.join("\n"));
}

#[test]
fn every_number_of_every_table_and_figure_is_what_it_was() {
    with_each(|name| {
        let golden = Golden::import(name);
        let mut comparison = Comparison::default();
        let expected_outputs = golden.expected["said"].as_array().unwrap();
        assert!(expected_outputs.len() > if name == "commands" { 6 } else { 50 }, "{name}: {}", expected_outputs.len());
        for expected in expected_outputs {
            let arguments: Vec<&str> =
                expected["arguments"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
            // The paper's axes put the same cells, which its table compares, in another order.
            if arguments == ["figure", "--preset", "2505.22905/fig-9"] {
                continue;
            }
            // A word is another in another figure: an axis may show epochs or levels.
            comparison.words.clear();
            match golden.output_for(&arguments) {
                Ok(found) => comparison.whole(&arguments.join(" "), expected, &found),
                Err(error) => comparison.differences.push(format!("{}: {error}", arguments.join(" "))),
            }
        }
        comparison.verdict()
    });
}

#[test]
fn every_run_is_listed_as_it_was_also_when_the_index_is_made_anew() {
    with_each(|name| {
        let golden = Golden::import(name);
        let [expected, found] = golden.runs();
        assert_eq!(expected, found, "{name}");
        assert!(!expected.is_empty(), "{name}");
        succeed(command(golden.folder.path()).args(["session", "rebuild"]).arg(&golden.session));
        let [expected, found] = golden.runs();
        assert_eq!(expected, found, "{name}, rebuilt");
        let arguments = ["table", "--preset", "times", "--traced"];
        let expected_outputs = golden.expected["said"].as_array().unwrap();
        let expected = expected_outputs
            .iter()
            .find(|expected_outputs| expected_outputs["arguments"] == serde_json::json!(arguments))
            .unwrap();
        let mut comparison = Comparison::default();
        comparison.whole("rebuilt", expected, &golden.output_for(&arguments).unwrap());
        comparison.verdict()
    });
}

#[test]
fn the_states_that_a_run_can_end_in_are_among_them() {
    let states = Golden::import("ended").runs().map(|runs| {
        let mut states: Vec<String> = runs.into_iter().map(|(_, state, ..)| state).collect();
        states.sort();
        states.dedup();
        states
    });
    for states in states {
        assert_eq!(states, ["cancelled", "failed", "finished", "interrupted", "timed_out"]);
    }
}

#[test]
fn a_figures_file_opens_and_is_made_again_from_its_session() {
    let golden = Golden::import("cells");
    let made_again = golden.output_for(&["figure", "--preset", "times"]).unwrap();
    for ending in ["svg", "png"] {
        let file = golden_folder().join(format!("times.{ending}"));
        let opened = succeed(command(golden.folder.path()).arg("figure").arg(&file).args(["--format", "json"]));
        let opened = json(&opened.stdout);
        assert_eq!(opened["table"]["rows"].as_array().unwrap().len(), 4, "{ending}");
        assert_eq!(opened["sessions"][0]["session"], "cells");
        let mut comparison = Comparison::default();
        comparison.whole(ending, &opened, &made_again);
        assert_eq!(comparison.verdict(), None);
    }
}

#[cfg(feature = "torch")]
#[test]
fn resuming_runs_nothing_anew() {
    let _alone = training::alone();
    let folder = TempDir::new().unwrap();
    // It has nothing to record; a plan with tracing is refused without one.
    let nsys = folder.path().join("nsys");
    executable::write(&nsys, "#!/bin/sh\n");
    let one_each = ["cells", "ranks", "repeats", "beside", "commands"].map(|name| (name, name));
    for (name, plan) in one_each.into_iter().chain([("traced", "plain"), ("traced", "traced"), ("ended", "plain")]) {
        let golden = Golden::import(name);
        let plan = golden_folder().join("plans").join(format!("{plan}.toml"));
        let (plan, session) = (plan.to_str().unwrap(), golden.session.to_str().unwrap());
        let mut resume = training::multicard(&["run", plan, "--session", session, "--resume"]);
        succeed(resume.env("MULTICARD_NSYS", &nsys));
        let [expected, found] = golden.runs();
        assert_eq!(expected, found, "{name}, resumed by {plan}");
    }
}

#[test]
fn a_study_that_names_what_is_gone_says_so_and_shows_everything_else() {
    let golden = Golden::import("cells");
    let session = golden.session.to_str().unwrap();
    let study = serde_json::json!({
        "measure": "tokens_per_s", "measures": ["step_time_s", "ratio", "perplexity"], "rows": "experts",
        "hidden": [["precision", "fp4"]], "filter": "experts=8 or layout=nhwc", "baseline": "0123abcd",
    });
    let store = Store::open(&golden.session).unwrap();
    store.decide(Decision::StudySaved { name: "gone".to_owned(), study }).unwrap();
    let later = serde_json::json!({ "form": "clouds" });
    store.decide(Decision::StudySaved { name: "later".to_owned(), study: later }).unwrap();
    store.flush().unwrap();
    drop(store);
    let shown = succeed(command(golden.folder.path()).args(["table", session, "--study", "gone"]));
    let shown = String::from_utf8(shown.stdout).unwrap();
    for part in ["tokens_per_s", "perplexity", "rows = experts", "filter: no cell has experts", "fp4", "0123abcd"] {
        assert!(shown.contains(part), "{part} is missing in\n{shown}");
    }
    assert_eq!(shown.lines().filter(|line| line.starts_with('|')).count(), 2 + 2, "{shown}");
    let report = golden.folder.path().join("report");
    succeed(command(golden.folder.path()).args(["report", session, "--out"]).arg(&report));
    let readme = fs::read_to_string(report.join("README.md")).unwrap();
    assert!(readme.contains("The saved study \"later\" cannot be read: ") && readme.contains("## memory"), "{readme}");
}

#[test]
fn notes_that_change_how_a_row_is_read_come_first_and_the_others_fold() {
    let golden = Golden::import("ranks");
    let session = golden.session.to_str().unwrap();
    let output_with = |more: &[&str]| {
        let arguments = [&["table", session, "--preset", "2503.15252/table-2"], more].concat();
        String::from_utf8(succeed(command(golden.folder.path()).args(arguments)).stdout).unwrap()
    };
    let notes = |text: &str| text.lines().filter(|line| line.starts_with("- ")).map(str::to_owned).collect::<Vec<_>>();
    let (folded, whole) = (notes(&output_with(&[])), notes(&output_with(&["--notes"])));
    assert!(folded[0].contains("cells of 2503.15252 Table 2"), "{folded:?}");
    let line = folded.iter().find(|line| line.ends_with(" more: --notes")).unwrap();
    let more: usize = line.trim_start_matches("- ").split(' ').next().unwrap().parse().unwrap();
    assert!(folded.len() < 12 && more > folded.len(), "{folded:?}");
    // What is said of empty columns comes with the writing.
    assert!(
        whole.len() >= more + folded.len() - 2 && whole.iter().any(|line| line.starts_with("- held: ")),
        "{whole:?}"
    );
    assert!(!folded.iter().any(|line| line.starts_with("- held: ")), "{folded:?}");
}

#[test]
fn a_reproduction_is_reported_as_markdown_as_one_page_of_html_and_as_latex() {
    let golden = Golden::import("ranks");
    let out = golden.folder.path().join("reproduction");
    succeed(command(golden.folder.path()).args(["papers", "--report"]).arg(&golden.session).arg("--out").arg(&out));
    let text = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let (markdown, html, latex) = (text("reproduction.md"), text("reproduction.html"), text("reproduction.tex"));
    for part in [
        "arXiv 2503.15252",
        "2503.15252 Table 2: precision over GPUs",
        "2505.22905 Figure 17",
        "Claims",
        "Contradictions",
    ] {
        assert!([&markdown, &html, &latex].iter().all(|text| text.contains(part)), "{part} is missing");
    }
    // What was measured is drawn and stands beside what is published; what was not says what to run.
    assert!(
        markdown.contains("](figures/2503.15252-table-2.svg)") && markdown.contains("Total time, published"),
        "{markdown}"
    );
    assert!(markdown.contains("`multicard run --preset 2505.22905/fig-17` makes such runs"), "{markdown}");
    assert!(html.contains("<svg") && !html.contains("src=\""), "a page of its own");
    assert!(out.join("figures/2503.15252-table-2.pdf").is_file());
    let sorted = [
        "2503.15252 Table 1",
        "2503.15252 Figure 1:",
        "2503.15252 Figure 6",
        "2505.22905 Figure 1:",
        "2505.22905 Figure 17",
    ];
    let places = sorted.map(|heading| markdown.find(&format!("### {heading}")).unwrap_or_else(|| panic!("{heading}")));
    assert!(places.is_sorted(), "{places:?}");
    assert!(latex.starts_with('%') && latex.trim_end().ends_with("\\end{document}"));
    let set = Command::new("pdflatex")
        .args(["-interaction=nonstopmode", "-halt-on-error", "reproduction.tex"])
        .current_dir(&out)
        .output();
    if let Ok(set) = set {
        assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stdout));
    }
}

#[test]
fn a_study_is_saved_listed_shown_and_deleted() {
    let golden = Golden::import("cells");
    let session = golden.session.to_str().unwrap();
    let stdout = |arguments: &[&str]| succeed(command(golden.folder.path()).args(arguments)).stdout;
    let asked = ["--preset", "times", "--filter", "layout=nhwc", "--baseline", "precision=fp64,layout=nhwc"];
    stdout(&[&["study", session, "--save", "channels last"], &asked[..]].concat());
    let lists = json(&stdout(&["study", session, "--format", "json"]));
    assert_eq!(
        (&lists["saved"][0]["name"], &lists["saved"][0]["filter"]),
        (&"channels last".into(), &"layout=nhwc".into())
    );
    assert!(lists["built_in"].as_array().unwrap().len() > 20);
    let shown = json(&stdout(&["table", session, "--study", "channels last", "--format", "json"]));
    let direct = json(&stdout(&[&["table", session, "--format", "json"], &asked[..]].concat()));
    assert_eq!((&shown["rows"], shown["rows"].as_array().unwrap().len()), (&direct["rows"], 2));
    succeed(command(golden.folder.path()).args(["session", "rebuild", session]));
    assert!(String::from_utf8(stdout(&["study", session])).unwrap().contains("| channels last | session | bars |"));
    // A report holds it too; `--study` takes saved and built-in ones alike.
    let report = golden.folder.path().join("report");
    let out = report.to_str().unwrap();
    stdout(&["report", session, "--out", out]);
    assert!(fs::read_to_string(report.join("README.md")).unwrap().contains("## channels last"));
    assert!(report.join("figures/channels-last.svg").is_file() && report.join("tables/times.csv").is_file());
    fs::remove_dir_all(&report).unwrap();
    stdout(&["report", session, "--out", out, "--study", "channels last", "--study", "memory"]);
    assert_eq!(fs::read_dir(report.join("tables")).unwrap().count(), 2 * 3);
    let built_in = json(&stdout(&["table", session, "--study", "memory", "--format", "json"]));
    assert_eq!(built_in, json(&stdout(&["table", session, "--preset", "memory", "--format", "json"])));
    for (arguments, part) in [
        (["--study", "chanels last"], "unknown study \"chanels last\"; did you mean \"channels last\"?"),
        (["--measure", "step_tine_s"], "unknown measure \"step_tine_s\"; did you mean \"step_time_s\"?"),
        (["--filter", "precison=fp32"], "--filter: unknown factor \"precison\"; did you mean \"precision\"?"),
        (["--rows", "layuot"], "--rows: unknown factor \"layuot\"; did you mean \"layout\"?"),
        (["--measure", "tokens"], "unknown measure \"tokens\"; there are step_time_s, "),
    ] {
        let refused = command(golden.folder.path()).args(["table", session]).args(arguments).output().unwrap();
        let error = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{error}");
        assert!(error.contains(part), "{error}");
    }
    stdout(&["study", session, "--delete", "channels last"]);
    let refused = command(golden.folder.path()).args(["table", session, "--study", "channels last"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("unknown study"), "{refused:?}");
    let taken = command(golden.folder.path()).args(["study", session, "--save", "times"]).output().unwrap();
    assert_eq!(taken.status.code(), Some(2), "{taken:?}");
}
