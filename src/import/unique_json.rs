//! JSON whose objects have each key only once: if a key had two values, one of the values would be lost without a
//! message.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The most letters of a key that an error shows.
const SHOWN: usize = 64;

/// Reads a value.
///
/// # Errors
/// The text is not JSON, or an object has a key twice; in the second case the error has the category `Data`.
pub(super) fn parse(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str::<Unique>(text).map(|Unique(value)| value)
}

struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue).map(Self)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if object.contains_key(&key) {
                let key: String = key.chars().take(SHOWN).collect();
                return Err(A::Error::custom(format!("an object has the key {key:?} twice: leave one out")));
            }
            let Unique(value) = entries.next_value()?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_as_it_is_unless_a_key_is_there_twice() {
        let text = r#"{"a": [1, -2, 2.5, 18446744073709551615, null, true, "x\n"], "b": {"a": {}}}"#;
        assert_eq!(parse(text).unwrap(), serde_json::from_str::<Value>(text).unwrap());
        let error = parse("{\"a\": 1,\n\"in\": {\"b\": 1, \"b\": 2}}").unwrap_err();
        assert!(error.is_data() && error.line() == 2, "{error}");
        assert!(error.to_string().starts_with("an object has the key \"b\" twice: leave one out"), "{error}");
        assert!(parse("{\"a\": }").unwrap_err().is_syntax());
    }
}
