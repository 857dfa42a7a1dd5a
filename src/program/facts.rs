//! What a program is made of: the git commit of its folder, its Python and the versions of packages.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::processes;
use crate::protocol::{Environment, Job, Program};

use super::words::Words;

/// Time that git and Python have to answer.
const LIMIT: Duration = Duration::from_secs(15);
/// Packages whose versions decide how fast a training program is.
const PACKAGES: &str = "torch torchvision torchtune torchao lightning pytorch-lightning transformers accelerate datasets peft trl \
                        deepspeed flash-attn xformers triton vllm numpy jax jaxlib flax tensorflow keras scikit-learn";

/// What was found of interpreters, which stay the same while a session runs.
#[derive(Debug, Default)]
pub struct Facts {
    pythons: HashMap<Interpreter, Option<Versions>>,
}

/// A Python and the variables that are set for it.
type Interpreter = (PathBuf, Vec<(String, String)>);
/// Python's version, and those of packages.
type Versions = (String, String);

/// Adds to a run's environment what its program is made of, as far as it can be found.
pub fn facts(known: &mut Facts, job: &Job, program: &Program, environment: &mut Environment) {
    let Ok(filled) = Words::new(job, program).command() else { return };
    let folder = PathBuf::from(filled.folder.as_deref().unwrap_or("."));
    environment.set("program_git", git(&folder));
    let search = filled.env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.into());
    let search = search.or_else(|| std::env::var_os("PATH"));
    let Some(python) =
        processes::executable(&filled.run[0], &folder, search.as_deref()).ok().and_then(|path| interpreter(&path))
    else {
        return;
    };
    let found = known.pythons.entry((python.clone(), filled.env.clone()));
    if let Some((version, packages)) = found.or_insert_with(|| versions(&python, &folder, &filled.env)) {
        environment.set("program_python", Some(version.as_str()));
        environment.set("program_packages", Some(packages.as_str()).filter(|packages| !packages.is_empty()));
    }
}

/// The commit of a folder, and how many of its files differ from it.
fn git(folder: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        // Nothing is locked or asked for while somebody else works there.
        command.arg("-C").arg(folder).args(arguments).env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0");
        answer(command)
    };
    let commit = git(&["rev-parse", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?.lines().count();
    let dirty = match changed {
        0 => String::new(),
        1 => ", 1 file changed".to_owned(),
        many => format!(", {many} files changed"),
    };
    Some(format!("{}{dirty}", commit.trim()))
}

/// The Python that a program is run by: itself, or the one that a script's first line names.
fn interpreter(program: &Path) -> Option<PathBuf> {
    let is_python = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python"));
    if is_python(program) {
        return Some(program.to_owned());
    }
    let mut start = [0; 256];
    let count = fs::File::open(program).ok()?.read(&mut start).ok()?;
    let text = String::from_utf8_lossy(&start[..count]).into_owned();
    let first = text.lines().next()?.strip_prefix("#!")?;
    let mut words = first.split_whitespace().map(PathBuf::from).filter(|word| !word.ends_with("env"));
    words.next().filter(|path| is_python(path))
}

/// Python's version, and those of known packages.
fn versions(python: &Path, folder: &Path, env: &[(String, String)]) -> Option<Versions> {
    let script = format!(
        "import platform\nfrom importlib import metadata\nprint(platform.python_version())\nfound = []\n\
         for name in '{PACKAGES}'.split():\n try: found.append(name + ' ' + metadata.version(name))\n except Exception: pass\n\
         print(', '.join(found))"
    );
    let mut command = Command::new(python);
    command.args(["-c", &script]).envs(env.iter().map(|(name, value)| (name, value)));
    if folder.is_dir() {
        command.current_dir(folder);
    }
    let answer = answer(command)?;
    let mut lines = answer.lines().map(str::to_owned);
    Some((lines.next()?, lines.next().unwrap_or_default()))
}

/// What a command prints, if it succeeds in time.
fn answer(mut command: Command) -> Option<String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn().ok()?;
    let mut output = child.stdout.take()?;
    let read = thread::Builder::new().name("facts".to_owned()).spawn(move || {
        let mut text = String::new();
        output.by_ref().take(1 << 20).read_to_string(&mut text).ok().map(|_| text)
    });
    let started = Instant::now();
    let status = loop {
        match child.try_wait().ok()? {
            Some(status) => break status,
            None if started.elapsed() > LIMIT => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
            None => thread::sleep(Duration::from_millis(5)),
        }
    };
    let text = read.ok()?.join().ok()??;
    status.success().then_some(text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_commit_of_a_folder_and_what_differs_from_it_is_told() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(git(folder.path()), None);
        let run = |arguments: &[&str]| {
            let mut command = Command::new("git");
            command.arg("-C").arg(folder.path()).args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(arguments);
            answer(command).unwrap()
        };
        run(&["init", "-q"]);
        fs::write(folder.path().join("train.py"), "1").unwrap();
        run(&["add", "."]);
        run(&["commit", "-qm", "first"]);
        let clean = git(folder.path()).unwrap();
        assert!(clean.len() == 40 && clean.chars().all(|c| c.is_ascii_hexdigit()), "{clean}");
        fs::write(folder.path().join("train.py"), "2").unwrap();
        assert_eq!(git(folder.path()).unwrap(), format!("{clean}, 1 file changed"));
    }

    #[test]
    fn pythons_are_known_by_their_name_or_by_the_first_line_of_a_script() {
        let folder = tempfile::tempdir().unwrap();
        let script = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            interpreter(&path)
        };
        assert_eq!(interpreter(Path::new("/usr/bin/python3")), Some("/usr/bin/python3".into()));
        assert_eq!(script("torchrun", "#!/opt/venv/bin/python3\nimport torch"), Some("/opt/venv/bin/python3".into()));
        assert_eq!(script("tune", "#!/usr/bin/env python3\n"), Some("python3".into()));
        assert_eq!(script("train", "#!/bin/sh\npython3 train.py"), None);
        assert_eq!(script("binary", "\u{7f}ELF"), None);
    }

    #[test]
    fn a_real_python_tells_its_version() {
        let Some((version, _)) = versions(Path::new("python3"), Path::new("."), &[]) else {
            println!("skipped: there is no python3");
            return;
        };
        assert!(version.starts_with("3."), "{version}");
    }
}
