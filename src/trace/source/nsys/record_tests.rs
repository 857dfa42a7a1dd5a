#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use rusqlite::Connection;
use rusqlite::types::{Value as Stored, ValueRef};

use super::*;
use crate::trace::source::Storage;

/// What SQLite can hold, of all lengths of numbers, and long enough to go on in other pages.
fn stored() -> impl Strategy<Value = Stored> {
    prop_oneof![
        Just(Stored::Null),
        (any::<i64>(), 0u32..64).prop_map(|(value, shift)| Stored::Integer(value >> shift)),
        any::<f64>().prop_map(|value| Stored::Real(value + 0.5)),
        "[a-zé]{0,12}".prop_map(Stored::Text),
        (0usize..3000, "[a-zé]").prop_map(|(count, letter)| Stored::Text(letter.repeat(count))),
        (0usize..3000).prop_map(|count| Stored::Blob(vec![7; count])),
    ]
}

fn file(page_bytes: u32, rows: &[(i64, [Stored; 4])]) -> Vec<u8> {
    let mut connection = Connection::open_in_memory().unwrap();
    connection.pragma_update(None, "page_size", page_bytes).unwrap();
    connection.execute_batch("CREATE TABLE other (x); CREATE TABLE t (a, b, c)").unwrap();
    for (id, [a, b, c, _]) in rows {
        let sql = "INSERT OR REPLACE INTO t (rowid, a, b, c) VALUES (?1, ?2, ?3, ?4)";
        connection.execute(sql, rusqlite::params![id, a, b, c]).unwrap();
    }
    // Rows from before lack the column.
    connection.execute_batch("ALTER TABLE t ADD COLUMN d").unwrap();
    for (id, [.., d]) in rows.iter().filter(|(id, _)| id % 2 == 0) {
        connection.execute("UPDATE t SET d = ?2 WHERE rowid = ?1", rusqlite::params![id, d]).unwrap();
    }
    connection.serialize("main").unwrap().to_vec()
}

fn by_sqlite(connection: &Connection) -> Vec<String> {
    let mut list = connection.prepare("SELECT rowid, d, a, c FROM t NOT INDEXED").unwrap();
    let rows = list.query_map([], |row| {
        let value = |column| match row.get_ref(column).unwrap() {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(value) => Value::Integer(value),
            ValueRef::Real(value) => Value::Real(value),
            ValueRef::Text(text) => Value::Text(text),
            ValueRef::Blob(_) => Value::Blob,
        };
        Ok(format!("{} {:?} {:?} {:?}", row.get::<_, i64>(0)?, value(1), value(2), value(3)))
    });
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

fn by_pages(bytes: &[u8], root: u32) -> Result<Vec<String>, PageError> {
    let pages = Pages::new(Storage::Bytes(bytes), bytes.first_chunk().unwrap(), bytes.len() as u64)?;
    let slots = [Some(1), None, Some(2), Some(0)];
    let mut reader = Reader::new(&pages, &slots);
    let mut rows = Vec::new();
    for page in pages.leaves(root)? {
        reader.rows(page, |record| -> Result<(), PageError> {
            rows.push(format!("{} {:?} {:?} {:?}", record.id, record.value(0), record.value(1), record.value(2)));
            Ok(())
        })?;
    }
    Ok(rows)
}

fn open(bytes: &[u8]) -> (Connection, u32) {
    let mut connection = Connection::open_in_memory().unwrap();
    connection.deserialize_read_exact("main", bytes, bytes.len(), true).unwrap();
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 't'";
    let root = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    (connection, root)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rows_are_those_that_sqlite_reads(
        rows in prop::collection::vec((any::<i64>(), [stored(), stored(), stored(), stored()]), 0..60),
        page_bytes in prop_oneof![Just(512u32), Just(1024), Just(4096), Just(65_536)],
    ) {
        let bytes = file(page_bytes, &rows);
        let (connection, root) = open(&bytes);
        prop_assert_eq!(by_pages(&bytes, root).unwrap(), by_sqlite(&connection));
    }

    #[test]
    fn changed_bytes_are_refused_or_read_and_never_panic(
        rows in prop::collection::vec((0i64..1000, [stored(), stored(), stored(), stored()]), 1..40),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = file(512, &rows);
        let root = open(&bytes).1;
        for (place, byte) in changes {
            let place = 100 + place.index(bytes.len() - 100);
            bytes[place] = byte;
        }
        let _ = by_pages(&bytes, root);
    }
}

#[test]
fn pages_that_lead_to_each_other_and_rows_without_an_end_are_refused() {
    let rows: Vec<(i64, [Stored; 4])> =
        (1..200).map(|id| (id, [(); 4].map(|()| Stored::Text("x".repeat(400))))).collect();
    let bytes = file(512, &rows);
    let root = open(&bytes).1;
    let at = (root as usize - 1) * 512;
    let mut round = bytes.clone();
    round[at + 8..at + 12].copy_from_slice(&root.to_be_bytes());
    assert!(by_pages(&round, root).is_err());
    let leaf = {
        let pages = Pages::new(Storage::Bytes(&bytes), bytes.first_chunk().unwrap(), bytes.len() as u64).unwrap();
        pages.leaves(root).unwrap()[0]
    };
    let at = (leaf as usize - 1) * 512;
    let cell = at + usize::from(u16::from_be_bytes([bytes[at + 8], bytes[at + 9]]));
    let mut endless = bytes;
    // A length of 2^55 bytes in place of the row's, its id and its header.
    endless[cell..cell + 9].copy_from_slice(&[0xff; 9]);
    assert!(by_pages(&endless, root).is_err());
}
