//! The control of the search: the question of the plan, and the budget for its answer.
//!
//! As with constraints, texts are applied to the plan once they are valid; until then they are kept separately.

use eframe::egui::{DragValue, Id, Label, RichText, Role, Ui, Widget as _, WidgetInfo};

use super::document::Document;
use super::{PlanCommand, PlanScreen, View};
use crate::analysis::{THROUGHPUT, counted};
use crate::app::command::{Command, edit};
use crate::app::theme::{SMALL, palette};
use crate::app::widgets::{muted, text_field, tick_ui};
use crate::plan::command::PROGRAM_TIME;
use crate::plan::{Goal, KeptLimit, Plan, Search};

/// The word between two limits.
const BETWEEN: &str = " and ";
/// The budgets that appear first when they are ticked.
const FIRST_RUNS: u32 = 100;
const FIRST_MINUTES: f64 = 10.0;
/// The repeats that a plan with too few for a search gets when its search is switched on: a search saves little with few.
const FIRST_REPEATS: u32 = 12;

/// The typed goal and limits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchTexts {
    /// `max throughput`
    pub goal: String,
    /// `peak_allocated_bytes < 24 GB and accuracy >= 98 %`
    pub keep: String,
}

impl SearchTexts {
    fn of(search: &Search) -> Self {
        let limits: Vec<&str> = search.keep.iter().map(|limit| limit.text.as_str()).collect();
        Self { goal: search.goal.text(), keep: limits.join(BETWEEN) }
    }

    fn goal(&self) -> Result<Goal, String> {
        Goal::parse(&self.goal)
    }

    fn keep(&self) -> Result<Vec<KeptLimit>, String> {
        let limits = separate(&self.keep);
        limits.iter().map(|text| text.trim()).filter(|text| !text.is_empty()).map(KeptLimit::parse).collect()
    }
}

/// The parts of a text between [`BETWEEN`]. In quotes, that word is part of the name of a measure.
fn separate(text: &str) -> Vec<String> {
    let mut limits: Vec<String> = Vec::new();
    let has_open_quote = |limit: &&mut String| {
        let quote_after = |open: Option<char>, letter: char| match open {
            Some(quote) => (letter != quote).then_some(quote),
            None => Some(letter).filter(|letter| "\"'".contains(*letter)),
        };
        limit.chars().fold(None, quote_after).is_some()
    };
    for part in text.split(BETWEEN) {
        match limits.last_mut().filter(has_open_quote) {
            Some(limit) => limit.extend([BETWEEN, part]),
            None => limits.push(part.to_owned()),
        }
    }
    limits
}

/// Typed texts, which may differ from the plan.
pub(super) struct Typed {
    texts: SearchTexts,
    /// The search that the plan had when they were typed.
    typed_for: Option<Search>,
}

impl Typed {
    /// Texts that were just typed.
    pub(super) fn new(texts: SearchTexts, plan: &Plan) -> Self {
        Self { texts, typed_for: plan.search.clone() }
    }

    /// Applies the texts to the plan if both are valid.
    pub(super) fn settle(&mut self, document: &mut Document) {
        let plan = document.plan();
        let Some(before) = plan.search.as_ref().filter(|_| self.typed_for == plan.search) else { return };
        let (Ok(goal), Ok(keep)) = (self.texts.goal(), self.texts.keep()) else { return };
        let search = Some(Search { goal, keep, ..before.clone() });
        if search != self.typed_for {
            self.typed_for.clone_from(&search);
            document.edit(Plan { search, ..Plan::clone(plan) }, Some("search"));
        }
    }
}

impl PlanScreen {
    /// The typed texts; `None` for a plan without a search.
    pub(super) fn search_texts(&self) -> Option<SearchTexts> {
        let search = self.plan().search.as_ref()?;
        let typed = self.search.as_ref().filter(|typed| typed.typed_for.as_ref() == Some(search));
        Some(typed.map_or_else(|| SearchTexts::of(search), |typed| typed.texts.clone()))
    }

    /// What is wrong with typed texts that are not part of the plan yet.
    pub(super) fn search_error(&self) -> Option<String> {
        let texts = self.search_texts()?;
        texts.goal().err().or_else(|| texts.keep().err()).map(|error| format!("The search contains an error: {error}"))
    }
}

/// Changes the search of the plan.
fn change(commands: &mut Vec<Command>, plan: &Plan, kind: Option<&'static str>, change: impl FnOnce(&mut Search)) {
    edit::<PlanCommand>(commands, plan, kind, |plan| {
        if let Some(search) = &mut plan.search {
            change(search);
        }
    });
}

/// The goal of a search that was just switched on: a measure that every run has. A program may report nothing, but its time is known.
fn first_goal(plan: &Plan) -> Goal {
    let is_program = plan.first.spec.command.is_some();
    let key = if is_program { PROGRAM_TIME } else { THROUGHPUT };
    Goal { key: key.into(), is_max: !is_program, line: 1 }
}

/// The place of the plan's name and of its repeats before its search raised them.
fn repeats_id() -> Id {
    Id::unique("repeats before the search")
}

/// The repeats of a plan whose search is switched on.
fn repeats_with(ui: &Ui, plan: &Plan) -> u32 {
    if plan.repeats >= Search::USEFUL_REPEATS {
        return plan.repeats;
    }
    ui.data_mut(|data| data.insert_temp(repeats_id(), (plan.name.clone(), plan.repeats)));
    FIRST_REPEATS
}

/// The repeats of a plan whose search is switched off: those before the search, unless the user set others since.
fn repeats_without(ui: &Ui, plan: &Plan) -> u32 {
    let before: Option<(String, u32)> = ui.data_mut(|data| data.remove_temp(repeats_id()));
    let before = before.filter(|(name, _)| *name == *plan.name && plan.repeats == FIRST_REPEATS);
    before.map_or(plan.repeats, |(_, repeats)| repeats)
}

/// Draws the control: one line without a search.
pub(super) fn search_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let plan = view.own.plan();
    let is_on = plan.search.is_some();
    let help = "Asks a question, such as: which cell is the fastest under 24 GB? Cells race over short runs, and those that cannot be the \
                answer are dropped (multicard help searches)";
    let tick = tick_ui(ui, is_on, true, "Search for the best cell").on_hover_text(help);
    if tick.clicked() {
        edit::<PlanCommand>(commands, plan, None, |plan| {
            plan.search = (!is_on).then(|| Search::new(first_goal(plan)));
            plan.repeats = if is_on { repeats_without(ui, plan) } else { repeats_with(ui, plan) };
        });
    }
    let (Some(search), Some(texts)) = (&plan.search, view.own.search_texts()) else { return };
    ui.indent("search", |ui| {
        texts_ui(ui, &texts, plan, commands);
        budget_ui(ui, plan, search, commands);
        let warning = palette(ui.visuals()).warning;
        let outlook = view.outlook().and_then(|outlook| outlook.search_trouble.as_ref());
        if let Some(trouble) = view.own.search_error().as_ref().or(outlook) {
            ui.add(Label::new(RichText::new(format!("⚠ {trouble}")).size(SMALL).color(warning)).wrap());
        } else {
            let most = format!("A cell gets at most {}, as set at Repeats.", counted(plan.repeats as usize, "repeat"));
            ui.add(Label::new(muted(ui, most).size(SMALL)).wrap());
        }
    });
}

fn texts_ui(ui: &mut Ui, texts: &SearchTexts, plan: &Plan, commands: &mut Vec<Command>) {
    let mut typed = texts.clone();
    let field = |ui: &mut Ui, text: &mut String, name: &str, hint: &str| {
        ui.horizontal(|ui| {
            let label = ui.label(name);
            ui.add(text_field(text, hint, ui.available_width().min(420.0))).labelled_by(label.id);
        });
    };
    field(ui, &mut typed.goal, "Goal", &first_goal(plan).text());
    field(ui, &mut typed.keep, "Keep", "peak_allocated_bytes < 24 GB and accuracy >= 98 %");
    if typed != *texts {
        commands.push(PlanCommand::Search(typed).into());
    }
}

fn budget_ui(ui: &mut Ui, plan: &Plan, search: &Search, commands: &mut Vec<Command>) {
    let named = |ui: &mut Ui, field: DragValue, name: &str| {
        let field = field.ui(ui);
        field.widget_info(|| WidgetInfo::labeled(Role::SpinButton, true, name));
        field.changed()
    };
    ui.horizontal_wrapped(|ui| {
        let mut percent = search.tie * 100.0;
        ui.label("Ties within").on_hover_text("Cells that differ by less are equally good");
        if named(ui, DragValue::new(&mut percent).range(0.0..=50.0).speed(0.05).suffix(" %"), "Ties of the search") {
            change(commands, plan, Some("search tie"), |search| search.tie = percent / 100.0);
        }
        if tick_ui(ui, search.runs.is_some(), true, "at most runs").clicked() {
            change(commands, plan, None, |search| search.runs = search.runs.is_none().then_some(FIRST_RUNS));
        }
        if let Some(mut runs) = search.runs
            && named(ui, DragValue::new(&mut runs).range(2..=100_000).speed(0.2).suffix(" runs"), "Runs of the search")
        {
            change(commands, plan, Some("search runs"), |search| search.runs = Some(runs));
        }
        if tick_ui(ui, search.minutes.is_some(), true, "at most minutes").clicked() {
            change(commands, plan, None, |search| search.minutes = search.minutes.is_none().then_some(FIRST_MINUTES));
        }
        if let Some(mut minutes) = search.minutes
            && named(
                ui,
                DragValue::new(&mut minutes).range(0.1..=1e6).speed(0.1).suffix(" min"),
                "Minutes of the search",
            )
        {
            change(commands, plan, Some("search minutes"), |search| search.minutes = Some(minutes));
        }
    });
}
