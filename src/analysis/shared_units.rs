//! Units of one measure that plans declare differently: a program that printed milliseconds prints microseconds now, and its plan says so.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Key, Measure, Measures, Origin, RunSummary, measure};
use crate::plan::MeasureUnit;

impl Measure {
    /// Whether the unit of its values is known. A measure that a plan declares without a unit may be in any.
    fn has_known_unit(&self) -> bool {
        let is_plain = || measure(&self.key).is_some_and(|built_in| built_in.unit.is_empty());
        !self.unit.is_empty() || self.origin == Origin::Derived || is_plain()
    }

    /// The factor from its unit to the unit of the same measure of another plan; `None` if the units are not of one quantity. If a plan
    /// declares no unit, the values count as values in the unit of the other plan.
    pub fn factor_to(&self, other: &Self) -> Option<f64> {
        if self.unit == other.unit || !self.has_known_unit() || !other.has_known_unit() {
            return Some(1.0);
        }
        let [own, others] = [self, other].map(|measure| MeasureUnit::parse(&measure.unit));
        own.is_like(&others).then(|| own.factor / others.factor)
    }
}

impl RunSummary {
    /// The factor from the unit in which the run has a measure to the unit of `measure`, which may come from another plan; `None` if the
    /// units are not of one quantity.
    pub fn factor_to(&self, measure: &Measure) -> Option<f64> {
        if self.measures.holds(measure) {
            return Some(1.0);
        }
        self.measures.find(&measure.key).map_or(Some(1.0), |own| own.factor_to(measure))
    }

    /// Its value for comparisons, in the unit of `measure`; see [`Self::value_alone`]. `None` also if its plan does not know the measure.
    pub fn comparable_value(&self, measure: &Measure) -> Option<f64> {
        self.measures.find(&measure.key)?;
        self.value_alone(measure)
    }

    /// The unit of its value of a measure, if it has one that cannot be converted to the unit of `measure`.
    pub fn unlike_unit(&self, measure: &Measure) -> Option<&str> {
        let is_unlike = self.value(&measure.key).is_some() && self.factor_to(measure).is_none();
        self.measures.find(&measure.key).filter(|_| is_unlike).map(|own| own.unit.as_str())
    }
}

/// For each workload, by its key: the measures that give the unit where plans declare a measure with different units.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedUnits<'a>(Vec<(&'a Key, &'a Measure)>);

impl<'a> SharedUnits<'a> {
    /// The units that runs share: of each measure the first known one, if the unit of the workload can be converted to it, or else the
    /// first known one of the workload.
    pub(super) fn of(runs: impl Iterator<Item = &'a RunSummary>) -> Self {
        // Most runs share their registry.
        let mut registries: Vec<(&Key, &Arc<Measures>)> = Vec::new();
        for run in runs {
            let (workload, measures) = (&run.workload.key, &run.measures);
            let is_known = |(key, known): &(&Key, &Arc<Measures>)| Arc::ptr_eq(known, measures) && *key == workload;
            if !registries.iter().rev().any(is_known) {
                registries.push((workload, measures));
            }
        }
        let mut by_key: BTreeMap<&Key, Vec<(&Key, &Measure)>> = BTreeMap::new();
        if registries.len() > 1 {
            let all = registries.iter().flat_map(|(key, measures)| measures.iter().map(move |one| (*key, one)));
            all.filter(|(_, one)| one.has_known_unit())
                .for_each(|(key, one)| by_key.entry(&one.key).or_default().push((key, one)));
        }
        let mut shared: Vec<(&Key, &Measure)> = Vec::new();
        for measures in by_key.into_values() {
            let first = measures[0].1;
            if measures.iter().all(|(_, one)| one.unit == first.unit) {
                continue;
            }
            for (workload, own) in measures {
                if !shared.iter().any(|(known, one)| *known == workload && one.key == own.key) {
                    shared.push((workload, own.factor_to(first).map_or(own, |_| first)));
                }
            }
        }
        Self(shared)
    }

    /// The measure in whose unit the runs of a workload share the values of this measure of one of them.
    pub(super) fn measure(&self, workload: &Key, own: &'a Measure) -> &'a Measure {
        let is_shared = |(key, one): &&(&Key, &Measure)| *key == workload && one.key == own.key;
        self.0.iter().find(is_shared).map_or(own, |(_, shared)| *shared)
    }
}
