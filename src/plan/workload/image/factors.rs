//! The factors of the `image` workload, with their levels, help and findings of the papers.

use super::super::nodes;
use super::super::typed::{graphs, pinned};
use super::{CudnnBenchmark, DataCopy, Layout, Loader, Precision, Scenario, Strategy, Tf32, UpdateRule, WireDtype};
use crate::plan::{Binding, Factor, GPUS, GpuChoice, Hint, Kernels, NumberFormat, OptimizerImpl, Passes};

const INFERENCE: &[&str] = &[Passes::Inference.name()];
const OFF_ON: &[&str] = &["off", "on"];
const ON_OFF: &[&str] = &["on", "off"];

/// The factors of the `image` workload, in the order of columns and cards.
pub(super) fn factors() -> Vec<Factor> {
    let [over_nodes, of_each_node] = nodes::factors();
    vec![
        Factor::named(Precision::KEY, "Precision", Precision::NAMES)
            .speaks_for_itself()
            .hints(
                Precision::ALL
                    .iter()
                    .map(|level| (level.name(), Hint::Multiplies(level.number_format())))
                    // This is not a level of `image`, but of programs that have the same factor.
                    .chain([(NumberFormat::Tf32.name(), Hint::Multiplies(NumberFormat::Tf32))]),
            )
            .help("Arithmetic of training. fp16 and bf16 are mixed precision: autocast, with weights in fp32.")
            .finding("Against fp64, fp32 is 54-68 % and fp16 110-152 % faster at equal accuracy (2503.15252 Table 2)."),
        Factor::named(Tf32::KEY, "TF32", Tf32::NAMES)
            .hints(Tf32::ALL.iter().filter_map(|level| Some((level.name(), level.lowers()?))))
            .idle_where(Precision::KEY, &["fp64", "fp16", "bf16"])
            .help("Where fp32 may use tensor cores with 10-bit mantissas: nowhere, in convolutions, or everywhere.")
            .finding("The papers' FP32 was most likely `conv`, PyTorch's default."),
        Factor::named(WireDtype::KEY, "Wire type", WireDtype::NAMES)
            .idle_where(Loader::KEY, &["dali", "device"])
            .help("Data type in which images are copied to the GPU; `run` is the run's precision.")
            .finding("Host-to-device copies took 226 s in FP64, 104 s in FP32, 50 s in FP16 (2503.15252 section 3.4)."),
        Factor::named("pin_memory", "pin_memory", OFF_ON)
            .hints(pinned())
            .idle_where(Loader::KEY, &["dali", "device"])
            .help("Stages batches in page-locked memory and copies them without blocking the host.")
            .finding("16-30 % faster, less with more GPUs (2503.15252 Table 3)."),
        Factor::named(Layout::KEY, "Layout", Layout::NAMES)
            .speaks_for_itself()
            .hints(Layout::ALL.iter().map(|level| (level.name(), Hint::Layout(level.order()))))
            .help("Memory format of images and weights; tensor cores prefer nhwc (channels last).")
            .finding("nhwc brings PyTorch's DataLoader close to DALI on 1 and 2 GPUs (2505.22905 Fig. 9)."),
        Factor::named(Passes::KEY, "Passes", Passes::NAMES)
            .help("What a step does. training: forward pass, backward pass and update. inference: the forward pass alone, without gradients."),
        Factor::named(Kernels::KEY, "Kernels", Kernels::NAMES)
            .help("What computes a training step. plain: libtorch's and cuDNN's operations. fused: matrix products and kernels that normalise \
                   and activate where values are read, on GPUs in nhwc."),
        Factor::named(Loader::KEY, "Loader", Loader::NAMES)
            .speaks_for_itself()
            .hints([(Loader::Device.name(), Hint::NoCopies)])
            .help("What prepares batches: threads on the CPU, NVIDIA DALI (`multicard setup dali`), or the GPU from bytes in its memory.")
            .finding("DALI shows no pauses between epochs on 3-4 GPUs, the DataLoader does (2505.22905 Fig. 6-8)."),
        Factor::count("loader_workers", "Loader workers", 1..=256, 8)
            .unit("threads")
            .usual(&[1.0, 2.0, 4.0, 8.0, 16.0])
            .help("Loader threads per rank. Using more than the rank's share of CPUs does not help."),
        Factor::named("persistent_workers", "Persistent workers", OFF_ON)
            .idle_where(Loader::KEY, &["device"])
            .help("Keeps the loader's threads between epochs instead of restarting them for each epoch.")
            .finding("Restarted loaders pause before each epoch on 3-4 GPUs (2505.22905 Fig. 7)."),
        Factor::named(Scenario::KEY, "Scenario", Scenario::NAMES)
            .help("a: 28×28 digits, upsampled for each batch. b: 300×300 colour files, normalised only.")
            .finding("b moves the cost from arithmetic on the CPU to memory traffic (2505.22905 section 4.1)."),
        Factor::named(Strategy::KEY, "Strategy", Strategy::NAMES)
            .speaks_for_itself()
            .hints(
                Strategy::ALL
                    .iter()
                    .map(|level| (level.name(), Hint::Parallelism(level.parallelism())))
                    .chain([(Strategy::Ddp.name(), Hint::SharedUnits)]),
            )
            .help("How work is distributed over GPUs. ddp-ds: each rank loads and processes its own share; fsdp: like ddp-ds, but each \
                 rank also holds only its part of the model.")
            .finding("ddp-ds scales with the GPUs, ddp and ddp-rr do not (2503.15252 Fig. 1)."),
        Factor::count(GPUS, "GPUs", 1..=64, 1)
            .usual(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
            .help("One rank per GPU (dp: threads of one process); on a machine without GPUs, ranks on CPUs.")
            .finding("4 GPUs bring 3.23× in FP64 and 2.70× in FP16 (2503.15252 Table 2)."),
        over_nodes,
        of_each_node,
        Factor::gpu_set(GpuChoice::KEY, "GPU set", GpuChoice::NAMES)
            .help("Which of the node's GPUs a run gets. nearest: those with the fastest interconnects; same-socket: all on one NUMA node; \
                   spread: on different NUMA nodes; a list such as 0,2: only those, by their indexes on the Node screen."),
        Factor::named(Binding::KEY, "NUMA", Binding::NAMES)
            .help("Binding of ranks and their memory to NUMA nodes. off: the system decides; local: next to the rank's GPU (CPU ranks \
               spread over the nodes); interleave: memory spread over all nodes, CPUs free; first-node: everything on the \
               first node. On a machine with one node it is applied and verified, but has no effect.")
            .finding("Memory on the first socket for ranks on the second is suspected to cause the pauses on 3-4 GPUs (2505.22905)."),
        Factor::named(DataCopy::KEY, "Data copy", DataCopy::NAMES)
            .idle_where("data.decode", &["each_epoch"])
            .help("One copy of the data set in memory per rank, or one per node."),
        Factor::named("broadcast_buffers", "Broadcast buffers", ON_OFF)
            .idle_where(Passes::KEY, INFERENCE)
            .help("Sends rank 0's batch-norm statistics to all ranks before each forward pass."),
        Factor::named("sync_batch_norm", "Synchronised batch norm", OFF_ON)
            .idle_where(Strategy::KEY, &["single", "dp"])
            .idle_where(Passes::KEY, INFERENCE)
            .help("Computes batch statistics over all ranks: closer to one large batch, with more communication."),
        Factor::named("cuda_graph", "CUDA graph", OFF_ON)
            .hints(graphs())
            .help("Captures the whole step once and replays it from step 12 on: removes launch costs, which dominate with small images."),
        Factor::named(UpdateRule::KEY, "Update rule", UpdateRule::NAMES)
            .speaks_for_itself()
            .idle_where(Passes::KEY, INFERENCE)
            .help("sgd: momentum 0.9. adam: betas 0.9 and 0.999; adamw: the same with weight decay 0.01. Adam needs a smaller learning \
                 rate, and stores one more number for each weight."),
        Factor::named(OptimizerImpl::KEY, "Optimizer", OptimizerImpl::NAMES)
            .idle_where(Passes::KEY, INFERENCE)
            .help("The update as one kernel for all parameters, a few kernels, or several per parameter."),
        Factor::named(CudnnBenchmark::KEY, "cuDNN benchmark", CudnnBenchmark::NAMES)
            .idle_where(Kernels::KEY, &["fused"])
            .help("on: cuDNN tries its algorithms in the first steps and takes the fastest. kept: uses the algorithms and compiled \
                 kernels that an earlier run found on this kind of GPU; where there are none, cuDNN tries them and keeps the result in \
                 multicard/cudnn-plans in the user's cache (delete that folder to try again). A run that tried algorithms is marked. \
                 Fused kernels have nothing to try."),
        Factor::named("deterministic", "Deterministic", OFF_ON)
            .help("Uses only algorithms with bitwise reproducible results; slower. Turns cuDNN's benchmark off."),
        Factor::count("image_size", "Image size", 28..=2048, 100)
            .unit("px")
            .usual(&[32.0, 100.0, 224.0, 300.0, 500.0, 700.0])
            .help("Width and height of the model's input images. Work grows with its square.")
            .finding("More GPUs pay only where images are large enough (2503.15252 Fig. 2)."),
        Factor::count("batch_size", "Batch size", 1..=65_536, 64)
            .unit("images per GPU")
            .usual(&[32.0, 64.0, 128.0, 256.0])
            .help("Images per GPU per step."),
        Factor::count("epochs", "Epochs", 1..=100_000, 1)
            .usual(&[1.0, 2.0, 5.0, 10.0, 20.0])
            .help("Passes over the training set.")
            .finding("98-99 % accuracy within 20 epochs (2505.22905 section 4.1)."),
        Factor::number("learning_rate", "Learning rate", 0.0..=100.0, 0.01)
            .idle_where(Passes::KEY, INFERENCE)
            .usual(&[0.001, 0.003, 0.01, 0.03, 0.1])
            .help("The step size of updates."),
        Factor::number("width_multiplier", "Width multiplier", 0.1..=4.0, 1.0)
            .unit("×")
            .usual(&[0.5, 0.75, 1.0, 1.4])
            .help("Scales MobileNetV2's channels."),
        Factor::count("train_images", "Training images", 1..=100_000_000, 60_000)
            .usual(&[512.0, 2000.0, 12_800.0, 60_000.0])
            .help("Number of training images, from the start of the set."),
        Factor::count("test_images", "Test images", 1..=100_000_000, 10_000)
            .usual(&[256.0, 1000.0, 2000.0, 10_000.0])
            .help("Number of test images, from the start of the set."),
    ]
}
