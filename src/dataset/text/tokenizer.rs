//! Tokenizers of Llama 3: `tokenizer.json`, or the `tokenizer.model` that Meta publishes. Rows become tokens as in TorchTune 0.5.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use serde::de::IgnoredAny;
use tokenizers::Tokenizer as JsonTokenizer;

use super::byte_pairs::BytePairs;
use super::template::Message;
use crate::dataset::DatasetError;
use crate::foreign;
use crate::plan::llm::ModelConfig;

/// Longest tokenizer file. Files of the largest vocabularies have a tenth of this size.
const MOST_BYTES: u64 = 512 << 20;
/// Text is encoded in slices of this number of characters. A run of white space, or of other characters, is also cut at a maximum length,
/// as in TorchTune.
const SLICE_CHARS: usize = 400_000;
const RUN_CHARS: usize = 25_000;

/// Turns texts into tokens.
pub struct Tokenizer {
    encoder: Encoder,
    marks: Marks,
    /// All ids are below this number.
    vocabulary: usize,
    /// The tokens between a header and its message.
    after_header: Vec<u32>,
}

enum Encoder {
    Json(Box<JsonTokenizer>),
    Pairs(BytePairs),
}

/// The special tokens that mark beginnings and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Marks {
    begin: u32,
    end: u32,
    begin_header: u32,
    end_header: u32,
    end_turn: u32,
    padding: u32,
}

impl Marks {
    /// Their names, with the distance from the first special token in Llama's own file.
    const NAMES: [(&'static str, u32); 6] = [
        ("<|begin_of_text|>", 0),
        ("<|end_of_text|>", 1),
        ("<|start_header_id|>", 6),
        ("<|end_header_id|>", 7),
        ("<|eot_id|>", 9),
        ("<|finetune_right_pad_id|>", 4),
    ];
    /// The name of the padding token in models before Llama 3.1.
    const EARLIER_PADDING: &'static str = "<|reserved_special_token_2|>";
    /// The number of special tokens that follow the text tokens in Llama's own file.
    const COUNT: usize = 256;

    fn find(id: impl Fn(&str, u32) -> Option<u32>) -> Result<Self, String> {
        let mut found = [0; 6];
        for (found, (name, distance)) in found.iter_mut().zip(Self::NAMES) {
            let is_padding = name == "<|finetune_right_pad_id|>";
            let earlier = || if is_padding { id(Self::EARLIER_PADDING, distance) } else { None };
            *found = id(name, distance)
                .or_else(earlier)
                .ok_or_else(|| format!("it has no token {name}: it belongs to another model; use one of Llama 3"))?;
        }
        let [begin, end, begin_header, end_header, end_turn, padding] = found;
        Ok(Self { begin, end, begin_header, end_header, end_turn, padding })
    }
}

impl Tokenizer {
    /// Reads a `tokenizer.json`, or any other file as Llama's `tokenizer.model`.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn open(path: &Path) -> Result<Self, DatasetError> {
        let wrong = |reason: String| DatasetError::Tokenizer { path: path.to_owned(), reason };
        let bytes = foreign::read(path, MOST_BYTES).map_err(DatasetError::read(path))?;
        let is_json = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
        let tokenizer = if is_json { Self::of_json(&bytes) } else { Self::of_pairs(&bytes) };
        tokenizer.map_err(wrong)
    }

    fn of_json(bytes: &[u8]) -> Result<Self, String> {
        // The library panics on some texts that are not JSON.
        let is_json = serde_json::from_slice::<IgnoredAny>(bytes).map(drop).map_err(|error| error.to_string());
        let read =
            is_json.and_then(|()| unharmed(|| JsonTokenizer::from_bytes(bytes).map_err(|error| error.to_string())));
        let mut encoder = read.map_err(|error| format!("not a tokenizer.json: {error}"))?;
        // Names of marks that occur in a text are encoded as text: only templates set marks.
        encoder.set_encode_special_tokens(true);
        let marks = Marks::find(|name, _| encoder.token_to_id(name))?;
        let vocabulary = encoder.get_vocab(true).into_values().max().map_or(0, |highest| highest as usize + 1);
        Self::new(Encoder::Json(Box::new(encoder)), marks, vocabulary)
    }

    fn of_pairs(bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "neither tokenizer.json nor Llama 3's tokenizer.model")?;
        let pairs = BytePairs::parse(text)?;
        let first = pairs.len() as u32;
        let marks = Marks::find(|_, distance| Some(first + distance))?;
        let vocabulary = pairs.len() + Marks::COUNT;
        Self::new(Encoder::Pairs(pairs), marks, vocabulary)
    }

    fn new(encoder: Encoder, marks: Marks, vocabulary: usize) -> Result<Self, String> {
        let mut tokenizer = Self { encoder, marks, vocabulary, after_header: Vec::new() };
        let mut after = Vec::new();
        tokenizer.encode("\n\n", &mut after)?;
        tokenizer.after_header = after;
        Ok(tokenizer)
    }

    /// The padding token.
    pub fn padding(&self) -> u32 {
        self.marks.padding
    }

    /// Why the tokenizer does not fit a model; `None` if it does.
    pub(super) fn is_foreign(&self, model: &ModelConfig) -> Option<String> {
        let (name, model_tokens, tokens) = (&model.name, model.vocabulary, self.vocabulary);
        (tokens > model_tokens).then(|| {
            format!("it has {tokens} tokens, but {name} has {model_tokens}: it belongs to another model; use the tokenizer of {name}")
        })
    }

    /// Appends the tokens of a text without marks. White space around the text is significant.
    fn encode(&self, text: &str, tokens: &mut Vec<u32>) -> Result<(), String> {
        for slice in slices(text) {
            match &self.encoder {
                Encoder::Pairs(pairs) => pairs.encode(slice, tokens)?,
                Encoder::Json(encoder) => {
                    let encoding = unharmed(|| encoder.encode_fast(slice, false).map_err(|error| error.to_string()))?;
                    tokens.extend(encoding.get_ids());
                }
            }
        }
        Ok(())
    }

    /// The tokens of a row, and for each whether it is masked: begin mark, messages with headers and end marks, end mark. If there is a
    /// limit, the row is truncated to it, and its last token becomes the end mark. Begin and end marks are always masked.
    pub(super) fn row(&self, messages: &[Message], limit: Option<usize>) -> Result<(Vec<u32>, Vec<bool>), String> {
        let marks = &self.marks;
        let (mut tokens, mut masked) = (vec![marks.begin], vec![true]);
        for message in messages {
            tokens.push(marks.begin_header);
            self.encode(message.role.name(), &mut tokens)?;
            tokens.push(marks.end_header);
            tokens.extend(&self.after_header);
            for part in &message.parts {
                self.encode(part.trim_matches(is_space), &mut tokens)?;
            }
            tokens.push(marks.end_turn);
            masked.resize(tokens.len(), message.masked);
            if limit.is_some_and(|limit| tokens.len() >= limit) {
                break;
            }
        }
        tokens.push(marks.end);
        masked.push(true);
        if let Some(limit) = limit.filter(|limit| *limit < tokens.len()) {
            tokens.truncate(limit);
            masked.truncate(limit);
            if let (Some(token), Some(masked)) = (tokens.last_mut(), masked.last_mut()) {
                (*token, *masked) = (marks.end, true);
            }
        }
        Ok((tokens, masked))
    }
}

/// Calls the library and turns a panic, which a damaged file can cause, into an error.
fn unharmed<T>(call: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err("the file is damaged".to_owned()))
}

/// Whether Python considers a character white space.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// Cuts a text into slices that are encoded one by one.
fn slices(text: &str) -> Vec<&str> {
    let mut slices = Vec::new();
    let (mut begin, mut chars, mut run, mut in_space) = (0, 0, 0, None);
    for (at, c) in text.char_indices() {
        let space = Some(is_space(c));
        run = if in_space == space { run + 1 } else { 1 };
        in_space = space;
        if chars == SLICE_CHARS || run > RUN_CHARS {
            slices.push(&text[begin..at]);
            chars = if chars == SLICE_CHARS { 0 } else { chars };
            (begin, run) = (at, 1);
        }
        chars += 1;
    }
    if begin < text.len() {
        slices.push(&text[begin..]);
    }
    slices
}

#[cfg(test)]
#[path = "tokenizer_tests.rs"]
mod tests;
