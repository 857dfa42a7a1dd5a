//! How often followers look at the files of their runs: less often, if all runs together have many files.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Looks at files in a second, by all followers together. A look takes some microseconds, and may be a question to the server of a network
/// file system.
const LOOKS_PER_S: f64 = 5_000.0;

/// The files that one of several followers looks at.
pub(super) struct Watched {
    /// The number of the files of all followers.
    all: Arc<AtomicUsize>,
    own: usize,
}

impl Watched {
    /// No files yet, beside the files of the other followers.
    pub fn beside(all: Arc<AtomicUsize>) -> Self {
        Self { all, own: 0 }
    }

    /// Sets the number of the follower's files.
    pub fn set(&mut self, own: usize) {
        self.all.fetch_add(own, Ordering::Relaxed);
        self.all.fetch_sub(self.own, Ordering::Relaxed);
        self.own = own;
    }

    /// The shortest time between two looks at each file.
    pub fn interval(&self) -> Duration {
        Duration::from_secs_f64(self.all.load(Ordering::Relaxed) as f64 / LOOKS_PER_S)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_files_are_looked_at_less_often_until_their_followers_are_gone() {
        let all = Arc::<AtomicUsize>::default();
        let (mut a, mut b) = (Watched::beside(Arc::clone(&all)), Watched::beside(all));
        a.set(100);
        b.set(1000);
        b.set(4900);
        assert_eq!([a.interval(), b.interval()], [Duration::from_secs(1); 2]);
        drop(b);
        assert_eq!(a.interval(), Duration::from_millis(20));
    }
}
