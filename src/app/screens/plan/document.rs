//! The edited plan with its undo history and its file, and the typed texts of its program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::list::{FormList, NewLine};
use crate::app::command::EditKind;
use crate::app::history::History;
use crate::plan::{Block, CommandTexts, Plan};

/// The texts that the user typed for a program, and what is wrong with them. The plan takes them over if nothing is wrong.
#[derive(Clone, Debug)]
pub(super) struct Typed {
    texts: CommandTexts,
    /// The part of the plan that they belong to.
    block: Block,
    pub(super) error: Option<String>,
}

/// An earlier plan with the texts that were typed, and its origin.
#[derive(Clone, Debug)]
struct Snapshot {
    plan: Arc<Plan>,
    typed: Option<Arc<Typed>>,
    /// Index into [`Document::opened`].
    origin: usize,
    /// The numbers of the plan's blocks, in their order. A block keeps its number when others are added or removed, and gets it back when its
    /// removal is undone.
    blocks: Vec<usize>,
}

/// A plan file with the text that was read from it or written to it last. If it contains another text by now, another program changed it.
#[derive(Clone, Debug)]
pub(super) struct FileText {
    pub(super) path: PathBuf,
    pub(super) text: Arc<str>,
}

/// A plan that was opened.
#[derive(Clone, Debug)]
struct Opened {
    /// Its file; `None` for a plan that was never saved.
    file: Option<FileText>,
    /// The plan in the file; without a file, the plan at the start.
    saved: Arc<Plan>,
    /// Lines for new items of lists, which are not part of the plan yet, by list and number of the block; 0 for a list of the whole plan.
    new_lines: BTreeMap<(FormList, usize), NewLine>,
}

impl Opened {
    fn new(plan: &Arc<Plan>, file: Option<FileText>) -> Self {
        Self { file, saved: Arc::clone(plan), new_lines: BTreeMap::new() }
    }
}

/// The edited plan.
#[derive(Clone, Debug)]
pub(super) struct Document {
    now: Snapshot,
    history: History<Snapshot>,
    opened: Vec<Opened>,
    /// Which of the plan's blocks is edited, from 0.
    block: usize,
    /// How many numbers were given to blocks.
    numbered: usize,
    /// The plan with that block as its first.
    shown: Arc<Plan>,
}

impl Document {
    pub(super) fn new(plan: Plan) -> Self {
        let plan = Arc::new(plan);
        let opened = vec![Opened::new(&plan, None)];
        let shown = Arc::clone(&plan);
        let numbered = plan.blocks().count();
        let now = Snapshot { plan, typed: None, origin: 0, blocks: (0..numbered).collect() };
        Self { now, history: History::default(), opened, block: 0, numbered, shown }
    }

    pub(super) fn plan(&self) -> &Arc<Plan> {
        &self.now.plan
    }

    /// The plan with the chosen block as its first: what cards and forms show and edit.
    pub(super) fn shown(&self) -> &Arc<Plan> {
        &self.shown
    }

    /// The index of the chosen block, from 0.
    pub(super) fn block(&self) -> usize {
        self.block
    }

    /// Chooses the block that is edited.
    pub(super) fn choose(&mut self, block: usize) {
        self.block = block;
        self.history.part();
        self.show();
    }

    /// Makes the next edit undone separately, whatever its kind.
    pub(super) fn part(&mut self) {
        self.history.part();
    }

    fn show(&mut self) {
        self.block = self.block.min(self.now.plan.further.len());
        self.shown = match self.block {
            0 => Arc::clone(&self.now.plan),
            block => Arc::new(self.now.plan.turned(block)),
        };
    }

    /// Replaces the shown plan by an edited one, as [`Document::edit`] does.
    pub(super) fn edit_shown(&mut self, plan: &Plan, merge: Option<EditKind>) {
        self.edit(plan.turned(self.block), merge);
    }

    /// The typed texts of the chosen block's program, if they still belong to it.
    pub(super) fn typed(&self) -> Option<&Typed> {
        self.now.typed.as_deref().filter(|typed| typed.block == self.shown.first)
    }

    /// The texts of the chosen block's program, as typed or as in the plan; `None` for other workloads.
    pub(super) fn texts(&self) -> Option<CommandTexts> {
        self.typed().map(|typed| typed.texts.clone()).or_else(|| CommandTexts::of(&self.shown))
    }

    /// What is wrong with the typed texts of a program, in any block.
    pub(super) fn text_error(&self) -> Option<&str> {
        let is_in_plan = |typed: &&Typed| self.now.plan.blocks().any(|block| *block == typed.block);
        self.now.typed.as_deref().filter(is_in_plan)?.error.as_deref()
    }

    /// Sets the texts of the chosen block's program: valid ones become part of the plan. Undo returns to the texts before, valid or not.
    pub(super) fn edit_texts(&mut self, texts: CommandTexts, merge: Option<EditKind>) {
        self.history.edited(self.now.clone(), merge);
        let error = match texts.plan(&self.shown) {
            Ok(plan) => {
                self.replace(plan.turned(self.block));
                None
            }
            Err(error) => Some(error),
        };
        self.now.typed = Some(Arc::new(Typed { texts, block: self.shown.first.clone(), error }));
    }

    /// Adds a block after the chosen one and chooses it: a copy of it, or one cell with all defaults of its workload.
    pub(super) fn add_block(&mut self, is_copy: bool) {
        let chosen = &self.shown.first;
        let block = if is_copy { chosen.clone() } else { Block::new(Arc::clone(&chosen.spec)) };
        let mut plan = Plan::clone(&self.now.plan);
        plan.further.insert(self.block, block);
        let place = self.block + 1;
        let mut blocks = self.now.blocks.clone();
        blocks.insert(place, self.new_number());
        self.edit_blocks(plan, blocks);
        self.choose(place);
    }

    /// Removes the chosen block, unless it is the only one.
    pub(super) fn remove_block(&mut self) {
        let mut plan = Plan::clone(&self.now.plan);
        match self.block.checked_sub(1) {
            _ if plan.further.is_empty() => return,
            Some(place) => drop(plan.further.remove(place)),
            None => plan.first = plan.further.remove(0),
        }
        let mut blocks = self.now.blocks.clone();
        blocks.remove(self.block);
        self.edit_blocks(plan, blocks);
    }

    /// Replaces the plan by one with another block or with one less; `blocks` are the numbers of its blocks.
    fn edit_blocks(&mut self, plan: Plan, blocks: Vec<usize>) {
        self.edit(plan, None);
        self.now.blocks = blocks;
    }

    /// A number that no block has had.
    fn new_number(&mut self) -> usize {
        self.numbered += 1;
        self.numbered - 1
    }

    /// The file that the plan belongs to, with its text.
    pub(super) fn file(&self) -> Option<&FileText> {
        self.opened.get(self.now.origin)?.file.as_ref()
    }

    /// The path of that file.
    pub(super) fn path(&self) -> Option<&Path> {
        self.file().map(|file| file.path.as_path())
    }

    /// Whether the plan differs from its file or, without one, from its start.
    pub(super) fn is_unsaved(&self) -> bool {
        self.opened.get(self.now.origin).is_none_or(|opened| opened.saved != self.now.plan)
    }

    pub(super) fn can_undo(&self) -> bool {
        self.history.can_undo()
    }

    pub(super) fn can_redo(&self) -> bool {
        self.history.can_redo()
    }

    /// Replaces the plan by an edited one. Consecutive edits of one `merge` kind are undone together.
    pub(super) fn edit(&mut self, plan: Plan, merge: Option<EditKind>) {
        let before = self.now.clone();
        if self.replace(plan) {
            self.history.edited(before, merge);
        }
    }

    /// Puts an edited plan in the place of this one; returns whether they differ.
    fn replace(&mut self, mut plan: Plan) -> bool {
        if let Some(path) = self.path() {
            // The path was read as UTF-8, so it can be set.
            let _ = plan.move_to(path);
        }
        let differs = plan != *self.now.plan;
        if differs {
            // The edited plan may have another number of blocks.
            let count = plan.blocks().count();
            self.now.blocks.truncate(count);
            while self.now.blocks.len() < count {
                let number = self.new_number();
                self.now.blocks.push(number);
            }
            self.now.plan = Arc::new(plan);
            self.show();
        }
        differs
    }

    /// Switches to another plan; undo returns to this one.
    pub(super) fn open(&mut self, plan: Plan, file: Option<FileText>) {
        self.history.edited(self.now.clone(), None);
        let plan = Arc::new(plan);
        if let Some(before) = self.opened.get_mut(self.now.origin) {
            before.new_lines.clear();
        }
        if let Some(file) = &file {
            self.update(file, &plan);
        }
        self.opened.push(Opened::new(&plan, file));
        let blocks = plan.blocks().map(|_| self.new_number()).collect();
        self.now = Snapshot { plan, typed: None, origin: self.opened.len() - 1, blocks };
        self.choose(0);
    }

    /// Records what a file contains by now: earlier plans, to which undo returns, may belong to the same file.
    fn update(&mut self, now: &FileText, plan: &Arc<Plan>) {
        let is_same = |known: &&mut Opened| known.file.as_ref().is_some_and(|file| file.path == now.path);
        for known in self.opened.iter_mut().filter(is_same) {
            (known.file, known.saved) = (Some(now.clone()), Arc::clone(plan));
        }
    }

    /// Where the line for a new item of a list is kept, in the block at this index if each block has such a list.
    fn line_key(&self, list: FormList, block: usize) -> Option<(FormList, usize)> {
        let number = if list.is_of_block() { *self.now.blocks.get(block)? } else { 0 };
        Some((list, number))
    }

    /// The line for a new item of a list in a block, if something was typed into it.
    pub(super) fn new_line(&self, list: FormList, block: usize) -> Option<&NewLine> {
        self.opened.get(self.now.origin)?.new_lines.get(&self.line_key(list, block)?)
    }

    /// The lines for new items into which something was typed, each with the index of its block. Those of removed blocks are not among them.
    pub(super) fn new_lines(&self) -> impl Iterator<Item = (FormList, usize, &NewLine)> {
        let lines_of = move |list: FormList| {
            let blocks = if list.is_of_block() { self.now.blocks.len() } else { 1 };
            (0..blocks).filter_map(move |block| Some((list, block, self.new_line(list, block)?)))
        };
        FormList::ALL.into_iter().flat_map(lines_of)
    }

    /// Keeps the line for a new item of a list of the chosen block with this plan until another one is opened; `None` empties the line.
    pub(super) fn set_new_line(&mut self, list: FormList, line: Option<NewLine>) {
        let Some(key) = self.line_key(list, self.block) else { return };
        let Some(own) = self.opened.get_mut(self.now.origin) else { return };
        match line {
            Some(line) => drop(own.new_lines.insert(key, line)),
            None => drop(own.new_lines.remove(&key)),
        }
    }

    /// Records that `file` now contains `plan`, and that it is the file of this document.
    pub(super) fn saved(&mut self, mut plan: Arc<Plan>, file: &FileText) {
        place(&mut plan, &file.path);
        if let Some(own) = self.opened.get_mut(self.now.origin) {
            own.file = Some(file.clone());
        }
        self.update(file, &plan);
        self.move_to(&file.path);
    }

    /// Puts the plan into the folder of its file. Typed texts still belong to it.
    fn move_to(&mut self, path: &Path) {
        let typed = self.typed().cloned();
        place(&mut self.now.plan, path);
        self.show();
        if let Some(typed) = typed {
            self.now.typed = Some(Arc::new(Typed { block: self.shown.first.clone(), ..typed }));
        }
    }

    pub(super) fn undo(&mut self) {
        if self.history.undo(&mut self.now) {
            self.show_again();
        }
    }

    pub(super) fn redo(&mut self) {
        if self.history.redo(&mut self.now) {
            self.show_again();
        }
    }

    /// Shows a plan to which undo or redo returned. Its file may have been saved elsewhere since.
    fn show_again(&mut self) {
        self.show();
        if let Some(path) = self.path().map(PathBuf::from) {
            self.move_to(&path);
        }
    }
}

/// Puts a plan into the folder of a file, if the folder can be named.
fn place(plan: &mut Arc<Plan>, path: &Path) {
    let mut moved = Plan::clone(plan);
    if moved.move_to(path).is_ok() && moved != **plan {
        *plan = Arc::new(moved);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::plan::{image, starting_command};

    fn named(name: &str) -> Plan {
        Plan::new(name, image::spec())
    }

    fn file(path: &str, text: &str) -> FileText {
        FileText { path: path.into(), text: text.into() }
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
    fn a_block_is_edited_in_its_place_and_the_last_one_stays() {
        let mut document = Document::new(named("a"));
        let levels = |document: &Document| -> Vec<usize> {
            document.plan().blocks().map(|block| block.levels("precision").len()).collect()
        };
        let tick = |document: &mut Document| {
            let mut plan = Plan::clone(document.shown());
            let (_, ticked) = plan.first.factors.iter_mut().find(|(key, _)| **key == *"precision").unwrap();
            ticked.push(crate::plan::Level::text("fp64"));
            document.edit_shown(&plan, None);
        };
        document.add_block(false);
        tick(&mut document);
        assert_eq!((levels(&document), document.block()), (vec![1, 2], 1));
        document.add_block(true);
        document.choose(0);
        document.add_block(false);
        assert_eq!((levels(&document), document.block()), (vec![1, 1, 2, 2], 1));
        document.choose(3);
        document.remove_block();
        assert_eq!((levels(&document), document.block()), (vec![1, 1, 2], 2));
        document.choose(0);
        document.remove_block();
        document.remove_block();
        document.remove_block();
        assert_eq!(levels(&document), [2]);
        document.undo();
        assert_eq!(levels(&document), [1, 2]);
    }

    #[test]
    fn a_line_for_a_new_item_stays_with_its_block_where_blocks_are_added_and_removed() {
        let mut document = Document::new(named("a"));
        document.add_block(false);
        let line = NewLine { texts: vec!["batch".to_owned()], has_own_name: true };
        document.set_new_line(FormList::Factors, Some(line.clone()));
        document.set_new_line(FormList::Constraints, Some(line));
        let blocks = |document: &Document, list: FormList| -> Vec<usize> {
            (0..3).filter(|block| document.new_line(list, *block).is_some()).collect()
        };
        assert_eq!(blocks(&document, FormList::Factors), [1]);
        document.choose(0);
        document.add_block(false);
        assert_eq!(blocks(&document, FormList::Factors), [2]);
        document.choose(0);
        document.remove_block();
        assert_eq!(blocks(&document, FormList::Factors), [1]);
        document.choose(1);
        document.remove_block();
        assert_eq!(blocks(&document, FormList::Factors), [0; 0]);
        assert_eq!(blocks(&document, FormList::Constraints), [0, 1, 2], "constraints are those of the plan");
        let has_lines = |document: &Document| document.new_lines().any(|(list, ..)| list == FormList::Factors);
        assert!(!has_lines(&document), "its block is removed");
        // Back to the plan of one block, and forth again.
        for expected in [vec![1], vec![2], vec![1], vec![]] {
            document.undo();
            assert_eq!(blocks(&document, FormList::Factors), expected);
            assert_eq!(has_lines(&document), !expected.is_empty());
        }
        for expected in [vec![1], vec![2], vec![1], vec![]] {
            document.redo();
            assert_eq!(blocks(&document, FormList::Factors), expected);
        }
    }

    #[test]
    fn a_plan_with_more_blocks_in_the_place_of_another_one_has_a_line_for_each() {
        let mut document = Document::new(named("a"));
        let mut plan = named("b");
        plan.further = vec![plan.first.clone(), plan.first.clone()];
        document.edit(plan, None);
        document.choose(2);
        let line = NewLine { texts: vec!["batch".to_owned()], has_own_name: true };
        document.set_new_line(FormList::Factors, Some(line));
        let lines: Vec<_> = document.new_lines().map(|(list, block, _)| (list, block)).collect();
        assert_eq!(lines, [(FormList::Factors, 2)]);
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
        document.saved(document.plan().clone(), &file("a.toml", "a"));
        document.edit(named("edited"), None);
        document.open(named("b"), Some(file("b.toml", "b")));
        assert_eq!((document.path(), document.is_unsaved()), (Some(Path::new("b.toml")), false));
        document.undo();
        assert_eq!((document.path(), document.is_unsaved()), (Some(Path::new("a.toml")), true));
    }

    #[test]
    fn an_edit_after_saving_is_unsaved_and_taking_it_back_is_saved() {
        let mut document = Document::new(named("a"));
        document.edit(named("b"), None);
        document.saved(document.plan().clone(), &file("b.toml", "b"));
        assert!(!document.is_unsaved());
        document.undo();
        assert_eq!((document.path(), document.is_unsaved()), (Some(Path::new("b.toml")), true));
        document.redo();
        assert!(!document.is_unsaved());
    }

    #[test]
    fn an_earlier_plan_is_in_the_folder_of_the_file_to_which_it_was_saved_since() {
        let mut document = Document::new(Plan::new("own", starting_command()));
        let mut renamed = Plan::clone(document.plan());
        renamed.name = "renamed".to_owned();
        document.edit(renamed, None);
        document.saved(document.plan().clone(), &file("/plans/a.toml", "a"));
        for step in [Document::undo, Document::redo] {
            step(&mut document);
            assert_eq!(document.path(), Some(Path::new("/plans/a.toml")));
            assert_eq!(document.plan().folder(), Some("/plans"));
        }
        assert_eq!((name(&document), document.is_unsaved()), ("renamed", false));
    }

    #[test]
    fn an_earlier_plan_of_a_file_that_was_read_again_differs_from_it_and_knows_its_text() {
        let mut document = Document::new(named("new"));
        document.open(named("a"), Some(file("a.toml", "a")));
        document.open(named("b"), Some(file("a.toml", "b")));
        document.undo();
        let known = |document: &Document| document.file().map(|file| file.text.to_string());
        assert_eq!((name(&document), document.is_unsaved(), known(&document)), ("a", true, Some("b".to_owned())));
        document.saved(document.plan().clone(), &file("a.toml", "a again"));
        document.redo();
        assert_eq!((name(&document), document.is_unsaved(), known(&document)), ("b", true, Some("a again".to_owned())));
        document.undo();
        document.undo();
        assert_eq!((name(&document), known(&document)), ("new", None));
    }
}
