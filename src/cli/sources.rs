//! Sessions from which figures are drawn; each session is read once.

use std::collections::HashMap;
use std::error::Error;
use std::path::{Path, PathBuf};

use super::material::{Material, refuse_copies};
use super::{say, session_folder};
use crate::analysis::{RunSummary, SharedMeasures, Source};
use crate::figure::paper::Origin;
use crate::figure::{self, Figure, Study};
use crate::session::{find_session, short_names};

/// Sessions that were read, by their folders. The figures of a folder usually show the same session.
#[derive(Default)]
pub(super) struct Sessions {
    read: HashMap<PathBuf, Material>,
}

impl Sessions {
    /// Draws the study of a figure file again, from the sessions that it names or from another given session.
    ///
    /// # Errors
    /// A session is not known here, a session of this name has another date, or a session cannot be read.
    pub(super) fn draw(
        &mut self,
        (file, origins): (&Path, &[Origin]),
        given: Option<&Path>,
        study: &Study,
    ) -> Result<(Figure, Vec<Origin>), Box<dyn Error>> {
        if origins.is_empty() {
            return Err("it names no session".into());
        }
        // One session that is given stands for all.
        let origins = if given.is_some() { &origins[..1] } else { origins };
        let mut folders: Vec<PathBuf> = Vec::new();
        for origin in each_once(file, origins) {
            let folder = match given {
                Some(given) => session_folder(&given.to_owned())?,
                None => find_session(file, &origin.session, &[]).ok_or_else(|| {
                    format!(
                        "it shows session {}, which is neither beside the file nor in the default folder: name the session with --of",
                        origin.session
                    )
                })?,
            };
            let found = self.origin(&folder)?;
            if given.is_none() && !origin.date.is_empty() && found.date != origin.date {
                return Err(format!(
                    "it shows session {} of {}, but {} is a session of {}: to draw it from that session, name it with --of",
                    origin.session,
                    origin.date,
                    folder.display(),
                    found.date
                )
                .into());
            }
            folders.push(folder);
        }
        self.figure(&folders, study)
    }

    /// The origin of a session, which is read only once.
    pub(super) fn origin(&mut self, folder: &Path) -> Result<&Origin, Box<dyn Error>> {
        if !self.read.contains_key(folder) {
            self.read.insert(folder.to_owned(), Material::read(folder)?);
        }
        Ok(&self.read[folder].origin)
    }

    /// Draws a study of the sessions in these folders; returns the figure and the origins of the sessions.
    pub(super) fn figure(
        &mut self,
        folders: &[PathBuf],
        study: &Study,
    ) -> Result<(Figure, Vec<Origin>), Box<dyn Error>> {
        let mut origins = Vec::new();
        for folder in folders {
            origins.push(self.origin(folder)?.clone());
        }
        refuse_copies(folders.iter().map(|folder| (folder, &self.read[folder])))?;
        let paths: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
        let names = if folders.len() == 1 { vec![String::new()] } else { short_names(&paths) };
        let materials: Vec<&Material> = folders.iter().map(|folder| &self.read[folder]).collect();
        let shared = SharedMeasures::of(materials.iter().map(|one| &*one.own_measures));
        if let Some(why) = study.measure.iter().chain(study.named_across()).find_map(|key| shared.refused(key)) {
            return Err(why.into());
        }
        let computed: Vec<Option<Vec<RunSummary>>> =
            materials.iter().map(|one| shared.computed(&one.own_measures, &one.runs)).collect();
        let sources = materials.iter().zip(&computed).zip(&names).map(|((one, computed), session)| {
            let runs = computed.as_deref().unwrap_or(&one.runs);
            Source { session, runs, reports: &one.reports }
        });
        let drawn = figure::figure(&sources.collect::<Vec<_>>(), study)?;
        Ok((drawn, origins))
    }
}

/// The sessions of a figure's file, each once: a file of someone else may name a session many times, and each of its runs is one observation.
fn each_once<'o>(file: &Path, origins: &'o [Origin]) -> Vec<&'o Origin> {
    let mut known: Vec<&Origin> = Vec::new();
    let mut repeated: Vec<&Origin> = Vec::new();
    for origin in origins {
        if !known.contains(&origin) {
            known.push(origin);
        } else if !repeated.contains(&origin) {
            repeated.push(origin);
        }
    }
    for origin in repeated {
        say(format_args!("{}: it names session {} more than once, which counts once", file.display(), origin.session));
    }
    known
}
