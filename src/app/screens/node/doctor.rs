//! The checks of the machine for runs: the list of `multicard doctor`.

use eframe::egui::{Label, RichText, Ui};

use crate::app::theme::palette;
use crate::app::widgets::prose;
use crate::session::{Check, Health, Places};

/// Draws the problems first: things that do not work, then missing things that only some runs need. Everything that is good is on one line.
pub fn checks_ui(ui: &mut Ui, places: Option<&Places>) {
    let Some(places) = places else {
        ui.weak("reading …");
        return;
    };
    let with = |health: Health| places.checks.iter().filter(move |check| check.health == health);
    with(Health::Bad).chain(with(Health::Absent)).for_each(|check| check_ui(ui, check));
    let good: Vec<&str> = with(Health::Good).map(|check| check.name.as_str()).collect();
    if good.is_empty() {
        return;
    }
    let line = RichText::new(format!("✓ {}", good.join(", "))).color(palette(ui.visuals()).good);
    let found = || with(Health::Good).map(|check| format!("{}: {}", check.name, check.found)).collect::<Vec<_>>();
    ui.add(Label::new(line).wrap()).on_hover_ui(|ui| {
        ui.label(found().join("\n"));
    });
}

fn check_ui(ui: &mut Ui, check: &Check) {
    let palette = palette(ui.visuals());
    let text = format!("{}: {}", check.name, check.found);
    let text = match check.health {
        Health::Bad => prose(ui, &format!("✗ {text}"), palette.bad),
        Health::Good | Health::Absent => prose(ui, &text, palette.muted),
    };
    ui.add(Label::new(text).wrap().selectable(true));
    if let Some(remedy) = &check.remedy {
        let text = match is_sentence(remedy) {
            true => prose(ui, remedy, ui.visuals().text_color()),
            false => RichText::new(remedy).monospace().into(),
        };
        ui.indent(&check.name, |ui| ui.add(Label::new(text).wrap().selectable(true)));
    }
}

/// Whether a remedy is a sentence, which may have commands in it, and not a command alone.
fn is_sentence(remedy: &str) -> bool {
    remedy.contains(['`', ',', ':'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_in_words_is_told_from_a_command() {
        let commands = ["multicard setup dali", "multicard site NAME --add"];
        assert!(!commands.into_iter().any(is_sentence));
        let sentences =
            ["on a machine with several GPUs: multicard setup --cuda", "set it, or install nsys", "type `nsys`"];
        assert!(sentences.into_iter().all(is_sentence));
    }
}
