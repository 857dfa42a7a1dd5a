//! Schema version of an export, and whether it is supported.

use rusqlite::OptionalExtension;

use super::open::NsysExport;
use crate::trace::TraceError;

/// Supported major versions: 2 and 3, nsys of 2021 to 2026.
const MAJORS: std::ops::RangeInclusive<u32> = 2..=3;

/// The newest known schema; later exports may have renamed columns.
const NEWEST: (u32, u32) = (3, 22);

/// The table with the version: its name since 2022, then its earlier name.
const TABLES: [&str; 2] = ["META_DATA_EXPORT", "EXPORT_META_DATA"];

/// Version information of an export.
#[derive(Debug, PartialEq)]
pub(super) struct Schema {
    /// The schema, such as `3.20.3`.
    pub version: String,
    /// The version of nsys that exported it.
    pub product_version: Option<String>,
    /// A warning about the version, if any.
    pub warning: Option<String>,
}

impl Schema {
    /// Reads and checks the version. Only two rows are read, because others contain names of files and people.
    pub fn read(report: &NsysExport<'_>) -> Result<Self, TraceError> {
        let Some(table) = TABLES.into_iter().find(|table| report.has(table)) else {
            return Err(TraceError::NotAReport {
                file: report.file.clone(),
                found: format!("not a report: an SQLite file with {}", report.some_tables()),
            });
        };
        let value = |name: &str| -> Result<Option<String>, TraceError> {
            let sql = format!("SELECT CAST(value AS TEXT) FROM \"{table}\" NOT INDEXED WHERE name = ?1 LIMIT 1");
            let found = report.connected(|connection| {
                let found = connection.query_row(&sql, [name], |row| row.get::<_, Option<String>>(0)).optional();
                found.map_err(|error| report.sqlite(error))
            })?;
            Ok(found.flatten().map(|value| value.chars().take(40).collect()))
        };
        let product_version = value("EXPORT_PRODUCT_VERSION")?;
        let refused = |found: String, advice| TraceError::Schema { file: report.file.clone(), found, advice };
        let parts = ["MAJOR", "MINOR", "MICRO"].map(|part| value(&format!("EXPORT_SCHEMA_VERSION_{part}")));
        let version = match (value("EXPORT_SCHEMA_VERSION")?, parts) {
            (Some(version), _) => version,
            (None, [Ok(Some(major)), Ok(Some(minor)), Ok(micro)]) => {
                format!("{major}.{minor}.{}", micro.as_deref().unwrap_or("0"))
            }
            (None, parts) => {
                for part in parts {
                    part?;
                }
                let advice = "export the report with an nsys of 2021 or later";
                return Err(refused(format!("{table} contains no EXPORT_SCHEMA_VERSION"), advice));
            }
        };
        let mut numbers = version.split('.').map(|part| part.trim().parse::<u32>());
        let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
            return Err(refused(
                format!("schema version {version:?} is not of the form 3.20.3"),
                "export the report again",
            ));
        };
        if !MAJORS.contains(&major) {
            return Err(refused(
                format!("schema version {version} is not supported (2.x and 3.x are)"),
                "export the report with an nsys of 2021 to 2026",
            ));
        }
        let warning = ((major, minor) > NEWEST).then(|| {
            format!(
                "schema {version} is newer than {}.{}, the newest known version: compare a total with `nsys stats`",
                NEWEST.0, NEWEST.1
            )
        });
        Ok(Self { version, product_version, warning })
    }
}
