//! Samples of the machine for the window: those that show nothing new are not sent, since each one causes a frame.

use std::sync::mpsc::{Receiver, sync_channel};

use crate::app::engine::messages::Sampling;
use crate::plan::Node;
use crate::protocol::Sample;
use crate::telemetry::{Sampler, TelemetryError, Watch, use_by_programs};

/// Capacity of the channel of samples.
const SAMPLES_IN_FLIGHT: usize = 8;

/// The sampler of the whole machine. It ends when this is dropped.
pub(super) struct NodeWatch {
    pub(super) sampling: Sampling,
    _sampler: Sampler,
    samples: Receiver<(String, Sample)>,
    said: Said,
}

/// What the last sample with rates says of the use of the machine by other programs; `None` before the first one.
#[derive(Default)]
struct Said(Option<Option<String>>);

impl NodeWatch {
    /// Starts to sample a machine.
    ///
    /// # Errors
    /// Those of [`Sampler::start`].
    pub(super) fn start(sampling: Sampling, node: &Node) -> Result<Self, TelemetryError> {
        let (sink, samples) = sync_channel(SAMPLES_IN_FLIGHT);
        let sampler = Sampler::start(sampling.interval, sink)?;
        let gpu_uuids = node.gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
        sampler.watch(Watch { gpu_uuids, ..Watch::default() });
        Ok(Self { sampling, _sampler: sampler, samples, said: Said::default() })
    }

    /// The latest sample since the last call.
    pub(super) fn latest(&self) -> Option<Sample> {
        self.samples.try_iter().last().map(|(_, sample)| sample)
    }

    /// Whether the window needs a sample of this machine.
    pub(super) fn is_news(&mut self, sample: &Sample, node: &Node) -> bool {
        !self.sampling.only_use || self.said.is_changed_by(sample, node)
    }
}

impl Said {
    /// Whether a sample says something else than the one before. The window may show what an earlier sampler said, so that the first sample
    /// with rates always does.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::fixture::cpu_node;
    use crate::protocol::HostSample;

    #[test]
    fn a_sample_is_news_if_it_says_something_else_of_other_programs_than_the_one_before() {
        let mut said = Said::default();
        let mut is_changed = |cpus_busy: Option<f64>| {
            let host = HostSample { cpus_busy, ..HostSample::default() };
            said.is_changed_by(&Sample { host, ..Sample::default() }, &cpu_node())
        };
        let idle = [None, Some(0.1), Some(0.2)].map(&mut is_changed);
        assert_eq!(idle, [true, true, false], "the first one with rates may replace what an earlier sampler said");
        let busy = [Some(1.5), Some(1.5), Some(2.0), Some(0.1), Some(0.0)].map(&mut is_changed);
        assert_eq!(busy, [true, false, true, true, false]);
    }
}
