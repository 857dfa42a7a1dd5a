//! Tests of whole imports.
#![allow(clippy::unwrap_used)]

mod allocations;
mod bad_input;
mod fixture;
mod gaps;
mod golden;
mod privacy;
mod proof;
mod schemas;
mod threads;
mod windows;

pub(super) use fixture::{Fixture, PROCESS, THREAD};

/// A real report cut down, for the tests of other files.
pub(super) fn golden_report(name: &str) -> Vec<u8> {
    golden::report(name).0
}
