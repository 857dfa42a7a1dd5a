//! A value over time that changes in steps, at every zoom level.

/// The number of points that are joined into one point of the next level.
const FAN: usize = 4;
/// A level with at most this many points needs no coarser one.
const FEW: usize = 256;

/// A value over time: each point has a time in nanoseconds, and the value between the previous point and this one.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps {
    /// The finest level first. Points of coarser levels have the highest value of the points that they replace.
    levels: Vec<Vec<(i64, f64)>>,
}

impl Steps {
    /// Takes points in order of time; the value of the first point is not used.
    pub fn new(points: Vec<(i64, f64)>) -> Self {
        let mut levels = vec![points];
        while let Some((first, rest)) =
            levels.last().filter(|last| last.len() > FEW).and_then(|last| last.split_first())
        {
            let joined = rest.chunks(FAN).filter_map(|part| {
                let most = part.iter().map(|point| point.1).reduce(f64::max)?;
                Some((part.last()?.0, most))
            });
            let coarser = std::iter::once(*first).chain(joined).collect();
            levels.push(coarser);
        }
        Self { levels }
    }

    /// All points.
    pub fn points(&self) -> &[(i64, f64)] {
        self.levels.first().map_or(&[], Vec::as_slice)
    }

    /// The highest value; 0 without points.
    pub fn most(&self) -> f64 {
        let values = self.levels.last().into_iter().flatten().skip(1).map(|point| point.1);
        values.fold(0.0, f64::max)
    }

    /// The value at a time, if it lies between two points.
    pub fn at(&self, time: i64) -> Option<f64> {
        let points = self.points();
        let place = points.partition_point(|point| point.0 < time);
        (place > 0).then(|| points.get(place).map(|point| point.1)).flatten()
    }

    /// The parts that touch a span, as begin, end and value, from the finest level in which there are no more than `most`.
    pub fn within(&self, (from, to): (i64, i64), most: usize) -> impl Iterator<Item = (i64, i64, f64)> + '_ {
        let mut shown: &[(i64, f64)] = &[];
        for points in &self.levels {
            let first = points.partition_point(|point| point.0 < from).max(1) - 1;
            let last = points.partition_point(|point| point.0 <= to).saturating_add(1).min(points.len());
            shown = points.get(first..last).unwrap_or(&[]);
            if shown.len() <= most.saturating_add(1) {
                break;
            }
        }
        shown.windows(2).map(|pair| (pair[0].0, pair[1].0, pair[1].1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_holds_from_the_point_before_up_to_its_own() {
        let steps = Steps::new(vec![(10, 0.0), (20, 1.0), (40, 5.0)]);
        assert_eq!(
            [5, 10, 11, 20, 21, 40, 41].map(|at| steps.at(at)),
            [None, None, Some(1.0), Some(1.0), Some(5.0), Some(5.0), None]
        );
        assert_eq!(steps.within((0, 15), 9).collect::<Vec<_>>(), [(10, 20, 1.0)]);
        assert_eq!(steps.within((25, 30), 9).collect::<Vec<_>>(), [(20, 40, 5.0)]);
        assert_eq!(steps.within((50, 60), 9).collect::<Vec<_>>(), []);
        assert_eq!(Steps::new(Vec::new()).within((0, 1), 9).count(), 0);
        assert_eq!((steps.most(), Steps::new(vec![(1, 3.0)]).most()), (5.0, 0.0));
    }

    #[test]
    fn few_of_a_million_points_are_handed_out_and_the_highest_is_among_them() {
        let points = (0..1_000_000).map(|at| (at, if at == 654_321 { 9.0 } else { (at % 7) as f64 }));
        let steps = Steps::new(points.collect());
        let whole: Vec<_> = steps.within((0, 1_000_000), 2000).collect();
        assert!(whole.len() <= 2000 && whole.len() > 400, "{}", whole.len());
        assert!(whole.windows(2).all(|pair| pair[0].1 == pair[1].0));
        assert_eq!((whole[0].0, whole[whole.len() - 1].1), (0, 999_999));
        let highest = whole.iter().find(|step| step.2 == 9.0).map(|step| step.0 < 654_321 && 654_321 <= step.1);
        assert_eq!((highest, steps.most()), (Some(true), 9.0));
        assert_eq!(steps.within((654_320, 654_321), 2000).last(), Some((654_321, 654_322, 4.0)));
    }
}
