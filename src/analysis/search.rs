//! Searches: which cell of a plan answers the question in `[search]`?
//!
//! In each round, every candidate that is left runs once. After the round, the search drops the cells that an always-valid interval
//! excludes. Only the plan, the recorded steps and the ended runs determine what runs next. `multicard help searches` explains the method.

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
