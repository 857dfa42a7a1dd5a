//! `multicard import`: makes sessions of imported runs from results of other programs. It shows what columns mean
//! before it writes anything.

use std::error::Error;
use std::path::{Component, Path, PathBuf};

use clap::Args;

use super::remote::only_here;
use super::session::transfer;
use super::{OK, Outcome, print, say};
use crate::analysis::counted;
use crate::foreign;
use crate::import::{ForeignTable, ImportError, Mapping, Results, is_written, read, results, write_session};
use crate::session::default_sessions_folder;
use crate::store::ArchiveProgress;
use crate::text_table::TextTable;

/// Largest size of a map.
const MOST_MAP_BYTES: u64 = 1 << 20;
/// The number of values of a column that are shown.
const SHOWN: usize = 3;

#[derive(Args)]
pub(super) struct Arguments {
    /// Files: CSV with names in the first line, JSON lines, or what `hyperfine --export-json` writes. Each becomes a session.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Folder of the new session. With several files: the folder in which each file gets a session with its name.
    /// Default: the default folder of sessions.
    #[arg(long, value_name = "DIR")]
    session: Option<PathBuf>,
    /// Read from this file what columns mean, in the form that --print-map prints. The meaning of other columns is
    /// deduced.
    #[arg(long, value_name = "FILE.toml")]
    map: Option<PathBuf>,
    /// Change what a column means: factor [UNIT], measure [UNIT] [lower|higher] [as KEY], repeat, machine, commit, commit time, started,
    /// session, unit or skip. May be given several times.
    #[arg(long, value_name = "COLUMN=ROLE", value_parser = setting)]
    set: Vec<(String, String)>,
    /// Name of the workload that was measured. Cells of several sessions with the same name, factors and levels are the
    /// same cells. Default: imported, or hyperfine.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Count each row as a run of its own, even where rows have the same values, digit for digit, as runs of a program without randomness
    /// have, or where successive values are alike. Otherwise, cells with such rows get no verdict.
    #[arg(long)]
    rows_are_runs: bool,
    /// Print a file for --map that says what the columns mean, and write nothing.
    #[arg(long, conflicts_with = "yes")]
    print_map: bool,
    /// Write the sessions. Without --yes, the meaning of the columns is printed and nothing is written.
    #[arg(long)]
    yes: bool,
}

fn setting(text: &str) -> Result<(String, String), String> {
    // A column's name may contain `=`.
    let (column, role) = text.rsplit_once('=').ok_or("write COLUMN=ROLE, such as \"time=measure ms lower\"")?;
    Ok((column.to_owned(), role.to_owned()))
}

/// A file that is ready to be written.
struct Ready {
    file: String,
    table: ForeignTable,
    mapping: Mapping,
    results: Results,
    session: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    if let Some(session) = &arguments.session {
        only_here(session, "import FILE --session")?;
    }
    let mut ready: Vec<Ready> = Vec::new();
    let mut wrong: Vec<String> = Vec::new();
    for path in &arguments.files {
        let one = arguments.read(path);
        if let (Ok((_, mapping)), true) = (&one, arguments.print_map) {
            print(&mapping.toml())?;
            return Ok(OK);
        }
        match one.and_then(|one| arguments.ready(path, one)) {
            Ok(one) => ready.push(one),
            Err(error) => wrong.push(error.to_string()),
        }
    }
    for one in &ready {
        print(&one.shown())?;
        one.results.warnings.iter().for_each(|warning| say(format_args!("{}: {warning}", one.file)));
    }
    if !wrong.is_empty() {
        return Err(format!("{}\nnothing is written", wrong.join("\n")).into());
    }
    let mut sessions: Vec<&Path> = ready.iter().map(|one| one.session.as_path()).collect();
    sessions.sort_unstable();
    if let Some(same) = sessions.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("two files would become {}: import them one by one", same[0].display()).into());
    }
    let (present, missing): (Vec<&Ready>, Vec<&Ready>) =
        ready.iter().partition(|one| one.session.symlink_metadata().is_ok());
    // An import of several files that was killed is continued.
    if let Some(taken) = present.iter().find(|one| missing.is_empty() || !one.is_written()) {
        return Err(format!("{} exists: choose another folder with --session", taken.session.display()).into());
    }
    if !arguments.yes {
        return Err(
            "Nothing written yet. Add --yes to import as shown. --set COLUMN=ROLE or --map FILE.toml changes it."
                .into(),
        );
    }
    for one in present {
        say(format_args!("session {}: its runs were imported before", one.session.display()));
    }
    for (place, one) in missing.iter().enumerate() {
        let outcome = one.write();
        if !matches!(outcome, Ok(OK)) {
            let taken_back = take_back(&missing[..place]);
            taken_back.iter().for_each(say);
            return outcome;
        }
    }
    Ok(OK)
}

/// Removes sessions that were just written; the result says so.
fn take_back(written: &[&Ready]) -> Option<String> {
    let is_left = |one: &&&Ready| std::fs::remove_dir_all(&one.session).is_err();
    let left: Vec<String> = written.iter().filter(is_left).map(|one| one.session.display().to_string()).collect();
    match (written.len(), left.as_slice()) {
        (0, _) => None,
        (1, []) => Some("the session that was written first is removed again: nothing is written".to_owned()),
        (_, []) => Some("the sessions that were written first are removed again: nothing is written".to_owned()),
        (_, left) => Some(format!("remove these before you import again: {}", left.join(", "))),
    }
}

impl Arguments {
    /// Reads a file and what its columns mean.
    fn read(&self, path: &Path) -> Result<(ForeignTable, Mapping), Box<dyn Error>> {
        let file = path.display().to_string();
        let table = read(path).map_err(|problems| ImportError::Problems { file: file.clone(), problems })?;
        let mut mapping = Mapping::deduced(&table);
        if let Some(map) = &self.map {
            let named = |error: &dyn std::fmt::Display| format!("{}: {error}", map.display());
            let bytes = foreign::read(map, MOST_MAP_BYTES).map_err(|error| named(&error))?;
            mapping.change(&String::from_utf8_lossy(&bytes)).map_err(|error| named(&error))?;
        }
        for (column, role) in &self.set {
            mapping.set(column, role).map_err(|error| format!("{file}: --set: {error}"))?;
        }
        if let Some(name) = &self.name {
            let name = toml::Table::from_iter([("name".to_owned(), toml::Value::String(name.clone()))]);
            mapping.change(&toml::to_string(&name)?).map_err(|error| format!("--{error}"))?;
        }
        mapping.rows_are_runs |= self.rows_are_runs;
        Ok((table, mapping))
    }

    fn ready(&self, path: &Path, (table, mapping): (ForeignTable, Mapping)) -> Result<Ready, Box<dyn Error>> {
        let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let results = results(&table, &mapping, &file)
            .map_err(|problems| ImportError::Problems { file: path.display().to_string(), problems })?;
        let stem = path.file_stem().unwrap_or(path.as_os_str());
        let names_session = matches!(Path::new(stem).components().next(), Some(Component::Normal(_)));
        if !names_session && (self.session.is_none() || self.files.len() > 1) {
            let file = path.display();
            return Err(format!("{file}: no session can have its name: import it alone, with --session DIR").into());
        }
        let session = match &self.session {
            Some(session) if self.files.len() == 1 => session.clone(),
            Some(folder) => folder.join(stem),
            None => default_sessions_folder()?.join(stem),
        };
        Ok(Ready { file, table, mapping, results, session })
    }
}

impl Ready {
    /// Whether an earlier import wrote the session.
    fn is_written(&self) -> bool {
        let Self { file, table, mapping, results, session } = self;
        is_written(session, (file.as_str(), table.format), mapping, results)
    }

    /// Writes the session.
    fn write(&self) -> Outcome {
        let Self { file, table, mapping, results, session } = self;
        let work = |progress: ArchiveProgress<'_>| {
            write_session(session, (file.as_str(), table.format), mapping, results, progress)
        };
        let runs = counted(results.runs.len(), "imported run");
        transfer("importing", work, |()| format!("session {}: {runs}", session.display()))
    }

    /// What the columns mean, and what the rows become.
    fn shown(&self) -> String {
        let Self { file, table, mapping, results, session } = self;
        let mut columns = TextTable::new("llll", ["Column", "Is", "Why", "Values"]);
        for (place, (name, role, why)) in mapping.columns.iter().enumerate() {
            let mut values: Vec<&str> = Vec::new();
            for text in table.values(place).map(|field| field.text()).filter(|text| !text.is_empty()) {
                if !values.contains(&text) && values.len() <= SHOWN {
                    values.push(text);
                }
            }
            let more = if values.len() > SHOWN { ", …" } else { "" };
            let shown = values.iter().take(SHOWN).map(|text| cut(text)).collect::<Vec<_>>().join(", ") + more;
            columns.row([name.as_str().into(), role.to_string().into(), why.as_str().into(), shown.into()]);
        }
        let having: Vec<String> = results.having().iter().map(|(key, count)| format!("{key} in {count}")).collect();
        format!(
            "{} ({}) becomes session {}: {} of {}, {}\n\n{}\n",
            foreign::message(file),
            table.format,
            session.display(),
            counted(results.runs.len(), "run"),
            counted(results.cells, "cell"),
            having.join(", "),
            columns.markdown()
        )
    }
}

/// The beginning of a long text.
fn cut(text: &str) -> String {
    const MOST: usize = 24;
    let short: String = text.chars().take(MOST).collect();
    if short.len() < text.len() { foreign::with_ellipsis(&short, "") } else { short }
}
