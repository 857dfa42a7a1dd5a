use std::io::{BufRead, BufReader, Cursor, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use sha2::{Digest as _, Sha256};
use zip::write::SimpleFileOptions;

use super::wheel::parse;
use super::*;

/// A wheel with these files, of noise that does not shrink, so that a download can break off within it.
fn wheel_bytes(files: &[&str]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (number, name) in (1_u32..).zip(files) {
        archive.start_file(*name, SimpleFileOptions::default()).unwrap();
        let mut state = number;
        let noise: Vec<u8> = (0..50_000)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        archive.write_all(&noise).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn wheel(package: &str, bytes: &[u8], url: &str) -> Wheel {
    let sha256 = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    Wheel { package: package.to_owned(), bytes: bytes.len() as u64, sha256, url: format!("{url}/{package}.whl") }
}

/// Answers requests for files by name with what is there, after `cut` bytes of the first answer with silence; keeps the requests.
fn serve(files: Vec<(String, Vec<u8>)>, cut: Option<usize>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    let run = move || {
        let mut cut = cut;
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines: Vec<String> =
                BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            let Some(path) = lines.first().and_then(|line| line.split(' ').nth(1)) else { continue };
            let range =
                lines.iter().find_map(|line| line.to_lowercase().strip_prefix("range: bytes=").map(String::from));
            let start: usize = range.map_or(0, |range| range.trim_end_matches('-').parse().unwrap());
            seen.lock().unwrap().push(format!("{path} from {start}"));
            let Some((_, bytes)) = files.iter().find(|(name, _)| path.trim_start_matches('/') == name) else {
                let _ = stream.write_all(b"HTTP/1.1 404 no\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                continue;
            };
            let rest = &bytes[start..];
            let status = if start == 0 { "200 OK" } else { "206 Partial Content" };
            let (length, last) = (rest.len(), bytes.len() - 1);
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nContent-Range: bytes {start}-{last}/{}\r\nConnection: close\r\n\r\n",
                bytes.len()
            );
            // The client may be gone.
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(&rest[..cut.take().unwrap_or(rest.len()).min(rest.len())]);
        }
    };
    thread::Builder::new().name("server".into()).spawn(run).unwrap();
    (url, requests)
}

const TORCH: [&str; 4] =
    ["torch/lib/libtorch_cpu.so", "torch/version.py", "torch/nn/modules.py", "torch-2.dist-info/LICENSE"];
const CUDA: [&str; 2] = ["nvidia/cu13/lib/libcudart.so.13", "../outside"];

#[test]
fn a_download_that_breaks_off_goes_on_where_it_stopped_and_only_libraries_are_unpacked() {
    let cache = tempfile::tempdir().unwrap();
    let folder = cache.path().join("libtorch");
    let (torch, cuda) = (wheel_bytes(&TORCH), wheel_bytes(&CUDA));
    // The second wheel is not there at first.
    let (url, _) = serve(vec![("torch.whl".into(), torch.clone())], Some(70_000));
    let both = |url: &str| [wheel("torch", &torch, url), wheel("cuda", &cuda, url)];
    let mut silent = |_: &str, _, _| {};
    let error = fetch(Set::Cpu, &both(&url), &folder, None, &mut silent).unwrap_err().to_string();
    assert!(error.contains("cuda.whl") && error.contains("404") && error.contains("try again"), "{error}");
    assert_eq!(held(&folder), ["torch"]);
    // What was unpacked is not asked for again.
    let (url, requests) = serve(vec![("cuda.whl".into(), cuda.clone())], None);
    fetch(Set::Cpu, &both("http://127.0.0.1:9"), &folder, Some(&url), &mut silent).unwrap();
    assert_eq!(*requests.lock().unwrap(), ["/cuda.whl from 0"]);
    assert_eq!(held(&folder), ["torch", "cuda"]);
    for (name, is_there) in [(TORCH[0], true), (TORCH[1], true), (TORCH[2], false), (TORCH[3], true), (CUDA[0], true)] {
        assert_eq!(folder.join(name).exists(), is_there, "{name}");
    }
    assert!(!cache.path().join("outside").exists() && !cache.path().join("libtorch.received").exists());
}

#[test]
fn what_a_killed_set_up_received_is_not_downloaded_again() {
    let cache = tempfile::tempdir().unwrap();
    let folder = cache.path().join("libtorch");
    let torch = wheel_bytes(&TORCH);
    let received = cache.path().join("libtorch.received");
    fs::create_dir_all(received.join("unpacked/torch/lib")).unwrap();
    fs::write(received.join("unpacked/torch/lib/half-unpacked"), "").unwrap();
    fs::write(received.join("torch.whl.part"), &torch[..60_000]).unwrap();
    let (url, requests) = serve(vec![("torch.whl".into(), torch.clone())], None);
    let mut last = (0, 0);
    let wheels = [wheel("torch", &torch, &url)];
    fetch(Set::Cuda, &wheels, &folder, None, &mut |_, done, total| last = (done, total)).unwrap();
    assert_eq!(*requests.lock().unwrap(), ["/torch.whl from 60000"]);
    assert_eq!(last, (torch.len() as u64, torch.len() as u64));
    assert_eq!(held(&folder), ["torch", "cuda-libraries"], "`.ci/libtorch` reads this list");
    assert!(!folder.join("torch/lib/half-unpacked").exists() && !received.exists());
}

#[test]
fn files_that_were_carried_here_are_taken_and_another_file_is_refused() {
    let (cache, carried) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = cache.path().join("libtorch");
    let torch = wheel_bytes(&TORCH);
    let wheels = [wheel("torch", &torch, "http://127.0.0.1:9")];
    let file = carried.path().join("torch.whl");
    fs::write(&file, &torch[1..]).unwrap();
    let from = carried.path().to_str();
    let mut silent = |_: &str, _, _| {};
    let error = fetch(Set::Cpu, &wheels, &folder, from, &mut silent).unwrap_err().to_string();
    assert!(error.contains("another file") && error.contains(&file.display().to_string()), "{error}");
    fs::write(&file, &torch).unwrap();
    fetch(Set::Cpu, &wheels, &folder, from, &mut silent).unwrap();
    assert!(folder.join("torch/lib/libtorch_cpu.so").exists() && file.exists(), "what was carried stays");
}

#[test]
fn the_list_of_this_program_names_the_versions_that_make_fetches() {
    let scripts = [include_str!("../../.ci/libtorch"), include_str!("../../.ci/dali")].concat();
    let versions = [("torch", launch::TORCH_VERSION), ("nvidia-dali-cuda130", DALI_VERSION)];
    for set in [Set::Cpu, Set::Cuda, Set::Dali] {
        let wheels = parse(set, include_str!("wheels.txt"), Path::new("wheels.txt")).unwrap();
        assert!(wheels.len() >= 3, "{set:?}");
        for wheel in &wheels {
            let (name, version) = wheel.package.split_once("==").unwrap();
            let is_named = scripts.contains(&format!("\"{name}=={version}\""));
            let is_versioned = versions.contains(&(name, version));
            // The rest of CUDA is what the metadata of torch asks for.
            assert!(is_named || is_versioned || !scripts.contains(&format!("\"{name}==")), "{}", wheel.package);
            assert!(wheel.file_name().replace('_', "-").starts_with(&format!("{name}-{version}-")), "{}", wheel.url);
        }
    }
}

#[test]
fn a_list_with_a_wrong_line_is_refused_by_its_number() {
    let error = |text: &str| parse(Set::Cpu, text, Path::new("/site/list")).unwrap_err().to_string();
    let sum = "0".repeat(64);
    assert!(error("# none\n").contains("/site/list: it lists nothing for cpu"));
    assert!(
        error(&format!("# a\ncpu torch==1 many {sum} http://x\n"))
            .contains("/site/list, line 2: \"many\" is not a number")
    );
    assert!(error("gpu torch==1 5 6 7\n").contains("line 1: expected"));
}

#[test]
fn a_full_disk_is_named_before_anything_is_downloaded() {
    let cache = tempfile::tempdir().unwrap();
    let huge = Wheel { bytes: 1 << 60, ..wheel("torch", b"", "http://127.0.0.1:9") };
    let error = fetch(Set::Cpu, &[huge], &cache.path().join("t"), None, &mut |_, _, _| {}).unwrap_err().to_string();
    assert!(error.contains("GB of free space in") && error.contains("XDG_CACHE_HOME"), "{error}");
}

#[test]
fn a_file_that_cannot_be_written_says_where_else_libraries_may_lie() {
    for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::StorageFull] {
        let error = SetupError::write(Path::new("/cache/torch"))(kind.into()).to_string();
        assert!(error.contains("writing /cache/torch failed") && error.contains("set XDG_CACHE_HOME to"), "{error}");
    }
    let other = SetupError::write(Path::new("/cache/torch"))(io::ErrorKind::Interrupted.into()).to_string();
    assert!(!other.contains("XDG_CACHE_HOME") && other.contains("continues from there"), "{other}");
}
