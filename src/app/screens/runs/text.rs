//! Long texts on a run's page; only visible lines are laid out.

use std::ops::Range;

use eframe::egui::{Button, Label, RichText, ScrollArea, TextStyle, TextWrapMode, Ui};

use crate::plan::counted;

/// Longest line shown, in characters: laying out a megabyte would block the window.
const LINE_CHARS: usize = 2_000;

/// A text, split into lines.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    text: String,
    lines: Vec<Range<usize>>,
}

impl Lines {
    /// Splits a text into lines.
    pub fn new(text: String) -> Self {
        let start = text.as_ptr() as usize;
        let range = |line: &str| {
            let from = line.as_ptr() as usize - start;
            let end = line.char_indices().nth(LINE_CHARS).map_or(line.len(), |(end, _)| end);
            from..from + end
        };
        let lines = text.lines().map(range).collect();
        Self { text, lines }
    }

    /// Whether the text is blank.
    pub fn is_empty(&self) -> bool {
        self.text.trim().is_empty()
    }
}

/// Draws a text, or `absent` if it is blank. `name` labels it; `from_end` keeps its end in view.
pub fn text_ui(ui: &mut Ui, name: &str, lines: &Lines, absent: &str, from_end: bool) {
    if lines.is_empty() {
        ui.weak(absent);
        return;
    }
    ui.horizontal(|ui| {
        if ui.add(Button::new(format!("Copy {name}")).small()).clicked() {
            ui.ctx().copy_text(lines.text.clone());
        }
        ui.weak(counted(lines.lines.len(), "line"));
    });
    let height = ui.text_style_height(&TextStyle::Monospace);
    let area = ScrollArea::both().id_salt(name).auto_shrink(false).stick_to_bottom(from_end);
    area.show_rows(ui, height, lines.lines.len(), |ui, shown| {
        ui.style_mut().wrap_mode = Some(TextWrapMode::Extend);
        for range in lines.lines.get(shown).unwrap_or_default() {
            let line = lines.text.get(range.clone()).unwrap_or_default();
            ui.add(Label::new(RichText::new(line).monospace()).selectable(true));
        }
    });
}
