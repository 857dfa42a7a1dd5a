//! Measures of one's own: checks their formulas against the measures of a workload, with units, and computes them for each run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Measure, Measures};
use crate::plan::{
    Domain, Formula, FormulaError, Function, Key, Level, Levels, MeasureUnit, Operator, OwnMeasure, Part, Place, Plan,
    PlanError, PlannedMeasure, Problem, WorkloadSpec, suggestion,
};

/// The most lists of measures that are kept: one for each workload and edited list.
const MOST_KNOWN: usize = 64;
/// Units that are shown in multiples of them: the unit, the shown one, and its factor.
const SHOWN: [(&str, &str, f64); 4] =
    [("B", "GB", 1e-9), ("B/s", "GB/s", 1e-9), ("FLOP", "GFLOP", 1e-9), ("FLOP/s", "TFLOP/s", 1e-12)];

/// A formula whose names and units are known. Its values are in base units.
#[derive(Clone, Debug, PartialEq)]
enum Code {
    Number(f64),
    /// A measure of the run, times the factor of its unit.
    Measure(Key, f64),
    /// The level of a factor, times the factor of its unit.
    Level(Key, f64),
    Negative(Box<Code>),
    Pair(Operator, Box<Code>, Box<Code>),
    Call(Function, Vec<Code>),
}

/// Why a formula has no value for a run.
enum NoValue {
    /// The run lacks a measure or level that it needs.
    Lacking,
    /// It is not defined for the run's values: the reason.
    Undefined(String),
}

/// The values of a run.
struct Values<'a> {
    measures: &'a BTreeMap<Key, f64>,
    levels: &'a Levels,
}

impl Code {
    fn value(&self, of_run: &Values) -> Result<f64, NoValue> {
        let undefined = |reason: &str| Err(NoValue::Undefined(reason.to_owned()));
        match self {
            Self::Number(number) => Ok(*number),
            Self::Measure(key, factor) => of_run.measures.get(key).map(|value| value * factor).ok_or(NoValue::Lacking),
            Self::Level(key, factor) => {
                let level = of_run.levels.get(key).and_then(Level::as_number);
                level.map(|value| value * factor).ok_or(NoValue::Lacking)
            }
            Self::Negative(part) => Ok(-part.value(of_run)?),
            Self::Pair(operator, left, right) => {
                let (left, right_value) = (left.value(of_run)?, right.value(of_run)?);
                match operator {
                    Operator::Add => Ok(left + right_value),
                    Operator::Subtract => Ok(left - right_value),
                    Operator::Multiply => Ok(left * right_value),
                    Operator::Divide if right_value == 0.0 => {
                        let what = if let Self::Measure(key, _) | Self::Level(key, _) = &**right {
                            key
                        } else {
                            "the divisor"
                        };
                        undefined(&format!("division by zero: {what} is 0"))
                    }
                    Operator::Divide => Ok(left / right_value),
                }
            }
            Self::Call(function, parts) => {
                let values = parts.iter().map(|part| part.value(of_run)).collect::<Result<Vec<_>, _>>()?;
                let first = values.first().copied().unwrap_or(f64::NAN);
                match function {
                    Function::Min => Ok(values.into_iter().fold(f64::INFINITY, f64::min)),
                    Function::Max => Ok(values.into_iter().fold(f64::NEG_INFINITY, f64::max)),
                    Function::Sqrt if first < 0.0 => undefined("the square root of a number below 0"),
                    Function::Sqrt => Ok(first.sqrt()),
                    Function::Log2 if first <= 0.0 => undefined("the logarithm of a number that is not above 0"),
                    Function::Log2 => Ok(first.log2()),
                }
            }
        }
    }

    /// The value of a part without names.
    fn constant(&self) -> Option<f64> {
        let empty = Values { measures: &BTreeMap::new(), levels: &Levels::default() };
        self.value(&empty).ok()
    }
}

/// The measures of a workload with those of a list, as far as their formulas fit.
struct Resolved {
    /// All of them.
    measures: Arc<Measures>,
    /// How those of the list are computed. Each needs only earlier ones.
    computed: Vec<(Key, Code)>,
    /// What is wrong with the others.
    problems: Vec<(Key, OwnProblem)>,
}

/// What is wrong with a measure for a workload.
#[derive(Clone, Debug, PartialEq)]
struct OwnProblem {
    error: FormulaError,
    /// Whether the workload lacks a measure that it names. It may fit other workloads.
    is_unknown_name: bool,
}

impl From<FormulaError> for OwnProblem {
    fn from(error: FormulaError) -> Self {
        Self { error, is_unknown_name: false }
    }
}

/// Factors whose levels are numbers, with the units of these.
type Numbers = Vec<(Key, MeasureUnit)>;

fn numbers(spec: &WorkloadSpec) -> Numbers {
    let is_number = |domain: &Domain| matches!(domain, Domain::Integer { .. } | Domain::Number { .. });
    let factors = spec.factors.iter().filter(|factor| is_number(&factor.domain));
    factors.map(|factor| (factor.key.clone(), MeasureUnit::parse(&factor.unit))).collect()
}

/// Resolves a list for a workload. Results are kept, since the runs of a session share them.
fn resolved(base: &Arc<Measures>, spec: &WorkloadSpec, own: &[OwnMeasure]) -> Arc<Resolved> {
    struct Known {
        base: Arc<Measures>,
        numbers: Numbers,
        own: Vec<OwnMeasure>,
        resolved: Arc<Resolved>,
    }
    static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());
    let numbers = numbers(spec);
    let mut all = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let is_this = |known: &&Known| Arc::ptr_eq(&known.base, base) && known.numbers == numbers && known.own == own;
    if let Some(known) = all.iter().find(is_this) {
        return Arc::clone(&known.resolved);
    }
    let resolved = Arc::new(Resolver::new(base, &numbers, own, spec.command.is_some()).resolve());
    if all.len() == MOST_KNOWN {
        all.remove(0);
    }
    all.push(Known { base: Arc::clone(base), numbers, own: own.to_vec(), resolved: Arc::clone(&resolved) });
    resolved
}

/// The measures of a workload, and the measures of a list whose formulas it can compute.
pub(super) fn measures_with(spec: &WorkloadSpec, own: &[OwnMeasure]) -> Arc<Measures> {
    Arc::clone(&resolved(&Measures::of_workload(spec), spec, own).measures)
}

/// Adds the measures of a list to a run's values, and returns the registry with them. `undefined` is told which have no value, and why;
/// those that need a measure that the run lacks have none either.
pub(super) fn own_values(
    base: &Arc<Measures>,
    spec: &WorkloadSpec,
    own: &[OwnMeasure],
    levels: &Levels,
    values: &mut BTreeMap<Key, f64>,
    mut undefined: impl FnMut(&Key, String),
) -> Arc<Measures> {
    if own.is_empty() {
        return Arc::clone(base);
    }
    let resolved = resolved(base, spec, own);
    for (key, code) in &resolved.computed {
        match code.value(&Values { measures: values, levels }) {
            Ok(value) if value.is_finite() => drop(values.insert(key.clone(), value)),
            Ok(_) => undefined(key, "the result is not a finite number".to_owned()),
            Err(NoValue::Undefined(reason)) => undefined(key, reason),
            Err(NoValue::Lacking) => {}
        }
    }
    Arc::clone(&resolved.measures)
}

/// The state of a measure while a list is resolved.
#[derive(Clone)]
enum State {
    New,
    /// Its names are being resolved.
    Open,
    Known(Measure, MeasureUnit),
    Wrong,
}

struct Resolver<'a> {
    base: &'a Measures,
    numbers: &'a Numbers,
    own: &'a [OwnMeasure],
    /// Whether the workload is a program, whose plan declares its measures.
    is_program: bool,
    states: Vec<State>,
    /// The measures whose names are being resolved, each needed by the one before.
    path: Vec<Key>,
    done: Vec<(Measure, Code)>,
    problems: Vec<(Key, OwnProblem)>,
}

/// A part with its unit.
type Checked = Result<(Code, MeasureUnit), OwnProblem>;

impl<'a> Resolver<'a> {
    fn new(base: &'a Measures, numbers: &'a Numbers, own: &'a [OwnMeasure], is_program: bool) -> Self {
        let states = vec![State::New; own.len()];
        Self { base, numbers, own, is_program, states, path: Vec::new(), done: Vec::new(), problems: Vec::new() }
    }

    fn resolve(mut self) -> Resolved {
        (0..self.own.len()).for_each(|place| self.resolve_one(place));
        let measures = self.base.clone().with(self.done.iter().map(|(measure, _)| measure.clone()));
        let computed = self.done.into_iter().map(|(measure, code)| (measure.key, code)).collect();
        Resolved { measures: Arc::new(measures), computed, problems: self.problems }
    }

    fn resolve_one(&mut self, place: usize) {
        if !matches!(self.states[place], State::New) {
            return;
        }
        let own = &self.own[place];
        self.states[place] = State::Open;
        self.path.push(own.key.clone());
        let checked = self.measure(own);
        self.path.pop();
        self.states[place] = match checked {
            Ok((measure, code, unit)) => {
                self.done.push((measure.clone(), code));
                State::Known(measure, unit)
            }
            Err(problem) => {
                self.problems.push((own.key.clone(), problem));
                State::Wrong
            }
        };
    }

    fn measure(&mut self, own: &OwnMeasure) -> Result<(Measure, Code, MeasureUnit), OwnProblem> {
        let refuse = |message: String| OwnProblem::from(FormulaError::at(0, message));
        if let Some(message) = own.refused_name() {
            return Err(refuse(message));
        }
        let is_taken = self.base.find(&own.key).is_some() || self.numbers.iter().any(|(key, _)| *key == own.key);
        if is_taken {
            let message = format!("{:?} is the key of a measure or factor already: choose another key", &*own.key);
            return Err(refuse(message));
        }
        let formula = Formula::parse(&own.formula)?;
        let mut on_speed = false;
        let (code, unit) = self.part(&formula, &formula.root, &mut on_speed)?;
        let shown = match own.unit.as_deref() {
            None => {
                let text = unit.to_string();
                let shown = SHOWN.iter().find(|(known, ..)| *known == text);
                shown.map_or((text, 1.0), |(_, shown, factor)| ((*shown).to_owned(), *factor))
            }
            Some(text) => {
                let asked = MeasureUnit::parse(text);
                if !asked.is_like(&unit) {
                    let message = format!("the formula has {}, which cannot be shown in {text}", named(&unit));
                    return Err(refuse(message));
                }
                (text.trim().to_owned(), asked.factor.recip())
            }
        };
        let name = own.name.clone().unwrap_or_else(|| super::capitalised(&own.key.replace('_', " ")));
        let measure = Measure {
            shown_unit: shown.0,
            shown_factor: shown.1,
            better: own.better,
            on_speed,
            ..Measure::derived(own.key.clone(), name, &unit.to_string())
        };
        Ok((measure, code, unit))
    }

    fn part(&mut self, formula: &Formula, place: &Place, on_speed: &mut bool) -> Checked {
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
        let units: Vec<MeasureUnit> = self.base.iter().map(|measure| MeasureUnit::parse(&measure.unit)).collect();
        let mut known: Vec<&str> =
            units.iter().flat_map(MeasureUnit::parts).filter(|part| !part.contains(' ')).collect();
        known.extend(["s", "B", "J", "W", "FLOP"]);
        known.sort_unstable();
        known.dedup();
        match unit.parts().find(|part| !known.contains(part)) {
            Some(part) => {
                let message = format!("unknown unit {part:?}{}", suggestion(part, &known));
                Err(FormulaError::at(place.at.start, message).into())
            }
            None => Ok((Code::Number(number), unit.clone())),
        }
    }

    fn name(&mut self, key: &Key, place: &Place, on_speed: &mut bool) -> Checked {
        let error = |message: String| FormulaError::at(place.at.start, message);
        if let Some(measure) = self.base.find(key) {
            *on_speed |= measure.on_speed;
            let unit = MeasureUnit::parse(&measure.unit);
            return Ok((Code::Measure(measure.key.clone(), unit.factor), unit.base()));
        }
        if let Some((key, unit)) = self.numbers.iter().find(|(known, _)| known == key) {
            return Ok((Code::Level(key.clone(), unit.factor), unit.base()));
        }
        let Some(other) = self.own.iter().position(|own| own.key == *key) else {
            return Err(OwnProblem { error: error(self.unknown(key)), is_unknown_name: true });
        };
        if matches!(self.states[other], State::Open) {
            let from = self.path.iter().position(|known| known == key).unwrap_or(0);
            let cycle: Vec<&str> = self.path[from..].iter().chain([key]).map(|key| &**key).collect();
            return Err(error(format!("a formula cannot need itself: {}", cycle.join(" needs "))).into());
        }
        self.resolve_one(other);
        match &self.states[other] {
            State::Known(measure, unit) => {
                *on_speed |= measure.on_speed;
                Ok((Code::Measure(key.clone(), 1.0), unit.clone()))
            }
            _ => {
                let unknown = self.problems.iter().any(|(known, problem)| known == key && problem.is_unknown_name);
                let error = error(format!("{key} is needed, and its own formula is wrong"));
                Err(OwnProblem { error, is_unknown_name: unknown })
            }
        }
    }

    fn unknown(&self, key: &Key) -> String {
        if MeasureUnit::symbol(key).is_some() {
            return format!("{key} is a unit, which follows its number: 1 {key}");
        }
        let measures = self.base.iter().map(|measure| &*measure.key).chain([super::THROUGHPUT]);
        let own = self.own.iter().map(|own| &*own.key).filter(|own| !self.path.iter().any(|open| **open == **own));
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

/// What a measure of one's own is in some workloads.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnOutcome {
    /// The measure in the first workload that its formula fits.
    pub measure: Measure,
    /// The workloads that lack a measure that it names: why.
    pub lacking: Vec<String>,
}

/// Checks one measure of a list for the workloads of a session or a plan.
///
/// # Errors
/// Its formula fits none of them, or is wrong in one that has all measures that it names.
pub(super) fn check_own<'a>(
    specs: impl IntoIterator<Item = &'a WorkloadSpec>,
    own: &[OwnMeasure],
    key: &str,
) -> Result<OwnOutcome, FormulaError> {
    let (mut fits, mut lacking): (Option<Measure>, Vec<FormulaError>) = (None, Vec::new());
    for spec in specs {
        let resolved = resolved(&Measures::of_workload(spec), spec, own);
        match resolved.problems.iter().find(|(known, _)| **known == *key) {
            Some((_, problem)) if problem.is_unknown_name => lacking.push(problem.error.clone()),
            Some((_, problem)) => return Err(problem.error.clone()),
            None => fits = fits.or_else(|| resolved.measures.find(key).cloned()),
        }
    }
    match fits {
        Some(measure) => Ok(OwnOutcome { measure, lacking: lacking.iter().map(ToString::to_string).collect() }),
        None => Err(lacking.into_iter().next().unwrap_or_else(|| FormulaError::at(0, "there is no such measure"))),
    }
}

/// Checks the measures of one's own of a plan that was read from `origin`.
///
/// # Errors
/// A formula names an unknown measure, mixes units, needs itself or divides by zero; the error names its line.
pub fn check_measures(plan: &Plan, origin: &str) -> Result<(), PlanError> {
    let own: Vec<OwnMeasure> = plan.measures.iter().map(|planned| planned.measure.clone()).collect();
    let problem = |PlannedMeasure { measure, line }: &PlannedMeasure| {
        let error = check_own(plan.blocks().map(|block| &*block.spec), &own, &measure.key).err()?;
        let (origin, key) = (origin.to_owned(), format!("measures.{}", measure.key));
        Some(Problem { origin, line: *line, key, message: error.to_string() })
    };
    let problems: Vec<Problem> = plan.measures.iter().filter_map(problem).collect();
    if problems.is_empty() { Ok(()) } else { Err(PlanError::Invalid(problems)) }
}

#[cfg(test)]
#[path = "own_tests.rs"]
mod tests;
