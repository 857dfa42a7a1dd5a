//! `--until`: adds repeats until the training time of each cell is known as precisely as was asked.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::sync::atomic::AtomicBool;

use super::Site;
use crate::analysis::{
    AlikeRuns, alike_runs, are_without_time, counted, next_repeats, relative_precision, training_times,
};
use crate::cli::follow::{Following, Outcomes};
use crate::cli::material::Material;
use crate::cli::percent::share;
use crate::cli::say;
use crate::conduct::Launch;
use crate::plan::{Identity, MAX_REPEATS, Matrix, Plan, RunState};
use crate::session::open_reader;
use crate::store::{HeldCell, held_cells, repeated_text};

/// The condition under which a cell has enough repeats.
pub(super) struct Until {
    pub precision: f64,
    pub most_repeats: u32,
}

/// Adds repeats to the cells whose training time is not known precisely enough; `None` if it was interrupted. A cell whose finished runs
/// have no training time gets none. Only repeats of the newest one's program count (see [`alike_runs`]).
pub(super) fn run_until(
    following: &mut Following,
    plan: &Plan,
    matrix: &Matrix,
    site: &mut Site<'_>,
    until: &Until,
    interrupted: &AtomicBool,
) -> Result<Option<Outcomes>, Box<dyn Error>> {
    let mut outcomes = Outcomes::default();
    // A cell whose runs fail gets no further.
    let mut before: HashMap<Identity, usize> = HashMap::new();
    loop {
        let reader = open_reader(following.folder())?;
        let Material { runs, .. } = Material::of(&reader, following.folder())?;
        // Runs that wait belong to an earlier launch, since those of the last one have ended: the next launch starts or replaces them.
        let mut headings = reader.headings()?;
        headings.retain(|run| run.state != RunState::Queued);
        let (alike, held) = (alike_runs(&runs), held_cells(&headings));
        // The last repeat that a launch has to ask for, for each cell. Cells share a launch if that number exceeds the wanted repeats by the
        // same number in all of them: then none of them gets more repeats than were wanted for one of them.
        let mut next: BTreeMap<i64, HashMap<Identity, u32>> = BTreeMap::new();
        for cell in &matrix.cells {
            let none = AlikeRuns::default();
            let made = alike.get(&cell.identity).unwrap_or(&none);
            if are_without_time(made) {
                say_unknown(&cell.id, made.runs.len());
                continue;
            }
            let repeats = training_times(made);
            let grew = before.insert(cell.identity, repeats.len()) != Some(repeats.len());
            let most = until.most_repeats.min(MAX_REPEATS.saturating_sub(made.others));
            let wanted = next_repeats(&repeats, until.precision).filter(|_| grew).map(|wanted| wanted.min(most));
            let last = wanted.and_then(|wanted| last_repeat(held.get(&cell.identity), made.others, wanted));
            if let (Some(wanted), Some(last)) = (wanted, last) {
                next.entry(i64::from(last) - i64::from(wanted)).or_default().insert(cell.identity, last);
            } else {
                say_known(&cell.id, &repeats, made.others, until.precision);
            }
        }
        if next.is_empty() {
            return Ok(Some(outcomes));
        }
        let (mut added, mut repeated) = (Vec::new(), 0);
        for last in next.values() {
            let most = last.values().max().copied().unwrap_or(0);
            repeated += last.keys().filter_map(|cell| held.get(cell)).map(|held| held.missing(most).1).sum::<usize>();
            let more = Plan { repeats: most, ..plan.clone() };
            let cells = last.keys().copied().collect();
            let launch = Launch::new(&more, &site.start, true).of_named_file().of_cells(cells);
            let Some(launched) = site.launch(following, &launch, interrupted)? else { return Ok(None) };
            added.extend(launched.runs);
            // Each launch shows only its own runs, and an interrupt stops only runs that are shown.
            following.show_too(&added);
        }
        let cells: usize = next.values().map(HashMap::len).sum();
        let (runs, cells) = (counted(added.len(), "more run"), counted(cells, "cell"));
        say(format_args!("{runs} of {cells}{}", repeated_text(repeated)));
        let Some(more) = site.until_ended(following, &added, interrupted)? else { return Ok(None) };
        outcomes.add(&more);
        if added.is_empty() {
            return Ok(Some(outcomes));
        }
    }
}

/// The last repeat that a launch has to ask for so that `wanted` repeats of a cell count, beside the `others`, which do not. `None` if the cell
/// has these repeats already: they have finished or may still finish.
///
/// The numbers of its repeats may have gaps: a launch numbers the repeats of a new cell after those of the plan's other cells.
fn last_repeat(held: Option<&HeldCell>, others: u32, wanted: u32) -> Option<u32> {
    let none = HeldCell::default();
    let held = held.unwrap_or(&none);
    let missing = ((others + wanted) as usize).saturating_sub(held.repeats.len());
    (missing > 0).then(|| held.repeats_that_queue(missing))
}

fn say_unknown(cell: &str, finished: usize) {
    let n = counted(finished, "repeat");
    say(format_args!(
        "{cell}: no training time is known after {n}, so no repeats are added: it is computed from steps after the warm-up, which a program \
         has to report (multicard help readings)"
    ));
}

fn say_known(cell: &str, repeats: &[f64], others: u32, precision: f64) {
    let (n, requested) = (counted(repeats.len(), "repeat"), precision * 100.0);
    let others = others_text(others);
    let reached = relative_precision(repeats);
    let known = match reached {
        Some(reached) => format!("training time known to ±{:.2} % after {n}", reached * 100.0),
        None => format!("{n}: too few for an interval of the training time"),
    };
    let missed = match reached {
        Some(reached) if reached <= precision => String::new(),
        _ => format!("; ±{requested} % was asked for"),
    };
    say(format_args!("{cell}: {known}{missed}{others}"));
}

/// The end of a sentence about a cell, `others` of whose repeats were made with another version of its program (see [`alike_runs`]); empty if
/// none were.
fn others_text(others: u32) -> String {
    if others == 0 {
        return String::new();
    }
    let repeats = counted(others, "repeat");
    format!(
        "; not counted: {repeats} of another version of the program (its files, commit, container, Python or packages)"
    )
}

/// How precisely a training time is to be known.
pub(super) fn precision(text: &str) -> Result<f64, String> {
    share(text, 0.01..=50.0, "from 0.01 to 50, such as 1%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_of_another_version_of_the_program_are_counted_and_what_makes_a_version_is_named() {
        let version = "of another version of the program (its files, commit, container, Python or packages)";
        let expected = [
            String::new(),
            format!("; not counted: 1 repeat {version}"),
            format!("; not counted: 3 repeats {version}"),
        ];
        assert_eq!([0, 1, 3].map(others_text), expected);
    }

    #[test]
    fn a_cell_whose_repeats_began_with_the_fourth_gets_as_many_as_one_whose_repeats_began_with_the_first() {
        let last = |repeats: &[u32], others: u32, wanted: u32| {
            let held = HeldCell { repeats: repeats.to_vec(), ..HeldCell::default() };
            last_repeat(Some(&held), others, wanted)
        };
        assert_eq!((last(&[1], 0, 3), last(&[4], 0, 3)), (Some(3), Some(2)));
        assert_eq!((last(&[1, 2, 3, 4], 3, 3), last(&[4, 5, 6, 7], 3, 3)), (Some(6), Some(2)));
        assert_eq!((last(&[1, 2, 3], 0, 3), last(&[4, 5, 6], 0, 3)), (None, None), "it has as many");
        assert_eq!(last_repeat(None, 0, 6), Some(6));
    }
}
