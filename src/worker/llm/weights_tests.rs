#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use multicard::dataset::text::expected_weights;
use multicard::plan::llm::ModelConfig;

use super::*;

const INDEX: &str = "model.safetensors.index.json";

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/llm").join(name)
}

#[test]
fn a_checkpoint_of_several_files_is_read_by_its_index_and_one_of_another_model_is_named() {
    let config = ModelConfig::read(&golden("config.json")).unwrap();
    let all = Tensor::read_safetensors(golden("model.safetensors")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut map = BTreeMap::new();
    for (part, tensors) in all.chunks(all.len() / 2 + 1).enumerate() {
        let file = format!("model-{part}.safetensors");
        Tensor::write_safetensors(tensors, folder.path().join(&file)).unwrap();
        map.extend(tensors.iter().map(|(name, _)| (name.clone(), file.clone())));
    }
    let index = |map: &BTreeMap<String, String>| {
        std::fs::write(folder.path().join(INDEX), json!({ "weight_map": map }).to_string()).unwrap();
    };
    index(&map);
    let checkpoint = Checkpoint::open(folder.path()).unwrap();
    checkpoint.check(&expected_weights(&config)).unwrap();
    let (name, tensor) = &all[3];
    let place = Tensor::zeros_like(tensor).to_kind(Kind::BFloat16);
    checkpoint.copy_to(&[(name.clone(), place.shallow_clone())]).unwrap();
    assert_eq!(place, tensor.to_kind(Kind::BFloat16));

    let other = |change: fn(&mut ModelConfig)| {
        let mut config = config.clone();
        change(&mut config);
        checkpoint.check(&expected_weights(&config)).unwrap_err()
    };
    let error = other(|config| config.layers = 3);
    assert!(error.contains("lacks model.layers.2.input_layernorm.weight") && error.contains("6 more"), "{error}");
    let error = other(|config| config.ffn = 65);
    assert!(error.contains("model.layers.0.mlp.gate_proj.weight is [64, 32] instead of [65, 32]"), "{error}");
    let error = other(|config| config.layers = 1);
    assert!(error.contains("contains model.layers.1."), "{error}");
    map.insert("x".into(), "model-9.safetensors".into());
    index(&map);
    let error = Checkpoint::open(folder.path()).err().unwrap();
    assert!(error.contains("model-9.safetensors cannot be read"), "{error}");
    std::fs::write(folder.path().join("model-1.safetensors"), b"1234567890").unwrap();
    let error = Checkpoint::open(&folder.path().join("model-1.safetensors")).err().unwrap();
    assert!(error.contains("is not a complete safetensors file"), "{error}");
    let error = Checkpoint::open(Path::new("/nowhere")).err().unwrap();
    assert!(error.contains("/nowhere contains neither model.safetensors nor"), "{error}");
}
