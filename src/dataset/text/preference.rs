//! Preference pairs: a chosen and a rejected row with the same prompt. Files contain both answers, or the rejected one is generated.

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::rows::{Place, kind};
use super::template::{Fields, Message, exchange, filled, messages, of_turns};
use super::tokens::{MADE_END, TokenRows, made_row};
use crate::plan::counted;
use crate::plan::llm::{DataSet, Template};

/// The published names of the columns with both answers: TorchTune's names, and the names of lvwerra/stack-exchange-paired.
const ANSWERS: [(&str, &str); 2] = [("chosen", "rejected"), ("response_j", "response_k")];
/// The names of the column with the prompt, if answers are texts of a chat.
const PROMPTS: [&str; 2] = ["prompt", "question"];

/// A preference pair as two lists of messages, with the chosen answer and with the rejected one, and the position of its row in the file.
pub(super) struct Pair {
    pub(super) path: PathBuf,
    pub(super) place: Place,
    pub(super) rows: [Vec<Message>; 2],
}

/// Makes pairs from rows, one after the other.
pub(super) struct Pairing {
    template: Template,
    train_on_input: bool,
    /// The answer of the first row that needs another row's answer to reject.
    first: Option<Message>,
    /// The last row that needs another row's answer: the next row provides it.
    waiting: Option<(PathBuf, Place, Vec<Message>)>,
    /// The number of pairs whose rejected answer is generated.
    pub(super) made: usize,
}

impl Pairing {
    pub(super) fn new(template: Template, train_on_input: bool) -> Self {
        Self { template, train_on_input, first: None, waiting: None, made: 0 }
    }

    /// Adds a row. Returns its pair, or the pair of the previous row if that row needed this one's answer.
    pub(super) fn next(&mut self, path: &Path, place: Place, row: &Fields) -> Result<Option<Pair>, String> {
        if let Some(rows) = pair_of_row(self.template, self.train_on_input, row)? {
            return Ok(Some(Pair { path: path.to_owned(), place, rows }));
        }
        let chosen = messages(self.template, self.train_on_input, row)?;
        if self.template == Template::Grammar {
            let [sentence, _] = filled(row, ["input", "output"])?;
            let rejected = with_answer(&chosen, vec![sentence.to_owned()]);
            self.made += 1;
            return Ok(Some(Pair { path: path.to_owned(), place, rows: [chosen, rejected] }));
        }
        let Some(answer) = chosen.last().cloned() else { return Ok(None) };
        let before = self.waiting.replace((path.to_owned(), place, chosen));
        if self.first.is_none() {
            self.first = Some(answer);
            return Ok(None);
        }
        Ok(before.map(|waiting| self.pair(waiting, answer)))
    }

    /// The pair of the last row, which rejects the first row's answer.
    pub(super) fn end(&mut self) -> Result<Option<Pair>, String> {
        let (Some(waiting), Some(first)) = (self.waiting.take(), self.first.take()) else { return Ok(None) };
        if self.made == 0 {
            return Err(
                "with only one row there is no other row's answer to reject: use more rows, or name the columns chosen and rejected"
                    .to_owned(),
            );
        }
        Ok(Some(self.pair(waiting, first)))
    }

    fn pair(&mut self, (path, place, chosen): (PathBuf, Place, Vec<Message>), answer: Message) -> Pair {
        self.made += 1;
        let rejected = with_answer(&chosen, answer.parts);
        Pair { path, place, rows: [chosen, rejected] }
    }

    /// Which part of the pairs is generated, in words; empty if none is.
    pub(super) fn source(&self) -> String {
        let what =
            if self.template == Template::Grammar { "the uncorrected sentences" } else { "those of the next row" };
        match self.made {
            0 => String::new(),
            made => format!("; synthetic preferences: the rejected answers of {} are {what}", counted(made, "pair")),
        }
    }
}

fn with_answer(messages: &[Message], parts: Vec<String>) -> Vec<Message> {
    let mut messages = messages.to_vec();
    if let Some(last) = messages.last_mut() {
        last.parts = parts;
    }
    messages
}

/// The pair that a row contains itself; `None` if it lacks columns for both answers.
fn pair_of_row(template: Template, train_on_input: bool, row: &Fields) -> Result<Option<[Vec<Message>; 2]>, String> {
    let Some((chosen, rejected)) = ANSWERS.into_iter().find(|(a, b)| row.contains_key(*a) || row.contains_key(*b))
    else {
        return Ok(None);
    };
    let column = |key: &str| {
        row.get(key).ok_or_else(|| format!("the column {key} is missing, though {chosen} and {rejected} exist"))
    };
    let answer_in = |key: &str, other: &str| -> Result<Vec<Message>, String> {
        match (column(key)?, column(other)?) {
            (Value::Array(turns), Value::Array(_)) => {
                let keys = if turns.first().is_some_and(|turn| turn.get("from").is_some()) {
                    ("from", "value")
                } else {
                    ("role", "content")
                };
                of_turns(turns, keys, train_on_input).map_err(|reason| format!("{key}: {reason}"))
            }
            (Value::String(answer), Value::String(_)) => answered(template, train_on_input, row, answer),
            (found, beside) => {
                let (found, beside) = (kind(found), kind(beside));
                Err(format!("{key} is {found} and {other} {beside}: both must be texts, or both lists of turns"))
            }
        }
    };
    Ok(Some([answer_in(chosen, rejected)?, answer_in(rejected, chosen)?]))
}

/// A row's prompt with this answer.
fn answered(template: Template, train_on_input: bool, row: &Fields, answer: &str) -> Result<Vec<Message>, String> {
    let prompt = PROMPTS.into_iter().find(|key| row.contains_key(*key));
    let column = match (template, prompt) {
        (Template::Chat, _) => {
            let [prompt] = filled(row, [prompt.unwrap_or(PROMPTS[0])])?;
            return Ok(exchange(vec![prompt.to_owned()], answer, train_on_input));
        }
        (other, Some(prompt)) => {
            let name = other.name();
            return Err(format!(
                "the column {prompt} is the prompt of a chat, but template = {name} has no chat: use template = chat"
            ));
        }
        (Template::Summarize, None) => "summary",
        (_, None) => "output",
    };
    let mut row = row.clone();
    row.insert(column.to_owned(), Value::String(answer.to_owned()));
    messages(template, train_on_input, &row)
}

/// Generated pairs for `data_set` from row `rows.start` on: a generated row, and its prompt with another answer. For `grammar` that answer
/// is the sentence in the prompt, for others the next row's answer.
pub(super) fn made_pairs(
    data_set: DataSet,
    rows: Range<usize>,
    lengths: &[usize],
    vocabulary: usize,
    train_on_input: bool,
    limit: Option<usize>,
) -> TokenRows {
    let mut generated = TokenRows::default();
    for row in rows {
        let chosen = made_row(data_set, row, lengths, vocabulary);
        let prompt = data_set.prompt_tokens(chosen.len());
        let mut rejected = chosen[..prompt].to_vec();
        if data_set == DataSet::Grammar {
            rejected.extend_from_within(1..prompt);
            rejected.push(MADE_END);
        } else {
            let other = made_row(data_set, row + 1, lengths, vocabulary);
            rejected.extend(&other[data_set.prompt_tokens(other.len())..]);
        }
        if let Some(limit) = limit.filter(|limit| *limit < rejected.len()) {
            rejected.truncate(limit);
            rejected[limit - 1] = MADE_END;
        }
        let masked = if train_on_input { 1 } else { prompt };
        for tokens in [chosen, rejected] {
            let masks: Vec<bool> = (0..tokens.len()).map(|place| place < masked).collect();
            generated.push(&tokens, &masks);
        }
    }
    generated
}

#[cfg(test)]
#[path = "preference_tests.rs"]
mod tests;
