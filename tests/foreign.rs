//! What others can put into files that multicard reads: escapes of terminals, bombs, links, lines without an end, damaged logs. Every
//! command must say what it found, once, and nothing else may happen.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use flate2::{Compress, Compression, Crc, FlushCompress};
use multicard::figure::paper::Provenance;
use tempfile::TempDir;

mod seeded;

use seeded::{at_home, files, multicard, session, text};

/// What moves a cursor, rings, and writes from right to left.
const HARM: &str = "\u{1b}[2J\u{7}\u{9b}31m\u{202e}";

fn assert_harmless(output: &Output) {
    for stream in [&output.stdout, &output.stderr] {
        let text = text(stream);
        let found = text.chars().find(|letter| multicard::foreign::misleads(*letter));
        assert_eq!(found, None, "{text:?}");
    }
}

/// A figure's file that says something about itself.
fn svg(provenance: &Provenance) -> String {
    let text = provenance.json().replace('&', "&amp;").replace('<', "&lt;");
    format!("<svg xmlns=\"http://www.w3.org/2000/svg\"><metadata id=\"multicard-figure\">{text}</metadata></svg>")
}

#[test]
fn escapes_in_figures_plans_and_names_of_files_do_not_reach_the_terminal() {
    let home = TempDir::new().unwrap();
    let at = |name: &str| home.path().join(name).display().to_string();
    let title = format!("Title {HARM} of a figure");
    let provenance =
        Provenance { multicard_figure: 2, title: title.clone(), notes: vec![title], ..Provenance::default() };
    fs::write(at("figure.svg"), svg(&provenance)).unwrap();
    let json = serde_json::to_string(HARM).unwrap();
    fs::write(at("plan.toml"), format!("version = 1\n{json} = 1\n[factors]\n{json} = [{json}]\nprecision = {json}\n"))
        .unwrap();
    let named = at(&format!("{HARM}.svg"));
    fs::write(&named, "no figure").unwrap();
    for (arguments, is_told) in [
        (vec!["figure", &at("figure.svg")], true),
        (vec!["figure", &at("figure.svg"), "--format", "json"], true),
        (vec!["figure", &named, "--format", "json"], false),
        (vec!["plan", &at("plan.toml")], false),
        (vec!["plan", &named], false),
        (vec!["table", &named], false),
        (vec!["session", "import", &named], false),
    ] {
        let mut command = seeded::command(home.path());
        command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY").args(&arguments);
        let output = command.output().unwrap();
        assert_harmless(&output);
        assert_eq!(output.status.success(), is_told, "{arguments:?}: {}", text(&output.stderr));
        let stderr = text(&output.stdout) + &text(&output.stderr);
        assert!(stderr.contains("\\u001b[2J") || stderr.contains("\\u{1b}[2J"), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_line_of_megabytes_is_cut_before_it_is_shown() {
    let home = TempDir::new().unwrap();
    let figure = home.path().join("figure.svg");
    let provenance = Provenance { multicard_figure: 2, title: "x".repeat(5 << 20), ..Provenance::default() };
    fs::write(&figure, svg(&provenance)).unwrap();
    let plan = home.path().join("plan.toml");
    fs::write(&plan, format!("version = 1\nname = \"{}\"\n", "n".repeat(900_000))).unwrap();
    for arguments in [["figure", figure.to_str().unwrap()], ["plan", plan.to_str().unwrap()]] {
        let mut command = seeded::command(home.path());
        let output = command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY").args(arguments).output().unwrap();
        let bytes = output.stdout.len() + output.stderr.len();
        assert!(bytes > 20 && bytes < 10_000, "{arguments:?}: {bytes}");
    }
}

/// Zeros as a zlib stream: `pieces` of 16 MiB.
fn packed_zeros(pieces: usize) -> Vec<u8> {
    const PIECE: usize = 16 << 20;
    let mut packer = Compress::new(Compression::best(), false);
    let mut piece = Vec::with_capacity(1 << 20);
    packer.compress_vec(&vec![0; PIECE], &mut piece, FlushCompress::Full).unwrap();
    // The sums of Adler-32 over zeros: 1, and 1 for each.
    let adler = (((pieces * PIECE % 65_521) as u32) << 16) | 1;
    [&[0x78, 0xda], piece.repeat(pieces).as_slice(), &[3, 0], &adler.to_be_bytes()].concat()
}

fn chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let mut sum = Crc::new();
    sum.update(kind);
    sum.update(data);
    [&(data.len() as u32).to_be_bytes()[..], kind, data, &sum.sum().to_be_bytes()].concat()
}

#[test]
fn a_small_picture_whose_text_unpacks_to_gigabytes_is_refused_within_little_memory() {
    let home = TempDir::new().unwrap();
    let text_of = [b"multicard-figure\0\x01\0\0\0".as_slice(), &packed_zeros(128)].concat();
    let head = [0, 0, 0, 1, 0, 0, 0, 1, 8, 2, 0, 0, 0];
    let picture = [
        b"\x89PNG\r\n\x1a\n".to_vec(),
        chunk(b"IHDR", &head),
        chunk(b"iTXt", &text_of),
        chunk(b"IDAT", &packed_zeros(0)),
        chunk(b"IEND", b""),
    ]
    .concat();
    assert!(picture.len() < 4 << 20, "{}", picture.len());
    let path = home.path().join("bomb.png");
    fs::write(&path, picture).unwrap();
    // 2 GiB of text do not fit into 1.5 GiB of addresses; the program and its libraries do.
    let mut command = Command::new("sh");
    let script = "ulimit -v 1572864; exec \"$0\" figure \"$1\" --format json";
    command.args(["-c", script, env!("CARGO_BIN_EXE_multicard")]).arg(&path);
    at_home(&mut command, home.path());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("bomb.png"), "{}", text(&output.stderr));
}

#[test]
fn pipes_and_links_in_a_session_are_named_and_hang_no_command() {
    let (home, session) = (TempDir::new().unwrap(), session());
    let log = files(session.path()).into_iter().find(|path| path.ends_with("rank-0.jsonl")).unwrap();
    fs::remove_file(&log).unwrap();
    assert!(Command::new("mkfifo").arg(&log).status().unwrap().success());
    let samples = log.with_file_name("samples.jsonl");
    fs::remove_file(&samples).unwrap();
    symlink("/dev/zero", &samples).unwrap();
    let output = multicard(home.path(), &["table", session.path().to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for name in ["rank-0.jsonl: it is a link or not a regular file", "samples.jsonl: it is a link or not"] {
        assert!(text(&output.stderr).contains(name), "{}", text(&output.stderr));
    }
}

#[test]
fn every_command_that_reads_a_damaged_session_names_it_once_and_counts_the_run_as_unfinished() {
    let (home, session) = (TempDir::new().unwrap(), session());
    let path = session.path().to_str().unwrap();
    let whole = multicard(home.path(), &["table", path, "--format", "json"]);
    assert!(!text(&whole.stderr).contains("damaged"), "{}", text(&whole.stderr));
    let log = files(session.path()).into_iter().find(|path| path.ends_with("rank-0.jsonl")).unwrap();
    let run = log.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let bytes = fs::read(&log).unwrap();
    fs::write(&log, &bytes[..bytes.len() / 2]).unwrap();
    let (out, picture) = (home.path().join("report"), home.path().join("a.svg"));
    for arguments in [
        vec!["table", path],
        vec!["table", path, "--format", "csv"],
        vec!["figure", path, "--format", "md"],
        vec!["figure", path, "--out", picture.to_str().unwrap()],
        vec!["report", path, "--out", out.to_str().unwrap()],
        vec!["export", path, "--what", "runs"],
        vec!["methods", path],
        vec!["claims", path],
        vec!["cite", path],
        vec!["session", "show", path],
    ] {
        let output = multicard(home.path(), &arguments);
        let stderr = text(&output.stderr);
        assert_eq!(stderr.matches("the session is damaged").count(), 1, "{arguments:?}: {stderr}");
        let named = format!("\n  runs/{run}/rank-0.jsonl:");
        assert_eq!(stderr.matches(&named).count(), 1, "{arguments:?}: {stderr}");
    }
    let shown = multicard(home.path(), &["session", "show", path, "--format", "json"]);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    let all = shown["runs"].as_object().unwrap();
    assert_eq!(all["failed"], 1, "{all:?}");
    let rebuilt = multicard(home.path(), &["session", "rebuild", path]);
    assert_eq!(rebuilt.status.code(), Some(1));
    assert!(text(&rebuilt.stderr).contains("rank-0.jsonl"), "{}", text(&rebuilt.stderr));
}

#[test]
fn after_everything_was_killed_a_run_is_not_shown_as_running() {
    let (home, session) = (TempDir::new().unwrap(), session());
    // The journal ends before the last run does, and the session was made on this machine.
    let journal = session.path().join("journal.jsonl");
    let lines = fs::read_to_string(&journal).unwrap();
    let (kept, _) = lines.trim_end().rsplit_once('\n').unwrap();
    fs::write(&journal, format!("{kept}\n")).unwrap();
    let show = || {
        let shown = multicard(home.path(), &["session", "show", session.path().to_str().unwrap(), "--format", "json"]);
        let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
        shown["runs"].clone()
    };
    let file = session.path().join("session.toml");
    let made_on = |host: &str| {
        let mut about: toml::Table = fs::read_to_string(&file).unwrap().parse().unwrap();
        about["node"]["hostname"] = host.into();
        fs::write(&file, about.to_string()).unwrap();
    };
    made_on("a machine that is elsewhere");
    let elsewhere = show();
    assert_eq!(elsewhere["starting"], 1, "of another machine nothing is known: {elsewhere}");
    made_on(fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim());
    let here = show();
    assert!(here["starting"].is_null() && here["interrupted"] == 1, "{here}");
}

#[test]
fn a_home_that_does_not_exist_is_not_made() {
    let home = TempDir::new().unwrap();
    let missing = home.path().join("mistyped");
    let plan = Path::new(env!("CARGO_MANIFEST_DIR")).join("sessions/quickstart.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_multicard"));
    command.env("HOME", &missing).env("MULTICARD_DATA", home.path());
    ["XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"].iter().for_each(|name| {
        command.env_remove(name);
    });
    let output = command.arg("run").arg(plan).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("mistyped does not exist: set HOME"), "{}", text(&output.stderr));
    assert!(!missing.exists());
}

#[test]
fn a_home_that_is_a_file_is_called_no_folder() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("home");
    fs::write(&file, "kept").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_multicard"));
    command.env("HOME", &file);
    ["XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"].iter().for_each(|name| {
        command.env_remove(name);
    });
    let output = command.args(["table", "some-session"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("home is not a folder: set HOME to a folder"), "{}", text(&output.stderr));
}

#[test]
fn a_limit_of_file_sizes_is_an_error_with_words() {
    let (home, session) = (TempDir::new().unwrap(), session());
    let mut command = Command::new("sh");
    let script = "ulimit -f 4; exec \"$0\" session rebuild \"$1\"";
    command.args(["-c", script, env!("CARGO_BIN_EXE_multicard")]).arg(session.path());
    at_home(&mut command, home.path());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(!text(&output.stderr).trim().is_empty());
}

#[test]
fn a_session_in_the_place_of_a_command_is_answered_with_what_opens_it() {
    let home = TempDir::new().unwrap();
    let session = session();
    let path = session.path().display().to_string();
    let output = multicard(home.path(), &[&path]);
    assert_eq!(output.status.code(), Some(2));
    let stderr = text(&output.stderr);
    let expected = format!("is a session, not a command: open it with `multicard --session '{path}'`");
    assert!(stderr.contains(&expected), "{stderr}");
}
