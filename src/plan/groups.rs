//! Values in groups of equal keys.

use std::collections::HashMap;
use std::hash::Hash;

/// Values grouped by their keys, in the order in which the keys first occur.
pub fn groups<K: Hash + Eq + Clone, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut places: HashMap<K, usize> = HashMap::new();
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in pairs {
        let place = *places.entry(key.clone()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::groups;

    #[test]
    fn values_are_grouped_in_the_order_in_which_their_keys_first_occur() {
        let grouped = groups([("b", 1), ("a", 2), ("b", 3), ("c", 4)]);
        assert_eq!(grouped, [("b", vec![1, 3]), ("a", vec![2]), ("c", vec![4])]);
    }
}
