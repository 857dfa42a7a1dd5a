//! A plan as a value and as a TOML file.

use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantNames};

use super::named::named;
use super::problem::PlanError;
use super::{
    AA_COPY, Capture, Checked, Command, Data, Design, Factor, Filter, Key, Level, Levels, Limits, Mode, PlannedMeasure,
    Search, StudyTable, Tracer, Tracing, WorkloadSpec, counted, read, write,
};
use crate::foreign;

/// The value of `[where] jobs` for runs that share an allocation, and the one for a job each, which is the default.
pub(super) const ONE_ALLOCATION: &str = "one-allocation";
pub(super) const ONE_PER_RUN: &str = "one-per-run";

/// Version of the plan format.
pub const PLAN_VERSION: i64 = 1;
/// Maximum number of runs of a plan: cells times repeats.
pub const MAX_RUNS: u64 = 100_000;
/// Most repeats of a plan.
pub const MAX_REPEATS: u32 = 1000;
/// Most levels of all cells together, since each cell holds a level of every factor: half a gigabyte.
const MAX_LEVELS: u64 = 20_000_000;
/// Most comparisons of all constraints with all combinations, which take about 10 s.
const MAX_COMPARISONS: u64 = 50_000_000;
/// Maximum size of a plan file in bytes. A plan of all factors with hundreds of levels is a few kilobytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// [`AA_COPY`] as a key.
static AA_KEY: LazyLock<Key> = LazyLock::new(|| AA_COPY.into());

/// Order of runs.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, EnumString, IntoStaticStr, VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Order {
    /// Each repeat runs all cells in a new random order, so that a drift (heat, other users) affects all of them alike.
    #[default]
    Interleaved,
    /// All repeats of one cell, then all repeats of the next.
    Sequential,
}

named!(Order: names, name);

/// What to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// Runs of each cell.
    pub repeats: u32,
    /// Determines the order of runs, the weights and the order of samples.
    pub seed: u64,
    /// Order of the runs.
    pub order: Order,
    /// The site where runs are executed, a cluster with Slurm that the user's settings name; `None` for this machine.
    pub site: Option<String>,
    /// Whether the runs at a site share one allocation, one after the other, instead of being a job each.
    pub one_allocation: bool,
    /// Limits of time and memory of a run.
    pub limits: Limits,
    /// Steps at the start of a run that are recorded but left out of statistics.
    pub warm_up_steps: u64,
    /// Whether runs are full or quick.
    pub mode: Mode,
    /// Which tracer records the runs, and which part of each run.
    pub tracing: Tracing,
    /// The cells of the file's top level: its `workload`, `[data]` and `[factors]`.
    pub first: Block,
    /// More cells: a block for each `[[block]]`.
    pub further: Vec<Block>,
    /// Excluded cells: one constraint for each `[[constraint]]`.
    pub constraints: Vec<Constraint>,
    /// The first cell is run twice as an identical copy, so that the session shows which differences occur between equal cells.
    pub aa: bool,
    /// The measures that check whether cells did the same work, if these are not accuracy and loss.
    pub checked: Vec<Checked>,
    /// The search for the cell that answers a question: `[search]`. Without one, all repeats of all cells run.
    pub search: Option<Search>,
    /// User-defined measures: `[measures]`. A session that runs the plan offers them.
    pub measures: Vec<PlannedMeasure>,
    /// Studies of its results: one for each `[[study]]`. A session that runs the plan offers them.
    pub studies: Vec<StudyTable>,
}

/// Cells that a plan excludes.
#[derive(Clone, Debug, PartialEq)]
pub struct Constraint {
    /// The combinations of levels: `gpus > 2 and precision = fp64`. `workload` and `data` can be used, too.
    pub exclude: Filter,
    /// The reason, as a fragment of a sentence.
    pub reason: String,
}

impl Plan {
    /// The warm-up steps of a plan that does not state them.
    pub const WARM_UP_STEPS: u64 = 10;

    /// A plan with only a name: one cell with all defaults, run once, on the workload's first data set.
    pub fn new(name: &str, spec: Arc<WorkloadSpec>) -> Self {
        Self {
            name: name.to_owned(),
            repeats: 1,
            seed: 1,
            order: Order::default(),
            site: None,
            one_allocation: false,
            limits: Limits::default(),
            warm_up_steps: Self::WARM_UP_STEPS,
            mode: Mode::default(),
            tracing: Tracing::default(),
            first: Block::new(spec),
            further: Vec::new(),
            constraints: Vec::new(),
            aa: false,
            checked: Vec::new(),
            search: None,
            measures: Vec::new(),
            studies: Vec::new(),
        }
    }

    /// Reads a plan file. The folders of its commands are relative to the file's folder, the folders of data sets to the working directory.
    ///
    /// # Errors
    /// If the file cannot be read or [`Self::parse`] finds problems.
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        Self::read_with_text(path).map(|(plan, _)| plan)
    }

    /// Reads a plan file as [`Self::read`] does; returns the plan and the file's text.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub fn read_with_text(path: &Path) -> Result<(Self, String), PlanError> {
        let origin = path.display().to_string();
        let failed = |source: io::Error| PlanError::Read { path: origin.clone(), source };
        let mut text = String::new();
        // A device file may be endless.
        let file = foreign::open_stream(path).map_err(failed)?;
        // A plan that comes through a pipe has no folder.
        let is_file = path.is_file();
        file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(PlanError::TooLarge { path: origin, limit_bytes: MAX_FILE_BYTES });
        }
        let mut plan = Self::parse(&text, &origin)?;
        if is_file {
            plan.move_to(path).map_err(failed)?;
        }
        Ok((plan, text))
    }

    /// Makes this path the plan's file. The folders of its commands are then relative to the file's folder.
    ///
    /// # Errors
    /// The folder's name is not UTF-8, or the working directory does not exist any more.
    pub fn move_to(&mut self, path: &Path) -> io::Result<()> {
        if self.blocks().all(|block| block.spec.command.is_none()) {
            return Ok(());
        }
        let path = std::path::absolute(path)?;
        let folder = path.parent().unwrap_or(&path).to_str();
        let unnameable = || io::Error::other("the name of its folder is not UTF-8, which a plan with commands needs");
        self.set_folder(Some(folder.ok_or_else(unnameable)?));
        Ok(())
    }

    /// The folder to which the folders of commands are relative; `None` for a plan without a file or without commands.
    pub fn folder(&self) -> Option<&str> {
        self.blocks().find_map(|block| block.spec.command.as_ref()?.base.as_deref())
    }

    /// Sets [`Self::folder`], which must be absolute. `None` stands for the working directory.
    pub fn set_folder(&mut self, folder: Option<&str>) {
        for Block { spec, .. } in std::iter::once(&mut self.first).chain(&mut self.further) {
            if let Some(command) = spec.command.as_deref().filter(|command| command.base.as_deref() != folder) {
                let command = Command { base: folder.map(str::to_owned), ..command.clone() };
                Arc::make_mut(spec).command = Some(Arc::new(command));
            }
        }
    }

    /// Parses the text of a plan; `origin` names its file in messages.
    ///
    /// Only `version` is required. Without a name, the plan has the file's name; everything else has the defaults of [`Self::new`].
    ///
    /// # Errors
    /// [`PlanError::Invalid`] with every problem found, each with its line, its key and the most similar valid name.
    pub fn parse(text: &str, origin: &str) -> Result<Self, PlanError> {
        Self::parse_with(text, origin, &[])
    }

    /// Like [`Self::parse`], with additional workloads. A workload with the key of a built-in one replaces it.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_with(text: &str, origin: &str, more: &[Arc<WorkloadSpec>]) -> Result<Self, PlanError> {
        read::plan(text, origin, more)
    }

    /// The site that the text of a plan names; `None` for this machine, and for a text that is not TOML.
    pub fn site_in(text: &str) -> Option<String> {
        let table: toml::Table = toml::from_str(text).ok()?;
        table.get("where")?.get("site")?.as_str().map(str::to_owned)
    }

    /// The plan as a file: the settings that differ from the defaults, and those that every plan states.
    pub fn to_toml(&self) -> String {
        write::plan(self, None)
    }

    /// The plan written into the text of an existing file: what is unchanged keeps its wording, comments and order. A text that is not a
    /// plan is replaced. `origin` names the file that is written; a plan without a name takes its name.
    pub fn to_toml_in(&self, text: &str, origin: &str) -> String {
        let brought: Vec<_> = self.brought_workloads().into_iter().cloned().collect();
        match Self::parse_with(text, origin, &brought) {
            Ok(before) => write::plan(self, Some((text, &before))),
            Err(_) => self.to_toml(),
        }
    }

    /// All blocks, in the order of the file.
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        std::iter::once(&self.first).chain(&self.further)
    }

    /// The plan with the block at index `place` swapped with the first block: the same cells in another order. Applied twice, it gives the
    /// original plan.
    pub fn turned(&self, place: usize) -> Self {
        let mut plan = self.clone();
        if let Some(other) = place.checked_sub(1).and_then(|place| plan.further.get_mut(place)) {
            std::mem::swap(&mut plan.first, other);
        }
        plan
    }

    /// The workload with this key among the plan's blocks.
    pub fn spec_of(&self, workload: &str) -> Option<&WorkloadSpec> {
        self.blocks().map(|block| &*block.spec).find(|spec| spec.key == workload)
    }

    /// The workloads that come with the plan, each once: those that differ from this version's workload of the same key.
    pub fn brought_workloads(&self) -> Vec<&Arc<WorkloadSpec>> {
        let mut brought: Vec<&Arc<WorkloadSpec>> = Vec::new();
        for Block { spec, .. } in self.blocks().filter(|block| !block.spec.is_built_in()) {
            if !brought.contains(&spec) {
                brought.push(spec);
            }
        }
        brought
    }

    /// Whether some cell needs the worker; commands do not.
    pub fn needs_worker(&self) -> bool {
        self.blocks().any(|block| block.spec.command.is_none())
    }

    /// Whether some cell can be recorded in windows. This needs the built-in tracer, and a cell of the worker: the
    /// tracer does not know the steps of other programs.
    pub fn can_record_windows(&self) -> bool {
        self.tracing.has_built_in() && self.needs_worker()
    }

    /// Adds or removes this tracer, as [`super::Tracing::toggled`] does. If no cell can be recorded in windows then,
    /// whole runs are recorded.
    pub fn toggle(&mut self, tracer: Tracer) {
        self.tracing = self.tracing.toggled(tracer);
        if matches!(self.tracing.capture(), Some(Capture::Windows { .. })) && !self.can_record_windows() {
            self.tracing = self.tracing.with_capture(Capture::Whole);
        }
    }

    /// The settings of the plan that cannot be combined with its search: for each its key, and what to do. Empty for a plan without a
    /// search.
    pub fn search_conflicts(&self) -> Vec<(&'static str, String)> {
        if self.search.is_none() {
            return Vec::new();
        }
        let fitted = self.blocks().filter_map(|block| block.design.as_ref()).find(|design| design.kind.is_fitted());
        let mut conflicts = Vec::new();
        let mut add = |is_there: bool, key, message: &str| {
            if is_there {
                conflicts.push((key, message.to_owned()));
            }
        };
        add(
            self.repeats < 2,
            "repeats",
            "a search compares repeats: write repeats = 6 or more, the most that a cell gets",
        );
        add(
            self.order == Order::Sequential,
            "order",
            "a search runs the cells of a repeat side by side: leave out order",
        );
        add(self.aa, "aa", "the copy of a cell ties with it in each search: leave out aa, or [search]");
        add(
            self.site.is_some(),
            "where",
            "searches run on this machine only, not at sites with Slurm: leave out [where]",
        );
        add(
            self.has_several_workloads(),
            "block",
            "a search compares cells of one workload: leave out the blocks with others",
        );
        add(
            !self.limits.exclusive,
            "limits.exclusive",
            "runs side by side disturb each other's times, which a search compares: leave out exclusive",
        );
        add(
            self.tracing.tracers().len() > 1,
            "measure.trace",
            "a search compares cells that are recorded alike: name one tracer, or none",
        );
        if let Some(design) = fitted {
            add(
                true,
                "design",
                &format!(
                    "a search drops cells, so that the effects of a {} design could not be estimated: leave out one of both",
                    design.kind.title()
                ),
            );
        }
        conflicts
    }

    /// The keys of factors in which cells may differ: factors with more than one level, or with different levels in different blocks. The
    /// key of A/A copies comes last.
    pub fn varied(&self) -> Vec<&Key> {
        let mut varied: Vec<&Key> = Vec::new();
        for (key, levels) in self.blocks().flat_map(|block| &block.factors) {
            let in_others = self.blocks().map(|other| other.levels(key)).filter(|others| !others.is_empty());
            let differs = levels.len() > 1 || in_others.into_iter().any(|others| others != levels);
            if differs && !varied.contains(&key) {
                varied.push(key);
            }
        }
        varied.extend(self.aa.then_some(&*AA_KEY));
        varied
    }

    /// Whether the plan has cells of several workloads.
    pub fn has_several_workloads(&self) -> bool {
        self.further.iter().any(|block| block.spec.key != self.first.spec.key)
    }

    /// The number of combinations of levels and tracers, including invalid ones; at most, for blocks with a design.
    pub fn combinations(&self) -> u64 {
        let of_block = |block: &Block| block.designed_combinations(self.repeats);
        let of_levels = self.blocks().map(of_block).fold(0, u64::saturating_add);
        of_levels.saturating_mul(self.tracing.tracers().len() as u64).saturating_add(u64::from(self.aa))
    }

    /// The reason of the first constraint that excludes a combination of levels; `None` if no constraint does.
    pub(super) fn excluded(&self, spec: &WorkloadSpec, data: &Data, levels: &Levels) -> Option<&str> {
        let setting = |key: &str| match key {
            // A factor of a user's program may have the key of a setting.
            "workload" if spec.factor(key).is_none() => Some(Level::text(&spec.key)),
            "data" if spec.factor(key).is_none() => Some(Level::text(&data.set)),
            key => spec.level(key, levels, data).cloned(),
        };
        let constraint = self.constraints.iter().find(|constraint| constraint.exclude.admits(&setting))?;
        Some(&constraint.reason)
    }

    /// Why the plan is too large to be expanded; `None` if it is not.
    pub fn too_large(&self) -> Option<String> {
        let cells = self.combinations();
        let runs = cells.saturating_mul(u64::from(self.repeats));
        if runs > MAX_RUNS {
            return Some(format!(
                "{cells} combinations of levels × {} repeats are more than {MAX_RUNS} runs: leave out levels or split the plan",
                self.repeats
            ));
        }
        let factors = self.blocks().map(|block| block.factors.len()).max().unwrap_or(0);
        if cells.saturating_mul(factors as u64) > MAX_LEVELS {
            return Some(format!(
                "{cells} combinations of levels of {} are too many to list: leave out factors or levels, or split the plan",
                counted(factors, "factor")
            ));
        }
        // A design looks at combinations that it does not choose, too.
        let looked_at = |block: &Block| block.combinations().min(MAX_RUNS);
        let looked_at = self.blocks().map(looked_at).fold(0, u64::saturating_add);
        let comparisons: usize = self.constraints.iter().map(|constraint| constraint.exclude.comparisons()).sum();
        (looked_at.saturating_mul(comparisons as u64) > MAX_COMPARISONS).then(|| {
            format!(
                "{looked_at} combinations of levels take too long to check with {} in constraints: write fewer constraints, leave out \
                 levels, or split the plan",
                counted(comparisons, "comparison")
            )
        })
    }
}

/// Cells of one workload on one data set: all combinations of ticked levels, or those that a design chooses.
///
/// `factors` holds every factor of the workload in its order; a factor that was not ticked has only its default.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// What is run.
    pub spec: Arc<WorkloadSpec>,
    /// Its data set.
    pub data: Data,
    /// The key of every factor with its ticked levels, at least one, in the plan's order.
    pub factors: Vec<(Key, Vec<Level>)>,
    /// Which combinations of these levels are its cells; `None` for all.
    pub design: Option<Design>,
}

impl Block {
    /// One cell with all defaults on the workload's first data set.
    pub fn new(spec: Arc<WorkloadSpec>) -> Self {
        let factors = spec.factors.iter().map(|factor| (factor.key.clone(), vec![factor.default.clone()]));
        Self { factors: factors.collect(), data: spec.default_data(), spec, design: None }
    }

    /// Changes the data set; the levels that belong to the new set are ticked.
    pub fn set_data(&mut self, data: Data) {
        let ticks = self.spec.data_set(&data.set).map_or(&[][..], |rule| &rule.ticks);
        for (key, level) in ticks {
            if let Some((_, levels)) = self.factors.iter_mut().find(|(known, _)| known == key) {
                *levels = vec![level.clone()];
            }
        }
        self.data = data;
    }

    /// The ticked levels of a factor; empty for a key that is not a factor of the workload.
    pub fn levels(&self, key: &str) -> &[Level] {
        self.factors.iter().find(|(name, _)| *name == key).map_or(&[], |(_, levels)| levels)
    }

    /// The first ticked level of each factor.
    pub fn first_levels(&self) -> Levels {
        let first = self.factors.iter().filter_map(|(key, levels)| Some((key.clone(), levels.first()?.clone())));
        Levels::new(first.collect::<Vec<_>>())
    }

    /// The factors with more than one ticked level: their places, keys and levels.
    pub fn varied(&self) -> impl Iterator<Item = (usize, &Key, &[Level])> {
        let factors = self.factors.iter().enumerate().map(|(place, (key, levels))| (place, key, levels.as_slice()));
        factors.filter(|(_, _, levels)| levels.len() > 1)
    }

    /// At most how many combinations are run, including invalid ones; for a budget of time it depends on the repeats.
    fn designed_combinations(&self, repeats: u32) -> u64 {
        let Some(design) = &self.design else { return self.combinations() };
        let keys: Vec<&Key> = self.varied().map(|(_, key, _)| key).collect();
        let counts: Vec<usize> = self.varied().map(|(_, _, levels)| levels.len()).collect();
        design.at_most(&keys, &counts, repeats)
    }

    /// The number of all combinations of levels, including invalid ones.
    pub fn combinations(&self) -> u64 {
        self.factors.iter().fold(1, |product: u64, (_, levels)| product.saturating_mul(levels.len() as u64))
    }

    /// The value of `data.decode` and similar settings, which is the same in all cells of the block.
    pub(super) fn setting(&self, key: &str) -> Option<&Level> {
        let key = key.strip_prefix("data.")?;
        self.data.get(key).or_else(|| self.spec.data_set(&self.data.set)?.default_of(key))
    }
}

/// Whether a factor has only its default level.
pub(super) fn is_default(factor: &Factor, levels: &[Level]) -> bool {
    matches!(levels, [level] if *level == factor.default)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "file_properties_test.rs"]
mod properties;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "file_test.rs"]
mod tests;
