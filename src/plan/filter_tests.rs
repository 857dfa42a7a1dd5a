#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A run with levels and a text.
struct Thing {
    levels: BTreeMap<&'static str, Level>,
    text: &'static str,
}

impl Facts for Thing {
    fn level(&self, key: &str) -> Option<Level> {
        self.levels.get(key).cloned()
    }

    fn mentions(&self, word: &str) -> bool {
        mentions(self.text, word)
    }
}

fn failed() -> Thing {
    let levels = [
        ("precision", Level::text("fp16")),
        ("state", Level::text("timed out")),
        ("gpus", Level::Integer(4)),
        ("learning_rate", Level::Number(0.001)),
        ("nodes", Level::text("08")),
    ];
    Thing { levels: levels.into_iter().collect(), text: "fp16 4 gpus out of memory" }
}

fn admits(text: &str) -> bool {
    Filter::parse(text).unwrap().admits(&failed())
}

#[test]
fn words_pairs_comparisons_and_their_combinations_choose_things() {
    for (text, admitted) in [
        ("", true),
        ("memory", true),
        ("MEMORY fp16", true),
        ("memory disk", false),
        ("\"out of\"", true),
        ("\"of out\"", false),
        ("4", true),
        ("16", true),
        ("1", false),
        ("state=timed-out", true),
        ("STATE = \"Timed out\"", true),
        ("state=timed_out", true),
        ("precision=fp1", false),
        ("precision!=fp32", true),
        ("gpus=4", true),
        ("gpu=4.0", true),
        ("gpus=four", false),
        ("gpus>=4 gpus<8", true),
        ("gpus>4", false),
        ("learning_rate=1e-3", true),
        ("learning_rate<0.01", true),
        ("nodes=08", true),
        ("nodes=8", false),
        ("nodes!=8", true),
        ("precision<1", false),
        ("nothing=here", false),
        ("nothing!=here", true),
        ("not nothing=here", true),
        ("gpus=1 or gpus=4", true),
        ("gpus=1 or gpus=4 and precision=fp32", false),
        ("(gpus=1 or gpus=4) and precision=fp16", true),
        ("not (gpus=1 or gpus=4)", false),
        ("not not fp16", true),
        ("'or'=1", false),
        ("\"and\"", false),
    ] {
        assert_eq!(admits(text), admitted, "{text:?}");
    }
}

#[test]
fn values_of_one_key_side_by_side_are_one_of_and_joined_by_and_are_both() {
    assert!(admits("precision=fp32 precision=fp16"));
    assert!(admits("precision=fp32 memory precision=fp16 gpus=4"));
    assert!(!admits("precision=fp32 and precision=fp16"));
    assert!(!admits("precision=fp32 precision=fp16 precision!=fp16"));
    assert!(!admits("not precision=fp16 precision=fp16"), "only pairs that are asked for are gathered");
    assert!(!admits("(precision=fp32) precision=fp16"), "and none in parentheses");
    let canonical = |text: &str| Filter::parse(text).unwrap().to_string();
    assert_eq!(canonical("a=1 b a=2"), "(a=1 or a=2) and b");
    assert_eq!(canonical("x (a and (b and 'c d')) or NOT \"not\""), "x and a and b and \"c d\" or not \"not\"");
    assert_eq!(Filter::parse("a=1 (b<2 or not a>3) c").unwrap().keys(), ["a", "b"]);
}

#[test]
fn what_is_still_being_typed_hides_nothing_more() {
    for text in [
        "gpus=",
        "gpus=4 state=",
        "gpus= precision=fp16",
        "gpus<",
        "not",
        "not gpus=",
        "gpus=4 or",
        "gpus=4 and",
        "(",
        "(gpus=4 or",
        "(gpus=4",
        "state='timed o",
        "state=\"Timed out",
    ] {
        let typed = Filter::typed(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert_eq!(typed.admits(&failed()), !text.ends_with("'timed o"), "{text:?}");
        assert!(Filter::parse(text).is_err(), "{text:?} is not complete");
    }
}

#[test]
fn errors_name_the_place_and_what_to_do() {
    for (text, message) in [
        ("gpus=", "character 6: no value after \"gpus=\": add one, in quotes if it has spaces"),
        (
            "a gpus<fast",
            "character 8: gpus< with \"fast\": give a number, or a day such as 2026-11-26; names are compared by = and !=",
        ),
        ("a)", "character 2: \")\" without \"(\" before it: remove it, or put it in quotes"),
        ("é (a", "character 3: \"(\" that is not closed: add \")\", or put it in quotes"),
        ("a \"b", "character 3: the closing quote is missing: add it, or use the other kind of quotes"),
        ("a or", "character 5: the end of the filter: a word, or key=value, is expected here"),
        ("or a", "character 1: \"or\": a word, or key=value, is expected here"),
        ("not or a", "character 5: \"or\": what \"not\" is about is expected here"),
        ("()", "character 2: \")\": a word, or key=value, is expected here"),
        (
            "=4",
            "character 1: \"=\" without a key before it: write key=value, and put values that hold comparisons in quotes",
        ),
        (
            "a=b=c",
            "character 4: \"=\" without a key before it: write key=value, and put values that hold comparisons in quotes",
        ),
        ("a==b", "character 3: a second comparison: write key=value, and join pairs with \"and\""),
        ("a=(b)", "character 3: \"(\" where a value must stand: write (a=… or a=…)"),
    ] {
        assert_eq!(Filter::parse(text).unwrap_err().to_string(), message, "{text:?}");
    }
    let deep = format!("{}a{}", "(".repeat(5000), ")".repeat(5000));
    assert!(Filter::parse(&deep).unwrap_err().found.contains("too deep"));
    assert!(Filter::typed(&"not ".repeat(5000)).unwrap_err().found.contains("too deep"));
}

#[test]
fn a_plan_may_use_known_keys_and_levels_alone() {
    let known = [("precision", Known::Names(vec!["fp32", "fp16"])), ("gpus", Known::Number)];
    let read = |text: &str| Filter::parse_known(text, &known).map(|_| ()).map_err(|error| error.to_string());
    assert_eq!(read("precision = fp16 and gpus > 2 or not gpus = 1"), Ok(()));
    for (text, message) in [
        ("gpus=1 precison=fp16", "character 8: unknown key \"precison\": did you mean \"precision\"?"),
        ("precision=fp61", "character 11: unknown precision \"fp61\": did you mean \"fp16\"?"),
        ("precision!=int4096", "character 12: unknown precision \"int4096\": there are fp32, fp16"),
        ("gpus=four", "character 6: gpus with \"four\": give a number"),
        ("precision<4", "character 11: precision<: names are compared by = and !="),
        ("fp16", "character 1: the word \"fp16\": write key = level"),
    ] {
        assert_eq!(read(text), Err(message.to_owned()), "{text:?}");
    }
}

#[test]
fn a_value_that_is_exactly_a_level_means_no_other_level_and_else_any_that_is_written_alike() {
    const NAMES: [&str; 5] = ["2.1", "2.10", "a", "A", "b c"];
    let chosen = |filter: &Filter| -> Vec<&str> {
        let admits = |name: &str| filter.admits(&|key: &str| (key == "v").then(|| Level::text(name)));
        NAMES.into_iter().filter(|name| admits(name)).collect()
    };
    for (text, expected) in [
        ("v=2.10", vec!["2.10"]),
        ("v=2.1", vec!["2.1"]),
        ("v=A", vec!["A"]),
        ("v=B-C", vec!["b c"]),
        ("v!=A", vec!["2.1", "2.10", "a", "b c"]),
        ("not (v=a or V=2.1)", vec!["2.10", "A", "b c"]),
    ] {
        let things = NAMES.map(|name| Thing { levels: [("v", Level::text(name))].into(), text: "" });
        let among = Filter::parse(text).unwrap().among(&things.iter()).unwrap();
        assert_eq!(chosen(&among), expected, "{text}");
        let known = [("v", Known::Names(NAMES.to_vec())), ("V", Known::Names(NAMES.to_vec()))];
        assert_eq!(chosen(&Filter::parse_known(text, &known).unwrap()), expected, "{text}, in a plan");
    }
}

#[test]
fn a_number_means_no_name_that_is_written_differently() {
    let admits = |text: &str, level: Level| {
        Filter::parse(text).unwrap().admits(&|key: &str| (key == "v").then(|| level.clone()))
    };
    for (text, admitted) in
        [("v=1.1", false), ("v!=1.1", true), ("v=1.10", true), ("v='1.1'", false), ("v=1-10", false)]
    {
        assert_eq!(admits(text, Level::text("1.10")), admitted, "{text}");
    }
    assert!(!admits("v=11", Level::text("1-1")) && !admits("v=1-1", Level::text("11")));
    assert!(admits("v=1.10", Level::Number(1.1)) && admits("v=1e1", Level::Integer(10)));
    let known = [("v", Known::Names(vec!["1.9", "1.10"]))];
    let refused = Filter::parse_known("v = 1.1", &known).unwrap_err().to_string();
    assert!(refused.starts_with("character 5: unknown v \"1.1\""), "{refused}");
}

#[test]
fn an_order_of_levels_that_are_names_is_refused_with_the_names() {
    let things = |levels: &[Level]| -> Vec<Thing> {
        levels.iter().map(|level| Thing { levels: [("version", level.clone())].into(), text: "" }).collect()
    };
    let refused = |text: &str, levels: &[Level]| {
        let among = Filter::parse(text).unwrap().among(&things(levels).iter());
        among.map(|_| ()).map_err(|error| error.to_string())
    };
    let versions = ["1.9", "1.10", "2.0"].map(Level::text);
    let expected = "version>=2: levels of version that are no numbers have no order (1.10, 1.9, 2.0): choose levels by = and !=, such \
                    as version=1.10";
    assert_eq!(refused("version>=2", &versions), Err(expected.to_owned()));
    for text in ["not version<2", "a or VERSION < 2", "version=2.0 version>1"] {
        assert!(refused(text, &versions).is_err(), "{text}");
    }
    let mixed = [Level::Number(2.5), Level::text("nightly")];
    assert!(refused("version>2", &mixed).unwrap_err().contains("(nightly)"), "one that is no number would be left out");
    let days = ["2026-11-25", "2026-11-26", ""].map(Level::text);
    let days_and_names = ["2026-11-25", "some day"].map(Level::text);
    assert!(refused("version>=2026-11-26", &days_and_names).unwrap_err().contains("no days have no order (some day)"));
    for (text, levels) in [
        ("version=2.0 or version!=1.10", versions.as_slice()),
        ("epochs>=2", versions.as_slice()),
        ("version>=2", [Level::Integer(1), Level::Number(2.5)].as_slice()),
        ("version>=2026-11-26", days.as_slice()),
    ] {
        assert_eq!(refused(text, levels), Ok(()), "{text}");
    }
}

#[test]
fn a_filter_that_asks_for_levels_alone_names_them() {
    let levels = |text: &str| Filter::parse(text).unwrap().levels();
    let pairs = |pairs: &[(&str, &str)]| {
        Some(pairs.iter().map(|(key, level)| ((*key).to_owned(), (*level).to_owned())).collect::<Vec<_>>())
    };
    assert_eq!(levels("name='a b' and gpus=1"), pairs(&[("name", "a b"), ("gpus", "1")]));
    assert_eq!(levels("name=\"a b\""), pairs(&[("name", "a b")]));
    for text in ["", "word", "a=1 word", "a!=1", "a>1", "a=1 or b=2", "a=1 a=2", "not a=1"] {
        assert_eq!(levels(text), None, "{text}");
    }
    assert_eq!(between_commas("a=1,b='x, y',c=\"it's\" ,d"), ["a=1", "b='x, y'", "c=\"it's\" ", "d"]);
    assert_eq!(between_commas("a='1,b=2"), ["a='1", "b=2"], "a quote that is not closed holds nothing");
}

#[test]
fn a_pair_is_added_to_all_of_a_text_and_taken_away_again() {
    for (text, with) in [
        ("", "state=failed"),
        ("fp16 gpus=4", "fp16 gpus=4 state=failed"),
        ("state=queued", "state=queued state=failed"),
        ("gpus=4 or gpus=2", "(gpus=4 or gpus=2) state=failed"),
        ("(gpus=4 or gpus=2)", "(gpus=4 or gpus=2) state=failed"),
    ] {
        assert_eq!(toggled(text, "state=failed"), with);
        assert!(holds(with, "state=failed") && !holds(text, "state=failed"));
        assert!(!toggled(with, "state=failed").contains("failed"));
    }
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c]{1,2}",
        "[0-9]{1,3}",
        "\\PC{0,6}",
        "[ ()<>=!\"'\\\\a]{0,6}",
        Just("and".to_owned()),
        Just("Not".to_owned()),
        any::<String>(),
    ]
}

fn any_comparison() -> impl Strategy<Value = Comparison> {
    (0..6_usize).prop_map(|place| Comparison::ALL[place].0)
}

fn any_pair() -> impl Strategy<Value = Term> {
    (any_text(), any_comparison(), any_text(), -5..5_i32).prop_map(|(key, comparison, value, number)| {
        let value = if comparison.is_order() { number.to_string() } else { value };
        Term::Pair(key, comparison, Operand::new(value))
    })
}

fn any_term() -> impl Strategy<Value = Term> {
    let word = any_text().prop_map(|word| Term::Word(word.to_lowercase()));
    prop_oneof![word, any_pair()].prop_recursive(4, 24, 4, |term| {
        prop_oneof![
            term.clone().prop_map(|term| Term::Not(Box::new(term))),
            prop::collection::vec(term.clone(), 2..4).prop_map(|terms| Term::all(terms).unwrap()),
            prop::collection::vec(term, 2..4).prop_map(|terms| Term::any(terms).unwrap()),
        ]
    })
}

/// A filter as people type it: atoms side by side, groups joined by `and`, these by `or`.
type Typed = Vec<Vec<Vec<Atom>>>;

#[derive(Clone, Debug)]
struct Atom {
    negated: bool,
    key: &'static str,
    comparison: &'static str,
    value: i64,
}

impl Atom {
    fn text(&self) -> String {
        format!("{}{}{}{}", if self.negated { "not " } else { "" }, self.key, self.comparison, self.value)
    }

    fn holds(&self, levels: &BTreeMap<&str, i64>) -> bool {
        let level = levels.get(self.key).copied();
        let holds = match self.comparison {
            "=" => level == Some(self.value),
            "!=" => level != Some(self.value),
            "<" => level.is_some_and(|level| level < self.value),
            "<=" => level.is_some_and(|level| level <= self.value),
            ">" => level.is_some_and(|level| level > self.value),
            _ => level.is_some_and(|level| level >= self.value),
        };
        holds != self.negated
    }

    fn is_choice(&self) -> bool {
        !self.negated && self.comparison == "="
    }
}

fn any_typed() -> impl Strategy<Value = Typed> {
    let atom = (any::<bool>(), 0..3_usize, 0..6_usize, 0..3_i64).prop_map(|(negated, key, comparison, value)| Atom {
        negated,
        key: ["a", "b", "c"][key],
        comparison: ["=", "=", "!=", "<", ">", "<="][comparison],
        value,
    });
    prop::collection::vec(prop::collection::vec(prop::collection::vec(atom, 1..5), 1..4), 1..4)
}

fn naive(typed: &Typed, levels: &BTreeMap<&str, i64>) -> bool {
    let group = |atoms: &Vec<Atom>| {
        atoms.iter().all(|atom| {
            let choices = atoms.iter().filter(|other| other.is_choice() && other.key == atom.key);
            if atom.is_choice() { choices.into_iter().any(|choice| choice.holds(levels)) } else { atom.holds(levels) }
        })
    };
    typed.iter().any(|both| both.iter().all(group))
}

proptest! {
    #[test]
    fn what_is_written_is_read_back_as_it_was(term in any_term()) {
        let filter = Filter(Some(term));
        let text = filter.to_string();
        prop_assert_eq!(&Filter::parse(&text).unwrap(), &filter, "{}", text);
        prop_assert_eq!(&Filter::typed(&text).unwrap(), &filter, "{}", text);
    }

    #[test]
    fn a_typed_filter_admits_what_a_naive_reading_admits(
        typed in any_typed(),
        levels in prop::collection::btree_map(prop_oneof![Just("a"), Just("b"), Just("c")], 0..3_i64, 0..3),
    ) {
        let join = |parts: Vec<String>, with: &str| parts.join(with);
        let group = |atoms: &Vec<Atom>| join(atoms.iter().map(Atom::text).collect(), " ");
        let both = |groups: &Vec<Vec<Atom>>| join(groups.iter().map(group).collect(), " and ");
        let text = join(typed.iter().map(both).collect(), " or ");
        let facts = |key: &str| levels.get(key).map(|level| Level::Integer(*level));
        let filter = Filter::parse(&text).unwrap();
        prop_assert_eq!(filter.admits(&facts), naive(&typed, &levels), "{}", &text);
        let again = Filter::parse(&filter.to_string()).unwrap();
        prop_assert_eq!(again, filter, "{}", text);
    }

    #[test]
    fn any_text_is_a_filter_or_an_error_within_it(text in prop_oneof![any::<String>(), "[ab=!<>()\"' andortn]{0,24}"]) {
        for read in [Filter::parse(&text), Filter::typed(&text)] {
            match read {
                Ok(filter) => prop_assert_eq!(Filter::parse(&filter.to_string()).unwrap(), filter),
                Err(error) => prop_assert!((1..=text.chars().count() + 1).contains(&error.position), "{}", error),
            }
        }
    }
}

#[test]
fn a_number_does_not_match_within_a_longer_one() {
    let text = "fp16 learning rate 0.0123456 4 gpus, batch 160, step 0.5.";
    for (word, found) in [
        ("0.01", false),
        ("0.0123456", true),
        ("16", true),
        ("6", false),
        ("4", true),
        ("0.5", true),
        ("5", false),
        ("fp1", true),
        ("fp16", true),
        ("gpus", true),
    ] {
        assert_eq!(mentions(text, word), found, "{word}");
    }
}
