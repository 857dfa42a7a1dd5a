//! Latin hypercubes: each factor's range is cut into as many strata as there are runs, and each stratum is run once.
//!
//! M. D. McKay, R. J. Beckman and W. J. Conover, *Technometrics* 21, 1979. Several hypercubes are drawn, and the hypercube whose nearest
//! two runs are farthest apart is used (M. E. Johnson, L. M. Moore and D. Ylvisaker, *Journal of Statistical Planning and Inference* 26,
//! 1990).

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::plan::random::shuffle;

/// How many are drawn.
const DRAWN: usize = 200;

/// For each run its stratum in each factor, from 0.
pub(super) fn hypercube(runs: usize, factors: usize, seed: u64) -> Vec<Vec<usize>> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut best: Option<(u64, Vec<Vec<usize>>)> = None;
    // The distances of many runs take long: then fewer are drawn.
    let drawn = (20_000_000 / (runs * runs * factors.max(1)).max(1)).clamp(1, DRAWN);
    for _ in 0..drawn {
        let mut points = vec![vec![0; factors]; runs];
        for factor in 0..factors {
            let mut strata: Vec<usize> = (0..runs).collect();
            shuffle(&mut strata, &mut random);
            points.iter_mut().zip(strata).for_each(|(point, stratum)| point[factor] = stratum);
        }
        let nearest = nearest(&points);
        if best.as_ref().is_none_or(|(known, _)| nearest > *known) {
            best = Some((nearest, points));
        }
    }
    best.map(|(_, points)| points).unwrap_or_default()
}

/// The squared distance of the two runs that are nearest to each other.
fn nearest(points: &[Vec<usize>]) -> u64 {
    let distance = |one: &[usize], other: &[usize]| -> u64 {
        one.iter().zip(other).map(|(a, b)| (a.abs_diff(*b) as u64).pow(2)).sum()
    };
    let pairs = points.iter().enumerate().flat_map(|(at, one)| points[..at].iter().map(move |other| (one, other)));
    pairs.map(|(one, other)| distance(one, other)).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stratum_of_each_factor_is_run_once_and_the_seed_decides() {
        let points = hypercube(9, 3, 4);
        for factor in 0..3 {
            let mut strata: Vec<usize> = points.iter().map(|point| point[factor]).collect();
            strata.sort_unstable();
            assert_eq!(strata, (0..9).collect::<Vec<_>>());
        }
        assert_eq!(points, hypercube(9, 3, 4));
        assert_ne!(points, hypercube(9, 3, 5));
        // A diagonal, where all factors change together, has a nearest distance of 3.
        assert!(nearest(&points) > 3, "{}", nearest(&points));
    }
}
