//! How results are judged: by which check measures, and which values of a declared measure are good. Neither is a property of a run, so for all
//! runs of a workload, what the session's latest plan with this workload says counts.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::Result as SqlResult;

use super::Reader;
use crate::plan::{Checked, Key, OwnMeasure, Plan, WorkloadSpec};

/// What the session's plans say about how results are judged. Plans are read from the latest one backwards until a workload is found, since a
/// session may have thousands of them.
#[derive(Default)]
pub(super) struct Judged {
    /// The position of the session's latest plan, from 1; 0 if it has none.
    latest: i64,
    /// Plans at this position and before it have not been read; 0 if all have been.
    unread: i64,
    /// What the plans that were read say, by the workloads' keys.
    by_workload: HashMap<Key, Latest>,
    /// The workloads that came with plans, as their results are judged, by the plans' ids.
    workloads: HashMap<String, Arc<[Arc<WorkloadSpec>]>>,
}

/// What the latest plan with a workload says.
#[derive(Clone, Default)]
struct Latest {
    /// The check measures; `None` until a plan with the workload was found whose text can be read.
    checked: Option<Arc<[Checked]>>,
    /// The measures that the same plan computes by formulas. A margin that is a number is in the unit that they declare.
    formulas: Arc<[OwnMeasure]>,
    /// The workload, if it came with a plan.
    spec: Option<Arc<WorkloadSpec>>,
}

impl Judged {
    /// Adds the next earlier plan of the session, with the workloads that came with it.
    fn add_earlier(&mut self, toml: &str, name: &str, brought: &[Arc<WorkloadSpec>]) {
        for spec in brought {
            self.by_workload.entry(spec.key.clone()).or_default().spec.get_or_insert_with(|| Arc::clone(spec));
        }
        // Texts that cannot be read are ignored: they may be of a later version, or mappings of imported files.
        let Ok(plan) = Plan::parse(toml, name) else { return };
        let checked: Arc<[Checked]> = plan.checked.as_slice().into();
        let formulas: Arc<[OwnMeasure]> = plan.measures.iter().map(|planned| planned.measure.clone()).collect();
        for block in plan.blocks() {
            let latest = self.by_workload.entry(block.spec.key.clone()).or_default();
            if latest.checked.is_none() {
                (latest.checked, latest.formulas) = (Some(Arc::clone(&checked)), Arc::clone(&formulas));
            }
        }
    }
}

impl Latest {
    /// The check measures of runs of a workload, with margins in the units of the runs' values: those that the workload declares, and base
    /// units for measures that the session computes by formulas.
    fn checked_in_units_of(&self, workload: &WorkloadSpec, formulas: &[OwnMeasure]) -> Arc<[Checked]> {
        let Some(latest) = &self.checked else { return Arc::default() };
        let unit_in = |spec: &WorkloadSpec, key: &Key| {
            spec.measures.iter().find(|measure| measure.key == *key).map(|measure| Arc::clone(&measure.unit))
        };
        let converted = |checked: &Checked| {
            let (key, margin) = (&checked.measure, checked.margin);
            let margin = if let Some(to) = unit_in(workload, key) {
                let from = self.spec.as_deref().and_then(|spec| unit_in(spec, key));
                from.map_or(margin, |from| margin.converted(&from, &to))
            } else {
                self.unit_of_formula(key, formulas).map_or(margin, |unit| margin.in_base_units(unit))
            };
            Checked { margin, ..checked.clone() }
        };
        let all: Vec<Checked> = latest.iter().map(converted).collect();
        if all == **latest { Arc::clone(latest) } else { all.into() }
    }

    /// The unit in which the plan gives numbers of a measure that the session computes by a formula; `None` for base units. The session keeps
    /// its own measure if a later plan declares another unit, but the margin of that plan is in the plan's unit.
    fn unit_of_formula<'m>(&'m self, key: &Key, formulas: &'m [OwnMeasure]) -> Option<&'m str> {
        let kept = formulas.iter().find(|kept| kept.key == *key)?;
        let planned = self.formulas.iter().find(|planned| planned.key == *key && planned.formula == kept.formula);
        planned.unwrap_or(kept).unit.as_deref()
    }

    /// A workload that came with a plan, with the good values of its measures as the latest plan has them.
    fn judged(&self, own: &Arc<WorkloadSpec>) -> Arc<WorkloadSpec> {
        let mut measures = own.measures.clone();
        for measure in &mut measures {
            let mut declared = self.spec.iter().flat_map(|spec| &spec.measures);
            let latest = declared.find(|latest| latest.key == measure.key);
            measure.better = latest.map_or(measure.better, |latest| latest.better);
        }
        if measures == own.measures {
            return Arc::clone(own);
        }
        Arc::new(WorkloadSpec { measures, ..WorkloadSpec::clone(own) })
    }
}

impl Reader {
    /// Forgets what was read of plans if the session has got another plan since.
    pub(super) fn refresh_judged(&self) -> SqlResult<()> {
        let latest: Vec<i64> = self.rows("SELECT ifnull(max(position), 0) FROM plan", [], |row| row.get(0))?;
        let latest = latest.first().copied().unwrap_or_default();
        let mut judged = self.judged.borrow_mut();
        if judged.latest != latest {
            *judged = Judged { latest, unread: latest, ..Judged::default() };
        }
        Ok(())
    }

    /// The check measures of runs of a workload, by the plans that the session had at the last [`Self::refresh_judged`].
    /// `formulas` are the measures that the session computes.
    pub(super) fn checked_of(&self, workload: &WorkloadSpec, formulas: &[OwnMeasure]) -> SqlResult<Arc<[Checked]>> {
        Ok(self.latest_of(&workload.key)?.checked_in_units_of(workload, formulas))
    }

    /// The workloads that came with a plan, with the good values of their measures by the plans that the session had at the last
    /// [`Self::refresh_judged`].
    pub(super) fn judged_workloads(&self, plan: &str) -> SqlResult<Arc<[Arc<WorkloadSpec>]>> {
        if let Some(known) = self.judged.borrow().workloads.get(plan) {
            return Ok(Arc::clone(known));
        }
        let brought = self.brought_by(plan)?;
        let judged = brought.iter().map(|own| self.latest_of(&own.key).map(|latest| latest.judged(own)));
        let workloads: Arc<[Arc<WorkloadSpec>]> = judged.collect::<SqlResult<_>>()?;
        self.judged.borrow_mut().workloads.insert(plan.to_owned(), Arc::clone(&workloads));
        Ok(workloads)
    }

    /// What the latest plan with a workload says: reads plans until it is found.
    fn latest_of(&self, workload: &Key) -> SqlResult<Latest> {
        loop {
            let (latest, unread) = {
                let judged = self.judged.borrow();
                (judged.by_workload.get(workload).cloned().unwrap_or_default(), judged.unread)
            };
            if latest.checked.is_some() || unread == 0 {
                return Ok(latest);
            }
            self.read_next_plan(unread)?;
        }
    }

    /// Reads the latest plan at or before the position of [`Judged::unread`].
    fn read_next_plan(&self, unread: i64) -> SqlResult<()> {
        let sql = "SELECT position, plan, toml, name FROM plan WHERE position <= ?1 ORDER BY position DESC LIMIT 1";
        let plans: Vec<(i64, String, String, String)> =
            self.rows(sql, [unread], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
        let Some((position, plan, toml, name)) = plans.into_iter().next() else {
            self.judged.borrow_mut().unread = 0;
            return Ok(());
        };
        let brought = self.brought_by(&plan)?;
        let mut judged = self.judged.borrow_mut();
        judged.unread = position - 1;
        judged.add_earlier(&toml, &name, &brought);
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::plan::Margin;
    use crate::plan::fixture::cpu_node;
    use crate::store::{Decision, Store};

    #[test]
    fn only_as_many_plans_are_read_as_it_takes_to_find_the_latest_one_with_a_workload() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path(), &cpu_node()).unwrap();
        let add = |number: usize, workload: &str| {
            let toml =
                format!("version = 1\n[command]\nname = \"{workload}\"\nrun = [\"true\"]\n[check]\nq = {number}\n");
            let parsed = Plan::parse(&toml, "a").unwrap();
            let workloads = parsed.brought_workloads().into_iter().map(|spec| serde_json::to_value(spec).unwrap());
            let (plan, name, workloads) = (format!("p{number}"), "a".to_owned(), workloads.collect());
            store.decide(Decision::PlanAdded { plan, name, toml, workloads }).unwrap();
        };
        (1..=10).for_each(|number| add(number, "first"));
        (11..=30).for_each(|number| add(number, "second"));
        store.flush().unwrap();
        let reader = store.reader().unwrap();
        let margin_and_unread = |workload: &str| {
            reader.refresh_judged().unwrap();
            let spec = WorkloadSpec::unknown(workload);
            let margins: Vec<Margin> = reader.checked_of(&spec, &[]).unwrap().iter().map(|one| one.margin).collect();
            (margins, reader.judged.borrow().unread)
        };
        assert_eq!(margin_and_unread("second"), (vec![Margin::Absolute(30.0)], 29));
        assert_eq!(margin_and_unread("first"), (vec![Margin::Absolute(10.0)], 9));
        assert_eq!(margin_and_unread("second"), (vec![Margin::Absolute(30.0)], 9));
        assert_eq!(margin_and_unread("neither"), (vec![], 0));
        add(31, "first");
        store.flush().unwrap();
        assert_eq!(margin_and_unread("first"), (vec![Margin::Absolute(31.0)], 30));
    }

    #[test]
    fn a_margin_of_a_formula_is_in_the_unit_that_its_plan_declares_or_else_in_that_of_the_session() {
        let declared = |formula: &str, unit: Option<&str>| OwnMeasure {
            unit: unit.map(str::to_owned),
            ..OwnMeasure::new("slat", formula)
        };
        let workload = WorkloadSpec::unknown("solve");
        let margin = |planned: &[OwnMeasure], kept: &[OwnMeasure]| {
            let checked = [Checked { measure: "slat".into(), margin: Margin::Absolute(100.0) }];
            let latest = Latest { checked: Some(checked.into()), formulas: planned.into(), spec: None };
            match latest.checked_in_units_of(&workload, kept)[..] {
                [Checked { margin: Margin::Absolute(margin), .. }] => margin,
                ref other => panic!("{other:?}"),
            }
        };
        let (us, ms) = (declared("lat * 1", Some("us")), declared("lat * 1", Some("ms")));
        let (plain, other) = (declared("lat * 1", None), declared("lat * 2", Some("ms")));
        let one = std::slice::from_ref;
        for (planned, kept, expected_s) in [
            (one(&us), one(&us), 1e-4),
            // The session keeps its measure, and the margin is in the unit of the plan that names it.
            (one(&ms), one(&us), 0.1),
            (one(&plain), one(&us), 100.0),
            (one(&us), one(&plain), 1e-4),
            // The plan means another measure than the session has.
            (one(&other), one(&us), 1e-4),
            (&[][..], one(&us), 1e-4),
            // No run has the measure.
            (one(&us), &[][..], 100.0),
        ] {
            let found_s = margin(planned, kept);
            assert!((found_s / expected_s - 1.0).abs() < 1e-9, "{planned:?} in {kept:?}: {found_s}");
        }
    }
}
