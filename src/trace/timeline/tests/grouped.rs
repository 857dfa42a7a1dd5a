//! Sizes of collectives that NCCL launches together.

use super::*;

/// A call of NCCL: its name, the size of a collective, and how many kernels it launches.
type Called = (&'static str, Option<u64>, i64);

const START: Called = ("ncclGroupStart", None, 0);
const END: Called = ("ncclGroupEnd", None, 1);

/// The sizes of the collectives of a rank whose thread makes these calls, one in each 10 µs from 10 µs on, with the number of kernels of
/// each size. `windows` are the times that were recorded; all if there are none.
fn sizes(calls: &[Called], windows: &[(i64, i64)]) -> Vec<(Result<u64, NoSize>, u64)> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.events");
    let head = Head { schema_version: "built-in 1".to_owned(), windows: windows.to_vec(), ..Head::default() };
    let mut writer = EventsWriter::append(&file, 0, head).unwrap();
    writer.process(100, "rank 0".to_owned());
    let mut lane = |kind, gpu, track| writer.lane(&Lane { kind, process: 100, gpu, track });
    let [ranges, collectives, launches] = [Kind::Range, Kind::Collective, Kind::Call].map(|kind| lane(kind, None, 1));
    let kernels = lane(Kind::Kernel, Some(0), 7);
    let launch = writer.name("cudaLaunchKernelExC").unwrap();
    let kernel = writer.name("ncclDevKernel_AllReduce_Sum_f32_RING_LL").unwrap();
    let mut correlation = 0;
    for (place, (name, bytes, launched)) in (1..).zip(calls) {
        let begin = 10_000 * place;
        let row = |start, end, name, correlation, what| Row { start, end, name, correlation, extras: extras(what) };
        let (lane, what) = match bytes {
            Some(bytes) => (collectives, What::Collective { bytes: *bytes, domain: 1 }),
            None => (ranges, What::Range { domain: 1 }),
        };
        let name = writer.name(name).unwrap();
        writer.push(lane, row(begin, begin + 9_000, name, 0, what)).unwrap();
        for at in (0..*launched).map(|nth| begin + 1_000 * (nth + 1)) {
            correlation += 1;
            writer.push(launches, row(at, at + 500, launch, correlation, What::Call)).unwrap();
            let what = What::Kernel { graph_node: 0 };
            writer.push(kernels, row(at + 500_000, at + 500_600, kernel, correlation, what)).unwrap();
        }
    }
    writer.finish().unwrap();
    let all = Timeline::open(&file, &mut go).unwrap().split(&mut go).unwrap().collectives;
    let size = |collective: &Collective| collective.bytes.ok_or_else(|| collective.no_size.unwrap());
    let mut sizes: Vec<_> = all.iter().map(|collective| (size(collective), collective.calls)).collect();
    sizes.sort_unstable();
    sizes
}

fn reduce(bytes: u64) -> Called {
    ("ncclAllReduce", Some(bytes), 0)
}

#[test]
fn a_single_kernel_of_a_group_is_as_large_as_all_of_its_collectives() {
    assert_eq!(sizes(&[START, reduce(1000), reduce(500), END], &[]), [(Ok(1500), 1)]);
    let nested = [START, START, reduce(32), ("ncclGroupEnd", None, 0), reduce(8), END];
    assert_eq!(sizes(&nested, &[]), [(Ok(40), 1)], "the outermost end launches");
    let (send, receive) = (("ncclSend", Some(100), 0), ("ncclRecv", Some(300), 0));
    assert_eq!(
        sizes(&[START, send, receive, send, receive, END], &[]),
        [(Ok(200), 1)],
        "a rank contributes what it sends"
    );
    assert_eq!(sizes(&[START, receive, receive, END], &[]), [(Ok(600), 1)]);
    let alone = ("ncclAllReduce", Some(7), 1);
    let twice = [alone, START, reduce(1), END, alone, START, reduce(2), reduce(3), END];
    assert_eq!(
        sizes(&twice, &[]),
        [(Ok(1), 1), (Ok(5), 1), (Ok(7), 2)],
        "collectives outside of groups keep their own"
    );
}

#[test]
fn kernels_of_a_group_have_sizes_only_if_it_does_not_matter_which_collectives_they_performed() {
    let two = ("ncclGroupEnd", None, 2);
    assert_eq!(sizes(&[START, reduce(64), reduce(64), two], &[]), [(Ok(64), 2)]);
    assert_eq!(sizes(&[START, reduce(64), reduce(32), two], &[]), [(Err(NoSize::Group), 2)]);
    assert_eq!(sizes(&[START, reduce(64), reduce(64), reduce(64), two], &[]), [(Err(NoSize::Group), 2)]);
    assert_eq!(sizes(&[START, reduce(u64::MAX), reduce(1), END], &[]), [(Err(NoSize::Group), 1)]);
}

#[test]
fn a_group_of_which_only_a_part_was_recorded_has_no_size() {
    let without = [(Err(NoSize::NoLaunch), 1)];
    assert_eq!(sizes(&[reduce(5), END], &[]), without, "it began before the recording");
    let calls = [START, reduce(5), reduce(7), END, START, reduce(9), END];
    assert_eq!(sizes(&calls, &[]), [(Ok(9), 1), (Ok(12), 1)]);
    // The time between the windows is that between the two collectives.
    let [before, after] = [(5_000, 29_200), (29_800, 99_000)];
    assert_eq!(sizes(&calls, &[before, after]), [(Ok(9), 1), without[0]]);
    assert_eq!(sizes(&[START, END], &[]), [(Err(NoSize::NotRecorded), 1)]);
}
