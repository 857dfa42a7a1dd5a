//! Downloads from a local server with configurable misbehaviour.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use super::*;

const NAME: &str = "file.gz";

/// The server's response to one request.
#[derive(Clone, Copy)]
enum Answer {
    /// The full requested range.
    Whole,
    /// The full length in the header, but only this many bytes.
    Cut(usize),
    /// The whole file, ignoring the range.
    NoRange,
    /// A status without a body.
    Status(u16),
}

/// Serves `content` with one answer per request and records the requested ranges.
fn serve(content: Vec<u8>, answers: Vec<Answer>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let ranges = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&ranges);
    let run = move || {
        for answer in answers {
            let Ok((mut stream, _)) = listener.accept() else { return };
            let lines: Vec<String> =
                BufReader::new(&stream).lines().map(|line| line.unwrap()).take_while(|line| !line.is_empty()).collect();
            let range = lines.iter().find_map(|line| line.to_lowercase().strip_prefix("range: ").map(String::from));
            seen.lock().unwrap().push(range.clone().unwrap_or_default());
            let start =
                range.map_or(0, |range| range.trim_start_matches("bytes=").trim_end_matches('-').parse().unwrap());
            let start = if matches!(answer, Answer::NoRange) { 0 } else { start };
            let rest = &content[start..];
            let head = match answer {
                Answer::Status(status) => format!("HTTP/1.1 {status} no\r\nContent-Length: 0\r\n"),
                _ if start == 0 => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n", rest.len()),
                _ => format!(
                    "HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\nContent-Range: bytes {start}-{}/{}\r\n",
                    rest.len(),
                    content.len() - 1,
                    content.len()
                ),
            };
            let body = match answer {
                Answer::Status(_) => &[],
                Answer::Cut(count) => &rest[..count],
                Answer::Whole | Answer::NoRange => rest,
            };
            // The client may close the connection early.
            let _ = stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes());
            let _ = stream.write_all(body);
        }
    };
    thread::Builder::new().name("server".into()).spawn(run).unwrap();
    (url, ranges)
}

fn content() -> Vec<u8> {
    (0..300_000_u32).map(|index| (index * 7 + index / 256) as u8).collect()
}

struct Place {
    folder: tempfile::TempDir,
    content: Vec<u8>,
    sha256: String,
}

impl Place {
    fn new() -> Self {
        let content = content();
        Self { folder: tempfile::tempdir().unwrap(), sha256: make::sha256(&content), content }
    }

    fn fetch(&self, urls: &[&str], progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>) -> Result<(), DatasetError> {
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_per_read(Some(Duration::from_secs(10)))
            .build()
            .new_agent();
        let (bytes, sha256) = (self.content.len() as u64, self.sha256.clone());
        let urls = urls.iter().map(|base| format!("{base}{NAME}")).collect();
        fetch(&agent, self.folder.path(), &[Wanted { name: NAME.into(), bytes, sha256, urls }], progress)
    }

    fn error(&self, urls: &[&str]) -> String {
        self.fetch(urls, &mut go).unwrap_err().to_string()
    }

    fn part(&self) -> Option<u64> {
        fs::metadata(self.folder.path().join(NAME).with_added_extension("part")).ok().map(|part| part.len())
    }

    fn assert_fetched(&self) {
        assert_eq!(fs::read(self.folder.path().join(NAME)).unwrap(), self.content);
        assert_eq!(self.part(), None);
    }
}

fn go(_: u64, _: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn a_cut_connection_is_resumed_where_it_broke() {
    let place = Place::new();
    let (url, ranges) = serve(content(), vec![Answer::Cut(100_000), Answer::Cut(150_000), Answer::Whole]);
    let mut last = (0, 0);
    let mut progress = |done, total| {
        assert!(done >= last.0, "progress went back");
        last = (done, total);
        ControlFlow::Continue(())
    };
    place.fetch(&[&url], &mut progress).unwrap();
    place.assert_fetched();
    assert_eq!(last, (300_000, 300_000));
    assert_eq!(*ranges.lock().unwrap(), ["", "bytes=100000-", "bytes=250000-"]);
}

#[test]
fn a_later_call_resumes_and_a_finished_file_is_kept() {
    let place = Place::new();
    let (url, _) = serve(content(), vec![Answer::Cut(100_000), Answer::Status(503)]);
    let error = place.error(&[&url]);
    assert!(error.contains("answered 503"), "{error}");
    assert_eq!(place.part(), Some(100_000));
    let (url, ranges) = serve(content(), vec![Answer::Whole]);
    place.fetch(&[&url], &mut go).unwrap();
    place.assert_fetched();
    assert_eq!(*ranges.lock().unwrap(), ["bytes=100000-"]);
    place.fetch(&[], &mut go).unwrap();
}

#[test]
fn a_server_without_ranges_is_read_from_the_start() {
    let place = Place::new();
    let (url, _) = serve(content(), vec![Answer::Cut(100_000), Answer::NoRange]);
    place.fetch(&[&url], &mut go).unwrap();
    place.assert_fetched();
}

#[test]
fn a_missing_file_is_requested_from_the_next_mirror() {
    let place = Place::new();
    let (bad, _) = serve(content(), vec![Answer::Status(404)]);
    let (good, _) = serve(content(), vec![Answer::Whole]);
    place.fetch(&[&bad, &good], &mut go).unwrap();
    place.assert_fetched();
}

#[test]
fn wrong_content_is_discarded_with_an_error() {
    let place = Place::new();
    let mut wrong = content();
    wrong[1000] ^= 1;
    let (altered, _) = serve(wrong, vec![Answer::Whole]);
    let error = place.error(&[&altered]);
    assert!(error.contains("wrong content: SHA-256") && error.contains(&place.sha256), "{error}");
    assert_eq!(place.part(), None);
    let (longer, _) = serve([content(), vec![0; 1000]].concat(), vec![Answer::Whole]);
    assert!(place.error(&[&longer]).contains("wrong content"));
    let (shorter, _) = serve(content()[..1000].to_vec(), vec![Answer::Whole, Answer::Status(416)]);
    assert!(place.error(&[&shorter]).contains("416"));
    assert!(!place.folder.path().join(NAME).exists());
}

#[test]
fn every_mirror_is_named_when_all_fail() {
    let place = Place::new();
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/", listener.local_addr().unwrap())
    };
    let (missing, _) = serve(content(), vec![Answer::Status(404)]);
    let error = place.error(&[&closed, &missing]);
    assert!(error.contains(&closed) && error.contains("answered 404") && error.contains("try again"), "{error}");
}

#[test]
fn cancelling_keeps_what_arrived() {
    let place = Place::new();
    let (url, _) = serve(content(), vec![Answer::Whole]);
    let mut progress = |done, _| if done > 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let error = place.fetch(&[&url], &mut progress).unwrap_err();
    assert!(matches!(error, DatasetError::Cancelled), "{error}");
    assert!(place.part().unwrap() > 0);
}

/// A certificate of a site's own, which no list of Mozilla's has.
const OWN: &str = "-----BEGIN CERTIFICATE-----
MIIBEDCBwwIUZ2Fz
-----END CERTIFICATE-----
";

#[test]
fn certificates_that_the_machine_trusts_are_read_and_other_files_have_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("roots.pem");
    fs::write(&file, format!("# Ours.\n{OWN}{OWN}")).unwrap();
    assert_eq!(certificates_of(&file).len(), 2);
    fs::write(&file, "no certificate").unwrap();
    assert!(certificates_of(&file).is_empty() && certificates_of(&folder.path().join("absent")).is_empty());
}
