//! DALI's C API (`dali/dali.h` of 2.4): the types and functions that pipelines need, under DALI's own names.

use std::ffi::{CStr, c_char, c_int, c_void};

use libloading::os::unix::Library;

/// `daliPipeline_h`, `daliPipelineOutputs_h`, `daliTensorList_h`.
pub type Handle = *mut c_void;
/// `cudaStream_t`.
pub type Stream = *mut c_void;

/// `daliStorageDevice_t`, and of an operator `daliBackend_t`.
pub const CPU: c_int = 0;
/// `daliStorageDevice_t`, and of an operator `daliBackend_t`.
pub const GPU: c_int = 1;
/// Backend of an operator with inputs on the CPU and outputs on the GPU.
pub const MIXED: c_int = 2;

/// `daliDataType_t`.
pub const UINT8: c_int = 0;
/// A value of `daliDataType_t`.
pub const INT64: c_int = 7;
/// A value of `daliDataType_t`.
pub const FLOAT16: c_int = 8;
/// A value of `daliDataType_t`.
pub const FLOAT: c_int = 9;
/// A value of `daliDataType_t`.
pub const BOOL: c_int = 11;
/// A value of `daliDataType_t`.
pub const STRING: c_int = 12;
/// A value of `daliDataType_t`.
pub const FLOAT_VEC: c_int = 16;

/// `DALI_EXEC_DYNAMIC`: the caller may keep outputs as long as it needs them.
pub const EXEC_DYNAMIC: c_int = 1 | 2 | 8;
/// `DALI_FEED_INPUT_FORCE_COPY | DALI_FEED_INPUT_SYNC`.
pub const FEED_COPY: c_int = 2 | 1;
/// `DALI_FEED_INPUT_NO_COPY`.
pub const FEED_NO_COPY: c_int = 4;

/// `daliPipelineParams_t`.
#[repr(C)]
pub struct PipelineParams {
    /// Which of the following fields are given: one bit for each, in their order.
    pub present: u64,
    pub max_batch_size: c_int,
    pub num_threads: c_int,
    pub device_id: c_int,
    pub seed: i64,
    pub exec_type: c_int,
    pub exec_flags: c_int,
    pub prefetch_queue_depths: [c_int; 2],
    pub enable_checkpointing: u8,
    pub enable_memory_stats: u8,
    pub bytes_per_sample_hint: usize,
}

/// `daliPipelineIODesc_t`.
#[repr(C)]
pub struct PipelineIo {
    pub name: *const c_char,
    pub device: c_int,
    /// Bit 0: `dtype` is given. Bit 1: `ndim` is given.
    pub present: u32,
    pub dtype: c_int,
    pub ndim: c_int,
    pub layout: *const c_char,
}

/// `daliIODesc_t`.
#[repr(C)]
pub struct OperatorIo {
    pub name: *const c_char,
    pub device_type: c_int,
}

/// The union of `daliArgDesc_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub union ArgumentValue {
    pub ivalue: i64,
    pub fvalue: f32,
    pub str: *const c_char,
    pub list: ArgumentList,
}

/// A list, as a value in [`ArgumentValue`].
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ArgumentList {
    pub size: i64,
    pub arr: *const c_void,
}

/// `daliArgDesc_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Argument {
    pub name: *const c_char,
    pub dtype: c_int,
    pub value: ArgumentValue,
}

/// `daliOperatorDesc_t`.
#[repr(C)]
pub struct Operator {
    pub schema_name: *const c_char,
    pub instance_name: *const c_char,
    pub backend: c_int,
    pub num_inputs: c_int,
    pub num_outputs: c_int,
    pub num_args: c_int,
    pub num_arg_inputs: c_int,
    pub inputs: *const OperatorIo,
    pub outputs: *const OperatorIo,
    pub args: *const Argument,
    pub arg_inputs: *const c_void,
}

/// `daliBufferPlacement_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Placement {
    pub device_type: c_int,
    pub device_id: c_int,
    pub pinned: u8,
}

/// `daliTensorDesc_t`.
#[repr(C)]
pub struct TensorDesc {
    pub ndim: c_int,
    pub shape: *const i64,
    pub dtype: c_int,
    pub layout: *const c_char,
    pub data: *mut c_void,
}

/// Defines a table of the library's functions, each under its own name.
macro_rules! functions {
    ($($name:ident($($argument:ty),*) -> $result:ty;)+) => {
        /// The functions that pipelines call.
        #[allow(non_snake_case)]
        pub struct Functions { $(pub $name: unsafe extern "C" fn($($argument),*) -> $result),+ }

        impl Functions {
            /// Looks up all the functions in the library.
            pub fn find(library: &Library) -> Result<Self, String> {
                let missing = |error| format!("this is not DALI {}: {error}", super::VERSION);
                // SAFETY: the signatures are those in `dali/dali.h` of the version named above.
                Ok(Self { $($name: *unsafe { library.get(stringify!($name).as_bytes()) }.map_err(missing)?),+ })
            }
        }
    };
}

functions! {
    daliInit() -> c_int;
    daliGetLastErrorMessage() -> *const c_char;
    daliPipelineCreate(*mut Handle, *const PipelineParams) -> c_int;
    daliPipelineDestroy(Handle) -> c_int;
    daliPipelineAddExternalInput(Handle, *const PipelineIo) -> c_int;
    daliPipelineAddOperator(Handle, *const Operator) -> c_int;
    daliPipelineSetOutputs(Handle, c_int, *const PipelineIo) -> c_int;
    daliPipelineBuild(Handle) -> c_int;
    daliPipelineRun(Handle) -> c_int;
    daliPipelineFeedInput(Handle, *const c_char, Handle, *const c_char, c_int, *const Stream) -> c_int;
    daliPipelinePopOutputs(Handle, *mut Handle) -> c_int;
    daliPipelinePopOutputsAsync(Handle, *mut Handle, Stream) -> c_int;
    daliPipelineOutputsDestroy(Handle) -> c_int;
    daliPipelineOutputsGet(Handle, *mut Handle, c_int) -> c_int;
    daliTensorListCreate(*mut Handle, Placement) -> c_int;
    daliTensorListAttachSamples(Handle, c_int, c_int, c_int, *const c_char, *const TensorDesc, *const c_void) -> c_int;
    daliTensorListGetShape(Handle, *mut c_int, *mut c_int, *mut *const i64) -> c_int;
    daliTensorListGetByteSize(Handle, *mut usize) -> c_int;
    daliTensorListGetTensorDesc(Handle, *mut TensorDesc, c_int) -> c_int;
    daliTensorListSetStream(Handle, *const Stream, u8) -> c_int;
    daliTensorListDecRef(Handle, *mut c_int) -> c_int;
}

impl Functions {
    /// Turns the result of a call into an error with DALI's own message.
    pub fn check(&self, result: c_int) -> Result<(), String> {
        // Codes above zero are answers, not errors.
        if result >= 0 {
            return Ok(());
        }
        // SAFETY: the string belongs to this thread and lives until its next call.
        let text = unsafe { CStr::from_ptr((self.daliGetLastErrorMessage)()) }.to_string_lossy();
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("C++ context"));
        let first_lines: Vec<_> = lines.take(6).collect();
        Err(format!("DALI: {}", first_lines.join(" ")))
    }
}
