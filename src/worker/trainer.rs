//! One step of training and of evaluation: the model, its arithmetic and its optimizer on one device.

use multicard::plan::{ImageSettings, Layout};
use tch::{Device, Kind, Reduction, TchError, Tensor};

use crate::graph::{Replays, StepGraph};
use crate::image::MobileNetV2;
use crate::parallel::{Pass, Single, Strategy};
use crate::precision::Arithmetic;
use crate::shim::{NvtxRange, Sgd};

/// Digits.
const CLASSES: i64 = 10;
/// Of SGD.
const MOMENTUM: f64 = 0.9;
/// What cross entropy skips; no label has this value.
const IGNORED_LABEL: i64 = -100;

/// What steps work on.
pub struct Trainer {
    // Freed first: it uses all the others.
    graph: Option<StepGraph>,
    device: Device,
    arithmetic: Arithmetic,
    model: MobileNetV2,
    optimizer: Sgd,
    strategy: Box<dyn Strategy>,
}

/// The cell's model on a device, with weights from torch's generator.
pub fn build_model(settings: &ImageSettings, device: Device, weights: Kind) -> Result<MobileNetV2, TchError> {
    MobileNetV2::new(CLASSES, settings.width_multiplier, device, weights, settings.layout == Layout::Nhwc)
}

/// What this rank's evaluation steps add up, on the device.
pub struct Totals {
    loss: Tensor,
    correct: Tensor,
    images: u64,
}

/// What an evaluation found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// The mean over all images.
    pub loss: f64,
    /// Correct images over all images.
    pub accuracy: f64,
    /// How many images there were.
    pub images: u64,
}

impl Trainer {
    /// A model with the seed's weights, on a device. Every rank gets the same weights, and its own dropout.
    pub fn new(settings: &ImageSettings, device: Device, seed: u64, rank: u32) -> Result<Self, TchError> {
        let graph = settings.cuda_graph.then(|| StepGraph::new(device)).transpose()?;
        let arithmetic = Arithmetic::new(settings.precision, device)?;
        tch::manual_seed(seed as i64);
        let model = build_model(settings, device, arithmetic.weights())?;
        tch::manual_seed(seed.wrapping_add(1 + u64::from(rank)) as i64);
        let optimizer = Sgd::new(&model.parameters(), settings.learning_rate, MOMENTUM, settings.optimizer_impl)?;
        Ok(Self { graph, device, arithmetic, model, optimizer, strategy: Box::new(Single) })
    }

    /// Spreads all further steps as the strategy does.
    pub fn spread(&mut self, strategy: Box<dyn Strategy>) {
        self.strategy = strategy;
    }

    /// How the work is spread.
    pub fn strategy(&self) -> &dyn Strategy {
        &*self.strategy
    }

    /// The model.
    pub fn model(&self) -> &MobileNetV2 {
        &self.model
    }

    /// Its arithmetic.
    pub fn arithmetic(&self) -> &Arithmetic {
        &self.arithmetic
    }

    /// Gradients so far that had to be copied into their parameter's strides.
    pub fn relaid_gradients(&self) -> i64 {
        self.optimizer.relaid()
    }

    /// What was seen of the step's CUDA graph; nothing where there is none.
    pub fn replays(&self) -> Replays {
        self.graph.as_ref().map(StepGraph::replays).unwrap_or_default()
    }

    /// Forward, backward, update. The loss of the batch before the update, on the device; a graph's is overwritten by the next step.
    pub fn step(&mut self, images: &Tensor, labels: &Tensor) -> Result<Tensor, TchError> {
        let Some(mut graph) = self.graph.take() else { return self.eager_step(images, labels) };
        let loss = graph.step(images, labels, |images, labels| self.eager_step(images, labels));
        self.graph = Some(graph);
        loss
    }

    fn eager_step(&mut self, images: &Tensor, labels: &Tensor) -> Result<Tensor, TchError> {
        self.optimizer.zero()?;
        let loss = {
            let _range = NvtxRange::new(c"forward");
            self.loss(images, labels, true, Reduction::Mean)?.0
        };
        let range = NvtxRange::new(c"backward");
        match self.arithmetic.scale() {
            None => loss.f_backward()?,
            Some(scale) => scale.apply(&loss)?.f_backward()?,
        }
        drop(range);
        {
            let _range = NvtxRange::new(c"all_reduce");
            self.strategy.after_backward(&self.model)?;
        }
        let _range = NvtxRange::new(c"optimizer");
        self.optimizer.step(self.arithmetic.scale())?;
        loss.f_detach()
    }

    /// Begins an evaluation: nothing evaluated yet.
    pub fn totals(&mut self) -> Result<Totals, TchError> {
        self.strategy.before_evaluation(&self.model)?;
        let zero = |kind| Tensor::f_zeros([0i64; 0], (kind, self.device));
        Ok(Totals { loss: zero(Kind::Double)?, correct: zero(Kind::Int64)?, images: 0 })
    }

    /// Evaluates a batch, with running statistics and without dropout.
    pub fn evaluate(&mut self, images: &Tensor, labels: &Tensor, totals: &mut Totals) -> Result<(), TchError> {
        tch::no_grad(|| {
            let (loss, logits) = self.loss(images, labels, false, Reduction::Sum)?;
            let _ = totals.loss.f_add_(&loss.f_to_kind(Kind::Double)?)?;
            let correct = logits.f_argmax(1, false)?.f_eq_tensor(labels)?.f_sum(Kind::Int64)?;
            let _ = totals.correct.f_add_(&correct)?;
            totals.images += labels.size1()? as u64;
            Ok(())
        })
    }

    /// What all ranks' totals come to: waits for the device, and for the other ranks.
    pub fn score(&self, totals: &Totals) -> Result<Score, TchError> {
        let images = Tensor::f_full([0i64; 0], totals.images as f64, (Kind::Double, self.device))?;
        // Counts are exact in fp64.
        let sums = Tensor::f_stack(&[totals.loss.shallow_clone(), totals.correct.f_to_kind(Kind::Double)?, images], 0)?;
        self.strategy.sum(&sums)?;
        let sums = Vec::<f64>::try_from(&sums.f_to_device(Device::Cpu)?)?;
        let images = sums[2].max(1.0);
        Ok(Score { loss: sums[0] / images, accuracy: sums[1] / images, images: sums[2] as u64 })
    }

    fn loss(
        &mut self,
        images: &Tensor,
        labels: &Tensor,
        train: bool,
        reduction: Reduction,
    ) -> Result<(Tensor, Tensor), TchError> {
        let pass = Pass { model: &self.model, arithmetic: &self.arithmetic, train };
        let logits = self.strategy.forward(&pass, images)?;
        let logits = self.arithmetic.logits(logits)?;
        let loss = logits.f_cross_entropy_loss(labels, None::<&Tensor>, reduction, IGNORED_LABEL, 0.0)?;
        Ok((loss, logits))
    }
}

#[cfg(test)]
#[path = "trainer_tests.rs"]
mod tests;
