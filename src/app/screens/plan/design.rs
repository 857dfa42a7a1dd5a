//! The control of the design: which combinations of the ticked levels are run, and which effects these can separate.

use eframe::egui::{CollapsingHeader, DragValue, Label, RichText, Role, Ui, Widget as _, WidgetInfo};
use strum::VariantArray as _;

use super::PlanCommand;
use super::outlook::Outlook;
use crate::app::command::{Command, edit};
use crate::app::deliberate;
use crate::app::screens::plan::View;
use crate::app::theme::{SMALL, palette};
use crate::app::widgets::{choice, muted, radio_ui, tick_ui};
use crate::plan::{Added, Block, Design, DesignKind, Interactions, Key, Level, MOST_RUNS, Plan, Resolved, Size};

/// Width of the list of kinds.
const KINDS_WIDTH: f32 = 190.0;
/// How many runs the button adds.
const MORE_RUNS: u32 = 4;
/// The time that the choice of minutes starts with.
const FIRST_MINUTES: f64 = 60.0;
/// The name of a block without a design.
const ALL: &str = "all combinations";

/// The use of a kind of designs, in a sentence.
fn help(kind: DesignKind) -> &'static str {
    match kind {
        DesignKind::OneAtATime => {
            "Runs a base cell, and cells that differ from it in one level. Shows what each level changes there, but not how \
             levels act together"
        }
        DesignKind::Fraction => {
            "Runs a part of all combinations of two levels of each factor. Shows the effect of each factor and, if there are \
             enough runs, how factors act together; lists effects that cannot be told apart"
        }
        DesignKind::PlackettBurman => {
            "Finds which of many factors matter, with two levels of each and few runs. What factors do together is mixed \
             into their effects"
        }
        DesignKind::DOptimal => {
            "Runs the cells from which the ticked effects can be estimated best, with any levels and constraints"
        }
        DesignKind::LatinHypercube => {
            "Runs cells with numbers that are spread over the ranges of the ticked levels, so that curves can be drawn"
        }
    }
}

/// Changes the design of the chosen block.
fn change(commands: &mut Vec<Command>, plan: &Plan, kind: Option<&'static str>, change: impl FnOnce(&mut Design)) {
    edit::<PlanCommand>(commands, plan, kind, |plan| {
        if let Some(design) = &mut plan.first.design {
            change(design);
        }
    });
}

/// Draws the control: one line without a design.
pub(super) fn design_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let plan = view.own.plan();
    let outlook = view.own.outlook.as_deref();
    ui.horizontal_wrapped(|ui| {
        ui.label("Cells").on_hover_text("Which combinations of the ticked levels are run");
        kind_ui(ui, plan, commands);
        if let Some(design) = plan.first.design.as_ref().filter(|design| design.kind != DesignKind::OneAtATime) {
            size_ui(ui, (plan, design), outlook, commands);
        }
    });
    let Some(design) = &plan.first.design else { return };
    ui.indent("design", |ui| {
        match design.kind {
            DesignKind::OneAtATime => base_ui(ui, plan, design, commands),
            DesignKind::LatinHypercube => logarithms_ui(ui, plan, design, commands),
            DesignKind::Fraction | DesignKind::PlackettBurman | DesignKind::DOptimal => {
                interactions_ui(ui, plan, design, commands);
            }
        }
        if design.kind != DesignKind::LatinHypercube {
            added_ui(ui, plan, design, commands);
        }
        if let Some(outlook) = outlook {
            resolved_ui(ui, outlook);
        }
    });
}

fn kind_ui(ui: &mut Ui, plan: &Plan, commands: &mut Vec<Command>) {
    let now = plan.first.design.as_ref().map_or(ALL, |design| design.kind.title());
    let mut chosen = None;
    choice(ui, "Design", now, KINDS_WIDTH, |ui| {
        if ui.selectable_label(plan.first.design.is_none(), ALL).clicked() {
            chosen = Some(None);
        }
        for kind in DesignKind::VARIANTS {
            let is_now = plan.first.design.as_ref().is_some_and(|design| design.kind == *kind);
            if ui.selectable_label(is_now, kind.title()).on_hover_text(help(*kind)).clicked() && !is_now {
                chosen = Some(Some(*kind));
            }
        }
    });
    if let Some(kind) = chosen {
        edit::<PlanCommand>(commands, plan, None, |plan| {
            let before = plan.first.design.take();
            plan.first.design = kind.map(|kind| {
                let is_kept = |design: &Design| kind.is_fitted() && design.kind.is_fitted();
                let interactions = before.filter(is_kept).map(|design| design.interactions);
                let new = Design::new(kind);
                Design { interactions: interactions.unwrap_or(new.interactions.clone()), ..new }
            });
        });
    }
}

fn size_ui(ui: &mut Ui, (plan, design): (&Plan, &Design), outlook: Option<&Outlook>, commands: &mut Vec<Command>) {
    let cells = outlook.map_or(8, |outlook| outlook.matrix.cells.len().max(2)) as u32;
    let run_s = outlook.map_or(0.0, |outlook| outlook.duration_s / outlook.runs.max(1) as f64);
    let run_s = if run_s > 0.0 { (run_s * 10.0).round().max(1.0) / 10.0 } else { 60.0 };
    let runs = if let Size::Runs(runs) = design.size { runs } else { cells };
    let time = Size::Time { minutes: FIRST_MINUTES, run_s };
    let sizes = [
        ("usual size", Size::Usual, "As many cells as this kind usually has for these factors"),
        ("runs", Size::Runs(runs), "This many cells; each runs once in each repeat"),
        ("minutes", time, "As many cells as fit into this time with their repeats"),
    ];
    for (name, size, help) in sizes {
        let chosen = std::mem::discriminant(&size) == std::mem::discriminant(&design.size);
        let radio = radio_ui(ui, chosen, true, name).on_hover_text(help);
        radio.widget_info(|| {
            WidgetInfo::selected(Role::RadioButton, true, chosen, format!("Size of the design: {name}"))
        });
        if radio.clicked() && !chosen {
            change(commands, plan, None, |design| design.size = size);
        }
    }
    let named = |ui: &mut Ui, field: DragValue, name: &str| {
        let field = field.ui(ui);
        field.widget_info(|| WidgetInfo::labeled(Role::SpinButton, true, name));
        field.changed()
    };
    match design.size {
        Size::Usual => {}
        Size::Runs(mut runs) => {
            if named(
                ui,
                DragValue::new(&mut runs).range(2..=MOST_RUNS).speed(0.1).suffix(" cells"),
                "Runs of the design",
            ) {
                change(commands, plan, Some("design runs"), |design| design.size = Size::Runs(runs));
            }
        }
        Size::Time { mut minutes, mut run_s } => {
            let field = DragValue::new(&mut minutes).range(0.1..=1e6).speed(0.5).suffix(" min");
            let is_changed = named(ui, field, "Minutes of the design");
            let field = DragValue::new(&mut run_s).range(0.1..=1e6).speed(0.5).suffix(" s a run");
            if named(ui, field, "Seconds of a run") || is_changed {
                change(commands, plan, Some("design time"), |design| design.size = Size::Time { minutes, run_s });
            }
        }
    }
}

/// The name of a factor on screen.
fn name<'b>(block: &'b Block, key: &'b Key) -> &'b str {
    block.spec.factor(key).map_or(key.as_str(), |factor| &factor.name)
}

fn base_ui(ui: &mut Ui, plan: &Plan, design: &Design, commands: &mut Vec<Command>) {
    ui.horizontal_wrapped(|ui| {
        ui.label("Base cell");
        for (_, key, ticked) in plan.first.varied() {
            let named = design.base.iter().find(|(known, _)| known == key).map(|(_, level)| level);
            let now = named.unwrap_or(&ticked[0]).to_string();
            let mut chosen: Option<&Level> = None;
            let title = format!("Base {}", name(&plan.first, key));
            choice(ui, &title, &now, 90.0, |ui| {
                for level in ticked {
                    if ui.selectable_label(level.to_string() == now, level.to_string()).clicked() {
                        chosen = Some(level);
                    }
                }
            });
            if let Some(level) = chosen {
                change(commands, plan, None, |design| {
                    design.base.retain(|(known, _)| known != key);
                    design.base.push((key.clone(), level.clone()));
                });
            }
        }
    });
}

fn logarithms_ui(ui: &mut Ui, plan: &Plan, design: &Design, commands: &mut Vec<Command>) {
    let is_number = |levels: &[Level]| levels.iter().all(|level| level.as_number().is_some());
    let numeric: Vec<&Key> =
        plan.first.varied().filter(|(_, _, levels)| is_number(levels)).map(|(_, key, _)| key).collect();
    if numeric.is_empty() {
        return;
    }
    ui.horizontal_wrapped(|ui| {
        ui.label("Spread by logarithm");
        for key in numeric {
            let on = design.logarithmic.contains(key);
            let tick = tick_ui(ui, on, true, name(&plan.first, key));
            let title = format!("Spread {} by its logarithm", name(&plan.first, key));
            tick.widget_info(|| WidgetInfo::selected(Role::CheckBox, true, on, &title));
            if tick.clicked() {
                change(commands, plan, None, |design| match on {
                    true => design.logarithmic.retain(|known| known != key),
                    false => design.logarithmic.push(key.clone()),
                });
            }
        }
    });
}

fn interactions_ui(ui: &mut Ui, plan: &Plan, design: &Design, commands: &mut Vec<Command>) {
    let keys: Vec<&Key> = plan.first.varied().map(|(_, key, _)| key).collect();
    let ticked = match &design.interactions {
        Interactions::All => keys.len() * keys.len().saturating_sub(1) / 2,
        Interactions::These(pairs) => pairs.len(),
    };
    let title = format!("Interactions it must estimate: {ticked}");
    CollapsingHeader::new(title).id_salt("interactions of the design").show(ui, |ui| {
        let all = design.interactions == Interactions::All;
        let tick = tick_ui(ui, all, true, "all pairs of factors that vary");
        if tick.clicked() {
            change(commands, plan, None, |design| {
                design.interactions = if all { Interactions::These(Vec::new()) } else { Interactions::All };
            });
        }
        let Interactions::These(pairs) = &design.interactions else { return };
        let is_pair = |pair: &(Key, Key), one: &Key, other: &Key| {
            (&pair.0, &pair.1) == (one, other) || (&pair.0, &pair.1) == (other, one)
        };
        ui.horizontal_wrapped(|ui| {
            for (at, one) in keys.iter().enumerate() {
                for other in &keys[at + 1..] {
                    let on = pairs.iter().any(|pair| is_pair(pair, one, other));
                    let text = format!("{} × {}", name(&plan.first, one), name(&plan.first, other));
                    if tick_ui(ui, on, true, text).clicked() {
                        change(commands, plan, None, |design| {
                            let Interactions::These(pairs) = &mut design.interactions else { return };
                            match on {
                                true => pairs.retain(|pair| !is_pair(pair, one, other)),
                                false => pairs.push(((*one).clone(), (*other).clone())),
                            }
                        });
                    }
                }
            }
        });
        // A pair whose factor does not vary any more makes the design impossible.
        let stale = |(one, other): &(Key, Key)| !keys.contains(&one) || !keys.contains(&other);
        for pair in pairs.iter().filter(|pair| stale(pair)) {
            let text = format!(
                "{} × {}: one of these factors has only one level",
                name(&plan.first, &pair.0),
                name(&plan.first, &pair.1)
            );
            if tick_ui(ui, true, true, text).clicked() {
                change(commands, plan, None, |design| {
                    let Interactions::These(pairs) = &mut design.interactions else { return };
                    pairs.retain(|known| known != pair);
                });
            }
        }
    });
}

fn added_ui(ui: &mut Ui, plan: &Plan, design: &Design, commands: &mut Vec<Command>) {
    for (place, added) in design.added.iter().enumerate() {
        ui.horizontal_wrapped(|ui| {
            match added {
                Added::FoldOver(None) => drop(ui.label("Added: the other levels of all factors (fold-over)")),
                Added::FoldOver(Some(key)) => {
                    ui.label(format!("Added: the other levels of {} (fold-over)", name(&plan.first, key)));
                }
                Added::DOptimal(runs) => {
                    ui.label("Added: D-optimal runs");
                    let mut runs = *runs;
                    let field = DragValue::new(&mut runs).range(1..=MOST_RUNS).speed(0.1).ui(ui);
                    field.widget_info(|| WidgetInfo::labeled(Role::SpinButton, true, "Runs that are added"));
                    if field.changed() {
                        change(commands, plan, Some("added runs"), |design| {
                            design.added[place] = Added::DOptimal(runs);
                        });
                    }
                }
            }
            let remove = ui.button("Remove");
            remove.widget_info(|| WidgetInfo::labeled(Role::Button, true, format!("Remove addition {}", place + 1)));
            if deliberate::clicked(&remove, ("remove addition", place)) {
                change(commands, plan, None, |design| drop(design.added.remove(place)));
            }
        });
    }
    let help = "Adds runs to the design; its present runs stay as they are. With \"keep finished repeats\", only the new runs start.";
    let mut asked = None;
    ui.menu_button("Add runs …", |ui| {
        if ui
            .button("Fold over all factors")
            .on_hover_text("Separates the effect of each factor from what two factors do together")
            .clicked()
        {
            asked = Some(Added::FoldOver(None));
        }
        for (_, key, _) in plan.first.varied() {
            let text = format!("Fold over {}", name(&plan.first, key));
            if ui
                .button(text)
                .on_hover_text("Separates the effect of this factor, and of its pairs with others, from other effects")
                .clicked()
            {
                asked = Some(Added::FoldOver(Some(key.clone())));
            }
        }
        if ui.button(format!("{MORE_RUNS} D-optimal runs")).on_hover_text("For the ticked interactions").clicked() {
            asked = Some(Added::DOptimal(MORE_RUNS));
        }
    })
    .response
    .on_hover_text(help);
    if let Some(added) = asked {
        change(commands, plan, None, |design| design.added.push(added));
    }
}

/// Draws which effects the design can separate, or why it cannot be made.
fn resolved_ui(ui: &mut Ui, outlook: &Outlook) {
    let warning = palette(ui.visuals()).warning;
    if let Some(trouble) = &outlook.design_trouble {
        ui.add(Label::new(RichText::new(format!("⚠ {trouble}")).size(SMALL).color(warning)).wrap());
    }
    let Some(Resolved { summary, mixed, notes, warnings }) = &outlook.resolved else { return };
    ui.add(Label::new(summary.as_str()).wrap());
    for text in warnings {
        ui.add(Label::new(RichText::new(format!("⚠ {text}")).size(SMALL).color(warning)).wrap());
    }
    for note in notes {
        ui.add(Label::new(muted(ui, note.as_str()).size(SMALL)).wrap());
    }
    if mixed.is_empty() {
        return;
    }
    CollapsingHeader::new("What it does not tell apart").id_salt("mixed effects of the design").show(ui, |ui| {
        for (effect, others) in mixed {
            ui.add(Label::new(RichText::new(format!("{effect}: also {others}")).size(SMALL)).wrap());
        }
    });
}
