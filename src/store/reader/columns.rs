//! Values of the index's columns.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::types::Type;
use rusqlite::{Result as SqlResult, Row};
use serde::de::DeserializeOwned;

/// Values by their JSON: many runs share each, and it is parsed once.
pub(super) type Shared<T> = RefCell<HashMap<String, Arc<T>>>;

/// The text of damage in columns from `first`: path, line, what.
pub(super) fn damage_text(row: &Row<'_>, first: usize) -> SqlResult<String> {
    let (path, number, what): (String, u64, String) = (row.get(first)?, unsigned(row, first + 1)?, row.get(first + 2)?);
    Ok(if number > 0 && !path.ends_with('/') { format!("{path}:{number}: {what}") } else { format!("{path}: {what}") })
}

/// A number that may be NaN, which SQLite stores as null.
pub(super) fn number(row: &Row<'_>, column: usize) -> SqlResult<f64> {
    Ok(row.get::<_, Option<f64>>(column)?.unwrap_or(f64::NAN))
}

pub(super) fn unsigned(row: &Row<'_>, column: usize) -> SqlResult<u64> {
    row.get(column).map(i64::cast_unsigned)
}

pub(super) fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> SqlResult<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into()))
}

/// JSON that many rows share.
pub(super) fn shared<T: DeserializeOwned>(known: &Shared<T>, row: &Row<'_>, column: usize) -> SqlResult<Arc<T>> {
    let text = row.get_ref(column)?.as_str()?;
    if let Some(known) = known.borrow().get(text) {
        return Ok(Arc::clone(known));
    }
    let value: Arc<T> = Arc::new(json(row, column)?);
    known.borrow_mut().insert(text.to_owned(), Arc::clone(&value));
    Ok(value)
}

pub(super) fn optional_shared<T: DeserializeOwned>(
    known: &Shared<T>,
    row: &Row<'_>,
    column: usize,
) -> SqlResult<Option<Arc<T>>> {
    match row.get_ref(column)?.data_type() {
        Type::Null => Ok(None),
        _ => shared(known, row, column).map(Some),
    }
}

pub(super) fn optional_json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> SqlResult<Option<T>> {
    match row.get_ref(column)?.data_type() {
        Type::Null => Ok(None),
        _ => json(row, column).map(Some),
    }
}
