//! A session's logs without the machine's name, the UUIDs of its GPUs and paths, for archives that are published.
//!
//! Every text in logs is searched: the machine's name becomes `host`, UUIDs of GPUs become numbers, and each absolute path `/path-1`,
//! `/path-2`, … in the order of their appearance, so that what differed still differs. Levels, ids and names of events stay as they are.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use serde::de::IgnoredAny;

use crate::foreign::{self, Line, Lines};

/// Longest file that is no log: `session.toml` and `job.json`.
const MOST_BYTES: u64 = 16 << 20;
/// Keys whose texts are names that tell runs, cells and events apart.
const NAMES: [&str; 16] = [
    "asked", "cell", "decision", "device", "event", "factor", "key", "kind", "levels", "mode", "phase", "plan", "run",
    "set", "state", "workload",
];

/// What UUIDs of GPUs begin with: of whole ones, and of parts under MIG.
const UUID_PREFIXES: [&str; 2] = ["GPU-", "MIG-"];
/// Length of a UUID after that.
const UUID_LENGTH: usize = 36;

/// Whether a file of a session holds nothing but values in a form of ours. Output of programs, trained weights, checkpoints and reports
/// may hold anything.
pub(super) fn is_log(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let in_run = path.starts_with("runs/") && path.matches('/').count() == 2;
    match path {
        "session.toml" | "journal.jsonl" => true,
        _ => in_run && (name == "job.json" || name.ends_with(".jsonl")),
    }
}

/// What names and paths become, the same in all files of an archive.
pub(super) struct Pseudonyms {
    hosts: BTreeSet<String>,
    /// Number of each path that was met.
    paths: HashMap<String, usize>,
    /// Number of each UUID that was met.
    uuids: HashMap<String, usize>,
    /// Folders whose names may hold blanks, the longest first.
    folders: Vec<String>,
}

impl Pseudonyms {
    /// For a session that was made on a machine of this name, and lies in a folder.
    pub(super) fn new(host: &str, session: &Path) -> Self {
        let here = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let hosts = [host.to_owned(), here].into_iter().filter(|name| !name.is_empty()).collect();
        let home = std::env::var_os("HOME").map(std::path::PathBuf::from);
        let folders = [Some(session.to_owned()), session.canonicalize().ok(), std::path::absolute(session).ok(), home];
        let mut folders: Vec<String> =
            folders.into_iter().flatten().filter(|at| at.is_absolute()).map(|at| at.display().to_string()).collect();
        folders.retain(|folder| folder.len() > 1);
        folders.sort_by_key(|folder| std::cmp::Reverse(folder.len()));
        Self { hosts, paths: HashMap::new(), uuids: HashMap::new(), folders }
    }

    /// The bytes of a file of a session without names and paths.
    pub(super) fn read<'a>(&'a mut self, path: &str, file: File) -> io::Result<Box<dyn Read + 'a>> {
        if path.ends_with(".jsonl") {
            let lines = Lines::new(BufReader::with_capacity(1 << 18, file));
            return Ok(Box::new(Replaced { names: self, lines, ready: Vec::new(), given: 0 }));
        }
        let mut text = String::new();
        file.take(MOST_BYTES).read_to_string(&mut text)?;
        let written = if path.ends_with(".toml") {
            let value: toml::Value = toml::from_str(&text).map_err(io::Error::other)?;
            let json = self.replaced_in(&serde_json::to_string(&value)?)?;
            let value: toml::Value = serde_json::from_str(&json)?;
            toml::to_string(&value).map_err(io::Error::other)?
        } else {
            self.replaced_in(&text)?
        };
        Ok(Box::new(io::Cursor::new(written)))
    }

    /// JSON in which texts are replaced; numbers, the order of keys and blanks stay as they are.
    fn replaced_in(&mut self, json: &str) -> serde_json::Result<String> {
        serde_json::from_str::<IgnoredAny>(json)?;
        let mut written = String::with_capacity(json.len());
        // For each open object or array: the key whose value follows, and whether the next text is a key.
        let mut open: Vec<(Option<String>, bool)> = Vec::new();
        let mut rest = json;
        while let Some(at) = rest.find(['"', '{', '[', ',', '}', ']']) {
            let (before, from) = rest.split_at(at);
            written += before;
            if from.starts_with('"') {
                let (literal, after) = from.split_at(literal_length(from));
                rest = after;
                let text: String = serde_json::from_str(literal)?;
                let names_something =
                    |(key, _): &(Option<String>, bool)| key.as_ref().is_some_and(|key| NAMES.contains(&key.as_str()));
                let is_kept = open.iter().any(names_something);
                match open.last_mut() {
                    Some((key, is_next @ true)) => {
                        (*key, *is_next) = (Some(text), false);
                        written += literal;
                    }
                    Some((Some(key), _)) if key == "hostname" => written += "\"host\"",
                    _ if is_kept => written += &serde_json::to_string(&self.without_uuids(&text))?,
                    _ => written += &serde_json::to_string(&self.replaced(&text))?,
                }
                continue;
            }
            match from.as_bytes()[0] {
                b'{' => open.push((None, true)),
                b'[' => open.push((None, false)),
                b',' => {
                    if let Some((key, is_next)) = open.last_mut() {
                        *is_next = key.take().is_some();
                    }
                }
                _ => {
                    open.pop();
                }
            }
            written += &from[..1];
            rest = &from[1..];
        }
        Ok(written + rest)
    }

    fn replaced(&mut self, text: &str) -> String {
        if text.starts_with('/') && !text.contains('\n') {
            return self.pseudonym(text);
        }
        let mut text = self.without_uuids(text);
        for folder in self.folders.clone() {
            if text.contains(&folder) {
                let known = self.pseudonym(&folder);
                text = text.replace(&folder, &known);
            }
        }
        let mut replaced = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(at) = rest.find('/') {
            let (before, from) = rest.split_at(at);
            replaced += before;
            let ends = |letter: char| letter.is_whitespace() || "\"'`<>|:;,()[]{}".contains(letter);
            let length = from.find(ends).unwrap_or(from.len());
            let (path, after) = from.split_at(length);
            let begins_word =
                before.chars().next_back().is_none_or(|letter| !letter.is_alphanumeric() && !"._-)/".contains(letter));
            let is_path = begins_word && path.len() > 1 && !path.starts_with("/path-");
            replaced += &if is_path { self.pseudonym(path) } else { path.to_owned() };
            rest = after;
        }
        replaced += rest;
        self.hosts.iter().fold(replaced, |text, host| without_word(&text, host))
    }

    /// Text in which GPUs have numbers in place of UUIDs, which tell one device from all others in the world.
    fn without_uuids(&mut self, text: &str) -> String {
        let mut replaced = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = UUID_PREFIXES.iter().filter_map(|prefix| Some(rest.find(prefix)? + prefix.len())).min() {
            let (before, from) = rest.split_at(at);
            replaced += before;
            rest = from;
            let is_uuid = |text: &&str| text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
            if let Some(uuid) = from.get(..UUID_LENGTH).filter(is_uuid) {
                let next = self.uuids.len() + 1;
                let number = self.uuids.entry(uuid.to_owned()).or_insert(next);
                replaced += &format!("00000000-0000-0000-0000-{number:012}");
                rest = &from[UUID_LENGTH..];
            }
        }
        replaced + rest
    }

    fn pseudonym(&mut self, path: &str) -> String {
        let next = self.paths.len() + 1;
        format!("/path-{}", self.paths.entry(path.to_owned()).or_insert(next))
    }
}

/// Length of the text that JSON begins with, its quotes included.
fn literal_length(json: &str) -> usize {
    let mut is_escaped = false;
    let end = json.bytes().skip(1).position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    end.map_or(json.len(), |end| end + 2)
}

/// Text in which a word is `host`.
fn without_word(text: &str, word: &str) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut done = 0;
    for (at, _) in text.match_indices(word) {
        let (before, after) = (text[..at].chars().next_back(), text[at + word.len()..].chars().next());
        if [before, after].into_iter().flatten().all(|letter| !letter.is_alphanumeric()) {
            replaced += &text[done..at];
            replaced += "host";
            done = at + word.len();
        }
    }
    replaced + &text[done..]
}

/// A log, line by line. A line that cannot be read may hold anything: an empty object stands in its place.
struct Replaced<'a> {
    names: &'a mut Pseudonyms,
    lines: Lines<BufReader<File>>,
    ready: Vec<u8>,
    given: usize,
}

impl Read for Replaced<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.given == self.ready.len() {
            self.ready.clear();
            self.given = 0;
            let line = match self.lines.read()? {
                Some(Line::Whole(line)) => std::str::from_utf8(line).ok(),
                Some(Line::TooLong) => None,
                // A torn last line is left out.
                None => return Ok(0),
            };
            let replaced = line.and_then(|line| self.names.replaced_in(line).ok());
            self.ready.extend_from_slice(replaced.as_deref().unwrap_or("{}").as_bytes());
            self.ready.push(b'\n');
        }
        let count = to.len().min(self.ready.len() - self.given);
        to[..count].copy_from_slice(&self.ready[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }
}

/// Opens a file of a session for an archive without names.
pub(super) fn open<'a>(names: &'a mut Pseudonyms, session: &Path, path: &str) -> io::Result<Box<dyn Read + 'a>> {
    names.read(path, foreign::open_ours(&session.join(path))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths_are_replaced_in_texts_and_what_differed_still_differs() {
        let mut names = Pseudonyms::new("node7", Path::new("/data/my runs/s1"));
        let mut replaced = |text: &str| names.replaced(text);
        assert_eq!(replaced("/home/alice/data set"), "/path-1");
        assert_eq!(
            replaced("cannot read /home/alice/x.png: No such file; see (/tmp/a, /tmp/b)"),
            "cannot read /path-2: No such file; see (/path-3, /path-4)"
        );
        assert_eq!(replaced("/home/alice/data set"), "/path-1");
        assert_eq!(replaced("in /data/my runs/s1/runs/r1"), "in /path-5/runs/r1");
        assert_eq!(
            replaced("9 images/s on node7, node71 and/or NODE.node7.lan"),
            "9 images/s on host, node71 and/or NODE.host.lan"
        );
    }

    #[test]
    fn json_keeps_its_order_numbers_and_names_while_texts_are_replaced() {
        let mut names = Pseudonyms::new("node7", Path::new("/s"));
        let line = r#"{"time_s":1.50,"levels":{"z":"node7","a":[1e3,"/home"]},"text":"a \"node7\" \\ ","list":["/a/b",{"hostname":"x"},"c"],"run":"node7"}"#;
        let expected = r#"{"time_s":1.50,"levels":{"z":"node7","a":[1e3,"/home"]},"text":"a \"host\" \\ ","list":["/path-1",{"hostname":"host"},"c"],"run":"node7"}"#;
        assert_eq!(names.replaced_in(line).ok().as_deref(), Some(expected));
        assert!(names.replaced_in("{\"a\":").is_err());
    }

    #[test]
    fn gpus_keep_numbers_in_place_of_uuids() {
        let mut names = Pseudonyms::new("node7", Path::new("/s"));
        let (first, second) = ("GPU-5a7f0d7e-01b2-4c3d-8e9f-0123456789ab", "MIG-41b36db5-2d10-4be5-8f6c-cc3b9c2b71d0");
        let line = format!(r#"{{"device":{{"gpu_uuid":"{first}"}},"text":"{second} beside {first}, GPU-1 and GPU-"}}"#);
        let expected = r#"{"device":{"gpu_uuid":"GPU-00000000-0000-0000-0000-000000000001"},"text":"MIG-00000000-0000-0000-0000-000000000002 beside GPU-00000000-0000-0000-0000-000000000001, GPU-1 and GPU-"}"#;
        assert_eq!(names.replaced_in(&line).ok().as_deref(), Some(expected));
        assert_eq!(names.replaced_in(&line).ok().as_deref(), Some(expected));
    }

    #[test]
    fn only_logs_are_kept() {
        for kept in
            ["session.toml", "journal.jsonl", "runs/r1/rank-0.jsonl", "runs/r1/job.json", "runs/r1/samples.jsonl"]
        {
            assert!(is_log(kept), "{kept}");
        }
        for left in
            ["runs/r1/stderr.log", "runs/r1/group.out", "runs/r1/report.sqlite", "runs/r1/model/a.json", "notes.txt"]
        {
            assert!(!is_log(left), "{left}");
        }
    }
}
