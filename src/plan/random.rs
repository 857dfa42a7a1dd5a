//! Seeded draws that are the same in every version of the libraries, so that what was drawn today can be drawn again years later.

use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// Fisher and Yates: every order is equally likely.
pub(super) fn shuffle<T>(places: &mut [T], random: &mut ChaCha8Rng) {
    for end in (1..places.len()).rev() {
        places.swap(end, draw(random, end + 1));
    }
}

/// A whole number below `count`, by multiplication: the same in every version of the libraries. Its bias is below `count` in 2⁶⁴.
pub(super) fn draw(random: &mut ChaCha8Rng, count: usize) -> usize {
    ((u128::from(random.next_u64()) * count as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn a_shuffle_favours_no_place() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let mut counts = [[0_u32; 4]; 4];
        for _ in 0..8000 {
            let mut places = vec![0, 1, 2, 3];
            shuffle(&mut places, &mut random);
            places.iter().enumerate().for_each(|(place, cell)| counts[*cell][place] += 1);
        }
        // 2000 expected, standard deviation 39.
        assert!(counts.iter().flatten().all(|count| (1800..2200).contains(count)), "{counts:?}");
    }
}
