//! What a progress bar of tqdm shows: its count, and the values behind it.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::bars::description;
use super::fields::{Fields, WORDS};
use super::sentence::{self, captures, count, pattern};

/// tqdm's bar: ` 12/100 [00:03<00:22,  4.00it/s, loss=0.5]`, or without a total `12it [00:03,  4.00it/s, loss=0.5]`. Its unit may have
/// the name of a step; bars of files and downloads have other units.
pub(super) static BAR: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"(?:^|[ |])(?<step>\d+)(?:/(?<steps>\d+)| ?(?:it|batch|step)) \[[\d:]+(?:<[\d:?]+)?, *(?:[\d.]+|\?) ?(?:(?:it|batch|step)/s|s/ ?(?:it|batch|step))(?:, (?<more>.*))?\]",
    )
});

/// The end of a bar that has text behind it: its brackets are balanced.
static END: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"\[[\d:]+(?:<[\d:?]+)?, *(?:[\d.]+|\?) ?(?:\w+/s|s/ ?\w+)(?:, (?:[^\[\]]|\[(?:[^\[\]]|\[[^\]]*\])*\])*)?\]",
    )
});

/// The epoch in front of a bar: `Epoch 3: 50%|…`, or that of torchtune, before the number of the step over all epochs: `1|25|Loss: 0.5: 3%|…`.
static BAR_EPOCH: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"^\s*(?:(?i:epoch)[ :\[]*(?<epoch>\d+)|(?<first>\d+)\|\d+\|Loss:)"));

/// A bar as it was drawn.
pub(super) struct Drawn<'l> {
    /// The number of steps that it has counted, and that of all steps if it shows one.
    pub step: u64,
    pub steps: Option<u64>,
    /// The text in front of the count.
    pub before: &'l str,
    /// The loss of the training, behind the bar or in its description.
    pub loss: Option<&'l str>,
    /// The epoch in front of the bar.
    pub epoch: Option<f64>,
    /// The names and the other values behind the bar.
    entries: Vec<(&'l str, &'l str)>,
    /// Whether it was drawn within a second after it began.
    pub is_new: bool,
}

impl<'l> Drawn<'l> {
    /// The bar of a line.
    pub fn of(bar: &Captures<'l>, line: &'l str) -> Option<Self> {
        let before = &line[..bar.name("step")?.start()];
        let mut entries = entries(bar.name("more").map_or("", |more| more.as_str()));
        let is_loss = |name: &str| ["loss", "train_loss", "train_loss_step", "train/loss"].contains(&name);
        let at = entries.iter().position(|(name, value)| is_loss(name) && value.parse::<f64>().is_ok());
        let loss = at.map(|at| entries.remove(at).1).or_else(|| sentence::training_loss(description(before)));
        let epoch = captures(&BAR_EPOCH, line).and_then(|epoch| count(&epoch, "epoch").or(count(&epoch, "first")));
        Some(Self {
            step: count(bar, "step")?,
            steps: count(bar, "steps"),
            before,
            loss,
            epoch: epoch.map(|epoch| epoch as f64),
            entries,
            is_new: bar.get(0)?.as_str().contains("[00:00"),
        })
    }

    /// Whether it is a bar of Lightning, which begins again with the values of the epoch before.
    pub fn is_of_lightning(&self) -> bool {
        self.entries.iter().any(|(name, _)| *name == "v_num")
    }

    /// Adds the other values behind the bar to these fields, as readings.
    ///
    /// # Errors
    /// A number is impossible.
    pub fn take(&self, fields: &mut Fields) -> Result<(), String> {
        let is_reading =
            |(name, value): &&(&str, &str)| *name != "v_num" && !WORDS.contains(name) && value.parse::<f64>().is_ok();
        self.entries.iter().filter(is_reading).try_for_each(|(name, value)| fields.text(name, value))
    }
}

/// The end of the bar in a text, in bytes.
pub(super) fn end_of_bar(text: &str) -> Option<usize> {
    // Most lines have no rate in brackets.
    let may_have = text.contains(" [") && (text.contains("/s") || text.contains("s/"));
    let bar = if may_have { captures(&BAR, text)?.get(0)? } else { return None };
    let is_whole = bar.end() == text.trim_end().len();
    if is_whole { Some(bar.end()) } else { captures(&END, text)?.get(0).map(|end| end.end()) }
}

/// The names and values behind a bar. A digit directly after a comma continues a number with a comma, which is left out.
fn entries(more: &str) -> Vec<(&str, &str)> {
    let mut entries: Vec<Option<(&str, &str)>> = Vec::new();
    for part in more.split(',') {
        let is_rest = part.starts_with(|c: char| c.is_ascii_digit());
        if is_rest {
            entries.pop();
        }
        entries.push(part.trim().split_once('=').filter(|_| !is_rest));
    }
    entries.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_ends_with_its_last_bracket_and_text_may_follow_it() {
        for (bar, text) in [
            (" 10%|█ | 1/10 [00:01<00:10,  1.9it/s]", "INFO - step 1"),
            (" 10%|█ | 1/10 [00:01<00:10,  1.9it/s, loss=0.5]", "12/01 - [main] step 1: loss 0.5"),
            ("1/20 [00:01<00:10,  1.9it/s, shapes=[[1, 2], [3]], loss=0.5]", " step 1"),
            ("1/20 [00:01<00:10,  1.9it/s, shapes=[[1, 2], [3]], loss=0.5]", ""),
            ("1/20 [00:01<00:10,  1.9it/s, range=[0,1), loss=0.5]", "  "),
            ("1/20 [00:01<00:10,  1.9it/s, note=a]b, loss=0.5]", ""),
        ] {
            let line = format!("{bar}{text}");
            assert_eq!(end_of_bar(&line).map(|end| line.split_at(end)), Some((bar, text)), "{line}");
        }
        for line in ["12/100 tests passed [00:03]", "step 3 [it/s: 4.0] loss 0.5", "1/20 [00:01<00:10,  1.9it/s, loss"]
        {
            assert_eq!(end_of_bar(line), None, "{line}");
        }
    }
}
