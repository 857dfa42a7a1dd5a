//! What loaders prepare by themselves, in images a second, and what starting them costs: scenario a at 100, 300 and 500 px, and
//! scenario b where a folder is named. `tests/peers/loader.py` measures PyTorch's DataLoader in the same way.
//!
//! `cargo bench -p multicard-worker --bench loader -- [--workers N] [--seconds S] [--folder DIR]`; one JSON line a configuration.

// The worker's own parts, not copies; what a bench does not use is no loss.
#[allow(dead_code, unused_imports, missing_docs)]
#[path = "../../src/worker"]
mod worker {
    pub mod image {
        pub mod dali;
        pub mod data;
        // Cargo builds benches with their tests.
        #[cfg(test)]
        pub mod testing;
    }
    pub mod order;
    pub mod recording;
    pub mod shim;
}

use std::sync::Arc;
use std::time::Instant;

use multicard::dataset::{Images, list_files};
use multicard::plan::Level;
use multicard::plan::image::{ImageSettings, Layout, Loader as Kind};
use tch::Device;
use worker::image::dali;
use worker::image::data::{Deal, Loader, Mode, Samples, Shard};
use worker::{image, order, recording, shim};

const IMAGES: usize = 60_000;

struct Arguments {
    workers: usize,
    seconds: f64,
    folder: Option<String>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = Arguments { workers: 2, seconds: 4.0, folder: None };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--workers" => arguments.workers = words.next().ok_or("--workers needs a number")?.parse()?,
            "--seconds" => arguments.seconds = words.next().ok_or("--seconds needs a number")?.parse()?,
            "--folder" => arguments.folder = Some(words.next().ok_or("--folder needs a path")?),
            _ => {}
        }
    }
    // Conversions on the device are the trainer's; here it is the same CPU.
    shim::set_threads(1, 1)?;
    let (samples, sizes, scenario) = match &arguments.folder {
        Some(folder) => (Samples::from(list_files(folder.as_ref())?.train), vec![300, 500], "b"),
        None => (Samples::from(digits()), vec![100, 300, 500], "a"),
    };
    let samples = Arc::new(samples);
    let mut loaders = vec![Kind::Host];
    match dali::folder() {
        Ok(_) => loaders.push(Kind::Dali),
        Err(reason) => eprintln!("without dali: {reason}"),
    }
    for size in sizes {
        for (wire, layout) in [("fp32", Layout::Nchw), ("fp32", Layout::Nhwc), ("uint8", Layout::Nchw)] {
            for &kind in &loaders {
                if kind == Kind::Dali && wire == "uint8" {
                    continue;
                }
                let (rate, start_s) = measure(&samples, kind, size, wire, layout, &arguments)?;
                let (loader, layout, workers) = (kind.name(), layout.name(), arguments.workers);
                println!(
                    "{{\"loader\": \"{loader}\", \"scenario\": \"{scenario}\", \"size\": {size}, \"wire\": \"{wire}\", \
                     \"layout\": \"{layout}\", \"workers\": {workers}, \"images_per_s\": {rate:.1}, \"start_s\": {start_s:.3}}}"
                );
            }
        }
    }
    Ok(())
}

fn digits() -> Images {
    let pixels = (0..IMAGES * 784).map(|index| (index * 7 + index / 784) as u8).collect();
    Images { rows: 28, columns: 28, pixels, labels: (0..IMAGES).map(|index| (index % 10) as u8).collect() }
}

/// Images a second, and the start-up of an epoch.
fn measure(
    samples: &Arc<Samples>,
    kind: Kind,
    size: i64,
    wire: &'static str,
    layout: Layout,
    arguments: &Arguments,
) -> Result<(f64, f64), Box<dyn std::error::Error>> {
    let levels = multicard::plan::image::spec().levels(&[("wire_dtype", Level::text(wire))]);
    let settings = ImageSettings::from_levels(&levels)?;
    let settings =
        ImageSettings { loader: kind, loader_workers: arguments.workers, image_size: size, layout, ..settings };
    let shard = Shard { rank: 0, world_size: 1, deal: Deal::Sampled };
    let mut loader = Loader::new(Arc::clone(samples), &settings, Device::Cpu, 1, Mode::Train, shard, || None)?;
    let mut epoch = loader.epoch(1);
    for _ in 0..=2 * arguments.workers {
        epoch.next()?;
    }
    let (begin, mut count) = (Instant::now(), 0);
    while begin.elapsed().as_secs_f64() < arguments.seconds {
        let Some(batch) = epoch.next()? else { break };
        count += batch.count;
    }
    Ok((count as f64 / begin.elapsed().as_secs_f64(), epoch.start_s().unwrap_or_default()))
}
