#![allow(clippy::unwrap_used)]

use super::*;
use crate::import::read_bytes;

fn roles(text: &str) -> Vec<(String, String)> {
    let table = read_bytes(text.as_bytes()).unwrap();
    Mapping::deduced(&table).columns.into_iter().map(|(name, role, _)| (name, role.to_string())).collect()
}

fn roles_of(text: &str) -> Vec<String> {
    roles(text).into_iter().map(|(_, role)| role).collect()
}

#[test]
fn roles_are_deduced_from_names_units_and_values() {
    let text = "kernel,threads,Repeat,Time (ms),memory_mb,tokens_per_s,accuracy,host,commit,date,remark\n\
                a,1,1,1.5,10,3.5,0.5,n1,12345678,2026-11-26,\nb,2,2,1.6,11,3.6,0.6,n1,12345678,2026-11-27,\n";
    let expected = [
        "factor",
        "factor",
        "repeat",
        "measure ms lower",
        "measure MB lower",
        "measure tokens/s higher",
        "measure higher",
        "machine",
        "commit",
        "started",
        "skip",
    ];
    assert_eq!(roles_of(text), expected);
    // A column with the name `time` is a measure if its values are not times of day.
    assert_eq!(roles_of("time,x\n0.5,1\n0.6,1\n"), ["measure lower", "factor"]);
    // `time_min` is a minimum, not a number of minutes.
    assert_eq!(roles_of("latency_min,b_minutes\n0.51,1.5\n0.62,2.5\n"), ["measure lower", "measure min lower"]);
    // Numbers that rarely occur twice are a measure. A text among numbers with a unit does not make the column a factor; it causes an
    // error later.
    assert_eq!(roles_of("a,b_s\n0.51,1\n0.62,oops\n0.7,2\n"), ["measure", "measure s lower"]);
    assert_eq!(roles_of("a,accuracy,b\n0.51,0.5,nan\n0.62,NaN,nan\n"), ["measure", "measure higher", "factor"]);
}

#[test]
fn dates_with_times_of_day_say_when_a_run_started_whatever_their_name() {
    let text = "Created,batch,loss\n2026-11-26T08:30:00.000Z,1,0.5\n2026-11-26T08:31:00.000Z,2,0.4\n";
    assert_eq!(roles_of(text), ["started", "factor", "measure lower"]);
    // Days may be levels, such as those of a data set's snapshots; and one column alone says when a run started.
    let text = "snapshot,test_time,end,loss\n2026-11-01,2026-11-26 08:30:00,2026-11-26 08:31:00,0.5\n\
                2026-11-02,2026-11-26 08:32:00,2026-11-26 08:33:00,0.4\n";
    assert_eq!(roles_of(text), ["factor", "started", "skip", "measure lower"]);
}

#[test]
fn versions_are_a_factor_although_they_look_like_numbers_that_hardly_repeat() {
    let text = "torch_version,Driver Version,conversion,version_s\n2.11,570.1,0.51,1.5\n2.9,580.2,0.62,2.5\n";
    assert_eq!(roles_of(text), ["factor", "factor", "measure", "measure s lower"]);
}

#[test]
fn bits_and_bytes_are_told_apart_by_the_case_of_their_letter() {
    let text = "size (Gb),size_GB,rate [Mb/s],gb\n1.5,2.5,3.5,4.5\n1.6,2.6,3.6,4.6\n";
    let expected = ["measure Gbit", "measure GB lower", "measure Mbit/s higher", "measure"];
    assert_eq!(roles_of(text), expected);
    let text = "size (Mib),rate (Gib/s),size (MiB),size_mib\n1.5,2.5,3.5,4.5\n1.6,2.6,3.6,4.6\n";
    let expected = ["measure Mibit", "measure Gibit/s higher", "measure MiB lower", "measure MiB lower"];
    assert_eq!(roles_of(text), expected);
}

#[test]
fn both_signs_of_micro_are_read() {
    for micro in ["\u{b5}", "\u{3bc}"] {
        let text = format!("latency_{micro}s,p99 ({micro}s)\n1.5,2.5\n1.6,2.6\n");
        for role in roles_of(&text) {
            let Ok(Role::Measure { unit, better, .. }) = Role::parse(&role) else { panic!("{role}") };
            assert_eq!((MeasureUnit::parse(&unit), better), (MeasureUnit::parse("us"), Better::Lower), "{role}");
        }
    }
}

#[test]
fn a_time_after_a_slash_is_that_of_a_rate() {
    for (name, role) in [
        ("ops/ms", "measure ops/ms higher"),
        ("iterations / us", "measure iterations/µs higher"),
        ("samples_per_ns", "measure samples/ns higher"),
        ("ops/sec", "measure ops/s higher"),
        ("rate (req/ms)", "measure req/ms higher"),
        ("tokens per minute", "measure tokens/min higher"),
        ("errors/ms", "measure errors/ms lower"),
        ("standby (Wh/d)", "measure Wh/d"),
        ("latency/ms", "measure ms lower"),
        ("time_per_step_ms", "measure ms lower"),
    ] {
        assert_eq!(roles_of(&format!("{name}\n0.51\n0.62\n")), [role], "{name}");
    }
}

#[test]
fn amounts_per_energy_or_power_are_not_taken_for_energies_and_powers() {
    for (name, role) in [
        ("GFLOPS/W", "measure GFLOPS/W higher"),
        ("GFLOPS per W", "measure GFLOPS/W higher"),
        ("fps/W", "measure fps/W higher"),
        ("tokens_per_j", "measure tokens/J higher"),
        ("req_per_w", "measure req/W higher"),
        ("MIPS/mW", "measure MIPS/mW higher"),
        ("inferences/Wh", "measure inferences/Wh higher"),
        ("tokens/kWh", "measure tokens/kWh higher"),
        ("tokens/s/W", "measure tokens/s/W higher"),
        ("efficiency (GFLOPS/W)", "measure GFLOPS/W higher"),
        ("errors_per_j", "measure errors/J lower"),
        ("EUR/kWh", "measure EUR/kWh"),
        ("power/W", "measure W lower"),
        ("energy_per_token_j", "measure J lower"),
    ] {
        assert_eq!(roles_of(&format!("{name}\n0.51\n0.62\n")), [role], "{name}");
    }
}

#[test]
fn what_is_counted_before_an_s_is_a_rate_and_what_takes_time_is_in_seconds() {
    let role_of = |name: &str| roles_of(&format!("{name}\n1\n2\n")).remove(0);
    for name in ["tok_s", "it_s", "samples_s", "img_s", "ops_s", "req_s", "tokens_s", "steps_s", "reqs_s", "read_mb_s"]
    {
        let thing = name.trim_start_matches("read_").trim_end_matches("_s");
        assert_eq!(role_of(name), format!("measure {thing}/s higher"), "{name}");
    }
    for name in ["time_s", "wall_s", "load_s", "warmup_s", "step_s", "iter_s", "epoch_s", "sample_s"] {
        assert_eq!(role_of(name), "measure s lower", "{name}");
    }
    let table = read_bytes(b"epochs_s,tokens_j\n1,1.5\n2,2.5\n").unwrap();
    for (name, role, why) in Mapping::deduced(&table).columns {
        assert_eq!((role.to_string().as_str(), why.as_str()), ("measure", MAY_BE_PER_UNIT), "{name}");
    }
}

#[test]
fn a_change_has_no_better_direction() {
    for name in ["latency reduction (%)", "memory_reduction_gb", "time improvement (%)", "accuracy gain (%)"] {
        let role = roles_of(&format!("{name}\n0.51\n0.62\n")).remove(0);
        assert!(role.starts_with("measure ") && !role.ends_with("er"), "{name}: {role}");
    }
    assert_eq!(
        roles_of("reduction_time_ms,inefficiency (%)\n0.51,1\n0.62,2\n"),
        ["measure ms lower", "measure % lower"]
    );
}

#[test]
fn what_is_spent_is_better_if_low_whatever_the_name_counts_or_leads_to() {
    let better = |name: &str| {
        let role = roles_of(&format!("\"{name}\"\n0.51\n0.62\n")).remove(0);
        match Role::parse(&role) {
            Ok(Role::Measure { better, .. }) => better,
            _ => panic!("{name}: {role}"),
        }
    };
    for name in [
        "time per step (ms)",
        "time_per_sample_ms",
        "energy per sample (J)",
        "memory per sample (MB)",
        "time_per_step",
        "time_to_accuracy (s)",
        "score_time_s",
        "timeouts/s",
        "collisions/s",
        "evictions/s",
        "crashes/s",
        "fails/s",
        "aborts/s",
        "retransmits/s",
        "rejected (1/s)",
        "false positives/s",
        "GC pauses/s",
        "gc_per_s",
        "latency_left_ms",
    ] {
        assert_eq!(better(name), Better::Lower, "{name}");
    }
    for name in [
        "MTBF (h)",
        "time between failures (h)",
        "headroom (GB)",
        "bandwidth_gb",
        "time_to_accuracy",
        "unused_mb",
        "time to failure detection_ms",
    ] {
        assert_eq!(better(name), Better::Neither, "{name}");
    }
    for name in [
        "time to failure (h)",
        "mean_time_to_failure_s",
        "MTTF (h)",
        "survival time (s)",
        "uptime_s",
        "energy left (J)",
        "time left (s)",
        "energy harvested (J)",
        "spare_mb",
    ] {
        assert_eq!(better(name), Better::Higher, "{name}");
    }
    for name in ["samples_per_s", "images_per_second_mean", "sentiment_score", "steps per sec", "accuracy"] {
        assert_eq!(better(name), Better::Higher, "{name}");
    }
}

#[test]
fn errors_a_second_are_better_if_low_and_what_is_left_or_saved_has_no_better_direction() {
    for name in [
        "errors/s",
        "cache misses/s",
        "dropped packets/s",
        "retries_per_s",
        "page faults/s",
        "lost (MB/s)",
        "failures (B)",
    ] {
        let role = roles_of(&format!("{name}\n0.51\n0.62\n")).remove(0);
        assert!(role.starts_with("measure ") && role.ends_with(" lower"), "{name}: {role}");
    }
    for name in ["free memory (GB)", "memory_saved_GB", "time_saved_s", "battery life (min)", "remaining/s"] {
        let role = roles_of(&format!("{name}\n0.51\n0.62\n")).remove(0);
        assert!(
            role.starts_with("measure ") && !role.ends_with(" lower") && !role.ends_with(" higher"),
            "{name}: {role}"
        );
    }
    let others = "lossless (MB/s),frequency_s,tokens/s\n0.51,1.5,2.5\n0.62,1.6,2.6\n";
    assert_eq!(roles_of(others), ["measure MB/s higher", "measure s lower", "measure tokens/s higher"]);
}

#[test]
fn a_map_changes_roles_and_is_written_as_it_is_read() {
    let table = read_bytes(b"a,b\n1,2\n").unwrap();
    let mut mapping = Mapping::deduced(&table);
    mapping.change("name = \"sorting\"\n[columns]\na = \"measure s lower\"\n").unwrap();
    assert_eq!((mapping.name.as_str(), mapping.columns[0].1.to_string()), ("sorting", "measure s lower".to_owned()));
    let written = |mapping: &Mapping| {
        let mut again = Mapping::deduced(&table);
        again.change(&mapping.toml()).unwrap();
        again
    };
    assert_eq!(written(&mapping).toml(), mapping.toml());
    assert!(!mapping.toml().contains("rows"), "it says nothing of rows");
    mapping.change("rows = \"runs\"").unwrap();
    assert!(written(&mapping).rows_are_runs && mapping.toml().contains("\nrows = \"runs\"\n"), "{}", mapping.toml());
    let wrong = |toml: &str| Mapping::deduced(&table).change(toml).unwrap_err().to_string();
    assert!(wrong("[columns]\nc = \"skip\"").starts_with("the file has no column \"c\""));
    assert!(wrong("[columns]\na = \"skap\"").starts_with("column \"a\": unknown role \"skap\""));
    assert!(wrong("nam = 1").starts_with("unknown key \"nam\""));
    for rows in ["\"run\"", "true"] {
        let message = wrong(&format!("rows = {rows}"));
        assert!(message.starts_with(&format!("rows: {rows} is unknown: write rows = \"runs\"")), "{message}");
    }
    assert!(wrong("[columns").contains("line 1"));
}

#[test]
fn commands_of_hyperfine_are_left_out_where_parameters_tell_them_apart() {
    let text = r#"{"results": [{"command": "s 1", "times": [1.0, 1.1], "parameters": {"n": "1"}},
        {"command": "s 2", "times": [2.0, 2.1], "parameters": {"n": "2"}}]}"#;
    assert_eq!(roles_of(text), ["skip", "factor", "repeat", "measure s lower"]);
    let text = r#"{"results": [{"command": "a", "times": [1.0, 1.1]}, {"command": "b", "times": [2.0]}]}"#;
    assert_eq!(roles_of(text), ["factor", "repeat", "measure s lower"]);
}
