//! The GPUs left by `CUDA_VISIBLE_DEVICES`, parsed as CUDA parses it.
//!
//! Indices are in PCI bus order, as in NVML. CUDA's default, `FASTEST_FIRST`, differs only on machines with several
//! models of GPU; there, set `CUDA_DEVICE_ORDER=PCI_BUS_ID` or use UUIDs. Ranks get UUIDs, so the order does not affect
//! them.

/// The names of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    /// `GPU-…`.
    pub uuid: String,
    /// `MIG-…` UUIDs of its instances.
    pub mig_uuids: Vec<String>,
}

/// The visible GPUs as indices into `gpus`, in CUDA's order. The first entry decides the kind of the list (indices, `GPU-…` or `MIG-…`). An
/// invalid entry ends the list, and a repeated entry empties it. UUIDs may be abbreviated as long as they are unique.
pub(super) fn visible(variable: Option<&str>, gpus: &[Identity]) -> Vec<usize> {
    let Some(variable) = variable else { return (0..gpus.len()).collect() };
    let find: fn(&str, &[Identity]) -> Option<usize> = match variable.trim() {
        list if list.starts_with("GPU-") => by_uuid,
        list if list.starts_with("MIG-") => by_mig,
        _ => by_index,
    };
    let mut entries: Vec<&str> = Vec::new();
    let mut indices: Vec<usize> = Vec::new();
    for entry in variable.split(',').map(str::trim) {
        let Some(index) = find(entry, gpus) else { break };
        // Two instances of one GPU are not a repetition, although CUDA uses only the first; the GPU is listed once.
        let repeats_gpu = indices.contains(&index);
        if entries.contains(&entry) || (repeats_gpu && !entry.starts_with("MIG-")) {
            return Vec::new();
        }
        entries.push(entry);
        if !repeats_gpu {
            indices.push(index);
        }
    }
    indices
}

/// Parses an index as CUDA does, with C's `strtoul`: it ends at the first character that is not a digit.
fn by_index(entry: &str, gpus: &[Identity]) -> Option<usize> {
    let entry = entry.strip_prefix('+').unwrap_or(entry);
    let end = entry.find(|c: char| !c.is_ascii_digit()).unwrap_or(entry.len());
    entry[..end].parse().ok().filter(|index| *index < gpus.len())
}

fn by_uuid(entry: &str, gpus: &[Identity]) -> Option<usize> {
    if !entry.starts_with("GPU-") {
        return None;
    }
    only(gpus.iter().enumerate().filter(|(_, gpu)| gpu.uuid.starts_with(entry)))
}

/// A MIG instance by UUID, or by the old form `MIG-GPU-<uuid>/<GPU instance>/<compute instance>`.
fn by_mig(entry: &str, gpus: &[Identity]) -> Option<usize> {
    let rest = entry.strip_prefix("MIG-")?;
    if rest.starts_with("GPU-") {
        return by_uuid(rest.split('/').next()?, gpus);
    }
    only(gpus.iter().enumerate().filter(|(_, gpu)| gpu.mig_uuids.iter().any(|uuid| uuid.starts_with(entry))))
}

fn only<'a>(mut found: impl Iterator<Item = (usize, &'a Identity)>) -> Option<usize> {
    let (index, _) = found.next()?;
    found.next().is_none().then_some(index)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn gpus() -> Vec<Identity> {
        let plain = |uuid: &str| Identity { uuid: uuid.to_owned(), mig_uuids: Vec::new() };
        let mut gpus = vec![plain("GPU-aa11"), plain("GPU-aa22"), plain("GPU-bb33"), plain("GPU-cc44")];
        gpus[3].mig_uuids = vec!["MIG-d1".to_owned(), "MIG-d2".to_owned()];
        gpus
    }

    #[test]
    fn unset_shows_all_and_empty_shows_none() {
        assert_eq!(visible(None, &gpus()), [0, 1, 2, 3]);
        assert!(visible(Some(""), &gpus()).is_empty());
        assert!(visible(Some("NoDevFiles"), &gpus()).is_empty());
    }

    #[test]
    fn indices_keep_their_order_and_end_at_the_first_invalid_one() {
        assert_eq!(visible(Some("2,0"), &gpus()), [2, 0]);
        assert_eq!(visible(Some(" 1 , 3 "), &gpus()), [1, 3]);
        assert_eq!(visible(Some("1,7,2"), &gpus()), [1]);
        assert_eq!(visible(Some("0,-1,1"), &gpus()), [0]);
        assert_eq!(visible(Some("0,,1"), &gpus()), [0]);
        assert_eq!(visible(Some("1gpu2,2x"), &gpus()), [1, 2]);
        assert_eq!(visible(Some("0,GPU-bb33"), &gpus()), [0]);
    }

    #[test]
    fn uuids_may_be_abbreviated_but_not_ambiguous() {
        assert_eq!(visible(Some("GPU-bb,GPU-aa1"), &gpus()), [2, 0]);
        assert!(visible(Some("GPU-aa"), &gpus()).is_empty());
        assert_eq!(visible(Some("GPU-bb33,0"), &gpus()), [2]);
    }

    #[test]
    fn an_instance_stands_for_its_gpu() {
        assert_eq!(visible(Some("MIG-d2"), &gpus()), [3]);
        assert_eq!(visible(Some("MIG-d1,MIG-d2"), &gpus()), [3]);
        assert_eq!(visible(Some("MIG-GPU-cc44/1/0"), &gpus()), [3]);
        assert!(visible(Some("MIG-e9"), &gpus()).is_empty());
    }

    #[test]
    fn a_repeated_gpu_empties_the_list() {
        assert!(visible(Some("0,1,0"), &gpus()).is_empty());
        assert!(visible(Some("GPU-bb,GPU-bb33"), &gpus()).is_empty());
    }

    proptest! {
        #[test]
        fn any_value_gives_distinct_gpus_that_exist(value in "([0-9]{0,3}|GPU-[ab]{0,2}|MIG-.{0,3}|[,+ é-]){0,12}") {
            let found = visible(Some(&value), &gpus());
            prop_assert!(found.iter().all(|index| *index < 4));
            prop_assert!((1..found.len()).all(|end| !found[..end].contains(&found[end])));
        }
    }
}
