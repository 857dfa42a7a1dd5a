//! What tells commands apart: the parts in which not all of them are alike.

use std::collections::HashSet;

use super::{Command, typed};
use crate::foreign::shortened;

/// The most characters of the text of one command.
const MOST_CHARS: usize = 60;

/// For each of several commands, the parts in which not all of them are alike, in one line and as typed into a shell: `THREADS=4, in b`.
/// A long text lacks its middle, or its ends if the difference is in the middle.
pub fn differences(commands: &[&Command]) -> Vec<String> {
    let mut parts: Vec<Vec<String>> = vec![Vec::new(); commands.len()];
    let mut add = |texts: Vec<String>| {
        if texts.windows(2).any(|pair| pair[0] != pair[1]) {
            parts.iter_mut().zip(texts).for_each(|(parts, text)| parts.push(text));
        }
    };
    add(endings(&commands.iter().map(|command| command.run.as_slice()).collect::<Vec<_>>()));
    add(commands.iter().map(|command| folder(command)).collect());
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in commands.iter().flat_map(|command| &command.env) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    for name in names {
        add(commands.iter().map(|command| variable(command, name)).collect());
    }
    let set_up = endings(&commands.iter().map(|command| command.setup.as_slice()).collect::<Vec<_>>());
    add(set_up.iter().map(|line| set_up_by(line)).collect());
    let in_one_line = |parts: Vec<String>| parts.join(", ").split_whitespace().collect::<Vec<_>>().join(" ");
    let whole: Vec<String> = parts.into_iter().map(in_one_line).collect();
    let short = |texts: &[String]| -> Vec<String> {
        texts.iter().map(|text| shortened(text, MOST_CHARS).into_owned()).collect()
    };
    let distinct = |texts: &[String]| texts.iter().collect::<HashSet<_>>().len();
    let texts = short(&whole);
    if distinct(&texts) < distinct(&whole) { short(&without_shared_ends(&whole)) } else { texts }
}

/// Texts without the characters with which all of them begin and end, except for those beside the difference for which there is room.
fn without_shared_ends(texts: &[String]) -> Vec<String> {
    let texts: Vec<Vec<char>> = texts.iter().map(|text| text.chars().collect()).collect();
    let shortest = texts.iter().map(Vec::len).min().unwrap_or(0);
    let longest = texts.iter().map(Vec::len).max().unwrap_or(0);
    let is_shared = |letter: &dyn Fn(&[char]) -> char| texts.iter().all(|text| letter(text) == letter(&texts[0]));
    let start = (0..shortest).take_while(|place| is_shared(&|text| text[*place])).count();
    let end = (0..shortest - start).take_while(|place| is_shared(&|text| text[text.len() - 1 - place])).count();
    // Two characters are for the ellipses.
    let room = MOST_CHARS.saturating_sub(longest - start - end + 2) / 2;
    let (start, end) = (start.saturating_sub(room), end.saturating_sub(room));
    let ellipsis = |cut: usize| if cut > 0 { "…" } else { "" };
    let rest = |text: &Vec<char>| text[start..text.len() - end].iter().collect::<String>();
    texts.iter().map(|text| format!("{}{}{}", ellipsis(start), rest(text), ellipsis(end))).collect()
}

/// The words of command lines after those with which all of them begin. At least the last word of each line is left.
fn endings(lines: &[&[String]]) -> Vec<String> {
    let shortest = lines.iter().map(|words| words.len()).min().unwrap_or(0);
    let is_shared = |place: &usize| lines.iter().all(|words| words[*place] == lines[0][*place]);
    let shared = (0..shortest.saturating_sub(1)).take_while(is_shared).count();
    let ending = |words: &&[String]| words[shared..].iter().map(|word| typed(word)).collect::<Vec<_>>().join(" ");
    lines.iter().map(ending).collect()
}

fn set_up_by(line: &str) -> String {
    if line.is_empty() { "without set-up".to_owned() } else { format!("set up by {line}") }
}

fn folder(command: &Command) -> String {
    match command.folder.as_deref() {
        Some(folder) => format!("in {}", typed(folder)),
        None => "in the plan's folder".to_owned(),
    }
}

fn variable(command: &Command, name: &str) -> String {
    match command.env.iter().find(|(own, _)| own == name) {
        Some((_, value)) => format!("{name}={}", typed(value)),
        None => format!("without {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    /// What tells a command and a changed copy of it apart.
    fn told(change: impl Fn(&mut Command)) -> [String; 2] {
        let env = [("LANG", "C"), ("THREADS", "1")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let command = Command {
            run: words("python3 train.py"),
            folder: Some("a".to_owned()),
            env: env.to_vec(),
            setup: words("make"),
            ..Command::default()
        };
        let mut changed = command.clone();
        change(&mut changed);
        let mut texts = differences(&[&command, &changed]).into_iter();
        [texts.next().unwrap_or_default(), texts.next().unwrap_or_default()]
    }

    #[test]
    fn commands_are_told_apart_by_the_parts_that_differ_and_by_no_others() {
        assert_eq!(told(|_| ()), ["", ""]);
        assert_eq!(told(|command| command.env[1].1 = "1 2".to_owned()), ["THREADS=1", "THREADS='1 2'"]);
        assert_eq!(told(|command| command.env.truncate(1)), ["THREADS=1", "without THREADS"]);
        assert_eq!(told(|command| command.run.push("--fast".to_owned())), ["train.py", "train.py --fast"]);
        assert_eq!(told(|command| command.folder = None), ["in a", "in the plan's folder"]);
        assert_eq!(told(|command| command.setup.clear()), ["set up by make", "without set-up"]);
        let both = told(|command| (command.run[1], command.folder) = ("test.py".to_owned(), Some("b".to_owned())));
        assert_eq!(both, ["train.py, in a", "test.py, in b"]);
    }

    #[test]
    fn long_texts_that_differ_only_in_their_middle_show_it() {
        let command = |threads: u32| Command {
            run: vec![
                "sh".to_owned(),
                "-c".to_owned(),
                format!(
                    "cd build && ./train --images /data/images --epochs 90 --threads {threads} --batch-size 256 --workers 8 --log out.txt \
                     | tee log"
                ),
            ],
            ..Command::default()
        };
        let texts = differences(&[&command(1), &command(16)]);
        for (text, part) in texts.iter().zip(["--threads 1 --", "--threads 16 --"]) {
            assert!(text.starts_with('…') && text.ends_with('…') && text.contains(part), "{text}");
            assert!(text.chars().count() <= MOST_CHARS, "{text}");
        }
    }

    #[test]
    fn a_long_or_broken_text_is_one_line_without_its_middle() {
        let [short, long] = ["a", "b"].map(|name| vec!["sh".to_owned(), "-c".to_owned(), format!("{name}\n  done")]);
        let long = Command { run: [long, vec!["x".repeat(100)]].concat(), ..Command::default() };
        let texts = differences(&[&Command { run: short, ..Command::default() }, &long]);
        assert_eq!(texts[0], "'a done'");
        assert!(texts[1].starts_with("'b done' xxx") && texts[1].contains('…'), "{}", texts[1]);
        assert!(texts[1].chars().count() <= MOST_CHARS + 1);
    }
}
