//! The models that can be trained.

mod mobilenet_v2;

pub use mobilenet_v2::MobileNetV2;
#[cfg(test)]
pub use mobilenet_v2::frozen;
