//! The measure that a column becomes: its declaration, and how its values are converted.

use super::Problem;
use super::amount::per_second;
use super::columns::{Units, is_unit};
use super::naming::{is_taken_of_measures, measure_key, stem, taken, words};
use super::table::{Field, ForeignTable, Row};
use crate::analysis::Measures;
use crate::plan::{Better, DeclaredMeasure, MeasureUnit};

/// Units that values are converted to.
const BASES: [(&str, &str); 6] =
    [("s", "s"), ("B", "bytes"), ("J", "j"), ("W", "w"), ("B/s", "bytes_per_s"), ("FLOP/s", "flop_per_s")];

/// A column that is a measure.
pub(super) struct MeasureColumn {
    /// Its place in the table.
    pub(super) place: usize,
    /// The declaration of the measure.
    pub(super) declared: DeclaredMeasure,
    /// How many of the measure's unit the unit of the values is; if another column has their units, the first of these.
    factor: f64,
    units: Option<Units>,
    /// The least and the greatest possible value.
    possible: (f64, f64),
}

impl MeasureColumn {
    /// The measure that the column of this place and name becomes, by the unit, the direction and the key of its role. `units` are those of
    /// its values if another column has them.
    ///
    /// # Errors
    /// What is wrong with the key or the unit.
    pub(super) fn of(
        place: usize,
        name: &str,
        (unit, better, key): (&str, Better, Option<&str>),
        units: Option<Units>,
    ) -> Result<Self, String> {
        let unit = units.as_ref().map_or(unit, |units| units.first.as_str());
        let (factor, possible, declared) = measure(name, unit, better, key)?;
        Ok(Self { place, declared, factor, units, possible })
    }

    /// How many of the measure's unit the unit of a row's value is; `None` if the row has no unit.
    pub(super) fn factor(&self, row: &Row) -> Option<f64> {
        let of_first = self.units.as_ref().map_or(Some(1.0), |units| units.factor(row))?;
        Some(self.factor * of_first)
    }

    /// The value of a row in the measure's unit, if the row has one.
    ///
    /// # Errors
    /// What is wrong with the value, and what to do.
    pub(super) fn value(&self, row: &Row) -> Result<Option<f64>, String> {
        let (number, text) = match &row.fields[self.place] {
            Field::Missing => return Ok(None),
            Field::Number(number, text) => (number, text),
            other => return Err(no_number(other)),
        };
        let Some(factor) = self.factor(row) else {
            return Err(format!("the row has no unit for {text}: add the unit, or leave the value out"));
        };
        let value = number * factor;
        let (least, most) = self.possible;
        if value.is_finite() && (least..=most).contains(&value) {
            return Ok(Some(value));
        }
        Err(format!("{text} is impossible for {}: check the unit of the column", self.declared.name.to_lowercase()))
    }
}

/// What is wrong with a value where a number is expected.
fn no_number(field: &Field) -> String {
    let text = field.text();
    match text.to_lowercase().trim_start_matches(['-', '+']) {
        "nan" | "inf" | "infinity" => {
            format!("{text} is no number that can be summarised: leave the value or the row out")
        }
        _ => {
            let advice = field.advice().unwrap_or("correct it, or let the column be a factor or skip");
            format!("{text:?} where a number is expected: {advice}")
        }
    }
}

/// The problem of a table in which no column is a measure: at the first text that readers take for a number, if there is one.
pub(super) fn no_measure(table: &ForeignTable) -> Problem {
    let values = table.rows.iter().flat_map(|row| table.columns.iter().zip(&row.fields).map(move |cell| (row, cell)));
    let mut readable = values.filter_map(|(row, (column, field))| Some((row, column, field, field.advice()?)));
    match readable.next() {
        Some((row, column, field, advice)) => {
            let what = format!("no column is a measure, and {:?} is no number: {advice}", field.text());
            Problem::at(&row.place, column, what)
        }
        None => Problem::of_file(
            "no column is a measure: say which one is, with its unit, such as --set \"COLUMN=measure s lower\"",
        ),
    }
}

/// The factor that converts a column's values to the unit of its measure, the possible values, and the declaration of
/// the measure.
fn measure(
    name: &str,
    unit: &str,
    better: Better,
    key: Option<&str>,
) -> Result<(f64, (f64, f64), DeclaredMeasure), String> {
    let read = MeasureUnit::parse(unit);
    let base = BASES.iter().find(|(base, _)| is_unit(unit) && read.is_like(&MeasureUnit::parse(base)));
    let stem = stem(name);
    let own = || match base {
        Some((_, ending)) => measure_key(&format!("{stem}_{ending}")),
        None => measure_key(&stem),
    };
    let key = key.map_or_else(own, str::to_owned);
    let known = Measures::built_in().iter().find(|measure| *measure.key == *key);
    if known.is_none() && is_taken_of_measures(&key) {
        return Err(taken(&key));
    }
    let rate = per_second(unit).map(|(counted, factor)| (format!("{counted}/s"), factor));
    let (factor, shown, title) = match (known, base) {
        (Some(known), _) if unit.is_empty() => (1.0, known.unit.as_str(), known.name.clone()),
        (Some(known), _) => {
            let own = MeasureUnit::parse(&known.unit);
            if !own.is_like(&read) {
                let of_known = if known.unit.is_empty() { "has no unit" } else { known.unit.as_str() };
                return Err(format!(
                    "{key} is the measure {:?} ({of_known}), and {unit} is no such unit: give another key with \"… as KEY\"",
                    known.name
                ));
            }
            (read.factor / own.factor, known.unit.as_str(), known.name.clone())
        }
        (None, Some((base, _))) => (read.factor / MeasureUnit::parse(base).factor, *base, words(&stem)),
        (None, None) => match &rate {
            Some((unit, factor)) => (*factor, unit.as_str(), words(&stem)),
            None => (1.0, unit, words(&stem)),
        },
    };
    let is_rate = shown.ends_with("/s");
    let declared = DeclaredMeasure {
        key: key.as_str().into(),
        name: title.as_str().into(),
        unit: shown.into(),
        better,
        // Seconds of which few are not known to be good measure no speed.
        on_speed: shown == "s" && better == Better::Lower || is_rate,
        ..DeclaredMeasure::default()
    };
    let least = if is_rate || ["s", "B", "J"].contains(&shown) { 0.0 } else { f64::MIN };
    Ok((factor, known.map_or((least, f64::MAX), |known| known.possible), declared))
}
