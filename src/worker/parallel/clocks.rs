//! Compares the clocks of a run's nodes at the ends of collectives, which all ranks leave at nearly the same time.

use std::time::{SystemTime, UNIX_EPOCH};

use tch::TchError;

/// Number of comparisons; their median counts. On a network without load, all ranks leave a collective within less than
/// a millisecond.
const ROUNDS: usize = 9;

/// How far the clock of this rank's node is ahead of the first node's, in seconds. `sum` adds up the numbers of all ranks, which must all call
/// this.
pub fn offset_s(
    rank: u32,
    world_size: u32,
    sum: impl Fn(&[i64]) -> Result<Vec<i64>, TchError>,
) -> Result<f64, TchError> {
    let own = rank as usize * ROUNDS;
    let mut times_ns = vec![0_i64; world_size as usize * ROUNDS];
    for time_ns in &mut times_ns[own..own + ROUNDS] {
        sum(&[0])?;
        *time_ns = now_ns();
    }
    let all = sum(&times_ns)?;
    let ahead: Vec<i64> = all[own..].iter().zip(&all).take(ROUNDS).map(|(own, first)| own - first).collect();
    Ok(median(ahead) as f64 * 1e-9)
}

fn median(mut numbers: Vec<i64>) -> i64 {
    numbers.sort_unstable();
    numbers.get(numbers.len() / 2).copied().unwrap_or(0)
}

fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_ahead_is_told_from_one_that_is_right() {
        // This is rank 1 of two; the clock of rank 0 is half a second behind.
        let sum = |own: &[i64]| {
            let first = own.get(ROUNDS..).unwrap_or_default().iter().map(|time_ns| time_ns - 500_000_000);
            Ok(if own.len() == 1 { vec![0] } else { first.chain(own[ROUNDS..].iter().copied()).collect() })
        };
        let offset_s = offset_s(1, 2, sum).unwrap_or_default();
        assert!((offset_s - 0.5).abs() < 1e-6, "{offset_s}");
    }

    #[test]
    fn one_late_comparison_changes_nothing() {
        assert_eq!(median(vec![3, 1_000_000, 2, 1, 4]), 3);
        assert_eq!(median(Vec::new()), 0);
    }
}
