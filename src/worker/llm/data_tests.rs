#![allow(clippy::unwrap_used)]

use multicard::plan::llm::{self, DataSet};
use multicard::plan::{Level, Levels};

use super::*;
use crate::task::{Batch as _, Data as _, Epoch as _};

fn settings(changed: &[(&str, Level)]) -> LlmSettings {
    LlmSettings::from_levels(&llm::spec().levels(changed)).unwrap()
}

/// Generated rows of these lengths.
fn set(lengths: &[usize], packs_of: Option<usize>) -> Arc<TextSet> {
    let stand_in_rows = |rows: Range<usize>| TokenRows::stand_in(DataSet::AlpacaCleaned, rows, lengths, 64, true);
    let rows = lengths.len();
    Arc::new(TextSet {
        train: stand_in_rows(0..rows),
        test: stand_in_rows(0..3),
        padding: 63,
        packs_of,
        pairs: false,
        made_pairs: 0,
        source: "made".into(),
    })
}

fn data(set: &Arc<TextSet>, settings: &LlmSettings, rank: usize) -> TextData {
    let shard = Shard { rank, world_size: settings.gpus, ..Shard::ALL };
    TextData::new(Arc::clone(set), settings, shard, 1, Device::Cpu)
}

fn all(mut epoch: TextEpoch) -> Vec<TextBatch> {
    let mut batches = Vec::new();
    while let Some(batch) = epoch.next().unwrap() {
        batches.push(batch);
    }
    batches
}

fn ids(tensor: &Tensor) -> Vec<Vec<i64>> {
    Vec::<Vec<i64>>::try_from(tensor).unwrap()
}

#[test]
fn batches_are_padded_to_their_longest_row_and_count_its_tokens() {
    let set = set(&[5, 3, 4, 2], None);
    let settings = settings(&[("shuffle", Level::text("off"))]);
    let mut data = data(&set, &settings, 0);
    assert_eq!(data.batches(), 2);
    let batches = all(data.train(1));
    let shapes: Vec<_> = batches.iter().map(|batch| batch.inputs()[0].size()).collect();
    assert_eq!((shapes, batches[0].units()), (vec![vec![2, 5], vec![2, 4]], 8));
    // All but each row's first token are predicted.
    assert_eq!(batches[0].loss_weight(), 6.0);
    let (tokens, labels) = (ids(&batches[0].inputs()[0]), ids(&batches[0].inputs()[1]));
    assert_eq!(tokens[1][3..], [63, 63]);
    assert_eq!(labels[1][3..], [-100, -100]);
    // The model learns the end-of-text token but never the begin-of-text token.
    assert_eq!((labels[1][0], labels[1][2]), (-100, 1));
    let tests = all(data.test(1));
    assert_eq!(tests.iter().map(|batch| batch.inputs()[0].size()[0]).collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn epochs_shuffle_by_seed_and_ranks_share_the_rows() {
    let set = set(&[40; 10], None);
    let settings = settings(&[("gpus", Level::Integer(2)), ("batch_size", Level::Integer(1))]);
    let rows = |rank, epoch| -> Vec<Vec<i64>> {
        let batches = all(data(&set, &settings, rank).train(epoch));
        batches.iter().flat_map(|batch| ids(&batch.inputs()[0])).collect()
    };
    assert_eq!(rows(0, 1), rows(0, 1));
    assert_ne!(rows(0, 1), rows(0, 2));
    let mut both = [rows(0, 1), rows(1, 1)].concat();
    both.sort_unstable();
    both.dedup();
    assert_eq!(both.len(), 10);
}

#[test]
fn a_step_holds_all_its_micro_batches_and_incomplete_steps_are_dropped() {
    let set = set(&[4; 11], None);
    let settings = settings(&[("gradient_accumulation", Level::Integer(2))]);
    let mut data = data(&set, &settings, 0);
    let batches = all(data.train(1));
    assert_eq!((data.batches(), batches.len(), batches[1].inputs()[0].size()), (2, 2, vec![4, 4]));
}

#[test]
fn packs_have_one_length_and_say_where_rows_begin() {
    let set = set(&[3, 2, 4, 1], Some(8));
    let settings = settings(&[("batch_size", Level::Integer(1)), ("shuffle", Level::text("off"))]);
    let batches = all(data(&set, &settings, 0).train(1));
    assert_eq!(batches.len(), 2);
    assert_eq!(ids(&batches[0].inputs()[2]), [[0, 1, 2, 0, 1, 2, 3, 4]]);
    assert_eq!(batches[0].units(), 5);
}

#[test]
fn graphs_see_few_lengths_and_none_above_the_longest_row() {
    assert_eq!([1, 64, 65, 96, 97, 128, 129, 300, 513].map(bucket), [64, 64, 80, 96, 112, 128, 160, 320, 640]);
    let set = set(&[120, 70, 100, 30], None);
    let settings = settings(&[("cuda_graph", Level::text("on")), ("shuffle", Level::text("off"))]);
    let batches = all(data(&set, &settings, 0).train(1));
    let lengths: Vec<_> = batches.iter().map(|batch| batch.inputs()[0].size()[1]).collect();
    assert_eq!(lengths, [120, 112]);
}

#[test]
fn an_epoch_that_is_left_early_ends_its_thread() {
    let set = set(&[4; 1000], None);
    let mut data = data(&set, &settings(&[]), 0);
    let mut epoch = data.train(1);
    assert!(epoch.next().unwrap().is_some());
    drop(epoch);
    assert_eq!(all(data.train(2)).len(), 500);
}

#[test]
fn settings_of_a_cell_are_the_specs() {
    let levels: Levels = llm::spec().levels(&[]);
    assert_eq!(LlmSettings::from_levels(&levels).unwrap(), settings(&[]));
}

#[test]
#[ignore = "needs a GPU: make test-gpu"]
fn rows_travel_from_page_locked_memory_on_a_gpu() {
    shim::cuda::open().unwrap();
    let set = set(&[40; 100], None);
    let settings = settings(&[("pin_memory", Level::text("on"))]);
    let mut on_gpu = TextData::new(Arc::clone(&set), &settings, Shard::ALL, 1, Device::Cuda(0));
    let host = all(data(&set, &settings, 0).train(1));
    for (batch, expected) in all(on_gpu.train(1)).iter().zip(&host) {
        assert_eq!(ids(&batch.inputs()[0].to_device(Device::Cpu)), ids(&expected.inputs()[0]));
    }
}
