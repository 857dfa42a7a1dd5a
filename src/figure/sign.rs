//! The second signs of looks, which distinguish series in grey prints, and the signs that an author sets for a series.

use serde::{Deserialize, Serialize};
use strum::{EnumMessage, VariantArray};

/// The shape of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, VariantArray, EnumMessage)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Marker {
    /// A disc.
    Circle,
    /// A square.
    Square,
    /// A triangle that points up.
    Up,
    /// A square on its tip.
    Diamond,
    /// A triangle that points down.
    Down,
    /// A multiplication sign.
    Cross,
    /// A plus sign.
    Plus,
    /// A star of lines.
    Asterisk,
}

/// The lines in an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, VariantArray, EnumMessage)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Hatch {
    /// No hatch: the plain colour.
    Plain,
    /// Diagonals that rise to the right.
    Rising,
    /// Diagonals that fall to the right.
    Falling,
    /// Both diagonals.
    Lattice,
    /// Horizontal lines.
    Horizontal,
    /// Vertical lines.
    Vertical,
    /// Horizontal and vertical lines.
    Grid,
    /// Dots.
    Dots,
}

/// The dash pattern of a line, among those of levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, VariantArray, EnumMessage)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum DashKind {
    /// A line without gaps.
    Solid,
    /// A line of strokes.
    Dashed,
    /// A line of dots.
    Dotted,
    /// A line of strokes and dots in turn.
    DashDot,
    /// A line of long strokes.
    Long,
}

/// The look that an author sets for a series in place of its usual one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OwnLook {
    /// Its colour as sRGB bytes.
    pub colour: Option<[u8; 3]>,
    /// The shape of its points.
    pub marker: Option<Marker>,
    /// The hatch of its bars.
    pub hatch: Option<Hatch>,
    /// The dash of its lines.
    pub dash: Option<DashKind>,
}
