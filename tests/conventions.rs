//! What holds the house together where no compiler looks: the names of GPU tests, the length of functions, how messages are printed, the
//! versions and files that texts and container files name, and what is compiled how.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

mod source;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Most lines of a function; a longer one is cut where an idea ends.
const MOST_LINES: usize = 80;

/// Functions that may be longer: file, name and why.
const LONG_FUNCTIONS: &[(&str, &str, &str)] = &[
    ("src/plan/workload/image/factors.rs", "factors", "the list of the workload's factors"),
    ("src/plan/workload/llm/factors.rs", "factors", "the list of the workload's factors"),
];

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

/// The name of the function that begins on a line.
fn function_name(line: &str) -> Option<&str> {
    let (before, rest) = line.trim_start().split_once("fn ")?;
    let is_function = before.is_empty()
        || before.ends_with(' ')
            && ["pub", "const ", "async ", "unsafe ", "extern "].iter().any(|word| before.starts_with(word));
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    (is_function && !before.contains('=') && end > 0).then(|| &rest[..end])
}

/// The functions of a formatted file that have bodies of several lines, with their lines: each ends at the brace that is indented as it is.
fn functions_of(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut functions = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indentation = &line[..line.len() - line.trim_start().len()];
        let mut at_its_level = lines[start..].iter().enumerate().filter_map(|(place, line)| {
            let rest = line.strip_prefix(indentation)?;
            (!rest.starts_with(' ')).then_some((place, rest))
        });
        // Functions of one line and declarations end otherwise.
        let ends = |(place, rest): &(usize, &str)| match (*place, *rest) {
            (0, rest) => rest.ends_with([';', '}']),
            (_, rest) => rest == "}" || rest.starts_with(')') && rest.ends_with(';'),
        };
        if let Some((place, "}")) = at_its_level.find(ends) {
            functions.push((name, place + 1));
        }
    }
    functions
}

#[test]
fn functions_are_short() {
    let mut long = Vec::new();
    for file in ["src", "tests"].iter().flat_map(|folder| rust_files(&root().join(folder))) {
        let text = fs::read_to_string(&file).unwrap();
        let path = file.strip_prefix(root()).unwrap().display().to_string();
        let functions = functions_of(&text).into_iter().filter(|(_, lines)| *lines > MOST_LINES);
        long.extend(functions.map(|(name, lines)| (path.clone(), name.to_owned(), lines)));
    }
    let is_excused = |path: &str, name: &str| LONG_FUNCTIONS.iter().any(|excuse| (excuse.0, excuse.1) == (path, name));
    for (path, name, why) in LONG_FUNCTIONS {
        let is_long =
            long.iter().any(|(long_path, long_name, _)| (long_path.as_str(), long_name.as_str()) == (*path, *name));
        assert!(is_long, "{path}: {name} ({why}) is no longer over {MOST_LINES} lines: take it out of LONG_FUNCTIONS");
    }
    long.retain(|(path, name, _)| !is_excused(path, name));
    let texts: Vec<_> = long.iter().map(|(path, name, lines)| format!("{path}: {name} has {lines} lines")).collect();
    assert!(texts.is_empty(), "cut these where an idea ends, at most {MOST_LINES} lines each:\n{}", texts.join("\n"));
}

#[test]
fn functions_end_at_the_brace_that_is_indented_as_they_are() {
    let text = "trait A {\n    fn declared(\n        &self,\n    ) -> u32;\n    fn short() {}\n    pub(super) fn three() {\n        if x {\n        }\n    }\n}\n";
    assert_eq!(functions_of(text), [("three", 4)]);
    for (line, name) in [
        ("    pub(in crate::app) unsafe extern \"C\" fn a_1(b: u32) {", Some("a_1")),
        ("// the fn of it", None),
        ("let f = fn b()", None),
        ("const F: fn(u32) = g;", None),
    ] {
        assert_eq!(function_name(line), name, "{line}");
    }
}

#[test]
fn nothing_is_printed_by_macros_that_panic_where_the_output_cannot_be_written() {
    let mut offences = Vec::new();
    for crate_root in ["lib.rs", "main.rs", "worker/main.rs"] {
        for module in source::modules(crate_root) {
            // Those for stderr contain these names, too.
            let printed = ["print!(", "println!("].into_iter().filter(|name| module.code.contains(name));
            offences.extend(printed.map(|name| format!("{crate_root}: {}: {name}…)", module.path.join("::"))));
        }
    }
    assert!(
        offences.is_empty(),
        "a full disk or a closed pipe would end the process: use foreign::say, or writeln! and its result:\n{}",
        offences.join("\n")
    );
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
fn make_targets_that_texts_name_are_there() {
    let is_of_a_name = |letter: char| letter.is_ascii_lowercase() || letter == '-';
    let makefile = read("Makefile");
    let targets: BTreeSet<&str> = makefile.lines().filter_map(|line| Some(line.split_once(':')?.0)).collect();
    let mut named = 0;
    for file in ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "src/cli/manual/elsewhere.md"] {
        let text = read(file);
        for start in ["`make ", "\nmake ", "&& make "] {
            for rest in text.split(start).skip(1) {
                let target = rest.split(|letter| !is_of_a_name(letter)).next().unwrap_or_default();
                assert!(targets.contains(target), "{file}: make {target}: the Makefile has no such target");
                named += 1;
            }
        }
    }
    assert!(named > 20, "the texts name {named} targets");
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

/// The instructions of a container file: lines without comments, each with the lines that it is continued on.
fn instructions(text: &str) -> Vec<String> {
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// Checks that an image begins with PyTorch's own of the version that is used, and that the package which it installs is called as
/// `.ci/package` calls it.
fn check_image(name: &str, base: &str, install: &str) {
    let image = format!("pytorch/pytorch:{}-cuda", read(".ci/torch-version").trim());
    assert!(base.contains(&image), "{name}: the image is {base}, not one of {image}…");
    assert!(install.contains("/multicard_*_amd64.deb"), "{name}: {install}");
    assert!(install.contains("apt-get update") && install.contains("rm -rf /var/lib/apt/lists/*"), "{name}: {install}");
    let package = read(".ci/package");
    assert!(package.contains(r#""x86_64": "amd64""#) && package.contains("multicard_{number}_{ARCH"), "{name}");
}

#[test]
fn container_files_name_the_torch_that_is_used_and_the_package_as_it_is_called() {
    let file = instructions(&read("assets/packaging/Containerfile"));
    let words: Vec<_> = file.iter().map(|line| line.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(words, ["FROM", "COPY", "RUN", "ENTRYPOINT", "CMD"]);
    check_image("Containerfile", &file[0], &file[2]);
    assert_eq!(file[1], "COPY multicard_*_amd64.deb /tmp/");
    assert_eq!((&*file[3], &*file[4]), (r#"ENTRYPOINT ["multicard"]"#, r#"CMD ["doctor"]"#));

    let definition = instructions(&read("assets/packaging/multicard.def"));
    let sections: Vec<_> = definition.iter().filter(|line| line.starts_with('%')).collect();
    assert_eq!(sections, ["%files", "%post", "%runscript", "%test"]);
    assert_eq!(definition[0], "Bootstrap: docker");
    let part = |from: &str, to: &str| {
        let lines = definition.iter().skip_while(|line| *line != from).take_while(|line| *line != to);
        lines.cloned().collect::<Vec<_>>().join("\n")
    };
    check_image("multicard.def", &definition[1], &part("%post", "%runscript"));
    // Where the packages are copied to is where they are installed from; /tmp is not that of the image while it is built.
    assert!(part("%files", "%post").contains("target/packages /opt/packages"));
    assert!(part("%post", "%runscript").contains(" /opt/packages/multicard_*"));
}

#[test]
fn the_modulefile_is_made_of_known_commands_and_of_folders_that_are_installed() {
    let text = read("assets/packaging/modulefile");
    assert!(text.starts_with("#%Module\n"), "{text}");
    let commands = ["set", "module-whatis", "conflict", "prepend-path", "prereq", "setenv"];
    for line in instructions(&text) {
        let words: Vec<_> = line.split(' ').collect();
        assert!(commands.contains(&words[0]), "{line}");
        assert_eq!(line.matches('"').count() % 2, 0, "{line}");
        if words[0] == "prepend-path" {
            let folder = words[2].strip_prefix("$prefix/").unwrap_or_else(|| panic!("{line}"));
            assert!(read(".ci/install").contains(&format!("\"$root/{folder}")), "{line}: nothing is installed there");
        }
    }
}

/// The packages that cargo compiles for these packages of ours, with their features.
fn compiled(selection: &[&str]) -> BTreeSet<String> {
    let mut tree = Command::new(env!("CARGO"));
    tree.args(["tree", "--offline", "--edges", "normal,build", "--prefix", "none", "--format", "{p} {f}"]);
    let output = tree.args(selection).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| line.trim_end_matches(" (*)").trim_end().to_owned()).collect()
}

#[test]
fn the_workbench_alone_is_compiled_with_the_features_that_it_has_beside_the_worker() {
    let [alone, beside] = [["--package", "multicard"].as_slice(), &["--workspace"]].map(compiled);
    assert!(alone.iter().any(|package| package.starts_with("serde v")), "cargo lists no packages: {alone:?}");
    let twice: Vec<_> = alone.difference(&beside).collect();
    assert!(
        twice.is_empty(),
        "compiled twice, as the worker asks for more: name its features in Cargo.toml: {twice:?}"
    );
}

#[test]
fn packages_that_profiles_name_are_dependencies() {
    let [manifest, lock] = ["Cargo.toml", "Cargo.lock"].map(|file| toml::from_str::<toml::Table>(&read(file)).unwrap());
    let text = |package: &toml::Value, key: &str| package[key].as_str().unwrap().to_owned();
    let locked: Vec<(String, String)> = lock["package"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| (text(package, "name"), text(package, "version")))
        .collect();
    let mut named = 0;
    for (profile, settings) in manifest["profile"].as_table().unwrap() {
        let packages = settings.get("package").and_then(toml::Value::as_table);
        for package in packages.into_iter().flat_map(|packages| packages.keys()) {
            // `zip@0.6` is every 0.6.x.
            let (name, wanted) = package.split_once('@').unwrap_or((package, ""));
            let is_wanted = |version: &str| wanted.is_empty() || version.starts_with(&format!("{wanted}."));
            let is_locked = locked.iter().any(|(locked, version)| locked == name && is_wanted(version));
            assert!(
                is_locked,
                "profile {profile} has settings for {package}, which is not in Cargo.lock: take them out"
            );
            named += 1;
        }
    }
    assert!(named > 20, "Cargo.toml has settings for {named} packages");
}

#[test]
fn sqlite_is_compiled_without_the_extensions_that_nothing_uses() {
    let connection = rusqlite::Connection::open_in_memory().unwrap();
    let mut statement = connection.prepare("PRAGMA compile_options").unwrap();
    let options: Vec<String> = statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert!(options.iter().any(|option| option == "ENABLE_COLUMN_METADATA"), "{options:?}");
    let extensions = ["ENABLE_FTS", "ENABLE_RTREE", "ENABLE_STAT4", "ENABLE_DBSTAT", "SOUNDEX"];
    let compiled: Vec<_> =
        options.iter().filter(|option| extensions.iter().any(|extension| option.starts_with(extension))).collect();
    assert!(compiled.is_empty(), "{compiled:?}: LIBSQLITE3_FLAGS in .cargo/config.toml leaves them out");
}
