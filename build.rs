//! Compiles the worker's C++ shim over libtorch, and the built-in tracer. Without the feature `torch` it does nothing.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "torch")]
    shim::build();
}

#[cfg(feature = "torch")]
mod shim {
    use std::ffi::OsStr;
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    use std::path::{Path, PathBuf};

    /// The libtorch that tch is made for: another one has other function signatures.
    const TORCH_VERSION: &str = include_str!(".ci/torch-version").trim_ascii();
    const WORKER: &str = "multicard-worker";
    const SHIM: &str = "src/worker/shim";
    const TRACER: &str = "src/trace/cupti";

    pub fn build() {
        for file in files(SHIM).iter().chain(&files(TRACER)) {
            println!("cargo:rerun-if-changed={}", file.display());
        }
        println!("cargo:rerun-if-env-changed=MULTICARD_BUILD_CUDA");
        // torch-sys tells its dependents where it found libtorch.
        let lib = std::env::var("DEP_TCH_LIBTORCH_LIB").expect("torch-sys tells libtorch's folder");
        let lib = PathBuf::from(&lib).canonicalize().unwrap_or_else(|error| panic!("libtorch's folder {lib}: {error}"));
        let torch = lib.parent().expect("libtorch's lib folder has a parent").to_path_buf();
        let nvidia = torch.parent().expect("libtorch's folder has a parent").join("nvidia");
        check_version(&torch);

        embed_kernels();
        build_host_part(&torch);
        link_worker(&lib, &nvidia);
        build_tracer(&nvidia.join("cu13/include"));
        if std::env::var("MULTICARD_BUILD_CUDA").is_ok_and(|value| value == "1") {
            build_cuda_part(&torch, &nvidia);
        }
    }

    fn check_version(torch: &Path) {
        let header = torch.join("include/torch/headeronly/version.h");
        println!("cargo:rerun-if-changed={}", header.display());
        let text = std::fs::read_to_string(&header)
            .unwrap_or_else(|error| panic!("libtorch's version: {}: {error}", header.display()));
        let number = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.trim().strip_prefix("#define ")?.strip_prefix(name));
            lines.next().and_then(|rest| rest.trim().parse::<u32>().ok())
        };
        let parts = [number("TORCH_VERSION_MAJOR "), number("TORCH_VERSION_MINOR "), number("TORCH_VERSION_PATCH ")];
        let found: Vec<_> = parts.iter().map(|part| part.map_or("?".into(), |value| value.to_string())).collect();
        let found = found.join(".");
        assert!(
            found == TORCH_VERSION,
            "multicard-worker needs libtorch {TORCH_VERSION}, {} is {found}: set LIBTORCH to a libtorch {TORCH_VERSION}",
            torch.display()
        );
    }

    fn compiler(torch: &Path) -> cc::Build {
        let mut build = cc::Build::new();
        build.cpp(true).std("c++17").pic(true).warnings(false);
        build.define("_GLIBCXX_USE_CXX11_ABI", "1").flag("-fvisibility=hidden");
        // As libtorch itself is built: some of its classes have other members without it.
        build.define("NDEBUG", None);
        // libtorch's headers alone need 30 s to optimise and lend the shim no hot code.
        build.opt_level(1).debug(false);
        build.define("SHIM_STAMP", Some(&*format!("\"{}\"", stamp())));
        build.define("USE_DISTRIBUTED", None).define("USE_C10D_GLOO", None);
        // Last of all, so that the real headers are taken where they are installed.
        build.flag("-idirafter").flag(format!("{SHIM}/stand_in"));
        build
            .include(SHIM)
            .include(format!("{SHIM}/cuda"))
            .include(out())
            .include(torch.join("include"))
            .include(torch.join("include/torch/csrc/api/include"));
        build
    }

    /// The sources and headers of a folder and those in it.
    fn files(folder: &str) -> Vec<PathBuf> {
        let (mut folders, mut files) = (vec![PathBuf::from(folder)], Vec::new());
        while let Some(folder) = folders.pop() {
            let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
            for path in entries.map(|entry| entry.expect("a folder can be listed").path()) {
                if path.is_dir() { &mut folders } else { &mut files }.push(path);
            }
        }
        files.retain(|path| {
            path.extension().is_some_and(|kind| ["cpp", "h", "cu", "cuh"].map(OsStr::new).contains(&kind))
        });
        files.sort();
        files
    }

    /// What is compiled of a folder, without the folders in it.
    fn sources(folder: &str) -> Vec<PathBuf> {
        let mut files = files(folder);
        files.retain(|path| path.parent() == Some(Path::new(folder)) && path.extension() == Some(OsStr::new("cpp")));
        files
    }

    fn read(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// What the sources of both parts say: a worker opens the CUDA part that was built from the same ones as itself.
    fn stamp() -> String {
        let mut hasher = DefaultHasher::new();
        for path in files(SHIM) {
            path.hash(&mut hasher);
            read(&path).hash(&mut hasher);
        }
        format!("{:016x}", hasher.finish())
    }

    /// Writes the kernels' sources as text for NVRTC, which nvrtc.h includes: of each file its name, its text and the names of its kernels.
    fn embed_kernels() {
        let entry = |path: PathBuf| {
            let text = read(&path);
            let names = text.split("extern \"C\" __global__ void").skip(1).map(|rest| {
                let bounds = rest.trim_start().strip_prefix("__launch_bounds__(").and_then(|rest| rest.split_once(')'));
                let (name, _) = bounds.map_or(rest, |(_, rest)| rest).split_once('(').expect("a kernel has parameters");
                format!("\"{}\", ", name.trim())
            });
            let (file, names) = (path.file_name().expect("a file has a name"), names.collect::<String>());
            format!("{{{file:?}, {{R\"CUDA({text})CUDA\", {{{names}}}}}}},\n")
        };
        let table: String = files(&format!("{SHIM}/cuda/kernels")).into_iter().map(entry).collect();
        std::fs::write(out().join("kernels.inc"), table).expect("OUT_DIR can be written");
    }

    fn out() -> PathBuf {
        PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"))
    }

    fn build_host_part(torch: &Path) {
        // Linked by `link_worker`: cargo's own line would give the archive to the workbench too.
        compiler(torch).files(sources(SHIM)).cargo_metadata(false).compile("multicard_shim");
    }

    fn link_worker(lib: &Path, nvidia: &Path) {
        let link = |argument: String| {
            println!("cargo:rustc-link-arg-bin={WORKER}={argument}");
            // The bench of loaders is made of the worker's parts; others need nothing of it.
            println!("cargo:rustc-link-arg-benches={argument}");
        };
        link(out().join("libmulticard_shim.a").display().to_string());
        link(format!("-L{}", lib.display()));
        // libtorch_cuda is opened at run time, where there is a driver.
        for library in ["torch_cpu", "c10", "stdc++"] {
            link(format!("-l{library}"));
        }
        for folder in [lib.to_owned(), nvidia.join("cu13/lib")] {
            link(format!("-Wl,-rpath,{}", folder.display()));
            // Benchmarks of the worker's parts load libtorch too.
            println!("cargo:rustc-link-arg-benches=-Wl,-rpath,{}", folder.display());
        }
    }

    /// A shared library beside the binaries, whose symbols of libtorch_cuda stay open until the worker has opened that.
    fn build_cuda_part(torch: &Path, nvidia: &Path) {
        let mut build = compiler(torch);
        build.include(nvidia.join("cu13/include")).include(nvidia.join("cu13/include/cccl"));
        build.include(nvidia.join("nccl/include")).define("USE_C10D_NCCL", None);
        let objects = build.files(sources(&format!("{SHIM}/cuda"))).cargo_metadata(false).compile_intermediates();
        link_shared(&build, "libmulticard_cuda.so", &objects, &[]);
    }

    /// The tracer of CUDA's activity, where CUPTI's and CUDA's headers lie with libtorch. Any program may load it, whatever its C++
    /// library, so that it brings its own.
    fn build_tracer(include: &Path) {
        let needed = ["cupti.h", "cuda.h", "crt/host_defines.h"].map(|header| include.join(header));
        if !needed.iter().all(|header| header.exists()) {
            // Watching what is missing would run all of this with every build. MULTICARD_BUILD_CUDA comes with the headers.
            return;
        }
        needed.iter().for_each(|header| println!("cargo:rerun-if-changed={}", header.display()));
        let mut build = cc::Build::new();
        build.cpp(true).std("c++17").pic(true).flag("-fvisibility=hidden").opt_level(2).debug(false).include(include);
        let objects = build.files(sources(TRACER)).cargo_metadata(false).compile_intermediates();
        let own = ["-static-libstdc++", "-static-libgcc", "-Wl,--exclude-libs,ALL", "-Wl,-s", "-ldl", "-lpthread"];
        link_shared(&build, "libmulticard_cupti.so", &objects, &own);
    }

    /// Links a shared library beside the binaries.
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
}
