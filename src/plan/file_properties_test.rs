//! What holds for any plan and any file: what is written is read again, and nothing panics.

use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::plan::fixture::{cpu_node, small_plan};
use crate::plan::image::{Corrupt, DataSet, Decode};
use crate::plan::{Capture, Domain, Margin, Tracer, expand, image};

/// Any plan that the window could make.
fn any_plan() -> impl Strategy<Value = Plan> {
    let data = prop_oneof![
        Just(DataSet::Digits),
        proptest::option::of("\\PC{1,20}").prop_map(|folder| DataSet::Mnist { folder: folder.map(Into::into) }),
        ("[^\\x00]{1,20}", any::<bool>(), any::<bool>()).prop_map(|(folder, each, skip)| DataSet::Folder {
            folder: PathBuf::from(folder),
            decode: if each { Decode::EachEpoch } else { Decode::Once },
            corrupt: if skip { Corrupt::Skip } else { Corrupt::Stop },
        }),
    ];
    let ticked = proptest::collection::vec((any::<proptest::sample::Index>(), any_levels_seed()), 0..4);
    let limits = (proptest::option::of(1e-6..1e9_f64), proptest::option::of(1e-6..1e6_f64), any::<bool>());
    let tracing = prop_oneof![
        (proptest::sample::subsequence(&Tracer::KINDS, 0..=4), prop_oneof![Just(Capture::Whole), Just(Capture::USUAL)])
            .prop_map(|(some, part)| Tracing::by(&some, part)),
        (2..100_u64, 4..100_u64).prop_map(|(recorded, rest)| {
            Tracing::by(&[Tracer::BuiltIn], Capture::Windows { recorded, period: recorded + rest })
        }),
        (1e-6..1e9_f64).prop_map(|seconds| Tracing::by(&[Tracer::Nsys], Capture::First { seconds })),
        (1..1000_u64, 0..1000_u64)
            .prop_map(|(first, more)| Tracing::by(&Tracer::ALL, Capture::Steps { first, last: first + more })),
    ];
    let (least, most) = Mode::STEP_PRECISIONS;
    let mode = prop_oneof![Just(Mode::Full), (least..=most).prop_map(|step_precision| Mode::Quick { step_precision }),];
    let measure = (0..=1_000_000_000_u64, mode, tracing);
    let margin = prop_oneof![
        (1_u32..100).prop_map(|percent| Margin::Relative(f64::from(percent) / 100.0)),
        (1e-6..1e6_f64).prop_map(Margin::Absolute),
    ];
    let checked = proptest::collection::vec(margin, 0..3).prop_map(|margins| {
        let names = ["val_loss", "accuracy", "words per s"];
        names.iter().zip(margins).map(|(name, margin)| Checked { measure: (*name).into(), margin }).collect::<Vec<_>>()
    });
    let measure = (measure, any::<bool>(), checked);
    ("[^\\pC\\p{Zl}\\p{Zp}]{0,20}x", 1..=3_u32, any::<u64>(), any::<bool>(), limits, measure, data, ticked).prop_map(
        |(name, repeats, seed, interleaved, limits, (measure, aa, checked), data, ticked)| {
            let (warm_up_steps, mode, tracing) = measure;
            let (run_time_s, memory_limit_gb, exclusive) = limits;
            let mut plan = small_plan(&[]);
            for (place, seed) in ticked {
                let place = place.index(plan.first.factors.len());
                let (key, levels) = &mut plan.first.factors[place];
                *levels = some_levels(key, &seed);
            }
            plan.tracing = tracing;
            plan.order = if interleaved { Order::Interleaved } else { Order::Sequential };
            plan.limits = Limits { run_time_s, memory_limit_gb, exclusive };
            plan.first.data = data.into();
            plan.site = aa.then(|| "lab".to_owned());
            Plan { name, repeats, seed, warm_up_steps, mode, aa, checked, ..plan }
        },
    )
}

fn any_levels_seed() -> impl Strategy<Value = Vec<f64>> {
    proptest::collection::vec(0.0..1.0_f64, 1..4)
}

/// Distinct levels of a factor, one for each share of its range.
fn some_levels(key: &str, shares: &[f64]) -> Vec<Level> {
    let mut levels = Vec::new();
    for share in shares {
        let level = match &image::spec().factor(key).unwrap().domain {
            Domain::Names(names) => Level::Text(names[(share * names.len() as f64) as usize].clone()),
            Domain::Integer { min, max } => Level::Integer(min + (share * (max - min) as f64) as i64),
            Domain::Number { min, max } => Level::Number(min + share * (max - min)),
            Domain::GpuSet(names) => Level::Text(names[(share * names.len() as f64) as usize].clone()),
            Domain::Path => Level::text("path"),
        };
        if !levels.contains(&level) {
            levels.push(level);
        }
    }
    levels
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(plan in any_plan()) {
        let text = plan.to_toml();
        let again = Plan::parse(&text, "my.toml");
        prop_assert!(again.is_ok(), "{}\n{}", text, again.unwrap_err());
        prop_assert_eq!(again.unwrap(), plan, "{}", text);
    }

    #[test]
    fn what_is_written_into_the_file_of_another_plan_is_read_again(plan in any_plan(), other in any_plan()) {
        let text = plan.to_toml_in(&other.to_toml(), "my.toml");
        let again = Plan::parse(&text, "my.toml");
        prop_assert!(again.is_ok(), "{}\n{}", text, again.unwrap_err());
        prop_assert_eq!(again.unwrap(), plan, "{}", text);
    }

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC*") {
        let _ = Plan::parse(&text, "my.toml");
    }

    #[test]
    fn arbitrary_values_of_known_keys_never_panic(
        lines in proptest::collection::vec(
            ("(version|name|workload|repeats|seed|order|limits|measure|data|factors|set|folder|train_images|precision|gpus|learning_rate|é)",
             "(1|-0|0x7f|1e400|nan|inf|-inf|true|\"on\"|\"fp3é\"|\\[\\]|\\[1, \"a\", \\[\\]\\]|\\{a=1\\}|99999999999999999999|1979-05-27|\"\\PC*\"|''' \n '''|[0-9.eE+_-]{1,30})"),
            0..12),
        tables in proptest::collection::vec("\\[(data|factors|limits|measure|data.set|x)\\]", 0..12)
    ) {
        let mut text = "version = 1\n".to_owned();
        for (number, (key, value)) in lines.iter().enumerate() {
            text.push_str(&format!("{key} = {value}\n{}\n", tables.get(number).map_or("", String::as_str)));
        }
        if let Ok(plan) = Plan::parse(&text, "my.toml") {
            let matrix = expand(&plan, &cpu_node());
            let counted = (matrix.cells.len() + matrix.invalid.len()) as u64 + matrix.merged.combinations;
            prop_assert_eq!(counted, plan.combinations());
        }
    }
}
