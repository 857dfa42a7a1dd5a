//! Collectives of several ranks: how they lead to each other, what hides them, and the critical path through them.

use super::*;

/// Two ranks, each with a GPU, that launch these numbers of all-reduces, one in each millisecond.
fn reductions(numbers: [i64; 2]) -> Timeline {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.events");
    for (rank, number) in (0..).zip(numbers) {
        let head = Head { schema_version: "built-in 1".to_owned(), ..Head::default() };
        let mut writer = EventsWriter::append(&file, rank, head).unwrap();
        let process = 100 + i64::from(rank);
        writer.process(process, format!("rank {rank}"));
        let call_lane = writer.lane(&Lane { kind: Kind::Call, process, gpu: None, track: 1 });
        let kernel_lane = writer.lane(&Lane { kind: Kind::Kernel, process, gpu: Some(i64::from(rank)), track: 7 });
        let launch = writer.name("cudaLaunchKernelExC").unwrap();
        let reduce = writer.name("ncclDevKernel_AllReduce_Sum_f32_RING_LL").unwrap();
        for place in 1..=number {
            // The second rank is later by a tenth of a millisecond.
            let at = 1_000_000 * place + 100_000 * i64::from(rank);
            let row = |start, end, name, what| Row { start, end, name, correlation: place, extras: extras(what) };
            writer.push(call_lane, row(at, at + 5_000, launch, What::Call)).unwrap();
            let work = row(at + 20_000, 1_000_000 * place + 500_000, reduce, What::Kernel { graph_node: 0 });
            writer.push(kernel_lane, work).unwrap();
        }
        writer.finish().unwrap();
    }
    Timeline::open(&file, &mut go).unwrap()
}

/// The events of the row of a rank whose name begins like this.
fn found(timeline: &Timeline, rank: &str, name: &str) -> Vec<Found> {
    let is_it = |row: &TimelineRow| row.group.starts_with(rank) && row.name.starts_with(name);
    let row = timeline.rows().iter().position(is_it).unwrap();
    let items = timeline.items(row, (i64::MIN, i64::MAX)).unwrap();
    items.into_iter().map(|item| Found { row, item }).collect()
}

#[test]
fn a_launch_leads_to_its_collective_and_on_to_the_same_collective_of_the_other_rank() {
    let timeline = reductions([5, 5]);
    let [calls, own, others] = [("rank 0", "CUDA calls"), ("rank 0", "NCCL"), ("rank 1", "NCCL")]
        .map(|(rank, name)| found(&timeline, rank, name));
    assert_eq!(own.len(), 5);
    let of_call = timeline.flow(&calls[2]).unwrap();
    let expected = Flow { call: None, launched: vec![own[2]], peers: vec![others[2]], has_unknown_peers: false };
    assert_eq!(of_call, expected);
    let of_kernel = timeline.flow(&own[2]).unwrap();
    assert_eq!(of_kernel, Flow { call: Some(calls[2]), launched: Vec::new(), ..expected });
    assert_eq!(timeline.flow(&others[4]).unwrap().peers, [own[4]]);
    // If a rank recorded fewer of them, nobody knows which one it lacks.
    let uneven = reductions([5, 4]);
    let flow = uneven.flow(&found(&uneven, "rank 0", "NCCL")[1]).unwrap();
    assert!(flow.peers.is_empty() && flow.has_unknown_peers && flow.call.is_some(), "{flow:?}");
}

#[test]
fn collectives_of_hosts_lead_to_each_other_and_waits_for_them_and_other_ranges_to_nothing() {
    let timeline = buckets_on_hosts();
    let [own, others] = ["rank 0", "rank 1"].map(|rank| found(&timeline, rank, "collectives"));
    assert_eq!(own.len(), 60);
    for place in [0, 1, 31] {
        assert_eq!(timeline.flow(&own[place]).unwrap(), Flow { peers: vec![others[place]], ..Flow::default() });
    }
    for (row, items) in items(&timeline).into_iter().enumerate() {
        for item in items.into_iter().filter(|_| timeline.rows()[row].kind == Kind::Range) {
            assert!(!timeline.has_flow(&Found { row, item }), "{}", timeline.name(item.label));
        }
    }
}

#[test]
fn communication_is_hidden_by_other_kernels_waits_for_the_slowest_or_is_exposed() {
    let overlapped = made_on_gpu(|fixture, start| {
        fixture.kernel(start, start + 600_000, 3).kernel(start + 400_000, start + 900_000, 4)
    });
    let [collective] = &overlapped.collectives[..] else { panic!("{:?}", overlapped.collectives) };
    assert_eq!((collective.name.as_str(), collective.calls), ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 30));
    let ms = |collective: &Collective| {
        [collective.total_ns, collective.hidden_ns, collective.waiting_ns.unwrap(), collective.exposed_ns]
            .map(|ns| ns / 1_000_000)
    };
    assert_eq!(ms(collective), [15, 6, 0, 9]);
    let quick: &[(&str, i64)] = &[("forward", 200_000), ("all_reduce", 460_000)];
    let slow: &[(&str, i64)] = &[("forward", 600_000), ("all_reduce", 60_000)];
    let waiting = made(&[quick, quick, slow], 50, &[0]);
    let [collective] = &waiting.collectives[..] else { panic!("{:?}", waiting.collectives) };
    assert_eq!((collective.name.as_str(), collective.calls, ms(collective)), ("all_reduce", 150, [49, 0, 40, 9]));
    let twice: &[(&str, i64)] = &[("forward", 600_000), ("all_reduce", 30_000), ("all_reduce 2", 30_000)];
    let uneven = made(&[quick, twice], 10, &[0]);
    assert!(uneven.collectives.iter().all(|collective| collective.waiting_ns.is_none()), "{:?}", uneven.collectives);
}

/// A range, or a collective with its bytes, and its times in microseconds.
type Made = (&'static str, Option<u64>, (i64, i64));

/// Steps of 1 ms of ranks without GPUs: by rank, ranges of its main thread and collectives of another one.
fn on_hosts(ranks: &[&[Made]]) -> Timeline {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.events");
    for (rank, events) in (0..).zip(ranks) {
        let mut recorder = Recorder::as_process(&file, rank, i64::from(rank) + 100).unwrap();
        for step in 1..=20 {
            for (name, bytes, (start, end)) in *events {
                let span = (1_000_000 * step + 1000 * start, 1_000_000 * step + 1000 * end);
                match bytes {
                    Some(bytes) => recorder.collective(name, *bytes, 2, span).unwrap(),
                    None => recorder.range(name, 1, span).unwrap(),
                }
            }
            recorder.range("step", 1, (1_000_000 * step, 1_000_000 * (step + 1))).unwrap();
        }
        recorder.finish(1).unwrap();
    }
    Timeline::open(&file, &mut go).unwrap()
}

/// The second bucket of the first rank waits for that of the second; the first one is hidden, and a small one follows.
fn buckets_on_hosts() -> Timeline {
    let with_ready = |ready: i64| {
        [
            ("forward", None, (0, 300)),
            ("backward", None, (300, 800)),
            ("gloo:all_reduce", Some(2000), (400, 500)),
            ("gloo:all_reduce", Some(1000), (ready, 770)),
            // The thread takes a moment from one to the next.
            ("gloo:all_reduce", Some(4), (775, 790)),
            ("wait for ranks", None, (ready, 800)),
            ("all_reduce", None, (800, 801)),
            ("optimizer", None, (801, 1000)),
        ]
    };
    on_hosts(&[&with_ready(600), &with_ready(700)])
}

#[test]
fn the_largest_part_of_computing_is_called_most_of_it_only_above_half_of_it() {
    let sentence = |timeline: Timeline| timeline.split(&mut go).unwrap().binding.sentence;
    let below = sentence(buckets_on_hosts());
    assert!(below.contains(", the largest part of it ") && below.contains(" of the step). "), "{below}");
    let events: &[Made] =
        &[("forward", None, (0, 100)), ("backward", None, (100, 900)), ("optimizer", None, (900, 1000))];
    let above = sentence(on_hosts(&[events, events]));
    assert!(above.contains(", most of it ") && above.contains("(80 % of the step). "), "{above}");
}

#[test]
fn collectives_of_hosts_are_told_apart_by_size_and_hidden_while_their_rank_computes() {
    let timeline = buckets_on_hosts();
    assert!(timeline.rows().iter().any(|row| row.name == "collectives · thread 2"));
    let split = timeline.split(&mut go).unwrap();
    let parts_of = |step: &StepSplit| {
        [Part::Straggler, Part::Communication, Part::Forward, Part::Backward]
            .map(|part| step.parts[part as usize] / 1000)
    };
    assert_eq!(parts_of(&split.steps[5]), [100, 100, 300, 300]);
    assert_eq!(parts_of(&split.steps[25]), [0, 100, 300, 400]);
    let us = |collective: &Collective| {
        [collective.total_ns, collective.hidden_ns, collective.waiting_ns.unwrap(), collective.exposed_ns]
            .map(|ns| ns / 1000 / (collective.calls / 2))
    };
    let [second, first, last] = &split.collectives[..] else { panic!("{:?}", split.collectives) };
    assert_eq!((second.name.as_str(), second.bytes, us(second)), ("gloo:all_reduce", Some(1000), [240, 0, 100, 140]));
    assert_eq!((last.bytes, us(last)), (Some(4), [30, 0, 0, 30]));
    assert_eq!((first.name.as_str(), first.bytes, us(first)), ("gloo:all_reduce", Some(2000), [200, 200, 0, 0]));
    let sentence = &split.binding.sentence;
    assert!(sentence.starts_with("Limited by computing") && !sentence.contains("does not distinguish"), "{sentence}");
    let waits: &[Made] = &[
        ("forward", None, (0, 200)),
        ("backward", None, (200, 900)),
        ("gloo:all_reduce", Some(1000), (300, 900)),
        ("wait for ranks", None, (300, 900)),
        ("optimizer", None, (900, 1000)),
    ];
    let bound = on_hosts(&[waits, waits]).split(&mut go).unwrap().binding;
    assert_eq!(bound.part, Some(Part::Communication), "{}", bound.sentence);
    assert!(bound.sentence.contains("60 % [60 %, 60 %]"), "{}", bound.sentence);
}

#[test]
fn launches_over_nccl_whose_kernels_were_not_recorded_are_no_communication_of_hosts() {
    let launches: &[Made] = &[
        ("forward", None, (0, 200)),
        ("backward", None, (200, 900)),
        ("ncclAllReduce", Some(1000), (300, 900)),
        ("optimizer", None, (900, 1000)),
    ];
    let split = on_hosts(&[launches, launches]).split(&mut go).unwrap();
    assert!(split.collectives.is_empty() && split.part(Part::Communication).is_none(), "{:?}", split.collectives);
}

#[test]
fn the_critical_path_of_hosts_goes_through_the_collective_that_was_waited_for_to_the_rank_that_began_it_last() {
    let (path, parts) = path(&buckets_on_hosts());
    let us: Vec<(Part, u64)> = parts.into_iter().map(|(part, ns)| (part, ns / 1000)).collect();
    let expected = [
        (Part::Optimizer, 199),
        (Part::Communication, 90),
        (Part::Synchronisation, 10),
        (Part::Forward, 300),
        (Part::Backward, 400),
        (Part::Step, 1),
    ];
    assert_eq!(us, expected);
    let through: Vec<(Part, i64)> = path.segments.iter().map(|segment| (segment.part, segment.process)).collect();
    assert_eq!(through[..2], [(Part::Forward, 101), (Part::Backward, 101)]);
    assert!(through[2..].iter().all(|(_, process)| *process == 100), "{through:?}");
}

#[test]
fn collectives_of_gpus_have_the_size_that_their_rank_told_while_it_launched_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.events");
    let mut rank = Recorder::as_process(&file, 0, 100).unwrap();
    let mut tracer =
        EventsWriter::append(&file, 1, Head { schema_version: "built-in 1".to_owned(), ..Head::default() }).unwrap();
    tracer.process(100, "rank 0".to_owned());
    let lane = |kind, gpu, track| Lane { kind, process: 100, gpu, track };
    let (calls, kernels) = (tracer.lane(&lane(Kind::Call, None, 1)), tracer.lane(&lane(Kind::Kernel, Some(0), 7)));
    let (launch, reduce) =
        (tracer.name("cudaLaunchKernelExC").unwrap(), tracer.name("ncclDevKernel_AllReduce_Sum_f32_RING_LL").unwrap());
    for step in 0..10 {
        let at = 1_000_000 * (step + 1);
        // Two buckets, one that was launched outside of any collective, as a graph's are, and one during two collectives at once.
        for (place, bytes) in [(0, &[2000][..]), (1, &[1000]), (2, &[]), (3, &[10, 20])] {
            let called = at + 100_000 * place;
            for (more, bytes) in (0..).zip(bytes) {
                rank.collective("nccl:all_reduce", *bytes, 1, (called + 1000 * more, called + 20_000)).unwrap();
            }
            let correlation = 10 * step + place + 1;
            let row = |start, end, name, what| Row { start, end, name, correlation, extras: extras(what) };
            tracer.push(calls, row(called + 5_000, called + 9_000, launch, What::Call)).unwrap();
            // The GPU is far behind its host.
            let begun = at + 400_000 + 100_000 * place;
            tracer.push(kernels, row(begun, begun + 50_000, reduce, What::Kernel { graph_node: 0 })).unwrap();
        }
        rank.range("step", 1, (at, at + 1_000_000)).unwrap();
    }
    rank.finish(1).unwrap();
    tracer.finish().unwrap();
    let split = Timeline::open(&file, &mut go).unwrap().split(&mut go).unwrap();
    let mut seen: Vec<_> = split
        .collectives
        .iter()
        .map(|collective| {
            (collective.bytes.ok_or(collective.no_size), collective.calls, collective.total_ns, collective.exposed_ns)
        })
        .collect();
    seen.sort_unstable();
    let without = |reason| (Err(Some(reason)), 10, 500_000, 500_000);
    let with = |bytes| (Ok(bytes), 10, 500_000, 500_000);
    assert_eq!(seen, [with(1000), with(2000), without(NoSize::NoLaunch), without(NoSize::Overlapping)]);
    assert!(
        split.collectives.iter().all(|numbers_of| numbers_of.name == "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
        "{:?}",
        split.collectives
    );
}
