//! Simulated experiments of known truth, and what verdicts say of them.

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::analysis::{Comparison, Judgement, SessionComparison, Verdict, judge_comparisons, judge_sessions};

/// The noise of one run, as a share.
const NOISE: f64 = 0.01;
/// Ratios within this are equal.
const WITHIN: f64 = 0.01;

/// A kind of experiment. In all but the last nothing differs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Independent normal noise.
    Normal(usize),
    /// One cell of each pair has lost its last repeats.
    UnequalCounts,
    /// One cell of each pair is five times as noisy.
    UnequalNoise,
    /// The machine becomes 5 % slower over the session; repeats are interleaved.
    Drift,
    /// The machine becomes 10 % slower at once, half way through.
    Jump,
    /// Neighbouring runs are correlated by 0.9.
    Correlated,
    /// A clock that rounds to 8 % of a step, of runs that hardly vary.
    Rounded,
    /// Each run is in one of two modes, 5 % apart.
    Bimodal,
    /// Sessions that differ by 1.5 %, three on each side, six repeats each.
    Sessions,
    /// A filter keeps one of fifteen comparisons: the one that looks best.
    Filtered,
    /// Repeats are doubled until something is decided, three times at most.
    UntilDecided,
    /// A difference of 5 % in each of eight comparisons.
    RealDifference,
}

/// Kinds with their names in the table.
pub const KINDS: [(Kind, &str); 15] = [
    (Kind::Normal(1), "independent noise, 1 comparison"),
    (Kind::Normal(8), "independent noise, 8 comparisons"),
    (Kind::Normal(64), "independent noise, 64 comparisons"),
    (Kind::UnequalCounts, "6 repeats against 3, 8 comparisons"),
    (Kind::UnequalNoise, "noise of 1 % against 5 %, 8 comparisons"),
    (Kind::Drift, "5 % of drift over the session, 8 comparisons"),
    (Kind::Jump, "a jump of 10 % half way, 8 comparisons"),
    (Kind::Correlated, "neighbouring runs correlated by 0.9, 8 comparisons"),
    (Kind::Rounded, "a clock of 1 ms for steps of 12 ms, 8 comparisons"),
    (Kind::Bimodal, "two modes 5 % apart, 8 comparisons"),
    (Kind::Sessions, "3 sessions against 3, 1.5 % between sessions, 8 comparisons"),
    (Kind::Filtered, "a filter keeps the most favourable of 15 comparisons"),
    (Kind::UntilDecided, "6, 12 and 24 repeats until decided, 1 comparison"),
    (Kind::UntilDecided, "6, 12 and 24 repeats until decided, 8 comparisons"),
    (Kind::RealDifference, "a difference of 5 % at noise of 1 %, 6 repeats, 8 comparisons"),
];

/// What experiments of a kind came to.
pub struct Outcome {
    /// Experiments with a false verdict of difference, in percent.
    pub false_differences: f64,
    /// Comparisons whose difference was found, in percent.
    pub found: f64,
}

/// A generator of made-up runs.
struct Runs(ChaCha8Rng);

impl Runs {
    fn normal(&mut self) -> f64 {
        let mut uniform = || (f64::from(self.0.next_u32()) + 0.5) / 4_294_967_296.0;
        let radius = (-2.0 * uniform().ln()).sqrt();
        radius * (2.0 * std::f64::consts::PI * uniform()).cos()
    }

    /// Logarithms of the times of two cells' repeats, of each repeat one of them first by chance, as plans run them.
    fn session(&mut self, kind: Kind, repeats: usize) -> [Vec<f64>; 2] {
        let mut weather = self.normal();
        let mut times = [Vec::with_capacity(repeats), Vec::with_capacity(repeats)];
        let mut first = 0;
        for place in 0..2 * repeats {
            let share = place as f64 / (2 * repeats) as f64;
            if place % 2 == 0 {
                first = (self.0.next_u32() & 1) as usize;
            }
            let cell = (first + place) % 2;
            let mut log = NOISE * self.normal();
            match kind {
                Kind::Drift => log += 0.05 * share,
                Kind::Jump if share >= 0.5 => log += 0.1_f64.ln_1p(),
                Kind::Correlated => {
                    weather = 0.9 * weather + (1.0 - 0.81_f64).sqrt() * self.normal();
                    log = NOISE * weather;
                }
                Kind::Bimodal => log += if self.0.next_u32() & 1 == 0 { 0.05 } else { 0.0 },
                Kind::UnequalNoise if cell == 0 => log *= 5.0,
                _ => {}
            }
            times[cell].push(log);
        }
        times
    }

    /// One comparison for each cell but the first, each with cells of its own, so that comparisons are independent.
    fn family(&mut self, kind: Kind, comparisons: usize, repeats: usize) -> Vec<Comparison> {
        let comparison = |runs: &mut Self| {
            let times = runs.session(kind, repeats);
            let count = if kind == Kind::UnequalCounts { repeats / 2 } else { repeats };
            Comparison::of_logs(times[0].iter().zip(&times[1]).take(count).map(|(base, over)| base - over).collect())
        };
        (0..comparisons).map(|_| comparison(self)).collect()
    }

    fn judged(&mut self, kind: Kind, name: &str) -> Vec<Judgement> {
        let judge = |family: &[Comparison]| judge_comparisons(family, 0, true, WITHIN);
        match kind {
            Kind::Normal(comparisons) => judge(&self.family(kind, comparisons, 6)),
            Kind::Sessions => {
                let mean = |runs: &mut Self| 0.015 * runs.normal() + NOISE / 6.0_f64.sqrt() * runs.normal();
                let side = |runs: &mut Self| [mean(runs), mean(runs), mean(runs)];
                let family: Vec<_> =
                    (0..8).map(|_| SessionComparison::of_means(&side(self), &side(self), true)).collect();
                judge_sessions(&family, true, WITHIN).into_iter().map(|one| one.judgement).collect()
            }
            Kind::Rounded => {
                // Steps of 11.6 to 13.4 ms, told in whole milliseconds; both cells of a pair take 12.4 to 12.6 ms.
                let mut rounded = |time_ms: f64| (time_ms * (1.0 + 0.001 * self.normal())).round().ln();
                let pair = |_| (0..6).map(|_| rounded(12.4) - rounded(12.6)).collect();
                let family: Vec<_> =
                    (0..8).map(pair).map(|logs| Comparison::of_logs(logs).rounded(1.0 / 12.0)).collect();
                judge(&family)
            }
            Kind::Filtered => {
                let judged = judge(&self.family(kind, 15, 6));
                judged
                    .into_iter()
                    .min_by(|a, b| a.p.unwrap_or(1.0).total_cmp(&b.p.unwrap_or(1.0)))
                    .into_iter()
                    .collect()
            }
            Kind::UntilDecided => {
                let mut times = Vec::new();
                let comparisons = if name.ends_with("8 comparisons") { 8 } else { 1 };
                let mut logs: Vec<Vec<f64>> = vec![Vec::new(); comparisons];
                for (looks, more) in (1..).zip([6, 6, 12]) {
                    for log in &mut logs {
                        let session = self.session(kind, more);
                        log.extend(session[0].iter().zip(&session[1]).map(|(base, over)| base - over));
                    }
                    let family: Vec<_> =
                        logs.iter().map(|logs| Comparison::of_logs(logs.clone()).looked_at(looks)).collect();
                    times = judge(&family);
                    if times.iter().any(|one| one.verdict.is_difference()) {
                        break;
                    }
                }
                times
            }
            Kind::RealDifference => {
                let family = (0..8).map(|_| {
                    let times = self.session(kind, 6);
                    let faster = 0.05_f64.ln_1p();
                    Comparison::of_logs(
                        times[0].iter().zip(&times[1]).map(|(base, over)| base - over + faster).collect(),
                    )
                });
                judge(&family.collect::<Vec<_>>())
            }
            _ => judge(&self.family(kind, 8, 6)),
        }
    }
}

/// What verdicts say of `experiments` experiments of a kind, made from a seed.
pub fn outcome((kind, name): (Kind, &str), experiments: usize, seed: u64) -> Outcome {
    let mut runs = Runs(ChaCha8Rng::seed_from_u64(seed));
    let (mut false_ones, mut found, mut comparisons) = (0, 0, 0);
    for _ in 0..experiments {
        let judged = runs.judged(kind, name);
        let differ = judged.iter().filter(|one| one.verdict.is_difference()).count();
        let wrong = judged.iter().any(|one| one.verdict == Verdict::Slower);
        false_ones += usize::from(if kind == Kind::RealDifference { wrong } else { differ > 0 });
        (found, comparisons) = (found + differ, comparisons + judged.len());
    }
    let percent = |count: usize, all: usize| 100.0 * count as f64 / all as f64;
    Outcome { false_differences: percent(false_ones, experiments), found: percent(found, comparisons) }
}
