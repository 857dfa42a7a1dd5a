//! The networks: Llama 3 and similar ones, described by a few numbers.

use std::path::Path;

use serde::Deserialize;

use super::settings::LoraTargets;
use crate::foreign;

/// Longest `config.json`: published ones have one or two kilobytes.
const MOST_BYTES: u64 = 1 << 20;
/// The largest allowed count of a network. Published vocabularies and contexts are a hundred times smaller, and no product of counts that
/// is computed here exceeds 64 bits.
const MOST_COUNT: usize = 1 << 26;
/// The largest allowed width of a network's vectors and number of heads.
const MOST_WIDTH: usize = 1 << 18;
/// The largest allowed number of blocks.
const MOST_LAYERS: usize = 1 << 14;

/// A Llama-like network: RMSNorm, rotary positions, grouped-query attention, SwiGLU.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// Its name in logs.
    pub name: String,
    /// Number of blocks.
    pub layers: usize,
    /// The width of the residual stream.
    pub dim: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads, each shared by `heads / kv_heads` query heads.
    pub kv_heads: usize,
    /// The width of a head.
    pub head_dim: usize,
    /// The width of the MLP.
    pub ffn: usize,
    /// Tokens in the vocabulary.
    pub vocabulary: usize,
    /// The longest row, in tokens.
    pub context: usize,
    /// The base of the rotary frequencies.
    pub rope_base: f64,
    /// Scaling of frequencies for longer contexts.
    pub rope_scaling: Option<RopeScaling>,
    /// RMSNorm's epsilon, added to the mean square.
    pub norm_eps: f64,
    /// Whether the output layer shares the embedding's matrix.
    pub tied: bool,
}

/// Llama 3.1's scaled rotary frequencies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RopeScaling {
    /// Divisor of low frequencies.
    pub factor: f64,
    /// Wavelengths above `original_context / low_frequency_factor` are scaled.
    pub low_frequency_factor: f64,
    /// Wavelengths below `original_context / high_frequency_factor` are not scaled; those in between are interpolated.
    pub high_frequency_factor: f64,
    /// The context that the model was first trained with.
    pub original_context: usize,
}

impl ModelConfig {
    /// Llama 3 8B.
    pub fn llama3_8b() -> Self {
        Self {
            name: "llama3-8b".to_owned(),
            layers: 32,
            dim: 4096,
            heads: 32,
            kv_heads: 8,
            head_dim: 128,
            ffn: 14_336,
            vocabulary: 128_256,
            context: 8192,
            rope_base: 500_000.0,
            rope_scaling: None,
            norm_eps: 1e-5,
            tied: false,
        }
    }

    /// Llama 3.2 1B.
    pub fn llama3_2_1b() -> Self {
        let rope_scaling =
            RopeScaling { factor: 32.0, low_frequency_factor: 1.0, high_frequency_factor: 4.0, original_context: 8192 };
        Self {
            name: "llama3.2-1b".to_owned(),
            layers: 16,
            dim: 2048,
            head_dim: 64,
            ffn: 8192,
            context: 131_072,
            rope_scaling: Some(rope_scaling),
            tied: true,
            ..Self::llama3_8b()
        }
    }

    /// Llama 3.2 3B.
    pub fn llama3_2_3b() -> Self {
        Self { name: "llama3.2-3b".to_owned(), layers: 28, dim: 3072, heads: 24, head_dim: 128, ..Self::llama3_2_1b() }
    }

    /// A model of 1.0 million parameters for tests and first steps.
    pub fn tiny() -> Self {
        Self {
            name: "tiny".to_owned(),
            layers: 4,
            dim: 128,
            heads: 4,
            kv_heads: 2,
            head_dim: 32,
            ffn: 384,
            vocabulary: 1024,
            context: 2048,
            ..Self::llama3_8b()
        }
    }

    /// Reads a `config.json` of Hugging Face's transformers.
    ///
    /// # Errors
    /// What is missing or not supported.
    pub fn read(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let bytes = foreign::read(path, MOST_BYTES).map_err(|error| format!("{shown} cannot be read: {error}"))?;
        let name = path.parent().and_then(Path::file_name).map_or("config".into(), |name| name.to_string_lossy());
        Self::parse(&bytes, &name).map_err(|error| format!("{shown}: {error}"))
    }

    fn parse(bytes: &[u8], name: &str) -> Result<Self, String> {
        let file: ConfigFile = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        file.check()?;
        let kv_heads = file.kv_heads();
        let head_dim = file.head_dim.unwrap_or(file.hidden_size / file.num_attention_heads);
        if !head_dim.is_multiple_of(2) {
            return Err(format!("head_dim = {head_dim} must be even: rotary positions rotate pairs of numbers"));
        }
        Ok(Self {
            name: name.to_owned(),
            layers: file.num_hidden_layers,
            dim: file.hidden_size,
            heads: file.num_attention_heads,
            kv_heads,
            head_dim,
            ffn: file.intermediate_size,
            vocabulary: file.vocab_size,
            context: file.max_position_embeddings,
            rope_base: file.rope_theta,
            rope_scaling: file.rope_scaling.map(RopeFile::scaling).transpose()?,
            norm_eps: file.rms_norm_eps,
            tied: file.tie_word_embeddings,
        })
    }

    /// Number of parameters of the network.
    pub fn parameters(&self) -> u64 {
        let table = self.vocabulary * self.dim;
        (self.layers * self.block_parameters() + if self.tied { table } else { 2 * table } + self.dim) as u64
    }

    /// Number of parameters of one block.
    pub fn block_parameters(&self) -> usize {
        self.projections().iter().map(|(_, from, to)| from * to).sum::<usize>() + 2 * self.dim
    }

    /// The matrices of a block: name, inputs, outputs.
    pub fn projections(&self) -> [(&'static str, usize, usize); 7] {
        let (queries, keys) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        [
            ("q", self.dim, queries),
            ("k", self.dim, keys),
            ("v", self.dim, keys),
            ("output", queries, self.dim),
            ("gate", self.dim, self.ffn),
            ("up", self.dim, self.ffn),
            ("down", self.ffn, self.dim),
        ]
    }

    /// Number of parameters of all adapters.
    pub fn adapter_parameters(&self, rank: usize, targets: LoraTargets) -> u64 {
        let adapted = self.projections().into_iter().filter(|(name, ..)| targets.has(name));
        (self.layers * adapted.map(|(_, from, to)| rank * (from + to)).sum::<usize>()) as u64
    }
}

/// The fields of a `config.json` that matter here.
#[derive(Deserialize)]
struct ConfigFile {
    model_type: String,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    vocab_size: usize,
    max_position_embeddings: usize,
    rms_norm_eps: f64,
    #[serde(default = "first_rope_base")]
    rope_theta: f64,
    rope_scaling: Option<RopeFile>,
    #[serde(default)]
    tie_word_embeddings: bool,
    #[serde(default = "silu")]
    hidden_act: String,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
}

impl ConfigFile {
    fn kv_heads(&self) -> usize {
        self.num_key_value_heads.unwrap_or(self.num_attention_heads)
    }

    /// Rejects what is not supported, and numbers that no network has.
    fn check(&self) -> Result<(), String> {
        if self.model_type != "llama" {
            return Err(format!("model_type = {:?}: only models of the type \"llama\" are supported", self.model_type));
        }
        if self.hidden_act != "silu" || self.attention_bias || self.mlp_bias {
            return Err("only models with hidden_act = \"silu\" and without biases are supported".to_owned());
        }
        let (heads, kv_heads) = (self.num_attention_heads, self.kv_heads());
        let counts = [
            ("num_hidden_layers", self.num_hidden_layers, MOST_LAYERS),
            ("hidden_size", self.hidden_size, MOST_WIDTH),
            ("intermediate_size", self.intermediate_size, MOST_COUNT),
            ("num_attention_heads", heads, MOST_WIDTH),
            ("num_key_value_heads", kv_heads, MOST_WIDTH),
            ("head_dim", self.head_dim.unwrap_or(1), MOST_WIDTH),
            ("vocab_size", self.vocab_size, MOST_COUNT),
            ("max_position_embeddings", self.max_position_embeddings, MOST_COUNT),
        ];
        if let Some((key, count, most)) = counts.into_iter().find(|(_, count, most)| !(1..=*most).contains(count)) {
            return Err(format!("{key} = {count} must be from 1 to {most}"));
        }
        if !heads.is_multiple_of(kv_heads) {
            return Err(format!("num_attention_heads = {heads} is not a multiple of num_key_value_heads = {kv_heads}"));
        }
        if self.head_dim.is_none() && !self.hidden_size.is_multiple_of(heads) {
            let size = self.hidden_size;
            return Err(format!(
                "hidden_size = {size} is not a multiple of num_attention_heads = {heads}: give head_dim"
            ));
        }
        within("rms_norm_eps", self.rms_norm_eps, 0.0, 1.0)?;
        within("rope_theta", self.rope_theta, 1.0, 1e15)
    }
}

/// Rejects a number outside a range, or NaN.
fn within(key: &str, value: f64, least: f64, most: f64) -> Result<(), String> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(format!("{key} = {value} must be from {least} to {most}"))
    }
}

/// The default of transformers.
fn first_rope_base() -> f64 {
    10_000.0
}

fn silu() -> String {
    "silu".to_owned()
}

#[derive(Deserialize)]
struct RopeFile {
    #[serde(alias = "type")]
    rope_type: Option<String>,
    factor: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    original_max_position_embeddings: Option<usize>,
}

impl RopeFile {
    fn scaling(self) -> Result<RopeScaling, String> {
        let kind = self.rope_type.unwrap_or_default();
        if kind != "llama3" {
            return Err(format!("rope_scaling of the type {kind:?}: only \"llama3\" is supported"));
        }
        let scaling = || {
            Some(RopeScaling {
                factor: self.factor?,
                low_frequency_factor: self.low_freq_factor?,
                high_frequency_factor: self.high_freq_factor?,
                original_context: self.original_max_position_embeddings?,
            })
        };
        let scaling = scaling().ok_or(
            "rope_scaling lacks factor, low_freq_factor, high_freq_factor or original_max_position_embeddings",
        )?;
        within("rope_scaling.factor", scaling.factor, 1.0, 1e6)?;
        within("rope_scaling.low_freq_factor", scaling.low_frequency_factor, 1e-6, 1e6)?;
        within("rope_scaling.high_freq_factor", scaling.high_frequency_factor, 1e-6, 1e6)?;
        // Wavelengths between both limits are interpolated, which divides by the difference of the factors.
        if scaling.high_frequency_factor <= scaling.low_frequency_factor {
            let (low, high) = (scaling.low_frequency_factor, scaling.high_frequency_factor);
            return Err(format!("rope_scaling.high_freq_factor = {high} must be above low_freq_factor = {low}"));
        }
        let context = scaling.original_context;
        if !(1..=MOST_COUNT).contains(&context) {
            return Err(format!(
                "rope_scaling.original_max_position_embeddings = {context} must be from 1 to {MOST_COUNT}"
            ));
        }
        Ok(scaling)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_those_of_the_published_models() {
        // The exact counts of the model cards.
        assert_eq!(ModelConfig::llama3_8b().parameters(), 8_030_261_248);
        assert_eq!(ModelConfig::llama3_2_1b().parameters(), 1_235_814_400);
        assert_eq!(ModelConfig::llama3_2_3b().parameters(), 3_212_749_824);
        assert_eq!(ModelConfig::llama3_8b().adapter_parameters(8, LoraTargets::QvoMlp), 19_660_800);
    }

    const SMALL: &str = r#"{"model_type":"llama","hidden_size":64,"intermediate_size":192,"num_hidden_layers":2,
        "num_attention_heads":4,"num_key_value_heads":2,"vocab_size":300,"max_position_embeddings":128,
        "rms_norm_eps":1e-6,"torch_dtype":"float32"}"#;

    #[test]
    fn a_config_file_is_read_as_transformers_read_it() {
        let config = ModelConfig::parse(SMALL.as_bytes(), "small").unwrap();
        assert_eq!((config.head_dim, config.rope_base, config.tied), (16, 10_000.0, false));
        let scaled = SMALL.replace(
            "\"torch_dtype\"",
            r#""tie_word_embeddings":true,"rope_theta":5e5,"rope_scaling":{"rope_type":"llama3","factor":32.0,
            "low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192},"torch_dtype""#,
        );
        let config = ModelConfig::parse(scaled.as_bytes(), "small").unwrap();
        assert_eq!(config.rope_scaling, ModelConfig::llama3_2_1b().rope_scaling);
        assert!(config.tied);
    }

    fn refused(from: &str, to: &str) -> String {
        let changed = SMALL.replace(from, to);
        assert_ne!(changed, SMALL, "{from}");
        ModelConfig::parse(changed.as_bytes(), "small").unwrap_err()
    }

    #[test]
    fn what_is_missing_or_not_supported_is_named() {
        for (from, to, part) in [
            ("\"vocab_size\":300,", "", "vocab_size"),
            ("\"llama\"", "\"gpt2\"", "model_type = \"gpt2\""),
            ("\"num_key_value_heads\":2", "\"num_key_value_heads\":3", "not a multiple of num_key_value_heads = 3"),
            (
                "\"hidden_size\":64",
                "\"hidden_size\":66",
                "hidden_size = 66 is not a multiple of num_attention_heads = 4",
            ),
            ("\"torch_dtype\"", "\"head_dim\":3,\"x\"", "head_dim = 3 must be even"),
            ("\"torch_dtype\"", "\"rope_scaling\":{\"type\":\"yarn\"},\"x\"", "type \"yarn\""),
            ("\"torch_dtype\"", "\"attention_bias\":true,\"x\"", "biases"),
        ] {
            let error = refused(from, to);
            assert!(error.contains(part), "{error}");
        }
        assert!(ModelConfig::read(Path::new("/nowhere/config.json")).unwrap_err().contains("cannot be read"));
        assert!(ModelConfig::read(Path::new("/dev/zero")).unwrap_err().contains("not a regular file"));
    }

    #[test]
    fn a_number_that_no_network_has_is_refused_by_its_name() {
        let counts = [
            ("hidden_size", 64),
            ("intermediate_size", 192),
            ("num_hidden_layers", 2),
            ("num_attention_heads", 4),
            ("num_key_value_heads", 2),
            ("vocab_size", 300),
            ("max_position_embeddings", 128),
        ];
        for (key, count) in counts {
            for other in ["0", "9223372036854775807"] {
                let error = refused(&format!("\"{key}\":{count}"), &format!("\"{key}\":{other}"));
                assert!(error.contains(&format!("{key} = {other} must be from 1 to")), "{error}");
            }
        }
        for (key, value) in [("rms_norm_eps", "-1e-6"), ("rope_theta", "0"), ("rope_theta", "1e300"), ("head_dim", "0")]
        {
            let error = if key == "rms_norm_eps" {
                refused("\"rms_norm_eps\":1e-6", &format!("\"{key}\":{value}"))
            } else {
                refused("\"torch_dtype\"", &format!("\"{key}\":{value},\"x\""))
            };
            assert!(error.contains(key) && error.contains("must be from"), "{error}");
        }
        for (from, to) in [
            ("\"factor\":32.0", "\"factor\":0"),
            ("\"low_freq_factor\":1.0", "\"low_freq_factor\":0"),
            ("\"high_freq_factor\":4.0", "\"high_freq_factor\":1.0"),
            ("\"original_max_position_embeddings\":8192", "\"original_max_position_embeddings\":0"),
        ] {
            let scaling = r#""rope_scaling":{"rope_type":"llama3","factor":32.0,"low_freq_factor":1.0,"high_freq_factor":4.0,
                "original_max_position_embeddings":8192},"x""#;
            let error = refused("\"torch_dtype\"", &scaling.replace(from, to));
            let key = to[1..].split('"').next().unwrap();
            assert!(error.contains(&format!("rope_scaling.{key}")), "{error}");
        }
    }
}
