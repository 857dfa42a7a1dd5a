//! Links the worker's CUDA part if `MULTICARD_BUILD_CUDA=1` asks for it, and the tracer if its headers are installed.

#[path = "../compile.rs"]
mod compile;

use std::path::{Path, PathBuf};

use compile::{compiler, embed_kernels, nvidia, out, sources, torch};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../compile.rs");
    println!("cargo:rerun-if-env-changed=MULTICARD_BUILD_CUDA");
    let torch = torch();
    let nvidia = nvidia(&torch);
    build_tracer(&nvidia.join("cu13/include"));
    if std::env::var("MULTICARD_BUILD_CUDA").is_ok_and(|value| value == "1") {
        build_cuda_part(&torch, &nvidia);
    }
}

/// Links the CUDA part. Its symbols of libtorch_cuda stay undefined until the worker has opened that library.
fn build_cuda_part(torch: &Path, nvidia: &Path) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shim = folder.parent().expect("the CUDA part lies in the shim");
    embed_kernels(shim);
    let mut build = compiler(shim, torch);
    build.include(nvidia.join("cu13/include")).include(nvidia.join("cu13/include/cccl"));
    build.include(nvidia.join("nccl/include")).define("USE_C10D_NCCL", None);
    let objects = build.files(sources(folder)).cargo_metadata(false).compile_intermediates();
    link_shared(&build, "libmulticard_cuda.so", &objects, &[]);
}

/// Links the tracer of CUDA's activity, if the headers of CUPTI and CUDA are installed beside libtorch. Any program may load it, whatever
/// its C++ library, so the tracer contains a C++ library of its own.
fn build_tracer(include: &Path) {
    // Its sources are watched in any case.
    let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../trace/cupti"));
    let needed = ["cupti.h", "cuda.h", "crt/host_defines.h"].map(|header| include.join(header));
    if !needed.iter().all(|header| header.exists()) {
        // Watching a missing file would run this whole script in every build. MULTICARD_BUILD_CUDA implies the headers.
        return;
    }
    needed.iter().for_each(|header| println!("cargo:rerun-if-changed={}", header.display()));
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").pic(true).flag("-fvisibility=hidden").opt_level(2).debug(false).include(include);
    let objects = build.files(sources).cargo_metadata(false).compile_intermediates();
    let own = ["-static-libstdc++", "-static-libgcc", "-Wl,--exclude-libs,ALL", "-Wl,-s", "-ldl", "-lpthread"];
    link_shared(&build, "libmulticard_cupti.so", &objects, &own);
}

/// Links a shared library beside the programs.
fn link_shared(build: &cc::Build, name: &str, objects: &[PathBuf], options: &[&str]) {
    // OUT_DIR is target/<profile>/build/<package>/out.
    let out = out();
    let beside = out.ancestors().nth(3).expect("OUT_DIR lies in the profile's folder");
    let library = beside.join(name);
    let mut linker = build.get_compiler().to_command();
    linker.arg("-shared").arg("-o").arg(&library).args(objects).args(options);
    let status = linker.status().unwrap_or_else(|error| panic!("linking {}: {error}", library.display()));
    assert!(status.success(), "linking {}: {status}", library.display());
}
