//! Events on the host: CUDA calls, synchronisations and NVTX ranges.

use std::collections::{BTreeSet, HashMap};

use super::distribution::{Distribution, join, percent};
use super::gap::{Gaps, Marker, Meanwhile};
use crate::trace::TraceError;
use crate::trace::event::{Event, Kind, Name, What, bounded, printed};
use crate::trace::ids::ById;
use crate::trace::progress::Watch;
use crate::trace::source::{Reading, Source};
use crate::trace::value::{Entry, NvtxRange, Synchronisation};
use crate::trace::window::{Limits, union};

/// Types of synchronisation by CUPTI's number.
const SYNC_KINDS: [&str; 5] = ["unknown", "event", "stream_wait_event", "stream", "context"];

/// The type of a synchronisation by CUPTI's number.
pub(in crate::trace) fn synchronisation_name(kind: i64) -> &'static str {
    SYNC_KINDS[synchronisation_place(kind)]
}

fn synchronisation_place(kind: i64) -> usize {
    usize::try_from(kind).ok().filter(|kind| *kind < SYNC_KINDS.len()).unwrap_or(0)
}

/// Maximum number of distinct range names; further names are summed together.
const MOST_NAMES: usize = 10_000;
/// Maximum number of epoch and load ranges kept to explain gaps.
const MOST_MARKERS: usize = 1 << 20;

/// CUDA calls by name id.
#[derive(Default)]
pub(super) struct Calls {
    times: ById<i64, Distribution>,
    /// The time from the first call to the last call, regardless of the window.
    pub extent: Option<(i64, i64)>,
    in_pauses: Meanwhile,
}

impl Calls {
    /// Reads the calls and assigns them to gaps.
    pub fn read(
        source: &impl Source,
        watch: &mut Watch<'_>,
        limits: Limits,
        gaps: &mut Gaps,
    ) -> Result<Self, TraceError> {
        let each = |calls: &mut Self, event: &Event<'_>| {
            let (span, name) = (event.span, event.name.id());
            if span.0 < span.1 {
                calls.extent = union(calls.extent, Some(span));
            }
            gaps.call(&mut calls.in_pauses, event.process, span, name);
            if limits.holds(span.0) {
                calls.times.entry(name).or_default().push(span.1.abs_diff(span.0));
            }
            Ok(())
        };
        let parts = source.scan(Kind::Call, source.for_sums(), watch, each)?;
        let mut all = Self::default();
        for part in parts {
            join(&mut all.times, part.times);
            all.extent = union(all.extent, part.extent);
            gaps.take(part.in_pauses);
        }
        Ok(all)
    }

    pub fn names(&self) -> impl Iterator<Item = i64> {
        self.times.keys().copied()
    }

    /// The list as nsys prints it: names without a four-digit version suffix, one entry per full name.
    pub fn entries(self, name: impl Fn(i64) -> String) -> Option<Vec<Entry>> {
        let by_name = by_text(self.times, name);
        entries(by_name.into_iter().map(|(name, values)| (printed(&name).to_owned(), values)))
    }
}

/// Durations grouped by the texts of names, because each process in a recording may use other ids for the same text.
pub(super) fn by_text(
    by_id: impl IntoIterator<Item = (i64, Distribution)>,
    name: impl Fn(i64) -> String,
) -> HashMap<String, Distribution> {
    let mut by_name: HashMap<String, Distribution> = HashMap::new();
    for (id, times) in by_id {
        by_name.entry(name(id)).or_default().merge(times);
    }
    by_name
}

/// The sorted entries with their shares; `None` if a sum exceeds 64 bits.
pub(super) fn entries(named: impl Iterator<Item = (String, Distribution)>) -> Option<Vec<Entry>> {
    let mut all = Vec::new();
    for (name, mut values) in named {
        all.push(Entry { name, statistics: values.statistics()?, percent: 0.0, place: None });
    }
    let total: f64 = all.iter().map(|entry| entry.statistics.total_ns as f64).sum();
    for entry in &mut all {
        entry.percent = percent(entry.statistics.total_ns as f64, total);
    }
    all.sort_by(|a, b| {
        let (x, y) = (&a.statistics, &b.statistics);
        y.total_ns.cmp(&x.total_ns).then(x.calls.cmp(&y.calls)).then_with(|| a.name.cmp(&b.name))
    });
    Some(all)
}

/// Synchronisations by type.
pub(super) fn synchronisations(
    source: &impl Source,
    watch: &mut Watch<'_>,
    limits: Limits,
) -> Result<Vec<Synchronisation>, TraceError> {
    let each = |kinds: &mut ById<usize, Distribution>, event: &Event<'_>| {
        let (What::Synchronisation { kind }, true) = (event.what, limits.holds(event.span.0)) else { return Ok(()) };
        kinds.entry(synchronisation_place(kind)).or_default().push(event.span.1.abs_diff(event.span.0));
        Ok(())
    };
    let mut kinds = ById::default();
    for part in source.scan(Kind::Synchronisation, source.for_sums(), watch, each)? {
        join(&mut kinds, part);
    }
    let named = kinds.into_iter().map(|(kind, values)| (SYNC_KINDS[kind].to_owned(), values));
    let too_much = || source.damaged(&[Kind::Synchronisation], "the sum of times is beyond 64 bits".to_owned());
    let entries = entries(named).ok_or_else(too_much)?;
    Ok(entries.into_iter().map(|entry| Synchronisation { kind: entry.name, statistics: entry.statistics }).collect())
}

/// NVTX ranges by domain and name.
#[derive(Default)]
pub(super) struct Ranges {
    /// Names given as string ids.
    by_id: ById<(i64, i64), Distribution>,
    /// Names given in the events.
    by_text: HashMap<i64, HashMap<String, Distribution>>,
    /// Ranges whose names are beyond [`MOST_NAMES`].
    others: Distribution,
    /// For each domain, the order of the first event that names it, and the name.
    domains: HashMap<i64, (i64, String)>,
    /// For each domain whose name is the id of a string, the order of the first event that names it, and the id.
    domain_ids: HashMap<i64, (i64, i64)>,
    names: usize,
    /// The time from the first range to the last range, regardless of the window.
    pub extent: Option<(i64, i64)>,
    /// Epoch and load ranges: process, time, meaning.
    marked: Vec<(i64, (i64, i64), Marker)>,
    /// The processes with ranges within the window.
    pub processes: BTreeSet<i64>,
}

impl Ranges {
    /// Reads the ranges and passes those of epochs and loads to the gaps. `markers` are the ids of their names.
    pub fn read(
        source: &impl Source,
        watch: &mut Watch<'_>,
        limits: Limits,
        markers: impl Fn(i64) -> Option<Marker> + Sync,
        gaps: &mut Gaps,
    ) -> Result<Self, TraceError> {
        let each = |ranges: &mut Self, event: &Event<'_>| {
            match (event.what, event.name) {
                (What::Domain { domain }, Name::Text(text)) => {
                    ranges.domains.entry(domain).or_insert_with(|| (event.order, bounded(text)));
                }
                (What::Domain { domain }, Name::Id(id)) => {
                    ranges.domain_ids.entry(domain).or_insert((event.order, id));
                }
                (What::Range { domain } | What::Collective { domain, .. }, name) => {
                    let marker = match name {
                        Name::Text(text) => Marker::of(text),
                        Name::Id(id) => markers(id),
                    };
                    if let Some(marker) = marker.filter(|_| ranges.marked.len() < MOST_MARKERS) {
                        ranges.marked.push((event.process, event.span, marker));
                    }
                    ranges.extent = union(ranges.extent, Some(event.span));
                    if limits.holds(event.span.0) {
                        ranges.add(domain, name, event.span.1.abs_diff(event.span.0));
                        ranges.processes.insert(event.process);
                    }
                }
                _ => {}
            }
            Ok(())
        };
        let mut read = |threads| -> Result<Self, TraceError> {
            let parts = source.scan(Kind::Range, Reading { threads, ..source.for_sums() }, watch, each)?;
            Ok(parts.into_iter().reduce(Self::joined).unwrap_or_default())
        };
        let mut ranges = read(source.threads())?;
        if ranges.names > MOST_NAMES || !ranges.others.is_empty() || ranges.marked.len() >= MOST_MARKERS {
            // The first ranges are kept, and only one thread knows which ones these are.
            ranges = read(1)?;
        }
        ranges.marked.drain(..).for_each(|(process, span, marker)| gaps.range(process, span, marker));
        Ok(ranges)
    }

    /// Merges the results of two threads.
    fn joined(mut self, part: Self) -> Self {
        join(&mut self.by_id, part.by_id);
        for (domain, names) in part.by_text {
            let known = self.by_text.entry(domain).or_default();
            names.into_iter().for_each(|(text, values)| known.entry(text).or_default().merge(values));
        }
        self.names = self.by_id.len() + self.by_text.values().map(HashMap::len).sum::<usize>();
        self.others.merge(part.others);
        first_of(&mut self.domains, part.domains);
        first_of(&mut self.domain_ids, part.domain_ids);
        self.marked.extend(part.marked);
        self.processes.extend(part.processes);
        self.extent = union(self.extent, part.extent);
        self
    }

    fn add(&mut self, domain: i64, name: Name<'_>, length: u64) {
        let room = self.names < MOST_NAMES;
        let known = match name {
            Name::Text(text) => self.by_text.get_mut(&domain).and_then(|names| names.get_mut(text)),
            Name::Id(id) => self.by_id.get_mut(&(domain, id)),
        };
        match (known, name) {
            (Some(values), _) => values.push(length),
            (None, _) if !room => self.others.push(length),
            (None, Name::Text(text)) => {
                self.names += 1;
                self.by_text.entry(domain).or_default().entry(bounded(text)).or_default().push(length);
            }
            (None, Name::Id(id)) => {
                self.names += 1;
                self.by_id.entry((domain, id)).or_default().push(length);
            }
        }
    }

    pub fn names(&self) -> impl Iterator<Item = i64> {
        self.by_id.keys().map(|(_, id)| *id).chain(self.domain_ids.values().map(|(_, id)| *id))
    }

    /// Ranges by the names of their domains and their own names, since each process numbers domains itself; `None` if a sum exceeds 64
    /// bits.
    pub fn entries(self, name: impl Fn(i64) -> String) -> Option<Vec<NvtxRange>> {
        let domain_name = |domain: i64| match (self.domains.get(&domain), self.domain_ids.get(&domain)) {
            (Some((_, text)), _) => Some(text.clone()),
            (None, Some((_, id))) => Some(name(*id)),
            (None, None) => (domain != 0).then(|| format!("domain {domain}")),
        };
        let mut all: HashMap<(Option<String>, String), Distribution> = HashMap::new();
        let texts = self
            .by_text
            .into_iter()
            .flat_map(|(domain, names)| names.into_iter().map(move |(text, values)| ((domain, text), values)));
        let ids = self.by_id.into_iter().map(|((domain, id), values)| ((domain, name(id)), values));
        for ((domain, text), values) in texts.chain(ids) {
            all.entry((domain_name(domain), text)).or_default().merge(values);
        }
        if !self.others.is_empty() {
            all.entry((None, "(ranges of other names)".to_owned())).or_default().merge(self.others);
        }
        let mut ranges = Vec::new();
        for ((domain, name), mut values) in all {
            ranges.push(NvtxRange { domain, name, statistics: values.statistics()? });
        }
        ranges.sort_by(|a, b| {
            let order = b.statistics.total_ns.cmp(&a.statistics.total_ns);
            order.then_with(|| (&a.domain, &a.name).cmp(&(&b.domain, &b.name)))
        });
        Some(ranges)
    }
}

/// Keeps the earliest name of each domain.
fn first_of<T>(all: &mut HashMap<i64, (i64, T)>, part: HashMap<i64, (i64, T)>) {
    for (domain, named) in part {
        if all.get(&domain).is_none_or(|known| named.0 < known.0) {
            all.insert(domain, named);
        }
    }
}
