//! The order in which the runs of a plan are made.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::random::{draw, shuffle};
use super::{Cell, Order, Plan};

/// One run of the plan, before it is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlannedRun {
    /// The cell's index in the matrix.
    pub cell: usize,
    /// The number of the cell's repeat, from 1.
    pub repeat: u32,
}

/// The runs of a plan's cells, each cell `repeats` times.
///
/// Interleaved: every repeat is a shuffle of all cells, drawn from the plan's seed. If there is more than one cell, its first cell differs
/// from the last cell of the repeat before. Cells that differ only in their tracer run one after the other, so that the members of a pair
/// are close in time; their order is drawn for each repeat. Sequential: all repeats of a cell, then those of the next, with tracers in
/// their order.
pub fn order(plan: &Plan, cells: &[Cell]) -> Vec<PlannedRun> {
    let mut runs = Vec::with_capacity(cells.len() * plan.repeats as usize);
    let mut places = 0..;
    let twins: Vec<Vec<usize>> =
        cells.chunk_by(are_twins).map(|twins| places.by_ref().take(twins.len()).collect()).collect();
    match plan.order {
        Order::Sequential => {
            for twins in &twins {
                for repeat in 1..=plan.repeats {
                    runs.extend(twins.iter().map(|cell| PlannedRun { cell: *cell, repeat }));
                }
            }
        }
        Order::Interleaved => {
            // ChaCha8's stream never changes between versions, so an order can be drawn again years later.
            let mut random = ChaCha8Rng::seed_from_u64(plan.seed);
            for repeat in 1..=plan.repeats {
                let mut round = twins.clone();
                shuffle(&mut round, &mut random);
                round.iter_mut().for_each(|twins| shuffle(twins, &mut random));
                let last = runs.last().map(|run: &PlannedRun| run.cell);
                let was_last = |twins: &Vec<usize>| last.is_some_and(|last| twins.contains(&last));
                if round.len() > 1 && was_last(&round[0]) {
                    let other = 1 + draw(&mut random, round.len() - 1);
                    round.swap(0, other);
                } else if let [twins] = round.as_mut_slice()
                    && twins.len() > 1
                    && last == twins.first().copied()
                {
                    let other = 1 + draw(&mut random, twins.len() - 1);
                    twins.swap(0, other);
                }
                runs.extend(round.into_iter().flatten().map(|cell| PlannedRun { cell, repeat }));
            }
        }
    }
    runs
}

/// A random order of `count` things for one round. It depends only on the seed and the round.
pub fn round_order(seed: u64, round: u32, count: usize) -> Vec<usize> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(u64::from(round));
    let mut places: Vec<usize> = (0..count).collect();
    shuffle(&mut places, &mut random);
    places
}

/// Whether a cell and the next one differ only in their tracer.
fn are_twins(one: &Cell, next: &Cell) -> bool {
    one.tracer < next.tracer && (&one.workload, &one.data, &one.levels) == (&next.workload, &next.data, &next.levels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Capture, Level, Tracer, Tracing, expand, fixture};

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
    fn twins_run_side_by_side_in_every_repeat_each_first_now_and_then() {
        let mut plan = fixture::small_plan(&[("epochs", (1..=4).map(Level::Integer).collect())]);
        (plan.repeats, plan.tracing) = (3, Tracing::by(&[Tracer::Off, Tracer::BuiltIn, Tracer::Nsys], Capture::Whole));
        let cells = expand(&plan, &fixture::gpu_node(1)).cells;
        let one = cells[..3].to_vec();
        let mut first = [0; 3];
        for seed in 0..100 {
            plan.seed = seed;
            let runs = order(&plan, &cells);
            for twins in runs.chunks(3) {
                let mut places: Vec<usize> = twins.iter().map(|run| run.cell).collect();
                first[places[0] % 3] += 1;
                places.sort_unstable();
                assert_eq!(places, [0, 1, 2].map(|tracer| 3 * (places[0] / 3) + tracer));
                assert!(twins.iter().all(|run| run.repeat == twins[0].repeat));
            }
            for runs in [runs, order(&plan, &one)] {
                assert!(runs.windows(2).all(|pair| pair[0].cell != pair[1].cell), "seed {seed}: {runs:?}");
            }
        }
        // 400 expected, standard deviation 16.
        assert!(first.iter().all(|count| (320..480).contains(count)), "{first:?}");
        plan.order = Order::Sequential;
        let runs = order(&plan, &cells);
        let seen: Vec<_> = runs[..7].iter().map(|run| (run.cell, run.repeat)).collect();
        assert_eq!(seen, [(0, 1), (1, 1), (2, 1), (0, 2), (1, 2), (2, 2), (0, 3)]);
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
