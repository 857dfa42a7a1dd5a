//! Reads values that another version wrote or a user edited: readable parts are kept, other parts are reported.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::plan::suggestion;

/// Reads a value whose type has a default for each part. Parts that cannot be read are left out and reported, one line each.
pub(super) fn leniently<T: DeserializeOwned + Default>(value: Value, name: &str) -> (T, Vec<String>) {
    let read = |value: &Value| serde_json::from_value::<T>(value.clone()).map(drop).map_err(|error| error.to_string());
    let mut wrong = Vec::new();
    let kept = kept(&read, value, name, &mut wrong);
    (kept.and_then(|kept| serde_json::from_value(kept).ok()).unwrap_or_default(), wrong)
}

/// The readable part of a value at a path. `read` reads a whole that contains only this value.
fn kept(
    read: &dyn Fn(&Value) -> Result<(), String>,
    value: Value,
    path: &str,
    wrong: &mut Vec<String>,
) -> Option<Value> {
    let Err(reason) = read(&value) else { return Some(value) };
    let mut own = Vec::new();
    let kept = match value {
        Value::Object(entries) => {
            let entries = entries.into_iter().filter_map(|(key, value)| {
                let within = |value: &Value| read(&Value::Object(Map::from_iter([(key.clone(), value.clone())])));
                Some((key.clone(), kept(&within, value, &format!("{path}.{key}"), &mut own)?))
            });
            Some(Value::Object(entries.collect())).filter(|kept| kept.as_object().is_some_and(|kept| !kept.is_empty()))
        }
        Value::Array(items) => {
            let items = items.into_iter().enumerate().filter_map(|(nth, item)| {
                let within = |item: &Value| read(&Value::Array(vec![item.clone()]));
                kept(&within, item, &format!("{path}[{}]", nth + 1), &mut own)
            });
            Some(Value::Array(items.collect())).filter(|kept| kept.as_array().is_some_and(|kept| !kept.is_empty()))
        }
        _ => None,
    };
    let kept = kept.filter(|kept| read(kept).is_ok());
    if kept.is_some() || own.len() == 1 {
        wrong.append(&mut own);
    } else {
        wrong.push(format!("{path}: {}", explained(path, &reason)));
    }
    kept
}

/// serde's message for an unknown key, with the most similar known key added.
pub(super) fn explained(path: &str, reason: &str) -> String {
    let Some(known) = reason.strip_prefix("unknown field ") else { return reason.to_owned() };
    let known: Vec<&str> = known.split('`').skip(3).step_by(2).collect();
    let key = path.rsplit('.').next().unwrap_or(path);
    format!("unknown key{}", suggestion(key, &known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Study;

    #[test]
    fn what_cannot_be_read_is_named_and_the_rest_is_kept() {
        let value = serde_json::json!({
            "form": "clouds", "log": true, "colur": "gpus",
            "overrides": { "title": "A title", "height_mm": "high", "levels": [
                { "level": "bf16", "label": "BF16" }, { "level": "fp32", "hatch": "stars" }, 3
            ] },
        });
        let (study, wrong): (Study, _) = leniently(value, "study");
        assert!(study.log);
        assert_eq!(study.overrides.title.as_deref(), Some("A title"));
        assert_eq!(study.overrides.levels[0].label.as_deref(), Some("BF16"));
        let text = wrong.join("\n");
        for part in [
            "study.colur: unknown key; did you mean \"colour\"?",
            "study.form: unknown variant `clouds`",
            "study.overrides.height_mm: invalid type",
            "study.overrides.levels[2].hatch: unknown variant `stars`",
            "study.overrides.levels[3]: invalid type",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert_eq!(wrong.len(), 5, "{text}");
    }

    #[test]
    fn what_is_no_study_at_all_becomes_the_default_and_is_named() {
        let (study, wrong): (Study, _) = leniently(serde_json::json!(17), "study");
        assert_eq!((study, wrong.len()), (Study::default(), 1));
    }
}
