//! Columns that have the units of other columns' values, such as `time_unit` in results of Google Benchmark.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Mapping, better, has_one_of, unit_of};
use crate::import::amount::plain;
use crate::import::table::{Field, ForeignTable, Row};
use crate::import::{Problem, Role};
use crate::plan::MeasureUnit;

/// Why a column of different units has no role yet: only the user knows which values have these units, and whether they can be compared.
pub(in crate::import) const MAY_MIX: &str = "it has different units, of several quantities or of unknown columns";

/// The units that a column has for the values of a measure.
#[derive(Clone)]
pub(in crate::import) struct Units {
    /// The place of the column.
    place: usize,
    /// The first unit.
    pub first: String,
    /// How many of the first unit each text of the column is.
    factors: HashMap<String, f64>,
}

/// Gives columns of units their role, and their measures the direction that follows from the unit. A column is one by its name, if all of
/// its values are units of one quantity and its name tells which measures are meant.
pub(super) fn deduce(table: &ForeignTable, columns: &mut [(String, Role, String)]) {
    for place in 0..columns.len() {
        let (name, role, _) = &columns[place];
        let Some(stem) = stem(name).filter(|_| matches!(role, Role::Factor { .. })) else { continue };
        let Some(units) = units_in(table, place) else { continue };
        let measures = measures_of(columns, place);
        let is_clear = if stem.is_empty() { measures.len() == 1 } else { !measures.is_empty() };
        let parsed: Vec<MeasureUnit> = units.iter().map(|unit| MeasureUnit::parse(unit)).collect();
        if is_clear && parsed.iter().all(|unit| unit.is_like(&parsed[0])) {
            for measure in &measures {
                let better = better(&columns[*measure].0, &units[0]);
                columns[*measure].1 = Role::Measure { unit: String::new(), better, key: None };
            }
            let names: Vec<&str> = measures.iter().map(|measure| columns[*measure].0.as_str()).collect();
            columns[place].2 = format!("units of {}", names.join(", "));
            columns[place].1 = Role::Unit;
        } else if parsed.iter().any(|unit| *unit != parsed[0]) {
            (columns[place].1, columns[place].2) = (Role::Skip, MAY_MIX.to_owned());
        }
    }
}

/// What the name of a column of units has before the word unit: `time` for `time_unit`. `None` if the name does not end with this word.
fn stem(name: &str) -> Option<String> {
    let plain = plain(name);
    let stem = plain.strip_suffix("units").or_else(|| plain.strip_suffix("unit"))?;
    (stem.is_empty() || stem.ends_with('_')).then(|| stem.trim_end_matches('_').to_owned())
}

/// The units in a column, the first one first; `None` if it has no values, or others.
fn units_in(table: &ForeignTable, place: usize) -> Option<Vec<String>> {
    let mut seen = BTreeSet::new();
    let values = table.values(place).filter(|field| **field != Field::Missing && seen.insert(field.text()));
    let units: Vec<String> = values.map(unit).collect::<Option<_>>()?;
    (!units.is_empty()).then_some(units)
}

/// The unit that a value names.
fn unit(field: &Field) -> Option<String> {
    let Field::Text(text) = field else { return None };
    // With the same words as in the names of columns.
    unit_of(&format!("x ({text})")).filter(|unit| !unit.is_empty())
}

/// The places of the measures whose units are in a column: those without a unit of their own whose names contain what its name has before
/// the word unit.
fn measures_of(columns: &[(String, Role, String)], place: usize) -> Vec<usize> {
    let stem = stem(&columns[place].0).unwrap_or_default();
    let is_meant = |(name, role, _): &(String, Role, String)| {
        matches!(role, Role::Measure { unit, .. } if unit.is_empty())
            && (stem.is_empty() || has_one_of(name, &[stem.as_str()]))
    };
    (0..columns.len()).filter(|measure| is_meant(&columns[*measure])).collect()
}

impl Units {
    /// The units of each measure that has them in another column, by the place of the measure.
    ///
    /// # Errors
    /// A column of units has other values, units of several quantities, or the units of no measure or of one that another column has them
    /// for.
    pub fn of_measures(table: &ForeignTable, mapping: &Mapping) -> Result<BTreeMap<usize, Self>, Problem> {
        let mut found = BTreeMap::new();
        for (place, (name, role, _)) in mapping.columns.iter().enumerate() {
            if *role != Role::Unit {
                continue;
            }
            let measures = measures_of(&mapping.columns, place);
            if measures.is_empty() {
                let what = "it has the units of no column: those of a measure without a unit whose name contains the words \
                            before “unit” are meant; let it be skip or factor, or rename it";
                return Err(Problem::at("", name, what));
            }
            let units = Self::of(table, place)?;
            for measure in measures {
                if found.insert(measure, units.clone()).is_some() {
                    let what = format!(
                        "another column has the units of {:?}, too: one of both is skip",
                        table.columns[measure]
                    );
                    return Err(Problem::at("", name, what));
                }
            }
        }
        Ok(found)
    }

    /// The units in a column.
    fn of(table: &ForeignTable, place: usize) -> Result<Self, Problem> {
        let mut units = Self { place, first: String::new(), factors: HashMap::new() };
        let mut first: Option<MeasureUnit> = None;
        for row in table.rows.iter().filter(|row| row.fields[place] != Field::Missing) {
            let text = row.fields[place].text();
            if units.factors.contains_key(text) {
                continue;
            }
            let refused = |what: String| Problem::at(&row.place, &table.columns[place], what);
            let Some(unit) = unit(&row.fields[place]) else {
                return Err(refused(format!("{text:?} is no known unit: write a unit such as ns, s, MB or ops/s")));
            };
            let parsed = MeasureUnit::parse(&unit);
            let first = first.get_or_insert_with(|| {
                units.first.clone_from(&unit);
                parsed.clone()
            });
            if !parsed.is_like(first) {
                let what = format!(
                    "{text} and {} are units of different quantities: import their rows from separate files",
                    units.first
                );
                return Err(refused(what));
            }
            units.factors.insert(text.to_owned(), parsed.factor / first.factor);
        }
        Ok(units)
    }

    /// How many of the first unit the unit of a row is; `None` if the row has none.
    pub fn factor(&self, row: &Row) -> Option<f64> {
        self.factors.get(row.fields[self.place].text()).copied()
    }
}

/// The problem of a column with the reason [`MAY_MIX`].
pub(in crate::import) fn may_mix(name: &str) -> String {
    format!(
        "{MAY_MIX}, and values in different units must not be compared: add --set \"{name}=unit\" if it has the units of measures that \
         have none of their own, or --set \"{name}=factor\" if runs differ in it; otherwise import the rows of each unit from a file of \
         their own"
    )
}

#[cfg(test)]
#[path = "units_tests.rs"]
mod tests;
