//! MNIST download: resumable, from several mirrors, verified by checksum.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use ureq::http::{StatusCode, header};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use super::{DatasetError, make};

/// Base URLs of MNIST mirrors, each ending in a slash.
pub const MNIST_URLS: &[&str] =
    &["https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"];

/// A file with known content.
pub struct Wanted {
    /// Its name in the folder.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256, in lower-case hexadecimal.
    pub sha256: String,
    /// Its addresses, the preferred one first.
    pub urls: Vec<String>,
}

/// Downloads files into `folder`, as [`fetch_mnist`] does.
pub fn fetch_files(
    folder: &Path,
    files: &[Wanted],
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<(), DatasetError> {
    fetch(&agent(), folder, files, progress)
}

/// Names, bytes and checksums.
const MNIST_FILES: [(&str, u64, &str); 4] = [
    ("train-images-idx3-ubyte.gz", 9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
    ("train-labels-idx1-ubyte.gz", 28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
    ("t10k-images-idx3-ubyte.gz", 1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
    ("t10k-labels-idx1-ubyte.gz", 4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
];

/// The certificates that Debian, Ubuntu and SUSE, and that Fedora and Red Hat trust.
const SYSTEM_ROOTS: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// The most redirections that are followed to find a file's declaration.
const MOST_HOPS: usize = 5;

/// The largest number of requests to a mirror that drops the connection, as long as each request makes progress.
const ANSWERS: usize = 20;

/// Downloads MNIST's four gzipped files into `folder`. Existing files are kept, partial ones resumed, and failing mirrors
/// replaced by the next. `progress` receives the bytes done and their total, and cancels by breaking.
pub fn fetch_mnist(
    folder: &Path,
    base_urls: &[&str],
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<(), DatasetError> {
    let wanted = MNIST_FILES.map(|(name, bytes, sha256)| {
        let urls = base_urls.iter().map(|base| format!("{base}{name}")).collect();
        Wanted { name: name.to_owned(), bytes, sha256: sha256.to_owned(), urls }
    });
    fetch(&agent(), folder, &wanted, progress)
}

/// The certificates that this machine trusts, which may include one of a site's own proxy: from the file that `SSL_CERT_FILE` names, or the
/// system's; Mozilla's if there are none.
fn roots() -> RootCerts {
    let named = env::var_os("SSL_CERT_FILE").filter(|file| !file.is_empty()).map(PathBuf::from);
    let files = named.into_iter().chain(SYSTEM_ROOTS.map(PathBuf::from));
    let mut certificates = files.map(|file| certificates_of(&file)).filter(|certificates| !certificates.is_empty());
    certificates.next().map_or(RootCerts::WebPki, RootCerts::from)
}

fn certificates_of(file: &Path) -> Vec<Certificate<'static>> {
    let pem = fs::read(file).unwrap_or_default();
    let certificate = |item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    };
    parse_pem(&pem).filter_map(certificate).collect()
}

/// The HTTP client.
pub(super) fn agent() -> ureq::Agent {
    ureq::Agent::config_builder()
        .http_status_as_error(false)
        // The files are already compressed, so no further encoding is requested.
        .accept_encoding("identity")
        .tls_config(TlsConfig::builder().root_certs(roots()).build())
        .timeout_connect(Some(Duration::from_secs(15)))
        .timeout_recv_response(Some(Duration::from_secs(30)))
        .timeout_per_read(Some(Duration::from_secs(15)))
        .build()
        .new_agent()
}

/// Downloads a short text.
pub(super) fn text(agent: &ureq::Agent, url: &str) -> Result<String, String> {
    let mut response = agent.get(url).call().map_err(|error| error.to_string())?;
    if response.status() != StatusCode::OK {
        return Err(format!("answered {}", response.status()));
    }
    response.body_mut().read_to_string().map_err(|error| error.to_string())
}

/// The size in bytes and the SHA-256 that Hugging Face declares for a file, read from the redirections to it.
pub(super) fn declared(agent: &ureq::Agent, url: &str) -> Result<(u64, String), String> {
    let mut url = url.to_owned();
    for _ in 0..MOST_HOPS {
        let request = agent.head(&url).config().max_redirects(0).max_redirects_will_error(false).build();
        let response = request.call().map_err(|error| error.to_string())?;
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let size = header("x-linked-size").and_then(|size| size.parse().ok());
        let sum = header("x-linked-etag").map(|tag| tag.trim_matches('"').to_lowercase());
        let is_sum = |sum: &String| sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit());
        if let (Some(size), Some(sum)) = (size, sum.filter(is_sum)) {
            return Ok((size, sum));
        }
        let status = response.status();
        match header("location").filter(|_| status.is_redirection()) {
            Some(next) if next.starts_with("http") => url = next.to_owned(),
            Some(next) => {
                let host = url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
                url = format!("{host}{next}");
            }
            None if status.is_success() => return Err("declares no SHA-256 of the file".to_owned()),
            None => return Err(format!("answered {status}")),
        }
    }
    Err(format!("redirects more than {MOST_HOPS} times"))
}

pub(super) fn fetch(
    agent: &ureq::Agent,
    folder: &Path,
    files: &[Wanted],
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<(), DatasetError> {
    let _lock = make::lock(folder, progress)?;
    let total = files.iter().map(|file| file.bytes).sum();
    let mut before = 0;
    for file in files {
        let path = folder.join(&file.name);
        if checksum(&path).is_ok_and(|sum| sum == file.sha256) {
            before += file.bytes;
            continue;
        }
        let mut tried = Vec::new();
        let mut on_bytes = |done| progress(before + done, total);
        let is_fetched = file.urls.iter().any(|url| match from_mirror(agent, url, &path, file, &mut on_bytes) {
            Ok(()) => true,
            Err(stop) => {
                tried.push((url.clone(), stop));
                matches!(tried.last(), Some((_, Stop::Ours(_))))
            }
        });
        match tried.pop() {
            Some((_, Stop::Ours(error))) => return Err(error),
            _ if is_fetched => {}
            last => {
                let tried = tried.into_iter().chain(last);
                let tried = tried.map(|(url, stop)| format!("{url}: {}", stop.reason())).collect();
                return Err(DatasetError::Fetch { file: file.name.clone(), folder: folder.to_owned(), tried });
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
    /// A local error or a cancellation, which another mirror cannot help.
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
    let sum = checksum(&part).map_err(|error| ours(&part, error))?;
    if sum != file.sha256 {
        fs::remove_file(&part).map_err(|error| ours(&part, error))?;
        return Err(Stop::Mirror(format!("wrong content: SHA-256 {sum}, expected {}", file.sha256)));
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
                return Err(Stop::Mirror(format!("sent the range {range:?} instead of a range from {done}")));
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

/// SHA-256 of a file, in lower-case hexadecimal. Files of text are larger than memory.
pub fn checksum(path: &Path) -> io::Result<String> {
    let (mut file, mut hasher) = (File::open(path)?, Sha256::new());
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            count => hasher.update(&buffer[..count]),
        }
    }
}

#[cfg(test)]
#[path = "fetch_tests.rs"]
mod tests;
