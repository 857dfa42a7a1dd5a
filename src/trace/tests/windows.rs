//! Windows share out a report without loss.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;

use super::fixture::Fixture;
use super::golden::{imported, report};
use crate::trace::{Trace, Window, import_bytes};

/// All that adds up.
fn sums(trace: &Trace) -> BTreeMap<String, [u64; 3]> {
    let mut all = BTreeMap::new();
    let mut add = |key: String, values: [u64; 3]| {
        let sum: &mut [u64; 3] = all.entry(key).or_default();
        sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
    };
    for entry in &trace.api {
        add(format!("api {}", entry.name), [entry.statistics.calls, entry.statistics.total_ns, 0]);
    }
    for entry in &trace.kernels {
        add(format!("kernel {}", entry.name), [entry.statistics.calls, entry.statistics.total_ns, 0]);
    }
    for copy in &trace.memcpy {
        add(format!("copy {} {} {}", copy.kind, copy.src, copy.dst), [copy.count, copy.total_ns, copy.bytes]);
    }
    for memset in &trace.memset {
        add("memset".to_owned(), [memset.count, memset.total_ns, memset.bytes]);
    }
    for gpu in &trace.per_gpu {
        add(format!("gpu {}", gpu.gpu), [gpu.busy_ns, gpu.idle_ns, gpu.comm_ns + gpu.overlap_ns]);
    }
    add("wall".to_owned(), [trace.wall_ns, 0, 0]);
    all.retain(|_, values| *values != [0; 3]);
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn two_windows_of_a_real_report_add_up_to_the_whole(parts in 0.0f64..1.0, name in prop::sample::select(vec!["single_100", "ddp2_100_pin"])) {
        let (bytes, _) = report(name);
        let window = |from_s, to_s| import_bytes(Path::new(name), &bytes, &Window { from_s, to_s }).unwrap();
        let whole = window(None, None);
        let at = parts * whole.wall_ns as f64 * 1e-9 + 1e-9;
        let mut added = sums(&window(None, Some(at)));
        for (key, values) in sums(&window(Some(at), None)) {
            let sum = added.entry(key).or_default();
            sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
        prop_assert_eq!(added, sums(&whole));
    }
}

#[test]
fn a_window_counts_what_starts_in_it_and_cuts_what_is_busy() {
    let fixture = || {
        Fixture::new()
            .sql("INSERT INTO ANALYSIS_DETAILS VALUES (0, 4000000000, 1000000000, 5000000000)")
            .kernel(2_000_000_000, 3_500_000_000, 3)
            .kernel(3_600_000_000, 3_700_000_000, 3)
    };
    let window = Window { from_s: Some(2.0), to_s: Some(4.0) };
    let trace = import_bytes(Path::new("made"), &fixture().bytes(), &window).unwrap();
    assert_eq!((trace.begin_ns, trace.wall_ns), (1_000_000_000, 2_000_000_000));
    assert_eq!(trace.kernels[0].statistics.calls, 1, "the first kernel started before the window");
    assert_eq!(trace.per_gpu[0].busy_ns, 600_000_000);
    assert_eq!(trace.per_gpu[0].idle_ns, 100_000_000);
}

#[test]
fn windows_that_are_none_are_refused_and_empty_ones_are_empty() {
    let bytes = report("single_100").0;
    for (from_s, to_s) in [(2.0, 1.0), (1.0, 1.0), (-1.0, 1.0), (f64::NAN, 1.0), (0.0, f64::NAN)] {
        let window = Window { from_s: Some(from_s), to_s: Some(to_s) };
        let message = import_bytes(Path::new("r"), &bytes, &window).unwrap_err().to_string();
        assert!(message.contains("is not a valid window"), "{message}");
    }
    for window in [
        Window { from_s: Some(1e6), to_s: None },
        Window { from_s: Some(1e300), to_s: Some(f64::INFINITY) },
        Window { from_s: None, to_s: Some(1e-9) },
    ] {
        let trace = imported("single_100", &window);
        assert!(trace.api.is_empty() && trace.kernels.is_empty() && trace.per_gpu.is_empty(), "{window:?}");
    }
    let beyond = imported("single_100", &Window { from_s: Some(1e6), to_s: None }).warnings;
    assert!(beyond.iter().any(|warning| warning.starts_with("nothing was recorded from 1000000 s")), "{beyond:?}");
    let last = imported("single_100", &Window { from_s: None, to_s: Some(1e6) }).warnings;
    assert!(!last.iter().any(|warning| warning.starts_with("nothing")), "{last:?}");
}
