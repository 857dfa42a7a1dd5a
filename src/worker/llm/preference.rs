//! Direct preference optimisation (arXiv 2305.18290): the loss and rewards of pairs of rows.

use tch::{Kind, TchError, Tensor};

/// Measures of each step, as means over its pairs: the rewards of both rows, their difference, and the fraction of pairs whose
/// chosen row has the higher reward.
pub const MEASURES: &[&str] = &["rewards_chosen", "rewards_rejected", "reward_margin", "reward_accuracy"];

/// The loss `-log sigmoid(margin)`, as a mean over pairs, followed by the [`MEASURES`]: `[5]`. Only the loss has a gradient.
///
/// `policy` and `reference` are the cross entropies of each token's label `[rows, tokens]`, 0 without a label. Each chosen row is
/// followed by its rejected one. A row's reward is `beta` times the policy's log-probability minus the reference's. The margin
/// is the chosen row's reward minus the rejected row's. Same as TorchTune 0.5's `DPOLoss` without label smoothing.
pub fn seen(policy: &Tensor, reference: &Tensor, beta: f64) -> Result<Tensor, TchError> {
    let gained = reference.f_sub(policy)?.f_sum_dim_intlist(1, false, Kind::Float)?;
    let rewards = gained.f_mul_scalar(beta)?.f_view([-1, 2])?;
    let (chosen, rejected) = (rewards.f_select(1, 0)?, rewards.f_select(1, 1)?);
    let margin = chosen.f_sub(&rejected)?;
    let loss = margin.f_log_sigmoid()?.f_neg()?.f_mean(Kind::Float)?;
    let accuracy = margin.f_gt(0.0)?.f_to_kind(Kind::Float)?;
    let mean = |values: &Tensor| values.f_detach()?.f_mean(Kind::Float);
    Tensor::f_stack(&[loss, mean(&chosen)?, mean(&rejected)?, mean(&margin)?, mean(&accuracy)?], 0)
}

#[cfg(test)]
#[path = "preference_tests.rs"]
mod tests;
