//! Scenario b's folder of 300×300 colour images, generated from a set of small ones.

use std::fs::{self, File};
use std::io::BufWriter;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{sync::mpsc, thread};

use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::PngEncoder;
use image::{ExtendedColorType, ImageEncoder};

use super::{DatasetError, ImageSet, Images, bilinear::enlarge, digits};

/// Width and height, in pixels (2505.22905 section 4.1).
const SIDE: usize = 300;
/// A usual quality for cameras and programs.
const JPEG_QUALITY: u8 = 90;
/// Training images for each test image, as in MNIST.
const TRAIN_PER_TEST: usize = 6;

/// File format of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// PNG, lossless.
    Png,
    /// JPEG of quality 90, with full colour resolution.
    Jpeg,
}

/// Writes `train/<digit>/` and `test/<digit>/` into `folder`: the first `count` training images of `set` and a sixth as many
/// test images, enlarged to 300×300 pixels, each in a different colour. The output is deterministic. `progress` receives
/// the images done and their total, and cancels by breaking.
///
/// # Errors
/// When the folder is not empty, cannot be written, or `progress` breaks; files written so far stay.
pub fn make_files(
    set: &ImageSet,
    folder: &Path,
    count: usize,
    format: FileFormat,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<(), DatasetError> {
    if fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(DatasetError::Exists(folder.to_owned()));
    }
    let mut jobs = Vec::new();
    for (part, images, wanted) in [("train", &set.train, count), ("test", &set.test, count.div_ceil(TRAIN_PER_TEST))] {
        for digit in 0..10 {
            let class = folder.join(part).join(digit.to_string());
            fs::create_dir_all(&class).map_err(DatasetError::write(&class))?;
        }
        jobs.extend((0..wanted.min(images.len())).map(|index| Job { folder: folder.join(part), images, index }));
    }

    let (next, cancelled) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (sender, receiver) = mpsc::sync_channel(64);
    let work = |sender: mpsc::SyncSender<Result<(), DatasetError>>| {
        while !cancelled.load(Ordering::Relaxed) {
            let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
            if sender.send(job.write(format)).is_err() {
                break;
            }
        }
    };
    thread::scope(|scope| {
        for index in 0..digits::threads() {
            let (sender, work) = (sender.clone(), &work);
            let builder = thread::Builder::new().name(format!("images-{index}"));
            match builder.spawn_scoped(scope, move || work(sender)) {
                Err(error) if index == 0 => return Err(DatasetError::Thread(error)),
                // Fewer threads only take longer.
                _ => {}
            }
        }
        drop(sender);
        let mut outcome = Ok(());
        for (done, written) in (1..).zip(receiver) {
            outcome = outcome.and(written);
            if outcome.is_ok() && progress(done, jobs.len() as u64).is_break() {
                outcome = Err(DatasetError::Cancelled);
            }
            if outcome.is_err() {
                cancelled.store(true, Ordering::Relaxed);
            }
        }
        outcome
    })
}

/// One file to write.
struct Job<'a> {
    folder: PathBuf,
    images: &'a Images,
    index: usize,
}

impl Job<'_> {
    fn write(&self, format: FileFormat) -> Result<(), DatasetError> {
        let (label, end) = (self.images.labels[self.index], if format == FileFormat::Png { "png" } else { "jpg" });
        let path = self.folder.join(label.to_string()).join(format!("{:05}.{end}", self.index));
        let ink = ink(self.index);
        let small: Vec<u8> = self.images.image(self.index).iter().flat_map(|&byte| coloured(byte, ink)).collect();
        let mut pixels = vec![0; SIDE * SIDE * 3];
        enlarge(&small, [self.images.rows, self.images.columns], SIDE, &mut pixels);
        let failed = DatasetError::write(&path);
        let file = match File::create(&path) {
            Ok(file) => BufWriter::new(file),
            Err(error) => return Err(failed(error)),
        };
        let (side, colour) = (SIDE as u32, ExtendedColorType::Rgb8);
        let written = match format {
            FileFormat::Png => PngEncoder::new(file).write_image(&pixels, side, side, colour),
            FileFormat::Jpeg => {
                JpegEncoder::new_with_quality(file, JPEG_QUALITY).write_image(&pixels, side, side, colour)
            }
        };
        written.map_err(|error| failed(std::io::Error::other(error)))
    }
}

/// A bright colour for each image, so that swapped channels show.
fn ink(index: usize) -> [u8; 3] {
    let hash = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    [8, 24, 40].map(|shift| 128 + (hash >> shift) as u8 / 2)
}

fn coloured(byte: u8, ink: [u8; 3]) -> [u8; 3] {
    ink.map(|ink| (u16::from(byte) * u16::from(ink) / 255) as u8)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::dataset::{decode, list_files};

    fn set() -> ImageSet {
        let part = |count: usize| Images {
            rows: 28,
            columns: 28,
            pixels: (0..count * 784).map(|index| (index * 7 % 251) as u8).collect(),
            labels: (0..count).map(|index| (index % 10) as u8).collect(),
        };
        ImageSet { train: part(30), test: part(10) }
    }

    fn go(_: u64, _: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    #[test]
    fn generated_files_are_listed_and_decoded_as_colour_images_of_300_pixels() {
        let folder = tempfile::tempdir().unwrap();
        let (png, jpeg) = (folder.path().join("png"), folder.path().join("jpeg"));
        make_files(&set(), &png, 18, FileFormat::Png, &mut go).unwrap();
        make_files(&set(), &jpeg, 18, FileFormat::Jpeg, &mut go).unwrap();
        let [lossless, lossy] = [&png, &jpeg].map(|folder| list_files(folder).unwrap());
        assert_eq!((lossless.train.len(), lossless.test.len()), (18, 3));
        assert_eq!(lossless.train.labels, lossy.train.labels);
        for (a, b) in lossless.train.paths.iter().zip(&lossy.train.paths) {
            let (a, b) = (decode(a).unwrap(), decode(b).unwrap());
            assert_eq!((a.rows, a.columns, a.pixels.len()), (300, 300, 270_000));
            let off: u64 = a.pixels.iter().zip(&b.pixels).map(|(&a, &b)| u64::from(a.abs_diff(b))).sum();
            assert!(off / 270_000 < 4, "mean difference {off} / 270000");
            let channel =
                |channel: usize| a.pixels.iter().skip(channel).step_by(3).map(|&byte| u64::from(byte)).sum::<u64>();
            assert!(channel(0) != channel(1) && channel(1) != channel(2), "channels differ");
        }
    }

    #[test]
    fn a_folder_that_is_not_empty_is_refused_and_cancelling_ends_the_work() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("mine"), "").unwrap();
        let error = make_files(&set(), folder.path(), 10, FileFormat::Png, &mut go).unwrap_err();
        assert!(matches!(error, DatasetError::Exists(_)), "{error}");
        let inside = folder.path().join("new");
        let error = make_files(&set(), &inside, 10, FileFormat::Png, &mut |_, _| ControlFlow::Break(())).unwrap_err();
        assert!(matches!(error, DatasetError::Cancelled), "{error}");
    }
}
