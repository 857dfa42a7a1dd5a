//! The outlook of a plan on this machine, computed in the background: cells, cost, and levels that cannot run.

use std::collections::HashMap;
use std::sync::Arc;

use crate::analysis::Question;
use crate::dataset;
use crate::plan::{
    Cell, Data, DataSetRule, Factor, Identity, Key, Level, Levels, Matrix, Node, Plan, Remark, Resolved, Tracer, check,
    design_trouble, expand, remarks, resolved,
};
use crate::program::missing_program;

use super::edit::offered;
use crate::session::{Where, node_hours};
use crate::store::HeldCell;

/// The key of the column with the workload.
pub(super) const WORKLOAD: &str = "workload";

/// Outlook of a plan on a machine.
pub(super) struct Outlook {
    /// The plan.
    pub(super) plan: Arc<Plan>,
    /// The plan with the block first whose levels and data sets are offered.
    pub(super) shown: Arc<Plan>,
    /// The machine.
    pub(super) node: Arc<Node>,
    /// The cells.
    pub(super) matrix: Matrix,
    /// Keys of the factors in which cells differ. If there are several workloads, the workload is the first; if there are several tracers,
    /// the tracer is the last.
    pub(super) varied: Vec<Key>,
    /// Number of runs to launch.
    pub(super) runs: u64,
    /// Total time of all runs one after the other, in seconds; a rough estimate.
    pub(super) duration_s: f64,
    /// Node-hours of all runs at the plan's site, and whether they are an upper bound from the runs' time limits.
    pub(super) node_hours: Option<(f64, bool)>,
    /// Greatest memory peak of any rank, in bytes; a rough estimate.
    pub(super) peak_bytes: u64,
    /// Levels without any cell that can run, with the reason.
    refusals: HashMap<(Key, Level), String>,
    /// Data sets that cannot be used, with the reason.
    data_refusals: HashMap<Key, String>,
    /// Remarks for readers of the plan.
    pub(super) remarks: Vec<Remark>,
    /// Which effects the shown block's design can separate.
    pub(super) resolved: Option<Resolved>,
    /// Why the design of some block cannot be made.
    pub(super) design_trouble: Option<String>,
    /// Why the plan's search cannot be answered.
    pub(super) search_trouble: Option<String>,
    /// Folder of the plan's data set, or how to get it; `None` for a data set that needs no fetching.
    pub(super) data: Option<Result<String, String>>,
}

impl Outlook {
    /// Computes the outlook. 100,000 cells take a second or two: do not call it on the window's thread.
    pub(super) fn new(plan: Arc<Plan>, shown: Arc<Plan>, node: Arc<Node>) -> Self {
        let machine = Arc::clone(&node);
        Self::at(plan, shown, node, &machine)
    }

    /// Like [`Outlook::new`], for a session on this machine, whose programs are known. It asks Slurm about the plan's site.
    pub(super) fn here(plan: Arc<Plan>, shown: Arc<Plan>, node: Arc<Node>) -> Self {
        let missing = missing_program(&plan);
        let place = Where::of(&plan, &node);
        let mut outlook = match &place {
            Ok(place) => Self::at(plan, shown, node, &place.node),
            Err(_) => Self::new(plan, shown, node),
        };
        let start = place.as_ref().ok().and_then(|place| place.start(&outlook.plan, &outlook.matrix.cells));
        let problem = place.err().map(|error| Remark { text: error.to_string(), is_warning: true });
        outlook.remarks.splice(0..0, missing.into_iter().chain(problem).chain(start));
        outlook
    }

    /// The outlook on `machine`, which is the node or represents a site.
    fn at(plan: Arc<Plan>, shown: Arc<Plan>, node: Arc<Node>, machine: &Node) -> Self {
        let matrix = expand(&plan, machine);
        let repeats = u64::from(plan.repeats);
        let cells_s: f64 = matrix.cells.iter().map(|cell| cell.estimate.duration_s).sum();
        // If no cell can run, each level is judged together with the defaults of other factors, so that it is not blamed for their levels.
        let others = if matrix.cells.is_empty() { defaults(&shown) } else { Plan::clone(&shown) };
        let probe = Probe { plan: &others, node: machine };
        Self {
            varied: {
                let workload = plan.has_several_workloads().then(|| Key::from(WORKLOAD));
                let tracer = (plan.tracing.tracers().len() > 1).then(|| Key::from(Tracer::KEY));
                workload.into_iter().chain(plan.varied().into_iter().cloned()).chain(tracer).collect()
            },
            runs: matrix.cells.len() as u64 * repeats,
            duration_s: cells_s * repeats as f64,
            node_hours: node_hours(&plan, &matrix),
            peak_bytes: matrix.cells.iter().map(|cell| cell.estimate.peak_bytes).max().unwrap_or(0),
            refusals: probe.refusals(&shown),
            data_refusals: probe.data_refusals(),
            data: dataset::whereabouts(&shown.first.data),
            remarks: remarks(&plan, &matrix, machine),
            resolved: resolved(&plan, &shown.first, &matrix),
            design_trouble: design_trouble(&plan),
            search_trouble: search_trouble(&plan, &matrix),
            matrix,
            plan,
            shown,
            node,
        }
    }

    /// Whether time or memory of some cell can be estimated before it runs; for programs of the plan's own this is impossible.
    pub(super) fn has_estimates(&self) -> bool {
        self.matrix.cells.is_empty() || self.duration_s > 0.0 || self.peak_bytes > 0
    }

    /// Why a level of a factor has no cell that can run; `None` if it has one.
    pub(super) fn refusal(&self, key: &Key, level: &Level) -> Option<&str> {
        self.refusals.get(&(key.clone(), level.clone())).map(String::as_str)
    }

    /// Why a data set cannot be used.
    pub(super) fn data_refusal(&self, set: &str) -> Option<&str> {
        self.data_refusals.get(set).map(String::as_str)
    }
}

/// Why the search of a plan cannot be answered; `None` if it can, and for a plan without one.
fn search_trouble(plan: &Plan, matrix: &Matrix) -> Option<String> {
    if let Some((_, message)) = plan.search_conflicts().into_iter().next() {
        return Some(message);
    }
    match Question::of(plan) {
        Ok(question) => question?.refuses(matrix.cells.len()).filter(|_| !matrix.cells.is_empty()),
        Err(wrong) => Some(wrong.join("; ")),
    }
}

/// The runs of an outlook that a session already has.
pub(super) struct Kept {
    outlook: Arc<Outlook>,
    held: Arc<HashMap<Identity, HeldCell>>,
    /// The number of its runs that exist.
    pub(super) runs: u64,
    /// Time of all runs one after the other, in seconds; cells of unknown time count nothing.
    pub(super) duration_s: f64,
    /// Whether the time of some cell is unknown.
    pub(super) lacks_times: bool,
}

impl Kept {
    /// Looks up the outlook's cells among the cells of the session's runs.
    pub(super) fn new(outlook: &Arc<Outlook>, held: &Arc<HashMap<Identity, HeldCell>>) -> Self {
        let cells = &outlook.matrix.cells;
        let repeats = 1..=outlook.plan.repeats;
        let kept_repeats =
            |cell: &HeldCell| repeats.clone().filter(|repeat| cell.repeats.contains(repeat)).count() as u64;
        Self {
            runs: cells.iter().filter_map(|cell| held.get(&cell.identity)).map(kept_repeats).sum(),
            duration_s: cells.iter().map(|cell| time_of(cell, held).0).sum::<f64>() * f64::from(outlook.plan.repeats),
            lacks_times: cells.iter().any(|cell| time_of(cell, held).0 == 0.0),
            outlook: Arc::clone(outlook),
            held: Arc::clone(held),
        }
    }

    /// Whether it belongs to this outlook and these cells.
    pub(super) fn is_of(&self, outlook: &Arc<Outlook>, held: &Arc<HashMap<Identity, HeldCell>>) -> bool {
        Arc::ptr_eq(&self.outlook, outlook) && Arc::ptr_eq(&self.held, held)
    }
}

/// The time of a run of a cell, in seconds, and whether it was measured by one of the session's runs; otherwise it is an estimate, or 0 if
/// unknown.
pub(super) fn time_of(cell: &Cell, held: &HashMap<Identity, HeldCell>) -> (f64, bool) {
    match held.get(&cell.identity).and_then(|held| held.last_s) {
        Some(last_s) => (last_s, true),
        None => (cell.estimate.duration_s, false),
    }
}

/// Tries levels one at a time, combined with the ticked levels of the other factors.
struct Probe<'a> {
    plan: &'a Plan,
    node: &'a Node,
}

impl Probe<'_> {
    fn refusals(&self, plan: &Plan) -> HashMap<(Key, Level), String> {
        let mut refusals = HashMap::new();
        let factors = plan.first.factors.iter();
        let factors = factors.filter_map(|(key, ticked)| Some((plan.first.spec.factor(key)?, ticked)));
        for (factor, ticked) in factors {
            for level in offered(factor, ticked, Some(self.node)) {
                if let Some(reason) = self.level(factor, &level) {
                    refusals.insert((factor.key.clone(), level), reason);
                }
            }
        }
        refusals
    }

    /// Why no cell with this level can run: the level was tried with the first ticked levels of all other factors, and with each other
    /// ticked level of one of these factors.
    fn level(&self, factor: &Factor, level: &Level) -> Option<String> {
        let mut trial = self.first_levels();
        set(&mut trial, &factor.key, level);
        let reason = self.reason(self.plan, &trial)?;
        for (key, ticked) in self.plan.first.factors.iter().filter(|(key, _)| *key != factor.key) {
            for other in ticked.iter().skip(1) {
                let mut trial = trial.clone();
                set(&mut trial, key, other);
                self.reason(self.plan, &trial)?;
            }
        }
        Some(reason)
    }

    fn data_refusals(&self) -> HashMap<Key, String> {
        let sets = self.plan.first.spec.data_sets.iter().map(DataSetRule::chosen);
        let refusal = |data: Data| {
            let mut plan = self.plan.clone();
            plan.first.set_data(data);
            let levels = Probe { plan: &plan, node: self.node }.first_levels();
            Some((plan.first.data.set.clone(), self.reason(&plan, &levels)?))
        };
        sets.filter_map(refusal).collect()
    }

    fn first_levels(&self) -> Vec<(Key, Level)> {
        self.plan
            .first
            .factors
            .iter()
            .filter_map(|(key, ticked)| Some((key.clone(), ticked.first()?.clone())))
            .collect()
    }

    /// Why one combination of levels cannot run.
    fn reason(&self, plan: &Plan, levels: &[(Key, Level)]) -> Option<String> {
        check(plan, &plan.first, self.node, &Levels::new(levels.to_vec())).err()
    }
}

fn set(levels: &mut [(Key, Level)], key: &str, level: &Level) {
    if let Some((_, current)) = levels.iter_mut().find(|(name, _)| *name == key) {
        *current = level.clone();
    }
}

fn defaults(plan: &Plan) -> Plan {
    Plan { limits: plan.limits, ..Plan::new(&plan.name, plan.first.spec.clone()) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::plan::fixture::{cpu_node, gpu_node, small_plan};
    use crate::plan::image::{self, DataSet};

    fn texts(names: &[&str]) -> Vec<Level> {
        names.iter().map(|name| Level::text(name)).collect()
    }

    fn outlook(plan: Plan, node: Node) -> Outlook {
        let plan = Arc::new(plan);
        Outlook::new(Arc::clone(&plan), plan, Arc::new(node))
    }

    #[test]
    fn a_level_that_cannot_run_has_its_reason_and_others_have_none() {
        let outlook = outlook(Plan::new("p", image::spec()), cpu_node());
        assert!(outlook.refusal(&"precision".into(), &Level::text("fp16")).unwrap().contains("needs an NVIDIA GPU"));
        assert_eq!(outlook.refusal(&"precision".into(), &Level::text("fp64")), None);
        assert!(outlook.refusal(&"cuda_graph".into(), &Level::text("on")).unwrap().contains("needs an NVIDIA GPU"));
    }

    #[test]
    fn a_level_that_runs_with_any_ticked_level_of_another_factor_is_not_refused() {
        let fits = small_plan(&[("precision", texts(&["fp16", "fp32"])), ("optimizer_impl", texts(&["loop"]))]);
        assert_eq!(outlook(fits, gpu_node(1)).refusal(&"cuda_graph".into(), &Level::text("on")), None);
        let alone = small_plan(&[("precision", texts(&["fp16"])), ("optimizer_impl", texts(&["loop"]))]);
        assert!(outlook(alone, gpu_node(1)).refusal(&"cuda_graph".into(), &Level::text("on")).is_some());
    }

    #[test]
    fn a_level_without_meaning_can_be_ticked_and_is_told() {
        let alone = small_plan(&[("precision", texts(&["fp64"])), ("tf32", texts(&["off", "all"]))]);
        let outlook = outlook(alone, gpu_node(1));
        assert_eq!(outlook.refusal(&"tf32".into(), &Level::text("all")), None);
        assert_eq!((outlook.runs, outlook.matrix.merged.combinations), (1, 1));
    }

    #[test]
    fn where_nothing_runs_levels_are_not_blamed_for_each_other() {
        let outlook = outlook(small_plan(&[("precision", texts(&["fp16"]))]), cpu_node());
        assert!(outlook.matrix.cells.is_empty());
        assert!(outlook.refusal(&"precision".into(), &Level::text("fp16")).is_some());
        assert_eq!(outlook.refusal(&"precision".into(), &Level::text("fp32")), None);
        assert_eq!(outlook.refusal(&"layout".into(), &Level::text("nhwc")), None);
    }

    #[test]
    fn cost_is_that_of_all_runs() {
        let mut plan = small_plan(&[("layout", texts(&["nchw", "nhwc"]))]);
        plan.repeats = 3;
        let outlook = outlook(plan, cpu_node());
        let one: f64 = outlook.matrix.cells.iter().map(|cell| cell.estimate.duration_s).sum();
        assert_eq!((outlook.runs, outlook.duration_s), (6, one * 3.0));
        assert!(outlook.peak_bytes > 0);
    }

    #[test]
    fn a_data_set_brings_its_scenario_and_one_that_does_not_fit_is_refused() {
        let fits = outlook(Plan::new("p", image::spec()), cpu_node());
        assert_eq!(["digits", "folder"].map(|set| fits.data_refusal(set).is_none()), [true; 2]);
        let mut plan = Plan::new("p", image::spec());
        plan.first.set_data(DataSet::files("images").into());
        assert_eq!(plan.first.levels("scenario"), [Level::text("b")]);
        let (mut small, mut large) = (cpu_node(), cpu_node());
        (small.memory_bytes, large.memory_bytes) = (3_000_000_000, 64_000_000_000);
        assert_eq!(outlook(plan.clone(), large).matrix.cells.len(), 1);
        let outlook = outlook(plan, small);
        assert!(outlook.matrix.invalid[0].reason.contains("one copy of 2.1 GB"), "{:?}", outlook.matrix.invalid);
        assert_eq!(outlook.data_refusal("digits"), None);
    }
}
