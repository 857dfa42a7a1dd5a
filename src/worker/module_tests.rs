//! When the hooks of units are called, and that they change no number.
#![allow(clippy::unwrap_used)]

use std::sync::{Mutex, PoisonError};

use tch::{Device, Kind};

use super::*;

/// Three layers; the middle one adds its input to its output.
struct Layers(Vec<Tensor>);

impl Layers {
    fn new() -> Self {
        let value = |index: i64| (Tensor::arange(4, (Kind::Double, Device::Cpu)) - index as f64).reshape([2, 2]) / 4.0;
        Self((0..3).map(|index| value(index).set_requires_grad(true)).collect())
    }
}

impl Module for Layers {
    type Input = Tensor;

    fn units(&self) -> Vec<Vec<Tensor>> {
        self.0.iter().map(|weight| vec![weight.shallow_clone()]).collect()
    }

    fn forward(&self, input: &Tensor, pass: &Pass) -> Result<Tensor, TchError> {
        let first = pass.unit(0, input, |input| input.f_matmul(&self.0[0])?.f_tanh())?;
        let second = pass.unit(1, &first, |input| input.f_matmul(&self.0[1])?.f_add(input))?;
        pass.unit(2, &second, |input| input.f_matmul(&self.0[2]))
    }
}

/// Notes what is called, and in the backward pass which weights have their gradients.
struct Recorder {
    weights: Mutex<Vec<Tensor>>,
    calls: Mutex<Vec<String>>,
    fails: Option<usize>,
}

impl Recorder {
    fn note(&self, text: String) -> Result<(), TchError> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        Ok(())
    }

    fn gradients(&self) -> String {
        let weights = self.weights.lock().unwrap_or_else(PoisonError::into_inner);
        weights.iter().map(|weight| if weight.grad().defined() { 'x' } else { '-' }).collect()
    }
}

impl UnitHooks for Recorder {
    fn before_forward(&self, unit: usize) -> Result<(), TchError> {
        self.note(format!("before forward {unit}"))
    }

    fn after_forward(&self, unit: usize) -> Result<(), TchError> {
        self.note(format!("after forward {unit}"))
    }

    fn before_backward(&self, unit: usize) -> Result<(), TchError> {
        if self.fails == Some(unit) {
            return Err(TchError::Torch(format!("gathering unit {unit} failed")));
        }
        self.note(format!("before backward {unit} {}", self.gradients()))
    }

    fn after_backward(&self, unit: usize) -> Result<(), TchError> {
        self.note(format!("after backward {unit} {}", self.gradients()))
    }
}

fn recorder(layers: &Layers, fails: Option<usize>) -> Arc<Recorder> {
    let weights = Mutex::new(layers.0.iter().map(Tensor::shallow_clone).collect());
    Arc::new(Recorder { weights, calls: Mutex::default(), fails })
}

fn loss(layers: &Layers, pass: &Pass) -> Tensor {
    let input = Tensor::arange(6, (Kind::Double, Device::Cpu)).reshape([3, 2]);
    layers.forward(&input, pass).unwrap().square().sum(Kind::Double)
}

#[test]
fn hooks_surround_each_unit_and_change_no_number() {
    let (plain, hooked) = (Layers::new(), Layers::new());
    let recorder = recorder(&hooked, None);
    let hooks: Arc<dyn UnitHooks> = recorder.clone();
    let expected = loss(&plain, &Pass { train: true, ..Pass::default() });
    let found = loss(&hooked, &Pass { train: true, group: None, hooks: Some(&hooks) });
    expected.backward();
    found.backward();
    assert_eq!(expected, found);
    for (expected, found) in plain.0.iter().zip(&hooked.0) {
        assert_eq!(expected.grad(), found.grad());
    }
    let calls = recorder.calls.lock().unwrap();
    assert_eq!(
        *calls,
        [
            "before forward 0",
            "after forward 0",
            "before forward 1",
            "after forward 1",
            "before forward 2",
            "after forward 2",
            "before backward 2 ---",
            "after backward 2 --x",
            "before backward 1 --x",
            "after backward 1 -xx",
            "before backward 0 -xx",
        ],
        "the first unit's input needs no gradient"
    );
}

#[test]
fn an_evaluation_calls_no_hooks_of_the_backward_pass() {
    let layers = Layers::new();
    let recorder = recorder(&layers, None);
    let hooks: Arc<dyn UnitHooks> = recorder.clone();
    let _ = tch::no_grad(|| loss(&layers, &Pass { train: false, group: None, hooks: Some(&hooks) }));
    assert_eq!(recorder.calls.lock().unwrap().len(), 6);
    drop(hooks);
    assert_eq!(Arc::strong_count(&recorder), 1, "no graph keeps them");
}

#[test]
fn a_hook_that_fails_ends_the_backward_pass_with_its_words_and_graphs_free_their_hooks() {
    let layers = Layers::new();
    let recorder = recorder(&layers, Some(1));
    let hooks: Arc<dyn UnitHooks> = recorder.clone();
    let loss = loss(&layers, &Pass { train: true, group: None, hooks: Some(&hooks) });
    let error = loss.f_backward().unwrap_err().to_string();
    assert!(error.contains("gathering unit 1 failed"), "{error}");
    drop((loss, hooks));
    assert_eq!(Arc::strong_count(&recorder), 1, "the graph has gone");
}

#[test]
fn frozen_parameters_belong_to_units_and_are_not_trained() {
    let layers = Layers::new();
    let _ = layers.0[1].set_requires_grad(false);
    assert_eq!((layers.units().len(), layers.parameters().len(), parameter_count(&layers)), (3, 2, 8));
}

#[test]
fn a_set_of_tensors_is_changed_as_a_whole_or_not_at_all() {
    let pair = [Tensor::from(1.0), Tensor::from(2.0)];
    let doubled = pair.map_each(|tensor| tensor.f_mul_scalar(2.0)).unwrap();
    assert_eq!(doubled.each_ref().map(|tensor| tensor.double_value(&[])), [2.0, 4.0]);
    let error = pair.map_each(|tensor| tensor.f_reshape([7])).unwrap_err().to_string();
    assert!(error.contains('7'), "{error}");
}

#[test]
fn spare_columns_behind_the_rows_of_a_matrix_count_as_its_bytes() {
    let place = Tensor::zeros([3, 10], (Kind::Float, Device::Cpu));
    assert_eq!(byte_count(&place), 120);
    assert_eq!(byte_count(&place.narrow(1, 0, 6)), 120);
    assert_eq!(byte_count(&place.narrow(0, 0, 2).narrow(1, 0, 6)), 80);
    assert_eq!(byte_count(&place.transpose(0, 1)), 120);
}
