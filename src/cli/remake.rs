//! Figure files drawn again from their sessions: one with changes, or all of a folder.

use std::collections::HashMap;
use std::error::Error;
use std::path::{Path, PathBuf};

use super::material::Material;
use super::{OK, Outcome, say, session_folder};
use crate::analysis::Source;
use crate::figure::paper::{self, PaperFormat, Provenance, ReadError};
use crate::figure::{self, Chart, Figure, Study};
use crate::session::find_session;

/// Sessions that were read, by their folders: figures of one folder are mostly of one.
#[derive(Default)]
pub(super) struct Sessions {
    read: HashMap<PathBuf, Material>,
}

impl Sessions {
    /// Draws a figure file's study again, of its own sessions or of another one that is given.
    ///
    /// # Errors
    /// A session is not known here, is another one of the same name, or cannot be read.
    pub(super) fn draw(
        &mut self,
        (file, provenance): (&Path, &Provenance),
        given: Option<&Path>,
        study: &Study,
    ) -> Result<(Figure, Vec<paper::Origin>), Box<dyn Error>> {
        let mut folders: Vec<(String, PathBuf)> = Vec::new();
        for origin in &provenance.sessions {
            let folder = match given {
                Some(given) => session_folder(&given.to_owned())?,
                None => find_session(file, &origin.session, &[]).ok_or_else(|| {
                    format!(
                        "it is of session {}, which is neither beside it nor in the default folder: name the session with --of",
                        origin.session
                    )
                })?,
            };
            if !self.read.contains_key(&folder) {
                self.read.insert(folder.clone(), Material::read(&folder)?);
            }
            let found = &self.read[&folder].origin;
            if given.is_none() && !origin.date.is_empty() && found.date != origin.date {
                return Err(format!(
                    "it is of session {} of {}, and {} is one of {}: --of draws it of that one",
                    origin.session,
                    origin.date,
                    folder.display(),
                    found.date
                )
                .into());
            }
            folders.push((origin.session.clone(), folder));
        }
        if folders.is_empty() {
            return Err("it names no session".into());
        }
        let is_alone = folders.len() == 1;
        let sources = folders.iter().map(|(name, folder)| {
            let Material { runs, reports, .. } = &self.read[folder];
            Source { session: if is_alone { "" } else { name }, runs, reports }
        });
        let drawn = figure::figure(&sources.collect::<Vec<_>>(), study)?;
        let origins = folders.iter().map(|(_, folder)| self.read[folder].origin.clone()).collect();
        Ok((drawn, origins))
    }
}

/// Draws all figure files of a folder again. What has not changed is left as it is, so that a Makefile sees no change.
pub(super) fn all(folder: &Path, given: Option<&Path>) -> Outcome {
    let failed = |error| format!("reading {}: {error}", folder.display());
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let files: Result<Vec<PathBuf>, std::io::Error> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut files = files.map_err(failed)?;
    files.retain(|file| file.is_file() && PaperFormat::of(file, 300).is_ok());
    files.sort();
    let mut sessions = Sessions::default();
    let (mut anew, mut same, mut wrong) = (0, 0, 0);
    for file in &files {
        match again(file, given, &mut sessions) {
            Ok(Some(true)) => anew += 1,
            Ok(Some(false)) => same += 1,
            Ok(None) => {}
            Err(error) => {
                wrong += 1;
                say(format_args!("{}: {error}", file.display()));
            }
        }
    }
    say(format_args!("{}: {anew} figures drawn anew, {same} as they were, {wrong} not drawn", folder.display()));
    if wrong > 0 {
        Err(format!("{wrong} figures of {} could not be drawn again", folder.display()).into())
    } else {
        Ok(OK)
    }
}

/// Whether a file differs now; none where it holds no figure of multicard.
fn again(file: &Path, given: Option<&Path>, sessions: &mut Sessions) -> Result<Option<bool>, Box<dyn Error>> {
    let provenance = match paper::read_file(file) {
        Err(ReadError::Foreign(_) | ReadError::Unknown) => return Ok(None),
        read => read?,
    };
    if !provenance.problems.is_empty() {
        return Err(format!(
            "{}; the file stays, as this would be lost: multicard figure {} --out OTHER draws the rest",
            provenance.problems.join("; "),
            file.display()
        )
        .into());
    }
    let (drawn, origins) = sessions.draw((file, &provenance), given, &provenance.study)?;
    if drawn.charts.iter().all(Chart::is_empty) {
        return Err("nothing to draw: no cell has its values any more; the file stays".into());
    }
    drawn.missing.iter().for_each(|missing| say(format_args!("{}: {missing}", file.display())));
    let format = PaperFormat::of(file, paper::png_dpi(file).unwrap_or(300))?;
    let bytes = paper::encode(&drawn.scene(), &drawn.provenance(origins), format)?;
    let differs = std::fs::read(file).ok().as_ref() != Some(&bytes);
    if differs {
        paper::write_file(file, &bytes)?;
    }
    Ok(Some(differs))
}
