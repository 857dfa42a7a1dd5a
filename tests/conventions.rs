//! What holds the house together where no compiler looks: the names of GPU tests, and the versions and files that texts name.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = paths.flat_map(|path| if path.is_dir() { rust_files(&path) } else { vec![path] });
    files.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

/// The tests of a file: their names, and why they are ignored if they are.
fn tests_of(text: &str) -> Vec<(String, Option<String>)> {
    let mut tests = Vec::new();
    let mut attributes: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[") {
            attributes.push(line);
            continue;
        }
        if let (Some(rest), true) = (line.strip_prefix("fn "), attributes.contains(&"#[test]")) {
            let reason = attributes.iter().find_map(|attribute| attribute.strip_prefix("#[ignore = \""));
            let name = rest.split('(').next().unwrap_or(rest);
            tests.push((name.to_owned(), reason.map(|reason| reason.trim_end_matches("\"]").to_owned())));
        }
        attributes.clear();
    }
    tests
}

#[test]
fn tests_that_need_gpus_are_named_as_make_test_gpu_picks_them() {
    let mut on_gpus = 0;
    for file in ["src", "tests"].iter().flat_map(|folder| rust_files(&root().join(folder))) {
        for (name, reason) in tests_of(&fs::read_to_string(&file).unwrap()) {
            let named =
                match (name.contains("_on_a_gpu"), name.contains("_on_two_gpus"), name.contains("beside_pytorch")) {
                    (false, false, _) => None,
                    (_, true, true) => Some("needs two GPUs and a python3 with torch: make test-gpu"),
                    (_, true, false) => Some("needs two GPUs: make test-gpu"),
                    (true, false, _) => Some("needs a GPU: make test-gpu"),
                };
            let ignored = reason.as_deref().filter(|reason| reason.to_lowercase().contains("gpu"));
            assert_eq!(ignored, named, "{}: {name}: its name and the reason it is ignored differ", file.display());
            on_gpus += usize::from(named.is_some());
        }
    }
    assert!(on_gpus > 0, "no test on a GPU was found");
}

#[test]
fn the_readme_names_the_versions_that_are_used() {
    let readme = read("README.md");
    for (file, names) in [(".ci/torch-version", ["libtorch ", "PyTorch "].as_slice()), (".ci/dali-version", &["DALI "])]
    {
        let version = read(file);
        let mut found = 0;
        for name in names {
            for (at, _) in readme.match_indices(name) {
                let number: String =
                    readme[at + name.len()..].chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
                let number = number.trim_end_matches('.');
                if !number.is_empty() {
                    found += 1;
                    let used = format!("{}.", version.trim());
                    assert!(
                        used.starts_with(&format!("{number}.")),
                        "README.md: {name}{number}, but {file}: {version}"
                    );
                }
            }
        }
        assert!(found > 0, "README.md does not name the version of {file}");
    }
}

#[test]
fn files_that_texts_link_to_are_there() {
    for text in ["README.md", "CONTRIBUTING.md"] {
        let links = read(text);
        let links: Vec<_> = links.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
        assert!(!links.is_empty(), "{text} has no links");
        for link in links.iter().filter(|link| !link.contains("://")) {
            assert!(root().join(link).exists(), "{text} links to {link}, which is not there");
        }
    }
}
