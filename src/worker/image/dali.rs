//! NVIDIA DALI through its C API, whose library is opened at run time: the search for its folder, its functions, and pipelines of its
//! operators.
#![allow(unsafe_code)]

mod api;
mod pipeline;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use multicard::foreign::cache_folder;

use api::Functions;
pub use pipeline::{Fed, Input, Pipeline, Spec};

/// The version for which the table of functions was written. `.ci/dali` fetches it.
pub const VERSION: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.ci/dali-version")).trim_ascii();
/// The library that opens all other libraries of DALI.
const LIBRARY: &str = "dali/libdali_operators.so";
/// The environment variable that names a folder to use instead of the folder that `make dali` fills.
const VARIABLE: &str = "MULTICARD_DALI";

/// The folder that contains DALI's libraries in `dali` and `nvimgcodec`. The error says why there is no such folder, and what to do.
pub fn folder() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        return holding(Path::new(&named)).ok_or_else(|| {
            format!("{VARIABLE} names {}, which holds no {LIBRARY}: correct it", Path::new(&named).display())
        });
    }
    let usual = cache_folder()?.join("multicard").join(format!("dali-{VERSION}")).join("nvidia");
    holding(&usual).ok_or_else(|| {
        format!(
            "{} does not exist: run `multicard setup dali`, or name DALI {VERSION}'s folder nvidia in {VARIABLE}",
            usual.display()
        )
    })
}

fn holding(folder: &Path) -> Option<PathBuf> {
    folder.join(LIBRARY).is_file().then(|| folder.to_owned())
}

static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();

/// Opens DALI, once for the process.
fn functions() -> Result<&'static Functions, String> {
    FUNCTIONS.get_or_init(open).as_ref().map_err(Clone::clone)
}

fn open() -> Result<Functions, String> {
    let path = folder()?.join(LIBRARY);
    // SAFETY: this runs the initialisers of DALI, which is the library that the user asked for.
    let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) };
    let library = library.map_err(|error| format!("{} cannot be opened: {error}", path.display()))?;
    let functions = Functions::find(&library)?;
    // The library is never closed, because its threads and exit handlers stay.
    std::mem::forget(library);
    // SAFETY: the function takes no arguments and is called once.
    functions.check(unsafe { (functions.daliInit)() })?;
    Ok(functions)
}
