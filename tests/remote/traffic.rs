//! What crosses the line, counted between ssh and sshd.

use std::sync::mpsc::sync_channel;

use multicard::conduct::{Client, News};
use multicard::protocol::Event;
use multicard::remote::{Address, Line, LineNews, Prompts};
use multicard::session::Notice;

use super::*;

/// Connects standard input and output to a port, and writes the bytes that passed, in both directions, into a file.
pub const COUNTING_PROXY: &str = r#"
import os, select, socket, sys
line = socket.create_connection((sys.argv[1], int(sys.argv[2])))
passed = 0
while True:
    for ready in select.select([0, line], [], [])[0]:
        data = os.read(0, 65536) if ready == 0 else line.recv(65536)
        if not data:
            sys.exit()
        if ready == 0:
            line.sendall(data)
        else:
            view = memoryview(data)
            while view:
                view = view[os.write(1, view):]
        passed += len(data)
        with open(sys.argv[3] + ".new", "w") as out:
            out.write(str(passed))
        os.replace(sys.argv[3] + ".new", sys.argv[3])
"#;

/// Connects standard input and output to a port. What comes back is held while a file is there, or for as many seconds as it says; when the
/// line ends, what was held is lost.
pub const HOLDING_PROXY: &str = r#"
import os, queue, socket, sys, threading, time
line = socket.create_connection((sys.argv[1], int(sys.argv[2])))
held = queue.Queue()

def wanted_s():
    try:
        return float(open(sys.argv[3]).read())
    except (OSError, ValueError):
        return 0

def give():
    while True:
        arrived, data = held.get()
        while time.monotonic() < arrived + wanted_s():
            time.sleep(0.01)
        view = memoryview(data)
        while view:
            view = view[os.write(1, view):]

def send():
    while data := os.read(0, 65536):
        line.sendall(data)
    os._exit(0)

for work in (give, send):
    threading.Thread(target=work, daemon=True).start()
while data := line.recv(65536):
    held.put((time.monotonic(), data))
"#;

/// Says 800 steps a second, as four ranks of 200 do, with all digits of clocks and losses, until the gate is open.
const STEPS: &str = r#"
import json, os, random, time
step, due = 0, time.time()
with open(os.environ["MULTICARD_READINGS"], "a") as out:
    while not os.path.exists("gate"):
        for rank in range(4):
            step += 1
            out.write(json.dumps({"step": step, "loss": 2 * random.random(), "units": 64,
                                  "duration_s": 0.005 * random.random(), "wait_s": 1e-4 * random.random()}) + "\n")
        out.flush()
        due += 0.005
        time.sleep(max(0, due - time.time()))
"#;

fn is_step(news: &News) -> bool {
    matches!(news, News::Notice(Notice::Event(line)) if matches!(line.event, Event::Step { .. }))
}

/// A line and a client whose bytes and steps are counted.
pub struct Measured<W> {
    line: Line,
    client: Client,
    /// Bytes that have crossed the line.
    wire: W,
}

impl<W: Fn() -> u64> Measured<W> {
    pub fn open(address: &str, wire: W) -> Self {
        let address = Address::parse(Path::new(address)).unwrap().unwrap();
        let (sender, news) = sync_channel(64);
        let line = Line::open(address, Prompts::Askpass, sender).unwrap();
        // A machine under load may be told to be silent before it answers.
        let ready = loop {
            match news.recv_timeout(PATIENCE).unwrap() {
                LineNews::Problem(_) => {}
                other => break other,
            }
        };
        assert!(matches!(&ready, LineNews::Ready(reached) if reached.exists), "{ready:?}");
        // Nobody looks at further news.
        std::thread::Builder::new().spawn(move || news.iter().for_each(drop)).unwrap();
        let client = line.client_or_start(true).unwrap();
        Self { line, client, wire }
    }

    /// Bytes and steps a second, counted for some time.
    pub fn count(&mut self, time: Duration) -> (f64, f64) {
        let (start, before, mut steps) = (Instant::now(), (self.wire)(), 0_u64);
        while start.elapsed() < time {
            let news = self.client.next(Some(Duration::from_millis(50))).unwrap();
            steps += u64::from(news.is_some_and(|news| is_step(&news)));
        }
        let passed_s = start.elapsed().as_secs_f64();
        (((self.wire)() - before) as f64 / passed_s, steps as f64 / passed_s)
    }

    /// Waits until so many steps arrive a second.
    pub fn await_steps(&mut self, per_s: f64) {
        let start = Instant::now();
        while self.count(Duration::from_millis(500)).1 < per_s {
            assert!(start.elapsed() < PATIENCE, "{per_s} steps a second never arrived");
        }
    }
}

/// What batches cost a second, however few steps they hold: five times headers of packets, of ssh and of frames, and a flush.
const BATCHES_BYTES_PER_S: f64 = 1000.0;

/// Of a slow machine, what 800 steps a second would be.
pub fn at_800_steps(bytes_per_s: f64, steps_per_s: f64) -> f64 {
    (bytes_per_s - BATCHES_BYTES_PER_S) * 800.0 / steps_per_s + BATCHES_BYTES_PER_S
}

#[test]
fn eight_hundred_steps_a_second_stay_below_100_kilobytes_and_an_idle_line_is_almost_silent() {
    let test = "traffic::eight_hundred_steps_a_second_stay_below_100_kilobytes_and_an_idle_line_is_almost_silent";
    let Some(scene) = Scene::alone(test) else { return };
    fs::write(scene.node("steps.py"), STEPS).unwrap();
    scene.plan("steps", 1, "exec python3 steps.py");
    scene.detach("steps.toml");
    let wire = || fs::read_to_string(scene.at("wire")).unwrap().parse().unwrap();
    let mut measured = Measured::open(&scene.through("counted", "multicard"), wire);
    measured.await_steps(400.0);
    let (bytes_per_s, steps_per_s) = measured.count(Duration::from_secs(8));
    let (received, _) = measured.line.traffic();
    eprintln!("running: {bytes_per_s:.0} B/s at {steps_per_s:.0} steps/s; {received} bytes received in all");
    assert!(at_800_steps(bytes_per_s, steps_per_s) < 100e3, "{bytes_per_s:.0} B/s at {steps_per_s:.0} steps/s");
    scene.open_gate();
    let start = Instant::now();
    while measured.count(Duration::from_millis(500)).1 > 0.0 || !scene.states().iter().all(|state| state.is_final()) {
        assert!(start.elapsed() < PATIENCE, "the run never ended");
    }
    measured.count(Duration::from_secs(1));
    let (bytes_per_s, _) = measured.count(Duration::from_secs(6));
    eprintln!("idle: {bytes_per_s:.0} B/s");
    assert!(bytes_per_s < 200.0, "{bytes_per_s:.0} B/s while nothing goes on");
}

#[test]
fn the_end_of_very_short_runs_reaches_each_of_a_hundred_followers() {
    // Below the number of connections at which sshd begins to refuse new ones.
    const AT_ONCE: usize = 8;
    let scene = Scene::new();
    scene.plan("short", 3, "sleep 0.1");
    for _ in 0..100_usize.div_ceil(AT_ONCE) {
        scene.detach("short.toml");
        let mut followers: Vec<Child> = (0..AT_ONCE).map(|_| scene.start(&["attach", &scene.address()])).collect();
        wait("each follower is told the end", || {
            followers.iter_mut().filter_map(|follower| follower.try_wait().unwrap()).count() == AT_ONCE
        });
        assert!(followers.iter_mut().all(|follower| follower.wait().unwrap().success()));
    }
    assert!(scene.states().iter().all(|state| *state == RunState::Finished));
}
