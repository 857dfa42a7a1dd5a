//! Weights in Hugging Face's safetensors format, as one file or several with an index: reads what the headers say, without the numbers.
//!
//! A file begins with the length of its header (8 bytes, little-endian). The header is JSON: for each tensor its type, its shape and the
//! range of its bytes after the header (<https://github.com/huggingface/safetensors>).

use std::collections::BTreeMap;
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::foreign;
use crate::plan::llm::ModelConfig;

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
/// Longest header and index that are read, as in the safetensors library.
const MOST_HEADER_BYTES: u64 = 100_000_000;
/// Bytes before the header.
const LENGTH_BYTES: u64 = 8;
/// Maximum number of names listed in an error.
const NAMED: usize = 3;

/// The types of numbers that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberType {
    /// Single precision.
    F32,
    /// Half precision.
    F16,
    /// bfloat16.
    Bf16,
}

impl NumberType {
    fn read(name: &str) -> Option<Self> {
        Some(match name {
            "F32" => Self::F32,
            "F16" => Self::F16,
            "BF16" => Self::Bf16,
            _ => return None,
        })
    }

    fn bytes(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }
}

/// The location of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Its file.
    pub file: PathBuf,
    /// Its bytes in the file.
    pub range: Range<usize>,
    /// Its shape.
    pub shape: Vec<i64>,
    /// The type of its numbers.
    pub number: NumberType,
}

/// The tensors of weights, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Weights {
    /// The folder or file that was opened.
    pub path: PathBuf,
    /// The location of each tensor.
    pub tensors: BTreeMap<String, Located>,
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

impl Weights {
    /// Reads the headers of a folder's safetensors, or of one file.
    ///
    /// # Errors
    /// The file that is missing or broken, and what is wrong with it.
    pub fn read(path: &Path) -> Result<Self, String> {
        let files = if path.is_file() { vec![path.to_owned()] } else { files_of(path)? };
        let mut tensors = BTreeMap::new();
        for file in files {
            for (name, located) in header(&file)? {
                let shown = file.display();
                if let Some(Located { file: other, .. }) = tensors.insert(name.clone(), located) {
                    return Err(format!("{shown} and {} both contain {name}: remove one of them", other.display()));
                }
            }
        }
        Ok(Self { path: path.to_owned(), tensors })
    }

    /// Checks that it contains exactly the weights of a model, each with the right shape.
    ///
    /// # Errors
    /// The tensors that are missing, unexpected, or of the wrong shape.
    pub fn check(&self, expected: &[(String, Vec<i64>)]) -> Result<(), String> {
        let shown = self.path.display();
        let stored = |name: &String| self.tensors.get(name);
        let missing = expected.iter().filter(|(name, _)| stored(name).is_none());
        named(missing.map(|(name, _)| name.clone())).map_or(Ok(()), |names| {
            Err(format!("{shown} lacks {names}: it belongs to another model, or a file is missing"))
        })?;
        let other = expected.iter().filter_map(|(name, shape)| {
            let stored_shape = &stored(name)?.shape;
            (stored_shape != shape).then(|| format!("{name} is {stored_shape:?} instead of {shape:?}"))
        });
        named(other).map_or(Ok(()), |names| Err(format!("{shown} belongs to another model: {names}")))?;
        let known: std::collections::BTreeSet<&str> = expected.iter().map(|(name, _)| name.as_str()).collect();
        // Files may repeat a tied output layer, and old ones hold rotary frequencies.
        let harmless = |name: &str| name == "lm_head.weight" || name.ends_with("rotary_emb.inv_freq");
        let extra = self.tensors.keys().filter(|name| !known.contains(name.as_str()) && !harmless(name));
        named(extra.cloned())
            .map_or(Ok(()), |names| Err(format!("{shown} contains {names}, which the model does not have")))
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
                "{} contains neither {SINGLE} nor {INDEX}: name a folder of Hugging Face weights",
                folder.display()
            ))
        };
    }
    let shown = index.display();
    let bytes = foreign::read(&index, MOST_HEADER_BYTES).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    let read: Index = serde_json::from_slice(&bytes).map_err(|error| format!("{shown}: {error}"))?;
    let mut files: Vec<_> = read.weight_map.into_values().collect();
    files.sort();
    files.dedup();
    if let Some(file) = files.iter().find(|file| Path::new(file).file_name() != Some(file.as_ref())) {
        return Err(format!("{shown} names {file:?}, which is not a file in the same folder"));
    }
    Ok(files.into_iter().map(|file| folder.join(file)).collect())
}

/// The tensors of a file, in the order of their bytes, which must fill the file without gaps.
fn header(path: &Path) -> Result<Vec<(String, Located)>, String> {
    let shown = path.display();
    let unread = |error: std::io::Error| format!("{shown} cannot be read: {error}");
    let broken = |reason: String| format!("{shown} is not a complete safetensors file: {reason}");
    let mut file = foreign::open(path).map_err(unread)?;
    let file_bytes = foreign::regular(&file).map_err(unread)?;
    let mut length = [0; LENGTH_BYTES as usize];
    file.read_exact(&mut length).map_err(|_| broken(format!("it has {file_bytes} bytes")))?;
    let header_bytes = u64::from_le_bytes(length);
    if header_bytes > MOST_HEADER_BYTES.min(file_bytes - LENGTH_BYTES) {
        return Err(broken(format!("its header takes {header_bytes} bytes, but the file has {file_bytes}")));
    }
    let mut header = Vec::new();
    file.take(header_bytes).read_to_end(&mut header).map_err(unread)?;
    let entries: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(&header).map_err(|error| broken(format!("its header: {error}")))?;
    let data = LENGTH_BYTES + header_bytes;
    let mut tensors = Vec::new();
    for (name, entry) in entries.into_iter().filter(|(name, _)| name != "__metadata__") {
        let entry: Entry = serde_json::from_value(entry).map_err(|error| broken(format!("{name}: {error}")))?;
        tensors.push(located(path, data, &name, &entry).map(|located| (name, located))?);
    }
    tensors.sort_by_key(|(_, located)| (located.range.start, located.range.end));
    let mut end = data;
    for (name, located) in &tensors {
        if located.range.start as u64 != end {
            return Err(broken(format!("{name} begins at byte {} instead of {end}", located.range.start)));
        }
        end = located.range.end as u64;
    }
    if end != file_bytes {
        return Err(broken(format!("its tensors end at byte {end}, but the file has {file_bytes} bytes")));
    }
    Ok(tensors)
}

/// The location of a tensor in a file whose data begins at byte `data`.
fn located(path: &Path, data: u64, name: &str, entry: &Entry) -> Result<Located, String> {
    let shown = path.display();
    let number = NumberType::read(&entry.dtype)
        .ok_or_else(|| format!("{shown}: {name} has type {}: use F32, F16 or BF16", entry.dtype))?;
    let impossible =
        || format!("{shown} is not a complete safetensors file: {name} has a shape that does not fit its bytes");
    let numbers = entry.shape.iter().try_fold(1_u64, |product, length| product.checked_mul(*length));
    let bytes = numbers.and_then(|numbers| numbers.checked_mul(number.bytes())).ok_or_else(impossible)?;
    let (start, end) = entry.data_offsets;
    if end.checked_sub(start) != Some(bytes) {
        return Err(impossible());
    }
    let place = |offset: u64| data.checked_add(offset).and_then(|at| usize::try_from(at).ok());
    let range = place(start).zip(place(end)).map(|(start, end)| start..end).ok_or_else(impossible)?;
    let shape = entry.shape.iter().map(|length| i64::try_from(*length)).collect::<Result<_, _>>();
    Ok(Located { file: path.to_owned(), range, shape: shape.map_err(|_| impossible())?, number })
}

/// The names and shapes of a model's weights in Hugging Face's files.
pub fn expected_weights(config: &ModelConfig) -> Vec<(String, Vec<i64>)> {
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A file of one tensor of two numbers, with its header changed.
    fn file(folder: &Path, change: impl Fn(String) -> String) -> PathBuf {
        let header = change(r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#.to_owned());
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.bytes());
        bytes.extend([0; 8]);
        let path = folder.join("a.safetensors");
        std::fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn a_header_is_read_and_one_that_its_file_contradicts_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let whole = Weights::read(&file(folder.path(), |header| header)).unwrap();
        let Located { range, shape, number, .. } = &whole.tensors["a"];
        assert_eq!((range.len(), shape.as_slice(), *number), (8, &[2_i64][..], NumberType::F32));
        whole.check(&[("a".to_owned(), vec![2])]).unwrap();
        for (from, to, part) in [
            ("[2]", "[3]", "a has a shape"),
            ("[2]", "[-1]", "a: invalid value"),
            ("[2]", "[9223372036854775807,9]", "a has a shape"),
            ("[0,8]", "[8,0]", "a has a shape"),
            ("[0,8]", "[8,16]", "a begins at byte"),
            ("[0,8]", "[18446744073709551608,18446744073709551615]", "a has a shape"),
            ("[2],\"data_offsets\":[0,8]", "[1],\"data_offsets\":[0,4]", "its tensors end at byte"),
            ("F32", "I8", "use F32, F16 or BF16"),
            ("}}", "}", "its header"),
        ] {
            let error = Weights::read(&file(folder.path(), |header| header.replace(from, to))).unwrap_err();
            assert!(error.contains(part) && error.contains("a.safetensors"), "{from} → {to}: {error}");
        }
        std::fs::write(folder.path().join("a.safetensors"), [255; 12]).unwrap();
        let error = Weights::read(&folder.path().join("a.safetensors")).unwrap_err();
        assert!(error.contains("its header takes 18446744073709551615 bytes, but the file has 12"), "{error}");
        std::fs::write(folder.path().join(INDEX), r#"{"weight_map":{"a":"../a.safetensors"}}"#).unwrap();
        assert!(Weights::read(folder.path()).unwrap_err().contains("not a file in the same folder"));
    }
}
