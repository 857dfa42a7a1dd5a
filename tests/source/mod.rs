//! The source of a crate as tests of its structure read it: modules with their code, without comments and tests.

use std::fs;
use std::path::Path;

/// A module that is no test.
pub struct Module {
    /// Its path from the crate's root, such as `["trace", "gap"]`.
    pub path: Vec<String>,
    /// Its code without comments and tests.
    pub code: String,
}

/// The modules of the crate whose root is a file of `src/`, such as `lib.rs`; those that only tests have are left out.
pub fn modules(root: &str) -> Vec<Module> {
    let mut modules = Vec::new();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(root);
    let folder = file.parent().unwrap().to_owned();
    add(&file, &folder, &[], &mut modules);
    modules
}

fn add(file: &Path, folder: &Path, path: &[String], modules: &mut Vec<Module>) {
    let code = code(&fs::read_to_string(file).unwrap());
    let children = children(&code);
    modules.push(Module { path: path.to_vec(), code });
    for child in children {
        let file = folder.join(format!("{child}.rs"));
        add(&file, &file.with_extension(""), &[path, &[child]].concat(), modules);
    }
}

/// A file's code without comments and tests.
fn code(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            // More attributes, then a module or an item: to its end at the same indentation.
            let indent = line.len() - line.trim_start().len();
            for line in lines.by_ref() {
                let own = line.len() - line.trim_start().len() == indent;
                let ends_item = own && (line.ends_with(';') || line.trim() == "}");
                if ends_item && !line.trim_start().starts_with("#[") {
                    break;
                }
            }
            continue;
        }
        code.push_str(line.split("//").next().unwrap_or(""));
        code.push('\n');
    }
    code
}

/// The modules that a module's code declares in files of their own.
pub fn children(code: &str) -> Vec<String> {
    let declared = code.lines().filter_map(|line| {
        let line = line.trim_start().trim_start_matches("pub(crate) ").trim_start_matches("pub(super) ");
        line.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';')
    });
    declared.map(str::to_owned).collect()
}
