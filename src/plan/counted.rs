//! Counts with their nouns.

use std::fmt::Display;

/// A count with its noun: `1 run`, `3 runs`, `2 batches`, `12 000 bytes`. Nouns that begin with an adjective are given whole: `finished run`.
pub fn counted(count: impl Display, one: &str) -> String {
    let count = count.to_string();
    if count == "1" {
        return format!("1 {one}");
    }
    let is_hissing = ["s", "x", "ch", "sh"].iter().any(|ending| one.ends_with(ending));
    match one.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u'])) {
        Some(stem) => format!("{count} {stem}ies"),
        None if is_hissing => format!("{count} {one}es"),
        None => format!("{count} {one}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_of_one_has_the_noun_in_singular_and_all_others_in_plural() {
        let texts = [counted(1, "run"), counted(0, "run"), counted(3_u64, "finished run"), counted("12 000", "byte")];
        assert_eq!(texts, ["1 run", "0 runs", "3 finished runs", "12 000 bytes"]);
        let texts = ["batch", "copy", "day", "process"].map(|one| counted(2, one));
        assert_eq!(texts, ["2 batches", "2 copies", "2 days", "2 processes"]);
    }
}
