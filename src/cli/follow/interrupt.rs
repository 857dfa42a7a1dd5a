//! Interrupts of this process by signals.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::processes::ignores;

/// What interrupted this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interrupt {
    /// SIGINT or SIGTERM. Whoever sends another one does not want to wait any longer.
    Wanted,
    /// SIGHUP: the terminal was closed. The kernel and the shell may both send it, and nobody is impatient.
    HungUp,
}

/// The signals that came since the last interrupt was taken.
struct Signals {
    is_wanted: AtomicBool,
    is_hung_up: AtomicBool,
}

/// Those of this process.
static SIGNALS: Signals = Signals::new();

impl Signals {
    const fn new() -> Self {
        Self { is_wanted: AtomicBool::new(false), is_hung_up: AtomicBool::new(false) }
    }

    /// The flag that the signals of an interrupt set.
    fn flag(&self, interrupt: Interrupt) -> &AtomicBool {
        match interrupt {
            Interrupt::Wanted => &self.is_wanted,
            Interrupt::HungUp => &self.is_hung_up,
        }
    }

    /// Takes all signals as one interrupt; `None` if there are none.
    fn take(&self) -> Option<Interrupt> {
        let came = |interrupt: &Interrupt| self.flag(*interrupt).swap(false, Ordering::SeqCst);
        let is_hung_up = came(&Interrupt::HungUp);
        Some(Interrupt::Wanted).filter(came).or(is_hung_up.then_some(Interrupt::HungUp))
    }
}

/// A flag that SIGINT, SIGTERM and SIGHUP set. Before the first call, these signals end the process. Under `nohup`, SIGHUP stays ignored.
///
/// # Errors
/// The system refuses the signal handler.
pub(in crate::cli) fn interrupts() -> Result<Arc<AtomicBool>, Box<dyn Error>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let all = [(SIGINT, Interrupt::Wanted), (SIGTERM, Interrupt::Wanted), (SIGHUP, Interrupt::HungUp)];
    for (signal, interrupt) in all {
        if signal != SIGHUP || !ignores(SIGHUP) {
            // In this order: whoever finds the common flag set finds the signal.
            flag::register(signal, SIGNALS.flag(interrupt))?;
            flag::register(signal, Arc::clone(&interrupted))?;
        }
    }
    Ok(interrupted)
}

/// The interrupts of this process, to be taken one after the other.
pub(super) struct Interrupts {
    signals: &'static Signals,
    /// The flag of [`interrupts`].
    interrupted: Arc<AtomicBool>,
    /// Whether a SIGHUP was taken. A terminal is closed once, so that further ones say nothing new.
    is_hung_up: bool,
}

impl Interrupts {
    /// The interrupts that set this flag, which is that of [`interrupts`].
    pub fn new(interrupted: Arc<AtomicBool>) -> Self {
        Self { signals: &SIGNALS, interrupted, is_hung_up: false }
    }

    /// Whether a signal came since the last interrupt was taken.
    pub fn is_pending(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Takes the interrupt since the last call; `None` if there was none. All SIGHUP are one interrupt, and so is a signal that comes while
    /// the one before it is taken.
    pub fn take(&mut self) -> Option<Interrupt> {
        if !self.interrupted.swap(false, Ordering::SeqCst) {
            return None;
        }
        let is_new =
            |interrupt: &Interrupt| *interrupt == Interrupt::Wanted || !std::mem::replace(&mut self.is_hung_up, true);
        self.signals.take().filter(is_new)
    }

    /// Puts an interrupt back that was taken: the next call takes it again.
    pub fn put_back(&mut self, interrupt: Interrupt) {
        self.is_hung_up &= interrupt != Interrupt::HungUp;
        self.signals.flag(interrupt).store(true, Ordering::SeqCst);
        self.interrupted.store(true, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The interrupts by these signals.
    fn interrupts_by(signals: &'static Signals) -> Interrupts {
        Interrupts { signals, ..Interrupts::new(Arc::default()) }
    }

    /// Does what the handlers of a signal do.
    fn signal(interrupts: &Interrupts, interrupt: Interrupt) {
        interrupts.signals.flag(interrupt).store(true, Ordering::SeqCst);
        interrupts.interrupted.store(true, Ordering::SeqCst);
    }

    #[test]
    fn a_second_sighup_is_no_interrupt_even_while_the_first_one_is_taken() {
        static SIGNALS: Signals = Signals::new();
        let mut interrupts = interrupts_by(&SIGNALS);
        signal(&interrupts, Interrupt::HungUp);
        // As `take` begins.
        assert!(interrupts.interrupted.swap(false, Ordering::SeqCst));
        signal(&interrupts, Interrupt::HungUp);
        assert_eq!(SIGNALS.take(), Some(Interrupt::HungUp));
        assert_eq!(interrupts.take(), None);
        let mut interrupts = interrupts_by(&SIGNALS);
        for expected in [Some(Interrupt::HungUp), None, None] {
            signal(&interrupts, Interrupt::HungUp);
            assert_eq!(interrupts.take(), expected);
        }
    }

    #[test]
    fn each_other_signal_is_an_interrupt_also_after_and_with_a_sighup() {
        static SIGNALS: Signals = Signals::new();
        let mut interrupts = interrupts_by(&SIGNALS);
        assert_eq!((interrupts.is_pending(), interrupts.take()), (false, None));
        signal(&interrupts, Interrupt::HungUp);
        assert_eq!(interrupts.take(), Some(Interrupt::HungUp));
        for came in [&[Interrupt::Wanted][..], &[Interrupt::Wanted], &[Interrupt::Wanted, Interrupt::HungUp]] {
            came.iter().for_each(|interrupt| signal(&interrupts, *interrupt));
            assert!(interrupts.is_pending());
            assert_eq!((interrupts.take(), interrupts.take()), (Some(Interrupt::Wanted), None));
        }
    }

    #[test]
    fn an_interrupt_that_is_put_back_is_taken_again() {
        static SIGNALS: Signals = Signals::new();
        let mut interrupts = interrupts_by(&SIGNALS);
        for interrupt in [Interrupt::HungUp, Interrupt::Wanted] {
            signal(&interrupts, interrupt);
            assert_eq!(interrupts.take(), Some(interrupt));
            interrupts.put_back(interrupt);
            assert_eq!((interrupts.is_pending(), interrupts.take(), interrupts.take()), (true, Some(interrupt), None));
        }
    }
}
