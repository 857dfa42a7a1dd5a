//! What colours stand for: the looks of series, and the looks and the order of lines that are drawn for single runs.

use std::collections::{BTreeSet, HashMap};

use super::arrange::drop_repeated_data;
use super::{Scene, SettingLevels, setting_levels};
use crate::analysis::{CELL, COMMAND, Cell, DATA, Level, LevelRank, SESSION, Setting, level_rank, varying};
use crate::figure::chart::Look;
use crate::figure::study::{Place, Study};
use crate::plan::places_of;

/// What the colours of a picture stand for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Colours {
    setting: Option<Setting>,
    /// The places of its levels, if these have no looks of their own.
    places: HashMap<Level, usize>,
}

impl Colours {
    /// The colours of a setting that has these levels, whether they are shown or not.
    fn new(setting: Option<Setting>, levels: impl IntoIterator<Item = Level>) -> Self {
        let has_places = setting.as_ref().is_some_and(|setting| !has_own_looks(setting));
        let places =
            if has_places { places_of(levels.into_iter().collect::<BTreeSet<Level>>()) } else { HashMap::new() };
        Self { setting, places }
    }

    /// The colours of a setting among all cells.
    pub(super) fn among(setting: Option<Setting>, all: &[Cell]) -> Self {
        let key = setting.as_ref().map(|setting| setting.key.clone());
        Self::new(setting, all.iter().filter_map(|cell| cell.level(key.as_ref()?)))
    }

    /// The look of a series by its level of the setting.
    pub(super) fn look(&self, level: impl FnOnce(&str) -> Option<Level>) -> Look {
        let Some(setting) = &self.setting else { return Look::Place(4) };
        let Some(level) = level(&setting.key) else { return Look::Grey };
        if has_own_looks(setting) {
            return Look::of_level(setting, &level);
        }
        Look::Place(self.places.get(&level).copied().unwrap_or(0))
    }
}

/// Whether the levels of a setting have the same looks in every figure.
fn has_own_looks(setting: &Setting) -> bool {
    !setting.is_fact && ![SESSION, DATA, COMMAND, CELL].into_iter().any(|key| setting.is(key))
}

impl Scene<'_> {
    /// The look of a cell's series.
    pub(super) fn look(&self, cell: &Cell) -> Look {
        self.colours.look(|key| cell.level(key))
    }
}

/// The settings that tell lines of these cells apart. By default, the first one is shown by colours, as in the form `loss`.
pub fn settings_of_lines(cells: &[Cell]) -> Vec<SettingLevels> {
    let mut settings = varying(cells);
    settings.retain(|setting| !setting.is(CELL));
    drop_repeated_data(&mut settings, cells);
    settings.into_iter().map(|setting| setting_levels(cells, setting)).collect()
}

/// The looks and the order of lines that are drawn for single runs: those that the form `loss` gives to the runs' cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineLooks {
    /// The settings in which the runs differ.
    settings: Vec<Setting>,
    colours: Colours,
}

impl LineLooks {
    /// As a study arranges these settings; see [`settings_of_lines`].
    pub fn new(study: &Study, settings: &[SettingLevels]) -> Self {
        let coloured = match &study.colour {
            Place::Auto => settings.first(),
            Place::Nothing => None,
            Place::Setting(key) => settings.iter().find(|one| one.setting.key == *key),
        };
        let levels = coloured.into_iter().flat_map(|one| &one.levels).map(|(level, _)| level.clone());
        let colours = Colours::new(coloured.map(|one| study.own(one.setting.clone())), levels);
        Self { settings: settings.iter().map(|one| study.own(one.setting.clone())).collect(), colours }
    }

    /// The look of a run with these levels; `None` if colours show no setting.
    pub fn look(&self, level: impl FnOnce(&str) -> Option<Level>) -> Option<Look> {
        self.colours.setting.is_some().then(|| self.colours.look(level))
    }

    /// Where a run with these levels stands among others.
    pub fn rank(&self, level: impl Fn(&str) -> Option<Level>) -> Vec<LevelRank> {
        self.settings.iter().map(|setting| level_rank(setting, level(&setting.key))).collect()
    }
}
