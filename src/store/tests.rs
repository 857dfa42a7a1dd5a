//! Sessions on a real disk: what is said comes back, from the live index and from one made anew.
#![allow(clippy::unwrap_used)]

mod crash;
mod faults;
mod fixture;
mod measure;
mod rebuild;
mod round_trip;
