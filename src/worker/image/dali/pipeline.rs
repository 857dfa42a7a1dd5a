//! A DALI pipeline: it takes bytes and gives batches, which its own threads prepare ahead.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use super::api::{
    Argument, ArgumentList, ArgumentValue, BOOL, CPU, EXEC_DYNAMIC, FEED_COPY, FEED_NO_COPY, FLOAT, FLOAT_VEC, FLOAT16,
    Functions, GPU, Handle, INT64, MIXED, Operator, OperatorIo, PipelineIo, PipelineParams, Placement, STRING, Stream,
    TensorDesc, UINT8,
};
use super::functions;

/// The name of the external input.
const INPUT: &CStr = c"bytes";
/// `DALI_INTERP_LINEAR`.
const LINEAR: i64 = 1;
/// `DALI_RGB`.
const RGB: i64 = 0;

/// The kind of input that is fed to a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Whole JPEG and PNG files.
    Encoded,
    /// The raw bytes of images with these rows, columns and channels.
    Bytes([usize; 3]),
}

/// The description of a pipeline.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The GPU to use; `None` to use only the CPU.
    pub device: Option<c_int>,
    /// Maximum number of images in a batch.
    pub batch_size: usize,
    /// Number of the pipeline's threads.
    pub threads: usize,
    /// Number of batches that are prepared ahead.
    pub prefetch: usize,
    /// The kind of its input.
    pub input: Input,
    /// Width and height of the images in a batch.
    pub size: usize,
    /// Whether images are laid out as `[size, size, 3]` instead of `[3, size, size]`.
    pub channels_last: bool,
    /// Whether pixels are fp16 instead of fp32.
    pub half: bool,
    /// The number subtracted from every pixel, and the number by which the result is divided.
    pub normalise: [f32; 2],
}

/// The bytes of each image, and whether they outlive the pipeline.
#[derive(Clone, Copy)]
pub enum Fed<'a> {
    /// The bytes outlive the pipeline: nothing is copied.
    Lasting(&'a [&'a [u8]]),
    /// The bytes do not outlive the pipeline: DALI copies them first.
    Passing(&'a [&'a [u8]]),
}

/// A pipeline that was built.
pub struct Pipeline {
    functions: &'static Functions,
    handle: Handle,
    spec: Spec,
}

// SAFETY: a pipeline may be used by one thread after another, and shares nothing with other pipelines.
unsafe impl Send for Pipeline {}

/// One prepared batch. Its memory belongs to DALI and is returned when this value is dropped.
pub struct Output {
    functions: &'static Functions,
    list: Handle,
    /// `[images, 3, size, size]` or `[images, size, size, 3]`.
    pub shape: [i64; 4],
    /// Address of the first element, on the pipeline's device.
    pub data: *mut c_void,
}

// SAFETY: the list counts its references atomically and is returned only here.
unsafe impl Send for Output {}

impl Drop for Output {
    fn drop(&mut self) {
        let mut left = 0;
        // SAFETY: the list was taken by `Pipeline::pop` and is returned once.
        unsafe { (self.functions.daliTensorListDecRef)(self.list, &mut left) };
    }
}

impl Pipeline {
    /// Opens DALI if it is not open yet, and builds a pipeline.
    pub fn new(spec: Spec) -> Result<Self, String> {
        let functions = functions()?;
        let on_gpu = spec.device.is_some();
        let params = PipelineParams {
            // All fields but the seed, the flags, checkpoints, statistics and the hint; the device only if there is one.
            present: 0b101_0011 | if on_gpu { 0b100 } else { 0 },
            max_batch_size: spec.batch_size as c_int,
            num_threads: spec.threads as c_int,
            device_id: spec.device.unwrap_or(0),
            seed: 0,
            exec_type: EXEC_DYNAMIC,
            exec_flags: 0,
            prefetch_queue_depths: [spec.prefetch as c_int; 2],
            enable_checkpointing: 0,
            enable_memory_stats: 0,
            bytes_per_sample_hint: 0,
        };
        let mut handle = ptr::null_mut();
        // SAFETY: both values live until the call returns.
        functions.check(unsafe { (functions.daliPipelineCreate)(&mut handle, &params) })?;
        let pipeline = Self { functions, handle, spec };
        pipeline.build()?;
        Ok(pipeline)
    }

    fn build(&self) -> Result<(), String> {
        let Spec { input, size, channels_last, half, normalise: [mean, deviation], .. } = self.spec;
        let on_gpu = self.spec.device.is_some();
        let device = if on_gpu { GPU } else { CPU };
        let (ndim, layout) = if input == Input::Encoded { (1, c"") } else { (3, c"HWC") };
        let described =
            PipelineIo { name: INPUT.as_ptr(), device: CPU, present: 3, dtype: UINT8, ndim, layout: layout.as_ptr() };
        // SAFETY: the strings and the description live until the call returns.
        self.check(unsafe { (self.functions.daliPipelineAddExternalInput)(self.handle, &described) })?;

        let mut last = INPUT;
        if input == Input::Encoded {
            let backend = if on_gpu { MIXED } else { CPU };
            let arguments = [integer(c"output_type", RGB)];
            self.add(c"decoders__Image", backend, [CPU, device], &[last], c"decoded", &arguments)?;
            last = c"decoded";
        }
        let decoded = if let Input::Bytes([rows, columns, 3]) = input { [rows, columns] == [size; 2] } else { false };
        if !decoded {
            // Digits are not rounded before they are normalised. Colour images are, because the host rounds them when it decodes.
            let digits = matches!(input, Input::Bytes([_, _, 1]));
            let arguments = [
                number(c"resize_x", size as f32),
                number(c"resize_y", size as f32),
                integer(c"interp_type", LINEAR),
                Argument { name: c"antialias".as_ptr(), dtype: BOOL, value: ArgumentValue { ivalue: 0 } },
                integer(c"dtype", i64::from(if digits { FLOAT } else { UINT8 })),
            ];
            self.add(c"Resize", device, [device; 2], &[last], c"resized", &arguments)?;
            last = c"resized";
        }
        let channels = if let Input::Bytes([_, _, channels]) = input { channels } else { 3 };
        let (means, deviations) = (vec![mean; channels], vec![deviation; channels]);
        let arguments = [
            integer(c"dtype", i64::from(if half { FLOAT16 } else { FLOAT })),
            text(c"output_layout", if channels_last { c"HWC" } else { c"CHW" }),
            numbers(c"mean", &means),
            numbers(c"std", &deviations),
        ];
        self.add(c"CropMirrorNormalize", device, [device; 2], &[last], c"normalised", &arguments)?;
        last = c"normalised";
        if channels == 1 {
            let axis = [integer(c"axis", if channels_last { 2 } else { 0 })];
            self.add(c"Cat", device, [device; 2], &[last; 3], c"coloured", &axis)?;
            last = c"coloured";
        }
        let output = PipelineIo { name: last.as_ptr(), device, present: 0, dtype: 0, ndim: 0, layout: ptr::null() };
        // SAFETY: the strings and the description live until the call returns.
        self.check(unsafe { (self.functions.daliPipelineSetOutputs)(self.handle, 1, &output) })?;
        // SAFETY: created by `new`.
        self.check(unsafe { (self.functions.daliPipelineBuild)(self.handle) })
    }

    /// Adds an operator with one output; `places` says where its inputs and its output are.
    fn add(
        &self,
        schema: &CStr,
        backend: c_int,
        places: [c_int; 2],
        inputs: &[&CStr],
        output: &CStr,
        arguments: &[Argument],
    ) -> Result<(), String> {
        let io = |name: &CStr, device_type| OperatorIo { name: name.as_ptr(), device_type };
        let inputs: Vec<_> = inputs.iter().map(|name| io(name, places[0])).collect();
        let outputs = [io(output, places[1])];
        let operator = Operator {
            schema_name: schema.as_ptr(),
            instance_name: output.as_ptr(),
            backend,
            num_inputs: inputs.len() as c_int,
            num_outputs: 1,
            num_args: arguments.len() as c_int,
            num_arg_inputs: 0,
            inputs: inputs.as_ptr(),
            outputs: outputs.as_ptr(),
            args: arguments.as_ptr(),
            arg_inputs: ptr::null(),
        };
        // SAFETY: all lists and strings live until the call returns, and their lengths are given.
        self.check(unsafe { (self.functions.daliPipelineAddOperator)(self.handle, &operator) })
    }

    /// Feeds a batch and lets the pipeline prepare it.
    ///
    /// # Safety
    /// Bytes that are passed as lasting must live, unchanged, until the pipeline is dropped.
    pub unsafe fn feed(&mut self, fed: Fed) -> Result<(), String> {
        let (images, flags) = match fed {
            Fed::Lasting(images) => (images, FEED_NO_COPY),
            Fed::Passing(images) => (images, FEED_COPY),
        };
        let raw = match self.spec.input {
            Input::Encoded => None,
            Input::Bytes(shape) => Some(shape.map(|side| side as i64)),
        };
        let layout = if raw.is_some() { c"HWC" } else { c"" };
        let lengths: Vec<i64> = images.iter().map(|bytes| bytes.len() as i64).collect();
        let expected = raw.map(|shape| shape.iter().product::<i64>());
        if lengths.iter().any(|&length| expected.is_some_and(|expected| expected != length)) {
            return Err(format!("an image of other than {expected:?} bytes was given to DALI"));
        }
        let ndim = if raw.is_some() { 3 } else { 1 };
        let describe = |(bytes, length): (&&[u8], &i64)| TensorDesc {
            ndim,
            shape: raw.as_ref().map_or(length, |shape| shape.as_ptr()),
            dtype: UINT8,
            layout: layout.as_ptr(),
            // DALI only reads its inputs.
            data: bytes.as_ptr().cast_mut().cast(),
        };
        let samples: Vec<_> = images.iter().zip(&lengths).map(describe).collect();
        let placement = Placement { device_type: CPU, device_id: 0, pinned: 0 };
        let mut list = ptr::null_mut();
        // SAFETY: the variable for the handle lives until the call returns.
        self.check(unsafe { (self.functions.daliTensorListCreate)(&mut list, placement) })?;
        let count = samples.len() as c_int;
        let attach = self.functions.daliTensorListAttachSamples;
        // SAFETY: the descriptions, shapes and strings live until the call returns. The bytes live as long as the caller promises, or until
        // DALI has copied them, which the call waits for.
        let attached =
            self.check(unsafe { attach(list, count, ndim, UINT8, layout.as_ptr(), samples.as_ptr(), ptr::null()) });
        let fed = attached.and_then(|()| {
            let feed = self.functions.daliPipelineFeedInput;
            // SAFETY: the list was made above, and the name is that of the input.
            self.check(unsafe { feed(self.handle, INPUT.as_ptr(), list, ptr::null(), flags, ptr::null()) })
        });
        let mut left = 0;
        // SAFETY: this returns the function's own reference, once.
        unsafe { (self.functions.daliTensorListDecRef)(list, &mut left) };
        fed?;
        // SAFETY: built by `new`.
        self.check(unsafe { (self.functions.daliPipelineRun)(self.handle) })
    }

    /// Waits for the next batch. On a GPU, work that is queued on `stream` from now on may use the batch, and its memory is freed in the
    /// order of that stream.
    pub fn pop(&mut self, stream: Option<Stream>) -> Result<Output, String> {
        let (functions, mut outputs, mut list) = (self.functions, ptr::null_mut(), ptr::null_mut());
        // SAFETY: the pipeline was built by `new`; the variable for the handle lives until the calls return.
        self.check(unsafe {
            match stream {
                Some(stream) => (functions.daliPipelinePopOutputsAsync)(self.handle, &mut outputs, stream),
                None => (functions.daliPipelinePopOutputs)(self.handle, &mut outputs),
            }
        })?;
        // SAFETY: the outputs were taken above; the list gets a reference of its own.
        let got = self.check(unsafe { (functions.daliPipelineOutputsGet)(outputs, &mut list, 0) });
        // SAFETY: the outputs were taken above and are freed once; with the dynamic executor the list outlives them.
        unsafe { (functions.daliPipelineOutputsDestroy)(outputs) };
        got?;
        let mut output = Output { functions, list, shape: [0; 4], data: ptr::null_mut() };
        if let Some(stream) = stream {
            // SAFETY: the stream lives as long as the process.
            self.check(unsafe { (functions.daliTensorListSetStream)(list, &stream, 1) })?;
        }
        self.describe(&mut output)?;
        Ok(output)
    }

    /// Reads where the batch lies, and checks that it is one dense block of the expected shape.
    fn describe(&self, output: &mut Output) -> Result<(), String> {
        let (functions, list, size) = (self.functions, output.list, self.spec.size as i64);
        let (mut count, mut dimensions, mut shapes, mut bytes) = (0, 0, ptr::null(), 0_usize);
        // SAFETY: all variables live until the calls return, and the list is alive.
        self.check(unsafe { (functions.daliTensorListGetShape)(list, &mut count, &mut dimensions, &mut shapes) })?;
        // SAFETY: as above.
        self.check(unsafe { (functions.daliTensorListGetByteSize)(list, &mut bytes) })?;
        let expected = if self.spec.channels_last { [size, size, 3] } else { [3, size, size] };
        // SAFETY: DALI gives `count` shapes of `dimensions` numbers, which live as long as the list.
        let sizes = unsafe { std::slice::from_raw_parts(shapes, (count * dimensions).max(0) as usize) };
        let mut first = described();
        let mut end = described();
        // SAFETY: as above; there is at least one image in a batch.
        self.check(unsafe { (functions.daliTensorListGetTensorDesc)(list, &mut first, 0) })?;
        // SAFETY: as above.
        self.check(unsafe { (functions.daliTensorListGetTensorDesc)(list, &mut end, count - 1) })?;
        let image_bytes = bytes / count.max(1) as usize;
        let element = if self.spec.half { 2 } else { 4 };
        let dense = end.data as usize == first.data as usize + image_bytes * (count - 1) as usize;
        let shaped = dimensions == 3 && sizes.chunks_exact(3).all(|shape| shape == expected);
        if !dense || !shaped || image_bytes != expected.iter().product::<i64>() as usize * element {
            return Err(format!(
                "DALI gave {count} images of {bytes} bytes and shapes {sizes:?}, expected {expected:?}"
            ));
        }
        output.shape = [i64::from(count), expected[0], expected[1], expected[2]];
        output.data = first.data;
        Ok(())
    }

    fn check(&self, result: c_int) -> Result<(), String> {
        self.functions.check(result)
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        // SAFETY: created by `new`, destroyed once; outputs that are still held count their own references.
        unsafe { (self.functions.daliPipelineDestroy)(self.handle) };
    }
}

fn described() -> TensorDesc {
    TensorDesc { ndim: 0, shape: ptr::null(), dtype: 0, layout: ptr::null(), data: ptr::null_mut() }
}

fn integer(name: &'static CStr, value: i64) -> Argument {
    Argument { name: name.as_ptr(), dtype: INT64, value: ArgumentValue { ivalue: value } }
}

fn number(name: &'static CStr, value: f32) -> Argument {
    // The whole union is written, so that no byte of it stays uninitialised.
    let mut whole = ArgumentValue { list: ArgumentList { size: 0, arr: ptr::null() } };
    whole.fvalue = value;
    Argument { name: name.as_ptr(), dtype: FLOAT, value: whole }
}

fn text(name: &'static CStr, value: &'static CStr) -> Argument {
    Argument { name: name.as_ptr(), dtype: STRING, value: ArgumentValue { str: value.as_ptr() } }
}

fn numbers(name: &'static CStr, values: &[f32]) -> Argument {
    let list = ArgumentList { size: values.len() as i64, arr: values.as_ptr().cast() };
    Argument { name: name.as_ptr(), dtype: FLOAT_VEC, value: ArgumentValue { list } }
}
