//! Runs the step as a CUDA graph: eagerly at first, then captured once for each shape of its inputs, and from then on launched as a whole.
//!
//! Collectives are part of the graph. NCCL's watchdog cannot see those of a replay, so a rank that waits for a hanging peer is ended by
//! [`crate::watchdog`]. A rank whose peer dies is ended by its process group, as in eager steps.

use multicard::plan::CUDA_GRAPH_WARM_UP_STEPS;
use tch::{Device, TchError, Tensor};

use crate::module::Tensors;
use crate::shim::{self, cuda};

/// Replays the steps of a run.
pub struct StepGraph<I> {
    /// Number of steps that still run eagerly before the first capture.
    eager_left: u64,
    captured: Vec<Captured<I>>,
    /// Shapes that have been run once. A shape is captured with its second batch, because libraries choose algorithms during the first.
    seen: Vec<Vec<Vec<i64>>>,
    replays: u64,
    late_shapes: u64,
}

/// A captured step, whose inputs and loss have fixed addresses.
struct Captured<I> {
    graph: cuda::Graph,
    inputs: I,
    loss: Tensor,
}

/// Counts of replays and captures, used as evidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replays {
    /// Number of steps that were replayed.
    pub steps: u64,
    /// Number of input shapes that have a graph.
    pub shapes: u64,
    /// Number of shapes that first appeared after the warm-up; each of them cost a step that was not replayed.
    pub late_shapes: u64,
    /// Number of kernels in a replay of the last captured shape.
    pub kernels: u64,
    /// Number of kernels, copies and fills in a replay.
    pub nodes: u64,
}

impl<I: Tensors> StepGraph<I> {
    /// Moves this thread's work to a stream that can be captured. Call it before the module is built: gradients are accumulated on
    /// the stream on which their parameters were first used.
    pub fn new(device: Device) -> Result<Self, TchError> {
        if !device.is_cuda() {
            return Err(TchError::Torch(
                "cuda_graph = on needs a GPU, and this rank is on a CPU: use cuda_graph = off".into(),
            ));
        }
        cuda::use_side_stream()?;
        // The last step of the warm-up is the first replay.
        Ok(Self {
            eager_left: CUDA_GRAPH_WARM_UP_STEPS - 1,
            captured: Vec::new(),
            seen: Vec::new(),
            replays: 0,
            late_shapes: 0,
        })
    }

    /// Runs one step: with `eager` at first, later by replaying its captured graph. The next step overwrites the loss.
    pub fn step(&mut self, inputs: &I, eager: impl FnOnce(&I) -> Result<Tensor, TchError>) -> Result<Tensor, TchError> {
        let shape: Vec<_> = inputs.all().iter().map(Tensor::size).collect();
        let is_new = !self.seen.contains(&shape);
        // The last step of the warm-up is the first replay.
        let warms_up = self.eager_left > 0;
        self.eager_left = self.eager_left.saturating_sub(1);
        if warms_up || is_new {
            self.late_shapes += u64::from(!warms_up);
            if is_new {
                self.seen.push(shape);
            }
            return eager(inputs);
        }
        let index = match self.captured.iter().position(|captured| captured.is_of(inputs)) {
            Some(index) => index,
            None => {
                let beside = self.captured.first().map(|captured| &captured.graph);
                self.captured.push(Captured::new(beside, inputs, eager)?);
                self.captured.len() - 1
            }
        };
        self.replays += 1;
        self.captured[index].replay(inputs)
    }

    /// The counts until now.
    pub fn replays(&self) -> Replays {
        let count_of_last =
            |count: fn(&cuda::Graph) -> u64| self.captured.last().map_or(0, |captured| count(&captured.graph));
        Replays {
            steps: self.replays,
            shapes: self.captured.len() as u64,
            late_shapes: self.late_shapes,
            kernels: count_of_last(|graph| graph.kernels),
            nodes: count_of_last(|graph| graph.nodes),
        }
    }
}

impl<I: Tensors> Captured<I> {
    fn new(
        beside: Option<&cuda::Graph>,
        inputs: &I,
        eager: impl FnOnce(&I) -> Result<Tensor, TchError>,
    ) -> Result<Self, TchError> {
        let inputs = inputs.map_each(Tensor::f_empty_like)?;
        let (graph, loss) = cuda::Graph::capture(beside, || eager(&inputs)).map_err(|error| {
            let text = match error {
                TchError::Torch(text) => text,
                other => other.to_string(),
            };
            TchError::Torch(format!("capturing the step as a CUDA graph failed: {text}"))
        })?;
        Ok(Self { graph, inputs, loss })
    }

    fn is_of(&self, inputs: &I) -> bool {
        self.inputs.all().iter().zip(inputs.all()).all(|(held, given)| held.size() == given.size())
    }

    fn replay(&self, inputs: &I) -> Result<Tensor, TchError> {
        for (held, given) in self.inputs.all().iter().zip(inputs.all()) {
            shim::copy(held, given, true)?;
        }
        self.graph.replay()?;
        Ok(self.loss.shallow_clone())
    }
}

#[cfg(test)]
#[path = "graph_tests.rs"]
mod tests;
