#![allow(clippy::unwrap_used)]

use super::*;

fn fields(json: &str) -> Fields {
    serde_json::from_str(json).unwrap()
}

fn texts(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|message| message.parts.concat()).collect()
}

/// The chosen and rejected texts of pairs of all rows.
fn pairs(template: Template, rows: &[&str]) -> Result<Vec<[Vec<String>; 2]>, String> {
    let mut pairing = Pairing::new(template, false);
    let mut found = Vec::new();
    for row in rows {
        found.extend(pairing.next(Path::new("rows.jsonl"), Place::of_row(1), &fields(row))?);
    }
    found.extend(pairing.end()?);
    Ok(found.into_iter().map(|pair| pair.rows.each_ref().map(|row| texts(row))).collect())
}

#[test]
fn both_answers_are_read_in_the_published_shapes() {
    let expected = vec![[vec!["q".to_owned(), "good".to_owned()], vec!["q".to_owned(), "bad".to_owned()]]];
    let turns =
        |answer: &str| format!(r#"[{{"role":"user","content":"q"}},{{"role":"assistant","content":"{answer}"}}]"#);
    let sharegpt = |answer: &str| format!(r#"[{{"from":"human","value":"q"}},{{"from":"gpt","value":"{answer}"}}]"#);
    let (chosen, rejected) = (turns("good"), turns("bad"));
    for row in [
        format!(r#"{{"chosen":{chosen},"rejected":{rejected}}}"#),
        format!(r#"{{"prompt":"q","chosen":{chosen},"rejected":{rejected}}}"#),
        format!(r#"{{"chosen":{},"rejected":{}}}"#, sharegpt("good"), sharegpt("bad")),
        r#"{"prompt":"q","chosen":"good","rejected":"bad"}"#.to_owned(),
        r#"{"question":"q","response_j":"good","response_k":"bad"}"#.to_owned(),
    ] {
        assert_eq!(pairs(Template::Chat, &[&row]).unwrap(), expected, "{row}");
    }
    let row = r#"{"dialogue":"A: hi","chosen":"good","rejected":"bad"}"#;
    let found = pairs(Template::Summarize, &[row]).unwrap();
    assert!(found[0][0][0].starts_with("Summarize this dialogue:\nA: hi") && found[0][1][1] == "bad", "{found:?}");
}

#[test]
fn rejected_answers_are_the_uncorrected_sentence_or_those_of_the_next_row() {
    let found = pairs(Template::Grammar, &[r#"{"input":"he go","output":"he goes"}"#]).unwrap();
    assert_eq!((found[0][0][1].as_str(), found[0][1][1].as_str()), ("he goes", "he go"));
    assert_eq!(found[0][0][0], found[0][1][0]);
    let rows = ["1", "2", "3"].map(|number| format!(r#"{{"instruction":"say {number}","output":"{number}"}}"#));
    let found = pairs(Template::Instruct, &rows.each_ref().map(String::as_str)).unwrap();
    let answers: Vec<_> = found.iter().map(|[chosen, rejected]| (&*chosen[1], &*rejected[1])).collect();
    assert_eq!(answers, [("1", "2"), ("2", "3"), ("3", "1")]);
    assert!(found.iter().all(|[chosen, rejected]| chosen[0] == rejected[0]));
}

#[test]
fn what_a_pair_lacks_is_named() {
    let refused = |template, row: &str| pairs(template, &[row]).unwrap_err();
    assert!(refused(Template::Chat, r#"{"prompt":"q","chosen":"a"}"#).contains("the column rejected is missing"));
    let error = refused(Template::Chat, r#"{"prompt":"q","chosen":"a","rejected":[]}"#);
    assert!(error.contains("chosen is a text and rejected a list: both must be texts"), "{error}");
    assert!(
        refused(Template::Chat, r#"{"chosen":[],"rejected":[]}"#).contains("chosen: a conversation needs at least two")
    );
    assert!(refused(Template::Chat, r#"{"chosen":"a","rejected":"b"}"#).contains("the column prompt is missing"));
    let error = refused(Template::Instruct, r#"{"prompt":"q","chosen":"a","rejected":"b"}"#);
    assert!(error.contains("use template = chat"), "{error}");
    assert!(refused(Template::Instruct, r#"{"instruction":"a","output":"b"}"#).contains("only one row"));
}

#[test]
fn made_pairs_share_their_prompt_and_have_the_lengths_that_plans_estimate() {
    for set in [DataSet::AlpacaCleaned, DataSet::Grammar, DataSet::Samsum] {
        let lengths = set.stand_in_lengths();
        let pairs = made_pairs(set, 0..600, &lengths, 1024, false, None);
        assert_eq!(pairs.len(), 1200);
        for pair in 0..600 {
            let [(chosen, masks), (rejected, others)] = [pairs.row(2 * pair), pairs.row(2 * pair + 1)];
            let prompt = masks.iter().filter(|masked| **masked).count();
            assert_eq!(
                (&chosen[..prompt], prompt),
                (&rejected[..prompt], others.iter().filter(|masked| **masked).count())
            );
            assert_eq!(rejected.len(), set.rejected_tokens(&lengths, pair));
            assert_eq!(rejected.last(), Some(&MADE_END));
        }
        let cut =
            made_pairs(set, 0..600, &lengths.iter().map(|l| *l.min(&30)).collect::<Vec<_>>(), 1024, false, Some(30));
        for row in 0..1200 {
            let (tokens, masks) = cut.row(row);
            assert!(tokens.len() <= 30 && !masks[tokens.len() - 1], "{tokens:?}");
        }
    }
}
