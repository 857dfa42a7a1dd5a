//! Numbers, names and paths as text.

use std::path::Path;

use crate::analysis::counted;
use crate::conduct::QueueView;
use crate::figure::duration_text;

pub use crate::remote::shell_word;

/// Bytes as text in decimal units with three digits, such as `1.20 GB`.
pub fn bytes_text(bytes: f64) -> String {
    let (value, unit) = match bytes {
        1e9.. => (bytes / 1e9, "GB"),
        1e6.. => (bytes / 1e6, "MB"),
        1e3.. => (bytes / 1e3, "kB"),
        _ => return format!("{bytes:.0} B"),
    };
    format!("{} {unit}", crate::figure::significant(value))
}

/// The estimated time until the queue is empty, such as `about 3 min 5 s`; `None` if nothing is known of it.
pub fn left_text(queue: &QueueView) -> Option<String> {
    let left = || format!("{}{}", queue.remaining_word(), duration_text(queue.remaining_s));
    (queue.remaining_s > 0.0).then(left)
}

/// `1 run`, `2 runs`.
pub fn runs_text(count: usize) -> String {
    counted(count, "run")
}

/// A path as a word of a POSIX shell.
pub fn path_word(path: &Path) -> String {
    shell_word(&path.display().to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_so_that_a_shell_reads_what_was_meant() {
        for word in ["plain", "a b", "it's", "", "$(rm x)", "not precision=fp64", "ü"] {
            let echo = format!("printf %s {}", shell_word(word));
            let output = std::process::Command::new("sh").args(["-c", &echo]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }
}
