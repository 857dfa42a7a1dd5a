//! Searches of a session: after each round, the next one is queued.
//!
//! The plan, the recorded steps and the ended runs determine what is queued; see [`Race`]. If the user cancels a run,
//! its round lacks a result. The search then pauses until the plan is launched again with `only_missing`. No record
//! says that a user stopped a search, so a later process continues only those that have runs in the queue.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::made_otherwise::made_otherwise;
use super::{Added, QueuedJob, Session, SessionError};
use crate::analysis::{Next, Question, Race, Trial, step_lines};
use crate::plan::{Levels, Plan, Search, SearchStep};
use crate::store::{Decision, Reader, RunRecord};

/// A search that this process runs.
pub(super) struct Searching {
    /// The id of its plan in the session.
    plan: String,
    search: Search,
    question: Question,
    seed: u64,
    steps: Vec<SearchStep>,
    /// The steps in words. Clients get the queue many times a second, so the words are made once and shared.
    lines: Arc<Vec<String>>,
    trials: Vec<Trial>,
    /// For each candidate a job from which its runs are made.
    templates: HashMap<String, QueuedJob>,
    /// The candidates' names by their ids.
    names: HashMap<String, String>,
    /// All its runs in the order in which they were queued.
    runs: Arc<Vec<String>>,
    /// The cells and repeats of these runs.
    known: HashSet<(String, u32)>,
    /// Runs that ended and were not read yet.
    unread: Vec<String>,
    /// Whether its runs wait until the user resumes the queue.
    is_held: bool,
    /// Whether the user stopped it.
    is_stopped: bool,
}

/// The state of a search, as the conductor's clients see it.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SearchView {
    /// The id of its plan in the session.
    pub plan: String,
    /// The course of the search so far, in lines.
    pub lines: Arc<Vec<String>>,
    /// Its runs in the order in which they were queued.
    pub runs: Arc<Vec<String>>,
    /// Whether runs have ended since its last decision.
    pub is_deciding: bool,
}

/// The name of a cell: its levels of the factors that the plan varies, such as `batch_size 32, precision bf16`.
pub(super) fn cell_name(plan: &Plan, levels: &Levels) -> String {
    let named = plan.varied().into_iter().filter_map(|key| Some(format!("{key} {}", levels.get(key)?)));
    named.collect::<Vec<_>>().join(", ")
}

impl Searching {
    fn name(&self, cell: &str) -> String {
        self.names.get(cell).filter(|name| !name.is_empty()).cloned().unwrap_or_else(|| cell.to_owned())
    }

    fn view(&self, is_deciding: bool) -> SearchView {
        let is_deciding = is_deciding && !self.is_stopped && !self.is_held;
        let (lines, runs) = (Arc::clone(&self.lines), Arc::clone(&self.runs));
        SearchView { plan: self.plan.clone(), lines, runs, is_deciding }
    }

    /// Adds a step that is recorded.
    fn add_step(&mut self, step: SearchStep) {
        let lines = step_lines(&step, &self.search, &|cell| self.name(cell));
        Arc::make_mut(&mut self.lines).extend(lines);
        self.steps.push(step);
    }

    /// Reads its runs from the session's records.
    fn read(&mut self, reader: &Reader, headings: &[RunRecord]) -> Result<(), SessionError> {
        let plan = self.plan.clone();
        for record in headings.iter().filter(|record| record.launch == plan) {
            Arc::make_mut(&mut self.runs).push(record.run.clone());
            self.known.insert((record.cell.clone(), record.repeat));
            if record.state.is_final() {
                self.read_run(reader, &record.run)?;
            }
        }
        Ok(())
    }

    fn read_run(&mut self, reader: &Reader, run: &str) -> Result<(), SessionError> {
        let record = reader.run(run)?;
        self.trials.extend(record.and_then(|record| Trial::of(&record, &self.question)));
        Ok(())
    }
}

/// The question of a plan, or what is wrong with it.
fn question_of(plan: &Plan) -> Result<Question, SessionError> {
    let question = Question::of(plan).map_err(|wrong| SessionError::Search(wrong.join("; ")))?;
    question.ok_or_else(|| SessionError::Search("the plan has no [search]".to_owned()))
}

impl Session {
    /// Begins the search of a plan with one run of each cell. With `only_missing`, continues the last search of the
    /// same plan where it stopped.
    pub(super) fn add_search(&mut self, plan: &Plan, only_missing: bool) -> Result<Added, SessionError> {
        let question = question_of(plan)?;
        let prepared = self.prepared(plan)?;
        if let Some(reason) = question.refuses(prepared.matrix.cells.len()) {
            return Err(SessionError::Search(reason));
        }
        let search = plan.search.clone().ok_or_else(|| SessionError::Search("the plan has no [search]".to_owned()))?;
        let earlier = if only_missing { self.earlier_search(plan)? } else { None };
        let (id, steps, is_new) = match earlier {
            Some((id, steps)) => (id, steps, false),
            None => {
                let id = self.record_plan(plan, prepared.working_folder.as_deref())?;
                let candidates: Vec<String> = prepared.jobs.iter().map(|job| job.origin.cell.clone()).collect();
                let step = Race::begin(candidates, prepared.next_repeat());
                self.store.decide(Decision::Searched { plan: id.clone(), step: step.clone() })?;
                (id, vec![step], true)
            }
        };
        self.searches.retain(|known| known.plan != id);
        let names = prepared.jobs.iter().map(|job| (job.origin.cell.clone(), cell_name(plan, &job.job.levels)));
        let mut searching = Searching {
            plan: id,
            search,
            question,
            seed: plan.seed,
            steps: Vec::new(),
            lines: Arc::default(),
            trials: Vec::new(),
            names: names.collect(),
            templates: prepared.jobs.into_iter().map(|job| (job.origin.cell.clone(), job)).collect(),
            runs: Arc::default(),
            known: HashSet::new(),
            unread: Vec::new(),
            is_held: false,
            is_stopped: false,
        };
        steps.into_iter().for_each(|step| searching.add_step(step));
        let (mut kept, mut warnings) = (0, prepared.warnings);
        if !is_new {
            self.store.flush()?;
            let reader = self.store.reader()?;
            let headings = reader.headings()?;
            searching.read(&reader, &headings)?;
            kept = searching.trials.len();
            let own = headings.iter().filter(|record| record.launch == searching.plan && record.holds_repeat());
            warnings.extend(made_otherwise(plan, self.store.folder(), own, &mut self.facts));
            // This launch names its runs, so they may start.
            let held: Vec<String> = self
                .queue
                .held()
                .filter(|run| searching.runs.iter().any(|own| own == run))
                .map(str::to_owned)
                .collect();
            held.iter().try_for_each(|run| self.queue.release(run))?;
            // Runs that were cancelled or never started are queued again.
            let is_open = |run: &str| self.queue.state(run).is_some_and(|state| !state.is_final());
            let open = self.jobs.iter().filter(|(run, job)| job.origin.plan == searching.plan && is_open(run));
            searching.known = open.map(|(_, job)| (job.origin.cell.clone(), job.origin.repeat)).collect();
        }
        let (id, before) = (searching.plan.clone(), searching.runs.len());
        self.searches.push(searching);
        self.advance_search(self.searches.len() - 1)?;
        let runs = self.searches.last().map_or_else(Vec::new, |search| search.runs[before..].to_vec());
        let invalid = prepared.matrix.invalid;
        Ok(Added { runs, kept, invalid, search: Some(id), warnings, ..Added::default() })
    }

    /// The last search of the same plan, with its steps.
    fn earlier_search(&self, plan: &Plan) -> Result<Option<(String, Vec<SearchStep>)>, SessionError> {
        self.store.flush()?;
        let reader = self.store.reader()?;
        let text = plan.to_toml();
        let plans = reader.plans()?;
        let is_same =
            |id: &str| plans.iter().any(|(known, name, toml)| known == id && (name, toml) == (&plan.name, &text));
        Ok(reader.searches()?.into_iter().rev().find(|(id, _)| is_same(id)))
    }

    /// Continues the unfinished searches of an earlier process. Their next runs wait until the user resumes the queue,
    /// like the runs that it left. A search without waiting or active runs stays stopped: it may have been stopped when
    /// the last run of a round had just ended.
    pub(super) fn take_up_searches(&mut self) -> Result<(), SessionError> {
        let reader = self.store.reader()?;
        let headings = reader.headings()?;
        for (id, steps) in reader.searches()? {
            let is_over = steps.iter().any(|step| matches!(step, SearchStep::Ended(_)));
            let mut own = headings.iter().filter(|record| record.launch == id);
            // Runs that came with an archive start only if the user names them.
            if is_over || own.any(|record| self.is_from_archive(&record.run)) {
                continue;
            }
            // A search that cannot continue here stays paused; launching its plan says why.
            let Ok(Some(searching)) = self.restored_search(&reader, &headings, &id, steps) else { continue };
            self.searches.push(searching);
            self.is_search_due = true;
        }
        Ok(())
    }

    fn restored_search(
        &self,
        reader: &Reader,
        headings: &[RunRecord],
        id: &str,
        steps: Vec<SearchStep>,
    ) -> Result<Option<Searching>, SessionError> {
        let Some((_, name, text)) = reader.plans()?.into_iter().find(|(known, _, _)| known == id) else {
            return Ok(None);
        };
        let plan = Plan::parse_with(&text, &name, &reader.brought_workloads(id)?);
        let Ok(Plan { search: Some(search), .. }) = &plan else { return Ok(None) };
        let plan = plan.as_ref().map_err(|error| SessionError::Search(error.to_string()))?;
        let is_open = |run: &str| self.queue.state(run).is_some_and(|state| !state.is_final());
        let mut searching = Searching {
            plan: id.to_owned(),
            search: search.clone(),
            question: question_of(plan)?,
            seed: plan.seed,
            steps: Vec::new(),
            lines: Arc::default(),
            trials: Vec::new(),
            templates: HashMap::new(),
            names: HashMap::new(),
            runs: Arc::default(),
            known: HashSet::new(),
            unread: Vec::new(),
            is_held: true,
            is_stopped: !headings.iter().any(|record| record.launch == id && is_open(&record.run)),
        };
        for record in headings.iter().filter(|record| record.launch == id) {
            if !searching.templates.contains_key(&record.cell) {
                searching.names.insert(record.cell.clone(), cell_name(plan, &record.levels));
                searching.templates.insert(record.cell.clone(), self.job_of(record.clone(), id.to_owned(), plan)?);
            }
        }
        // The words need the names.
        steps.into_iter().for_each(|step| searching.add_step(step));
        searching.read(reader, headings)?;
        Ok(Some(searching))
    }

    /// Notes that a run has ended, so that its search may decide its next step.
    pub(super) fn note_for_search(&mut self, run: &str) {
        let Some(origin) = self.jobs.get(run).map(|queued| &queued.origin) else { return };
        if let Some(search) = self.searches.iter_mut().find(|search| search.plan == origin.plan) {
            search.unread.push(run.to_owned());
            // The user repeated a run by hand.
            if !search.runs.iter().any(|known| known == run) {
                Arc::make_mut(&mut search.runs).push(run.to_owned());
            }
            self.is_search_due = true;
        }
    }

    /// Stops a search: it queues no further runs until its plan is launched again.
    pub fn stop_search(&mut self, plan: &str) {
        self.searches.iter_mut().filter(|search| search.plan == plan).for_each(|search| search.is_stopped = true);
    }

    /// Stops all searches.
    pub(super) fn stop_searches(&mut self) {
        self.searches.iter_mut().for_each(|search| search.is_stopped = true);
    }

    /// Stops the search that a run belongs to.
    pub(super) fn stop_search_of(&mut self, run: &str) {
        if let Some(plan) = self.jobs.get(run).map(|queued| queued.origin.plan.clone()) {
            self.stop_search(&plan);
        }
    }

    /// Continues the search of a run that the user repeats.
    pub(super) fn go_on_with_search_of(&mut self, run: &str) {
        let plan = self.jobs.get(run).map(|queued| queued.origin.plan.clone());
        self.searches
            .iter_mut()
            .filter(|search| Some(&search.plan) == plan.as_ref())
            .for_each(|search| search.is_stopped = false);
    }

    /// Continues the searches that an earlier process left.
    pub(super) fn go_on_searching(&mut self) {
        self.searches.iter_mut().for_each(|search| search.is_held = false);
    }

    /// Lets searches decide after runs have ended: records their steps, and queues the next round.
    pub(super) fn advance_searches(&mut self) -> Result<(), SessionError> {
        if !self.is_search_due {
            return Ok(());
        }
        (0..self.searches.len()).try_for_each(|place| self.advance_search(place))?;
        self.is_search_due = false;
        Ok(())
    }

    fn advance_search(&mut self, place: usize) -> Result<(), SessionError> {
        if !self.searches[place].unread.is_empty() {
            self.store.flush()?;
            let reader = self.store.reader()?;
            let search = &mut self.searches[place];
            while let Some(run) = search.unread.first().cloned() {
                search.read_run(&reader, &run)?;
                search.unread.remove(0);
            }
        }
        loop {
            let search = &mut self.searches[place];
            let next =
                Race::after(&search.question, &search.steps).map_or(Next::Over, |race| race.next(&search.trials));
            match next {
                Next::Over => return Ok(()),
                Next::Step(step) => {
                    self.store.decide(Decision::Searched { plan: search.plan.clone(), step: step.clone() })?;
                    search.add_step(step);
                }
                Next::Runs(..) if search.is_stopped => return Ok(()),
                Next::Runs(cells, repeat) => return self.queue_round(place, &cells, repeat),
            }
        }
    }

    /// Queues the runs of a round that are not queued yet.
    fn queue_round(&mut self, place: usize, cells: &[String], repeat: u32) -> Result<(), SessionError> {
        let search = &self.searches[place];
        let is_new = |cell: &String| !search.known.contains(&(cell.clone(), repeat));
        let seed = search.seed.wrapping_add(u64::from(repeat) - 1);
        let job = |cell: &String| Some(search.templates.get(cell)?.clone().of_repeat(&search.plan, repeat, seed));
        let jobs: Vec<QueuedJob> = cells.iter().filter(|cell| is_new(cell)).filter_map(job).collect();
        if jobs.is_empty() {
            return Ok(());
        }
        let queued: Vec<(String, u32)> = jobs.iter().map(|job| (job.origin.cell.clone(), repeat)).collect();
        let is_held = search.is_held;
        let runs = self.queue_jobs(jobs, &self.folders_there())?;
        for run in runs.iter().filter(|_| is_held) {
            self.queue.hold(run)?;
        }
        let search = &mut self.searches[place];
        search.known.extend(queued);
        Arc::make_mut(&mut search.runs).extend(runs);
        Ok(())
    }

    /// The searches that this process continues or has completed.
    pub fn searches(&self) -> impl Iterator<Item = SearchView> {
        self.searches.iter().map(|search| search.view(self.is_search_due))
    }
}
