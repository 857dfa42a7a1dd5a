//! Sessions on a real disk: what is written is read back, from the live index and from a rebuilt one.
#![allow(clippy::unwrap_used)]

mod catalogue;
mod crash;
mod faults;
mod fixture;
mod measure;
mod rebuild;
mod round_trip;
mod shared_logs;
