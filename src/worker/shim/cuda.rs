//! The part of the shim that needs libtorch_cuda. It is opened at run time, before libtorch is first used.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use tch::{TchError, Tensor};
use torch_sys::C_tensor;

use super::error_from;

mod graph;

pub use graph::{Graph, use_side_stream};

/// The file of the shim's CUDA part, beside the worker.
const SHIM: &str = "libmulticard_cuda.so";
/// The environment variable that names another CUDA part than the one beside the worker.
const SHIM_VARIABLE: &str = "MULTICARD_CUDA_SHIM";

type RawEvent = *mut c_void;
/// A function of the shim that takes bytes.
pub type Take = extern "C" fn(into: *mut c_void, bytes: *const u8, length: usize);
/// Passes the plan stored under a name to a function.
type FindPlan = extern "C" fn(*const c_char, Take, *mut c_void);
/// Stores a plan under a name.
type KeepPlan = extern "C" fn(*const c_char, *const u8, usize);

/// Defines a table of the shared library's functions, each under its own name.
macro_rules! functions {
    ($($name:ident($($argument:ty),*) -> $result:ty;)+) => {
        struct Functions { $($name: unsafe extern "C" fn($($argument),*) -> $result),+ }

        impl Functions {
            fn find(library: &Library) -> Result<Self, String> {
                // SAFETY: the names belong to our own shim, which has the signatures in the table.
                Ok(Self { $($name: *unsafe { library.get(stringify!($name).as_bytes()) }.map_err(first_line)?),+ })
            }
        }
    };
}

functions! {
    mcc_last_error() -> *const c_char;
    mcc_device_count() -> c_int;
    mcc_set_device(c_int) -> c_int;
    mcc_synchronize() -> c_int;
    mcc_device_info(c_int, *mut c_char, usize, *mut c_char, *mut i64) -> c_int;
    mcc_event_new(c_int) -> RawEvent;
    mcc_event_free(RawEvent) -> ();
    mcc_event_record(RawEvent) -> c_int;
    mcc_event_query(RawEvent) -> c_int;
    mcc_event_synchronize(RawEvent) -> c_int;
    mcc_event_elapsed_ms(RawEvent, RawEvent, *mut f64) -> c_int;
    mcc_memory_peaks(c_int, *mut i64, *mut i64, *mut i64) -> c_int;
    mcc_reset_memory_peaks(c_int) -> c_int;
    mcc_set_memory_fraction(c_int, f64) -> c_int;
    mcc_group_nccl(*mut c_void, c_int, c_int, c_int, i64) -> *mut c_void;
    mcc_current_stream() -> *mut c_void;
    mcc_use_side_stream() -> c_int;
    mcc_graph_begin(*mut c_void) -> *mut c_void;
    mcc_graph_end(*mut c_void, *mut i64, *mut i64) -> c_int;
    mcc_graph_replay(*mut c_void) -> c_int;
    mcc_graph_free(*mut c_void) -> ();
    mcc_llama_kernels() -> *mut c_void;
    mcc_keep_plans(FindPlan, KeepPlan, c_int) -> c_int;
    mcc_kept_plans(*mut i64, *mut i64, *mut f64) -> ();
    mcc_mobilenet_compile(c_int) -> c_int;
    mcc_mobilenet_features(*const C_tensor, *const *const C_tensor, *const *const C_tensor, usize, *const i64, usize) -> *mut C_tensor;
}

static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();

/// Opens libtorch_cuda and the shim's CUDA part. The error says why CUDA cannot be used and what to do.
///
/// Call it before anything else of libtorch, which looks for its CUDA part only once.
pub fn open() -> Result<(), String> {
    FUNCTIONS.get_or_init(open_libraries).as_ref().map(|_| ()).map_err(Clone::clone)
}

fn functions() -> Result<&'static Functions, TchError> {
    match FUNCTIONS.get() {
        Some(Ok(functions)) => Ok(functions),
        Some(Err(reason)) => Err(TchError::Torch(reason.clone())),
        None => Err(TchError::Torch("libtorch's CUDA part was not opened".into())),
    }
}

fn open_libraries() -> Result<Functions, String> {
    // Loading libtorch_cuda takes seconds and hundreds of megabytes, so it is not loaded on a machine that cannot use it.
    open_library(Path::new("libcuda.so.1")).map_err(|error| format!("no NVIDIA driver: {error}"))?;
    let cuda = torch_folder().map(|folder| folder.join("libtorch_cuda.so")).filter(|path| path.exists());
    let cuda = cuda.unwrap_or_else(|| "libtorch_cuda.so".into());
    open_library(&cuda).map_err(|error| {
        format!(
            "libtorch's CUDA part could not be opened: {error}; install a libtorch with CUDA and NVIDIA's libraries"
        )
    })?;
    let shim = shim_path();
    let library = open_library(&shim).map_err(|error| {
        format!(
            "the worker's CUDA part could not be opened: {error}; build it with MULTICARD_BUILD_CUDA=1 or name it \
             in {SHIM_VARIABLE}"
        )
    })?;
    check_stamp(&library).map_err(|stamp| {
        format!(
            "{} is of another build than this worker ({stamp}): install both from one build, or name the worker's own in \
             {SHIM_VARIABLE}",
            shim.display()
        )
    })?;
    let functions = Functions::find(&library)?;
    // CUDA's libraries cannot be closed again: their threads and exit handlers stay.
    std::mem::forget(library);
    // SAFETY: the function takes no arguments.
    if unsafe { (functions.mcc_device_count)() } < 1 {
        return Err(first_line(error_from(functions.mcc_last_error)));
    }
    Ok(functions)
}

/// Checks that a shim was built from the sources of this worker; the error says how it differs.
fn check_stamp(library: &Library) -> Result<(), String> {
    // SAFETY: if a shim has this function, it takes nothing and returns a constant string of its own.
    let stamp = unsafe { library.get::<unsafe extern "C" fn() -> *const c_char>(b"mcc_stamp") };
    let stamp = stamp.map_err(|_| "it has no stamp".to_owned())?;
    // SAFETY: as above.
    let (theirs, own) = (unsafe { CStr::from_ptr(stamp()) }, super::host::stamp());
    if theirs == own { Ok(()) } else { Err(format!("stamp {theirs:?} instead of {own:?}")) }
}

fn open_library(path: &Path) -> Result<Library, String> {
    // SAFETY: this runs initialisers of the driver, of libtorch and of our own shim, which are the libraries that this program is for.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
    library.map_err(first_line)
}

fn first_line(error: impl std::error::Error) -> String {
    // libloading keeps the linker's message in the error's source.
    let text = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    text.lines().next().unwrap_or_default().to_owned()
}

/// The folder from which libtorch_cpu was loaded.
fn torch_folder() -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("/libtorch_cpu.so"))?;
    Some(Path::new(&line[line.find('/')?..]).parent()?.to_path_buf())
}

fn shim_path() -> PathBuf {
    if let Some(path) = std::env::var_os(SHIM_VARIABLE) {
        return path.into();
    }
    let beside = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join(SHIM)));
    beside.unwrap_or_else(|| SHIM.into())
}

fn check(functions: &Functions, status: c_int) -> Result<c_int, TchError> {
    if status < 0 { Err(error_from(functions.mcc_last_error)) } else { Ok(status) }
}

/// A GPU as CUDA sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuInfo {
    /// Its product name.
    pub name: String,
    /// Its UUID, as NVML prints it.
    pub uuid: String,
    /// Its total memory, in bytes.
    pub memory_bytes: u64,
}

/// The properties of a GPU that CUDA reports.
pub fn gpu_info(index: usize) -> Result<GpuInfo, TchError> {
    let functions = functions()?;
    let (mut name, mut uuid, mut memory) = ([0 as c_char; 256], [0 as c_char; 41], 0);
    // SAFETY: the shim writes at most 256 and 41 bytes, terminators included, and one number.
    let status = unsafe {
        let name_length = name.len();
        (functions.mcc_device_info)(index as c_int, name.as_mut_ptr(), name_length, uuid.as_mut_ptr(), &mut memory)
    };
    check(functions, status)?;
    // SAFETY: both are strings that the shim terminated.
    let text = |characters: &[c_char]| unsafe { CStr::from_ptr(characters.as_ptr()) }.to_string_lossy().into_owned();
    Ok(GpuInfo { name: text(&name), uuid: text(&uuid), memory_bytes: memory.unsigned_abs() })
}

/// Makes a GPU the current one of the calling thread.
pub fn set_device(index: usize) -> Result<(), TchError> {
    let functions = functions()?;
    // SAFETY: plain values.
    check(functions, unsafe { (functions.mcc_set_device)(index as c_int) })?;
    Ok(())
}

/// Waits until the GPU has finished all work that it was given.
pub fn synchronize() -> Result<(), TchError> {
    let functions = functions()?;
    // SAFETY: no arguments.
    check(functions, unsafe { (functions.mcc_synchronize)() })?;
    Ok(())
}

/// The stream on which libtorch queues this thread's work; null is the device's default stream.
pub fn current_stream() -> Result<*mut c_void, TchError> {
    let functions = functions()?;
    // SAFETY: no arguments.
    Ok(unsafe { (functions.mcc_current_stream)() })
}

/// Peaks of memory since the last reset, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPeaks {
    /// Bytes in tensors.
    pub allocated_bytes: u64,
    /// Bytes reserved from the device.
    pub reserved_bytes: u64,
    /// Bytes in blocks that are in use or wait for a stream.
    pub active_bytes: u64,
}

/// The caching allocator's peaks; `reset` starts new ones.
pub fn memory_peaks(index: usize, reset: bool) -> Result<MemoryPeaks, TchError> {
    let functions = functions()?;
    let (mut allocated, mut reserved, mut active) = (0, 0, 0);
    // SAFETY: three variables that live until the call returns.
    let status = unsafe { (functions.mcc_memory_peaks)(index as c_int, &mut allocated, &mut reserved, &mut active) };
    check(functions, status)?;
    if reset {
        // SAFETY: plain values.
        check(functions, unsafe { (functions.mcc_reset_memory_peaks)(index as c_int) })?;
    }
    let [allocated_bytes, reserved_bytes, active_bytes] = [allocated, reserved, active].map(i64::unsigned_abs);
    Ok(MemoryPeaks { allocated_bytes, reserved_bytes, active_bytes })
}

/// Lets the caching allocator use at most this share of the GPU's memory, from 0 to 1.
pub fn set_memory_fraction(index: usize, fraction: f64) -> Result<(), TchError> {
    let functions = functions()?;
    // SAFETY: plain values.
    check(functions, unsafe { (functions.mcc_set_memory_fraction)(index as c_int, fraction) })?;
    Ok(())
}

/// Gives convolutions the plans that `find` returns, and passes new ones to `keep`: the fastest in trials, or cuDNN's first proposals.
pub fn keep_plans(find: FindPlan, keep: KeepPlan, trials: bool) -> Result<(), TchError> {
    let functions = functions()?;
    // SAFETY: both functions live as long as the program, and any thread may call them.
    check(functions, unsafe { (functions.mcc_keep_plans)(find, keep, trials.into()) })?;
    Ok(())
}

/// Number of plans made from stored ones, number of new plans, and how long finding the new ones took.
pub fn kept_plans() -> Result<(u64, u64, f64), TchError> {
    let (mut replayed, mut found, mut finding_s) = (0, 0, 0.0);
    // SAFETY: three variables that live until the call returns.
    unsafe { (functions()?.mcc_kept_plans)(&mut replayed, &mut found, &mut finding_s) };
    Ok((replayed.unsigned_abs(), found.unsigned_abs(), finding_s))
}

/// Creates a group of ranks over NCCL. `store` points to c10d's own pointer.
pub(super) fn group(
    store: *mut c_void,
    rank: c_int,
    world_size: c_int,
    device: usize,
    timeout_ms: i64,
) -> Result<*mut c_void, TchError> {
    let functions = functions()?;
    // SAFETY: the caller's store lives until the call returns, and the shim takes a reference of its own.
    let group = unsafe { (functions.mcc_group_nccl)(store, rank, world_size, device as c_int, timeout_ms) };
    if group.is_null() { Err(error_from(functions.mcc_last_error)) } else { Ok(group) }
}

/// The fused kernels of a Llama block, compiled for this machine's GPUs.
pub(super) fn llama_kernels() -> Result<*mut c_void, TchError> {
    let functions = functions()?;
    // SAFETY: no arguments.
    let kernels = unsafe { (functions.mcc_llama_kernels)() };
    if kernels.is_null() { Err(error_from(functions.mcc_last_error)) } else { Ok(kernels) }
}

/// Compiles MobileNetV2's fused kernels for activations of libtorch's type `kind`.
pub(super) fn mobilenet_compile(kind: c_int) -> Result<(), TchError> {
    let functions = functions()?;
    // SAFETY: plain arguments.
    let status = unsafe { (functions.mcc_mobilenet_compile)(kind) };
    if status == 0 { Ok(()) } else { Err(error_from(functions.mcc_last_error)) }
}

/// MobileNetV2's features. Each layer has three `parameters` and two `running` statistics.
pub(super) fn mobilenet_features(
    images: &Tensor,
    parameters: &[*const C_tensor],
    running: &[*const C_tensor],
    strides: &[i64],
) -> Result<Tensor, TchError> {
    let functions = functions()?;
    let (layers, blocks) = (running.len() / 2, strides.len());
    let (images, parameters, running) = (images.as_ptr(), parameters.as_ptr(), running.as_ptr());
    // SAFETY: all tensors live until the call returns, and the lists have the lengths that are passed. Autograd keeps references of its
    // own.
    let pooled =
        unsafe { (functions.mcc_mobilenet_features)(images, parameters, running, layers, strides.as_ptr(), blocks) };
    if pooled.is_null() {
        return Err(error_from(functions.mcc_last_error));
    }
    // SAFETY: a new tensor that nothing else owns.
    Ok(unsafe { Tensor::from_ptr(pooled) })
}

/// A point in a stream: a CUDA event.
pub struct Event {
    raw: RawEvent,
    functions: &'static Functions,
}

// SAFETY: CUDA events may be used from any thread, also at the same time.
unsafe impl Send for Event {}
// SAFETY: as above; the handle itself never changes.
unsafe impl Sync for Event {}

impl Event {
    /// An event that records its time.
    pub fn timed() -> Result<Self, TchError> {
        Self::new(true)
    }

    /// An event that only orders work, which is cheaper.
    pub fn untimed() -> Result<Self, TchError> {
        Self::new(false)
    }

    fn new(timing: bool) -> Result<Self, TchError> {
        let functions = functions()?;
        // SAFETY: plain values.
        let raw = unsafe { (functions.mcc_event_new)(timing.into()) };
        if raw.is_null() { Err(error_from(functions.mcc_last_error)) } else { Ok(Self { raw, functions }) }
    }

    /// Records the event after all work that the current stream has been given.
    pub fn record(&self) -> Result<(), TchError> {
        // SAFETY: created in `new` and freed only in `drop`; the same holds below.
        check(self.functions, unsafe { (self.functions.mcc_event_record)(self.raw) })?;
        Ok(())
    }

    /// Whether the device has reached the event.
    pub fn is_done(&self) -> Result<bool, TchError> {
        // SAFETY: see `record`.
        Ok(check(self.functions, unsafe { (self.functions.mcc_event_query)(self.raw) })? == 1)
    }

    /// Blocks the host until the device has reached the event.
    pub fn wait(&self) -> Result<(), TchError> {
        // SAFETY: see `record`.
        check(self.functions, unsafe { (self.functions.mcc_event_synchronize)(self.raw) })?;
        Ok(())
    }

    /// The device's time from `earlier` to this event, in seconds; both must be timed and have been reached.
    pub fn since_s(&self, earlier: &Self) -> Result<f64, TchError> {
        let mut milliseconds = 0.0;
        // SAFETY: see `record`; the variable lives until the call returns.
        let status = unsafe { (self.functions.mcc_event_elapsed_ms)(earlier.raw, self.raw, &mut milliseconds) };
        check(self.functions, status)?;
        Ok(milliseconds / 1e3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created in `new` and freed once.
        unsafe { (self.functions.mcc_event_free)(self.raw) };
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_library_of_another_build_is_not_taken_for_the_workers_cuda_part() {
        // Any library that is no shim: this program.
        assert_eq!(check_stamp(&Library::this()).unwrap_err(), "it has no stamp");
        assert_eq!(super::super::host::stamp().to_bytes().len(), 16);
    }

    /// The CUDA part is not compiled where its headers are not.
    #[test]
    fn each_kernel_that_the_cuda_part_launches_is_defined() {
        let defined = include_str!(concat!(env!("OUT_DIR"), "/kernels.inc"));
        for host in [include_str!("cuda/llama.cpp"), include_str!("cuda/mobilenet.cpp")] {
            let is_name =
                |text: &&str| !text.is_empty() && text.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_'));
            let launched: Vec<_> = host.split('"').skip(1).step_by(2).filter(is_name).collect();
            assert!(launched.len() >= 15, "{launched:?}");
            for kernel in launched {
                assert!(defined.contains(&format!("\"{kernel}\", ")), "{kernel}");
            }
        }
    }
}
