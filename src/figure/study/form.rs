//! Kinds of charts, and the choices that only some of them have.

use serde::{Deserialize, Serialize};
use strum::{EnumMessage, IntoStaticStr, VariantArray};

use crate::figure::number::capitalised;
use crate::plan::named;

/// A kind of chart. The first line of each variant's documentation is also its help text.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, VariantArray, IntoStaticStr, EnumMessage,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Form {
    /// A measure as grouped bars.
    #[default]
    Bars,
    /// Losses and accuracy by epoch.
    Loss,
    /// A measure over GPUs next to its ideal, and the efficiency.
    Scaling,
    /// Peaks of GPU memory.
    Memory,
    /// Metrics of profilers' reports.
    Metrics,
    /// The effect of each level on a measure.
    Effects,
    /// Every repeat of every cell.
    Repeats,
    /// A measure over two factors as a field of colours.
    Map,
    /// Parts of a step's time: waiting for data, everything else.
    Parts,
    /// What each rank of a run did at each time.
    Activity,
    /// All effects of levels and interactions of two factors, the largest first.
    Tornado,
    /// How the effect of one factor depends on another: means over all other factors.
    Interactions,
    /// Cells that no other cell beats in time, memory and energy at the same time.
    Pareto,
    /// The model's FLOP rate over its arithmetic intensity, below the measured rates of the devices.
    Roofline,
    /// A measure over another one, or over a factor that is a number: one point a cell, with their correlation and a fitted law.
    Scatter,
    /// A measure over sessions in the order of their dates or commits, with the places where its level changes.
    History,
}

named!(Form: all, key, help);

impl Form {
    /// The name on screen.
    pub fn name(self) -> String {
        capitalised(self.key())
    }

    /// Whether it draws a measure that can be chosen.
    pub fn has_measure(self) -> bool {
        !matches!(self, Self::Memory | Self::Metrics | Self::Parts | Self::Activity | Self::Roofline)
    }

    /// Whether its cells are compared with a baseline. A history compares each cell with its own past.
    pub fn has_baseline(self) -> bool {
        !matches!(self, Self::Metrics | Self::History)
    }

    /// Whether the colours of its chart stand for the levels of the one setting that the study shows by colour.
    pub fn colours_levels(self) -> bool {
        use Form::{Bars, History, Loss, Repeats, Roofline, Scaling, Scatter};
        matches!(self, Bars | Loss | Scaling | Repeats | Roofline | Scatter | History)
    }

    /// Whether its chart and table show effects of levels instead of cells.
    pub fn is_of_effects(self) -> bool {
        matches!(self, Self::Effects | Self::Tornado | Self::Interactions)
    }
}

/// The horizontal axis of losses. The first line of each variant's documentation is also its help text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, VariantArray, EnumMessage)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Over {
    /// Epochs.
    #[strum(message = "Epochs")]
    #[default]
    Epochs,
    /// Steps, counted over the whole run.
    #[strum(message = "Steps")]
    Steps,
    /// Time spent in training.
    #[strum(message = "Training time")]
    Time,
}

named!(Over: all, label);

/// A law that is fitted to the points of the form `scatter`. The first line of each variant's documentation is also its help text.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, VariantArray, IntoStaticStr, EnumMessage,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Law {
    /// None.
    #[default]
    Nothing,
    /// Amdahl's law, T₁ (s + (1 − s) / n): a time over the number of GPUs.
    Amdahl,
    /// α + m / β: a time over bytes, with a latency and a rate.
    AlphaBeta,
}

named!(Law: all, help);

impl Law {
    /// The name on screen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Amdahl => "Amdahl",
            Self::AlphaBeta => "α-β",
        }
    }
}

/// The order of sessions in the form `history`. The first line of each variant's documentation is also its help text.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, VariantArray, IntoStaticStr, EnumMessage,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Along {
    /// The dates of their first runs.
    #[default]
    Dates,
    /// The git commits that they ran, in the order of the commits' dates.
    Commits,
}

named!(Along: all, name, help);
