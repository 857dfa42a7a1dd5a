//! The form of a plan's own program: the typed texts, and a trial of one cell.
//!
//! Each valid change of the texts is applied to the plan. The document keeps invalid texts beside the plan, with their errors, until they
//! are corrected or the plan is changed elsewhere.

mod fields;
mod trial;

use super::PlanScreen;
use super::View;
use super::document::Document;
use crate::plan::CommandTexts;
use trial::Tried;

pub(super) use fields::command_ui;

/// The form.
#[derive(Default)]
pub(super) struct Form {
    /// The field that was edited last; `None` after an edit of several.
    edited: Option<Field>,
    tried: Tried,
    /// The number of trials so far.
    trials: u64,
}

/// A field of the form, and its place among fields of its kind.
type Field = (&'static str, usize);

impl Form {
    fn type_texts(&mut self, texts: CommandTexts, document: &mut Document) {
        let field = document.texts().and_then(|before| changed_field(&before, &texts));
        if field != self.edited {
            // Letters of one field are undone together, and each field separately.
            document.part();
        }
        self.edited = field;
        document.edit_texts(texts, field.map(|_| "texts of the command"));
    }
}

/// The only field in which texts differ; `None` if there are several, such as when a factor is added with its placeholder.
fn changed_field(before: &CommandTexts, after: &CommandTexts) -> Option<Field> {
    let is_same_list = before.factors.len() == after.factors.len() && before.measures.len() == after.measures.len();
    if !is_same_list {
        return None;
    }
    let single = [
        ("command", before.run != after.run),
        ("folder", before.folder != after.folder),
        ("set-up", before.setup != after.setup),
        ("variables", before.variables != after.variables),
        ("time limit", before.time_limit_s != after.time_limit_s),
        ("unit", before.unit != after.unit),
        ("step", before.step != after.step),
        ("patterns", before.patterns != after.patterns),
        ("files", before.files != after.files),
        ("names", before.names != after.names),
        ("warm-up", before.finds_warm_up != after.finds_warm_up),
    ];
    let single = single.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| (name, 0));
    let factors = (0..after.factors.len()).filter(|place| before.factors[*place] != after.factors[*place]);
    let measures = (0..after.measures.len()).filter(|place| before.measures[*place] != after.measures[*place]);
    let factors = factors.map(|place| ("factor", place));
    let measures = measures.map(|place| ("measure", place));
    let changed: Vec<Field> = single.chain(factors).chain(measures).collect();
    match changed[..] {
        [field] => Some(field),
        _ => None,
    }
}

impl PlanScreen {
    /// The texts of the plan's own program; `None` for other workloads.
    pub(super) fn texts(&self) -> Option<CommandTexts> {
        self.document.texts()
    }

    /// What is wrong with the texts of the displayed program.
    pub(super) fn program_error(&self) -> Option<&str> {
        self.document.typed()?.error.as_deref()
    }

    /// The factor that the displayed command lacks, if a placeholder names one that is not there.
    pub(super) fn lacking_factor(&self) -> Option<String> {
        fields::unknown_placeholder(&self.texts()?).filter(|name| !name.is_empty())
    }

    pub(super) fn type_texts(&mut self, texts: CommandTexts) {
        self.program.type_texts(texts, &mut self.document);
    }
}

impl View<'_> {
    /// Why the first cell cannot be tried now.
    pub(super) fn trial_refusal(self) -> Option<String> {
        // Queued runs may start at any time, unless the queue is paused.
        if self.queue.is_running() || self.queue.is_active() && !self.queue.paused {
            return Some("Runs are in progress, which a trial would disturb.".to_owned());
        }
        if self.node.is_none() {
            return Some("Reading this machine …".to_owned());
        }
        if let Some(host) = self.session.as_ref().and_then(|session| session.host()) {
            return Some(format!(
                "A trial would run on this machine, not on {host}: try the plan there with `multicard run`."
            ));
        }
        self.own.short_form_error()
    }
}
