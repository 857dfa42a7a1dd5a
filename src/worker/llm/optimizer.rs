//! AdamW with a cosine schedule and warm-up.

use std::cell::Cell;
use std::rc::Rc;

use multicard::plan::OptimizerImpl;
use tch::{TchError, Tensor};

use crate::shim::{AdamW, LossScale};
use crate::task::{Norm, Optimizer};

/// Weight decay of the papers' recipes (TorchTune 0.5).
const WEIGHT_DECAY: f64 = 0.01;

/// The learning rate over the steps of a run.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The highest learning rate.
    pub peak: f64,
    /// Steps during which it rises from 0.
    pub warm_up: u64,
    /// Steps of the whole run; exact once the data has been read.
    pub steps: Rc<Cell<u64>>,
}

impl Schedule {
    /// The learning rate of a step, counted from 0, as in TorchTune's `get_cosine_schedule_with_warmup`: the first is 0.
    pub fn at(&self, step: u64) -> f64 {
        if step < self.warm_up {
            return self.peak * step as f64 / self.warm_up as f64;
        }
        let rest = self.steps.get().saturating_sub(self.warm_up).max(1) as f64;
        let progress = (step - self.warm_up) as f64 / rest;
        self.peak * (0.5 * (1.0 + (std::f64::consts::PI * progress).cos())).max(0.0)
    }
}

/// AdamW and its position in the schedule.
pub struct Scheduled {
    adamw: AdamW,
    schedule: Schedule,
    /// Steps so far.
    step: u64,
}

impl Scheduled {
    /// AdamW over parameters, which must not move afterwards.
    pub fn new(parameters: &[Tensor], schedule: Schedule, implementation: OptimizerImpl) -> Result<Self, TchError> {
        Ok(Self { adamw: AdamW::new(parameters, WEIGHT_DECAY, implementation)?, schedule, step: 0 })
    }
}

impl Optimizer for Scheduled {
    fn begin(&mut self) -> Result<(), TchError> {
        self.adamw.set_learning_rate(self.schedule.at(self.step))?;
        self.step += 1;
        Ok(())
    }

    fn zero(&mut self) -> Result<(), TchError> {
        self.adamw.0.zero()
    }

    fn step(&mut self, scale: Option<&LossScale>) -> Result<(), TchError> {
        self.adamw.0.step(scale)
    }

    fn kept(&self) -> u32 {
        2
    }

    fn relaid(&self) -> i64 {
        self.adamw.0.relaid()
    }

    fn state(&self) -> Result<Vec<Tensor>, TchError> {
        self.adamw.0.state()
    }

    fn resume(&mut self, step: u64) {
        self.step = step;
    }

    fn measures(&self) -> &'static [&'static str] {
        &["step_learning_rate", "gradient_norm"]
    }

    fn measured(&self, norm: Norm) -> Result<Vec<Tensor>, TchError> {
        Ok(vec![self.adamw.learning_rate()?, norm(&self.adamw.gradient_norm()?)?])
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_rises_from_0_and_falls_along_a_cosine() {
        let schedule = Schedule { peak: 3e-4, warm_up: 100, steps: Rc::new(Cell::new(300)) };
        let expected = [(0, 0.0), (50, 1.5e-4), (100, 3e-4), (200, 1.5e-4), (300, 0.0), (400, 1.5e-4)];
        for (step, rate) in expected {
            // After its end the cosine rises again, as in TorchTune.
            assert!((schedule.at(step) - rate).abs() < 1e-12, "{step}: {}", schedule.at(step));
        }
        let short = Schedule { peak: 1.0, warm_up: 0, steps: Rc::new(Cell::new(0)) };
        assert_eq!(short.at(0), 1.0);
    }
}
