//! The distributions behind intervals and tests: Student's t, and the binomial of fair coins.
//!
//! Both are computed from the regularised incomplete beta function by its continued fraction (W. H. Press et al., *Numerical Recipes*, 3rd
//! edition, 2007, section 6.4). Golden values: `tests/oracles/intervals.py`.

/// ln Γ(x) for x > 0, by C. Lanczos' approximation (g = 7, nine terms); relative error below 1e-14.
fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let series = TERMS.iter().zip(1..).fold(0.999_999_999_999_809_9, |sum, (term, k)| sum + term / (x + f64::from(k)));
    let t = x + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + series.ln()
}

/// The regularised incomplete beta function I_x(a, b) for a, b > 0 and x from 0 to 1.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return if x <= 0.0 { 0.0 } else { 1.0 };
    }
    // The fraction converges fast only below the mean.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p();
    const LEAST: f64 = 1e-300;
    let away_from_0 = |value: f64| if value.abs() < LEAST { LEAST } else { value };
    let (mut c, mut d) = (1.0, away_from_0(1.0 - (a + b) * x / (a + 1.0)).recip());
    let mut fraction = d;
    for m in 1..1_000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = away_from_0(1.0 + term * d).recip();
            c = away_from_0(1.0 + term / c);
            change = c * d;
            fraction *= change;
        }
        if (change - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    (front.exp() * fraction / a).clamp(0.0, 1.0)
}

/// P(T > t) of Student's t with this number of degrees of freedom (above 0, fractions allowed); exact in the far tail.
pub fn student_t_above(t: f64, freedom: f64) -> f64 {
    if t.is_infinite() {
        return if t > 0.0 { 0.0 } else { 1.0 };
    }
    let tail = 0.5 * incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5);
    if t >= 0.0 { tail } else { 1.0 - tail }
}

/// The t that Student's t exceeds with this probability (above 0, at most 0.5).
pub fn student_t_quantile(above: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while student_t_above(high, freedom) > above && high < 1e12 {
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..100 {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if student_t_above(middle, freedom) > above { low = middle } else { high = middle }
    }
    low + (high - low) / 2.0
}

/// P(fewer than `depth` heads) of `n` fair coins; `depth` from 1 to `n`.
pub(super) fn fewer_heads(depth: usize, n: usize) -> f64 {
    incomplete_beta(0.5, (n - depth + 1) as f64, depth as f64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::statistics::fixture::oracle;

    #[test]
    fn student_t_and_its_quantiles_agree_with_scipy() {
        for (t, freedom, above) in oracle().student_t {
            let seen = student_t_above(t, freedom);
            assert!((seen - above).abs() <= 1e-12 * above.max(1e-3), "P(T > {t}), {freedom}: {seen} for {above}");
            if (1e-6..0.5).contains(&above) {
                let seen = student_t_quantile(above, freedom);
                assert!((seen - t).abs() < 1e-8 * t.max(1.0), "quantile {above}, {freedom}: {seen} for {t}");
            }
        }
    }

    #[test]
    fn coins_agree_with_scipy() {
        for (depth, n, probability) in oracle().coins {
            assert!((fewer_heads(depth, n) - probability).abs() < 1e-12, "{depth} of {n}");
        }
    }
}
