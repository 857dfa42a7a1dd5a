//! How long a plan of 10,000 combinations takes to expand, validate and put in order: it must feel instant. How long a D-optimal design of
//! 200 cells among 10⁶ combinations takes, and one whose search is cut off.

use std::hint::black_box;
use std::time::Instant;

use multicard::plan::{CudaState, Gpu, Node, Plan, Worker, asked_cells, expand, order};

const TIMES: usize = 20;

fn main() {
    let numbers = |from: i64, to: i64| (from..=to).map(|number| number.to_string()).collect::<Vec<_>>().join(", ");
    let text = format!(
        r#"
        version = 1
        repeats = 3
        [factors]
        precision = ["fp32", "fp64", "fp16", "bf16"]
        pin_memory = ["off", "on"]
        layout = ["nchw", "nhwc"]
        loader_workers = [{}]
        batch_size = [{}]
        "#,
        numbers(1, 25),
        numbers(64, 88),
    );
    let plan = Plan::parse(&text, "bench.toml").expect("the plan of this benchmark is valid");
    assert_eq!(plan.combinations(), 10_000);
    for (machine, node) in [("a GPU machine", node(true)), ("a CPU machine", node(false))] {
        let mut times_ms: Vec<f64> = (0..TIMES)
            .map(|_| {
                let start = Instant::now();
                let matrix = expand(&plan, &node);
                black_box(order(&plan, &matrix.cells));
                assert_eq!(matrix.cells.len() + matrix.invalid.len(), 10_000);
                start.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        times_ms.sort_by(f64::total_cmp);
        println!(
            "10,000 combinations on {machine}: median {:.1} ms, least {:.1}, most {:.1}, of {TIMES}",
            times_ms[TIMES / 2],
            times_ms[0],
            times_ms[TIMES - 1]
        );
    }
    design("200 cells among 10⁶ combinations", 200, &[10; 6]);
    design("400 cells of two factors with 150 levels, cut off", 400, &[150; 2]);
}

/// Each time has another seed: designs that were made are kept.
fn design(what: &str, runs: usize, levels: &[usize]) {
    let numbers = |count: &usize| (1..=*count).map(|number| number.to_string()).collect::<Vec<_>>().join(", ");
    let factors: String =
        levels.iter().zip('a'..).map(|(count, name)| format!("{name} = [{}]\n", numbers(count))).collect();
    let words: String = levels.iter().zip('a'..).map(|(_, name)| format!(", \"{{{name}}}\"")).collect();
    let mut times_s: Vec<f64> = (1..=5)
        .map(|seed| {
            let text = format!(
                "version = 1\nseed = {seed}\n[command]\nrun = [\"./it\"{words}]\n[factors]\n{factors}\
                 [design]\nkind = \"d-optimal\"\nruns = {runs}\n\
                 [[constraint]]\nexclude = \"a > 8 and b > 8 and a < 11\"\nreason = \"too large\"\n"
            );
            let plan = Plan::parse(&text, "bench.toml").expect("the plan of this benchmark is valid");
            let start = Instant::now();
            assert_eq!(asked_cells(&plan).len(), runs);
            start.elapsed().as_secs_f64()
        })
        .collect();
    times_s.sort_by(f64::total_cmp);
    println!(
        "{what}: median {:.2} s, least {:.2}, most {:.2}, of {}",
        times_s[times_s.len() / 2],
        times_s[0],
        times_s[times_s.len() - 1],
        times_s.len()
    );
}

fn node(with_gpu: bool) -> Node {
    let gpu = Gpu {
        index: 0,
        uuid: "GPU-0".to_owned(),
        name: "NVIDIA H200".to_owned(),
        memory_bytes: 141_000_000_000,
        numa_node: Some(0),
        mig: false,
        compute_capability: Some((9, 0)),
    };
    let cuda = if with_gpu {
        CudaState::Available
    } else {
        CudaState::Unavailable { reason: "the driver is missing".to_owned() }
    };
    Node {
        hostname: "bench".to_owned(),
        system: "Linux".to_owned(),
        cpu_model: "a processor".to_owned(),
        cpus: 64,
        memory_bytes: 512_000_000_000,
        numa_nodes: 1,
        driver: None,
        no_gpu_reason: (!with_gpu).then(|| "the driver is missing".to_owned()),
        gpus: if with_gpu { vec![gpu] } else { Vec::new() },
        nodes: 1,
        nsys: Err("it is not on PATH".to_owned()),
        tracer: Err("not looked for".to_owned()),
        worker: Ok(Worker {
            path: "multicard-worker".into(),
            version: "0".to_owned(),
            protocol_version: 1,
            torch_version: "2.11.0".to_owned(),
            cuda,
            dali: Err("not installed".into()),
            versions: Default::default(),
        }),
    }
}
