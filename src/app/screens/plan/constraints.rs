//! The constraints of a plan: the excluded cells with the reasons, and error messages below them.
//!
//! As in the program's form, texts are applied to the plan once all of them are valid; until then they are kept separately.

use eframe::egui::Ui;

use super::document::Document;
use super::list::{Asked, Field, FormList, List, NewLine, error_ui, part_ui};
use super::{PlanCommand, PlanScreen, View};
use crate::app::command::Command;
use crate::app::widgets::card;
use crate::plan::{Constraint, Plan};

/// The excluded cells, and the reasons.
pub(super) type Texts = Vec<(String, String)>;

/// Typed texts that may differ from the plan.
pub(super) struct Typed {
    texts: Texts,
    /// The constraints that the plan had when they were typed.
    typed_for: Vec<Constraint>,
}

impl Typed {
    /// Texts that were just typed.
    fn new(texts: Texts, plan: &Plan) -> Self {
        Self { texts, typed_for: plan.constraints.clone() }
    }

    /// Applies the texts to the plan if all of them are valid.
    pub(super) fn settle(&mut self, document: &mut Document) {
        let plan = document.plan();
        if self.typed_for != plan.constraints {
            return;
        }
        let read: Result<Vec<Constraint>, _> =
            self.texts.iter().map(|(exclude, reason)| plan.constraint(exclude, reason)).collect();
        if let Ok(constraints) = read.map(|read| (read != self.typed_for).then_some(read)) {
            let Some(constraints) = constraints else { return };
            self.typed_for.clone_from(&constraints);
            document.edit(Plan { constraints, ..Plan::clone(plan) }, Some("constraints"));
        }
    }
}

impl PlanScreen {
    /// Sets the texts, which become part of the plan once all of them are valid.
    pub(super) fn type_constraints(&mut self, texts: Texts) {
        let mut typed = Typed::new(texts, self.document.plan());
        typed.settle(&mut self.document);
        self.constraints = Some(typed);
    }

    /// The excluded cells and the reasons, as typed or as in the plan.
    pub(super) fn constraint_texts(&self) -> Texts {
        let typed = self.constraints.as_ref().filter(|typed| typed.typed_for == self.plan().constraints);
        let text = |one: &Constraint| (one.exclude.to_string(), one.reason.clone());
        typed.map_or_else(|| self.plan().constraints.iter().map(text).collect(), |typed| typed.texts.clone())
    }

    /// What is wrong with each constraint.
    fn constraint_errors(&self) -> Vec<Option<String>> {
        let sentence = |(field, error): (&str, String)| match field {
            "reason" => format!("Reason: {error}"),
            _ => format!("Cells: {error}"),
        };
        let error = |(exclude, reason): &(String, String)| self.plan().constraint(exclude, reason).err().map(sentence);
        self.constraint_texts().iter().map(error).collect()
    }

    /// What is wrong with the first invalid constraint.
    pub(super) fn constraint_error(&self) -> Option<String> {
        let errors = self.constraint_errors();
        let (place, error) = errors.into_iter().enumerate().find_map(|(place, error)| Some((place, error?)))?;
        Some(format!("Constraint {} contains an error. {error}", place + 1))
    }
}

/// Draws the constraints.
pub(super) fn constraints_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let mut texts = view.own.constraint_texts();
    let before = texts.clone();
    let errors = view.own.constraint_errors();
    let new = view.own.new_line(FormList::Constraints);
    let mut asked = Vec::new();
    card(ui).show(ui, |ui| {
        ui.take_available_width();
        part_ui(ui, "Constraints", texts.len(), |ui| asked = list_ui(ui, &mut texts, &errors, new));
    });
    if texts != before {
        asked.insert(0, PlanCommand::Constraints(texts));
    }
    commands.extend(asked.into_iter().map(Command::from));
}

fn list_ui(ui: &mut Ui, texts: &mut Texts, errors: &[Option<String>], new: NewLine) -> Vec<PlanCommand> {
    let lines = texts.iter_mut().enumerate().map(|(place, (exclude, reason))| {
        (format!("constraint {}", place + 1), [exclude, reason].map(Field::Text).into_iter().collect())
    });
    let lines = lines.collect();
    let error = |place: usize| errors.get(place).and_then(Option::as_deref);
    let list = List::growing(FormList::Constraints, new);
    let Asked { removed, commands } = list.ui(ui, lines, |ui, place| error_ui(ui, error(place)));
    if let Some(place) = removed {
        texts.remove(place);
    }
    commands
}
