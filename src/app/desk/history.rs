//! Actions on the session that can be undone: orders to its queue, notes and studies, in one history for all screens. An undo takes effect
//! on the present state.

use super::{Desk, Notice};
use crate::conduct::Order;
use crate::plan::RunState;

/// Most orders that can be undone.
const MOST: usize = 200;

/// How an order is undone.
#[derive(Clone, Debug, PartialEq)]
pub enum Inverse {
    /// By this order.
    Order(Order),
    /// The run that was queued in place of this one is removed from the queue, unless it has started.
    TakeBack(String),
}

/// An action that can be undone.
#[derive(Clone, Debug, PartialEq)]
pub struct Deed {
    /// The action, as a sentence without its full stop: `Run 17 was taken out of the queue`.
    pub what: String,
    /// The orders of the action.
    pub orders: Vec<Order>,
    /// What undoes it, in this order.
    pub inverse: Vec<Inverse>,
}

/// Actions that were done or undone, the latest last.
#[derive(Debug, Default)]
pub struct History {
    done: Vec<Deed>,
    undone: Vec<Deed>,
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
        deed.orders.iter().for_each(|order| self.order(order.clone()));
        self.say(Notice { text: format!("{}.", deed.what), can_undo: true });
        self.history.undone.clear();
        self.history.done.push(deed);
        let surplus = self.history.done.len().saturating_sub(MOST);
        self.history.done.drain(..surplus);
    }

    /// Undoes the last action.
    pub fn undo(&mut self) {
        if let Some(reason) = self.locked() {
            return self.problem(self.screen, reason.to_owned());
        }
        let Some(deed) = self.history.done.pop() else { return };
        let orders: Result<Vec<_>, String> = deed.inverse.iter().map(|inverse| self.order_of(inverse)).collect();
        match orders {
            Ok(orders) => orders.into_iter().for_each(|order| self.order(order)),
            Err(reason) => return self.problem(self.screen, format!("{} cannot be undone: {reason}", deed.what)),
        }
        self.say(Notice { text: format!("Undone: {}.", deed.what), can_undo: false });
        self.history.undone.push(deed);
    }

    /// Redoes the last undone action.
    pub fn redo(&mut self) {
        if let Some(reason) = self.locked() {
            return self.problem(self.screen, reason.to_owned());
        }
        let Some(deed) = self.history.undone.pop() else { return };
        deed.orders.iter().for_each(|order| self.order(order.clone()));
        self.say(Notice { text: format!("{}.", deed.what), can_undo: true });
        self.history.done.push(deed);
    }

    fn order_of(&self, inverse: &Inverse) -> Result<Order, String> {
        let run = match inverse {
            Inverse::Order(order) => return Ok(order.clone()),
            Inverse::TakeBack(run) => run,
        };
        let again = self.runs.row(run).and_then(|row| row.retried_as.as_deref());
        let again = again.and_then(|again| self.runs.row(again)).ok_or("the queued run is not known yet")?;
        match again.state {
            RunState::Queued => Ok(Order::Cancel(again.run.clone())),
            state => Err(format!("run {} is {}", again.number, state.name())),
        }
    }
}
