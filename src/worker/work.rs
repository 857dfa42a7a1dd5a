//! The model's work: arithmetic and memory traffic of a step, counted from the shapes of its products.
//!
//! A product is a matrix product, a convolution or attention. Its arithmetic is two FLOP (a multiplication and an addition) for each
//! pair that it multiplies. Its traffic is each operand read once and each result written once, in the type that it computes in.
//! What stands between products (norms, activations, losses) counts neither way, as if it were part of their kernels.

use std::iter::Sum;
use std::ops::{Add, Mul};

use tch::Kind;

/// Arithmetic and traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Floating-point operations; a multiply-add is two.
    pub flop: f64,
    /// Bytes read and written.
    pub bytes: f64,
}

/// Which parts of a model's work are counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    /// The type that products compute in.
    pub kind: Kind,
    /// Whether a backward pass follows.
    pub train: bool,
}

/// Whose rows a pass computes. DPO compares a policy with its reference, the model that training started from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sides {
    /// Products of the policy, and all products of techniques without a reference.
    Policy,
    /// The reference's.
    Reference,
    /// The policy's and as many of the reference, without adapters and without a backward pass: a joint pass.
    Both,
}

impl Sides {
    /// Whether adapters are enabled, for the policy's rows.
    pub fn adapted(self) -> bool {
        self != Self::Reference
    }
}

/// A linear layer or a convolution. Sizes are numbers of elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Product {
    /// Multiply-adds of the forward pass.
    pub multiply_adds: i64,
    pub input: i64,
    pub weight: i64,
    pub output: i64,
    /// Whether the weight is trained.
    pub weight_gradient: bool,
    /// Whether something before this layer is trained.
    pub input_gradient: bool,
}

impl Product {
    /// A linear layer over `rows` inputs.
    pub fn linear(rows: i64, from: i64, to: i64) -> Self {
        Self {
            multiply_adds: rows * from * to,
            input: rows * from,
            weight: from * to,
            output: rows * to,
            weight_gradient: true,
            input_gradient: true,
        }
    }

    /// The gradient of the weight is a product of input and output, and the gradient of the input a product of output and weight; each has
    /// the same arithmetic over the same tensors.
    pub fn work(&self, Counted { kind, train }: Counted) -> Work {
        let passes =
            1 + [self.weight_gradient, self.input_gradient].map(|is| i64::from(is && train)).iter().sum::<i64>();
        let tensors = (self.input + self.weight + self.output) * kind.elt_size_in_bytes() as i64;
        Work { flop: 2.0 * self.multiply_adds as f64, bytes: tensors as f64 } * passes as f64
    }

    /// The work of a pass over the rows of `sides`. A joint pass reads the weight once, for the rows of the policy and of the reference.
    pub fn work_of(&self, sides: Sides, counted: Counted) -> Work {
        let reference = Self { weight: 0, ..*self }.work(Counted { train: false, ..counted });
        if sides == Sides::Both { self.work(counted) + reference } else { self.work(counted) }
    }
}

impl Add for Work {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { flop: self.flop + other.flop, bytes: self.bytes + other.bytes }
    }
}

impl Mul<f64> for Work {
    type Output = Self;

    fn mul(self, times: f64) -> Self {
        Self { flop: self.flop * times, bytes: self.bytes * times }
    }
}

impl Sum for Work {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

#[cfg(test)]
#[path = "work_tests.rs"]
mod tests;
