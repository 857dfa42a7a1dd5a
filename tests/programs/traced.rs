//! Programs that are traced: started by a profiler, or recorded without a change to them.

use super::*;

/// What NVTX does in a program: it asks for the library that is injected, hands it places for functions, and calls what it put there.
const NVTX: &str = include_str!("nvtx.py");

#[test]
fn a_traced_program_is_started_by_the_profiler_and_is_a_cell_of_its_own() {
    let scene = Scene::new();
    // A stand-in: it answers as nsys does, starts the command, and records nothing.
    let nsys = scene.programs().join("nsys");
    let script = "#!/bin/sh\ncase \"$1 $2\" in\n--version*) echo 'stand-in version 0';;\n'profile --help') echo;;\n\
                  *) while [ \"$1\" != --output ]; do shift; done; shift 2; \"$@\";;\nesac\n";
    executable::write(&nsys, script);
    let own = own_sleep();
    let plain = format!("[command]\nrun = [\"sh\", \"-c\", \"setsid sleep {own} & echo traced; sleep 0.2\"]");
    let traced = format!("[measure]\ntrace = \"nsys\"\n{plain}");
    let output = scene.command(&traced).env("MULTICARD_NSYS", &nsys).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("has no trace: nsys wrote no report"), "{stderr}");
    let again = text(&scene.command(&plain).arg("--resume").output().unwrap().stderr);
    assert!(again.contains("1 run queued"), "a plain run is another cell: {again}");
    assert!(scene.left().is_empty() && with_word(&own).is_empty());
}

#[test]
fn programs_and_what_they_start_are_traced_without_a_change_to_them() {
    let Ok(tracer) = multicard::trace::find_tracer() else {
        eprintln!("skipped: the tracer is built where CUDA's headers lie");
        return;
    };
    let scene = Scene::new();
    fs::write(scene.programs().join("ranges.py"), NVTX).unwrap();
    let plan = r#"
workload = "command"
[measure]
trace = "built-in"
[command]
name = "ranges"
time_limit_s = 60
run = ["python3", "{programs}/ranges.py"]
"#;
    let output = scene.command(plan).env("MULTICARD_TRACER", &tracer).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && stderr.contains("traced: "), "{stderr}");
    let run = scene.runs().remove(0);
    assert!(!multicard::trace::has_raw_files(&run));
    let mut command = Command::new(env!("CARGO_BIN_EXE_multicard"));
    let events = command.arg("trace").arg(run.join("trace.events")).args(["--format", "json"]).output().unwrap();
    let trace: Value = serde_json::from_slice(&events.stdout).unwrap();
    let calls = |name: &str| {
        let ranges = trace["nvtx"].as_array().unwrap();
        ranges.iter().filter(|range| range["name"] == name).map(|range| range["calls"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!([calls("turn"), calls("work"), calls("late")], [10, 10, 1], "{}", trace["nvtx"]);
    let all = ["around", "ncclAllReduce", "ncclBroadcast"].map(calls);
    assert_eq!(all, [1, 3, 1], "ranges that end with a payload end: {}", trace["nvtx"]);
    let of_nccl = trace["nvtx"].as_array().unwrap().iter().filter(|range| range["domain"] == "NCCL").count();
    assert_eq!(of_nccl, 2, "with sizes or without, they keep their domain: {}", trace["nvtx"]);
    let perfetto = scene.folder.path().join("perfetto.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_multicard"));
    command.arg("trace").arg(run.join("trace.events")).arg("--perfetto").arg(&perfetto).output().unwrap();
    let written: Value = serde_json::from_str(&fs::read_to_string(&perfetto).unwrap()).unwrap();
    let events = written.as_array().unwrap().iter();
    let mut sizes: Vec<_> =
        events.filter_map(|event| Some((event["args"]["bytes"].as_u64()?, event["name"].clone()))).collect();
    sizes.sort_by_key(|size| size.0);
    let size_of = |name: &str, bytes| (bytes, Value::from(name));
    assert_eq!(
        sizes,
        [size_of("ncclBroadcast", 512), size_of("ncclAllReduce", 4096), size_of("ncclAllReduce", 1 << 20)]
    );
    let work_ns =
        trace["nvtx"].as_array().unwrap().iter().find(|range| range["name"] == "work").unwrap()["min_ns"].as_u64();
    assert!(work_ns >= Some(2_000_000), "{work_ns:?}");
    // On one clock: the child ran within the time of its parent.
    assert!(trace["wall_ns"].as_u64().unwrap() < 30_000_000_000);
    if trace["gpus"].as_array().unwrap().is_empty() {
        assert!(
            trace["warnings"][0].as_str().unwrap().starts_with("CUDA calls and kernels are not recorded: "),
            "{trace}"
        );
    }
}
