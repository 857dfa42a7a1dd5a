#![allow(clippy::unwrap_used)]

use super::*;

fn read(name: &str, bytes: &[u8]) -> (Vec<Row>, Option<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let mut rows = Vec::new();
    let outcome = for_each(&path, &mut |row| {
        rows.push(row);
        Ok(Then::Next)
    });
    let error = outcome.err().map(|error| error.to_string().replace(&folder.path().display().to_string(), ""));
    (rows, error)
}

fn text(row: &Row, column: &str) -> String {
    row.fields[column].as_str().unwrap().to_owned()
}

#[test]
fn arrays_and_lines_of_json_are_read_whatever_the_ending() {
    for name in ["rows.json", "rows.jsonl"] {
        for content in [" [\n{\"a\":\"1\"},\n {\"a\":\"2\"}]\n", "\n{\"a\":\"1\"}\n\n{\"a\":\"2\"}"] {
            let (rows, error) = read(name, content.as_bytes());
            assert_eq!(error, None);
            assert_eq!(rows.iter().map(|row| text(row, "a")).collect::<Vec<_>>(), ["1", "2"]);
            assert_eq!(rows[1].place.row, 2);
        }
    }
}

#[test]
fn broken_json_is_named_with_file_row_and_line() {
    for (content, expected) in [
        ("{\"a\":1}\n{\"a\":", "/rows.json, row 2 (line 2): not JSON: EOF while parsing a value"),
        ("\n[{\"a\":1},\n{\"b\" 2}]", "/rows.json, row 2 (line 3): not JSON: expected `:`"),
        ("[{\"a\":1}", "/rows.json, row 2 (line 1): not JSON: EOF while parsing a list"),
        ("hello", "/rows.json, row 1 (line 1): not JSON: expected value"),
    ] {
        assert_eq!(read("rows.json", content.as_bytes()).1.unwrap(), expected, "{content}");
    }
    let (_, error) = read("rows.jsonl", b"{\"a\":1}\n[2]\n");
    assert_eq!(error.unwrap(), "/rows.jsonl, row 2 (line 2): a row must be an object of columns, not a list");
}

#[test]
fn csv_has_names_quotes_and_texts_of_several_lines() {
    let (rows, error) = read("rows.csv", b"\xef\xbb\xbfid,text\r\n1,\"a, \"\"b\"\"\r\nc\"\r\n2,d\r\n");
    assert_eq!(error, None);
    assert_eq!(text(&rows[0], "text"), "a, \"b\"\r\nc");
    assert_eq!((text(&rows[1], "id"), rows[1].place.to_string()), ("2".to_owned(), "row 2 (line 4)".to_owned()));
    let (_, error) = read("rows.csv", b"a,b\n1,2\n3\n");
    assert_eq!(error.unwrap(), "/rows.csv, row 2 (line 3): it has 1 column instead of 2");
    let (_, error) = read("rows.csv", b"a\n\xff\n");
    assert!(error.unwrap().contains("not UTF-8"));
}

#[test]
fn tab_separated_rows_have_no_names_and_no_quotes() {
    let (rows, error) = read("C4_200M.tsv-00000-of-00010", b"He \"go\tHe \"goes\n");
    assert_eq!(error, None);
    assert_eq!((text(&rows[0], "input"), text(&rows[0], "output")), ("He \"go".to_owned(), "He \"goes".to_owned()));
}

#[test]
fn parquet_that_another_codec_compressed_is_refused_by_its_name() {
    let (rows, error) = read("rows.parquet", include_bytes!("../../../tests/oracles/llm/zstd.parquet"));
    let error = error.unwrap();
    assert!(rows.is_empty() && error.contains("ZSTD") && error.contains("snappy"), "{error}");
}

#[test]
fn parquet_holds_lists_of_groups_and_damage_is_an_error() {
    let bytes = include_bytes!("../../../tests/oracles/llm/slimorca/0000.parquet");
    let (rows, error) = read("rows.parquet", bytes);
    assert_eq!(error, None);
    assert_eq!(rows[1].fields["conversations"][2]["value"], "Another one?");
    for cut in [0, 3, 100, bytes.len() - 9] {
        let (_, error) = read("rows.parquet", &bytes[..cut]);
        assert!(error.unwrap().contains("not Parquet"));
    }
    for place in (0..bytes.len()).step_by(7) {
        let mut damaged = bytes.to_vec();
        damaged[place] ^= 0x55;
        // Rows or an error, never a panic.
        read("rows.parquet", &damaged);
    }
}

#[test]
fn reading_stops_when_it_is_enough_and_what_follows_is_not_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in [("a.json", "[{\"a\":1},{\"a\":2},broken"), ("a.jsonl", "{\"a\":1}\n{\"a\":2}\nbroken")] {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        let mut count = 0;
        let outcome = for_each(&path, &mut |_| {
            count += 1;
            Ok(if count == 2 { Then::Stop } else { Then::Next })
        });
        assert_eq!((outcome.unwrap(), count), (Then::Stop, 2));
    }
}

#[test]
fn other_files_are_refused() {
    assert!(read("rows.txt", b"x").1.unwrap().contains("the name must end in one of json, jsonl, csv, tsv, parquet"));
    assert!(read("empty.json", b" \n ").0.is_empty());
}
