//! A command as the texts of a form. The texts become a plan, or a message about what is wrong with them.

mod lists;

use std::sync::Arc;

use super::command::{Command, DeclaredFactor, KEY, PLACING, own_measures, spec};
use super::{Better, Block, Data, DeclaredMeasure, GPUS, Key, Level, Plan, PlanError, WorkloadSpec};

/// The texts of a form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandTexts {
    /// The program and its arguments; quotes keep words with spaces together.
    pub run: String,
    /// The folder that the program runs in, relative to the plan's folder; empty for the plan's folder itself.
    pub folder: String,
    /// A program that runs before runs, written like `run`; empty for none.
    pub setup: String,
    /// Environment variables, one `NAME=text` on each line.
    pub variables: String,
    /// A run is ended after this time, in seconds; empty for the plan's limit.
    pub time_limit_s: String,
    /// The word for what the program counts; empty for `units`.
    pub unit: String,
    /// The word for what the program repeats; empty for `step`.
    pub step: String,
    /// The factors.
    pub factors: Vec<FactorTexts>,
    /// Patterns for the program's output, one on each line.
    pub patterns: String,
    /// Files of readings, one on each line.
    pub files: String,
    /// The meanings of the program's names, one `name = meaning` on each line.
    pub names: String,
    /// Whether the end of the warm-up is found from step times.
    pub finds_warm_up: bool,
    /// The measures that the program's readings belong to.
    pub measures: Vec<MeasureTexts>,
}

/// The texts of a factor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FactorTexts {
    /// The factor's key.
    pub key: String,
    /// Its levels, separated by commas.
    pub levels: String,
    /// Its name on screen; empty for the key.
    pub name: String,
    /// The unit of its levels.
    pub unit: String,
    /// One line of help: what the factor changes.
    pub help: String,
}

/// The texts of a measure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeasureTexts {
    /// The measure's key, which is the name of its readings.
    pub key: String,
    /// Its name on screen; empty for the key.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Which values are good.
    pub better: Better,
    /// Whether it depends on the speed of the machine.
    pub on_speed: bool,
}

impl CommandTexts {
    /// The texts of the command in a plan's first block; `None` for other workloads.
    pub fn of(plan: &Plan) -> Option<Self> {
        let Block { spec, factors, .. } = &plan.first;
        let command = spec.command.as_deref()?;
        let pairs = |pairs: &mut dyn Iterator<Item = (&String, &String)>, between: &str| {
            let lines: Vec<String> = pairs.map(|(name, text)| lists::pair_text(name, between, text)).collect();
            lists::lines_text(&lines)
        };
        let factors = factors.iter().map(|(key, ticked)| {
            let texts = command.factors.iter().find(|texts| texts.key == *key).cloned().unwrap_or_default();
            let text = Option::unwrap_or_default;
            let (name, unit, help) = (text(texts.name), text(texts.unit), text(texts.help));
            FactorTexts { key: key.to_string(), levels: lists::levels_text(ticked), name, unit, help }
        });
        let measures = declared(spec).map(|measure| MeasureTexts {
            key: measure.key.to_string(),
            name: if *measure.name == *measure.key { String::new() } else { measure.name.to_string() },
            unit: measure.unit.to_string(),
            better: measure.better,
            on_speed: measure.on_speed,
        });
        let usual = starting_command();
        let unless = |text: &str, usual: &str| if text == usual { String::new() } else { text.to_owned() };
        let readings = &command.readings;
        Some(Self {
            run: lists::words_text(&command.run),
            folder: command.folder.clone().unwrap_or_default(),
            setup: lists::words_text(&command.setup),
            variables: pairs(&mut command.env.iter().map(|(name, text)| (name, text)), "="),
            time_limit_s: command.time_limit_s.map_or(String::new(), |limit_s| limit_s.to_string()),
            unit: unless(&spec.unit.many, &usual.unit.many),
            step: unless(&spec.step, &usual.step),
            factors: factors.collect(),
            patterns: lists::lines_text(&readings.patterns),
            files: lists::lines_text(&readings.files),
            names: pairs(&mut readings.names.iter(), " = "),
            finds_warm_up: readings.finds_warm_up,
            measures: measures.collect(),
        })
    }

    /// The plan with this command in its first block.
    ///
    /// # Errors
    /// What is wrong with the texts, as for a plan file.
    pub fn plan(&self, plan: &Plan) -> Result<Plan, String> {
        let filled = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let before = &plan.first.spec;
        let mut command = before.command.as_deref().cloned().unwrap_or_default();
        command.run = lists::words(&self.run)?;
        command.setup = lists::words(&self.setup).map_err(|error| format!("set-up: {error}"))?;
        command.folder = filled(&self.folder);
        command.time_limit_s = filled(&self.time_limit_s).map(|text| seconds(&text)).transpose()?;
        let pair = |line: &str, what: &str, shape: &str| {
            lists::pair(line).ok_or_else(|| format!("the {what} {line:?} has no =: write {shape}"))
        };
        let variables = lists::lines(&self.variables);
        command.env = variables.iter().map(|line| pair(line, "variable", "NAME=text")).collect::<Result<_, _>>()?;
        let names = lists::lines(&self.names);
        let names = names.iter().map(|line| pair(line, "name", "its name = loss"));
        let names = names.map(|pair| pair.map(|(name, meaning)| (name, meaning.trim().to_owned())));
        command.readings.names = names.collect::<Result<_, _>>()?;
        (command.readings.patterns, command.readings.files) = (lists::lines(&self.patterns), lists::lines(&self.files));
        command.readings.finds_warm_up = self.finds_warm_up;
        let mut ticked: Vec<(Key, Vec<Level>)> = Vec::new();
        command.factors.clear();
        for FactorTexts { key, levels, name, unit, help } in &self.factors {
            let key = Key::from(key.trim());
            if ticked.iter().any(|(known, _)| *known == key) {
                return Err(format!("{key} is a factor already: add levels to it"));
            }
            let filled_texts =
                DeclaredFactor { key: key.clone(), name: filled(name), unit: filled(unit), help: filled(help) };
            if filled_texts != (DeclaredFactor { key: key.clone(), ..DeclaredFactor::default() }) {
                command.factors.push(filled_texts);
            }
            ticked.push((key, lists::levels(levels)?));
        }
        let mut measures: Vec<DeclaredMeasure> = Vec::new();
        for MeasureTexts { key, name, unit, better, on_speed } in &self.measures {
            let key = Key::from(key.trim());
            if measures.iter().chain(&own_measures()).any(|known| known.key == key) {
                return Err(format!("{key} is a measure already: give the reading another name"));
            }
            let name = filled(name).unwrap_or_else(|| key.to_string()).into();
            let unit = unit.trim().into();
            let (better, on_speed) = (*better, *on_speed);
            measures.push(DeclaredMeasure { key, name, unit, better, on_speed, ..DeclaredMeasure::default() });
        }
        let usual = starting_command();
        let (unit, step) = (filled(&self.unit), filled(&self.step));
        let (unit, step) = (unit.as_deref().unwrap_or(&usual.unit.many), step.as_deref().unwrap_or(&usual.step));
        let named = |name: Key| spec(Command { name, ..command.clone() }, ticked.clone(), unit, step, measures.clone());
        let spec = with_own_name(&named, &command.name, plan);
        let mut edited = plan.clone();
        edited.first =
            Block { spec: Arc::new(spec), data: Data::default(), factors: ticked, design: edited.first.design.take() };
        let mut edited = Plan::parse(&edited.to_toml(), &plan.name).map_err(|error| match error {
            PlanError::Invalid(problems) => {
                let problems = problems.into_iter().map(|problem| format!("{}: {}", problem.key, problem.message));
                problems.collect::<Vec<_>>().join("\n")
            }
            other => other.to_string(),
        })?;
        edited.set_folder(plan.folder());
        Ok(edited)
    }

    /// The texts with one more factor. Unless the command already contains its placeholder, an argument with it is added.
    pub fn with_factor(mut self, key: &str, levels: &str) -> Self {
        let key = key.trim();
        let stands = [&self.run, &self.folder, &self.variables]
            .iter()
            .any(|text| text.contains(&format!("{{{key}}}")) || text.contains(&format!("{{{key}:")));
        if !stands && !PLACING.contains(&key) {
            let is_on_or_off = |level: &Level| level.as_text().is_some_and(|text| ["on", "off"].contains(&text));
            let is_switch = lists::levels(levels).is_ok_and(|levels| levels.iter().all(is_on_or_off));
            let word = if is_switch { format!("{{{key}:--{key}}}") } else { format!("--{key}={{{key}}}") };
            self.run = format!("{} {word}", self.run.trim_end());
        }
        self.factors.push(FactorTexts { key: key.to_owned(), levels: levels.to_owned(), ..FactorTexts::default() });
        self
    }

    /// Whether the program's runs get no GPU.
    pub fn uses_no_gpu(&self) -> bool {
        self.factors.iter().any(|factor| factor.key == GPUS && factor.levels.trim() == "0")
    }

    /// Whether a factor decides how many GPUs the runs get.
    pub fn has_gpus(&self) -> bool {
        self.factors.iter().any(|factor| factor.key == GPUS)
    }

    /// The texts without a factor, and without the arguments that contain its placeholder.
    pub fn without_factor(mut self, index: usize) -> Self {
        if index < self.factors.len() {
            let FactorTexts { key, .. } = self.factors.remove(index);
            let stands = |word: &str| word.contains(&format!("{{{key}}}")) || word.contains(&format!("{{{key}:"));
            if let Ok(words) = lists::words(&self.run) {
                self.run = lists::words_text(&words.into_iter().filter(|word| !stands(word)).collect::<Vec<_>>());
            }
        }
        self
    }
}

/// The edited program of a plan's first block, with a name that no other program of the plan has, because the other blocks keep the
/// unedited program. If an edit makes both programs equal again, the edited program gets their name back.
fn with_own_name(named: &dyn Fn(Key) -> WorkloadSpec, name: &Key, plan: &Plan) -> WorkloadSpec {
    let others: Vec<&WorkloadSpec> =
        plan.further.iter().map(|block| &*block.spec).filter(|spec| spec.command.is_some()).collect();
    let is_same = |spec: &WorkloadSpec, other: &WorkloadSpec| {
        (&spec.command, &spec.unit, &spec.step, &spec.measures)
            == (&other.command, &other.unit, &other.step, &other.measures)
    };
    let base = name.rsplit_once('-').filter(|(_, number)| number.parse::<u32>().is_ok()).map(|(base, _)| base);
    let was_shared = |other: &&&WorkloadSpec| other.key == *name || base.is_some_and(|base| *other.key == *base);
    if let Some(same) = others.iter().filter(was_shared).find(|other| is_same(&named(other.key.clone()), other)) {
        return named(same.key.clone());
    }
    if others.iter().all(|other| other.key != *name) {
        return named(name.clone());
    }
    let base = base.unwrap_or(name);
    let is_free = |name: &Key| others.iter().all(|other| other.key != *name);
    let free = (2_u32..).map(|number| Key::from(format!("{base}-{number}").as_str())).find(is_free);
    named(free.unwrap_or_else(|| name.clone()))
}

/// The program with which a new form of the window starts.
pub fn starting_command() -> Arc<WorkloadSpec> {
    let command = Command {
        name: KEY.into(),
        run: vec!["python3".to_owned(), "train.py".to_owned(), "--seed={seed}".to_owned()],
        ..Command::default()
    };
    Arc::new(spec(command, Vec::new(), "units", crate::plan::USUAL_STEP, Vec::new()))
}

/// The measures that a plan declares for its command.
fn declared(spec: &WorkloadSpec) -> impl Iterator<Item = &DeclaredMeasure> {
    let own = own_measures();
    spec.measures.iter().filter(move |measure| !own.contains(measure))
}

/// Reads a typed time limit, in seconds.
fn seconds(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('s').unwrap_or(text).trim().parse::<f64>().ok();
    let number = number.filter(|limit_s| limit_s.is_finite() && *limit_s > 0.0);
    number.ok_or_else(|| format!("the time limit {text:?} is not a number of seconds: write a number such as 600"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::collection::{btree_map, btree_set, vec};
    use proptest::prelude::*;

    use super::*;
    use crate::plan::command::ReadingsSpec;

    fn begun() -> Plan {
        Plan::new("own", starting_command())
    }

    fn factor(key: &str, levels: &str) -> FactorTexts {
        FactorTexts { key: key.to_owned(), levels: levels.to_owned(), ..FactorTexts::default() }
    }

    #[test]
    fn an_edited_program_that_other_blocks_run_gets_a_name_of_its_own_until_it_is_theirs_again() {
        let mut plan = begun();
        plan.further.push(plan.first.clone());
        let texts = CommandTexts::of(&plan).unwrap();
        let name = |plan: &Plan| plan.blocks().map(|block| block.spec.key.to_string()).collect::<Vec<_>>();
        let run = |run: &str| CommandTexts { run: run.to_owned(), ..texts.clone() };
        let edited = run("python3 other.py").plan(&plan).unwrap();
        assert_eq!(name(&edited), ["command-2", "command"]);
        assert_eq!(edited.further, plan.further, "the other block keeps its program");
        let more = run("python3 another.py").plan(&edited).unwrap();
        assert_eq!(name(&more), ["command-2", "command"]);
        let back = texts.plan(&more).unwrap();
        assert_eq!((name(&back), &back), (vec!["command".to_owned(), "command".to_owned()], &plan));
        // What a program counts is a part of it, too.
        let unit = CommandTexts { unit: "tokens".to_owned(), ..texts.clone() }.plan(&plan).unwrap();
        assert_eq!((name(&unit)[0].as_str(), unit.further[0].spec.unit.many.as_ref()), ("command-2", "units"));
        // A third program does not take the second one's name.
        let mut three = edited;
        three.further.push(plan.first.clone());
        let third = run("python3 third.py").plan(&three.turned(2)).unwrap();
        assert_eq!(name(&third), ["command-3", "command", "command-2"]);
    }

    #[test]
    fn texts_become_the_plan_that_has_them() {
        let texts = CommandTexts {
            run: "python3 \"my train.py\" --precision={precision} {compile:--compile} {workers}".to_owned(),
            folder: "work".to_owned(),
            setup: "make \"my target\"".to_owned(),
            variables: "NCCL_ALGO={algorithm}\n\nEMPTY=".to_owned(),
            time_limit_s: "90.5".to_owned(),
            unit: "images".to_owned(),
            step: "pass".to_owned(),
            factors: vec![
                factor("precision", "fp32, bf16"),
                factor("compile", "off, on"),
                FactorTexts { name: "Ring or tree".to_owned(), help: "how".to_owned(), ..factor("algorithm", "Ring") },
                factor("gpus", "1, 2"),
                factor("workers", "auto, 4"),
            ],
            patterns: "loss (?<loss>\\S+)".to_owned(),
            files: "{run_folder}/logs/".to_owned(),
            names: "train/loss = loss\nlr=learning_rate".to_owned(),
            finds_warm_up: true,
            measures: vec![
                MeasureTexts {
                    key: "rate".to_owned(),
                    name: "Rate".to_owned(),
                    unit: "rows/s".to_owned(),
                    better: Better::Higher,
                    on_speed: true,
                },
                MeasureTexts { key: "left".to_owned(), ..MeasureTexts::default() },
            ],
        };
        let plan = texts.plan(&begun()).unwrap();
        assert_eq!(plan.combinations(), 16);
        let command = plan.first.spec.command.as_deref().unwrap();
        assert_eq!(command.run[1], "my train.py");
        assert_eq!(plan.first.levels("gpus"), [Level::Integer(1), Level::Integer(2)]);
        assert_eq!((command.setup[1].as_str(), command.time_limit_s), ("my target", Some(90.5)));
        let again = CommandTexts::of(&plan).unwrap();
        assert_eq!(again.plan(&begun()).unwrap(), plan);
        let names = "lr = learning_rate\ntrain/loss = loss".to_owned();
        let variables = "NCCL_ALGO={algorithm}\nEMPTY=".to_owned();
        assert_eq!(again, CommandTexts { names, variables, ..texts });
        assert_eq!(Plan::parse(&plan.to_toml(), "own").unwrap(), plan);
    }

    #[test]
    fn the_folder_of_the_plan_stays_while_texts_change() {
        let mut plan = begun();
        plan.set_folder(Some("/plans"));
        let texts = CommandTexts { folder: "work".to_owned(), ..CommandTexts::of(&plan).unwrap() };
        let plan = texts.plan(&plan).unwrap();
        let command = plan.first.spec.command.as_deref().unwrap();
        assert_eq!(command.filled(&|_| Some("1".to_owned())).unwrap().folder.as_deref(), Some("/plans/work"));
    }

    #[test]
    fn what_is_wrong_is_said_and_the_plan_stays() {
        let texts = |run: &str| CommandTexts { run: run.to_owned(), ..CommandTexts::of(&begun()).unwrap() };
        for (texts, expected) in [
            (texts(""), "command.run: an empty list"),
            (texts("a --lr={lr}"), "unknown placeholder {lr}"),
            (texts("a \"b"), "a \" is not closed"),
            (CommandTexts { patterns: "loss".to_owned(), ..texts("a") }, "no named group"),
            (CommandTexts { variables: "A".to_owned(), ..texts("a") }, "has no ="),
            (CommandTexts { factors: vec![factor("lr", "")], ..texts("a {lr}") }, "empty list"),
            (CommandTexts { setup: "make '".to_owned(), ..texts("a") }, "set-up: a ' is not closed"),
            (CommandTexts { setup: "make {it}".to_owned(), ..texts("a") }, "unknown placeholder {it}"),
            (CommandTexts { time_limit_s: "10m".to_owned(), ..texts("a") }, "is not a number of seconds"),
            (CommandTexts { names: "lr".to_owned(), ..texts("a") }, "the name \"lr\" has no ="),
            (CommandTexts { measures: vec![MeasureTexts::default()], ..texts("a") }, "a key has 1 to 100 letters"),
        ] {
            let error = texts.plan(&begun()).unwrap_err();
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }

    #[test]
    fn a_factor_brings_its_argument_and_takes_it_along() {
        let texts = CommandTexts::of(&begun()).unwrap();
        let run = texts.run.clone();
        let more = texts.with_factor("batch", "32, 64").with_factor("amp", "off, on").with_factor("gpus", "1, 2");
        assert_eq!(more.run, format!("{run} --batch={{batch}} {{amp:--amp}}"));
        assert_eq!(more.plan(&begun()).unwrap().combinations(), 8);
        let fewer = more.without_factor(2).without_factor(1).without_factor(0);
        assert_eq!((fewer.run.as_str(), fewer.factors.len()), (run.as_str(), 0));
        fewer.plan(&begun()).unwrap();
    }

    proptest! {
        #[test]
        fn a_plan_stays_as_it_is_while_its_texts_do(
            words in vec("[a-z \"',=]{0,6}", 0..3),
            levels in btree_set("[0-9.]{1,3}|[a-z0-9 \"',.\n]{0,5}", 1..4),
            variables in btree_map("[A-Z=\"' ]{0,3}N", "[a-z \"'=\n]{0,6}", 0..3),
            (patterns, files) in (vec("[a-z \"'\n]{0,5}", 0..3), vec("[a-z \"'\n]{0,5}", 0..3)),
            names in btree_map("[a-z =\"']{0,5}", Just("loss".to_owned()), 0..3),
        ) {
            let own = ["a.out".to_owned(), "{v}".to_owned()];
            let command = Command {
                run: own.into_iter().chain(words.clone()).collect(),
                setup: words,
                env: variables.into_iter().map(|(name, text)| (name.replace('=', "-"), text)).collect(),
                readings: ReadingsSpec {
                    patterns: patterns.into_iter().map(|text| format!("{text}(?<loss>.)")).collect(),
                    files: files.into_iter().map(|text| format!("{text}a.csv")).collect(),
                    names,
                    finds_warm_up: false,
                },
                ..starting_command().command.as_deref().cloned().unwrap()
            };
            let levels: Vec<Level> = levels.iter().map(|text| Level::text(text)).collect();
            let ticked = vec![(Key::from("v"), levels)];
            let mut plan = Plan::new("own", Arc::new(spec(command, ticked.clone(), "units", "step", Vec::new())));
            plan.first.factors = ticked;
            let plan = Plan::parse(&plan.to_toml(), "own").unwrap();
            prop_assert_eq!(CommandTexts::of(&plan).unwrap().plan(&plan).unwrap(), plan);
        }
    }
}
