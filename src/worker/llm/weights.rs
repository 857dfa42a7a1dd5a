//! Weights in Hugging Face's safetensors format, as one file or several with an index, and adapters in PEFT's format.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use multicard::dataset::text::{Located, NumberType, Weights};
use multicard::plan::llm::Lora;
use serde_json::json;
use tch::{Kind, TchError, Tensor};

use crate::checkpoint;
use crate::shim::{self, Mapped};

const SINGLE: &str = "model.safetensors";

/// Tensors of a checkpoint by name. Nothing is read until it is copied.
pub struct Checkpoint {
    weights: Weights,
    files: BTreeMap<PathBuf, Mapped>,
}

fn kind(number: NumberType) -> Kind {
    match number {
        NumberType::F32 => Kind::Float,
        NumberType::F16 => Kind::Half,
        NumberType::Bf16 => Kind::BFloat16,
    }
}

impl Checkpoint {
    /// Opens the safetensors of a folder, or one file.
    ///
    /// # Errors
    /// The file that is missing or broken.
    pub fn open(path: &Path) -> Result<Self, String> {
        let weights = Weights::read(path)?;
        let mut files = BTreeMap::new();
        for Located { file, .. } in weights.tensors.values() {
            if !files.contains_key(file) {
                let mapped =
                    Mapped::open(file).map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
                files.insert(file.clone(), mapped);
            }
        }
        Ok(Self { weights, files })
    }

    /// The folder or file that was opened.
    pub fn folder(&self) -> &Path {
        &self.weights.path
    }

    /// Checks that it holds exactly the weights of a model, each with the right shape.
    ///
    /// # Errors
    /// The tensors that are missing, unexpected, or of the wrong shape.
    pub fn check(&self, expected: &[(String, Vec<i64>)]) -> Result<(), String> {
        self.weights.check(expected)
    }

    /// A tensor in its own type, mapped from the file: read on use.
    pub fn tensor(&self, name: &str) -> Result<Tensor, TchError> {
        let lacking = || TchError::Torch(format!("{} lacks {name}", self.folder().display()));
        let Located { file, range, shape, number } = self.weights.tensors.get(name).ok_or_else(lacking)?;
        self.files.get(file).ok_or_else(lacking)?.tensor(range.clone(), shape, kind(*number))
    }

    /// Copies tensors to their destinations, converting to their types.
    pub fn copy_to(&self, named: &[(String, Tensor)]) -> Result<(), TchError> {
        named.iter().try_for_each(|(name, place)| shim::copy(place, &self.tensor(name)?, false))
    }
}

/// Writes adapters in PEFT's format.
pub fn export_adapters(folder: &Path, lora: &Lora, base: &str, adapters: &[(String, Tensor)]) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    checkpoint::write(&folder.join("adapter_model.safetensors"), adapters)?;
    std::fs::write(folder.join("adapter_config.json"), serde_json::to_vec_pretty(&adapter_config(lora, base))?)
}

/// Writes all weights in transformers' format. The model's own `config.json` goes with them.
pub fn export_weights(folder: &Path, weights: &[(String, Tensor)]) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    checkpoint::write(&folder.join(SINGLE), weights)
}

/// The content of PEFT's `adapter_config.json`.
fn adapter_config(lora: &Lora, base: &str) -> serde_json::Value {
    let projections = ["q", "k", "v", "output", "gate", "up", "down"];
    let adapted = projections.iter().filter(|name| lora.targets.has(name));
    let modules: Vec<_> =
        adapted.map(|name| if *name == "output" { "o_proj".into() } else { format!("{name}_proj") }).collect();
    json!({
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "inference_mode": true,
        "r": lora.rank,
        "lora_alpha": lora.alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": false,
        "target_modules": modules,
    })
}

#[cfg(test)]
#[path = "weights_tests.rs"]
mod tests;
