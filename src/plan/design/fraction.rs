//! Two-level fractions: regular fractions with minimum aberration, and the designs of Plackett and Burman.
//!
//! Regular: the generators of J. Chen, D. X. Sun and C. F. J. Wu, *International Statistical Review* 61, 1993, tables 3 to 6, in Yates's
//! numbering: factor A is column 1, B column 2, C column 4, and column 7 is their product ABC. Irregular: R. L. Plackett and J. P. Burman,
//! *Biometrika* 33, 1946; their cyclic rows for a prime number of columns are Legendre symbols (R. E. A. C. Paley, 1933).

/// For each number of runs, the generators of each number of factors, from one generator on.
const REGULAR: [(usize, &[&[usize]]); 6] = [
    (4, &[&[3]]),
    (8, &[&[7], &[3, 5], &[3, 5, 6], &[3, 5, 6, 7]]),
    (
        16,
        &[
            &[15],
            &[7, 11],
            &[7, 11, 13],
            &[7, 11, 13, 14],
            &[3, 5, 9, 14, 15],
            &[3, 5, 6, 9, 14, 15],
            &[3, 5, 6, 9, 10, 13, 14],
            &[3, 5, 6, 9, 10, 13, 14, 15],
            &[3, 5, 6, 7, 9, 10, 11, 12, 13],
            &[3, 5, 6, 7, 9, 10, 11, 12, 13, 14],
            &[3, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15],
        ],
    ),
    (
        32,
        &[
            &[31],
            &[7, 27],
            &[7, 11, 29],
            &[7, 11, 19, 29],
            &[7, 11, 19, 29, 30],
            &[7, 11, 13, 19, 21, 25],
            &[7, 11, 13, 14, 19, 21, 25],
            &[7, 11, 13, 14, 19, 21, 22, 25],
            &[7, 11, 13, 14, 19, 21, 22, 25, 26],
            &[7, 11, 13, 14, 19, 21, 22, 25, 26, 28],
        ],
    ),
    (
        64,
        &[
            &[63],
            &[15, 51],
            &[7, 27, 45],
            &[7, 27, 43, 53],
            &[7, 11, 29, 45, 51],
            &[7, 11, 29, 45, 51, 62],
            &[7, 11, 21, 25, 38, 58, 60],
            &[7, 11, 19, 30, 37, 41, 49, 60],
            &[7, 11, 19, 30, 37, 41, 49, 60, 63],
        ],
    ),
    (
        128,
        &[
            &[127],
            &[31, 103],
            &[31, 103, 43],
            &[31, 103, 43, 85],
            &[31, 103, 43, 85, 121],
            &[31, 103, 43, 85, 44, 86],
            &[31, 103, 43, 85, 46, 61, 114],
            &[31, 103, 43, 85, 46, 61, 114, 67],
        ],
    ),
];
/// The numbers of runs of Plackett and Burman's designs that are made from the Legendre symbols of a prime.
const PRIMES: [usize; 10] = [12, 20, 24, 44, 48, 60, 68, 72, 80, 84];

/// The columns of a regular fraction in Yates's numbering, one for each factor. With as many runs as combinations, the design has all
/// combinations. `None` if there is no such fraction.
pub(super) fn columns(factors: usize, runs: usize) -> Option<Vec<usize>> {
    let basic = runs.checked_ilog2().filter(|_| runs.is_power_of_two())? as usize;
    let mut columns: Vec<usize> = (0..basic.min(factors)).map(|place| 1 << place).collect();
    if factors > basic {
        let (_, known) = REGULAR.iter().find(|(known, _)| *known == runs)?;
        columns.extend_from_slice(known.get(factors - basic - 1)?);
    }
    (basic <= factors).then_some(columns)
}

/// The numbers of runs for which there is a regular fraction of this many factors, the smallest first; the last one is the full grid if it
/// has at most 128 runs.
pub(super) fn sizes(factors: usize) -> Vec<usize> {
    let sizes = REGULAR.iter().map(|(runs, _)| *runs);
    std::iter::once(2).chain(sizes).filter(|runs| columns(factors, *runs).is_some()).collect()
}

/// The runs of a regular fractional factorial design: for each run, the level of each factor, 0 or 1. The first factor varies fastest.
pub(super) fn regular(columns: &[usize], runs: usize) -> Vec<Vec<usize>> {
    // A product of −1 and 1 is 1 if an even number of its factors is −1.
    let level = |run: usize, column: usize| usize::from((column & !run).count_ones().is_multiple_of(2));
    (0..runs).map(|run| columns.iter().map(|column| level(run, *column)).collect()).collect()
}

/// The numbers of runs of Plackett and Burman's designs.
pub(super) const PLACKETT_BURMAN: [usize; 10] = PRIMES;

/// The runs of Plackett and Burman's design for this number of factors: for each run, the level of each factor, 0 or 1. `None` if there is
/// no such design with this number of runs.
pub(super) fn plackett_burman(factors: usize, runs: usize) -> Option<Vec<Vec<usize>>> {
    let prime = PRIMES.contains(&runs).then(|| runs - 1).filter(|prime| factors <= *prime)?;
    let squares: Vec<usize> = (1..prime).map(|number| number * number % prime).collect();
    let first = |place: usize| usize::from(place == 0 || squares.contains(&place));
    // The cyclic shifts of the first row, to the right, and a last row in which all factors have their first level.
    let row = |shift: usize| (0..factors).map(|factor| first((factor + prime - shift) % prime)).collect();
    Some((0..prime).map(row).chain([vec![0; factors]]).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The numbers of words of the defining relation by their length: sets of factors whose product is the same in all runs.
    fn words(points: &[Vec<usize>], factors: usize) -> Vec<usize> {
        let signs: Vec<u32> =
            points.iter().map(|point| point.iter().rev().fold(0, |bits, level| bits << 1 | *level as u32)).collect();
        let mut words = vec![0; factors + 1];
        for set in 1_u32..1 << factors {
            let parity = |bits: &u32| (bits & set).count_ones() % 2;
            if signs.iter().all(|bits| parity(bits) == parity(&signs[0])) {
                words[set.count_ones() as usize] += 1;
            }
        }
        words
    }

    #[test]
    fn regular_fractions_have_the_words_of_the_catalogue_of_frf2() {
        let golden = include_str!("../../../tests/golden/designs/fractions.csv");
        let mut seen = 0;
        for line in golden.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let (factors, runs): (usize, usize) = (fields[0].parse().unwrap(), fields[1].parse().unwrap());
            let points = regular(&columns(factors, runs).unwrap(), runs);
            assert_eq!(points.iter().collect::<std::collections::HashSet<_>>().len(), runs, "{line}");
            let words = words(&points, factors);
            let resolution = (1..=factors).find(|length| words[*length] > 0).unwrap();
            let lengths: Vec<String> =
                (3..=6).map(|length| words.get(length).copied().unwrap_or(0).to_string()).collect();
            assert_eq!((resolution.to_string().as_str(), lengths.join(" ").as_str()), (fields[2], fields[3]), "{line}");
            let generators: Vec<String> =
                columns(factors, runs).unwrap()[runs.ilog2() as usize..].iter().map(ToString::to_string).collect();
            assert_eq!(generators.join(" "), fields[5], "{line}");
            seen += 1;
        }
        assert_eq!(seen, 43);
        assert_eq!(sizes(5), [8, 16, 32]);
        assert_eq!(sizes(2), [4]);
        assert!(columns(5, 4).is_none() && columns(5, 12).is_none() && columns(16, 128).is_none());
    }

    #[test]
    fn plackett_and_burmans_first_rows_are_the_published_ones_and_all_columns_are_orthogonal() {
        let published = [
            (12, "++-+++---+-"),
            (20, "++--++++-+-+----++-"),
            (24, "+++++-+-++--++--+-+----"),
            (44, "++--+-+--+++-+++++---+-+++-----+---++-+-++-"),
            (48, "+++++-++++--+-+-+++--+--++-++---+-+-++----+----"),
        ];
        for (runs, first) in published {
            let row = &plackett_burman(runs - 1, runs).unwrap()[0];
            let signs: String = row.iter().map(|level| if *level == 1 { '+' } else { '-' }).collect();
            assert_eq!(signs, first);
        }
        for runs in PLACKETT_BURMAN {
            let points = plackett_burman(runs - 1, runs).unwrap();
            for (one, other) in [(0, 1), (2, 7), (runs - 3, runs - 2)] {
                let equal = points.iter().filter(|point| point[one] == point[other]).count();
                assert_eq!((points.len(), equal), (runs, runs / 2), "{runs}: {one} {other}");
                assert_eq!(points.iter().filter(|point| point[one] == 1).count(), runs / 2);
            }
        }
        assert!(plackett_burman(12, 12).is_none() && plackett_burman(3, 16).is_none());
    }
}
