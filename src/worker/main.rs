//! The worker: runs the ranks of one run.

// The trainer will use it.
#[allow(dead_code, unused_imports)]
mod data;

fn main() {}
