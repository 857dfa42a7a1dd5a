//! Smoothing over time: an exponential moving average without bias at the start.

/// An exponential moving average over points of ascending x.
///
/// At the usual distance between points, each new point keeps `factor` of the previous average; over a longer distance, the old values
/// decay as if points had come at the usual distance. The start is not pulled towards 0: the average is divided by the total weight so far
/// (as in Adam). A gap restarts it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Smoother {
    factor: f64,
    distance: f64,
    last_x: Option<f64>,
    sum: f64,
    weight: f64,
}

impl Smoother {
    /// `factor` ranges from 0 (no smoothing) to below 1; `distance` is the usual distance between points.
    pub fn new(factor: f64, distance: f64) -> Self {
        let factor = if factor.is_nan() { 0.0 } else { factor.clamp(0.0, 0.9999) };
        Self { factor, distance, last_x: None, sum: 0.0, weight: 0.0 }
    }

    /// The usual distance between ascending points: the median over the first points, so that later points do not change it.
    pub fn usual_distance(xs: &[f64]) -> f64 {
        let first = &xs[..xs.len().min(65)];
        let mut distances: Vec<f64> = first.windows(2).map(|pair| pair[1] - pair[0]).filter(|d| *d > 0.0).collect();
        distances.sort_by(f64::total_cmp);
        distances.get(distances.len() / 2).copied().unwrap_or(1.0)
    }

    /// Adds a point and returns the average.
    pub fn next(&mut self, x: f64, y: f64) -> f64 {
        if !y.is_finite() {
            (self.last_x, self.sum, self.weight) = (None, 0.0, 0.0);
            return f64::NAN;
        }
        let distances = self.last_x.map_or(1.0, |last| ((x - last) / self.distance).max(0.0));
        // Most points have the same distance, and `powf` is expensive.
        let factor = if (distances - 1.0).abs() < 0.05 { self.factor } else { self.factor.powf(distances) };
        // A point at the same position as the previous one has the weight of one point.
        let gained = if factor < 1.0 { 1.0 - factor } else { 1.0 - self.factor };
        self.last_x = Some(x);
        self.sum = factor * self.sum + gained * y;
        self.weight = factor * self.weight + gained;
        self.sum / self.weight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn smoothed(factor: f64, points: &[(f64, f64)]) -> Vec<f64> {
        let mut smoother = Smoother::new(factor, 1.0);
        points.iter().map(|&(x, y)| smoother.next(x, y)).collect()
    }

    #[test]
    fn the_start_is_not_pulled_to_zero() {
        let level = smoothed(0.9, &[(0.0, 5.0), (1.0, 5.0), (2.0, 5.0)]);
        assert!(level.iter().all(|y| (y - 5.0).abs() < 1e-12), "{level:?}");
        // By hand: (0.9 * 0.1 * 1 + 0.1 * 2) / (0.9 * 0.1 + 0.1).
        let two = smoothed(0.9, &[(0.0, 1.0), (1.0, 2.0)]);
        assert!((two[1] - 0.29 / 0.19).abs() < 1e-12, "{two:?}");
    }

    #[test]
    fn what_is_long_ago_is_forgotten() {
        let near = smoothed(0.9, &[(0.0, 0.0), (1.0, 1.0)])[1];
        let far = smoothed(0.9, &[(0.0, 0.0), (1000.0, 1.0)])[1];
        assert!(near < 0.6 && far > 0.99, "{near} {far}");
    }

    #[test]
    fn a_gap_stays_and_starts_anew() {
        let gap = smoothed(0.9, &[(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0)]);
        assert!(gap[1].is_nan());
        assert_eq!(gap[2], 3.0);
    }

    #[test]
    fn factor_zero_changes_nothing() {
        assert_eq!(smoothed(0.0, &[(0.0, 1.0), (1.0, 7.0)]), [1.0, 7.0]);
    }
}
