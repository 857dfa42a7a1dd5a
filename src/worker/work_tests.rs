//! Counted FLOP against PyTorch's counter (`tests/oracles/flop.py`), and traffic by hand.
#![allow(clippy::unwrap_used)]

use multicard::plan::llm::{Lora, LoraTargets, ModelConfig};
use serde::Deserialize;
use tch::{Device, Tensor};

use super::*;
use crate::image::MobileNetV2;
use crate::llm::{Llama, Options};
use crate::testing::generator;

#[derive(Deserialize)]
struct Oracle {
    image: Vec<Images>,
    llama: Llamas,
}

#[derive(Deserialize)]
struct Images {
    width: f64,
    size: i64,
    batch: i64,
    forward: f64,
    step: f64,
}

#[derive(Deserialize)]
struct Llamas {
    model: Model,
    passes: Vec<Passes>,
}

#[derive(Deserialize)]
struct Model {
    layers: usize,
    dim: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    ffn: usize,
    vocabulary: usize,
}

#[derive(Deserialize)]
struct Passes {
    name: String,
    rows: i64,
    tokens: i64,
    forward: f64,
    reference: f64,
    step: f64,
}

fn oracle() -> Oracle {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracles/flop.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn counted(train: bool) -> Counted {
    Counted { kind: Kind::Float, train }
}

fn llama(config: &ModelConfig, options: Options) -> Llama {
    Llama::new(config, options, Device::Cpu, Kind::Float, &mut |_| Ok(())).unwrap()
}

#[test]
fn images_take_the_flop_that_pytorch_counts() {
    let _generator = generator();
    for Images { width, size, batch, forward, step } in oracle().image {
        let network = MobileNetV2::new(10, width, Device::Cpu, Kind::Float, false).unwrap();
        let images = Tensor::zeros([batch, 3, size, size], (Kind::Float, Device::Cpu));
        let found = [false, true].map(|train| network.work(&images, counted(train)).flop);
        assert_eq!(found, [forward, step], "width {width}, {size} px");
    }
}

#[test]
fn tokens_take_the_flop_that_pytorch_counts_with_each_choice_of_adapters() {
    let _generator = generator();
    let Llamas { model, passes } = oracle().llama;
    let Model { layers, dim, heads, kv_heads, head_dim, ffn, vocabulary } = model;
    let config = ModelConfig { layers, dim, heads, kv_heads, head_dim, ffn, vocabulary, ..ModelConfig::tiny() };
    assert_eq!(passes.len(), 4);
    for Passes { name, rows, tokens, forward, reference, step } in passes {
        let lora = match &*name {
            "lora qvo mlp" => Some(Lora { rank: 4, alpha: 8.0, targets: LoraTargets::QvoMlp }),
            "lora qv" => Some(Lora { rank: 8, alpha: 8.0, targets: LoraTargets::Qv }),
            _ => None,
        };
        let config = ModelConfig { tied: name == "tied", ..config.clone() };
        let llama = llama(&config, Options { lora, ..Options::default() });
        let flop_of = |train| llama.work(rows, tokens, counted(train)).flop;
        let found = [flop_of(false), llama.as_reference(|| flop_of(false)), flop_of(true)];
        assert_eq!(found, [forward, reference, step], "{name}");
    }
}

#[test]
fn a_joint_pass_takes_the_flop_of_two_and_reads_frozen_weights_once_less() {
    let _generator = generator();
    let lora = Some(Lora { rank: 4, alpha: 8.0, targets: LoraTargets::QvoMlp });
    let config = ModelConfig::tiny();
    let llama = llama(&config, Options { lora, fused: true, ..Options::default() });
    let work_of = |train| llama.work(2, 8, counted(train));
    let matrices: usize = config.projections().iter().map(|(_, from, to)| from * to).sum();
    let weights = config.layers * matrices + config.vocabulary * config.dim;
    for train in [true, false] {
        let apart = work_of(train) + llama.as_reference(|| work_of(false));
        let joint = llama.beside_reference(|| work_of(train));
        assert_eq!(joint.flop, apart.flop);
        assert_eq!(apart.bytes - joint.bytes, (4 * weights) as f64);
    }
}

#[test]
fn four_bits_change_the_traffic_and_not_the_flop() {
    let _generator = generator();
    let lora = Some(Lora { rank: 4, alpha: 8.0, targets: LoraTargets::QvoMlp });
    let config = ModelConfig::tiny();
    let [whole, nf4] = [false, true].map(|nf4| llama(&config, Options { lora, nf4, ..Options::default() }));
    let [whole, nf4] = [whole, nf4].map(|llama| llama.work(1, 8, counted(true)));
    assert_eq!(whole.flop, nf4.flop);
    // The blocks' matrices are read forward and, but for the first block's query projection, backward.
    let matrices: usize = config.projections().iter().map(|(_, from, to)| from * to).sum();
    let qkv: usize = config.projections()[..3].iter().map(|(_, from, to)| from * to).sum();
    let read = (2 * config.layers * matrices - qkv) as f64;
    // 4 bits for each number, 8 for 64 of them, and a factor for 256 of those.
    let saved = (whole.bytes - nf4.bytes) / read;
    assert!((saved - (4.0 - 0.5 - 1.0 / 64.0)).abs() < 2e-3, "{saved}");
}

#[test]
fn eight_bits_halve_what_products_read_and_leave_the_flop_and_what_they_write() {
    let _generator = generator();
    let lora = Some(Lora { rank: 4, alpha: 8.0, targets: LoraTargets::QvoMlp });
    let config = ModelConfig::tiny();
    let [whole, fp8] = [false, true].map(|fp8| llama(&config, Options { lora, fp8, ..Options::default() }));
    for train in [false, true] {
        let counted = Counted { kind: Kind::BFloat16, train };
        let [whole, fp8] = [&whole, &fp8].map(|llama| llama.work(2, 8, counted));
        assert_eq!(whole.flop, fp8.flop);
        let (queries, keys) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
        let layers = [
            (config.dim, queries + 2 * keys),
            (queries, config.dim),
            (config.dim, 2 * config.ffn),
            (config.ffn, config.dim),
        ];
        // Each direction reads one byte less of each number of its two operands, and a scale for each of their rows.
        let saved = |from: usize, to: usize| (16 * from + from * to) as f64 - 4.0 * (16 + to) as f64;
        let forward = layers.iter().map(|&(from, to)| saved(from, to)).sum::<f64>() * config.layers as f64;
        let backward = layers.iter().map(|&(from, to)| saved(to, from)).sum::<f64>() * config.layers as f64;
        // Nothing before the first block is trained.
        let backward = backward - saved(layers[0].1, layers[0].0);
        let expected = if train { forward + backward } else { forward };
        assert_eq!(whole.bytes - fp8.bytes, expected, "train {train}");
    }
}

#[test]
fn a_linear_layer_moves_its_three_tensors_once_for_each_product() {
    // 2 rows from 3 to 5 in half precision: 6 + 15 + 10 numbers.
    let layer = Product::linear(2, 3, 5);
    let work_of = |train| layer.work(Counted { kind: Kind::Half, train });
    assert_eq!(work_of(false), Work { flop: 60.0, bytes: 62.0 });
    assert_eq!(work_of(true), Work { flop: 180.0, bytes: 186.0 });
    let frozen = Product { weight_gradient: false, ..layer }.work(Counted { kind: Kind::Half, train: true });
    assert_eq!(frozen, Work { flop: 120.0, bytes: 124.0 });
}
