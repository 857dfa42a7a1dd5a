//! Programs as workloads: the `[command]` of a plan.
//!
//! A command is a value that comes with its plan: the program with its arguments, in which placeholders stand for the levels of the cell.
//! Its factors are the ones that the plan's `[factors]` name.

mod differences;
mod readings;
mod spread;
mod table;
mod template;

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use differences::differences;
pub use readings::{ReadFile, ReadingsSpec, compiled};
pub(in crate::plan) use spread::PLACING;
pub use spread::RANKS_PER_NODE;
use spread::Spread;
pub(in crate::plan) use table::{defined, name_in, write};
pub use template::{BUILT_IN, filled};

use super::typed::binding;
use super::{DeclaredMeasure, Request, USUAL_DATA, USUAL_STEP, Unit, WorkloadSpec, workloads};
use crate::plan::{Better, Binding, Domain, Estimate, Factor, GpuChoice, Key, Level, Levels, Shape};

/// The key of a command without a name.
pub const KEY: &str = "command";
/// The measure for the memory that all processes of a run use at the same time.
pub const PEAK_RESIDENT: &str = "peak_resident_bytes";
/// The measure for the CPU time of all processes of a run.
pub const CPU_TIME: &str = "cpu_time_s";
/// The measure for a program's own time, without the set-up.
pub const PROGRAM_TIME: &str = "program_time_s";
/// The reading for the code with which a program exited.
pub const EXIT_CODE: &str = "exit_code";
/// The readings that multicard itself takes of every program.
pub const OUTSIDE: [&str; 4] = [PROGRAM_TIME, CPU_TIME, PEAK_RESIDENT, EXIT_CODE];

/// The words that multicard defines in `[command]`: keys of tables, and names of choices.
pub(in crate::plan) fn words() -> impl Iterator<Item = &'static str> {
    let words = [table::KEYS, table::FACTOR_KEYS, readings::READINGS_KEYS, readings::MEASURE_KEYS, readings::WARM_UP];
    words.into_iter().flatten().copied()
}

/// A program to run, with its placeholders.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// The key of the command's workload.
    pub name: Key,
    /// The program and its arguments.
    pub run: Vec<String>,
    /// The folder that the program runs in, relative to `base`; `None` for `base` itself.
    #[serde(default)]
    pub folder: Option<String>,
    /// The absolute folder of the plan's file; `None` for a plan without a file, whose programs start in the working directory. The folder
    /// is not part of the cells' identities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Environment variables for the program.
    #[serde(default)]
    pub env: Vec<(String, String)>,
    /// A program that runs before each run whose set-up is not the last one that was executed in its folder; empty for none.
    #[serde(default)]
    pub setup: Vec<String>,
    /// A run is ended after this time, in seconds; `None` for the plan's limit.
    #[serde(default)]
    pub time_limit_s: Option<f64>,
    /// Names, units and help of its factors.
    #[serde(default)]
    pub factors: Vec<DeclaredFactor>,
    /// Where its readings come from.
    #[serde(default)]
    pub readings: ReadingsSpec,
}

/// The name, unit and help that a plan gives to a factor of its command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeclaredFactor {
    /// The factor's key.
    pub key: Key,
    /// Its name on screen.
    #[serde(default)]
    pub name: Option<String>,
    /// The unit of its levels.
    #[serde(default)]
    pub unit: Option<String>,
    /// One line of help: what the factor changes.
    #[serde(default)]
    pub help: Option<String>,
}

/// A run's command with every placeholder filled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filled {
    /// The program and its arguments.
    pub run: Vec<String>,
    /// The folder that the program runs in; `None` for the working directory.
    pub folder: Option<String>,
    /// Environment variables for the program.
    pub env: Vec<(String, String)>,
    /// The set-up program and its arguments.
    pub setup: Vec<String>,
}

impl Command {
    /// The command with its placeholders filled by `value`.
    ///
    /// # Errors
    /// A placeholder is unknown or malformed, or no word of `run` is left.
    pub fn filled(&self, value: &dyn Fn(&str) -> Option<String>) -> Result<Filled, String> {
        let words = |words: &[String]| -> Result<Vec<String>, String> {
            words.iter().filter_map(|word| filled(word, value).transpose()).collect()
        };
        let run = words(&self.run)?;
        if run.first().is_none_or(String::is_empty) {
            return Err("the command names no program".to_owned());
        }
        let folder = self.folder.as_deref().map(|folder| filled(folder, value)).transpose()?.flatten();
        let folder = self.in_base(folder);
        let env = self.env.iter().filter_map(|(name, text)| match filled(text, value) {
            Ok(text) => text.map(|text| Ok((name.clone(), text))),
            Err(error) => Some(Err(error)),
        });
        Ok(Filled { run, folder, env: env.collect::<Result<_, _>>()?, setup: words(&self.setup)? })
    }

    /// The folder that the program runs in, with its placeholders as the plan writes them; `None` for the working directory.
    pub fn written_folder(&self) -> Option<String> {
        self.in_base(self.folder.clone())
    }

    fn in_base(&self, folder: Option<String>) -> Option<String> {
        match (&self.base, folder) {
            (Some(base), Some(folder)) => Some(Path::new(base).join(folder).to_string_lossy().into_owned()),
            (base, folder) => folder.or(base.clone()),
        }
    }

    /// The parts of the command that determine what runs: program, arguments, folder, variables and set-up. Limits, readings and names of
    /// factors do not.
    pub(super) fn what_runs(&self) -> impl PartialEq + Serialize {
        let Self { run, folder, env, setup, .. } = self;
        (run, folder, env, setup)
    }

    /// The command lines for these levels: the set-up and the program, each on a line, as one would type them into a shell. Placeholders
    /// that are known only when a run starts are left in.
    pub fn lines(&self, levels: &Levels) -> Vec<String> {
        let value = |name: &str| Some(levels.get(name).map_or_else(|| format!("{{{name}}}"), ToString::to_string));
        let Ok(Filled { run, folder, env, setup }) = self.filled(&value) else {
            return vec![format!("{:?}", self.run)];
        };
        let folder = folder.map_or(String::new(), |folder| format!("cd {} && ", typed(&folder)));
        let variables: String = env.iter().map(|(name, text)| format!("{name}={} ", typed(text))).collect();
        let line = |words: &[String]| {
            let words: Vec<String> = words.iter().map(|word| typed(word)).collect();
            format!("{folder}{variables}{}", words.join(" "))
        };
        [&setup, &run].into_iter().filter(|words| !words.is_empty()).map(|words| line(words)).collect()
    }

    /// The digest that enters a cell's identity: the SHA-256 of the program, its arguments, folder, variables and set-up, as they are
    /// written in the plan. The content of the program's own files is not included.
    pub fn digest(&self) -> String {
        let text = serde_json::json!(self.what_runs()).to_string();
        Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A word, quoted for a shell. Placeholders are left as they are.
pub fn typed(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./:=,@%+{}".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// The workload of a command. `ticked` contains the factors that its plan names, with all ticked levels.
pub(in crate::plan) fn spec(
    command: Command,
    ticked: Vec<(Key, Vec<Level>)>,
    unit: &str,
    step: &str,
    measures: Vec<DeclaredMeasure>,
) -> WorkloadSpec {
    let factors = ticked.into_iter().map(|(key, levels)| {
        let texts = command.factors.iter().find(|texts| texts.key == key);
        factor_of_levels(&key, &levels, texts)
    });
    let one = unit.strip_suffix('s').filter(|one| !one.is_empty()).unwrap_or(unit);
    WorkloadSpec {
        key: command.name.clone(),
        name: command.name.as_str().into(),
        unit: Unit { one: one.into(), many: unit.into() },
        step: step.into(),
        data_name: USUAL_DATA.into(),
        factors: factors.collect(),
        main_factors: Vec::new(),
        data_sets: Vec::new(),
        cuts: Vec::new(),
        measures: own_measures().into_iter().chain(measures).collect(),
        recurring_cells: Default::default(),
        declared_cells: Default::default(),
        command: Some(Arc::new(command)),
        check,
    }
}

/// The measures that are taken of every program, even if it reports nothing.
pub fn own_measures() -> Vec<DeclaredMeasure> {
    let measure = |key: &str, name: &str, unit: &str| DeclaredMeasure {
        key: key.into(),
        name: name.into(),
        unit: unit.into(),
        better: Better::Lower,
        on_speed: unit == "s",
        written_steps: None,
        recurring_cells: Default::default(),
        dependent_cells: Default::default(),
    };
    vec![
        measure(PROGRAM_TIME, "Time of the program", "s"),
        measure(CPU_TIME, "CPU time of all processes", "s"),
        measure(PEAK_RESIDENT, "Peak resident memory of all processes", "B"),
    ]
}

/// A factor made from its levels; the first level is the default. If a built-in workload has the same key, the factor
/// takes over its name, its unit, and the order of levels that decides colours.
pub fn factor_of_levels(key: &Key, levels: &[Level], texts: Option<&DeclaredFactor>) -> Factor {
    let known = workloads().iter().find_map(|spec| spec.factor(key));
    let first = levels.first().cloned().unwrap_or(Level::text(""));
    let names: Vec<Arc<str>> = levels.iter().filter_map(|level| level.as_text().map(Arc::from)).collect();
    let domain = if names.is_empty() {
        let whole = levels.iter().all(|level| matches!(level, Level::Integer(_)));
        if whole {
            Domain::Integer { min: i64::MIN, max: i64::MAX }
        } else {
            Domain::Number { min: f64::MIN, max: f64::MAX }
        }
    } else {
        let is_switch = names.iter().all(|name| [template::ON, template::OFF].contains(&&**name));
        let before: Vec<Arc<str>> = match known.map(|known| &known.domain) {
            Some(Domain::Names(known) | Domain::GpuSet(known)) => known.clone(),
            _ if is_switch => vec![template::OFF.into(), template::ON.into()],
            _ => Vec::new(),
        };
        let new = names.into_iter().filter(|name| !before.contains(name)).collect::<Vec<_>>();
        Domain::Names([before, new].concat())
    };
    let is_alike = known.is_some_and(|known| {
        let is_named = matches!((&known.domain, &domain), (Domain::GpuSet(_), Domain::Names(_)));
        is_named
            || (std::mem::discriminant(&known.domain) == std::mem::discriminant(&domain)
                && known.domain != Domain::Path)
    });
    let known = known.filter(|_| is_alike);
    let usual = match (&domain, known) {
        (Domain::Names(_), _) => Vec::new(),
        (_, Some(known)) => known.usual.clone(),
        (_, None) => {
            let mut usual: Vec<f64> = levels.iter().filter_map(Level::as_number).collect();
            usual.sort_by(f64::total_cmp);
            usual
        }
    };
    let name =
        texts.and_then(|texts| texts.name.as_deref()).or(known.map(|known| &*known.name)).unwrap_or(key.as_str());
    // A unit such as "per GPU" of a built-in workload need not fit the program.
    let known_unit = known.map(|known| &*known.unit).filter(|unit| !unit.contains(" per "));
    let unit = texts.and_then(|texts| texts.unit.as_deref()).or(known_unit).unwrap_or_default();
    Factor {
        key: key.clone(),
        name: name.into(),
        unit: unit.into(),
        domain,
        default: first,
        // This is not a level: every level is part of a cell's identity.
        frozen_default: Level::text(""),
        idle: Vec::new(),
        usual,
        speaks_for_itself: false,
        hints: Vec::new(),
        help: texts.and_then(|texts| texts.help.clone()).unwrap_or_default(),
        finding: String::new(),
    }
}

pub(in crate::plan) fn check(request: &Request) -> Result<(Shape, Estimate), String> {
    let Request { spec, levels, node, .. } = *request;
    let Some(command) = &spec.command else {
        return Err(format!("the session does not contain the command {}: add its plan again", spec.key));
    };
    let spread = Spread::read(levels)?;
    let level = |name: &str| levels.get(name).map(ToString::to_string);
    let value = |name: &str| level(name).or_else(|| is_built_in(name).then(|| "1".to_owned()));
    command.filled(&value)?;
    if let Some(reason) = spread.refusal(node) {
        return Err(reason);
    }
    let Spread { nodes, devices_per_node, ranks_per_node } = spread;
    let gpu_choice = GpuChoice::read(levels)?;
    if let Some(reason) = gpu_choice.refusal(node, !node.gpus.is_empty(), devices_per_node as usize) {
        return Err(reason);
    }
    let binding = if levels.get(Binding::KEY).is_some() { binding(levels)? } else { Binding::Off };
    let shape = Shape {
        processes: nodes,
        devices_per_process: devices_per_node,
        binding,
        gpu_choice,
        own_program: true,
        ranks_per_node,
        ..Shape::default()
    };
    Ok((shape, Estimate::default()))
}

fn is_built_in(name: &str) -> bool {
    BUILT_IN.iter().any(|(known, _)| *known == name)
}

/// The unit and the word for steps in plans that state none.
const USUAL: (&str, &str) = ("units", USUAL_STEP);

#[cfg(test)]
#[path = "command/tests.rs"]
mod tests;
