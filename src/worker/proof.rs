//! Evidence that the factors shared by all workloads are in effect.

use multicard::plan::{CUDA_GRAPH_WARM_UP_STEPS, Passes, counted};
use multicard::protocol::Evidence;
use sha2::{Digest, Sha256};
use tch::{Device, Kind, TchError, Tensor};

use crate::graph::Replays;
use crate::module::Module;
use crate::parallel::{Peers, Strategy};
use crate::shim::Combine;
use crate::task::Task;
use crate::trainer::Trainer;

/// The evidence for one factor.
pub fn evidence(factor: &str, asked: &str, seen: String, in_effect: bool) -> Evidence {
    Evidence { factor: factor.into(), asked: asked.into(), seen, in_effect }
}

/// The level of a switch.
pub fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// Whether steps leave gradients, and updates keep numbers between them. Asked for after the first step.
pub fn passes<T: Task>(asked: Passes, trainer: &Trainer<T>) -> Result<Evidence, TchError> {
    let trained = trainer.parameters()?;
    let with_gradient = trained.iter().filter(|parameter| parameter.grad().defined()).count();
    let kept = trainer.optimizer().kept();
    let seen = format!(
        "{with_gradient} of {} with a gradient, updates keep {} a weight",
        counted(trained.len(), "parameter"),
        counted(kept, "number")
    );
    let passes = if with_gradient == 0 && kept == 0 { Passes::Inference } else { Passes::Training };
    Ok(evidence(Passes::KEY, asked.name(), seen, passes == asked))
}

/// The number of replayed steps of a whole run.
pub fn cuda_graph(asked: bool, replays: Replays, steps: u64) -> Evidence {
    let Replays { steps: replayed, shapes, late_shapes, kernels, nodes } = replays;
    let graphs = if shapes > 1 { format!("{shapes} graphs, the last") } else { "a graph".into() };
    let seen = match replayed {
        0 => format!("each of {steps} steps launched its kernels one by one"),
        _ => format!(
            "{replayed} of {steps} steps were one launch each, of {graphs} of {nodes} nodes, {kernels} of them kernels"
        ),
    };
    // The last step of the warm-up is the first replay.
    let eager = if asked { CUDA_GRAPH_WARM_UP_STEPS - 1 + late_shapes } else { steps };
    evidence("cuda_graph", on_off(asked), seen, replayed + eager == steps)
}

/// The number of modules that compute, observed after an epoch of training.
pub fn gpus<M: Module>(asked: usize, strategy: &dyn Strategy<M>) -> Result<Evidence, TchError> {
    let (modules, seen) = strategy.seen()?;
    Ok(evidence("gpus", &asked.to_string(), seen, modules as usize == asked))
}

/// Whether all ranks hold the same weights, compared by SHA-256. All ranks call it.
pub fn weights((key, level): (&str, &str), module: &impl Module, peers: &Peers) -> Result<Evidence, TchError> {
    let digest = digest(&module.parameters())?;
    let number = i64::from_le_bytes(std::array::from_fn(|index| digest[index]));
    let (least, most) = (peers.combine(&[number], Combine::Min)?, peers.combine(&[number], Combine::Max)?);
    let equal = least == most;
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let word = if equal { "equal" } else { "not equal" };
    let seen = format!("weights with SHA-256 {hex}, {word} on all {} ranks", peers.world_size);
    Ok(evidence(key, level, seen, equal))
}

/// SHA-256 of the values in order, whatever their strides.
fn digest(tensors: &[Tensor]) -> Result<[u8; 32], TchError> {
    let mut hash = Sha256::new();
    for tensor in tensors {
        // Every type of weights fits in fp64.
        let values = tensor.f_detach()?.f_to_device(Device::Cpu)?.f_to_kind(Kind::Double)?.f_reshape([-1])?;
        Vec::<f64>::try_from(&values)?.iter().for_each(|value| hash.update(value.to_le_bytes()));
    }
    Ok(hash.finalize().into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_tells_values_and_not_strides() {
        let tensor = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0]).reshape([2, 2]);
        let relaid = tensor.transpose(0, 1).contiguous().transpose(0, 1);
        assert_eq!(digest(&[tensor.copy()]).unwrap(), digest(&[relaid]).unwrap());
        assert_ne!(digest(&[&tensor + 1e-6]).unwrap(), digest(&[tensor]).unwrap());
    }
}
