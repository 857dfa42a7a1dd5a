//! Values in groups of equal keys.

/// Values grouped by their keys, in the order in which the keys first occur.
pub fn groups<K: PartialEq, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in pairs {
        match groups.iter_mut().find(|(known, _)| *known == key) {
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
