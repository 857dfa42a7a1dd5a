//! Undo and redo of edits, by storing the earlier and later values as a whole.

use crate::app::command::EditKind;

/// The most edits that can be undone.
const MOST_UNDONE: usize = 500;

/// Earlier and later values of an edited value.
#[derive(Clone, Debug)]
pub struct History<T> {
    past: Vec<T>,
    future: Vec<T>,
    /// The kind of the last edit: consecutive edits of one kind, such as letters of a name, are undone together.
    last_edit: Option<EditKind>,
}

impl<T> Default for History<T> {
    fn default() -> Self {
        Self { past: Vec::new(), future: Vec::new(), last_edit: None }
    }
}

impl<T> History<T> {
    /// Records an edit; `before` is the value before it.
    pub fn edited(&mut self, before: T, kind: Option<EditKind>) {
        if kind.is_none() || kind != self.last_edit {
            self.past.push(before);
            if self.past.len() > MOST_UNDONE {
                self.past.remove(0);
            }
        }
        self.future.clear();
        self.last_edit = kind;
    }

    /// Makes the next edit undone separately, whatever its kind.
    pub fn part(&mut self) {
        self.last_edit = None;
    }

    /// Restores the value before the last edit; returns whether there was one.
    pub fn undo(&mut self, now: &mut T) -> bool {
        Self::step(&mut self.past, &mut self.future, &mut self.last_edit, now)
    }

    /// Restores the value before the last undo; returns whether there was one.
    pub fn redo(&mut self, now: &mut T) -> bool {
        Self::step(&mut self.future, &mut self.past, &mut self.last_edit, now)
    }

    /// Whether there is an edit to undo.
    pub fn can_undo(&self) -> bool {
        !self.past.is_empty()
    }

    /// Whether there is an undone edit to redo.
    pub fn can_redo(&self) -> bool {
        !self.future.is_empty()
    }

    fn step(from: &mut Vec<T>, to: &mut Vec<T>, last_edit: &mut Option<EditKind>, now: &mut T) -> bool {
        let Some(value) = from.pop() else { return false };
        to.push(std::mem::replace(now, value));
        *last_edit = None;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_of_one_kind_are_undone_together_and_an_edit_after_an_undo_ends_what_could_be_redone() {
        let (mut history, mut now) = (History::default(), 0);
        let edit = |history: &mut History<i32>, now: &mut i32, to, kind| {
            history.edited(std::mem::replace(now, to), kind);
        };
        edit(&mut history, &mut now, 1, None);
        edit(&mut history, &mut now, 2, Some("name"));
        edit(&mut history, &mut now, 3, Some("name"));
        assert!(history.undo(&mut now) && now == 1 && history.can_redo());
        assert!(history.redo(&mut now) && now == 3);
        // After a redo the same kind is a new edit.
        edit(&mut history, &mut now, 4, Some("name"));
        assert!(history.undo(&mut now) && now == 3);
        edit(&mut history, &mut now, 5, None);
        assert!(!history.can_redo() && !history.redo(&mut now) && now == 5);
        for to in 0..MOST_UNDONE as i32 + 20 {
            edit(&mut history, &mut now, to, None);
        }
        let mut undone = 0;
        while history.undo(&mut now) {
            undone += 1;
        }
        assert_eq!((undone, history.can_undo()), (MOST_UNDONE, false));
    }
}
