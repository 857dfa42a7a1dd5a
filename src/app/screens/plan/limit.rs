//! The control of an optional limit: a number above 0.

use std::cell::RefCell;

use eframe::egui::{DragValue, Id, Key, Response, RichText, Role, Ui, WidgetInfo};

use crate::app::theme::{SMALL, palette};
use crate::app::widgets::{muted, tick_ui};
use crate::plan::Plan;

/// The least limit, in its unit.
const LEAST: f64 = 0.001;

/// An optional limit.
pub(super) struct Limit {
    pub(super) name: &'static str,
    /// The text after the number.
    pub(super) unit: &'static str,
    /// The value that ticking sets.
    pub(super) first: f64,
    pub(super) max: f64,
}

/// What was typed last and cannot be a limit; empty if it can.
#[derive(Clone, Default)]
struct Refused {
    text: String,
    /// The plan into which it was typed.
    plan: Option<Plan>,
    /// Whether Esc has just taken the focus from the field: egui reads the text once more in the frame after it.
    is_escaped: bool,
}

/// The text that was typed into the field of a limit and cannot be the limit, once the field is left: 0.5 begins with 0, which cannot be one.
/// Esc and any change of the plan forget it. `typed` is such a text of this frame, or empty for a text that can be the limit.
fn refused_text(ui: &Ui, field: &Response, limit: &Limit, plan: &Plan, typed: Option<String>) -> Option<String> {
    let id = Id::unique(("refused limit", limit.name));
    let before: Refused = ui.data(|data| data.get_temp(id)).unwrap_or_default();
    let is_escaped = field.lost_focus() && (before.is_escaped || ui.input(|input| input.key_pressed(Key::Escape)));
    let kept = if before.plan.as_ref() == Some(plan) { before.text } else { String::new() };
    let text = if is_escaped { String::new() } else { typed.unwrap_or(kept) };
    let plan = (!text.is_empty()).then(|| plan.clone());
    ui.data_mut(|data| data.insert_temp(id, Refused { text: text.clone(), plan, is_escaped }));
    (!text.is_empty() && !field.has_focus()).then_some(text)
}

/// Draws a limit of a plan as a row of a grid whose second column has this width; returns what it was changed to. A typed number that cannot
/// be the limit changes nothing, and is named in the row below once its field is left.
pub(super) fn limit_ui(ui: &mut Ui, limit: &Limit, plan: &Plan, width: f32, now: Option<f64>) -> Option<Option<f64>> {
    let mut choice = None;
    if tick_ui(ui, now.is_some(), true, limit.name).clicked() {
        choice = Some(if now.is_some() { None } else { Some(limit.first) });
    }
    let Some(now) = now else {
        ui.label(muted(ui, "none"));
        ui.end_row();
        return choice;
    };
    let mut value = now;
    let typed: RefCell<Option<String>> = RefCell::default();
    let parser = |text: &str| {
        let number = text.trim().parse::<f64>().ok().filter(|number| (LEAST..=limit.max).contains(number));
        let refused = if number.is_none() { text.trim() } else { "" };
        typed.replace(Some(refused.to_owned()));
        number
    };
    let field = DragValue::new(&mut value).range(LEAST..=limit.max).max_decimals(3).suffix(limit.unit);
    let field = ui.add(field.custom_parser(parser));
    field.widget_info(|| WidgetInfo::labeled(Role::SpinButton, true, format!("{} value", limit.name)));
    if field.changed() {
        choice = Some(Some(value));
    }
    ui.end_row();
    let typed = typed.take().or(choice.is_some().then(String::new));
    if let Some(refused) = refused_text(ui, &field, limit, plan, typed) {
        let text = format!(
            "{refused} is no limit: type a number from {LEAST} to {}, or untick the limit. It stays {now}{}.",
            limit.max, limit.unit
        );
        ui.label("");
        ui.vertical(|ui| {
            ui.set_max_width(width);
            ui.colored_label(palette(ui.visuals()).bad, RichText::new(text).size(SMALL));
        });
        ui.end_row();
    }
    choice
}
