//! Wheels: the list of them, and the parts that are unpacked.

use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use strum::VariantArray as _;

use super::SetupError;
use crate::dataset::{DatasetError, Wanted, checksum};

/// The built-in list of downloads.
const WHEELS: &str = include_str!("wheels.txt");
/// The environment variable that names another list, for a site's own mirror.
const VARIABLE: &str = "MULTICARD_WHEELS";

/// A set of libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Set {
    /// The libraries of PyTorch, and the two of CUDA that it always loads.
    Cpu,
    /// The libraries of `Cpu`, and all of CUDA.
    Cuda,
    /// The libraries of NVIDIA DALI.
    Dali,
}

impl Set {
    /// The set's name in the list, and in the name of its folder.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The file that `.ci/libtorch` and `.ci/dali` lock.
    pub(super) fn lock(self) -> &'static str {
        match self {
            Self::Cpu | Self::Cuda => "lock",
            Self::Dali => "lock-dali",
        }
    }

    fn holds(self, name: &str) -> bool {
        name == self.name() || (self == Self::Cuda && name == Self::Cpu.name())
    }

    /// Whether a file of a wheel is unpacked: it belongs to the C++ side, or is its licence. `.ci/libtorch` and `.ci/dali` unpack the same
    /// files.
    fn takes(self, file: &str) -> bool {
        let is_of = |folders: &[&str]| folders.iter().any(|folder| file.starts_with(folder));
        let is_licence = file.split('/').next().is_some_and(|folder| folder.ends_with(".dist-info"));
        match self {
            Self::Cpu | Self::Cuda => {
                is_of(&["torch/lib/", "torch/include/", "nvidia"]) || file == "torch/version.py" || is_licence
            }
            Self::Dali => {
                let codec = "nvidia/nvimgcodec/";
                let of_codec = ["lib", "extensions/libjpeg_turbo", "extensions/libnvjpeg_ext", "extensions/libopencv"];
                let is_library = file.strip_prefix("nvidia/dali/").is_some_and(|name| {
                    name.starts_with(".libs/")
                        || (name.starts_with("libdali") && name.ends_with(".so") && !name.contains('/'))
                });
                let is_codec =
                    file.strip_prefix(codec).is_some_and(|name| of_codec.iter().any(|start| name.starts_with(start)));
                is_library || is_codec || is_of(&["nvidia/cu13/lib/"]) || is_licence
            }
        }
    }
}

/// A wheel in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wheel {
    /// Name and version: `torch==2.11.0`.
    pub package: String,
    /// Size of the file.
    pub bytes: u64,
    /// Its SHA-256, in lower-case hexadecimal.
    pub sha256: String,
    /// Its address: `https://…`, `http://…`.
    pub url: String,
}

impl Wheel {
    /// Name of the file.
    pub fn file_name(&self) -> &str {
        self.url.rsplit('/').next().unwrap_or_default()
    }

    pub(super) fn wanted(&self, url: String) -> Wanted {
        Wanted { name: self.file_name().to_owned(), bytes: self.bytes, sha256: self.sha256.clone(), urls: vec![url] }
    }

    /// Checks that an existing file is this wheel.
    pub(super) fn checked(&self, file: PathBuf) -> Result<PathBuf, SetupError> {
        let sum = checksum(&file).map_err(|source| DatasetError::Read { path: file.clone(), source })?;
        if sum == self.sha256 {
            return Ok(file);
        }
        let reason = format!("it is another file: SHA-256 {sum}, expected {}; download it again", self.sha256);
        Err(SetupError::List { path: file, line: None, reason })
    }
}

/// The address of a wheel: its address in the list, or in a mirror.
pub(super) fn address(wheel: &Wheel, from: Option<&str>) -> String {
    from.map_or_else(|| wheel.url.clone(), |from| format!("{}/{}", from.trim_end_matches('/'), wheel.file_name()))
}

/// The wheels of a set, from the list that `MULTICARD_WHEELS` names or from the built-in list.
///
/// # Errors
///
/// The named list cannot be read, has a malformed line, or has nothing for this set.
pub fn wheels(set: Set) -> Result<Vec<Wheel>, SetupError> {
    let Some(path) = env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from) else {
        return parse(set, WHEELS, Path::new("wheels.txt"));
    };
    let text = fs::read_to_string(&path).map_err(|error| SetupError::List {
        reason: format!("the list that {VARIABLE} names cannot be read: {error}"),
        line: None,
        path: path.clone(),
    })?;
    parse(set, &text, &path)
}

pub(super) fn parse(set: Set, text: &str, path: &Path) -> Result<Vec<Wheel>, SetupError> {
    let wrong = |line, reason: String| SetupError::List { path: path.to_owned(), line, reason };
    let mut wheels = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        let words: Vec<&str> = content.split_whitespace().collect();
        match words[..] {
            [] => {}
            [word, ..] if word.starts_with('#') => {}
            [name, ..] if !set.holds(name) && Set::VARIANTS.iter().any(|set| set.name() == name) => {}
            [_, package, bytes, sha256, url] if sha256.len() == 64 && url.starts_with("http") => {
                let bytes =
                    bytes.parse().map_err(|_| wrong(Some(line), format!("{bytes:?} is not a number of bytes")))?;
                let (package, sha256, url) = (package.to_owned(), sha256.to_lowercase(), url.to_owned());
                wheels.push(Wheel { package, bytes, sha256, url });
            }
            _ => return Err(wrong(Some(line), "expected: cpu|cuda|dali PACKAGE BYTES SHA-256 http(s)://…".to_owned())),
        }
    }
    if wheels.is_empty() {
        return Err(wrong(None, format!("it lists nothing for {}", set.name())));
    }
    Ok(wheels)
}

/// Unpacks the C++ side of a wheel into a folder.
pub(super) fn unpack(set: Set, file: &Path, folder: &Path) -> Result<(), SetupError> {
    let broken = |source| SetupError::Unpack { path: file.to_owned(), source };
    let archive = File::open(file).map_err(SetupError::write(file))?;
    let mut archive = zip::ZipArchive::new(io::BufReader::new(archive)).map_err(broken)?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(broken)?;
        // A name that leads out of the folder has no enclosed name.
        let Some(name) = entry.enclosed_name().filter(|name| name.to_str().is_some_and(|name| set.takes(name))) else {
            continue;
        };
        if entry.is_dir() {
            continue;
        }
        let path = folder.join(name);
        let mut write = || {
            fs::create_dir_all(path.parent().unwrap_or(folder))?;
            io::copy(&mut entry, &mut File::create(&path)?).map(drop)
        };
        write().map_err(SetupError::write(&path))?;
    }
    Ok(())
}

/// Moves the contents of a folder to another folder. Sub-folders that do not exist there are moved as a whole, so that each step is one
/// rename.
pub(super) fn merge(from: &Path, to: &Path) -> Result<(), SetupError> {
    if !(from.is_dir() && to.is_dir()) {
        return fs::rename(from, to).map_err(SetupError::write(to));
    }
    for entry in fs::read_dir(from).map_err(SetupError::write(from))? {
        let entry = entry.map_err(SetupError::write(from))?;
        merge(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}
