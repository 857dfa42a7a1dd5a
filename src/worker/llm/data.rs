//! Rows of tokens.

use multicard::plan::LlmSettings;
use multicard::protocol::Job;
use tch::{Device, Kind, Tensor};

use crate::report::Stop;
use crate::task;

/// Made rows of equal length.
pub struct Rows {
    tokens: Tensor,
    step_rows: i64,
    steps: i64,
}

/// A step's rows.
pub struct Batch {
    inputs: Vec<Tensor>,
}

/// One pass over them.
pub struct Pass<'a> {
    rows: &'a Rows,
    next: i64,
    end: i64,
}

impl Rows {
    /// Random tokens on the device.
    pub fn read(settings: &LlmSettings, vocabulary: i64, job: &Job, device: Device) -> Result<Self, Stop> {
        let rows = settings.rows.unwrap_or(0) as i64;
        let step_rows = settings.step_rows() as i64;
        tch::manual_seed(job.seed as i64);
        let tokens = Tensor::f_randint(vocabulary, [rows, settings.row_tokens as i64], (Kind::Int64, Device::Cpu))?;
        Ok(Self { tokens: tokens.f_to_device(device)?, step_rows, steps: rows / step_rows })
    }
}

impl task::Batch for Batch {
    type Inputs = Vec<Tensor>;

    fn inputs(&self) -> &Vec<Tensor> {
        &self.inputs
    }

    fn units(&self) -> u32 {
        self.inputs[0].numel() as u32
    }

    fn wait_s(&self) -> f64 {
        0.0
    }
}

impl task::Data for Rows {
    type Batch = Batch;
    type Epoch<'a> = Pass<'a>;

    fn batches(&self) -> usize {
        self.steps as usize
    }

    fn train(&mut self, _epoch: u32) -> Pass<'_> {
        Pass { next: 0, end: self.steps, rows: self }
    }

    fn test(&mut self, _epoch: u32) -> Pass<'_> {
        Pass { next: 0, end: 0, rows: self }
    }
}

impl task::Epoch for Pass<'_> {
    type Batch = Batch;

    fn next(&mut self) -> Result<Option<Batch>, Stop> {
        if self.next == self.end {
            return Ok(None);
        }
        let rows = self.rows.tokens.f_narrow(0, self.next * self.rows.step_rows, self.rows.step_rows)?;
        self.next += 1;
        Ok(Some(Batch { inputs: vec![rows.shallow_clone(), rows] }))
    }
}
