//! How nsys is found and told what to record. The help texts are pieces of those of nsys 2022.4 and 2021.2.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::executable;

const HELP_2022: &str = "
usage: nsys profile [<args>] [application] [<application args>]

\t-c, --capture-range=

\t   Possible values are none, cudaProfilerApi, nvtx, hotkey.

\t--cuda-graph-trace=

\t   Possible values are 'graph' or 'node'.
\t   If 'node' is selected, node activities will be collected, but CUDA graphs

\t--cuda-memory-usage=

\t   Possible values are 'true' or 'false'.

\t-t, --trace=

\t   Possible values are 'cuda', 'nvtx', 'cublas', 'osrt' or 'none'.
";

fn program(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    executable::write(path, "#!/bin/sh\n");
}

#[test]
fn the_variable_comes_before_path_and_path_before_places_of_which_the_newest_is_taken() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    let none = find(None, None, root.path()).unwrap_err();
    assert!(none.contains("PATH") && none.contains(VARIABLE), "{none}");
    program(&at("opt/nvidia/nsight-compute/2025.3.1/host/target-linux-x64/nsys"));
    let compute = find(None, None, root.path()).unwrap();
    assert_eq!(compute, at("opt/nvidia/nsight-compute/2025.3.1/host/target-linux-x64/nsys"));
    for version in ["2023.1.2", "2025.3.1"] {
        program(&at(&format!("opt/nvidia/nsight-systems/{version}/target-linux-x64/nsys")));
    }
    let systems = find(None, None, root.path()).unwrap();
    assert_eq!(systems, at("opt/nvidia/nsight-systems/2025.3.1/target-linux-x64/nsys"));
    program(&at("bin/nsys"));
    assert_eq!(find(None, Some(at("bin").as_os_str()), root.path()).unwrap(), at("bin/nsys"));
    let set = Some(compute.clone().into_os_string());
    assert_eq!(find(set, Some(at("bin").as_os_str()), root.path()).unwrap(), compute);
    let wrong = find(Some(at("none").into_os_string()), None, root.path()).unwrap_err();
    assert!(wrong.contains("MULTICARD_NSYS=") && wrong.contains("is not a program"), "{wrong}");
}

#[test]
fn an_option_is_used_where_the_help_has_it_with_the_wanted_value() {
    let whole = profile_arguments(HELP_2022, Capture::Whole, true);
    let expected = "profile --trace=cuda,nvtx --sample=none --cpuctxsw=none --force-overwrite=true --cuda-graph-trace=node \
                    --cuda-memory-usage=true";
    assert_eq!(whole.join(" "), expected);
    let newer = HELP_2022.replace("'osrt'", "'osrt', 'nccl'");
    assert_eq!(profile_arguments(&newer, Capture::Whole, true)[1], "--trace=cuda,nvtx,nccl");
    let older = "\t--sample=\n\t-t, --trace=\n\t   'cuda', 'nvtx'; see --cuda-graph-trace= 'node'\n";
    assert_eq!(profile_arguments(older, Capture::Whole, true).len(), 5);
}

#[test]
fn a_window_ends_the_collection_and_not_the_run() {
    let steps = Capture::Steps { first: 2, last: 4 };
    let gpu = profile_arguments(HELP_2022, steps, true).join(" ");
    assert!(gpu.ends_with("--capture-range=cudaProfilerApi --capture-range-end=stop"), "{gpu}");
    let cpu = profile_arguments(HELP_2022, Capture::First { seconds: 720.0 }, false).join(" ");
    assert!(cpu.ends_with("--capture-range=nvtx --nvtx-capture=capture --capture-range-end=stop"), "{cpu}");
}

#[test]
fn an_nsys_that_does_not_run_is_told_with_its_own_words() {
    let folder = tempfile::tempdir().unwrap();
    let nsys = folder.path().join("nsys");
    program(&nsys);
    fs::write(&nsys, "#!/bin/sh\necho 'libdw.so.1: cannot open shared object file' >&2; exit 127\n").unwrap();
    let message = profile_command(&nsys, Capture::Whole, true, Path::new("r")).unwrap_err();
    assert!(message.contains("127") && message.contains("libdw.so.1"), "{message}");
}
