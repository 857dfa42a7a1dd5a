//! `[search]` in plan files.

use toml::de::DeValue;
use toml_edit::{Array, Item, Table as WrittenTable, Value};

use super::checked_table::{Table, kind, real};
use super::problem::Problems;
use super::search::{Goal, KeptLimit, Search, share_in};

pub(super) const KEYS: &[&str] = &["goal", "keep", "tie", "confidence", "runs", "minutes"];
/// The largest tie that a search may have.
const WIDEST_TIE: f64 = 0.5;
/// The lowest and the highest confidence that a search may have.
const CONFIDENCES: (f64, f64) = (0.5, 0.999_999);

/// Reads the search of a plan's file; `None` without one, and if its goal is missing or wrong.
pub(super) fn read(top: &Table, problems: &mut Problems) -> Option<Search> {
    let table = top.table("search", problems)?;
    table.check_keys(KEYS, &[], problems);
    let keep = limits(&table, problems);
    let mut share = |key: &str, range: (f64, f64), usual: f64| -> f64 {
        let Some((span, value)) = table.find(key) else { return usual };
        let found = match value.get_ref() {
            DeValue::String(text) => share_in(text),
            _ => real(value),
        };
        found.filter(|share| (range.0..=range.1).contains(share)).unwrap_or_else(|| {
            let percent = |share: f64| (share * 1e6).round() / 1e4;
            let message = format!(
                "must be a share from {} % to {} %, such as \"{} %\"",
                percent(range.0),
                percent(range.1),
                percent(usual)
            );
            problems.add(&span, table.path(key), message);
            usual
        })
    };
    let tie = share("tie", (0.0, WIDEST_TIE), Search::TIE);
    let confidence = share("confidence", CONFIDENCES, Search::CONFIDENCE);
    let runs = table.whole("runs", 2..=u32::MAX.into(), problems).map(|runs| u32::try_from(runs).unwrap_or(u32::MAX));
    let minutes = table.positive("minutes", 1e7, problems);
    let Some((span, text)) = table.text("goal", problems) else {
        if table.find("goal").is_none() {
            let (span, _) = top.find("search")?;
            problems.add(&span, table.path("goal"), "missing: what is sought, such as \"max throughput\"");
        }
        return None;
    };
    match Goal::parse(text) {
        Ok(goal) => {
            let goal = Goal { line: problems.line(&span), ..goal };
            Some(Search { goal, keep, tie, confidence, runs, minutes })
        }
        Err(message) => {
            problems.add(&span, table.path("goal"), message);
            None
        }
    }
}

/// `keep`: a limit or a list of them.
fn limits(table: &Table, problems: &mut Problems) -> Vec<KeptLimit> {
    let Some((_, value)) = table.find("keep") else { return Vec::new() };
    let items = match value.get_ref() {
        DeValue::Array(items) => items.iter().collect(),
        _ => vec![value],
    };
    let mut limits = Vec::new();
    for item in items {
        let read = match item.get_ref() {
            DeValue::String(text) => KeptLimit::parse(text),
            other => Err(format!(
                "must be a limit such as \"peak_allocated_bytes < 24 GB\", or a list of them, not {}",
                kind(other)
            )),
        };
        match read {
            Ok(limit) => limits.push(KeptLimit { line: problems.line(&item.span()), ..limit }),
            Err(message) => problems.add(&item.span(), table.path("keep"), message),
        }
    }
    limits
}

/// Reports what in the plan excludes its search: the key of each conflict, and what to do.
pub(super) fn report(conflicts: Vec<(&str, String)>, top: &Table, problems: &mut Problems) {
    let Some((search, _)) = top.find("search") else { return };
    for (key, message) in conflicts {
        let (table, inner) = key.split_once('.').unwrap_or(("", key));
        let span = if table.is_empty() {
            top.find(inner).map(|(span, _)| span)
        } else {
            top.table(table, problems).and_then(|table| table.find(inner).map(|(span, _)| span))
        };
        problems.add(&span.unwrap_or(search.clone()), key, message);
    }
}

/// Writes a search into the plan's file.
pub(super) fn write(top: &mut WrittenTable, search: Option<&Search>) {
    top.remove("search");
    let Some(search) = search else { return };
    let mut table = WrittenTable::new();
    table.decor_mut().set_prefix("\n");
    let mut put = |key: &str, value: Value| drop(table.insert(key, Item::Value(value)));
    put("goal", search.goal.text().into());
    if !search.keep.is_empty() {
        put("keep", Value::Array(search.keep.iter().map(|limit| limit.text.as_str()).collect::<Array>()));
    }
    // A share as a number is exact.
    for (key, share, usual) in [("tie", search.tie, Search::TIE), ("confidence", search.confidence, Search::CONFIDENCE)]
    {
        if share != usual {
            put(key, share.into());
        }
    }
    if let Some(runs) = search.runs {
        put("runs", i64::from(runs).into());
    }
    if let Some(minutes) = search.minutes {
        put("minutes", minutes.into());
    }
    top.insert("search", Item::Table(table));
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::plan::Plan;

    fn parsed(text: &str) -> Result<Plan, String> {
        Plan::parse(&format!("version = 1\n{text}"), "p.toml").map_err(|error| error.to_string())
    }

    const FACTORS: &str = "repeats = 12\n[factors]\nbatch_size = [32, 64, 128]\n";

    #[test]
    fn a_search_is_read_written_and_taken_away_again() {
        let plan = parsed(&format!(
            "{FACTORS}[search]\ngoal = \"max throughput\"\nkeep = [\"peak_allocated_bytes < 24 GB\", \"accuracy >= 98 %\"]\n\
             tie = \"2 %\"\nconfidence = 0.9\nruns = 20\nminutes = 5\n"
        ))
        .unwrap();
        let search = plan.search.as_ref().unwrap();
        assert_eq!((search.tie, search.confidence, search.runs, search.minutes), (0.02, 0.9, Some(20), Some(5.0)));
        assert_eq!((search.goal.line, search.keep[1].line), (6, 7));
        assert_eq!(search.question(), "max throughput, keep peak_allocated_bytes < 24 GB and accuracy >= 98 %");
        let text = plan.to_toml();
        assert_eq!(parsed(text.strip_prefix("version = 1\n").unwrap()).unwrap(), plan, "{text}");
        let without = Plan { search: None, ..plan.clone() };
        let text = without.to_toml_in(&text, "p.toml");
        assert_eq!(Plan::parse(&text, "p.toml").unwrap(), without, "{text}");
        let alone =
            parsed(&format!("{FACTORS}[search]\ngoal = \"min batch_size\"\nkeep = \"throughput >= 95 % of best\"\n"));
        let alone = alone.unwrap().search.unwrap();
        assert_eq!((alone.keep.len(), alone.tie, alone.confidence), (1, 0.01, 0.95));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_before_anything_runs() {
        for (text, expected) in [
            ("[search]\nkeep = \"a < 3\"", "p.toml:5: search.goal: missing: what is sought"),
            ("[search]\ngoal = \"throughput\"", "p.toml:6: search.goal: \"throughput\" is no goal"),
            ("[search]\ngoal = 3", "p.toml:6: search.goal: must be a string"),
            ("[search]\ngoal = \"max a\"\nkeep = [\"a < 3\", 4]", "p.toml:7: search.keep: must be a limit such as"),
            ("[search]\ngoal = \"max a\"\nkeep = \"a = 3\"", "p.toml:7: search.keep: \"a = 3\" has no sign"),
            ("[search]\ngoal = \"max a\"\ntie = \"60 %\"", "p.toml:7: search.tie: must be a share from 0 % to 50 %"),
            ("[search]\ngoal = \"max a\"\nconfidence = 95", "p.toml:7: search.confidence: must be a share from 50 %"),
            ("[search]\ngoal = \"max a\"\nbudget = 3", "p.toml:7: search.budget: unknown key"),
        ] {
            let error = parsed(&format!("{FACTORS}{text}")).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn what_excludes_a_search_is_named_where_it_stands() {
        let goal = "[search]\ngoal = \"max throughput\"\n";
        for (before, after, expected) in [
            ("", "", "p.toml:5: repeats: a search compares repeats"),
            ("repeats = 1", "", "p.toml:2: repeats: a search compares repeats"),
            ("repeats = 6\norder = \"sequential\"", "", "p.toml:3: order: a search runs the cells"),
            ("repeats = 6\naa = true", "", "p.toml:3: aa: the copy of a cell ties"),
            ("repeats = 6", "[where]\nsite = \"big\"", "where: searches run on this machine only"),
            ("repeats = 6", "[limits]\nexclusive = false", "p.toml:6: limits.exclusive: runs side by side"),
            ("repeats = 6", "[measure]\ntrace = [\"off\", \"built-in\"]", "measure.trace: a search compares cells"),
            ("repeats = 6", "[design]\nkind = \"d-optimal\"", "design: a search drops cells"),
        ] {
            let text = format!("{before}\n[factors]\nbatch_size = [32, 64]\n{after}\n{goal}");
            let text = if before.is_empty() { text.replacen('\n', "", 1) } else { text };
            let error = parsed(&text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let spread = "repeats = 6\n[factors]\nbatch_size = [32, 64]\n[design]\nkind = \"latin-hypercube\"\nruns = 8\n";
        assert!(parsed(&format!("{spread}{goal}")).is_ok());
    }
}
