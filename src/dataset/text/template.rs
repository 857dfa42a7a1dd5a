//! Templates: the words around a row's columns, as in TorchTune 0.5.

use serde_json::{Map, Value};
use strum::IntoStaticStr;

use super::rows::kind;
use crate::plan::llm::Template;

/// The speaker of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Role {
    System,
    User,
    Assistant,
}

impl Role {
    /// The name in the header of a message.
    pub(super) fn name(self) -> &'static str {
        self.into()
    }
}

/// One message of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) role: Role,
    /// Texts that are encoded one by one, each stripped of surrounding white space.
    pub(super) parts: Vec<String>,
    /// Whether it is masked, so that it is not learned.
    pub(super) masked: bool,
}

pub(super) type Fields = Map<String, Value>;

/// The messages of a row. The error says what is missing in the row.
pub(super) fn messages(template: Template, train_on_input: bool, row: &Fields) -> Result<Vec<Message>, String> {
    let turn = |parts: Vec<String>, answer: &str| exchange(parts, answer, train_on_input);
    match template {
        Template::Instruct if !row.contains_key("instruction") && turns(row).is_some() => {
            of_conversation(conversation(row, train_on_input)?)
        }
        Template::Own | Template::Instruct => {
            let [instruction, answer] = filled(row, ["instruction", "output"])?;
            let input = row.get("input").and_then(Value::as_str).unwrap_or_default();
            Ok(turn(vec![instruct(instruction, input)], answer))
        }
        Template::Grammar => {
            let [sentence, answer] = filled(row, ["input", "output"])?;
            Ok(turn(around("Correct this to standard English: ", sentence, "\n---\nCorrected: "), answer))
        }
        Template::Summarize => {
            let [dialogue, answer] = filled(row, ["dialogue", "summary"])?;
            Ok(turn(around("Summarize this dialogue:\n", dialogue, "\n---\nSummary:\n"), answer))
        }
        Template::Chat => conversation(row, train_on_input),
    }
}

/// A user's message and the answer to it.
pub(super) fn exchange(parts: Vec<String>, answer: &str, train_on_input: bool) -> Vec<Message> {
    let message = |role, parts, masked| Message { role, parts, masked };
    vec![message(Role::User, parts, !train_on_input), message(Role::Assistant, vec![answer.to_owned()], false)]
}

/// Alpaca's two prompts.
fn instruct(instruction: &str, input: &str) -> String {
    if input.is_empty() {
        return format!(
            "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n\
             ### Instruction:\n{instruction}\n\n### Response:\n"
        );
    }
    format!(
        "Below is an instruction that describes a task, paired with an input that provides further context. Write a response \
         that appropriately completes the request.\n\n### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:\n"
    )
}

fn around(before: &str, text: &str, after: &str) -> Vec<String> {
    [before, text, after].map(str::to_owned).to_vec()
}

/// The texts of these columns, at least one of which must not be empty.
pub(super) fn filled<'a, const COUNT: usize>(
    row: &'a Fields,
    columns: [&str; COUNT],
) -> Result<[&'a str; COUNT], String> {
    let mut texts = [""; COUNT];
    for (text, column) in texts.iter_mut().zip(columns) {
        *text = match row.get(column) {
            Some(Value::String(text)) => text,
            Some(other) => return Err(format!("the column {column} is {}, not a text", kind(other))),
            None => {
                let columns: Vec<&str> = row.keys().map(String::as_str).take(8).collect();
                return Err(format!("the column {column} is missing; the columns are {}", columns.join(", ")));
            }
        };
    }
    if texts.iter().all(|text| text.trim().is_empty()) {
        return Err(format!("it is empty: {} contain no text", columns.join(" and ")));
    }
    Ok(texts)
}

/// Turns a conversation with one question and one answer into an instruction: the system's text is put before the question.
fn of_conversation(messages: Vec<Message>) -> Result<Vec<Message>, String> {
    let questions = messages.iter().filter(|message| message.role == Role::User).count();
    if questions != 1 {
        return Err(format!(
            "template = instruct takes one question and its answer, but this conversation has {questions}: use template = chat"
        ));
    }
    let (answers, prompts): (Vec<Message>, Vec<Message>) =
        messages.into_iter().partition(|message| message.role == Role::Assistant);
    let masked = prompts.iter().all(|message| message.masked);
    let texts: Vec<String> = prompts.into_iter().flat_map(|message| message.parts).collect();
    let question = Message { role: Role::User, parts: vec![instruct(&texts.join("\n\n"), "")], masked };
    Ok([question].into_iter().chain(answers).collect())
}

/// The turns of a row, with the keys of their speaker and text: `conversations` (`from`, `value`) or `messages` (`role`, `content`).
fn turns(row: &Fields) -> Option<(&Value, &'static str, &'static str)> {
    let shapes = [("conversations", "from", "value"), ("messages", "role", "content")];
    shapes.into_iter().find_map(|(column, from, value)| Some((row.get(column)?, from, value)))
}

/// The messages of a conversation's turns.
fn conversation(row: &Fields, train_on_input: bool) -> Result<Vec<Message>, String> {
    let Some((turns, from, value)) = turns(row) else {
        return Err("the column conversations is missing".to_owned());
    };
    let turns = turns.as_array().ok_or_else(|| format!("conversations is {}, not a list", kind(turns)))?;
    of_turns(turns, (from, value), train_on_input)
}

/// The messages of turns, whose speaker and text have these keys.
pub(super) fn of_turns(
    turns: &[Value],
    (from, value): (&str, &str),
    train_on_input: bool,
) -> Result<Vec<Message>, String> {
    let mut messages = Vec::new();
    for (place, turn) in turns.iter().enumerate() {
        let text = |key: &str| {
            turn.get(key).and_then(Value::as_str).ok_or_else(|| format!("turn {} has no text {key}", place + 1))
        };
        let role = match text(from)? {
            "system" => Role::System,
            "human" | "user" => Role::User,
            "gpt" | "assistant" => Role::Assistant,
            other => return Err(format!("turn {} is from {other:?}, not system, human or gpt", place + 1)),
        };
        let masked = role != Role::Assistant && !train_on_input;
        messages.push(Message { role, parts: vec![text(value)?.to_owned()], masked });
    }
    check(&messages)?;
    Ok(messages)
}

/// Checks that the speakers alternate, and that there is at most one system message, at the start.
fn check(messages: &[Message]) -> Result<(), String> {
    if messages.len() < 2 {
        return Err(format!("a conversation needs at least two turns, this one has {}", messages.len()));
    }
    let mut last = Role::Assistant;
    for (place, message) in messages.iter().enumerate() {
        let wrong = match message.role {
            Role::Assistant => last != Role::User,
            Role::User => last == Role::User,
            Role::System => place > 0,
        };
        if wrong {
            let (turn, role) = (place + 1, message.role.name());
            return Err(format!(
                "turn {turn}, of the {role}, is out of order: turns alternate, and a system turn comes first"
            ));
        }
        last = message.role;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn fields(json: &str) -> Fields {
        serde_json::from_str(json).unwrap()
    }

    fn refused(template: Template, json: &str) -> String {
        messages(template, false, &fields(json)).unwrap_err()
    }

    #[test]
    fn an_instruction_without_input_has_its_own_prompt() {
        let row = r#"{"instruction":"Add.","input":"","output":"2"}"#;
        let found = messages(Template::Instruct, true, &fields(row)).unwrap();
        assert!(found[0].parts[0].starts_with("Below is an instruction that describes a task. Write"), "{found:?}");
        assert_eq!((found[0].masked, found[1].masked, found[1].parts[0].as_str()), (false, false, "2"));
        let row = r#"{"instruction":"Add.","input":"1 1","output":"2"}"#;
        let found = messages(Template::Instruct, false, &fields(row)).unwrap();
        assert!(found[0].parts[0].contains("\n\n### Input:\n1 1\n\n### Response:\n") && found[0].masked);
    }

    #[test]
    fn what_a_row_lacks_is_named() {
        assert_eq!(
            refused(Template::Summarize, r#"{"input":"a","output":"b"}"#),
            "the column dialogue is missing; the columns are input, output"
        );
        assert!(refused(Template::Grammar, r#"{"input":"a","output":null}"#).contains("output is null, not a text"));
        assert!(refused(Template::Grammar, r#"{"input":" ","output":""}"#).contains("it is empty"));
        assert!(refused(Template::Chat, r#"{"conversations":"x"}"#).contains("not a list"));
        let turns = |turns: &str| format!("{{\"conversations\":[{turns}]}}");
        let (human, gpt) = (r#"{"from":"human","value":"q"}"#, r#"{"from":"gpt","value":"a"}"#);
        assert!(refused(Template::Chat, &turns(human)).contains("at least two turns"));
        assert!(
            refused(Template::Chat, &turns(&format!("{gpt},{human}")))
                .contains("turn 1, of the assistant, is out of order")
        );
        assert!(
            refused(Template::Chat, &turns(&format!("{human},{human}")))
                .contains("turn 2, of the user, is out of order")
        );
        assert!(refused(Template::Chat, &turns(r#"{"from":"tool","value":"x"}"#)).contains("from \"tool\""));
        assert!(refused(Template::Chat, &turns(r#"{"from":"human"}"#)).contains("turn 1 has no text value"));
    }

    #[test]
    fn a_question_and_its_answer_are_an_instruction_too() {
        let turns = |more: &str| {
            format!(
                r#"{{"conversations":[{{"from":"system","value":"Be brief."}},{{"from":"human","value":"Why?"}},{{"from":"gpt","value":"So."}}{more}]}}"#
            )
        };
        let found = messages(Template::Instruct, false, &fields(&turns(""))).unwrap();
        assert_eq!((found.len(), found[0].role, found[1].role), (2, Role::User, Role::Assistant));
        assert!(found[0].masked && !found[1].masked && found[1].parts == ["So."]);
        let asked = &found[0].parts[0];
        assert!(
            asked.starts_with("Below is an instruction")
                && asked.contains("### Instruction:\nBe brief.\n\nWhy?\n\n### Response:\n"),
            "{asked}"
        );
        let more = r#",{"from":"human","value":"More?"},{"from":"gpt","value":"No."}"#;
        assert!(refused(Template::Instruct, &turns(more)).contains("this conversation has 2: use template = chat"));
    }

    #[test]
    fn both_shapes_of_conversations_are_read() {
        let one = r#"{"conversations":[{"from":"human","value":"q"},{"from":"gpt","value":"a"}]}"#;
        let other = r#"{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}"#;
        let messages_of = |json| messages(Template::Chat, false, &fields(json)).unwrap();
        assert_eq!(messages_of(one), messages_of(other));
    }
}
