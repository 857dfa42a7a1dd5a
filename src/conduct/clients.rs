//! The clients of a conductor: for each client, one thread reads its messages and another writes its news.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use super::lines::{self, Lines};
use super::message::{Conducting, Hello, Letter, News};
use super::socket::stranger;
use crate::foreign;

/// The most lines on their way to a client. A client that falls further behind is disconnected; the session's logs contain everything.
const LINES_IN_FLIGHT: usize = 1 << 16;
/// How long a refused client may take to finish writing and to disconnect.
const REFUSED_PATIENCE: Duration = Duration::from_secs(5);
/// The number of the client that the conductor was started for, if it is a thread of `multicard run`.
pub(super) const HOST: u64 = 0;

/// An event that comes from a client.
pub(super) enum Arrived {
    Joined(u64, Joined),
    Letter(u64, Letter),
    Left(u64),
}

/// A client that has sent its greeting.
pub(super) struct Joined {
    lines: SyncSender<Arc<[u8]>>,
    stream: UnixStream,
    live: bool,
}

/// The clients that are attached, by number.
#[derive(Default)]
pub(super) struct Clients {
    attached: BTreeMap<u64, Joined>,
}

impl Clients {
    pub(super) fn join(&mut self, number: u64, joined: Joined) {
        self.attached.insert(number, joined);
    }

    pub(super) fn leave(&mut self, number: u64) {
        self.attached.remove(&number);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.attached.is_empty()
    }

    /// Sends news to all clients; events and samples only to those that asked for them.
    pub(super) fn tell(&mut self, news: &News, is_live: bool) {
        let wanted = |joined: &Joined| joined.live || !is_live;
        if !self.attached.values().any(wanted) {
            return;
        }
        let Ok(line) = lines::line(news) else { return };
        let line: Arc<[u8]> = line.into();
        self.attached.retain(|number, joined| !wanted(joined) || joined.send(*number, Arc::clone(&line)));
    }

    /// Sends news to one client.
    pub(super) fn tell_one(&mut self, number: u64, news: &News) {
        let (Some(joined), Ok(line)) = (self.attached.get(&number), lines::line(news)) else { return };
        if !joined.send(number, line.into()) {
            self.attached.remove(&number);
        }
    }
}

impl Joined {
    /// Whether the client still accepts lines.
    fn send(&self, number: u64, line: Arc<[u8]>) -> bool {
        // The conductor waits for `multicard run`, whose reader may be slow.
        let sent = if number == HOST {
            self.lines.send(line).map_err(|error| TrySendError::Disconnected(error.0))
        } else {
            self.lines.try_send(line)
        };
        if matches!(sent, Err(TrySendError::Full(_))) {
            let _ = self.stream.shutdown(Shutdown::Both);
        }
        sent.is_ok()
    }
}

/// Accepts clients of this user on a thread, until the process ends.
pub(super) fn accept(listener: UnixListener, arrived: SyncSender<Arrived>, conducting: Conducting) -> io::Result<()> {
    let accepting = move || {
        for (number, stream) in (HOST + 1..).zip(listener.incoming()) {
            // A process whose user cannot be determined, or is another one, gets no answer.
            let Ok(stream) = stream else { continue };
            if let Ok(None) = stranger(&stream) {
                let _ = serve(number, stream, arrived.clone(), conducting.clone());
            }
        }
    };
    thread::Builder::new().name("accept".to_owned()).spawn(accepting).map(|_| ())
}

/// Serves a client on threads, until it leaves.
pub(super) fn serve(
    number: u64,
    stream: UnixStream,
    arrived: SyncSender<Arrived>,
    conducting: Conducting,
) -> io::Result<()> {
    let reading = move || {
        // A client that disconnects, or that sends something unreadable, has left.
        if let Err(error) = read(number, &stream, &arrived, &conducting)
            && let Some(advice) = foreign::advice(&error)
        {
            refuse(&stream, format!("the session's conductor cannot serve this client: {error}: {advice}"));
        }
        let _ = arrived.send(Arrived::Left(number));
    };
    thread::Builder::new().name(format!("client-{number}")).spawn(reading).map(|_| ())
}

/// Tells a client why it is not served. Everything that the client still sends is read, because the system discards data that the client
/// has not read yet if the other end closes with unread data.
fn refuse(stream: &UnixStream, problem: String) {
    let sent = lines::write(stream, &News::Problem(problem)).and_then(|()| stream.shutdown(Shutdown::Write));
    if sent.is_ok() && stream.set_read_timeout(Some(REFUSED_PATIENCE)).is_ok() {
        let _ = io::copy(&mut &*stream, &mut io::sink());
    }
}

fn read(number: u64, stream: &UnixStream, arrived: &SyncSender<Arrived>, conducting: &Conducting) -> io::Result<()> {
    lines::write(stream, conducting)?;
    let out = stream.try_clone()?;
    let mut letters = Lines::new(stream.try_clone()?);
    let Some(hello) = letters.next::<Hello>()?.filter(|hello| hello.is_ours()) else { return Ok(()) };
    let (sender, receiver) = sync_channel(LINES_IN_FLIGHT);
    let joined = Joined { lines: sender, stream: out.try_clone()?, live: hello.live };
    let writing = thread::Builder::new().name(format!("news-{number}")).spawn(move || {
        let _ = write(&out, &receiver);
        let _ = out.shutdown(Shutdown::Both);
    });
    writing?;
    let ended = |_| io::Error::from(io::ErrorKind::BrokenPipe);
    arrived.send(Arrived::Joined(number, joined)).map_err(ended)?;
    while let Some(letter) = letters.next::<Letter>()? {
        arrived.send(Arrived::Letter(number, letter)).map_err(ended)?;
    }
    Ok(())
}

/// Writes lines to the client until the conductor drops it.
fn write(stream: &UnixStream, lines: &Receiver<Arc<[u8]>>) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, stream);
    while let Ok(line) = lines.recv() {
        out.write_all(&line)?;
        while let Ok(line) = lines.try_recv() {
            out.write_all(&line)?;
        }
        out.flush()?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Read as _;
    use std::path::Path;

    use super::*;
    use crate::conduct::{Client, Order};

    /// A client with room for some lines, which no thread writes, and both ends of its stream.
    fn joined(room: usize, live: bool) -> (Joined, Receiver<Arc<[u8]>>, [UnixStream; 2]) {
        let (stream, theirs) = UnixStream::pair().unwrap();
        let (lines, written) = sync_channel(room);
        let ends = [stream.try_clone().unwrap(), theirs];
        (Joined { lines, stream, live }, written, ends)
    }

    #[test]
    fn a_client_that_falls_behind_is_disconnected_and_the_others_are_told_on() {
        let mut clients = Clients::default();
        let (slow, _unread, [_reads_letters, mut sees]) = joined(1, true);
        let (quick, received, _) = joined(8, true);
        clients.join(1, slow);
        clients.join(2, quick);
        for _ in 0..3 {
            clients.tell(&News::Records, false);
        }
        sees.set_read_timeout(Some(REFUSED_PATIENCE)).unwrap();
        assert_eq!(sees.read(&mut [0]).unwrap(), 0, "it is disconnected, though its letters are still read");
        assert_eq!(received.try_iter().count(), 3);
        clients.leave(2);
        assert!(clients.is_empty());
    }

    #[test]
    fn events_go_to_clients_that_want_them_alone() {
        let mut clients = Clients::default();
        let (queue_only, told_queue, _stream) = joined(8, false);
        let (live, told_all, _other) = joined(8, true);
        clients.join(1, queue_only);
        clients.join(2, live);
        clients.tell(&News::Problem("an event".to_owned()), true);
        clients.tell(&News::Problem("for all".to_owned()), false);
        assert_eq!((told_queue.try_iter().count(), told_all.try_iter().count()), (1, 2));
    }

    #[test]
    fn a_conductor_that_ends_between_its_greeting_and_its_first_news_is_none_that_takes_orders() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        lines::write(&theirs, &Conducting::here(false)).unwrap();
        let ending = thread::Builder::new().name("ending".to_owned());
        let ending = ending.spawn(move || Lines::new(theirs).next::<Hello>().unwrap().is_some()).unwrap();
        assert!(Client::over(Path::new("session"), ours, false).unwrap().is_none());
        assert!(ending.join().unwrap(), "it ended after it had read who attaches");
    }

    #[test]
    fn a_client_that_is_not_served_reads_why_whenever_it_writes() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        lines::write(&theirs, &Conducting::here(false)).unwrap();
        let refusing = thread::Builder::new().name("refusing".to_owned());
        let refusing = refusing.spawn(move || refuse(&theirs, "too many files".to_owned())).unwrap();
        let mut client = Client::over(Path::new("session"), ours, false).unwrap().unwrap();
        client.orders().unwrap().send(1, Order::CancelAll).unwrap();
        assert!(matches!(client.next(None).unwrap(), Some(News::Problem(_))));
        drop(client);
        refusing.join().unwrap();
    }
}
