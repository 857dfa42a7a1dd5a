//! What it costs a rank to record a step: it must stay under 1 % of a step of 5 ms, that is 50 µs.

// The worker's own log, not a copy; what a bench does not use is no loss.
#[allow(dead_code, unused_imports)]
#[path = "../../src/worker/recording.rs"]
mod recording;
#[allow(dead_code, unused_imports)]
#[path = "../../src/worker/report.rs"]
mod report;

use std::time::Instant;

use multicard::plan::{Data, Levels, Shape};
use multicard::protocol::{Event, Job};

const STEPS: u64 = 200_000;
const STEP_S: f64 = 0.005;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let empty = Job::new("image".into(), Levels::default(), Shape::default(), Data::default());
    let job = Job { run: "0001-0123abcd-1".into(), folder: folder.path().into(), ..empty };
    let mut report = report::Report::open(&job, 0)?;
    let mut costs_s = Vec::with_capacity(STEPS as usize);
    for step in 1..=STEPS {
        let event = Event::Step {
            epoch: 1,
            step,
            steps: STEPS,
            duration_s: STEP_S + step as f64 * 1e-9,
            load_wait_s: 1.5e-6,
            loss: 2.3 / step as f64,
            units: 64,
            warm_up: false,
            traced: false,
        };
        let begin = Instant::now();
        report.event(event)?;
        costs_s.push(begin.elapsed().as_secs_f64());
    }
    let mean_s = costs_s.iter().sum::<f64>() / STEPS as f64;
    costs_s.sort_by(f64::total_cmp);
    let share = |cost_s: f64| format!("{:.2} µs ({:.3} % of a step of 5 ms)", cost_s * 1e6, cost_s / STEP_S * 100.0);
    println!("recording a step, {STEPS} steps: mean {}", share(mean_s));
    println!("median {}, 99.9 % {}", share(costs_s[costs_s.len() / 2]), share(costs_s[costs_s.len() * 999 / 1000]));
    Ok(())
}
