//! In which order the runs of a plan are made.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Cell, Order, Plan};

/// One run of the plan, before it is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlannedRun {
    /// The cell's place in the matrix.
    pub cell: usize,
    /// Which of the cell's runs, from 1.
    pub repeat: u32,
}

/// The runs of a plan's cells, each cell `repeats` times.
///
/// Interleaved: every repeat is a shuffle of all cells, drawn from the plan's seed, and its first cell is not the
/// last one of the repeat before (where there is more than one).
pub fn order(plan: &Plan, cells: &[Cell]) -> Vec<PlannedRun> {
    let mut runs = Vec::with_capacity(cells.len() * plan.repeats as usize);
    match plan.order {
        Order::Sequential => {
            for cell in 0..cells.len() {
                runs.extend((1..=plan.repeats).map(|repeat| PlannedRun { cell, repeat }));
            }
        }
        Order::Interleaved => {
            // ChaCha8's stream never changes between versions: an order can be drawn again in years.
            let mut random = ChaCha8Rng::seed_from_u64(plan.seed);
            for repeat in 1..=plan.repeats {
                let mut round: Vec<usize> = (0..cells.len()).collect();
                shuffle(&mut round, &mut random);
                let last = runs.last().map(|run: &PlannedRun| run.cell);
                if round.len() > 1 && last == round.first().copied() {
                    let other = 1 + draw(&mut random, round.len() - 1);
                    round.swap(0, other);
                }
                runs.extend(round.into_iter().map(|cell| PlannedRun { cell, repeat }));
            }
        }
    }
    runs
}

/// Fisher and Yates: every order is as likely as every other.
fn shuffle(places: &mut [usize], random: &mut ChaCha8Rng) {
    for end in (1..places.len()).rev() {
        places.swap(end, draw(random, end + 1));
    }
}

/// A whole number below `count`, by multiplication: the same in every version of the libraries. Its bias is below
/// `count` in 2⁶⁴.
fn draw(random: &mut ChaCha8Rng, count: usize) -> usize {
    ((u128::from(random.next_u64()) * count as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Level, expand, fixture};

    fn plan(repeats: u32, order: Order) -> (Plan, Vec<Cell>) {
        let mut plan = fixture::small_plan(&[("epochs", (1..=6).map(Level::Integer).collect())]);
        plan.repeats = repeats;
        plan.order = order;
        let cells = expand(&plan, &fixture::cpu_node()).cells;
        assert_eq!(cells.len(), 6);
        (plan, cells)
    }

    #[test]
    fn every_cell_runs_once_in_each_repeat_and_never_back_to_back() {
        let (mut plan, cells) = plan(5, Order::Interleaved);
        for seed in 0..200 {
            plan.seed = seed;
            let runs = order(&plan, &cells);
            for (index, round) in runs.chunks(6).enumerate() {
                let mut of_round: Vec<usize> = round.iter().map(|run| run.cell).collect();
                of_round.sort_unstable();
                assert_eq!(of_round, [0, 1, 2, 3, 4, 5]);
                assert!(round.iter().all(|run| run.repeat as usize == index + 1));
            }
            assert!(runs.windows(2).all(|pair| pair[0].cell != pair[1].cell), "seed {seed}: {runs:?}");
        }
    }

    #[test]
    fn the_seed_decides_the_order() {
        let (mut plan, cells) = plan(3, Order::Interleaved);
        let first = order(&plan, &cells);
        assert_eq!(first, order(&plan, &cells));
        plan.seed += 1;
        assert_ne!(first, order(&plan, &cells));
    }

    #[test]
    fn an_order_drawn_today_can_be_drawn_again() {
        let (plan, cells) = plan(1, Order::Interleaved);
        let cells: Vec<usize> = order(&plan, &cells).iter().map(|run| run.cell).collect();
        assert_eq!(cells, [1, 3, 4, 5, 0, 2], "a change of this order breaks the resumption of old sessions");
    }

    #[test]
    fn a_shuffle_favours_no_place() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let mut counts = [[0_u32; 4]; 4];
        for _ in 0..8000 {
            let mut places = vec![0, 1, 2, 3];
            shuffle(&mut places, &mut random);
            places.iter().enumerate().for_each(|(place, cell)| counts[*cell][place] += 1);
        }
        // 2000 expected, standard deviation 39.
        assert!(counts.iter().flatten().all(|count| (1800..2200).contains(count)), "{counts:?}");
    }

    #[test]
    fn sequential_repeats_each_cell_before_the_next() {
        let (plan, cells) = plan(2, Order::Sequential);
        let runs = order(&plan, &cells);
        assert_eq!(runs[..3].iter().map(|run| (run.cell, run.repeat)).collect::<Vec<_>>(), [(0, 1), (0, 2), (1, 1)]);
        assert_eq!(runs.len(), 12);
    }

    #[test]
    fn one_cell_repeats_and_no_cell_gives_no_run() {
        let (plan, cells) = plan(3, Order::Interleaved);
        assert_eq!(order(&plan, &cells[..1]).len(), 3);
        assert!(order(&plan, &[]).is_empty());
    }
}
