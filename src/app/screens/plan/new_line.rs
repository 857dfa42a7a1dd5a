//! Lines for new items of lists: the item of a complete line becomes part of the plan, and what another one lacks is said.

use super::PlanScreen;
use super::list::{FormList, NewLine};
use crate::plan::MeasureTexts;

impl PlanScreen {
    /// The line for a new item of a list, in the chosen block if each block has its own.
    pub(super) fn new_line(&self, list: FormList) -> NewLine {
        let block = self.document.block();
        self.completed(list, block, self.document.new_line(list, block))
    }

    /// A line as the form shows it. A placeholder of the chosen block that names no factor suggests the name of the next one, so that only its
    /// levels must be typed.
    fn completed(&self, list: FormList, block: usize, line: Option<&NewLine>) -> NewLine {
        let mut line = line.cloned().unwrap_or_default();
        line.texts.resize(list.columns().len(), String::new());
        if list == FormList::Factors && !line.has_own_name {
            let suggested = if block == self.document.block() { self.lacking_factor() } else { None };
            line.texts[0] = suggested.unwrap_or_default();
        }
        line
    }

    /// The lines into which something was typed, each with the index of its block. In a block without a program, nothing can be added to one.
    fn begun_lines(&self) -> impl Iterator<Item = (FormList, usize, NewLine)> {
        let has_program = move |block: usize| {
            self.document.plan().blocks().nth(block).is_some_and(|block| block.spec.command.is_some())
        };
        let typed = self.document.new_lines();
        let shown = typed.filter(move |(list, block, _)| !list.is_of_block() || has_program(*block));
        let lines = shown.map(move |(list, block, line)| (list, block, self.completed(list, block, Some(line))));
        lines.filter(|(.., line)| line.is_begun())
    }

    /// Whether something was typed into a line for a new item.
    pub(super) fn has_new_lines(&self) -> bool {
        self.begun_lines().next().is_some()
    }

    /// What the first line lacks that was begun.
    pub(super) fn new_line_error(&self) -> Option<String> {
        let is_one_of_several = |list: FormList| list.is_of_block() && !self.document.plan().further.is_empty();
        let lack = |(list, block, line): (FormList, usize, NewLine)| {
            list.lack(&line, is_one_of_several(list).then_some(block))
        };
        self.begun_lines().find_map(lack)
    }

    /// Adds the item of a line to the plan and empties the line, if it is complete.
    pub(super) fn add_line(&mut self, list: FormList) {
        let line = self.new_line(list);
        if !line.is_begun() || list.lack(&line, None).is_some() {
            return;
        }
        let mut texts = line.texts.into_iter();
        let mut text = move || texts.next().unwrap_or_default();
        match (list, self.texts()) {
            (FormList::Constraints, _) => {
                let mut constraints = self.constraint_texts();
                constraints.push((text(), text()));
                self.type_constraints(constraints);
            }
            (FormList::Factors, Some(program)) => {
                let (key, levels) = (text(), text());
                self.type_texts(program.with_factor(&key, &levels));
            }
            (FormList::Measures, Some(mut program)) => {
                let measure = MeasureTexts { key: text(), name: text(), unit: text(), ..MeasureTexts::default() };
                program.measures.push(measure);
                self.type_texts(program);
            }
            (FormList::Factors | FormList::Measures, None) => return,
        }
        self.document.set_new_line(list, None);
    }

    /// Adds the items of all complete lines.
    pub(super) fn add_lines(&mut self) {
        FormList::ALL.into_iter().for_each(|list| self.add_line(list));
    }
}
