//! Shared by the worker's tests.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Ends this process, which a test started as a rank, when the test's thread ends: because the test failed or was killed.
pub fn end_with_the_test() {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .expect("Linux knows the request");
}

/// libtorch has one generator per process: a test that relies on its numbers must hold this guard.
pub fn generator() -> MutexGuard<'static, ()> {
    static GENERATOR: Mutex<()> = Mutex::new(());
    GENERATOR.lock().unwrap_or_else(PoisonError::into_inner)
}
