//! Divides a recording into steps if no range marks them: by events that the user names or marks, else by a kernel or
//! collective that recurs.
//!
//! An event recurs if the same events begin between each two of its beginnings: the same kernels, each the same number
//! of times, in any order. This must hold for at least four in five of the events between its first and its last
//! beginning, and for at least half of all events. If several names recur, the one is taken for which it holds for the
//! largest share of events; among equal shares, the most frequent name. A kernel of a model's layer recurs, too, but it
//! loses: the events of a step that are outside of its layers are not between two layers. Only times with the same
//! events count as steps, so that the start, evaluations and trials of algorithms are in no step. What is divided by the
//! number of steps must therefore be the work within them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::TraceError;
use super::event::{Kind, Name, What, printed};
use super::progress::{Progress, Watch};
use super::source::Source;
use crate::foreign::with_ellipsis;

/// The largest number of events in which recurring ones are sought.
const MOST_EVENTS: usize = 4_000_000;
/// An event recurs if at least this number of its times have the same events.
const LEAST_STEPS: usize = 5;
/// An event recurs regularly if at least these shares of events lie in intervals that contain the same events: the first share counts
/// events between the first and the last beginning, the second all events.
const REGULAR: f64 = 0.8;
const COVERED: f64 = 0.5;

/// What divides a recording into steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum StepsFrom {
    /// Ranges that name steps; without them, an event that recurs.
    #[default]
    Found,
    /// The events with this name. If there is no such name: those whose names contain this text.
    Named(String),
    /// Two times in seconds from the recording's start. The event that begins first after the first time marks steps. If this event begins
    /// n times between the two times, each step contains n of its beginnings.
    Between {
        /// The first mark.
        from_s: f64,
        /// The second mark.
        to_s: f64,
    },
}

/// `NAME`, or `N:M` for two times in seconds.
impl FromStr for StepsFrom {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let times: Option<(f64, f64)> =
            text.split_once(':').and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
        match times {
            Some((from_s, to_s)) if 0.0 <= from_s && from_s < to_s => Ok(Self::Between { from_s, to_s }),
            Some(_) => Err(format!("{text}: the first mark must come before the second one, in seconds: 3.2:3.4")),
            None if text.trim().is_empty() => Err("a name or two times in seconds are needed: 3.2:3.4".to_owned()),
            None => Ok(Self::Named(text.to_owned())),
        }
    }
}

/// The steps of a recording that no range marks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Division {
    /// What divides the recording, in words.
    pub by: String,
    /// Process, start and end of each step, by process and start.
    pub steps: Vec<(i64, (i64, i64))>,
    /// When the events begin that divide the recording, also those that begin no step that counts. Empty if the steps are ranges or begin
    /// with calls: the work that these start runs later.
    pub beginnings: Vec<i64>,
}

/// An event that begins in a process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Begun {
    span: (i64, i64),
    label: i64,
}

/// The events of each process in the order of their beginnings.
type Sequences = BTreeMap<i64, Vec<Begun>>;
/// The texts of names that have no id in the recording, each by the number that `number_of` gives it.
type Texts = HashMap<i64, String>;

/// Divides a recording into steps as `from` says. `begin` is the recording's start. `None` if no event recurs.
///
/// # Errors
///
/// If it cannot be read, no event has the name, or none begins between the marks, or `tell` cancelled.
pub(super) fn divide(
    source: &impl Source,
    from: &StepsFrom,
    begin: i64,
    tell: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Option<Division>, TraceError> {
    // Everything has been read once, so the progress stays at its end; reading can still be cancelled.
    let mut tell = |progress: Progress| tell(Progress { fraction: 1.0, ..progress });
    let watch = &mut Watch::new(&mut tell, 1);
    match from {
        StepsFrom::Found => recurring(source, watch),
        StepsFrom::Named(text) => named(source, text, watch).map(Some),
        StepsFrom::Between { from_s, to_s } => {
            let at = |seconds: f64| begin.saturating_add((seconds * 1e9).round() as i64);
            between(source, (at(*from_s), at(*to_s)), watch).map(Some)
        }
    }
}

/// The kinds of events that may divide a recording, and the word for one event of each.
const KINDS: [(Looked, &str); 4] =
    [(Looked::Kernel, "kernel"), (Looked::Collective, "collective"), (Looked::Range, "range"), (Looked::Call, "call")];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Looked {
    Kernel,
    Collective,
    Range,
    Call,
}

impl Looked {
    fn kind(self) -> Kind {
        match self {
            Self::Kernel => Kind::Kernel,
            // Collectives are read together with ranges.
            Self::Collective | Self::Range => Kind::Range,
            Self::Call => Kind::Call,
        }
    }

    fn is_one(self, what: What) -> bool {
        (self == Self::Collective) == matches!(what, What::Collective { .. })
    }
}

/// The events of a kind by process, and the texts of names that have no id. `None` if there are too many events.
fn sequences(
    source: &impl Source,
    looked: Looked,
    watch: &mut Watch<'_>,
) -> Result<Option<(Sequences, Texts)>, TraceError> {
    #[derive(Default)]
    struct Part {
        begun: Vec<(i64, Begun)>,
        texts: HashMap<i64, String>,
    }
    // Over all threads.
    let count = AtomicUsize::new(0);
    let parts = source.scan(looked.kind(), source.for_sums(), watch, |part: &mut Part, event| {
        if !looked.is_one(event.what) || count.fetch_add(1, Ordering::Relaxed) >= MOST_EVENTS {
            return Ok(());
        }
        let label = match event.name {
            Name::Id(id) => id,
            Name::Text(text) => {
                let label = number_of(text);
                part.texts.entry(label).or_insert_with(|| text.to_owned());
                label
            }
        };
        part.begun.push((event.process, Begun { span: event.span, label }));
        Ok(())
    })?;
    let (mut all, mut texts) = (Sequences::new(), HashMap::new());
    for part in parts {
        texts.extend(part.texts);
        for (process, begun) in part.begun {
            all.entry(process).or_default().push(begun);
        }
    }
    all.values_mut().for_each(|begun| begun.sort_unstable());
    Ok((count.into_inner() <= MOST_EVENTS).then_some((all, texts)))
}

/// A number for a name without an id; ids are not negative.
fn number_of(text: &str) -> i64 {
    let mixed = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    -1 - (mixed >> 1).cast_signed()
}

/// The texts of labels.
fn texts_of(
    source: &impl Source,
    labels: HashSet<i64>,
    mut texts: HashMap<i64, String>,
) -> Result<HashMap<i64, String>, TraceError> {
    let ids: HashSet<i64> = labels.into_iter().filter(|label| !texts.contains_key(label)).collect();
    texts.extend(source.names(&ids)?.texts);
    Ok(texts)
}

/// Steps by a kernel that recurs, or by a collective in a recording without kernels.
fn recurring(source: &impl Source, watch: &mut Watch<'_>) -> Result<Option<Division>, TraceError> {
    for (looked, called) in &KINDS[..2] {
        let Some((sequences, texts)) = sequences(source, *looked, watch)? else { return Ok(None) };
        if sequences.is_empty() {
            continue;
        }
        let found: Vec<(i64, Recurrence)> =
            sequences.iter().filter_map(|(process, begun)| Some((*process, Recurrence::of(begun)?))).collect();
        let Some((_, first)) = found.first() else { return Ok(None) };
        let texts = texts_of(source, HashSet::from([first.label]), texts)?;
        let name = texts.get(&first.label).map_or("", String::as_str);
        let steps =
            found.iter().flat_map(|(process, one)| one.steps(&sequences[process]).map(move |span| (*process, span)));
        let by =
            format!("no range marks them: the {called} {} recurs with the same {called}s before each", shown(name));
        let beginnings = found.iter().flat_map(|(process, one)| {
            sequences[process].iter().filter(move |begun| begun.label == one.label).map(|begun| begun.span.0)
        });
        return Ok(Some(Division { by, steps: steps.collect(), beginnings: beginnings.collect() }));
    }
    Ok(None)
}

/// A name, cut if it is long.
fn shown(name: &str) -> String {
    const MOST: usize = 80;
    match name.chars().count() {
        0..=MOST => name.to_owned(),
        _ => with_ellipsis(&name.chars().take(MOST - 1).collect::<String>(), ""),
    }
}

/// An event that recurs.
struct Recurrence {
    label: i64,
    /// The events from one of its beginnings to the next: the sum of the hashes of their names, and their number.
    content: (u64, usize),
}

/// The beginnings of a name.
#[derive(Default)]
struct Beginnings {
    first: usize,
    last: usize,
    count: usize,
    /// The content that the majority of times between two beginnings have, if there is one (R. S. Boyer, J S. Moore,
    /// *MJRTY*, 1981), and its lead.
    most: ((u64, usize), usize),
    /// How many times have this content.
    equal: usize,
}

impl Recurrence {
    /// The event that recurs in a process; `None` if none does.
    fn of(begun: &[Begun]) -> Option<Self> {
        let sums = sums(begun);
        let content = |from: usize, to: usize| (sums[to].wrapping_sub(sums[from]), to - from);
        let mut all: HashMap<i64, Beginnings> = HashMap::new();
        for (place, Begun { label, .. }) in begun.iter().enumerate() {
            let known =
                all.entry(*label).or_insert_with(|| Beginnings { first: place, last: place, ..Default::default() });
            if known.count > 0 {
                let between = content(known.last, place);
                match &mut known.most {
                    (most, lead) if *lead > 0 && *most == between => *lead += 1,
                    (most, lead) if *lead == 0 => (*most, *lead) = (between, 1),
                    (_, lead) => *lead -= 1,
                }
            }
            (known.last, known.count) = (place, known.count + 1);
        }
        let mut before: HashMap<i64, usize> = HashMap::new();
        for (place, Begun { label, .. }) in begun.iter().enumerate() {
            if let (Some(last), Some(known)) = (before.insert(*label, place), all.get_mut(label)) {
                known.equal += usize::from(content(last, place) == known.most.0);
            }
        }
        let regular = all.into_iter().filter_map(|(label, known)| {
            let within = known.equal * known.most.0.1;
            let share = within as f64 / (known.last - known.first).max(1) as f64;
            let is_regular =
                known.equal >= LEAST_STEPS && share >= REGULAR && within as f64 >= COVERED * begun.len() as f64;
            // Shares are compared in whole percent.
            is_regular.then_some((((100.0 * share) as u64, known.count, Reverse(known.first)), label, known.most.0))
        });
        let (_, label, content) = regular.max_by_key(|(rank, ..)| *rank)?;
        Some(Self { label, content })
    }

    /// The times with the recurring content, each from one beginning to the next.
    fn steps(&self, begun: &[Begun]) -> impl Iterator<Item = (i64, i64)> {
        let sums = sums(begun);
        let places: Vec<usize> = (0..begun.len()).filter(|place| begun[*place].label == self.label).collect();
        let is_step = |pair: &&[usize]| (sums[pair[1]].wrapping_sub(sums[pair[0]]), pair[1] - pair[0]) == self.content;
        let steps: Vec<(i64, i64)> =
            places.windows(2).filter(is_step).map(|pair| (begun[pair[0]].span.0, begun[pair[1]].span.0)).collect();
        steps.into_iter().filter(|step| step.0 < step.1)
    }
}

/// The sums of the hashes of all names before each place: sums do not depend on the order in which several streams begin.
fn sums(begun: &[Begun]) -> Vec<u64> {
    let mut sums = Vec::with_capacity(begun.len() + 1);
    let mut sum = 0_u64;
    sums.push(sum);
    for one in begun {
        // SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, OOPSLA 2014).
        let mut mixed = one.label.cast_unsigned().wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        sum = sum.wrapping_add(mixed ^ (mixed >> 31));
        sums.push(sum);
    }
    sums
}

/// Steps by the events with a name: ranges are steps, and others begin one.
fn named(source: &impl Source, text: &str, watch: &mut Watch<'_>) -> Result<Division, TraceError> {
    for (looked, called) in [KINDS[2], KINDS[0], KINDS[1], KINDS[3]] {
        let Some((sequences, texts)) = sequences(source, looked, watch)? else {
            return Err(no_steps(format!("there are too many {called}s to look for {text:?}")));
        };
        let labels = sequences.values().flatten().map(|begun| begun.label).collect();
        let texts = texts_of(source, labels, texts)?;
        // The names of calls contain versions, which are not shown.
        let is_it = |name: &String| name == text || printed(name) == text;
        let is_exact = texts.values().any(is_it);
        let picks = |name: &String| if is_exact { is_it(name) } else { name.contains(text) };
        let picked: HashSet<i64> = texts.iter().filter(|(_, name)| picks(name)).map(|(label, _)| *label).collect();
        if picked.is_empty() {
            continue;
        }
        let (mut steps, mut beginnings) = (Vec::new(), Vec::new());
        for (process, begun) in &sequences {
            let own: Vec<(i64, i64)> =
                begun.iter().filter(|one| picked.contains(&one.label)).map(|one| one.span).collect();
            if matches!(looked, Looked::Kernel | Looked::Collective) {
                beginnings.extend(own.iter().map(|span| span.0));
            }
            match looked {
                Looked::Range => steps.extend(apart(own).into_iter().map(|span| (*process, span))),
                _ => steps.extend(own.windows(2).map(|pair| (*process, (pair[0].0, pair[1].0)))),
            }
        }
        let verb = if looked == Looked::Range { "each" } else { "from one beginning to the next" };
        let by = match is_exact {
            true => format!("asked for: the {called} {}, {verb}", shown(text)),
            false => format!("asked for: {called}s with {} in their names, {verb}", shown(text)),
        };
        return Ok(Division { by, steps, beginnings });
    }
    Err(no_steps(format!("no range, kernel, collective or call is named {text:?} or has it in its name")))
}

/// The ranges that are not within others.
fn apart(spans: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    let mut apart: Vec<(i64, i64)> = Vec::with_capacity(spans.len());
    for span in spans {
        if apart.last().is_none_or(|last| span.0 >= last.1) {
            apart.push(span);
        }
    }
    apart
}

/// Steps by two marks, as [`StepsFrom::Between`] says.
fn between(source: &impl Source, (from, to): (i64, i64), watch: &mut Watch<'_>) -> Result<Division, TraceError> {
    for (looked, called) in &KINDS[..3] {
        let Some((sequences, texts)) = sequences(source, *looked, watch)? else {
            return Err(no_steps(format!("there are too many {called}s to look for the marks")));
        };
        let (mut steps, mut beginnings) = (Vec::new(), Vec::new());
        let mut first: Option<(i64, usize)> = None;
        for (process, begun) in &sequences {
            let Some(anchor) = begun.get(begun.partition_point(|one| one.span.0 < from)).filter(|one| one.span.0 < to)
            else {
                continue;
            };
            let own: Vec<i64> = begun.iter().filter(|one| one.label == anchor.label).map(|one| one.span.0).collect();
            let place = own.partition_point(|start| *start < from);
            let often = own.partition_point(|start| *start < to) - place;
            first = first.or(Some((anchor.label, often)));
            let begins: Vec<i64> = own.iter().skip(place % often).step_by(often).copied().collect();
            steps.extend(begins.windows(2).map(|pair| (*process, (pair[0], pair[1]))));
            if *looked != Looked::Range {
                beginnings.extend(begins);
            }
        }
        let Some((label, often)) = first else { continue };
        let texts = texts_of(source, HashSet::from([label]), texts)?;
        let name = shown(texts.get(&label).map_or("", String::as_str));
        let each = if often == 1 { "each beginning".to_owned() } else { format!("every {often} beginnings") };
        return Ok(Division { by: format!("marked by hand: {each} of the {called} {name}"), steps, beginnings });
    }
    Err(no_steps("no kernel, collective or range begins between the marks".to_owned()))
}

fn no_steps(reason: String) -> TraceError {
    TraceError::Steps { reason }
}

#[cfg(test)]
#[path = "division_tests.rs"]
mod tests;
