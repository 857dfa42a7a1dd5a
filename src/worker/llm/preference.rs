//! Direct preference optimisation (arXiv 2305.18290): the loss of pairs of rows, and their rewards.

use tch::{Kind, TchError, Tensor};

/// What is measured of each step, means over its pairs: the rewards of both rows, their difference, and the share of pairs whose
/// chosen row has the higher one.
pub const MEASURES: &[&str] = &["rewards_chosen", "rewards_rejected", "reward_margin", "reward_accuracy"];

/// The loss `-log sigmoid(margin)`, a mean over pairs, and the [`MEASURES`]: `[5]`, of which the loss alone has a gradient.
///
/// `policy` and `reference` are the cross entropies of the labels of each token `[rows, tokens]`, 0 where there is none; a chosen row
/// is followed by its rejected one. A row's reward is `beta` times what its log-probability has gained over the reference's; the
/// margin is the chosen row's reward less the rejected one's. As TorchTune 0.5's `DPOLoss` without label smoothing.
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
