//! Rejects impossible values, such as negative durations, when lines are parsed.

/// Longest duration: 30 years.
const MOST_S: f64 = 1e9;
/// Latest moment in seconds since the Unix epoch: the year 5138.
const LATEST_S: f64 = 1e11;

/// Rejects a duration that is negative or longer than any experiment.
///
/// # Errors
/// The name and the value.
pub fn check_duration(name: &str, value_s: f64) -> Result<(), String> {
    within(name, value_s, MOST_S)
}

/// Rejects a time before 1970 or far in the future.
///
/// # Errors
/// The value.
pub fn check_moment(value_s: f64) -> Result<(), String> {
    within("time_s", value_s, LATEST_S)
}

/// The largest step number: larger numbers are not exact in JSON and CSV, and no program makes that many steps.
pub const MOST_STEPS: u64 = (1 << 53) - 1;

/// Rejects a step number that is too large to be exact.
///
/// # Errors
/// The name and the value.
pub(super) fn check_step(name: &str, value: u64) -> Result<(), String> {
    if value <= MOST_STEPS {
        Ok(())
    } else {
        Err(format!("{name} = {value} is impossible: it must be from 0 to {MOST_STEPS}"))
    }
}

/// Rejects an amount, such as energy or a share of CPUs, that is negative or impossible for any machine.
pub(super) fn check_amount(name: &str, value: Option<f64>) -> Result<(), String> {
    value.map_or(Ok(()), |value| within(name, value, 1e18))
}

fn within(name: &str, value: f64, most: f64) -> Result<(), String> {
    if (0.0..=most).contains(&value) {
        return Ok(());
    }
    Err(format!("{name} = {value:e} is impossible: it must be from 0 to {most:e}"))
}
