//! What the worker's tests share.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// libtorch has one generator for the process: a test that counts on its numbers holds this meanwhile.
pub fn generator() -> MutexGuard<'static, ()> {
    static GENERATOR: Mutex<()> = Mutex::new(());
    GENERATOR.lock().unwrap_or_else(PoisonError::into_inner)
}
