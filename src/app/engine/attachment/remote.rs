//! Sessions on other machines: the connection, the other machine, and the window's messages about both.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use super::node_watch::ShownUse;
use super::{Desk, Opening, WindowClosed, lock};
use crate::app::command::ScreenName;
use crate::app::engine::messages::UiEvent;
use crate::conduct::{Client, ConductError, Launch, Order};
use crate::plan::Plan;
use crate::remote::{Address, Line, LineNews, Prompts, Reached, RemoteError};
use crate::session::open_reader;

/// The most news of a connection that wait to be read.
const NEWS_IN_FLIGHT: usize = 64;

/// A session on another machine that is open or being opened.
pub(super) struct Remote {
    /// The folder by which the window identifies it.
    folder: PathBuf,
    opening: Opening,
    line: Line,
    news: Receiver<LineNews>,
    /// The home folder on the other machine.
    home: PathBuf,
    /// The number of the connection over which the conductor is attached.
    number: u64,
}

impl Remote {
    /// A client of the session's conductor.
    pub(super) fn client(&mut self) -> Result<Client, ConductError> {
        self.number = self.line.number();
        self.line.client_or_start(true)
    }

    /// Whether the connection broke after the conductor was attached.
    pub(super) fn was_cut(&self) -> bool {
        self.line.number() != self.number
    }

    pub(super) fn watch(&self, interval: Option<Duration>) {
        self.line.watch(interval);
    }

    pub(super) fn look(&self) {
        self.line.look();
    }

    pub(super) fn look_at_places(&self) {
        self.line.look_at_places();
    }

    /// The launch of a plan, whose relative paths are relative to the home folder of the other machine.
    pub(super) fn launch(&self, plan: &Plan, only_missing: bool) -> Launch {
        let mut plan = plan.clone();
        if plan.folder().is_some() {
            plan.set_folder(self.home.to_str());
        }
        Launch::new(&plan, &self.home, only_missing)
    }

    /// Why an order cannot be given from this machine.
    pub(super) fn refusal(&self, order: &Order) -> Option<String> {
        let is_file_of_ours = matches!(order, Order::Attach(..));
        let host = self.line.address().host();
        is_file_of_ours.then(|| format!("the report is a file on this machine: copy it to {host} and import it there"))
    }
}

/// The text that is shown without a connection. The bar cuts off its end.
fn waiting(error: &RemoteError, delay: Duration) -> String {
    format!("Read-only, trying again in {} s: {error}", delay.as_secs())
}

impl Desk<'_> {
    /// Begins to open a session on another machine; the previous session stays until this one is reached.
    pub(super) fn open_remote(
        &mut self,
        folder: PathBuf,
        address: Address,
        opening: Opening,
    ) -> Result<(), WindowClosed> {
        let is_open = |remote: &Remote| *remote.line.address() == address;
        if self.attached.is_some() && self.remote.as_ref().is_some_and(is_open) {
            return self.outbox.send(UiEvent::NotOpened { folder, reason: None });
        }
        let host = address.host().to_owned();
        let (sender, news) = sync_channel(NEWS_IN_FLIGHT);
        match Line::open(address, Prompts::Askpass, sender) {
            Ok(line) => {
                if self.shown.is_some() {
                    self.outbox.send(UiEvent::Access(Some(format!("Read-only: connecting to {host} …"))))?;
                }
                self.opening = Some(Remote { folder, opening, line, news, home: PathBuf::new(), number: 0 });
                Ok(())
            }
            Err(error) => self.outbox.send(UiEvent::NotOpened { folder, reason: Some(error.to_string()) }),
        }
    }

    /// Takes over what happened on the connections.
    pub(super) fn poll_remote(&mut self) -> Result<(), WindowClosed> {
        while let Some(news) = self.opening.as_ref().and_then(|remote| remote.news.try_recv().ok()) {
            self.opened(news)?;
        }
        while let Some(news) = self.remote.as_ref().and_then(|remote| remote.news.try_recv().ok()) {
            self.heard(news)?;
        }
        Ok(())
    }

    /// Takes over news of the session that is being opened.
    fn opened(&mut self, news: LineNews) -> Result<(), WindowClosed> {
        if let LineNews::Problem(message) = news {
            return self.outbox.problem(ScreenName::RUNS, message);
        }
        let Some(mut remote) = self.opening.take() else { return Ok(()) };
        let refused =
            |remote: Remote, reason: String| UiEvent::NotOpened { folder: remote.folder, reason: Some(reason) };
        match news {
            LineNews::Ready(Reached { exists, home }) => {
                let address = remote.line.address();
                let refusal = match remote.opening {
                    Opening::Existing if !exists => {
                        Some(RemoteError::NoSession { address: address.to_string() }.to_string())
                    }
                    Opening::New if exists => {
                        Some(format!("{address}: a session already exists there; open it, or choose another name"))
                    }
                    _ => None,
                };
                if let Some(reason) = refusal {
                    return self.outbox.send(refused(remote, reason));
                }
                remote.home = home;
                let client = remote.client();
                match client {
                    Ok(client) => self.begin(remote, Ok(client)),
                    Err(error) if exists => self.begin(remote, Err(format!("Read-only: {error}"))),
                    Err(error) => self.outbox.send(refused(remote, error.to_string())),
                }
            }
            // What was copied earlier can be read.
            LineNews::Lost(error, delay) if has_copy(&remote) => self.begin(remote, Err(waiting(&error, delay))),
            LineNews::Failed(error) if has_copy(&remote) => self.begin(remote, Err(format!("Read-only: {error}"))),
            LineNews::Lost(error, _) | LineNews::Failed(error) => {
                if self.shown.take().is_some() {
                    self.outbox.send(UiEvent::Access(Some(format!("Read-only: {error}"))))?;
                }
                self.outbox.send(refused(remote, error.to_string()))
            }
            LineNews::Node(_) | LineNews::Places(_) | LineNews::Sample(_) | LineNews::Problem(_) => {
                self.opening = Some(remote);
                Ok(())
            }
        }
    }

    /// Shows a session, with a client of its conductor or the reason why there is none.
    fn begin(&mut self, remote: Remote, client: Result<Client, String>) -> Result<(), WindowClosed> {
        let copy = remote.line.copy().to_owned();
        self.attached = None;
        remote.look();
        remote.watch(self.watched.map(|sampling| sampling.interval));
        (self.node_watch, self.shown_use) = (None, ShownUse::default());
        self.remote = Some(remote);
        let (client, reason) = client.map_or_else(|reason| (None, Some(reason)), |client| (Some(client), None));
        self.read_only = reason.is_some();
        let is_shown = self.shown.take().is_some_and(|shown| shown == copy);
        let event = if is_shown {
            UiEvent::Access(reason)
        } else {
            UiEvent::Session { folder: copy.clone(), read_only: reason }
        };
        self.outbox.send(event)?;
        // Until the node has described itself, the machine is shown as it was when the session was created.
        if let Ok(node) = open_reader(&copy).and_then(|reader| reader.node()) {
            self.show_node(node)?;
        }
        self.go_on(&copy, client)
    }

    /// Takes over news from the open session's connection.
    fn heard(&mut self, news: LineNews) -> Result<(), WindowClosed> {
        match news {
            LineNews::Ready(Reached { home, .. }) => {
                let Some(remote) = &mut self.remote else { return Ok(()) };
                remote.home = home;
                let (copy, client) = (remote.line.copy().to_owned(), remote.client());
                self.take_up(&copy, client.map_err(|error| error.to_string()))
            }
            LineNews::Lost(error, delay) => self.cut(waiting(&error, delay)),
            LineNews::Failed(error) => self.cut(format!("Read-only: {error}")),
            LineNews::Node(node) => self.show_node(*node),
            LineNews::Places(places) => self.outbox.send(UiEvent::Places(places)),
            LineNews::Sample(sample) => self.show_sample(sample),
            LineNews::Problem(message) => self.outbox.problem(ScreenName::RUNS, message),
        }
    }

    /// Reports that the session cannot be changed without a connection.
    fn cut(&mut self, reason: String) -> Result<(), WindowClosed> {
        (self.attached, self.read_only) = (None, true);
        let names = lock(&self.unanswered).names();
        if let Some(names) = names {
            let message = format!(
                "the connection broke before the launch of {names} was answered: it is sent again over the next connection, and no run \
                     is queued twice"
            );
            self.outbox.problem(ScreenName::PLAN, message)?;
        }
        self.outbox.send(UiEvent::Access(Some(reason)))
    }

    /// Disconnects from the node, to open a session on this machine.
    pub(super) fn leave_remote(&mut self) -> Result<(), WindowClosed> {
        self.opening = None;
        if self.remote.take().is_none() {
            return Ok(());
        }
        self.show_node(self.machine.node.clone())?;
        self.watch_node(self.watched)
    }
}

fn has_copy(remote: &Remote) -> bool {
    remote.line.copy().join("session.toml").exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::engine::messages::{Outbox, Sampling};
    use crate::plan::Topology;
    use crate::plan::fixture::cpu_node;
    use crate::protocol::{HostSample, Sample};
    use crate::session::Machine;

    #[test]
    fn samples_of_another_machine_that_show_nothing_new_are_not_sent_if_only_its_use_is_shown() {
        let (sender, events) = sync_channel(10);
        let outbox = Outbox::new(sender, || ());
        let (librarian, _requests) = sync_channel(1);
        let machine = Machine { node: cpu_node(), topology: Topology::default(), worker: None };
        let mut desk = Desk::new(machine, &librarian, &outbox);
        for (only_use, sent) in [(true, 2), (false, 4)] {
            desk.watched = Some(Sampling { interval: Duration::from_secs(5), only_use });
            for cpus_busy in [0.1, 0.2, 3.0, 3.0] {
                let host = HostSample { cpus_busy: Some(cpus_busy), ..HostSample::default() };
                assert!(desk.heard(LineNews::Sample(Box::new(Sample { host, ..Sample::default() }))).is_ok());
            }
            assert_eq!(events.try_iter().count(), sent, "{only_use}");
        }
    }
}
