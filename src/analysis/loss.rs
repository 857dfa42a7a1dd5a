//! The training loss of a run by steps, reduced to the number of points that a chart can show.

use crate::store::{RankRecord, StepRecord};

/// The most pieces into which a run's steps are joined.
const PIECES: u64 = 120;

/// The mean loss over a piece of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossPoint {
    /// The last step of the piece, counted over the whole run from 1.
    pub step: u64,
    /// The time spent in steps until the end of the piece, by the rank whose steps took longest.
    pub time_s: f64,
    /// The mean over the point's steps with a loss and all ranks, weighted by units. If no step reports units, all steps have the same weight.
    pub loss: f64,
}

/// The losses of a run in pieces with equal numbers of steps; a piece in which a rank has no loss that is a number, or whose time is not a
/// number, is left out. Programs may report the losses of only some of their steps.
pub(super) fn losses(ranks: &[RankRecord]) -> Vec<LossPoint> {
    let last = ranks.iter().flat_map(|rank| rank.steps.last()).map(|step| step.step).max().unwrap_or(0);
    let time_of = |rank: &&RankRecord| rank.steps.iter().map(|step| step.duration_s).sum::<f64>();
    let Some(slowest) = ranks.iter().max_by(|a, b| time_of(a).total_cmp(&time_of(b))) else { return Vec::new() };
    let pieces = last.min(PIECES);
    // Each rank's steps are in order, so one pass over them finds each piece.
    let mut rest: Vec<&[StepRecord]> = ranks.iter().map(|rank| rank.steps.as_slice()).collect();
    let (mut slowest_rest, mut time_s) = (slowest.steps.as_slice(), 0.0);
    let mut points = Vec::with_capacity(pieces as usize);
    for piece in 1..=pieces {
        let until = (u128::from(last) * u128::from(piece) / u128::from(pieces)) as u64;
        let (mut sum, mut units, mut plain_sum, mut steps) = (0.0, 0, 0.0, 0_u64);
        let mut has_gap = false;
        for of_rank in rest.iter_mut().map(|rest| taken(rest, until)) {
            has_gap |= !of_rank.is_empty() && of_rank.iter().all(|step| step.loss.is_nan());
            for step in of_rank.iter().filter(|step| !step.loss.is_nan()) {
                let of_step = step.stored_units().unwrap_or_default();
                sum += step.loss * f64::from(of_step);
                units += u64::from(of_step);
                plain_sum += step.loss;
                steps += 1;
            }
        }
        time_s += taken(&mut slowest_rest, until).iter().map(|step| step.duration_s).sum::<f64>();
        // A program may print losses without units.
        let loss = if units > 0 { sum / units as f64 } else { plain_sum / steps as f64 };
        if !has_gap && loss.is_finite() && time_s.is_finite() {
            points.push(LossPoint { step: until, time_s, loss });
        }
    }
    points
}

/// Removes the steps up to and including a number from the front.
fn taken<'a>(rest: &mut &'a [StepRecord], until: u64) -> &'a [StepRecord] {
    let (taken, left) = rest.split_at(rest.partition_point(|step| step.step <= until));
    *rest = left;
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture;

    #[test]
    fn a_short_run_has_a_point_for_each_step_at_the_slowest_ranks_time() {
        let points = losses(&fixture::finished().ranks);
        assert_eq!(points.len(), 20);
        assert_eq!(points[4].step, 5);
        assert_eq!(points[4].loss, 2.0 / 5.0);
        // Four warm-up steps, ten times as long, and one more.
        assert!((points[4].time_s - 41.0 * 0.016).abs() < 1e-9);
    }

    #[test]
    fn a_long_run_is_joined_into_pieces_that_weigh_units() {
        let mut rank = fixture::finished().ranks.remove(0);
        let one = rank.steps[0];
        let step = |step: u64| StepRecord { step, loss: step as f64, units: (step % 2) as u32, ..one };
        rank.steps = (1..=240).map(step).collect();
        let points = losses(&[rank]);
        assert_eq!(points.len(), 120);
        // The second step of each pair has no unit.
        assert_eq!((points[0].step, points[0].loss), (2, 1.0));
        assert_eq!((points[119].step, points[119].loss), (240, 239.0));
    }

    #[test]
    fn steps_that_tell_no_units_weigh_the_same() {
        let mut ranks = fixture::finished().ranks;
        let expected = losses(&ranks[..1]);
        ranks.truncate(1);
        ranks[0].steps.iter_mut().for_each(|step| step.units = 0);
        assert_eq!(losses(&ranks), expected);
        assert_eq!(expected.len(), 20);
    }

    #[test]
    fn a_piece_has_the_losses_of_the_steps_that_have_one() {
        let mut rank = fixture::finished().ranks.remove(0);
        let one = rank.steps[0];
        let loss = |step: u64| if step.is_multiple_of(10) { step as f64 } else { f64::NAN };
        rank.steps = (1..=1_200).map(|step| StepRecord { step, loss: loss(step), ..one }).collect();
        let points = losses(&[rank]);
        assert_eq!(points.len(), 120);
        assert!(points.iter().all(|point| point.loss == point.step as f64));
    }

    #[test]
    fn a_loss_that_is_no_number_is_a_gap_and_no_steps_are_no_points() {
        let mut ranks = fixture::finished().ranks;
        ranks[0].steps[7].loss = f64::NAN;
        assert!(losses(&ranks).iter().all(|point| point.step != 8 && point.loss.is_finite()));
        ranks.iter_mut().for_each(|rank| rank.steps.clear());
        assert_eq!(losses(&ranks), []);
        assert_eq!(losses(&[]), []);
    }
}
