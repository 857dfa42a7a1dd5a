//! Notifications on the desktop, if there is one: `org.freedesktop.Notifications` on the user's session bus.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use zbus::blocking::Connection;
use zbus::zvariant::Value;

/// The most notifications that wait; more are dropped, since the newest one matters.
const IN_FLIGHT: usize = 4;
const NAME: &str = "org.freedesktop.Notifications";

/// Shows notifications from a thread. Each one replaces the one before.
pub(super) struct Notifier {
    sender: SyncSender<Notification>,
}

struct Notification {
    summary: String,
    body: String,
}

impl Notifier {
    /// `None` if the system has no more threads.
    pub(super) fn start() -> Option<Self> {
        let (sender, receiver) = sync_channel(IN_FLIGHT);
        let showing = thread::Builder::new().name("notifier".to_owned()).spawn(move || {
            // Without a bus or a desktop, notifications are dropped.
            let _ = show(&receiver);
        });
        showing.ok().map(|_| Self { sender })
    }

    pub(super) fn tell(&self, summary: String, body: &str) {
        // The body may contain markup.
        let body = body.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let _ = self.sender.try_send(Notification { summary, body });
    }
}

fn show(notifications: &Receiver<Notification>) -> zbus::Result<()> {
    let mut shown = 0_u32;
    let mut bus = None;
    while let Ok(Notification { summary, body }) = notifications.recv() {
        let bus = match &bus {
            Some(bus) => bus,
            None => bus.insert(Connection::session()?),
        };
        let hints: HashMap<&str, Value<'_>> = HashMap::new();
        let actions: Vec<&str> = Vec::new();
        let icon = "";
        let usual_time = -1_i32;
        let arguments = ("multicard", shown, icon, summary, body, actions, hints, usual_time);
        let reply = bus.call_method(Some(NAME), "/org/freedesktop/Notifications", Some(NAME), "Notify", &arguments)?;
        shown = reply.body().deserialize()?;
    }
    Ok(())
}
