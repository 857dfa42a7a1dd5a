//! Modules beside each other use each other one way: reads the paths in `src/` and finds the circles.
//!
//! A module uses its neighbour where a path in it or in its children (`super::…`, `crate::…`) leads to the neighbour or its
//! children, through re-exports too. A module and its own children are one thing, and tests may look at everything: both are
//! left out. `tests/architecture.rs` holds the rooms apart.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

mod source;

/// Circles that stay, each with its reason.
const ALLOWED: &[(&[&str], &str)] = &[
    (
        &["image::data::dali", "image::data::device", "image::data::host", "image::data::loader"],
        "a loader is one of its kinds, and each kind hands out the loader's batches",
    ),
    (&["parallel", "task", "trainer"], "strategies hook into the trainer of a task, and a task is told of its peers"),
    (&["plan::file", "plan::read", "plan::write"], "a plan reads and writes itself"),
];

/// A module's path from the crate's root, such as `["trace", "gap"]`.
type Module = Vec<String>;

/// The modules of a crate that are no tests, with their code.
struct Crate {
    modules: BTreeMap<Module, Source>,
}

struct Source {
    /// Every path in the code, from its first segment to the item that it ends in.
    paths: Vec<Vec<String>>,
    /// Names that `pub use` gives to items of other modules.
    exports: BTreeMap<String, Vec<String>>,
}

impl Crate {
    fn read(root: &str) -> Self {
        let modules = source::modules(root).into_iter().map(|module| {
            // What a module only passes on, it does not use.
            let found = paths(&module.code, &source::children(&module.code)).into_iter();
            let (exports, used): (Vec<_>, Vec<_>) = found.partition(|path| path.is_export);
            let exports = exports.into_iter().map(|path| (path.name(), path.segments)).collect();
            let paths = used.into_iter().map(|path| path.segments).collect();
            (module.path, Source { paths, exports })
        });
        Self { modules: modules.collect() }
    }

    /// The module in which the item lies that a path means, seen from a module. None for what is not of this crate.
    fn resolve(&self, from: &[String], path: &[String], depth: usize) -> Option<&Module> {
        let mut at: Module = match path.first()?.as_str() {
            "crate" => Vec::new(),
            "super" => from[..from.len().checked_sub(1)?].to_vec(),
            "self" => from.to_vec(),
            child => [from, &[child.to_owned()]].concat(),
        };
        for segment in &path[1..] {
            let child = [at.as_slice(), std::slice::from_ref(segment)].concat();
            if segment == "super" {
                at.pop()?;
            } else if self.modules.contains_key(&child) {
                at = child;
            } else if let (Some(target), true) = (self.modules.get(&at)?.exports.get(segment), depth < 8) {
                return self.resolve(&at, target, depth + 1);
            } else {
                break;
            }
        }
        self.modules.get_key_value(&at).map(|(module, _)| module)
    }

    /// For each module the neighbours that it uses.
    fn uses(&self) -> BTreeMap<&[String], BTreeSet<&[String]>> {
        let mut uses: BTreeMap<&[String], BTreeSet<&[String]>> = BTreeMap::new();
        for (module, source) in &self.modules {
            for target in source.paths.iter().filter_map(|path| self.resolve(module, path, 0)) {
                let shared = module.iter().zip(target).take_while(|(a, b)| a == b).count();
                if let (Some(user), Some(used)) = (module.get(..=shared), target.get(..=shared)) {
                    uses.entry(user).or_default().insert(used);
                }
            }
        }
        uses
    }
}

struct Found {
    segments: Vec<String>,
    renamed: Option<String>,
    is_export: bool,
}

impl Found {
    fn name(&self) -> String {
        self.renamed.clone().unwrap_or_else(|| self.segments.last().unwrap().clone())
    }
}

/// Words and the signs that paths are made of.
fn tokens(code: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let length = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        if !first.is_whitespace() {
            tokens.push(&rest[..length]);
        }
        rest = &rest[length..];
    }
    tokens
}

/// The paths in the code that start in this crate: at `crate`, `super`, `self` or a child.
fn paths(code: &str, children: &[String]) -> Vec<Found> {
    let tokens = tokens(code);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let starts =
            ["crate", "super", "self"].contains(&tokens[at]) || children.iter().any(|child| child == tokens[at]);
        let is_first = at == 0 || tokens[at - 1] != "::";
        if starts && is_first && tokens.get(at + 1) == Some(&"::") {
            let before = &tokens[at.saturating_sub(5)..at];
            let is_export = before.ends_with(&["pub", "use"])
                || before.ends_with(&["pub", "(", "super", ")", "use"])
                || before.ends_with(&["pub", "(", "crate", ")", "use"]);
            at = tree(&tokens, at, &[], is_export, &mut found);
        } else {
            at += 1;
        }
    }
    found
}

/// One path or one list of paths; gives where it ends.
fn tree(tokens: &[&str], mut at: usize, prefix: &[String], is_export: bool, found: &mut Vec<Found>) -> usize {
    let mut segments = prefix.to_vec();
    loop {
        match tokens.get(at) {
            Some(&"{") => {
                at += 1;
                while at < tokens.len() && tokens[at] != "}" {
                    at = tree(tokens, at, &segments, is_export, found);
                    at += usize::from(tokens.get(at) == Some(&","));
                }
                return at + 1;
            }
            Some(&"*") => {
                at += 1;
            }
            // `use super::{self, …}` means what stands before it.
            Some(&"self") if !segments.is_empty() => at += 1,
            Some(word) if word.starts_with(|c: char| c.is_alphabetic() || c == '_') => {
                segments.push((*word).to_owned());
                at += 1;
                if tokens.get(at) == Some(&"::") && tokens.get(at + 1).is_some_and(|next| *next != "<") {
                    at += 1;
                    continue;
                }
            }
            _ => {
                at += 1;
            }
        }
        let renamed = (tokens.get(at) == Some(&"as")).then(|| tokens[at + 1].to_owned());
        at += if renamed.is_some() { 2 } else { 0 };
        found.push(Found { segments, renamed, is_export });
        return at;
    }
}

/// Sets of modules of which each leads to each other (strongly connected components of more than one module).
fn circles<T: Copy + Ord>(uses: &BTreeMap<T, BTreeSet<T>>) -> BTreeSet<BTreeSet<T>> {
    let reached = |start: T| {
        let mut reached = BTreeSet::new();
        let mut open = vec![start];
        while let Some(module) = open.pop() {
            open.extend(uses.get(&module).into_iter().flatten().filter(|next| reached.insert(**next)));
        }
        reached
    };
    let all: BTreeMap<T, BTreeSet<T>> = uses.keys().map(|module| (*module, reached(*module))).collect();
    let leads = |from: &T, to: &T| all.get(from).is_some_and(|reached| reached.contains(to));
    let circle = |module: &T| all[module].iter().copied().filter(|other| leads(other, module)).collect();
    uses.keys().map(circle).filter(|modules: &BTreeSet<T>| modules.len() > 1).collect()
}

#[test]
fn neighbours_use_each_other_one_way() {
    let mut offences = Vec::new();
    let mut excused = BTreeSet::new();
    for part in [Crate::read("lib.rs"), Crate::read("worker/main.rs")] {
        let uses = part.uses();
        for circle in circles(&uses) {
            let names: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
            let allowed =
                ALLOWED.iter().position(|(modules, _)| names.iter().all(|name| modules.contains(&name.as_str())));
            if let Some(place) = allowed {
                excused.insert(place);
                continue;
            }
            offences.push(format!("{} modules in a circle:", circle.len()));
            for module in &circle {
                let used = uses[module].intersection(&circle).map(|used| used.join("::")).collect::<Vec<_>>();
                offences.push(format!("  {} uses {}", module.join("::"), used.join(", ")));
            }
        }
    }
    assert!(
        offences.is_empty(),
        "move what they share into one that uses neither, or join them:\n{}",
        offences.join("\n")
    );
    for (place, (modules, reason)) in ALLOWED.iter().enumerate() {
        assert!(excused.contains(&place), "{modules:?} ({reason}) are in no circle any more: take them off the list");
    }
}

#[test]
fn paths_are_followed_through_lists_and_renames() {
    let found =
        paths("pub use a::{B, c::D as E};\nuse super::{self, x};\nlet y = crate::z::f(a::g());", &["a".to_owned()]);
    let joined: Vec<_> = found.iter().map(|path| (path.segments.join("::"), path.name(), path.is_export)).collect();
    let expected = [
        ("a::B", "B", true),
        ("a::c::D", "E", true),
        ("super", "super", false),
        ("super::x", "x", false),
        ("crate::z::f", "f", false),
        ("a::g", "g", false),
    ];
    assert_eq!(joined, expected.map(|(path, name, export)| (path.to_owned(), name.to_owned(), export)));
}

#[test]
fn a_circle_is_found_through_other_modules() {
    let uses = BTreeMap::from([
        ("a", BTreeSet::from(["b", "d"])),
        ("b", BTreeSet::from(["c"])),
        ("c", BTreeSet::from(["a"])),
        ("d", BTreeSet::new()),
    ]);
    assert_eq!(circles(&uses), BTreeSet::from([BTreeSet::from(["a", "b", "c"])]));
}
