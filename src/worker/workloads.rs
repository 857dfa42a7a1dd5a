//! The workloads that this worker trains. Each has a folder and a line here.

use multicard::plan::{image, llm};
use multicard::protocol::{Job, RankPlace};

use crate::image::Image;
use crate::llm::Llm;
use crate::report::{Report, Stop};
use crate::task::Task;
use crate::train;

/// Trains one rank of a job at its place and writes its log.
pub type Work = Box<dyn FnOnce(&Job, &RankPlace, &mut Report) -> Result<(), Stop>>;

/// Creates a job's work, or says what cannot be done.
type Make = fn(&Job) -> Result<Work, String>;

const WORKLOADS: &[(&str, Make)] = &[(image::KEY, work::<Image>), (llm::KEY, work::<Llm>)];

/// The work that a job asks for. The error says what this worker cannot do.
pub fn find(job: &Job) -> Result<Work, String> {
    let key = job.workload.as_str();
    let Some((_, make)) = WORKLOADS.iter().find(|(known, _)| *known == key) else {
        let known: Vec<_> = WORKLOADS.iter().map(|(known, _)| *known).collect();
        return Err(format!("workload {key} is not there yet: this worker trains {}", known.join(", ")));
    };
    make(job)
}

fn work<T: Task + 'static>(job: &Job) -> Result<Work, String> {
    let task = T::new(job)?;
    Ok(Box::new(move |job, place, report| train::start(task, job, place, report)))
}
