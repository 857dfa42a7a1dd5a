//! The workload `llm`: fine-tuning of Llama models (2505.22905 section 5).

mod block;
mod data;
#[cfg(test)]
mod fake_quantise_tests;
mod fp8;
mod model;
mod nf4;
mod optimizer;
#[cfg(test)]
mod preference_tests;
mod proof;
#[cfg(test)]
mod testing;
mod weights;

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use multicard::dataset::text::{self, IGNORED_LABEL, TextSet, expected_weights};
use multicard::plan::llm::{
    FsdpGather, FsdpWrap, LlmData, LlmSettings, ModelConfig, Precision, Sharding, Technique, Tf32,
};
use multicard::plan::{Kernels, Passes};
use multicard::protocol::{Event, Evidence, Job};
use tch::{Device, Kind, TchError, Tensor};

use crate::order::{Deal, Shard};
use crate::parallel::{Gather, Wrap};
use crate::precision::Arithmetic;
use crate::report::{Report, Stop};
use crate::shim::{self, Flags};
use crate::task::{Forward, Made, Optimizer, Rank, Readings, Task};
use crate::trainer::Trainer;
use crate::work::{Counted, Work};
pub use block::Options;
use data::{TextBatch, TextData};
pub use model::Llama;
use optimizer::{Schedule, Scheduled};
use weights::Checkpoint;

/// Measures of each step of DPO, as means over its pairs: the rewards of both rows, their difference, and the fraction of pairs whose
/// chosen row has the higher reward.
const PREFERENCE_MEASURES: &[&str] = &["rewards_chosen", "rewards_rejected", "reward_margin", "reward_accuracy"];

/// Fine-tuning of a Llama model.
pub struct Llm {
    settings: LlmSettings,
    config: ModelConfig,
    /// The initial weights; random without a checkpoint.
    checkpoint: Option<Checkpoint>,
    /// The training and test rows.
    rows: Arc<TextSet>,
    /// Steps of the run; exact once the rows are distributed over ranks.
    steps: Rc<Cell<u64>>,
}

/// The sum of losses and the number of tokens or pairs that they cover, on the device.
pub struct Totals([Tensor; 2]);

impl Llm {
    fn options(&self) -> Options {
        Options {
            lora: self.settings.lora,
            nf4: self.settings.technique == Technique::Qlora,
            fp8: self.settings.precision == Precision::Fp8,
            group: Some(self.settings.qat_group).filter(|_| self.settings.technique == Technique::Qat),
            fused: self.settings.kernels == Kernels::Fused,
            checkpointing: self.settings.activation_checkpointing,
            sharded: self.settings.sharded(),
        }
    }

    /// Whether it learns from preference pairs.
    fn prefers(&self) -> bool {
        self.settings.technique.prefers()
    }

    /// The loss and rewards of pairs, by a joint pass or by one of the reference, which comes first because it keeps no activations, and
    /// one of the policy.
    fn preference(&self, forward: &mut Forward<Llama>, inputs: &Vec<Tensor>) -> Result<Tensor, TchError> {
        let (module, beta) = (forward.module(), self.settings.dpo_beta);
        if self.settings.joins_reference(inputs[0].numel()) {
            let losses = module.beside_reference(|| forward.run(inputs))?;
            let [policy, reference] = each_side(&losses, &inputs[0])?;
            return preferences(&policy, &reference, beta);
        }
        let reference = module.as_reference(|| forward.without_gradients(inputs))?;
        preferences(&forward.run(inputs)?, &reference, beta)
    }

    /// Tokens of a micro-batch of these inputs, padding included.
    fn micro_batch(&self, inputs: &[Tensor]) -> usize {
        inputs[0].numel() / self.settings.gradient_accumulation
    }

    /// The type of frozen weights, but of those in NF4 or FP8; of all weights if all are trained.
    fn weights(&self) -> Kind {
        match self.settings.precision {
            Precision::Fp32 => Kind::Float,
            Precision::Bf16 | Precision::Fp8 => Kind::BFloat16,
            Precision::Fp16 => Kind::Half,
        }
    }
}

/// The number of tokens that count in the loss of a batch: those whose successor has a label. At least 1.
fn counted(labels: &Tensor) -> Result<Tensor, TchError> {
    let labels = labels.f_narrow(1, 1, labels.size()[1] - 1)?;
    labels.f_ne(IGNORED_LABEL)?.f_sum(Kind::Float)?.f_clamp_min(1)
}

/// Divides the cross entropies of a joint pass over `tokens` into the policy's and the reference's.
fn each_side(losses: &Tensor, tokens: &Tensor) -> Result<[Tensor; 2], TchError> {
    // Not any two halves: this fails if the pass was not joint.
    let size = tokens.size();
    let losses = losses.f_view([2, size[0], size[1]])?;
    Ok([losses.f_get(0)?, losses.f_get(1)?.f_detach()?])
}

/// Direct preference optimisation (arXiv 2305.18290): the loss `-log sigmoid(margin)`, as a mean over pairs, followed by the
/// [`PREFERENCE_MEASURES`]: `[5]`. Only the loss has a gradient.
///
/// `policy` and `reference` are the cross entropies of each token's label `[rows, tokens]`, 0 without a label. Each chosen row is
/// followed by its rejected one. A row's reward is `beta` times the policy's log-probability minus the reference's. The margin
/// is the chosen row's reward minus the rejected row's. Same as TorchTune 0.5's `DPOLoss` without label smoothing.
fn preferences(policy: &Tensor, reference: &Tensor, beta: f64) -> Result<Tensor, TchError> {
    let gained = reference.f_sub(policy)?.f_sum_dim_intlist(1, false, Kind::Float)?;
    let rewards = gained.f_mul_scalar(beta)?.f_view([-1, 2])?;
    let (chosen, rejected) = (rewards.f_select(1, 0)?, rewards.f_select(1, 1)?);
    let margin = chosen.f_sub(&rejected)?;
    let loss = margin.f_log_sigmoid()?.f_neg()?.f_mean(Kind::Float)?;
    let accuracy = margin.f_gt(0.0)?.f_to_kind(Kind::Float)?;
    let mean = |values: &Tensor| values.f_detach()?.f_mean(Kind::Float);
    Tensor::f_stack(&[loss, mean(&chosen)?, mean(&rejected)?, mean(&margin)?, mean(&accuracy)?], 0)
}

impl Task for Llm {
    /// Tokens, labels and, for packed rows, positions.
    type Inputs = Vec<Tensor>;
    type Module = Llama;
    type Data = TextData;
    type Totals = Totals;

    fn new(job: &Job) -> Result<Self, String> {
        let settings = LlmSettings::from_levels(&job.levels)?;
        let data = LlmData::read(&job.data)?;
        let config = data.model(settings.model)?;
        let checkpoint = data.weights.as_deref().map(Checkpoint::open).transpose()?;
        if let Some(checkpoint) = &checkpoint {
            checkpoint.check(&expected_weights(&config))?;
        }
        let rows = text::read(&settings, &data, &config, &job.data_folder).map_err(|error| error.to_string())?;
        let steps = Rc::new(Cell::new(job.shape.steps));
        Ok(Self { settings, config, checkpoint, rows: Arc::new(rows), steps })
    }

    fn epochs(&self) -> u32 {
        self.settings.epochs as u32
    }

    fn strategy(&self) -> &str {
        self.settings.sharding.name()
    }

    fn strategy_key(&self) -> &'static str {
        Sharding::KEY
    }

    fn passes(&self) -> Passes {
        self.settings.passes
    }

    fn flags(&self) -> Flags {
        let tf32_matmul = self.settings.tf32 == Tf32::All && self.settings.precision == Precision::Fp32;
        Flags { cudnn_benchmark: false, tf32_conv: false, tf32_matmul, deterministic: self.settings.deterministic }
    }

    fn arithmetic(&self, device: Device) -> Result<Arithmetic, TchError> {
        Arithmetic::new(device, self.weights(), None, self.settings.precision == Precision::Fp16)
    }

    fn model(&self) -> &str {
        &self.config.name
    }

    fn wrap(&self) -> Option<Wrap> {
        (self.settings.sharding == Sharding::Fsdp).then_some(match self.settings.fsdp_wrap {
            FsdpWrap::Block => Wrap::Inner,
            FsdpWrap::MemoryEfficient => Wrap::Units,
        })
    }

    fn gather(&self) -> Gather {
        match self.settings.fsdp_gather {
            FsdpGather::Collectives => Gather::Collectives,
            FsdpGather::Copies => Gather::Copies,
        }
    }

    fn module(&self, device: Device, weights: Kind, made: Made) -> Result<Llama, TchError> {
        let options = self.options();
        if options.fused && device.is_cuda() {
            shim::llama::use_cuda_kernels()?;
        }
        let mut llama = Llama::new(&self.config, options, device, weights, &mut |unit| {
            if let Some(checkpoint) = &self.checkpoint {
                checkpoint.copy_to(&unit.weights)?;
            }
            made(&unit.parameters)
        })?;
        self.checkpoint.as_ref().map_or(Ok(()), |checkpoint| llama.load_quantised(checkpoint))?;
        if self.prefers() && options.lora.is_none() {
            llama.keep_reference(&self.config, device, weights)?;
        }
        Ok(llama)
    }

    fn optimizer(&self, parameters: &[Tensor]) -> Result<Box<dyn Optimizer>, TchError> {
        let LlmSettings { learning_rate, warmup_steps, optimizer_impl, .. } = self.settings;
        let schedule = Schedule { peak: learning_rate, warm_up: warmup_steps as u64, steps: Rc::clone(&self.steps) };
        Ok(Box::new(Scheduled::new(parameters, schedule, optimizer_impl)?))
    }

    fn data(&self, rank: Rank, report: &mut Report) -> Result<TextData, Stop> {
        let (place, world_size) = rank.peers.map_or((0, 1), |peers| (peers.rank as usize, peers.world_size as usize));
        let shard = Shard { rank: place, world_size, deal: Deal::Sampled };
        let rows = TextData::new(Arc::clone(&self.rows), &self.settings, shard, rank.job.seed, rank.device.device);
        self.steps.set(crate::task::Data::batches(&rows) as u64 * u64::from(self.epochs()));
        report.event(Event::Evidence(rows.evidence(&self.settings)))?;
        Ok(rows)
    }

    /// Micro-batches, each with its fraction of the step's tokens.
    fn parts(&self, inputs: &Vec<Tensor>) -> Result<Vec<(Vec<Tensor>, Tensor)>, TchError> {
        let parts = self.settings.gradient_accumulation as i64;
        if parts == 1 {
            return Ok(Vec::new());
        }
        let pairs = self.prefers();
        let all = counted(&inputs[1])?;
        let rows = inputs[0].size()[0] / parts;
        let part = |index: i64| {
            let part: Result<Vec<_>, _> = inputs.iter().map(|tensor| tensor.f_narrow(0, index * rows, rows)).collect();
            let part = part?;
            // All micro-batches hold the same number of pairs.
            let share = if pairs { all.f_full_like(1.0 / parts as f64)? } else { counted(&part[1])?.f_div(&all)? };
            Ok((part, share))
        };
        (0..parts).map(part).collect()
    }

    fn measures(&self) -> &'static [&'static str] {
        if self.prefers() { PREFERENCE_MEASURES } else { &[] }
    }

    fn loss(&self, forward: &mut Forward<Llama>, inputs: &Vec<Tensor>) -> Result<Tensor, TchError> {
        if self.prefers() {
            return self.preference(forward, inputs);
        }
        forward.run(inputs)?.f_sum(Kind::Float)?.f_div(&counted(&inputs[1])?)
    }

    fn counted(&self, inputs: &Vec<Tensor>) -> Result<Option<Tensor>, TchError> {
        // All ranks have the same number of pairs.
        if self.prefers() { Ok(None) } else { counted(&inputs[1]).map(Some) }
    }

    /// DPO's reference is a forward pass more, which reads frozen weights again unless it is joined with the policy's.
    fn work(&self, module: &Llama, inputs: &Vec<Tensor>, kind: Kind) -> Work {
        let parts = self.settings.gradient_accumulation as i64;
        let size = inputs[0].size();
        let (rows, tokens) = (size[0] / parts, size[1]);
        let pass = |train| module.work(rows, tokens, Counted { kind, train });
        let train = self.passes() == Passes::Training;
        let passes = if self.settings.joins_reference(self.micro_batch(inputs)) {
            module.beside_reference(|| pass(train))
        } else if self.prefers() {
            pass(train) + module.as_reference(|| pass(false))
        } else {
            pass(train)
        };
        passes * parts as f64
    }

    fn totals(&self, device: Device) -> Result<Totals, TchError> {
        let zero = || Tensor::f_zeros([0i64; 0], (Kind::Double, device));
        Ok(Totals([zero()?, zero()?]))
    }

    fn evaluate(
        &self,
        forward: &mut Forward<Llama>,
        inputs: &Vec<Tensor>,
        Totals([loss, tokens]): &mut Totals,
    ) -> Result<(), TchError> {
        if self.prefers() {
            let pairs = (inputs[0].size()[0] / 2) as f64;
            let _ = loss.f_add_(&self.preference(forward, inputs)?.f_get(0)?.f_mul_scalar(pairs)?)?;
            let _ = tokens.f_add_scalar_(pairs)?;
            return Ok(());
        }
        let _ = loss.f_add_(&forward.run(inputs)?.f_sum(Kind::Double)?)?;
        let _ = tokens.f_add_(&counted(&inputs[1])?)?;
        Ok(())
    }

    fn evaluation_passes(&self) -> u32 {
        // One for the policy, one for the reference. Only sharded models are asked, which do not join them.
        if self.prefers() { 2 } else { 1 }
    }

    fn score(
        &self,
        Totals([loss, tokens]): &Totals,
        sum: &dyn Fn(&Tensor) -> Result<(), TchError>,
    ) -> Result<Readings, TchError> {
        let sums = Tensor::f_stack(&[loss, tokens], 0)?;
        sum(&sums)?;
        let sums = Vec::<f64>::try_from(&sums.f_to_device(Device::Cpu)?)?;
        if sums[1] == 0.0 {
            return Ok(Readings::new());
        }
        Ok(vec![("test_loss", sums[0] / sums[1]), ("test_units", sums[1])])
    }

    fn save_every(&self) -> Option<u64> {
        self.settings.save_every.filter(|_| self.passes() == Passes::Training).map(|steps| steps as u64)
    }

    fn export(&self, module: &Llama, folder: &Path) -> std::io::Result<()> {
        let failed = |error: TchError| std::io::Error::other(error.to_string());
        match &self.settings.lora {
            Some(lora) => {
                let base = self.checkpoint.as_ref().map(|checkpoint| checkpoint.folder().display().to_string());
                let adapters = module.named_adapters(&Tensor::f_detach).map_err(failed)?;
                weights::export_adapters(folder, lora, base.as_deref().unwrap_or(&self.config.name), &adapters)
            }
            None => weights::export_weights(folder, &module.named_weights(&Tensor::f_detach).map_err(failed)?),
        }
    }

    fn proof(&self, trainer: &Trainer<Self>, batch: &TextBatch) -> Result<Vec<Evidence>, TchError> {
        proof::gather(trainer, batch)
    }
}

#[cfg(test)]
#[path = "llm/task_tests.rs"]
pub mod tests;
