#![allow(clippy::unwrap_used)]

use serde::Deserialize;

use super::*;
use crate::plan::llm::{self, Technique, Template};
use crate::plan::{Data, Level};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracles/llm")
}

/// What TorchTune made of the fixtures.
#[derive(Deserialize)]
struct Expected {
    cases: Vec<Case>,
    batches: Vec<Batch>,
    packs: Vec<Packs>,
}

#[derive(Deserialize)]
struct Case {
    set: String,
    train_on_input: bool,
    max_tokens: Option<usize>,
    rows: Vec<ExpectedRow>,
}

#[derive(Deserialize)]
struct ExpectedRow {
    tokens: Vec<u32>,
    masked: Vec<u8>,
}

#[derive(Deserialize)]
struct Batch {
    set: String,
    train_on_input: bool,
    tokens: Vec<Vec<i64>>,
    labels: Vec<Vec<i64>>,
}

#[derive(Deserialize)]
struct Packs {
    set: String,
    train_on_input: bool,
    max_tokens: usize,
    packs: Vec<Pack>,
}

#[derive(Deserialize)]
struct Pack {
    tokens: Vec<i64>,
    labels: Vec<i64>,
    input_pos: Vec<i64>,
}

fn expected() -> Expected {
    serde_json::from_str(&fs::read_to_string(fixtures().join("expected.json")).unwrap()).unwrap()
}

fn settings(set: &str, train_on_input: bool, max_tokens: Option<usize>) -> LlmSettings {
    let changed = [
        ("data_set", Level::text(set)),
        ("train_on_input", Level::text(if train_on_input { "on" } else { "off" })),
        ("max_tokens", Level::Integer(max_tokens.unwrap_or(0) as i64)),
        ("rows", Level::Integer(0)),
    ];
    LlmSettings::from_levels(&llm::spec().levels(&changed)).unwrap()
}

fn files(tokenizer: &str) -> LlmData {
    let path = fixtures().join(tokenizer);
    LlmData::read(&Data::of_set("files").with_path("tokenizer", path.to_str().unwrap())).unwrap()
}

fn rows_of(settings: &LlmSettings, data: &LlmData) -> Result<TextSet, DatasetError> {
    read(settings, data, &ModelConfig::tiny(), &fixtures())
}

#[test]
fn tokens_and_masks_of_all_templates_equal_torchtunes_with_both_forms_of_the_tokenizer() {
    let mut compared = 0;
    for Case { set, train_on_input, max_tokens, rows } in expected().cases {
        for tokenizer in ["tokenizer.json", "tokenizer.model"] {
            let settings = settings(&set, train_on_input, max_tokens);
            let found = match rows_of(&settings, &files(tokenizer)) {
                Ok(found) => found,
                // A row without labels is refused; TorchTune's loss of it is NaN.
                Err(error) => {
                    assert!(error.to_string().contains("nothing is left to learn"), "{error}");
                    assert!(rows.iter().any(|row| row.masked.iter().all(|masked| *masked == 1)));
                    continue;
                }
            };
            assert_eq!(found.train.len(), rows.len());
            for (index, row) in rows.iter().enumerate() {
                let masked: Vec<bool> = row.masked.iter().map(|masked| *masked == 1).collect();
                assert_eq!(found.train.row(index), (&row.tokens[..], &masked[..]), "{set} {max_tokens:?} {index}");
                compared += 1;
            }
        }
    }
    assert!(compared > 60, "{compared}");
}

#[test]
fn batches_are_padded_as_torchtunes() {
    for Batch { set, train_on_input, tokens, labels } in expected().batches {
        let found = rows_of(&settings(&set, train_on_input, None), &files("tokenizer.json")).unwrap();
        let length = found.train.sample_len(0..1).max(found.train.sample_len(1..2));
        for row in 0..2 {
            let (mut of_tokens, mut of_labels) = (vec![0; length], vec![0; length]);
            let into = Sample { tokens: &mut of_tokens, labels: &mut of_labels, positions: None };
            found.train.write(row..row + 1, found.padding, into);
            assert_eq!((&of_tokens, &of_labels), (&tokens[row], &labels[row]), "{set} {row}");
        }
    }
}

#[test]
fn packs_equal_torchtunes() {
    let mut several = 0;
    for Packs { set, train_on_input, max_tokens, packs } in expected().packs {
        let settings = LlmSettings { packed: true, ..settings(&set, train_on_input, Some(max_tokens)) };
        let found = rows_of(&settings, &files("tokenizer.json")).unwrap();
        let samples = found.train.samples(found.packs_of);
        assert_eq!(samples.len(), packs.len(), "{set}");
        for (sample, pack) in samples.into_iter().zip(&packs) {
            several += usize::from(sample.len() > 1);
            let (mut tokens, mut labels, mut positions) = (vec![0; 400], vec![0; 400], vec![0; 400]);
            let into = Sample { tokens: &mut tokens, labels: &mut labels, positions: Some(&mut positions) };
            found.train.write(sample, found.padding, into);
            assert_eq!((&tokens, &labels, &positions), (&pack.tokens, &pack.labels, &pack.input_pos), "{set}");
        }
    }
    assert!(several > 0);
}

#[test]
fn a_file_of_ones_own_is_read_by_its_template_and_cut_into_rows_and_test_rows() {
    let path = fixtures().join("alpaca.jsonl");
    let data = Data::of_set("files")
        .with_path("tokenizer", fixtures().join("tokenizer.json").to_str().unwrap())
        .with_path("file", path.to_str().unwrap());
    let data = LlmData::read(&data).unwrap();
    let rows_with = |rows, test_rows| {
        let settings =
            LlmSettings { template: Template::Instruct, rows: Some(rows), test_rows, ..settings("file", true, None) };
        rows_of(&settings, &data)
    };
    let found = rows_with(2, 1).unwrap();
    assert_eq!((found.train.len(), found.test.len()), (2, 1));
    assert_eq!(found.test.row(0), rows_with(3, 0).unwrap().train.row(2));
    assert!(found.source.contains("alpaca.jsonl"));
    let error = rows_with(4, 1).unwrap_err().to_string();
    assert!(error.contains("alpaca.jsonl, but 5 are asked for"), "{error}");
}

#[test]
fn rows_that_cannot_be_used_are_named_with_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.jsonl");
    let refused = |content: &str, max_tokens: Option<usize>| {
        fs::write(&path, content).unwrap();
        let data = LlmData::read(
            &Data::of_set("files")
                .with_path("tokenizer", fixtures().join("tokenizer.json").to_str().unwrap())
                .with_path("file", path.to_str().unwrap()),
        );
        let settings = LlmSettings { template: Template::Grammar, ..settings("file", false, max_tokens) };
        let error = rows_of(&settings, &data.unwrap()).unwrap_err().to_string();
        error.replace(&folder.path().display().to_string(), "")
    };
    let good = "{\"input\":\"a b c d e f g\",\"output\":\"b\"}\n";
    assert!(
        refused(&format!("{good}{{\"input\":\"a\"}}\n"), None)
            .starts_with("/mine.jsonl, row 2 (line 2): the column output")
    );
    assert!(
        refused(&format!("{good}{{\"input\":\"\",\"output\":\"\"}}"), None).contains("row 2 (line 2): it is empty")
    );
    assert!(refused(good, Some(12)).contains("row 1 (line 1): its prompt fills all 12 tokens of max_tokens = 12"));
    let long = format!("{{\"input\":\"{}\",\"output\":\"b\"}}", "a1 ".repeat(3000));
    assert!(refused(&long, None).contains("do not fit into the context of tiny, 2048 tokens: set max_tokens"));
    assert!(refused("", None).contains("only 0 rows"));
}

#[test]
fn what_is_missing_says_how_to_get_it() {
    let settings = settings("samsum", false, None);
    let folder = tempfile::tempdir().unwrap();
    let error = read(&settings, &files("tokenizer.json"), &ModelConfig::tiny(), folder.path()).unwrap_err().to_string();
    assert!(error.contains("run `multicard data fetch samsum`"), "{error}");
    let data = LlmData::read(&Data::of_set("files").with_path("tokenizer", "/nowhere/tokenizer.json")).unwrap();
    assert!(rows_of(&settings, &data).unwrap_err().to_string().contains("/nowhere/tokenizer.json"));
    let small = ModelConfig { vocabulary: 300, ..ModelConfig::tiny() };
    let error = read(&settings, &files("tokenizer.json"), &small, &fixtures()).unwrap_err().to_string();
    assert!(error.contains("it belongs to another model"), "{error}");
}

#[test]
fn stand_ins_are_made_as_asked_and_named_synthetic() {
    let data = LlmData::read(&Data::of_set("stand-in")).unwrap();
    let settings = LlmSettings { rows: Some(500), test_rows: 20, ..settings("grammar", false, None) };
    let found = rows_of(&settings, &data).unwrap();
    assert_eq!((found.train.token_count(), found.test.len()), (28_683, 20));
    assert!(found.source.contains("synthetic"));
    let uniform = LlmSettings { row_tokens: 120, ..self::settings("uniform", true, None) };
    let found = rows_of(&LlmSettings { rows: Some(10), ..uniform }, &data).unwrap();
    assert_eq!((found.train.token_count(), found.train.learned_count()), (1200, 1190));
}

#[test]
fn preferences_are_made_beside_published_answers_and_say_so() {
    for set in ["grammar", "alpaca-cleaned"] {
        let alone = settings(set, false, None);
        let pairs = LlmSettings { technique: Technique::Dpo, ..alone.clone() };
        let data = files("tokenizer.json");
        let (alone, found) = (rows_of(&alone, &data).unwrap(), rows_of(&pairs, &data).unwrap());
        assert!(found.pairs && found.train.len() == 2 * alone.train.len());
        for row in 0..alone.train.len() {
            let [(chosen, masks), (rejected, others)] = [found.train.row(2 * row), found.train.row(2 * row + 1)];
            assert_eq!((chosen, masks), alone.train.row(row), "{set}: chosen rows are the published ones");
            let prompt = masks.iter().take_while(|masked| **masked).count();
            assert_eq!((&chosen[..prompt], &masks[..prompt]), (&rejected[..prompt], &others[..prompt]), "{set} {row}");
        }
        assert!(found.source.contains("synthetic preferences: the rejected answers of"), "{}", found.source);
        assert_eq!(2 * found.made_pairs, found.train.len() + found.test.len());
    }
}

#[test]
fn a_file_of_preferences_is_read_and_its_bad_row_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pairs.jsonl");
    let good = "{\"prompt\":\"Is it?\",\"chosen\":\"Yes.\",\"rejected\":\"No.\"}\n";
    let tokenizer = fixtures().join("tokenizer.json");
    let data = Data::of_set("files").with_path("tokenizer", tokenizer.to_str().unwrap());
    let data = LlmData::read(&data.with_path("file", path.to_str().unwrap())).unwrap();
    let changed = [
        ("data_set", Level::text("file")),
        ("technique", Level::text("dpo")),
        ("template", Level::text("chat")),
        ("rows", Level::Integer(2)),
    ];
    let settings = LlmSettings::from_levels(&llm::spec().levels(&changed)).unwrap();
    fs::write(&path, good.repeat(3)).unwrap();
    let found = rows_of(&settings, &data).unwrap();
    assert_eq!((found.train.len(), found.source), (4, format!("read from {}", path.display())));
    assert_eq!(found.made_pairs, 0);
    fs::write(&path, format!("{good}{{\"prompt\":\"q\",\"chosen\":\"a\"}}\n")).unwrap();
    let error = rows_of(&settings, &data).unwrap_err().to_string();
    assert!(error.contains("row 2 (line 2)") && error.contains("the column rejected is missing"), "{error}");
    fs::write(&path, good).unwrap();
    let error = rows_of(&settings, &data).unwrap_err().to_string();
    assert!(error.contains('1') && error.contains('2'), "{error}");
}

#[test]
fn rows_that_the_host_has_no_room_for_end_with_the_row_and_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let row = "{\"instruction\":\"Count to three.\",\"input\":\"\",\"output\":\"One, two, three.\"}\n";
    fs::write(&path, row.repeat(100)).unwrap();
    let tokenizer = Tokenizer::open(&fixtures().join("tokenizer.json")).unwrap();
    let settings = LlmSettings { rows: None, ..settings("alpaca-cleaned", true, None) };
    let read = |room| tokenized(&settings, &ModelConfig::tiny(), &tokenizer, std::slice::from_ref(&path), Some(room));
    let tokens = read(1 << 30).unwrap().train.token_count() as u64;
    assert_eq!(read(tokens * TOKEN_BYTES).unwrap().train.len(), 100);
    let error = read(tokens * TOKEN_BYTES / 2).unwrap_err().to_string();
    assert!(error.contains("row 51 (line 51)") && error.contains("in each of 1 rank: use fewer rows"), "{error}");
}
