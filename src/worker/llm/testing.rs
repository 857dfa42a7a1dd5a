//! Shared by tests of techniques: the model of `tests/golden/llm-techniques` and TorchTune 0.5's results.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::path::PathBuf;

use multicard::dataset::text::expected_weights;
use multicard::plan::llm::ModelConfig;
use tch::{Device, Kind, Tensor};

use super::block::Options;
use super::model::{Llama, next};
use super::weights::Checkpoint;
use crate::module::{Module as _, Pass};
use crate::testing::generator;

/// The golden tensors of one folder.
pub struct Golden {
    folder: PathBuf,
    tensors: HashMap<String, Tensor>,
}

impl Golden {
    pub fn techniques() -> Self {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/llm-techniques");
        let tensors = Tensor::read_safetensors(folder.join("golden.safetensors")).unwrap().into_iter().collect();
        Self { folder, tensors }
    }

    pub fn tensor(&self, name: &str) -> &Tensor {
        &self.tensors[name]
    }

    pub fn number(&self, name: &str) -> f64 {
        self.tensor(name).double_value(&[0])
    }

    pub fn find(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    /// The mean loss over the batch's labels.
    pub fn loss(&self, llama: &Llama) -> Tensor {
        let batch = self.batch();
        let losses = llama.forward(&batch, &Pass { train: true, ..Pass::default() }).unwrap();
        losses.sum(Kind::Float) / next(&batch[1]).unwrap().ge(0).sum(Kind::Float)
    }

    /// Tokens and labels.
    pub fn batch(&self) -> Vec<Tensor> {
        ["tokens", "labels"].map(|name| self.tensor(name).to_kind(Kind::Int64)).into()
    }

    /// A model with the golden weights.
    pub fn llama(&self, options: Options) -> Llama {
        let _generator = generator();
        let config = ModelConfig::read(&self.folder.join("config.json")).unwrap();
        let llama = Llama::new(&config, options, Device::Cpu, Kind::Float, &mut |_| Ok(())).unwrap();
        let weights = Checkpoint::open(&self.folder.join("model.safetensors")).unwrap();
        weights.check(&expected_weights(&config)).unwrap();
        weights.copy_to(&llama.named_weights(&Tensor::f_detach).unwrap()).unwrap();
        llama.load_quantised(&weights).unwrap();
        llama
    }

    /// A model with the golden weights and adapters.
    pub fn with_adapters(&self, options: Options) -> Llama {
        let llama = self.llama(options);
        let adapters = Checkpoint::open(&self.folder.join("adapter_model.safetensors")).unwrap();
        adapters.copy_to(&llama.named_adapters(&Tensor::f_detach).unwrap()).unwrap();
        llama
    }

    pub fn compare_adapter_gradients(&self, name: &str, llama: &Llama) {
        let named = llama.named_adapters(&|tensor| Ok(tensor.grad())).unwrap();
        assert_eq!(
            named.len(),
            self.tensors.keys().filter(|key| key.starts_with(&format!("{name}.gradient."))).count()
        );
        for (parameter, found) in named {
            compare(&parameter, &found, self.tensor(&format!("{name}.gradient.{parameter}")));
        }
    }
}

/// The least cosine of the angle between gradients in FP8 and in wider types, for models of a few blocks with random weights. Emulated
/// rounding of such models gave cosines from 0.973 to 0.983.
pub const FP8_COSINE: f64 = 0.96;

/// The gradients of all trained parameters, in fp32 and one after another.
pub fn gradients(llama: &Llama) -> Tensor {
    let each = llama.parameters().into_iter().map(|parameter| parameter.grad().to_kind(Kind::Float).flatten(0, -1));
    Tensor::cat(&each.collect::<Vec<_>>(), 0)
}

/// The cosine of the angle between two vectors.
pub fn cosine(a: &Tensor, b: &Tensor) -> f64 {
    (a.dot(b) / (a.norm() * b.norm())).double_value(&[])
}

/// Checks that two tensors are equal up to rounding, relative to the largest value.
pub fn compare(name: &str, found: &Tensor, expected: &Tensor) {
    let (difference, scale) = (differs_by(found, expected), expected.abs().max().double_value(&[]));
    assert!(difference < 1e-6 + 2e-4 * scale, "{name}: {difference} of {scale}");
}

pub fn differs_by(a: &Tensor, b: &Tensor) -> f64 {
    (a - b).abs().max().double_value(&[])
}
