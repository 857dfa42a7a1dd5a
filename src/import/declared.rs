//! The measure that a column becomes: its declaration, and how its values are converted.

use super::amount::per_second;
use super::columns::is_unit;
use super::naming::{is_taken_of_measures, measure_key, stem, taken, words};
use crate::analysis::Measures;
use crate::plan::{Better, DeclaredMeasure, MeasureUnit};

/// Units that values are converted to.
const BASES: [(&str, &str); 6] =
    [("s", "s"), ("B", "bytes"), ("J", "j"), ("W", "w"), ("B/s", "bytes_per_s"), ("FLOP/s", "flop_per_s")];

/// The factor that converts a column's values to the unit of its measure, the possible values, and the declaration of
/// the measure.
pub(super) fn measure(
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
