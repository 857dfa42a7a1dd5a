//! Measures the times and losses of steps without stalling the device.
//!
//! On a GPU, the end of each step is a CUDA event, and the step's loss is copied to page-locked memory asynchronously; both are read once
//! the device has reached them. On the CPU a step has ended when its call returns.

use std::collections::VecDeque;
use std::time::Instant;

use tch::{Device, Kind, TchError, Tensor};

use crate::shim::{self, cuda};

/// Maximum number of steps by which the host runs ahead of the device. The driver's queue of launches is already full after about two.
const AHEAD: usize = 16;

/// A launched step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepInfo {
    /// The step's number in the run, from 1.
    pub step: u64,
    /// How long the host waited for the batch, in seconds.
    pub load_wait_s: f64,
    /// Number of units in the batch: images or tokens.
    pub units: u32,
    /// Weight of this step's loss in the mean over an epoch.
    pub loss_weight: f64,
}

/// A completed step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepDone {
    /// The step.
    pub info: StepInfo,
    /// Time since the end of the previous step.
    pub duration_s: f64,
    /// The unscaled loss, followed by the optimizer's measures.
    pub seen: Vec<f64>,
}

/// The clock of one rank's steps.
pub enum StepClock {
    /// The host's clock, for CPUs.
    Host {
        /// End of the previous step.
        last: Instant,
        /// Completed steps that were not yet fetched.
        done: VecDeque<StepDone>,
    },
    /// The GPU's clock.
    Cuda(CudaClock),
}

impl StepClock {
    /// Creates a clock for a device, with the type of losses and the number of values for each step.
    pub fn new(device: Device, loss: Kind, numbers: usize) -> Result<Self, TchError> {
        if device.is_cuda() {
            return Ok(Self::Cuda(CudaClock::new(loss, numbers)?));
        }
        Ok(Self::Host { last: Instant::now(), done: VecDeque::new() })
    }

    /// Starts the clock: the next step is timed from here.
    pub fn begin(&mut self) -> Result<(), TchError> {
        match self {
            Self::Host { last, .. } => {
                *last = Instant::now();
                Ok(())
            }
            Self::Cuda(clock) => clock.begin(),
        }
    }

    /// Says that a step was queued on the device; `seen` will hold its loss and further values.
    pub fn end_step(&mut self, info: StepInfo, seen: &Tensor) -> Result<(), TchError> {
        match self {
            Self::Host { last, done } => {
                let seen = values(seen)?;
                let now = Instant::now();
                let duration_s = now.duration_since(std::mem::replace(last, now)).as_secs_f64();
                done.push_back(StepDone { info, duration_s, seen });
                Ok(())
            }
            Self::Cuda(clock) => clock.end_step(info, seen),
        }
    }

    /// The next completed step; with `wait`, waits until there is one.
    pub fn next_done(&mut self, wait: bool) -> Result<Option<StepDone>, TchError> {
        match self {
            Self::Host { done, .. } => Ok(done.pop_front()),
            Self::Cuda(clock) => clock.next_done(wait),
        }
    }
}

fn values(seen: &Tensor) -> Result<Vec<f64>, TchError> {
    Vec::try_from(&seen.f_reshape([-1])?.f_to_kind(Kind::Double)?)
}

/// A ring of steps in flight. It has one event more than losses, because a duration needs both ends.
pub struct CudaClock {
    events: Vec<cuda::Event>,
    seen: Vec<Tensor>,
    pending: VecDeque<StepInfo>,
    /// The position of the oldest pending step; its end is the event after the one at which it began.
    first: usize,
}

impl CudaClock {
    fn new(loss: Kind, numbers: usize) -> Result<Self, TchError> {
        let slots = shim::pinned_empty(&[AHEAD as i64, numbers as i64], loss)?;
        Ok(Self {
            events: (0..=AHEAD).map(|_| cuda::Event::timed()).collect::<Result<_, _>>()?,
            seen: (0..AHEAD as i64).map(|slot| slots.f_get(slot)).collect::<Result<_, _>>()?,
            pending: VecDeque::with_capacity(AHEAD),
            first: 0,
        })
    }

    fn event(&self, place: usize) -> &cuda::Event {
        &self.events[place % self.events.len()]
    }

    fn begin(&mut self) -> Result<(), TchError> {
        self.event(self.first + self.pending.len()).record()
    }

    fn end_step(&mut self, info: StepInfo, seen: &Tensor) -> Result<(), TchError> {
        let place = self.first + self.pending.len();
        shim::copy(&self.seen[place % AHEAD], &seen.f_reshape([-1])?, true)?;
        self.event(place + 1).record()?;
        self.pending.push_back(info);
        Ok(())
    }

    fn next_done(&mut self, wait: bool) -> Result<Option<StepDone>, TchError> {
        let Some(&info) = self.pending.front() else { return Ok(None) };
        let end = self.event(self.first + 1);
        // If the ring is full, wait too: its oldest slot is about to be reused.
        if wait || self.pending.len() == AHEAD {
            end.wait()?;
        } else if !end.is_done()? {
            return Ok(None);
        }
        let duration_s = end.since_s(self.event(self.first))?;
        let seen = values(&self.seen[self.first % AHEAD])?;
        self.pending.pop_front();
        self.first += 1;
        Ok(Some(StepDone { info, duration_s, seen }))
    }
}
