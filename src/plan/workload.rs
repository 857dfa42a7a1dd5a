//! Workloads as values: the kinds of job that a plan runs.
//!
//! A workload is one [`WorkloadSpec`]: its factors, its data sets, and `check`, the only place where the levels of a cell become types.
//! Everything else in this room reads the value and knows no workload by name. What other rooms must know about a level is stated by its
//! [`Hint`]s.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantNames};

use super::checked_table::Table;
use super::data::{Data, DataSetRule, Obtainable};
use super::factor::Factor;
use super::hint::Hint;
use super::level::{Key, Level, Levels, places_of};
use super::named::named;
use super::problem::Problems;
use super::{Estimate, Limits, Node, Shape};

pub mod command;
pub mod image;
pub mod llm;
mod machine;
mod nodes;
mod typed;

pub use command::Command;
pub(super) use nodes::gpus_of;
pub use typed::{CUDA_GRAPH_WARM_UP_STEPS, Kernels, OptimizerImpl, Passes};

/// The word that most workloads use for a step.
pub const USUAL_STEP: &str = "step";
/// The word that most workloads use for their data.
pub const USUAL_DATA: &str = "Data set";
/// The key of the factor for the number of GPUs of a run, in every workload that has it.
pub const GPUS: &str = "gpus";
/// The key of the factor for the number of nodes that a run spans, in every workload that has it.
pub const NODES: &str = "nodes";
/// The key of the factor that says how many GPUs each node has, in all workloads with such a factor.
pub const GPUS_PER_NODE: &str = "gpus_per_node";

/// The unit that a workload counts, such as images.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// The word for one of them: `image`.
    pub one: Arc<str>,
    /// The word for several: `images`.
    pub many: Arc<str>,
}

/// Which values of a measure are good.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, EnumString, IntoStaticStr, VariantNames,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Better {
    /// Low ones: times, losses, memory.
    Lower,
    /// High ones: throughput, accuracy.
    Higher,
    /// Neither: it describes a run and does not judge it.
    #[default]
    Neither,
}

named!(Better: names, name);

impl Better {
    /// Whether one says that low values are good, and the other that high ones are.
    pub fn is_opposite(self, other: Self) -> bool {
        matches!((self, other), (Self::Lower, Self::Higher) | (Self::Higher, Self::Lower))
    }

    /// The value of `better` in a plan's table.
    pub(super) fn read(table: &Table, problems: &mut Problems) -> Self {
        table.choice("better", Self::NAMES, problems).and_then(|name| name.parse().ok()).unwrap_or_default()
    }
}

/// A measure that a workload declares in addition to the built-in ones: it shows the readings under its key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeclaredMeasure {
    /// The key of the readings.
    pub key: Key,
    /// The name on screen.
    pub name: Arc<str>,
    /// The unit; empty for a count.
    #[serde(default)]
    pub unit: Arc<str>,
    /// Which values are good.
    #[serde(default)]
    pub better: Better,
    /// Whether it depends on the speed of the machine, so that runs which shared the machine are left out.
    #[serde(default)]
    pub on_speed: bool,
    /// For imported values: the step of the last digit with which the file writes the values of each cell, in `unit`, by the id of the
    /// cell. Values of all other cells count as exact. `None` if the steps are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_steps: Option<BTreeMap<String, f64>>,
    /// For imported values: the ids of cells in which rows that differ in other measures have the same values, although chance does not
    /// explain it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub recurring_cells: BTreeSet<String>,
    /// For imported values: the ids of cells in which successive values are more alike than by chance, so that they depend on each other.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub dependent_cells: BTreeSet<String>,
}

/// A kind of job that a plan runs.
///
/// As JSON, it is how sessions store the workloads that come with a plan. `check` is code and is not stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkloadSpec {
    /// The name used in plans.
    pub key: Key,
    /// The name on screen.
    pub name: Arc<str>,
    /// The unit that it counts.
    pub unit: Unit,
    /// Its word for a step: `step`, `iteration`.
    #[serde(default = "usual_step")]
    pub step: Arc<str>,
    /// The window's title for its data: `Data set`; or `Rows` if the data set is a factor, so that the data settings only say where the
    /// rows come from.
    #[serde(default = "usual_data")]
    pub data_name: Arc<str>,
    /// Its factors, in the order of columns and cards.
    #[serde(default)]
    pub factors: Vec<Factor>,
    /// The keys of the factors that most plans vary, in the order of their cards: the window shows these first, the others on demand. If
    /// empty, all are shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub main_factors: Vec<Key>,
    /// Its data sets, the default first; empty if it uses none.
    #[serde(default)]
    pub data_sets: Vec<DataSetRule>,
    /// The keys of factors that may also be written in `[data]`, because they limit the size of the set.
    #[serde(default)]
    pub cuts: Vec<Key>,
    /// Measures in addition to the built-in ones.
    #[serde(default)]
    pub measures: Vec<DeclaredMeasure>,
    /// For imported runs: the ids of cells in which rows recur although chance does not explain it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub recurring_cells: BTreeSet<String>,
    /// For imported runs: the ids of cells whose rows or values recur or depend on each other, and whose rows the user declared to be runs of
    /// their own.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub declared_cells: BTreeSet<String>,
    /// The program that its runs start; `None` if the worker has a task for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Arc<Command>>,
    /// The shape and estimate of a cell on a machine; or why it cannot run there and what to do, as a fragment of a sentence. A workload
    /// read from a session gets the check that this version has for its key.
    #[serde(skip, default = "check_of_key")]
    pub check: fn(&Request) -> Result<(Shape, Estimate), String>,
}

fn usual_step() -> Arc<str> {
    USUAL_STEP.into()
}

fn usual_data() -> Arc<str> {
    USUAL_DATA.into()
}

fn check_of_key() -> fn(&Request) -> Result<(Shape, Estimate), String> {
    |request| match workload(&request.spec.key) {
        _ if request.spec.command.is_some() => command::check(request),
        Some(known) => (known.check)(request),
        None => Err(format!(
            "{} is a workload that this version does not know: use the version of multicard that made this session",
            request.spec.key
        )),
    }
}

/// A cell of a workload, and the machine and limits that it would run with.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Its workload.
    pub spec: &'a WorkloadSpec,
    /// The level of every factor.
    pub levels: &'a Levels,
    /// Its data set.
    pub data: &'a Data,
    /// The limits of its run.
    pub limits: &'a Limits,
    /// The machine.
    pub node: &'a Node,
}

// Functions cannot be compared usefully; the other fields decide.
impl PartialEq for WorkloadSpec {
    fn eq(&self, other: &Self) -> bool {
        let names = |spec: &Self| {
            (spec.key.clone(), spec.name.clone(), spec.unit.clone(), spec.step.clone(), spec.data_name.clone())
        };
        // Runs of a session share the strings of their workload.
        std::ptr::eq(self, other)
            || names(self) == names(other)
                && self.factors == other.factors
                && self.main_factors == other.main_factors
                && self.cuts == other.cuts
                && self.data_sets == other.data_sets
                && self.measures == other.measures
                && self.recurring_cells == other.recurring_cells
                && self.declared_cells == other.declared_cells
                && self.command == other.command
    }
}

impl WorkloadSpec {
    /// Whether cells of both workloads run the same program and count the same units, whatever limits, measures or further levels their
    /// plans name.
    pub fn runs_as(&self, other: &Self) -> bool {
        let [own, others] = [self, other].map(|spec| spec.command.as_deref().map(Command::what_runs));
        std::ptr::eq(self, other) || self.key == other.key && self.unit == other.unit && own == others
    }

    /// A workload of a later version; only its key is known. The levels and data of its cells are stored unchanged.
    pub fn unknown(key: &str) -> Self {
        let unit = Unit { one: "unit".into(), many: "units".into() };
        Self {
            key: key.into(),
            name: key.into(),
            unit,
            step: usual_step(),
            data_name: usual_data(),
            factors: Vec::new(),
            main_factors: Vec::new(),
            data_sets: Vec::new(),
            cuts: Vec::new(),
            measures: Vec::new(),
            recurring_cells: BTreeSet::new(),
            declared_cells: BTreeSet::new(),
            command: None,
            check: check_of_key(),
        }
    }

    /// Whether it equals this version's workload with its key, so that the key alone identifies it.
    pub fn is_built_in(&self) -> bool {
        workload(&self.key).is_some_and(|known| **known == *self)
    }

    /// A factor by its key.
    pub fn factor(&self, key: &str) -> Option<&Factor> {
        self.factors.iter().find(|factor| factor.key == key)
    }

    /// Its main factors, in the order of their cards, and the others. If none are marked as main, all are main.
    pub fn main_and_more(&self) -> (Vec<&Factor>, Vec<&Factor>) {
        if self.main_factors.is_empty() {
            return (self.factors.iter().collect(), Vec::new());
        }
        let main = self.main_factors.iter().filter_map(|key| self.factor(key)).collect();
        (main, self.factors.iter().filter(|factor| !self.main_factors.contains(&factor.key)).collect())
    }

    /// The meaning of a level for code that does not know the workload: the level's own hints, or else the hints that a built-in workload
    /// gives to the same key and level. Therefore programs with such factors, and sessions of earlier versions, have hints, too.
    pub fn hints<'a>(&'a self, key: &'a str, level: &'a Level) -> impl Iterator<Item = &'a Hint> + 'a {
        let specs = || std::iter::once(self).chain(workloads().iter().map(|spec| &**spec));
        let of_spec = move |spec: &'a Self| {
            let hints = spec.factor(key).into_iter().flat_map(|factor| &factor.hints);
            hints.filter(move |(hinted, _)| hinted == level).map(|(_, hint)| hint)
        };
        specs().find(|spec| of_spec(spec).next().is_some()).into_iter().flat_map(of_spec)
    }

    /// The hints of all levels of a cell, in order.
    pub fn all_hints<'a>(&'a self, levels: &'a Levels) -> impl Iterator<Item = &'a Hint> + 'a {
        levels.iter().flat_map(|(key, level)| self.hints(key, level))
    }

    /// The rule of the data set with this name.
    pub fn data_set(&self, set: &str) -> Option<&DataSetRule> {
        self.data_sets.iter().find(|rule| rule.key == set)
    }

    /// The default levels of all factors, except the ones given.
    pub fn levels(&self, changed: &[(&str, Level)]) -> Levels {
        let changed = |key: &str| changed.iter().find(|(name, _)| *name == key).map(|(_, level)| level);
        let pair = |factor: &Factor| (factor.key.clone(), changed(&factor.key).unwrap_or(&factor.default).clone());
        Levels::new(self.factors.iter().map(pair).collect::<Vec<_>>())
    }

    /// The data set of a plan that names none.
    pub fn default_data(&self) -> Data {
        self.data_sets.first().map_or_else(Data::default, DataSetRule::default_data)
    }

    /// The level of a setting in a cell. The setting is a factor, whose default is used if the cell does not name it, or `data.decode` and
    /// similar of its data set.
    pub(super) fn level<'a>(&'a self, key: &str, levels: &'a Levels, data: &'a Data) -> Option<&'a Level> {
        match key.strip_prefix("data.") {
            Some(key) => data.get(key).or_else(|| self.data_set(&data.set)?.default_of(key)),
            None => levels.get(key).or_else(|| Some(&self.factor(key)?.frozen_default)),
        }
    }

    /// Checks a cell that was read from a session: unlike the cells of a plan, it may have factors and levels of another version.
    ///
    /// # Errors
    /// Why it cannot run on this machine, and what to do.
    pub fn check_kept(&self, request: &Request) -> Result<(Shape, Estimate), String> {
        // A workload that this version does not know lists no factors. Each of its levels would then be called unknown; `check`,
        // below, says instead that the workload is unknown.
        let stored_levels = request.levels.iter().filter(|_| !self.factors.is_empty());
        for (key, level) in stored_levels {
            let unknown = match self.factor(key) {
                None => format!("{key} is a factor that this version does not know"),
                Some(factor) if !factor.admits(level) => {
                    format!("{key} = {level} is a level that this version does not know")
                }
                Some(_) => continue,
            };
            return Err(format!("{unknown}: use the version of multicard that made this session"));
        }
        // A session of an earlier version lacks the factors that were added later.
        let level = |factor: &Factor| request.levels.get(&factor.key).unwrap_or(&factor.frozen_default).clone();
        let pairs: Vec<_> = self.factors.iter().map(|factor| (factor.key.clone(), level(factor))).collect();
        (self.check)(&Request { levels: &Levels::new(pairs), ..*request })
    }
}

/// The levels that are offered for a factor's key, all names and the usual numbers, each with its place, which decides its order and its
/// colour.
///
/// A key means the same in every workload. The levels of the first built-in workload with the key come first, then those that the other
/// built-in workloads and `further` add.
pub fn offered_levels<'a>(key: &str, further: impl IntoIterator<Item = &'a WorkloadSpec>) -> HashMap<Level, usize> {
    let specs = workloads().iter().map(|spec| &**spec).chain(further);
    places_of(specs.filter_map(|spec| spec.factor(key)).flat_map(Factor::offered))
}

/// The workloads of this version, in the order in which they are offered.
pub fn workloads() -> &'static [Arc<WorkloadSpec>] {
    static WORKLOADS: LazyLock<Vec<Arc<WorkloadSpec>>> = LazyLock::new(|| vec![image::spec(), llm::spec()]);
    &WORKLOADS
}

/// The data sets that this version can generate or download, each with the rule of the set that reads it.
pub fn obtainable() -> impl Iterator<Item = (&'static DataSetRule, &'static Obtainable)> {
    let sets = workloads().iter().flat_map(|spec| &spec.data_sets);
    sets.flat_map(|rule| rule.obtainable.iter().map(move |one| (rule, one)))
}

/// The workload of a new window, and of plans and journals that name none, since version 0.1 had no other.
pub fn usual_workload() -> Arc<WorkloadSpec> {
    image::spec()
}

/// A workload of this version by its key.
pub fn workload(key: &str) -> Option<&'static Arc<WorkloadSpec>> {
    workloads().iter().find(|spec| spec.key == key)
}

/// The workload of this version with this key, or an unknown workload.
pub fn workload_or_unknown(key: &str) -> Arc<WorkloadSpec> {
    workload(key).map_or_else(|| WorkloadSpec::unknown(key).into(), Arc::clone)
}
