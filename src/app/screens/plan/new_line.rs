//! Lines for new items of lists: the item of a complete line becomes part of the plan, and what another one lacks is said.

use super::PlanScreen;
use super::list::{FormList, NewLine};
use crate::plan::MeasureTexts;

impl PlanScreen {
    /// The line for a new item of a list. A placeholder that names no factor suggests the name of the next one, so that only its levels must
    /// be typed.
    pub(super) fn new_line(&self, list: FormList) -> NewLine {
        let mut line = self.document.new_line(list).cloned().unwrap_or_default();
        line.texts.resize(list.columns().len(), String::new());
        if list == FormList::Factors && !line.has_own_name {
            line.texts[0] = self.lacking_factor().unwrap_or_default();
        }
        line
    }

    /// The lines into which something was typed. In a plan without a program, nothing can be added to one.
    fn begun_lines(&self) -> impl Iterator<Item = (FormList, NewLine)> {
        let has_program = self.document.plan().blocks().any(|block| block.spec.command.is_some());
        let is_shown = move |list: &FormList| has_program || *list == FormList::Constraints;
        let typed = FormList::ALL.into_iter().filter(move |list| self.document.new_line(*list).is_some());
        let lines = typed.filter(is_shown).map(move |list| (list, self.new_line(list)));
        lines.filter(|(_, line)| line.is_begun())
    }

    /// Whether something was typed into a line for a new item.
    pub(super) fn has_new_lines(&self) -> bool {
        self.begun_lines().next().is_some()
    }

    /// What the first line lacks that was begun.
    pub(super) fn new_line_error(&self) -> Option<String> {
        self.begun_lines().find_map(|(list, line)| list.lack(&line))
    }

    /// Adds the item of a line to the plan and empties the line, if it is complete.
    pub(super) fn add_line(&mut self, list: FormList) {
        let line = self.new_line(list);
        if !line.is_begun() || list.lack(&line).is_some() {
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
