//! Start-up: reads the machine, and shows the session to be opened in the meantime.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use super::messages::{Outbox, Records, Request, UiEvent, WindowClosed};
use crate::launch;
use crate::session::Machine;
use crate::session::open_reader;

/// Interval between checks whether the machine is read.
const REQUEST_INTERVAL: Duration = Duration::from_millis(5);

/// A request that arrived while the machine was read, and whether its session is already shown.
pub(super) struct Waiting {
    pub(super) request: Request,
    is_shown: bool,
}

impl Waiting {
    /// The session that is already shown.
    pub(super) fn shown(&self) -> Option<PathBuf> {
        match &self.request {
            Request::OpenSession(folder) | Request::OpenExisting(folder) if self.is_shown => Some(folder.clone()),
            _ => None,
        }
    }
}

/// Reads the machine, which takes seconds. Until then, the runs of the session to be opened are shown.
pub(super) fn look_at_machine(
    requests: &Receiver<Request>,
    outbox: &Outbox,
) -> Result<(Machine, Option<Waiting>), WindowClosed> {
    let looking = std::thread::Builder::new().name("machine".to_owned()).spawn(Machine::look);
    let is_looking = || looking.as_ref().is_ok_and(|looking| !looking.is_finished());
    let mut waiting = None;
    while waiting.is_none() && is_looking() {
        match requests.recv_timeout(REQUEST_INTERVAL) {
            Ok(request) => {
                let is_shown = match &request {
                    Request::OpenSession(folder) | Request::OpenExisting(folder) => show(folder, outbox)?,
                    _ => false,
                };
                waiting = Some(Waiting { request, is_shown });
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(WindowClosed),
        }
    }
    let machine = looking.ok().and_then(|looking| looking.join().ok()).unwrap_or_else(Machine::look);
    outbox.send(UiEvent::Node(Arc::new(machine.node.clone())))?;
    // Errors in the file of sites are reported where a plan names a site, and by `multicard doctor`.
    let sites = launch::sites().unwrap_or_default();
    if !sites.is_empty() {
        outbox.send(UiEvent::Sites(sites.into_iter().map(|site| site.name).collect()))?;
    }
    Ok((machine, waiting))
}

/// Shows the runs of a session. False if it cannot be read; the error is shown when it is opened.
fn show(folder: &Path, outbox: &Outbox) -> Result<bool, WindowClosed> {
    if !folder.join("session.toml").exists() {
        return Ok(false);
    }
    let Ok(runs) = open_reader(folder).and_then(|reader| reader.runs()) else { return Ok(false) };
    outbox.send(UiEvent::Session { folder: folder.to_owned(), read_only: None })?;
    let pending = runs.iter().filter(|run| run.state.is_final()).count();
    let records = Records { folder: folder.to_owned(), runs: runs.into(), pending, ..Records::default() };
    outbox.send(UiEvent::Records(Arc::new(records.folded())))?;
    Ok(true)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::plan::fixture::cpu_node;
    use crate::store::Store;

    #[test]
    fn a_session_is_shown_before_it_is_opened_and_a_folder_without_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (sender, events) = sync_channel(10);
        let outbox = Outbox::new(sender, || ());
        assert!(!show(folder.path(), &outbox).ok().unwrap());
        let session = folder.path().join("study");
        drop(Store::create(&session, &cpu_node()).unwrap());
        assert!(show(&session, &outbox).ok().unwrap());
        let sent: Vec<UiEvent> = events.try_iter().collect();
        let [UiEvent::Session { folder, read_only: None }, UiEvent::Records(records)] = &sent[..] else {
            panic!("{} events", sent.len());
        };
        assert!(*folder == session && records.folder == session && records.runs.is_empty());
    }
}
