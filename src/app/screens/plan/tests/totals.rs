//! What a plan comes to: cells, time by what ran before, tracers.

use super::*;
use crate::figure::{duration_text, grouped, significant};
use crate::plan::{Capture, Mode, Tracing};

#[test]
fn long_warnings_scroll_in_a_small_window_and_leave_room_for_the_cells() {
    let mut window = window_of(Some(cpu_node()));
    change(&mut window, None, |plan| {
        plan.mode = Mode::Quick { step_precision: 0.05 };
        plan.tracing = Tracing::by(&Tracer::ALL, Capture::Whole);
        plan.limits.exclusive = false;
        plan.limits.run_time_s = Some(1e-3);
    });
    let height = 420.0;
    window.set_size([900.0, height].into());
    window.run();
    assert!(says(&window, "mode = quick: runs end once") && says(&window, "runs share the machine"));
    let heading = window.get_by_label("#").rect();
    assert!(heading.bottom() < height - 60.0, "the cells begin at {heading:?}");
}

#[test]
fn ten_thousand_cells_are_worked_out_beside_the_window_and_only_what_is_seen_is_drawn() {
    let mut window = window_of(Some(gpu_node(8)));
    let numbers = || (33..82).map(Level::Integer);
    let screened = window.state_mut();
    let mut plan = screened.state.own::<PlanScreen>().plan().clone();
    plan.repeats = 1;
    add(&mut plan, "layout", [Level::text("nhwc")]);
    add(&mut plan, "image_size", numbers());
    add(&mut plan, "batch_size", numbers());
    screened.state.execute(PlanCommand::Edit(Box::new(plan), None).into(), &screened.context);
    screened.state.poll(&screened.context);
    assert!(screened.state.own::<PlanScreen>().pending.is_some(), "expanding is left to a thread");
    assert!(outlook(&screened.state).is_none());
    settle(&mut window);
    let outlook = outlook(&window.state().state).unwrap();
    assert_eq!(outlook.matrix.cells.len() + outlook.matrix.invalid.len(), 10_000);
    let drawn = window.query_all_by_label("nchw").count();
    assert!((1..200).contains(&drawn), "{drawn} rows drawn");
}

#[test]
fn many_edits_are_worked_out_one_at_a_time_and_the_last_one_counts() {
    let mut window = window_of(Some(cpu_node()));
    for repeats in 4..40 {
        let mut plan = window.state().state.own::<PlanScreen>().plan().clone();
        plan.repeats = repeats;
        window.state_mut().commands.push(PlanCommand::Edit(Box::new(plan), Some("repeats")).into());
    }
    settle(&mut window);
    assert_eq!(outlook(&window.state().state).unwrap().plan.repeats, 39);
    execute(&mut window, PlanCommand::Undo);
    assert_eq!(window.state().state.own::<PlanScreen>().plan().repeats, 3, "dragging a number is one edit");
}

#[test]
fn runs_are_made_quick_by_a_click_and_take_less_time() {
    let mut window = window_of(Some(gpu_node(1)));
    let hours = |window: &Window| window.state().state.own::<PlanScreen>().outlook.as_ref().unwrap().duration_s;
    change(&mut window, None, |plan| add(plan, "epochs", [Level::Integer(20)]));
    let full = hours(&window);
    click(&mut window, "Details");
    click(&mut window, "Runs quick");
    let mode = window.state().state.own::<PlanScreen>().plan().mode;
    assert_eq!(mode, Mode::Quick { step_precision: Mode::STEP_PRECISION });
    assert!(hours(&window) < full, "{} {full}", hours(&window));
    window.get_by_label("Precision of the mean step");
    click(&mut window, "Runs full");
    assert!(window.state().state.own::<PlanScreen>().plan().mode.is_full());
    assert!(window.query_by_label("Precision of the mean step").is_none());
}

#[test]
fn runs_are_traced_by_a_click_in_part_and_programs_only_where_the_tracer_records_them() {
    let mut window = window_of(Some(cpu_node()));
    click(&mut window, "Details");
    assert!(window.query_by_label("Trace steps").is_none());
    let tracing = |window: &Window| window.state().state.own::<PlanScreen>().plan().tracing.clone();
    let steps = Capture::Steps { first: 20, last: 60 };
    click(&mut window, "Trace built-in");
    click(&mut window, "Trace steps");
    assert_eq!(tracing(&window), Tracing::by(&[Tracer::Off, Tracer::BuiltIn], steps));
    click(&mut window, "Trace off");
    assert_eq!(tracing(&window), Tracing::by(&[Tracer::BuiltIn], steps));
    click(&mut window, "Trace built-in");
    assert_eq!(tracing(&window), Tracing::by(&[Tracer::BuiltIn], steps), "the last one stays");
    click(&mut window, "Trace off");
    click(&mut window, "Trace built-in");
    let can_be_chosen = |window: &Window| window.query_by_label("Trace built-in").is_some();
    assert!(can_be_chosen(&window), "phases of ranks are recorded anywhere");
    click(&mut window, "Workload Own program");
    assert!(!can_be_chosen(&window));
    let reason =
        "Trace built-in, cannot be chosen: programs of your own cannot be recorded on this machine: it was not built";
    assert!(window.get_by_label(reason).accesskit_node().is_disabled());
    let mut window = window_of(Some(Node { tracer: Ok("libmulticard_cupti.so".into()), ..gpu_node(1) }));
    click(&mut window, "Details");
    click(&mut window, "Workload Own program");
    assert!(can_be_chosen(&window));
}

#[test]
fn nsys_is_grey_where_it_is_missing_says_why_and_can_only_be_left_out_of_a_plan() {
    let tracers = |window: &Window| window.state().state.own::<PlanScreen>().plan().tracing.tracers().to_vec();
    let is_in_palette = |window: &Window| {
        let Screened { state, .. } = window.state();
        state.own::<PlanScreen>().palette(&state.desk).iter().any(|(name, _)| name == "Tick trace nsys in the plan")
    };
    let mut window = window_of(Some(cpu_node()));
    click(&mut window, "Details");
    let refused = "Trace nsys, cannot be chosen: nsys cannot record on this machine: it is not on PATH";
    assert!(window.get_by_label(refused).accesskit_node().is_disabled() && !is_in_palette(&window));
    // The focus reaches it, so that the reason can be read with the keyboard.
    tab_to(&mut window, refused);
    press(&mut window, Key::Space);
    assert_eq!(tracers(&window), [Tracer::Off]);
    change(&mut window, None, |plan| plan.toggle(Tracer::Nsys));
    assert_eq!(tracers(&window), [Tracer::Off, Tracer::Nsys], "a plan's file may have it");
    click(&mut window, "Trace nsys");
    assert_eq!(tracers(&window), [Tracer::Off]);
    let mut window = window_of(Some(gpu_node(1)));
    click(&mut window, "Details");
    assert!(is_in_palette(&window));
    click(&mut window, "Trace nsys");
    assert_eq!(tracers(&window), [Tracer::Off, Tracer::Nsys]);
}

#[test]
fn a_plan_with_several_tracers_shows_how_often_each_cell_runs_and_which_cells_lack_their_profiler() {
    let mut window = window_of(Some(cpu_node()));
    let outlook = |window: &Window| {
        let outlook = window.state().state.own::<PlanScreen>().outlook.as_ref().unwrap();
        (outlook.matrix.cells.len(), outlook.matrix.invalid.len(), outlook.varied.iter().any(|key| *key == "trace"))
    };
    assert_eq!(outlook(&window), (2, 0, false));
    click(&mut window, "Details");
    assert!(window.query_by_label_contains("under each").is_none());
    tab_to(&mut window, "Trace built-in");
    press(&mut window, Key::Space);
    assert_eq!(outlook(&window), (4, 0, true));
    window.get_by_label("each cell 2 times, once under each");
    change(&mut window, None, |plan| plan.toggle(Tracer::Nsys));
    assert_eq!(outlook(&window), (4, 2, true));
    assert!(window.query_by_label_contains("⚠ trace = nsys: it is not on PATH").is_some());
    click(&mut window, "show only these");
    assert!(window.query_all_by_label_contains("install Nsight Systems, or leave nsys out of trace").count() > 0);
}

#[test]
fn the_spread_of_repeats_is_taken_as_it_was_computed_where_runs_are_read() {
    let mut window = window_of(Some(cpu_node()));
    let spreads =
        [("image", 0.02), ("llm", 0.3)].map(|(key, spread)| (key.into(), SpreadSeen { spread, cells: 4, freedom: 4 }));
    let spreads = Arc::new(spreads.into());
    let records = Records { folder: PathBuf::from("/sessions/study"), spreads, ..Records::default() };
    open_session(&mut window, UiEvent::Records(Arc::new(records)));
    window.get_by_label_contains("judging by the spread of 2 % in the 4 cells measured so far");
    click(&mut window, "Workload Own program");
    assert!(window.query_by_label_contains("by the spread of").is_none(), "no cell of it was seen");
}

/// Opens a session in which one run of the plan's first cell took this long; returns the plan.
fn open_with_a_run(window: &mut Window, duration_s: f64) -> Plan {
    let plan = window.state().state.own::<PlanScreen>().plan().clone();
    let held = first_cell(&plan, vec![1], Some(duration_s));
    let records = Records { folder: PathBuf::from("/sessions/study"), held, ..Records::default() };
    open_session(window, UiEvent::Records(Arc::new(records)));
    plan
}

#[test]
fn the_time_of_a_cell_that_ran_is_what_its_run_took() {
    let mut window = window_of(Some(cpu_node()));
    let plan = open_with_a_run(&mut window, 4321.0);
    window.get_by_label(&grouped(&significant(4321.0)));
    let estimated_s: f64 =
        crate::plan::expand(&plan, &cpu_node()).cells[1..].iter().map(|cell| cell.estimate.duration_s).sum();
    let all_s = (4321.0 + estimated_s) * f64::from(plan.repeats);
    assert!(all_s > 5400.0, "told in hours");
    let estimate = format!("about {}", duration_text((all_s / 60.0).round() * 60.0));
    window.get_by_label_contains(&estimate);
}

#[test]
fn the_time_of_a_plan_is_at_least_that_of_the_cells_whose_time_is_known() {
    let mut window = window_of(Some(cpu_node()));
    let text = "version = 1\nname = \"mine\"\n[command]\nrun = [\"sh\", \"-c\", \"exit {n}\"]\n[factors]\nn = [1, 2]\n";
    execute(&mut window, PlanCommand::Begin(Box::new(Plan::parse(text, "p.toml").unwrap())));
    let plan = open_with_a_run(&mut window, 10.0);
    let least = format!("at least {}", duration_text(10.0 * f64::from(plan.repeats)));
    assert!(says(&window, &least), "{least}");
}

#[test]
fn the_matrix_keeps_its_share_of_the_width_when_the_window_grows() {
    let mut window = window_of(Some(cpu_node()));
    let left = |window: &Window| window.get_by_label("Matrix").rect().left();
    let narrow = left(&window);
    assert!((narrow - 0.55 * 1600.0).abs() < 40.0, "{narrow}");
    window.set_size([2560.0, 1400.0].into());
    settle(&mut window);
    assert!((left(&window) - 0.55 * 2560.0).abs() < 40.0, "{}", left(&window));
    window.set_size([1600.0, 1400.0].into());
    settle(&mut window);
    assert!((left(&window) - narrow).abs() < 1.0, "{narrow} {}", left(&window));
}
