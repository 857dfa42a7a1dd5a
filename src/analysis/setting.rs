//! Settings, which can differ between cells: their names, and the order of their levels.

use std::collections::HashMap;
use std::sync::Arc;

use super::circumstances::{COMMIT, DATE, MACHINE};
use crate::plan::{AA_COPY, Factor, GPUS, Key, Level, Tracer, WorkloadSpec, offered_levels, rank_among, workloads};

/// The key of the workload as a setting.
pub const WORKLOAD: &str = "workload";
/// The key of the data set as a setting.
pub const DATA: &str = "data";
/// The key of what tells commands of one name apart, as a setting.
pub const COMMAND: &str = "command";
/// The key of the tracer as a setting.
pub const TRACE: &str = Tracer::KEY;
/// The key of the mode (full or quick) as a setting.
pub const MODE: &str = "mode";
/// The key of the cell's id, which is used if no setting distinguishes cells.
pub const CELL: &str = "cell";
/// The key of the session as a setting, if cells of several sessions are compared.
pub const SESSION: &str = "session";
/// The key of the environment in which the cell's runs were made.
pub const MADE_WITH: &str = "made_with";
/// The keys of all settings that are no factors. A factor of a user's program may have one of them.
pub const SETTINGS: [&str; 11] =
    [SESSION, WORKLOAD, DATA, TRACE, MODE, COMMAND, MADE_WITH, CELL, MACHINE, COMMIT, DATE];

/// The [`setting_name`] of [`MADE_WITH`].
pub(super) const OF_MAKING: &str = "setting_made_with";
/// The [`setting_name`] of [`MODE`].
pub(super) const OF_MODE: &str = "setting_mode";

/// Begins the name of a setting where its key alone means a factor: `setting_cell`.
const OF_SETTING: &str = "setting_";

/// The name that means the setting with this key, also where a factor has the key.
pub fn setting_name(key: &str) -> String {
    format!("{OF_SETTING}{key}")
}

/// The key of the setting that a name made by [`setting_name`] means; any other name as it is.
pub fn setting_key(name: &str) -> &str {
    name.strip_prefix(OF_SETTING).filter(|key| SETTINGS.contains(key)).unwrap_or(name)
}

/// The word that takes the place of "GPUs" for runs on CPUs.
pub(super) const RANKS: &str = "Ranks";

/// Something that can differ between cells: a factor, the workload, the data set, the session, or the cell's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The factor's key, `workload`, `data`, `session`, `command`, `made_with` or `cell`. The key of a setting begins with `setting_` if
    /// a factor has the same key: `setting_cell`.
    pub key: Key,
    /// The name on paper and on screen.
    pub name: Arc<str>,
    /// The unit of its levels; empty for names and counts.
    pub unit: Arc<str>,
    /// Whether it is a factor.
    pub is_factor: bool,
    /// Whether it is a fact about sessions, such as their machine. A factor of a user's program may have the same key.
    pub is_fact: bool,
    /// Whether its named levels are clear without its name.
    pub speaks_for_itself: bool,
    /// The places of the levels that are offered, which decide colours.
    pub offered: Arc<HashMap<Level, usize>>,
    /// The order in which a study puts its levels; other levels follow. Empty if the study states none.
    pub order: Arc<[Level]>,
    /// The indexes of the colours that a study gives to levels.
    pub colours: Arc<[(Level, usize)]>,
}

impl Setting {
    /// A factor of a workload as a setting; a factor that the workload does not know is named by its key.
    pub fn of_factor(workload: &WorkloadSpec, key: &Key) -> Self {
        Self::of_factors(&[workload], &[workload], key)
    }

    /// A factor of several workloads as a setting: the first of `specs` that has it names it, and all workloads of `offering` offer levels.
    pub(super) fn of_factors(specs: &[&WorkloadSpec], offering: &[&WorkloadSpec], key: &Key) -> Self {
        let known = specs.iter().copied().chain(workloads().iter().map(|spec| &**spec));
        let speaks_for_itself = known.filter_map(|spec| spec.factor(key)).any(|factor| factor.speaks_for_itself);
        let setting = match specs.iter().find_map(|spec| spec.factor(key)) {
            Some(Factor { name, unit, .. }) => {
                let offered = offered_levels(key, offering.iter().copied()).into();
                Self { name: name.clone(), unit: unit.clone(), offered, ..Self::without_unit(key, "") }
            }
            None if **key == *AA_COPY => Self::without_unit(key, "A/A copy"),
            None => Self::without_unit(key, &format!("unknown factor {key}")),
        };
        Self { speaks_for_itself, is_factor: true, ..setting }
    }

    /// Whether it is the setting with this key, and no factor that has the same key.
    pub fn is(&self, key: &str) -> bool {
        !self.is_factor && setting_key(&self.key) == key
    }

    /// A setting whose levels are names or counts.
    pub(super) fn without_unit(key: &str, name: &str) -> Self {
        Self {
            key: key.into(),
            name: name.into(),
            unit: "".into(),
            is_factor: false,
            is_fact: false,
            speaks_for_itself: [DATA, SESSION, COMMAND, MADE_WITH, MACHINE, DATE].contains(&key),
            offered: Arc::default(),
            order: Arc::default(),
            colours: Arc::default(),
        }
    }

    /// The index of a level among the offered ones.
    pub fn place(&self, level: &Level) -> Option<usize> {
        self.offered.get(level).copied()
    }
}

/// The level of a setting, in words that are clear without the setting: `fp16`, `4 GPUs`, `4 ranks` (on CPUs), `pin_memory on`.
pub fn level_name(setting: &Setting, level: &Level) -> String {
    let counted = if *setting.name == *RANKS { "rank" } else { "GPU" };
    match level {
        Level::Integer(1) if setting.key == GPUS => format!("1 {counted}"),
        _ if setting.key == GPUS => format!("{level} {counted}s"),
        Level::Text(name) if setting.speaks_for_itself => name.to_string(),
        _ if setting.unit.is_empty() || setting.unit.contains(' ') => format!("{} {level}", setting.name),
        _ => format!("{} {level} {}", setting.name, setting.unit),
    }
}

/// The rank of a cell by its level of a setting: levels in the order of a study first, then cells without a level, then numbers by value,
/// then named levels by their places in the list of known levels, which begins with the default, and then other names.
pub type LevelRank = (usize, Option<(usize, Option<Level>)>);

/// The rank of a cell by its level of a setting.
pub fn level_rank(setting: &Setting, level: Option<Level>) -> LevelRank {
    let by_study = level.as_ref().and_then(|level| setting.order.iter().position(|known| known == level));
    let among = level.map(|level| {
        let place = setting.place(&level);
        rank_among(level, place)
    });
    (by_study.unwrap_or(setting.order.len()), among)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Cell, Levels, cells, fixture, summarise_run, varying};
    use crate::plan::command::factor_of_levels;
    use crate::store::RunRecord;

    #[test]
    fn names_of_settings_mean_their_keys() {
        assert_eq!([OF_MAKING, OF_MODE], [MADE_WITH, MODE].map(setting_name));
        assert!(SETTINGS.iter().all(|key| setting_key(&setting_name(key)) == *key));
    }

    #[test]
    fn a_level_keeps_its_place_whichever_cells_are_shown() {
        let run = |plan: &[&str], level: &str| {
            let levels = plan.iter().copied().map(Level::text).collect::<Vec<_>>();
            let factors = vec![factor_of_levels(&"optimiser".into(), &levels, None)];
            let workload = WorkloadSpec { factors, ..WorkloadSpec::unknown("train") }.into();
            let levels = Levels::new(vec![("optimiser", Level::text(level))]);
            summarise_run(&RunRecord { workload, levels, cell: level.to_owned(), ..fixture::finished() })
        };
        let (first, second) = (["sgd", "lion"], ["lion", "adam"]);
        let runs = [run(&first, "sgd"), run(&first, "lion"), run(&second, "adam")];
        let cells = cells(&runs);
        let places = |cells: &[Cell]| {
            let setting = varying(cells).remove(0);
            ["sgd", "lion", "adam"].map(|level| setting.place(&Level::text(level)))
        };
        assert_eq!(places(&cells), [Some(0), Some(1), Some(2)]);
        let lion_last: Vec<Cell> = cells[1..].iter().rev().cloned().collect();
        assert_eq!(places(&lion_last), [Some(0), Some(1), Some(2)]);
        assert_eq!(places(&[cells[2].clone(), cells[0].clone()]), [Some(0), Some(1), Some(2)]);
    }
}
