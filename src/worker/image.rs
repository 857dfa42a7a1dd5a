//! The workload `image`: MobileNetV2 on digits or colour files.

pub mod dali;
pub mod data;
pub mod evidence;
pub mod fence;
mod mobilenet_v2;
pub mod set;
#[cfg(test)]
pub mod testing;

pub use mobilenet_v2::MobileNetV2;
#[cfg(test)]
pub use mobilenet_v2::frozen;
