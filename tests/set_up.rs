//! `multicard setup` as a user types it, and the scripts by which `make` sets up: a download that is killed goes on at the next try.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader, Cursor, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

mod executable;
mod seeded;

use seeded::{command, text};

/// Long enough for a slow machine; reaching it is a failure.
const PATIENCE: Duration = Duration::from_secs(60);
/// What the server sends before it falls silent.
const SENT: usize = 100_000;
/// The tag of a wheel for every machine.
const ANY: &str = "py3-none-any";

/// A wheel of a torch that is none.
fn wheel() -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    archive.start_file("torch/lib/libtorch_cpu.so", stored).unwrap();
    archive.write_all(&vec![7; 3 * SENT]).unwrap();
    archive.finish().unwrap().into_inner()
}

/// Answers the first request with a part and then says nothing, the second with what it asks for. Hands out where each begins.
fn serve(bytes: Vec<u8>) -> (String, Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/torch.whl", listener.local_addr().unwrap());
    let (sender, starts) = sync_channel(2);
    let run = move || {
        let mut open = Vec::new();
        for stream in listener.incoming().take(2) {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
            let range =
                lines.filter_map(|line| line.to_lowercase().strip_prefix("range: bytes=").map(String::from)).last();
            let start: usize = range.map_or(0, |range| range.trim_end_matches('-').parse().unwrap());
            sender.send(start).unwrap();
            let (rest, last, all) = (&bytes[start..], bytes.len() - 1, bytes.len());
            let status = if start == 0 { "200 OK" } else { "206 Partial Content" };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nContent-Range: bytes {start}-{last}/{all}\r\n\r\n",
                rest.len()
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(if open.is_empty() { &rest[..SENT] } else { rest }).unwrap();
            open.push(stream);
        }
    };
    std::thread::Builder::new().name("server".into()).spawn(run).unwrap();
    (url, starts)
}

fn setup(home: &Path, list: &Path) -> Command {
    let mut command = command(home);
    command.args(["setup", "--cpu", "--force"]).env("MULTICARD_WHEELS", list).env("MULTICARD_WORKER", "/nonexistent");
    command.env_remove("XDG_CACHE_HOME").stderr(Stdio::piped());
    command
}

#[test]
fn a_killed_set_up_goes_on_where_it_stopped_and_says_what_is_still_missing() {
    let home = TempDir::new().unwrap();
    let bytes = wheel();
    let (url, starts) = serve(bytes.clone());
    let list = home.path().join("list");
    let sum: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    fs::write(&list, format!("# A mirror's.\ncpu torch==2.11.0 {} {sum} {url}\n", bytes.len())).unwrap();
    let cache = home.path().join(".cache/multicard");
    let received = || {
        let folders = fs::read_dir(&cache).into_iter().flatten().flatten();
        let parts = folders.filter_map(|folder| fs::metadata(folder.path().join("torch.whl.part")).ok());
        parts.map(|part| part.len()).max().unwrap_or(0)
    };
    let mut first = setup(home.path(), &list).spawn().unwrap();
    let begin = Instant::now();
    while received() < SENT as u64 {
        assert!(begin.elapsed() < PATIENCE && first.try_wait().unwrap().is_none(), "nothing is received");
        std::thread::sleep(Duration::from_millis(10));
    }
    first.kill().unwrap();
    first.wait().unwrap();
    let second = setup(home.path(), &list).output().unwrap();
    assert_eq!(starts.iter().take(2).collect::<Vec<_>>(), [0, SENT]);
    let library = cache.join("libtorch-2.11.0-cpu/torch/lib/libtorch_cpu.so");
    assert_eq!(fs::metadata(library).unwrap().len(), 3 * SENT as u64, "{}", text(&second.stderr));
    // It is there, but there is no worker that could load it.
    assert_eq!(second.status.code(), Some(2));
    assert!(text(&second.stderr).contains("MULTICARD_WORKER names /nonexistent"), "{}", text(&second.stderr));
}

#[test]
fn what_would_be_downloaded_is_listed_with_sums_and_a_list_that_is_not_there_is_named() {
    let home = TempDir::new().unwrap();
    let listed = command(home.path()).args(["setup", "dali", "--list"]).output().unwrap();
    let lines = text(&listed.stdout);
    assert_eq!(lines.lines().count(), 3, "{lines}");
    assert!(lines.lines().all(|line| line.split(' ').count() == 3 && line.contains("https://")), "{lines}");
    let absent = setup(home.path(), &home.path().join("absent")).output().unwrap();
    assert_eq!(absent.status.code(), Some(2));
    assert!(
        text(&absent.stderr).contains("the list that MULTICARD_WHEELS names cannot be read"),
        "{}",
        text(&absent.stderr)
    );
}

/// A wheel with these files in a folder that pip searches.
fn wheel_in(folder: &Path, name: &str, version: &str, tag: &str, files: &[(&str, &str)]) {
    let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let mut archive =
        zip::ZipWriter::new(fs::File::create(folder.join(format!("{name}-{version}-{tag}.whl"))).unwrap());
    let about = [
        ("METADATA", format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")),
        ("WHEEL", format!("Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n")),
        ("RECORD", String::new()),
    ];
    let about = about.map(|(file, text)| (format!("{name}-{version}.dist-info/{file}"), text));
    let files = files.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned()));
    for (file, text) in files.chain(about) {
        archive.start_file(file, stored).unwrap();
        archive.write_all(text.as_bytes()).unwrap();
    }
    archive.finish().unwrap();
}

/// Copies of the scripts by which `make` fetches libraries, with a cache of their own.
fn scripts() -> TempDir {
    let repository = TempDir::new().unwrap();
    for folder in [".ci", "src/setup"] {
        fs::create_dir_all(repository.path().join(folder)).unwrap();
    }
    let scripts = [".ci/libtorch", ".ci/torch-version", ".ci/dali", ".ci/dali-version"];
    for file in scripts.into_iter().chain([".ci/wheels.py", "src/setup/wheels.txt"]) {
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(file), repository.path().join(file)).unwrap();
    }
    repository
}

/// Runs such a script where the package index is a folder.
fn fetch_by(script: &str, repository: &Path, wheels: &Path) -> Output {
    let mut command = Command::new(repository.join(".ci").join(script));
    command.env("XDG_CACHE_HOME", repository.join("cache")).env_remove("MULTICARD_TORCH").env_remove("MULTICARD_DALI");
    command.env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", wheels).output().unwrap()
}

/// The folder that they fetch DALI into.
fn dali_folder(repository: &Path) -> PathBuf {
    let version = fs::read_to_string(repository.join(".ci/dali-version")).unwrap();
    repository.join("cache/multicard").join(format!("dali-{}", version.trim()))
}

#[test]
fn make_keeps_each_wheel_that_is_complete_and_asks_at_the_next_try_for_the_others() {
    // Where there is a driver, more wheels are wanted.
    if Path::new("/proc/driver/nvidia/version").exists() {
        return;
    }
    let (repository, wheels) = (scripts(), TempDir::new().unwrap());
    let torch = [
        ("torch/lib/libtorch_cpu.so", ""),
        ("torch/include/a.h", ""),
        ("torch/version.py", "__version__ = '2.11.0+cu130'\n"),
    ];
    wheel_in(wheels.path(), "torch", "2.11.0", ANY, &torch);
    wheel_in(wheels.path(), "nvidia_cuda_runtime", "13.0.96", ANY, &[("nvidia/cu13/lib/libcudart.so.13", "")]);
    let first = fetch_by("libtorch", repository.path(), wheels.path());
    let stderr = text(&first.stderr);
    assert_eq!(first.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("could not download nvidia-cuda-cupti") && stderr.contains("MULTICARD_TORCH=DIR"),
        "{stderr}"
    );
    fs::remove_file(wheels.path().join(format!("torch-2.11.0-{ANY}.whl"))).unwrap();
    wheel_in(wheels.path(), "nvidia_cuda_cupti", "13.0.85", ANY, &[("nvidia/cu13/lib/libcupti.so.13", "")]);
    let second = fetch_by("libtorch", repository.path(), wheels.path());
    assert!(second.status.success(), "{}", text(&second.stderr));
    let linked = repository.path().join("target/libtorch");
    assert!(linked.join("lib/libtorch_cpu.so").exists() && linked.join("../nvidia/cu13/lib/libcupti.so.13").exists());
}

#[test]
fn make_goes_on_with_the_wheel_of_dali_at_which_it_stopped() {
    let (repository, wheels) = (scripts(), TempDir::new().unwrap());
    let codec = [("nvidia/nvimgcodec/libnvimgcodec.so.0", ""), ("nvidia/nvimgcodec/__init__.py", "")];
    wheel_in(wheels.path(), "nvidia_nvimgcodec_cu13", "0.9.0.20", ANY, &codec);
    wheel_in(wheels.path(), "nvidia_nvjpeg", "13.0.4.44", ANY, &[("nvidia/cu13/lib/libnvjpeg.so.13", "")]);
    let first = fetch_by("dali", repository.path(), wheels.path());
    let stderr = text(&first.stderr);
    assert_eq!(first.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("could not download nvidia-dali-cuda130==") && stderr.contains("MULTICARD_DALI=DIR"),
        "{stderr}"
    );
    // What is unpacked is not asked for again: the index has only the wheel that is missing.
    let wheels = TempDir::new().unwrap();
    let folder = dali_folder(repository.path());
    let version = folder.file_name().unwrap().to_str().unwrap().trim_start_matches("dali-");
    let dali = [("nvidia/dali/libdali_operators.so", ""), ("nvidia/dali/pipeline.py", "")];
    wheel_in(wheels.path(), "nvidia_dali_cuda130", version, ANY, &dali);
    let second = fetch_by("dali", repository.path(), wheels.path());
    assert!(second.status.success(), "{}", text(&second.stderr));
    let place = folder.join("nvidia");
    assert_eq!(text(&second.stdout).trim(), place.display().to_string());
    for (file, is_there) in [(codec[0], true), (codec[1], false), (dali[0], true), (dali[1], false)] {
        assert_eq!(folder.join(file.0).exists(), is_there, "{}", file.0);
    }
    assert!(place.join("cu13/lib/libnvjpeg.so.13").exists());
    // A complete folder needs no index. Nor does one of an earlier version, which has no list.
    let nothing = TempDir::new().unwrap();
    for _ in 0..2 {
        let again = fetch_by("dali", repository.path(), nothing.path());
        assert_eq!((again.status.code(), text(&again.stderr).as_str()), (Some(0), ""));
        let _ = fs::remove_file(folder.join("complete"));
    }
}

#[test]
fn make_refuses_a_wheel_that_is_another_file_than_the_one_that_multicard_setup_downloads() {
    // The list has the files for this processor alone.
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let (repository, wheels) = (scripts(), TempDir::new().unwrap());
    wheel_in(wheels.path(), "nvidia_nvimgcodec_cu13", "0.9.0.20", "py3-none-manylinux_2_28_x86_64", &[]);
    let refused = fetch_by("dali", repository.path(), wheels.path());
    let stderr = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("another file under the name nvidia_nvimgcodec_cu13-0.9.0.20-py3-none-manylinux"),
        "{stderr}"
    );
    assert!(!dali_folder(repository.path()).exists(), "it is not unpacked");
}

#[test]
fn a_cargo_that_is_missing_broken_or_too_old_is_named_before_anything_is_installed() {
    let bin = TempDir::new().unwrap();
    for tool in ["dirname", "sed", "sort"] {
        std::os::unix::fs::symlink(Path::new("/usr/bin").join(tool), bin.path().join(tool)).unwrap();
    }
    let refused = |cargo: Option<&str>| {
        if let Some(cargo) = cargo {
            executable::write(&bin.path().join("cargo"), cargo);
        }
        let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/packages"));
        let output = command.env("PATH", bin.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        text(&output.stderr)
    };
    let missing = refused(None);
    assert!(
        missing.contains("cargo was not found: install Rust 1.") && missing.contains("https://rustup.rs"),
        "{missing}"
    );
    let broken = refused(Some("#!/bin/sh\necho 'no toolchain' >&2; exit 1\n"));
    assert!(broken.contains("no toolchain\nsetup: cargo does not run, as it says above"), "{broken}");
    let old = refused(Some("#!/bin/sh\necho 'cargo 1.65.0 (as Debian has it)'\n"));
    assert!(old.contains("cargo 1.65.0 is too old: install Rust 1."), "{old}");
    // What else is missing is said for a cargo that is new enough.
    let new = refused(Some("#!/bin/sh\necho 'cargo 1.1000.0 (of a day to come)'\n"));
    assert!(new.contains("missing, by their names in Debian: g++"), "{new}");
}

#[test]
fn a_build_that_needs_no_download_is_made_only_while_downloads_take_long() {
    let folder = TempDir::new().unwrap();
    let built = folder.path().join("built");
    let touch = format!("touch '{}'", built.display());
    let until_built = format!("while [ ! -e '{}' ]; do sleep 0.1; done", built.display());
    let beside = |long_s: u32, downloads: &str, build: &str| {
        let _ = fs::remove_file(&built);
        let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/beside"));
        let output = command.args([downloads, build]).env("LONG_S", long_s.to_string()).output().unwrap();
        (output.status.code(), built.exists(), text(&output.stderr))
    };
    let (code, is_built, stderr) = beside(60, "true", &touch);
    assert_eq!((code, is_built), (Some(0), false), "{stderr}");
    let (code, is_built, stderr) = beside(0, &until_built, &touch);
    assert_eq!((code, is_built), (Some(0), true), "{stderr}");
    let (code, _, stderr) = beside(0, &until_built, &format!("{touch}; exit 7"));
    assert_eq!(code, Some(7), "{stderr}");
    let (code, _, stderr) = beside(60, "exit 3", "true");
    assert!(code == Some(1) && stderr.contains("a download failed"), "{stderr}");
}

#[test]
fn doctor_breaks_its_lines_between_words_on_a_terminal_and_nowhere_else() {
    let home = TempDir::new().unwrap();
    let mut command = Command::new("script");
    seeded::at_home(&mut command, home.path());
    let on_terminal = "stty cols 40 && \"$PROGRAM\" doctor";
    command.args(["-qc", on_terminal, "/dev/null"]).env("PROGRAM", env!("CARGO_BIN_EXE_multicard"));
    let shown = text(&command.stdin(Stdio::null()).output().unwrap().stdout);
    assert!(shown.contains("Shared memory:"), "{shown}");
    for line in shown.lines() {
        let line = line.trim_end();
        let is_one_word = !line.trim_start_matches([' ', '→']).contains(' ');
        assert!(line.chars().count() <= 40 || is_one_word, "{line:?} in {shown}");
    }
    let piped = text(&seeded::command(home.path()).arg("doctor").output().unwrap().stdout);
    assert!(piped.lines().any(|line| line.chars().count() > 40), "{piped}");
}

#[test]
fn the_first_plan_of_make_run_is_patient_on_cpus_unless_the_user_decides() {
    let output =
        Command::new("make").args(["--dry-run", "run"]).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    let steps = text(&output.stdout);
    let run = steps.lines().find(|line| line.contains("multicard run sessions/quickstart.toml")).unwrap();
    let has_gpu = Path::new("/dev/nvidia0").exists();
    assert_eq!(run.trim_start().starts_with("OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-PASSIVE} "), !has_gpu, "{run}");
}
