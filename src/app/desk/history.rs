//! Actions on the session that can be undone: orders to its queue, notes and studies, in one history for all screens. An undo takes effect
//! on the present state.

use super::{Desk, Notice, Row};
use crate::conduct::Order;
use crate::plan::RunState;

/// Most orders that can be undone.
const MOST: usize = 200;

/// How an order is undone.
#[derive(Clone, Debug, PartialEq)]
pub enum Inverse {
    /// This order to the conductor undoes the action.
    Order(Order),
    /// The run that was queued in place of this one is removed from the queue, unless it has started.
    TakeBack(String),
    /// A part of the action cannot be undone. The text is a clause that says what stays as it is.
    Stays(String),
}

/// An action that can be undone.
#[derive(Clone, Debug, PartialEq)]
pub struct Deed {
    /// The action, as a sentence without its full stop: `Run 17 was taken out of the queue`.
    pub what: String,
    /// The orders of the action.
    pub orders: Vec<Order>,
    /// The steps that undo the action, in the order in which they are executed.
    pub inverse: Vec<Inverse>,
}

/// Actions that were done or undone, the latest last.
#[derive(Debug, Default)]
pub struct History {
    done: Vec<Deed>,
    undone: Vec<Deed>,
    /// The number of orders of the last action that the conductor has not answered yet.
    unanswered: usize,
}

impl History {
    /// The action that would be undone next.
    pub fn next_undo(&self) -> Option<&str> {
        self.done.last().map(|deed| &*deed.what)
    }

    /// The action that would be redone next.
    pub fn next_redo(&self) -> Option<&str> {
        self.undone.last().map(|deed| &*deed.what)
    }
}

impl Desk {
    /// Sends orders that can be undone to the session's conductor, and shows what was done.
    pub fn order_to_undo(&mut self, deed: Deed) {
        self.send_all(&deed.orders);
        self.say(Notice { text: format!("{}.", deed.what), can_undo: true });
        self.history.undone.clear();
        self.history.done.push(deed);
        let surplus = self.history.done.len().saturating_sub(MOST);
        self.history.done.drain(..surplus);
    }

    /// Withdraws the undo of an action that consists of only this order, because the order did something that cannot be undone. The text
    /// says what.
    pub fn withdraw(&mut self, order: &Order, text: String) {
        let before = self.history.done.len();
        self.history.done.retain(|deed| deed.orders != std::slice::from_ref(order));
        if self.history.done.len() < before {
            self.say(Notice { text, can_undo: false });
        }
    }

    /// Undoes the last action.
    pub fn undo(&mut self) {
        if let Some(reason) = self.locked() {
            return self.problem(self.screen, reason.to_owned());
        }
        let Some(deed) = self.history.done.pop() else { return };
        let orders = deed.inverse.iter().filter_map(|inverse| self.order_of(inverse).transpose());
        match orders.collect::<Result<Vec<_>, String>>() {
            Ok(orders) => self.send_all(&orders),
            Err(reason) => return self.problem(self.screen, format!("{} cannot be undone: {reason}", deed.what)),
        }
        let stays = deed.inverse.iter().find_map(|inverse| match inverse {
            Inverse::Stays(what) => Some(what),
            Inverse::Order(_) | Inverse::TakeBack(_) => None,
        });
        let text = match stays {
            Some(stays) => format!("The action “{}” was undone in part. {stays}.", deed.what),
            None => format!("The action “{}” was undone.", deed.what),
        };
        self.say(Notice { text, can_undo: false });
        self.history.undone.push(deed);
    }

    /// Redoes the last undone action.
    pub fn redo(&mut self) {
        if let Some(reason) = self.locked() {
            return self.problem(self.screen, reason.to_owned());
        }
        let Some(deed) = self.history.undone.pop() else { return };
        if let Some(reason) = deed.orders.iter().find_map(|order| self.refusal(order)) {
            return self.problem(self.screen, format!("{} cannot be done again: {reason}", deed.what));
        }
        self.send_all(&deed.orders);
        self.say(Notice { text: format!("{}.", deed.what), can_undo: true });
        self.history.done.push(deed);
    }

    /// Sends the orders of one action; the notice about it is withdrawn if one of them is refused.
    fn send_all(&mut self, orders: &[Order]) {
        self.history.unanswered = orders.len();
        orders.iter().for_each(|order| self.order(order.clone()));
    }

    /// An order of a screen was answered. A notice must not say that something was done which was refused.
    pub(in crate::app) fn answered(&mut self, is_refused: bool) {
        if is_refused && self.history.unanswered > 0 {
            (self.notice, self.history.unanswered) = (None, 0);
        }
        self.history.unanswered = self.history.unanswered.saturating_sub(1);
    }

    /// The order that undoes a part of an action; `None` for a part that stays.
    fn order_of(&self, inverse: &Inverse) -> Result<Option<Order>, String> {
        let run = match inverse {
            Inverse::Order(order) => return self.refusal(order).map_or_else(|| Ok(Some(order.clone())), Err),
            Inverse::TakeBack(run) => run,
            Inverse::Stays(_) => return Ok(None),
        };
        let again = self.runs.row(run).and_then(|row| row.retried_as.as_deref());
        let again = again.and_then(|again| self.runs.row(again)).ok_or("the queued run is not known yet")?;
        match again.state {
            RunState::Queued => Ok(Some(Order::Cancel(again.run.clone()))),
            _ => Err(state_text(again)),
        }
    }

    /// Why an order has no effect any more: a run that is not in the queue cannot be moved in it.
    fn refusal(&self, order: &Order) -> Option<String> {
        let Order::Reorder(run, _) = order else { return None };
        self.runs.row(run).filter(|row| row.state != RunState::Queued).map(state_text)
    }
}

/// `run 22 is running`.
fn state_text(row: &Row) -> String {
    format!("run {} is {}", row.number, row.state.name())
}
