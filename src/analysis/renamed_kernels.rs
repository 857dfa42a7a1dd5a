//! Matches kernels that PyTorch's Inductor named differently before and after a change. The names list the operations that a kernel joins,
//! so a small change of a model gives some of its kernels other names. Such kernels are matched by their place in the step.

use std::collections::{BTreeMap, HashSet};

/// The beginning of the names of Inductor's kernels.
pub(super) const INDUCTOR: &str = "triton_";
/// Numbers of calls in a step that differ by less are equal: recordings may begin and end within a step.
const SAME_CALLS: f64 = 0.05;

/// A kernel of a recording.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Placed {
    /// Its name, folded.
    pub name: String,
    /// Its number of calls in a step.
    pub calls: f64,
}

/// The kernels of both sides between which others begin; `None` for the beginning and the end.
type Between<'k> = (Option<&'k str>, Option<&'k str>);

/// The names before and after of kernels that only changed their names. `before` and `after` are all kernels of a recording of each side, in
/// the order in which they begin for the first time.
///
/// A kernel of Inductor that only one side has, and one that only the other side has, are the same kernel if both begin between the same two
/// kernels that both sides have.
/// If several begin there, both sides must have the same number of them, and each must be of the same kind and be called as often as its
/// counterpart.
pub(super) fn renamed(before: &[Placed], after: &[Placed]) -> Vec<(String, String)> {
    let names = |side: &[Placed]| -> HashSet<String> { side.iter().map(|kernel| kernel.name.clone()).collect() };
    let (old, new) = (own(before, &names(after)), own(after, &names(before)));
    let mut pairs = Vec::new();
    for (place, old) in old {
        let new = new.get(&place).map_or(&[][..], Vec::as_slice);
        if old.len() == new.len() && old.iter().zip(new).all(|(old, new)| are_alike(old, new)) {
            pairs.extend(old.iter().zip(new).map(|(old, new)| (old.name.clone(), new.name.clone())));
        }
    }
    pairs
}

/// Inductor's kernels of a side that the other one lacks, by the kernels of both sides between which they begin.
fn own<'k>(side: &'k [Placed], other: &HashSet<String>) -> BTreeMap<Between<'k>, Vec<&'k Placed>> {
    let mut all: BTreeMap<Between<'_>, Vec<&Placed>> = BTreeMap::new();
    let (mut before, mut begun): (Option<&str>, Vec<&Placed>) = (None, Vec::new());
    for kernel in side {
        if other.contains(&kernel.name) {
            all.insert((before, Some(kernel.name.as_str())), std::mem::take(&mut begun));
            before = Some(kernel.name.as_str());
        } else if kernel.name.starts_with(INDUCTOR) {
            begun.push(kernel);
        }
    }
    all.insert((before, None), begun);
    all
}

/// Whether two kernels are of one kind, such as `triton_poi`, and are called as often in a step.
fn are_alike(old: &Placed, new: &Placed) -> bool {
    let kind = |kernel: &Placed| kernel.name.split('_').nth(1).map(str::to_owned);
    kind(old) == kind(new) && (old.calls - new.calls).abs() < SAME_CALLS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(kernels: &[(&str, f64)]) -> Vec<Placed> {
        kernels.iter().map(|(name, calls)| Placed { name: (*name).to_owned(), calls: *calls }).collect()
    }

    fn pairs(before: &[(&str, f64)], after: &[(&str, f64)]) -> Vec<(String, String)> {
        renamed(&side(before), &side(after))
    }

    const GEMM: (&str, f64) = ("gemm", 24.0);
    const LOSS: (&str, f64) = ("nll_loss", 1.0);

    #[test]
    fn kernels_between_the_same_two_kernels_are_the_same_whatever_their_names() {
        let found = pairs(
            &[
                ("triton_poi_fused_add", 1.0),
                GEMM,
                ("triton_poi_fused_gelu", 24.0),
                ("triton_red_fused_sum", 1.0),
                LOSS,
            ],
            &[
                ("triton_poi_fused_add", 1.0),
                GEMM,
                ("triton_poi_fused_gelu_mul", 24.0),
                ("triton_red_fused_mean", 1.0),
                LOSS,
            ],
        );
        let expected =
            [("triton_poi_fused_gelu", "triton_poi_fused_gelu_mul"), ("triton_red_fused_sum", "triton_red_fused_mean")];
        assert_eq!(found, expected.map(|(old, new)| (old.to_owned(), new.to_owned())));
        let at_the_ends = pairs(
            &[("triton_poi_a", 1.0), GEMM, ("triton_poi_b", 2.0)],
            &[("triton_poi_c", 1.0), GEMM, ("triton_poi_d", 2.0)],
        );
        assert_eq!(at_the_ends.len(), 2);
    }

    #[test]
    fn kernels_that_are_not_certainly_the_same_are_not_matched() {
        let gelu = ("triton_poi_fused_gelu", 24.0);
        for after in [
            // Elsewhere, twice, as another kind, more often, and not made by Inductor.
            &[("triton_poi_fused_mul", 24.0), GEMM, LOSS][..],
            &[GEMM, ("triton_poi_fused_mul", 24.0), ("triton_poi_fused_exp", 24.0), LOSS],
            &[GEMM, ("triton_red_fused_mul", 24.0), LOSS],
            &[GEMM, ("triton_poi_fused_mul", 12.0), LOSS],
            &[GEMM, ("elementwise_kernel", 24.0), LOSS],
            &[GEMM, LOSS],
        ] {
            assert_eq!(pairs(&[GEMM, gelu, LOSS], after), [], "{after:?}");
        }
        assert_eq!(pairs(&[], &[]), []);
    }
}
