//! Compares a block whose matrices have spare columns with one whose matrices have none.
#![allow(clippy::unwrap_used)]

use multicard::plan::llm::LoraTargets;

use super::*;
use crate::llm::testing::differs_by;
use crate::shim::cuda;
use crate::testing::generator;

/// Two blocks with the same weights and adapters, the first with spare columns.
fn blocks(lora: Lora, kind: Kind, device: Device) -> [Block; 2] {
    let config = ModelConfig { head_dim: 64, ..ModelConfig::tiny() };
    let blocks = [false, true].map(|sharded| {
        let options = Options { lora: Some(lora), fused: true, sharded, ..Options::default() };
        tch::no_grad(|| Block::new(&config, &options, &Place { device, weights: kind, options })).unwrap()
    });
    let [spaced, dense] = &blocks;
    for (spaced, dense) in spaced.tensors().into_iter().zip(dense.tensors()) {
        // Norms keep their ones.
        if spaced.dim() == 2 {
            let values = Tensor::randn(spaced.size(), (Kind::Float, Device::Cpu)) * 0.05;
            tch::no_grad(|| [spaced, dense].into_iter().for_each(|mut tensor| tensor.copy_(&values)));
        }
    }
    blocks
}

/// Two rows of tokens, with angles of their positions.
fn inputs(tokens: i64, kind: Kind, device: Device) -> (Tensor, Batch) {
    let float = (Kind::Float, Device::Cpu);
    let rows = Tensor::randn([2, tokens, ModelConfig::tiny().dim as i64], float).to_kind(kind).to_device(device);
    let angles = Tensor::rand([tokens, 32], float) * 6.0;
    let rotary = [angles.cos(), angles.sin()].map(|table| table.to_device(device));
    let positions = Tensor::arange(tokens, (Kind::Int64, device)).repeat([2]);
    (rows, Batch { rotary, positions, mask: None, adapted: true })
}

/// The gradients of the adapters and of the input.
fn gradients(block: &Block, rows: &Tensor, batch: &Batch) -> Vec<(String, Tensor)> {
    block.tensors().iter_mut().for_each(Tensor::zero_grad);
    let input = rows.copy().set_requires_grad(true);
    let (output, _) = block.forward(&input, None, batch).unwrap();
    output.to_kind(Kind::Float).square().sum(Kind::Float).backward();
    let mut found = block.named_adapters(0, &|tensor| Ok(tensor.grad())).unwrap();
    found.push(("input".to_owned(), input.grad()));
    found
}

/// Changes every B in place, as an optimizer does.
fn change_b(block: &Block) {
    for (name, mut tensor) in block.named_adapters(0, &Tensor::f_detach).unwrap() {
        if name.contains("lora_B") {
            let _ = tensor.f_add_scalar_(0.01).unwrap();
        }
    }
}

/// Checks that behind the rows of each adapted projection are the rows of its B times the scale, and zeros elsewhere.
fn check_placed(block: &Block) {
    for Linear { weight, adapters, .. } in block.linears() {
        let Weight::Whole(weight) = weight else { panic!("a matrix in NF4") };
        let Some(Adapters { b, scale, .. }) = adapters else {
            assert!(weight.is_contiguous(), "a layer without adapters needs no spare columns");
            continue;
        };
        let ((out, from), apart) = (weight.size2().unwrap(), weight.stride()[0]);
        let spare = apart - from;
        assert_eq!(spare, 64);
        let expected = Tensor::zeros([out, spare], (weight.kind(), weight.device()));
        for (index, (_, start, b)) in b.iter().enumerate() {
            let (width, rank) = b.size2().unwrap();
            let mut place = expected.narrow(0, *start, width).narrow(1, index as i64 * rank, rank);
            place.copy_(&(b.detach().to_kind(weight.kind()) * *scale));
        }
        assert_eq!(weight.as_strided([out, spare], [apart, 1], from), expected);
    }
}

/// Compares gradients for rows of these lengths, each in several passes between which B changes. `tolerance` is relative to a gradient's
/// largest number.
fn compare_with_dense_matrices(device: Device, kind: Kind, lengths: &[i64], passes: usize, tolerance: f64) {
    use LoraTargets::{Qkvo, QkvoMlp, Qv, QvoMlp};
    tch::manual_seed(11);
    for (rank, targets) in [(8, QvoMlp), (16, QkvoMlp), (16, QvoMlp), (16, Qv), (8, Qkvo), (4, QvoMlp)] {
        let [spaced, dense] = blocks(Lora { rank, alpha: 2.0 * rank as f64, targets }, kind, device);
        for linear in dense.linears() {
            assert!(matches!(&linear.weight, Weight::Whole(weight) if weight.is_contiguous()));
        }
        let mut worst = 0.0;
        for &tokens in lengths {
            let (rows, batch) = inputs(tokens, kind, device);
            for pass in 0..passes {
                let [found, expected] = [&spaced, &dense].map(|block| gradients(block, &rows, &batch));
                for ((name, found), (_, expected)) in found.iter().zip(&expected) {
                    let [found, expected] = [found, expected].map(|tensor| tensor.to_kind(Kind::Float));
                    let largest = expected.abs().max().double_value(&[]);
                    let difference = differs_by(&found, &expected) / largest;
                    let case = format!("{kind:?}, rank {rank}, {targets:?}, {tokens} tokens, pass {pass}, {name}");
                    assert!(largest > 0.0 && difference <= tolerance, "{case}: {difference} of {largest}");
                    worst = f64::max(worst, difference);
                }
                check_placed(&spaced);
                [&spaced, &dense].into_iter().for_each(change_b);
            }
        }
        println!("{kind:?}, rank {rank}, {targets:?}: gradients differ by {worst:.2e} of their largest number");
    }
}

#[test]
fn gradients_are_the_same_with_spare_columns_behind_the_rows_of_matrices() {
    let _generator = generator();
    compare_with_dense_matrices(Device::Cpu, Kind::Float, &[9], 2, 1e-4);
}

#[test]
#[ignore = "needs a GPU: make test-gpu"]
fn gradients_on_a_gpu_are_the_same_with_spare_columns_behind_the_rows_of_matrices() {
    let _generator = generator();
    cuda::open().unwrap();
    llama::use_cuda_kernels().unwrap();
    for (kind, tolerance) in [(Kind::BFloat16, 0.03), (Kind::Half, 0.005)] {
        // Few tokens and many use other kernels. The fourth product of a shape tries all algorithms.
        compare_with_dense_matrices(Device::Cuda(0), kind, &[35, 300], 5, tolerance);
    }
}
