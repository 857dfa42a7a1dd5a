//! Procedural digits: strokes with the variations of handwriting, drawn from a seeded generator.
//!
//! Each image has its own stream of random numbers, so its bytes depend neither on the threads nor on the other images.
//! Only additions, multiplications, divisions and square roots are used, whose results IEEE 754 defines exactly, so every
//! machine draws the same bytes.

use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::glyph::{Glyph, Point, glyphs, polyline};
use super::{DatasetError, ImageSet, Images};

const SIDE: usize = 28;
/// Side of a digit's bounding box in pixels, as in MNIST.
const BOX: f32 = 20.0;
const SEED: [u8; 32] = *b"multicard: procedural digits, 1.";
/// Images per unit of work.
const CHUNK: usize = 500;

/// Draws `train` and `test` images on `threads` threads. `progress` receives the images done and their total, and
/// cancels by breaking.
pub(super) fn draw_set(
    [train, test]: [usize; 2],
    threads: usize,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<ImageSet, DatasetError> {
    let glyphs = glyphs();
    let mut set = ImageSet { train: blank(train), test: blank(test) };
    let jobs: Vec<_> = [&mut set.train, &mut set.test]
        .into_iter()
        .enumerate()
        .flat_map(|(part, images)| {
            let pixels = images.pixels.chunks_mut(CHUNK * SIDE * SIDE);
            let labels = images.labels.chunks_mut(CHUNK);
            let first = (part as u64) << 32;
            pixels.zip(labels).enumerate().map(move |(chunk, job)| (first + (chunk * CHUNK) as u64, job))
        })
        .collect();
    let jobs = Mutex::new(jobs.into_iter());
    let cancelled = AtomicBool::new(false);
    let total = (train + test) as u64;
    let (sender, receiver) = mpsc::sync_channel(threads.max(1));
    let work = |sender: mpsc::SyncSender<u64>| {
        while !cancelled.load(Ordering::Relaxed) {
            let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((first, (pixels, labels))) = next else { break };
            for (index, (image, label)) in pixels.chunks_exact_mut(SIDE * SIDE).zip(labels.iter_mut()).enumerate() {
                *label = draw(&glyphs, first + index as u64, image);
            }
            if sender.send(labels.len() as u64).is_err() {
                break;
            }
        }
    };
    thread::scope(|scope| {
        for index in 0..threads.max(1) {
            let (sender, work) = (sender.clone(), &work);
            let builder = thread::Builder::new().name(format!("digits-{index}"));
            match builder.spawn_scoped(scope, move || work(sender)) {
                // Fewer threads only take longer.
                Err(error) if index == 0 => return Err(DatasetError::Thread(error)),
                _ => {}
            }
        }
        drop(sender);
        let mut done = 0;
        for count in receiver {
            done += count;
            if progress(done, total).is_break() {
                cancelled.store(true, Ordering::Relaxed);
            }
        }
        if cancelled.load(Ordering::Relaxed) { Err(DatasetError::Cancelled) } else { Ok(()) }
    })?;
    Ok(set)
}

/// Number of threads to use on this machine.
pub(super) fn threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get).min(16)
}

fn blank(count: usize) -> Images {
    Images { rows: SIDE, columns: SIDE, pixels: vec![0; count * SIDE * SIDE], labels: vec![0; count] }
}

/// The random numbers of one image.
struct Dice(ChaCha8Rng);

impl Dice {
    fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * ((self.0.next_u32() >> 8) as f32 / (1 << 24) as f32)
    }

    /// Approximately normal around 0 with standard deviation `deviation`, bounded by 3.5 times that.
    fn bell(&mut self, deviation: f32) -> f32 {
        let sum: f32 = (0..4).map(|_| self.between(-1.0, 1.0)).sum();
        sum * 0.866_025_4 * deviation
    }

    fn chance(&mut self, probability: f32) -> bool {
        self.between(0.0, 1.0) < probability
    }

    fn below(&mut self, count: usize) -> usize {
        self.0.next_u32() as usize % count
    }
}

/// Draws the image of one random stream into a black image and returns its label.
fn draw(glyphs: &[Vec<Glyph>; 10], stream: u64, image: &mut [u8]) -> u8 {
    let mut generator = ChaCha8Rng::from_seed(SEED);
    generator.set_stream(stream);
    let dice = &mut Dice(generator);
    let label = dice.below(10);
    let glyph = &glyphs[label][dice.below(glyphs[label].len())];

    let radius = dice.between(0.7, 1.9);
    let lines = place(&written(glyph, dice), radius, dice);
    let softness = dice.between(0.45, 0.85);
    let mut ink = [0.0_f32; SIDE * SIDE];
    for line in &lines {
        let swell = dice.between(0.8, 1.2);
        let pieces = line.len().saturating_sub(1).max(1) as f32;
        for (index, piece) in line.windows(2).enumerate() {
            let along = index as f32 / pieces;
            stroke(&mut ink, piece[0], piece[1], radius * (1.0 + (swell - 1.0) * along), softness);
        }
    }
    clutter(&mut ink, dice);
    develop(&ink, image, dice);
    label as u8
}

/// The polylines of a handwritten glyph: points jittered, then slanted and rotated.
fn written(glyph: &Glyph, dice: &mut Dice) -> Vec<Vec<Point>> {
    let aspect = glyph.aspect * dice.between(0.78, 1.3);
    let shear = dice.bell(0.22);
    // The tangent of the half angle gives the rotation without trigonometry.
    let half = dice.bell(0.085);
    let (cosine, sine) = ((1.0 - half * half) / (1.0 + half * half), 2.0 * half / (1.0 + half * half));
    let mut hand = |&[x, y]: &Point| {
        let (x, y) = ((x - 0.5 + dice.bell(0.04)) * aspect, y - 0.5 + dice.bell(0.035));
        let x = x - shear * y;
        [cosine * x - sine * y, sine * x + cosine * y]
    };
    let mut lines = Vec::new();
    for stroke in &glyph.strokes {
        let mut points: Vec<Point> = Vec::with_capacity(stroke.len());
        for (index, point) in stroke.iter().enumerate() {
            // Keep both copies of a corner together.
            let same = index > 0 && stroke[index - 1] == *point;
            points.push(if same { points[index - 1] } else { hand(point) });
        }
        lines.push(polyline(&points));
    }
    lines
}

/// Scales polylines to the digit's box and centres their mass in the image, as in MNIST.
fn place(lines: &[Vec<Point>], radius: f32, dice: &mut Dice) -> Vec<Vec<Point>> {
    let extent = |axis: usize| {
        let values = lines.iter().flatten().map(|point| point[axis]);
        let (low, high) = values.fold((f32::MAX, f32::MIN), |(low, high), value| (low.min(value), high.max(value)));
        high - low
    };
    let scale = (BOX - 2.0 * radius) * dice.between(0.85, 1.0) / extent(0).max(extent(1));
    let (mut mass, mut moment) = (0.0, [0.0, 0.0]);
    for piece in lines.iter().flat_map(|line| line.windows(2)) {
        let length = distance(piece[0], piece[1]);
        mass += length;
        for axis in [0, 1] {
            moment[axis] += length * 0.5 * (piece[0][axis] + piece[1][axis]);
        }
    }
    let middle = [0, 1].map(|_| SIDE as f32 / 2.0 + dice.bell(0.7));
    let moved = |point: &Point| [0, 1].map(|axis| middle[axis] + scale * (point[axis] - moment[axis] / mass));
    lines.iter().map(|line| line.iter().map(moved).collect()).collect()
}

fn distance(a: Point, b: Point) -> f32 {
    let (x, y) = (a[0] - b[0], a[1] - b[1]);
    (x * x + y * y).sqrt()
}

/// Inks the pixels near a line, with a soft edge.
fn stroke(ink: &mut [f32; SIDE * SIDE], from: Point, to: Point, radius: f32, softness: f32) {
    let reach = radius + softness;
    let pixels = |axis: usize| {
        let (low, high) = (from[axis].min(to[axis]) - reach, from[axis].max(to[axis]) + reach);
        (low.max(0.0) as usize)..((high.max(0.0) as usize + 1).min(SIDE))
    };
    let along = [to[0] - from[0], to[1] - from[1]];
    let square = along[0] * along[0] + along[1] * along[1];
    for row in pixels(1) {
        for column in pixels(0) {
            let centre = [column as f32 + 0.5, row as f32 + 0.5];
            let dot = (centre[0] - from[0]) * along[0] + (centre[1] - from[1]) * along[1];
            let t = if square > 0.0 { (dot / square).clamp(0.0, 1.0) } else { 0.0 };
            let off = distance(centre, [from[0] + t * along[0], from[1] + t * along[1]]);
            let edge = ((reach - off) / (2.0 * softness)).clamp(0.0, 1.0);
            let pixel = &mut ink[row * SIDE + column];
            *pixel = pixel.max(edge * edge * (3.0 - 2.0 * edge));
        }
    }
}

/// Adds an occasional stray stroke.
fn clutter(ink: &mut [f32; SIDE * SIDE], dice: &mut Dice) {
    if dice.chance(0.12) {
        let from = [0, 1].map(|_| dice.between(2.0, 26.0));
        let to = from.map(|value| value + dice.bell(2.5));
        stroke(ink, from, to, dice.between(0.3, 0.9), 0.6);
    }
}

/// Turns ink into bytes, with varying darkness, grain and specks.
fn develop(ink: &[f32; SIDE * SIDE], image: &mut [u8], dice: &mut Dice) {
    let darkness = dice.between(0.7, 1.05);
    let specks = if dice.chance(0.25) { 0.03 } else { 0.0 };
    for (&ink, pixel) in ink.iter().zip(image) {
        let grain = if ink > 0.0 { dice.bell(0.06) } else { 0.0 };
        let speck = if specks > 0.0 && dice.chance(specks) { dice.between(0.1, 0.5) } else { 0.0 };
        *pixel = (255.0 * (ink * darkness * (1.0 + grain) + speck) + 0.5).clamp(0.0, 255.0) as u8;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::dataset::make::sha256;

    fn drawn(train: usize, test: usize, threads: usize) -> ImageSet {
        draw_set([train, test], threads, &mut |_, _| ControlFlow::Continue(())).unwrap()
    }

    /// Sessions refer to this set as `digits`. If its bytes change, raise the version of the set and announce it.
    #[test]
    fn the_first_images_never_change() {
        let train = drawn(500, 0, 2).train;
        assert_eq!(sha256(&train.pixels), "5e0c00577f0c77a6459ba6b7daca5bdaa3f26e63249950b145b83b9490640b2b");
        assert_eq!(sha256(&train.labels), "f8dcc7990ded48baff6942744fbf9454447e6e346c3760657e24aea6b74c7ee2");
    }

    #[test]
    fn threads_change_nothing() {
        assert_eq!(drawn(1200, 700, 1), drawn(1200, 700, 4));
    }

    #[test]
    fn a_longer_set_starts_with_the_shorter_one_and_parts_differ() {
        let (short, mut long) = (drawn(30, 30, 1), drawn(600, 0, 2));
        assert_ne!(short.train.pixels, short.test.pixels);
        long.train.truncate(30);
        assert_eq!(short.train, long.train);
    }

    #[test]
    fn digits_are_balanced_and_centred() {
        let train = drawn(2000, 0, 2).train;
        let mean = |axis: usize| {
            let (mut sum, mut moment) = (0.0, 0.0);
            for (index, &value) in train.pixels.iter().enumerate() {
                let position = [index % SIDE, index / SIDE % SIDE][axis] as f64 + 0.5;
                sum += f64::from(value);
                moment += position * f64::from(value);
            }
            moment / sum
        };
        for digit in 0..10 {
            let count = train.labels.iter().filter(|&&label| label == digit).count();
            assert!((140..=260).contains(&count), "{count} images of {digit}");
        }
        assert!((mean(0) - 14.0).abs() < 0.3 && (mean(1) - 14.0).abs() < 0.3, "{} {}", mean(0), mean(1));
        let ink = train.pixels.iter().map(|&value| f64::from(value)).sum::<f64>() / train.pixels.len() as f64;
        assert!((15.0..60.0).contains(&ink), "mean byte {ink}; MNIST's is 33");
    }

    #[test]
    fn the_set_is_separable_but_not_trivial() {
        let set = drawn(1500, 300, 2);
        let size = SIDE * SIDE;
        let mut centroids = vec![[0.0_f32; SIDE * SIDE]; 10];
        for index in 0..set.train.len() {
            let label = usize::from(set.train.labels[index]);
            let count = set.train.labels.iter().filter(|&&other| usize::from(other) == label).count() as f32;
            for (mean, &value) in centroids[label].iter_mut().zip(set.train.image(index)) {
                *mean += f32::from(value) / count;
            }
        }
        let right = (0..set.test.len())
            .filter(|&index| {
                let image = &set.test.pixels[index * size..(index + 1) * size];
                let off = |centroid: &[f32; SIDE * SIDE]| {
                    centroid.iter().zip(image).map(|(mean, &value)| (mean - f32::from(value)).powi(2)).sum::<f32>()
                };
                let nearest = (0..10).min_by(|&a, &b| off(&centroids[a]).total_cmp(&off(&centroids[b]))).unwrap();
                nearest == usize::from(set.test.labels[index])
            })
            .count();
        let accuracy = right as f64 / set.test.len() as f64;
        println!("nearest centroid: {accuracy}");
        assert!((0.5..0.87).contains(&accuracy), "nearest centroid: {accuracy}");
    }

    #[test]
    fn cancelling_ends_the_drawing() {
        let mut calls = 0;
        let set = draw_set([20_000, 0], 2, &mut |_, _| {
            calls += 1;
            ControlFlow::Break(())
        });
        assert!(matches!(set, Err(DatasetError::Cancelled)));
        assert!(calls <= 6, "{calls} chunks were still drawn");
    }
}
