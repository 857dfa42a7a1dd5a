//! The real window on a real display (Xvfb), clicked through from a tick to a table, with the real worker.
//!
//! Where to click is asked of a twin: the same window without a display, whose accessibility tree knows where each
//! control lies.
#![cfg(all(feature = "torch", feature = "window"))]
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use eframe::egui::accesskit::Role;
use eframe::egui::{Pos2, Vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;
use multicard::app::{App, Settings};
use multicard::plan::RunState;
use multicard::store::Reader;

mod built;

use built::worker;

const SIZE: [f32; 2] = [1280.0, 800.0];
/// Long enough for a slow machine with others at work; reaching it is a failure.
const DEADLINE: Duration = Duration::from_secs(600);

/// Looks again until there is something.
fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < DEADLINE, "no {what} within {DEADLINE:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A process that ends with the test.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A display without a screen, with a number that nobody else has.
struct Display {
    _server: Guard,
    name: String,
}

impl Display {
    fn open() -> Self {
        let screen = format!("{}x{}x24", SIZE[0], SIZE[1]);
        let mut server = Command::new("Xvfb");
        server.args(["-displayfd", "1", "-screen", "0", &screen]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = server.spawn().expect("Xvfb is installed by `make test`");
        let mut number = String::new();
        let mut stdout = std::io::BufReader::new(server.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut stdout, &mut number).unwrap();
        Self { _server: Guard(server), name: format!(":{}", number.trim()) }
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Option<String> {
        let output = Command::new(program).args(arguments).env("DISPLAY", &self.name).output().unwrap();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn click(&self, at: Pos2) {
        let (x, y) = (at.x.round().to_string(), at.y.round().to_string());
        // Between moving and pressing the window may draw the control as hovered.
        self.run("xdotool", &["mousemove", &x, &y, "sleep", "0.2", "click", "1"]).expect("xdotool clicks");
    }
}

/// Where the control of this name lies in a window of the same size and state.
fn place(twin: &mut Harness<'_, App>, role: Role, name: &str) -> Pos2 {
    wait_for(name, || {
        twin.step();
        twin.query_by_role_and_label(role, name).map(|control| control.rect().center())
    })
}

/// The session that the window made.
fn session(data: &Path) -> Option<PathBuf> {
    let mut found = std::fs::read_dir(data.join("multicard/sessions")).ok()?.flatten();
    found.next().map(|entry| entry.path()).filter(|folder| folder.join("session.toml").exists())
}

#[test]
fn quickstart_is_ticked_launched_and_read_off_the_table_in_a_real_window() {
    // The twin looks for the worker as the window does; a process cannot safely change its own environment.
    if std::env::var_os("MULTICARD_WORKER").is_none() {
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "quickstart_is_ticked_launched_and_read_off_the_table_in_a_real_window", "--nocapture"]);
        assert!(again.env("MULTICARD_WORKER", worker()).status().unwrap().success());
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let (config, data) = (home.path().join("config"), home.path().join("data"));
    let display = Display::open();
    let mut workbench = Command::new(env!("CARGO_BIN_EXE_multicard"));
    workbench.env("DISPLAY", &display.name).env_remove("WAYLAND_DISPLAY").env("LIBGL_ALWAYS_SOFTWARE", "1");
    workbench.env("XDG_CONFIG_HOME", &config).env("XDG_DATA_HOME", &data);
    // The digits are drawn once and kept for the next time.
    workbench.env("MULTICARD_DATA", concat!(env!("CARGO_TARGET_TMPDIR"), "/window-data"));
    let mut workbench = Guard(workbench.spawn().unwrap());
    let window = wait_for("window", || display.run("xdotool", &["search", "--onlyvisible", "--name", "multicard"]));
    let window = window.lines().next().unwrap().to_owned();
    display.run("xdotool", &["windowfocus", &window]).unwrap();

    let mut twin = Harness::builder()
        .with_max_steps(24)
        .with_size(Vec2::from(SIZE))
        .build_eframe(|context| App::new(&context.egui_ctx, Settings::default(), None));
    place(&mut twin, Role::Button, "Launch 6 runs");
    let fp64 = place(&mut twin, Role::CheckBox, "Precision fp64");
    twin.get_by_role_and_label(Role::CheckBox, "Precision fp64").click();
    let launch = place(&mut twin, Role::Button, "Launch 3 runs");
    let compare = place(&mut twin, Role::Tab, "Compare");

    // The real window may still be looking at the machine: what is clicked too early does nothing and is repeated.
    display.click(fp64);
    let folder = wait_for("session", || {
        display.click(launch);
        std::thread::sleep(Duration::from_secs(1));
        session(&data)
    });
    let runs = wait_for("finished runs", || {
        assert!(workbench.0.try_wait().unwrap().is_none(), "the window closed");
        let runs = Reader::open(&folder).ok()?.runs().ok()?;
        assert!(runs.len() <= 3, "one precision is left, with 3 repeats; queued: {}", runs.len());
        (runs.len() == 3 && runs.iter().all(|run| run.state.is_final())).then_some(runs)
    });
    assert!(runs.iter().all(|run| run.state == RunState::Finished), "{runs:?}");

    display.click(compare);
    // `e` copies the table that is shown; it appears once the measures are computed.
    let table = wait_for("table", || {
        display.run("xdotool", &["key", "e"]);
        std::thread::sleep(Duration::from_millis(300));
        display.run("xclip", &["-o", "-selection", "clipboard"]).filter(|text| text.contains("Accuracy"))
    });
    let row = table.lines().find(|line| line.starts_with("| 3 |")).expect(&table);
    // A median with the range of three repeats, for each measure.
    assert!(row.matches('[').count() >= 3, "{table}");
}
