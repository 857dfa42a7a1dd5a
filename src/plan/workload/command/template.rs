//! Words of a command with placeholders: `--batch={batch_size}`, `{compile:--compile}`.

/// The placeholders that every command may use in addition to its factors, with their meaning.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("seed", "the seed of the run: the plan's seed, plus one for each further repeat"),
    ("repeat", "the number of the run's repeat, from 1"),
    ("run_folder", "the run's folder in the session, for files that belong to the run"),
    ("session_folder", "the session's folder, for files that several runs share"),
    ("gpus", "the number of GPUs of the run, or of CPU ranks on a machine without GPUs"),
    ("nodes", "the number of nodes of the run"),
    ("gpus_per_node", "the number of GPUs of each node, or of CPU ranks on machines without GPUs"),
    ("node_rank", "the number of the node, from 0"),
    ("master_addr", "the name of the run's first node, or 127.0.0.1 for a run on one node"),
    ("port", "a TCP port of the run's first node that is free when the run starts"),
];

/// The level of a switch that inserts its text.
pub const ON: &str = "on";
/// The level of a switch that inserts nothing.
pub const OFF: &str = "off";

/// A piece of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Plain text.
    Text(String),
    /// `{name}`: the value of a placeholder.
    Value(String),
    /// `{name:text}`: the text if the switch with this name is on, nothing if it is off.
    Switch(String, String),
}

/// The pieces of a word. `{{` and `}}` stand for braces.
///
/// # Errors
/// A brace is not closed or not opened, or a name is empty.
pub fn pieces(word: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = word;
    while let Some(at) = rest.find(['{', '}']) {
        text.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(brace) {
            text.push_str(brace);
            rest = after;
            continue;
        }
        if brace == "}" {
            return Err(format!("{word:?} closes a brace that is not open: write }}}} for a brace"));
        }
        let Some(end) = rest.find('}') else {
            return Err(format!("{word:?} does not close a placeholder: write {{{{ for a brace"));
        };
        let (inner, after) = (&rest[..end], &rest[end + 1..]);
        rest = after;
        if !text.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut text)));
        }
        let (name, switched) = match inner.split_once(':') {
            Some((name, switched)) => (name, Some(switched)),
            None => (inner, None),
        };
        if name.is_empty() {
            return Err(format!("{word:?} has a placeholder without a name: write {{{{ and }}}} for braces"));
        }
        pieces.push(match switched {
            Some(switched) => Piece::Switch(name.to_owned(), switched.to_owned()),
            None => Piece::Value(name.to_owned()),
        });
    }
    text.push_str(rest);
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

/// A word with its placeholders filled; `None` for a word that consists only of switches that are off.
///
/// # Errors
/// The word is malformed, or `value` does not know a name.
pub fn filled(word: &str, value: &dyn Fn(&str) -> Option<String>) -> Result<Option<String>, String> {
    let pieces = pieces(word)?;
    let known = |name: &str| value(name).ok_or_else(|| format!("{word:?}: unknown placeholder {name}"));
    let mut text = String::new();
    for piece in &pieces {
        match piece {
            Piece::Text(piece) => text.push_str(piece),
            Piece::Value(name) => text.push_str(&known(name)?),
            Piece::Switch(name, switched) if known(name)? == ON => text.push_str(switched),
            Piece::Switch(..) => {}
        }
    }
    let is_switched_off = text.is_empty() && pieces.iter().any(|piece| matches!(piece, Piece::Switch(..)));
    Ok((!is_switched_off).then_some(text))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn fill(word: &str) -> Result<Option<String>, String> {
        filled(word, &|name| match name {
            "batch" => Some("64".to_owned()),
            "odd" => Some("{batch}".to_owned()),
            "compile" => Some(ON.to_owned()),
            "fused" => Some(OFF.to_owned()),
            _ => None,
        })
    }

    #[test]
    fn values_switches_and_braces_are_filled_once() {
        for (word, expected) in [
            ("train.py", Some("train.py")),
            ("", Some("")),
            ("--batch={batch}x{batch}", Some("--batch=64x64")),
            ("{compile:--compile}", Some("--compile")),
            ("{fused:--fused}", None),
            ("--mode={fused:fused}", Some("--mode=")),
            ("{{\"batch\":{batch}}}", Some("{\"batch\":64}")),
            ("{odd}", Some("{batch}")),
            ("ü{batch}ü", Some("ü64ü")),
        ] {
            assert_eq!(fill(word).unwrap().as_deref(), expected, "{word}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_word_is_read_or_refused_and_doubled_braces_give_back_the_text(word in "(?s)[a-z{}:\"é]{0,12}") {
            let _ = fill(&word);
            let doubled = word.replace('{', "{{").replace('}', "}}");
            assert_eq!(fill(&doubled), Ok(Some(word)));
        }
    }

    #[test]
    fn malformed_words_and_unknown_names_are_refused_with_the_word() {
        for word in ["{batch", "batch}", "{}", "{:--x}", "{other}", "{other:--x}"] {
            assert!(fill(word).unwrap_err().contains(&format!("{word:?}")), "{word}");
        }
    }
}
