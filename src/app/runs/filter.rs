//! Which runs are listed: words, and `key=value` pairs such as `state=failed precision=fp16`.

use super::row::Row;

/// What was typed, understood.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    words: Vec<String>,
    /// A key and the values of which a run must have one.
    pairs: Vec<(String, Vec<String>)>,
}

impl Filter {
    /// Understands what was typed. Every text means something: nothing can be wrong with it.
    pub fn parse(text: &str) -> Self {
        let mut filter = Self::default();
        for term in text.to_lowercase().split_whitespace() {
            match term.split_once('=') {
                Some((key, value)) if !key.is_empty() && !value.is_empty() => filter.add(key, value),
                // A value that is still being typed hides nothing.
                Some((key, "")) if !key.is_empty() => {}
                _ => filter.words.push(term.to_owned()),
            }
        }
        filter
    }

    fn add(&mut self, key: &str, value: &str) {
        let key = if key == "gpu" { "gpus" } else { key };
        match self.pairs.iter_mut().find(|(known, _)| known == key) {
            Some((_, values)) => values.push(plain(value)),
            None => self.pairs.push((key.to_owned(), vec![plain(value)])),
        }
    }

    /// Whether a run is listed.
    pub fn admits(&self, row: &Row) -> bool {
        let has = |key: &str| match key {
            "state" => Some(plain(row.state.name())),
            _ => row.level(key).map(|level| plain(&level)),
        };
        let word = |word: &String| row.words.contains(word) || row.state.name().contains(word.as_str());
        self.words.iter().all(word)
            && self.pairs.iter().all(|(key, values)| has(key).is_some_and(|level| values.contains(&level)))
    }
}

/// `Timed out`, `timed_out` and `timed-out` are the same.
fn plain(text: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || *c == '.';
    text.chars().filter(kept).flat_map(char::to_lowercase).collect()
}

/// The text with a pair added, or taken away where it is there.
pub fn toggled(text: &str, pair: &str) -> String {
    let without: Vec<&str> = text.split_whitespace().filter(|term| *term != pair).collect();
    let was_there = without.len() < text.split_whitespace().count();
    let added = (!was_there).then_some(pair);
    without.into_iter().chain(added).collect::<Vec<_>>().join(" ")
}

/// Whether the text holds the pair.
pub fn holds(text: &str, pair: &str) -> bool {
    text.split_whitespace().any(|term| term == pair)
}
