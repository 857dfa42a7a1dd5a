//! The tick of values: the number of which all of them are multiples, up to their last digits. Values of a clock have one, and so have
//! shares of a fixed number of things, differences of large times, and numbers of 32 bits. It need not be a decimal: 1/600, 125/3 ns.

/// The distance between neighbouring values is at most this number of ticks somewhere.
const MOST_TICKS: u32 = 4;
/// Values without a tick seem to have one with a lower probability than this.
const CHANCE: f64 = 1e-2;

/// The tick of values; 0 if they have none, or too few digits to tell. Their last digits can make the difference of two values wrong by
/// `error`.
pub(super) fn common_tick(values: &[f64], error: f64) -> f64 {
    let mut different = values.to_vec();
    different.sort_by(f64::total_cmp);
    different.dedup_by(|next, last| *next - *last <= error);
    let gaps = different.windows(2).map(|pair| pair[1] - pair[0]).enumerate();
    let Some((first, gap)) = gaps.min_by(|one, other| one.1.total_cmp(&other.1)) else { return 0.0 };
    let mut distances: Vec<f64> = different.iter().map(|value| (value - different[first]).abs()).collect();
    distances.sort_by(f64::total_cmp);
    // Each further value is near a multiple of any tick with a probability of 4 errors in a tick. Ticks that differ by less than an error
    // over the longest distance are one.
    let tried = f64::from(MOST_TICKS) * distances[distances.len() - 1] / gap;
    let is_sound = |ticks: &u32| {
        let near = (4.0 * error * f64::from(*ticks) / gap).min(1.0);
        tried * near.powi(different.len() as i32 - 2) <= CHANCE
    };
    let of_gap = |ticks: u32| fitted(&distances[1..], f64::from(ticks), different[first].abs(), error);
    (1..=MOST_TICKS).take_while(is_sound).find_map(of_gap).unwrap_or(0.0)
}

/// The tick of which there are `ticks` in the shortest of these ascending distances from the value `first`, if it divides all of them and
/// that value.
fn fitted(distances: &[f64], ticks: f64, first: f64, error: f64) -> Option<f64> {
    let (mut tick, mut known_over) = (distances.first()? / ticks, ticks);
    for distance in distances {
        let ticks = (distance / tick).round();
        // The longest distance so far measures the tick.
        let wrong_by = error + error * ticks / known_over;
        (wrong_by < tick / 2.0 && (distance - ticks * tick).abs() <= wrong_by).then_some(())?;
        (tick, known_over) = (distance / ticks, ticks);
    }
    let is_multiple = |value: f64, error: f64| (value - (value / tick).round() * tick).abs() <= error;
    // A value of very many ticks cannot tell.
    let wrong_by = 2.0 * error + error * (first / tick).round() / known_over;
    let begins_at_0 = wrong_by >= tick / 2.0 || is_multiple(first, wrong_by);
    (begins_at_0 && distances.iter().all(|distance| is_multiple(*distance, 2.0 * error))).then_some(tick)
}

#[cfg(test)]
mod tests {
    use rand::{Rng as _, SeedableRng as _};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn values_of_coarse_clocks_and_shares_have_a_tick_that_need_not_be_a_decimal() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut wrong = Vec::new();
        for _ in 0..50 {
            let counts: Vec<f64> = (0..20).map(|_| f64::from(400 + random.next_u32() % 60)).collect();
            let mut look = |tick: f64, error: f64, value: fn(f64) -> f64| {
                let values: Vec<f64> = counts.iter().map(|count| value(*count)).collect();
                let found = common_tick(&values, error);
                if (found / tick - 1.0).abs() > 1e-3 {
                    wrong.push((tick, found));
                }
            };
            look(1.0 / 600.0, 1e-12, |count| count / 600.0);
            look(1.0 / 16_384.0, 1e-12, |count| count / 16_384.0);
            look(125.0 / 3.0, 1.0, |count| (count * 125.0 / 3.0).floor());
            look(1.0 / 6.0, 1e-4, |count| (count / 6.0 * 1e4).round() / 1e4);
        }
        // Few neighbours may be so far apart that whole nanoseconds do not measure a tick of 125/3 ns.
        assert!(wrong.len() <= 4, "{wrong:?}");
    }

    #[test]
    fn values_with_noise_in_their_digits_have_no_tick() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut with_tick = 0;
        for count in [3, 4, 5, 10, 40] {
            for digit in [1e-3, 1e-6, 1e-9] {
                for _ in 0..20 {
                    let value = |noise: u32| ((1.0 + f64::from(noise) / 34_359_738_368.0) / digit).round();
                    let values: Vec<f64> = (0..count).map(|_| value(random.next_u32())).collect();
                    with_tick += usize::from(common_tick(&values, 1.0) > 0.0);
                }
            }
        }
        assert!(with_tick <= 6, "{with_tick} of 300");
    }

    #[test]
    fn values_on_a_grid_that_does_not_begin_at_0_have_no_tick() {
        let values = |first: f64| (0..8).map(|place| first + 0.002_468 * f64::from(place)).collect::<Vec<f64>>();
        assert_eq!(common_tick(&values(1.0), 1e-6), 0.0);
        assert!((common_tick(&values(2.468), 1e-6) - 0.002_468).abs() < 1e-6);
    }

    #[test]
    fn equal_values_and_values_that_are_no_numbers_have_no_tick() {
        let cases: [&[f64]; 6] =
            [&[], &[1.0], &[0.0, 0.0, 0.0], &[1.0, 1.0, 2.0], &[f64::INFINITY; 3], &[-1e308, 0.0, 1e308]];
        for values in cases {
            for error in [1e-9, f64::INFINITY, f64::NAN] {
                assert_eq!(common_tick(values, error), 0.0, "{values:?}, {error}");
            }
        }
    }
}
