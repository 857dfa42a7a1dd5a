//! The work of GPUs within the steps that count, for a recording that a recurring event divides. Sums over such a recording also contain work
//! that is in no step: of the program's start, of evaluations, of trials of algorithms. Divided by the number of steps, they would be too large.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::gpu::GpuWork;
use super::{Steps, families, kernels};
use crate::trace::TraceError;
use crate::trace::event::{Event, Kind};
use crate::trace::progress::{Progress, Watch};
use crate::trace::source::Source;
use crate::trace::value::WorkOfSteps;
use crate::trace::window::{Limits, length_ns, unite};

/// The steps of each process, by start.
pub(super) type Spans = BTreeMap<i64, Vec<(i64, i64)>>;

/// The work that begins within the steps. `None` unless work of GPUs begins them.
pub(super) fn work_of_steps(
    source: &impl Source,
    steps: &Steps,
    nccl: impl Fn(i64) -> bool + Sync,
    name: impl Fn(i64) -> String,
    tell: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Option<WorkOfSteps>, TraceError> {
    if steps.spans.is_empty() {
        return Ok(None);
    }
    // Everything has been read once, so the progress stays at its end; reading can still be cancelled.
    let mut tell = |progress: Progress| tell(Progress { fraction: 1.0, ..progress });
    let watch = &mut Watch::new(&mut tell, 1);
    let always = Limits { from: i64::MIN, to: i64::MAX };
    let mut work = GpuWork::read(source, watch, always, |event| holds(&steps.spans, event), nccl)?;
    let (mut busy_ns, mut idle_ns) = (0_u64, 0_u64);
    for (gpu, timeline) in std::mem::take(&mut work.timelines) {
        let ranks = work.ranks.iter().filter(|rank| rank.gpu == gpu);
        let mut spans: Vec<(i64, i64)> =
            ranks.filter_map(|rank| steps.spans.get(&rank.process)).flatten().copied().collect();
        unite(&mut spans);
        let (Some((from, _)), Some((_, to))) = (spans.first().copied(), spans.last().copied()) else { continue };
        let busy = timeline.sweep(from, to, |_| {}).busy_ns;
        busy_ns = busy_ns.saturating_add(busy);
        idle_ns = idle_ns.saturating_add(length_ns(&spans).saturating_sub(busy));
    }
    let too_much = |kind| source.damaged(&[kind], "the sum of times is beyond 64 bits".to_owned());
    let kernels = kernels(&work, name).ok_or_else(|| too_much(Kind::Kernel))?;
    let memory = work.operations.by_kind().ok_or_else(|| too_much(Kind::Copy))?;
    let families = families(&kernels, &memory);
    Ok(Some(WorkOfSteps { begun: steps.begun, busy_ns, idle_ns, kernels, memory, families }))
}

/// Whether an event begins within a step of its process.
fn holds(steps: &Spans, event: &Event<'_>) -> bool {
    let start = event.span.0;
    steps.get(&event.process).is_some_and(|steps| {
        let next = steps.partition_point(|step| step.0 <= start);
        next.checked_sub(1).is_some_and(|place| start < steps[place].1)
    })
}
