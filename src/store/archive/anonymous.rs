//! Archives for publication: a session's logs with only numbers and texts that are known to identify nobody.
//!
//! Each line is parsed as its kind and written again, so it has the fields of its kind and no others. Some texts are kept: those that name
//! a kind of thing (the event, the state), ids of plans, versions, product names of GPUs and CPUs, and multicard's own
//! words: its workloads, factors, levels, measures and units, and the sentences of its warnings without what they quote. Every other
//! text is replaced by `/path-1`, `/path-2`, … or `text_1`, `text_2`, …, names of machines by `host`, `host_2`, …. A text has the same
//! replacement in all files, so different texts stay different. The checksum in the id of a cell is replaced by a number: it is made of the
//! cell's levels, so that it would confirm a guess of a replaced level.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use super::tree::Tree;
use super::words;
use crate::foreign::{self, Line, Lines};
use crate::plan::{Node, Plan, WorkloadSpec};
use crate::protocol::{GroupLine, Job, event_start, node_log, read_event_line, read_sample_line};
use crate::store::journal::read_journal_line;
use crate::store::mapping::numbers_repeats;
use crate::store::{Decision, folder};

/// Longest file that is not a log: `session.toml` and `job.json`.
const MOST_BYTES: u64 = 16 << 20;

/// Objects whose keys are not names of fields: factors, settings, facts.
const MAPS: [&str; 3] = ["levels", "data", ENVIRONMENT];
/// The object whose keys determine the form of its values.
const ENVIRONMENT: &str = "environment";

/// The object whose keys are ids of cells.
const BY_CELL: &str = "written_steps";
/// The lists of ids of cells.
const CELLS: [&str; 3] = ["recurring_cells", "dependent_cells", "declared_cells"];

/// The fields that are left out: the sources of a program's readings.
const LEFT_OUT: [&str; 1] = ["readings"];

/// The tables of plans that are left out: they contain names within texts.
const TABLES_LEFT_OUT: [&str; 4] = ["study", "constraint", "measures", "search"];

/// Fields whose value is a name from a fixed list for the line's kind; parsing the line has already rejected all other values.
const NAMES_OF_KINDS: [&str; 13] = [
    "decision", "event", "state", "phase", "kind", "mode", "tracer", "traced", "policy", "better", "source", "cuda",
    "domain",
];

/// Fields that contain a version.
const VERSIONS: [&str; 13] = [
    "version",
    "torch_version",
    "schema_version",
    "product_version",
    "driver",
    "cuda_driver",
    "cuda_runtime",
    "cudnn",
    "nccl",
    "libtorch",
    "kernel",
    "multicard",
    "program_python",
];

/// The prefixes of GPU UUIDs: whole GPUs, and parts under MIG.
const UUID_PREFIXES: [&str; 2] = ["GPU-", "MIG-"];

/// The text that stands for a text that was left out.
const NOT_KEPT: &str = "left out: the archive is anonymous";

/// The text as a reader is shown it: for a replacement in an anonymous archive, that it was left out.
pub fn shown_text(text: &str) -> &str {
    let number = text.strip_prefix("text_").or_else(|| text.strip_prefix("/path-"));
    if number.is_some_and(|number| words::is_digits(number, 7)) { NOT_KEPT } else { text }
}

/// The name of a session's machine as a reader is shown it. A machine may be called `host`: its name was replaced only if the
/// description of its system was, too.
pub fn shown_host(node: &Node) -> &str {
    let number = node.hostname.strip_prefix("host").map(|rest| rest.strip_prefix('_').unwrap_or(rest));
    let is_replacement = number.is_some_and(|number| number.is_empty() || words::is_digits(number, 7));
    if is_replacement && shown_text(&node.system) == NOT_KEPT { NOT_KEPT } else { &node.hostname }
}

/// How a file is made anonymous.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Session,
    Journal,
    Job,
    Events,
    Group,
    Samples,
}

impl Kind {
    /// The kind of a session's file; `None` for files that may contain anything: output of programs, readings, trained weights,
    /// checkpoints, reports.
    fn of(path: &str) -> Option<Self> {
        match path {
            "session.toml" => return Some(Self::Session),
            "journal.jsonl" => return Some(Self::Journal),
            _ => {}
        }
        let (_, name) = path.strip_prefix("runs/")?.split_once('/')?;
        match name {
            "job.json" => Some(Self::Job),
            "group.jsonl" => Some(Self::Group),
            "samples.jsonl" => Some(Self::Samples),
            _ if is_node_log(name) => Some(Self::Group),
            _ => folder::rank_of(name).map(|_| Self::Events),
        }
    }
}

/// Whether a file is the log of the ranks' processes on a node.
fn is_node_log(name: &str) -> bool {
    let number = name.strip_prefix("node-").and_then(|rest| rest.split('.').next()?.parse().ok());
    number.is_some_and(|number| node_log(number) == name)
}

/// Whether a file of a session contains only values in a form that multicard defines.
pub(super) fn is_log(path: &str) -> bool {
    Kind::of(path).is_some()
}

/// The replacements of texts, the same in all files of an archive.
pub(super) struct Pseudonyms {
    /// multicard's own words, which are kept.
    words: HashSet<String>,
    /// The replacements of all texts that are not such words.
    texts: HashMap<String, String>,
    paths: usize,
    others: usize,
    uuids: HashMap<String, usize>,
    hosts: HashMap<String, usize>,
    /// The numbers of cells, by the checksums in their ids.
    cells: HashMap<String, usize>,
    /// The workloads that came with plans; the plans' texts are parsed with them.
    brought: Vec<Arc<WorkloadSpec>>,
}

impl Pseudonyms {
    /// Keeps multicard's words and these keys of measures.
    pub(super) fn new(measures: impl IntoIterator<Item = String>) -> Self {
        let words = words::of_multicard().into_iter().chain(measures).collect();
        let (texts, uuids, hosts, cells) = (HashMap::new(), HashMap::new(), HashMap::new(), HashMap::new());
        Self { words, texts, paths: 0, others: 0, uuids, hosts, cells, brought: Vec::new() }
    }

    /// The path of a file within an archive.
    pub(super) fn path(&mut self, path: &str) -> String {
        match path.strip_prefix("runs/").and_then(|path| path.split_once('/')) {
            Some((run, name)) => format!("runs/{}/{name}", self.text("run", run)),
            None => path.to_owned(),
        }
    }

    /// The bytes of a session's file for an anonymous archive.
    pub(super) fn open<'a>(&'a mut self, session: &Path, path: &str) -> io::Result<Box<dyn Read + 'a>> {
        let Some(kind) = Kind::of(path) else { return Ok(Box::new(io::empty())) };
        let file = foreign::open_ours(&session.join(path))?;
        if !matches!(kind, Kind::Session | Kind::Job) {
            let lines = Lines::new(BufReader::with_capacity(1 << 18, file));
            return Ok(Box::new(Replaced { names: self, kind, lines, ready: Vec::new(), given: 0 }));
        }
        let mut text = String::new();
        file.take(MOST_BYTES).read_to_string(&mut text)?;
        let written =
            if kind == Kind::Session { self.session_file(&text)? } else { self.job(&text).unwrap_or_default() };
        Ok(Box::new(io::Cursor::new(written)))
    }

    /// `session.toml`: its version, its creation time, and the machine.
    fn session_file(&mut self, text: &str) -> io::Result<String> {
        let file: toml::Table = toml::from_str(text).map_err(io::Error::other)?;
        let node = file.get("node").cloned().unwrap_or_else(|| toml::Value::Table(toml::Table::new()));
        let node: Node = node.try_into().map_err(io::Error::other)?;
        // Only fields that describe a machine are kept.
        let node: Tree =
            toml::from_str(&toml::to_string(&node).map_err(io::Error::other)?).map_err(io::Error::other)?;
        let version = file.get("version").and_then(toml::Value::as_integer).unwrap_or(1);
        let created = file.get("created").and_then(toml::Value::as_str).unwrap_or_default();
        let written = Tree::Object(vec![
            ("version".to_owned(), Tree::Integer(version)),
            ("created".to_owned(), Tree::Text(self.text("created", created))),
            ("node".to_owned(), self.value("node", node)),
        ]);
        toml::to_string(&written).map_err(io::Error::other)
    }

    /// `job.json`; `None` if it is not a job.
    fn job(&mut self, text: &str) -> Option<String> {
        let job: Job = serde_json::from_str(text).ok()?;
        serde_json::to_string(&self.value("job", tree(&job)?)).ok()
    }

    /// The anonymous lines that replace a line of a log; `None` for a line that cannot be parsed, which may contain anything.
    fn line(&mut self, kind: Kind, line: &[u8]) -> Option<Vec<Tree>> {
        let trees = match kind {
            Kind::Journal => return self.journal_line(line),
            Kind::Events => {
                // Pieces of lines before the event are left out.
                let events = read_event_line(&line[event_start(line)..]).ok()?;
                events.iter().map(tree).collect::<Option<_>>()?
            }
            Kind::Group => vec![tree(&serde_json::from_slice::<GroupLine>(line).ok()?)?],
            Kind::Samples => vec![tree(&read_sample_line(line).ok()?)?],
            Kind::Session | Kind::Job => return None,
        };
        Some(Vec::into_iter(trees).map(|tree| self.value("line", tree)).collect())
    }

    fn journal_line(&mut self, line: &[u8]) -> Option<Vec<Tree>> {
        let mut line = read_journal_line(line).ok()?;
        // The checksums belong to the original logs.
        line.logs.clear();
        match &mut line.decision {
            // These are free text, or contain names that are replaced here.
            Decision::StudySaved { .. }
            | Decision::StudyDeleted { .. }
            | Decision::MeasureSaved { .. }
            | Decision::MeasureDeleted { .. }
            | Decision::Searched { .. }
            | Decision::Noted { .. } => Some(Vec::new()),
            Decision::PlanAdded { name, toml, workloads, .. } => {
                let specs = std::mem::take(workloads).into_iter().filter_map(|spec| serde_json::from_value(spec).ok());
                self.brought = specs.map(Arc::new).collect();
                let text = Tree::Text(self.plan_text(toml, name));
                let specs = self.brought.iter().map(|spec| tree(&**spec)).collect::<Option<Vec<_>>>()?;
                let specs: Vec<Tree> = specs.into_iter().map(|spec| self.value("workload", spec)).collect();
                toml.clear();
                let Tree::Object(mut fields) = self.value("line", tree(&line)?) else { return None };
                fields.retain(|(key, _)| key != "toml" && key != "workloads");
                fields.push(("toml".to_owned(), text));
                if !specs.is_empty() {
                    fields.push(("workloads".to_owned(), Tree::Array(specs)));
                }
                Some(vec![Tree::Object(fields)])
            }
            _ => Some(vec![self.value("line", tree(&line)?)]),
        }
    }

    /// The text of a plan without its studies, measures, search and constraints, or of a mapping of imported runs; empty for another text.
    fn plan_text(&mut self, text: &str, name: &str) -> String {
        if Plan::parse_with(text, name, &self.brought).is_err() && numbers_repeats(text).is_none() {
            return String::new();
        }
        let Ok(Tree::Object(mut fields)) = toml::from_str(text) else { return String::new() };
        fields.retain(|(key, _)| !TABLES_LEFT_OUT.contains(&key.as_str()));
        toml::to_string(&self.plan_value(Tree::Object(fields))).unwrap_or_default()
    }

    /// Like [`Self::value`], for a plan's file. Its keys are replaced as well, since many are chosen by the user.
    fn plan_value(&mut self, value: Tree) -> Tree {
        match value {
            Tree::Object(fields) => {
                let fields = fields.into_iter().filter(|(key, _)| !LEFT_OUT.contains(&key.as_str()));
                Tree::Object(fields.map(|(key, value)| (self.word(&key), self.plan_value(value))).collect())
            }
            Tree::Array(all) => Tree::Array(all.into_iter().map(|one| self.plan_value(one)).collect()),
            Tree::Text(text) => Tree::Text(self.word(&text)),
            other => other,
        }
    }

    /// An anonymous value. `field` is the name of the field that contains it.
    fn value(&mut self, field: &str, value: Tree) -> Tree {
        match value {
            Tree::Text(text) => Tree::Text(self.text(field, &text)),
            Tree::Array(all) => Tree::Array(all.into_iter().map(|one| self.value(field, one)).collect()),
            Tree::Object(fields) => {
                let is_map = MAPS.contains(&field);
                let mut replaced = Vec::with_capacity(fields.len());
                for (key, value) in fields.into_iter().filter(|(key, _)| !LEFT_OUT.contains(&key.as_str())) {
                    // A factor may have the same name as a field.
                    let is_field = !is_map || field == ENVIRONMENT && !NAMES_OF_KINDS.contains(&key.as_str());
                    let value = self.value(if is_field { &key } else { "level" }, value);
                    let key = match field {
                        _ if is_map => self.word(&key),
                        BY_CELL => self.text("cell", &key),
                        _ => key,
                    };
                    replaced.push((key, value));
                }
                Tree::Object(replaced)
            }
            other => other,
        }
    }

    /// The text of a field: unchanged if the field allows it, otherwise its replacement.
    fn text(&mut self, field: &str, text: &str) -> String {
        // A recording of a run is named after the run's id.
        if let ("run" | "beside" | "name", Some((number, cell, repeat))) = (field, words::run_parts(text)) {
            return format!("{number}-{}-{repeat}", self.cell(cell));
        }
        if (field == "cell" || CELLS.contains(&field)) && words::is_cell(text) {
            return self.cell(text);
        }
        let is_kept = match field {
            _ if NAMES_OF_KINDS.contains(&field) => return text.to_owned(),
            "hostname" => return self.host(text),
            "uuid" | "gpu_uuid" | "more_gpu_uuids" => return self.uuid(text),
            "message" | "reason" | "warnings" => return self.sentence(text),
            "plan" => words::is_plan(text),
            "created" => words::is_moment(text),
            "name" | "device" | "cpu_model" | "system" | "gpus" => words::is_product(text),
            "schema_version" => words::is_version(text) || words::is_schema(text),
            "links" => words::is_links(text),
            "unit" => words::is_unit(text, &self.words),
            // Facts that are counts.
            "cpus" | "gpu_power_limit_w" => words::is_digits(text, 5),
            _ => VERSIONS.contains(&field) && words::is_version(text),
        };
        match field {
            _ if is_kept => text.to_owned(),
            // Readers of this field expect a time.
            "created" => "1970-01-01T00:00:00Z".to_owned(),
            _ => self.word(text),
        }
    }

    /// A sentence that multicard writes itself, with the texts that it quotes replaced; for another text, its replacement.
    fn sentence(&mut self, text: &str) -> String {
        let sentence = words::sentence(text, &mut |quoted| self.word(quoted));
        sentence.unwrap_or_else(|| self.word(text))
    }

    /// A word of multicard is returned unchanged; any other text is replaced. The placeholders in a replaced text are kept, after the
    /// replacement.
    fn word(&mut self, text: &str) -> String {
        let is_told = self.words.contains(text) || words::is_share(text) || words::is_gpu_list(text);
        if text.is_empty() || is_told {
            return text.to_owned();
        }
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let placeholders = self.placeholders(text);
        let is_path = text.contains(['/', '\\']) || text.starts_with(['~', '.']);
        let name = if is_path && placeholders.is_empty() {
            self.paths += 1;
            format!("/path-{}", self.paths)
        } else {
            self.others += 1;
            format!("text_{}{placeholders}", self.others)
        };
        self.texts.insert(text.to_owned(), name.clone());
        name
    }

    /// The placeholders in a word of a command: `{batch}` in `--batch={batch}`, with the replacement of the factor's name.
    fn placeholders(&mut self, text: &str) -> String {
        let mut found = String::new();
        let mut rest = text;
        while let Some((_, from)) = rest.split_once('{') {
            let Some((inside, after)) = from.split_once('}') else { break };
            rest = after;
            let key = inside.split(':').next().unwrap_or_default();
            let is_key = !key.is_empty() && key.chars().all(|letter| letter.is_alphanumeric() || "_-".contains(letter));
            if is_key {
                let key = self.word(key);
                found += &format!("{{{key}}}");
            }
        }
        found
    }

    /// The name of a machine: `host` for the first one, then `host_2`, …. Readers need different names, because the values of different
    /// machines differ.
    fn host(&mut self, text: &str) -> String {
        let next = self.hosts.len() + 1;
        match *self.hosts.entry(text.to_owned()).or_insert(next) {
            1 => "host".to_owned(),
            number => format!("host_{number}"),
        }
    }

    /// The id of a cell with a number in place of its checksum; its tracer stays.
    fn cell(&mut self, id: &str) -> String {
        let (sum, tracer) = id.split_at(id.find('-').unwrap_or(id.len()));
        let next = self.cells.len() + 1;
        let number = *self.cells.entry(sum.to_owned()).or_insert(next);
        format!("{number:08x}{tracer}")
    }

    /// The UUID of a GPU, replaced by a number, because a UUID identifies one device in the whole world.
    fn uuid(&mut self, text: &str) -> String {
        let next = self.uuids.len() + 1;
        let number = *self.uuids.entry(text.to_owned()).or_insert(next);
        let prefix = UUID_PREFIXES.into_iter().find(|prefix| text.starts_with(prefix)).unwrap_or(UUID_PREFIXES[0]);
        format!("{prefix}00000000-0000-0000-0000-{number:012}")
    }
}

/// A value as a tree of its fields.
fn tree(value: &impl Serialize) -> Option<Tree> {
    serde_json::from_str(&serde_json::to_string(value).ok()?).ok()
}

/// An anonymous log, line by line. A line that cannot be parsed becomes an empty object.
struct Replaced<'a> {
    names: &'a mut Pseudonyms,
    kind: Kind,
    lines: Lines<BufReader<File>>,
    ready: Vec<u8>,
    given: usize,
}

impl Read for Replaced<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.given == self.ready.len() {
            self.ready.clear();
            self.given = 0;
            let line = match self.lines.read()? {
                Some(Line::Whole(line)) => self.names.line(self.kind, line),
                Some(Line::TooLong) => None,
                // An incomplete last line is left out.
                None => return Ok(0),
            };
            for tree in line.unwrap_or_else(|| vec![Tree::Object(Vec::new())]) {
                serde_json::to_writer(&mut self.ready, &tree)?;
                self.ready.push(b'\n');
            }
        }
        let count = to.len().min(self.ready.len() - self.given);
        to[..count].copy_from_slice(&self.ready[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
#[path = "anonymous_tests.rs"]
mod tests;
