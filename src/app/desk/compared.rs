//! The compared sessions and their names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Desk;
use crate::analysis::{self, SharedMeasures};
use crate::app::command::ScreenName;
use crate::app::engine::{Records, Request};
use crate::figure::{self, Figure, Study};
use crate::plan::Key;
use crate::session::short_names;
use crate::store::number_of;

/// A compared session.
#[derive(Clone)]
pub struct Source {
    /// Its name; empty if it is the only one.
    pub name: String,
    /// Its runs.
    pub records: Arc<Records>,
}

impl Source {
    /// The session in the form that studies use.
    pub fn analysed(&self) -> analysis::Source<'_> {
        analysis::Source { session: &self.name, runs: &self.records.summaries, reports: &self.records.reports }
    }
}

/// Compared sessions that share their user-defined measures, as on the command line.
pub struct SharedSources {
    sources: Vec<Source>,
    /// Why values of measures that the study names are not compared. No run has any then.
    refused: Vec<String>,
    /// The same of a measure that the study draws.
    undrawn: Option<String>,
}

impl SharedSources {
    /// Shares the measures of sessions for a study. It computes them for all runs of the sessions that lack some, so it must not run on the
    /// window's thread.
    pub fn of(sources: &[Source], study: &Study) -> Self {
        let shared = SharedMeasures::of(sources.iter().map(|source| &*source.records.own_measures));
        let refused = |key: &Key| shared.refused(key).map(str::to_owned);
        let with_shared = |source: &Source| {
            let records = &source.records;
            let computed = shared.computed(&records.own_measures, &records.summaries);
            let Some(summaries) = computed else { return source.clone() };
            let records = Records { summaries: summaries.into(), ..Records::clone(records) };
            Source { name: source.name.clone(), records: Arc::new(records) }
        };
        Self {
            sources: sources.iter().map(with_shared).collect(),
            refused: study.named_measures().into_iter().filter_map(refused).collect(),
            undrawn: study.measure.iter().chain(study.named_across()).find_map(refused),
        }
    }

    /// The same if values of the measures that the study draws can be compared.
    ///
    /// # Errors
    /// The sessions disagree on the formula of such a measure, or on its good values.
    pub fn agreed(self) -> Result<Self, String> {
        self.undrawn.clone().map_or(Ok(self), Err)
    }

    /// Why values of measures that the study names are not compared.
    pub fn refused(&self) -> &[String] {
        &self.refused
    }

    /// The sessions in the form that studies use.
    pub fn analysed(&self) -> Vec<analysis::Source<'_>> {
        self.sources.iter().map(Source::analysed).collect()
    }
}

/// Draws a study of compared sessions as a figure, which must not happen on the window's thread.
///
/// # Errors
/// The sessions disagree on a measure that the study draws, or its filter cannot be read.
pub fn figure_of(sources: &[Source], study: &Study) -> Result<Figure, String> {
    let shared = SharedSources::of(sources, study).agreed()?;
    figure::figure(&shared.analysed(), study).map_err(|error| error.to_string())
}

/// Notes with the numbers of runs in place of their ids, as on Runs, if all runs are of one session: `run 38`.
pub fn with_run_numbers(sources: &[Source], notes: impl IntoIterator<Item = String>) -> Vec<String> {
    let notes = notes.into_iter();
    let [source] = sources else { return notes.collect() };
    let is_of_id = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    let is_run = |word: &str| source.records.listing.places.contains_key(word);
    let numbered = |note: String| {
        let mut text = String::with_capacity(note.len());
        for part in note.split_inclusive(|letter: char| !is_of_id(letter)) {
            let word = part.trim_end_matches(|letter: char| !is_of_id(letter));
            let number = number_of(word);
            if number != word && is_run(word) {
                text += &format!("run {number}{}", &part[word.len()..]);
            } else {
                text += part;
            }
        }
        text
    };
    notes.map(numbered).collect()
}

/// The sessions compared with the open one.
#[derive(Default)]
pub struct Compared {
    /// The sessions that were read, in the order they were added.
    others: Vec<Arc<Records>>,
    /// The sessions that are being read.
    reading: Vec<PathBuf>,
}

impl Compared {
    /// A session that is not the open one was read. Returns whether it is compared.
    pub fn take(&mut self, records: Arc<Records>) -> bool {
        let was_asked_for = self.reading.iter().any(|folder| *folder == records.folder);
        let known = self.others.iter().position(|other| other.folder == records.folder);
        match known {
            Some(place) => self.others[place] = records,
            None if was_asked_for => {
                self.reading.retain(|folder| *folder != records.folder);
                self.others.push(records);
            }
            // It was removed in the meantime, or was open before.
            None => return false,
        }
        true
    }

    /// Removes a session from the comparison.
    pub fn remove(&mut self, folder: &Path) {
        self.reading.retain(|known| known != folder);
        self.others.retain(|other| other.folder != folder);
    }

    /// The sessions that are being read.
    pub fn reading(&self) -> &[PathBuf] {
        &self.reading
    }
}

/// The keys, besides factors and settings, by which runs can be filtered.
const FACTS: [&str; 6] = ["state", "repeat", "plan", "run", "tag", "mark"];

impl Desk {
    /// The keys for filters of runs and cells; empty while no run is known.
    pub fn filter_keys(&self) -> Vec<&str> {
        let others = self.compared.others.iter().map(|records| &records.listing);
        let listings = std::iter::once(&self.runs.listing).chain(others);
        let keys: BTreeSet<&str> = listings.flat_map(|listing| listing.keys.iter().map(|key| &**key)).collect();
        if keys.is_empty() {
            return Vec::new();
        }
        keys.into_iter().chain(FACTS).chain(analysis::SETTINGS).collect()
    }

    /// Adds a session to the comparison.
    pub fn compare_with(&mut self, folder: PathBuf) {
        if !folder.join("session.toml").exists() {
            let message = format!(
                "{}: not a session (it has no session.toml): choose a folder created by `multicard run --session`",
                folder.display()
            );
            self.problem(ScreenName::COMPARE, message);
            return;
        }
        if self.session.as_ref().is_some_and(|session| same(&session.folder, &folder)) {
            self.problem(ScreenName::COMPARE, format!("{}: this session is open already", folder.display()));
            return;
        }
        let Compared { others, reading } = &mut self.compared;
        if !reading.contains(&folder) && others.iter().all(|other| !same(&other.folder, &folder)) {
            reading.push(folder.clone());
            self.ask(Request::Read(folder));
        }
    }

    /// Removes sessions that have runs in common with another shown one from the comparison, and says so: their runs are no further
    /// observations. Returns whether there were any.
    pub fn refuse_copies(&mut self) -> bool {
        let open = self.session.is_some().then(|| Arc::clone(&self.records));
        let (mut kept, mut refused): (Vec<Arc<Records>>, Vec<String>) = (Vec::new(), Vec::new());
        for other in std::mem::take(&mut self.compared.others) {
            let mut shown = open.iter().chain(&kept).filter(|shown| shown.folder != other.folder);
            let copy = shown.find_map(|shown| {
                let names = [shown.folder.display(), other.folder.display()];
                analysis::refused_copy((&names[0], &shown.summaries), (&names[1], &other.summaries))
            });
            match copy {
                Some(message) => refused.push(message),
                None => kept.push(other),
            }
        }
        self.compared.others = kept;
        let found = !refused.is_empty();
        refused.into_iter().for_each(|message| self.problem(ScreenName::COMPARE, message));
        found
    }

    /// The open session and the added ones.
    pub fn sources(&self) -> Vec<Source> {
        let mut all: Vec<Arc<Records>> = Vec::new();
        if self.session.is_some() {
            all.push(Arc::clone(&self.records));
        }
        let is_open = |folder: &Path| self.session.as_ref().is_some_and(|session| session.folder == folder);
        all.extend(self.compared.others.iter().filter(|other| !is_open(&other.folder)).cloned());
        let folders: Vec<&Path> = all.iter().map(|records| records.folder.as_path()).collect();
        let names = if all.len() > 1 { short_names(&folders) } else { vec![String::new(); all.len()] };
        names.into_iter().zip(all).map(|(name, records)| Source { name, records }).collect()
    }
}

/// Whether two paths lead to the same folder.
fn same(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{fixture, summarise_run};
    use crate::figure::Form;
    use crate::plan::OwnMeasure;
    use crate::store::RunRecord;

    /// A session of one run, with this list of measures.
    fn source(name: &str, own: &[OwnMeasure]) -> Source {
        let own_measures: Arc<[OwnMeasure]> = own.into();
        let run = RunRecord { own_measures: Arc::clone(&own_measures), ..fixture::finished() };
        let (summaries, runs) = ([summarise_run(&run)].into(), [run].into());
        let records = Records { runs, summaries, own_measures, ..Records::default() };
        Source { name: name.to_owned(), records: Arc::new(records.folded()) }
    }

    /// The values of the measure `own` in each run.
    fn values(shared: &SharedSources) -> Vec<Option<f64>> {
        shared.analysed().iter().flat_map(|source| source.runs).map(|run| run.value("own")).collect()
    }

    /// The value of `2 * step_time_s`.
    fn doubled() -> Option<f64> {
        Some(2.0 * summarise_run(&fixture::finished()).value("step_time_s").unwrap())
    }

    #[test]
    fn compared_sessions_share_a_measure_that_only_one_of_them_has() {
        let study = Study { measure: Some("own".into()), ..Study::default() };
        let (with, without) = (source("a", &[OwnMeasure::new("own", "2 * step_time_s")]), source("b", &[]));
        for sources in [[with.clone(), without.clone()], [without.clone(), with]] {
            let shared = SharedSources::of(&sources, &study);
            assert_eq!((values(&shared), shared.refused().is_empty()), (vec![doubled(); 2], true));
            assert!(figure_of(&sources, &study).is_ok());
        }
        let alone = [without];
        let shared = SharedSources::of(&alone, &study);
        assert_eq!(values(&shared), [None::<f64>]);
        assert!(Arc::ptr_eq(&shared.sources[0].records, &alone[0].records), "nothing is copied");
    }

    #[test]
    fn a_study_of_a_measure_that_sessions_compute_differently_has_no_value_and_its_figure_says_why() {
        let own = |formula| [OwnMeasure::new("own", formula)];
        let sources = [source("a", &own("2 * step_time_s")), source("b", &own("step_time_s / 3"))];
        let study = Study { measure: Some("own".into()), ..Study::default() };
        let shared = SharedSources::of(&sources, &study);
        assert_eq!(values(&shared), [None::<f64>; 2]);
        let why = shared.refused().first().cloned();
        assert!(
            why.as_ref().is_some_and(|why| why.contains("computes it as 2 * step_time_s, another as step_time_s / 3")),
            "{why:?}"
        );
        assert_eq!(figure_of(&sources, &study).err(), why);
        let across = Study { form: Form::Scatter, across: Some("own".into()), ..Study::default() };
        assert_eq!(figure_of(&sources, &across).err(), why);
    }

    #[test]
    fn a_further_column_of_a_measure_that_sessions_compute_differently_has_no_value_and_a_note_says_why() {
        let own = |formula| [OwnMeasure::new("own", formula)];
        let sources = [source("a", &own("2 * step_time_s")), source("b", &own("step_time_s / 3"))];
        let study = Study {
            measure: Some("step_time_s".into()),
            measures: vec!["step_time_s".into(), "own".into()],
            ..Study::default()
        };
        let shared = SharedSources::of(&sources, &study);
        assert_eq!(values(&shared), [None::<f64>; 2]);
        let [why] = shared.refused() else { panic!("{:?}", shared.refused()) };
        let drawn = figure_of(&sources, &study).unwrap();
        assert_eq!(drawn.missing.iter().filter(|line| *line == why).count(), 1, "{:?}", drawn.missing);
        let unnamed = SharedSources::of(&sources, &Study::default());
        assert_eq!((values(&unnamed), unnamed.refused().is_empty()), (vec![None; 2], true));
    }

    #[test]
    fn notes_on_runs_of_one_session_name_them_by_their_numbers() {
        let id = "0038-a5c8b9f8-6";
        let mut run = fixture::run(&fixture::cell("fp32", 1, "single"), 1, 0.1);
        run.run = id.to_owned();
        let records = Arc::new(Records { runs: vec![run].into(), ..Records::default() }.folded());
        let source = || Source { name: String::new(), records: Arc::clone(&records) };
        let notes = || [format!("throttled: by heat on 2026-11-28 ({id}, 0039-a5c8b9f8-7)")];
        let expected = "throttled: by heat on 2026-11-28 (run 38, 0039-a5c8b9f8-7)";
        assert_eq!(with_run_numbers(&[source()], notes()), [expected]);
        assert_eq!(with_run_numbers(&[source(), source()], notes()), notes());
    }

    #[test]
    fn filters_know_every_setting_once_there_are_runs() {
        let mut desk = Desk::default();
        assert!(desk.filter_keys().is_empty());
        let runs = vec![fixture::finished()].into();
        desk.compared.others.push(Arc::new(Records { runs, ..Records::default() }.folded()));
        let keys = desk.filter_keys();
        assert!(analysis::SETTINGS.iter().chain(&["precision", "mark"]).all(|key| keys.contains(key)), "{keys:?}");
    }
}
