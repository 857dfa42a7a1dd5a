//! Evidence of a run's factors in a report, independent of the plan.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use strum::VariantArray as _;

use super::family::{Family, LayoutMark, collective, family, layout, number_format};
use super::gpu::GpuWork;
use crate::plan::{GPUS, Hint, Level, Levels, NumberFormat, Parallelism, TensorLayout, WorkloadSpec, counted};
use crate::protocol::Evidence;
use crate::trace::event::Rank;
use crate::trace::value::{Entry, GraphProof, LayoutProof, PinProof, PrecisionProof, Proof, RankProof, StrategyProof};

/// The text in a proof for launched graphs.
const GRAPHS_SEEN: &str = "on";
/// The kind of copies that carries the batches must have moved this many times as much as the other kind.
const CLEAR_SHARE: u64 = 4;

/// Collects the evidence.
pub(super) fn proof(work: &GpuWork, api: &[Entry], kernels: &[Entry], name: impl Fn(i64) -> String) -> Proof {
    let launches = api
        .iter()
        .filter(|entry| ["cudaGraphLaunch", "cuGraphLaunch"].iter().any(|call| entry.name.starts_with(call)))
        .map(|entry| entry.statistics.calls)
        .max()
        .unwrap_or(0);
    let graphs = launches > 0 || work.graph_traces > 0 || work.graph_kernels > 0;
    Proof {
        pin_memory: pin_memory(work),
        layout: layouts(kernels),
        precision: precisions(kernels),
        strategy: strategy(work, name),
        graphs: GraphProof {
            launches: launches.max(work.graph_traces),
            kernels: work.graph_kernels,
            seen: if graphs { GRAPHS_SEEN } else { "off" }.to_owned(),
        },
    }
}

fn pin_memory(work: &GpuWork) -> PinProof {
    let mut proof = PinProof::default();
    for (copy, tally) in work.operations.copies.iter().filter(|(copy, _)| copy.kind == 1) {
        let (count, bytes) = match copy.src {
            Some(0) => (&mut proof.pageable_count, &mut proof.pageable_bytes),
            Some(1) => (&mut proof.pinned_count, &mut proof.pinned_bytes),
            _ => continue,
        };
        *count += tally.count;
        *bytes = bytes.saturating_add(tally.bytes);
    }
    proof.seen = match proof.pinned_bytes.cmp(&proof.pageable_bytes) {
        _ if proof.pinned_count + proof.pageable_count == 0 => "none",
        Ordering::Greater => "pinned",
        _ => "pageable",
    }
    .to_owned();
    proof
}

fn layouts(kernels: &[Entry]) -> LayoutProof {
    let mut proof = LayoutProof::default();
    let mut convolutions = 0;
    let (mut normalisation_nchw_ns, mut normalisation_nhwc_ns) = (0u64, 0u64);
    for entry in kernels {
        let family = family(&entry.name);
        if family == Family::Convolution {
            convolutions += entry.statistics.calls;
        }
        let (time, normalisation_ns) = match layout(&entry.name) {
            Some(LayoutMark::Conversion) => {
                proof.conversions += entry.statistics.calls;
                continue;
            }
            Some(LayoutMark::In(TensorLayout::Nchw)) => (&mut proof.nchw_ns, &mut normalisation_nchw_ns),
            Some(LayoutMark::In(TensorLayout::Nhwc)) => (&mut proof.nhwc_ns, &mut normalisation_nhwc_ns),
            None => continue,
        };
        if matches!(family, Family::Convolution | Family::Normalisation) {
            *time = time.saturating_add(entry.statistics.total_ns);
        }
        if family == Family::Normalisation {
            *normalisation_ns = normalisation_ns.saturating_add(entry.statistics.total_ns);
        }
    }
    // cuDNN tries convolutions in both layouts, and computes NCHW tensors in NHWC with conversions before and after. It does neither for
    // normalisations, so these show the layout of the tensors. Without normalisations, convolutions have to do.
    proof.seen = match normalisation_nchw_ns.cmp(&normalisation_nhwc_ns) {
        Ordering::Less => TensorLayout::Nhwc.name(),
        Ordering::Greater => TensorLayout::Nchw.name(),
        Ordering::Equal => layout_of_convolutions(&proof, convolutions),
    }
    .to_owned();
    proof
}

fn layout_of_convolutions(proof: &LayoutProof, convolutions: u64) -> &'static str {
    // If a library computes the convolutions of NCHW tensors in NHWC, many of them come with conversions.
    let converted = proof.conversions * 10 > convolutions;
    // cuDNN's trials run kernels of both layouts: if both took about the same time, the remaining kernels cannot be distinguished from the
    // trials.
    let lesser = proof.nchw_ns.min(proof.nhwc_ns);
    let mixed = proof.conversions > 0 && !converted && lesser > (proof.nchw_ns.max(proof.nhwc_ns) - lesser);
    if proof.nchw_ns == 0 && proof.nhwc_ns == 0 || mixed {
        "unknown"
    } else if proof.nhwc_ns > proof.nchw_ns && !converted {
        TensorLayout::Nhwc.name()
    } else {
        TensorLayout::Nchw.name()
    }
}

fn precisions(kernels: &[Entry]) -> PrecisionProof {
    let mut by_precision_ns: BTreeMap<String, u64> = BTreeMap::new();
    let multiplies = |name: &str| matches!(family(name), Family::Convolution | Family::Matrix | Family::Attention);
    for entry in kernels.iter().filter(|entry| multiplies(&entry.name)) {
        if let Some(format) = number_format(&entry.name) {
            let sum = by_precision_ns.entry(format.name().to_owned()).or_default();
            *sum = sum.saturating_add(entry.statistics.total_ns);
        }
    }
    let whole: u64 = by_precision_ns.values().fold(0, |sum, total_ns| sum.saturating_add(*total_ns));
    let is_reduced = |name: &str| NumberFormat::VARIANTS.iter().any(|known| known.is_reduced() && known.name() == name);
    let most = by_precision_ns
        .iter()
        .filter(|(precision, total_ns)| is_reduced(precision) && **total_ns >= whole / 20)
        // Beside products in FP8, a model has some in a wider type.
        .max_by_key(|(precision, total_ns)| (*precision == NumberFormat::Fp8.name(), **total_ns))
        .or_else(|| by_precision_ns.iter().max_by_key(|(_, total_ns)| **total_ns));
    let seen = most.map_or("unknown", |(precision, _)| precision).to_owned();
    PrecisionProof { by_precision_ns, seen }
}

fn strategy(work: &GpuWork, name: impl Fn(i64) -> String) -> StrategyProof {
    let mut numbers: HashMap<i64, usize> = HashMap::new();
    let mut ranks: Vec<RankProof> = Vec::with_capacity(work.ranks.len());
    let places: HashMap<Rank, usize> = work.ranks.iter().enumerate().map(|(place, rank)| (*rank, place)).collect();
    for rank in &work.ranks {
        let next = numbers.len();
        let process = *numbers.entry(rank.process).or_insert(next);
        let collectives = BTreeMap::new();
        ranks.push(RankProof { process, gpu: rank.gpu, kernels: 0, host_to_device_bytes: 0, collectives });
    }
    for ((rank, id), times) in &work.kernels {
        let calls = times.len();
        let rank = &mut ranks[places[rank]];
        rank.kernels += calls;
        if let Some(collective) = collective(&name(*id)) {
            *rank.collectives.entry(collective).or_default() += calls;
        }
    }
    for (copy, tally) in work.operations.copies.iter().filter(|(copy, _)| copy.kind == 1) {
        let bytes = &mut ranks[places[&copy.rank]].host_to_device_bytes;
        *bytes = bytes.saturating_add(tally.bytes);
    }
    // A process that only queried a GPU did not take part in the computation.
    ranks.retain(|rank| rank.kernels > 0 || rank.host_to_device_bytes > 0);
    ranks.sort_by_key(|rank| (rank.gpu, rank.process));
    let distinct = |mut values: Vec<i64>| {
        values.sort_unstable();
        values.dedup();
        values.len()
    };
    let gpus = distinct(ranks.iter().map(|rank| rank.gpu).collect());
    let processes = distinct(ranks.iter().map(|rank| rank.process as i64).collect());
    let total = |wanted: &[&str]| -> u64 {
        let calls = ranks.iter().flat_map(|rank| rank.collectives.iter());
        calls.filter(|(collective, _)| wanted.contains(&collective.as_str())).map(|(_, calls)| calls).sum()
    };
    let seen = match (processes, gpus) {
        (0, _) => "none",
        (_, 1) if processes == 1 => Parallelism::Single.name(),
        (1, _) => Parallelism::Dp.name(),
        _ if total(&["all_reduce", "all_gather", "reduce_scatter", "broadcast"]) == 0 => "independent",
        _ if total(&["reduce_scatter"]) > total(&["all_reduce"]) => Parallelism::Sharded.name(),
        _ => Parallelism::Ddp.name(),
    };
    StrategyProof { processes, gpus, ranks, seen: seen.to_owned() }
}

impl PinProof {
    /// Whether copies show how batches are transferred. A trace of a whole program includes its start, when weights are copied from
    /// pageable memory whatever the batches use. If both kinds moved a lot of data, it is unknown which one carried the batches.
    fn is_clear(&self) -> bool {
        let (less, more) = (self.pinned_bytes.min(self.pageable_bytes), self.pinned_bytes.max(self.pageable_bytes));
        self.seen != "none" && less <= more / CLEAR_SHARE
    }
}

impl Proof {
    /// Compares the evidence with a run's planned levels, by their hints. Levels for which the recording proves nothing are left out.
    pub fn evidence(&self, spec: &WorkloadSpec, levels: &Levels) -> Vec<Evidence> {
        let mut all = Vec::new();
        for (key, level) in levels.iter() {
            let of_hints = spec.hints(key, level).filter_map(|hint| self.proves(hint, spec, levels));
            let of_gpus = (key == GPUS && self.strategy.gpus > 0)
                .then(|| (format!("{} GPUs worked", self.strategy.gpus), self.worked_on(level)));
            all.extend(of_hints.chain(of_gpus).map(|(seen, in_effect)| Evidence {
                factor: key.to_string(),
                asked: level.to_string(),
                seen,
                in_effect,
            }));
        }
        all
    }

    /// The evidence about a level with this hint, and whether the level was in effect; `None` if the recording proves neither.
    fn proves(&self, hint: &Hint, spec: &WorkloadSpec, levels: &Levels) -> Option<(String, bool)> {
        let Self { pin_memory: pin, layout, precision, strategy, graphs } = self;
        let hinted = |hint: &Hint| spec.all_hints(levels).any(|other| other == hint);
        match hint {
            Hint::PinnedCopies(pinned) if pin.is_clear() && !hinted(&Hint::NoCopies) => {
                let (pinned_bytes, pageable) = (counted(pin.pinned_bytes, "byte"), pin.pageable_bytes);
                let seen = format!("{pinned_bytes} copied from pinned memory, {pageable} from pageable memory");
                Some((seen, *pinned == (pin.seen == "pinned")))
            }
            Hint::Layout(asked) if layout.seen != "unknown" => {
                let seen = format!(
                    "{} ns in kernels for NCHW, {} ns for NHWC, {}",
                    layout.nchw_ns,
                    layout.nhwc_ns,
                    counted(layout.conversions, "conversion")
                );
                Some((seen, layout.seen == asked.name()))
            }
            Hint::Multiplies(asked) if precision.seen != "unknown" => {
                let times = precision.by_precision_ns.iter().map(|(name, total_ns)| format!("{name} {total_ns} ns"));
                let seen = format!("convolutions and matrix products: {}", times.collect::<Vec<_>>().join(", "));
                let lowered = |hint: &Hint| matches!(hint, Hint::Lowers(from, to) if from == asked && precision.seen == to.name());
                Some((seen, precision.seen == asked.name() || spec.all_hints(levels).any(lowered)))
            }
            Hint::Parallelism(asked) if strategy.seen != "none" => {
                let (processes, gpus) = (counted(strategy.processes, "process"), counted(strategy.gpus, "GPU"));
                let seen = format!("{}: {processes} on {gpus}", strategy.seen);
                // On a single GPU all strategies look the same.
                let on_one = strategy.gpus == 1 && levels.get(GPUS).is_some_and(|level| self.worked_on(level));
                Some((seen, strategy.seen == asked.name() || on_one))
            }
            Hint::GraphsAfter(_) | Hint::NoGraphs if strategy.gpus > 0 => {
                let seen = format!("{} of graphs", counted(graphs.launches, "launch"));
                Some((seen, (*hint != Hint::NoGraphs) == (graphs.seen == GRAPHS_SEEN)))
            }
            _ => None,
        }
    }

    /// Whether the number of GPUs that worked is the level's.
    fn worked_on(&self, gpus: &Level) -> bool {
        gpus.to_string() == self.strategy.gpus.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::value::Statistics;

    fn kernels(rows: &[(&str, u64, u64)]) -> Vec<Entry> {
        let entry = |&(name, calls, total_ns): &(&str, u64, u64)| {
            let statistics = Statistics { calls, total_ns, avg_ns: 0., med_ns: 0., min_ns: 0, max_ns: 0, std_ns: 0. };
            Entry { name: name.into(), statistics, percent: 0., place: None }
        };
        rows.iter().map(entry).collect()
    }

    const NCHW_CONVOLUTION: &str = "void cudnn::cnn::conv2d_grouped_direct_kernel<float, NCHW>()";
    const NHWC_CONVOLUTION: &str = "sm80_xmma_fprop_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x64";
    const CONVERSION: &str = "void cudnn::engines_precompiled::nchwToNhwcKernel<float, float, float>()";
    const NHWC_NORMALISATION: &str =
        "void at::native::batch_norm_transform_input_channels_last_kernel<float, float, float, 4>()";
    const NCHW_NORMALISATION: &str = "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1>()";

    #[test]
    fn trials_and_conversions_do_not_hide_the_layout_that_normalisations_show() {
        // A whole program: trials in both layouts, with conversions, and steps in NHWC.
        let tried = [(NCHW_CONVOLUTION, 9_000, 146), (NHWC_CONVOLUTION, 30_000, 412), (CONVERSION, 13_608, 50)];
        assert_eq!(layouts(&kernels(&[&tried[..], &[(NHWC_NORMALISATION, 5_000, 40)]].concat())).seen, "nhwc");
        assert_eq!(layouts(&kernels(&[&tried[..], &[(NCHW_NORMALISATION, 5_000, 40)]].concat())).seen, "nchw");
    }

    #[test]
    fn a_model_in_fp8_is_seen_as_such_beside_longer_products_in_bf16() {
        let (fp8, bf16) = ("nvjet_qqtst_128x256_128x6_2x1_v_bz_TNT", "nvjet_tst_128x256_64x4_2x1_v_bz_TNT");
        let seen = |fp8_ns, bf16_ns| precisions(&kernels(&[(fp8, 10, fp8_ns), (bf16, 2, bf16_ns)])).seen;
        assert_eq!((&*seen(400, 600), &*seen(40, 960), &*seen(600, 400)), ("fp8", "bf16", "fp8"));
    }

    #[test]
    fn without_normalisations_many_conversions_mean_nchw() {
        assert_eq!(layouts(&kernels(&[(NHWC_CONVOLUTION, 100, 412), (CONVERSION, 200, 50)])).seen, "nchw");
        assert_eq!(layouts(&kernels(&[(NHWC_CONVOLUTION, 100, 412), (CONVERSION, 2, 1)])).seen, "nhwc");
        assert_eq!(layouts(&kernels(&[(CONVERSION, 2, 1)])).seen, "unknown");
    }
}
