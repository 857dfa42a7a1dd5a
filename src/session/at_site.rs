//! Runs at sites: the machine for which a plan is expanded, the plans that are refused before anything is queued, and the report of a run's
//! node about itself.

use super::{QueuedJob, Session, SessionError};
use crate::foreign;
use crate::launch;
use crate::plan::{Node, Plan, Shape, Tracer};
use crate::program;
use crate::protocol::{DIFFERENCES, ENVIRONMENT_FILE, Environment, Placement, RankPlace, Sample, Site};
use crate::store::Decision;

/// Longest description of an environment that is read.
const MOST_ENVIRONMENT_BYTES: u64 = 1 << 20;

/// The place where a plan's runs are executed.
#[derive(Clone, Debug)]
pub struct Where {
    /// The site; `None` for this machine.
    pub site: Option<Site>,
    /// The machine that the plan's cells are checked against: this one, or the largest node of the site.
    pub node: Node,
}

impl Where {
    /// The place where the runs of a plan are executed; `here` is this machine.
    ///
    /// # Errors
    /// The user has no such site; Slurm does not answer; Slurm has no partition or GPUs that the site's settings name; or the plan needs
    /// something that sites do not offer.
    pub fn of(plan: &Plan, here: &Node) -> Result<Self, SessionError> {
        let Some(name) = &plan.site else { return Ok(Self { site: None, node: here.clone() }) };
        let refused = |reason: String| SessionError::Site(reason);
        if plan.tracing.tracers().contains(&Tracer::Nsys) {
            let advice = "use trace = \"built-in\"";
            return Err(refused(format!("site {name}: nsys does not record runs that go through Slurm: {advice}")));
        }
        let site = launch::site(name).map_err(refused)?;
        if plan.needs_worker() && !site.container.is_empty() {
            return Err(refused(format!(
                "site {name}: built-in workloads bring their own libraries and do not run in the site's container: use a site without \
                 `container`"
            )));
        }
        let node = launch::site_node(&site, here).map_err(refused)?;
        Ok(Self { site: Some(site), node })
    }

    /// The place where the runs of a plan that was launched before are executed. Slurm is not asked, because it checks the jobs when they
    /// are sent.
    ///
    /// # Errors
    /// The user has no such site any more.
    pub(super) fn kept(plan: &Plan, here: &Node) -> Result<Self, SessionError> {
        let Some(name) = &plan.site else { return Ok(Self { site: None, node: here.clone() }) };
        let site = launch::site(name).map_err(SessionError::Site)?;
        let node = launch::unlimited_node(&site, here);
        Ok(Self { site: Some(site), node })
    }

    /// The largest node of a site that only another machine's conductor knows. It is taken to have everything that the
    /// runs of a plan ask for.
    pub fn unknown(name: &str, login: &Node) -> Node {
        // The site may have GPUs.
        let site = Site { name: name.to_owned(), gres: Some("gpu".to_owned()), ..Site::default() };
        launch::unlimited_node(&site, login)
    }

    /// The placement of a cell at the site, with one entry for each process. It names no CPUs and GPUs, because the
    /// scheduler chooses these.
    pub(super) fn placement(site: &Site, shape: &Shape) -> Placement {
        let threads = (site.cpus(shape) / shape.processes_per_node().max(1)).max(1);
        let ranks = (0..shape.processes).map(|process| RankPlace::on_cpu(process, threads));
        Placement { ranks: ranks.collect(), links: String::new() }
    }
}

impl QueuedJob {
    /// Sends the run to a site.
    pub(super) fn at(mut self, site: Option<&Site>) -> Self {
        if let Some(site) = site {
            self.job.site = Some(site.clone());
            self.job.shared_logs = true;
            if let Some(program) = &mut self.job.program {
                program.device = site.device();
            }
            // The scheduler keeps jobs apart.
            self.exclusive = false;
        }
        self
    }
}

impl Session {
    /// Checks that the session's other plans are run at the same place, since its cells would otherwise mix machines.
    pub(super) fn check_only_place(&self, plan: &Plan) -> Result<(), SessionError> {
        let words =
            |site: Option<&str>| site.map_or_else(|| "on this machine".to_owned(), |site| format!("at site {site}"));
        for (_, name, text) in self.store.reader()?.plans()? {
            let site = Plan::site_in(&text);
            if site != plan.site {
                let (other, own) = (words(site.as_deref()), words(plan.site.as_deref()));
                return Err(SessionError::Site(format!(
                    "the session's plan {name} runs {other}, and this plan {own}: use another session (--session), so that a cell's \
                     repeats are made in one place"
                )));
            }
        }
        Ok(())
    }

    /// Asks Slurm whether it would take a job of a plan, without queueing it. Returns a warning if the job would wait for nodes
    /// that are drained or down, or until the user has fewer jobs.
    ///
    /// # Errors
    /// Slurm does not answer, or would refuse the job.
    pub(super) fn check_taken(&self, site: &Site, queued: QueuedJob) -> Result<Option<String>, SessionError> {
        let mut queued = queued.at(Some(site));
        queued.job.folder = self.store.run_folder("check");
        let Err(reason) = launch::expected_start(&queued.job) else { return Ok(None) };
        match launch::delay(&queued.job, &reason) {
            Some(delay) => Ok(Some(format!("site {}: {delay}", site.name))),
            None => Err(SessionError::Site(format!("site {}: {reason}", site.name))),
        }
    }

    /// Slurm's reason why a run has not started.
    pub fn waits(&self, run: &str) -> Option<&str> {
        self.waits.get(run).map(String::as_str)
    }

    /// Whether a further job may be sent to a site.
    pub(super) fn site_has_room(&self, site: &Site) -> bool {
        self.queue.active().count() < site.most_jobs as usize
    }

    /// The journal's entry for the placement of a run that has started on a node of its site, by the node's own description.
    pub(super) fn placed_at_site(&mut self, run: &str) -> Option<Decision> {
        let queued = self.jobs.get(run).filter(|queued| queued.job.site.is_some())?;
        let described = foreign::read_ours(&self.store.run_folder(run).join(ENVIRONMENT_FILE), MOST_ENVIRONMENT_BYTES);
        let mut environment: Environment =
            described.ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        if let Some(own) = &queued.job.program {
            program::facts(&mut self.facts, &queued.job, own, &mut environment);
        }
        let placement = Placement { ranks: queued.job.ranks.clone(), links: queued.links.clone() };
        let differences = environment.get(DIFFERENCES).map(|what| format!("the run's nodes differ: {what}"));
        let (beside, warnings) = (Vec::new(), differences.into_iter().collect());
        Some(Decision::RunPlaced { run: run.to_owned(), placement, beside, warnings, environment: Some(environment) })
    }

    /// Whether the session does not have a sample yet. Samples of a run that an earlier process followed are reported from the first one.
    ///
    /// # Errors
    /// The samples that the session has cannot be read.
    pub(super) fn is_new_at_site(&mut self, run: &str, sample: &Sample) -> Result<bool, SessionError> {
        if !self.sampled_until_s.contains_key(run) {
            let mut last_s = f64::NEG_INFINITY;
            self.store.reader()?.each_sample(run, |known| last_s = last_s.max(known.time_s))?;
            self.sampled_until_s.insert(run.to_owned(), last_s);
        }
        let last_s = self.sampled_until_s.get(run).copied().unwrap_or(f64::NEG_INFINITY);
        if sample.time_s <= last_s {
            return Ok(false);
        }
        self.sampled_until_s.insert(run.to_owned(), sample.time_s);
        Ok(true)
    }

    /// Removes the files into which the nodes of a run that has ended wrote their samples: the session has these now.
    pub(super) fn forget_samples_at_site(&mut self, run: &str) {
        self.sampled_until_s.remove(run);
        if let Some(queued) = self.jobs.get(run).filter(|queued| queued.job.site.is_some()) {
            launch::remove_node_samples(&queued.job, &self.store.run_folder(run));
        }
    }

    /// Queues a run again that its site ended through no fault of the run, unless it was started as often as the site's settings allow, or
    /// came with an archive whose programs the user has not allowed.
    pub(super) fn start_again(&mut self, run: &str) -> Result<(), SessionError> {
        let Some(mut queued) = self.jobs.get(run).cloned() else { return Ok(()) };
        let most = queued.job.site.as_ref().map_or(0, |site| site.most_starts);
        if queued.starts >= most || self.check_allowed(run).is_err() {
            return Ok(());
        }
        queued.starts += 1;
        let folders = self.folders_there();
        self.queue_jobs(vec![queued], &folders).map(|_| ())
    }
}
