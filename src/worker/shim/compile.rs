// Code that the build scripts of the worker and of its CUDA part share: libtorch's folder, the compiler's settings, the shim's files.

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

/// The libtorch for which tch is made: another version has other function signatures.
const TORCH_VERSION: &str = include_str!("../../../.ci/torch-version").trim_ascii();

/// The folder of libtorch, which torch-sys tells its dependents. Another version of libtorch is refused.
pub fn torch() -> PathBuf {
    let lib = std::env::var("DEP_TCH_LIBTORCH_LIB").expect("torch-sys tells libtorch's folder");
    let lib = PathBuf::from(&lib).canonicalize().unwrap_or_else(|error| panic!("libtorch's folder {lib}: {error}"));
    let torch = lib.parent().expect("libtorch's lib folder has a parent").to_path_buf();
    check_version(&torch);
    torch
}

/// NVIDIA's libraries and headers, which PyTorch's wheels install beside libtorch.
pub fn nvidia(torch: &Path) -> PathBuf {
    torch.parent().expect("libtorch's folder has a parent").join("nvidia")
}

fn check_version(torch: &Path) {
    let header = torch.join("include/torch/headeronly/version.h");
    println!("cargo:rerun-if-changed={}", header.display());
    let text = std::fs::read_to_string(&header)
        .unwrap_or_else(|error| panic!("libtorch's version: {}: {error}", header.display()));
    let number = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.trim().strip_prefix("#define ")?.strip_prefix(name));
        lines.next().and_then(|rest| rest.trim().parse::<u32>().ok())
    };
    let parts = [number("TORCH_VERSION_MAJOR "), number("TORCH_VERSION_MINOR "), number("TORCH_VERSION_PATCH ")];
    let version: Vec<_> = parts.iter().map(|part| part.map_or("?".into(), |value| value.to_string())).collect();
    let version = version.join(".");
    assert!(
        version == TORCH_VERSION,
        "multicard-worker needs libtorch {TORCH_VERSION}, {} is {version}: set LIBTORCH to a libtorch {TORCH_VERSION}",
        torch.display()
    );
}

/// A C++ compiler for the sources of `shim`, with libtorch's headers.
pub fn compiler(shim: &Path, torch: &Path) -> cc::Build {
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").pic(true).warnings(false);
    build.define("_GLIBCXX_USE_CXX11_ABI", "1").flag("-fvisibility=hidden");
    // The same setting as libtorch itself: without it some of its classes have other members.
    build.define("NDEBUG", None);
    // Optimising libtorch's headers takes 30 s, and the shim uses no hot code from them.
    build.opt_level(1).debug(false);
    build.define("SHIM_STAMP", Some(&*format!("\"{}\"", stamp(shim))));
    build.define("USE_DISTRIBUTED", None).define("USE_C10D_GLOO", None);
    // These come last, so that the real headers are used if they are installed.
    build.flag("-idirafter").flag(shim.join("stand_in").display().to_string());
    build
        .include(shim)
        .include(shim.join("cuda"))
        .include(out())
        .include(torch.join("include"))
        .include(torch.join("include/torch/csrc/api/include"));
    build
}

/// The sources and headers of a folder and of its subfolders; a change to one of them compiles them again.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut folders, mut files) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for path in entries.map(|entry| entry.expect("a folder can be listed").path()) {
            if path.is_dir() { &mut folders } else { &mut files }.push(path);
        }
    }
    files.retain(|path| path.extension().is_some_and(|kind| ["cpp", "h", "cu", "cuh"].map(OsStr::new).contains(&kind)));
    files.sort();
    files.iter().for_each(|file| println!("cargo:rerun-if-changed={}", file.display()));
    files
}

/// The compiled sources of a folder, without its subfolders.
pub fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = files(folder);
    files.retain(|path| path.parent() == Some(folder) && path.extension() == Some(OsStr::new("cpp")));
    files
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A digest of the sources of both parts: a worker opens only a CUDA part that was built from the same sources as itself.
fn stamp(shim: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    for path in files(shim) {
        path.strip_prefix(shim).expect("a file lies in its folder").hash(&mut hasher);
        read(&path).hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

/// Writes the kernels' sources as text for NVRTC, which nvrtc.h includes: for each file its name, its text and the names of its kernels.
pub fn embed_kernels(shim: &Path) {
    let entry = |path: PathBuf| {
        let text = read(&path);
        let names = text.split("extern \"C\" __global__ void").skip(1).map(|rest| {
            let bounds = rest.trim_start().strip_prefix("__launch_bounds__(").and_then(|rest| rest.split_once(')'));
            let (name, _) = bounds.map_or(rest, |(_, rest)| rest).split_once('(').expect("a kernel has parameters");
            format!("\"{}\", ", name.trim())
        });
        let (file, names) = (path.file_name().expect("a file has a name"), names.collect::<String>());
        format!("{{{file:?}, {{R\"CUDA({text})CUDA\", {{{names}}}}}}},\n")
    };
    let table: String = files(&shim.join("cuda/kernels")).into_iter().map(entry).collect();
    std::fs::write(out().join("kernels.inc"), table).expect("OUT_DIR can be written");
}

pub fn out() -> PathBuf {
    PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"))
}
