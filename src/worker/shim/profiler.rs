//! Information for profilers in addition to the worker's calls: named ranges (NVTX), which the built-in trace has too, and the window in
//! which CUDA's profilers record.
//!
//! NVTX is header-only: a program asks for the library that `NVTX_INJECTION64_PATH` names, which a profiler sets, and hands
//! it tables of function pointers to fill. The same is done here, so that ranges need neither CUDA nor a header. Without
//! a profiler nothing is opened, and a range costs one look at an empty pointer.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::mem::transmute;
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};

use crate::recording;

/// The environment variable that names a profiler's library.
const INJECTION: &str = "NVTX_INJECTION64_PATH";

// From nvtx3/nvtxDetail/nvtxTypes.h: ids of tables, of modules and, in the module `core`, of functions. Both modules have the same number
// of functions; those of `core2` are not called here, but profilers require them.
const TABLE_CALLBACKS: u32 = 1;
const TABLE_VERSION: u32 = 3;
const MODULE_CORE: c_int = 1;
const MODULE_CORE2: c_int = 5;
const RANGE_PUSH_A: usize = 9;
const RANGE_POP: usize = 11;
const FUNCTIONS: usize = 16;

/// A function that a profiler sets; null if there is none.
type Slot = AtomicPtr<c_void>;
type Module = [Slot; FUNCTIONS];
/// The tables passed to profilers have a null pointer at index 0 and after the last function.
struct Slots([*const Slot; FUNCTIONS + 1]);

// SAFETY: the pointers are to atomics that live as long as the program.
unsafe impl Sync for Slots {}

static CORE: Module = [const { AtomicPtr::new(ptr::null_mut()) }; FUNCTIONS];
static CORE2: Module = [const { AtomicPtr::new(ptr::null_mut()) }; FUNCTIONS];
static CORE_SLOTS: Slots = slots(&CORE);
static CORE2_SLOTS: Slots = slots(&CORE2);

const fn slots(module: &'static Module) -> Slots {
    let mut slots = [ptr::null(); FUNCTIONS + 1];
    let mut place = 1;
    while place < FUNCTIONS {
        slots[place] = &raw const module[place];
        place += 1;
    }
    Slots(slots)
}

#[repr(C)]
struct Callbacks {
    size: usize,
    module: unsafe extern "C" fn(c_int, *mut *const *const Slot, *mut c_uint) -> c_int,
}

#[repr(C)]
struct Version {
    size: usize,
    version: u32,
    reserved: u32,
    set_injection_version: unsafe extern "C" fn(u32),
}

static CALLBACKS: Callbacks = Callbacks { size: size_of::<Callbacks>(), module };
static VERSION: Version = Version { size: size_of::<Version>(), version: 3, reserved: 0, set_injection_version };

/// Passes the slots of a module to a profiler.
unsafe extern "C" fn module(module: c_int, slots: *mut *const *const Slot, size: *mut c_uint) -> c_int {
    let table = match module {
        MODULE_CORE => &CORE_SLOTS,
        MODULE_CORE2 => &CORE2_SLOTS,
        _ => return 0,
    };
    if slots.is_null() {
        return 0;
    }
    // SAFETY: the profiler passes variables for a pointer and, if it wants it, for a number.
    unsafe {
        *slots = table.0.as_ptr();
        if !size.is_null() {
            *size = FUNCTIONS as c_uint;
        }
    }
    1
}

unsafe extern "C" fn set_injection_version(_version: u32) {}

unsafe extern "C" fn table(id: u32) -> *const c_void {
    match id {
        TABLE_CALLBACKS => (&raw const CALLBACKS).cast(),
        TABLE_VERSION => (&raw const VERSION).cast(),
        _ => ptr::null(),
    }
}

/// Lets the profiler that started this process set its functions, once.
fn open() {
    static OPENED: OnceLock<()> = OnceLock::new();
    OPENED.get_or_init(|| {
        let Some(path) = std::env::var_os(INJECTION).filter(|path| !path.is_empty()) else { return };
        type Initialise = unsafe extern "C" fn(unsafe extern "C" fn(u32) -> *const c_void) -> c_int;
        // SAFETY: this is the library of the profiler that started this process, and the signature is NVTX's own. If it fails, the
        // profiler's timeline only has no ranges.
        unsafe {
            let Ok(library) = Library::open(Some(Path::new(&path)), RTLD_LAZY | RTLD_LOCAL) else { return };
            if let Ok(initialise) = library.get::<Initialise>(b"InitializeInjectionNvtx2\0") {
                initialise(table);
            }
            // The library is never closed, because its threads and hooks stay.
            std::mem::forget(library);
        }
    });
}

fn function(place: usize) -> Option<*mut c_void> {
    open();
    let function = CORE[place].load(Ordering::Relaxed);
    (!function.is_null()).then_some(function)
}

/// A named range in a profiler's timeline and in the built-in trace, for as long as the value lives. It costs nearly nothing if neither is
/// recording.
pub struct NvtxRange {
    /// Its name and start, if the built-in trace records it.
    recorded: Option<(String, i64)>,
    /// Whether it is around windows, so that it is recorded even if it ends while the recording is paused.
    is_around: bool,
    /// Keeps the value on its thread.
    thread: PhantomData<*const ()>,
}

impl NvtxRange {
    /// Begins a range on this thread.
    pub fn new(name: &CStr) -> Self {
        Self::begin(name, recording::begin(), false)
    }

    /// Begins a range around many steps. If the built-in tracer records in windows, the whole range is recorded.
    pub fn around_windows(name: &CStr) -> Self {
        let around = recording::begin_around();
        Self::begin(name, around.or_else(recording::begin), around.is_some())
    }

    fn begin(name: &CStr, start: Option<i64>, is_around: bool) -> Self {
        if let Some(push) = function(RANGE_PUSH_A) {
            // SAFETY: NVTX's signature; the name lives until the call returns.
            unsafe { transmute::<*mut c_void, unsafe extern "C" fn(*const c_char) -> c_int>(push)(name.as_ptr()) };
        }
        let recorded = start.map(|start| (name.to_string_lossy().into_owned(), start));
        Self { recorded, is_around, thread: PhantomData }
    }
}

impl Drop for NvtxRange {
    fn drop(&mut self) {
        if let Some((name, start)) = self.recorded.take() {
            recording::end(&name, start, self.is_around);
        }
        if let Some(pop) = function(RANGE_POP) {
            // SAFETY: NVTX's signature; this thread began the range, because the value cannot leave it.
            unsafe { transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(pop)() };
        }
    }
}

/// A window in which a profiler records: a range and, if CUDA is open, CUDA's own signal.
pub struct Recording {
    /// Dropping it ends the range.
    open: SyncSender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Recording {
    /// Lets profilers record that wait for the range `name` or for `cudaProfilerStart`.
    pub fn start(name: &'static CStr) -> Self {
        // Profilers wait for ranges of a thread, and ranges nest. On a thread of its own, this range may begin and end within any others.
        let (open, closed) = sync_channel(0);
        let (tell, begun) = sync_channel(1);
        let hold = move || {
            cuda(b"cudaProfilerStart\0");
            let range = NvtxRange::new(name);
            let _ = tell.send(());
            // Waits until the other end is dropped.
            let _ = closed.recv();
            drop(range);
            cuda(b"cudaProfilerStop\0");
        };
        let thread = thread::Builder::new().name("capture-range".into()).spawn(hold).ok();
        // If the thread could not start, nothing is recorded and this returns immediately.
        let _ = begun.recv();
        Self { open, thread }
    }

    /// Ends the window and waits until the profiler has finished, which may include waiting for the kernels of all ranks.
    pub fn end(self) {
        drop(self.open);
        if let Some(thread) = self.thread {
            // It cannot panic.
            let _ = thread.join();
        }
    }

    /// Ends the window without waiting for the profiler.
    pub fn end_beside(self) {
        drop(self.open);
    }
}

/// Calls a function of the CUDA runtime that takes no arguments, if the runtime is open.
fn cuda(name: &[u8]) {
    // SAFETY: this looks only in libraries that are already open; both functions take no arguments and may be called at any time.
    unsafe {
        if let Ok(function) = Library::this().get::<unsafe extern "C" fn() -> c_int>(name) {
            function();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_handed_to_profilers_leads_to_every_slot_but_the_first() {
        assert!(CORE_SLOTS.0[0].is_null() && CORE_SLOTS.0[FUNCTIONS].is_null());
        for (slot, function) in CORE_SLOTS.0.iter().zip(&CORE).take(FUNCTIONS).skip(1) {
            assert!(ptr::eq(*slot, &raw const *function));
        }
    }

    #[test]
    fn ranges_do_nothing_where_no_profiler_started_the_process() {
        let _recording = Recording::start(c"capture");
        let _range = NvtxRange::new(c"step");
        assert!(function(RANGE_PUSH_A).is_none() || std::env::var_os(INJECTION).is_some());
    }
}
