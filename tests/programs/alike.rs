//! Plans that say other things about what is measured than earlier ones: the unit of a measure, and the warm-up.

use super::*;

/// A program that prints what a file says and its repeat, as a measure in a unit.
const PRINTED: &str = r#"
repeats = 3
[command]
name = "printed"
run = ["sh", "-c", "echo lat $(cat FILE){repeat}"]
[command.readings]
patterns = ['^lat (?<lat>\S+)']
[command.measures.lat]
unit = "UNIT"
better = "lower"
"#;

/// A program that reports 60 steps, of which the first 20 take three times as long.
const STEPS: &str = r#"
repeats = 2
[measure]
warm_up_steps = WARM_UP
[command]
name = "steps"
run = ["sh", "-c", '''
for step in $(seq 1 60); do
  took=0.00001
  if [ $step -le 20 ]; then took=0.00003; fi
  echo "{{\"step\": $step, \"duration_s\": $took}}" >> $MULTICARD_READINGS
done
''']
"#;

/// A new session of a plan.
fn session(plan: &str) -> Scene {
    let scene = Scene::new();
    scene.finish(plan);
    scene
}

/// What `multicard diff` says of sessions before and after, by a measure.
fn difference(before: &[Scene], after: &[Scene], measure: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_multicard"));
    command.arg("diff").args(before.iter().map(Scene::session)).arg("--").args(after.iter().map(Scene::session));
    text(&command.args(["--measure", measure, "--margin", "2%"]).output().unwrap().stdout)
}

#[test]
fn a_measure_whose_unit_changed_between_plans_is_compared_and_pooled_in_one_unit() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("value");
    let in_unit = |unit: &str| PRINTED.replace("FILE", file.to_str().unwrap()).replace("UNIT", unit);
    let sessions = |unit: &str, values: [&str; 2]| {
        values.map(|value| {
            fs::write(&file, value).unwrap();
            session(&in_unit(unit))
        })
    };
    let before = sessions("ms", ["12.50", "12.51"]);
    let same = difference(&before, &sessions("us", ["1250", "1251"]), "lat");
    assert!(same.contains("equal within 2 %"), "{same}");
    let faster = difference(&before, &sessions("us", ["12.50", "12.51"]), "lat");
    assert!(!faster.contains("equal within") && !faster.contains("not comparable"), "{faster}");
    let other = difference(&before, &sessions("rows", ["12.50", "12.51"]), "lat");
    assert!(other.contains("not comparable: the unit of lat is ms in one and rows in the other"), "{other}");
    fs::write(&file, "1250").unwrap();
    let [pooled, _] = &before;
    pooled.finish(&in_unit("us"));
    let table = pooled.table(&["--measure", "lat"]);
    let lat = table["rows"][0]["lat"]["median"].as_f64().unwrap();
    assert!((12.5..12.6).contains(&lat), "{table}");
}

#[test]
fn sessions_that_leave_out_other_warm_ups_get_no_verdict_by_steps_and_tables_and_launches_say_so() {
    let plan = |steps: &str| STEPS.replace("WARM_UP", steps);
    let sessions = |steps: &str| [session(&plan(steps)), session(&plan(steps))];
    let (before, after) = (sessions("0"), sessions("30"));
    let by_steps = difference(&before, &after, "training_time_s");
    assert!(by_steps.contains("not comparable: their warm-ups differ: 0 and 30 steps"), "{by_steps}");
    let whole = difference(&before, &after, "total_time_s");
    assert!(!whole.contains("warm-ups"), "{whole}");
    let [pooled, _] = &before;
    let resumed = pooled.run(&plan("30"), &["--resume"]);
    let resumed = text(&resumed.stderr);
    assert!(
        resumed.contains("differ from what the plan would run now: 2 runs with another warm-up (1, 2)"),
        "{resumed}"
    );
    assert_eq!(pooled.runs().len(), 2, "the cells are the same");
    pooled.finish(&plan("30"));
    let table = pooled.table(&["--measure", "training_time_s"]);
    assert_eq!(table["rows"].as_array().unwrap().len(), 1, "{table}");
    assert!(table["notes"].to_string().contains("warm-ups differ: runs leave out 0 to 30 steps"), "{table}");
}

#[test]
fn the_margins_of_the_plan_that_was_launched_last_apply_to_kept_runs_too() {
    /// The second program is twice as fast as the first one and computes something else.
    const CHECKED: &str = r#"
repeats = 4
[command]
name = "checked"
run = ["sh", "-c", "echo rate {speed}00{repeat} quality $((11 - {speed})).00{repeat}"]
[command.readings]
patterns = ['^rate (?<rate>\S+) quality (?<quality>\S+)']
[command.measures.rate]
better = "higher"
on_speed = true
[check]
quality = "MARGIN"
[factors]
speed = [1, 2]
"#;
    let plan = |margin: &str| CHECKED.replace("MARGIN", margin);
    let scene = session(&plan("20%"));
    let check = || {
        let table = scene.table(&["--measure", "rate"]);
        (table["rows"][1]["verdict"]["check_words"].as_str().unwrap_or_default().to_owned(), table["notes"].to_string())
    };
    let (same, notes) = check();
    assert_eq!(same, "check values are equal within their margins", "{notes}");
    let resume = |margin: &str| {
        assert_eq!(scene.run(&plan(margin), &["--resume"]).status.code(), Some(0));
        assert_eq!(scene.runs().len(), 8, "all runs are kept");
        check()
    };
    let (differs, notes) = resume("1%");
    assert!(differs.starts_with("quality differs: 9.00"), "{differs}");
    assert!(notes.contains("quality (within 1 %)") && !notes.contains("20 %"), "{notes}");
    // Also where the same plan was launched before.
    assert_eq!(resume("20%").0, same);
    assert_eq!(resume("20%").0, same, "nothing is left to do");
}

#[test]
fn a_margin_of_a_formula_is_in_the_unit_that_the_plan_declares() {
    /// The second program is twice as fast as the first one, and prints a latency that is 100 us shorter.
    const CHECKED: &str = r#"
repeats = 4
[command]
name = "timed"
run = ["sh", "-c", "echo rate {speed}00{repeat} lat 5.$((2 - {speed}))0{repeat}"]
[command.readings]
patterns = ['^rate (?<rate>\S+) lat (?<lat>\S+)']
[command.measures.rate]
better = "higher"
on_speed = true
[command.measures.lat]
unit = "ms"
[measures]
slat = { formula = "lat * 1", unit = "UNIT" }
[check]
slat = MARGIN
[factors]
speed = [1, 2]
"#;
    let plan = |unit: &str, margin: &str| CHECKED.replace("UNIT", unit).replace("MARGIN", margin);
    let scene = session(&plan("us", "50"));
    let check = || {
        let table = scene.table(&["--measure", "rate"]);
        (table["rows"][1]["verdict"]["check_words"].as_str().unwrap_or_default().to_owned(), table["notes"].to_string())
    };
    let (differs, notes) = check();
    assert!(differs.starts_with("slat differs: 5002.500 against 5102.500 us"), "{differs}");
    assert!(notes.contains("slat (within 50 us)"), "{notes}");
    // The session keeps its measure in us, and the margin of the later plan is in its own unit.
    for (unit, margin, expected) in
        [("us", "150", "equal within"), ("ms", "0.05", "differs"), ("ms", "0.15", "equal within")]
    {
        assert_eq!(scene.run(&plan(unit, margin), &["--resume"]).status.code(), Some(0));
        let (judged, notes) = check();
        assert!(judged.contains(expected), "{margin} {unit}: {judged}; {notes}");
    }
}

#[test]
fn sessions_that_disagree_on_the_good_values_of_a_measure_get_no_verdict_until_a_plan_corrects_it() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("value");
    let plan = |better: &str| {
        let plan = PRINTED.replace("FILE", file.to_str().unwrap()).replace("UNIT", "points");
        plan.replace("better = \"lower\"", &format!("better = \"{better}\""))
    };
    let sessions = |better: &str, values: [&str; 2]| {
        values.map(|value| {
            fs::write(&file, value).unwrap();
            session(&plan(better))
        })
    };
    let (low, high) = (sessions("lower", ["12.50", "12.51"]), sessions("higher", ["15.00", "15.01"]));
    let reason = "not comparable: low values of lat are declared to be good in one and high values in the other";
    for (before, after) in [(&low, &high), (&high, &low)] {
        let table = difference(before, after, "lat");
        assert!(table.contains(reason), "{table}");
    }
    // A later plan of the session corrects it, also if it runs nothing.
    for scene in &low {
        assert_eq!(scene.run(&plan("higher"), &["--resume"]).status.code(), Some(0));
        assert_eq!(scene.runs().len(), 3);
    }
    let table = difference(&low, &high, "lat");
    assert!(!table.contains("not comparable") && table.contains("higher"), "{table}");
}
