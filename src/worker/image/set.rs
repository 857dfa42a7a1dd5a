//! The images of a run: they are read, decoded and distributed before the first epoch.

use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, panic, thread};

use multicard::dataset::{self, DatasetError, ImageFiles, Images};
use multicard::plan::image::{Corrupt, DataCopy, DataSet, Decode, ImageSettings};
use multicard::protocol::{Evidence, FailureKind, Job};

use crate::image::data::{Content, Mapping, Pixels, Samples};
use crate::parallel::Peers;
use crate::report::Stop;
use crate::shim::Combine;

/// Maximum number of left-out files that are named one by one.
const MOST_TOLD: usize = 20;

/// The images on which a rank trains and is evaluated.
pub struct RunSet {
    /// The images for training.
    pub train: Samples,
    /// The images for evaluation.
    pub test: Samples,
    /// Files that were left out, and why.
    pub left_out: Vec<String>,
    /// Evidence of how many copies of the set there are.
    pub copies: Evidence,
}

impl RunSet {
    /// Number of bytes of images that this process holds; memory that ranks share counts for the first rank.
    pub fn bytes(&self, peers: Option<&Rc<Peers>>) -> usize {
        let is_first = peers.is_none_or(|peers| peers.rank == 0);
        let own = |samples: &Samples| match &samples.content {
            Content::Bytes { pixels: Pixels::Shared(_), .. } if !is_first => 0,
            _ => held_bytes(samples),
        };
        own(&self.train) + own(&self.test)
    }
}

/// Bytes of images in memory.
fn held_bytes(samples: &Samples) -> usize {
    match &samples.content {
        Content::Bytes { pixels, .. } => pixels.len(),
        Content::Files(_) => 0,
    }
}

/// Reads the images that the cell asks for. With `data_copy = shared`, all ranks must call this together.
pub fn read(job: &Job, settings: &ImageSettings, peers: Option<&Rc<Peers>>) -> Result<RunSet, Stop> {
    let mut left_out = Vec::new();
    let data = DataSet::read(&job.data).map_err(|message| Stop::failed(FailureKind::Input, message))?;
    let [train, test] = match &data {
        DataSet::Folder { decode, corrupt, .. } => {
            let set = dataset::list_files(&job.data_folder).map_err(|error| wrong(&error))?;
            let mut read = |name, count, files| {
                let files = choose(name, count, files, settings, *corrupt, &mut left_out)?;
                match decode {
                    Decode::EachEpoch => Ok(files.into()),
                    Decode::Once => decoded(&files, settings, peers),
                }
            };
            let train = read("train_images", settings.train_images, set.train)?;
            [train, read("test_images", settings.test_images, set.test)?]
        }
        _ => {
            let set = dataset::load(&data, &job.data_folder).map_err(|error| wrong(&error))?;
            let train = cut("train_images", settings.train_images, set.train)?;
            let test = cut("test_images", settings.test_images, set.test)?;
            [held(train, settings, peers)?, held(test, settings, peers)?]
        }
    };
    if left_out.len() > MOST_TOLD {
        let more = left_out.len() - MOST_TOLD;
        left_out.truncate(MOST_TOLD);
        left_out.push(format!("{more} more files were left out because they cannot be decoded"));
    }
    let copies = copies(settings, [&train, &test], peers)?;
    Ok(RunSet { train, test, left_out, copies })
}

fn wrong(error: &DatasetError) -> Stop {
    Stop::failed(FailureKind::Input, error.to_string())
}

fn too_few(factor: &str, count: usize, present: usize) -> Stop {
    Stop::failed(FailureKind::Input, format!("{factor} = {count}, but the data set has {present}: ask for fewer"))
}

fn cut(factor: &str, count: usize, mut images: Images) -> Result<Images, Stop> {
    if images.len() < count {
        return Err(too_few(factor, count, images.len()));
    }
    images.truncate(count);
    Ok(images)
}

/// The first `count` files; with `corrupt = skip`, the first ones that can be decoded.
fn choose(
    factor: &str,
    count: usize,
    mut files: ImageFiles,
    settings: &ImageSettings,
    corrupt: Corrupt,
    left_out: &mut Vec<String>,
) -> Result<ImageFiles, Stop> {
    let mut checked = 0;
    while corrupt == Corrupt::Skip && checked < count.min(files.len()) {
        let open = checked..count.min(files.len());
        let found = Mutex::new(Vec::new());
        let mut verdicts = vec![0; open.len()];
        fill(settings.loader_workers, &mut verdicts, 1, |index, _| {
            match dataset::decode(&files.paths[open.start + index]) {
                Err(error @ DatasetError::Corrupt { .. }) => {
                    let mut found = found.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    found.push((open.start + index, error.to_string()));
                    Ok(())
                }
                other => other.map(drop),
            }
        })?;
        let mut found = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        found.sort();
        let unwanted: Vec<_> = found.iter().map(|(index, _)| *index).collect();
        files.remove(&unwanted);
        // The files that follow the corrupt ones take their places and are examined in the next round.
        checked = open.end - unwanted.len();
        left_out.extend(found.into_iter().map(|(_, reason)| format!("left out: {reason}")));
    }
    if files.len() < count {
        return Err(too_few(factor, count, files.len()));
    }
    files.truncate(count);
    Ok(files)
}

/// The pixels of the files at the size that the model receives, decoded by the loader's threads; with shared memory each rank decodes a
/// part.
fn decoded(files: &ImageFiles, settings: &ImageSettings, peers: Option<&Rc<Peers>>) -> Result<Samples, Stop> {
    let size = settings.image_size.max(1) as usize;
    let shape = [size, size, 3];
    let image_bytes = shape.iter().product::<usize>();
    let decode = |offset: usize, slots: &mut [u8]| {
        fill(settings.loader_workers, slots, image_bytes, |index, slot| {
            let picture = dataset::decode(&files.paths[offset + index])?;
            dataset::enlarge(&picture.pixels, [picture.rows, picture.columns], size, slot);
            Ok(())
        })
    };
    let pixels = match sharing(settings, peers) {
        Some(peers) => Pixels::Shared(shared(files.len(), image_bytes, peers, decode)?),
        None => {
            let mut pixels = Vec::new();
            let len = files.len() * image_bytes;
            pixels.try_reserve_exact(len).map_err(|_| {
                let message = format!("cannot allocate {:.1} GB of memory for decoded images", len as f64 / 1e9);
                Stop::failed(FailureKind::OutOfMemory, message)
            })?;
            pixels.resize(len, 0);
            decode(0, &mut pixels)?;
            Pixels::Own(pixels)
        }
    };
    Ok(Samples { labels: files.labels.clone(), content: Content::Bytes { shape, pixels } })
}

/// The images as bytes, in memory that ranks share if they should.
fn held(images: Images, settings: &ImageSettings, peers: Option<&Rc<Peers>>) -> Result<Samples, Stop> {
    let Some(peers) = sharing(settings, peers) else { return Ok(images.into()) };
    let image_bytes = images.rows * images.columns;
    let copy = |offset: usize, slots: &mut [u8]| {
        slots.copy_from_slice(&images.pixels[offset * image_bytes..][..slots.len()]);
        Ok(())
    };
    let pixels = Pixels::Shared(shared(images.len(), image_bytes, peers, copy)?);
    let shape = [images.rows, images.columns, 1];
    let labels = images.labels.into_iter().map(u16::from).collect();
    Ok(Samples { labels, content: Content::Bytes { shape, pixels } })
}

/// The ranks to share with, if the cell asks for it.
fn sharing<'a>(settings: &ImageSettings, peers: Option<&'a Rc<Peers>>) -> Option<&'a Rc<Peers>> {
    peers.filter(|_| settings.data_copy == DataCopy::Shared)
}

/// Memory for `count` images, which all ranks map. Each rank fills its part with `fill(first image, bytes)`.
fn shared(
    count: usize,
    image_bytes: usize,
    peers: &Rc<Peers>,
    fill: impl FnOnce(usize, &mut [u8]) -> Result<(), Stop>,
) -> Result<Mapping, Stop> {
    let failed = |error: io::Error| {
        let message = format!("sharing {count} images between ranks failed: {error}; use data_copy = per_rank");
        Stop::failed(FailureKind::Engine, message)
    };
    let agree =
        |numbers: &[i64]| peers.combine(numbers, Combine::Sum).map_err(|error| peers.explain(Stop::from(error)));
    let created = if peers.rank == 0 { Some(Mapping::create(count * image_bytes).map_err(failed)?) } else { None };
    let address = agree(&created.as_ref().map_or([0, 0], Mapping::address))?;
    let mut mapping = match created {
        Some(mapping) => mapping,
        None => Mapping::open([address[0], address[1]], count * image_bytes).map_err(failed)?,
    };
    let (rank, ranks) = (peers.rank as usize, peers.world_size as usize);
    let (first, last) = (count * rank / ranks, count * (rank + 1) / ranks);
    fill(first, mapping.part_mut(first * image_bytes..last * image_bytes))?;
    // No rank reads before all have written.
    agree(&[1])?;
    Ok(mapping)
}

/// Cuts `slots` into pieces of `piece` bytes and lets threads call `work(index, piece)` for each; the first error ends the work.
fn fill(
    threads: usize,
    slots: &mut [u8],
    piece: usize,
    work: impl Fn(usize, &mut [u8]) -> Result<(), DatasetError> + Sync,
) -> Result<(), Stop> {
    let jobs = Mutex::new(slots.chunks_exact_mut(piece).enumerate());
    let (failure, ended) = (Mutex::new(None), AtomicBool::new(false));
    let run = || {
        while !ended.load(Ordering::Relaxed) {
            let next = jobs.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
            let Some((index, slot)) = next else { break };
            if let Err(error) = work(index, slot) {
                ended.store(true, Ordering::Relaxed);
                failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(error);
            }
        }
    };
    let started: io::Result<()> = thread::scope(|scope| {
        let mut threads_of = Vec::new();
        for index in 0..threads.max(1) {
            let builder = thread::Builder::new().name(format!("decode-{index}"));
            match builder.spawn_scoped(scope, run) {
                Ok(thread) => threads_of.push(thread),
                Err(error) if index == 0 => return Err(error),
                // With fewer threads than wished, the work only takes longer.
                Err(_) => break,
            }
        }
        for thread in threads_of {
            thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
        }
        Ok(())
    });
    started.map_err(|error| Stop::engine(&format!("starting a thread that decodes failed: {error}")))?;
    match failure.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        Some(error) => Err(wrong(&error)),
        None => Ok(()),
    }
}

/// Whether the ranks hold the same memory, judged by the identity of the file that they map.
fn copies(settings: &ImageSettings, parts: [&Samples; 2], peers: Option<&Rc<Peers>>) -> Result<Evidence, Stop> {
    let inode = |samples: &Samples| match &samples.content {
        Content::Bytes { pixels: Pixels::Shared(mapping), .. } => Some(mapping.inode as i64),
        _ => None,
    };
    let bytes: usize = parts.iter().map(|samples| held_bytes(samples)).sum();
    let (ranks, inodes) = (peers.map_or(1, |peers| peers.world_size), parts.map(|part| inode(part).unwrap_or(0)));
    let asked = settings.data_copy;
    let (seen, in_effect) = match peers.filter(|_| asked == DataCopy::Shared) {
        Some(peers) => {
            let combined = |combine| peers.combine(&inodes, combine).map_err(|error| peers.explain(Stop::from(error)));
            let same = combined(Combine::Min)? == combined(Combine::Max)? && inodes.iter().all(|&inode| inode != 0);
            let [train, test] = inodes;
            let alike = if same { "all the same" } else { "not all the same" };
            (format!("{ranks} ranks map {bytes} bytes, objects {train} and {test}, {alike}"), same)
        }
        None if bytes == 0 => ("files are decoded in each epoch: no copy is held".to_owned(), true),
        None if ranks == 1 => (format!("one process holds {bytes} bytes"), true),
        None => (format!("each of {ranks} ranks holds {bytes} bytes of its own"), inodes == [0, 0]),
    };
    Ok(Evidence { factor: DataCopy::KEY.into(), asked: asked.name().into(), seen, in_effect })
}

#[cfg(test)]
#[path = "set_tests.rs"]
mod tests;
