//! Resolves a list of user-defined measures for a workload: what the names in their formulas mean, whether the units fit, and in which order
//! the measures are computed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::code::Code;
use crate::analysis::{Measure, Measures, THROUGHPUT, capitalised};
use crate::plan::{Formula, FormulaError, Function, Key, MeasureUnit, Operator, OwnMeasure, Part, Place, suggestion};

/// The most other measures that a measure may need in a row, where each needs the next.
const LONGEST_CHAIN: usize = 64;
/// The most measures of a cycle that a message names.
const MOST_NAMED: usize = 8;
/// The most measures of the list among which a message looks for a similar name.
const MOST_SUGGESTED: usize = 100;
/// Units that are shown in multiples of them: the unit, the shown one, and its factor.
const SHOWN: [(&str, &str, f64); 4] =
    [("B", "GB", 1e-9), ("B/s", "GB/s", 1e-9), ("FLOP", "GFLOP", 1e-9), ("FLOP/s", "TFLOP/s", 1e-12)];

/// The measures of a workload with those of a list, as far as their formulas fit.
pub(super) struct Resolved {
    /// All of them.
    pub measures: Arc<Measures>,
    /// How the measures of the list are computed. Each measure needs only earlier measures.
    pub computed: Vec<(Key, Code)>,
    /// The problems of the other measures of the list.
    pub problems: BTreeMap<Key, OwnProblem>,
}

/// The problem of a measure for a workload.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OwnProblem {
    pub error: FormulaError,
    /// Whether the formula names a measure that the workload lacks. The formula may fit other workloads.
    pub is_unknown_name: bool,
}

impl From<FormulaError> for OwnProblem {
    fn from(error: FormulaError) -> Self {
        Self { error, is_unknown_name: false }
    }
}

/// Factors whose levels are numbers, with the units of these.
pub(super) type Numbers = Vec<(Key, MeasureUnit)>;

/// The state of a measure while a list is resolved.
#[derive(Clone)]
enum State {
    New,
    /// Its names are being resolved.
    Open,
    Known(Measure, MeasureUnit),
    Wrong,
}

/// Resolves one list for one workload.
pub(super) struct Resolver<'a> {
    base: &'a Measures,
    numbers: &'a Numbers,
    own: &'a [OwnMeasure],
    /// Whether the workload is a program, whose plan declares its measures.
    is_program: bool,
    /// The base units that measures have, in order.
    units: Vec<String>,
    /// The places of the measures in the list, by their keys.
    places: HashMap<&'a Key, usize>,
    /// Their formulas, or why these cannot be read.
    formulas: Vec<Result<Formula, OwnProblem>>,
    states: Vec<State>,
    /// The length of the longest chain of other measures that each measure needs.
    chains: Vec<usize>,
    /// For measures that need themselves: the next measure of the cycle, and the cycle in words.
    cycles: HashMap<usize, (usize, String)>,
    /// The measure whose names are being looked up.
    current: usize,
    done: Vec<(Measure, Code)>,
    problems: BTreeMap<Key, OwnProblem>,
}

/// A part with its unit.
type Checked = Result<(Code, MeasureUnit), OwnProblem>;
/// Measures that are being resolved. Each measure is needed by the measure before it, and comes with the measures that it needs and that
/// were not looked at yet.
type Path = Vec<(usize, std::vec::IntoIter<usize>)>;

/// The formula of a measure, if its key can be used.
fn formula_of(own: &OwnMeasure, base: &Measures, numbers: &Numbers) -> Result<Formula, OwnProblem> {
    if let Some(message) = own.refused_name() {
        return Err(FormulaError::at(0, message).into());
    }
    if base.find(&own.key).is_some() || numbers.iter().any(|(key, _)| *key == own.key) {
        let message = format!("{:?} is the key of a measure or factor already: choose another key", &*own.key);
        return Err(FormulaError::at(0, message).into());
    }
    Ok(Formula::parse(&own.formula)?)
}

/// The base units that measures of a registry have, in order.
fn known_units(base: &Measures) -> Vec<String> {
    let units: Vec<MeasureUnit> = base.iter().map(|measure| MeasureUnit::parse(&measure.unit)).collect();
    let words = units.iter().flat_map(MeasureUnit::parts).filter(|part| !part.contains(' '));
    let mut known: Vec<String> = words.chain(["s", "B", "J", "W", "FLOP"]).map(str::to_owned).collect();
    known.sort_unstable();
    known.dedup();
    known
}

impl<'a> Resolver<'a> {
    pub(super) fn new(base: &'a Measures, numbers: &'a Numbers, own: &'a [OwnMeasure], is_program: bool) -> Self {
        let mut places = HashMap::new();
        for (place, measure) in own.iter().enumerate() {
            places.entry(&measure.key).or_insert(place);
        }
        Self {
            base,
            numbers,
            own,
            is_program,
            units: known_units(base),
            places,
            formulas: own.iter().map(|measure| formula_of(measure, base, numbers)).collect(),
            states: vec![State::New; own.len()],
            chains: vec![0; own.len()],
            cycles: HashMap::new(),
            current: 0,
            done: Vec::new(),
            problems: BTreeMap::new(),
        }
    }

    pub(super) fn resolve(mut self) -> Resolved {
        (0..self.own.len()).for_each(|place| self.resolve_from(place));
        let measures = self.base.clone().with(self.done.iter().map(|(measure, _)| measure.clone()));
        let computed = self.done.into_iter().map(|(measure, code)| (measure.key, code)).collect();
        Resolved { measures: Arc::new(measures), computed, problems: self.problems }
    }

    /// Resolves a measure after the measures that it needs. The path to these is a list and not a recursion: a list of measures may come
    /// from someone else's session, and a long chain would overflow the stack.
    fn resolve_from(&mut self, first: usize) {
        let mut path = Path::new();
        self.open(first, &mut path);
        while let Some((place, needs)) = path.last_mut() {
            match needs.next() {
                Some(needed) if matches!(self.states[needed], State::Open) => {
                    let from = path.iter().position(|(open, _)| *open == needed).unwrap_or(0);
                    let cycle: Vec<usize> = path[from..].iter().map(|(open, _)| *open).collect();
                    self.note_cycle(&cycle);
                }
                Some(needed) => self.open(needed, &mut path),
                None => {
                    let place = *place;
                    path.pop();
                    self.close(place);
                }
            }
        }
    }

    /// Puts a measure at the end of the path, unless it is resolved.
    fn open(&mut self, place: usize, path: &mut Path) {
        if matches!(self.states[place], State::New) {
            self.states[place] = State::Open;
            path.push((place, self.needs(place).into_iter()));
        }
    }

    /// The measures of the list that a formula names.
    fn needs(&self, place: usize) -> Vec<usize> {
        let Ok(formula) = &self.formulas[place] else { return Vec::new() };
        formula.names().into_iter().filter_map(|name| self.places.get(name).copied()).collect()
    }

    /// Notes that the measures of a cycle need themselves: each measure needs the next one, and the last one needs the first.
    fn note_cycle(&mut self, cycle: &[usize]) {
        let own = self.own;
        if cycle.last().is_some_and(|last| self.cycles.contains_key(last)) {
            return;
        }
        for (at, place) in cycle.iter().enumerate() {
            let turned = cycle[at..].iter().chain(&cycle[..=at]).map(|place| &*own[*place].key);
            let mut names: Vec<&str> = turned.take(MOST_NAMED).collect();
            if cycle.len() >= MOST_NAMED {
                names.extend(["…", &*own[*place].key]);
            }
            let next = cycle[(at + 1) % cycle.len()];
            self.cycles.entry(*place).or_insert_with(|| (next, names.join(" needs ")));
        }
    }

    /// Resolves a measure whose needs are resolved.
    fn close(&mut self, place: usize) {
        let own = &self.own[place];
        self.current = place;
        self.chains[place] = self.needs(place).into_iter().map(|needed| self.chains[needed] + 1).max().unwrap_or(0);
        self.states[place] = match self.measure(own) {
            Ok((measure, code, unit)) => {
                self.done.push((measure.clone(), code));
                State::Known(measure, unit)
            }
            Err(problem) => {
                self.problems.entry(own.key.clone()).or_insert(problem);
                State::Wrong
            }
        };
    }

    fn measure(&self, own: &OwnMeasure) -> Result<(Measure, Code, MeasureUnit), OwnProblem> {
        let refuse = |message: String| OwnProblem::from(FormulaError::at(0, message));
        let formula = self.formulas[self.current].as_ref().map_err(Clone::clone)?;
        // For a cycle, the error is that it is a cycle, not that it is too long.
        if self.chains[self.current] > LONGEST_CHAIN && !self.cycles.contains_key(&self.current) {
            let message = format!(
                "{} needs more than {LONGEST_CHAIN} other measures in a row: compute it from fewer, or write several of them as one \
                 formula",
                own.key
            );
            return Err(refuse(message));
        }
        let mut on_speed = false;
        let (code, unit) = self.part(formula, &formula.root, &mut on_speed)?;
        let shown = match own.unit.as_deref() {
            None => {
                let text = unit.to_string();
                let shown = SHOWN.iter().find(|(known, ..)| *known == text);
                shown.map_or((text, 1.0), |(_, shown, factor)| ((*shown).to_owned(), *factor))
            }
            Some(text) => {
                let requested = MeasureUnit::parse(text);
                if !requested.is_like(&unit) {
                    let message = format!("the formula has {}, which cannot be shown in {text}", named(&unit));
                    return Err(refuse(message));
                }
                (text.trim().to_owned(), requested.factor.recip())
            }
        };
        let name = own.name.clone().unwrap_or_else(|| capitalised(&own.key.replace('_', " ")));
        let parts: Vec<&Measure> = formula.names().into_iter().filter_map(|name| self.known(name)).collect();
        let measure = Measure {
            shown_unit: shown.0,
            shown_factor: shown.1,
            better: own.better,
            on_speed,
            has_inexact_part: parts.iter().any(|part| !part.is_exact()),
            is_of_steady_steps: parts.iter().any(|part| part.is_of_steady_steps),
            recurring_cells: Arc::new(parts.iter().flat_map(|part| part.recurring_cells.iter().cloned()).collect()),
            dependent_cells: Arc::new(parts.iter().flat_map(|part| part.dependent_cells.iter().cloned()).collect()),
            ..Measure::derived(own.key.clone(), name, &unit.to_string())
        };
        Ok((measure, code, unit))
    }

    /// The measure that a name means; `None` for a factor.
    fn known(&self, name: &Key) -> Option<&Measure> {
        let of_list =
            |place: &usize| if let State::Known(measure, _) = &self.states[*place] { Some(measure) } else { None };
        self.base.find(name).or_else(|| self.places.get(name).and_then(of_list))
    }

    fn part(&self, formula: &Formula, place: &Place, on_speed: &mut bool) -> Checked {
        match &place.part {
            Part::Number(number, unit) => self.number(*number, unit, place),
            Part::Name(key) => self.name(key, place, on_speed),
            Part::Negative(part) => {
                let (code, unit) = self.part(formula, part, on_speed)?;
                Ok((Code::Negative(Box::new(code)), unit))
            }
            Part::Pair(operator, left, right) => {
                let (first, first_unit) = self.part(formula, left, on_speed)?;
                let (second, second_unit) = self.part(formula, right, on_speed)?;
                let unit = match operator {
                    Operator::Multiply => first_unit.times(&second_unit),
                    Operator::Divide if second.constant() == Some(0.0) => {
                        let message = format!("division by zero: {} is 0", formula.text(right));
                        return Err(FormulaError::at(right.at.start, message).into());
                    }
                    Operator::Divide => first_unit.over(&second_unit),
                    Operator::Add | Operator::Subtract => {
                        alike(formula, [(left, &first_unit), (right, &second_unit)])?;
                        first_unit
                    }
                };
                Ok((Code::Pair(*operator, Box::new(first), Box::new(second)), unit))
            }
            Part::Call(function, parts) => {
                let checked =
                    parts.iter().map(|part| self.part(formula, part, on_speed)).collect::<Result<Vec<_>, _>>()?;
                let (codes, units): (Vec<Code>, Vec<MeasureUnit>) = checked.into_iter().unzip();
                let first = units.first().cloned().unwrap_or_default();
                let unit = match function {
                    Function::Min | Function::Max => {
                        for (part, unit) in parts.iter().zip(&units).skip(1) {
                            alike(formula, [(&parts[0], &first), (part, unit)])?;
                        }
                        first
                    }
                    Function::Sqrt => first.power(0.5),
                    Function::Log2 if !first.is_plain() => {
                        let text = formula.text(&parts[0]);
                        let message = format!(
                            "log2 needs a number without a unit, and {text} has {}: divide it by 1 {first}",
                            named(&first)
                        );
                        return Err(FormulaError::at(parts[0].at.start, message).into());
                    }
                    Function::Log2 => first,
                };
                Ok((Code::Call(*function, codes), unit))
            }
        }
    }

    /// A number. Its unit must be one that measures have.
    fn number(&self, number: f64, unit: &MeasureUnit, place: &Place) -> Checked {
        let is_known = |part: &str| self.units.iter().any(|known| known == part);
        match unit.parts().find(|part| !is_known(part)) {
            Some(part) => {
                let message = format!("unknown unit {part:?}{}", suggestion(part, &self.units));
                Err(FormulaError::at(place.at.start, message).into())
            }
            None => Ok((Code::Number(number), unit.clone())),
        }
    }

    fn name(&self, key: &Key, place: &Place, on_speed: &mut bool) -> Checked {
        let error = |message: String| FormulaError::at(place.at.start, message);
        if let Some(measure) = self.base.find(key) {
            *on_speed |= measure.on_speed;
            let unit = MeasureUnit::parse(&measure.unit);
            return Ok((Code::Measure(measure.key.clone(), unit.factor), unit.base()));
        }
        if let Some((key, unit)) = self.numbers.iter().find(|(known, _)| known == key) {
            return Ok((Code::Level(key.clone(), unit.factor), unit.base()));
        }
        let Some(&other) = self.places.get(key) else {
            return Err(OwnProblem { error: error(self.unknown(key)), is_unknown_name: true });
        };
        if let State::Known(measure, unit) = &self.states[other] {
            *on_speed |= measure.on_speed;
            return Ok((Code::Measure(key.clone(), 1.0), unit.clone()));
        }
        if let Some((next, cycle)) = self.cycles.get(&self.current)
            && *next == other
        {
            return Err(error(format!("a formula cannot need itself: {cycle}")).into());
        }
        let is_unknown_name = self.problems.get(key).is_some_and(|problem| problem.is_unknown_name);
        let error = error(format!("{key} is needed, and its own formula is wrong"));
        Err(OwnProblem { error, is_unknown_name })
    }

    fn unknown(&self, key: &Key) -> String {
        if MeasureUnit::symbol(key).is_some() {
            return format!("{key} is a unit, which follows its number: 1 {key}");
        }
        let measures = self.base.iter().map(|measure| &*measure.key).chain([THROUGHPUT]);
        // A measure that needs this name cannot be the measure that was meant.
        let others = self.own.iter().zip(&self.states).filter(|(_, state)| !matches!(state, State::Open));
        let own = others.map(|(own, _)| &*own.key).take(MOST_SUGGESTED);
        let known: Vec<&str> = own.chain(measures).chain(self.numbers.iter().map(|(key, _)| &**key)).collect();
        let declare =
            if self.is_program { "; what a program reports needs an entry in [command.measures]" } else { "" };
        format!("unknown measure {:?}{}{declare}", &**key, suggestion(key, &known))
    }
}

/// Checks that two parts can be added or compared.
fn alike(formula: &Formula, parts: [(&Place, &MeasureUnit); 2]) -> Result<(), OwnProblem> {
    let [(left, first), (right, second)] = parts;
    if first.is_like(second) {
        return Ok(());
    }
    let (left, text) = (formula.text(left), formula.text(right));
    let message =
        format!("{left} has {}, and {text} has {}: they must have the same unit", named(first), named(second));
    Err(FormulaError::at(right.at.start, message).into())
}

/// A unit in a sentence.
fn named(unit: &MeasureUnit) -> String {
    let text = unit.to_string();
    if text.is_empty() { "no unit".to_owned() } else { format!("the unit {text}") }
}
