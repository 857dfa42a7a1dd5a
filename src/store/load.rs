//! The machine's load while a run's steps counted: means of its samples over time.

use serde::{Deserialize, Serialize};

use super::LoadRecord;
use crate::protocol::{GpuSample, Sample};

/// Time is cut into at most this many pieces, whose length grows as the run goes on.
const PIECES: usize = 64;
/// Length of the first pieces.
const FIRST_WIDTH_S: f64 = 0.5;
/// The number of means: busy CPUs, CPUs of others, stolen CPUs, runnable tasks, temperature and clock of the GPUs, the slowest GPU's clock
/// over the median, the share of time in which GPUs worked, the activity of their multiprocessors, tensor cores, pipes and memory, and the
/// bytes per second that a GPU receives and sends over PCIe and NVLink.
const QUANTITIES: usize = 18;

/// Sums and counts over the samples of one piece of time.
type Piece = [(f64, u32); QUANTITIES];

/// Sums over the samples so far, by time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct LoadFold {
    cpus: Option<u32>,
    start_s: f64,
    width_s: f64,
    pieces: Vec<Piece>,
}

impl LoadFold {
    pub(super) fn add(&mut self, sample: &Sample) {
        if self.pieces.is_empty() {
            (self.start_s, self.width_s) = (sample.time_s, FIRST_WIDTH_S);
        }
        self.cpus = self.cpus.max(sample.host.cpus);
        // If the clock is set back, samples are added to the first piece.
        let mut place = ((sample.time_s - self.start_s) / self.width_s).max(0.0);
        while place >= PIECES as f64 {
            self.pieces = self.pieces.chunks(2).map(joined).collect();
            (self.width_s, place) = (2.0 * self.width_s, place / 2.0);
        }
        let place = place as usize;
        if self.pieces.len() <= place {
            self.pieces.resize(place + 1, Piece::default());
        }
        for ((sum, count), value) in self.pieces[place].iter_mut().zip(quantities(sample)) {
            if let Some(value) = value.filter(|value| value.is_finite()) {
                (*sum, *count) = (*sum + value, *count + 1);
            }
        }
    }

    /// The means over `counted`, periods in seconds since the Unix epoch; `None` uses the whole time.
    pub(super) fn summary(&self, counted: Option<&[(f64, f64)]>) -> LoadRecord {
        let span = |place: usize| {
            let from_s = self.start_s + place as f64 * self.width_s;
            (from_s, from_s + self.width_s)
        };
        let pieces_where = |is_kept: &dyn Fn(f64, f64) -> bool| -> Vec<Piece> {
            let pieces = self.pieces.iter().enumerate();
            pieces.filter(|(place, _)| is_kept(span(*place).0, span(*place).1)).map(|(_, piece)| *piece).collect()
        };
        let within = |from_s: f64, to_s: f64| {
            let middle_s = f64::midpoint(from_s, to_s);
            counted.is_none_or(|times| times.iter().any(|(first, last)| (*first..=*last).contains(&middle_s)))
        };
        let touches = |from_s: f64, to_s: f64| {
            counted.is_none_or(|times| times.iter().any(|(first, last)| from_s <= *last && to_s >= *first))
        };
        let mut pieces = pieces_where(&within);
        if pieces.is_empty() {
            pieces = pieces_where(&touches);
        }
        let all = joined(&pieces);
        let mean =
            |piece: &Piece, place: usize| (piece[place].1 > 0).then(|| piece[place].0 / f64::from(piece[place].1));
        let ends = |place: usize| {
            let mut means = pieces.iter().filter_map(|piece| mean(piece, place));
            let first = means.next()?;
            Some((first, means.next_back().unwrap_or(first)))
        };
        LoadRecord {
            cpus: self.cpus,
            cpus_busy: mean(&all, 0),
            others_cpus: mean(&all, 1),
            stolen_cpus: mean(&all, 2),
            runnable: mean(&all, 3),
            temperature_c: mean(&all, 4),
            temperature_rise_c: ends(4).map(|(first, last)| last - first),
            sm_clock_mhz: mean(&all, 5),
            sm_clock_change: ends(5).filter(|(first, _)| *first > 0.0).map(|(first, last)| last / first - 1.0),
            least_clock_share: mean(&all, 6),
            gpus_busy: mean(&all, 7),
            sm_activity: mean(&all, 8),
            tensor_activity: mean(&all, 9),
            pcie_receive_bytes_per_s: mean(&all, 10),
            pcie_send_bytes_per_s: mean(&all, 11),
            fp64_activity: mean(&all, 12),
            fp32_activity: mean(&all, 13),
            fp16_activity: mean(&all, 14),
            dram_activity: mean(&all, 15),
            nvlink_receive_bytes_per_s: mean(&all, 16),
            nvlink_send_bytes_per_s: mean(&all, 17),
        }
    }
}

/// Several pieces joined into one.
fn joined(pieces: &[Piece]) -> Piece {
    let mut all = Piece::default();
    for piece in pieces {
        for (all, one) in all.iter_mut().zip(piece) {
            *all = (all.0 + one.0, all.1 + one.1);
        }
    }
    all
}

fn quantities(sample: &Sample) -> [Option<f64>; QUANTITIES] {
    let host = &sample.host;
    let ranks: Option<f64> = sample.ranks.iter().map(|rank| rank.cpus_busy).sum();
    let ranks = ranks.filter(|_| !sample.ranks.is_empty());
    // The counters of processes and of the host are not read at exactly the same moment.
    let others = host.cpus_busy.zip(ranks).map(|(all, ranks)| (all - ranks).max(0.0));
    let of_gpus = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let temperatures = sample.gpus.iter().filter_map(|gpu| gpu.temperature_c).collect();
    let clocks: Vec<f64> = sample.gpus.iter().filter_map(|gpu| gpu.sm_clock_mhz).map(f64::from).collect();
    let mut sorted = clocks.clone();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.get(sorted.len() / 2).copied().filter(|middle| sorted.len() > 1 && *middle > 0.0);
    let least_share = middle.map(|middle| sorted[0] / middle);
    let runnable = host.runnable.map(f64::from);
    // A mean over some of the GPUs would be another quantity.
    let of_all = |value: fn(&GpuSample) -> Option<f64>| {
        let values: Option<Vec<f64>> = sample.gpus.iter().map(value).collect();
        values.and_then(of_gpus)
    };
    [
        host.cpus_busy,
        others,
        host.stolen_cpus,
        runnable,
        of_gpus(temperatures),
        of_gpus(clocks),
        least_share,
        of_gpus(sample.gpus.iter().filter_map(|gpu| gpu.busy).collect()),
        of_all(|gpu| gpu.sm_activity),
        of_all(|gpu| gpu.tensor_activity),
        of_all(|gpu| gpu.pcie_receive_bytes_per_s),
        of_all(|gpu| gpu.pcie_send_bytes_per_s),
        of_all(|gpu| gpu.fp64_activity),
        of_all(|gpu| gpu.fp32_activity),
        of_all(|gpu| gpu.fp16_activity),
        of_all(|gpu| gpu.dram_activity),
        of_all(|gpu| gpu.nvlink_receive_bytes_per_s),
        of_all(|gpu| gpu.nvlink_send_bytes_per_s),
    ]
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::protocol::{HostSample, RankSample};

    fn sample(time_s: f64, all: f64, ranks: &[f64], temperature_c: f64) -> Sample {
        Sample {
            time_s,
            host: HostSample { cpus: Some(2), cpus_busy: Some(all), stolen_cpus: Some(0.1), ..HostSample::default() },
            ranks: ranks.iter().map(|busy| RankSample { cpus_busy: Some(*busy), ..RankSample::default() }).collect(),
            gpus: [1_980, 1_980, 1_782]
                .map(|clock| GpuSample {
                    busy: Some(temperature_c / 100.0),
                    temperature_c: Some(temperature_c),
                    sm_clock_mhz: Some(clock),
                    ..GpuSample::default()
                })
                .to_vec(),
            ..Sample::default()
        }
    }

    fn fold(samples: impl Iterator<Item = Sample>) -> LoadFold {
        let mut fold = LoadFold::default();
        samples.for_each(|sample| fold.add(&sample));
        fold
    }

    #[test]
    fn the_activity_of_gpus_is_the_mean_over_all_of_them_while_steps_count() {
        let at = |tick: u32, second: Option<f64>| {
            let activity = if tick < 100 { 0.1 } else { 0.6 };
            let gpu = |sm_activity, tensor_activity| GpuSample {
                sm_activity,
                tensor_activity,
                pcie_receive_bytes_per_s: Some(2e9),
                fp32_activity: Some(0.25),
                dram_activity: Some(0.5),
                busy: Some(1.0),
                ..GpuSample::default()
            };
            let gpus = vec![gpu(Some(activity), Some(0.2)), gpu(Some(activity + 0.2), second)];
            Sample { time_s: 1_000.0 + 0.1 * f64::from(tick), gpus, ..Sample::default() }
        };
        let steady = Some(&[(1_011.0, 1_019.0)][..]);
        let all = fold((0..200).map(|tick| at(tick, Some(0.4)))).summary(steady);
        let near = |value: Option<f64>, expected: f64| (value.unwrap() - expected).abs() < 1e-9;
        assert!(near(all.sm_activity, 0.7) && near(all.tensor_activity, 0.3) && near(all.gpus_busy, 1.0), "{all:?}");
        assert!(near(all.pcie_receive_bytes_per_s, 2e9) && all.pcie_send_bytes_per_s.is_none());
        assert!(near(all.fp32_activity, 0.25) && near(all.dram_activity, 0.5) && all.fp16_activity.is_none());
        let partly = fold((0..200).map(|tick| at(tick, None))).summary(steady);
        assert_eq!(partly.tensor_activity, None, "one of two GPUs reports none");
        assert!(near(partly.sm_activity, 0.7));
    }

    #[test]
    fn what_others_take_is_what_is_busy_less_the_ranks_while_steps_count() {
        // For ten seconds nobody else, then others take 1.5 CPUs.
        let at = |tick: u32| {
            let time_s = 1_000.0 + 0.1 * f64::from(tick);
            if tick < 100 { sample(time_s, 1.0, &[0.5, 0.5], 40.0) } else { sample(time_s, 2.0, &[0.25, 0.25], 60.0) }
        };
        let fold = fold((0..200).map(at));
        let summary_of = |from_s, to_s| fold.summary(Some(&[(from_s, to_s)]));
        assert_eq!(
            (summary_of(1_000.0, 1_009.0).others_cpus, summary_of(1_011.0, 1_020.0).others_cpus),
            (Some(0.0), Some(1.5))
        );
        assert_eq!((summary_of(1_011.0, 1_020.0).cpus, summary_of(1_011.0, 1_020.0).cpus_busy), (Some(2), Some(2.0)));
        let whole = fold.summary(None);
        assert!((whole.others_cpus.unwrap() - 0.75).abs() < 1e-9);
        assert!((whole.stolen_cpus.unwrap() - 0.1).abs() < 1e-9);
        assert_eq!((whole.temperature_rise_c, whole.sm_clock_change), (Some(20.0), Some(0.0)));
        assert_eq!(summary_of(1_011.0, 1_020.0).gpus_busy.map(|share| (share * 1e6).round()), Some(6e5));
        assert!(
            (whole.least_clock_share.unwrap() - 0.9).abs() < 1e-9
                && (whole.sm_clock_mhz.unwrap() - 1_914.0).abs() < 1e-6
        );
        // A moment shorter than a piece of time has that piece's means.
        assert_eq!(summary_of(1_015.01, 1_015.02).others_cpus, Some(1.5));
    }

    #[test]
    fn hours_take_no_more_room_than_minutes_and_keep_their_means() {
        let fold = fold((0..40_000).map(|second| sample(f64::from(second), 2.0, &[1.25], 50.0)));
        assert!(fold.pieces.len() <= PIECES);
        assert!((fold.summary(Some(&[(10_000.0, 20_000.0)])).others_cpus.unwrap() - 0.75).abs() < 1e-9);
    }

    #[test]
    fn without_ranks_nobody_knows_what_others_take() {
        let fold = fold((0..20).map(|tick| sample(f64::from(tick), 2.0, &[], 50.0)));
        assert_eq!((fold.summary(None).others_cpus, fold.summary(None).cpus_busy), (None, Some(2.0)));
    }
}
