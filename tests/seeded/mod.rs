//! Kept sessions in folders that tests may change: the one in `tests/seeds`, which was trained on two CPUs, and those in
//! `tests/golden/sessions`. The command line that reads them.
#![allow(dead_code, reason = "each test is a crate of its own and uses what it needs")]

use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use multicard::store::{Reader, RunRecord};
use tempfile::TempDir;

/// Long enough for a slow machine; reaching it is a failure.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn seeds() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/seeds")
}

/// An empty folder, in memory where there is such a place.
pub fn memory() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }.unwrap()
}

/// A copy of the session in memory: the index is synced often.
pub fn session() -> TempDir {
    let folder = memory();
    copy(&seeds().join("session"), folder.path());
    folder
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Every file below a folder, in one order everywhere.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() { found.extend(files(&entry.path())) } else { found.push(entry.path()) }
    }
    found.sort();
    found
}

/// All that is known of all runs, steps included.
pub fn records(session: &Path) -> Vec<RunRecord> {
    let reader = Reader::open(session).unwrap();
    let runs = reader.runs().unwrap();
    runs.iter().map(|record| reader.run(&record.run).unwrap().unwrap()).collect()
}

/// Imports a session of `tests/golden/sessions` into a folder.
pub fn golden(folder: &Path, name: &str) -> PathBuf {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/sessions");
    let (mut archive, session) = (kept.join(format!("{name}.zip")), folder.join(name));
    if !archive.exists() {
        archive = folder.join("archive.zip");
        std::io::copy(&mut gunzip(&kept.join(format!("{name}.zip.gz"))), &mut fs::File::create(&archive).unwrap())
            .unwrap();
    }
    succeed(command(folder).args(["session", "import"]).arg(archive).arg("--session").arg(&session));
    session
}

/// A compressed file of `tests/golden`.
pub fn gunzip(file: &Path) -> BufReader<GzDecoder<fs::File>> {
    BufReader::new(GzDecoder::new(fs::File::open(file).unwrap()))
}

/// A set in MNIST's form: the class is where the bright rows are.
pub fn make_set(folder: &Path, train_images: u32, test_images: u32) {
    let idx = |name: &str, sizes: &[u32], bytes: Vec<u8>| {
        let mut file = vec![0, 0, 8, sizes.len() as u8];
        sizes.iter().for_each(|size| file.extend(size.to_be_bytes()));
        file.extend(bytes);
        fs::write(folder.join(name), file).unwrap();
    };
    for (part, count) in [("train", train_images), ("t10k", test_images)] {
        let pixel = |index: u32| if index % 784 / 28 * 10 / 28 == index / 784 % 10 { 255 } else { 0 };
        idx(&format!("{part}-images-idx3-ubyte"), &[count, 28, 28], (0..count * 784).map(pixel).collect());
        idx(&format!("{part}-labels-idx1-ubyte"), &[count], (0..count).map(|image| (image % 10) as u8).collect());
    }
}

/// Runs the command line with a home of its own.
pub fn multicard(home: &Path, arguments: &[&str]) -> Output {
    command(home).args(arguments).output().unwrap()
}

/// The command line, away from the sessions, the index and the display of whoever runs the test.
pub fn command(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_multicard"));
    at_home(&mut command, home);
    command
}

pub fn at_home(command: &mut Command, home: &Path) {
    command.env("HOME", home).env("XDG_STATE_HOME", home.join("state")).env("XDG_DATA_HOME", home.join("data"));
    for variable in ["DISPLAY", "WAYLAND_DISPLAY", "MULTICARD_INDEX"] {
        command.env_remove(variable);
    }
}

/// The same in its home, where relative paths start.
pub fn multicard_at_home(home: &Path, arguments: &[&str]) -> Output {
    command(home).args(arguments).current_dir(home).output().unwrap()
}

/// The output of a command, which must succeed.
pub fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
    output
}

/// What a command says that must be refused.
pub fn refused(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{command:?}: {}", text(&output.stdout));
    text(&output.stderr)
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// All that a command printed, errors first.
pub fn printed(output: &Output) -> String {
    text(&output.stderr) + &text(&output.stdout)
}

/// Waits for a condition, not for a time.
pub fn wait(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what}: it never came true");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Every table of a session in every format.
pub fn tables(home: &Path, session: &Path) -> Vec<String> {
    let mut tables = Vec::new();
    for preset in ["times", "loss", "memory"] {
        for format in ["md", "csv", "latex", "json"] {
            let path = session.display().to_string();
            let output = multicard(home, &["table", &path, "--preset", preset, "--format", format]);
            assert!(output.status.success(), "{}", text(&output.stderr));
            tables.push(text(&output.stdout));
        }
    }
    tables
}

/// Runs a script as root of a user namespace of its own, in which it may mount; none where the system does not permit that. `$0` is the
/// command line.
pub fn with_mounts(home: &Path, script: &str, arguments: &[&Path]) -> Option<Output> {
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-Urm", "sh", "-euc", script, env!("CARGO_BIN_EXE_multicard")]).args(arguments);
        at_home(&mut command, home);
        command.current_dir(home).output()
    };
    let permitted = unshare("mount -t tmpfs none /mnt").is_ok_and(|output| output.status.success());
    if !permitted {
        println!("skipped: this system does not permit mounts in a user namespace (unshare -Urm)");
    }
    permitted.then(|| unshare(script).unwrap())
}
