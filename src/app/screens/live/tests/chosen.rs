//! Which runs are drawn: chosen, filtered, kept, of this session, with the whole names in the list.

use super::*;
use crate::analysis::{Level, RunSummary, Source, summarise_run};
use crate::app::CompareCommand;
use crate::figure::{Form, Look, Study, compare};
use crate::protocol::{Environment, IMPORTED_FROM};

#[test]
fn choosing_a_finished_run_asks_for_its_curves_and_draws_them() {
    let mut screen = screen(state());
    screen.get_by_label("Tick runs in the list to see their curves, or launch a plan.");
    screen.get_by_label(&format!("Draw run {RUN}")).click();
    screen.run();
    assert_eq!(screen.state().requests, [Request::Curves(PathBuf::from("/session"), RUN.to_owned())]);
    screen.get_by_label("Reading the recorded curves …");
    let curves = Curves::build((1..=20).map(|n| step(0, n)), [sample(1_003.0, &[])]);
    screen.state_mut().state.take(read(RUN, curves));
    screen.run();
    screen.get_by_label("Loss over time");
    screen.get_by_label("Step time over time");
    assert!(screen.query_by_label("GPU memory over time").is_none(), "empty panels are not drawn");
    screen.get_by_label_contains("GPU memory, Power, GPU busy, Temperature: these runs use no GPU");
    screen.get_by_label("0.0500");
    screen.get_by_label("Step loss");
    // The second time the curves are there already.
    execute(&mut screen.state_mut().state, LiveCommand::Choose(RUN.to_owned(), false));
    assert_eq!(execute(&mut screen.state_mut().state, LiveCommand::Choose(RUN.to_owned(), true)), []);
}

#[test]
fn ticked_runs_without_curves_say_so_once_they_were_read() {
    let imported = |is_imported: bool| {
        let mut environment = Environment::default();
        environment.set(IMPORTED_FROM, is_imported.then_some("other.csv (CSV)"));
        let run = RunRecord { environment: Some(Arc::new(environment)), ..fixture::finished() };
        let mut state = state_of(vec![run]);
        execute(&mut state, LiveCommand::Choose(RUN.to_owned(), true));
        state.take(read(RUN, Curves::default()));
        state
    };
    for (is_imported, text) in [
        (true, "Imported runs have no curves. The Compare screen shows their results."),
        (false, "The ticked runs have no curves: no step and no sample of them was recorded."),
    ] {
        let screen = screen(imported(is_imported));
        screen.get_by_label(text);
        assert!(screen.query_by_label("Reading the recorded curves …").is_none(), "nothing is read any more");
    }
}

#[test]
fn a_session_that_is_opened_again_keeps_what_is_drawn_and_reads_it_anew() {
    let mut state = state();
    execute(&mut state, LiveCommand::Choose(RUN.to_owned(), true));
    let folder = PathBuf::from("/session");
    let read = |steps: u64| read(RUN, Curves::build((1..=steps).map(|n| step(0, n)), []));
    let steps =
        |state: &State| state.own::<LiveScreen>().shelf.curves(RUN).map(|curves| curves.steps().unwrap().steps.len());
    state.take(read(5));
    let live = state.own_mut::<LiveScreen>();
    (live.filter, live.view) = ("fp32".to_owned(), Some((1.0, 2.0)));
    state.take(UiEvent::Session { folder: folder.clone(), read_only: Some("its conductor has ended".to_owned()) });
    assert_eq!((&*state.own::<LiveScreen>().filter, state.own::<LiveScreen>().view), ("fp32", Some((1.0, 2.0))));
    assert_eq!(
        (state.own::<LiveScreen>().shelf.chosen().count(), steps(&state)),
        (1, Some(5)),
        "no moment without curves"
    );
    let context = Context::default();
    state.poll(&context);
    assert_eq!(state.desk.take_requests(), [Request::Curves(folder, RUN.to_owned())], "steps may have been missed");
    state.take(read(9));
    assert_eq!(steps(&state), Some(9));
    state.take(UiEvent::Session { folder: "/other".into(), read_only: None });
    assert_eq!(
        (
            state.own::<LiveScreen>().shelf.chosen().count(),
            &*state.own::<LiveScreen>().filter,
            state.own::<LiveScreen>().view
        ),
        (0, "", None)
    );
}

#[test]
fn the_latest_finished_runs_are_shown_beside_one_that_starts_until_they_are_unticked() {
    let mut idle = state();
    idle.desk.screen = ScreenName::LIVE;
    idle.poll(&Context::default());
    assert_eq!(idle.desk.take_requests(), [Request::Curves(PathBuf::from("/session"), RUN.to_owned())]);
    let drawn =
        |state: &State| state.own::<LiveScreen>().shelf.chosen().map(|chosen| chosen.run.clone()).collect::<Vec<_>>();
    assert_eq!(drawn(&idle), [RUN]);
    let first_step =
        || UiEvent::Live(LiveBatch { run: "0002-new".to_owned(), steps: vec![step(0, 1)], ..LiveBatch::default() });
    idle.take(first_step());
    assert_eq!(drawn(&idle), [RUN, "0002-new"]);
    // The same is drawn where the window is opened while the run goes on.
    let mut later = state();
    later.take(first_step());
    later.desk.screen = ScreenName::LIVE;
    later.poll(&Context::default());
    let looks = |state: &State| {
        let mut looks: Vec<(String, usize)> =
            state.own::<LiveScreen>().shelf.chosen().map(|chosen| (chosen.run.clone(), chosen.slot)).collect();
        looks.sort();
        looks
    };
    assert_eq!(looks(&later), looks(&idle));
    let mut hidden = state();
    hidden.desk.screen = ScreenName::LIVE;
    execute(&mut hidden, LiveCommand::FocusFilter);
    assert_eq!(drawn(&hidden), [RUN]);
    execute(&mut hidden, LiveCommand::Choose(RUN.to_owned(), false));
    assert_eq!(drawn(&hidden), [""; 0], "what was unticked does not come back");
}

/// One run of each precision, queued in this order; all are drawn.
fn drawn_precisions(precisions: [&str; 4]) -> (State, Vec<RunRecord>) {
    let run = |(precision, number): (&str, u32)| {
        let mut run = fixture::run(&fixture::cell(precision, 1, "ddp-ds"), 1, 0.1);
        run.run = format!("{number:04}-run");
        run
    };
    let runs: Vec<RunRecord> = precisions.into_iter().zip(1..).map(run).collect();
    let mut state = state_of(runs.clone());
    for RunRecord { run, .. } in &runs {
        execute(&mut state, LiveCommand::Choose(run.clone(), true));
        state.take(read(run, Curves::build((1..=5).map(|n| step(0, n)), [])));
    }
    (state, runs)
}

/// The looks of the drawn runs, in their order.
fn looks_of(state: &State) -> Vec<Look> {
    scene_of(state).runs.iter().map(|run| run.look.look.clone()).collect()
}

#[test]
fn drawn_runs_have_the_order_and_the_colours_that_compare_gives_their_levels() {
    let (mut state, runs) = drawn_precisions(["fp16", "fp64", "bf16", "fp32"]);
    let names: Vec<String> = scene_of(&state).runs.iter().map(|run| run.name.to_owned()).collect();
    assert_eq!(names, ["fp32", "fp64", "fp16", "bf16"]);
    let summaries: Vec<RunSummary> = runs.iter().map(summarise_run).collect();
    let compared = |study: &Study| -> Vec<Look> {
        let charts = compare(&[Source { session: "", runs: &summaries, reports: &[] }], study).charts;
        charts[0].series().map(|series| series.look.clone()).collect()
    };
    for form in [Form::Loss, Form::Bars] {
        assert_eq!(looks_of(&state), compared(&Study { form, ..Study::default() }), "{form:?}");
    }
    // What the user changes there holds here.
    let order = vec![("precision".into(), vec![Level::text("bf16")])];
    let colours = vec![("precision".into(), Level::text("fp64"), 5)];
    let study = Study { form: Form::Loss, order, colours, ..Study::default() };
    state.execute(CompareCommand::Edit(Box::new(study.clone()), None).into(), &Context::default());
    let now = looks_of(&state);
    assert_eq!(now, compared(&study));
    assert!(now.contains(&Look::Place(5)) && now[0].level() == Some(&Level::text("bf16")), "{now:?}");
}

#[test]
fn repeats_of_a_cell_have_one_colour_and_differ_in_their_markers() {
    let (state, _) = drawn_precisions(["fp32", "fp16", "fp32", "fp16"]);
    let scene = scene_of(&state);
    let looks: Vec<_> = scene.runs.iter().map(|run| (run.run, &run.look)).collect();
    assert_eq!(looks.iter().map(|(run, _)| *run).collect::<Vec<_>>(), ["0001-run", "0003-run", "0002-run", "0004-run"]);
    assert!(looks[0].1.look == looks[1].1.look && looks[1].1.look != looks[2].1.look, "{looks:?}");
    assert_ne!(looks[0].1.marker(), looks[1].1.marker());
}

#[test]
fn curves_of_another_session_are_not_taken() {
    let mut state = state();
    execute(&mut state, LiveCommand::Choose(RUN.to_owned(), true));
    let curves = Curves::build([step(0, 1)], []);
    let run = RUN.to_owned();
    state.take(UiEvent::Curves(Box::new(RunCurves { folder: "/other".into(), run, curves })));
    assert!(state.own::<LiveScreen>().shelf.curves(RUN).is_none());
}

#[test]
fn a_running_run_is_drawn_automatically() {
    let mut state = running_state();
    state.take(batch((1..=5).map(|n| step(0, n)).collect(), vec![sample(1_002.0, &[(5_000_000_000, 60.0)])]));
    let mut screen = screen(state);
    screen.get_by_label("GPU memory over time");
    screen.get_by_label("0.200");
    screen.get_by_label_contains("● 50 %");
    screen.state_mut().state.take(batch(vec![step(0, 8)], vec![]));
    screen.run();
    screen.get_by_label("0.125");
    // A hidden run stays hidden.
    screen.get_by_label(&format!("Draw run {RUN}")).click();
    screen.run();
    screen.state_mut().state.take(batch(vec![step(0, 9)], vec![]));
    screen.run();
    screen.get_by_label("No run is ticked");
}

#[test]
fn a_reattached_run_is_read_from_its_beginning() {
    // Samples may come before the first step that is seen.
    for samples in [vec![], vec![sample(1_012.5, &[])]] {
        is_read_from_its_beginning(samples);
    }
}

fn is_read_from_its_beginning(samples: Vec<Sample>) {
    let mut state = running_state();
    let (context, mut requests) = (Context::default(), Vec::new());
    if !samples.is_empty() {
        state.take(batch(vec![], samples));
        state.poll(&context);
        requests.extend(state.desk.take_requests());
    }
    state.take(batch(vec![step(0, 11)], vec![]));
    state.poll(&context);
    requests.extend(state.desk.take_requests());
    assert_eq!(requests, [Request::Curves(PathBuf::from("/session"), RUN.to_owned())]);
    state.take(batch(vec![step(0, 12)], vec![]));
    state.take(read(RUN, Curves::build((1..=11).map(|n| step(0, n)), [])));
    let steps = &state.own::<LiveScreen>().shelf.curves(RUN).unwrap().steps().unwrap().steps;
    assert_eq!(**steps, (1..=12).map(f64::from).collect::<Vec<_>>(), "each once");
}

#[test]
fn panels_can_be_hidden_and_runs_filtered() {
    let mut state = running_state();
    state.take(batch(vec![step(0, 1)], vec![]));
    let mut screen = screen(state);
    screen.get_by_label("Panel Loss").click();
    screen.run();
    assert!(screen.query_by_label("Loss over time").is_none());
    execute(&mut screen.state_mut().state, LiveCommand::Filter("no such run".to_owned()));
    screen.run();
    screen.get_by_label("No run matches.");
    execute(&mut screen.state_mut().state, LiveCommand::Filter("RUNNING".to_owned()));
    screen.run();
    screen.get_by_label(&format!("Draw run {RUN}"));
    execute(&mut screen.state_mut().state, LiveCommand::Filter("state=finished".to_owned()));
    screen.run();
    screen.get_by_label("No run matches.");
    execute(&mut screen.state_mut().state, LiveCommand::Filter("state=running or )".to_owned()));
    screen.run();
    screen.get_by_label_contains("Filter: character 18: \")\"");
    screen.get_by_label(&format!("Draw run {RUN}"));
    execute(&mut screen.state_mut().state, LiveCommand::Filter("precisio=fp32".to_owned()));
    screen.run();
    screen.get_by_label_contains("nothing here has precisio; did you mean \"precision\"?");
}

#[test]
fn a_bounded_number_of_runs_is_kept_and_the_chosen_ones_longest() {
    let mut state = state();
    for n in 0..40 {
        let run = format!("r{n}");
        if n == 3 {
            execute(&mut state, LiveCommand::Choose(run.clone(), true));
        }
        state.take(UiEvent::Live(LiveBatch { run, steps: vec![step(0, 1)], ..LiveBatch::default() }));
    }
    let kept: Vec<usize> =
        (0..40).filter(|n| state.own::<LiveScreen>().shelf.curves(&format!("r{n}")).is_some()).collect();
    assert_eq!(kept.len(), store::KEPT_RUNS);
    assert!(kept.contains(&3) && kept.contains(&39) && !kept.contains(&4), "{kept:?}");
    let chosen = state.own::<LiveScreen>().shelf.chosen().count();
    assert!(chosen <= 6, "automatically shown runs are bounded: {chosen}");
}

/// Runs of five factors that differ in many ways, all drawn or listed.
fn runs_of_many_factors() -> State {
    use crate::plan::{Key, Level, Levels};
    let run = |place: usize| {
        let mut run = fixture::finished();
        run.run = format!("r{place}");
        let level = |(key, level): (&Key, &Level)| {
            let changed = match &**key {
                "precision" => Level::text(["fp32", "fp64", "fp16"][place % 3]),
                "pin_memory" => Level::text(["off", "on"][place % 2]),
                "layout" => Level::text(["nchw", "nhwc"][place / 2 % 2]),
                "gpus" => Level::Integer([1, 2, 4][place / 3 % 3]),
                "batch_size" => Level::Integer([64, 128][place / 6 % 2]),
                _ => level.clone(),
            };
            (key.clone(), changed)
        };
        run.levels = Levels::new(run.levels.iter().map(level).collect());
        if place == 2 {
            run.state = RunState::Interrupted;
        }
        run
    };
    let mut state = state_of((0..12).map(run).collect());
    for run in ["r0", "r1", "r2", "r3"] {
        execute(&mut state, LiveCommand::Choose(run.to_owned(), true));
        state.take(read(run, Curves::build((1..=20).map(|n| step(0, n)), [sample(1_003.0, &[(1, 1.0)])])));
    }
    state
}

/// Texts drawn in the last frame that were cut off.
fn cut_off(screen: &Harness<'_, Shown>) -> Vec<String> {
    use eframe::egui::Shape;
    let texts = screen.output().shapes.iter().filter_map(|clipped| match &clipped.shape {
        Shape::Text(text) if text.galley.elided => Some(text.galley.text().to_owned()),
        _ => None,
    });
    texts.collect()
}

#[test]
fn names_and_headings_are_whole_in_windows_of_usual_sizes() {
    // What is left beside the rail of windows 1000, 1280 and 2560 points wide.
    for size in [[872.0, 640.0], [1152.0, 740.0], [2432.0, 1380.0]] {
        let mut screen = screen(runs_of_many_factors());
        screen.set_size(size.into());
        screen.run_steps(3);
        screen.get_by_label_contains("interrupted");
        assert_eq!(cut_off(&screen), Vec::<String>::new(), "{size:?}");
    }
}

#[test]
fn a_repeat_is_named_where_there_are_others() {
    let state = runs_of_many_factors();
    assert!(state.desk.runs.rows.iter().all(|row| !row.name.contains('#')), "{:?}", state.desk.runs.rows[0].name);
}

#[test]
fn listed_runs_keep_their_places_while_the_pointer_is_over_them() {
    let run = |(place, gpus): (usize, i64)| {
        let mut run = fixture::run(&fixture::cell("fp32", gpus, "ddp-ds"), 1, 0.1);
        run.run = format!("r{place}");
        run
    };
    let mut screen = screen(state_of((0..).zip([1, 2, 4, 8]).map(run).collect()));
    screen.run();
    let top = |screen: &Harness<'_, Shown>, run: &str| screen.get_by_label(&format!("Draw run {run}")).rect().top();
    let tops = |screen: &Harness<'_, Shown>| ["r0", "r1", "r3"].map(|run| top(screen, run));
    let before = tops(&screen);
    let aim = screen.get_by_label("Draw run r1").rect().center();
    screen.hover_at(aim);
    screen.run();
    screen.state_mut().state.take(running("r0"));
    screen.run();
    assert_eq!(tops(&screen), before, "the pointer aims at one of them");
    screen.hover_at([10.0, 10.0].into());
    screen.run();
    assert!(top(&screen, "r0") < top(&screen, "r3") && top(&screen, "r0") < before[0], "it runs, so it is the first");
}
