//! The menu that chooses a measure of recordings: from a searchable list of what the recordings contain, or by pattern.

use eframe::egui::{Button, Id, Role, ScrollArea, Ui, WidgetInfo};

use super::CompareCommand;
use crate::analysis::{
    Key, RecordedMeasure, RecordedStatistic, TRACE_METRICS, TraceList, TraceMetricKind, TracePattern, counted,
};
use crate::app::command::{Command, edit};
use crate::app::widgets::{check_ui, lasting_menu, muted, named, text_field};
use crate::figure::Study;

/// The name of the menu.
pub const RECORDINGS: &str = "Of recordings";
/// The name of its search field.
pub const SEARCH: &str = "Search names, or a pattern";
/// The most names of a list that are drawn.
const MOST_NAMES: usize = 100;
/// Width of the menu.
const WIDTH: f32 = 460.0;

/// What was typed and chosen in the menu.
#[derive(Clone, Default)]
struct Asked {
    text: String,
    statistic: RecordedStatistic,
    per_step: bool,
    per_rank: bool,
}

impl Asked {
    /// The key of the measure of a pattern; ranges have no share.
    fn key(&self, list: TraceList, pattern: &str) -> Option<Key> {
        let divides = matches!(self.statistic, RecordedStatistic::Total | RecordedStatistic::Count);
        let (per_step, per_rank) = (self.per_step && divides, self.per_rank && divides);
        let key = format!("{}:{pattern}", RecordedMeasure::prefix(list, self.statistic, per_step, per_rank));
        RecordedMeasure::parse(&key)?.ok().map(|_| Key::from(key))
    }
}

/// Draws the menu, unless nothing is recorded. `names` are the names in the recordings, by list.
pub fn recorded_ui(ui: &mut Ui, study: &Study, names: &[(TraceList, String)], commands: &mut Vec<Command>) {
    if names.is_empty() {
        return;
    }
    let menu = lasting_menu(ui, Button::new(RECORDINGS), |ui| {
        ui.set_min_width(WIDTH);
        // What is typed and chosen is local state, stored in egui's memory.
        let id = Id::unique("compare-recorded");
        let mut asked: Asked = ui.data(|data| data.get_temp(id)).unwrap_or_default();
        let field = ui.add(text_field(&mut asked.text, SEARCH, WIDTH - 20.0));
        field.widget_info(|| WidgetInfo::labeled(Role::TextInput, true, SEARCH));
        statistic_ui(ui, &mut asked);
        let chosen = names_ui(ui, &asked, names);
        if let Some(key) = chosen {
            edit::<CompareCommand>(commands, study, None, |study| study.measure = Some(key));
            ui.close();
        }
        ui.data_mut(|data| data.insert_temp(id, asked));
    });
    menu.response.on_hover_text("Any kernel, copy, CUDA call, range or collective of the recordings as the measure");
}

/// Draws the choice of what is computed.
fn statistic_ui(ui: &mut Ui, asked: &mut Asked) {
    ui.horizontal_wrapped(|ui| {
        for one in RecordedStatistic::ALL {
            let chosen = asked.statistic == *one;
            let label = ui.selectable_label(chosen, one.name()).on_hover_text(one.help());
            label.widget_info(|| WidgetInfo::selected(Role::RadioButton, true, chosen, one.name()));
            if label.clicked() {
                asked.statistic = *one;
            }
        }
        if matches!(asked.statistic, RecordedStatistic::Total | RecordedStatistic::Count) {
            check_ui(ui, &mut asked.per_step, "per step");
            check_ui(ui, &mut asked.per_rank, "per rank");
        }
    });
    ui.separator();
}

/// Draws the matching names by list, and what the text picks as a pattern; returns the key that was clicked.
fn names_ui(ui: &mut Ui, asked: &Asked, names: &[(TraceList, String)]) -> Option<Key> {
    let text = asked.text.trim();
    let mut chosen = None;
    let mut offer = |ui: &mut Ui, key: Option<Key>, name: &str| {
        let Some(key) = key else { return };
        let button = ui.add(Button::selectable(false, name).truncate());
        button.widget_info(|| named(name));
        if button.on_hover_text(name).clicked() {
            chosen = Some(key);
        }
    };
    ScrollArea::vertical().max_height(420.0).auto_shrink([false, true]).show(ui, |ui| {
        let mut is_any = false;
        for list in TraceList::ALL {
            let all = || names.iter().filter(|(other, _)| other == list).map(|(_, name)| name.as_str());
            let pattern = (!text.is_empty()).then(|| TracePattern::new(*list, text));
            if let Some(Err(why)) = &pattern {
                if *list == TraceList::ALL[0] {
                    ui.label(muted(ui, why));
                }
                continue;
            }
            let pattern = pattern.and_then(Result::ok);
            let picked: Vec<&str> = all().filter(|name| pattern.as_ref().is_none_or(|one| one.picks(name))).collect();
            if picked.is_empty() {
                continue;
            }
            is_any = true;
            ui.label(muted(ui, list.name())).on_hover_text(list.help());
            if pattern.is_some() {
                let name = format!("{} with {text}: {}", list.name(), counted(picked.len(), "name"));
                offer(ui, asked.key(*list, text), &name);
            }
            for (kind, metric) in metrics(*list).filter(|(_, metric)| picked.iter().any(|name| metric.picks(name))) {
                offer(ui, asked.key(*list, metric.text()), &format!("{} (metric of the papers)", kind.name));
            }
            for name in picked.iter().take(MOST_NAMES) {
                let exact = TracePattern::exactly(*list, name);
                let exact = exact.split_once(':').map_or("", |(_, pattern)| pattern);
                offer(ui, asked.key(*list, exact), name);
            }
            if picked.len() > MOST_NAMES {
                ui.label(muted(ui, format!("… and {} more: type a part of the name", picked.len() - MOST_NAMES)));
            }
        }
        if !is_any {
            ui.label(muted(ui, "No name in the recordings matches."));
        }
    });
    chosen
}

/// The papers' metrics of a list.
fn metrics(list: TraceList) -> impl Iterator<Item = (&'static TraceMetricKind, TracePattern)> {
    let all = TRACE_METRICS.iter().filter_map(|kind| Some((kind, TracePattern::parse(kind.pattern).ok()?)));
    all.filter(move |(_, pattern)| pattern.list == list)
}
