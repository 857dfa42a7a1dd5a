//! Packed blocks of a rank's steps, as the index stores them. One row per step would take most of the time of building an
//! index.

use super::StepRecord;

/// Number of steps per block.
const BLOCK_STEPS: u64 = 256;
/// Size of a packed step: number, time, epoch, duration, wait, loss, units, flags.
const STEP_BYTES: usize = 8 + 8 + 4 + 8 + 8 + 8 + 4 + 1;

/// Bits of a step's flags.
const WARM_UP: u8 = 1;
const TRACED: u8 = 2;

/// Number of the block that a step belongs to.
pub(super) fn block_of(step: u64) -> i64 {
    (step / BLOCK_STEPS).cast_signed()
}

/// Steps of one block, in order, each number once.
#[derive(Default)]
pub(super) struct Block(Vec<StepRecord>);

impl Block {
    /// Adds a step; of several with the same number, the last one counts.
    pub(super) fn add(&mut self, step: StepRecord) {
        if self.0.last().is_none_or(|last| last.step < step.step) {
            return self.0.push(step);
        }
        match self.0.binary_search_by_key(&step.step, |known| known.step) {
            Ok(place) => self.0[place] = step,
            Err(place) => self.0.insert(place, step),
        }
    }

    /// The packed steps, in little-endian bytes.
    pub(super) fn pack(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.0.len() * STEP_BYTES);
        for step in &self.0 {
            bytes.extend(step.step.to_le_bytes());
            bytes.extend(step.time_s.to_le_bytes());
            bytes.extend(step.epoch.to_le_bytes());
            bytes.extend(step.duration_s.to_le_bytes());
            bytes.extend(step.load_wait_s.to_le_bytes());
            bytes.extend(step.loss.to_le_bytes());
            bytes.extend(step.units.to_le_bytes());
            bytes.push(u8::from(step.warm_up) * WARM_UP + u8::from(step.traced) * TRACED);
        }
        bytes
    }

    /// Unpacks steps. A trailing partial step is ignored.
    pub(super) fn unpack(bytes: &[u8]) -> Self {
        Self(bytes.chunks_exact(STEP_BYTES).filter_map(unpack_step).collect())
    }

    pub(super) fn into_steps(self) -> Vec<StepRecord> {
        self.0
    }
}

fn unpack_step(bytes: &[u8]) -> Option<StepRecord> {
    let mut rest = bytes;
    let mut long = || rest.split_first_chunk::<8>().map(|(first, left)| (rest = left, *first).1);
    let (step, time_s) = (u64::from_le_bytes(long()?), f64::from_le_bytes(long()?));
    let (epoch, mut rest) = rest.split_first_chunk::<4>()?;
    let mut number = || rest.split_first_chunk::<8>().map(|(first, left)| (rest = left, f64::from_le_bytes(*first)).1);
    let (duration_s, load_wait_s, loss) = (number()?, number()?, number()?);
    let (units, rest) = rest.split_first_chunk::<4>()?;
    Some(StepRecord {
        step,
        time_s,
        epoch: u32::from_le_bytes(*epoch),
        duration_s,
        load_wait_s,
        loss,
        units: u32::from_le_bytes(*units),
        warm_up: *rest.first()? & WARM_UP != 0,
        traced: *rest.first()? & TRACED != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(step: u64, loss: f64) -> StepRecord {
        StepRecord {
            step,
            time_s: 1.7e9 + step as f64,
            epoch: u32::MAX,
            duration_s: 1e-3,
            load_wait_s: -0.0,
            loss,
            units: 64,
            warm_up: step < 3,
            traced: step.is_multiple_of(2),
        }
    }

    #[test]
    fn steps_are_unpacked_as_they_were_packed_in_order_and_once() {
        let mut block = Block::default();
        for (number, loss) in [(2, 9.0), (5, 5.0), (1, 1.0), (2, 2.0), (u64::MAX, f64::MIN_POSITIVE), (3, f64::NAN)] {
            block.add(step(number, loss));
        }
        let steps = Block::unpack(&block.pack()).into_steps();
        let expected = [step(1, 1.0), step(2, 2.0), step(3, f64::NAN), step(5, 5.0), step(u64::MAX, f64::MIN_POSITIVE)];
        assert_eq!(format!("{steps:?}"), format!("{expected:?}"));
    }

    #[test]
    fn blocks_follow_each_other_and_bytes_of_half_a_step_are_left_out() {
        assert_eq!([0, 255, 256, u64::MAX].map(block_of), [0, 0, 1, (u64::MAX / 256).cast_signed()]);
        let mut block = Block::default();
        block.add(step(1, 1.0));
        block.add(step(2, 2.0));
        let bytes = block.pack();
        assert_eq!(Block::unpack(&bytes[..bytes.len() - 1]).into_steps(), [step(1, 1.0)]);
    }
}
