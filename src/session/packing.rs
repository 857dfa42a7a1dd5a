//! Placement of the next run: alone on the machine, or next to runs that share it.

use super::{QueuedJob, Session, SessionError, Where};
use crate::launch;
use crate::plan::{Cell, Shape};
use crate::program;
use crate::protocol::{Placement, RankPlace, Site};
use crate::store::Decision;
use crate::telemetry;

impl Session {
    /// The placement of a cell on the otherwise idle machine.
    fn place(&self, shape: &Shape, exclusive: bool) -> Result<Placement, SessionError> {
        let placed = if exclusive {
            launch::place(shape, &self.node, &self.topology).map(Some)
        } else {
            launch::place_beside(shape, &self.node, &self.topology, &[])
        };
        let placed = placed.and_then(|placement| placement.ok_or_else(|| "not enough free GPUs or CPUs".to_owned()));
        placed.map_err(SessionError::Placement)
    }

    /// The placement of each cell, on this machine or at a site.
    pub(super) fn places(
        &self,
        cells: &[Cell],
        exclusive: bool,
        site: Option<&Site>,
    ) -> Result<Vec<Placement>, SessionError> {
        cells.iter().map(|cell| self.place_at(&cell.shape, exclusive, site)).collect()
    }

    /// The placement of a cell, on this machine or at a site.
    pub(super) fn place_at(
        &self,
        shape: &Shape,
        exclusive: bool,
        site: Option<&Site>,
    ) -> Result<Placement, SessionError> {
        match site {
            Some(site) => Ok(Where::placement(site, shape)),
            None => self.place(shape, exclusive),
        }
    }

    /// Whether the next run can start now. A run that may share the machine gets its GPUs and CPUs here, from what the
    /// others leave free.
    pub(super) fn has_room(&mut self) -> Result<bool, SessionError> {
        let Some(run) = self.queue.peek().map(str::to_owned) else { return Ok(false) };
        let Some(queued) = self.jobs.get(&run) else { return Err(SessionError::UnknownRun { run }) };
        if let Some(site) = &queued.job.site {
            return Ok(self.site_has_room(site));
        }
        if queued.exclusive {
            return Ok(true);
        }
        let beside: Vec<&QueuedJob> = self.queue.active().filter_map(|run| self.jobs.get(run)).collect();
        let taken: Vec<RankPlace> = beside.iter().flat_map(|queued| queued.job.ranks.iter().cloned()).collect();
        let shape = &queued.job.shape;
        let placed =
            launch::place_beside(shape, &self.node, &self.topology, &taken).map_err(SessionError::Placement)?;
        let needed_bytes: u64 = beside.iter().chain([&queued]).map(|queued| self.host_bytes(queued)).sum();
        // A run that is alone starts whatever its estimate says: the matrix has already checked it.
        let Some(placement) = placed.filter(|_| taken.is_empty() || needed_bytes <= self.node.memory_bytes) else {
            return Ok(false);
        };
        if let Some(queued) = self.jobs.get_mut(&run) {
            (queued.job.ranks, queued.links) = (placement.ranks, placement.links);
        }
        Ok(true)
    }

    /// Estimated host memory of all ranks of a run, in bytes; 0 for runs on GPUs.
    fn host_bytes(&self, queued: &QueuedJob) -> u64 {
        if self.node.has_cuda() || queued.job.program.is_some() {
            return 0;
        }
        queued.rank_bytes.saturating_mul(queued.job.ranks.len() as u64)
    }

    /// The product name of the first GPU of a run, or `cpu`.
    pub(super) fn device(&self, ranks: &[RankPlace]) -> String {
        let uuid = ranks.first().and_then(|place| place.gpu_uuid.as_deref());
        let gpu = uuid.and_then(|uuid| self.node.gpus.iter().find(|gpu| gpu.uuid == uuid));
        gpu.map_or_else(|| "cpu".to_owned(), |gpu| gpu.name.clone())
    }

    /// The journal entry for a run's placement, with warnings about its GPUs and its environment.
    pub(super) fn placed(&mut self, run: &str, queued: &QueuedJob, beside: Vec<String>) -> Decision {
        let ranks = queued.job.ranks.clone();
        let gpus: Vec<_> = self
            .node
            .gpus
            .iter()
            .filter(|gpu| ranks.iter().flat_map(RankPlace::gpu_uuids).any(|uuid| uuid == gpu.uuid))
            .collect();
        let mut warnings = telemetry::in_use(&gpus);
        let mig: Vec<String> = self.node.gpus.iter().filter(|gpu| gpu.mig).map(|gpu| gpu.index.to_string()).collect();
        if !gpus.is_empty() && !mig.is_empty() {
            warnings.push(format!("GPU {} is in MIG mode and was excluded", mig.join(", ")));
        }
        let placement = Placement { ranks, links: queued.links.clone() };
        let mut environment = telemetry::read_environment(&self.node, &gpus);
        if let Some(own) = &queued.job.program {
            program::facts(&mut self.facts, &queued.job, own, &mut environment);
        }
        let environment = Some(environment);
        Decision::RunPlaced { run: run.to_owned(), placement, beside, warnings, environment }
    }
}
