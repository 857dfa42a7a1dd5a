//! The built-in tracer of CUDA's activity, opened for this process.

use std::ffi::{CStr, CString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use multicard::trace::find_tracer;

use crate::recording;

/// The tracer's library.
pub struct Tracer {
    resume: unsafe extern "C" fn(),
    pause: unsafe extern "C" fn(),
    close: unsafe extern "C" fn(),
}

impl Tracer {
    /// Opens the tracer for a rank; its records go to a raw file in this folder.
    ///
    /// # Errors
    ///
    /// Why the tracer cannot be used.
    pub fn open(folder: &Path, rank: u32) -> Result<Self, String> {
        type Open = unsafe extern "C" fn(*const c_char, c_int) -> *const c_char;
        let path = find_tracer()?;
        let folder = CString::new(folder.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
        // SAFETY: this is our own library, which is built with this program and has these names and signatures.
        let (tracer, problem) = unsafe {
            let missing = |error: libloading::Error| format!("{}: {error}", path.display());
            let library = Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL).map_err(missing)?;
            let open = *library.get::<Open>(b"multicard_trace_open\0").map_err(missing)?;
            let tracer = Self {
                resume: *library.get(b"multicard_trace_resume\0").map_err(missing)?,
                pause: *library.get(b"multicard_trace_pause\0").map_err(missing)?,
                close: *library.get(b"multicard_trace_close\0").map_err(missing)?,
            };
            // The library is never closed, because its thread stays.
            std::mem::forget(library);
            let problem = open(folder.as_ptr(), c_int::try_from(rank).unwrap_or(-1));
            (tracer, (!problem.is_null()).then(|| CStr::from_ptr(problem).to_string_lossy().into_owned()))
        };
        problem.map_or(Ok(tracer), Err)
    }
}

impl recording::Tracer for Tracer {
    fn resume(&self) {
        // SAFETY: the function takes no arguments, like the others below.
        unsafe { (self.resume)() };
    }

    fn pause(&self) {
        // SAFETY: see `resume`.
        unsafe { (self.pause)() };
    }

    fn close(&self) {
        // SAFETY: see `resume`.
        unsafe { (self.close)() };
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::recording::Tracer as _;
    use std::ffi::{c_uint, c_void};
    use std::ops::ControlFlow;
    use std::ptr::null_mut;

    use multicard::trace::{Timeline, Window, gather, import};

    #[test]
    fn a_rank_without_a_driver_leaves_a_trace_that_says_why_it_has_no_kernels() {
        let driver = unsafe { Library::open(Some("libcuda.so.1"), RTLD_NOW) };
        if driver.is_ok() || find_tracer().is_err() {
            eprintln!("skipped: there is a driver, or the tracer was not built");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let tracer = Tracer::open(folder.path(), 3).unwrap();
        tracer.resume();
        tracer.pause();
        tracer.close();
        gather(folder.path(), &[], &mut |_| ControlFlow::Continue(())).unwrap();
        let file = folder.path().join(multicard::protocol::EVENTS_FILE);
        let trace = import(&file, &Window::default(), &mut |_| ControlFlow::Continue(())).unwrap();
        let text = "CUDA calls and kernels are not recorded: there is no NVIDIA driver (libcuda.so.1)";
        assert_eq!((trace.warnings, trace.metrics.len()), (vec![text.to_owned()], 0));
        assert!(trace.wall_ns > 0);
    }

    const MIB: usize = 1 << 20;

    /// Allocates and releases memory of each kind, and waits; what comes before the tracer resumes is unseen.
    fn allocate_release_and_wait(tracer: &Tracer) {
        type Allocate = unsafe extern "C" fn(*mut *mut c_void, usize) -> c_int;
        type Managed = unsafe extern "C" fn(*mut *mut c_void, usize, c_uint) -> c_int;
        type Async = unsafe extern "C" fn(*mut *mut c_void, usize, *mut c_void) -> c_int;
        type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
        type Wait = unsafe extern "C" fn() -> c_int;
        type WaitFor = unsafe extern "C" fn(*mut c_void) -> c_int;
        type Ask = unsafe extern "C" fn(*mut c_int) -> c_int;
        type FreeAsync = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
        let (mut early, mut device, mut host, mut managed, mut later) =
            (null_mut(), null_mut(), null_mut(), null_mut(), null_mut());
        let mut current = -1;
        // SAFETY: CUDA's functions with CUDA's signatures; each address is released once, by the function for it.
        unsafe {
            let cuda = Library::open(Some("libcudart.so.13"), RTLD_NOW).unwrap();
            let [malloc, malloc_host] =
                [&b"cudaMalloc\0"[..], b"cudaMallocHost\0"].map(|name| *cuda.get::<Allocate>(name).unwrap());
            let [free, free_host] =
                [&b"cudaFree\0"[..], b"cudaFreeHost\0"].map(|name| *cuda.get::<Free>(name).unwrap());
            let malloc_managed = *cuda.get::<Managed>(b"cudaMallocManaged\0").unwrap();
            let malloc_async = *cuda.get::<Async>(b"cudaMallocAsync\0").unwrap();
            let free_async = *cuda.get::<FreeAsync>(b"cudaFreeAsync\0").unwrap();
            assert_eq!(malloc(&raw mut early, 3 * MIB), 0);
            tracer.resume();
            assert_eq!(free(early), 0);
            assert_eq!(malloc(&raw mut device, 11 * MIB), 0);
            assert_eq!(malloc_host(&raw mut host, 7 * MIB), 0);
            // Attached to all streams.
            assert_eq!(malloc_managed(&raw mut managed, 5 * MIB, 1), 0);
            assert_eq!(malloc_async(&raw mut later, 13 * MIB, null_mut()), 0);
            assert_eq!((free(device), free_host(host), free(managed), free_async(later, null_mut())), (0, 0, 0, 0));
            let wait = *cuda.get::<Wait>(b"cudaDeviceSynchronize\0").unwrap();
            let wait_for = *cuda.get::<WaitFor>(b"cudaStreamSynchronize\0").unwrap();
            let ask = *cuda.get::<Ask>(b"cudaGetDevice\0").unwrap();
            assert_eq!((wait(), wait(), ask(&raw mut current), ask(&raw mut current)), (0, 0, 0, 0));
            assert!((0..3).all(|_| wait_for(null_mut()) == 0));
            std::mem::forget(cuda);
        }
    }

    #[test]
    #[ignore = "needs a GPU: make test-gpu"]
    fn memory_and_waits_on_a_gpu_are_traced_with_their_sizes_and_the_calls_that_made_them() {
        crate::shim::cuda::open().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let tracer = Tracer::open(folder.path(), 0).unwrap();
        allocate_release_and_wait(&tracer);
        tracer.pause();
        tracer.close();
        let go_on = &mut |_| ControlFlow::Continue(());
        gather(folder.path(), &[], go_on).unwrap();
        let file = folder.path().join(multicard::protocol::EVENTS_FILE);
        let trace = import(&file, &Window::default(), go_on).unwrap();
        println!("{:?} {:?}", trace.allocations, trace.warnings);
        let calls = |name: &str| {
            trace.api.iter().filter(|call| call.name.starts_with(name)).map(|call| call.statistics.calls).sum::<u64>()
        };
        assert_eq!([calls("cudaDeviceSynchronize"), calls("cudaStreamSynchronize"), calls("cudaGetDevice")], [2, 3, 0]);
        let waits: Vec<_> = trace.sync.iter().map(|sync| (sync.kind.as_str(), sync.statistics.calls)).collect();
        assert!(waits.contains(&("context", 2)) && waits.contains(&("stream", 3)), "{waits:?}");
        let timeline = Timeline::open(&file, go_on).unwrap();
        let mut changes = Vec::new();
        for row in (0..timeline.rows().len()).filter(|row| timeline.rows()[*row].live().is_some()) {
            for item in timeline.items(row, (i64::MIN, i64::MAX)).unwrap() {
                let call = timeline.launcher(row, &item).unwrap().map(|call| timeline.name(call.item.label).to_owned());
                changes.push((timeline.name(item.label).to_owned(), item.bytes.unwrap(), call.unwrap_or_default()));
            }
        }
        for (kind, mib, by) in [
            ("device memory released", 3, "cudaFree"),
            ("device memory allocated", 11, "cudaMalloc"),
            ("device memory released", 11, "cudaFree"),
            ("pinned memory allocated", 7, "cudaMallocHost"),
            ("pinned memory released", 7, "cudaFreeHost"),
            ("managed memory allocated", 5, "cudaMallocManaged"),
            ("managed memory released", 5, "cudaFree"),
            ("device memory allocated", 13, "cudaMallocAsync"),
            ("device memory released", 13, "cudaFreeAsync"),
        ] {
            let is_it = |(name, bytes, call): &&(String, u64, String)| {
                name == kind && *bytes == mib * MIB as u64 && call.starts_with(by)
            };
            assert!(changes.iter().any(|change| is_it(&change)), "{kind}, {mib} MiB by {by}: {changes:?}");
        }
        // Of the memory that was there before, only the release is known.
        let unseen: u64 = trace.allocations.iter().map(|kind| kind.unseen_bytes).sum();
        assert!(unseen >= 3 * MIB as u64, "{:?}", trace.allocations);
    }
}
