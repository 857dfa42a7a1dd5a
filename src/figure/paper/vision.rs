//! A picture as it looks when printed in grey, or to people with one of three kinds of colour blindness.
//!
//! Source: Machado, Oliveira and Fernandes, A Physiologically-based Model for Simulation of Color Vision Deficiency, 2009: the matrices
//! of severity 1 for linear RGB.

use strum::{EnumMessage, VariantArray};

use super::png::Pixels;

/// How a picture is seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, VariantArray, EnumMessage)]
pub enum Vision {
    /// Unchanged.
    #[default]
    #[strum(message = "as it is")]
    Usual,
    /// Printed without colours.
    #[strum(message = "printed in grey")]
    Grey,
    /// As seen by people without cones for long wavelengths.
    #[strum(message = "protanopia")]
    Protanopia,
    /// As seen by people without cones for middle wavelengths.
    #[strum(message = "deuteranopia")]
    Deuteranopia,
    /// As seen by people without cones for short wavelengths.
    #[strum(message = "tritanopia")]
    Tritanopia,
}

impl Vision {
    /// Its name on screen.
    pub fn name(self) -> &'static str {
        self.get_message().unwrap_or_default()
    }

    /// The matrix that is applied to linear red, green and blue.
    fn matrix(self) -> Option<[[f64; 3]; 3]> {
        match self {
            Self::Usual => None,
            Self::Grey => Some([[0.2126, 0.7152, 0.0722]; 3]),
            Self::Protanopia => Some([
                [0.152_286, 1.052_583, -0.204_868],
                [0.114_503, 0.786_281, 0.099_216],
                [-0.003_882, -0.048_116, 1.051_998],
            ]),
            Self::Deuteranopia => Some([
                [0.367_322, 0.860_646, -0.227_968],
                [0.280_085, 0.672_501, 0.047_413],
                [-0.011_820, 0.042_940, 0.968_881],
            ]),
            Self::Tritanopia => Some([
                [1.255_528, -0.076_749, -0.178_779],
                [-0.078_411, 0.930_809, 0.147_602],
                [0.004_733, 0.691_367, 0.303_900],
            ]),
        }
    }
}

fn linear(byte: u8) -> f64 {
    let share = f64::from(byte) / 255.0;
    if share <= 0.040_45 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
}

fn byte(linear: f64) -> u8 {
    let share = if linear <= 0.003_130_8 { 12.92 * linear } else { 1.055 * linear.powf(1.0 / 2.4) - 0.055 };
    (255.0 * share.clamp(0.0, 1.0)).round() as u8
}

impl Pixels {
    /// The picture as people with this vision see it.
    #[must_use]
    pub fn seen_as(mut self, vision: Vision) -> Self {
        let Some(matrix) = vision.matrix() else { return self };
        // A figure has few colours, and most pixels equal the pixel before.
        let (mut last, mut seen) = ([0_u8; 3], [0_u8; 3]);
        for pixel in self.rgba.chunks_exact_mut(4) {
            let own = [pixel[0], pixel[1], pixel[2]];
            if own != last {
                let light = own.map(linear);
                seen = matrix.map(|row| byte(row.iter().zip(light).map(|(share, light)| share * light).sum()));
                last = own;
            }
            pixel[..3].copy_from_slice(&seen);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(colour: [u8; 3], vision: Vision) -> [u8; 3] {
        let rgba = vec![0xff, 0xff, 0xff, 0xff, colour[0], colour[1], colour[2], 0xff];
        let pixels = Pixels { width: 2, height: 1, rgba }.seen_as(vision);
        [pixels.rgba[4], pixels.rgba[5], pixels.rgba[6]]
    }

    #[test]
    fn white_and_black_stay_and_red_and_green_run_together_for_those_who_lack_a_cone() {
        for vision in Vision::VARIANTS {
            assert_eq!(seen([0; 3], *vision), [0; 3], "{vision:?}");
            assert!(seen([0xff; 3], *vision).iter().all(|byte| *byte >= 0xfe), "{vision:?}");
        }
        let apart = |vision: Vision, one: [u8; 3], other: [u8; 3]| {
            let (one, other) = (seen(one, vision), seen(other, vision));
            one.iter().zip(other).map(|(a, b)| i32::from(a.abs_diff(b))).sum::<i32>()
        };
        let (red, green) = ([0xc0, 0x40, 0x20], [0x60, 0x80, 0x20]);
        assert!(apart(Vision::Deuteranopia, red, green) < apart(Vision::Usual, red, green) / 2);
        let [red, green, blue] = seen([0xe6, 0x9f, 0x00], Vision::Grey);
        assert!(red == green && green == blue);
    }
}
