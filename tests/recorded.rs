//! Measures of recordings, and what explains the difference of a step kernel by kernel, on the sample session: it was recorded on an H100,
//! by a version that kept no names of kernels.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

mod seeded;

use seeded::{command, multicard, succeed, text};

/// The sample session, in a folder that goes with the first value.
fn sample() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let session = folder.path().join("sample");
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/samples/one-h100.zip");
    succeed(command(folder.path()).args(["session", "import"]).arg(archive).arg("--session").arg(&session));
    (folder, session)
}

fn json(home: &Path, arguments: &[&str]) -> Value {
    let output = succeed(command(home).args(arguments).args(["--format", "json"]));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The medians of a column, by row.
fn medians(table: &Value, key: &str) -> Vec<f64> {
    table["rows"].as_array().unwrap().iter().filter_map(|row| row[key]["median"].as_f64()).collect()
}

#[test]
fn kernels_of_old_recordings_are_measures_whose_families_add_up() {
    let (folder, session) = sample();
    let (home, path) = (folder.path(), session.display().to_string());
    let medians_of = |measure: &str| medians(&json(home, &["table", &path, "--measure", measure]), measure);
    let (all, products) = (medians_of("kernel.share:.*"), medians_of("family.share:matrix|convolution"));
    assert!(!all.is_empty() && all.iter().all(|share| (share - 1.0).abs() < 1e-9), "{all:?}");
    assert_eq!(products.len(), all.len(), "each recorded cell has a value, and no other");
    assert!(products.iter().all(|share| (0.01..1.0).contains(share)), "{products:?}");
    // A total is as many calls as it has, each of the mean's length.
    let (total, count, mean) = (
        medians_of("kernel:elementwise"),
        medians_of("kernel.count:elementwise"),
        medians_of("kernel.mean:elementwise"),
    );
    for ((total, count), mean) in total.iter().zip(&count).zip(&mean) {
        assert!(*total > 0.0 && (total / (count * mean) - 1.0).abs() < 0.05, "{total} s, {count} calls of {mean} s");
    }
    assert!(medians_of("api.count.per_step:^cudaLaunchKernel").iter().all(|calls| *calls > 1.0));
}

#[test]
fn a_pattern_that_matches_nothing_and_a_wrong_one_are_refused_with_the_reason() {
    let (folder, session) = sample();
    let refused = |measure: &str| {
        let output = multicard(folder.path(), &["table", &session.display().to_string(), "--measure", measure]);
        assert_eq!(output.status.code(), Some(2), "{measure}");
        text(&output.stderr)
    };
    let nothing = refused("kernel:no_such_kernel");
    assert!(nothing.contains("none of its") && nothing.contains("trace.events"), "{nothing}");
    assert!(refused("kernel:gemm(").contains("unclosed group, at \"(\" (letter 5)"), "{}", refused("kernel:gemm("));
    assert!(refused("nccl:.").contains("contains no NCCL kernels"), "{}", refused("nccl:."));
}

#[test]
fn the_parts_of_two_recorded_cells_explain_the_whole_difference_of_their_steps() {
    let (folder, session) = sample();
    let (home, path) = (folder.path(), session.display().to_string());
    let sides = ["--of-before", "precision=fp16", "--of-after", "precision=fp32"];
    let table = json(home, &[&["diff", &path, "--kernels"][..], &sides].concat());
    let differences = medians(&table, "difference");
    let (step, parts) = differences.split_first().unwrap();
    assert!(parts.len() > 10 && *step != 0.0);
    assert!((parts.iter().sum::<f64>() - step).abs() < 1e-9 * step.abs().max(1e-3), "{step}");
    let verdicts: Vec<&str> =
        table["rows"].as_array().unwrap().iter().filter_map(|row| row["verdict"].as_str()).collect();
    assert!(verdicts.contains(&"appeared") || verdicts.contains(&"vanished"), "{verdicts:?}");
    // The same recordings on both sides differ in nothing.
    let same = json(home, &["diff", &path, "--kernels", "--of-before", sides[1], "--of-after", sides[1]]);
    assert!(medians(&same, "difference").iter().all(|difference| *difference == 0.0));
    let mixed = multicard(home, &["diff", &path, "--kernels", "--of-before", "gpus=1", "--of-after", sides[3]]);
    assert_eq!(mixed.status.code(), Some(2));
    assert!(text(&mixed.stderr).contains("choose one, such as --of-before cell="), "{}", text(&mixed.stderr));
}

#[test]
fn busy_gpus_are_told_from_busy_multiprocessors() {
    let (folder, session) = sample();
    let path = session.display().to_string();
    let medians_of = |measure: &str| medians(&json(folder.path(), &["table", &path, "--measure", measure]), measure);
    let (busy, sms, tensor) = (medians_of("gpu_busy"), medians_of("sm_activity"), medians_of("tensor_activity"));
    assert!(!busy.is_empty() && (busy.len(), busy.len()) == (sms.len(), tensor.len()));
    for ((busy, sms), tensor) in busy.iter().zip(&sms).zip(&tensor) {
        assert!(
            (0.0..=1.0).contains(busy) && sms <= busy && tensor <= sms,
            "busy {busy}, SMs {sms}, tensor cores {tensor}"
        );
    }
}
