//! Several recordings and ranks: aligned, folded, side by side, and connected by their collectives.

use super::*;
use crate::trace::MarkKind;

#[test]
fn runs_are_aligned_at_a_step_and_the_step_that_differs_most_is_shown_first() {
    let folder = tempfile::tempdir().unwrap();
    let even = [(1_000, 9_000); 8];
    let mut slow = even;
    slow[5] = (41_000, 9_000);
    let files =
        [("even", ranges(folder.path(), "a.events", &even)), ("slow", ranges(folder.path(), "b.events", &slow))];
    let mut harness = harness(state_of(&files, folder.path()));
    click(&mut harness, "Steps");
    let marked = "What marks the steps of even: ranges that name them; of slow: ranges that name them.";
    assert!(harness.query_by_label(marked).is_some());
    // The table offers the sixth step first.
    let top = |step: usize| {
        let label = format!("Show step {step}");
        harness.query_by_label(&label).map(|node| node.rect().top())
    };
    let first = (1..=8).filter_map(|step| Some((top(step)?, step))).min_by(|a, b| a.0.total_cmp(&b.0));
    assert_eq!(first.map(|(_, step)| step), Some(6));
    assert!(harness.query_all_by_label_contains("waiting for data").next().is_some());
    click(&mut harness, "Show step 6");
    let state = now(&harness);
    assert_eq!(state.anchor, Anchor::Step(6));
    let starts: Vec<i64> =
        state.runs.iter().map(|run| run.timeline.marks(MarkKind::Step).nth(5).unwrap().span.0 - run.zero).collect();
    assert_eq!(starts, [0, 0]);
    assert!(state.view.0 < 0 && state.view.1 > 9_000);
    click(&mut harness, "Time by part");
    click(&mut harness, "Sort by slow − even");
    assert_eq!(now(&harness).sort, (2, false));
    click(&mut harness, "Sort by slow − even");
    assert_eq!(now(&harness).sort, (2, true));
}

#[test]
fn what_limits_a_run_is_read_whole_in_a_small_window() {
    let folder = tempfile::tempdir().unwrap();
    let file = ranges(folder.path(), "a.events", &[(1_000, 9_000); 12]);
    let mut harness = harness(state_of(&[("a", file)], folder.path()));
    // The room of a screen in the smallest window.
    harness.set_size(vec2(680.0, 420.0));
    answer(&mut harness);
    let Some(Ok(split)) = &now(&harness).runs[0].split else { panic!("the time was not added up") };
    let drawn = harness.output().shapes.iter().filter_map(|clipped| match &clipped.shape {
        eframe::egui::Shape::Text(text) if text.galley.text() == split.binding.sentence => Some(&text.galley),
        _ => None,
    });
    let drawn: Vec<(usize, bool)> = drawn.map(|galley| (galley.rows.len(), galley.elided)).collect();
    assert_eq!(drawn, [(2, false)], "{}", split.binding.sentence);
}

#[test]
fn runs_are_aligned_at_an_event_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let a = ranges(folder.path(), "a.events", &[(1_000, 2_000), (1_000, 2_000)]);
    let b = ranges(folder.path(), "b.events", &[(7_000, 2_000), (1_000, 2_000)]);
    let mut state = state_of(&[("a", a), ("b", b)], folder.path());
    send(&mut state, TimelineCommand::AlignAtSelected);
    let own: &TimelineScreen = state.own();
    assert_eq!(own.anchor, Anchor::Start, "nothing is selected");
    assert!(own.outcome.as_ref().unwrap().0.contains("Select a single event first"), "{:?}", own.outcome);
    send(&mut state, TimelineCommand::Search("forward".to_owned()));
    send(&mut state, TimelineCommand::Find);
    send(&mut state, TimelineCommand::Find);
    let own: &TimelineScreen = state.own();
    let second = own.selected.unwrap();
    assert_eq!(second.run, 0, "the second forward of a");
    let mut harness = harness(state);
    answer(&mut harness);
    click(&mut harness, "Align runs at this event");
    let own = now(&harness);
    assert_eq!(own.anchor, Anchor::Event("forward".to_owned()));
    assert_eq!(own.runs[0].zero, second.event.item.span.0);
    assert_eq!(own.runs[1].zero, 5_007_000, "the first forward of b");
    // A recording that is opened afterwards has its own, and one without such an event says so.
    let c = ranges(folder.path(), "c.events", &[(50, 2_000)]);
    let events = keep_for_timeline(&c, Ok(folder.path().to_owned()), &mut go).unwrap();
    send(&mut harness.state_mut().0, TimelineCommand::Open(events, "c".to_owned()));
    assert_eq!(now(&harness).runs[2].zero, 5_000_050);
    let file = folder.path().join("d.events");
    let mut recorder = Recorder::append(&file, 0, None).unwrap();
    recorder.range("backward", 7, (900, 1_000)).unwrap();
    recorder.finish(7).unwrap();
    let events = keep_for_timeline(&file, Ok(folder.path().to_owned()), &mut go).unwrap();
    send(&mut harness.state_mut().0, TimelineCommand::Open(events, "d".to_owned()));
    let own = now(&harness);
    assert_eq!(own.runs[3].zero, 900);
    assert!(own.outcome.as_ref().unwrap().0.contains("No event named forward in d"), "{:?}", own.outcome);
}

#[test]
fn ranks_and_recordings_fold_and_an_event_that_is_found_unfolds_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let a = ranges(folder.path(), "a.events", &[(1_000, 2_000)]);
    let b = ranges(folder.path(), "b.events", &[(1_000, 2_000)]);
    let state = state_of(&[("a", a), ("b", b)], folder.path());
    let group = state.own::<TimelineScreen>().runs[0].timeline.rows()[0].group.clone();
    let all = state.own::<TimelineScreen>().rows().count();
    let height = |harness: &Window| layout::lines(now(harness), 0..now(harness).runs.len()).1;
    let mut harness = harness(state);
    let whole = height(&harness);
    click(&mut harness, "Fold a");
    assert!(now(&harness).rows().all(|(place, _)| place == 1));
    assert!(height(&harness) < whole);
    // Keys step over what is folded.
    press(&mut harness, eframe::egui::Key::ArrowDown);
    assert_eq!(now(&harness).row, Some((1, 0)));
    press(&mut harness, eframe::egui::Key::H);
    assert_eq!(
        now(&harness)
            .rows()
            .filter(|(place, row)| { now(&harness).runs[*place].timeline.rows()[*row].group == group })
            .count(),
        0
    );
    let folded = height(&harness);
    // Closed and opened again, it is as it was.
    let (file, name) = {
        let run = &now(&harness).runs[0];
        (run.file.clone(), run.name.clone())
    };
    send(&mut harness.state_mut().0, TimelineCommand::Close(0));
    send(&mut harness.state_mut().0, TimelineCommand::Open(file, name));
    assert_eq!(height(&harness), folded);
    // A later window shows them like that, too.
    let kept = toml::to_string(&harness.state().0.desk.settings).unwrap();
    let mut later = State::new(toml::from_str(&kept).unwrap());
    for run in &now(&harness).runs {
        send(&mut later, TimelineCommand::Open(run.file.clone(), run.name.clone()));
    }
    let shown: &TimelineScreen = later.own();
    assert_eq!(layout::lines(shown, 0..2).1, folded);
    send(&mut harness.state_mut().0, TimelineCommand::Search("forward".to_owned()));
    send(&mut harness.state_mut().0, TimelineCommand::Find);
    send(&mut harness.state_mut().0, TimelineCommand::Find);
    assert_eq!(now(&harness).rows().count(), all, "both recordings were searched");
    assert_eq!(height(&harness), whole);
    assert!(harness.state().0.desk.settings.folds.is_empty());
}

#[test]
fn two_recordings_are_in_sight_below_each_other_and_side_by_side_at_the_same_times() {
    let folder = tempfile::tempdir().unwrap();
    let steps = [(1_000, 2_000); 40];
    let files = ["a", "b"].map(|name| (name, ranges(folder.path(), &format!("{name}.events"), &steps)));
    let mut harness = harness(state_of(&files, folder.path()));
    let rows = |harness: &Window, name: &str| harness.get_by_label_contains(&format!("Timeline of {name} from")).rect();
    assert!(harness.query_by_label_contains("Timeline of a").is_none(), "one list has one axis");

    press(&mut harness, eframe::egui::Key::V);
    assert_eq!(now(&harness).arrangement, Arrangement::Below);
    let (a, b) = (rows(&harness, "a"), rows(&harness, "b"));
    assert_eq!((a.x_range(), a.height().round()), (b.x_range(), b.height().round()));
    assert!(a.bottom() < b.top() && b.bottom() < 740.0, "{a:?} {b:?}");

    harness.get_by_label("Arrange recordings (V)").click();
    harness.run_steps(3);
    click(&mut harness, "side by side");
    let (a, b) = (rows(&harness, "a"), rows(&harness, "b"));
    assert_eq!((a.y_range(), a.width().round()), (b.y_range(), b.width().round()));
    assert!(a.right() < b.left() && b.right() < 1176.0, "{a:?} {b:?}");

    // A move in one moves both, and what is pointed at is found in the pane of its recording.
    let before = now(&harness).view;
    harness.event(Event::PointerMoved(b.center()));
    press(&mut harness, eframe::egui::Key::D);
    assert!(now(&harness).view.0 > before.0);
    press(&mut harness, eframe::egui::Key::F);
    let of_b = (0..60).find_map(|nth| {
        harness.event(Event::PointerMoved(pos2(b.left() + b.width() * nth as f32 / 60.0, b.top() + 90.0)));
        answer(&mut harness);
        now(&harness).hovered
    });
    assert_eq!(of_b.map(|pick| pick.run), Some(1), "an event under the pointer");
    harness.run_steps(2);
    assert!(harness.state().1.is_empty(), "at rest nothing is asked for: {:?}", harness.state().1);

    // The choice stays with other recordings.
    send(&mut harness.state_mut().0, TimelineCommand::Close(1));
    harness.run_steps(2);
    assert!(harness.query_by_label_contains("Timeline of a").is_none(), "one recording needs no pane");
    let (name, file) = files[1].clone();
    send(&mut harness.state_mut().0, TimelineCommand::Open(file, name.to_owned()));
    harness.run_steps(2);
    assert!(harness.query_by_label_contains("Timeline of b").is_some());
}

#[test]
fn a_collective_leads_to_its_launch_and_to_the_other_rank_and_both_lead_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = golden(folder.path(), "ddp2_100_nopin");
    let mut state = state_of(&[("two ranks", file)], folder.path());
    send(&mut state, TimelineCommand::Search("ncclDevKernel_AllReduce".to_owned()));
    send(&mut state, TimelineCommand::Find);
    let kernel = state.own::<TimelineScreen>().selected.unwrap();
    let mut harness = harness(state);
    answer(&mut harness);
    let links = flow::links(now(&harness).flow(&kernel).unwrap(), kernel.event);
    let [launch, peer] = links[..] else { panic!("{links:?}") };
    assert_eq!((launch.is_launch, launch.to), (true, kernel.event));
    assert_eq!((peer.is_launch, peer.from), (false, kernel.event));
    let rows = now(&harness).runs[0].timeline.rows();
    let other = rows[peer.to.row].group.clone();
    assert_ne!(other, rows[kernel.event.row].group);
    click(&mut harness, "Show all of these");
    let (state, zero) = (now(&harness), now(&harness).runs[0].zero);
    for event in [launch.from, kernel.event, peer.to] {
        let (start, end) = (event.item.span.0 - zero, event.item.span.1 - zero);
        assert!(state.view.0 < start && end < state.view.1, "{:?} {start} {end}", state.view);
    }
    click(&mut harness, "Go to its call");
    let call = now(&harness).selected.unwrap();
    assert_eq!(call.event, launch.from);
    let words = canvas::about(now(&harness), &call).join("\n");
    for text in ["Led to ncclDevKernel_AllReduce", &format!("{other} began the same collective")] {
        assert!(words.contains(text), "{text}: {words}");
    }
    // The link between ranks stays at the kernel.
    let from_call = flow::links(now(&harness).flow(&call).unwrap(), call.event);
    assert_eq!(from_call, [launch, peer]);
    click(&mut harness, "Go to what it launched");
    assert_eq!(now(&harness).selected.map(|pick| pick.event), Some(kernel.event));
    click(&mut harness, &format!("Go to {other}"));
    assert_eq!(now(&harness).selected.map(|pick| pick.event), Some(peer.to));
}

#[test]
fn ranks_with_different_numbers_of_a_collective_are_not_connected_and_this_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = golden(folder.path(), "ddp2_100_pin");
    let mut state = state_of(&[("cut", file)], folder.path());
    send(&mut state, TimelineCommand::Search("ncclDevKernel_AllReduce".to_owned()));
    send(&mut state, TimelineCommand::Find);
    let screen = state.own::<TimelineScreen>();
    let pick = screen.selected.unwrap();
    let words = canvas::about(screen, &pick).join("\n");
    assert!(words.contains("Ranks recorded different numbers of collectives of this name"), "{words}");
    assert!(flow::links(screen.flow(&pick).unwrap(), pick.event).iter().all(|link| link.is_launch));
}
