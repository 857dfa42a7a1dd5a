//! Columns of values that share their times, from one rank or from the telemetry of a run.

use crate::analysis::{Places, Pyramid, Smoother};

/// Number of points from which the usual distance of points is estimated.
const SETTLED: usize = 65;

/// Values that share their times.
#[derive(Clone, Debug, Default)]
pub struct Track {
    /// Times in seconds since the Unix epoch, ascending.
    pub times: Places,
    /// Step numbers; empty for telemetry.
    pub steps: Places,
    /// The values.
    pub columns: Vec<Column>,
}

/// The values of one quantity.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// Raw values.
    pub raw: Pyramid,
    /// Smoothed values, once computed.
    pub smooth: Option<Smooth>,
}

/// Smoothed values.
#[derive(Clone, Debug)]
pub struct Smooth {
    /// Smoothing factor, from 0 to 1.
    pub factor: f32,
    /// The values.
    pub values: Pyramid,
    smoother: Smoother,
}

impl Track {
    pub fn with_columns(columns: usize) -> Self {
        Self { columns: vec![Column::default(); columns], ..Self::default() }
    }

    /// Adds columns, with gaps for the existing times.
    pub fn add_columns(&mut self, columns: usize) {
        let raw: Pyramid = std::iter::repeat_n(f64::NAN, self.times.len()).collect();
        self.columns.extend(std::iter::repeat_n(Column { raw, smooth: None }, columns));
    }

    /// Adds a row; a column without a value gets a gap. Times never decrease: an earlier time becomes the last one.
    pub fn push(&mut self, time_s: f64, step: Option<f64>, values: impl IntoIterator<Item = f64>) {
        let last = self.times.last().copied();
        self.times.push(last.map_or(time_s, |last| if time_s > last { time_s } else { last }));
        if let Some(step) = step {
            self.steps.push(step);
        }
        let mut values = values.into_iter();
        for column in &mut self.columns {
            column.raw.push(values.next().unwrap_or(f64::NAN));
        }
    }

    pub fn value(&self, column: usize, at: usize) -> f64 {
        let values = self.columns.get(column).map_or(&[][..], |column| column.raw.values());
        values.get(at).copied().unwrap_or(f64::NAN)
    }

    /// Smooths all columns, or removes smoothing if `factor` is 0.
    pub fn smooth(&mut self, factor: f32) {
        let Self { times, columns, .. } = self;
        for column in columns {
            column.smooth = (factor > 0.0).then(|| smoothed(times, &column.raw, column.smooth.take(), factor));
        }
    }

    /// Smooths the new values of the columns that are smoothed.
    pub fn catch_up(&mut self) {
        let Self { times, columns, .. } = self;
        for column in columns {
            if let Some(smooth) = column.smooth.take() {
                let factor = smooth.factor;
                column.smooth = Some(smoothed(times, &column.raw, Some(smooth), factor));
            }
        }
    }

    /// Whether all columns are smoothed with `factor`.
    pub fn is_smooth(&self, factor: f32) -> bool {
        let done = |smooth: &Smooth| smooth.factor == factor;
        self.columns.iter().all(|column| column.smooth.as_ref().map_or(factor == 0.0, done))
    }

    /// Smoothed copies of all columns.
    pub fn smoothed(&self, factor: f32) -> Vec<Smooth> {
        self.columns.iter().map(|column| smoothed(&self.times, &column.raw, None, factor)).collect()
    }
}

fn smoothed(times: &[f64], raw: &Pyramid, before: Option<Smooth>, factor: f32) -> Smooth {
    let usable = before.filter(|smooth| smooth.factor == factor && smooth.values.values().len() >= SETTLED);
    let mut smooth = usable.unwrap_or_else(|| {
        let smoother = Smoother::new(f64::from(factor), Smoother::usual_distance(times));
        Smooth { factor, values: Pyramid::default(), smoother }
    });
    let done = smooth.values.values().len();
    for (x, y) in times.iter().zip(raw.values()).skip(done) {
        let value = smooth.smoother.next(*x, *y);
        smooth.values.push(value);
    }
    smooth
}
