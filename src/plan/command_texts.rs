//! A command as a form edits it: texts that become a plan, or what is wrong with them.

use std::sync::Arc;

use super::command::{Command, GPUS, KEY, own_measures, spec};
use super::{Binding, Block, Data, Key, Level, Plan, PlanError, WorkloadSpec};

/// The texts of a form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandTexts {
    /// The program and its arguments; quotes hold words with spaces together.
    pub run: String,
    /// The folder that it runs in; empty for the working directory.
    pub folder: String,
    /// Variables, each as `NAME=text` on a line.
    pub variables: String,
    /// The factors, each with its levels separated by commas.
    pub factors: Vec<(String, String)>,
    /// Patterns over its output, one a line.
    pub patterns: String,
    /// Files of readings, one a line.
    pub files: String,
}

impl CommandTexts {
    /// The texts of a block's command; none for other workloads.
    pub fn of(block: &Block) -> Option<Self> {
        let Command { run, folder, env, readings, .. } = block.spec.command.as_deref()?;
        let variables: Vec<String> = env.iter().map(|(name, text)| format!("{name}={text}")).collect();
        let levels = |levels: &[Level]| joined(&levels.iter().map(Level::to_string).collect::<Vec<_>>(), ", ");
        Some(Self {
            run: joined(run, " "),
            folder: folder.clone().unwrap_or_default(),
            variables: variables.join("\n"),
            factors: block.factors.iter().map(|(key, ticked)| (key.to_string(), levels(ticked))).collect(),
            patterns: readings.patterns.join("\n"),
            files: readings.files.join("\n"),
        })
    }

    /// The plan with this command in its first block.
    ///
    /// # Errors
    /// What is wrong with the texts, as for a plan file.
    pub fn plan(&self, plan: &Plan) -> Result<Plan, String> {
        let lines =
            |text: &str| text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect::<Vec<_>>();
        let before = &plan.first.spec;
        let mut command = before.command.as_deref().cloned().unwrap_or_default();
        command.run = split(&self.run, char::is_whitespace)?;
        command.folder = Some(self.folder.trim().to_owned()).filter(|folder| !folder.is_empty());
        let variable = |line: String| match line.split_once('=') {
            Some((name, text)) => Ok((name.trim().to_owned(), text.to_owned())),
            None => Err(format!("the variable {line:?} has no =: write NAME=text")),
        };
        command.env = lines(&self.variables).into_iter().map(variable).collect::<Result<_, _>>()?;
        (command.readings.patterns, command.readings.files) = (lines(&self.patterns), lines(&self.files));
        let mut ticked: Vec<(Key, Vec<Level>)> = Vec::new();
        for (key, levels) in &self.factors {
            let key = Key::from(key.trim());
            if ticked.iter().any(|(known, _)| *known == key) {
                return Err(format!("{key} is a factor already: add levels to it"));
            }
            ticked.push((key, split(levels, |letter| letter == ',')?.iter().map(|text| level(text)).collect()));
        }
        command.factors.retain(|said| ticked.iter().any(|(key, _)| *key == said.key));
        let own = own_measures();
        let measures = before.measures.iter().filter(|measure| !own.contains(measure)).cloned().collect();
        let spec = spec(command, ticked.clone(), &before.unit.many, &before.step, measures);
        let mut edited = plan.clone();
        edited.first = Block { spec: Arc::new(spec), data: Data::default(), factors: ticked };
        Plan::parse(&edited.to_toml(), &plan.name).map_err(|error| match error {
            PlanError::Invalid(problems) => {
                let problems = problems.into_iter().map(|problem| format!("{}: {}", problem.key, problem.message));
                problems.collect::<Vec<_>>().join("\n")
            }
            other => other.to_string(),
        })
    }

    /// The texts with one more factor. Unless it stands in the command, an argument for it is added there.
    pub fn with_factor(mut self, key: &str, levels: &str) -> Self {
        let key = key.trim();
        let stands = [&self.run, &self.folder, &self.variables]
            .iter()
            .any(|text| text.contains(&format!("{{{key}}}")) || text.contains(&format!("{{{key}:")));
        if !stands && ![GPUS, Binding::KEY].contains(&key) {
            let is_switch = split(levels, |letter| letter == ',')
                .is_ok_and(|levels| levels.iter().all(|level| ["on", "off"].contains(&level.as_str())));
            let word = if is_switch { format!("{{{key}:--{key}}}") } else { format!("--{key}={{{key}}}") };
            self.run = format!("{} {word}", self.run.trim_end());
        }
        self.factors.push((key.to_owned(), levels.to_owned()));
        self
    }

    /// The texts without a factor, and without the arguments that it stands in.
    pub fn without_factor(mut self, index: usize) -> Self {
        if index < self.factors.len() {
            let (key, _) = self.factors.remove(index);
            let stands = |word: &str| word.contains(&format!("{{{key}}}")) || word.contains(&format!("{{{key}:"));
            if let Ok(words) = split(&self.run, char::is_whitespace) {
                self.run = joined(&words.into_iter().filter(|word| !stands(word)).collect::<Vec<_>>(), " ");
            }
        }
        self
    }
}

/// The workload that a form starts from.
pub fn starting_command() -> Arc<WorkloadSpec> {
    let command = Command {
        name: KEY.into(),
        run: vec!["python3".to_owned(), "train.py".to_owned(), "--seed={seed}".to_owned()],
        ..Command::default()
    };
    Arc::new(spec(command, Vec::new(), "units", crate::plan::USUAL_STEP, Vec::new()))
}

/// A level as it is typed: a number, or a text.
fn level(text: &str) -> Level {
    let number = || text.parse::<f64>().ok().filter(|number| number.is_finite()).map(Level::Number);
    text.parse().ok().map(Level::Integer).or_else(number).unwrap_or_else(|| Level::text(text))
}

/// Pieces of a text between separators; quotes hold a piece together.
fn split(text: &str, is_separator: impl Fn(char) -> bool) -> Result<Vec<String>, String> {
    let (mut pieces, mut piece, mut quoted, mut was_quoted) = (Vec::new(), String::new(), None, false);
    let mut end = |piece: &mut String, was_quoted: &mut bool| {
        let whole = std::mem::take(piece);
        let whole = if *was_quoted { whole } else { whole.trim().to_owned() };
        if !whole.is_empty() || *was_quoted {
            pieces.push(whole);
        }
        *was_quoted = false;
    };
    for letter in text.chars() {
        match (quoted, letter) {
            (Some(quote), letter) if letter == quote => quoted = None,
            (None, '"' | '\'') => {
                if !was_quoted {
                    piece = piece.trim_start().to_owned();
                }
                (quoted, was_quoted) = (Some(letter), true);
            }
            (None, letter) if is_separator(letter) => end(&mut piece, &mut was_quoted),
            // Spaces after a quoted level.
            (None, ' ') if was_quoted => {}
            (_, letter) => piece.push(letter),
        }
    }
    if let Some(quote) = quoted {
        return Err(format!("a {quote} is not closed"));
    }
    end(&mut piece, &mut was_quoted);
    Ok(pieces)
}

/// Pieces as one text, in quotes where they need them.
fn joined(pieces: &[String], separator: &str) -> String {
    let needs = |piece: &String| piece.is_empty() || piece.contains(|c: char| c.is_whitespace() || "\"',".contains(c));
    let quoted = |piece: &String| match (needs(piece), piece.contains('"')) {
        (false, _) => piece.clone(),
        (true, false) => format!("\"{piece}\""),
        (true, true) => {
            // Neither kind of quotes holds both: the parts take turns.
            let parts =
                piece.split('"').map(|part| if part.is_empty() { String::new() } else { format!("\"{part}\"") });
            parts.collect::<Vec<_>>().join("'\"'")
        }
    };
    pieces.iter().map(quoted).collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn begun() -> Plan {
        Plan::new("own", starting_command())
    }

    #[test]
    fn texts_become_the_plan_that_has_them() {
        let texts = CommandTexts {
            run: "python3 \"my train.py\" --precision={precision} {compile:--compile}".to_owned(),
            folder: "work".to_owned(),
            variables: "NCCL_ALGO={algorithm}\n\nEMPTY=".to_owned(),
            factors: [("precision", "fp32, bf16"), ("compile", "off, on"), ("algorithm", "Ring"), ("gpus", "1, 2")]
                .map(|(key, levels)| (key.to_owned(), levels.to_owned()))
                .to_vec(),
            patterns: "loss (?<loss>\\S+)".to_owned(),
            files: "{run_folder}/logs/".to_owned(),
        };
        let plan = texts.plan(&begun()).unwrap();
        assert_eq!(plan.combinations(), 8);
        let command = plan.first.spec.command.as_deref().unwrap();
        assert_eq!(command.run[1], "my train.py");
        assert_eq!(plan.first.levels("gpus"), [Level::Integer(1), Level::Integer(2)]);
        let again = CommandTexts::of(&plan.first).unwrap();
        assert_eq!(again.plan(&begun()).unwrap(), plan);
        assert_eq!(again.factors, texts.factors);
    }

    #[test]
    fn what_is_wrong_is_said_and_the_plan_stays() {
        let texts = |run: &str| CommandTexts { run: run.to_owned(), ..CommandTexts::of(&begun().first).unwrap() };
        for (texts, said) in [
            (texts(""), "command.run: an empty list"),
            (texts("a --lr={lr}"), "nothing is called {lr}"),
            (texts("a \"b"), "a \" is not closed"),
            (CommandTexts { patterns: "loss".to_owned(), ..texts("a") }, "no named group"),
            (CommandTexts { variables: "A".to_owned(), ..texts("a") }, "has no ="),
            (CommandTexts { factors: vec![("lr".to_owned(), String::new())], ..texts("a {lr}") }, "empty list"),
        ] {
            let error = texts.plan(&begun()).unwrap_err();
            assert!(error.contains(said), "{said}: {error}");
        }
    }

    #[test]
    fn a_factor_brings_its_argument_and_takes_it_along() {
        let texts = CommandTexts::of(&begun().first).unwrap();
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
        fn words_are_split_as_they_were_joined(words in proptest::collection::vec("[a-z \"',{}=]{0,8}", 0..5)) {
            prop_assert_eq!(split(&joined(&words, " "), char::is_whitespace).unwrap(), words);
        }
    }
}
