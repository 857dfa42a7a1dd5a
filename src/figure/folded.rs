//! Sentences that differ only in numbers, merged into one.

/// Merges sentences that differ only in numbers, and writes the ranges of the numbers: `it tells 0.0042 to 0.0045 s a step`.
pub(super) fn folded<'r>(stories: Vec<(String, Vec<&'r str>)>) -> Vec<(String, Vec<&'r str>)> {
    // Text and numbers alternate.
    let parts = |story: &str| -> Vec<String> {
        let mut parts = vec![String::new()];
        let letters: Vec<char> = story.chars().collect();
        for (place, letter) in letters.iter().enumerate() {
            let in_number = parts.len() % 2 == 0;
            let point = *letter == '.' && in_number && letters.get(place + 1).is_some_and(char::is_ascii_digit);
            if (letter.is_ascii_digit() || point) != in_number {
                parts.push(String::new());
            }
            parts.last_mut().into_iter().for_each(|part| part.push(*letter));
        }
        parts
    };
    let text = |parts: &[String]| parts.iter().step_by(2).cloned().collect::<Vec<_>>();
    let number = |part: &String| part.parse::<f64>().unwrap_or(f64::NAN);
    let mut groups: Vec<(Vec<Vec<String>>, Vec<&'r str>)> = Vec::new();
    for (story, runs) in stories {
        let own = parts(&story);
        match groups.iter_mut().find(|(all, _)| text(&all[0]) == text(&own)) {
            Some((all, known)) => {
                all.push(own);
                known.extend(runs);
            }
            None => groups.push((vec![own], runs)),
        }
    }
    let part = |all: &[Vec<String>], place: usize| -> String {
        let mut values: Vec<&String> = all.iter().map(|parts| &parts[place]).collect();
        values.sort_by(|a, b| number(a).total_cmp(&number(b)));
        match (values[0], values[values.len() - 1]) {
            (low, high) if place.is_multiple_of(2) || low == high => low.clone(),
            (low, high) => format!("{low} to {high}"),
        }
    };
    let story = |all: &[Vec<String>]| (0..all[0].len()).map(|place| part(all, place)).collect::<String>();
    groups.into_iter().map(|(all, runs)| (story(&all), runs)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stories_that_differ_in_numbers_alone_are_one_with_ranges() {
        let story = |text: &str, run: &'static str| (text.to_owned(), vec![run]);
        let stories = vec![
            story("it tells 0.0046 s a step, its lines arrived every 12 s", "a"),
            story("the loss of step 11 is not a finite number", "b"),
            story("it tells 0.0042 s a step, its lines arrived every 9.5 s", "c"),
            story("it tells 0.0044 s a step, its lines arrived every 10 s", "d"),
        ];
        let expected = vec![
            ("it tells 0.0042 to 0.0046 s a step, its lines arrived every 9.5 to 12 s".to_owned(), vec!["a", "c", "d"]),
            ("the loss of step 11 is not a finite number".to_owned(), vec!["b"]),
        ];
        assert_eq!(folded(stories), expected);
    }
}
