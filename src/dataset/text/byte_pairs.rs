//! Llama's `tokenizer.model`: byte pairs with ranks, in the format of tiktoken.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fancy_regex::Regex;

/// How text is cut into pieces before pairs are joined (Llama 3's pattern).
const PIECES: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Tokens by their bytes. A token's id is its rank; pairs with a lower rank are joined first.
pub(super) struct BytePairs {
    ranks: HashMap<Vec<u8>, u32>,
    pieces: Regex,
}

impl BytePairs {
    /// Reads a vocabulary: each line has the bytes of a token in base64, and the token's rank. An error names the line.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut ranks = HashMap::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let number = number + 1;
            let pair = line
                .split_once(' ')
                .and_then(|(bytes, rank)| Some((STANDARD.decode(bytes).ok()?, rank.trim().parse::<u32>().ok()?)));
            let (bytes, rank) = pair.ok_or_else(|| format!("line {number} is not base64 and a rank"))?;
            if ranks.insert(bytes, rank).is_some() {
                return Err(format!("line {number} repeats a token"));
            }
        }
        if let Some(byte) = (0..=u8::MAX).find(|byte| !ranks.contains_key(&[*byte][..])) {
            return Err(format!("the byte {byte} has no token: this is not Llama 3's tokenizer.model"));
        }
        let highest = ranks.values().copied().max().unwrap_or(0) as usize;
        if highest + 1 != ranks.len() {
            return Err(format!("{} tokens have ranks up to {highest}: lines are missing or repeated", ranks.len()));
        }
        Ok(Self { ranks, pieces: Regex::new(PIECES).map_err(|error| error.to_string())? })
    }

    /// The number of tokens, without special ones.
    pub(super) fn len(&self) -> usize {
        self.ranks.len()
    }

    /// Appends the tokens of a text.
    pub(super) fn encode(&self, text: &str, tokens: &mut Vec<u32>) -> Result<(), String> {
        for piece in self.pieces.find_iter(text) {
            self.join(piece.map_err(|error| error.to_string())?.as_str().as_bytes(), tokens);
        }
        Ok(())
    }

    /// Joins neighbours with the lowest rank, the first pair of equals, until no pair is left.
    fn join(&self, piece: &[u8], tokens: &mut Vec<u32>) {
        if let Some(token) = self.ranks.get(piece) {
            tokens.push(*token);
            return;
        }
        // Where each part begins; the last entry is the end.
        let mut begins: Vec<usize> = (0..=piece.len()).collect();
        let rank = |begins: &[usize], part: usize| {
            let end = begins.get(part + 2)?;
            self.ranks.get(&piece[begins[part]..*end]).copied()
        };
        let mut joined: Vec<Option<u32>> = (0..begins.len()).map(|part| rank(&begins, part)).collect();
        while let Some((_, part)) = (0..joined.len()).filter_map(|part| Some((joined[part]?, part))).min() {
            begins.remove(part + 1);
            joined.remove(part + 1);
            joined[part] = rank(&begins, part);
            if part > 0 {
                joined[part - 1] = rank(&begins, part - 1);
            }
        }
        tokens.extend(begins.windows(2).filter_map(|pair| self.ranks.get(&piece[pair[0]..pair[1]])));
    }
}
