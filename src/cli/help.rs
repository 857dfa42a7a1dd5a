//! `multicard help`: the help of subcommands, and topics: documentation that is longer than a list of options.

use clap::Args;

use super::{OK, Outcome, print};
use crate::plan::{Domain, Factor, Level, WorkloadSpec, suggestion, workload, workloads};

#[derive(Args)]
pub(super) struct Arguments {
    /// A subcommand or a topic. After a workload's name, keys of its factors may follow.
    topic: Vec<String>,
}

/// The parts of the manual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Tutorials,
    Answers,
    Reference,
    Method,
}

impl Part {
    pub(super) const ALL: [Self; 4] = [Self::Tutorials, Self::Answers, Self::Reference, Self::Method];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tutorials => "Tutorials",
            Self::Answers => "How to",
            Self::Reference => "Reference",
            Self::Method => "Method",
        }
    }
}

/// A page that `multicard help NAME` prints after the help of the subcommand of that name, if there is one. It is also a chapter of the
/// manual.
pub(super) struct Topic {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) part: Part,
    pub(super) text: fn() -> String,
}

/// A topic whose page is a file of the source tree.
macro_rules! page {
    ($part:ident, $name:literal, $about:literal, $file:literal) => {
        Topic { name: $name, about: $about, part: Part::$part, text: || plain(include_str!($file)) }
    };
}

pub(super) const TOPICS: &[Topic] = &[
    page!(Tutorials, "first-study", "tutorial: from ticked boxes to a figure", "manual/first-study.md"),
    page!(Tutorials, "own-program", "tutorial: measure a script of your own", "manual/own-program.md"),
    page!(Tutorials, "papers", "tutorial: the tables and figures of the papers", "manual/papers.md"),
    page!(Tutorials, "tracing", "tutorial: where the time goes", "manual/tracing.md"),
    page!(Answers, "how-to", "answers to common questions, exit codes, environment variables", "manual/answers.md"),
    page!(Answers, "elsewhere", "sessions in the background and on other machines", "manual/elsewhere.md"),
    page!(Reference, "plan", "plan files", "../plan/plan.md"),
    page!(
        Reference,
        "designs",
        "running only some combinations: fractions, optimal designs, hypercubes",
        "../plan/design.md"
    ),
    page!(Reference, "searches", "finding the best cell of a plan: races over short runs", "../plan/search.md"),
    Topic { name: "workloads", about: "what plans run", part: Part::Reference, text: workloads_page },
    page!(Reference, "slurm", "runs on clusters with Slurm", "../launch/slurm/slurm.md"),
    page!(Reference, "readings", "what programs say about their runs", "../program/readings/readings.md"),
    page!(Reference, "composed", "figures of several panels", "../figure/composed.md"),
    page!(Method, "method", "measures, intervals and what they leave out", "../analysis/method.md"),
    page!(Reference, "export", "columns of exported tables", "../export/export.md"),
    page!(Reference, "import", "results of other programs: CSV, JSON lines, hyperfine", "../import/import.md"),
    page!(Reference, "session", "the session's folder", "../store/session.md"),
    page!(Method, "trust", "what is trusted, checked and promised; other users of a machine", "../store/trust.md"),
    page!(Reference, "protocol", "jobs, events and samples", "../protocol/protocol.md"),
    #[cfg(feature = "window")]
    Topic { name: "keys", about: "keys of the window", part: Part::Reference, text: crate::app::describe_keys },
];

/// The list of topics, for the end of the program's own help.
pub(super) fn list_topics() -> String {
    let topics = TOPICS.iter().map(|topic| (topic.name, topic.about.to_owned()));
    let workloads = workloads().iter().map(|spec| (&*spec.key, format!("factors and data sets of {}", spec.name)));
    let lines = topics.chain(workloads).map(|(name, about)| format!("\n  {name:<12} {about}"));
    format!("Topics of `multicard help TOPIC`:{}", lines.collect::<String>())
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let words: Vec<&str> = arguments.topic.iter().map(String::as_str).collect();
    print(&page(&words)?)?;
    Ok(OK)
}

/// The page for these words; without words, the list of everything.
fn page(words: &[&str]) -> Result<String, String> {
    let mut command = super::description();
    command.build();
    let found = words.iter().try_fold(&mut command, |command, word| command.find_subcommand_mut(word));
    let mut pages: Vec<String> = found.map(|command| command.render_long_help().to_string()).into_iter().collect();
    if let [name, keys @ ..] = words {
        let topic = TOPICS.iter().find(|topic| topic.name == *name && keys.is_empty());
        pages.extend(topic.map(|topic| (topic.text)()));
        if let Some(spec) = workload(name) {
            pages.push(workload_page(spec, keys)?);
        }
    }
    if pages.is_empty() {
        let (command, words) = (super::description(), words.join(" "));
        let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
        let mut names: Vec<&str> = commands.map(clap::Command::get_name).collect();
        let pages = TOPICS.iter().map(|topic| topic.name).chain(workloads().iter().map(|spec| &*spec.key));
        pages.for_each(|name| {
            if !names.contains(&name) {
                names.push(name);
            }
        });
        return Err(format!("there is no help on {words:?}{}", suggestion(&words, &names)));
    }
    Ok(pages.join("\n"))
}

/// A module's documentation without its links to code.
fn plain(text: &str) -> String {
    text.replace("[`", "`").replace("`]", "`")
}

fn workloads_page() -> String {
    let mut lines = vec!["# Workloads\n".to_owned()];
    lines.extend(workloads().iter().map(|spec| {
        let sets: Vec<&str> = spec.data_sets.iter().map(|set| &*set.key).collect();
        let data = if sets.is_empty() { String::new() } else { format!(" Data sets: {}.", sets.join(", ")) };
        format!("- `{0}`: {1}, {2} factors: `multicard help {0}`.{data}", spec.key, spec.name, spec.factors.len())
    }));
    lines.push(
        "- `command`: a program of your own, with the factors that its plan names: `multicard help plan`.".to_owned(),
    );
    lines.join("\n")
}

/// A workload's page: its data sets and factors, or only the named factors.
pub(super) fn workload_page(spec: &WorkloadSpec, keys: &[&str]) -> Result<String, String> {
    if keys.is_empty() {
        let mut lines =
            vec![format!("# {}\n\nFactors and data sets of `workload = \"{}\"`.\n\n# Factors\n", spec.name, spec.key)];
        lines.extend(spec.factors.iter().map(describe));
        if !spec.data_sets.is_empty() {
            lines.push("# Data sets\n".to_owned());
        }
        for set in &spec.data_sets {
            lines.push(format!("## {}\n\n{}\n", set.key, set.help));
            lines.extend(set.keys.iter().map(|key| {
                let required = if set.required.contains(&key.key) { "; required" } else { "" };
                format!("- `{}`: {}{required}. {}\n", key.key, levels(key), key.help)
            }));
        }
        return Ok(lines.join("\n"));
    }
    let factor = |key: &&str| {
        let names: Vec<&str> = spec.factors.iter().map(|factor| &*factor.key).collect();
        let unknown = || format!("{key:?} is not a factor of {}{}", spec.key, suggestion(key, &names));
        spec.factor(key).map(describe).ok_or_else(unknown)
    };
    Ok(keys.iter().map(factor).collect::<Result<Vec<_>, _>>()?.join("\n"))
}

/// A factor's key, name, levels, help text and published finding.
fn describe(factor: &Factor) -> String {
    let mut text = format!("## {}\n\n{}: {}.", factor.key, factor.name, levels(factor));
    for line in [&factor.help, &factor.finding] {
        if !line.is_empty() {
            text.push_str(&format!("\n{line}"));
        }
    }
    for (key, idle) in &factor.idle {
        let idle: Vec<_> = idle.iter().map(Level::to_string).collect();
        text.push_str(&format!("\nHas no effect where {key} = {}.", idle.join(" or ")));
    }
    text.push('\n');
    text
}

/// The levels of a factor with their unit, and its default.
fn levels(factor: &Factor) -> String {
    let unit = if factor.unit.is_empty() { String::new() } else { format!(" {}", factor.unit) };
    let usual: Vec<_> = factor.usual.iter().map(f64::to_string).collect();
    let usual = if usual.is_empty() { String::new() } else { format!(", such as {}", usual.join(", ")) };
    match &factor.domain {
        Domain::Names(names) => format!("{}; default {}", names.join(", "), factor.default),
        Domain::Integer { min, max } => {
            format!("whole numbers from {min} to {max}{unit}{usual}; default {}", factor.default)
        }
        Domain::Number { min, max } => format!("numbers from {min} to {max}{unit}{usual}; default {}", factor.default),
        Domain::GpuSet(names) => {
            format!("{}, or a list of GPUs such as 0,2; default {}", names.join(", "), factor.default)
        }
        Domain::Path => "a path".to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_subcommand_and_every_topic_has_a_page() {
        let command = super::super::description();
        for subcommand in command.get_subcommands() {
            let text = page(&[subcommand.get_name()]).unwrap();
            assert!(text.contains(&format!("Usage: multicard {}", subcommand.get_name())), "{text}");
        }
        for topic in TOPICS {
            assert!(page(&[topic.name]).unwrap().ends_with(&(topic.text)()), "{}", topic.name);
        }
        assert!(page(&["session", "export"]).unwrap().contains("Usage: multicard session export"));
    }

    #[test]
    fn without_a_topic_all_subcommands_and_topics_are_listed() {
        let text = page(&[]).unwrap();
        assert!(text.contains("Usage: multicard"), "{text}");
        for name in ["run", "keys", "workloads", "image"] {
            assert!(text.lines().any(|line| line.trim_start().starts_with(name)), "{name}: {text}");
        }
    }

    #[test]
    fn a_workloads_page_has_every_factor_and_data_set() {
        for spec in workloads() {
            let text = page(&[&spec.key]).unwrap();
            for factor in &spec.factors {
                assert!(
                    text.contains(&format!("## {}\n", factor.key)) && text.contains(&factor.help),
                    "{}",
                    factor.key
                );
            }
            assert!(spec.data_sets.iter().all(|set| text.contains(&format!("## {}\n", set.key))));
        }
        let text = page(&["image", "image_size"]).unwrap();
        assert!(text.starts_with("## image_size\n") && !text.contains("## precision"), "{text}");
    }

    #[test]
    fn the_examples_on_the_page_of_plans_are_plans() {
        let page = page(&["plan"]).unwrap();
        let examples: Vec<&str> = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
        let cells = |text: &&str| {
            let plan = crate::plan::Plan::parse(text, "plan.md").unwrap();
            crate::analysis::check_measures(&plan, "plan.md").unwrap();
            plan.combinations()
        };
        assert_eq!(examples.iter().map(cells).collect::<Vec<_>>(), [4, 8, 5, 4, 6, 1, 1, 4]);
        let page = super::page(&["designs"]).unwrap();
        let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        assert_eq!(cells(&example), 16);
        let page = super::page(&["searches"]).unwrap();
        let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        assert_eq!(cells(&example), 16);
        let plan = crate::plan::Plan::parse(example, "search.md").unwrap();
        crate::analysis::check_search(&plan, "search.md").unwrap();
    }

    #[test]
    fn an_unknown_topic_or_factor_names_the_nearest() {
        assert_eq!(page(&["plans"]).unwrap_err(), r#"there is no help on "plans"; did you mean "plan"?"#);
        let error = page(&["image", "precison"]).unwrap_err();
        assert_eq!(error, r#""precison" is not a factor of image; did you mean "precision"?"#);
    }
}
