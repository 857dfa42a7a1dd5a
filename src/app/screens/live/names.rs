//! Short names of runs for narrow spaces: only the parts that differ, only levels, and line breaks only between levels.

/// The separator between the parts of a name.
const SEPARATOR: &str = " · ";
/// The separator if a line may break after it.
const BREAKABLE: &str = "\u{a0}· ";

/// A name without the names of settings in front of their levels: `fp32 · conv · 1 GPU` for `fp32 · TF32 conv · 1 GPU`. The number of a
/// repeat keeps its word.
pub fn levels_alone(name: &str) -> String {
    let level = |part: &str| match part.split_once(' ') {
        Some(("repeat", _)) => part.to_owned(),
        Some((setting, level)) if !setting.starts_with(|first: char| first.is_ascii_digit()) => level.to_owned(),
        _ => part.to_owned(),
    };
    name.split(SEPARATOR).map(level).collect::<Vec<_>>().join(SEPARATOR)
}

/// Names without the parts that all of them have at the same position; complete names if nothing would be left.
pub fn without_shared(names: &[&str]) -> Vec<String> {
    let parts: Vec<Vec<&str>> = names.iter().map(|name| name.split(SEPARATOR).collect()).collect();
    let is_shared =
        |place: usize, part: &str| parts.len() > 1 && parts.iter().all(|other| other.get(place) == Some(&part));
    let own = |parts: &Vec<&str>| {
        let own: Vec<&str> =
            parts.iter().enumerate().filter(|(place, part)| !is_shared(*place, part)).map(|(_, part)| *part).collect();
        if own.is_empty() { parts.join(SEPARATOR) } else { own.join(SEPARATOR) }
    };
    parts.iter().map(own).collect()
}

/// A name whose lines can break only between its parts.
pub fn breaking_between_parts(name: &str) -> String {
    let parts: Vec<String> = name.split(SEPARATOR).map(|part| part.replace(' ', "\u{a0}")).collect();
    parts.join(BREAKABLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_drawn_runs_show_what_differs_among_them() {
        let names = ["fp32 · TF32 conv · 1 GPU · repeat 1", "fp64 · TF32 conv · 4 GPUs · repeat 1"];
        assert_eq!(without_shared(&names), ["fp32 · 1 GPU", "fp64 · 4 GPUs"]);
        assert_eq!(without_shared(&names[..1]), names[..1]);
        assert_eq!(without_shared(&["a · b", "a · b"]), ["a · b", "a · b"]);
    }

    #[test]
    fn a_brief_name_has_its_levels_alone() {
        assert_eq!(
            levels_alone("fp32 · TF32 conv · pin_memory off · 1 GPU · repeat 1"),
            "fp32 · conv · off · 1 GPU · repeat 1"
        );
    }

    #[test]
    fn lines_break_between_the_parts_of_a_name_alone() {
        let name = breaking_between_parts("fp32 · TF32 conv · 1 GPU");
        assert_eq!(name.split(' ').collect::<Vec<_>>(), ["fp32\u{a0}·", "TF32\u{a0}conv\u{a0}·", "1\u{a0}GPU"]);
    }
}
