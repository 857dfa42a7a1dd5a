//! Strokes of the digits: read from the asset and turned into polylines.

use serde::Deserialize;

/// A point: x to the right, y down.
pub(super) type Point = [f32; 2];

/// Line segments per span of a curve: enough for smooth digits of 20 pixels.
const PIECES: usize = 6;

/// A variant of a digit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Glyph {
    /// The digit, 0 to 9.
    pub digit: u8,
    /// Usual ratio of width to height.
    pub aspect: f32,
    /// Points in the unit square, in writing order; a repeated point is a corner.
    pub strokes: Vec<Vec<Point>>,
}

/// The variants of each digit, by digit.
pub(super) fn glyphs() -> [Vec<Glyph>; 10] {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        glyph: Vec<Glyph>,
    }
    let file: File = toml::from_str(include_str!("../../assets/digits.toml")).expect("the embedded strokes are valid");
    let mut by_digit: [Vec<Glyph>; 10] = Default::default();
    for glyph in file.glyph {
        by_digit[usize::from(glyph.digit)].push(glyph);
    }
    by_digit
}

/// The polyline of a stroke: Catmull-Rom curves between corners.
pub(super) fn polyline(points: &[Point]) -> Vec<Point> {
    let mut line: Vec<Point> = points.first().copied().into_iter().collect();
    for index in 1..points.len() {
        let (from, to) = (points[index - 1], points[index]);
        if from == to {
            continue;
        }
        // At corners and ends, the missing neighbour is the point itself.
        let before = if index >= 2 { points[index - 2] } else { from };
        let after = points.get(index + 1).copied().unwrap_or(to);
        for piece in 1..=PIECES {
            let t = piece as f32 / PIECES as f32;
            line.push([0, 1].map(|axis| catmull_rom([before[axis], from[axis], to[axis], after[axis]], t)));
        }
    }
    line
}

fn catmull_rom([a, b, c, d]: [f32; 4], t: f32) -> f32 {
    0.5 * (2.0 * b + (c - a) * t + (2.0 * a - 5.0 * b + 4.0 * c - d) * t * t + (3.0 * b - a - 3.0 * c + d) * t * t * t)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_digit_has_several_variants_within_its_box() {
        for (digit, variants) in glyphs().iter().enumerate() {
            assert!(variants.len() >= 3, "{digit}");
            for variant in variants {
                assert!((0.4..1.0).contains(&variant.aspect));
                assert!(variant.strokes.iter().all(|stroke| stroke.len() >= 2));
                assert!(
                    variant.strokes.as_slice().concat().as_flattened().iter().all(|value| (0.0..=1.0).contains(value))
                );
            }
        }
    }

    #[test]
    fn a_curve_passes_through_its_points_and_bends_sharply_at_corners() {
        let points = [[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 1.0]];
        let line = polyline(&points);
        assert!(points.iter().all(|point| line.contains(point)));
        assert!(line.iter().all(|&[x, y]| y.abs() < 1e-6 || (x - 1.0).abs() < 1e-6), "{line:?}");
    }
}
