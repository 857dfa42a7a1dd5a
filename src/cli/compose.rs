//! Composed figures: panels of several studies and sessions, described by a TOML file or by an earlier figure's file.

use std::error::Error;
use std::path::{Path, PathBuf};

use super::material::saved;
use super::sources::Sessions;
use super::{say, session_folder};
use crate::figure::paper::{Origin, Provenance};
use crate::figure::{Chart, ComposedFigure, ComposedPanel, Composition, CompositionFile, Figure, PanelTable};
use crate::session::find_session;

/// Whether a file is a TOML file that describes a composed figure.
pub(super) fn is_composition(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("toml"))
}

/// A composed figure that was made from a file.
pub(super) struct Made {
    pub composed: ComposedFigure,
    pub origins: Vec<Origin>,
    /// How many keys and panels were left out. There was a message for each.
    pub wrong: usize,
}

/// Makes the figure that a TOML file describes, from the sessions that it names or from another given session. Keys
/// that cannot be read and panels that cannot be made are left out, with a message that names the line.
pub(super) fn from_file(file: &Path, given: Option<&Path>) -> Result<Made, Box<dyn Error>> {
    let asked = CompositionFile::read(file)?;
    asked.problems.iter().for_each(say);
    let mut made_figure = Made {
        composed: ComposedFigure { composition: asked.composition.clone(), panels: Vec::new() },
        origins: Vec::new(),
        wrong: asked.problems.len(),
    };
    let mut sessions = Sessions::default();
    for table in &asked.panels {
        let folders = folders(file, given, &table.sessions);
        let panel = folders.and_then(|folders| panel(&asked, table, &folders, &mut sessions, &mut made_figure));
        if let Err(error) = panel {
            made_figure.wrong += 1;
            say(asked.problem(&table.path, format!("it is not drawn: {error}")));
            // It keeps its place, so that the letters of others stay theirs.
            let names = table.sessions.iter().filter_map(|session| Path::new(session).file_name());
            let names = names.map(|name| name.to_string_lossy().into_owned()).collect();
            let blank = asked.panel(table, names, &[]).map(|(panel, _)| panel).unwrap_or_default();
            made_figure.composed.composition.panels.push(blank);
            made_figure.composed.panels.push(Err(error.to_string()));
        }
    }
    Ok(made_figure)
}

/// Makes a panel.
fn panel(
    asked: &CompositionFile,
    table: &PanelTable,
    folders: &[PathBuf],
    sessions: &mut Sessions,
    made: &mut Made,
) -> Result<(), Box<dyn Error>> {
    let first = folders.first().ok_or("it names no session")?;
    let kept = saved(first)?;
    let mut names = Vec::new();
    for folder in folders {
        names.push(sessions.origin(folder)?.session.clone());
    }
    let (panel, problems) = asked.panel(table, names, &kept)?;
    let (figure, origins) = sessions.figure(folders, &panel.study)?;
    problems.iter().for_each(say);
    made.wrong += problems.len();
    check_drawn(&figure)?;
    join(&mut made.origins, origins)?;
    made.composed.composition.panels.push(panel);
    made.composed.panels.push(Ok(figure));
    Ok(())
}

/// Refuses a panel that shows nothing.
fn check_drawn(figure: &Figure) -> Result<(), String> {
    figure.crowded().map_or(Ok(()), |why| Err(why.to_owned()))?;
    if figure.charts.iter().all(Chart::is_empty) {
        return Err(format!("no cell has the values that it shows: {}", figure.notes().join("; ")));
    }
    Ok(())
}

/// Adds sessions to those of a figure, each once.
///
/// # Errors
/// The figure already has another session of the same name: its file could not distinguish the two.
fn join(known: &mut Vec<Origin>, origins: Vec<Origin>) -> Result<(), String> {
    for origin in origins {
        match known.iter().find(|other| other.session == origin.session) {
            None => known.push(origin),
            Some(other) if *other == origin => {}
            Some(other) => {
                return Err(format!(
                    "two sessions are called {} (first runs: {} and {}), and a figure's file names a session by its folder: rename \
                     one of the folders",
                    origin.session, other.date, origin.date
                ));
            }
        }
    }
    Ok(())
}

/// The folders of sessions that a file names: relative to the file, beside it, or as on the command line.
fn folders(file: &Path, given: Option<&Path>, names: &[String]) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    if let Some(given) = given {
        return Ok(vec![session_folder(&given.to_owned())?]);
    }
    let folder = |name: &String| {
        let beside = file.parent().unwrap_or(Path::new("")).join(name);
        if beside.join("session.toml").exists() {
            return Ok(beside);
        }
        find_session(file, name, &[]).map_or_else(|| session_folder(&PathBuf::from(name)), Ok)
    };
    names.iter().map(folder).collect()
}

/// Draws the composed figure of a figure's file again, from the sessions that it names or from another given session. A
/// panel that was not drawn in the file keeps its place and its text, with a message, as long as it cannot be drawn.
///
/// # Errors
/// A panel that was drawn in the file cannot be drawn now: a complete picture is never replaced by an incomplete one.
pub(super) fn redraw(
    (file, provenance): (&Path, &Provenance),
    given: Option<&Path>,
    sessions: &mut Sessions,
    composition: &Composition,
) -> Result<Made, Box<dyn Error>> {
    let mut composition = composition.clone();
    let (mut origins, mut panels, mut wrong) = (Vec::new(), Vec::new(), 0);
    for (nth, panel) in composition.panels.iter_mut().enumerate() {
        let is_known = |name: &String| provenance.sessions.iter().any(|origin| origin.session == *name);
        // Files of earlier versions do not say which panels were not drawn. The sessions of such a panel may not be among the file's.
        let was_blank = panel.blank.is_some() || !panel.sessions.iter().all(is_known);
        match panel_again((file, provenance), given, sessions, panel) {
            Ok((figure, more)) => {
                panel.sessions = more.iter().map(|origin| origin.session.clone()).collect();
                join(&mut origins, more).map_err(|error| format!("panel {}: {error}", nth + 1))?;
                panels.push(Ok(figure));
            }
            Err(error) if was_blank => {
                let reason = panel.blank.clone().unwrap_or(error);
                say(format_args!("{}: panel {}: it is not drawn: {reason}", file.display(), nth + 1));
                wrong += 1;
                panels.push(Err(reason));
            }
            Err(error) => return Err(format!("panel {}: {error}; the file is not changed", nth + 1).into()),
        }
    }
    Ok(Made { composed: ComposedFigure { composition, panels }, origins, wrong })
}

/// Makes a panel of a figure's file again.
fn panel_again(
    (file, provenance): (&Path, &Provenance),
    given: Option<&Path>,
    sessions: &mut Sessions,
    panel: &ComposedPanel,
) -> Result<(Figure, Vec<Origin>), String> {
    // In the panel's order: the first is what others are compared with.
    let origin = |name: &String| {
        let known = provenance.sessions.iter().find(|origin| origin.session == *name);
        known.cloned().ok_or_else(|| format!("the file does not contain the date of session {name}"))
    };
    let own = panel.sessions.iter().map(origin).collect::<Result<Vec<Origin>, String>>()?;
    let drawn = sessions.draw((file, &own), given, &panel.study).map_err(|error| error.to_string())?;
    check_drawn(&drawn.0)?;
    Ok(drawn)
}
