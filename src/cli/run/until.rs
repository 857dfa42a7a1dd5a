//! `--until`: adds repeats until the training time of each cell is known as precisely as was asked.

use std::collections::HashMap;
use std::error::Error;
use std::sync::atomic::AtomicBool;

use super::Site;
use crate::analysis::{counted, finished_without_time, next_repeats, relative_precision, repeats_of};
use crate::cli::follow::{Following, Outcomes};
use crate::cli::material::Material;
use crate::cli::percent::share;
use crate::cli::say;
use crate::conduct::Launch;
use crate::plan::{Identity, Matrix, Plan};
use crate::session::open_reader;
use crate::store::{held_cells, repeated_text};

/// The condition under which a cell has enough repeats.
pub(super) struct Until {
    pub precision: f64,
    pub most_repeats: u32,
}

/// Adds repeats to the cells whose training time is not known precisely enough; `None` if it was interrupted. A cell whose finished runs
/// have no training time gets none.
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
        let mut next: HashMap<Identity, u32> = HashMap::new();
        for cell in &matrix.cells {
            if let Some(count) = finished_without_time(&runs, &cell.identity) {
                say_unknown(&cell.id, count);
                continue;
            }
            let repeats = repeats_of(&runs, &cell.identity);
            let grew = before.insert(cell.identity, repeats.len()) != Some(repeats.len());
            let wanted = next_repeats(&repeats, until.precision).map(|wanted| wanted.min(until.most_repeats));
            if let Some(wanted) = wanted.filter(|wanted| grew && *wanted as usize > repeats.len()) {
                next.insert(cell.identity, wanted);
            } else {
                say_known(&cell.id, &repeats, until.precision);
            }
        }
        let Some(most) = next.values().copied().max() else { return Ok(Some(outcomes)) };
        let held = held_cells(&reader.headings()?);
        let repeated: usize = next.keys().filter_map(|cell| held.get(cell)).map(|held| held.missing(most).1).sum();
        let more = Plan { repeats: most, ..plan.clone() };
        let launch = Launch::new(&more, &site.start, true).of_named_file().of_cells(next.keys().copied().collect());
        let Some(added) = site.launch(following, &launch, interrupted)? else { return Ok(None) };
        let (runs, cells) = (counted(added.runs.len(), "more run"), counted(next.len(), "cell"));
        say(format_args!("{runs} of {cells}{}", repeated_text(repeated)));
        let Some(more) = site.until_ended(following, &added.runs, interrupted)? else { return Ok(None) };
        outcomes.add(&more);
        if added.runs.is_empty() {
            return Ok(Some(outcomes));
        }
    }
}

fn say_unknown(cell: &str, finished: usize) {
    let n = counted(finished, "repeat");
    say(format_args!(
        "{cell}: no training time is known after {n}, so no repeats are added: it is computed from steps after the warm-up, which a program \
         has to report (multicard help readings)"
    ));
}

fn say_known(cell: &str, repeats: &[f64], precision: f64) {
    let (n, requested) = (counted(repeats.len(), "repeat"), precision * 100.0);
    match relative_precision(repeats) {
        Some(reached) if reached <= precision => {
            say(format_args!("{cell}: training time known to ±{:.2} % after {n}", reached * 100.0));
        }
        Some(reached) => {
            say(format_args!(
                "{cell}: training time known to ±{:.2} % after {n}; ±{requested} % was asked for",
                reached * 100.0
            ));
        }
        None => {
            say(format_args!(
                "{cell}: {n}: too few for an interval of the training time; ±{requested} % was asked for"
            ));
        }
    }
}

/// How precisely a training time is to be known.
pub(super) fn precision(text: &str) -> Result<f64, String> {
    share(text, 0.01..=50.0, "from 0.01 to 50, such as 1%")
}
