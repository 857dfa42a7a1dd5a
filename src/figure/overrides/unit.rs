//! Units that values can be converted to.

/// Units by quantity, each with how many of the quantity's first unit it contains.
const QUANTITIES: [&[(&str, f64)]; 6] = [
    &[("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("us", 1e-6), ("ns", 1e-9), ("min", 60.0), ("h", 3600.0)],
    &[
        ("B", 1.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
    ],
    &[("J", 1.0), ("kJ", 1e3), ("MJ", 1e6), ("Wh", 3600.0), ("kWh", 3.6e6)],
    &[("W", 1.0), ("kW", 1e3)],
    &[("FLOP/s", 1.0), ("GFLOP/s", 1e9), ("TFLOP/s", 1e12), ("PFLOP/s", 1e15)],
    &[("×", 1.0), ("%", 0.01)],
];

/// The units that values in `unit` can be converted to, including `unit` itself; empty if there is no other unit.
pub fn units_of(unit: &str) -> Vec<&'static str> {
    let same = QUANTITIES.iter().find(|units| units.iter().any(|(name, _)| *name == unit));
    // `us` is a second spelling of microseconds, for keyboards.
    same.into_iter().flat_map(|units| units.iter().map(|(name, _)| *name)).filter(|name| *name != "us").collect()
}

/// The factor that converts values from one unit to another.
pub(super) fn factor(from: &str, to: &str) -> Option<f64> {
    if from == to {
        return Some(1.0);
    }
    QUANTITIES.iter().find_map(|units| {
        let size = |asked: &str| units.iter().find(|(name, _)| *name == asked).map(|(_, factor)| *factor);
        Some(size(from)? / size(to)?)
    })
}

/// The error for a conversion that is not possible.
pub(super) fn refused(axis: &str, from: &str, to: &str) -> String {
    let known = units_of(from);
    let offer =
        if known.is_empty() { "its unit cannot be changed".to_owned() } else { format!("use {}", known.join(", ")) };
    format!("axis {axis:?}: {to:?} is not a unit of its values: {offer}")
}
