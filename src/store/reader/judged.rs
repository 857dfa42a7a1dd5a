//! How results are judged: by which check measures, and which values of a declared measure are good. Neither is a property of a run, so for all
//! runs of a workload, what the session's latest plan with this workload says counts.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Result as SqlResult, params};

use super::Reader;
use crate::plan::{Checked, Key, Plan, WorkloadSpec};

/// What the session's plans say about how results are judged.
#[derive(Default)]
pub(super) struct Judged {
    /// The number of plans that it is made from: the first ones of the session, which only ever gets further plans.
    plans: u32,
    by_workload: HashMap<Key, Latest>,
    /// The workloads that came with plans, as their results are judged, by the plans' ids.
    workloads: HashMap<String, Arc<[Arc<WorkloadSpec>]>>,
}

/// What the latest plan with a workload says.
#[derive(Default)]
struct Latest {
    checked: Arc<[Checked]>,
    /// The workload, if it came with a plan.
    spec: Option<Arc<WorkloadSpec>>,
}

impl Judged {
    /// Adds the next plan of the session, with the workloads that came with it.
    fn add(&mut self, toml: &str, name: &str, brought: &[Arc<WorkloadSpec>]) {
        self.plans += 1;
        self.workloads.clear();
        for spec in brought {
            self.by_workload.entry(spec.key.clone()).or_default().spec = Some(Arc::clone(spec));
        }
        // Most plans have no such table, and need not be parsed unless an earlier one has. Texts that cannot be read are ignored: they may be of
        // a later version, or mappings of imported files.
        if !toml.contains("check") && self.by_workload.values().all(|latest| latest.checked.is_empty()) {
            return;
        }
        let Ok(plan) = Plan::parse(toml, name) else { return };
        let checked: Arc<[Checked]> = plan.checked.as_slice().into();
        for block in plan.blocks() {
            self.by_workload.entry(block.spec.key.clone()).or_default().checked = Arc::clone(&checked);
        }
    }

    /// The check measures of runs of a workload, with margins in the units that the workload declares.
    fn checked_of(&self, workload: &WorkloadSpec) -> Arc<[Checked]> {
        let Some(latest) = self.by_workload.get(&workload.key) else { return Arc::default() };
        let unit_in = |spec: &WorkloadSpec, key: &Key| {
            spec.measures.iter().find(|measure| measure.key == *key).map(|measure| Arc::clone(&measure.unit))
        };
        let converted = |checked: &Checked| {
            let units = latest.spec.as_deref().and_then(|spec| unit_in(spec, &checked.measure));
            let units = units.zip(unit_in(workload, &checked.measure));
            let margin = units.map_or(checked.margin, |(from, to)| checked.margin.converted(&from, &to));
            Checked { margin, ..checked.clone() }
        };
        let all: Vec<Checked> = latest.checked.iter().map(converted).collect();
        if all == *latest.checked { Arc::clone(&latest.checked) } else { all.into() }
    }

    /// A workload that came with a plan, with the good values of its measures as the latest plan has them.
    fn workload(&self, own: &Arc<WorkloadSpec>) -> Arc<WorkloadSpec> {
        let latest = self.by_workload.get(&own.key).and_then(|latest| latest.spec.as_ref());
        let mut measures = own.measures.clone();
        for measure in &mut measures {
            let said = latest.and_then(|latest| latest.measures.iter().find(|said| said.key == measure.key));
            measure.better = said.map_or(measure.better, |said| said.better);
        }
        if measures == own.measures {
            return Arc::clone(own);
        }
        Arc::new(WorkloadSpec { measures, ..WorkloadSpec::clone(own) })
    }
}

impl Reader {
    /// Reads how results are judged from the plans that the session got since the last call.
    pub(super) fn read_judged(&self) -> SqlResult<()> {
        let read = self.judged.borrow().plans;
        let sql = "SELECT plan, toml, name FROM plan ORDER BY position LIMIT -1 OFFSET ?1";
        let added: Vec<(String, String, String)> =
            self.rows(sql, params![read], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        for (plan, toml, name) in added {
            let brought = self.brought_by(&plan)?;
            self.judged.borrow_mut().add(&toml, &name, &brought);
        }
        Ok(())
    }

    /// The check measures of runs of a workload, by the plans that [`Self::read_judged`] has read.
    pub(super) fn checked_of(&self, workload: &WorkloadSpec) -> Arc<[Checked]> {
        self.judged.borrow().checked_of(workload)
    }

    /// The workloads that came with a plan, with the good values of their measures by the plans that [`Self::read_judged`] has read.
    pub(super) fn judged_workloads(&self, plan: &str) -> SqlResult<Arc<[Arc<WorkloadSpec>]>> {
        if let Some(known) = self.judged.borrow().workloads.get(plan) {
            return Ok(Arc::clone(known));
        }
        let brought = self.brought_by(plan)?;
        let mut judged = self.judged.borrow_mut();
        let workloads: Arc<[Arc<WorkloadSpec>]> = brought.iter().map(|own| judged.workload(own)).collect();
        judged.workloads.insert(plan.to_owned(), Arc::clone(&workloads));
        Ok(workloads)
    }
}
