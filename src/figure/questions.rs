//! The built-in studies with titles, grouped by the question that they answer.

use super::built_in::presets;
use super::study::Study;

/// Groups of studies for any cells: the question, and the name and title of each study that answers it.
const QUESTIONS: [(&str, &[(&str, &str)]); 6] = [
    (
        "How fast is it?",
        &[
            ("times", "Times, throughput and speed-up"),
            ("speedup", "Speed-up by throughput"),
            ("repeats", "Every repeat"),
            ("steadiness", "Steadiness of steps"),
            ("map", "Map over two factors"),
        ],
    ),
    (
        "Does it scale?",
        &[("scaling", "Scaling over GPUs"), ("scatter", "Time over GPUs with Amdahl's law, or any two measures")],
    ),
    (
        "What matters?",
        &[
            ("effects", "Effects of levels"),
            ("tornado", "All effects, the largest first"),
            ("interactions", "Factors that interact"),
            ("pareto", "Time against memory and energy"),
        ],
    ),
    ("Has it changed?", &[("history", "History over sessions, by date or commit")]),
    (
        "Where does the time go?",
        &[
            ("parts", "Parts of a step"),
            ("loading", "Loading of data"),
            ("activity", "What each rank did at each time"),
            ("roofline", "Roofline"),
            ("metrics", "CUDA and NCCL metrics, time"),
            ("metrics-percent-of-report", "CUDA and NCCL metrics, share of the report"),
            ("metrics-percent-of-wall", "CUDA and NCCL metrics, share of the recorded time"),
            ("trace-cost", "What recording costs"),
        ],
    ),
    (
        "What does it need, and does it learn?",
        &[("memory", "GPU memory"), ("energy", "Energy, power and clocks"), ("loss", "Loss and accuracy over epochs")],
    ),
];

/// A built-in study with its title.
#[derive(Clone, Debug, PartialEq)]
pub struct Titled {
    /// The study.
    pub study: &'static Study,
    /// Its title: `Scaling over GPUs`.
    pub title: String,
}

/// Studies that answer one question.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The question, or for tables and figures of a paper the name of the paper.
    pub question: String,
    /// The studies, in the order in which they are shown.
    pub studies: Vec<Titled>,
}

/// All built-in studies, grouped by the question that they answer. The tables and figures of papers come last, grouped by paper.
pub fn study_groups() -> Vec<Group> {
    let of_question = |(question, named): &(&str, &[(&str, &str)])| {
        let titled = |(name, title): &(&str, &str)| {
            let study = presets().iter().find(|study| study.name == *name)?;
            Some(Titled { study, title: (*title).to_owned() })
        };
        Group { question: (*question).to_owned(), studies: named.iter().filter_map(titled).collect() }
    };
    let mut groups: Vec<Group> = QUESTIONS.iter().map(of_question).collect();
    for study in presets() {
        let Some((paper, artefact)) = study.name.split_once('/') else { continue };
        let question = format!("Paper {paper}");
        // The name `table-2` becomes Table 2.
        let place = artefact.replace('-', " ");
        let mut letters = place.chars();
        let place: String = letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect();
        let titled = Titled { study, title: format!("{place}: {}", study.about) };
        match groups.iter_mut().find(|group| group.question == question) {
            Some(group) => group.studies.push(titled),
            None => groups.push(Group { question, studies: vec![titled] }),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_study_is_in_one_group_with_a_title() {
        let groups = study_groups();
        let mut grouped: Vec<&str> =
            groups.iter().flat_map(|group| &group.studies).map(|titled| titled.study.name.as_str()).collect();
        let mut names: Vec<&str> = presets().iter().map(|study| study.name.as_str()).collect();
        grouped.sort_unstable();
        names.sort_unstable();
        assert_eq!(grouped, names);
        let titles = groups.iter().flat_map(|group| &group.studies).map(|titled| &titled.title);
        assert!(titles.clone().all(|title| !title.is_empty() && title.chars().next().is_some_and(char::is_uppercase)));
        assert!(groups.iter().any(|group| group.question == "Paper 2503.15252"));
    }
}
