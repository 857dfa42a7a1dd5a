//! The machine's load while a run's steps counted, or during the whole run of a program that has no steps that count: means of its samples over time.

use serde::{Deserialize, Serialize};

use super::LoadRecord;
use crate::protocol::{GpuSample, Sample};

/// Time is cut into at most this many pieces, whose length grows as the run goes on.
const PIECES: usize = 64;
/// Length of the first pieces.
const FIRST_WIDTH_S: f64 = 0.5;

/// A quantity whose mean is computed. The variants have the order of the sums in stored pieces, so new variants come last.
#[derive(Clone, Copy)]
enum Quantity {
    CpusBusy,
    /// CPUs that are busy for others than the run's ranks.
    OthersCpus,
    StolenCpus,
    RunnableTasks,
    TemperatureC,
    SmClockMhz,
    /// The slowest GPU's clock over the median of all.
    LeastClockShare,
    /// The share of time in which GPUs worked.
    GpusBusy,
    SmActivity,
    TensorActivity,
    PcieReceiveBytesPerS,
    PcieSendBytesPerS,
    Fp64Activity,
    Fp32Activity,
    Fp16Activity,
    DramActivity,
    NvlinkReceiveBytesPerS,
    NvlinkSendBytesPerS,
    IntActivity,
}

impl Quantity {
    /// The number of quantities.
    const COUNT: usize = Self::IntActivity as usize + 1;
}

/// Sums and counts over the samples of one piece of time, by [`Quantity`].
type Piece = [(f64, u32); Quantity::COUNT];

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
        for (quantity, value) in quantities(sample) {
            if let Some(value) = value.filter(|value| value.is_finite()) {
                let (sum, count) = &mut self.pieces[place][quantity as usize];
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
        let mean_in = |piece: &Piece, quantity: Quantity| {
            let (sum, count) = piece[quantity as usize];
            (count > 0).then(|| sum / f64::from(count))
        };
        let mean = |quantity: Quantity| mean_in(&all, quantity);
        let ends = |quantity: Quantity| {
            let mut means = pieces.iter().filter_map(|piece| mean_in(piece, quantity));
            let first = means.next()?;
            Some((first, means.next_back().unwrap_or(first)))
        };
        let clocks_mhz = ends(Quantity::SmClockMhz).filter(|(first, _)| *first > 0.0);
        LoadRecord {
            cpus: self.cpus,
            cpus_busy: mean(Quantity::CpusBusy),
            others_cpus: mean(Quantity::OthersCpus),
            stolen_cpus: mean(Quantity::StolenCpus),
            runnable: mean(Quantity::RunnableTasks),
            temperature_c: mean(Quantity::TemperatureC),
            temperature_rise_c: ends(Quantity::TemperatureC).map(|(first, last)| last - first),
            sm_clock_mhz: mean(Quantity::SmClockMhz),
            sm_clock_change: clocks_mhz.map(|(first, last)| last / first - 1.0),
            least_clock_share: mean(Quantity::LeastClockShare),
            gpus_busy: mean(Quantity::GpusBusy),
            sm_activity: mean(Quantity::SmActivity),
            tensor_activity: mean(Quantity::TensorActivity),
            pcie_receive_bytes_per_s: mean(Quantity::PcieReceiveBytesPerS),
            pcie_send_bytes_per_s: mean(Quantity::PcieSendBytesPerS),
            fp64_activity: mean(Quantity::Fp64Activity),
            fp32_activity: mean(Quantity::Fp32Activity),
            fp16_activity: mean(Quantity::Fp16Activity),
            dram_activity: mean(Quantity::DramActivity),
            nvlink_receive_bytes_per_s: mean(Quantity::NvlinkReceiveBytesPerS),
            nvlink_send_bytes_per_s: mean(Quantity::NvlinkSendBytesPerS),
            int_activity: mean(Quantity::IntActivity),
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

/// The values of a sample.
fn quantities(sample: &Sample) -> [(Quantity, Option<f64>); Quantity::COUNT] {
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
    let busy = of_gpus(sample.gpus.iter().filter_map(|gpu| gpu.busy).collect());
    [
        (Quantity::CpusBusy, host.cpus_busy),
        (Quantity::OthersCpus, others),
        (Quantity::StolenCpus, host.stolen_cpus),
        (Quantity::RunnableTasks, runnable),
        (Quantity::TemperatureC, of_gpus(temperatures)),
        (Quantity::SmClockMhz, of_gpus(clocks)),
        (Quantity::LeastClockShare, least_share),
        (Quantity::GpusBusy, busy),
        (Quantity::SmActivity, of_all(|gpu| gpu.sm_activity)),
        (Quantity::TensorActivity, of_all(|gpu| gpu.tensor_activity)),
        (Quantity::PcieReceiveBytesPerS, of_all(|gpu| gpu.pcie_receive_bytes_per_s)),
        (Quantity::PcieSendBytesPerS, of_all(|gpu| gpu.pcie_send_bytes_per_s)),
        (Quantity::Fp64Activity, of_all(|gpu| gpu.fp64_activity)),
        (Quantity::Fp32Activity, of_all(|gpu| gpu.fp32_activity)),
        (Quantity::Fp16Activity, of_all(|gpu| gpu.fp16_activity)),
        (Quantity::DramActivity, of_all(|gpu| gpu.dram_activity)),
        (Quantity::NvlinkReceiveBytesPerS, of_all(|gpu| gpu.nvlink_receive_bytes_per_s)),
        (Quantity::NvlinkSendBytesPerS, of_all(|gpu| gpu.nvlink_send_bytes_per_s)),
        (Quantity::IntActivity, of_all(|gpu| gpu.int_activity)),
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
    fn each_mean_is_of_the_quantity_of_its_name() {
        let of_host = |value: f64| HostSample {
            cpus_busy: Some(value),
            stolen_cpus: Some(value + 1.0),
            runnable: Some(4),
            ..HostSample::default()
        };
        let gpu = GpuSample {
            temperature_c: Some(50.0),
            sm_clock_mhz: Some(1_980),
            busy: Some(0.1),
            sm_activity: Some(0.2),
            tensor_activity: Some(0.3),
            pcie_receive_bytes_per_s: Some(1e9),
            pcie_send_bytes_per_s: Some(2e9),
            fp64_activity: Some(0.4),
            fp32_activity: Some(0.5),
            fp16_activity: Some(0.6),
            dram_activity: Some(0.7),
            nvlink_receive_bytes_per_s: Some(3e9),
            nvlink_send_bytes_per_s: Some(4e9),
            int_activity: Some(0.8),
            ..GpuSample::default()
        };
        let load =
            fold(std::iter::once(Sample { host: of_host(2.0), gpus: vec![gpu], ..Sample::default() })).summary(None);
        assert_eq!((load.cpus_busy, load.stolen_cpus, load.runnable), (Some(2.0), Some(3.0), Some(4.0)));
        assert_eq!((load.temperature_c, load.sm_clock_mhz, load.gpus_busy), (Some(50.0), Some(1_980.0), Some(0.1)));
        assert_eq!((load.sm_activity, load.tensor_activity), (Some(0.2), Some(0.3)));
        assert_eq!((load.pcie_receive_bytes_per_s, load.pcie_send_bytes_per_s), (Some(1e9), Some(2e9)));
        assert_eq!((load.fp64_activity, load.fp32_activity, load.fp16_activity), (Some(0.4), Some(0.5), Some(0.6)));
        assert_eq!((load.dram_activity, load.int_activity), (Some(0.7), Some(0.8)));
        assert_eq!((load.nvlink_receive_bytes_per_s, load.nvlink_send_bytes_per_s), (Some(3e9), Some(4e9)));
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
