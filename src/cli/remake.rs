//! Figure files drawn again from their sessions: one with changes, or all of a folder.

use std::error::Error;
use std::path::{Path, PathBuf};

use super::sources::Sessions;
use super::{OK, Outcome, compose, say};
use crate::analysis::counted;
use crate::figure::Chart;
use crate::figure::paper::{self, PaperFormat, Provenance, ReadError, Scene};

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
    say(format_args!(
        "{}: {} drawn anew, {same} as they were, {wrong} not drawn",
        folder.display(),
        counted(anew, "figure")
    ));
    if wrong > 0 {
        Err(format!("{} of {} could not be drawn again", counted(wrong, "figure"), folder.display()).into())
    } else {
        Ok(OK)
    }
}

/// Draws a figure's file again, and returns whether it changed; `None` if the file contains no figure of multicard.
fn again(file: &Path, given: Option<&Path>, sessions: &mut Sessions) -> Result<Option<bool>, Box<dyn Error>> {
    let provenance = match paper::read_file(file) {
        Err(ReadError::Foreign(_) | ReadError::Unknown) => return Ok(None),
        read => read?,
    };
    if !provenance.problems.is_empty() {
        return Err(format!(
            "{}; the file is not changed, as this would be lost: multicard figure {} --out OTHER draws the rest",
            provenance.problems.join("; "),
            file.display()
        )
        .into());
    }
    if let Some(composition) = &provenance.composition {
        let made = compose::redraw((file, &provenance), given, sessions, composition)?;
        let (scene, provenance) = (made.composed.scene(), made.composed.provenance(made.origins));
        return replace(file, &scene, &provenance);
    }
    let (drawn, origins) = sessions.draw((file, &provenance.sessions), given, &provenance.study)?;
    if drawn.charts.iter().all(Chart::is_empty) {
        return Err(
            "nothing to draw: no cell still has the values that the figure shows; the file is not changed".into()
        );
    }
    drawn.missing.iter().for_each(|missing| say(format_args!("{}: {missing}", file.display())));
    replace(file, &drawn.scene(), &drawn.provenance(origins))
}

/// Replaces a figure's file, and returns whether the file changed.
fn replace(file: &Path, scene: &Scene, provenance: &Provenance) -> Result<Option<bool>, Box<dyn Error>> {
    let format = PaperFormat::of(file, paper::png_dpi(file).unwrap_or(300))?;
    let bytes = paper::encode(scene, provenance, format)?;
    let differs = std::fs::read(file).ok().as_ref() != Some(&bytes);
    if differs {
        paper::write_file(file, &bytes)?;
    }
    Ok(Some(differs))
}
