//! The data from which tables and figures of a session are made, and the studies that are saved in it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::say;
use crate::analysis::{RunSummary, SharedMeasures, Source, refused_copy, summarise_report, summarise_runs};
use crate::figure::paper::{self, Origin};
use crate::figure::{self, SavedStudy, Study};
use crate::plan::OwnMeasure;
use crate::session::{damage_message, open_reader, short_names};
use crate::store::{Reader, StoreError};

/// What the figures of a session are drawn from.
pub(super) struct Material {
    pub runs: Vec<RunSummary>,
    /// Standalone reports, which belong to no run.
    pub reports: Vec<RunSummary>,
    /// The session's user-defined measures.
    pub own_measures: Arc<[OwnMeasure]>,
    pub origin: Origin,
}

impl Material {
    /// Reads a session, and prints once what is missing in its logs.
    pub fn read(folder: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        Self::of(&open(folder)?, folder)
    }

    /// Reads one run at a time, since a session may be larger than memory.
    pub fn of(reader: &Reader, folder: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        let listed = reader.headings()?;
        let first = listed.iter().map(|run| run.queued_time_s).min_by(f64::total_cmp);
        let ids: Vec<String> = listed.into_iter().map(|run| run.run).collect();
        let places: HashMap<&str, usize> = (0..).zip(&ids).map(|(place, run)| (run.as_str(), place)).collect();
        let mut runs: Vec<Option<RunSummary>> = ids.iter().map(|_| None).collect();
        let summarised = summarise_runs(reader, &ids, |summaries| {
            for summary in summaries {
                let place = places[summary.run.as_str()];
                runs[place] = Some(summary);
            }
            Ok::<_, Infallible>(())
        })?;
        let Ok(()) = summarised;
        let runs = runs.into_iter().flatten().collect();
        let reports = reader.reports()?.into_iter().map(|(name, report)| summarise_report(&name, report)).collect();
        let name = folder.canonicalize()?.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let own_measures = reader.own_measures()?;
        Ok(Self { runs, reports, own_measures, origin: Origin::new(name, &reader.node()?, reader.plans()?, first) })
    }

    pub fn sources(&self) -> [Source<'_>; 1] {
        [Source { session: "", runs: &self.runs, reports: &self.reports }]
    }

    pub fn figure(&self, study: &Study) -> Result<figure::Figure, paper::FigureError> {
        figure::figure(&self.sources(), study)
    }
}

/// One or several sessions. Cells of several sessions are distinguished by their session.
pub(super) struct Materials {
    all: Vec<Material>,
    /// Their names; empty for a single one.
    names: Vec<String>,
}

impl Materials {
    /// Reads sessions, given by their folders, for a study.
    pub fn read(folders: &[PathBuf], study: &Study) -> Result<Self, Box<dyn std::error::Error>> {
        let whole: Vec<PathBuf> = folders.iter().map(|folder| folder.canonicalize()).collect::<Result<_, _>>()?;
        if let Some(place) = (1..whole.len()).find(|place| whole[..*place].contains(&whole[*place])) {
            return Err(format!("{} is given twice: name each session once", folders[place].display()).into());
        }
        let mut all: Vec<Material> = folders.iter().map(|folder| Material::read(folder)).collect::<Result<_, _>>()?;
        refuse_copies(folders.iter().zip(&all))?;
        let paths: Vec<&Path> = whole.iter().map(PathBuf::as_path).collect();
        let names = if all.len() > 1 { short_names(&paths) } else { vec![String::new(); all.len()] };
        if all.len() > 1 {
            let drawn = study.measure.iter().map(|key| ("--measure", &**key));
            let drawn = drawn.chain(study.named_across().map(|key| ("--across", &**key)));
            share_measures(all.iter_mut().collect(), drawn)?;
        }
        Ok(Self { all, names })
    }

    pub fn sources(&self) -> Vec<Source<'_>> {
        let named = self.names.iter().zip(&self.all);
        named.map(|(session, one)| Source { session, runs: &one.runs, reports: &one.reports }).collect()
    }

    /// The origin of each session.
    pub fn origins(self) -> Vec<Origin> {
        self.all.into_iter().map(|one| one.origin).collect()
    }
}

/// Refuses sessions that have runs in common, each given with its path: a table would count these runs twice.
pub(super) fn refuse_copies<'a>(sessions: impl Iterator<Item = (&'a PathBuf, &'a Material)>) -> Result<(), String> {
    let all: Vec<(&PathBuf, &Material)> = sessions.collect();
    for (place, (path, material)) in all.iter().enumerate() {
        for (earlier, other) in &all[..place] {
            let refused = refused_copy((&earlier.display(), &other.runs), (&path.display(), &material.runs));
            refused.map_or(Ok(()), Err)?;
        }
    }
    Ok(())
}

/// Gives each session the user's own measures of all sessions; see [`SharedMeasures`]. `drawn` are the keys of the measures that are drawn or
/// judged, each with the option that names it.
///
/// # Errors
/// Sessions disagree on such a measure. Of others on which they disagree, no run has a value then.
pub(super) fn share_measures<'k>(
    sessions: Vec<&mut Material>,
    mut drawn: impl Iterator<Item = (&'static str, &'k str)>,
) -> Result<(), String> {
    let shared = SharedMeasures::of(sessions.iter().map(|session| &*session.own_measures));
    if let Some((option, why)) = drawn.find_map(|(option, key)| Some((option, shared.refused(key)?))) {
        return Err(format!("{option} {why}"));
    }
    for session in sessions {
        if let Some(runs) = shared.computed(&session.own_measures, &session.runs) {
            session.runs = runs;
        }
    }
    Ok(())
}

/// Opens a session for reading, and prints once what is missing in its logs.
pub(super) fn open(folder: &Path) -> Result<Reader, StoreError> {
    let reader = open_reader(folder)?;
    say_damage(folder, &reader)?;
    Ok(reader)
}

/// Prints what is missing in a session's logs.
pub(super) fn say_damage(folder: &Path, reader: &Reader) -> Result<(), StoreError> {
    damage_message(folder, reader)?.iter().for_each(say);
    Ok(())
}

/// The studies that are saved in a session.
pub(super) fn saved(folder: &Path) -> Result<Vec<SavedStudy>, StoreError> {
    let studies = Reader::open(folder)?.studies()?;
    Ok(studies.iter().map(|(name, json)| SavedStudy::read(name, json)).collect())
}
