//! Plans of cuDNN's convolutions, kept between processes: which engine was the fastest in trials, and its compiled kernels.
//!
//! A plan is a file of its own in the user's cache, named by a digest of all that it depends on: the GPU's kind, cuDNN's version, the
//! convolution. The file begins with a line that names these things and has a checksum of the rest, which is cuDNN's own text. Therefore a
//! damaged file, or the file of another convolution, is never given to cuDNN.

use std::ffi::{CStr, c_char, c_void};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use multicard::foreign::{cache_folder, read_ours};
use sha2::{Digest, Sha256};
use tch::TchError;

use super::cuda::{self, Take};

/// An upper limit that no plan comes near.
const MOST_PLAN_BYTES: u64 = 64 << 20;
/// The first line of each file. Use another number when plans are chosen by another rule.
const FORMAT: &str = "multicard 2";

/// The use of cuDNN's plans by this process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeptPlans {
    /// Number of convolutions that used a stored plan.
    pub replayed: u64,
    /// Number of plans that were new.
    pub found: u64,
    /// How long engines were tried for new plans, summed over threads, in seconds.
    pub finding_s: f64,
    /// Why plans could not be stored.
    pub problem: Option<String>,
}

/// The folder in which plans are stored, and the reason why a plan could not be written.
struct Store {
    folder: Option<PathBuf>,
    problem: Option<String>,
}

static STORE: Mutex<Store> = Mutex::new(Store { folder: None, problem: None });

/// Lets convolutions on GPUs use stored plans and store new plans from now on: with `trials` the fastest plan in trials, otherwise cuDNN's
/// first proposal. Must be called before the first convolution.
///
/// # Errors
/// There is no CUDA, or the user's cache has no folder that only this user can write.
pub fn keep_plans(trials: bool) -> Result<(), TchError> {
    let folder = cache_folder().map_err(TchError::Torch)?.join("multicard").join("cudnn-plans");
    make_own(&folder)
        .map_err(|error| TchError::Torch(format!("cuDNN's plans cannot be kept in {}: {error}", folder.display())))?;
    with_store(|store| store.folder = Some(folder));
    cuda::keep_plans(find, keep, trials)
}

/// The use of plans since [`keep_plans`].
pub fn kept_plans() -> Result<KeptPlans, TchError> {
    let (replayed, found, finding_s) = cuda::kept_plans()?;
    Ok(KeptPlans { replayed, found, finding_s, problem: with_store(|store| store.problem.clone()) })
}

fn with_store<T>(use_it: impl FnOnce(&mut Store) -> T) -> T {
    use_it(&mut STORE.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
}

extern "C" fn find(name: *const c_char, take: Take, into: *mut c_void) {
    // SAFETY: the shim passes a string that lives until the call returns.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let stored = panic::catch_unwind(|| read(&with_store(|store| store.folder.clone())?, &name));
    if let Ok(Some(plan)) = stored {
        take(into, plan.as_ptr(), plan.len());
    }
}

extern "C" fn keep(name: *const c_char, plan: *const u8, length: usize) {
    // SAFETY: the shim passes a string and this many bytes, which live until the call returns.
    let (name, plan) = unsafe { (CStr::from_ptr(name).to_string_lossy(), std::slice::from_raw_parts(plan, length)) };
    let _ = panic::catch_unwind(|| {
        let Some(folder) = with_store(|store| store.folder.clone()) else { return };
        if let Err(error) = write(&folder, &name, plan) {
            with_store(|store| store.problem.get_or_insert(format!("{}: {error}", folder.display())).len());
        }
    });
}

/// Creates a folder that only this user can write, because kernels in it are executed.
fn make_own(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let about = fs::metadata(folder)?;
    if about.uid() == rustix::process::geteuid().as_raw() && about.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(io::Error::other("other users can write there: give it to this user, with mode 700"))
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn file(folder: &Path, name: &str) -> PathBuf {
    folder.join(&sha256(name.as_bytes())[..32])
}

fn head(name: &str, plan: &[u8]) -> String {
    format!("{FORMAT}; sha256 {}; {name}\n", sha256(plan))
}

/// The plan stored under a name, if there is one and it is complete.
fn read(folder: &Path, name: &str) -> Option<Vec<u8>> {
    let mut whole = read_ours(&file(folder, name), MOST_PLAN_BYTES).ok()?;
    let end = whole.iter().position(|byte| *byte == b'\n')? + 1;
    let plan = whole.split_off(end);
    (whole == head(name, &plan).as_bytes()).then_some(plan)
}

/// Stores a plan. If several threads or ranks do so at the same time, each writes a file of its own, and the last one stays. Nothing waits
/// for the disk: a damaged file is found by its checksum.
fn write(folder: &Path, name: &str, plan: &[u8]) -> io::Result<()> {
    static PARTS: AtomicU64 = AtomicU64::new(0);
    let since_epoch = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let number = PARTS.fetch_add(1, Ordering::Relaxed);
    let path = file(folder, name);
    let part = path.with_extension(format!("{}-{}-{number}.part", std::process::id(), since_epoch.as_nanos()));
    let written = OpenOptions::new().write(true).create_new(true).open(&part).and_then(|mut file| {
        file.write_all(head(name, plan).as_bytes())?;
        file.write_all(plan)?;
        fs::rename(&part, &path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const NAME: &str = "a GPU; cuDNN 91900; forward, Half nhwc";
    const PLAN: &[u8] = b"{\"cudnnVersion\":91900,\n\"kernels\":\"\x00\xff\"}";

    #[test]
    fn a_plan_is_read_as_it_was_kept_and_only_under_its_own_name() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path(), NAME), None);
        write(folder.path(), NAME, b"an older one").unwrap();
        write(folder.path(), NAME, PLAN).unwrap();
        assert_eq!(read(folder.path(), NAME).as_deref(), Some(PLAN));
        assert_eq!(read(folder.path(), "another"), None);
        fs::rename(file(folder.path(), NAME), file(folder.path(), "another")).unwrap();
        assert_eq!(read(folder.path(), "another"), None);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_damaged_plan_is_none_wherever_the_damage_is() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), NAME, PLAN).unwrap();
        let path = file(folder.path(), NAME);
        let whole = fs::read(&path).unwrap();
        for place in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[place] ^= 1;
            fs::write(&path, &damaged).unwrap();
            assert_eq!(read(folder.path(), NAME), None, "byte {place}");
            fs::write(&path, &whole[..place]).unwrap();
            assert_eq!(read(folder.path(), NAME), None, "cut at {place}");
        }
    }

    #[test]
    fn the_shim_gets_what_it_kept_and_a_folder_that_cannot_be_written_is_told() {
        extern "C" fn append(into: *mut c_void, bytes: *const u8, length: usize) {
            // SAFETY: `into` is the vector below.
            unsafe { (*into.cast::<Vec<u8>>()).extend(std::slice::from_raw_parts(bytes, length)) };
        }
        let folder = tempfile::tempdir().unwrap();
        let name = std::ffi::CString::new(NAME).unwrap();
        let mut found = Vec::new();
        make_own(&folder.path().join("new/inner")).unwrap();
        with_store(|store| store.folder = Some(folder.path().join("new/inner")));
        keep(name.as_ptr(), PLAN.as_ptr(), PLAN.len());
        find(name.as_ptr(), append, (&raw mut found).cast());
        assert_eq!((found.as_slice(), with_store(|store| store.problem.take())), (PLAN, None));

        fs::write(folder.path().join("file"), "").unwrap();
        with_store(|store| store.folder = Some(folder.path().join("file")));
        keep(name.as_ptr(), PLAN.as_ptr(), PLAN.len());
        assert!(with_store(|store| store.problem.take()).unwrap().contains("file: "));
    }

    #[test]
    fn a_folder_that_others_can_write_keeps_no_plans() {
        let folder = tempfile::tempdir().unwrap();
        let open = folder.path().join("open");
        make_own(&open).unwrap();
        assert_eq!(fs::metadata(&open).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&open, fs::Permissions::from_mode(0o775)).unwrap();
        assert!(make_own(&open).unwrap_err().to_string().contains("other users can write there"));
    }

    #[test]
    fn threads_that_keep_the_same_plan_at_once_leave_one_whole_file() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            (0..8).for_each(|_| drop(scope.spawn(|| (0..50).for_each(|_| write(folder.path(), NAME, PLAN).unwrap()))));
        });
        assert_eq!(read(folder.path(), NAME).as_deref(), Some(PLAN));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
