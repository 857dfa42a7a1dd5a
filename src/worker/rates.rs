//! Measures the rates that a device sustains: matrix products in each precision, and passes over memory. They are timed as steps are.

use std::time::{Duration, Instant};

use multicard::analysis::Intervals;
use multicard::plan::NumberFormat;
use multicard::protocol::{PASSES, PRODUCTS, RankPlace, Rate, RateLine};
use tch::{Device, Kind, TchError, Tensor};

use crate::device::RankDevice;
use crate::report::Stop;
use crate::shim::{self, Flags, cuda};

/// Rows and columns of the matrices; the fastest size counts.
const GPU_SIZES: [i64; 2] = [4096, 8192];
const CPU_SIZES: [i64; 3] = [512, 1536, 4096];
/// Bytes of an array, many times larger than any cache.
const GPU_ARRAY_BYTES: i64 = 1 << 30;
const CPU_ARRAY_BYTES: i64 = 1 << 28;
/// Share of the measuring time of a rate that does not count, because clocks and libraries settle in it.
const WARM_UP_SHARE: f64 = 0.2;
/// Minimum duration of a sample, far above the resolution of the clock and the cost of a launch.
const SAMPLE_S: f64 = 0.02;
/// The key of products in FP8.
const FP8: &str = NumberFormat::Fp8.name();
const LEAST_SAMPLES: usize = 3;
const MOST_SAMPLES: usize = 1000;

/// Measures the place's device for about `duration_s` and reports each rate through `say`.
pub fn measure(place: &RankPlace, duration_s: f64, say: &mut dyn FnMut(RateLine)) -> Result<(), Stop> {
    let device = RankDevice::open(place, 1, None)?;
    let on_cpu = !device.device.is_cuda();
    shim::set_threads(place.compute_threads.max(1), 1)?;
    say(RateLine::Device {
        device: device.described.clone(),
        torch_version: shim::torch_version(),
        threads: on_cpu.then_some(place.compute_threads.max(1)),
    });
    let of_gpus = ["tf32", FP8];
    let keys: Vec<&str> = PRODUCTS.into_iter().filter(|key| !(on_cpu && of_gpus.contains(key))).chain(PASSES).collect();
    let each = Duration::from_secs_f64(duration_s / keys.len() as f64);
    let _no_gradients = tch::no_grad_guard();
    for key in keys {
        say(RateLine::Begins { key: key.into() });
        let rate =
            if PASSES.contains(&key) { pass(key, device.device, each) } else { products(key, device.device, each) };
        say(match rate {
            Ok(rate) => RateLine::Rate(rate),
            Err(error) => {
                let reason = error.to_string().lines().next().unwrap_or_default().to_owned();
                RateLine::Left { key: key.into(), reason }
            }
        });
    }
    Ok(())
}

/// FLOP per second of products of square matrices.
fn products(key: &str, device: Device, duration: Duration) -> Result<Rate, TchError> {
    let kind = match key {
        "fp64" => Kind::Double,
        "fp16" => Kind::Half,
        "bf16" => Kind::BFloat16,
        FP8 => Kind::Float8e4m3fn,
        _ => Kind::Float,
    };
    let tf32_matmul = key == "tf32";
    Flags { cudnn_benchmark: false, tf32_conv: false, tf32_matmul, deterministic: false }.set()?;
    let sizes = if device.is_cuda() { &GPU_SIZES[..] } else { &CPU_SIZES };
    let (mut best, mut last): (Option<Rate>, Option<Rate>) = (None, None);
    for &size in sizes {
        let flop = 2.0 * (size as f64).powi(3);
        // A slow device, or a type without kernels of its own, has no time for large matrices.
        let expected_s = last.as_ref().map_or(0.0, |rate| flop / rate.per_s);
        if expected_s * LEAST_SAMPLES as f64 > duration.as_secs_f64() {
            break;
        }
        // With matrices of zeros, a GPU would draw less power and hold higher clocks.
        let matrix = || Tensor::f_randn([size, size], (Kind::Float, device))?.f_to_kind(kind);
        let (a, b) = (matrix()?, matrix()?);
        let mut multiply: Box<dyn FnMut() -> Result<(), TchError>> = if key == FP8 {
            // As in a model: a scale for each row, results in bf16.
            let ones = |shape: [i64; 2]| Tensor::f_ones(shape, (Kind::Float, device));
            let (b, scales) = (b.f_transpose(0, 1)?, [ones([size, 1])?, ones([1, size])?]);
            let none = None::<&Tensor>;
            let product = move || {
                a.f_internal_scaled_mm(&b, &scales[0], &scales[1], none, none, Kind::BFloat16, true).map(|_| ())
            };
            Box::new(product)
        } else {
            let out = matrix()?;
            Box::new(move || a.f_mm_out(&out, &b).map(|_| ()))
        };
        let samples = timed(device, duration.div_f64(sizes.len() as f64), &mut multiply)?;
        let rate = rate(key, size as u64, flop, &samples)?;
        if best.as_ref().is_none_or(|best| best.per_s < rate.per_s) {
            best = Some(rate.clone());
        }
        last = Some(rate);
    }
    best.ok_or_else(|| TchError::Torch("no size could be measured".into()))
}

/// Bytes read and written per second. A processor that reads a line before it overwrites it moves more.
fn pass(key: &str, device: Device, duration: Duration) -> Result<Rate, TchError> {
    let bytes = if device.is_cuda() { GPU_ARRAY_BYTES } else { CPU_ARRAY_BYTES };
    let array = || Tensor::f_ones([bytes / 4], (Kind::Float, device));
    let (a, b, out) = (array()?, array()?, array()?);
    let (moved, mut work): (i64, Box<dyn FnMut() -> Result<(), TchError>>) = match key {
        "copy" => (2 * bytes, Box::new(|| shim::copy(&out, &a, true))),
        _ => (3 * bytes, Box::new(|| a.f_add_out(&out, &b).map(|_| ()))),
    };
    let samples = timed(device, duration, &mut work)?;
    rate(key, bytes as u64, moved as f64, &samples)
}

fn rate(key: &str, size: u64, amount: f64, samples_s: &[f64]) -> Result<Rate, TchError> {
    let per_s: Vec<f64> = samples_s.iter().map(|one_s| amount / one_s).collect();
    let value = Intervals::ByCount.of(&per_s).filter(|value| value.median > 0.0);
    let value = value.ok_or_else(|| TchError::Torch("the clock did not move forward".into()))?;
    let (low_per_s, high_per_s) = value.interval.map_or((value.median, value.median), |ends| (ends.low, ends.high));
    let samples = per_s.len() as u32;
    Ok(Rate { key: key.into(), per_s: value.median, low_per_s, high_per_s, samples, size })
}

/// The time of one call, in seconds. A sample is the mean over several consecutive calls.
fn timed(
    device: Device,
    duration: Duration,
    work: &mut dyn FnMut() -> Result<(), TchError>,
) -> Result<Vec<f64>, TchError> {
    let begin = Instant::now();
    // The first call loads and chooses kernels.
    once(device, 1, work)?;
    let mut one_s = once(device, 1, work)?;
    let calls = |one_s: f64| (SAMPLE_S / one_s.max(1e-9)).ceil().clamp(1.0, 10_000.0) as u32;
    while begin.elapsed() < duration.mul_f64(WARM_UP_SHARE) {
        one_s = once(device, calls(one_s), work)?;
    }
    let count = calls(one_s);
    let mut samples = Vec::new();
    while samples.len() < LEAST_SAMPLES || (begin.elapsed() < duration && samples.len() < MOST_SAMPLES) {
        samples.push(once(device, count, work)?);
    }
    Ok(samples)
}

/// The mean time of `count` calls, by the GPU's clock or the host's.
fn once(device: Device, count: u32, work: &mut dyn FnMut() -> Result<(), TchError>) -> Result<f64, TchError> {
    let calls = |work: &mut dyn FnMut() -> Result<(), TchError>| (0..count).try_for_each(|_| work());
    if device.is_cuda() {
        let (first, last) = (cuda::Event::timed()?, cuda::Event::timed()?);
        first.record()?;
        calls(work)?;
        last.record()?;
        last.wait()?;
        return Ok(last.since_s(&first)? / f64::from(count));
    }
    let begin = Instant::now();
    calls(work)?;
    Ok(begin.elapsed().as_secs_f64() / f64::from(count))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::testing::generator;

    fn lines(place: &RankPlace) -> Vec<RateLine> {
        // Matrices are random, and threads are the process's: other tests count on both.
        let _generator = generator();
        let threads = tch::get_num_threads();
        let mut lines = Vec::new();
        measure(place, 0.4, &mut |line| lines.push(line)).unwrap();
        tch::set_num_threads(threads);
        lines
    }

    fn rates(lines: &[RateLine]) -> Vec<&Rate> {
        lines.iter().filter_map(|line| if let RateLine::Rate(rate) = line { Some(rate) } else { None }).collect()
    }

    #[test]
    fn a_cpu_is_measured_in_each_precision_that_it_has_and_in_both_passes() {
        let lines = lines(&RankPlace::on_cpu(0, 1));
        let rates = rates(&lines);
        let keys: Vec<_> = rates.iter().map(|rate| rate.key.as_str()).collect();
        assert_eq!(keys, ["fp64", "fp32", "fp16", "bf16", "copy", "add"]);
        for rate in rates {
            assert!(rate.low_per_s <= rate.per_s && rate.per_s <= rate.high_per_s, "{rate:?}");
            // From a processor of the last century to all GPUs of a room.
            assert!(rate.samples >= 3 && (1e7..1e17).contains(&rate.per_s), "{rate:?}");
        }
        assert!(matches!(&lines[0], RateLine::Device { device, threads: Some(1), .. } if device.name == "cpu"));
    }

    #[test]
    #[ignore = "needs a GPU: make test-gpu"]
    fn tensor_cores_are_faster_than_strict_fp32_on_a_gpu() {
        cuda::open().unwrap();
        let uuid = cuda::gpu_info(0).unwrap().uuid;
        let lines = lines(&RankPlace { gpu_uuid: Some(uuid), ..RankPlace::on_cpu(0, 1) });
        let rates = rates(&lines);
        let rate_of = |key: &str| rates.iter().find(|rate| rate.key == *key).unwrap().per_s;
        let measured = if rates.iter().any(|rate| rate.key == *FP8) { PRODUCTS.len() } else { PRODUCTS.len() - 1 };
        assert_eq!(rates.len(), measured + PASSES.len());
        assert!(rate_of("tf32") > 1.5 * rate_of("fp32") && rate_of("bf16") > 1.5 * rate_of("tf32"), "{rates:?}");
        assert!(rate_of("copy") > 1e11 && rate_of("add") > 1e11, "{rates:?}");
    }
}
