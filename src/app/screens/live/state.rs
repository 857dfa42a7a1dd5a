//! The state of the Live screen and its commands.

use std::sync::Arc;

use super::store::Shelf;
use crate::app::command::{ScreenCommand, ScreenName};
use crate::app::curves::{Kind, XAxis};
use crate::figure::LineLooks;
use crate::plan::USUAL_STEP;

/// A command of the Live screen.
#[derive(Clone, Debug, PartialEq)]
pub enum LiveCommand {
    /// Show or hide a run.
    Choose(String, bool),
    /// Hide all runs.
    ChooseNone,
    /// Show or hide a panel.
    Panel(Kind, bool),
    /// Change the horizontal axis.
    XAxis(XAxis),
    /// One curve per GPU or rank, or one per run.
    PerGpu(bool),
    /// Set the smoothing factor, from 0 (off) to below 1.
    Smoothing(f32),
    /// Use a logarithmic axis for the loss.
    LogLoss(bool),
    /// Keep the newest values in view.
    Follow(bool),
    /// Zoom to this range of the horizontal axis.
    View(f64, f64),
    /// Show everything.
    Reset,
    /// Focus the filter field.
    FocusFilter,
    /// List only runs that match this filter.
    Filter(String),
}

impl ScreenCommand for LiveCommand {
    const SCREEN: ScreenName = ScreenName::LIVE;
}

/// The Live screen.
pub struct LiveScreen {
    pub(super) shelf: Shelf,
    /// Hidden panels.
    pub(super) hidden: Vec<Kind>,
    pub(super) x_axis: XAxis,
    pub(super) per_gpu: bool,
    pub(super) smoothing: f32,
    pub(super) log_loss: bool,
    pub(super) follow: bool,
    /// Zoomed range of the horizontal axis; `None` shows everything.
    pub(super) view: Option<(f64, f64)>,
    pub(super) filter: String,
    /// The word for a step in the session's workloads.
    pub(super) step: Arc<str>,
    /// The order and the looks of the session's levels.
    pub(super) lines: LineLooks,
}

impl Default for LiveScreen {
    fn default() -> Self {
        Self {
            shelf: Shelf::default(),
            hidden: vec![Kind::SmActivity],
            x_axis: XAxis::default(),
            per_gpu: false,
            smoothing: 0.0,
            log_loss: false,
            follow: true,
            view: None,
            filter: String::new(),
            step: USUAL_STEP.into(),
            lines: LineLooks::default(),
        }
    }
}
