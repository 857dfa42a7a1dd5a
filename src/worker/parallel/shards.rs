//! One process per device, each holding a part of every unit's parameters, gradients and optimizer state (fully sharded data
//! parallel, arXiv 2304.11277).
//!
//! ```text
//! forward   gather 0 │ gather 1 ┊ unit 0 │ free 0, gather 2 ┊ unit 1 │ …          ┊ what runs at the same time
//! backward           │ unit n │ free n, reduce n, gather n-2 ┊ unit n-1 │ …
//! ```
//!
//! Collectives run on the group's own stream. Each unit is gathered while the one before it computes, so two units are whole at
//! a time. The last two units stay whole because the backward pass starts with them.
//!
//! NCCL's kernels take multiprocessors from the products that run at the same time. Copies ([`Gather::Copies`]) do not: each rank
//! reads the other ranks' memory with its GPU's copy engines. A collective before the first gather of a step ensures that all parts
//! have been updated; the last reduction of a step ensures that all copies are done before parts are updated again.

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tch::{Kind, TchError, Tensor};

use super::{Peers, Strategy};
use crate::module::{Module, Pass, UnitHooks};
use crate::shim::{Combine, LossScale, ShardedUnit};

/// The parts of the model that are gathered together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrap {
    /// Each unit by itself.
    Units,
    /// The first and last unit stay whole until the end of the backward pass; the others are gathered for each pass.
    Inner,
}

/// How the parts of other ranks are gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gather {
    /// Parameters are gathered by all-gathers of the group.
    Collectives,
    /// Parameters are gathered by copies between GPUs.
    Copies,
}

/// How many units ahead of its turn the last unit is gathered if it stays whole. It is larger than a block, so its gather takes longer
/// than a block computes; over this many blocks the gathers catch up.
const LAST_AHEAD: usize = 6;
/// Parts of small tensors are padded, so a rank may exceed its share by this fraction of the whole.
const PADDING_SHARE: f64 = 0.1;

/// This rank's share of the work and of the parameters.
pub struct Shards {
    peers: Rc<Peers>,
    units: Arc<Units>,
    hooks: Arc<dyn UnitHooks>,
    gather: Gather,
    /// A number on the device. Ranks wait for each other by adding it up.
    turn: Tensor,
    /// Training steps so far.
    steps: u64,
}

/// Cuts the units of a module while the module is being built: each unit as soon as it has its values.
pub struct Cutting {
    peers: Rc<Peers>,
    wrap: Wrap,
    gather: Gather,
    units: Vec<ShardedUnit>,
    trained: Vec<bool>,
}

/// The units and counts of their collectives.
struct Units {
    // Dropped before the group, to which each unit keeps a reference.
    all: Mutex<Vec<ShardedUnit>>,
    wrap: Wrap,
    last: usize,
    /// Units before this one are frozen and have no backward pass.
    first_trained: usize,
    /// Whether a backward pass follows.
    train: AtomicBool,
    gathers: AtomicU64,
    reductions: AtomicU64,
}

impl Cutting {
    /// Starts without units.
    pub fn new(peers: &Rc<Peers>, wrap: Wrap, gather: Gather) -> Self {
        Self { peers: Rc::clone(peers), wrap, gather, units: Vec::new(), trained: Vec::new() }
    }

    /// Cuts the next unit. Its values must be the same on all ranks.
    pub fn cut(&mut self, parameters: &[Tensor]) -> Result<(), TchError> {
        self.trained.push(parameters.iter().any(Tensor::requires_grad));
        self.units.push(ShardedUnit::new(self.peers.group(), parameters, self.gather == Gather::Copies)?);
        Ok(())
    }

    /// The strategy, once all units of the module have been cut.
    pub fn done(self, module: &impl Module) -> Result<Shards, TchError> {
        let Self { peers, wrap, gather, units, trained } = self;
        let expected = module.units().len();
        if units.len() != expected || units.is_empty() {
            return Err(TchError::Torch(format!("{} of {expected} units were cut", units.len())));
        }
        let buffers = module.buffers();
        if !buffers.is_empty() {
            peers.group().broadcast(&buffers)?;
        }
        let units = Arc::new(Units {
            wrap,
            last: units.len() - 1,
            first_trained: trained.iter().position(|trained| *trained).unwrap_or(units.len()),
            all: Mutex::new(units),
            train: AtomicBool::new(false),
            gathers: AtomicU64::new(0),
            reductions: AtomicU64::new(0),
        });
        let hooks: Arc<dyn UnitHooks> = units.clone();
        let turn = Tensor::f_zeros([1i64], (Kind::Float, peers.device()))?;
        Ok(Shards { peers, units, hooks, gather, turn, steps: 0 })
    }
}

impl Shards {
    /// Makes an overflow in one rank's gradients skip the update on all ranks.
    pub fn share_overflows(&self, scale: &LossScale) -> Result<(), TchError> {
        scale.share(self.peers.group())
    }

    /// Makes later work on the device see the last update of all ranks' parts.
    fn see_updates(&self) -> Result<(), TchError> {
        if self.gather == Gather::Copies { self.peers.group().reduce(&self.turn, Combine::Sum) } else { Ok(()) }
    }
}

impl Units {
    fn lock(&self) -> MutexGuard<'_, Vec<ShardedUnit>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gather(&self, unit: &ShardedUnit) -> Result<(), TchError> {
        self.gathers.fetch_add(u64::from(unit.gather()?), Ordering::Relaxed);
        Ok(())
    }

    fn reduce(&self, unit: &ShardedUnit) -> Result<(), TchError> {
        self.reductions.fetch_add(u64::from(unit.reduce()?), Ordering::Relaxed);
        Ok(())
    }

    /// Whether a unit stays whole throughout a pass.
    fn stays(&self, unit: usize) -> bool {
        self.wrap == Wrap::Inner && (unit == 0 || unit == self.last)
    }

    /// Frees whole units, and averages the gradients for which there is no hook: the gradients of the first unit and of the first trained
    /// unit.
    fn finish(&self) -> Result<(), TchError> {
        let units = self.lock();
        for unit in units.iter().rev() {
            unit.release()?;
            if unit.has_gradients()? {
                self.reduce(unit)?;
            }
        }
        units.iter().try_for_each(ShardedUnit::settle)
    }

    /// Bytes of the parts on this rank, and of all parameters.
    fn bytes(&self) -> Result<(u64, u64), TchError> {
        self.lock().iter().try_fold((0, 0), |(held, whole), unit| {
            let (part, all) = unit.bytes()?;
            Ok((held + part, whole + all))
        })
    }

    fn parts(&self) -> Result<Vec<Tensor>, TchError> {
        Ok(self.lock().iter().map(ShardedUnit::parts).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }
}

impl UnitHooks for Units {
    fn before_forward(&self, unit: usize) -> Result<(), TchError> {
        let units = self.lock();
        self.gather(&units[unit])?;
        if let Some(next) = units.get(unit + 1) {
            self.gather(next)?;
        }
        if self.stays(self.last) && unit == self.last.saturating_sub(LAST_AHEAD) {
            self.gather(&units[self.last])?;
        }
        units[unit].wait()
    }

    fn after_forward(&self, unit: usize) -> Result<(), TchError> {
        let (units, train) = (self.lock(), self.train.load(Ordering::Relaxed));
        match unit == self.last {
            true if train => Ok(()),
            true => units[unit].release().and_then(|()| units[0].release()),
            false if self.stays(unit) || (train && unit + 1 == self.last) => Ok(()),
            false => units[unit].release(),
        }
    }

    fn before_backward(&self, unit: usize) -> Result<(), TchError> {
        let units = self.lock();
        self.gather(&units[unit])?;
        if unit > self.first_trained {
            self.gather(&units[unit - 1])?;
        }
        units[unit].wait()
    }

    fn after_backward(&self, unit: usize) -> Result<(), TchError> {
        let units = self.lock();
        if !self.stays(unit) {
            units[unit].release()?;
        }
        self.reduce(&units[unit])?;
        // Only one reduction is in flight at a time, because its gradients take memory.
        units.get(unit + 1).map_or(Ok(()), ShardedUnit::settle)
    }
}

impl<M: Module> Strategy<M> for Shards {
    fn parameters(&self, _module: &M) -> Result<Vec<Tensor>, TchError> {
        self.units.parts()
    }

    fn parameter_bytes(&self, _module: &M) -> Result<u64, TchError> {
        Ok(self.units.bytes()?.0)
    }

    fn is_sharded(&self) -> bool {
        true
    }

    fn before_forward(&mut self, module: &M, train: bool) -> Result<(), TchError> {
        self.peers.check()?;
        self.units.train.store(train, Ordering::Relaxed);
        if !train {
            // Ranks wait for each other before each pass of an evaluation.
            return Ok(());
        }
        self.see_updates()?;
        module.agree(self.peers.group())
    }

    fn pass(&self, train: bool) -> Pass<'_> {
        Pass { train, group: Some(self.peers.group()), hooks: Some(&self.hooks) }
    }

    fn after_backward(&mut self) -> Result<(), TchError> {
        self.steps += 1;
        self.units.finish()
    }

    fn before_evaluation(&mut self, module: &M) -> Result<(), TchError> {
        module.agree(self.peers.group())
    }

    fn goes_on(&self, has_batch: bool) -> Result<bool, TchError> {
        Ok(self.peers.combine(&[i64::from(has_batch)], Combine::Max)? == [1])
    }

    fn pass_without_batch(&mut self) -> Result<(), TchError> {
        self.units.train.store(false, Ordering::Relaxed);
        for unit in 0..=self.units.last {
            self.units.before_forward(unit)?;
            self.units.after_forward(unit)?;
        }
        Ok(())
    }

    fn weight(&self, counted: &Tensor) -> Result<Option<Tensor>, TchError> {
        self.peers.weight(counted).map(Some)
    }

    fn norm(&self, norm: &Tensor) -> Result<Tensor, TchError> {
        let squares = norm.f_to_kind(Kind::Double)?.f_square()?;
        self.peers.group().reduce(&squares, Combine::Sum)?;
        squares.f_sqrt()?.f_to_kind(norm.kind())
    }

    fn sum(&self, tensor: &Tensor) -> Result<(), TchError> {
        self.peers.group().reduce(tensor, Combine::Sum)
    }

    fn finish(&mut self) -> Result<(), TchError> {
        self.see_updates()?;
        let units = self.units.lock();
        units.iter().skip(self.units.first_trained).try_for_each(|unit| unit.finish(self.peers.rank == 0))?;
        // A rank that ends gives its parts' memory back: not before the others have copied them.
        self.peers.combine(&[0], Combine::Max).map(drop)
    }

    fn held(&self) -> Result<Option<(String, bool)>, TchError> {
        let (held, whole) = self.units.bytes()?;
        let (gathers, reductions) =
            (self.units.gathers.load(Ordering::Relaxed), self.units.reductions.load(Ordering::Relaxed));
        let steps = self.steps;
        let by = match self.gather {
            Gather::Collectives => "all-gathers",
            Gather::Copies => "gatherings by copies between GPUs",
        };
        let seen = format!(
            "this rank holds {held} of {whole} bytes of parameters; {gathers} {by} and {reductions} reduce-scatters of units in \
             {steps} steps"
        );
        let share = (1.0 / f64::from(self.peers.world_size) + PADDING_SHARE).min(0.99);
        let in_effect = held as f64 <= share * whole as f64 && gathers >= steps && reductions >= steps;
        Ok(Some((seen, in_effect)))
    }

    fn seen(&self) -> Result<(u32, String), TchError> {
        let (size, units) = (self.peers.group().size()?, self.units.last + 1);
        let together = if self.units.wrap == Wrap::Inner { ", the first and last together" } else { "" };
        let backend = self.peers.backend_in_words();
        Ok((size, format!("world size {size} in c10d over {backend}, parameters sharded in {units} units{together}")))
    }
}
