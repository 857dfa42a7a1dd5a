//! Changes bytes the way fuzzers do, from a seeded generator: what two fuzz tests share.

use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// What this thread has computed: a machine that has much else to do makes no parser slow.
pub fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Changes some bytes and keeps the length: single bytes and bits, short runs, one place copied over another.
pub fn overwrite(bytes: &mut [u8], random: &mut ChaCha8Rng) {
    if bytes.is_empty() {
        return;
    }
    let at = random.random_range(0..bytes.len());
    match random.random_range(0..5) {
        0 => bytes[at] = random.random(),
        1 => bytes[at] ^= 1 << random.random_range(0..8),
        2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.random_range(0..5)],
        3 => {
            let end = bytes.len().min(at + random.random_range(1..9));
            bytes[at..end].fill(0xff);
        }
        _ => {
            let from = random.random_range(0..bytes.len());
            let n = random.random_range(1..64).min(bytes.len() - at.max(from));
            bytes.copy_within(from..from + n, at);
        }
    }
}

/// Changes text: words of a dictionary put in or over, pieces taken out, doubled or taken from `other`, or [`overwrite`].
#[allow(dead_code, reason = "each test is a crate of its own, and reports are not text")]
pub fn edit(text: &mut Vec<u8>, other: &[u8], words: &[&str], random: &mut ChaCha8Rng) {
    let at = random.random_range(0..=text.len());
    let end = text.len().min(at + random.random_range(0..24));
    match random.random_range(0..8) {
        0 | 1 => {
            let word = words[random.random_range(0..words.len())].bytes();
            let replaced = if random.random() { at..end } else { at..at };
            text.splice(replaced, word);
        }
        2 => {
            text.drain(at..end);
        }
        3 => {
            let piece = text[at..end].to_vec();
            let to = random.random_range(0..=text.len());
            text.splice(to..to, piece);
        }
        4 if !other.is_empty() => {
            let from = random.random_range(0..other.len());
            let piece = &other[from..other.len().min(from + random.random_range(1..64))];
            text.splice(at..end, piece.iter().copied());
        }
        5 => {
            // A number becomes another.
            let digits: Vec<usize> = (0..text.len()).filter(|at| text[*at].is_ascii_digit()).collect();
            if let Some(at) = digits.get(random.random_range(0..digits.len().max(1))) {
                let number = NUMBERS[random.random_range(0..NUMBERS.len())].bytes();
                text.splice(*at..=*at, number);
            }
        }
        _ => overwrite(text, random),
    }
}

/// Numbers that programs stumble over.
#[allow(dead_code, reason = "as above")]
const NUMBERS: &[&str] = &[
    "0",
    "-0.0",
    "-1",
    "1e308",
    "1e999",
    "-1e-400",
    "0.1",
    "255",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "null",
    "NaN",
    "0x10",
    "1_000",
    "00",
];
