//! The events that are connected with an event: the call that launched it, the work that a call launched, and the same collective on the
//! other ranks.

use std::collections::BTreeMap;

use super::split::{Part, part_of};
use super::{Found, Item, Kind, Timeline, TimelineRow, TraceError};

/// The longest time between a call and the work that it launched, in nanoseconds: 10 s.
const LAUNCH_NS: i64 = 10_000_000_000;
/// The most events of a row that a call is shown to have launched: a graph has thousands.
const MOST_LAUNCHED: usize = 64;

/// The events that are connected with an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// The call that launched it; `None` if the call was not recorded, and for events that no call launches.
    pub call: Option<Found>,
    /// For a call: the work that it launched, in order of start, at most 64 events of each row.
    pub launched: Vec<Found>,
    /// For a collective and for the call that launched it: the collective of the same name and number on each other rank.
    pub peers: Vec<Found>,
    /// Whether ranks recorded different numbers of collectives of this name. Then it is unknown which ones belong together.
    pub has_unknown_peers: bool,
}

/// The collectives of each process and label, in order of start.
pub(super) type Sequences = BTreeMap<(i64, u32), Vec<Found>>;

impl Timeline {
    /// Whether events may be connected with an event: it is a call, work of a GPU, memory or a collective.
    pub fn has_flow(&self, found: &Found) -> bool {
        let is_connected = |row: &TimelineRow| {
            let has_correlation = row.is_on_gpu() || matches!(row.kind, Kind::Call | Kind::Allocation);
            has_correlation || self.is_collective(row, found.item.label)
        };
        found.item.events == 1 && self.rows.get(found.row).is_some_and(is_connected)
    }

    /// Whether an event is launched by calls.
    pub fn is_launched(&self, found: &Found) -> bool {
        self.rows.get(found.row).is_some_and(|row| row.is_on_gpu() || row.kind == Kind::Allocation)
    }

    /// The events that are connected with an event. Reads the file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn flow(&self, found: &Found) -> Result<Flow, TraceError> {
        let Some(row) = self.rows.get(found.row).filter(|_| self.has_flow(found)) else { return Ok(Flow::default()) };
        let own = self.as_recorded(found)?;
        let call = self.launcher(own.row, &own.item)?;
        let launched = if row.kind == Kind::Call { self.launched(row, &own.item)? } else { Vec::new() };
        let mut flow = Flow { call, launched, ..Flow::default() };
        let mut candidates = std::iter::once(&own).chain(&flow.launched);
        let is_collective = |found: &&Found| self.is_collective(&self.rows[found.row], found.item.label);
        if let Some(collective) = candidates.find(is_collective).copied() {
            match self.peers(&collective)? {
                Some(peers) => flow.peers = peers,
                None => flow.has_unknown_peers = true,
            }
        }
        Ok(flow)
    }

    /// The event with all that the file knows of it: an event that was drawn from a tile lacks its correlation.
    fn as_recorded(&self, found: &Found) -> Result<Found, TraceError> {
        if found.item.correlation != 0 {
            return Ok(*found);
        }
        let key = |item: &Item| (item.span, item.label, item.shelf);
        let items = self.items(found.row, found.item.span)?;
        let item = items.into_iter().find(|item| key(item) == key(&found.item));
        Ok(Found { row: found.row, item: item.unwrap_or(found.item) })
    }

    /// The call that launched an item. Reads the file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn launcher(&self, row: usize, item: &Item) -> Result<Option<Found>, TraceError> {
        let Some(call_row) = self.rows.get(row).filter(|call_row| item.correlation != 0 && call_row.kind != Kind::Call)
        else {
            return Ok(None);
        };
        let span = (item.span.0.saturating_sub(LAUNCH_NS), item.span.0);
        for (place, calls) in self.rows.iter().enumerate() {
            if calls.kind != Kind::Call || calls.process != call_row.process {
                continue;
            }
            let mut call = None;
            self.file.in_order(calls.lane, span, |event| {
                if event.correlation == item.correlation {
                    call = calls.item(event);
                }
                call.is_none() && event.span.0 <= span.1
            })?;
            if let Some(item) = call {
                return Ok(Some(Found { row: place, item }));
            }
        }
        Ok(None)
    }

    /// The work that a call launched, in order of start.
    fn launched(&self, calls: &TimelineRow, call: &Item) -> Result<Vec<Found>, TraceError> {
        let mut launched = Vec::new();
        if call.correlation == 0 {
            return Ok(launched);
        }
        let span = (call.span.0, call.span.0.saturating_add(LAUNCH_NS));
        for (place, row) in self.rows.iter().enumerate() {
            if row.process != calls.process || !(row.is_on_gpu() || row.kind == Kind::Allocation) {
                continue;
            }
            let mut of_row = Vec::new();
            self.file.in_order(row.lane, span, |event| {
                let item = row.item(event).filter(|item| item.correlation == call.correlation && item.span.0 >= span.0);
                of_row.extend(item.map(|item| Found { row: place, item }));
                of_row.len() < MOST_LAUNCHED && event.span.0 <= span.1
            })?;
            launched.append(&mut of_row);
        }
        launched.sort_by_key(|found| found.item.span.0);
        Ok(launched)
    }

    /// Whether an event of a row with this label is a collective, and not a wait for one.
    fn is_collective(&self, row: &TimelineRow, label: u32) -> bool {
        let is_wait = self.has_collectives && row.kind == Kind::Range;
        !is_wait && part_of(self, row.kind, label) == Some(Part::Communication)
    }

    /// The same collective on each other rank: the collective with the same name, and with the same number among the collectives of this
    /// name. `None` if ranks recorded different numbers of collectives of this name.
    fn peers(&self, own: &Found) -> Result<Option<Vec<Found>>, TraceError> {
        let (process, label) = (self.rows[own.row].process, own.item.label);
        let sequences = self.sequences()?;
        let own_sequence = sequences.get(&(process, label)).map_or(&[][..], Vec::as_slice);
        let others = sequences.iter().filter(|((other, known), _)| *known == label && *other != process);
        let others: Vec<&Vec<Found>> = others.map(|(_, sequence)| sequence).collect();
        if others.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let is_known = others.iter().all(|other| other.len() == own_sequence.len());
        let is_own = |found: &Found| (found.row, found.item.span) == (own.row, own.item.span);
        let place = own_sequence.iter().position(is_own).filter(|_| is_known);
        Ok(place.map(|place| others.iter().map(|other| other[place]).collect()))
    }

    /// All collectives. They are read from the file once.
    fn sequences(&self) -> Result<&Sequences, TraceError> {
        if let Some(known) = self.sequences.get() {
            return Ok(known);
        }
        let mut all = Sequences::new();
        for (place, row) in self.rows.iter().enumerate() {
            let labels = row.labels.iter().copied().filter(|label| self.is_collective(row, *label));
            let labels: Vec<u32> = labels.collect();
            if labels.is_empty() {
                continue;
            }
            self.file.in_order(row.lane, (i64::MIN, i64::MAX), |event| {
                if let Some(item) = row.item(event).filter(|item| labels.contains(&item.label)) {
                    all.entry((row.process, item.label)).or_default().push(Found { row: place, item });
                }
                true
            })?;
        }
        all.values_mut().for_each(|sequence| sequence.sort_by_key(|found| found.item.span));
        Ok(self.sequences.get_or_init(|| all))
    }
}
