//! What other programs do on the machine, which runs and rates suffer from.

use crate::app::State;
use crate::telemetry::signs_of_use;

/// A machine is busy from so many CPUs on, and from this share of all.
const BUSY_CPUS: f64 = 0.5;
const BUSY_SHARE: f64 = 0.1;

impl State {
    /// Whether the session itself uses the machine.
    pub fn uses_machine(&self) -> bool {
        self.queue.is_running() || self.queue.is_measuring()
    }

    /// What other programs use of the machine; none while the session itself uses it, or nothing is known.
    pub fn use_by_others(&self) -> Option<String> {
        let (node, sample) = (self.node.as_ref()?, self.machine.sample.as_ref()?);
        if self.uses_machine() {
            return None;
        }
        let cpus = f64::from(node.cpus);
        let busy = sample.host.cpus_busy.filter(|busy| *busy >= BUSY_CPUS.max(BUSY_SHARE * cpus));
        let busy = busy.map(|busy| format!("{busy:.1} of {} CPUs are busy", node.cpus));
        let gpus = sample.gpus.iter().filter_map(|gpu| {
            let signs = signs_of_use(gpu)?;
            let index = node.gpus.iter().find(|known| known.uuid == gpu.uuid)?.index;
            Some(format!("GPU {index} is in use ({signs})"))
        });
        let signs: Vec<String> = busy.into_iter().chain(gpus).collect();
        (!signs.is_empty()).then(|| format!("other programs use this machine: {}", signs.join(", ")))
    }
}
