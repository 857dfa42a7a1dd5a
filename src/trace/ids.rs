//! Maps keyed by ids, with a fast hash: every row looks them up.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// A map keyed by one or a few integers.
pub(super) type ById<K, V> = HashMap<K, V, Ids>;

/// Hashes integers with one multiplication each, from a random seed, since a file could contain ids made to collide.
#[derive(Clone)]
pub(super) struct Ids(u64);

impl Default for Ids {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for Ids {
    type Hasher = Mixer;

    fn build_hasher(&self) -> Mixer {
        Mixer(self.0)
    }
}

pub(super) struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        // Uses both halves of the product, so that each bit of the number affects all of the hash.
        let product = u128::from(self.0 ^ value) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product as u64) ^ (product >> 64) as u64;
    }

    #[inline]
    fn write_i64(&mut self, value: i64) {
        self.write_u64(value as u64);
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    #[inline]
    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_that_differ_in_few_bits_differ_in_the_low_bits_of_their_hashes() {
        let ids = Ids::default();
        for step in [1_u64, 1 << 20, 1 << 40, 1 << 56] {
            let low: HashSet<u64> = (0..256).map(|id| ids.hash_one(id * step) & 0xffff).collect();
            assert!(low.len() > 240, "{step}: {}", low.len());
        }
    }
}
