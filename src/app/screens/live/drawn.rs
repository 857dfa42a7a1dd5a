//! Cache of drawn points: most frames draw the same points again, for example when only the pointer moves.

use std::collections::HashMap;
use std::sync::Arc;

use eframe::egui::{Context, Id};

use crate::app::curves::XAxis;

/// Points of a curve, split at gaps.
pub type Pieces = Vec<Vec<[f64; 2]>>;

/// Everything that the points of a curve depend on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The run and the generation of its curves.
    pub run: (String, u64),
    /// Address and number of its values.
    pub values: (usize, usize),
    /// Smoothing factor, as bits.
    pub smoothing: u32,
    pub axis: XAxis,
    /// Edges of the view, as bits.
    pub view: (u64, u64),
    pub columns: usize,
}

/// Points drawn in this pass and in the one before, so that unchanged curves are not reduced again.
#[derive(Clone, Default)]
struct Drawn {
    pass: u64,
    now: HashMap<Key, Arc<Pieces>>,
    before: HashMap<Key, Arc<Pieces>>,
}

impl Drawn {
    fn turn(&mut self, pass: u64) {
        if self.pass != pass {
            let now = std::mem::take(&mut self.now);
            self.before = if self.pass + 1 == pass { now } else { HashMap::new() };
            self.pass = pass;
        }
    }

    fn known(&mut self, key: &Key) -> Option<Arc<Pieces>> {
        let known = self.now.get(key).or_else(|| self.before.get(key)).cloned()?;
        self.now.insert(key.clone(), Arc::clone(&known));
        Some(known)
    }
}

/// The cached points for this key, or those that `make` returns.
pub fn pieces(context: &Context, key: Key, make: impl FnOnce() -> Pieces) -> Arc<Pieces> {
    let (id, pass) = (Id::unique("live-drawn"), context.cumulative_pass_nr());
    let known = context.data_mut(|data| {
        let drawn = data.get_temp_mut_or_default::<Drawn>(id);
        drawn.turn(pass);
        drawn.known(&key)
    });
    known.unwrap_or_else(|| {
        let pieces = Arc::new(make());
        context.data_mut(|data| data.get_temp_mut_or_default::<Drawn>(id).now.insert(key, Arc::clone(&pieces)));
        pieces
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use eframe::egui::RawInput;

    use super::*;

    #[test]
    fn points_are_cached_until_they_change_or_are_no_longer_drawn() {
        let (context, made) = (Context::default(), Cell::new(0));
        let key = |length| Key {
            run: ("r1".to_owned(), 0),
            values: (1, length),
            smoothing: 0,
            axis: XAxis::Step,
            view: (0, 1),
            columns: 100,
        };
        let pass = |length: Option<usize>| {
            let mut output = context.run_ui(RawInput::default(), |ui| {
                if let Some(length) = length {
                    let points = pieces(ui.ctx(), key(length), || {
                        made.set(made.get() + 1);
                        vec![vec![[length as f64, 0.0]]]
                    });
                    assert_eq!(*points, [[[length as f64, 0.0]]]);
                }
            });
            output.textures_delta.clear();
            made.get()
        };
        assert_eq!([pass(Some(5)), pass(Some(5)), pass(Some(5))], [1; 3]);
        assert_eq!([pass(Some(6)), pass(Some(6))], [2; 2]);
        assert_eq!([pass(None), pass(Some(6))], [2, 3], "points that were not drawn are dropped");
    }
}
