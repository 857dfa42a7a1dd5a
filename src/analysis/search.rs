//! Searches: cells of a plan race for the answer to its question, `[search]`.
//!
//! All candidates get a run, then another, in rounds. After each round, cells are dropped that an always-valid interval excludes; the others
//! run again. What is run next follows from the plan, the recorded steps and the ended runs alone. `multicard help searches` says how.

mod bounds;
mod decision;
mod field;
mod limits;
mod question;
mod race;
mod trial;
mod words;

pub use question::{Question, check_search};
pub use race::{Next, Race};
pub use trial::Trial;
pub use words::step_lines;

#[cfg(test)]
mod simulated_tests;
