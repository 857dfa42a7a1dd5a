//! Workloads as values: the kinds of job that a plan runs.
//!
//! A workload is one [`WorkloadSpec`]: its factors, its data sets, and `check`, the one place where the levels of a cell become
//! types. Everything else in this room reads the value and knows no workload by name.

use std::sync::{Arc, LazyLock};

use super::data::{Data, DataSetRule};
use super::factor::Factor;
use super::level::{Key, Level, Levels};
use super::{Estimate, Limits, Node, Shape};

pub mod image;
pub mod llm;
mod machine;
mod typed;

/// Workloads that plans may name one day.
pub(super) const NOT_YET: &[&str] = &["command"];

/// What a workload counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// One of them: `image`.
    pub one: Arc<str>,
    /// Several: `images`.
    pub many: Arc<str>,
}

/// A kind of job that a plan runs.
#[derive(Clone, Debug)]
pub struct WorkloadSpec {
    /// The name used in plans.
    pub key: Key,
    /// The name on screen.
    pub name: Arc<str>,
    /// What it counts.
    pub unit: Unit,
    /// Its factors, in the order of columns and cards.
    pub factors: Vec<Factor>,
    /// Its data sets, the default first; none where it has no use for one.
    pub data_sets: Vec<DataSetRule>,
    /// The keys of factors that may stand in `[data]` beside the set that they cut.
    pub cuts: Vec<Key>,
    /// What the cell comes to on a machine, or why it cannot run there and what to do, as a fragment of a sentence.
    pub check: fn(&Request) -> Result<(Shape, Estimate), String>,
}

/// A cell of a workload, and what it would run on.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Its workload.
    pub spec: &'a WorkloadSpec,
    /// The level of every factor.
    pub levels: &'a Levels,
    /// Its data set.
    pub data: &'a Data,
    /// What its run may take.
    pub limits: &'a Limits,
    /// The machine.
    pub node: &'a Node,
}

// A check is as good as another of the same workload: functions have no identity of their own.
impl PartialEq for WorkloadSpec {
    fn eq(&self, other: &Self) -> bool {
        (&self.key, &self.name, &self.unit, &self.cuts) == (&other.key, &other.name, &other.unit, &other.cuts)
            && self.factors == other.factors
            && self.data_sets == other.data_sets
    }
}

impl WorkloadSpec {
    /// A factor by its key.
    pub fn factor(&self, key: &str) -> Option<&Factor> {
        self.factors.iter().find(|factor| factor.key == key)
    }

    /// A data set's rule by its name.
    pub fn data_set(&self, set: &str) -> Option<&DataSetRule> {
        self.data_sets.iter().find(|rule| rule.key == set)
    }

    /// The default levels of all factors, but for those named.
    pub fn levels(&self, changed: &[(&str, Level)]) -> Levels {
        let changed = |key: &str| changed.iter().find(|(name, _)| *name == key).map(|(_, level)| level);
        let pair = |factor: &Factor| (factor.key.clone(), changed(&factor.key).unwrap_or(&factor.default).clone());
        Levels::new(self.factors.iter().map(pair).collect::<Vec<_>>())
    }

    /// The data set of a plan that does not say.
    pub fn default_data(&self) -> Data {
        self.data_sets.first().map_or_else(Data::default, DataSetRule::default_data)
    }

    /// The level that a setting of a cell has: a factor's, its default where the cell names none, or `data.decode` and the like of
    /// its data set.
    pub(super) fn level<'a>(&'a self, key: &str, levels: &'a Levels, data: &'a Data) -> Option<&'a Level> {
        match key.strip_prefix("data.") {
            Some(key) => data.get(key).or_else(|| self.data_set(&data.set)?.default_of(key)),
            None => levels.get(key).or_else(|| Some(&self.factor(key)?.frozen_default)),
        }
    }

    /// Checks a cell that a session kept: unlike the cells of a plan, it may hold factors and levels of another version.
    ///
    /// # Errors
    /// Why it cannot run here, and what to do.
    pub fn check_kept(&self, request: &Request) -> Result<(Shape, Estimate), String> {
        for (key, level) in request.levels.iter() {
            let unknown = match self.factor(key) {
                None => format!("{key} is a factor that this version does not know"),
                Some(factor) if !factor.admits(level) => {
                    format!("{key} = {level} is a level that this version does not know")
                }
                Some(_) => continue,
            };
            return Err(format!("{unknown}: use the multicard that made this session"));
        }
        // A session of an earlier version lacks the factors that came since.
        let level = |factor: &Factor| request.levels.get(&factor.key).unwrap_or(&factor.frozen_default).clone();
        let pairs: Vec<_> = self.factors.iter().map(|factor| (factor.key.clone(), level(factor))).collect();
        (self.check)(&Request { levels: &Levels::new(pairs), ..*request })
    }
}

/// The place of a level among all that are known under its factor's key: of a named level among the names, of a number among the
/// usual ones. It decides order and colour.
///
/// A key means the same in every workload: the levels of the first one that has it come first, then those that others add.
pub fn level_place(key: &str, level: &Level) -> Option<usize> {
    let mut before = 0;
    for (number, spec) in workloads().iter().enumerate() {
        let Some(factor) = spec.factor(key) else { continue };
        let earlier = || workloads()[..number].iter().filter_map(|spec| spec.factor(key));
        let is_new = |level: &Level| earlier().all(|factor| factor.place(level).is_none());
        if let Some(place) = factor.place(level) {
            return Some(before + factor.offered().take(place).filter(is_new).count());
        }
        before += factor.offered().filter(is_new).count();
    }
    None
}

/// The workloads of this version, in the order they are offered.
pub fn workloads() -> &'static [Arc<WorkloadSpec>] {
    static WORKLOADS: LazyLock<Vec<Arc<WorkloadSpec>>> = LazyLock::new(|| vec![image::spec(), llm::spec()]);
    &WORKLOADS
}

/// A workload of this version by its key.
pub fn workload(key: &str) -> Option<&'static Arc<WorkloadSpec>> {
    workloads().iter().find(|spec| spec.key == key)
}
