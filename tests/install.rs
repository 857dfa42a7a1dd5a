//! Installing into a prefix and packaging: the layout, the programs from there, and what `multicard doctor` finds for them.
#![cfg(feature = "torch")]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

mod built;
mod executable;

use built::worker;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs `.ci/install` with a root of its own.
fn install(root: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(repository().join(".ci/install"));
    command.args(arguments).env("DESTDIR", root).env("BUILT", worker().parent().unwrap());
    command.output().unwrap()
}

/// The machine's checks by the installed program, for a user without a home of their own, with these variables.
fn doctor(root: &Path, home: &Path, variables: &[(&str, &Path)]) -> Vec<Value> {
    let mut command = Command::new(root.join("opt/bin/multicard"));
    command.args(["doctor", "--format", "json"]).env_clear().env("HOME", home).env("PATH", home.join("bin"));
    let output = command.envs(variables.iter().copied()).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)))
}

fn check<'a>(checks: &'a [Value], name: &str) -> &'a Value {
    let found = checks.iter().find(|check| check["name"].as_str().unwrap().starts_with(name));
    found.unwrap_or_else(|| panic!("no check of {name}: {checks:?}"))
}

#[test]
fn an_installed_program_finds_the_torch_of_the_nodes_python_and_without_one_says_what_to_type() {
    let (root, home) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let output = install(root.path(), &["/opt"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for file in [
        "bin/multicard",
        "lib/multicard/multicard-worker",
        "share/applications/multicard.desktop",
        "share/icons/hicolor/scalable/apps/multicard.svg",
        "share/man/man1/multicard.1",
        "share/man/man1/multicard-run.1",
        "share/bash-completion/completions/multicard",
        "share/zsh/site-functions/_multicard",
        "share/fish/vendor_completions.d/multicard.fish",
        "share/doc/multicard/LICENSE-MIT",
        "share/doc/multicard/sessions/quickstart.toml",
    ] {
        let length = fs::metadata(root.path().join("opt").join(file)).map(|about| about.len());
        assert!(length.is_ok_and(|length| length > 0), "{file}");
    }
    // The worker does not remember the libtorch of this machine.
    let checks = doctor(root.path(), home.path(), &[]);
    let torch = check(&checks, "PyTorch");
    assert_eq!((torch["health"].as_str(), torch["remedy"].as_str()), (Some("bad"), Some("multicard setup")), "{torch}");
    assert!(torch["found"].as_str().unwrap().contains("libtorch_cpu.so"), "{torch}");
    // A Python on the PATH that has the right one, as modules, conda and venv put there.
    let torch = repository().join("target/libtorch").canonicalize().unwrap();
    fs::create_dir(home.path().join("bin")).unwrap();
    executable::write(&home.path().join("bin/python3"), format!("#!/bin/sh\necho '{}'\n", torch.display()));
    assert_eq!(check(&doctor(root.path(), home.path(), &[]), "PyTorch")["health"], "good");
    // The Python of an active environment goes first.
    let environment = home.path().join("environment");
    fs::create_dir_all(environment.join("bin")).unwrap();
    executable::write(&environment.join("bin/python"), "#!/bin/sh\necho\n");
    let checks = doctor(root.path(), home.path(), &[("VIRTUAL_ENV", &environment)]);
    assert_eq!(check(&checks, "PyTorch")["health"], "good");
    fs::remove_file(home.path().join("bin/python3")).unwrap();
    let checks = doctor(root.path(), home.path(), &[("VIRTUAL_ENV", &environment)]);
    assert!(check(&checks, "PyTorch")["found"].as_str().unwrap().contains("environment/bin/python has no torch"));
    let checks = doctor(root.path(), home.path(), &[("MULTICARD_TORCH", &torch)]);
    assert_eq!(check(&checks, "PyTorch")["health"], "good");
}

#[test]
fn removing_leaves_nothing_and_what_is_missing_is_said_before_anything_is_written() {
    let root = TempDir::new().unwrap();
    assert!(install(root.path(), &["/opt"]).status.success());
    // A library of an earlier build, which this one does not have.
    let library = root.path().join("opt/lib/multicard/libmulticard_cuda.so");
    let has_library = worker().with_file_name("libmulticard_cuda.so").exists();
    fs::write(&library, "of an earlier build").unwrap();
    fs::write(root.path().join("opt/share/man/man1/multicard-gone.1"), "a command that is no more").unwrap();
    assert!(install(root.path(), &["/opt"]).status.success());
    assert_eq!(library.exists(), has_library);
    assert!(!root.path().join("opt/share/man/man1/multicard-gone.1").exists());
    assert!(install(root.path(), &["--remove", "/opt"]).status.success());
    let mut left: Vec<PathBuf> = vec![root.path().to_owned()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            assert!(entry.path().is_dir(), "{} is left", entry.path().display());
            left.push(entry.path());
        }
    }
    let empty = TempDir::new().unwrap();
    for (arguments, built, reason) in [
        (&["/opt"][..], Some(empty.path()), "type `make build` first"),
        (&["opt"], None, "is no absolute path"),
        (&["/opt", "--remove"], None, "--remove is one word too many"),
        (&["--remove", "/opt"], None, "is not installed in"),
        (&[], None, "name the prefix"),
    ] {
        let mut command = Command::new(repository().join(".ci/install"));
        command.args(arguments).env("DESTDIR", empty.path()).envs(built.map(|built| ("BUILT", built)));
        let output = command.output().unwrap();
        assert!(!output.status.success() && text(&output.stderr).contains(reason), "{}", text(&output.stderr));
        assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0);
    }
}

/// Runs a program, which has to succeed, and returns what it prints.
fn printed(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The only file of a folder whose name ends like this.
fn only(folder: &Path, end: &str) -> String {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path().display().to_string());
    let found: Vec<_> = files.filter(|path| path.ends_with(end)).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

#[test]
fn packages_hold_the_programs_with_all_licences_where_debian_looks_for_them_and_replace_those_of_an_earlier_build() {
    let (built, packages) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    // Without symbols, which a release has not either.
    for program in [Path::new(env!("CARGO_BIN_EXE_multicard")), &worker()] {
        let stripped = built.path().join(program.file_name().unwrap());
        printed("strip", &["-o", &stripped.display().to_string(), &program.display().to_string()]);
    }
    fs::write(packages.path().join("multicard_0.1.0_amd64.deb"), "of an earlier build").unwrap();
    let mut command = Command::new(repository().join(".ci/package"));
    command.arg(packages.path()).env("BUILT", built.path()).env("DPKG_DEB_COMPRESSOR_TYPE", "none");
    let output = command.env("DEBFULLNAME", "Ada").env("DEBEMAIL", "ada@example.org").output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));

    let deb = only(packages.path(), ".deb");
    let field = |name: &str| printed("dpkg-deb", &["--field", &deb, name]).trim().to_owned();
    assert_eq!(field("Version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(field("Maintainer"), "Ada <ada@example.org>");
    assert!(field("Depends").contains("libc6 (>= 2."), "{}", field("Depends"));
    assert!(field("Depends").contains("libstdc++6 (>= "), "{}", field("Depends"));
    let tree = packages.path().join("tree");
    printed("dpkg-deb", &["--extract", &deb, &tree.display().to_string()]);
    for file in [
        "lib/multicard/multicard-worker",
        "share/man/man1/multicard-run.1.gz",
        "share/zsh/vendor-completions/_multicard",
        "share/doc/multicard/changelog.gz",
    ] {
        assert!(tree.join("usr").join(file).is_file(), "{file}");
    }
    let version = printed(&tree.join("usr/bin/multicard").display().to_string(), &["--version"]);
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    let licences = fs::read_to_string(tree.join("usr/share/doc/multicard/copyright")).unwrap();
    // Multicard's own, a crate's, those of typefaces within a crate, and the one of the standard library.
    for licence in ["TERMS AND CONDITIONS", "- serde 1.", "UBUNTU FONT LICENCE", "Rust's standard library"] {
        assert!(licences.contains(licence), "{licence}");
    }
    let names = printed("tar", &["-tzf", &only(packages.path(), ".tar.gz")]);
    let folder = names.split('/').next().unwrap_or_default();
    for file in ["bin/multicard", "lib/multicard/multicard-worker", "share/doc/multicard/LICENCES.txt"] {
        assert!(names.lines().any(|line| line == format!("{folder}/{file}")), "{file}: {names}");
    }
}
