//! Long texts of a run's page: only the lines that are seen are laid out.

use std::ops::Range;

use eframe::egui::{Button, Label, RichText, ScrollArea, TextStyle, TextWrapMode, Ui};

/// A longer line is cut: laying out a megabyte would hold the window up.
const LINE_CHARS: usize = 2_000;

/// A text with its lines known.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    text: String,
    lines: Vec<Range<usize>>,
}

impl Lines {
    /// Finds the lines.
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

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.text.trim().is_empty()
    }
}

/// Draws a text, or says why there is none. `name` is what it is called; `from_end` keeps its end in sight.
pub fn text_ui(ui: &mut Ui, name: &str, lines: &Lines, absent: &str, from_end: bool) {
    if lines.is_empty() {
        ui.weak(absent);
        return;
    }
    ui.horizontal(|ui| {
        if ui.add(Button::new(format!("Copy {name}")).small()).clicked() {
            ui.ctx().copy_text(lines.text.clone());
        }
        ui.weak(format!("{} lines", lines.lines.len()));
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
