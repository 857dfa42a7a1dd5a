//! Why two cells cannot be compared.

use std::fmt;

use super::counted;
use super::rounding::Rounding;
use super::texts::{long_time, percent};

/// Why two cells cannot be compared. It belongs to a comparison by one measure; a [`Mark`](super::Mark) belongs to one run, whatever the
/// run is compared with.
#[derive(Clone, Debug, PartialEq)]
pub enum Incomparable {
    /// They were measured in different sessions: everything that changed between the sessions is mixed with the difference.
    Sessions {
        /// Names of facts about machine and software in which they differ.
        with: Vec<String>,
    },
    /// One cell was imported from a file of another program, and the other one was measured here.
    Imported,
    /// Each side is a single session, so the difference between sessions of the same cell is unknown.
    OneSession,
    /// All runs of one cell were started before all runs of the other.
    OneAfterTheOther {
        /// The time from the last start of one cell to the first start of the other, in seconds.
        gap_s: f64,
        /// Names of facts about the machine that changed as well.
        with: Vec<String>,
    },
    /// Paired repeats were started too far apart.
    FarApart {
        /// The usual time between paired runs, in seconds.
        gap_s: f64,
        /// Names of facts about the machine that changed as well.
        with: Vec<String>,
    },
    /// A session contains runs of the cell that were made in different environments.
    Mixed,
    /// No repeat of one cell has a partner in the other.
    NoPartners {
        /// Names of facts about the machine in which they differ.
        with: Vec<String>,
    },
    /// Rows of a file recur, so that it is unknown how much independent repeats spread.
    RecurringRows,
    /// Values of the measure recur in rows that differ in other measures, so that the same is unknown of it.
    RecurringValues,
    /// Successive values of the measure in an imported file depend on each other.
    DependentValues,
    /// A value is 0 or negative.
    NoRatio,
    /// The difference is smaller than the resolution of the clock.
    CoarseClock {
        /// The resolution of the clock, as a share of a value.
        resolution: f64,
    },
    /// The difference is smaller than the step between the values that a program or a file gives.
    CoarseValues {
        /// The step, as a share of a value.
        resolution: f64,
    },
    /// The times that the program reports give another verdict than the times at which its lines arrived.
    ClocksDisagree {
        /// The ratio by the program's own clock.
        reported: f64,
        /// The ratio by the arrival of its lines.
        arrived: f64,
    },
    /// The arrival times of lines spread too much to give the same verdict as the program's own clock.
    Unconfirmed {
        /// The ratio by the program's own clock.
        reported: f64,
        /// The ratio by the arrival of its lines.
        arrived: f64,
    },
    /// A program reported impossible times: more than the elapsed time, or less than its GPUs worked.
    ImpossibleClock,
    /// Runs have the measure in units that cannot be converted to each other.
    Units {
        /// The key of the measure.
        measure: String,
        /// Two of the units.
        units: [String; 2],
    },
    /// Low values of the measure are good by what one plan or file declares, and high values by what another one declares.
    Better {
        /// The key of the measure.
        measure: String,
    },
    /// Runs leave out different numbers of warm-up steps, because their plans ask for it.
    WarmUps {
        /// The least and the most steps.
        steps: [u64; 2],
    },
}

impl Incomparable {
    /// The reason if two clocks do not give the same verdict; the arrival of lines may give none.
    pub(super) fn of_clocks(arrival_is_open: bool, reported: f64, arrived: f64) -> Self {
        if arrival_is_open {
            Self::Unconfirmed { reported, arrived }
        } else {
            Self::ClocksDisagree { reported, arrived }
        }
    }

    /// The reason if the verdict changes once values are shifted by their rounding.
    pub(super) fn of_rounding(rounding: Rounding) -> Self {
        let resolution = rounding.step;
        if rounding.is_written { Self::CoarseValues { resolution } } else { Self::CoarseClock { resolution } }
    }

    /// The name in files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sessions { .. } => "sessions",
            Self::Imported => "imported",
            Self::OneSession => "one_session",
            Self::OneAfterTheOther { .. } => "one_after_the_other",
            Self::FarApart { .. } => "far_apart",
            Self::Mixed => "mixed",
            Self::NoPartners { .. } => "no_partners",
            Self::RecurringRows => "recurring_rows",
            Self::RecurringValues => "recurring_values",
            Self::DependentValues => "dependent_values",
            Self::NoRatio => "no_ratio",
            Self::CoarseClock { .. } => "coarse_clock",
            Self::CoarseValues { .. } => "coarse_values",
            Self::ClocksDisagree { .. } => "clocks_disagree",
            Self::Unconfirmed { .. } => "unconfirmed",
            Self::ImpossibleClock => "impossible_clock",
            Self::Units { .. } => "units",
            Self::Better { .. } => "better",
            Self::WarmUps { .. } => "warm_ups",
        }
    }

    /// What the user can do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Imported => {
                "measure both in the same way, or let `multicard diff --imported` compare them all the same"
            }
            Self::Sessions { .. } => "compare whole sessions with `multicard diff`, several on each side",
            Self::Mixed => "compare sessions whose runs were made with the same machine, builds and files",
            Self::OneSession => "give several sessions on at least one side: multicard diff A1 A2 A3 -- B",
            Self::OneAfterTheOther { .. } | Self::FarApart { .. } | Self::NoPartners { .. } => {
                "run both cells again in one launch, which interleaves their repeats"
            }
            Self::RecurringRows => {
                "keep one row of each run; a program without randomness needs one run a cell, and its ratio is exact; if each row is a run \
                 of its own, import the file with --rows-are-runs"
            }
            Self::RecurringValues => {
                "keep one row of each run for this measure; if each row is a run of its own, import the file with --rows-are-runs"
            }
            Self::DependentValues => {
                "keep one value of each independent run for this measure, without smoothing; if each row is a run of its own, import the \
                 file with --rows-are-runs"
            }
            Self::NoRatio => {
                "compare a formula whose values are above 0, such as -log_likelihood (`multicard measure`)"
            }
            Self::CoarseClock { .. } => "let the program print more digits of its durations",
            Self::CoarseValues { .. } => {
                "write the values with more digits; those of a count are exact with the unit `count`"
            }
            Self::Unconfirmed { .. } => {
                "print each step when it ends, on a quiet machine, or run more repeats: lines must arrive when steps end"
            }
            Self::Units { .. } => {
                "declare units of one quantity in both plans, such as ms and s: their values are converted to one unit"
            }
            Self::Better { .. } => {
                "correct `better` in the wrong plan and launch it with --resume, or import the file again with --set \"KEY=measure lower\" or \
                 \"KEY=measure higher\""
            }
            Self::WarmUps { .. } => "run them again with the same measure.warm_up_steps, in a new session",
            Self::ClocksDisagree { .. } | Self::ImpossibleClock => {
                "let the program wait for the GPU before it reads the clock (torch.cuda.synchronize), and print each step when it ends"
            }
        }
    }
}

/// Half a sentence.
impl fmt::Display for Incomparable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changed = |with: &[String]| match with {
            [] => String::new(),
            names => format!("; {} changed meanwhile", names.join(", ")),
        };
        let differ = |with: &[String]| match with {
            [] => String::new(),
            names => format!("; they differ in {}", names.join(", ")),
        };
        match self {
            Self::Sessions { with } => write!(f, "measured in different sessions{}", differ(with)),
            Self::Imported => f.write_str("one was imported, and the other was measured here"),
            Self::OneSession => f.write_str("each side is one session, so it is unknown how much sessions differ"),
            Self::OneAfterTheOther { gap_s, with } => {
                let gap = if *gap_s < 1.0 { "right".to_owned() } else { long_time(*gap_s) };
                write!(f, "one was run {gap} after the other{}", changed(with))
            }
            Self::FarApart { gap_s, with } => {
                write!(f, "their repeats were run {} apart{}", long_time(*gap_s), changed(with))
            }
            Self::Mixed => f.write_str("a session has runs of this cell from different environments"),
            Self::NoPartners { with } => write!(f, "no repeat of one has a partner in the other{}", differ(with)),
            Self::RecurringRows => f.write_str("rows of the file recur with all their digits"),
            Self::RecurringValues => f.write_str("values of this measure recur in the file with all their digits"),
            Self::DependentValues => f.write_str("successive values of this measure depend on each other in the file"),
            Self::NoRatio => f.write_str("ratios need values above 0"),
            Self::CoarseClock { resolution } => {
                write!(f, "the clock is too coarse: it resolves {}", percent(*resolution))
            }
            Self::CoarseValues { resolution } => {
                write!(f, "the values have too few digits: they resolve {}", percent(*resolution))
            }
            Self::ClocksDisagree { reported, arrived } => {
                let [reported, arrived] = told_apart(*reported, *arrived);
                write!(f, "{reported}× by the program's clock, {arrived}× by the arrival of its lines")
            }
            Self::Unconfirmed { reported, arrived } => {
                let [reported, arrived] = told_apart(*reported, *arrived);
                write!(
                    f,
                    "{reported}× by the program's clock is not confirmed by the arrival of its lines ({arrived}×)"
                )
            }
            Self::ImpossibleClock => f.write_str("the program reported impossible times"),
            Self::Units { measure, units } => {
                let [one, other] = units.each_ref().map(|unit| if unit.is_empty() { "none" } else { unit.as_str() });
                write!(f, "the unit of {measure} is {one} in one and {other} in the other")
            }
            Self::Better { measure } => {
                write!(f, "low values of {measure} are declared to be good in one and high values in the other")
            }
            Self::WarmUps { steps: [least, most] } => {
                write!(f, "their warm-ups differ: {least} and {}", counted(*most as usize, "step"))
            }
        }
    }
}

/// Two ratios with two decimals, or with more, up to five, where these show a difference.
fn told_apart(one: f64, other: f64) -> [String; 2] {
    let texts = |decimals: usize| [one, other].map(|ratio| format!("{ratio:.decimals$}"));
    (2..=5).map(texts).find(|[one, other]| one != other).unwrap_or_else(|| texts(2))
}
