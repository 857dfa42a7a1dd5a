//! Data sets: which ones exist, and generating or downloading the others.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use eframe::egui::{Context, Label, ProgressBar, RichText, Ui};
use poll_promise::Promise;

use super::NodeCommand;
use crate::app::command::Command;
use crate::app::deliberate;
use crate::app::screens::node::View;
use crate::app::task::on_thread;
use crate::app::theme::palette;
use crate::app::widgets::{muted, named, prose, strong};
use crate::app::words::bytes_text;
use crate::dataset::{self, DatasetError};
use crate::figure::grouped;
use crate::plan::{Key, Obtainable, Obtained, obtainable};
use crate::remote::Address;

/// Interval of progress updates.
const UPDATE_INTERVAL: Duration = Duration::from_millis(100);

/// Progress and cancellation, shared with the working thread.
#[derive(Default)]
struct Shared {
    done: AtomicU64,
    total: AtomicU64,
    cancel: AtomicBool,
}

/// A set of files that is being generated or downloaded.
pub struct Work {
    key: Key,
    shared: Arc<Shared>,
    promise: Promise<Result<String, String>>,
}

impl Work {
    /// Starts the work.
    pub fn start(key: Key, context: &Context) -> Result<Self, String> {
        let known = obtainable().find(|(_, files)| files.key == key);
        let (rule, files) = known.ok_or_else(|| format!("{key} is not a data set of any workload"))?;
        let folder = dataset::folder_of(rule, files).map_err(|error| error.to_string())?;
        let shared = Arc::<Shared>::default();
        let (theirs, waker) = (Arc::clone(&shared), context.clone());
        let promise = on_thread("data-set", context, move || {
            let mut updated: Option<Instant> = None;
            let mut progress = |done, total| {
                theirs.done.store(done, Ordering::Relaxed);
                theirs.total.store(total, Ordering::Relaxed);
                if updated.is_none_or(|updated| updated.elapsed() >= UPDATE_INTERVAL) {
                    updated = Some(Instant::now());
                    waker.request_repaint();
                }
                if theirs.cancel.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            match dataset::obtain(&files.key, &folder, &mut progress) {
                Ok(()) => Ok(format!("{} is ready", files.key)),
                Err(DatasetError::Cancelled) => Ok("cancelled; the finished part is kept for the next time".to_owned()),
                Err(error) => Err(error.to_string()),
            }
        });
        Ok(Self { key, shared, promise })
    }

    /// Cancels the work at its next step.
    pub fn cancel(&self) {
        self.shared.cancel.store(true, Ordering::Relaxed);
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.promise.ready().is_some()
    }

    /// The key of the set and the outcome; waits while the work goes on.
    pub fn outcome(self) -> (Key, Result<String, String>) {
        (self.key, self.promise.block_and_take())
    }
}

/// Draws the data sets.
pub fn data_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let machine = view.own;
    let palette = palette(ui.visuals());
    // Long work on another machine must be started in a shell there.
    let far = view.session.as_ref().filter(|session| session.host().is_some());
    let far = far.and_then(|session| Address::of(&session.folder).ok().flatten());
    let sets = machine.places.as_ref().map_or(&[][..], |places| &places.sets);
    for (index, (_, files)) in obtainable().enumerate() {
        let known = sets.get(index);
        let bytes = known.and_then(|(_, bytes)| *bytes);
        ui.horizontal_wrapped(|ui| {
            ui.label(strong(&*files.key));
            match (known, bytes) {
                (None, _) => ui.label(muted(ui, "reading …")),
                (Some(_), Some(bytes)) => ui.colored_label(palette.good, format!("✓ {}", bytes_text(bytes as f64))),
                (Some(_), None) => ui.label(muted(ui, "not present")),
            };
            let idle = machine.work.is_none();
            let is_missing = known.is_some() && bytes.is_none();
            if is_missing && far.is_none() && ui.add_enabled(idle, button(files)).clicked() {
                commands.push(Command::from(NodeCommand::Get(files.key.clone())));
            }
            if let Some(far) = far.as_ref().filter(|_| is_missing) {
                ui.label(muted(ui, "Type:"));
                let typed = far.multicard_command(&command(files));
                ui.add(Label::new(RichText::new(&typed).monospace()).selectable(true));
                let copy = ui.small_button("Copy");
                copy.widget_info(|| named(&format!("Copy the command that gets {}", files.key)));
                if copy.clicked() {
                    ui.ctx().copy_text(typed);
                }
            }
        });
        ui.add(Label::new(muted(ui, &files.about).small()).wrap());
        match known {
            Some((Ok(folder), _)) => {
                ui.add(Label::new(muted(ui, folder.display().to_string()).small()).wrap().selectable(true));
            }
            Some((Err(reason), _)) => {
                ui.label(prose(ui, reason, palette.bad));
            }
            None => {}
        }
        if let Some(work) = machine.work.as_ref().filter(|work| work.key == files.key) {
            work_ui(ui, work, files.by, commands);
        }
        match machine.outcome.as_ref().filter(|(key, _)| *key == files.key) {
            Some((_, Ok(text))) => {
                ui.label(muted(ui, text));
            }
            Some((_, Err(reason))) => {
                ui.add(Label::new(prose(ui, &format!("⚠ {reason}"), palette.bad)).wrap());
            }
            None => {}
        }
        ui.add_space(4.0);
    }
}

/// The command that gets a data set.
fn command(files: &Obtainable) -> String {
    let verb = match files.by {
        Obtained::Generated => "make",
        Obtained::Downloaded => "fetch",
    };
    format!("data {verb} {}", files.key)
}

fn button(files: &Obtainable) -> eframe::egui::Button<'static> {
    let verb = match files.by {
        Obtained::Generated => "Generate",
        Obtained::Downloaded => "Download",
    };
    eframe::egui::Button::new(format!("{verb} {}", files.name))
}

fn work_ui(ui: &mut Ui, work: &Work, by: Obtained, commands: &mut Vec<Command>) {
    let (done, total) = (work.shared.done.load(Ordering::Relaxed), work.shared.total.load(Ordering::Relaxed));
    let text = match (total, by) {
        (0, _) => "waiting for another process that is preparing the same data …".to_owned(),
        (_, Obtained::Generated) => format!("{} of {} images", grouped(&done.to_string()), grouped(&total.to_string())),
        (_, Obtained::Downloaded) => format!("{} of {}", bytes_text(done as f64), bytes_text(total as f64)),
    };
    ui.horizontal(|ui| {
        let share = done as f32 / total.max(1) as f32;
        ui.add(ProgressBar::new(share).desired_width(160.0).desired_height(10.0));
        ui.label(text);
        if deliberate::clicked(&ui.button("Cancel"), "cancel getting data") {
            commands.push(Command::from(NodeCommand::CancelGet));
        }
    });
}
