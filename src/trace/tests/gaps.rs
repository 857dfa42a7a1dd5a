//! Pauses of GPUs and what explains them.

use super::fixture::Fixture;

const MS: i64 = 1_000_000;

/// Two kernels with a pause between them from 10 to 20 ms.
fn paused() -> Fixture {
    Fixture::new().kernel(9 * MS, 10 * MS, 3).kernel(20 * MS, 21 * MS, 3)
}

#[track_caller]
fn cause(fixture: Fixture) -> String {
    let trace = fixture.import().unwrap();
    let gap = trace.gaps.iter().find(|gap| gap.length_ns == 10 * MS as u64).expect("the pause of 10 ms");
    assert_eq!(gap.gpu, 0);
    gap.cause.clone()
}

#[test]
fn a_pause_is_explained_by_the_calls_in_it() {
    assert_eq!(cause(paused().call(9 * MS, 19 * MS, 2)), "synchronise");
    assert_eq!(cause(paused().call(12 * MS, 16 * MS, 1)), "launch");
    assert_eq!(cause(paused().call(11 * MS, 18 * MS, 5)), "other_call");
    assert_eq!(cause(paused().call(11 * MS, 19 * MS, 1).call(12 * MS, 18 * MS, 5)), "other_call");
    assert_eq!(cause(paused().call(19 * MS, 20 * MS, 1)), "host");
    assert_eq!(cause(paused()), "host");
}

#[test]
fn a_pause_that_a_copy_from_the_host_ends_was_for_data() {
    let fixture = Fixture::new().kernel(9 * MS, 10 * MS, 3).upload(20 * MS, 21 * MS).kernel(21 * MS, 22 * MS, 3);
    assert_eq!(cause(fixture), "load");
}

#[test]
fn ranges_say_load_start_up_and_between_epochs() {
    let ranges = |fixture: Fixture, load: (i64, i64)| {
        fixture.range(load.0 * MS, load.1 * MS, "load").range(MS, 5 * MS, "epoch 0").range(6 * MS, 30 * MS, "epoch 1")
    };
    assert_eq!(cause(ranges(paused(), (11, 20))), "loader_start_up");
    assert_eq!(cause(ranges(paused(), (11, 20)).range(7 * MS, 8 * MS, "load")), "load");
    let between = paused().range(MS, 11 * MS, "epoch 0").range(19 * MS, 30 * MS, "epoch 1");
    assert_eq!(cause(between), "between_epochs");
}

#[test]
fn a_pause_much_longer_than_others_for_data_is_a_start_of_the_loader() {
    let mut fixture = Fixture::new().kernel(0, MS, 3);
    let mut at = MS;
    for pause in [2, 2, 100, 2, 2] {
        at += pause * MS;
        fixture = fixture.upload(at, at + MS);
        at += MS;
    }
    let trace = fixture.import().unwrap();
    let causes: Vec<&str> = trace.gaps.iter().map(|gap| gap.cause.as_str()).collect();
    assert_eq!(causes, ["load", "load", "loader_start_up", "load", "load"]);
}

#[test]
fn only_calls_of_the_processes_of_a_gpu_count_and_the_longest_are_named() {
    let fixture = paused().call(12 * MS, 19 * MS, 2).sql(&format!(
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, nameId) VALUES ({}, {}, {}, 5)",
        10 * MS,
        20 * MS,
        9 << 24
    ));
    let trace = fixture.import().unwrap();
    let gap = &trace.gaps[0];
    assert_eq!(gap.cause, "synchronise");
    assert_eq!(gap.host.len(), 1);
    assert_eq!((gap.host[0].name.as_str(), gap.host[0].total_ns), ("cudaStreamSynchronize", 7 * MS as u64));
}

#[test]
fn ranks_that_number_their_gpus_alike_are_told_apart() {
    let trace = Fixture::new()
        .sql(
            "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (4, 0, 7), (6, 0, 8);
             INSERT INTO TARGET_INFO_GPU VALUES (0, 4, 'NVIDIA H200', 1000, 132), (0, 6, 'NVIDIA H200', 1000, 132);
             INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, globalPid, demangledName)
                VALUES (0, 10, 0, 117440512, 3), (0, 30, 0, 134217728, 3), (5, 20, 0, 117440512, 4);",
        )
        .import()
        .unwrap();
    let times: Vec<_> = (trace.per_gpu.iter())
        .map(|gpu| (gpu.gpu, gpu.busy_ns, gpu.idle_ns, gpu.comm_ns, gpu.overlap_ns, gpu.imbalance))
        .collect();
    assert_eq!(times, [(4, 20, 10, 15, 5, -0.5), (6, 30, 0, 0, 0, 0.5)]);
    assert_eq!(trace.gpus[1].name.as_deref(), Some("NVIDIA H200"));
    assert_eq!(trace.proof.strategy.seen, "ddp");
}
