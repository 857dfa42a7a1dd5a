//! The published numbers, tables, figures and claims of two papers, and the judgement of those claims by a session's
//! runs.
//!
//! The papers are arXiv 2503.15252 ("Efficient Allocation of Image Recognition and LLM Tasks on Multi-GPU System") and
//! arXiv 2505.22905 ("Profiling and optimization of multi-card GPU machine learning jobs"). `papers/published.toml`
//! holds their numbers with the place of each in its paper, their tables and figures with the plan that repeats each,
//! and the places where the papers contradict themselves ([`published`]). `papers/claims.toml` holds the claims that
//! the papers make in words, and the tests of each claim ([`claims`]).

mod claim;
mod coverage;
mod judge;
mod published;

pub use claim::{Claim, Compare, Test, WHY_WIDER, claims};
pub use coverage::{Coverage, Deviation, Deviations, coverage, deviations};
pub use judge::{Finding, Judgement, Verdict, judge};
pub use published::{
    Artefact, Bound, Contradiction, Paper, Printed, PublishedValue, UnknownArtefact, artefact, artefacts,
    contradictions, papers, preset_text, published, why_unmeasured,
};
