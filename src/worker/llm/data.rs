//! Batches of rows, prepared by a thread ahead of the trainer. They are padded to their longest row or, with CUDA graphs, to one of
//! a few lengths, because each length has its own graph.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use multicard::dataset::text::{IGNORED_LABEL, Sample, TextSet, TokenRows};
use multicard::plan::llm::LlmSettings;
use multicard::protocol::Evidence;
use tch::{Device, Kind, TchError, Tensor};

use crate::order::{Mode, Shard, indices, share};
use crate::report::Stop;
use crate::shim::{self, NvtxRange};
use crate::task::{self, Readings};

/// Number of batches that the thread may prepare ahead.
const PREFETCH: usize = 4;
/// The shortest length that has its own graph.
const LEAST_BUCKET: usize = 64;

/// The rows of one rank.
pub struct TextData {
    set: Arc<TextSet>,
    train: Part,
    test: Part,
    shard: Shard,
    seed: u64,
    shuffled: bool,
    batches: usize,
}

/// The training or the test rows.
#[derive(Clone)]
struct Part {
    /// The rows in each row of a batch: one, or several if packed.
    samples: Arc<Vec<Range<usize>>>,
    format: Format,
}

impl Part {
    /// Number of samples: rows, packs or pairs.
    fn count(&self) -> usize {
        self.samples.len() / self.format.rows
    }
}

/// The layout of batches and their device.
#[derive(Clone, Copy)]
struct Format {
    /// Samples per batch.
    samples: usize,
    /// Rows per sample: 2 for pairs.
    rows: usize,
    /// The length of all samples, if they are packs.
    packed: Option<usize>,
    /// The longest bucket, if batches are padded to buckets.
    longest_bucket: Option<usize>,
    padding: u32,
    pinned: bool,
    device: Device,
}

/// The micro-batches of a step, stacked: tokens and labels `[rows, length]`, i64, and for packs the position of each token in its
/// row. Each rejected row of a pair follows its chosen one. A label belongs to the token at its own position, not to the next.
pub struct TextBatch {
    inputs: Vec<Tensor>,
    tokens: u32,
    loss_weight: f64,
    wait_s: f64,
}

impl TextData {
    /// One rank's share of the rows that the cell asks for.
    pub fn new(set: Arc<TextSet>, settings: &LlmSettings, shard: Shard, seed: u64, device: Device) -> Self {
        let part = |rows: &TokenRows, micro_batches: usize| {
            let samples = rows.samples(set.packs_of);
            let longest = samples.iter().map(|sample| rows.sample_len(sample.clone())).max().unwrap_or(1);
            let format = Format {
                samples: settings.batch_size.max(1) * micro_batches.max(1),
                rows: if set.pairs { 2 } else { 1 },
                packed: set.packs_of,
                longest_bucket: Some(longest).filter(|_| settings.cuda_graph),
                padding: set.padding,
                // On a CPU nothing is copied, so there is no memory to pin.
                pinned: settings.pin_memory && device != Device::Cpu,
                device,
            };
            Part { samples: Arc::new(samples), format }
        };
        let (train, test) = (part(&set.train, settings.gradient_accumulation), part(&set.test, 1));
        let batches = settings.steps_per_epoch(train.count() as u64) as usize;
        Self { set, train, test, shard, seed, shuffled: settings.shuffle, batches }
    }

    /// Evidence for the factor `data_set`: the rows that were read or generated.
    pub fn evidence(&self, settings: &LlmSettings) -> Evidence {
        let pairs = self.set.pairs;
        let rows = if pairs { self.set.train.len() / 2 } else { self.set.train.len() };
        let (tokens, learned) = (self.set.train.token_count(), self.set.train.learned_count());
        let what = if pairs { "pairs" } else { "rows" };
        Evidence {
            factor: "data_set".into(),
            asked: settings.data_set.name().to_owned(),
            seen: format!("{rows} {what} of {tokens} tokens, {learned} of them learned: {}", self.set.source),
            in_effect: settings.rows.is_none_or(|asked| asked == rows),
        }
    }

    fn order(&self, epoch: u32) -> Vec<u32> {
        let count = self.train.count();
        if self.shuffled {
            return indices(count, Mode::Train, self.shard, self.seed, epoch);
        }
        share(&(0..count as u32).collect::<Vec<_>>(), Mode::Train, self.shard)
    }
}

impl task::Data for TextData {
    type Batch = TextBatch;
    type Epoch<'a> = TextEpoch;

    fn batches(&self) -> usize {
        self.batches
    }

    fn train(&mut self, epoch: u32) -> TextEpoch {
        let mut order = self.order(epoch);
        order.truncate(self.batches * self.train.format.samples);
        TextEpoch::start(&self.set, &self.train, order, Mode::Train)
    }

    fn test(&mut self, epoch: u32) -> TextEpoch {
        let order = indices(self.test.count(), Mode::Evaluate, self.shard, self.seed, epoch);
        TextEpoch::start(&self.set, &self.test, order, Mode::Evaluate)
    }
}

impl task::Batch for TextBatch {
    type Inputs = Vec<Tensor>;

    fn inputs(&self) -> &Vec<Tensor> {
        &self.inputs
    }

    fn units(&self) -> u32 {
        self.tokens
    }

    fn wait_s(&self) -> f64 {
        self.wait_s
    }

    /// Pairs, or tokens that are predicted.
    fn loss_weight(&self) -> f64 {
        self.loss_weight
    }
}

/// A batch on the host.
struct Prepared {
    tensors: Vec<Tensor>,
    tokens: usize,
    loss_weight: f64,
}

/// One pass over rows. Dropping it stops its thread.
pub struct TextEpoch {
    ready: Option<Receiver<Result<Prepared, TchError>>>,
    thread: Option<JoinHandle<()>>,
    device: Device,
    pinned: bool,
    /// Tokens so far, without and with padding.
    tokens: usize,
    padded: usize,
    /// Pairs whose rejected answer is made, of all pairs of the run.
    made_share: f64,
}

impl TextEpoch {
    fn start(set: &Arc<TextSet>, part: &Part, order: Vec<u32>, mode: Mode) -> Self {
        let (send, ready) = sync_channel(PREFETCH);
        let (set, part) = (Arc::clone(set), part.clone());
        let Format { device, pinned, .. } = part.format;
        let made_share = 2.0 * set.made_pairs as f64 / (set.train.len() + set.test.len()).max(1) as f64;
        let work = move || {
            let rows = if mode == Mode::Train { &set.train } else { &set.test };
            for batch in order.chunks(part.format.samples) {
                let prepared = prepare(rows, &part, batch);
                let failed = prepared.is_err();
                if send.send(prepared).is_err() || failed {
                    return;
                }
            }
        };
        // If the thread cannot start, the channel is closed and the epoch ends with an error.
        let thread = thread::Builder::new().name("rows".into()).spawn(work).ok();
        Self { ready: Some(ready), thread, device, pinned, tokens: 0, padded: 0, made_share }
    }
}

impl task::Epoch for TextEpoch {
    type Batch = TextBatch;

    fn next(&mut self) -> Result<Option<TextBatch>, Stop> {
        let Some(ready) = &self.ready else { return Ok(None) };
        if self.thread.is_none() {
            return Err(Stop::engine(
                "starting the thread that prepares rows failed: this user has reached the limit of threads",
            ));
        }
        let asked = Instant::now();
        let Ok(prepared) = ready.recv() else {
            self.ready = None;
            // A panic also closes the channel, but must not pass for the end of the rows.
            let ended = self.thread.take().is_none_or(|thread| thread.join().is_ok());
            return if ended { Ok(None) } else { Err(Stop::engine("the thread that prepares rows has panicked")) };
        };
        let wait_s = asked.elapsed().as_secs_f64();
        let Prepared { tensors, tokens, loss_weight } = prepared?;
        self.tokens += tokens;
        self.padded += tensors.first().map_or(0, Tensor::numel);
        let _range = NvtxRange::new(c"copy");
        // The pinned-memory allocator keeps the memory until the copy is complete.
        let to_device = |tensor: &Tensor| tensor.f_to_device_(self.device, Kind::Int64, self.pinned, false);
        let inputs = tensors.iter().map(to_device).collect::<Result<_, _>>()?;
        Ok(Some(TextBatch { inputs, tokens: tokens as u32, loss_weight, wait_s }))
    }

    fn readings(&self) -> Readings {
        let padding = (self.padded - self.tokens) as f64 / self.padded.max(1) as f64;
        let made_answers = Some(("made_answers_share", self.made_share)).filter(|(_, share)| *share > 0.0);
        [("padding_share", padding)].into_iter().chain(made_answers).collect()
    }
}

impl Drop for TextEpoch {
    fn drop(&mut self) {
        // Closing the channel ends the thread wherever it is. Joining is safe only after that.
        self.ready = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The padded length of a batch whose longest sample has `longest` tokens.
fn length(longest: usize, format: &Format) -> usize {
    match (format.packed, format.longest_bucket) {
        (Some(limit), _) => limit,
        (None, Some(most)) => bucket(longest).min(most),
        (None, None) => longest,
    }
}

/// Rounds up to 64, 80, 96, 112, 128, 160, …: four lengths per power of two, so that at most a fifth is padding.
fn bucket(longest: usize) -> usize {
    let floor = longest.max(LEAST_BUCKET);
    let step = (1 << floor.ilog2()) / 4;
    floor.next_multiple_of(step)
}

fn prepare(rows: &TokenRows, part: &Part, batch: &[u32]) -> Result<Prepared, TchError> {
    let rows_of = |index: &u32| *index as usize * part.format.rows..(*index as usize + 1) * part.format.rows;
    let samples = batch.iter().flat_map(rows_of).map(|row| part.samples[row].clone());
    let lengths = samples.clone().map(|sample| rows.sample_len(sample));
    let (longest, tokens) = (lengths.clone().max().unwrap_or(1), lengths.sum());
    let length = length(longest, &part.format);
    let count_of_rows = batch.len() * part.format.rows;
    let shape = [count_of_rows as i64, length as i64];
    let count = if part.format.packed.is_some() { 3 } else { 2 };
    let mut values = vec![vec![0_i64; count_of_rows * length]; count];
    for (place, sample) in samples.enumerate() {
        let place = place * length..(place + 1) * length;
        let [of_tokens, of_labels, rest @ ..] = &mut values[..] else { continue };
        let positions = rest.first_mut().map(|positions| &mut positions[place.clone()]);
        let into = Sample { tokens: &mut of_tokens[place.clone()], labels: &mut of_labels[place], positions };
        rows.write(sample, part.format.padding, into);
    }
    let tensor = |values: &Vec<i64>| {
        let tensor = Tensor::f_from_slice(values)?.f_view(&shape[..])?;
        if !part.format.pinned {
            return Ok(tensor);
        }
        let mut locked = shim::pinned_empty(&shape, Kind::Int64)?;
        locked.f_copy_(&tensor)?;
        Ok(locked)
    };
    let predicted = |row: &[i64]| row[1..].iter().filter(|label| **label != IGNORED_LABEL).count();
    let loss_weight = match part.format.rows {
        1 => values[1].chunks(length.max(1)).map(predicted).sum(),
        _ => batch.len(),
    };
    let tensors = values.iter().map(tensor).collect::<Result<_, TchError>>()?;
    Ok(Prepared { tensors, tokens, loss_weight: loss_weight as f64 })
}

#[cfg(test)]
#[path = "data_tests.rs"]
mod tests;
