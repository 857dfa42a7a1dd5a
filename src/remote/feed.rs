//! Sends the parts of a session's folder that its copy lacks, in an order that keeps the copy valid.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::frame::{Down, Have, Held, MOST_BODY_BYTES};
use crate::foreign;

/// The session's description, whose presence makes a folder a session.
pub(super) const SESSION: &str = "session.toml";
/// The session's decisions.
pub(super) const JOURNAL: &str = "journal.jsonl";
/// The ending of logs. Logs are sent in whole lines and without a limit of size.
pub(super) const LOG_ENDING: &str = ".jsonl";
/// Files that stay on the node: reports, the raw files of a tracer during a run, SQLite.
const LEFT_OUT: [&str; 4] = [".nsys-rep", ".qdrep", ".sqlite", ".cupti"];
/// Most bytes that are sent of a file other than a log; the rest stays on the node.
pub(super) const MOST_FILE_BYTES: u64 = 16 << 20;

/// A function that sends a frame with its bytes.
pub(super) type Send<'a> = &'a mut dyn FnMut(Down, &[u8]) -> io::Result<()>;

/// The parts of a session's folder that were sent.
pub(super) struct Feed {
    folder: PathBuf,
    /// Device and inode of the folder's `session.toml`, once it was sent.
    session: Option<(u64, u64)>,
    journal: Sent,
    /// The runs that the sent part of the journal queues but does not end.
    under_way: BTreeSet<String>,
    /// Files of runs, by their paths within the session.
    files: BTreeMap<String, Sent>,
}

/// The part of a file that was sent.
#[derive(Clone, Copy, Default)]
struct Sent {
    bytes: u64,
    /// Device and inode; `None` before the file is first opened.
    identity: Option<(u64, u64)>,
}

/// The meaning of a line of the journal for the files of its run.
#[derive(Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub(super) enum Mark {
    RunQueued {
        run: String,
    },
    RunEnded {
        run: String,
    },
    TraceEnded {
        name: String,
    },
    #[serde(other)]
    Other,
}

impl Mark {
    /// The meaning of a line; a line that cannot be parsed has none.
    pub(super) fn of(line: &[u8]) -> Self {
        serde_json::from_slice(line).unwrap_or(Self::Other)
    }

    /// Adds a queued run to the set of active runs, and removes an ended run from it.
    pub(super) fn note(self, under_way: &mut BTreeSet<String>) {
        match self {
            Self::RunQueued { run } if is_plain(&run) => {
                under_way.insert(run);
            }
            Self::RunEnded { run } => {
                under_way.remove(&run);
            }
            _ => {}
        }
    }
}

/// Whether a name is a plain file name that leads out of no folder.
pub(super) fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0'])
}

impl Feed {
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            session: None,
            journal: Sent::default(),
            under_way: BTreeSet::new(),
            files: BTreeMap::new(),
        }
    }

    /// Continues from the contents of a copy; false if the copy belongs to another session.
    pub(super) fn resume(&mut self, have: &Have) -> io::Result<bool> {
        if have.journal.bytes == 0 {
            return Ok(have.files.is_empty());
        }
        let Some(journal) = self.open(JOURNAL)? else { return Ok(false) };
        if !have.journal.is_of(&journal)? {
            return Ok(false);
        }
        self.journal.bytes = have.journal.bytes;
        let mut known = vec![0; have.journal.bytes as usize];
        journal.read_exact_at(&mut known, 0)?;
        known.split(|byte| *byte == b'\n').for_each(|line| Mark::of(line).note(&mut self.under_way));
        for (path, held) in &have.files {
            let is_ours = path.split('/').nth(1).is_some_and(|run| self.under_way.contains(run));
            let file = if is_ours && has_place(path) { self.open(path)? } else { None };
            let sent = match file {
                Some(file) if held.is_of(&file)? => Sent { bytes: held.bytes, identity: None },
                // Treated as if the file had been replaced.
                _ => Sent { bytes: 0, identity: Some((0, 0)) },
            };
            self.files.insert(path.clone(), sent);
        }
        Ok(true)
    }

    /// Sends everything that is new. Returns whether there is a session.
    pub(super) fn pass(&mut self, send: Send<'_>) -> io::Result<bool> {
        let about = match fs::symlink_metadata(self.folder.join(SESSION)) {
            Ok(about) => about,
            Err(error) if is_absent(&error) => return Ok(false),
            Err(error) => return Err(error),
        };
        let identity = foreign::identity(&about);
        if self.session.is_some_and(|sent| sent != identity) {
            // Another session has taken its place.
            *self = Self::new(&self.folder);
            send(Down::Reset, &[])?;
        }
        if self.session.is_none() {
            if self.journal.bytes == 0 {
                // The journal is empty before the first decision, but it always exists in a session.
                send(Down::File { path: JOURNAL.to_owned(), offset: 0, new: true }, &[])?;
            }
            let text = foreign::read_ours(&self.folder.join(SESSION), MOST_BODY_BYTES as u64)?;
            send(Down::File { path: SESSION.to_owned(), offset: 0, new: true }, &text)?;
            self.session = Some(identity);
        }
        self.journal(send)?;
        for run in self.under_way.clone() {
            self.run(&run, send)?;
        }
        Ok(true)
    }

    /// Sends the journal's new lines. Before the line that ends a run, it sends all files of that run.
    fn journal(&mut self, send: Send<'_>) -> io::Result<()> {
        let Some(file) = self.open(JOURNAL)? else { return Ok(()) };
        // What is added to it while it is read is sent in the next pass.
        let length = file.metadata()?.len();
        if length < self.journal.bytes {
            // The incomplete last line was removed, or the journal was changed: it is unknown which of the copied lines are still valid.
            *self = Self::new(&self.folder);
            send(Down::Reset, &[])?;
            return Ok(());
        }
        let mut lines = Vec::new();
        let mut read = self.journal.bytes;
        let mut pending: Vec<u8> = Vec::new();
        while read < length {
            let from = lines.len();
            lines.resize(from + (length - read).min(MOST_BODY_BYTES as u64) as usize, 0);
            file.read_exact_at(&mut lines[from..], read)?;
            read += (lines.len() - from) as u64;
            let Some(last) = lines.iter().rposition(|byte| *byte == b'\n') else { continue };
            let rest = lines.split_off(last + 1);
            for line in lines.split_inclusive(|byte| *byte == b'\n') {
                let mark = Mark::of(line);
                if let Mark::RunEnded { run } | Mark::TraceEnded { name: run } = &mark {
                    self.flush(&mut pending, send)?;
                    self.run(run, send)?;
                }
                mark.note(&mut self.under_way);
                pending.extend_from_slice(line);
            }
            lines = rest;
        }
        self.flush(&mut pending, send)
    }

    fn flush(&mut self, lines: &mut Vec<u8>, send: Send<'_>) -> io::Result<()> {
        for part in lines.chunks(MOST_BODY_BYTES) {
            let offset = self.journal.bytes;
            send(Down::File { path: JOURNAL.to_owned(), offset, new: offset == 0 }, part)?;
            self.journal.bytes += part.len() as u64;
        }
        lines.clear();
        Ok(())
    }

    /// Sends the new parts of a run's files.
    fn run(&mut self, run: &str, send: Send<'_>) -> io::Result<()> {
        if !is_plain(run) {
            return Ok(());
        }
        let entries = match fs::read_dir(self.folder.join("runs").join(run)) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| is_sent(name)).collect();
        names.sort_unstable();
        for name in names {
            self.file(format!("runs/{run}/{name}"), send)?;
        }
        Ok(())
    }

    /// Sends the new part of a file.
    fn file(&mut self, path: String, send: Send<'_>) -> io::Result<()> {
        let is_log = path.ends_with(LOG_ENDING);
        let mut sent = self.files.get(&path).copied().unwrap_or_default();
        let about = match fs::symlink_metadata(self.folder.join(&path)) {
            Ok(about) if about.is_file() => about,
            // The file does not exist any more, or is not a regular file.
            _ => return Ok(()),
        };
        let identity = Some(foreign::identity(&about));
        let length = if is_log { about.len() } else { about.len().min(MOST_FILE_BYTES) };
        if sent.bytes > about.len() || sent.identity.is_some() && sent.identity != identity {
            send(Down::File { path: path.clone(), offset: 0, new: true }, &[])?;
            sent.bytes = 0;
        }
        sent.identity = identity;
        if sent.bytes < length
            && let Some(file) = self.open(&path)?
        {
            pieces(&file, &path, is_log, &mut sent, length, send)?;
        }
        self.files.insert(path, sent);
        Ok(())
    }

    fn open(&self, path: &str) -> io::Result<Option<File>> {
        match foreign::open_ours(&self.folder.join(path)) {
            Ok(file) => Ok(Some(file)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Sends a file up to a length; for a log, only whole lines.
fn pieces(file: &File, path: &str, is_log: bool, sent: &mut Sent, length: u64, send: Send<'_>) -> io::Result<()> {
    let mut held = Vec::new();
    let mut read = sent.bytes;
    let mut new = sent.bytes == 0;
    while read < length {
        let from = held.len();
        held.resize(from + (length - read).min(MOST_BODY_BYTES as u64) as usize, 0);
        file.read_exact_at(&mut held[from..], read)?;
        read += (held.len() - from) as u64;
        let whole =
            if is_log { held.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1) } else { held.len() };
        let rest = held.split_off(whole);
        for part in held.chunks(MOST_BODY_BYTES) {
            send(Down::File { path: path.to_owned(), offset: sent.bytes, new }, part)?;
            sent.bytes += part.len() as u64;
            new = false;
        }
        held = rest;
    }
    Ok(())
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Whether a file of a run is sent.
pub(super) fn is_sent(name: &str) -> bool {
    is_plain(name) && !LEFT_OUT.iter().any(|ending| name.ends_with(ending))
}

/// Whether the path of a file within a session is one that is sent.
pub(super) fn has_place(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    match parts[..] {
        [SESSION | JOURNAL] => true,
        ["runs", run, name] => is_plain(run) && is_sent(name),
        _ => false,
    }
}

impl Have {
    /// Describes what a copy contains.
    pub(super) fn of(copy: &Path) -> io::Result<Self> {
        let mut have = Self::default();
        let Ok(journal) = foreign::open_ours(&copy.join(JOURNAL)) else { return Ok(have) };
        let mut lines = vec![0; journal.metadata()?.len() as usize];
        journal.read_exact_at(&mut lines, 0)?;
        have.journal = Held::of(&journal, lines.len() as u64)?;
        let mut under_way = BTreeSet::new();
        lines.split(|byte| *byte == b'\n').for_each(|line| Mark::of(line).note(&mut under_way));
        for run in under_way {
            let entries = fs::read_dir(copy.join("runs").join(&run)).into_iter().flatten().flatten();
            for name in entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| is_sent(name)) {
                let path = format!("runs/{run}/{name}");
                let Ok(file) = foreign::open_ours(&copy.join(&path)) else { continue };
                let held = Held::of(&file, file.metadata()?.len())?;
                have.files.insert(path, held);
            }
        }
        Ok(have)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write;

    use super::super::copy::Copy;
    use super::*;

    fn append(file: &Path, text: &str) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        File::options().create(true).append(true).open(file).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn decision(session: &Path, text: &str) {
        append(&session.join(JOURNAL), &format!("{{\"time_s\":1.5,\"decision\":{text}}}\n"));
    }

    /// Writes the next part of a session, and the start of a line.
    fn write(session: &Path, part: usize) {
        let run = format!("r{part}");
        let log = session.join(format!("runs/{run}/rank-0.jsonl"));
        if part == 0 {
            append(&session.join(SESSION), "version = 1\n");
        } else {
            let before = format!("r{}", part - 1);
            append(&session.join(format!("runs/{before}/rank-0.jsonl")), " ends\"}\n");
            append(&session.join(format!("runs/{before}/stderr.log")), "last words");
            decision(session, &format!("\"run_ended\",\"run\":\"{before}\",\"state\":\"finished\",\"reason\":null"));
        }
        decision(session, &format!("\"run_queued\",\"run\":\"{run}\""));
        append(&log, &"{\"event\":\"step\"}\n".repeat(30_000));
        append(&log, "{\"event\":\"it");
        append(&session.join(format!("runs/{run}/report.nsys-rep")), "stays there");
    }

    /// Everything that is said of a copy in the module's documentation.
    fn check(copy: &Path, session: &Path) {
        let journal = fs::read_to_string(copy.join(JOURNAL)).unwrap_or_default();
        assert!(journal.is_empty() || journal.ends_with('\n'), "{journal}");
        for entry in fs::read_dir(copy.join("runs")).into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().unwrap();
            let has = |decision: &str| journal.contains(&format!("\"{decision}\",\"run\":\"{name}\""));
            assert!(has("run_queued"), "the logs of {name} came before it was queued");
            assert!(!entry.path().join("report.nsys-rep").exists());
            for file in ["rank-0.jsonl", "stderr.log"].map(|file| format!("runs/{name}/{file}")) {
                let bytes = fs::read(session.join(&file)).unwrap_or_default();
                let here = fs::read(copy.join(&file)).unwrap_or_default();
                assert!(bytes.starts_with(&here), "{file} is no beginning of the session's");
                assert!(!file.ends_with(LOG_ENDING) || here.last().is_none_or(|byte| *byte == b'\n'), "{file} is torn");
                assert!(!has("run_ended") || here == bytes, "{file} of an ended run is not whole");
            }
        }
    }

    #[test]
    fn a_copy_is_valid_after_every_frame_and_goes_on_wherever_it_was_cut() {
        let folder = tempfile::tempdir().unwrap();
        let (session, at) = (folder.path().join("session"), folder.path().join("copy"));
        let copy = Copy::new(&at).unwrap();
        let mut frames_until_cut = 0;
        for part in 0..4 {
            write(&session, part);
            // Each line takes one frame more than the one before, until one is whole.
            loop {
                let mut feed = Feed::new(&session);
                assert!(feed.resume(&Have::of(&at).unwrap()).unwrap());
                let mut left = frames_until_cut;
                let passed = feed.pass(&mut |down, body| {
                    let Down::File { path, offset, new } = down else { panic!("{down:?}") };
                    if left == 0 {
                        return Err(io::ErrorKind::BrokenPipe.into());
                    }
                    left -= 1;
                    copy.write(&path, offset, new, body)?;
                    check(&at, &session);
                    Ok(())
                });
                if passed.is_ok() {
                    break;
                }
                frames_until_cut += 1;
            }
            frames_until_cut = 0;
        }
        assert_eq!(fs::read(at.join(JOURNAL)).unwrap(), fs::read(session.join(JOURNAL)).unwrap());
        check(&at, &session);
    }

    #[test]
    fn a_session_in_the_place_of_another_and_a_replaced_file_are_sent_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (session, at) = (folder.path().join("session"), folder.path().join("copy"));
        let copy = Copy::new(&at).unwrap();
        let pass = |feed: &mut Feed| {
            let mut resets = 0;
            let passed = feed.pass(&mut |down, body| match down {
                Down::File { path, offset, new } => copy.write(&path, offset, new, body),
                _ => {
                    resets += 1;
                    copy.reset()
                }
            });
            assert!(passed.unwrap());
            resets
        };
        write(&session, 0);
        let mut feed = Feed::new(&session);
        pass(&mut feed);
        let log = session.join("runs/r0/rank-0.jsonl");
        fs::remove_file(&log).unwrap();
        append(&log, "short\n");
        assert_eq!(pass(&mut feed), 0);
        assert_eq!(fs::read(at.join("runs/r0/rank-0.jsonl")).unwrap(), b"short\n");

        fs::rename(&session, folder.path().join("before")).unwrap();
        let mut without = Feed::new(&session);
        assert!(!without.pass(&mut |_, _| Ok(())).unwrap(), "there is none");
        write(&session, 0);
        fs::write(session.join(JOURNAL), "{\"decision\":\"another\"}\n").unwrap();
        assert_eq!(pass(&mut feed), 1);
        assert!(!at.join("runs").exists());
        assert_eq!(fs::read(at.join(JOURNAL)).unwrap(), fs::read(session.join(JOURNAL)).unwrap());
        // What a copy of the session before has fits no more.
        let have = Have { journal: Held { bytes: 40, end: "other".to_owned() }, ..Have::default() };
        assert!(!Feed::new(&session).resume(&have).unwrap());
    }

    #[test]
    fn names_that_lead_elsewhere_have_no_place_in_a_copy() {
        let folder = tempfile::tempdir().unwrap();
        let copy = Copy::new(folder.path()).unwrap();
        for path in ["../x", "/etc/x", "runs/../../x", "runs/a/b/c", "runs/./x", "origin", "runs/a/.x", ""] {
            assert!(copy.write(path, 0, true, b"x").is_err(), "{path}");
        }
        copy.write("runs/a/rank-0.jsonl", 0, true, b"x").unwrap();
    }

    #[test]
    fn a_node_cannot_make_files_longer_than_what_it_sends() {
        let folder = tempfile::tempdir().unwrap();
        let copy = Copy::new(folder.path()).unwrap();
        let log = "runs/a/rank-0.jsonl";
        assert!(copy.write(log, 1 << 50, true, b"x").unwrap_err().to_string().contains("a gap"));
        assert!(copy.write(log, u64::MAX, false, b"x").is_err());
        copy.write(log, 0, true, b"12").unwrap();
        // Lines that write the same copy may be at different places of it.
        copy.write(log, 1, false, b"2\n").unwrap();
        assert_eq!(fs::read(folder.path().join(log)).unwrap(), b"12\n");
        let output = "runs/a/stderr.log";
        copy.write(output, 0, true, b"").unwrap();
        let held = File::options().write(true).open(folder.path().join(output)).unwrap();
        held.set_len(MOST_FILE_BYTES - 1).unwrap();
        copy.write(output, MOST_FILE_BYTES - 1, false, b"x").unwrap();
        assert!(copy.write(output, MOST_FILE_BYTES, false, b"x").unwrap_err().to_string().contains("longer"));
    }
}
