//! Estimates a run's time and memory before anything is started.

use super::super::machine::usable_gpus;
use super::{DataCopy, DataSet, Decode, ImageSettings, Layout, Loader, Precision, Strategy, UpdateRule, WireDtype};
use crate::plan::{Estimate, Gpu, Kernels, Node, OptimizerImpl, Passes};

/// A run's estimate, with the share of copies of the data set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    pub(super) estimate: Estimate,
    /// Number of copies of the set in the host's memory.
    pub(super) set_copies: u64,
    /// Size of one copy.
    pub(super) set_bytes: u64,
}

/// Memory of CUDA's context and libraries on a GPU.
const CUDA_CONTEXT_BYTES: f64 = 0.6e9;
/// Memory of libtorch in a process without a GPU.
const PROCESS_BYTES: f64 = 0.4e9;
/// Memory that autograd keeps for one 224 px image in fp32 at width 1, including batch norm's inputs.
const ACTIVATION_BYTES: f64 = 75e6;
/// MobileNetV2's parameters at width 1 with ten classes.
const PARAMETERS: f64 = 2.2e6;
/// Host memory of a process with CUDA: a guess from what it maps.
const CUDA_PROCESS_BYTES: f64 = 2e9;
/// An image of scenario a: 28×28 bytes.
const DIGIT_BYTES: f64 = 28.0 * 28.0;
/// A label, if the set is kept on the device.
const LABEL_BYTES: f64 = 8.0;
/// The path and label of an image file.
const PATH_BYTES: f64 = 200.0;
/// Time to decode one file of 300×300 pixels on one core (JPEG, two shared cores).
const DECODE_S: f64 = 1.5e-3;
/// Batches that are prepared in advance by each thread of the host loader.
const PREFETCH: f64 = 2.0;
/// Time of a replayed step whose kernels have almost no work (28 px, batch 64, on an H200).
const GRAPH_STEP_S: f64 = 2.2e-3;
/// The forward pass is about a third of a step's work.
const FORWARD_SHARE: f64 = 1.0 / 3.0;
/// The part of a training step's activations that lives at a time where no backward pass needs them: inputs and outputs of the widest layers.
const PASSING_SHARE: f64 = 0.2;
/// Memory bandwidth of GPUs in TB/s, from their data sheets, by a part of the product name.
const BANDWIDTH_TB_S: &[(&str, f64)] = &[
    ("B200", 8.0),
    ("GH200", 4.0),
    ("H200", 4.8),
    ("H100", 3.35),
    ("H800", 3.35),
    ("A100", 2.0),
    ("V100", 0.9),
    ("L40", 0.86),
];
/// The bandwidth of GPUs that are not in the table.
const UNKNOWN_BANDWIDTH_TB_S: f64 = 0.6;
/// The bandwidth of the GPU on which the rates were measured (H200).
const MEASURED_BANDWIDTH_TB_S: f64 = 4.8;

/// Estimates one run of a cell.
///
/// Time: a step of `batch` images of `px`² pixels at width `w` takes the longest of
///
/// - launching its kernels: 9 ms, 15 ms under autocast, 2 ms more for an optimizer that launches per parameter; with
///   `cuda_graph` nothing, but small kernels still take 2.2 ms beside the arithmetic;
/// - arithmetic: `batch · px² · w²` over the measured rate of the precision and layout, scaled by the memory
///   bandwidth of the GPU at hand, which is what binds MobileNetV2 at 300 px and more;
/// - loading: 5 ns a pixel and loader thread (fp64 costs twice that); nothing where the set lives on the device;
///
/// and, where memory is not pinned, the copy at 14 GB/s on top (pinned copies overlap). Rates of steps and copies were
/// measured on one H200 with PyTorch 2.11; other GPUs, and the cost of loading, are guessed. On CPUs a core does
/// 1.6 µs of work a pixel and a fixed share of 4500 pixels an image; measured on two shared cores with AVX2, where
/// fp64 took 3.4 times as long, and bf16, without instructions for it, 16 times (nchw) and 4.5 times (nhwc). Cores
/// that have such instructions should need far less; that is not measured.
/// The test pass costs a third of training an image. Start-up is 6 s with CUDA, 2 s without.
///
/// Memory: weights, gradients and one number a weight that the update keeps (Adam: two), what autograd keeps of each image (75 MB at 224 px in fp32, in
/// proportion to `px²` and `w`, twice for fp64, 0.6 for mixed precision; 0.5 and 0.25 with `kernels = fused`), two batches of input, the set where it lives on the
/// device, and the runtime.
/// cuDNN's work space and the allocator's fragmentation come on top.
///
/// Memory of the host: the set (bytes of 28×28 pixels, or of the size that the model sees for decoded files), once a rank or
/// once a node; two batches a loader thread in the type in which they travel; and 2 GB for each process with CUDA, or all that a
/// CPU rank takes.
pub(super) fn image(settings: &ImageSettings, data: &DataSet, node: &Node) -> Costs {
    let gpu = if node.has_cuda() { usable_gpus(node).next() } else { None };
    let image_bytes = image_bytes(settings, data);
    let peak_bytes = peak_bytes(settings, image_bytes, gpu.is_some());

    // The memory and the CPUs are those of one node.
    let ranks = if settings.strategy == Strategy::Dp { 1 } else { settings.gpus_of_node() };
    let set_copies = if settings.data_copy == DataCopy::Shared { 1 } else { ranks };
    let set_bytes = images(settings) * image_bytes;
    let process = if gpu.is_some() { CUDA_PROCESS_BYTES } else { peak_bytes };
    let waiting = match settings.loader {
        Loader::Host => PREFETCH * settings.loader_workers as f64 * wire_bytes_per_pixel(settings),
        // The test shares the loader's rate of bytes.
        Loader::Dali => PREFETCH * 3.0,
        Loader::Device => 0.0,
    };
    let batch = settings.batch_size as f64 * pixels(settings) * (settings.gpus_of_node() / ranks) as f64;
    let host_bytes = ranks as f64 * (process + waiting * batch) + set_copies as f64 * set_bytes;
    let start_s = start_s(settings, data, node, gpu);
    Costs {
        estimate: Estimate {
            duration_s: start_s + training_s(settings, data, node, gpu),
            start_s,
            peak_bytes: peak_bytes as u64,
            host_bytes: host_bytes as u64,
            ..Estimate::default()
        },
        set_copies: set_copies as u64,
        set_bytes: set_bytes as u64,
    }
}

/// Host memory of an image of the set between epochs.
fn image_bytes(settings: &ImageSettings, data: &DataSet) -> f64 {
    match data.decode() {
        None => DIGIT_BYTES,
        Some(Decode::Once) => 3.0 * pixels(settings),
        Some(Decode::EachEpoch) => PATH_BYTES,
    }
}

fn images(settings: &ImageSettings) -> f64 {
    (settings.train_images + settings.test_images) as f64
}

fn start_s(settings: &ImageSettings, data: &DataSet, node: &Node, gpu: Option<&Gpu>) -> f64 {
    let decode_s = DECODE_S / loader_threads(settings, node);
    let decoded = if data.decode() == Some(Decode::Once) { images(settings) * decode_s } else { 0.0 };
    decoded + if gpu.is_some() { 6.0 } else { 2.0 }
}

fn training_s(settings: &ImageSettings, data: &DataSet, node: &Node, gpu: Option<&Gpu>) -> f64 {
    let batch = settings.batch_size as f64;
    let decode_s = DECODE_S / loader_threads(settings, node);
    let step_s = match (gpu, data.decode()) {
        (Some(gpu), Some(Decode::EachEpoch)) => gpu_step_s(settings, node, gpu).max(batch * decode_s),
        (Some(gpu), _) => gpu_step_s(settings, node, gpu),
        (None, _) => batch * cpu_image_s(settings, node),
    };
    // An incomplete last batch is dropped in training, but not in the test.
    let test_steps = (settings.test_images as f64 / batch).ceil() * FORWARD_SHARE / settings.gpus.max(1) as f64;
    let step_share = if settings.passes == Passes::Inference { FORWARD_SHARE } else { 1.0 };
    (settings.steps() as f64 * step_share + settings.epochs as f64 * test_steps) * step_s
}

fn gpu_step_s(settings: &ImageSettings, node: &Node, gpu: &Gpu) -> f64 {
    let batch_pixels = settings.batch_size as f64 * pixels(settings);
    let mixed = is_mixed(settings.precision);
    let per_parameter_s = if settings.optimizer_impl == OptimizerImpl::Loop { 2e-3 } else { 0.0 };
    let launch_s: f64 = if mixed { 15e-3 } else { 9e-3 } + per_parameter_s;

    // Millions of pixels a second on an H200; tf32 was measured in nhwc only, fused kernels on an H100.
    let tf32 = settings.tf32 != super::Tf32::Off;
    let rate = match (settings.precision, settings.layout) {
        (Precision::Fp32, _) if settings.kernels == Kernels::Fused => 445.0,
        _ if settings.kernels == Kernels::Fused => 850.0,
        (Precision::Fp64, Layout::Nchw) => 87.0,
        (Precision::Fp64, Layout::Nhwc) => 87.0,
        (Precision::Fp32, Layout::Nchw) => 110.0,
        (Precision::Fp32, Layout::Nhwc) => {
            if tf32 {
                270.0
            } else {
                182.0
            }
        }
        (Precision::Fp16 | Precision::Bf16, Layout::Nchw) => 149.0,
        (Precision::Fp16 | Precision::Bf16, Layout::Nhwc) => 373.0,
    };
    let known = BANDWIDTH_TB_S.iter().find(|(name, _)| gpu.name.contains(name));
    let bandwidth = known.map_or(UNKNOWN_BANDWIDTH_TB_S, |(_, bandwidth)| *bandwidth);
    let compute_s =
        batch_pixels * settings.width_multiplier.powi(2) / (rate * 1e6 * bandwidth / MEASURED_BANDWIDTH_TB_S);

    let fp64_wire = settings.precision == Precision::Fp64 && settings.wire_dtype == WireDtype::Run;
    let threads = loader_threads(settings, node);
    let resident = settings.loader != Loader::Host;
    let load_s = if resident { 0.0 } else { batch_pixels * if fp64_wire { 10e-9 } else { 5e-9 } / threads };

    let overlapped = settings.pin_memory || resident;
    let copy_s = if overlapped { 0.0 } else { batch_pixels * wire_bytes_per_pixel(settings) / 14e9 };
    let step_s = if settings.cuda_graph { GRAPH_STEP_S + compute_s } else { launch_s.max(compute_s) };
    step_s.max(load_s) + copy_s
}

/// Loader threads of a rank that have a CPU to themselves.
fn loader_threads(settings: &ImageSettings, node: &Node) -> f64 {
    let cpus = (node.cpus as usize / settings.gpus_of_node()).max(1);
    settings.loader_workers.clamp(1, cpus) as f64
}

fn cpu_image_s(settings: &ImageSettings, node: &Node) -> f64 {
    let slower = match (settings.precision, settings.layout) {
        (Precision::Fp32, _) => 1.0,
        (Precision::Fp64, _) => 3.4,
        (Precision::Fp16 | Precision::Bf16, Layout::Nchw) => 16.0,
        (Precision::Fp16 | Precision::Bf16, Layout::Nhwc) => 4.5,
    };
    let cores = (node.cpus.max(1) as f64 / settings.gpus_of_node() as f64).max(1.0);
    (pixels(settings) + 4500.0) * settings.width_multiplier.powi(2) * 1.6e-6 * slower / cores
}

fn peak_bytes(settings: &ImageSettings, image_bytes: f64, on_gpu: bool) -> f64 {
    // Weights of mixed precision stay in fp32.
    let scalar_bytes = if settings.precision == Precision::Fp64 { 8.0 } else { 4.0 };
    // Weights, gradients, and what the update keeps of each.
    let kept = if settings.optimizer == UpdateRule::Sgd { 1.0 } else { 2.0 };
    let infers = settings.passes == Passes::Inference;
    let numbers = if infers { 1.0 } else { 2.0 + kept };
    let states = numbers * PARAMETERS * settings.width_multiplier.powi(2) * scalar_bytes;
    let activation = match settings.precision {
        Precision::Fp32 if settings.kernels == Kernels::Fused => 0.5,
        _ if settings.kernels == Kernels::Fused => 0.25,
        Precision::Fp32 => 1.0,
        Precision::Fp64 => 2.0,
        Precision::Fp16 | Precision::Bf16 => 0.6,
    };
    let share = if infers { PASSING_SHARE } else { 1.0 };
    let image = ACTIVATION_BYTES * share * activation * settings.width_multiplier * pixels(settings) / (224.0 * 224.0);
    let input = 2.0 * pixels(settings) * wire_bytes_per_pixel(settings);
    let runtime = if on_gpu { CUDA_CONTEXT_BYTES } else { PROCESS_BYTES };
    let resident = settings.loader == Loader::Device;
    let set = if resident { images(settings) * (image_bytes + LABEL_BYTES) } else { 0.0 };
    states + (image + input) * settings.batch_size as f64 + set + runtime
}

/// Bytes of three channels in the type in which images are copied to the GPU.
fn wire_bytes_per_pixel(settings: &ImageSettings) -> f64 {
    let scalar = match (settings.wire_dtype, settings.precision) {
        (WireDtype::Uint8, _) => 1.0,
        (WireDtype::Run, Precision::Fp64) => 8.0,
        (WireDtype::Run, precision) if is_mixed(precision) => 2.0,
        (WireDtype::Run | WireDtype::Fp32, _) => 4.0,
    };
    3.0 * scalar
}

fn pixels(settings: &ImageSettings) -> f64 {
    (settings.image_size as f64).powi(2)
}

fn is_mixed(precision: Precision) -> bool {
    matches!(precision, Precision::Fp16 | Precision::Bf16)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::plan::fixture::{cpu_node, gpu_node, small_plan};
    use crate::plan::{Level, expand};

    fn estimate(node: &Node, settings: &[(&'static str, &str)]) -> Estimate {
        let level = |text: &str| text.parse().map_or_else(|_| Level::text(text), Level::Integer);
        let plan = small_plan(&settings.iter().map(|(key, text)| (*key, vec![level(text)])).collect::<Vec<_>>());
        expand(&plan, node).cells[0].estimate
    }

    /// Images a second in training alone, with the loader and start-up out of the way.
    fn images_per_s(settings: &[(&'static str, &str)]) -> f64 {
        let mut estimate_of =
            vec![("pin_memory", "on"), ("loader_workers", "64"), ("test_images", "1"), ("train_images", "6400")];
        estimate_of.retain(|(key, _)| settings.iter().all(|(other, _)| key != other));
        estimate_of.extend(settings);
        let mut node = gpu_node(1);
        node.cpus = 64;
        6400.0 / (estimate(&node, &estimate_of).duration_s - 6.0)
    }

    #[test]
    fn estimates_agree_with_measured_rates_of_an_h200_within_a_third() {
        for (precision, layout, image_size, measured) in [
            ("fp64", "nchw", "300", 928.0),
            ("fp64", "nchw", "500", 358.0),
            ("fp32", "nchw", "100", 6970.0),
            ("fp32", "nhwc", "100", 5987.0),
            ("fp32", "nchw", "300", 1170.0),
            ("fp32", "nhwc", "300", 1923.0),
            ("fp32", "nhwc", "500", 766.0),
            ("fp16", "nchw", "100", 4361.0),
            ("fp16", "nhwc", "100", 4067.0),
            ("fp16", "nchw", "300", 1661.0),
            ("fp16", "nhwc", "300", 4149.0),
        ] {
            let found = images_per_s(&[("precision", precision), ("layout", layout), ("image_size", image_size)]);
            let ratio = found / measured;
            assert!((0.67..1.33).contains(&ratio), "{precision} {layout} {image_size} px: {found} of {measured}");
        }
    }

    #[test]
    fn estimates_of_graphs_agree_with_measured_rates_of_an_h200_within_a_third() {
        for (precision, image_size, measured) in
            [("fp32", "28", 28302.0), ("fp32", "100", 9284.0), ("bf16", "100", 15808.0)]
        {
            let settings = [
                ("precision", precision),
                ("layout", "nhwc"),
                ("image_size", image_size),
                ("cuda_graph", "on"),
                ("loader", "device"),
                ("pin_memory", "off"),
            ];
            let ratio = images_per_s(&settings) / measured;
            assert!((0.67..1.33).contains(&ratio), "{precision} {image_size} px: {ratio} times the measured rate");
        }
    }

    #[test]
    fn a_set_that_lives_on_the_device_takes_its_memory() {
        let estimate_of = |loader: &'static str| {
            let settings = [("loader", loader), ("train_images", "50000"), ("test_images", "10000")];
            estimate(&gpu_node(1), &settings).peak_bytes
        };
        assert_eq!(estimate_of("device") - estimate_of("host"), 60000 * 792);
    }

    #[test]
    fn estimates_agree_with_measured_rates_of_two_cores_within_a_third() {
        let mut node = cpu_node();
        node.cpus = 2;
        for (precision, layout, image_size, measured) in [
            ("fp32", "nchw", "32", 224.0),
            ("fp32", "nhwc", "32", 232.0),
            ("fp64", "nchw", "32", 67.0),
            ("bf16", "nchw", "32", 14.0),
            ("bf16", "nhwc", "32", 51.0),
            ("fp32", "nchw", "100", 76.0),
            ("fp32", "nhwc", "100", 102.0),
        ] {
            let found = estimate(
                &node,
                &[
                    ("precision", precision),
                    ("layout", layout),
                    ("image_size", image_size),
                    ("train_images", "6400"),
                    ("test_images", "1"),
                ],
            );
            let ratio = 6400.0 / (found.duration_s - 2.0) / measured;
            assert!(
                (0.67..1.33).contains(&ratio),
                "{precision} {layout} {image_size} px: {ratio} times the measured rate"
            );
        }
    }

    #[test]
    fn memory_grows_with_batch_pixels_and_precision() {
        let base = estimate(&gpu_node(1), &[("image_size", "224")]).peak_bytes;
        // 64 images of 75 MB, the context, the weights.
        assert!((5_300_000_000..5_700_000_000).contains(&base), "{base}");
        let peak = |settings: &[(&'static str, &str)]| estimate(&gpu_node(1), settings).peak_bytes;
        assert!(peak(&[("image_size", "224"), ("batch_size", "128")]) > base * 3 / 2);
        assert!(peak(&[("image_size", "224"), ("precision", "fp64")]) > base * 3 / 2);
        assert!(peak(&[("image_size", "224"), ("precision", "bf16")]) < base);
        assert!(peak(&[("image_size", "448")]) > base * 3);
    }

    #[test]
    fn ranks_divide_the_time_unless_each_trains_on_everything() {
        let estimate_of = |strategy: &'static str| {
            let settings = [("strategy", strategy), ("gpus", "2"), ("train_images", "6400"), ("test_images", "1")];
            estimate(&gpu_node(2), &settings).duration_s - 6.0
        };
        assert!(
            (estimate_of("ddp") / estimate_of("ddp-ds") - 2.0).abs() < 0.01,
            "{} {}",
            estimate_of("ddp"),
            estimate_of("ddp-ds")
        );
    }

    #[test]
    fn time_grows_with_epochs_and_with_slower_gpus() {
        let fast = estimate(&gpu_node(1), &[("image_size", "300")]).duration_s;
        let twice = estimate(&gpu_node(1), &[("image_size", "300"), ("epochs", "2")]).duration_s;
        assert!((twice - 6.0 - 2.0 * (fast - 6.0)).abs() < 1e-6);
        let mut slow = gpu_node(1);
        slow.gpus[0].name = "NVIDIA A100-SXM4-80GB".to_owned();
        assert!(estimate(&slow, &[("image_size", "300")]).duration_s > fast * 1.5);
    }
}
