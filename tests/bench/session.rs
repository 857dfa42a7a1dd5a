//! A session of 500 runs and 2 million steps: how long it takes until the window shows its runs, and their measures;
//! the longest time that the window's thread is busy meanwhile; and what a frame of each screen costs then.
//!
//! `MULTICARD_BENCH_SESSION=DIR` keeps the session there, and uses one that is there.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use eframe::egui::{Context, RawInput, Rect, Vec2, vec2};
use egui_kittest::Harness;
use multicard::app::{App, Command, RunsCommand, ScreenName, Settings, Window as State, install_theme, shell_ui};
use multicard::plan::{Data, Level, Levels, Mode, Node, RunState, Tracer, image};
use multicard::protocol::{Device, Event, EventLine, PROTOCOL_VERSION, Phase};
use multicard::store::{Decision, Store};

const CELLS: u32 = 125;
const REPEATS: u32 = 4;
const RANKS: u32 = 4;
const EPOCHS: u32 = 10;
const STEPS_OF_EPOCH: u64 = 100;
const FRAMES: usize = 40;
const SIZE: Vec2 = vec2(1280.0, 800.0);

fn main() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let kept = std::env::var_os("MULTICARD_BENCH_SESSION").map(PathBuf::from);
    let folder = kept.unwrap_or_else(|| temporary.path().join("session"));
    if !folder.join("session.toml").exists() {
        let start = Instant::now();
        write_session(&folder);
        println!("a session was written in {:.1} s", start.elapsed().as_secs_f64());
    }
    for time in ["first", "second"] {
        let mut window = open(&folder, time);
        if time == "second" {
            frames(&mut window);
        }
    }
}

/// Opens it in a window without a display: the very threads and the very content of the real one.
fn open(folder: &Path, time: &str) -> Harness<'static, App> {
    let start = Instant::now();
    let opened = folder.to_owned();
    let mut window = Harness::builder()
        .with_max_steps(24)
        .with_size(SIZE)
        .build_eframe(move |context| App::new(&context.egui_ctx, Settings::default(), Some(opened)));
    let made_in = start.elapsed();
    let (mut listed, mut longest) = (None, Duration::ZERO);
    // The first frame makes the glyphs of all fonts.
    let first = Instant::now();
    window.step();
    let first = first.elapsed();
    loop {
        let step = Instant::now();
        window.step();
        longest = longest.max(step.elapsed());
        let state = window.state().window();
        let problems: Vec<&str> = state.desk.problems.iter().map(|problem| problem.message.as_str()).collect();
        assert!(problems.is_empty(), "{problems:?}");
        let records = &state.desk.records;
        if records.runs.len() == (CELLS * REPEATS) as usize {
            listed.get_or_insert_with(|| start.elapsed());
            if records.pending == 0 && records.summaries.len() == records.runs.len() {
                break;
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    println!(
        "{time} opening: content made in {:.0} ms, all runs listed after {:.0} ms, their measures after {:.0} ms; the \
         first frame took {:.1} ms, the longest after it {:.1} ms with the harness's accessibility tree",
        ms(made_in),
        listed.map_or(f64::NAN, ms),
        ms(start.elapsed()),
        ms(first),
        ms(longest)
    );
    window
}

/// What drawing each screen costs with all runs there.
fn frames(window: &mut Harness<'static, App>) {
    let context = Context::default();
    install_theme(&context);
    let run = window.state().window().desk.records.runs[17].run.clone();
    let names = window.state().window().screens.iter().map(|screen| screen.name());
    let screens: Vec<_> = names.map(|name| (name.name().to_owned(), vec![Command::Show(name)])).collect();
    let page = vec![Command::Show(ScreenName::RUNS), Command::from(RunsCommand::Select(Some(run)))];
    for (name, commands) in screens.into_iter().chain([("Runs with a page".to_owned(), page)]) {
        commands.into_iter().for_each(|command| window.state_mut().send(command));
        // What the screen works out on threads is there after a while, and no frame is wanted any more.
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(2) {
            window.step();
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut times_ms: Vec<f64> =
            (0..FRAMES).map(|_| frame_ms(&context, window.state().window())).skip(FRAMES / 4).collect();
        times_ms.sort_by(f64::total_cmp);
        println!(
            "{name:16} drawn in {:.2} ms (median of {}), {:.2} at most",
            times_ms[times_ms.len() / 2],
            times_ms.len(),
            times_ms[times_ms.len() - 1]
        );
    }
}

/// The time of our own drawing, and egui's of laying it out.
fn frame_ms(context: &Context, state: &State) -> f64 {
    let input = RawInput { screen_rect: Some(Rect::from_min_size(Default::default(), SIZE)), ..RawInput::default() };
    let mut commands = Vec::new();
    let start = Instant::now();
    let mut output = context.run_ui(input, |ui| shell_ui(ui, state, &mut commands));
    let time_ms = ms(start.elapsed());
    output.textures_delta.clear();
    black_box(output.shapes);
    time_ms
}

fn ms(time: Duration) -> f64 {
    1e3 * time.as_secs_f64()
}

/// Writes it as ranks and the workbench do: logs, journal and index.
fn write_session(folder: &Path) {
    let node = Node {
        hostname: "bench".to_owned(),
        system: "Linux".to_owned(),
        cpu_model: "a processor".to_owned(),
        cpus: 64,
        memory_bytes: 1 << 40,
        numa_nodes: 1,
        driver: None,
        no_gpu_reason: Some("made up".to_owned()),
        gpus: Vec::new(),
        nodes: 1,
        nsys: Err("made up".to_owned()),
        tracer: Err("not looked for".to_owned()),
        worker: Err("made up".to_owned()),
    };
    let store = Store::create(folder, &node).expect("a new session");
    let plan = Decision::PlanAdded {
        plan: "p1".to_owned(),
        name: "bench".to_owned(),
        toml: "version = 1\n".to_owned(),
        workloads: Vec::new(),
    };
    store.decide(plan).expect("a plan joins");
    for number in 0..CELLS * REPEATS {
        let cell = number % CELLS;
        let run = format!("{:04}-{cell:08x}-{}", number + 1, number / CELLS + 1);
        let queued = Decision::RunQueued {
            run: run.clone(),
            plan: "p1".to_owned(),
            cell: format!("{cell:08x}"),
            workload: image::KEY.into(),
            levels: levels(cell),
            data: Data::of_set("digits"),
            repeat: number / CELLS + 1,
            seed: u64::from(number / CELLS),
            tracer: Tracer::Off,
            mode: Mode::Full,
        };
        store.decide(queued).expect("a run is queued");
        let started = Decision::RunStarted { run: run.clone(), pid: 1 << 30, process_start: 1 };
        store.decide(started).expect("a run is started");
        for rank in 0..RANKS {
            write_rank(&store, folder, &run, rank, f64::from(number));
        }
        store
            .decide(Decision::RunEnded { run, state: RunState::Finished, reason: None, duration_s: None })
            .expect("a run ends");
    }
    store.flush().expect("all is kept");
}

/// 5 precisions or so are few: numbers make the 125 cells.
fn levels(cell: u32) -> Levels {
    image::spec().levels(&[
        ("precision", Level::text(["fp32", "fp64", "fp16", "bf16", "tf32"][cell as usize % 5])),
        ("batch_size", Level::Integer(16 << (cell / 5 % 5))),
        ("loader_workers", Level::Integer(1 + i64::from(cell / 25))),
        ("gpus", Level::Integer(i64::from(RANKS))),
    ])
}

fn write_rank(store: &Store, folder: &Path, run: &str, rank: u32, number: f64) {
    let path = folder.join("runs").join(run);
    fs::create_dir_all(&path).expect("the run's folder");
    let mut log = BufWriter::new(File::create(path.join(format!("rank-{rank}.jsonl"))).expect("a log"));
    let mut time_s = 1.7e9 + 100.0 * number;
    let mut say = |time_s: f64, event: Event| {
        let line = EventLine { run: run.to_owned(), rank, time_s, event };
        serde_json::to_writer(&mut log, &line).expect("room for a line");
        log.write_all(b"\n").expect("room for a line");
        store.event(line).expect("an event");
    };
    let device = Device { name: "cpu".to_owned(), gpu_uuid: None };
    let torch_version = "2.11.0".to_owned();
    say(
        time_s,
        Event::Started {
            protocol_version: PROTOCOL_VERSION,
            pid: 1,
            torch_version,
            device,
            world_size: RANKS,
            seed: 1,
        },
    );
    say(time_s, Event::Phase { phase: Phase::WarmUp });
    let steps = u64::from(EPOCHS) * STEPS_OF_EPOCH;
    for epoch in 1..=EPOCHS {
        for place in 1..=STEPS_OF_EPOCH {
            let step = u64::from(epoch - 1) * STEPS_OF_EPOCH + place;
            let duration_s = 0.01 + 1e-6 * (number + (step * 7919 % 1000) as f64);
            time_s += duration_s;
            let loss = 2.3 / (1.0 + 0.01 * step as f64);
            let warm_up = epoch == 1;
            say(
                time_s,
                Event::Step {
                    epoch,
                    step,
                    steps,
                    duration_s,
                    load_wait_s: 1e-4,
                    loss,
                    units: 64,
                    warm_up,
                    traced: false,
                },
            );
        }
        let loss = 2.3 / f64::from(epoch);
        for (key, value) in [
            ("epoch_time_s", 0.01 * STEPS_OF_EPOCH as f64),
            ("train_loss", loss),
            ("units", (64 * STEPS_OF_EPOCH) as f64),
            ("received_bytes", 1.0),
            ("loader_start_s", 0.1),
            ("skipped_updates", 0.0),
        ] {
            say(time_s, Event::Reading { key: key.into(), value, epoch: Some(epoch), step: None });
        }
        say(time_s, Event::Phase { phase: Phase::Evaluate });
        let accuracy = 1.0 - 0.5 / f64::from(epoch);
        for (key, value) in
            [("evaluation_time_s", 0.1), ("test_loss", loss), ("accuracy", accuracy), ("test_units", 2000.0)]
        {
            say(time_s, Event::Reading { key: key.into(), value, epoch: Some(epoch), step: None });
        }
        say(time_s, Event::Phase { phase: Phase::Steady });
    }
    for (key, value) in [("peak_allocated_bytes", 3e9), ("peak_reserved_bytes", 4e9), ("peak_active_bytes", 3e9)] {
        say(time_s, Event::Reading { key: key.into(), value, epoch: None, step: None });
    }
    say(time_s, Event::Finished { duration_s: 11.0 });
}
