//! When the bytes of a growing file arrived. A thread records the file's length at each write. A step without a time of its own therefore
//! gets the time at which it was written, and not the time of the next poll.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::io::Errno;

use crate::protocol::now_s;

/// The most lengths that wait to be used. If more come before the next poll, the newest replaces the one before it.
const MOST_NOTED: usize = 1 << 16;
/// Bytes of events that are read at once.
const EVENTS_BYTES: usize = 4096;

/// A length that the file had, and when, in seconds since the Unix epoch.
type Noted = (u64, f64);

/// The lengths that a file had, from its creation on.
pub(super) struct Arrivals {
    noted: Arc<Mutex<VecDeque<Noted>>>,
    ends: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Arrivals {
    /// Begins to watch a file, which need not exist yet.
    ///
    /// # Errors
    /// Its folder cannot be watched: it does not exist, or this user watches as many files as the system allows.
    pub fn of(path: &Path) -> io::Result<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        inotify::add_watch(&events, folder, WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO)?;
        let noted = Arc::<Mutex<VecDeque<Noted>>>::default();
        let ends = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let watch = Watch { path: path.to_owned(), events, noted: Arc::clone(&noted), ends: Arc::clone(&ends) };
        let thread = thread::Builder::new().name("arrivals".to_owned()).spawn(move || watch.follow())?;
        Ok(Self { noted, ends, thread: Some(thread) })
    }

    /// Cuts bytes of the file that begin at `offset` where a write ended, and passes each piece to `take` with the time of the write, if that
    /// is known.
    pub fn cut<'b>(&self, offset: u64, mut bytes: &'b [u8], mut take: impl FnMut(&'b [u8], Option<f64>)) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut begin = offset;
        while let Some(&(length, at_s)) = noted.front().filter(|_| !bytes.is_empty()) {
            let count = usize::try_from(length.saturating_sub(begin)).unwrap_or(usize::MAX).min(bytes.len());
            if count > 0 {
                take(&bytes[..count], Some(at_s));
                bytes = &bytes[count..];
                begin += count as u64;
            }
            if length > begin {
                return;
            }
            noted.pop_front();
        }
        drop(noted);
        if !bytes.is_empty() {
            take(bytes, None);
        }
    }

    /// Forgets all lengths: the file starts again.
    pub fn forget(&self) {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.ends, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The state of the thread.
struct Watch {
    path: PathBuf,
    events: OwnedFd,
    noted: Arc<Mutex<VecDeque<Noted>>>,
    ends: Arc<OwnedFd>,
}

impl Watch {
    /// Notes the file's length whenever it grows, until `ends` says so.
    fn follow(self) {
        let mut buffer = [MaybeUninit::uninit(); EVENTS_BYTES];
        let mut reader = Reader::new(&self.events, &mut buffer);
        let mut last = 0;
        loop {
            let mut waited = [PollFd::new(&self.events, PollFlags::IN), PollFd::new(&*self.ends, PollFlags::IN)];
            match poll(&mut waited, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            if waited[1].revents().contains(PollFlags::IN) {
                return;
            }
            let mut is_about_it = false;
            while let Ok(event) = reader.next() {
                // Other files of the folder are written, too. An event without a name says that some events were lost.
                is_about_it |= event.file_name().is_none_or(|name| {
                    self.path.file_name().is_some_and(|own| own.as_encoded_bytes() == name.to_bytes())
                });
            }
            if let (true, Ok(about)) = (is_about_it, fs::metadata(&self.path))
                && about.len() != last
            {
                last = about.len();
                self.note((last, now_s()));
            }
        }
    }

    fn note(&self, new: Noted) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.len() >= MOST_NOTED {
            noted.pop_back();
        }
        noted.push_back(new);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::time::{Duration, Instant};

    use super::*;

    /// Waits until so many lengths are noted.
    fn wait(arrivals: &Arrivals, count: usize) {
        let begun = Instant::now();
        while arrivals.noted.lock().unwrap().len() < count {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", arrivals.noted);
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn cut(arrivals: &Arrivals, offset: u64, text: &str) -> Vec<(String, bool)> {
        let mut pieces = Vec::new();
        arrivals.cut(offset, text.as_bytes(), |bytes, at_s| {
            pieces.push((String::from_utf8_lossy(bytes).into_owned(), at_s.is_some()));
        });
        pieces
    }

    #[test]
    fn each_write_has_its_time_and_bytes_whose_write_was_not_seen_have_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("readings.jsonl");
        let arrivals = Arrivals::of(&path).unwrap();
        fs::write(folder.path().join("other"), "no").unwrap();
        let begun_s = now_s();
        let mut file = File::create(&path).unwrap();
        for (count, text) in ["one\n", "two\nthr", "ee\n"].into_iter().enumerate() {
            file.write_all(text.as_bytes()).unwrap();
            wait(&arrivals, count + 1);
        }
        let times: Vec<f64> = arrivals.noted.lock().unwrap().iter().map(|(_, at_s)| *at_s).collect();
        assert!(times.is_sorted() && times[0] >= begun_s && times[2] <= now_s(), "{times:?}");
        // A read may end within a write.
        assert_eq!(cut(&arrivals, 0, "one\nt"), [("one\n".to_owned(), true), ("t".to_owned(), true)]);
        let rest = [("wo\nthr".to_owned(), true), ("ee\n".to_owned(), true), ("more".to_owned(), false)];
        assert_eq!(cut(&arrivals, 5, "wo\nthree\nmore"), rest);
        assert_eq!(cut(&arrivals, 18, "more"), [("more".to_owned(), false)]);
        drop(arrivals);
    }

    #[test]
    fn a_folder_that_is_missing_cannot_be_watched() {
        assert!(Arrivals::of(Path::new("/no/such/folder/file")).is_err());
    }
}
