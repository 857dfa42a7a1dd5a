//! Sentences that differ only in numbers, merged into one.

use std::collections::HashMap;

/// The number of letters of a date: `2026-08-01`.
const DATE: usize = 10;

/// Merges sentences that differ only in numbers or dates, and writes their ranges: `it tells 0.0042 to 0.0045 s a step`.
pub(super) fn folded<'r>(stories: Vec<(String, Vec<&'r str>)>) -> Vec<(String, Vec<&'r str>)> {
    let text = |parts: &[String]| parts.iter().step_by(2).cloned().collect::<Vec<String>>();
    let number = |part: &String| part.parse::<f64>().unwrap_or(f64::NAN);
    let mut groups: Vec<(Vec<Vec<String>>, Vec<&'r str>)> = Vec::new();
    let mut places: HashMap<Vec<String>, usize> = HashMap::new();
    for (story, runs) in stories {
        let own = parts(&story);
        let place = *places.entry(text(&own)).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((all, known)) => {
                all.push(own);
                known.extend(runs);
            }
            None => groups.push((vec![own], runs)),
        }
    }
    let part = |all: &[Vec<String>], place: usize| -> String {
        let mut values: Vec<&String> = all.iter().map(|parts| &parts[place]).collect();
        // Dates, which are no numbers, are in order as texts.
        values.sort_by(|a, b| number(a).total_cmp(&number(b)).then_with(|| a.cmp(b)));
        match (values[0], values[values.len() - 1]) {
            (low, high) if place.is_multiple_of(2) || low == high => low.clone(),
            (low, high) => format!("{low} to {high}"),
        }
    };
    let story = |all: &[Vec<String>]| (0..all[0].len()).map(|place| part(all, place)).collect::<String>();
    groups.into_iter().map(|(all, runs)| (story(&all), runs)).collect()
}

/// Text and values (numbers and dates), which alternate.
fn parts(story: &str) -> Vec<String> {
    let letters: Vec<char> = story.chars().collect();
    let mut parts = vec![String::new()];
    let mut place = 0;
    while place < letters.len() {
        let length = value_length(&letters[place..]);
        if length > 0 {
            parts.push(letters[place..place + length].iter().collect());
            parts.push(String::new());
        } else {
            parts.last_mut().into_iter().for_each(|part| part.push(letters[place]));
        }
        place += length.max(1);
    }
    parts
}

/// The number of letters of the date or the number with which letters begin; 0 if they begin with neither.
fn value_length(letters: &[char]) -> usize {
    let is = |place: usize, letter: char| letters.get(place) == Some(&letter);
    let is_digit = |place: usize| letters.get(place).is_some_and(char::is_ascii_digit);
    let is_of_date = |place: usize| if matches!(place, 4 | 7) { is(place, '-') } else { is_digit(place) };
    if (0..DATE).all(is_of_date) && !is_digit(DATE) {
        return DATE;
    }
    let is_of_number = |place: usize| is_digit(place) || (place > 0 && is(place, '.') && is_digit(place + 1));
    (0..letters.len()).take_while(|place| is_of_number(*place)).count()
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

    #[test]
    fn dates_that_differ_are_one_range_of_whole_dates() {
        let story = |date: &str, run: &'static str| (format!("imported from nightly.csv (CSV), {date}"), vec![run]);
        let stories = vec![story("2026-09-14", "c"), story("2026-08-01", "a"), story("2026-08-31", "b")];
        let range = "imported from nightly.csv (CSV), 2026-08-01 to 2026-09-14".to_owned();
        assert_eq!(folded(stories), vec![(range, vec!["c", "a", "b"])]);
    }
}
