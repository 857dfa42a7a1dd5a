//! MNIST download: resumable, from several mirrors, verified by checksum.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use ureq::http::{StatusCode, header};

use super::{DatasetError, make};

/// Base URLs of MNIST mirrors, each ending in a slash.
pub const MNIST_URLS: &[&str] =
    &["https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"];

/// A file with known content.
struct Wanted<'a> {
    name: &'a str,
    bytes: u64,
    sha256: &'a str,
}

const MNIST_FILES: [Wanted; 4] = [
    Wanted {
        name: "train-images-idx3-ubyte.gz",
        bytes: 9_912_422,
        sha256: "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    },
    Wanted {
        name: "train-labels-idx1-ubyte.gz",
        bytes: 28_881,
        sha256: "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    },
    Wanted {
        name: "t10k-images-idx3-ubyte.gz",
        bytes: 1_648_877,
        sha256: "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    },
    Wanted {
        name: "t10k-labels-idx1-ubyte.gz",
        bytes: 4_542,
        sha256: "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    },
];

/// Most requests to a mirror that drops the connection, as long as each one makes progress.
const ANSWERS: usize = 20;

/// Downloads MNIST's four gzipped files into `folder`. Existing files are kept, partial ones resumed, and failing mirrors
/// replaced by the next. `progress` receives the bytes done and their total, and cancels by breaking.
pub fn fetch_mnist(
    folder: &Path,
    base_urls: &[&str],
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<(), DatasetError> {
    let agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        // The files are gzipped themselves: no further encoding.
        .accept_encoding("identity")
        .timeout_connect(Some(Duration::from_secs(15)))
        .timeout_recv_response(Some(Duration::from_secs(30)))
        .timeout_per_read(Some(Duration::from_secs(15)))
        .build()
        .new_agent();
    fetch(&agent, folder, &MNIST_FILES, base_urls, progress)
}

fn fetch(
    agent: &ureq::Agent,
    folder: &Path,
    files: &[Wanted],
    base_urls: &[&str],
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<(), DatasetError> {
    let _lock = make::lock(folder, progress)?;
    let total = files.iter().map(|file| file.bytes).sum();
    let mut before = 0;
    for file in files {
        let path = folder.join(file.name);
        if checksum(&path).is_ok_and(|sum| sum == file.sha256) {
            before += file.bytes;
            continue;
        }
        let mut tried = Vec::new();
        let mut on_bytes = |done| progress(before + done, total);
        let found = base_urls.iter().any(|base| {
            let url = format!("{base}{}", file.name);
            match from_mirror(agent, &url, &path, file, &mut on_bytes) {
                Ok(()) => true,
                Err(stop) => {
                    tried.push((url, stop));
                    matches!(tried.last(), Some((_, Stop::Ours(_))))
                }
            }
        });
        match tried.pop() {
            Some((_, Stop::Ours(error))) => return Err(error),
            _ if found => {}
            last => {
                let tried = tried.into_iter().chain(last);
                let tried = tried.map(|(url, stop)| format!("{url}: {}", stop.reason())).collect();
                return Err(DatasetError::Fetch { file: file.name.into(), folder: folder.to_owned(), tried });
            }
        }
        before += file.bytes;
    }
    Ok(())
}

/// Why a download stopped.
enum Stop {
    /// The mirror or the connection failed; another mirror may work.
    Mirror(String),
    /// A local error or a cancellation; no other mirror helps.
    Ours(DatasetError),
}

impl Stop {
    fn reason(self) -> String {
        match self {
            Self::Mirror(reason) => reason,
            Self::Ours(error) => error.to_string(),
        }
    }
}

/// Downloads one file from one mirror, resuming while there is progress, and moves it into place.
fn from_mirror(
    agent: &ureq::Agent,
    url: &str,
    path: &Path,
    file: &Wanted,
    on_bytes: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<(), Stop> {
    let part = path.with_added_extension("part");
    let length = || fs::metadata(&part).map_or(0, |metadata| metadata.len());
    let mut answers = 0;
    while length() < file.bytes {
        let had = length();
        let answer = receive(agent, url, &part, file, on_bytes);
        answers += 1;
        match answer {
            Err(Stop::Mirror(_)) if length() > had && answers < ANSWERS => {}
            Err(stop) => return Err(stop),
            Ok(()) => {}
        }
    }
    let ours = |path: &Path, error| Stop::Ours(DatasetError::write(path)(error));
    let found = checksum(&part).map_err(|error| ours(&part, error))?;
    if found != file.sha256 {
        fs::remove_file(&part).map_err(|error| ours(&part, error))?;
        return Err(Stop::Mirror(format!("wrong content: SHA-256 {found}, expected {}", file.sha256)));
    }
    fs::rename(&part, path).map_err(|error| ours(path, error))
}

/// Appends one response to the partial file. After `Ok` the file is complete or too long.
fn receive(
    agent: &ureq::Agent,
    url: &str,
    part: &Path,
    file: &Wanted,
    on_bytes: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<(), Stop> {
    let ours = |error| Stop::Ours(DatasetError::write(part)(error));
    let mut output = File::options().create(true).append(true).open(part).map_err(ours)?;
    let mut done = output.metadata().map_err(ours)?.len();
    if on_bytes(done).is_break() {
        return Err(Stop::Ours(DatasetError::Cancelled));
    }
    let request = agent.get(url);
    let request = if done > 0 { request.header(header::RANGE, format!("bytes={done}-")) } else { request };
    let mut response = request.call().map_err(|error| Stop::Mirror(error.to_string()))?;
    match response.status() {
        StatusCode::PARTIAL_CONTENT if done > 0 => {
            let range = response.headers().get(header::CONTENT_RANGE).and_then(|range| range.to_str().ok());
            if !range.is_some_and(|range| range.starts_with(&format!("bytes {done}-"))) {
                return Err(Stop::Mirror(format!("sent the range {range:?} instead of one from {done}")));
            }
        }
        StatusCode::OK => {
            // The server does not support ranges: start again.
            output.set_len(0).map_err(ours)?;
            done = 0;
        }
        status => return Err(Stop::Mirror(format!("answered {status}"))),
    }
    // One extra byte is enough to detect a different file.
    let mut body = response.body_mut().as_reader().take(file.bytes + 1 - done);
    let mut buffer = [0; 1 << 16];
    loop {
        let count = match body.read(&mut buffer) {
            Ok(0) if done < file.bytes => {
                return Err(Stop::Mirror(format!("the response ended after {done} of {} bytes", file.bytes)));
            }
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) => {
                return Err(Stop::Mirror(format!(
                    "the connection broke after {done} of {} bytes: {error}",
                    file.bytes
                )));
            }
        };
        output.write_all(&buffer[..count]).map_err(ours)?;
        done += count as u64;
        if on_bytes(done.min(file.bytes)).is_break() {
            return Err(Stop::Ours(DatasetError::Cancelled));
        }
    }
}

/// SHA-256 of a file, in lower-case hexadecimal.
fn checksum(path: &Path) -> io::Result<String> {
    Ok(make::sha256(&fs::read(path)?))
}

#[cfg(test)]
#[path = "fetch_tests.rs"]
mod tests;
