//! Several sessions and results of other programs on the command line: results are imported with a mapping that is
//! shown first; sessions are compared, and followed over time.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use tempfile::TempDir;

mod seeded;

use seeded::{command, golden, multicard, succeed, text};

/// Writes a file of results and returns its path as text.
fn file(home: &Path, name: &str, content: &str) -> String {
    let path = home.join(name);
    fs::write(&path, content).unwrap();
    path.display().to_string()
}

fn stdout(home: &Path, arguments: &[&str]) -> String {
    text(&succeed(command(home).current_dir(home).args(arguments)).stdout)
}

/// The message of a command that must be refused.
fn refused(home: &Path, arguments: &[&str]) -> String {
    seeded::refused(command(home).current_dir(home).args(arguments))
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_file_whose_name_no_session_can_have_is_refused_before_anything_is_written() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    let files = ["good.csv", "..csv"].map(|name| file(home, name, "threads,time (s)\n1,2\n2,3\n"));
    let error = refused(home, &["import", &files[0], &files[1], "--session", "all", "--yes"]);
    assert!(error.contains("..csv: no session can have its name") && error.contains("nothing is written"), "{error}");
    assert!(!home.join("all").exists());
    succeed(command(home).args(["import", &files[1], "--session", "alone", "--yes"]).current_dir(home));
}

#[test]
fn sessions_of_the_working_folder_are_listed_and_the_error_for_a_missing_one_names_both_folders() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    let csv = file(home, "bench.csv", "threads,time (s)\n1,2\n2,3\n");
    succeed(command(home).args(["import", &csv, "--session", "bench", "--yes"]).current_dir(home));
    let usual = home.join("data/multicard/sessions");
    fs::create_dir_all(&usual).unwrap();
    let listed = |folder: &Path| text(&succeed(command(home).args(["session", "list"]).current_dir(folder)).stdout);
    let names = |folder: &Path| {
        let listed = listed(folder);
        let names = listed.lines().skip(2).filter_map(|row| row.split(" | ").next());
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(names(home), ["| ./bench"]);
    assert_eq!(names(&usual), [""; 0]);
    seeded::copy(&home.join("bench"), &usual.join("bench"));
    let mut both = names(home);
    both.sort();
    assert_eq!(both, ["| ./bench", "| bench"]);
    assert_eq!(names(&usual), ["| bench"]);

    let error = refused(home, &["table", "precision"]);
    for folder in [home.canonicalize().unwrap(), usual] {
        assert!(error.contains(&folder.join("precision").display().to_string()), "{error}");
    }
    let error = refused(home, &["table", "./precision"]);
    assert!(error.contains("./precision does not exist; `multicard session list` lists"), "{error}");
}

#[test]
fn a_csv_becomes_a_session_once_its_mapping_was_shown_and_taken() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    let csv = "kernel,threads,rep,wall (ms),memory_mb,host\na,1,1,20,100,n1\na,1,2,22,100,n1\na,2,1,11,120,n1\na,2,2,12,,n1\n";
    let csv = file(home, "bench.csv", csv);
    let shown = command(home).args(["import", &csv, "--session", "bench"]).current_dir(home).output().unwrap();
    assert_eq!(shown.status.code(), Some(2));
    let mapping = text(&shown.stdout);
    for part in ["4 runs of 2 cells", "measure ms lower", "by the unit in its name", "wall_s in 4", "memory_bytes in 3"]
    {
        assert!(mapping.contains(part), "{part} in {mapping}");
    }
    assert!(
        text(&shown.stderr).contains("Nothing written yet. Add --yes to import as shown."),
        "{}",
        text(&shown.stderr)
    );
    assert!(!home.join("bench").exists());

    succeed(command(home).args(["import", &csv, "--session", "bench", "--yes"]).current_dir(home));
    let table = json(&stdout(home, &["table", "bench", "--format", "json"]));
    let rows = table["rows"].as_array().unwrap();
    let medians: Vec<(i64, f64)> = rows
        .iter()
        .map(|row| {
            (row["levels"]["threads"].as_i64().unwrap(), (1e6 * row["wall_s"]["median"].as_f64().unwrap()).round())
        })
        .collect();
    assert_eq!(medians, [(1, 21_000.0), (2, 11_500.0)]);
    assert_eq!(rows[0]["marks"], serde_json::json!(["imported"]));
    let error = refused(home, &["import", &csv, "--session", "bench", "--yes"]);
    assert!(error.contains("bench exists"), "{error}");

    // The printed map can be changed, and is accepted by `--map`.
    let map = stdout(home, &["import", &csv, "--print-map"]);
    let map = file(home, "map.toml", &map.replace("measure MB lower", "skip"));
    succeed(
        command(home)
            .args(["import", &csv, "--map", &map, "--name", "sorting", "--session", "other", "--yes"])
            .current_dir(home),
    );
    let table = json(&stdout(home, &["table", "other", "--format", "json"]));
    assert!(table["rows"][0].get("memory_bytes").is_none(), "{table}");
    // It can be exported and archived like any other session.
    assert!(stdout(home, &["export", "other", "--what", "runs", "--format", "csv"]).contains("wall_s"));
    succeed(command(home).args(["session", "export", "other", "--out", "other.zip"]).current_dir(home));
    succeed(command(home).args(["session", "import", "other.zip", "--session", "again"]).current_dir(home));
    assert_eq!(stdout(home, &["table", "again"]), stdout(home, &["table", "other"]));
}

#[test]
fn times_of_google_benchmark_are_compared_in_one_unit() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    let rows = |name: &str, unit: &str, first: f64| -> String {
        let time = |row: u32| first * (1.0 + 0.01 * f64::from(row * 3 % 7));
        (0..6).map(|row| format!("\"{name}\",{:.4},{:.4},{unit},,\n", time(row), 0.97 * time(row))).collect()
    };
    let header = "name,real_time,cpu_time,time_unit,label,error_message\n";
    let csv = file(home, "gb.csv", &(header.to_owned() + &rows("small", "ns", 900.0) + &rows("large", "us", 80.0)));
    let shown = command(home).args(["import", &csv, "--session", "gb"]).current_dir(home).output().unwrap();
    let mapping = text(&shown.stdout);
    assert!(mapping.contains("| time_unit | unit | units of real_time, cpu_time | ns, us |"), "{mapping}");
    succeed(command(home).args(["import", &csv, "--session", "gb", "--yes"]).current_dir(home));
    let table = json(&stdout(home, &["table", "gb", "--format", "json"]));
    let medians: Vec<f64> =
        table["rows"].as_array().unwrap().iter().map(|row| row["real_time_s"]["median"].as_f64().unwrap()).collect();
    let ratio = medians.iter().copied().fold(0.0, f64::max) / medians.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(medians.len() == 2 && (ratio / (80e3 / 900.0) - 1.0).abs() < 1e-3, "{medians:?}");
    let table = stdout(home, &["table", "gb", "--measure", "real_time_s"]);
    assert!(table.lines().any(|line| line.starts_with("| large |") && line.contains("| slower |")), "{table}");
}

#[test]
fn versions_are_chosen_by_their_names_everywhere_and_names_with_spaces_are_quoted_everywhere() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    let runs = "a b,1.9,1.51\na b,1.9,1.62\nc,1.10,2.53\nc,1.10,2.71\nd,2.0,3.15\nd,2.0,3.34\n";
    let csv = file(home, "bench.csv", &format!("state,torch_version,time_s\n{runs}"));
    succeed(command(home).args(["import", &csv, "--session", "bench", "--yes"]).current_dir(home));
    for filter in ["torch_version>=2", "not torch_version>=2"] {
        for arguments in [
            ["table", "bench", "--filter", filter].as_slice(),
            &["figure", "bench", "--out", "figure.svg", "--filter", filter],
            &["study", "bench", "--save", "late", "--filter", filter],
            &["export", "bench", "--what", "runs", "--filter", filter],
            &["session", "list", filter],
        ] {
            let error = refused(home, arguments);
            let names = "torch_version>=2: levels of torch_version that are no numbers have no order (1.10, 1.9, 2.0)";
            assert!(error.contains(names), "{arguments:?}: {error}");
        }
    }
    let rows = |arguments: &[&str]| {
        let table = json(&stdout(home, &[&["table", "bench", "--format", "json"], arguments].concat()));
        table["rows"].as_array().unwrap().len()
    };
    assert_eq!(rows(&["--filter", "torch_version=1.9 torch_version=2.0"]), 2);
    // A level with a space is quoted alike, and a factor is found although runs have a property of the same name.
    for baseline in ["state=\"a b\"", "torch_version=1.9,state='a b'", "factor_state='a b' and torch_version=1.9"] {
        assert_eq!(rows(&["--filter", "state='a b' or factor_state=c", "--baseline", baseline]), 2, "{baseline}");
    }
    let exported = |filter: &str| {
        let arguments = ["export", "bench", "--what", "runs", "--filter", filter];
        let output = succeed(command(home).args(arguments).current_dir(home));
        (text(&output.stdout).lines().count(), text(&output.stderr))
    };
    let (lines, message) = exported("state='a b'");
    assert!(
        lines == 1 && message.contains("state means the column state; write factor_state for the factor"),
        "{message}"
    );
    let (lines, message) = exported("factor_state='a b'");
    assert!(lines > 1 && !message.contains("means"), "{lines}: {message}");
}

#[test]
fn an_import_of_several_files_that_stops_half_way_leaves_nothing_and_can_be_repeated() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    let files = ["one", "two"].map(|name| file(home, &format!("{name}.csv"), "threads,time (s)\n1,2\n2,3\n"));
    fs::create_dir(home.join("all")).unwrap();
    // The second session is written in a folder of this name first.
    fs::write(home.join("all/.two.importing"), "").unwrap();
    let arguments: [&str; 6] = ["import", &files[0], &files[1], "--session", "all", "--yes"];
    let error = refused(home, &arguments);
    let removed = "the session that was written first is removed again: nothing is written";
    assert!(error.contains(".two.importing") && error.contains(removed), "{error}");
    assert!(!home.join("all/one").exists());
    fs::remove_file(home.join("all/.two.importing")).unwrap();
    succeed(command(home).args(arguments).current_dir(home));
    assert!(home.join("all/one").is_dir() && home.join("all/two").is_dir());
}

#[test]
fn an_import_of_several_files_that_was_killed_is_continued_by_the_same_command() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    let rows = |factor: u32| (1..20).map(|row| format!("{row},{}.5\n", factor * row)).collect::<String>();
    let files = ["one", "two"].map(|name| file(home, &format!("{name}.csv"), &format!("size,time_s\n{}", rows(2))));
    let arguments: [&str; 6] = ["import", &files[0], &files[1], "--session", "all", "--yes"];
    succeed(command(home).args(arguments).current_dir(home));
    assert!(refused(home, &arguments).contains("all/one exists"), "both are whole");
    // A killed import leaves whole sessions, and one that is not whole under another name.
    let [two, unfinished] = ["two", ".two.importing"].map(|name| home.join("all").join(name));
    let cut = || {
        fs::rename(&two, &unfinished).unwrap();
        fs::remove_file(unfinished.join("journal.jsonl")).unwrap();
    };
    cut();
    let table = stdout(home, &["table", "all/one"]);
    let continued = succeed(command(home).args(arguments).current_dir(home));
    assert!(text(&continued.stderr).contains("session all/one: its runs were imported before"));
    assert!(two.join("journal.jsonl").is_file() && !unfinished.exists());
    assert_eq!(stdout(home, &["table", "all/one"]), table);
    // Its file may have changed in the meantime.
    cut();
    file(home, "one.csv", &format!("size,time_s\n{}", rows(3)));
    assert!(refused(home, &arguments).contains("all/one exists: choose another folder with --session"));
}

#[test]
fn what_is_wrong_with_files_and_mappings_is_named_and_nothing_is_written() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    let good = file(home, "good.csv", "a,time_s\n1,2\n");
    let bad = file(home, "bad.csv", "a,time_s\n1,NaN\n2,fast\n3,2\n");
    let error = refused(home, &["import", &good, &bad, "--session", "all", "--yes"]);
    assert!(error.contains("bad.csv: line 2, column \"time_s\": NaN is no number"), "{error}");
    assert!(error.contains("bad.csv: line 3, column \"time_s\": \"fast\" where a number is expected"), "{error}");
    assert!(error.contains("nothing is written") && !home.join("all").exists(), "{error}");
    let error = refused(home, &["import", &good, "--set", "b=skip", "--yes"]);
    assert!(error.contains("--set: the file has no column \"b\""), "{error}");
    let error = refused(home, &["import", &good, "--set", "time_s=mesure s"]);
    assert!(error.contains("unknown role \"mesure\""), "{error}");
    let error = refused(home, &["import", "absent.csv"]);
    assert!(error.contains("absent.csv: No such file"), "{error}");
}

#[test]
fn results_of_hyperfine_are_judged_among_themselves_and_not_against_own_runs_unless_asked() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    let result = |name: &str, slower: f64| {
        let times =
            |base: f64| (0..8).map(|run| base * slower * (1.0 + 0.004 * f64::from(run % 3))).collect::<Vec<f64>>();
        let result_of = |command: &str, base: f64| serde_json::json!({"command": command, "times": times(base), "exit_codes": vec![0; 8]});
        let whole = serde_json::json!({"results": [result_of("old", 1.0), result_of("new", 0.5)]});
        file(home, &format!("{name}.json"), &whole.to_string())
    };
    let files = [result("before", 1.0), result("after", 1.5)];
    succeed(command(home).args(["import", &files[0], &files[1], "--session", "sessions", "--yes"]).current_dir(home));
    let table = stdout(home, &["table", "sessions/before", "--baseline", "command=old"]);
    assert!(table.contains("faster") && table.contains("imported"), "{table}");
    let own = golden(home, "gpu").display().to_string();
    let diff = multicard(home, &["diff", &own, "--measure", "time_s", "--", "sessions/before"]);
    assert_ne!(diff.status.code(), Some(0));
    // The cells are the same, but those of one side were imported.
    let both = ["diff", "sessions/before", "sessions/after", "--measure", "time_s"];
    let compared = text(&command(home).current_dir(home).args(both).output().unwrap().stdout);
    assert!(compared.contains("each side is one session"), "{compared}");
}

#[test]
fn rows_that_were_sorted_form_no_pairs_unless_a_column_numbers_their_repeats() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    let rows = |numbered: bool| -> String {
        let row = |algo: &str, slower: f64, repeat: u32| {
            let number = if numbered { format!(",{repeat}") } else { String::new() };
            format!("{algo},{:.5}{number}\n", slower * (0.9 + 0.03 * f64::from(repeat)))
        };
        (1..=8).map(|repeat| row("a", 1.0, repeat)).chain((1..=8).map(|repeat| row("b", 1.02, repeat))).collect()
    };
    let sorted = file(home, "sorted.csv", &format!("algo,time_s\n{}", rows(false)));
    let numbered = file(home, "numbered.csv", &format!("algo,time_s,repeat\n{}", rows(true)));
    succeed(command(home).args(["import", &sorted, &numbered, "--session", "all", "--yes"]).current_dir(home));
    let table = stdout(home, &["table", "all/sorted", "--baseline", "algo=a"]);
    assert!(table.contains("undecided") && table.contains("Welch's t") && !table.contains("slower"), "{table}");
    let table = stdout(home, &["table", "all/numbered", "--baseline", "algo=a"]);
    assert!(table.contains("slower") && !table.contains("Welch's t"), "{table}");
    // So it is after the archive was made anonymous.
    succeed(
        command(home).args(["session", "export", "all/numbered", "--anonymous", "--out", "n.zip"]).current_dir(home),
    );
    succeed(command(home).args(["session", "import", "n.zip", "--session", "again"]).current_dir(home));
    assert!(stdout(home, &["table", "again"]).contains("slower"));
}

#[test]
fn rows_that_recur_are_told_and_marked_and_give_no_verdict_and_rows_of_few_digits_do() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    let copied: String = (0..10)
        .map(|place| {
            format!(
                "{},{:.6}\n",
                ["a", "b"][place % 2],
                1.0 + 0.5 * (place % 2) as f64 + 1e-6 * (place * 7919 % 10_007) as f64
            )
        })
        .flat_map(|row| [row.clone(), row])
        .collect();
    let rate = |time_ms: u32| format!("{time_ms},{:.6}\n", 1000.0 / f64::from(time_ms));
    let whole: String =
        (0..20).map(|place| format!("a,{}b,{}", rate(12 + place * 7 % 5 % 3), rate(24 + place * 5 % 7 % 3))).collect();
    let copied = file(home, "copied.csv", &format!("algo,time_s\n{copied}"));
    let whole = file(home, "whole.csv", &format!("algo,time_ms,tokens_per_s\n{whole}"));
    let arguments = ["import", &copied, &whole, "--session", "all", "--yes"];
    let imported = command(home).args(arguments).current_dir(home).output().unwrap();
    assert!(imported.status.success(), "{}", text(&imported.stderr));
    let stderr = text(&imported.stderr);
    assert!(stderr.contains("copied.csv: line 3: an earlier row of its cell has the same measured values"), "{stderr}");
    assert!(stderr.contains("(10 such rows in 2 cells)") && !stderr.contains("whole.csv: line"), "{stderr}");
    let table = |session: &str| stdout(home, &["table", session, "--baseline", "algo=a"]);
    let marked = table("all/copied");
    assert!(marked.contains("not comparable") && marked.contains("recurring rows"), "{marked}");
    assert!(table("all/whole").contains("slower") && !table("all/whole").contains("recurring rows"));
    // The mark follows its cells into an anonymous archive.
    let arguments = ["session", "export", "all/copied", "--anonymous", "--out", "c.zip"];
    succeed(command(home).args(arguments).current_dir(home));
    succeed(command(home).args(["session", "import", "c.zip", "--session", "again"]).current_dir(home));
    assert!(stdout(home, &["table", "again"]).contains("recurring rows"));
}

/// A number from 0 to 0.1 that looks random.
fn noise(seed: u32) -> f64 {
    0.1 * f64::from(seed.wrapping_mul(2_654_435_761) >> 8) / 16_777_216.0
}

#[test]
fn values_of_one_run_beside_samples_of_another_measure_give_no_verdict_until_rows_are_declared_runs() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    // Two equal programs with five runs each; four losses of each run, which differ.
    let row = |(cell, run, sample): (u32, u32, u32)| {
        let (time_s, loss) =
            (1.0 + noise(run + 100 * cell), 2.0 + f64::from(cell) + noise(1_000 + 500 * cell + 50 * run + sample));
        format!("{},{time_s:.6},{loss:.6}\n", ["a", "b"][cell as usize])
    };
    let samples = (0..2).flat_map(|cell| (0..5).flat_map(move |run| (0..4).map(move |sample| (cell, run, sample))));
    let joined = file(home, "joined.csv", &format!("algo,time_s,loss\n{}", samples.map(row).collect::<String>()));
    let imported = |session: &str, options: &[&str]| {
        let arguments = [&["import", &joined, "--session", session, "--yes"], options].concat();
        text(&succeed(command(home).args(arguments).current_dir(home)).stderr)
    };
    let table = |session: &str, measure: &str| {
        stdout(home, &["table", session, "--baseline", "algo=a", "--measure", measure, "--notes"])
    };
    let stderr = imported("marked", &[]);
    let expected = "joined.csv: line 3, column \"time_s\": an earlier row of its cell has the same value, digit for digit (30 such rows in 2 cells)";
    assert!(
        stderr.contains(expected) && stderr.contains("if each row is a run of its own, add --rows-are-runs"),
        "{stderr}"
    );
    let marked = table("marked", "time_s");
    assert!(marked.contains("not comparable: values of this measure recur in the file"), "{marked}");
    assert!(
        marked.contains("recurring values: rows of its cell that differ in other measures have the same time_s"),
        "{marked}"
    );
    let of_losses = table("marked", "loss");
    assert!(of_losses.contains("higher") && !of_losses.contains("not comparable"), "{of_losses}");
    // The mark follows its cells into an anonymous archive.
    let arguments = ["session", "export", "marked", "--anonymous", "--out", "m.zip"];
    succeed(command(home).args(arguments).current_dir(home));
    succeed(command(home).args(["session", "import", "m.zip", "--session", "again"]).current_dir(home));
    assert!(stdout(home, &["table", "again"]).contains("recurring values"));

    // The user knows better, and says it on the command line or in a map.
    let stderr = imported("declared", &["--rows-are-runs"]);
    assert!(stderr.contains("each row counts as a run of its own, as you say"), "{stderr}");
    let map = stdout(home, &["import", &joined, "--rows-are-runs", "--print-map"]);
    assert!(map.contains("rows = \"runs\""), "{map}");
    let wrong = file(home, "wrong.toml", &map.replace("\"runs\"", "\"run\""));
    let map = file(home, "map.toml", &map);
    imported("mapped", &["--map", &map]);
    for session in ["declared", "mapped"] {
        let table = table(session, "time_s");
        assert!(!table.contains("not comparable") && table.contains("rows declared as runs"), "{table}");
        assert_eq!(table.matches("verdicts assume that each imported row is an independent run").count(), 1, "{table}");
    }
    let error = refused(home, &["import", &joined, "--map", &wrong]);
    assert!(error.contains("wrong.toml: rows: \"run\" is unknown: write rows = \"runs\""), "{error}");
}

#[test]
fn rolling_means_are_marked_and_give_no_verdict_until_rows_are_declared_runs() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    let row = |(cell, first): (u32, u32)| {
        let mean = (first..first + 8).map(|place| noise(977 * place * place + 100_003 * cell)).sum::<f64>() / 8.0;
        format!("{},{:.6}\n", ["a", "b"][cell as usize], 1.0 + 0.2 * f64::from(cell) + mean)
    };
    let rows = (0..2).flat_map(|cell| (0..40).map(move |first| (cell, first)));
    let smooth = file(home, "smooth.csv", &format!("algo,time_s\n{}", rows.map(row).collect::<String>()));
    let imported = |session: &str, options: &[&str]| {
        let arguments = [&["import", &smooth, "--session", session, "--yes"], options].concat();
        let stderr = text(&succeed(command(home).args(arguments).current_dir(home)).stderr);
        (stderr, stdout(home, &["table", session, "--baseline", "algo=a", "--notes"]))
    };
    let (stderr, table) = imported("marked", &[]);
    let expected = "smooth.csv: line 2, column \"time_s\": successive values in 2 cells from here on are more alike than by chance";
    assert!(stderr.contains(expected) && stderr.contains("add --rows-are-runs"), "{stderr}");
    assert!(table.contains("not comparable: successive values of this measure depend on each other"), "{table}");
    assert!(table.contains("dependent values: successive rows of its cell have a time_s"), "{table}");
    let (stderr, table) = imported("declared", &["--rows-are-runs"]);
    assert!(stderr.contains("each row counts as a run of its own, as you say"), "{stderr}");
    assert!(table.contains("slower") && table.contains("rows declared as runs"), "{table}");
}

/// Results that name day, machine and commit: one session a day, slower from the 10th on.
fn nights(days: u32) -> String {
    let mut csv = "batch,time_s,date,host,commit,commit_date\n".to_owned();
    for day in 1..=days {
        let (slower, commit) = if day < 10 { (1.0, "aaaa111") } else { (1.2, "bbbb222") };
        for repeat in 0..3 {
            let noise = 1.0 + 0.003 * f64::from((day * 7 + repeat * 5) % 11);
            csv += &format!(
                "8,{},2026-11-{day:02},gpu1,{commit},2026-11-{:02}\n",
                slower * noise,
                if day < 10 { 1 } else { 9 }
            );
        }
    }
    csv
}

#[test]
fn a_history_over_days_of_one_file_finds_the_day_from_which_it_is_slower() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    let csv = file(home, "nights.csv", &nights(20));
    succeed(command(home).args(["import", &csv, "--session", "nights", "--yes"]).current_dir(home));
    let history = json(&stdout(home, &["table", "nights", "--form", "history", "--format", "json"]));
    let rows = history["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 20);
    let changes: Vec<usize> = (0..20).filter(|row| !rows[*row]["change"].is_null()).collect();
    assert_eq!(changes, [9]);
    let change = &rows[9]["change"];
    assert!((change["median"].as_f64().unwrap() - 1.2).abs() < 0.02, "{change}");
    assert!(change["low"].as_f64().unwrap() < 1.2 && change["high"].as_f64().unwrap() > 1.2, "{change}");
    let note = history["notes"].to_string();
    assert!(note.contains("since 2026-11-10 (95 %: ") && note.contains("Program's git commit"), "{note}");
    let figure = home.join("history.svg").display().to_string();
    let stderr = text(
        &succeed(command(home).current_dir(home).args(["figure", "nights", "--form", "history", "--out", &figure]))
            .stderr,
    );
    assert!(stderr.contains("Shaded: where a change happened"), "{stderr}");
    assert!(fs::read_to_string(&figure).unwrap().contains("2026-11-20"));
    let by_commit = stdout(home, &["table", "nights", "--form", "history", "--along", "commits", "--format", "csv"]);
    assert!(by_commit.contains("aaaa111 2026-11-09") || by_commit.contains("bbbb222"), "{by_commit}");
}

#[test]
fn tables_and_figures_of_several_sessions_tell_cells_apart_by_what_differs() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    for (name, day, host) in [("one", 1, "gpu1"), ("two", 2, "gpu1"), ("three", 3, "gpu2")] {
        let csv = file(
            home,
            &format!("{name}.csv"),
            &format!("batch,time_s,date,host\n8,1,2026-11-0{day},{host}\n8,1.1,2026-11-0{day},{host}\n"),
        );
        succeed(command(home).args(["import", &csv, "--session", name, "--yes"]).current_dir(home));
    }
    let table = json(&stdout(home, &["table", "one", "two", "three", "--format", "json"]));
    let labels: Vec<(&str, &str, &str)> = table["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["session"].as_str().unwrap(), row["machine"].as_str().unwrap(), row["date"].as_str().unwrap()))
        .collect();
    assert_eq!(labels, [("one", "gpu1", "2026-11-01"), ("three", "gpu2", "2026-11-03"), ("two", "gpu1", "2026-11-02")]);
    let filtered = stdout(
        home,
        &["table", "one", "two", "three", "--filter", "machine=gpu1 and date>=2026-11-02", "--format", "csv"],
    );
    assert_eq!(filtered.lines().count(), 2, "{filtered}");
    let figure = home.join("machines.svg").display().to_string();
    stdout(home, &["figure", "one", "two", "three", "--colour", "machine", "--out", &figure]);
    let drawn = fs::read_to_string(&figure).unwrap();
    assert!(drawn.contains("gpu1") && drawn.contains("gpu2"));
    // The figure is drawn again from its sessions.
    stdout(home, &["figure", &figure, "--out", "again.svg", "--title", "Again"]);
    let error = refused(home, &["table", "one", "one"]);
    assert!(error.contains("is given twice"), "{error}");
    let error = refused(home, &["table", "one", "two", "--filter", "machin=gpu1"]);
    assert!(error.contains("did you mean \"machine\"?"), "{error}");
}
