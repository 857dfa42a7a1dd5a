//! Lists of CPUs and NUMA nodes in the kernel's notation.

/// Formats sorted numbers as `0-3,8`; duplicates count once.
pub fn ranges_text(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if number <= last.saturating_add(1) => *last = number.max(*last),
            _ => ranges.push((number, number)),
        }
    }
    let text = |(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined() {
        assert_eq!(ranges_text(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
        assert_eq!(ranges_text(&[5]), "5");
        assert_eq!(ranges_text(&[]), "");
        assert_eq!(ranges_text(&[u32::MAX, u32::MAX]), u32::MAX.to_string());
    }
}
