//! Programs that tell wrong times for their steps are found out by when their lines arrive.

use multicard::analysis::{Clock, Contradiction, Doubt, Mark, RunSummary, summarise_run};
use multicard::store::Reader;

use super::*;

/// Steps of 20 ms. `honest` tells them as they are, `fast` a tenth of that, `unit` milliseconds as seconds, `held` honest ones, all
/// lines at the end, and `whole` honest ones in whole milliseconds.
const PROGRAM: &str = r#"
import sys, time
kind, lines = sys.argv[1], []
for step in range(60):
    began = time.perf_counter()
    time.sleep(0.02)
    took = time.perf_counter() - began
    told = {"fast": took / 10, "unit": 1e3 * took, "whole": round(took, 3)}.get(kind, took)
    lines.append(f"step {step} loss 1.0 took {told:.3f}" if kind == "whole" else f"step {step} loss 1.0 took {told:.9f}")
    if kind != "held":
        print(lines.pop(), flush=True)
print("\n".join(lines))
"#;

#[test]
fn told_step_times_are_confirmed_doubted_or_impossible_by_when_their_lines_arrived() {
    let Some(python) = python_with("time") else { return };
    let scene = Scene::new();
    fs::write(scene.programs().join("train.py"), PROGRAM).unwrap();
    let plan = format!(
        "[command]\nrun = [\"{python}\", \"{{programs}}/train.py\", \"{{kind}}\"]\n[command.readings]\n\
         patterns = ['step (?<step>\\d+) loss (?<loss>\\S+) took (?<duration_s>\\S+)']\n\
         [factors]\nkind = [\"honest\", \"fast\", \"unit\", \"held\", \"whole\"]\n"
    );
    scene.finish(&plan);
    let reader = Reader::open(&scene.session()).unwrap();
    let run = |kind: &str| -> RunSummary {
        let runs = reader.runs().unwrap();
        let of_kind = runs.iter().find(|run| run.levels.get("kind").unwrap().to_string() == kind).unwrap();
        summarise_run(&reader.run(&of_kind.run).unwrap().unwrap())
    };
    let honest = run("honest");
    assert_eq!(honest.clock, Some(Clock::Confirmed), "{:?} {:?}", honest.value("clock_ratio"), honest.marks);
    assert!(
        honest.started_s.is_some()
            && honest.launch == "p1"
            && honest.told_resolution_s.is_none_or(|step_s| step_s < 1e-8)
    );
    let fast = run("fast").clock.unwrap();
    assert!(matches!(fast, Clock::Unconfirmed(Doubt::FartherApart { .. })), "{fast}");
    let unit = run("unit");
    let Some(Clock::Impossible(Contradiction::LongerThanPassed { told_s, .. })) = unit.clock else {
        panic!("{:?}", unit.clock)
    };
    let labels: Vec<_> = unit.marks.iter().map(|mark| mark.label()).collect();
    assert!(told_s > 1_000.0 && labels.contains(&"impossible times") && !labels.contains(&"clock set"), "{labels:?}");
    let held = run("held").clock.unwrap();
    assert!(matches!(held, Clock::Unconfirmed(Doubt::Together { .. })), "{held}");
    let whole = run("whole");
    assert!(whole.told_resolution_s.unwrap() >= 1e-3 - 1e-9 && whole.clock == Some(Clock::Confirmed), "{whole:?}");
}

/// 100 steps of 20 ms with the times at which they end: the right ones, or by a clock that runs at half the speed, or that is set by an
/// hour in each step.
const TIMES: &str = r#"
import json, os, sys, time
kind, begun = sys.argv[1], time.time()
with open(os.environ["MULTICARD_READINGS"], "a", buffering=1) as file:
    for step in range(100):
        time.sleep(0.02)
        now = time.time()
        told = {"half": begun + (now - begun) / 2, "hours": now + 3600 * step}.get(kind, now)
        file.write(json.dumps({"step": step, "loss": 1.0, "time_s": told}) + "\n")
"#;

#[test]
fn reported_times_of_steps_are_held_against_the_arrival_of_their_lines_like_reported_durations() {
    let Some(python) = python_with("time") else { return };
    let scene = Scene::new();
    fs::write(scene.programs().join("train.py"), TIMES).unwrap();
    scene.finish(&format!(
        "[command]\nrun = [\"{python}\", \"{{programs}}/train.py\", \"{{kind}}\"]\n\
         [factors]\nkind = [\"right\", \"half\", \"hours\"]\n"
    ));
    let reader = Reader::open(&scene.session()).unwrap();
    let run = |kind: &str| -> RunSummary {
        let runs = reader.runs().unwrap();
        let of_kind = runs.iter().find(|run| run.levels.get("kind").unwrap().to_string() == kind).unwrap();
        summarise_run(&reader.run(&of_kind.run).unwrap().unwrap())
    };
    let right = run("right");
    assert!(right.clock.is_none_or(|clock| !clock.is_impossible()), "{:?}", right.clock);
    let half = run("half").clock.unwrap();
    assert!(matches!(half, Clock::Unconfirmed(_)), "{half}");
    let hours = run("hours");
    let Some(Clock::Impossible(Contradiction::LongerThanPassed { .. })) = hours.clock else {
        panic!("{:?}", hours.clock)
    };
    let labels: Vec<_> = hours.marks.iter().map(|mark| mark.label()).collect();
    assert!(labels.contains(&"impossible times") && !labels.contains(&"clock set"), "{labels:?}");
}

/// 60 steps of 20 ms from the middle of a second on, in rows with the date and the time of day in whole seconds.
const WHOLE_SECONDS: &str = r#"
import os, time
time.sleep(1.45 - time.time() % 1)
with open(os.environ["MULTICARD_RUN_FOLDER"] + "/metrics.csv", "w", buffering=1) as file:
    file.write("timestamp,step,loss\n")
    for step in range(1, 61):
        time.sleep(0.02)
        file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')},{step},0.5\n")
"#;

#[test]
fn steps_that_share_the_second_of_their_time_are_timed_by_when_their_rows_are_written() {
    let Some(python) = python_with("time") else { return };
    let scene = Scene::new();
    fs::write(scene.programs().join("train.py"), WHOLE_SECONDS).unwrap();
    scene.finish(&format!(
        "[measure]\nwarm_up_steps = 0\n[command]\nrun = [\"{python}\", \"{{programs}}/train.py\"]\n\
         [command.readings]\nfiles = [\"{{run_folder}}/metrics.csv\"]\n"
    ));
    let reader = Reader::open(&scene.session()).unwrap();
    let run = reader.runs().unwrap().remove(0);
    let summary = summarise_run(&reader.run(&run.run).unwrap().unwrap());
    let value = |key: &str| summary.value(key).unwrap();
    assert!((0.019..0.03).contains(&value("step_time_s")), "{}", value("step_time_s"));
    assert!((1.15..1.8).contains(&value("training_time_s")), "{}", value("training_time_s"));
    assert!(value("training_time_s") < value("program_time_s"), "{:?}", summary.marks);
}

/// 300 steps of 10 ms; each tenth is printed with the time since the last one that was.
const EACH_TENTH: &str = r#"
import time
last = time.perf_counter()
for step in range(1, 301):
    time.sleep(0.01)
    if step % 10 == 0:
        now = time.perf_counter()
        print(f"step {step} loss 1.0 time {1e3 * (now - last):.1f}ms", flush=True)
        last = now
"#;

#[test]
fn a_printed_time_since_the_last_line_is_divided_by_the_steps_that_it_covers() {
    let Some(python) = python_with("time") else { return };
    let scene = Scene::new();
    fs::write(scene.programs().join("train.py"), EACH_TENTH).unwrap();
    scene.finish(&format!("[command]\nrun = [\"{python}\", \"{{programs}}/train.py\"]\n"));
    let reader = Reader::open(&scene.session()).unwrap();
    let runs = reader.runs().unwrap();
    let summary = summarise_run(&reader.run(&runs[0].run).unwrap().unwrap());
    assert_eq!(summary.clock, Some(Clock::Confirmed), "{:?} {:?}", summary.value("clock_ratio"), summary.marks);
    assert!(summary.marks.contains(&Mark::TimesDivided { steps: 10.0 }), "{:?}", summary.marks);
    let value = |key: &str| summary.value(key).unwrap();
    assert!((0.01..0.03).contains(&value("step_time_s")), "{}", value("step_time_s"));
    assert!(value("training_time_s") < value("total_time_s") + 0.5, "{}", value("training_time_s"));
}

/// A program that lives for a moment and reports 50,000 steps at its end.
const ALL_AT_THE_END: &str = r#"
import os
with open(os.environ["MULTICARD_READINGS"], "a") as file:
    file.write("".join('{"step":%d,"loss":0.5,"duration_s":1e-6}\n' % step for step in range(1, 50_001)))
"#;

#[test]
fn a_run_ends_with_its_program_and_not_when_what_the_program_reported_was_read() {
    let Some(python) = python_with("json") else { return };
    let scene = Scene::new();
    fs::write(scene.programs().join("train.py"), ALL_AT_THE_END).unwrap();
    scene.finish(&format!("[command]\nrun = [\"{python}\", \"{{programs}}/train.py\"]\n"));
    let reader = Reader::open(&scene.session()).unwrap();
    let runs = reader.runs().unwrap();
    let total_s = reader.run(&runs[0].run).unwrap().unwrap().launched_s().unwrap();
    let log = fs::read_to_string(scene.runs()[0].join("rank-0.jsonl")).unwrap();
    let times_s = log.lines().flat_map(|line| read_event_line(line.as_bytes()).unwrap()).map(|line| line.time_s);
    let times_s: Vec<f64> = times_s.collect();
    let steps = events(&scene.runs()[0]).into_iter().filter(|event| matches!(event, Event::Step { .. })).count();
    assert_eq!(steps, 50_000);
    // The runner writes its first line when it begins, and its last one when it has read all lines. The time of that line is the program's
    // end.
    let after_s = |time_s: f64| time_s - times_s.first().unwrap();
    let (ended_after_s, read_after_s) =
        (after_s(*times_s.last().unwrap()), after_s(times_s.iter().copied().fold(0.0, f64::max)));
    assert!(total_s < read_after_s, "{total_s} s, and everything was read after {read_after_s} s");
    assert!(ended_after_s < read_after_s, "its energy ends after {ended_after_s} s, of {read_after_s} s");
    assert!(total_s >= reading(&scene.runs()[0], "program_time_s").unwrap());
}

/// A library that shifts the machine's clock, as other programs see it, by the seconds that a file says.
const OTHER_CLOCK: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
  int result = syscall(SYS_clock_gettime, clock, time);
  int file = clock == CLOCK_REALTIME ? open(getenv("CLOCK_SET_BY"), O_RDONLY | O_CLOEXEC) : -1;
  if (file >= 0) {
    char text[32] = {0};
    if (read(file, text, sizeof(text) - 1) > 0) time->tv_sec += atol(text);
    close(file);
  }
  return result;
}
"#;

#[test]
fn a_clock_that_is_set_during_a_run_makes_no_step_longer_or_shorter() {
    let scene = Scene::new();
    let [source, library, set_by] = ["clock.c", "clock.so", "set-by"].map(|name| scene.programs().join(name));
    fs::write(&source, OTHER_CLOCK).unwrap();
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    assert!(compiled.expect("cc, which links this test").success());
    // Its own clock is set in the middle of its steps, by an hour and back.
    let program = format!(
        "for step in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.1; echo step $step\n\
         case $step in 4) echo 3600 > {set};; 8) echo 0 > {set};; esac\ndone",
        set = set_by.display()
    );
    fs::write(scene.programs().join("steps.sh"), program).unwrap();
    let plan = "[measure]\nwarm_up_steps = 0\n[command]\nrun = [\"sh\", \"{programs}/steps.sh\"]\n[command.readings]\n\
                patterns = ['step (?<step>\\d+)']\n";
    let mut command = scene.command(plan);
    let output = command.env("LD_PRELOAD", &library).env("CLOCK_SET_BY", &set_by).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let reader = Reader::open(&scene.session()).unwrap();
    let runs = reader.runs().unwrap();
    let run = reader.run(&runs[0].run).unwrap().unwrap();
    let steps = &run.ranks[0].steps;
    let counted: Vec<_> = steps.iter().filter(|step| !step.warm_up).map(|step| step.duration_s).collect();
    // On a busy machine several lines can arrive together.
    assert!(counted.len() >= 8 && counted.iter().all(|duration_s| (0.0..60.0).contains(duration_s)), "{steps:?}");
    let warnings = format!("{:?}", run.ranks[0].warnings);
    assert!(warnings.contains("set by +3600.0 s") && warnings.contains("set by -3600.0 s"), "{warnings}");
}
