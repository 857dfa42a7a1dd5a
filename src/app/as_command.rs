//! What is on screen as a command line: what a click did here can be done again in a terminal, a script or a batch system.

use std::path::Path;

use eframe::egui::Context;

use super::state::OpenSession;
use super::{Screen, State, node};
use crate::figure::{Study, arguments, paper};

impl State {
    /// Copies the command for what is on screen, or says why there is none.
    pub(super) fn copy_command(&mut self, context: &Context) {
        match self.as_command() {
            Ok(command) => context.copy_text(command),
            Err(reason) => self.problem(self.screen, format!("Nothing was copied: {reason}")),
        }
    }

    /// The command for what is on screen.
    ///
    /// # Errors
    /// Why there is none.
    pub fn as_command(&self) -> Result<String, String> {
        if self.screen == Screen::Node {
            return Ok(self.node_command());
        }
        if self.screen == Screen::Plan {
            return self.run_command();
        }
        if self.screen == Screen::Timeline {
            let files: Vec<String> = self.timeline.runs.iter().map(|run| path(&run.file)).collect();
            let none = "no recording is open: open one first";
            return if files.is_empty() {
                Err(none.to_owned())
            } else {
                Ok(format!("multicard timeline {}", files.join(" ")))
            };
        }
        let session = self.session.as_ref().ok_or("no session is open")?;
        let folder = shell_word(&session.place());
        let words = match self.screen {
            Screen::Compare => [vec!["table".to_owned(), folder], self.study_words(&self.compare.study)?].concat(),
            Screen::Figures => {
                let study = &self.figure_study();
                let out = vec!["--out".to_owned(), path(&self.figure_path())];
                [vec!["figure".to_owned(), folder], self.study_words(study)?, style_words(&study.style), out].concat()
            }
            // The queue and its curves: whoever attaches follows both.
            _ if self.queue.is_active() => vec!["attach".to_owned(), folder],
            _ => vec!["session".to_owned(), "show".to_owned(), folder],
        };
        Ok(format!("multicard {}", words.join(" ")))
    }

    /// The command that writes the same table of the shown runs; none without a session.
    pub(super) fn export_command(&self) -> Option<String> {
        let folder = path(&self.session.as_ref()?.folder);
        let words: Vec<String> = self.export_words().iter().map(|word| shell_word(word)).collect();
        Some(format!("multicard export {folder} {}", words.join(" ")))
    }

    /// What describes the machine, or measures it where its rates are on screen and this window could measure them.
    fn node_command(&self) -> String {
        let has_rates = !self.records.rates.is_empty() || self.queue.measurement.is_some();
        let session = self.session.as_ref().filter(|_| has_rates && node::rates::refusal(self).is_none());
        let measure = |session: &OpenSession| format!(" measure --session {}", shell_word(&session.place()));
        format!("multicard node{}", session.map_or(String::new(), measure))
    }

    fn run_command(&self) -> Result<String, String> {
        let file = self.plan.saved_file().ok_or("the plan is in no file as it stands: save it first")?;
        let session = self.session.as_ref().filter(|session| !session.is_sample());
        let session = session.map_or(String::new(), |session| format!(" --session {}", shell_word(&session.place())));
        let resume = if self.plan.keeps_finished() { " --resume" } else { "" };
        Ok(format!("multicard run {}{session}{resume}", path(file)))
    }

    fn study_words(&self, study: &Study) -> Result<Vec<String>, String> {
        if self.compare_sources().len() > 1 {
            return Err("several sessions are compared, and a command reads one: remove the others".to_owned());
        }
        Ok(arguments(study, &self.records.studies)?.iter().map(|word| shell_word(word)).collect())
    }
}

fn style_words(style: &paper::Style) -> Vec<String> {
    let usual = paper::Style::default();
    let mut words = Vec::new();
    if style.width != usual.width {
        words.extend(["--width", if style.width == paper::Width::Page { "page" } else { "column" }].map(String::from));
    }
    if style.font != usual.font {
        words.extend(["--font", if style.font == paper::Family::Serif { "serif" } else { "sans" }].map(String::from));
    }
    if style.palette != usual.palette {
        let name = if style.palette == paper::Palette::Grey { "grey" } else { "colour" };
        words.extend(["--palette", name].map(String::from));
    }
    if style.size_pt != usual.size_pt {
        words.extend(["--size".to_owned(), style.size_pt.to_string()]);
    }
    words
}

fn path(path: &Path) -> String {
    shell_word(&path.display().to_string())
}

/// A word as a POSIX shell reads it: in quotes where it has letters with a meaning.
fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:%+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::app::Settings;
    use crate::conduct::QueueView;
    use crate::figure::preset;
    use crate::plan::Level;
    use crate::plan::fixture::cpu_node;
    use crate::session::{Measurement, Stage};

    fn state(screen: Screen) -> State {
        let mut state = State::new(Settings::default());
        state.session = Some(OpenSession { folder: "/home/me/it's mine".into(), read_only: None });
        state.screen = screen;
        state
    }

    #[test]
    fn words_are_quoted_so_that_a_shell_reads_what_was_meant() {
        for word in ["plain", "a b", "it's", "", "$(rm x)", "not precision=fp64", "ü"] {
            let echo = format!("printf %s {}", shell_word(word));
            let output = std::process::Command::new("sh").args(["-c", &echo]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }

    #[test]
    fn a_table_is_asked_for_with_its_filter_and_what_is_hidden() {
        let mut state = state(Screen::Compare);
        state.compare.study.filter = "gpus>=2".to_owned();
        state.compare.study.hidden.push(("precision".into(), Level::text("fp64")));
        let command = state.as_command().unwrap();
        let filter = "'(gpus>=2) and not precision=fp64'";
        assert_eq!(command, format!(r"multicard table '/home/me/it'\''s mine' --form bars --filter {filter}"));
    }

    #[test]
    fn a_figure_names_its_study_style_and_file() {
        let mut state = state(Screen::Figures);
        state.figures.study = preset("memory").unwrap();
        state.figures.study.style.width = paper::Width::Page;
        state.figures.path = "/tmp/a.svg".to_owned();
        let command = state.as_command().unwrap();
        assert!(command.ends_with("--study memory --width page --out /tmp/a.svg"), "{command}");
    }

    #[test]
    fn the_machine_is_described_and_measured_again_where_its_rates_are_shown() {
        let mut state = state(Screen::Node);
        let command = |state: &State| state.as_command().unwrap();
        state.node = Some(Arc::new(cpu_node()));
        assert_eq!(command(&state), "multicard node");
        let (stage, left) = (Stage::Waits, Vec::new());
        let measurement = Measurement { time_s: 0.0, duration_s: 1.0, devices: 1, measured: 0, left, stage };
        state.queue = Arc::new(QueueView { measurement: Some(measurement), ..QueueView::default() });
        assert_eq!(command(&state), r"multicard node measure --session '/home/me/it'\''s mine'");
        state.session.as_mut().unwrap().read_only = Some("another program writes it".to_owned());
        assert_eq!(command(&state), "multicard node", "this one cannot be measured for");
    }

    #[test]
    fn a_plan_without_a_file_is_to_be_saved_first() {
        assert!(state(Screen::Plan).as_command().unwrap_err().contains("save it first"));
    }
}
