//! Searches on the command line, with programs that really run: a small kernel on this machine, and a program that
//! reports chosen step times. The conductor of the second search is killed again and again.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use multicard::plan::{SearchStep, SearchVerdict};
use multicard::store::Reader;
use tempfile::TempDir;

mod seeded;

use seeded::{command, succeed, text};

const DEADLINE: Duration = Duration::from_secs(120);

fn steps(session: &Path) -> Vec<SearchStep> {
    Reader::open(session).unwrap().searches().unwrap().pop().map(|(_, steps)| steps).unwrap_or_default()
}

fn verdict(session: &Path) -> SearchVerdict {
    match steps(session).pop() {
        Some(SearchStep::Ended(verdict)) => verdict,
        step => panic!("the search is not over: {step:?}"),
    }
}

#[test]
fn the_shipped_search_finds_the_tile_of_a_real_program_and_says_what_it_cost() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("sessions");
    // The same program on a smaller matrix, with a tile that is too large for it.
    fs::create_dir(home.join("programs")).unwrap();
    fs::copy(shipped.join("programs/transpose.c"), home.join("programs/transpose.c")).unwrap();
    let plan = fs::read_to_string(shipped.join("search.toml")).unwrap().replace("\"2048\", \"12\"", "\"1024\", \"20\"");
    let plan = plan.replace("repeats = 12", "repeats = 6").replace("runs = 96", "runs = 60");
    fs::write(home.join("search.toml"), plan).unwrap();
    let planned = text(&succeed(command(home).arg("plan").arg(home.join("search.toml"))).stdout);
    let question = "max bandwidth_gb_per_s, keep peak_resident_bytes < 1 GB";
    assert!(planned.contains(&format!("Search: {question}. It begins with 16 runs and ends after at most 60 of 96")));
    let session = home.join("session");
    let run = command(home).arg("run").arg(home.join("search.toml")).arg("--session").arg(&session).output().unwrap();
    let printed = text(&run.stderr);
    // Two cells fail, so the exit code is not 0.
    assert_eq!(run.status.code(), Some(1), "{printed}");
    for line in [
        &format!("search: {question} among 16 cells"),
        "round 1: dropped tile 2048, order rows: failed: ",
        "a tile of 2048 is larger than the matrix of 1024",
        "round 1: 14 cells run again",
        "answer: tile ",
        "it took ",
        "the whole grid would take 96 runs",
    ] {
        assert!(printed.contains(line), "{line:?} is missing in {printed}");
    }
    let verdict = verdict(&session);
    assert!(
        verdict.made.runs <= 60 && verdict.grid.runs == 96 && verdict.made.steps < verdict.grid.steps,
        "{verdict:?}"
    );
    let chosen = verdict.chosen.unwrap();
    let table = text(&succeed(command(home).arg("table").arg(&session)).stdout);
    assert!(table.contains(&format!("Search of search: {question}\n\n- answer: tile ")), "{table}");
    assert!(table.contains("- cells were dropped in this order: tile 2048, order "), "{table}");
    let shown = text(&succeed(command(home).args(["session", "show"]).arg(&session)).stdout);
    assert!(shown.contains("## Search of search\n") && shown.contains("- round 1: dropped tile 2048"), "{shown}");
    let json = text(&succeed(command(home).args(["session", "show", "--format", "json"]).arg(&session)).stdout);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let last = json["searches"][0]["steps"].as_array().unwrap().last().unwrap();
    assert_eq!((last["step"].as_str(), last["chosen"].as_str()), (Some("ended"), Some(chosen.as_str())));
    // The search is over: nothing runs again.
    let mut again = command(home);
    again.arg("run").arg(home.join("search.toml")).arg("--resume").arg("--session").arg(&session);
    let again = text(&again.output().unwrap().stderr);
    assert!(again.contains("0 runs queued") && again.contains("answer: tile "), "{again}");
    // An archive contains the search; an anonymous one does not.
    for (name, anonymous) in [("whole.zip", false), ("anonymous.zip", true)] {
        let archive = home.join(name);
        let mut export = command(home);
        export.args(["session", "export"]).arg(&session).arg("--out").arg(&archive);
        succeed(if anonymous { export.arg("--anonymous") } else { &mut export });
        let copy = home.join(name.trim_end_matches(".zip"));
        succeed(command(home).args(["session", "import"]).arg(&archive).arg("--session").arg(&copy));
        assert_eq!(steps(&copy).is_empty(), anonymous, "{name}");
    }
}

#[test]
fn a_search_that_is_wrong_is_refused_with_its_line_before_anything_runs() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    let plan = home.join("wrong.toml");
    let refused = |search: &str, arguments: &[&str]| {
        let text_of_plan = format!(
            "version = 1\nrepeats = 6\n[command]\nrun = [\"true\", \"{{n}}\"]\n[factors]\nn = [1, 2]\n[search]\n{search}\n"
        );
        fs::write(&plan, text_of_plan).unwrap();
        let session = home.join("session");
        let output =
            command(home).arg("run").arg(&plan).arg("--session").arg(&session).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(!session.exists(), "nothing was written");
        text(&output.stderr)
    };
    let error = refused("goal = \"max sped\"", &[]);
    assert!(error.contains("wrong.toml:8: search.goal: there is no measure \"sped\""), "{error}");
    let error = refused("goal = \"min program_time_s\"\nkeep = \"peak_resident_bytes < 3 s\"", &[]);
    assert!(error.contains("wrong.toml:9: search.keep: peak_resident_bytes has the unit B"), "{error}");
    let error = refused("goal = \"min program_time_s\"", &["--until", "1%"]);
    assert!(error.contains("leave out --until, or [search]"), "{error}");
    let error = refused("goal = \"min program_time_s\"", &["--site", "big"]);
    assert!(error.contains("searches run on this machine only") || error.contains("big"), "{error}");
}

/// A search whose program reports step times that depend on its level and repeat. It takes a moment.
fn telling(home: &Path) -> PathBuf {
    let program = "for s in 1 2 3; do echo \"{\\\"step\\\": $s, \\\"duration_s\\\": 0.0$(( 200 + 20 * $1 ))$2}\"; done; sleep 0.2";
    let plan = format!(
        "version = 1\nname = \"telling\"\nworkload = \"command\"\nrepeats = 8\n[measure]\nwarm_up_steps = 0\n[command]\n\
         run = [\"sh\", \"-c\", '''{}''', \"sh\", \"{{n}}\", \"{{repeat}}\"]\n[factors]\nn = [3, 1, 2, 4]\n[search]\ngoal = \"min step_time_s\"\n",
        program.replace('{', "{{").replace('}', "}}")
    );
    let file = home.join("telling.toml");
    fs::write(&file, plan).unwrap();
    file
}

fn launch(home: &Path, plan: &Path, session: &Path) -> Child {
    let mut run = command(home);
    run.arg("run").arg(plan).arg("--resume").arg("--session").arg(session);
    run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn ended_runs(session: &Path) -> usize {
    let journal = fs::read_to_string(session.join("journal.jsonl")).unwrap_or_default();
    journal.matches("\"run_ended\"").count()
}

#[test]
fn a_search_whose_multicard_is_killed_again_and_again_ends_like_one_that_nobody_killed() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    let plan = telling(home);
    let undisturbed = home.join("undisturbed");
    assert!(launch(home, &plan, &undisturbed).wait().unwrap().success());
    let whole = verdict(&undisturbed);
    let killed = home.join("killed");
    let begun = Instant::now();
    for count in 1.. {
        let mut child = launch(home, &plan, &killed);
        // It is killed once one more run has ended, wherever it is then.
        let is_over = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status.success();
            }
            if ended_runs(&killed) >= count {
                Command::new("kill").args(["-KILL", &child.id().to_string()]).status().unwrap();
                child.wait().unwrap();
                break false;
            }
            assert!(begun.elapsed() < DEADLINE, "the search never ends");
            std::thread::sleep(Duration::from_millis(3));
        };
        if is_over {
            break;
        }
    }
    let found = verdict(&killed);
    assert_eq!((found.end, &found.values), (whole.end, &whole.values));
    let why = |session: &Path| -> Vec<String> {
        let dropped = steps(session).into_iter().filter_map(|step| match step {
            SearchStep::Round { round, dropped, .. } => Some(format!("{round}: {dropped:?}")),
            _ => None,
        });
        dropped.collect()
    };
    assert_eq!(why(&killed), why(&undisturbed));
    assert_eq!(found.chosen, whole.chosen);
}

#[test]
fn a_search_that_was_interrupted_and_resumed_ends_well_although_runs_were_cancelled() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    let (plan, session) = (telling(home), home.join("session"));
    let mut child = launch(home, &plan, &session);
    let begun = Instant::now();
    while ended_runs(&session) < 2 {
        assert!(begun.elapsed() < DEADLINE && child.try_wait().unwrap().is_none(), "the search goes on");
        std::thread::sleep(Duration::from_millis(3));
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(!child.wait().unwrap().success());
    let journal = fs::read_to_string(session.join("journal.jsonl")).unwrap();
    assert!(journal.contains("cancelled"), "{journal}");
    assert!(
        launch(home, &plan, &session).wait().unwrap().success(),
        "runs that were made again do not count as failed"
    );
    verdict(&session);
}
