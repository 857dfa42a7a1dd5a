//! Checkpoints: everything that a run needs to resume after a step, kept in the run's folder. A run that replaces one that ended early
//! finds the checkpoint in its job.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use multicard::protocol::{CHECKPOINT_FOLDER, Job};
use safetensors::{Dtype, View};
use serde::{Deserialize, Serialize};
use tch::{Device, Kind, TchError, Tensor};

use crate::shim;

const PROGRESS: &str = "progress.json";

/// The progress of a run.
#[derive(Serialize, Deserialize)]
struct Progress {
    /// The run that wrote the checkpoint.
    run: String,
    /// The last step that the checkpoint contains.
    step: u64,
}

/// The point where a run resumes.
pub struct Checkpoint {
    folder: PathBuf,
    /// The run that wrote the checkpoint.
    pub run: String,
    /// The last step that the checkpoint contains.
    pub step: u64,
}

impl Checkpoint {
    /// Reads the checkpoint that a job names.
    ///
    /// # Errors
    /// A part of the checkpoint that cannot be read.
    pub fn of(job: &Job) -> Result<Option<Self>, String> {
        let Some(folder) = &job.resume else { return Ok(None) };
        let path = folder.join(PROGRESS);
        let failed = |error: &dyn std::fmt::Display| {
            format!("going on from {} failed: {error}; delete that folder to begin again", path.display())
        };
        let text = fs::read_to_string(&path).map_err(|error| failed(&error))?;
        let Progress { run, step } = serde_json::from_str(&text).map_err(|error| failed(&error))?;
        Ok(Some(Self { folder: folder.clone(), run, step }))
    }

    /// Restores tensors by name, from a rank's part or from the whole checkpoint.
    ///
    /// # Errors
    /// A tensor that is missing or has another shape.
    pub fn restore(&self, part: Option<u32>, tensors: &[(String, Tensor)]) -> Result<(), TchError> {
        let path = self.folder.join(tensors_file(part));
        let saved: HashMap<_, _> = Tensor::read_safetensors(&path)?.into_iter().collect();
        for (name, place) in tensors {
            let found = saved.get(name).filter(|found| found.size() == place.size());
            let found = found.ok_or_else(|| {
                TchError::Torch(format!("{} lacks {name} of the shape {:?}", path.display(), place.size()))
            })?;
            shim::copy(place, found, false)?;
        }
        Ok(())
    }
}

/// Writes the state after a step and then replaces the previous checkpoint. An incomplete checkpoint is never used.
///
/// Rank 0 begins and ends it. In between, each rank writes its part of a sharded state, or rank 0 writes the whole state.
pub struct Keeper<'a> {
    job: &'a Job,
    step: u64,
    folder: PathBuf,
    next: PathBuf,
}

impl<'a> Keeper<'a> {
    /// Prepares the checkpoint after this step.
    pub fn new(job: &'a Job, step: u64) -> Self {
        let folder = job.folder.join(CHECKPOINT_FOLDER);
        Self { job, step, next: folder.with_extension("next"), folder }
    }

    /// Creates an empty folder for the checkpoint.
    pub fn begin(&self) -> Result<(), String> {
        let _ = fs::remove_dir_all(&self.next);
        self.with_folder(fs::create_dir_all(&self.next))
    }

    /// Writes tensors: a rank's part, or the whole state.
    pub fn write(&self, part: Option<u32>, tensors: &[(String, Tensor)]) -> Result<(), String> {
        self.with_folder(write(&self.next.join(tensors_file(part)), tensors))
    }

    /// Replaces the previous checkpoint with the one that was written.
    pub fn end(&self) -> Result<(), String> {
        let Self { job, step, folder, next } = self;
        let last = folder.with_extension("last");
        let ended = || {
            let progress = Progress { run: job.run.clone(), step: *step };
            fs::write(next.join(PROGRESS), serde_json::to_vec(&progress)?)?;
            let _ = fs::remove_dir_all(&last);
            if folder.exists() {
                fs::rename(folder, &last)?;
            }
            fs::rename(next, folder)?;
            let _ = fs::remove_dir_all(&last);
            Ok(())
        };
        self.with_folder(ended())
    }

    fn with_folder(&self, outcome: std::io::Result<()>) -> Result<(), String> {
        outcome.map_err(|error| format!("keeping a checkpoint in {} failed: {error}", self.folder.display()))
    }
}

/// The file name of a rank's part, or of the whole checkpoint.
fn tensors_file(part: Option<u32>) -> String {
    part.map_or_else(|| "state.safetensors".to_owned(), |rank| format!("state-{rank}.safetensors"))
}

/// Deletes the checkpoint of a finished run.
pub fn drop_of(job: &Job) {
    let _ = fs::remove_dir_all(job.folder.join(CHECKPOINT_FOLDER));
}

/// Writes tensors, with their types, to a safetensors file and flushes it to disk.
pub fn write(path: &Path, tensors: &[(String, Tensor)]) -> std::io::Result<()> {
    let failed = |error: &dyn std::fmt::Display| std::io::Error::other(error.to_string());
    let on_host = |(name, tensor): &(String, Tensor)| {
        let tensor = tensor.f_detach()?.f_to_device(Device::Cpu)?.f_contiguous()?;
        let shape = tensor.size().into_iter().map(|length| length as usize).collect();
        Ok((name.clone(), OnHost(tensor, shape)))
    };
    let views = tensors.iter().map(on_host).collect::<Result<Vec<_>, TchError>>().map_err(|error| failed(&error))?;
    // transformers rejects files whose metadata name no format.
    let format = Some([("format".to_owned(), "pt".to_owned())].into());
    safetensors::serialize_to_file(views, &format, path).map_err(|error| failed(&error))?;
    fs::File::open(path)?.sync_all()
}

/// A contiguous tensor on the host and its shape, in the form that safetensors needs.
struct OnHost(Tensor, Vec<usize>);

impl View for OnHost {
    fn dtype(&self) -> Dtype {
        match self.0.kind() {
            Kind::Half => Dtype::F16,
            Kind::BFloat16 => Dtype::BF16,
            Kind::Double => Dtype::F64,
            Kind::Int => Dtype::I32,
            Kind::Int64 => Dtype::I64,
            _ => Dtype::F32,
        }
    }

    fn shape(&self) -> &[usize] {
        &self.1
    }

    fn data(&self) -> Cow<'_, [u8]> {
        let mut bytes = vec![0; self.data_len()];
        self.0.copy_data_u8(&mut bytes, self.0.numel());
        bytes.into()
    }

    fn data_len(&self) -> usize {
        self.0.numel() * self.0.kind().elt_size_in_bytes()
    }
}
