//! `multicard session`: shows, rebuilds, exports and imports sessions.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use clap::Subcommand;
use serde::Serialize;

use super::conduct::ordered_or;
use super::follow::interrupts;
use super::remote::only_here;
use super::{Format, INTERRUPTED, OK, Outcome, SOME_RUN_FAILED, print, progress_bar, say, session_folder};
use crate::analysis::Measures;
use crate::conduct::Order;
use crate::plan::{Filter, RunState, counted};
use crate::remote::Address;
use crate::session::{SearchReport, default_sessions_folder, is_queue_paused, note_session, search_reports};
use crate::store::{self, ARCHIVED, ArchiveError, ArchiveProgress, Reader, SessionHeading};
use crate::text_table::{Field, TextTable};

#[derive(Subcommand)]
pub(super) enum Command {
    /// Show a session: its plans, the states of its runs, and the environments they ran in.
    Show {
        /// Session folder, or the name of a session in the default folder.
        session: PathBuf,
        /// Output format.
        #[arg(long, value_enum, default_value_t = Format::Md)]
        format: Format,
    },
    /// List the sessions of the working folder (as ./NAME) and of the default folder, the latest first, with their runs, machines and
    /// notes.
    List {
        /// List only sessions that match: words in their names, plans, machines, notes and levels, or comparisons such as "precision=fp16
        /// tag=paper runs>10", joined by and, or, not and parentheses. Archived sessions are left out unless the filter contains
        /// `archived`.
        filter: Option<String>,
        /// Output format.
        #[arg(long, value_enum, default_value_t = Format::Md)]
        format: Format,
    },
    /// Write a note on a session or on one of its runs. Words with # are tags; sessions tagged #archived are not listed.
    Note {
        /// Session folder, or the name of a session in the default folder.
        session: PathBuf,
        /// The note, which replaces the previous one; an empty note removes it.
        text: String,
        /// Write the note on this run.
        #[arg(long)]
        run: Option<String>,
    },
    /// Rebuild the index from the logs.
    Rebuild {
        /// Session folder, or the name of a session in the default folder.
        session: PathBuf,
    },
    /// Export a session as a ZIP archive with sizes and SHA-256 checksums. Excludes the index and the recordings of Nsight
    /// Systems (.nsys-rep), which contain the environment of programs.
    Export {
        /// Session folder, or the name of a session in the default folder.
        session: PathBuf,
        /// The archive to write, outside the session's folder; its name must end in .zip, and the file must not exist yet.
        #[arg(long, value_name = "FILE.zip")]
        out: PathBuf,
        /// Keep only numbers and the words that multicard itself uses: all other texts are replaced by numbers, and the programs' output,
        /// weights and reports are left out.
        #[arg(long)]
        anonymous: bool,
    },
    /// Import a session from an archive after verifying all checksums.
    Import {
        /// The archive.
        file: PathBuf,
        /// Folder of the new session; it must not exist yet. Default: named after the archive, in the default folder.
        #[arg(long, value_name = "DIR")]
        session: Option<PathBuf>,
    },
}

pub(super) fn run(command: Command) -> Outcome {
    match command {
        Command::Show { session, format } => show(&session_folder(&session)?, format),
        Command::List { filter, format } => list(filter.as_deref(), format),
        Command::Note { session, text, run } => {
            let folder = session_folder(&session)?;
            let alone = || note_session(&folder, run.clone(), text.clone());
            ordered_or(&folder, &Order::Note(run.clone(), text.clone()), alone)?;
            Ok(OK)
        }
        Command::Rebuild { session } => {
            only_here(&session, "session rebuild")?;
            rebuild(&session_folder(&session)?)
        }
        Command::Export { session: argument, out, anonymous } => {
            let session = session_folder(&argument)?;
            let measures = || Measures::built_in().iter().map(|measure| measure.key.to_string());
            let work = |progress: ArchiveProgress<'_>| match anonymous {
                true => store::export_anonymous(&session, &out, measures(), progress),
                false => store::export_session(&session, &out, progress),
            };
            let copied = match Address::of(&session)? {
                Some(_) => ", whose copy here has no weights, checkpoints and profilers' reports",
                None => "",
            };
            let done = |left_out| format!("{} holds {}{copied}{left_out}", out.display(), argument.display());
            transfer("exporting", work, done)
        }
        Command::Import { file, session } => {
            let session = match session {
                Some(session) => {
                    only_here(&session, "session import FILE.zip --session")?;
                    session
                }
                None => default_folder(&file)?,
            };
            let work = |progress: ArchiveProgress<'_>| store::import_session(&file, &session, progress);
            transfer("importing", work, |()| format!("session {}", session.display()))
        }
    }
}

/// What `session show` prints.
#[derive(Serialize)]
struct Shown {
    session: String,
    machine: String,
    plans: Vec<ShownPlan>,
    /// Its searches with their steps; absent without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    searches: Vec<SearchReport>,
    /// The number of runs in each state.
    runs: BTreeMap<&'static str, usize>,
    /// Whether runs wait in a queue that the user has paused.
    is_queue_paused: bool,
    /// Facts of the runs' environments, each value with the number of runs that have it.
    environment: Vec<ShownFact>,
    /// Runs without a recorded environment.
    environment_not_recorded: usize,
}

#[derive(Serialize)]
struct ShownPlan {
    plan: String,
    name: String,
}

#[derive(Serialize)]
struct ShownFact {
    key: String,
    name: String,
    values: BTreeMap<String, usize>,
}

fn show(folder: &Path, format: Format) -> Outcome {
    let reader = super::material::open(folder)?;
    let runs = reader.headings()?;
    let started: Vec<_> = runs.iter().filter(|run| run.started_time_s.is_some()).collect();
    let mut environment: Vec<ShownFact> = Vec::new();
    for (key, name, value) in started.iter().filter_map(|run| run.environment.as_ref()).flat_map(|one| one.facts()) {
        let place = environment.iter().position(|fact| fact.key == key).unwrap_or_else(|| {
            environment.push(ShownFact { key: key.to_owned(), name: name.to_owned(), values: BTreeMap::new() });
            environment.len() - 1
        });
        *environment[place].values.entry(value.to_owned()).or_default() += 1;
    }
    let mut states: BTreeMap<&'static str, usize> = BTreeMap::new();
    runs.iter().for_each(|run| *states.entry(run.state.name()).or_default() += 1);
    let node = reader.node()?;
    let plans = reader.plans()?.into_iter().map(|(plan, name, _)| ShownPlan { plan, name });
    let shown = Shown {
        session: folder.canonicalize()?.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        machine: format!("{}: {}, {}", node.hostname, node.cpu_model, node.system),
        plans: plans.collect(),
        searches: search_reports(&reader)?,
        is_queue_paused: states.contains_key(RunState::Queued.name()) && is_queue_paused(folder),
        runs: states,
        environment,
        environment_not_recorded: started.iter().filter(|run| run.environment.is_none()).count(),
    };
    match format {
        Format::Md => print(&shown.markdown(started.len()))?,
        Format::Json => print(&serde_json::to_string_pretty(&shown)?)?,
    }
    Ok(OK)
}

impl Shown {
    fn markdown(&self, started: usize) -> String {
        let states: Vec<String> = self.runs.iter().map(|(state, count)| format!("{count} {state}")).collect();
        let states = if states.is_empty() { "none".to_owned() } else { states.join(", ") };
        let mut text = format!("# Session {}\n\n- created on {}\n- runs: {states}\n", self.session, self.machine);
        if self.is_queue_paused {
            text += "- the queue is paused: `multicard attach --resume` with the session's path resumes it\n";
        }
        for ShownPlan { plan, name } in &self.plans {
            text += &format!("- plan {plan}: {name}\n");
        }
        for search in &self.searches {
            text += &format!("\n## Search of {}\n\n", search.name);
            search.in_lines().iter().for_each(|line| text += &format!("- {}\n", line.trim_start()));
        }
        text += "\n## Environment of its runs\n\n";
        if self.environment.is_empty() {
            return text + "Not recorded.\n";
        }
        let mut table = TextTable::new("llr", ["Fact", "Value", "Runs"]);
        for fact in &self.environment {
            let runs_with_fact: usize = fact.values.values().sum();
            let differs = if fact.values.len() > 1 || runs_with_fact < started { " (differs)" } else { "" };
            for (value, count) in &fact.values {
                table.row([format!("{}{differs}", fact.name).into(), value.as_str().into(), (*count).into()]);
            }
        }
        text += &table.markdown();
        if self.environment_not_recorded > 0 {
            let started = counted(started, "run");
            text += &format!("\nNot recorded for {} of {started}.\n", self.environment_not_recorded);
        }
        text
    }
}

/// A session in the list.
#[derive(Serialize)]
struct Listed {
    name: String,
    folder: String,
    date: String,
    machine: String,
    plans: Vec<String>,
    runs: BTreeMap<&'static str, usize>,
    note: String,
}

fn list(filter: Option<&str>, format: Format) -> Outcome {
    let text = filter.unwrap_or_default();
    let filter = Filter::parse(text).map_err(|error| format!("filter {text:?}: {error}"))?;
    let folder = default_sessions_folder()?;
    let here = std::env::current_dir().ok().filter(|here| folder.canonicalize().ok().as_ref() != Some(here));
    let mut headings = headings_in(&folder);
    headings.extend(here.iter().flat_map(|here| headings_in(here)));
    let filter = filter.among(&headings.iter()).map_err(|error| format!("filter {text:?}: {error}"))?;
    let archived = text.to_lowercase().contains(ARCHIVED);
    headings.retain(|heading| (archived || !heading.is_archived()) && filter.admits(heading));
    headings.sort_by(|a, b| b.changed_time_s.unwrap_or(0.0).total_cmp(&a.changed_time_s.unwrap_or(0.0)));
    let listed: Vec<Listed> = headings.into_iter().map(Listed::of).collect();
    if format == Format::Json {
        print(&serde_json::to_string_pretty(&listed)?)?;
        return Ok(OK);
    }
    if listed.is_empty() {
        let here = here.map_or(String::new(), |here| format!("{} and ", here.display()));
        say(format_args!("no session of {here}{} matches", folder.display()));
        return Ok(OK);
    }
    let mut table = TextTable::new("llllll", ["Session", "Date", "Runs", "Machine", "Plans", "Note"]);
    for Listed { name, folder, date, machine, plans, runs, note } in listed {
        // As an argument names it, and apart from one of the same name in the default folder.
        let is_here = here.as_deref().is_some_and(|here| Path::new(&folder).parent() == Some(here));
        let name = if is_here { format!("./{name}") } else { name };
        let runs: Vec<String> = runs.iter().map(|(state, count)| format!("{count} {state}")).collect();
        table.row([name, date, runs.join(", "), machine, plans.join(", "), note].map(Field::from));
    }
    print(&table.markdown())?;
    Ok(OK)
}

/// The sessions of a folder. Folders that cannot be read as sessions, and hidden ones, are left out.
fn headings_in(folder: &Path) -> Vec<SessionHeading> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let visible = |path: &PathBuf| !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    entries.filter(visible).filter_map(|path| SessionHeading::read(&path).ok()).collect()
}

impl Listed {
    fn of(heading: SessionHeading) -> Self {
        Self {
            folder: heading.folder.display().to_string(),
            date: heading.date(),
            machine: heading.whole_machine(),
            name: heading.name,
            plans: heading.plans,
            runs: heading.runs,
            note: heading.note,
        }
    }
}

fn rebuild(session: &Path) -> Outcome {
    let report = store::rebuild(session, &mut |_, _| {})?;
    let (runs, events) = (counted(report.runs, "run"), counted(report.events, "event"));
    say(format_args!("{runs}, {events}, {}", counted(report.samples, "sample")));
    let damage = Reader::open(session)?.damage()?;
    for damage in &damage {
        say(format_args!("excluded: {damage}"));
    }
    Ok(if damage.is_empty() { OK } else { SOME_RUN_FAILED })
}

/// A folder in the default folder for sessions, named after an archive.
fn default_folder(archive: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let name = archive.file_stem().ok_or("the archive's path does not name a file")?;
    Ok(default_sessions_folder()?.join(name))
}

/// Runs work with a progress bar until it ends or is interrupted.
pub(super) fn transfer<T>(
    what: &'static str,
    work: impl FnOnce(ArchiveProgress<'_>) -> Result<T, ArchiveError>,
    done: impl FnOnce(T) -> String,
) -> Outcome {
    let interrupted = interrupts()?;
    let bar = progress_bar("{msg} {bar:40} {bytes}/{total_bytes} ETA {eta}");
    bar.set_message(what);
    let outcome = work(&mut |done_bytes, total_bytes| {
        bar.set_length(total_bytes);
        bar.set_position(done_bytes);
        if interrupted.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    bar.finish_and_clear();
    match outcome {
        Err(error @ ArchiveError::Cancelled) => {
            say(error);
            Ok(INTERRUPTED)
        }
        outcome => {
            say(done(outcome?));
            Ok(OK)
        }
    }
}
