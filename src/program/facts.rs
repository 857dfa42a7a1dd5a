//! Facts about a program: the git commit of its folder, its own files, its Python and the versions of packages.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use sha2::{Digest as _, Sha256};

use crate::plan::command::Filled;
use crate::processes;
use crate::protocol::{COMMIT_TIME, Environment, Job, Program};

use super::ranks::Ranks;
use super::words::Words;

/// The key of the fact that stands for the program's own files.
pub const PROGRAM_FILES: &str = "program_files";
/// Time limit for git and Python.
const LIMIT: Duration = Duration::from_secs(15);
/// Packages whose versions affect how fast a training program is.
const PACKAGES: &str = "torch torchvision torchtune torchao lightning pytorch-lightning transformers accelerate datasets peft trl \
                        deepspeed flash-attn xformers triton vllm numpy jax jaxlib flax tensorflow keras scikit-learn";

/// Larger files are data, not code.
const MOST_FILE_BYTES: u64 = 32 << 20;
/// Most files of a program that are recorded.
const MOST_FILES: usize = 4096;
/// Endings of files that count as code or settings if a command line names them. Other files may be output of the program.
const CODE: [&str; 16] =
    ["py", "pyx", "sh", "bash", "pl", "rb", "jl", "lua", "r", "R", "toml", "yaml", "yml", "cfg", "ini", "conf"];
/// A script that prints what another script imports from these folders, without running it.
const IMPORTS: &str = "import sys, modulefinder\n\
                       finder = modulefinder.ModuleFinder(path=sys.argv[2:])\n\
                       finder.run_script(sys.argv[1])\n\
                       print('\\n'.join(m.__file__ for m in finder.modules.values() if m.__file__))";

/// How long the commit of a folder is kept: a thousand runs may start together, and git takes some milliseconds for each.
const COMMIT_KEPT: Duration = Duration::from_secs(1);

/// Facts that are kept between runs: about interpreters, which stay the same while a session runs, about scripts, as long as their
/// files do not change, and about folders, for a moment.
#[derive(Debug, Default)]
pub struct Facts {
    pythons: HashMap<Interpreter, Option<Versions>>,
    imports: HashMap<PathBuf, Imports>,
    commits: HashMap<PathBuf, (Instant, Commit)>,
}

/// The commit of a folder with the number of files that differ from it, and the time at which the commit was made, in UTC.
type Commit = (Option<String>, Option<String>);

impl Facts {
    /// The commit of a folder. git is asked if the last answer is older than `kept`.
    fn commit(&mut self, folder: &Path, kept: Duration) -> Commit {
        if let Some((_, commit)) = self.commits.get(folder).filter(|(asked, _)| asked.elapsed() < kept) {
            return commit.clone();
        }
        let commit = (git(folder), commit_time(folder));
        self.commits.insert(folder.to_owned(), (Instant::now(), commit.clone()));
        commit
    }
}

/// The files that a script imports, with their sizes and modification times when they were found.
#[derive(Debug)]
struct Imports {
    files: BTreeSet<PathBuf>,
    stamps: Vec<Stamp>,
}

/// Size and modification time of a file; `None` if it does not exist.
type Stamp = Option<(u64, Option<SystemTime>)>;

/// A Python, with the environment variables that are set for it.
type Interpreter = (PathBuf, Vec<(String, String)>);
/// Python's version, and the versions of packages.
type Versions = (String, String);

/// A program as a run starts it.
struct Start {
    filled: Filled,
    folder: PathBuf,
    container: Option<String>,
    /// The Python that runs it, if one does.
    python: Option<PathBuf>,
}

impl Start {
    fn of(job: &Job, program: &Program) -> Option<Self> {
        let filled = Words::new(job, program, &Ranks::new(job, 0)).command().ok()?;
        let folder = PathBuf::from(filled.folder.as_deref().unwrap_or("."));
        let search = filled.env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.into());
        let search = search.or_else(|| std::env::var_os("PATH"));
        let container = job.site.as_ref().map(|site| site.container.join(" ")).filter(|words| !words.is_empty());
        // Which Python is in a container is not known here.
        let program =
            container.is_none().then(|| processes::executable(&filled.run[0], &folder, search.as_deref()).ok());
        let python = program.flatten().and_then(|path| interpreter(&path));
        Some(Self { filled, folder, container, python })
    }

    /// The program's own files: files on its command line that are code or settings, and files that a Python script among them imports from
    /// its folder.
    fn files(&self, known: &mut Facts) -> BTreeSet<PathBuf> {
        with_imports(known, named_files(&self.filled.run, &self.folder), &self.folder, self.python.as_deref())
    }
}

/// The files that a command line names, and those that the Python scripts among them import.
fn with_imports(
    known: &mut Facts,
    named: BTreeSet<PathBuf>,
    folder: &Path,
    python: Option<&Path>,
) -> BTreeSet<PathBuf> {
    let Some(python) = python else { return named };
    let scripts: Vec<PathBuf> = named.iter().filter(|path| ends_in(path, &["py"])).cloned().collect();
    let imported = scripts.iter().flat_map(|script| imports(known, python, script, folder));
    named.into_iter().chain(imported).collect()
}

/// Adds the facts about a run's program to the run's environment, as far as they can be found.
pub fn facts(known: &mut Facts, job: &Job, program: &Program, environment: &mut Environment) {
    let Some(start) = Start::of(job, program) else { return };
    let files = start.files(known);
    let Start { filled, folder, container, python } = start;
    let (commit, commit_time) = known.commit(&folder, COMMIT_KEPT);
    environment.set("program_git", commit);
    environment.set(COMMIT_TIME, commit_time);
    environment.set("program_container", container);
    environment.set(PROGRAM_FILES, digest_of(&files, &folder));
    let Some(python) = python else { return };
    let found = known.pythons.entry((python.clone(), filled.env.clone()));
    if let Some((version, packages)) = found.or_insert_with(|| versions(&python, &folder, &filled.env)) {
        environment.set("program_python", Some(version.as_str()));
        environment.set("program_packages", Some(packages.as_str()).filter(|packages| !packages.is_empty()));
    }
}

/// What the digest of a program's files is made from: its folder, the files that its command line names, and the Python that runs it.
type Sources = (PathBuf, BTreeSet<PathBuf>, Option<PathBuf>);

/// Compares the files of programs with those that their runs were made with. A program's files are found and read once.
#[derive(Debug, Default)]
pub struct FilesNow(HashMap<Sources, Option<String>>);

impl FilesNow {
    /// Whether the files of a run's program differ from `before`, the [`PROGRAM_FILES`] of another run; `false` if they are unknown.
    pub fn differ(&mut self, known: &mut Facts, job: &Job, program: &Program, before: &str) -> bool {
        let Some(Start { filled, folder, python, .. }) = Start::of(job, program) else { return false };
        let named = named_files(&filled.run, &folder);
        let now = self.0.entry((folder, named, python)).or_insert_with_key(|(folder, named, python)| {
            digest_of(&with_imports(known, named.clone(), folder, python.as_deref()), folder)
        });
        now.as_deref().is_some_and(|now| now != before)
    }
}

/// A digest of the files of a program that runs in this folder, with their number; `None` if there are none.
fn digest_of(files: &BTreeSet<PathBuf>, folder: &Path) -> Option<String> {
    let mut digest = Sha256::new();
    let mut count = 0;
    for path in files.iter().take(MOST_FILES) {
        let Some(text) = small(path) else { continue };
        // The same program in another folder has the same digest.
        digest.update(path.strip_prefix(folder).unwrap_or(path).as_os_str().as_encoded_bytes());
        digest.update((text.len() as u64).to_le_bytes());
        digest.update(&text);
        count += 1;
    }
    let digest: String = digest.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    match count {
        0 => None,
        1 => Some(format!("{digest} (1 file)")),
        count => Some(format!("{digest} ({count} files)")),
    }
}

/// The files that a command line names and that are code or settings.
fn named_files(command: &[String], folder: &Path) -> BTreeSet<PathBuf> {
    // `--config=settings.yaml` names a file, too.
    let named =
        command.iter().flat_map(|word| word.split_once('=').map(|(_, value)| value).into_iter().chain([&**word]));
    let named = named.map(|word| folder.join(word)).filter(|path| is_code(path) && path.is_file());
    let mut files: BTreeSet<PathBuf> = named.collect();
    // A program named by a path belongs to its user, whatever its ending.
    let own = command.first().filter(|program| program.contains('/')).map(|program| folder.join(program));
    files.extend(own.filter(|path| path.is_file()));
    let module = command.iter().position(|word| word == "-m").and_then(|place| command.get(place + 1));
    files.extend(module.and_then(|name| {
        let path = folder.join(name.replace('.', "/"));
        [path.with_extension("py"), path.join("__main__.py")].into_iter().find(|path| path.is_file())
    }));
    files
}

/// The contents of a file; `None` if it cannot be read or is larger than code.
fn small(path: &Path) -> Option<Vec<u8>> {
    let is_small = fs::metadata(path).is_ok_and(|about| about.len() <= MOST_FILE_BYTES);
    is_small.then(|| fs::read(path).ok()).flatten()
}

/// The files that a command line names and that are code or settings, with digests of their contents.
pub(super) struct NamedFiles(Vec<(PathBuf, Option<[u8; 32]>)>);

impl NamedFiles {
    pub(super) fn of(command: &[String], folder: &Path) -> Self {
        let with_digest = |path: PathBuf| {
            let before = digest(&path);
            (path, before)
        };
        Self(named_files(command, folder).into_iter().map(with_digest).collect())
    }

    /// The files whose contents have changed since.
    pub(super) fn changed(&self) -> Vec<&Path> {
        self.0.iter().filter(|(path, before)| digest(path) != *before).map(|(path, _)| &**path).collect()
    }
}

fn digest(path: &Path) -> Option<[u8; 32]> {
    small(path).map(|text| Sha256::digest(text).into())
}

fn ends_in(path: &Path, endings: &[&str]) -> bool {
    path.extension().is_some_and(|ending| endings.iter().any(|known| ending == *known))
}

/// Whether a file on a command line is code or settings. JSON may also be output, so only JSON files named like settings count.
fn is_code(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    ends_in(path, &CODE) || ends_in(path, &["json"]) && name.contains("conf")
}

/// The files that a Python script imports, directly or indirectly, from its folder or the folder that it starts in.
fn imports(known: &mut Facts, python: &Path, script: &Path, folder: &Path) -> BTreeSet<PathBuf> {
    let stamp = |path: &PathBuf| fs::metadata(path).ok().map(|about| (about.len(), about.modified().ok()));
    let stamps = |files: &BTreeSet<PathBuf>| files.iter().map(stamp).collect::<Vec<Stamp>>();
    if let Some(found) = known.imports.get(script).filter(|found| found.stamps == stamps(&found.files)) {
        return found.files.clone();
    }
    let own = script.parent().unwrap_or(folder);
    let mut command = Command::new(python);
    command.args(["-c", IMPORTS]).arg(script).arg(own).arg(folder).current_dir(own);
    let found = answer(command).unwrap_or_default();
    let mut files: BTreeSet<PathBuf> = found.lines().map(|line| own.join(line)).filter(|path| path.is_file()).collect();
    files.insert(script.to_owned());
    known.imports.insert(script.to_owned(), Imports { stamps: stamps(&files), files: files.clone() });
    files
}

/// The output of a git command in a folder.
fn ask_git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    // git must not lock anything, since the user may be working in the folder.
    command.arg("-C").arg(folder).args(arguments).env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0");
    answer(command)
}

/// The commit of a folder, and the number of its files that differ from the commit.
fn git(folder: &Path) -> Option<String> {
    let commit = ask_git(folder, &["rev-parse", "HEAD"])?;
    let changed = ask_git(folder, &["status", "--porcelain", "--untracked-files=no"])?.lines().count();
    let dirty = match changed {
        0 => String::new(),
        1 => ", 1 file changed".to_owned(),
        many => format!(", {many} files changed"),
    };
    Some(format!("{}{dirty}", commit.trim()))
}

/// When the commit of a folder was made, in UTC. Histories order commits by this time, so that they need no git.
fn commit_time(folder: &Path) -> Option<String> {
    let seconds = ask_git(folder, &["-c", "log.showSignature=false", "show", "--no-patch", "--format=%ct", "HEAD"])?;
    let time = jiff::Timestamp::from_second(seconds.trim().parse().ok()?).ok()?;
    Some(time.to_string())
}

/// The Python that runs a program: the program itself, or the interpreter that the first line of a script names.
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

/// Python's version, and the versions of known packages.
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

/// The output of a command, if it succeeds in time.
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
    use crate::plan::{Data, Shape, command, image};

    #[test]
    fn the_commit_of_a_folder_and_what_differs_from_it_is_told() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!((git(folder.path()), commit_time(folder.path())), (None, None));
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
        let committed: jiff::Timestamp = commit_time(folder.path()).unwrap().parse().unwrap();
        assert!(committed.duration_until(jiff::Timestamp::now()).as_secs().abs() < 3_600, "{committed}");
        let mut known = Facts::default();
        let mut commit = |kept| known.commit(folder.path(), kept).0.unwrap();
        assert_eq!(commit(COMMIT_KEPT), clean);
        fs::write(folder.path().join("train.py"), "2").unwrap();
        assert_eq!(commit(LIMIT), clean, "runs that start together ask git once");
        assert_eq!(commit(Duration::ZERO), format!("{clean}, 1 file changed"));
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
    fn an_edited_file_of_a_program_makes_another_program() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("train.py", "import json, model\n");
        write("model.py", "import layers\nWIDTH = 8\n");
        write("layers.py", "");
        write("unused.py", "");
        write("settings.yaml", "lr: 1");
        write("results.json", "{}");
        let mut version = Command::new("python3");
        version.arg("--version");
        let python = answer(version).map(|_| PathBuf::from("python3"));
        let start = |run: &[&str], python: &Option<PathBuf>| Start {
            filled: Filled {
                run: run.iter().map(|word| (*word).to_owned()).collect(),
                folder: None,
                env: Vec::new(),
                setup: Vec::new(),
            },
            folder: folder.path().to_owned(),
            container: None,
            python: python.clone(),
        };
        let program = start(&["python3", "train.py", "--config=settings.yaml", "--out", "results.json"], &python);
        let mut known = Facts::default();
        let mut files = || digest_of(&program.files(&mut known), folder.path()).unwrap();
        let first = files();
        assert!(first.ends_with(if python.is_some() { "(4 files)" } else { "(2 files)" }), "{first}");
        // Files that the program writes, and files that it does not use, are no part of the program.
        write("results.json", "{\"step_time\": 1}");
        write("unused.py", "import nothing");
        assert_eq!(files(), first);
        write("settings.yaml", "lr: 2");
        let second = files();
        assert_ne!(second, first);
        if python.is_some() {
            write("model.py", "import layers, unused\nWIDTH = 16\n");
            assert!(files().ends_with("(5 files)"));
        }
        let of_program = |name: &str| digest_of(&start(&[name], &None).files(&mut Facts::default()), folder.path());
        assert_eq!(of_program("true"), None);
        write("simulate", "\u{7f}ELF 1");
        let built = of_program("./simulate").unwrap();
        write("simulate", "\u{7f}ELF 2");
        assert_ne!(of_program("./simulate").unwrap(), built);
    }

    #[test]
    fn the_files_of_a_program_are_looked_at_once_for_all_runs_that_are_compared() {
        if versions(Path::new("python3"), Path::new("."), &[]).is_none() {
            println!("skipped: there is no python3");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("train.py", "import model\n");
        write("model.py", "");
        write("layers.py", "");
        let run = ["python3", "train.py", "{seed}"].map(str::to_owned).to_vec();
        let base = Some(folder.path().display().to_string());
        let command = command::Command { run, base, ..Default::default() };
        let program = Program { command, repeat: 1, marker: String::new(), device: "cpu".to_owned() };
        let job = Job::new(image::KEY.into(), image::spec().levels(&[]), Shape::default(), Data::of_set("digits"));
        let mut known = Facts::default();
        let before = digest_of(&Start::of(&job, &program).unwrap().files(&mut known), folder.path()).unwrap();
        assert!(before.ends_with("(2 files)"), "{before}");
        let mut differ = |files: &mut FilesNow, seed| {
            let job = Job { seed, ..job.clone() };
            files.differ(&mut known, &job, &program, &before)
        };
        let mut files = FilesNow::default();
        assert!(!differ(&mut files, 1));
        write("model.py", "import layers\n");
        assert!(!differ(&mut files, 2), "another seed is no other program");
        assert!(differ(&mut FilesNow::default(), 2));
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
