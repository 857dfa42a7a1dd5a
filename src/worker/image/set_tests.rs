//! Reading a set: what is decoded, left out, refused and shared.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use multicard::dataset::{FileFormat, ImageSet, make_files};
use multicard::plan::image::{self, Scenario};
use multicard::protocol::RankPlace;
use tch::Device;

use super::*;
use crate::image::testing::{levels, settings};

fn make(folder: &Path) {
    let part = |count: usize| Images {
        rows: 28,
        columns: 28,
        pixels: (0..count * 784).map(|index| (index * 13 % 256) as u8).collect(),
        labels: (0..count).map(|index| (index % 10) as u8).collect(),
    };
    let set = ImageSet { train: part(20), test: part(10) };
    make_files(&set, folder, 12, FileFormat::Png, &mut |_, _| ControlFlow::Continue(())).unwrap();
}

fn job(folder: &Path, decode: Decode, corrupt: Corrupt) -> Job {
    Job {
        run: "run".into(),
        data_folder: folder.into(),
        warm_up_steps: 4,
        folder: folder.join("run"),
        ranks: vec![RankPlace::on_cpu(0, 1)],
        ..Job::new(
            image::KEY.into(),
            levels(&[]),
            settings().shape(),
            DataSet::Folder { folder: folder.into(), decode, corrupt }.into(),
        )
    }
}

fn cell(train_images: usize) -> ImageSettings {
    let scenario = Scenario::B;
    ImageSettings { scenario, image_size: 320, train_images, test_images: 2, loader_workers: 2, ..settings() }
}

fn bytes(samples: &Samples) -> &[u8] {
    let Content::Bytes { pixels, .. } = &samples.content else { panic!("files are not in memory") };
    pixels
}

/// Breaks the third file of the list.
fn break_one(folder: &Path) -> String {
    let path = dataset::list_files(folder).unwrap().train.paths[2].clone();
    fs::write(&path, "no image").unwrap();
    path.display().to_string()
}

#[test]
fn files_are_decoded_at_the_size_that_the_model_sees_or_left_for_the_epochs() {
    let folder = tempfile::tempdir().unwrap();
    make(&folder.path().join("set"));
    let folder = folder.path().join("set");
    let set = read(&job(&folder, Decode::Once, Corrupt::Stop), &cell(10), None).unwrap();
    assert_eq!((set.train.len(), bytes(&set.train).len()), (10, 10 * 320 * 320 * 3));
    assert!(set.copies.in_effect && set.copies.seen.contains("one process holds 3686400 bytes"), "{:?}", set.copies);
    let set = read(&job(&folder, Decode::EachEpoch, Corrupt::Stop), &cell(10), None).unwrap();
    assert!(matches!(&set.train.content, Content::Files(paths) if paths.len() == 10));
    let refused = read(&job(&folder, Decode::EachEpoch, Corrupt::Stop), &cell(13), None).err().unwrap();
    assert!(refused.to_string().contains("train_images = 13, but the data set has 12"), "{refused}");
}

#[test]
fn a_corrupt_file_ends_the_run_or_is_left_out_as_the_plan_says() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("set");
    make(&folder);
    let path = break_one(&folder);
    let stopped = read(&job(&folder, Decode::Once, Corrupt::Stop), &cell(10), None).err().unwrap();
    assert!(matches!(stopped, Stop::Failed { kind: FailureKind::Input, .. }));
    assert!(stopped.to_string().contains(&format!("{path} cannot be decoded")), "{stopped}");
    for decode in [Decode::Once, Decode::EachEpoch] {
        let set = read(&job(&folder, decode, Corrupt::Skip), &cell(11), None).unwrap();
        assert_eq!(set.train.len(), 11, "the next file takes its place");
        assert!(set.left_out.len() == 1 && set.left_out[0].contains(&path), "{:?}", set.left_out);
        let refused = read(&job(&folder, decode, Corrupt::Skip), &cell(12), None).err().unwrap();
        assert!(refused.to_string().contains("the data set has 11"), "{refused}");
    }
}

#[test]
fn ranks_that_share_map_the_very_same_pixels() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("set");
    make(&folder);
    let alone = read(&job(&folder, Decode::Once, Corrupt::Stop), &cell(11), None).unwrap();
    for data_copy in [DataCopy::Shared, DataCopy::PerRank] {
        let meeting = tempfile::tempdir().unwrap();
        let ranks = [0, 1].map(|rank| {
            let (folder, meeting) = (folder.clone(), meeting.path().to_owned());
            let join = move || {
                let peers = Rc::new(Peers::join_in(&meeting, rank, 2, Device::Cpu).unwrap());
                let settings = ImageSettings { data_copy, gpus: 2, ..cell(11) };
                let set = read(&job(&folder, Decode::Once, Corrupt::Stop), &settings, Some(&peers)).unwrap();
                peers.leave().unwrap();
                set
            };
            thread::Builder::new().name(format!("rank-{rank}")).spawn(join).unwrap()
        });
        for set in ranks.map(|rank| rank.join().unwrap()) {
            assert!(bytes(&set.train) == bytes(&alone.train) && bytes(&set.test) == bytes(&alone.test));
            let says = if data_copy == DataCopy::Shared { "all the same" } else { "of its own" };
            assert!(set.copies.in_effect && set.copies.seen.contains(says), "{:?}", set.copies);
        }
    }
}
