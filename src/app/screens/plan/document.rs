//! The edited plan with its undo history and its file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::app::command::EditKind;
use crate::plan::Plan;

/// Number of edits that can be undone.
const UNDO_STEPS: usize = 500;

/// An earlier plan, and its file.
#[derive(Clone, Debug)]
struct Snapshot {
    plan: Arc<Plan>,
    /// Index into [`Document::files`].
    file: usize,
}

/// The file of a plan.
#[derive(Clone, Debug)]
struct PlanFile {
    /// `None` for a plan that was never saved.
    path: Option<PathBuf>,
    /// The plan in the file; without a file, the plan at the start.
    saved: Arc<Plan>,
}

/// The edited plan.
#[derive(Clone, Debug)]
pub(super) struct Document {
    now: Snapshot,
    undo: Vec<Snapshot>,
    redo: Vec<Snapshot>,
    files: Vec<PlanFile>,
    last_edit: Option<EditKind>,
}

impl Document {
    pub(super) fn new(plan: Plan) -> Self {
        let plan = Arc::new(plan);
        let files = vec![PlanFile { path: None, saved: plan.clone() }];
        Self { now: Snapshot { plan, file: 0 }, undo: Vec::new(), redo: Vec::new(), files, last_edit: None }
    }

    pub(super) fn plan(&self) -> &Arc<Plan> {
        &self.now.plan
    }

    /// The file that the plan belongs to.
    pub(super) fn path(&self) -> Option<&Path> {
        self.files.get(self.now.file)?.path.as_deref()
    }

    /// Whether the plan differs from its file or, without one, from its start.
    pub(super) fn is_unsaved(&self) -> bool {
        self.files.get(self.now.file).is_none_or(|file| file.saved != self.now.plan)
    }

    pub(super) fn can_undo(&self) -> bool {
        !self.undo.is_empty()
    }

    pub(super) fn can_redo(&self) -> bool {
        !self.redo.is_empty()
    }

    /// Replaces the plan by an edited one. Consecutive edits of one `merge` kind are undone together.
    pub(super) fn edit(&mut self, mut plan: Plan, merge: Option<EditKind>) {
        if let Some(path) = self.path() {
            // A path that the plan was read from can be named.
            let _ = plan.move_to(path);
        }
        if plan == *self.now.plan {
            return;
        }
        if merge.is_none() || merge != self.last_edit {
            self.keep();
        }
        self.redo.clear();
        self.last_edit = merge;
        self.now.plan = Arc::new(plan);
    }

    /// Switches to another plan; undo returns to this one.
    pub(super) fn open(&mut self, plan: Plan, path: Option<PathBuf>) {
        self.keep();
        self.redo.clear();
        self.last_edit = None;
        let plan = Arc::new(plan);
        self.files.push(PlanFile { path, saved: plan.clone() });
        self.now = Snapshot { plan, file: self.files.len() - 1 };
    }

    /// Records that a file now holds `plan`, and that it is the plan's.
    pub(super) fn saved(&mut self, mut plan: Arc<Plan>, path: PathBuf) {
        for held in [&mut plan, &mut self.now.plan] {
            let mut moved = Plan::clone(held);
            if moved.move_to(&path).is_ok() && moved != **held {
                *held = Arc::new(moved);
            }
        }
        if let Some(file) = self.files.get_mut(self.now.file) {
            *file = PlanFile { path: Some(path), saved: plan };
        }
    }

    pub(super) fn undo(&mut self) {
        if let Some(before) = self.undo.pop() {
            self.redo.push(std::mem::replace(&mut self.now, before));
            self.last_edit = None;
        }
    }

    pub(super) fn redo(&mut self) {
        if let Some(after) = self.redo.pop() {
            self.undo.push(std::mem::replace(&mut self.now, after));
            self.last_edit = None;
        }
    }

    fn keep(&mut self) {
        if self.undo.len() == UNDO_STEPS {
            self.undo.remove(0);
        }
        self.undo.push(self.now.clone());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::plan::image;

    fn named(name: &str) -> Plan {
        Plan::new(name, image::spec())
    }

    fn name(document: &Document) -> &str {
        &document.plan().name
    }

    #[test]
    fn edits_are_taken_back_and_made_again() {
        let mut document = Document::new(named("a"));
        document.edit(named("b"), None);
        document.edit(named("c"), None);
        document.undo();
        assert_eq!(name(&document), "b");
        document.undo();
        document.undo();
        assert_eq!((name(&document), document.can_undo(), document.is_unsaved()), ("a", false, false));
        document.redo();
        document.redo();
        assert_eq!((name(&document), document.can_redo()), ("c", false));
    }

    #[test]
    fn a_new_edit_forgets_what_could_be_made_again() {
        let mut document = Document::new(named("a"));
        document.edit(named("b"), None);
        document.undo();
        document.edit(named("c"), None);
        assert!(!document.can_redo());
    }

    #[test]
    fn dragging_a_number_is_one_edit() {
        let mut document = Document::new(named("a"));
        for step in ["b", "c", "d"] {
            document.edit(named(step), Some("repeats"));
        }
        document.undo();
        assert_eq!(name(&document), "a");
    }

    #[test]
    fn opening_can_be_taken_back_with_the_file_it_came_from() {
        let mut document = Document::new(named("a"));
        document.saved(document.plan().clone(), "a.toml".into());
        document.edit(named("edited"), None);
        document.open(named("b"), Some("b.toml".into()));
        assert_eq!((document.path(), document.is_unsaved()), (Some(Path::new("b.toml")), false));
        document.undo();
        assert_eq!((document.path(), document.is_unsaved()), (Some(Path::new("a.toml")), true));
    }

    #[test]
    fn an_edit_after_saving_is_unsaved_and_taking_it_back_is_saved() {
        let mut document = Document::new(named("a"));
        document.edit(named("b"), None);
        document.saved(document.plan().clone(), "b.toml".into());
        assert!(!document.is_unsaved());
        document.undo();
        assert_eq!((document.path(), document.is_unsaved()), (Some(Path::new("b.toml")), true));
        document.redo();
        assert!(!document.is_unsaved());
    }
}
