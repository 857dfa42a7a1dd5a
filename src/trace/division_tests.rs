#![allow(clippy::unwrap_used)]

use std::path::Path;

use crate::protocol::TraceList;
use crate::trace::tests::{Fixture, golden_report};
use crate::trace::timeline::keep_for_timeline;
use crate::trace::{StepsFrom, Timeline, Trace, TraceError, Window, import_divided};
use std::ops::ControlFlow;

fn go(_: crate::trace::Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn divided(file: &Path, steps: &str) -> Result<Trace, TraceError> {
    let steps = if steps.is_empty() { StepsFrom::Found } else { steps.parse().unwrap() };
    import_divided(file, &Window::default(), &steps, &mut go)
}

/// A real report of twelve steps, cut down to five and a half, with its ranges or without.
fn real(folder: &Path, with_ranges: bool) -> std::path::PathBuf {
    let file = folder.join(format!("report-{with_ranges}.sqlite"));
    std::fs::write(&file, golden_report("single_100")).unwrap();
    if !with_ranges {
        rusqlite::Connection::open(&file).unwrap().execute("DELETE FROM NVTX_EVENTS", ()).unwrap();
    }
    file
}

#[test]
fn the_kernels_of_a_real_report_tell_its_steps_where_no_range_does() {
    let folder = tempfile::tempdir().unwrap();
    let (marked, bare) = (real(folder.path(), true), real(folder.path(), false));
    assert_eq!(divided(&marked, "").unwrap().steps_by.unwrap(), "ranges named step");
    let found = divided(&bare, "").unwrap();
    // Each step has the 465 kernels of this model's step.
    assert_eq!(found.steps, 5);
    let by = found.steps_by.clone().unwrap();
    assert!(
        by.starts_with("no range marks them: the kernel ") && by.ends_with("recurs with the same kernels before each"),
        "{by}"
    );
    assert!(crate::trace::markdown(&found).contains("- 5 steps of all ranks (no range marks them"));
    assert_eq!(found.lists().steps_by.unwrap(), by);
    let open = |file: &Path| {
        let kept = keep_for_timeline(file, Ok(folder.path().join("cache")), &mut go).unwrap();
        let timeline = Timeline::open(&kept, &mut go).unwrap();
        let split = timeline.split(&mut go).unwrap();
        let mut lengths: Vec<i64> = split.steps.iter().map(|step| step.span.1 - step.span.0).collect();
        lengths.sort_unstable();
        (timeline.steps_by().unwrap().to_owned(), split.has_steps, lengths)
    };
    let (of_ranges, of_kernels) = (open(&marked), open(&bare));
    assert_eq!((of_kernels.0, of_kernels.1, of_kernels.2.len()), (by, true, 5));
    // The steps last as long as those that the ranges mark.
    let [ranges, kernels] = [&of_ranges.2, &of_kernels.2].map(|lengths| lengths[lengths.len() / 2] as f64);
    assert!((kernels / ranges - 1.0).abs() < 0.1, "{kernels} {ranges}");
}

#[test]
fn steps_are_those_that_someone_names_or_marks() {
    let folder = tempfile::tempdir().unwrap();
    let bare = real(folder.path(), false);
    let found = divided(&bare, "").unwrap();
    let most = found.kernels.iter().max_by_key(|kernel| kernel.statistics.calls).unwrap();
    let named = divided(&bare, &most.name).unwrap();
    assert_eq!(named.steps, most.statistics.calls - 1, "each beginning but the last begins a step");
    assert!(named.steps_by.unwrap().starts_with("asked for: the kernel "));
    let of_calls = divided(&bare, "cudaLaunchKernel").unwrap();
    assert!(of_calls.steps > 2_000 && of_calls.steps_by.unwrap().starts_with("asked for: the call"));
    let part = divided(&bare, "cudaLaunchKer").unwrap().steps_by.unwrap();
    assert_eq!(part, "asked for: calls with cudaLaunchKer in their names, from one beginning to the next");
    assert!(divided(&bare, "no such thing").unwrap_err().to_string().contains("\"no such thing\""));
    assert!(divided(&bare, "900000:900001").unwrap_err().to_string().contains("between the marks"));
    for (wrong, why) in [("2:1", "before the second"), ("2:2", "before the second"), (" ", "a name or two times")] {
        assert!(wrong.parse::<StepsFrom>().unwrap_err().contains(why), "{wrong}");
    }
    // A name that only looks like two times.
    assert_eq!("a:b".parse(), Ok(StepsFrom::Named("a:b".to_owned())));
}

/// Kernels of these names, each 10 ns long and 100 ns after the one before.
fn made(names: &[i64]) -> Fixture {
    names.iter().enumerate().fold(Fixture::new(), |fixture, (place, name)| {
        fixture.kernel(place as i64 * 100, place as i64 * 100 + 10, *name)
    })
}

fn steps(names: &[i64]) -> (u64, Option<String>) {
    let trace = made(names).import().unwrap();
    (trace.steps, trace.steps_by)
}

#[test]
fn layers_within_a_step_are_no_steps_and_streams_that_change_their_order_are() {
    // Six layers of two kernels, then one at the end: twenty steps.
    let step: Vec<i64> = [3, 4].repeat(6).into_iter().chain([5]).collect();
    assert_eq!(steps(&step.repeat(20)).0, 19);
    // Two streams, whose kernels begin in either order.
    let orders: Vec<i64> =
        (0..20).flat_map(|number| if number % 2 == 0 { [5, 3, 4, 4] } else { [5, 4, 3, 4] }).collect();
    let (count, by) = steps(&orders);
    assert!(count == 19 && by.unwrap().contains("cudaMalloc"), "the name of the fixture's fifth string");
}

#[test]
fn what_does_not_recur_or_too_seldom_divides_nothing() {
    assert_eq!(steps(&[]), (0, None));
    assert_eq!(steps(&[3, 4, 5].repeat(5)).0, 0, "four times are too few");
    assert_eq!(steps(&[3, 4, 5].repeat(6)).0, 5);
    // Most of the recording is other work.
    let rest: Vec<i64> = (0..400).map(|place: i64| 3 + (place * place / 7) % 2).collect();
    let seldom = [[5, 4, 4, 3].repeat(7), rest].concat();
    assert!(!steps(&seldom).1.is_some_and(|by| by.contains("cudaMalloc")));
}

#[test]
fn what_is_divided_by_the_number_of_steps_is_the_work_within_them() {
    // Two steps with trials of algorithms, then twenty steps of three kernels, 300 ns.
    let lists = made(&[[3, 4, 4, 4, 4, 5].repeat(2), [3, 4, 5].repeat(20)].concat()).import().unwrap().lists();
    let (of_steps, steps) = lists.of_step(TraceList::Kernel);
    let calls = |kernels: &[crate::protocol::TraceEntry]| kernels.iter().map(|kernel| kernel.calls).collect::<Vec<_>>();
    assert!((19..22).contains(&steps), "{steps}");
    assert_eq!(calls(&of_steps.kernels), vec![steps; 3]);
    let step_s = (of_steps.gpu_busy_s + of_steps.gpu_idle_s) / steps as f64;
    assert!((step_s - 300e-9).abs() < 1e-12 && (of_steps.gpu_busy_s / steps as f64 - 30e-9).abs() < 1e-12, "{step_s}");
    assert_eq!(calls(&lists.kernels).iter().sum::<u64>(), 72, "sums over the recording have all work");
    assert!(lists.of_step(TraceList::Api).1 > steps, "calls of all steps are divided by all steps");
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(divided(&real(folder.path(), true), "").unwrap().lists().in_steps, None, "ranges hold all work");
}

#[test]
fn two_marks_tell_how_often_an_event_begins_in_a_step() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("made.sqlite");
    // Steps of 13 kernels, 1.3 µs; the first mark is in the third step, before the second kernel of its layers.
    let step: Vec<i64> = [3, 4].repeat(6).into_iter().chain([5]).collect();
    std::fs::write(&file, made(&step.repeat(20)).bytes()).unwrap();
    let found = divided(&file, "0.0000027:0.000004").unwrap();
    assert_eq!(
        (found.steps, found.steps_by.as_deref()),
        (19, Some("marked by hand: every 6 beginnings of the kernel ncclDevKernel_AllReduce_Sum_f32_RING_LL"))
    );
}
