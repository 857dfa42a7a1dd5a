#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn names_are_taken_apart_where_levels_meet() {
    let whole = |text: &str| parts(text).into_iter().map(|(part, _)| part.to_owned()).collect::<Vec<_>>();
    assert_eq!(whole("fp16 · 4 GPUs"), ["fp16", " · ", "4 GPUs"]);
    assert_eq!(whole("fp16 over fp32 × 2 GPUs"), ["fp16", " over ", "fp32", " × ", "2 GPUs"]);
    assert_eq!(whole("overlap"), ["overlap"]);
}

#[test]
fn colours_have_names_or_are_written_as_hexadecimal_numbers() {
    assert_eq!(colour_of("Vermillion").unwrap(), COLOURS[5]);
    assert_eq!(colour_of("#0a0B0c").unwrap(), [10, 11, 12]);
    for text in ["", "#12345", "#12345g", "beige"] {
        assert!(colour_of(text).unwrap_err().contains("vermillion"), "{text}");
    }
}

#[test]
fn numbers_outside_their_limits_are_named_and_not_used() {
    let asked = Overrides { height_mm: Some(f64::NAN), legend_columns: Some(1_000_000), ..Overrides::default() };
    assert_eq!((asked.height_pt(), asked.most_legend_columns()), (None, None));
    assert_eq!(
        asked.out_of_limits(),
        [
            "height_mm = NaN must be from 20 to 300: the default is used",
            "legend_columns = 1000000 must be from 1 to 255: the default is used"
        ]
    );
    let most = Overrides { legend_columns: Some(255), ..Overrides::default() };
    assert_eq!((most.most_legend_columns(), most.out_of_limits().len()), (Some(255), 0));
}

#[test]
fn values_are_converted_between_units_of_one_quantity_alone() {
    assert_eq!(unit::factor("s", "ms"), Some(1000.0));
    assert_eq!(unit::factor("GB", "MB"), Some(1000.0));
    assert_eq!(unit::factor("s", "GB"), None);
    assert!(unit::refused("Epoch time (s)", "s", "GB").ends_with("use s, ms, µs, ns, min, h"));
}

#[test]
fn annotations_are_read_as_they_are_written() {
    let forms = [
        (AnnotationKind::Text, "4 GPUs,1.5,no gain, or little"),
        (AnnotationKind::Bracket, "precision=fp32,gpus=1 to precision=bf16,gpus=1"),
        (AnnotationKind::Line, "y=2,twice"),
        (AnnotationKind::Region, "x=1..2.5"),
    ];
    for (kind, words) in forms {
        assert_eq!(Annotation::parse(kind, words).unwrap().words().unwrap(), words);
    }
    for (kind, words) in
        [(AnnotationKind::Text, "1,2"), (AnnotationKind::Line, "z=1"), (AnnotationKind::Region, "y=a..b")]
    {
        assert!(Annotation::parse(kind, words).unwrap_err().starts_with("give "), "{words}");
    }
}

#[test]
fn what_differs_from_the_defaults_alone_is_kept() {
    let mut overrides = Overrides::default();
    assert_eq!(serde_json::to_string(&overrides).unwrap(), "{}");
    overrides.axis_mut(AxisName::Y, Nth(1)).low = Some(0.0);
    overrides.level_mut("bf16").label = Some("BF16 (AMP)".to_owned());
    overrides.caption = false;
    let text = serde_json::to_string(&overrides).unwrap();
    assert_eq!(
        text,
        r#"{"axes":[{"axis":"y","low":0.0}],"levels":[{"level":"bf16","label":"BF16 (AMP)"}],"caption":false}"#
    );
    assert_eq!(serde_json::from_str::<Overrides>(&text).unwrap(), overrides);
    overrides.axis_mut(AxisName::Y, Nth(1)).low = None;
    overrides.level_mut("bf16").label = None;
    overrides.tidy();
    assert_eq!(serde_json::to_string(&overrides).unwrap(), r#"{"caption":false}"#);
}
