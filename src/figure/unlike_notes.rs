//! Notes on runs that are not alike, because their plans say other things about what is measured: units, and the warm-up.

use super::baseline::Baseline;
use super::ratio::finished;
use super::study::{Form, OF_STEPS, RATIO, SPEEDUP, STEP_COST, Study, VERDICT};
use super::table::Column;
use crate::analysis::{Cell, LeftOut, THROUGHPUT, counted, measure_of};

/// The notes on the shown cells, as far as they concern the columns.
pub(super) fn unlike_notes(cells: &[Cell], columns: &[Column], baseline: &Baseline) -> Vec<String> {
    let of_columns = columns.iter().flat_map(|column| [refused(cells, column), in_other_units(cells, column)]);
    of_columns.chain([warm_ups(cells, columns, baseline)]).flatten().collect()
}

/// A unit in a sentence.
fn named(unit: &str) -> &str {
    if unit.is_empty() { "none" } else { unit }
}

/// The note on runs whose values are left out of a column, because their unit cannot be converted.
fn refused(cells: &[Cell], column: &Column) -> Option<String> {
    let known = cells.iter().filter_map(|cell| Some((cell, cell.measure(&column.key)?)));
    let unlike = known.flat_map(|(cell, measure)| {
        finished(cell).filter_map(move |run| Some((run.unlike_unit(measure)?, measure.unit.as_str())))
    });
    let unlike: Vec<(&str, &str)> = unlike.collect();
    let (unit, others) = unlike.first()?;
    let (have, their) = if unlike.len() == 1 { ("has", "its") } else { ("have", "their") };
    Some(format!(
        "{} {have} no {} here: {their} unit is {}, which cannot be converted to {}, the unit of the others",
        counted(unlike.len(), "run"),
        column.name.to_lowercase(),
        named(unit),
        named(others)
    ))
}

/// The note on cells of other workloads whose values in a column are in another unit than its heading says.
fn in_other_units(cells: &[Cell], column: &Column) -> Option<String> {
    let measure = measure_of(cells, &column.key)?;
    let of_cells = cells.iter().filter_map(|cell| cell.measure(&column.key));
    let others: Vec<&str> =
        of_cells.filter(|own| own.factor_to(measure).is_none()).map(|own| own.unit.as_str()).collect();
    let name = column.name.to_lowercase();
    let cells = counted(others.len(), "cell");
    others.first().map(|unit| format!("{name}: its unit is {} in {cells} of other workloads", named(unit)))
}

/// The note on runs that leave out different warm-ups, if a column is of the other steps.
fn warm_ups(cells: &[Cell], columns: &[Column], baseline: &Baseline) -> Option<String> {
    let [least, most] = differing_warm_ups(cells, columns.iter().map(|column| &*column.key), baseline)?;
    let mixed = cells.iter().filter(|cell| LeftOut::differing(left_out(cell)).is_some()).count();
    let within =
        if mixed > 0 { format!(", also among the repeats of {}", counted(mixed, "cell")) } else { String::new() };
    Some(format!(
        "warm-ups differ: runs leave out {least} to {}{within}, so that their times are of different steps; run them again with the same \
         measure.warm_up_steps, in a new session",
        counted(most as usize, "step")
    ))
}

/// The sentence in a study's pictures about runs that leave out different warm-ups, if a picture shows a measure of the other steps.
pub(super) fn warm_up_caution(study: &Study, cells: &[Cell], baseline: &Baseline) -> Option<String> {
    let keys = match study.form {
        Form::Parts | Form::Roofline => vec![OF_STEPS],
        Form::Scatter => vec![study.shown_measure(), study.shown_across()],
        form if form.has_measure() => vec![study.shown_measure()],
        _ => Vec::new(),
    };
    let [least, most] = differing_warm_ups(cells, keys.into_iter(), baseline)?;
    let steps = counted(most as usize, "step");
    Some(format!("Warm-ups differ: runs leave out {least} to {steps}, so that their times are of different steps."))
}

/// The least and the most steps that runs leave out because their plans ask for different warm-ups; `None` if they ask for the same one, and
/// if none of the measures with these keys is of the other steps.
fn differing_warm_ups<'k>(
    cells: &[Cell],
    mut keys: impl Iterator<Item = &'k str>,
    baseline: &Baseline,
) -> Option<[u64; 2]> {
    let shown = |key: &str| match key {
        SPEEDUP => measure_of(cells, THROUGHPUT),
        STEP_COST => measure_of(cells, OF_STEPS),
        RATIO | VERDICT => measure_of(cells, &baseline.ratio_of),
        key => measure_of(cells, key),
    };
    keys.any(|key| shown(key).is_some_and(|measure| measure.is_of_steady_steps)).then_some(())?;
    LeftOut::differing(cells.iter().flat_map(left_out))
}

/// The warm-ups of a cell's finished runs.
fn left_out(cell: &Cell) -> Vec<LeftOut> {
    finished(cell).filter_map(|run| run.warm_up).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use crate::analysis::{Measure, Measures, RunSummary, Source, fixture, summarise_run};
    use crate::figure::{Form, Study, figure, preset};
    use crate::plan::WarmUp;

    /// The notes of a table of one measure that contain a text.
    fn notes(runs: &[RunSummary], measure: &str, text: &str) -> Vec<String> {
        let study = Study { measures: vec![measure.into()], ..preset("memory").unwrap() };
        let table = crate::figure::table(&[Source { session: "", runs, reports: &[] }], &study);
        let of_all = table.notes.into_iter().filter(|note| note.contains(text)).collect::<Vec<_>>();
        assert!(of_all.iter().all(|note| table.lead.contains(note)), "{of_all:?}");
        of_all
    }

    fn run(repeat: u32) -> RunSummary {
        summarise_run(&fixture::run(&fixture::cell("fp32", 1, "single"), repeat, 0.1))
    }

    #[test]
    fn a_table_names_the_measure_and_both_units_where_values_are_left_out() {
        let of_unit = |repeat: u32, unit: &str| {
            let mut run = run(repeat);
            let declared = Measure { unit: unit.to_owned(), ..Measure::new("lat") };
            run.measures = Arc::new(Measures::clone(&run.measures).with([declared]));
            run.values.insert("lat".into(), 12.5);
            run
        };
        let units = |units: [&str; 3]| -> Vec<RunSummary> {
            units.into_iter().zip(1..).map(|(unit, repeat)| of_unit(repeat, unit)).collect()
        };
        let expected =
            "2 runs have no lat here: their unit is tokens, which cannot be converted to ms, the unit of the others";
        assert_eq!(notes(&units(["ms", "tokens", "tokens"]), "lat", "unit is"), [expected]);
        let of_one = notes(&units(["ms", "ms", "tokens"]), "lat", "unit is");
        assert!(
            matches!(&of_one[..], [only] if only.starts_with("1 run has no lat here: its unit is tokens, ")),
            "{of_one:?}"
        );
        assert_eq!(notes(&units(["ms", "us", "s"]), "lat", "unit is"), [""; 0]);
    }

    /// A run whose plan asks for a warm-up of this number of steps.
    fn of_warm_up(repeat: u32, steps: u64) -> RunSummary {
        let mut record = fixture::run(&fixture::cell("fp32", 1, "single"), repeat, 0.1);
        record.warm_up = Some(WarmUp::Steps(steps));
        record.ranks[0].steps.iter_mut().for_each(|step| step.warm_up = step.step <= steps);
        summarise_run(&record)
    }

    #[test]
    fn a_picture_of_steps_says_where_runs_leave_out_other_warm_ups() {
        let texts = |runs: &[RunSummary], form: Form, measure: &str| -> Vec<String> {
            let study = Study { form, measure: Some(measure.into()), ..Study::default() };
            let drawn = figure(&[Source { session: "", runs, reports: &[] }], &study).unwrap();
            let texts = drawn.scene().texts().map(|text| text.text.clone()).collect::<Vec<_>>();
            texts.into_iter().filter(|text| text.contains("Warm-ups differ: ")).collect()
        };
        let runs = [of_warm_up(1, 0), of_warm_up(2, 6)];
        for form in [Form::Bars, Form::Repeats, Form::Parts] {
            let found = texts(&runs, form, "step_time_s");
            assert!(matches!(&found[..], [only] if only.contains("leave out 0 to 6 steps")), "{form:?} {found:?}");
        }
        assert_eq!(texts(&runs, Form::Bars, "peak_allocated_bytes"), [""; 0]);
        assert_eq!(texts(&[of_warm_up(1, 6), of_warm_up(2, 6)], Form::Bars, "step_time_s"), [""; 0]);
    }

    #[test]
    fn a_table_of_steps_says_where_runs_leave_out_other_warm_ups() {
        let runs = [of_warm_up(1, 0), of_warm_up(2, 6)];
        let expected = "warm-ups differ: runs leave out 0 to 6 steps, also among the repeats of 1 cell";
        let found = notes(&runs, "step_time_s", "warm-ups");
        assert!(matches!(&found[..], [only] if only.starts_with(expected)), "{found:?}");
        assert_eq!(notes(&runs, "peak_allocated_bytes", "warm-ups"), [""; 0]);
        assert_eq!(notes(&[of_warm_up(1, 6), of_warm_up(2, 6)], "step_time_s", "warm-ups"), [""; 0]);
    }
}
