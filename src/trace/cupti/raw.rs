//! Raw files, as `tracer.cpp` writes them while the program runs: cheap to write, and readable up to the place where they were cut off.
//!
//! A file is a header of 48 bytes and records of 48 bytes. Numbers are little-endian.
//!
//! | header | bytes |
//! |---|---|
//! | mark | `93 4d 43 54` |
//! | version | 1 or 2, then 3 zeros |
//! | process | 8 |
//! | rank, -1 if not known | 4 |
//! | CUPTI's version | 4 |
//! | real time minus this clock, ns | 8 |
//! | zeros | 16 |
//!
//! | record | bytes |
//! |---|---|
//! | kind | 1 |
//! | a, b, c | 1 each |
//! | name | 4 |
//! | start, end: ns of the machine's monotonic clock | 8 each |
//! | device, track, correlation, more | 4 each |
//! | bytes | 8 |
//!
//! A record of text is followed by the number of bytes in its field `bytes`. A record of memory that was allocated or released has the
//! address in place of the end, the kind of memory in a and the operation in b. A collective is a range whose size is known; its
//! domain is in more. Collectives and notes are new in version 2.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::trace::TraceError;
use crate::trace::event::{Kind, What};

const MARK: [u8; 4] = *b"\x93MCT";
const VERSION: u8 = 2;
const HEADER_BYTES: usize = 48;
const RECORD_BYTES: usize = 48;
/// Longest text: beyond the longest template name.
const MOST_TEXT_BYTES: u64 = 1 << 20;

/// A record of a raw file.
#[derive(Debug, PartialEq)]
pub(super) enum Piece {
    /// The name of an id.
    Name(u32, String),
    /// A device as CUDA numbers it in the process, and its index on the machine.
    Gpu {
        ordinal: u32,
        index: Option<i64>,
        name: Option<String>,
        memory_bytes: Option<u64>,
        sm_count: Option<u64>,
    },
    /// A period in which everything was recorded.
    Window((i64, i64)),
    /// Why CUDA is not recorded.
    Problem(String),
    /// Names of calls that are not recorded; `*` stands for all.
    LeftOut(String),
    /// Something else that is not recorded.
    Note(String),
    /// The last record.
    End {
        dropped: u64,
    },
    Item(Item),
}

/// An event; its device is numbered as in the process, and its name is an id in the file.
#[derive(Debug, PartialEq)]
pub(super) struct Item {
    pub kind: Kind,
    pub span: (i64, i64),
    pub device: u32,
    pub track: i64,
    pub name: u32,
    pub correlation: i64,
    pub what: What,
}

/// A raw file that is read from its start to its end.
pub(super) struct RawFile {
    file: PathBuf,
    reader: BufReader<File>,
    pub process: i64,
    pub rank: Option<u32>,
    /// Real time when the clock was 0, in nanoseconds since the Unix epoch; `None` if the file is too short to contain it.
    pub epoch_ns: Option<i64>,
    read_bytes: u64,
    /// Names that devices may have.
    texts: std::collections::HashMap<u32, String>,
    damage: Option<String>,
    ended: bool,
}

impl RawFile {
    /// Whether a file starts like a raw file.
    pub fn is_one(file: &Path) -> io::Result<bool> {
        let mut mark = [0; MARK.len()];
        match File::open(file)?.read_exact(&mut mark) {
            Ok(()) => Ok(mark == MARK),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens a raw file.
    pub fn open(file: &Path) -> Result<Self, TraceError> {
        let io = |source| TraceError::Io { file: file.to_owned(), source };
        let mut reader = BufReader::with_capacity(1 << 18, File::open(file).map_err(io)?);
        let mut header = [0; HEADER_BYTES];
        // A tracer that was killed right after its start leaves less than a header.
        let whole = fill(&mut reader, &mut header).map_err(io)? == HEADER_BYTES;
        let not_one = |found: &str| TraceError::NotAReport { file: file.to_owned(), found: found.to_owned() };
        if !whole {
            return Ok(Self::new(file, reader, (0, None), Some("it ends before its header does".to_owned())));
        }
        if header[..4] != MARK {
            return Err(not_one("it is not a raw file of the built-in tracer"));
        }
        if !(1..=VERSION).contains(&header[4]) {
            return Err(TraceError::Schema {
                file: file.to_owned(),
                found: format!("a raw trace of version {}, but this program knows version {VERSION}", header[4]),
                advice: "open it with the multicard that recorded it",
            });
        }
        let numbers = Numbers(&header);
        let process = numbers.i64_at(8);
        // Ids of domains are derived from it.
        let process = if (0..1 << 31).contains(&process) { process } else { 0 };
        let rank = u32::try_from(numbers.u32_at(16) as i32).ok();
        let epoch_ns = Some(numbers.i64_at(24));
        Ok(Self { epoch_ns, ..Self::new(file, reader, (process, rank), None) })
    }

    fn new(file: &Path, reader: BufReader<File>, (process, rank): (i64, Option<u32>), damage: Option<String>) -> Self {
        let ended = damage.is_some();
        let (file, read_bytes) = (file.to_owned(), HEADER_BYTES as u64);
        Self { file, reader, process, rank, epoch_ns: None, read_bytes, texts: Default::default(), damage, ended }
    }

    /// The number of bytes read so far.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// The damage at which reading ended, if any.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// The next record of a known kind; `None` at the end, or where the file is damaged.
    pub fn next(&mut self) -> Result<Option<Piece>, TraceError> {
        let mut bytes = [0; RECORD_BYTES];
        while !self.ended {
            let found = self.fill(&mut bytes)?;
            if found < RECORD_BYTES {
                self.ended = true;
                self.damage = (found > 0).then(|| format!("it is cut off at byte {}", self.read_bytes));
                break;
            }
            let at = self.read_bytes - RECORD_BYTES as u64;
            match self.piece(&bytes)? {
                Ok(piece) => return Ok(Some(piece)),
                Err(why) => {
                    self.ended = true;
                    self.damage = Some(format!("the record at byte {at} is damaged: {why}"));
                }
            }
        }
        Ok(None)
    }

    fn piece(&mut self, bytes: &[u8; RECORD_BYTES]) -> Result<Result<Piece, String>, TraceError> {
        let numbers = Numbers(bytes);
        let (name, size) = (numbers.u32_at(4), numbers.i64_at(40) as u64);
        let (start, end) = (numbers.i64_at(8), numbers.i64_at(16));
        let span = (start, end);
        let [device, track, correlation, more] = [24, 28, 32, 36].map(|at| numbers.u32_at(at));
        let [a, b, c] = [1, 2, 3].map(|at| i64::from(bytes[at]));
        let text = |reader: &mut Self, make: fn(String) -> Piece| Ok(reader.text(size)?.map(make));
        let place = |index_from_one: u32| (index_from_one > 0).then(|| i64::from(index_from_one) - 1);
        let (kind, what) = match bytes[0] {
            1 => {
                let read = self.text(size)?;
                if let Ok(text) = &read {
                    self.texts.insert(name, text.clone());
                }
                return Ok(read.map(|text| Piece::Name(name, text)));
            }
            2 => (Kind::Kernel, What::Kernel { graph_node: size as i64 }),
            3 => {
                let (src_device, dst_device) = (place(more >> 16), place(more & 0xffff));
                let [src, dst] = [b, c].map(memory);
                (Kind::Copy, What::Copy { bytes: size, kind: a, src, dst, src_device, dst_device })
            }
            4 => (Kind::Memset, What::Memset { bytes: size, memory: memory(a) }),
            5 => (Kind::Call, What::Call),
            6 => (Kind::Synchronisation, What::Synchronisation { kind: a }),
            7 => (Kind::Range, What::Range { domain: i64::from(size as u32) }),
            8 => (Kind::Domain, What::Domain { domain: i64::from(size as u32) }),
            9 => {
                let known = |number: u64| (number > 0).then_some(number);
                return Ok(Ok(Piece::Gpu {
                    ordinal: device,
                    index: place(track),
                    name: self.texts.get(&name).cloned(),
                    memory_bytes: known(size),
                    sm_count: known(correlation.into()),
                }));
            }
            10 => return Ok(Ok(Piece::Window(span))),
            11 => return text(self, Piece::Problem),
            12 => return text(self, Piece::LeftOut),
            13 => {
                self.ended = true;
                return Ok(Ok(Piece::End { dropped: size }));
            }
            14 => {
                let memory = memory(a);
                let what = What::Allocation { bytes: size, memory, operation: b, address: end };
                let (span, track) = ((start, start), memory.unwrap_or(-1));
                let item = Item {
                    kind: Kind::Allocation,
                    span,
                    device,
                    track,
                    name: 0,
                    correlation: correlation.into(),
                    what,
                };
                return Ok(Ok(Piece::Item(item)));
            }
            15 => return text(self, Piece::Note),
            16 => (Kind::Collective, What::Collective { bytes: size, domain: i64::from(more) }),
            kind => return Ok(Err(format!("its kind {kind} is not known"))),
        };
        let (track, correlation) = (track.into(), correlation.into());
        Ok(Ok(Piece::Item(Item { kind, span, device, track, name, correlation, what })))
    }

    /// The text that follows a record.
    fn text(&mut self, length: u64) -> Result<Result<String, String>, TraceError> {
        if length > MOST_TEXT_BYTES {
            return Ok(Err(format!("its text has {length} bytes")));
        }
        let mut bytes = vec![0; length as usize];
        if self.fill(&mut bytes)? < bytes.len() {
            return Ok(Err("its text is cut off".to_owned()));
        }
        Ok(Ok(String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<usize, TraceError> {
        let found =
            fill(&mut self.reader, bytes).map_err(|source| TraceError::Io { file: self.file.clone(), source })?;
        self.read_bytes += found as u64;
        Ok(found)
    }
}

/// CUPTI's kind of memory in the numbering of nsys.
fn memory(kind: i64) -> Option<i64> {
    (kind > 0).then(|| kind - 1)
}

/// Reads until the buffer is full or the file ends.
fn fill(reader: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut found = 0;
    while found < bytes.len() {
        match reader.read(&mut bytes[found..]) {
            Ok(0) => break,
            Ok(count) => found += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Reads numbers at given positions of a header or a record.
struct Numbers<'a>(&'a [u8; RECORD_BYTES]);

impl Numbers<'_> {
    fn u32_at(&self, at: usize) -> u32 {
        let mut four = [0; 4];
        four.copy_from_slice(&self.0[at..at + 4]);
        u32::from_le_bytes(four)
    }

    fn i64_at(&self, at: usize) -> i64 {
        let mut eight = [0; 8];
        eight.copy_from_slice(&self.0[at..at + 8]);
        i64::from_le_bytes(eight)
    }
}
