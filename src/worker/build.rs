//! Compiles the worker's C++ shim over libtorch and links both.

#[path = "shim/compile.rs"]
mod compile;

use std::path::{Path, PathBuf};

use compile::{compiler, embed_kernels, nvidia, out, sources, torch};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=shim/compile.rs");
    let shim = Path::new(env!("CARGO_MANIFEST_DIR")).join("shim");
    let torch = torch();
    embed_kernels(&shim);
    // Only the archive: it has to come before libtorch's libraries on the linker's command line.
    compiler(&shim, &torch).file(unit(&sources(&shim))).cargo_metadata(false).compile("multicard_shim");
    let link = |argument: String| {
        for kind in ["bins", "benches"] {
            println!("cargo:rustc-link-arg-{kind}={argument}");
        }
    };
    let lib = torch.join("lib");
    link(out().join("libmulticard_shim.a").display().to_string());
    link(format!("-L{}", lib.display()));
    // libtorch_cuda is opened at run time, on machines that have a driver.
    for library in ["torch_cpu", "c10", "stdc++"] {
        link(format!("-l{library}"));
    }
    for folder in [lib, nvidia(&torch).join("cu13/lib")] {
        link(format!("-Wl,-rpath,{}", folder.display()));
    }
}

/// A file that includes all of these sources. The compiler spends nearly all of its time on reading libtorch's headers, so compiling nine
/// files separately takes four times as long.
fn unit(sources: &[PathBuf]) -> PathBuf {
    let lines: String = sources.iter().map(|source| format!("#include \"{}\"\n", source.display())).collect();
    let unit = out().join("shim.cpp");
    std::fs::write(&unit, lines).expect("OUT_DIR can be written");
    unit
}
