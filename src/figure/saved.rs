//! Studies by name: those that a session stores, those in a plan's file, and the built-in ones.

use super::built_in::{preset, presets};
use super::lenient::explained;
use super::study::Study;
use crate::plan::{Filter, NAME_RULE, Plan, PlanError, Problem, StudyEntry, StudyTable, is_name, suggestion};

/// A study that a session stores.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedStudy {
    /// Its name.
    pub name: String,
    /// The study, or why it cannot be read: another version wrote it.
    pub study: Result<Study, String>,
    /// The study as the session stores it.
    pub json: String,
}

impl SavedStudy {
    /// A study as a session stores it: its name and JSON.
    pub fn read(name: &str, json: &str) -> Self {
        let study =
            serde_json::from_str(json).map(|study| Study { name: name.to_owned(), ..study }.with_names_of_now());
        let study = study.map_err(|error| format!("the saved study {name:?} cannot be read: {error}"));
        Self { name: name.to_owned(), study, json: json.to_owned() }
    }
}

/// A saved or built-in study by its name.
///
/// # Errors
/// The stored study cannot be read, or no study has this name; the error suggests the most similar name, or lists all.
pub fn find_study(saved: &[SavedStudy], name: &str) -> Result<Study, String> {
    if let Some(known) = saved.iter().find(|known| known.name == name) {
        return known.study.clone();
    }
    preset(name).map_err(|_| {
        let names = saved.iter().map(|known| &known.name).chain(presets().iter().map(|study| &study.name));
        format!("unknown study {name:?}{}", suggestion(name, &names.collect::<Vec<_>>()))
    })
}

/// Why a study cannot be saved under a name.
pub fn refused_name(name: &str) -> Option<String> {
    let refused = if !is_name(name) {
        NAME_RULE.to_owned()
    } else if presets().iter().any(|study| study.name == name) {
        format!("{name:?} is built in: give another name")
    } else {
        return None;
    };
    Some(refused)
}

/// Checks the studies of a plan that was read from `origin`.
///
/// # Errors
/// A key is unknown or has an invalid value; the error names its line.
pub fn check_studies(plan: &Plan, origin: &str) -> Result<(), PlanError> {
    let problems: Vec<Problem> = plan.studies.iter().flat_map(|table| problems(table, origin)).collect();
    if problems.is_empty() { Ok(()) } else { Err(PlanError::Invalid(problems)) }
}

fn problems(table: &StudyTable, origin: &str) -> Vec<Problem> {
    let wrong = |StudyEntry { key, value, .. }: &StudyEntry| {
        // Keys are checked one at a time, so that the error has the right line.
        match serde_json::from_value::<Study>(serde_json::json!({ key: value })) {
            Ok(mut study) => {
                let filter = Filter::parse(&study.filter).err().map(|error| error.to_string());
                filter.or_else(|| study.style.refuse_size().map(|wrong| format!("size_pt: {wrong}")))
            }
            Err(error) => Some(explained(key, &error.to_string())),
        }
    };
    let at = |line: usize, key: &str, message: String| Problem {
        origin: origin.to_owned(),
        line,
        key: format!("study.{key}"),
        message,
    };
    let name = refused_name(&table.name).map(|message| at(table.line, "name", message));
    let entries = table.entries.iter().filter_map(|entry| Some(at(entry.line, &entry.key, wrong(entry)?)));
    name.into_iter().chain(entries).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::figure::Form;
    use crate::plan::Level;

    fn checked(studies: &str) -> Result<Plan, String> {
        let plan = Plan::parse(&format!("version = 1\n{studies}"), "p.toml").map_err(|error| error.to_string())?;
        check_studies(&plan, "p.toml").map(|()| plan).map_err(|error| error.to_string())
    }

    #[test]
    fn a_study_of_an_earlier_version_means_runs_under_nsys_by_trace_on() {
        let json = r#"{"hidden": [["trace", "on"], ["pin_memory", "on"]], "held": [["trace", "on"]], "order": [["trace", ["on", "off"]]],
            "colours": [["trace", "on", 3]]}"#;
        let study = SavedStudy::read("mine", json).study.unwrap();
        let level = |key: &str, name: &str| (key.into(), Level::text(name));
        assert_eq!(study.hidden, [level("trace", "nsys"), level("pin_memory", "on")]);
        assert_eq!(study.held, [level("trace", "nsys")]);
        assert_eq!(study.order, [("trace".into(), vec![Level::text("nsys"), Level::text("off")])]);
        assert_eq!(study.colours, [("trace".into(), Level::text("nsys"), 3)]);
    }

    #[test]
    fn a_plans_studies_are_checked_key_by_key_with_their_lines() {
        for (study, expected) in [
            ("form = \"bras\"", "p.toml:4: study.form: unknown variant `bras`, expected one of `bars`"),
            ("colur = \"gpus\"", "p.toml:4: study.colur: unknown key; did you mean \"colour\"?"),
            ("\nfilter = \"gpus>many\"", "p.toml:5: study.filter: "),
            ("measures = 3", "p.toml:4: study.measures: invalid type: integer `3`, expected a sequence"),
            ("style = { size_pt = 99 }", "p.toml:4: study.style: size_pt: 99 is not from 4 to 20 points"),
        ] {
            let error = checked(&format!("[[study]]\nname = \"mine\"\n{study}\n")).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        let both = checked("[[study]]\nname = \"times\"\nlog = 1\n").unwrap_err();
        assert_eq!(both.lines().count(), 2, "{both}");
        assert!(both.starts_with("p.toml:3: study.name: \"times\" is built in"), "{both}");
        for (study, expected) in [
            ("form = \"bars\"", "p.toml:2: study.name: missing"),
            ("name = \"a\"\n[[study]]\nname = \"a\"", "p.toml:5: study.name: \"a\" is the name of two studies"),
        ] {
            let error = checked(&format!("[[study]]\n{study}\n")).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn a_plans_study_is_written_with_the_plan_and_means_what_it_says() {
        let text = "[[study]]\nname = \"mine\"\nform = \"scaling\"\nlog = true\nhidden = [[\"gpus\", 4]]\n\
                    [study.style]\nsize_pt = 7.5\n";
        let plan = checked(text).unwrap();
        let again = Plan::parse(&plan.to_toml(), "again.toml").unwrap();
        assert_eq!(plan.studies[0].to_json(), again.studies[0].to_json());
        let study = SavedStudy::read("mine", &again.studies[0].to_json().to_string()).study.unwrap();
        assert_eq!(
            (study.name.as_str(), study.form, study.log, study.style.size_pt),
            ("mine", Form::Scaling, true, 7.5)
        );
        assert_eq!(study.hidden, [("gpus".into(), 4.into())]);
    }

    #[test]
    fn a_study_is_found_among_saved_and_built_in_ones() {
        let saved = [SavedStudy::read("mine", "{\"log\":true}"), SavedStudy::read("later", "{\"form\":\"clouds\"}")];
        assert!(find_study(&saved, "mine").unwrap().log);
        assert_eq!(find_study(&saved, "memory").unwrap().form, Form::Memory);
        assert_eq!(find_study(&saved, "mien").unwrap_err(), "unknown study \"mien\"; did you mean \"mine\"?");
        assert!(find_study(&saved, "later").unwrap_err().starts_with("the saved study \"later\" cannot be read: "));
        assert!(find_study(&saved, "nothing like it").unwrap_err().contains("there are mine, later, times, "));
    }
}
