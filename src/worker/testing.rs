//! Shared by the worker's tests.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// libtorch has one generator per process: a test that relies on its numbers must hold this guard.
pub fn generator() -> MutexGuard<'static, ()> {
    static GENERATOR: Mutex<()> = Mutex::new(());
    GENERATOR.lock().unwrap_or_else(PoisonError::into_inner)
}
