//! What the two papers print, and what a session's runs say to it.
//!
//! arXiv 2503.15252 ("Efficient Allocation of Image Recognition and LLM Tasks on Multi-GPU System") and arXiv 2505.22905
//! ("Profiling and optimization of multi-card GPU machine learning jobs"): their numbers with paper and place, the plan of each
//! table and figure, the places where they contradict themselves ([`published`], from `papers/published.toml`), and the claims they
//! make in words with what tests each ([`claims`], from `papers/claims.toml`).

mod claim;
mod coverage;
mod judge;
mod published;

pub use claim::{Claim, Compare, Test, claims};
pub use coverage::{Coverage, Deviation, Deviations, coverage, deviations};
pub use judge::{Finding, Judgement, Verdict, judge};
pub use published::{
    Artefact, Bound, Contradiction, Paper, Printed, PublishedValue, UnknownArtefact, artefact, artefacts,
    contradictions, papers, preset_text, published, why_unmeasured,
};
