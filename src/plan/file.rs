//! A plan as a value and as a TOML file.

use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantNames};

use super::problem::PlanError;
use super::{
    AA_COPY, Checked, Command, Data, Factor, Filter, Key, Level, Levels, Limits, Mode, StudyTable, Tracing,
    WorkloadSpec, read, write,
};
use crate::foreign;

/// Version of the plan format.
pub const PLAN_VERSION: i64 = 1;
/// Maximum number of runs of a plan: cells times repeats.
pub const MAX_RUNS: u64 = 100_000;
/// Most repeats of a plan.
pub const MAX_REPEATS: u32 = 1000;
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
    /// Each repeat shuffles all cells, so that drift (heat, other users) affects all of them alike.
    #[default]
    Interleaved,
    /// All repeats of one cell, then those of the next.
    Sequential,
}

impl Order {
    /// The names used in plans, the default first.
    pub const NAMES: &'static [&'static str] = <Self as VariantNames>::VARIANTS;

    /// The name used in plans.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// Runs of each cell.
    pub repeats: u32,
    /// Seeds the order of runs, weights and the order of samples.
    pub seed: u64,
    /// Order of the runs.
    pub order: Order,
    /// Limits of time and memory of a run.
    pub limits: Limits,
    /// Steps at the start of a run that are recorded and left out of statistics.
    pub warm_up_steps: u64,
    /// Whether runs are full or quick.
    pub mode: Mode,
    /// Who records the runs, and which part of each.
    pub tracing: Tracing,
    /// Its cells: those of the file's own `workload`, `[data]` and `[factors]`.
    pub first: Block,
    /// More cells: a block for each `[[block]]`.
    pub further: Vec<Block>,
    /// Excluded cells: one constraint for each `[[constraint]]`.
    pub constraints: Vec<Constraint>,
    /// Its first cell is run twice, so that the session shows the differences of cells that are the same.
    pub aa: bool,
    /// What the work of its cells is checked by, where that is not accuracy and loss.
    pub checked: Vec<Checked>,
    /// Studies of its results: one for each `[[study]]`. A session that runs the plan offers them.
    pub studies: Vec<StudyTable>,
}

/// Cells that a plan excludes.
#[derive(Clone, Debug, PartialEq)]
pub struct Constraint {
    /// The combinations of levels: `gpus > 2 and precision = fp64`. `workload` and `data` can be asked for, too.
    pub exclude: Filter,
    /// Why, as a fragment of a sentence.
    pub reason: String,
}

impl Plan {
    /// A plan that says nothing but its name: one cell of defaults, run once, on the workload's first data set.
    pub fn new(name: &str, spec: Arc<WorkloadSpec>) -> Self {
        Self {
            name: name.to_owned(),
            repeats: 1,
            seed: 1,
            order: Order::default(),
            limits: Limits::default(),
            warm_up_steps: 10,
            mode: Mode::default(),
            tracing: Tracing::default(),
            first: Block::new(spec),
            further: Vec::new(),
            constraints: Vec::new(),
            aa: false,
            checked: Vec::new(),
            studies: Vec::new(),
        }
    }

    /// Reads a plan file. The folders of its commands are relative to the file's, those of data sets to the working directory.
    ///
    /// # Errors
    /// If the file cannot be read or [`Self::parse`] finds problems.
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        let origin = path.display().to_string();
        let failed = |source: io::Error| PlanError::Read { path: origin.clone(), source };
        let mut text = String::new();
        // A device file may be endless.
        let file = foreign::open_stream(path).map_err(failed)?;
        // What comes through a pipe lies nowhere.
        let is_file = path.is_file();
        file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(PlanError::TooLarge { path: origin, limit_bytes: MAX_FILE_BYTES });
        }
        let mut plan = Self::parse(&text, &origin)?;
        if is_file {
            plan.move_to(path).map_err(failed)?;
        }
        Ok(plan)
    }

    /// Makes this path the plan's file, to whose folder those of its commands are relative.
    ///
    /// # Errors
    /// The folder's name is not UTF-8, or the working directory is gone.
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

    /// The folder of its file, to which those of its commands are relative; none for a plan without a file or without commands.
    pub fn folder(&self) -> Option<&str> {
        self.blocks().find_map(|block| block.spec.command.as_ref()?.base.as_deref())
    }

    /// Sets [`Self::folder`], which has to be absolute. None stands for the working directory.
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
    /// Only `version` must be there: the name is the file's where none is given, the rest as in [`Self::new`].
    ///
    /// # Errors
    /// [`PlanError::Invalid`] with every problem found, each with line, key and the nearest right name.
    pub fn parse(text: &str, origin: &str) -> Result<Self, PlanError> {
        Self::parse_with(text, origin, &[])
    }

    /// The same with more workloads to name; one with the key of a built-in workload takes its place.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_with(text: &str, origin: &str, more: &[Arc<WorkloadSpec>]) -> Result<Self, PlanError> {
        read::plan(text, origin, more)
    }

    /// The plan as a file: what differs from the defaults, and what every plan says.
    pub fn to_toml(&self) -> String {
        write::plan(self, None)
    }

    /// The plan in the text of a file: what is the same there stays as it is written, with its comments and its order. A text that is
    /// not a plan is replaced. `origin` names the file that is written: a plan without a name goes by it.
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

    /// The plan with its block of this place, from 0, as the first, and the first in that place: the same cells in another order. Done
    /// twice, it gives the plan again.
    pub fn turned(&self, place: usize) -> Self {
        let mut plan = self.clone();
        if let Some(other) = place.checked_sub(1).and_then(|place| plan.further.get_mut(place)) {
            std::mem::swap(&mut plan.first, other);
        }
        plan
    }

    /// The workload of its cells that name this key.
    pub fn spec_of(&self, workload: &str) -> Option<&WorkloadSpec> {
        self.blocks().map(|block| &*block.spec).find(|spec| spec.key == workload)
    }

    /// The workloads that it brings, each once: those that are not this version's of their key.
    pub fn brought_workloads(&self) -> Vec<&Arc<WorkloadSpec>> {
        let mut brought: Vec<&Arc<WorkloadSpec>> = Vec::new();
        for Block { spec, .. } in self.blocks().filter(|block| !block.spec.is_built_in()) {
            if !brought.contains(&spec) {
                brought.push(spec);
            }
        }
        brought
    }

    /// Whether some cell is the worker's: commands run without one.
    pub fn needs_worker(&self) -> bool {
        self.blocks().any(|block| block.spec.command.is_none())
    }

    /// The keys of factors that cells may differ in: those with more than one level, or with another level in another block that
    /// has the factor; that of A/A copies last.
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

    /// Whether its cells are of several workloads.
    pub fn has_several_workloads(&self) -> bool {
        self.further.iter().any(|block| block.spec.key != self.first.spec.key)
    }

    /// Combinations of levels and tracers, valid or not.
    pub fn combinations(&self) -> u64 {
        let of_levels = self.blocks().map(Block::combinations).fold(0, u64::saturating_add);
        of_levels.saturating_mul(self.tracing.tracers().len() as u64).saturating_add(u64::from(self.aa))
    }

    /// Why the plan is too large to be expanded, if it is.
    pub fn too_large(&self) -> Option<String> {
        let cells = self.combinations();
        let runs = cells.saturating_mul(u64::from(self.repeats));
        (runs > MAX_RUNS).then(|| {
            format!(
                "{cells} combinations of levels × {} repeats are more than {MAX_RUNS} runs: untick levels or split the plan",
                self.repeats
            )
        })
    }
}

/// Cells of one workload over one data set: all combinations of ticked levels.
///
/// `factors` holds every factor of the workload in its order; one that was not ticked has its default alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// What is run.
    pub spec: Arc<WorkloadSpec>,
    /// Its data set.
    pub data: Data,
    /// Every factor's key and its ticked levels, at least one, in the plan's order.
    pub factors: Vec<(Key, Vec<Level>)>,
}

impl Block {
    /// One cell of defaults on the workload's first data set.
    pub fn new(spec: Arc<WorkloadSpec>) -> Self {
        let factors = spec.factors.iter().map(|factor| (factor.key.clone(), vec![factor.default.clone()]));
        Self { factors: factors.collect(), data: spec.default_data(), spec }
    }

    /// Runs on another data set; the levels that belong to the set are ticked.
    pub fn set_data(&mut self, data: Data) {
        let ticks = self.spec.data_set(&data.set).map_or(&[][..], |rule| &rule.ticks);
        for (key, level) in ticks {
            if let Some((_, levels)) = self.factors.iter_mut().find(|(known, _)| known == key) {
                *levels = vec![level.clone()];
            }
        }
        self.data = data;
    }

    /// The ticked levels of a factor; none for a key that is no factor of the workload.
    pub fn levels(&self, key: &str) -> &[Level] {
        self.factors.iter().find(|(name, _)| *name == key).map_or(&[], |(_, levels)| levels)
    }

    /// The first ticked level of each factor.
    pub fn first_levels(&self) -> Levels {
        let first = self.factors.iter().filter_map(|(key, levels)| Some((key.clone(), levels.first()?.clone())));
        Levels::new(first.collect::<Vec<_>>())
    }

    /// Combinations of levels, valid or not.
    pub fn combinations(&self) -> u64 {
        self.factors.iter().fold(1, |product: u64, (_, levels)| product.saturating_mul(levels.len() as u64))
    }

    /// What holds of `data.decode` and the like in all its cells.
    pub(super) fn setting(&self, key: &str) -> Option<&Level> {
        let key = key.strip_prefix("data.")?;
        self.data.get(key).or_else(|| self.spec.data_set(&self.data.set)?.default_of(key))
    }
}

/// Whether a factor's only level is the one it has anyway.
pub(super) fn is_default(factor: &Factor, levels: &[Level]) -> bool {
    matches!(levels, [level] if *level == factor.default)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "file_test.rs"]
mod tests;
