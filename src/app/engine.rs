//! The threads behind the window: one is attached to the conductor of the open session, the librarian reads sessions.
//!
//! All channels are bounded. The window never waits for the threads; they may wait for the window.

mod attachment;
mod librarian;
mod messages;
mod reading;
mod start;

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::command::ScreenName;
use messages::Outbox;
pub use messages::{LiveBatch, Records, Request, RunCurves, RunPage, Sampling, SessionPlan, UiEvent};
pub use reading::read_session;

/// Capacity of the channel to the window.
const EVENTS_IN_FLIGHT: usize = 256;
/// Capacity of the channel to each thread.
const REQUESTS_IN_FLIGHT: usize = 256;
/// Time that waiting orders have to reach the conductor when the window closes.
const CLOSING_LIMIT: Duration = Duration::from_secs(5);

/// Both threads and their channels.
pub struct Engine {
    attachment: SyncSender<Request>,
    librarian: SyncSender<Request>,
    events: Receiver<UiEvent>,
    own_sender: SyncSender<UiEvent>,
    attached: Option<JoinHandle<()>>,
}

impl Engine {
    /// Starts both threads; `wake` is called after each event. They end when the engine is dropped.
    pub fn start(wake: impl Fn() + Send + Sync + 'static) -> Self {
        let (sender, events) = sync_channel(EVENTS_IN_FLIGHT);
        let (to_attachment, attachment_requests) = sync_channel(REQUESTS_IN_FLIGHT);
        let (to_librarian, librarian_requests) = sync_channel(REQUESTS_IN_FLIGHT);
        let outbox = Outbox::new(sender.clone(), wake);
        let librarian = to_librarian.clone();
        let mut engine = Self { attachment: to_attachment, librarian, events, own_sender: sender, attached: None };
        let for_librarian = outbox.clone();
        engine.thread("librarian", move || librarian::run(&librarian_requests, &for_librarian));
        let attach = move || attachment::run(&attachment_requests, &to_librarian, &outbox);
        engine.attached = engine.thread("attachment", attach);
        engine
    }

    fn thread(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
        match std::thread::Builder::new().name(name.to_owned()).spawn(work) {
            Ok(thread) => Some(thread),
            Err(error) => {
                let message = format!("cannot start the {name} thread ({error}): close other programs, then restart");
                // The channel is empty, so it has room.
                let _ = self.own_sender.try_send(UiEvent::Problem { screen: ScreenName::PLAN, message });
                None
            }
        }
    }

    /// Sends a request, without waiting.
    pub fn ask(&self, request: Request) {
        let reading = matches!(request, Request::Read(_) | Request::Page(..) | Request::Curves(..));
        let thread = if reading { &self.librarian } else { &self.attachment };
        let message = match thread.try_send(request) {
            Ok(()) => return,
            Err(TrySendError::Full(request)) => format!("too busy for {request:?}: try again in a moment"),
            Err(TrySendError::Disconnected(request)) => {
                format!("the thread for {request:?} has ended: restart multicard; recorded data is safe")
            }
        };
        let _ = self.own_sender.try_send(UiEvent::Problem { screen: ScreenName::RUNS, message });
    }

    /// The events that arrived since the last call.
    pub fn events(&self) -> Vec<UiEvent> {
        self.events.try_iter().collect()
    }
}

/// Gives waiting orders time to reach the conductor, which continues without the window.
impl Drop for Engine {
    fn drop(&mut self) {
        // Closing the channels tells the threads that the window is gone.
        let (nobody, _) = sync_channel(0);
        (self.attachment, self.librarian) = (nobody.clone(), nobody);
        self.events = sync_channel(0).1;
        let deadline = Instant::now() + CLOSING_LIMIT;
        // It may be waiting for a conductor that does not start; nothing is lost then.
        while self.attached.as_ref().is_some_and(|thread| !thread.is_finished()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
