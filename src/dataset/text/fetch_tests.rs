#![allow(clippy::unwrap_used)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::thread;

use super::*;
use crate::dataset::make::sha256;

/// A hub of one file: it lists it, sends its declaration on the way to another place, and serves it there.
fn hub(content: &'static [u8], declared: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let own = url.clone();
    let serve = move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let lines: Vec<String> =
                BufReader::new(&stream).lines().map(|line| line.unwrap()).take_while(|line| !line.is_empty()).collect();
            let mut words = lines[0].split(' ');
            let (method, path) = (words.next().unwrap(), words.next().unwrap());
            let (head, body) = match path {
                "/api/datasets/knkarthick/samsum/parquet/default/train" => {
                    ("200 OK\r\n".to_owned(), format!("[\"{own}/list/0.parquet\"]").into_bytes())
                }
                "/list/0.parquet" => (
                    format!(
                        "302 Found\r\nLocation: {own}/files/0.parquet\r\nX-Linked-Size: {}\r\nX-Linked-ETag: \"{declared}\"\r\n",
                        content.len()
                    ),
                    Vec::new(),
                ),
                "/files/0.parquet" => ("200 OK\r\n".to_owned(), content.to_vec()),
                _ => ("404 Not Found\r\n".to_owned(), Vec::new()),
            };
            let head = format!("HTTP/1.1 {head}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(head.as_bytes());
            if method != "HEAD" {
                let _ = stream.write_all(&body);
            }
        }
    };
    thread::Builder::new().name("hub".into()).spawn(serve).unwrap();
    url
}

const CONTENT: &[u8] = include_bytes!("../../../tests/oracles/llm/slimorca/0000.parquet");

fn go(_: u64, _: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn files_are_listed_downloaded_and_compared_with_what_the_hub_declares() {
    let folder = tempfile::tempdir().unwrap();
    let url = hub(CONTENT, sha256(CONTENT));
    let mut last = (0, 0);
    fetch_text(DataSet::Samsum, folder.path(), &url, &mut |done, total| {
        last = (done, total);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(std::fs::read(folder.path().join("0000.parquet")).unwrap(), CONTENT);
    assert_eq!(last, (CONTENT.len() as u64, CONTENT.len() as u64));
    // What is there is not asked for again.
    fetch_text(DataSet::Samsum, folder.path(), &url, &mut go).unwrap();
}

#[test]
fn other_content_than_declared_is_refused_and_a_missing_list_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |set, declared: &str| {
        fetch_text(set, folder.path(), &hub(CONTENT, declared.to_owned()), &mut go).unwrap_err().to_string()
    };
    let error = refused(DataSet::Samsum, &sha256(b"other"));
    assert!(error.contains("wrong content: SHA-256"), "{error}");
    let error = refused(DataSet::Samsum, "no checksum");
    assert!(error.contains("declares no SHA-256"), "{error}");
    let error = refused(DataSet::Grammar, "");
    assert!(error.contains("the list of grammar's files") && error.contains("answered 404"), "{error}");
    assert!(refused(DataSet::Uniform, "").contains("not published"));
}
