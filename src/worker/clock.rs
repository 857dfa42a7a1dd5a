//! Times and losses of steps, without making the device wait.
//!
//! On a GPU each step's end is an event, and its loss is copied to page-locked memory without blocking; both are read
//! when the device has come that far. On the CPU a step is over when its call returns.

use std::collections::VecDeque;
use std::time::Instant;

use tch::{Device, Kind, TchError, Tensor};

use crate::shim::{self, cuda};

/// Steps that the host may be ahead of the device. Launches alone fill the driver's queue after about two.
const AHEAD: usize = 16;

/// A step that was given to the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepInfo {
    /// Counted over the run, from 1.
    pub step: u64,
    /// How long the host waited for the batch.
    pub load_wait_s: f64,
    /// Units in the batch: images, tokens, or what else the workload counts.
    pub units: u32,
}

/// A step that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct StepDone {
    /// Which.
    pub info: StepInfo,
    /// From the end of the step before.
    pub duration_s: f64,
    /// The loss, not scaled, and what the optimizer measured.
    pub seen: Vec<f64>,
}

/// The clock of one rank's steps.
pub enum StepClock {
    /// The host's own.
    Host {
        /// The end of the step before.
        last: Instant,
        /// Steps not yet asked for.
        done: VecDeque<StepDone>,
    },
    /// The GPU's.
    Cuda(CudaClock),
}

impl StepClock {
    /// For a device, the type of losses, and how many numbers are seen of each step.
    pub fn new(device: Device, loss: Kind, numbers: usize) -> Result<Self, TchError> {
        if device.is_cuda() {
            return Ok(Self::Cuda(CudaClock::new(loss, numbers)?));
        }
        Ok(Self::Host { last: Instant::now(), done: VecDeque::new() })
    }

    /// Begins to measure: the next step lasts from here.
    pub fn begin(&mut self) -> Result<(), TchError> {
        match self {
            Self::Host { last, .. } => {
                *last = Instant::now();
                Ok(())
            }
            Self::Cuda(clock) => clock.begin(),
        }
    }

    /// A step was given to the device, and this is what will be seen of it: its loss first.
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

    /// The next step that is over; with `wait`, the next step.
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

/// A ring of steps on their way: one event more than losses, for a duration needs both ends.
pub struct CudaClock {
    events: Vec<cuda::Event>,
    seen: Vec<Tensor>,
    pending: VecDeque<StepInfo>,
    /// The place of the oldest pending step; its end is the event after the one that began it.
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
        // A full ring waits too: its oldest slot is about to be written again.
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
