//! User-defined measures on the command line: for a session that has run already, in tables, figures, exports and `diff`, from archives, and
//! in plans. Those of two measures against each other, too.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use tempfile::TempDir;

mod seeded;

use seeded::{command, golden, succeed, text};

fn stdout(home: &Path, session: &Path, arguments: &[&str]) -> String {
    let (name, rest) = arguments.split_first().unwrap();
    text(&succeed(command(home).arg(name).arg(session).args(rest)).stdout)
}

fn refused(home: &Path, session: &Path, arguments: &[&str]) -> String {
    let (name, rest) = arguments.split_first().unwrap();
    seeded::refused(command(home).arg(name).arg(session).args(rest))
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_session_whose_journal_chains_thousands_of_measures_opens_and_names_the_problem() {
    use std::io::Write;
    let home = TempDir::new().unwrap();
    let (home, session) = (home.path(), golden(home.path(), "gpu"));
    let mut journal = std::fs::File::options().append(true).open(session.join("journal.jsonl")).unwrap();
    for number in 0..3000 {
        let measure = serde_json::json!({ "key": format!("m{number}"), "formula": format!("m{} + 1 s", number + 1) });
        writeln!(journal, "{}", serde_json::json!({ "time_s": 1.0, "decision": "measure_saved", "measure": measure }))
            .unwrap();
    }
    drop(journal);
    let output = succeed(command(home).arg("table").arg(&session));
    let stderr = text(&output.stderr);
    assert!(!output.stdout.is_empty());
    assert!(stderr.contains("3000 user-defined measures, and the first 1000 are used"), "{stderr}");
    let list = stdout(home, &session, &["measure"]);
    assert!(list.contains("m0 needs more than 64 other measures in a row"), "{list}");
}

#[test]
fn studies_measures_and_notes_that_are_saved_at_once_wait_for_each_other() {
    let home = TempDir::new().unwrap();
    let (home, session) = (home.path(), golden(home.path(), "gpu"));
    let save = |number: usize| {
        let (study, measure) = (format!("s{number}"), format!("m{number}"));
        let mut command = command(home);
        match number % 3 {
            0 => command.arg("study").arg(&session).args(["--save", &study]),
            1 => command.arg("measure").arg(&session).args(["--save", &measure, "--formula", "2 * total_time_s"]),
            _ => command.args(["session", "note"]).arg(&session).arg(&study),
        };
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let all: Vec<Child> = (0..36).map(save).collect();
    for (number, child) in all.into_iter().enumerate() {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{number}: {}", text(&output.stderr));
    }
    let (studies, measures) = (stdout(home, &session, &["study"]), stdout(home, &session, &["measure"]));
    for number in (0..36).step_by(3) {
        let (study, measure) = (format!("| s{number} "), format!("| m{} ", number + 1));
        assert!(studies.contains(&study) && measures.contains(&measure), "{number}: {studies}\n{measures}");
    }
}

#[test]
fn a_plan_whose_measures_form_a_long_chain_is_refused_with_the_line() {
    let home = TempDir::new().unwrap();
    let links: String = (0..900).map(|number| format!("m{number} = \"m{} + 1 s\"\n", number + 1)).collect();
    let plan = home.path().join("chain.toml");
    std::fs::write(&plan, format!("version = 1\n[measures]\n{links}m900 = \"total_time_s\"\n")).unwrap();
    let output = command(home.path()).arg("plan").arg(&plan).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("chain.toml:3: measures.m0: character 1: m0 needs more than 64 other measures in a row"),
        "{stderr}"
    );
}

#[test]
fn a_session_that_has_run_gets_a_measure_that_tables_exports_and_archives_have_until_it_is_deleted() {
    let home = TempDir::new().unwrap();
    let (home, session) = (home.path(), golden(home.path(), "gpu"));
    let save = ["measure", "--save", "per_joule", "--formula", "throughput / power_w", "--better", "higher"];
    let stderr = text(&succeed(command(home).arg("measure").arg(&session).args(&save[1..])).stderr);
    assert!(stderr.contains("saved measure per_joule: images/J; 8 of 8 finished runs have a value"), "{stderr}");
    let list = stdout(home, &session, &["measure"]);
    assert!(list.contains("per_joule") && list.contains("throughput / power_w"), "{list}");

    let exported = stdout(home, &session, &["export", "--what", "runs", "--format", "csv"]);
    let mut rows = csv::Reader::from_reader(exported.as_bytes());
    let head = rows.headers().unwrap().clone();
    let place = |name: &str| head.iter().position(|column| column == name).unwrap();
    let (run, reading, unit, value) = (place("run"), place("reading"), place("unit"), place("value"));
    let rows: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
    let values = |key: &str| -> Vec<(String, f64)> {
        let of_key = rows.iter().filter(|row| row[reading] == *key);
        of_key.map(|row| (row[run].to_owned(), row[value].parse().unwrap())).collect()
    };
    let own = values("per_joule");
    assert_eq!(own.len(), 8);
    for ((run, own), ((rate_run, rate), (_, power))) in
        own.iter().zip(values("images_per_s").iter().zip(values("power_w")))
    {
        assert_eq!((run, *own), (rate_run, *rate / power));
    }
    assert!(rows.iter().any(|row| row[reading] == *"per_joule" && row[unit] == *"images/J"));

    let table = json(&stdout(home, &session, &["table", "--measure", "per_joule", "--format", "json"]));
    let column = table["rows"][0]["per_joule"].clone();
    let ends = column["low"].as_f64().unwrap()..=column["high"].as_f64().unwrap();
    let within = own.iter().filter(|(_, value)| ends.contains(value)).count();
    assert!(within >= 2, "the interval is over the repeats' own values: {column}");
    let figure = home.join("own.svg");
    succeed(command(home).arg("figure").arg(&session).args(["--measure", "per_joule", "--out"]).arg(&figure));
    assert!(std::fs::read_to_string(&figure).unwrap().contains("images/J"));

    let archive = home.join("archive.zip");
    succeed(command(home).args(["session", "export"]).arg(&session).arg("--out").arg(&archive));
    let again = home.join("again");
    succeed(command(home).args(["session", "import"]).arg(&archive).arg("--session").arg(&again));
    assert_eq!(stdout(home, &again, &["measure"]), list, "an archive has the session's measures");

    let needed = stdout_of_save(home, &session, "double", "2 * per_joule");
    assert!(needed.contains("8 of 8 finished runs have a value"), "{needed}");
    let error = refused(home, &session, &["measure", "--delete", "per_joule"]);
    assert!(error.contains("double is computed from it"), "{error}");
    for key in ["double", "per_joule"] {
        stdout(home, &session, &["measure", "--delete", key]);
    }
    let error = refused(home, &session, &["table", "--measure", "per_joule"]);
    assert!(error.contains("unknown measure \"per_joule\""), "{error}");
}

fn stdout_of_save(home: &Path, session: &Path, key: &str, formula: &str) -> String {
    let mut save = command(home);
    text(&succeed(save.arg("measure").arg(session).args(["--save", key, "--formula", formula])).stderr)
}

#[test]
fn wrong_formulas_are_refused_before_anything_is_saved_or_run() {
    let home = TempDir::new().unwrap();
    let (home, session) = (home.path(), golden(home.path(), "gpu"));
    for (formula, expected) in [
        ("throughput / powr_w", "character 14: unknown measure \"powr_w\"; did you mean \"power_w\"?"),
        (
            "power_w + step_time_s",
            "power_w has the unit W, and step_time_s has the unit s: they must have the same unit",
        ),
        ("own", "a formula cannot need itself: own needs own"),
        ("1 / (2 - 2)", "division by zero: (2 - 2) is 0"),
        ("1 +", "character 4: the formula ends here"),
    ] {
        let error = refused(home, &session, &["measure", "--save", "own", "--formula", formula]);
        assert!(error.contains(expected), "{error}");
    }
    assert!(!stdout(home, &session, &["measure"]).contains("| own "));
    let plan = home.join("own.toml");
    std::fs::write(&plan, "version = 1\n[measures]\nown = \"throughput / powr_w\"\n").unwrap();
    for words in [["plan"].as_slice(), &["run", "--session", "never"]] {
        let output = command(home).current_dir(home).args(words).arg(&plan).output().unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("own.toml:3: measures.own: character 14: unknown measure"), "{error}");
    }
    assert!(!home.join("never").exists());
}

/// A copy of a session whose runs started a second later: the same runs would be refused.
fn a_second_later(home: &Path, session: &Path) -> PathBuf {
    let after = home.join("after");
    seeded::copy(session, &after);
    let journal = after.join("journal.jsonl");
    let later = |line: &str| {
        let mut decision = json(line);
        decision["time_s"] = (decision["time_s"].as_f64().unwrap() + 1.0).into();
        decision.to_string() + "\n"
    };
    let lines: String = std::fs::read_to_string(&journal).unwrap().lines().map(later).collect();
    std::fs::write(&journal, lines).unwrap();
    succeed(command(home).args(["session", "rebuild"]).arg(&after));
    after
}

#[test]
fn diff_takes_a_measure_that_one_side_defines_and_refuses_two_meanings() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    let before = golden(home, "gpu");
    let after = a_second_later(home, &before);
    let save = |session: &Path, formula: &str| {
        let words = ["--save", "per_joule", "--better", "higher", "--formula", formula];
        succeed(command(home).arg("measure").arg(session).args(words));
    };
    save(&before, "throughput / power_w");
    let diff = || command(home).arg("diff").arg(&before).arg(&after).args(["--measure", "per_joule"]).output().unwrap();
    let output = diff();
    let table = text(&output.stdout);
    assert!(
        table.contains("Per joule, before (images/J)") && table.contains("1.00"),
        "{table} {}",
        text(&output.stderr)
    );
    // A figure's file is drawn again with the values that the figure has.
    let (figure, again) = (home.join("figure.svg"), home.join("again.svg"));
    let words = ["--measure", "per_joule", "--out"];
    succeed(command(home).arg("figure").args([&before, &after]).args(words).arg(&figure));
    succeed(command(home).arg("figure").arg(&figure).arg("--out").arg(&again));
    assert_eq!(std::fs::read_to_string(again).unwrap(), std::fs::read_to_string(figure).unwrap());
    let words = ["--save", "per_joule", "--better", "lower", "--formula", "throughput / power_w"];
    succeed(command(home).arg("measure").arg(&after).args(words));
    let output = diff();
    assert_eq!(output.status.code(), Some(2));
    let opposite = "one session says that higher values of it are good, another that lower values are";
    assert!(text(&output.stderr).contains(opposite), "{}", text(&output.stderr));
    save(&after, "throughput / power_w / 2");
    let output = diff();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("one session computes it as throughput / power_w, another as"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_measure_that_sessions_compute_differently_is_no_axis_and_no_part_of_another_measure() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    let before = golden(home, "gpu");
    let after = a_second_later(home, &before);
    let save = |session: &Path, key: &str, formula: &str| stdout_of_save(home, session, key, formula);
    save(&before, "per_joule", "throughput / power_w");
    save(&after, "per_joule", "throughput / power_w / 2");
    save(&before, "double", "2 * per_joule");
    let why = "per_joule: one session computes it as throughput / power_w, another as throughput / power_w / 2: give it the same formula";
    let refused = |name: &str, words: &[&str]| {
        let output = command(home).arg(name).args([&before, &after]).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let axis = refused("figure", &["--form", "scatter", "--across", "per_joule", "--format", "json"]);
    assert!(axis.contains(&format!("--across {why}")), "{axis}");
    for name in ["table", "diff"] {
        let part = refused(name, &["--measure", "double"]);
        assert!(part.contains(&format!("--measure double needs {why}")), "{part}");
    }
}

#[test]
fn two_measures_make_a_figure_whose_file_has_the_intervals_of_both() {
    let home = TempDir::new().unwrap();
    let (home, session) = (home.path(), golden(home.path(), "gpu"));
    let figure = home.join("scatter.svg");
    let words = ["--form", "scatter", "--measure", "step_time_s", "--across", "power_w", "--out"];
    succeed(command(home).arg("figure").arg(&session).args(words).arg(&figure));
    let svg = std::fs::read_to_string(&figure).unwrap();
    assert!(svg.contains("x_low") && svg.contains("Rank correlation"), "its data and its notes are in the file");
    let error = refused(home, &session, &["figure", "--form", "scatter", "--across", "powr_w", "--out", "x.svg"]);
    assert!(
        error.contains(
            "--across powr_w: this is neither a measure nor a factor with numbers; did you mean \"power_w\"?"
        ),
        "{error}"
    );
}
