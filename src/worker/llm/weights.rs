//! Weights in Hugging Face's safetensors format, as one file or several with an index, and adapters in PEFT's format.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use multicard::plan::llm::{Lora, ModelConfig};
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;
use serde_json::json;
use tch::{Kind, TchError, Tensor};

use crate::checkpoint;
use crate::shim::{self, Mapped};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
/// Maximum number of names listed in an error.
const NAMED: usize = 3;

/// Tensors of a checkpoint by name. Nothing is read until it is copied.
pub struct Checkpoint {
    folder: PathBuf,
    tensors: BTreeMap<String, Stored>,
}

struct Stored {
    file: Mapped,
    range: Range<usize>,
    shape: Vec<i64>,
    kind: Kind,
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Checkpoint {
    /// Opens the safetensors of a folder, or one file.
    ///
    /// # Errors
    /// The file that is missing or broken.
    pub fn open(path: &Path) -> Result<Self, String> {
        let files = if path.is_file() { vec![path.to_owned()] } else { files_of(path)? };
        let mut tensors = BTreeMap::new();
        for file in files {
            let shown = file.display();
            let mapped = Mapped::open(&file).map_err(|error| format!("{shown} cannot be read: {error}"))?;
            let broken = |error: &dyn std::fmt::Display| format!("{shown} is not a complete safetensors file: {error}");
            let read = SafeTensors::deserialize(mapped.bytes()).map_err(|error| broken(&error))?;
            let base = mapped.bytes().as_ptr() as usize;
            for (name, view) in read.tensors() {
                let kind = match view.dtype() {
                    Dtype::F32 => Kind::Float,
                    Dtype::F16 => Kind::Half,
                    Dtype::BF16 => Kind::BFloat16,
                    other => return Err(format!("{shown}: {name} has type {other:?}: use F32, F16 or BF16")),
                };
                let start = view.data().as_ptr() as usize - base;
                let range = start..start + view.data().len();
                let shape = view.shape().iter().map(|length| *length as i64).collect();
                tensors.insert(name, Stored { file: mapped.clone(), range, shape, kind });
            }
        }
        Ok(Self { folder: path.to_owned(), tensors })
    }

    /// The folder or file that was opened.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Checks that it holds exactly the weights of a model, each with the right shape.
    ///
    /// # Errors
    /// The tensors that are missing, unexpected, or of the wrong shape.
    pub fn check(&self, expected: &[(String, Vec<i64>)]) -> Result<(), String> {
        let shown = self.folder.display();
        let stored = |name: &String| self.tensors.get(name);
        let missing = expected.iter().filter(|(name, _)| stored(name).is_none());
        named(missing.map(|(name, _)| name.clone())).map_or(Ok(()), |names| {
            Err(format!("{shown} lacks {names}: it belongs to another model, or a file is missing"))
        })?;
        let other = expected.iter().filter_map(|(name, shape)| {
            let found = &stored(name)?.shape;
            (found != shape).then(|| format!("{name} is {found:?} instead of {shape:?}"))
        });
        named(other).map_or(Ok(()), |names| Err(format!("{shown} belongs to another model: {names}")))?;
        let known = |name: &str| expected.iter().any(|(known, _)| known == name);
        // Files may repeat a tied output layer, and old ones hold rotary frequencies.
        let harmless = |name: &str| name == "lm_head.weight" || name.ends_with("rotary_emb.inv_freq");
        let extra = self.tensors.keys().filter(|name| !known(name) && !harmless(name));
        named(extra.cloned())
            .map_or(Ok(()), |names| Err(format!("{shown} holds {names}, which the model does not have")))
    }

    /// A tensor in its own type, mapped from the file: read on use.
    pub fn tensor(&self, name: &str) -> Result<Tensor, TchError> {
        let stored = self.tensors.get(name);
        let Stored { file, range, shape, kind } =
            stored.ok_or_else(|| TchError::Torch(format!("{} lacks {name}", self.folder.display())))?;
        file.tensor(range.clone(), shape, *kind)
    }

    /// Copies tensors to their destinations, converting to their types.
    pub fn copy_to(&self, named: &[(String, Tensor)]) -> Result<(), TchError> {
        named.iter().try_for_each(|(name, place)| shim::copy(place, &self.tensor(name)?, false))
    }
}

/// The first names and the number of others; `None` without any.
fn named(names: impl Iterator<Item = String>) -> Option<String> {
    let names: Vec<_> = names.collect();
    let shown = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => None,
        count if count > NAMED => Some(format!("{shown} and {} more", count - NAMED)),
        _ => Some(shown),
    }
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let index = folder.join(INDEX);
    if !index.exists() {
        let single = folder.join(SINGLE);
        return if single.exists() {
            Ok(vec![single])
        } else {
            Err(format!(
                "{} holds neither {SINGLE} nor {INDEX}: name a folder of Hugging Face weights",
                folder.display()
            ))
        };
    }
    let shown = index.display();
    let text = std::fs::read_to_string(&index).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    let read: Index = serde_json::from_str(&text).map_err(|error| format!("{shown}: {error}"))?;
    let mut files: Vec<_> = read.weight_map.into_values().collect();
    files.sort();
    files.dedup();
    Ok(files.into_iter().map(|file| folder.join(file)).collect())
}

/// Names in Hugging Face's files and shapes of a model's weights.
pub fn expected(config: &ModelConfig) -> Vec<(String, Vec<i64>)> {
    let (dim, vocabulary) = (config.dim as i64, config.vocabulary as i64);
    let mut expected = vec![("model.embed_tokens.weight".to_owned(), vec![vocabulary, dim])];
    for layer in 0..config.layers {
        let mut add = |name: &str, shape| expected.push((format!("model.layers.{layer}.{name}.weight"), shape));
        add("input_layernorm", vec![dim]);
        add("post_attention_layernorm", vec![dim]);
        for (name, from, out) in config.projections() {
            let name = match name {
                "gate" | "up" | "down" => format!("mlp.{name}_proj"),
                "output" => "self_attn.o_proj".to_owned(),
                other => format!("self_attn.{other}_proj"),
            };
            add(&name, vec![out as i64, from as i64]);
        }
    }
    expected.push(("model.norm.weight".to_owned(), vec![dim]));
    if !config.tied {
        expected.push(("lm_head.weight".to_owned(), vec![vocabulary, dim]));
    }
    expected
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
