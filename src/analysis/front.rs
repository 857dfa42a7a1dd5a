//! The Pareto front: what nothing else betters in one respect without being worse in another.

/// Whether each point is on the front: no other is as low in all coordinates and lower in one. Lower is better.
pub fn front(points: &[Vec<f64>]) -> Vec<bool> {
    let beats = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| a <= b) && a.iter().zip(b).any(|(a, b)| a < b);
    points.iter().map(|point| !points.iter().any(|other| beats(other, point))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_points_that_no_other_betters_are_on_the_front() {
        let points = [[1.0, 9.0], [2.0, 5.0], [2.0, 6.0], [3.0, 5.0], [4.0, 1.0], [2.0, 5.0]].map(Vec::from);
        assert_eq!(front(&points), [true, true, false, false, true, true]);
        // A third respect lets one in.
        let three = [[1.0, 1.0, 5.0], [2.0, 2.0, 1.0], [2.0, 2.0, 6.0]].map(Vec::from);
        assert_eq!(front(&three), [true, true, false]);
        assert!(front(&[]).is_empty());
    }
}
