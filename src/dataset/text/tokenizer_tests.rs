#![allow(clippy::unwrap_used)]

use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, NormalizerWrapper, TokenizerBuilder};

use std::fs;

use super::*;
use crate::dataset::text::template::{Message, Role};

fn fixture(name: &str) -> Tokenizer {
    Tokenizer::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracles/llm").join(name)).unwrap()
}

fn ids(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    let mut tokens = Vec::new();
    tokenizer.encode(text, &mut tokens).unwrap();
    tokens
}

#[test]
fn both_files_of_a_tokenizer_give_the_same_tokens() {
    let (json, pairs) = (fixture("tokenizer.json"), fixture("tokenizer.model"));
    assert_eq!(json.marks, pairs.marks);
    for text in [
        "",
        "a",
        "She went to school, didn't she?",
        "  two\n\n spaces  \t",
        "1234567",
        "你好 🙂🙂",
        "<|eot_id|>",
        "\u{0}\u{1}",
    ] {
        assert_eq!(ids(&json, text), ids(&pairs, text), "{text:?}");
    }
    // Marks in a text are text.
    assert!(ids(&json, "<|eot_id|>").len() > 1);
}

#[test]
fn a_tokenizer_trained_here_joins_what_it_saw_often() {
    let mut tokenizer = TokenizerBuilder::<BPE, NormalizerWrapper, ByteLevel, ByteLevel, ByteLevel>::new()
        .with_model(BPE::default())
        .with_normalizer(None)
        .with_pre_tokenizer(Some(ByteLevel::new(false, true, true)))
        .with_post_processor(None)
        .with_decoder(None)
        .build()
        .unwrap();
    let alphabet = ByteLevel::alphabet().into_iter().collect();
    let mut trainer = BpeTrainerBuilder::new().vocab_size(300).show_progress(false).initial_alphabet(alphabet).build();
    tokenizer.train(&mut trainer, ["number numbers numbered"; 9].into_iter()).unwrap();
    let marks: Vec<AddedToken> = Marks::NAMES.iter().map(|(name, _)| AddedToken::from(*name, true)).collect();
    tokenizer.add_special_tokens(&marks);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    tokenizer.save(&path, false).unwrap();
    let opened = Tokenizer::open(&path).unwrap();
    assert_eq!((ids(&opened, "number").len(), ids(&opened, "zqxjk").len()), (1, 5));
    assert_eq!(opened.marks.end, opened.marks.begin + 1);
}

#[test]
fn files_of_other_models_and_damaged_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        Tokenizer::open(&path).err().unwrap().to_string()
    };
    let json =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracles/llm/tokenizer.json")).unwrap();
    let other = json.replace("<|start_header_id|>", "<|im_start|>");
    assert!(
        refused("tokenizer.json", other.as_bytes())
            .contains("no token <|start_header_id|>: it belongs to another model")
    );
    assert!(refused("tokenizer.json", b"{").contains("not a tokenizer.json"));
    assert!(refused("tokenizer.model", b"\x08\x96\xff").contains("neither tokenizer.json nor"));
    assert!(refused("tokenizer.model", b"IQ== 0\nnonsense").contains("line 2 is not base64 and a rank"));
    assert!(refused("tokenizer.model", b"IQ== 0\n").contains("the byte 0 has no token"));
    let model = ModelConfig { vocabulary: 300, ..ModelConfig::tiny() };
    assert!(fixture("tokenizer.model").is_foreign(&model).unwrap().contains("712 tokens, but tiny has 300"));
    assert_eq!(fixture("tokenizer.model").is_foreign(&ModelConfig::tiny()), None);
}

#[test]
fn a_row_that_is_cut_ends_with_the_end_mark() {
    let tokenizer = fixture("tokenizer.model");
    let message = |role, text: &str, masked| Message { role, parts: vec![text.to_owned()], masked };
    let messages = [message(Role::User, "What?", true), message(Role::Assistant, "That is a long answer.", false)];
    let (whole, _) = tokenizer.row(&messages, None).unwrap();
    for limit in 1..whole.len() + 3 {
        let (tokens, masked) = tokenizer.row(&messages, Some(limit)).unwrap();
        assert_eq!((tokens.len(), masked.len()), (limit.min(whole.len()), limit.min(whole.len())));
        assert_eq!((tokens.last(), masked.last()), (Some(&tokenizer.marks.end), Some(&true)));
    }
}

#[test]
fn long_texts_are_encoded_in_slices_as_torchtune_does() {
    assert_eq!(
        slices(&"a".repeat(60_000)).iter().map(|slice| slice.len()).collect::<Vec<_>>(),
        [25_000, 25_000, 10_000]
    );
    let words = "word ".repeat(100_000);
    assert_eq!(slices(&words).iter().map(|slice| slice.len()).collect::<Vec<_>>(), [400_000, 100_000]);
    assert_eq!(slices("a b"), ["a b"]);
    assert!(slices("").is_empty());
}
