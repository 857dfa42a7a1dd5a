//! The screen's orders on the session, with the orders that undo them.

use super::Move;
use crate::app::desk::{Deed, Desk, Inverse, Row};
use crate::app::words::runs_text;
use crate::conduct::Order;
use crate::plan::RunState;

/// `Run 17 (fp16 · size 2)`.
fn named(desk: &Desk, run: &str) -> String {
    let row = desk.runs.row(run);
    let number = row.map_or(run, |row| &row.number);
    match row.filter(|row| !row.cells.is_empty()) {
        Some(row) => format!("Run {number} ({})", row.name),
        None => format!("Run {number}"),
    }
}

/// Removes a queued run from the queue.
pub fn take_out(run: String, desk: &mut Desk) {
    let what = format!("{} was taken out of the queue", named(desk, &run));
    let inverse = vec![Inverse::Order(Order::Revive(run.clone()))];
    desk.order_to_undo(Deed { what, orders: vec![Order::Cancel(run)], inverse });
}

/// If a run had started when it was taken out of the queue, it was stopped, and no undo puts it back. Returns whether that was so.
pub fn correct_taken_out(run: &str, desk: &mut Desk) -> bool {
    let had_started = |row: &Row| row.state.is_active() || (row.state.is_final() && row.started_time_s.is_some());
    let has_started = desk.runs.row(run).is_some_and(had_started);
    if has_started {
        let text = format!("{} had started and was cancelled.", named(desk, run));
        desk.withdraw(&Order::Cancel(run.to_owned()), text);
    }
    has_started
}

/// Cancels all runs; undo restores the waiting ones.
pub fn cancel_all(desk: &mut Desk) {
    let open: Vec<&Row> = desk.runs.rows.iter().filter(|row| row.ours && !row.state.is_final()).collect();
    let (waiting, started): (Vec<&Row>, Vec<&Row>) = open.into_iter().partition(|row| row.state == RunState::Queued);
    if waiting.is_empty() {
        return desk.order(Order::CancelAll);
    }
    let mut what = format!("{} taken out of the queue", runs_text(waiting.len()));
    let mut inverse: Vec<Inverse> = waiting.iter().map(|row| Inverse::Order(Order::Revive(row.run.clone()))).collect();
    let stays = match &started[..] {
        [] => None,
        [one] => Some(format!("run {} had started and stays cancelled", one.number)),
        several => Some(format!("{} had started and stay cancelled", runs_text(several.len()))),
    };
    if let Some(stays) = stays {
        what += &format!(" and {} stopped", started.len());
        inverse.push(Inverse::Stays(crate::figure::capitalised(&stays)));
    }
    desk.order_to_undo(Deed { what, orders: vec![Order::CancelAll], inverse });
}

/// Queues runs again.
pub fn retry(runs: Vec<String>, desk: &mut Desk) {
    let what = match &runs[..] {
        [] => return,
        [run] => format!("{} was queued again", named(desk, run)),
        several => format!("{} were queued again", runs_text(several.len())),
    };
    let inverse = runs.iter().cloned().map(Inverse::TakeBack).collect();
    desk.order_to_undo(Deed { what, orders: runs.into_iter().map(Order::Retry).collect(), inverse });
}

/// Moves a queued run.
pub fn reorder(run: String, to: Move, desk: &mut Desk) {
    let Some(place) = desk.runs.row(&run).and_then(|row| row.place) else { return };
    let target = match to {
        Move::Up => place.saturating_sub(1),
        Move::Down => place + 1,
        Move::Top => 0,
    };
    let what = format!("{} was moved from place {} to {} of the queue", named(desk, &run), place + 1, target + 1);
    let inverse = vec![Inverse::Order(Order::Reorder(run.clone(), place))];
    desk.order_to_undo(Deed { what, orders: vec![Order::Reorder(run, target)], inverse });
}

/// Writes a note on a run.
pub fn note(run: String, note: String, desk: &mut Desk) {
    let before = desk.runs.row(&run).map_or(String::new(), |row| row.note.clone());
    let what = format!("The note of {} was changed", named(desk, &run).replacen("Run", "run", 1));
    let inverse = vec![Inverse::Order(Order::Note(Some(run.clone()), before))];
    desk.order_to_undo(Deed { what, orders: vec![Order::Note(Some(run), note)], inverse });
}
