//! The cards of the factors: levels to tick, help, and findings of the papers.

use eframe::egui::{
    Align, Button, CollapsingHeader, Color32, Context, CursorIcon, Id, Key, Layout, Popup, Response, RichText, Role,
    Stroke, Ui, WidgetInfo,
};

use super::PlanCommand;
use super::edit::{offered, toggled, typed_levels, with_levels};
use super::grid::grid_ui;
use crate::app::command::{Command, edit};
use crate::app::deliberate;
use crate::app::screens::plan::View;
use crate::app::theme::{GRID, SMALL, palette};
use crate::app::widgets::{muted, prose_of_size, strong, text_field, tick_ui};
use crate::figure::grouped;
use crate::plan::{Domain, Factor, Level, Plan};

/// Draws the cards of all factors.
pub(super) fn cards_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let (main, more) = view.own.plan().first.spec.main_and_more();
    grid_ui(ui, "main", main.len(), |ui, index| factor_ui(ui, view, main[index], commands));
    let differ = |factor: &&&Factor| *view.own.plan().first.levels(&factor.key) != [factor.default.clone()];
    let title = match more.iter().filter(differ).count() {
        0 => "More factors: all have their defaults".to_owned(),
        1 => "More factors: 1 differs from its default".to_owned(),
        count => format!("More factors: {count} differ from their defaults"),
    };
    CollapsingHeader::new(strong(title)).id_salt("more factors").show_unindented(ui, |ui| {
        ui.add_space(GRID);
        grid_ui(ui, "more", more.len(), |ui, index| factor_ui(ui, view, more[index], commands));
    });
}

fn factor_ui(ui: &mut Ui, view: View<'_>, factor: &Factor, commands: &mut Vec<Command>) {
    let ticked = view.own.plan().first.levels(&factor.key);
    ui.horizontal(|ui| {
        ui.label(strong(&*factor.name));
        if !factor.unit.is_empty() {
            ui.label(muted(ui, &*factor.unit).size(SMALL));
        }
        if !factor.finding.is_empty() {
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| finding_ui(ui, factor));
        }
    });
    let mut message = None;
    ui.horizontal_wrapped(|ui| {
        for level in offered(factor, ticked, view.node.as_deref()) {
            let reason = level_ui(ui, view, factor, &level, commands);
            message = message.take().or(reason);
        }
        if !matches!(factor.domain, Domain::Names(_)) {
            add_ui(ui, view.own.plan(), factor, commands);
        }
    });
    if let Some(error) = typed_error(ui.ctx(), factor) {
        ui.colored_label(palette(ui.visuals()).bad, RichText::new(error).size(SMALL));
    }
    match message {
        Some(reason) => ui.colored_label(palette(ui.visuals()).warning, RichText::new(reason).size(SMALL)),
        None => ui.label(prose_of_size(ui, &factor.help, palette(ui.visuals()).muted, SMALL)),
    };
}

/// Draws a small button that shows what the papers found.
fn finding_ui(ui: &mut Ui, factor: &Factor) {
    let button = ui.add(
        Button::new(muted(ui, "i").size(SMALL))
            .small()
            .min_size([18.0, 18.0].into())
            .corner_radius(9)
            .fill(Color32::TRANSPARENT)
            .stroke(Stroke::new(1.0, palette(ui.visuals()).line)),
    );
    button.widget_info(|| {
        WidgetInfo::labeled(Role::Button, true, format!("What the papers found about {}", factor.name))
    });
    let text = || format!("Published: {}", factor.finding);
    Popup::from_toggle_button_response(&button).show(|ui| {
        ui.set_max_width(280.0);
        ui.label(text());
    });
    if !Popup::is_id_open(ui.ctx(), Popup::default_response_id(&button)) {
        button.on_hover_text(text());
    }
}

/// Draws one level. Returns why it cannot run, while it has the focus.
fn level_ui(
    ui: &mut Ui,
    view: View<'_>,
    factor: &Factor,
    level: &Level,
    commands: &mut Vec<Command>,
) -> Option<String> {
    let ticked = view.own.plan().first.levels(&factor.key);
    let on = ticked.contains(level);
    // The previous outlook stays until the new one is known, to avoid flicker.
    let refusal = view.own.outlook.as_ref().and_then(|outlook| outlook.refusal(&factor.key, level));
    // A level that a plan file ticks can be unticked.
    let enabled = on || refusal.is_none();
    // A disabled level still takes the focus, so that its reason can be read with the keyboard.
    let text = RichText::new(grouped(&level.to_string()));
    let warning = palette(ui.visuals()).warning;
    let text = if on && refusal.is_some() { text.color(warning).strikethrough() } else { text };
    let response = tick_ui(ui, on, enabled, text);
    let name = match refusal {
        Some(reason) => format!("{} {level}, cannot run: {reason}", factor.name),
        None => format!("{} {level}", factor.name),
    };
    response.widget_info(|| WidgetInfo::selected(Role::CheckBox, enabled, on, &name));
    // A level that is added moves the levels after it: a press on a level that moved under the pointer is ignored.
    if deliberate::clicked(&response, ("level", &factor.key, level.to_string())) && enabled {
        edit::<PlanCommand>(commands, view.own.plan(), None, |plan| {
            // The last ticked level cannot be unticked, since each factor needs one.
            if let Some(edited) = toggled(plan, factor, level) {
                *plan = edited;
            }
        });
    }
    // The reason is a tooltip for the pointer; for the keyboard it replaces the help.
    let focused = response.has_focus();
    match refusal {
        Some(reason) => {
            let response = if enabled { response } else { response.on_hover_cursor(CursorIcon::NotAllowed) };
            response.on_hover_text(format!("Cannot run here: {reason}"));
            focused.then(|| reason.to_owned())
        }
        None => {
            if on && ticked.len() == 1 {
                response.on_hover_text("This is the only ticked level: tick another one before you untick it");
            }
            None
        }
    }
}

fn typed_id(factor: &Factor) -> Id {
    Id::unique(("typed levels", &factor.key))
}

/// Text in the field for further levels, stored in egui's memory until it is applied.
#[derive(Clone, Default)]
struct Typed {
    text: String,
    /// Whether the text could not be applied because it is wrong.
    refused: bool,
}

/// A field for numbers that are not offered. Enter applies them and keeps the focus for the next ones.
fn add_ui(ui: &mut Ui, plan: &Plan, factor: &Factor, commands: &mut Vec<Command>) {
    let id = typed_id(factor);
    let mut typed: Typed = ui.data(|data| data.get_temp(id)).unwrap_or_default();
    let field = text_field(&mut typed.text, "add …", 60.0).id(id);
    let help = match factor.domain {
        Domain::GpuSet(_) => "Only these GPUs, by their indexes on the Node screen, such as 0,2; Enter adds the list",
        _ => "Other numbers, separated by commas; Enter adds them",
    };
    let response: Response = ui.add(field).on_hover_text(help);
    response.widget_info(|| WidgetInfo::labeled(Role::TextInput, true, format!("Add to {}", factor.name)));
    if response.changed() {
        typed.refused = false;
    }
    if response.lost_focus() {
        if ui.input(|input| input.key_pressed(Key::Escape)) {
            typed = Typed::default();
        } else if let Ok(levels) = typed_levels(factor, &typed.text) {
            edit::<PlanCommand>(commands, plan, None, |plan| *plan = with_levels(plan, factor, &levels));
            typed = Typed::default();
        } else {
            typed.refused = !typed.text.trim().is_empty();
        }
        if ui.input(|input| input.key_pressed(Key::Enter) && !input.modifiers.any()) {
            response.request_focus();
        }
    }
    ui.data_mut(|data| data.insert_temp(id, typed));
}

/// What is wrong with the typed numbers, once the user tried to add them.
fn typed_error(context: &Context, factor: &Factor) -> Option<String> {
    let typed: Typed = context.data(|data| data.get_temp(typed_id(factor)))?;
    if typed.refused { typed_levels(factor, &typed.text).err() } else { None }
}

/// What is wrong with numbers that were typed on a card and could not be added to the plan.
pub(super) fn refused_text(context: &Context, plan: &Plan) -> Option<String> {
    let factors = &plan.first.spec.factors;
    factors.iter().find_map(|factor| Some(format!("{}: {}", factor.name, typed_error(context, factor)?)))
}
