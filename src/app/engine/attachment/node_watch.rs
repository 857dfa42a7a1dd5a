//! Samples of the machine for the window: those that show nothing new are not sent, since each one causes a frame.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use super::{Desk, WindowClosed};
use crate::app::command::ScreenName;
use crate::app::engine::messages::{Sampling, UiEvent};
use crate::plan::Node;
use crate::protocol::Sample;
use crate::session::Machine;
use crate::telemetry::{Sampler, TelemetryError, Watch, use_by_programs};

/// Capacity of the channel of samples.
const SAMPLES_IN_FLIGHT: usize = 8;

/// The sampler of this machine. It ends when this is dropped.
pub(super) struct NodeWatch {
    _sampler: Sampler,
    samples: Receiver<(String, Sample)>,
}

/// The use of the machine by other programs, by the last sample with rates; `None` before the first one.
#[derive(Default)]
pub(super) struct ShownUse(Option<Option<String>>);

impl NodeWatch {
    /// Starts to sample a machine at this interval.
    ///
    /// # Errors
    /// Those of [`Sampler::start`].
    fn start(interval: Duration, node: &Node) -> Result<Self, TelemetryError> {
        let (sink, samples) = sync_channel(SAMPLES_IN_FLIGHT);
        let sampler = Sampler::start(interval, sink)?;
        let gpu_uuids = node.gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
        sampler.watch(Watch { gpu_uuids, ..Watch::default() });
        Ok(Self { _sampler: sampler, samples })
    }

    /// The latest sample since the last call.
    pub(super) fn latest(&self) -> Option<Sample> {
        self.samples.try_iter().last().map(|(_, sample)| sample)
    }
}

impl ShownUse {
    /// Whether a sample shows another use than the one before. The first sample with rates counts as another use, because the window may show
    /// what an earlier sampler found.
    fn is_changed_by(&mut self, sample: &Sample, node: &Node) -> bool {
        if sample.host.cpus_busy.is_none() {
            return true;
        }
        let now = Some(use_by_programs(node, sample));
        let is_changed = self.0 != now;
        self.0 = now;
        is_changed
    }
}

impl Desk<'_> {
    /// Samples the machine that the window shows, or ends this.
    pub(super) fn watch_node(&mut self, sampling: Option<Sampling>) -> Result<(), WindowClosed> {
        (self.watched, self.node_watch, self.shown_use) = (sampling, None, ShownUse::default());
        if let Some(remote) = &self.remote {
            remote.watch(sampling.map(|sampling| sampling.interval));
            return Ok(());
        }
        let Some(sampling) = sampling else { return Ok(()) };
        match NodeWatch::start(sampling.interval, &self.machine.node) {
            Ok(watch) => {
                self.node_watch = Some(watch);
                Ok(())
            }
            Err(error) => self.outbox.problem(ScreenName::NODE, error.to_string()),
        }
    }

    /// Reads the machine again.
    pub(super) fn refresh_node(&mut self) -> Result<(), WindowClosed> {
        if let Some(remote) = &self.remote {
            remote.look();
            return Ok(());
        }
        self.machine = Machine::look();
        if self.node_watch.is_some() {
            self.watch_node(self.watched)?;
        }
        self.show_node(self.machine.node.clone())
    }

    /// Shows a machine in the window.
    pub(super) fn show_node(&mut self, node: Node) -> Result<(), WindowClosed> {
        self.shown_node = Arc::new(node);
        self.outbox.send(UiEvent::Node(Arc::clone(&self.shown_node)))
    }

    /// Shows a sample of that machine, if it shows something that the window needs and that is new.
    pub(super) fn show_sample(&mut self, sample: Box<Sample>) -> Result<(), WindowClosed> {
        let needs_all = self.watched.is_none_or(|sampling| !sampling.only_use);
        if needs_all || self.shown_use.is_changed_by(&sample, &self.shown_node) {
            self.outbox.send(UiEvent::NodeSample(sample))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::fixture::cpu_node;
    use crate::protocol::HostSample;

    #[test]
    fn a_sample_is_new_if_it_shows_another_use_by_other_programs_than_the_one_before() {
        let mut shown = ShownUse::default();
        let mut is_changed = |cpus_busy: Option<f64>| {
            let host = HostSample { cpus_busy, ..HostSample::default() };
            shown.is_changed_by(&Sample { host, ..Sample::default() }, &cpu_node())
        };
        let idle = [None, Some(0.1), Some(0.2)].map(&mut is_changed);
        assert_eq!(idle, [true, true, false], "the first one with rates may replace what an earlier sampler found");
        let busy = [Some(1.5), Some(1.5), Some(2.0), Some(0.1), Some(0.0)].map(&mut is_changed);
        assert_eq!(busy, [true, false, true, true, false]);
    }
}
