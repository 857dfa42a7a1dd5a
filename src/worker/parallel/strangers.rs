//! Finds connections to the ports of ranks that no rank has made, from the kernel's list.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::fs;

/// The state of a listening socket in `/proc/net/tcp`.
const LISTENS: &str = "0A";

/// A socket of this network namespace.
#[derive(Debug, PartialEq, Eq)]
struct Socket {
    port: u16,
    peer_port: u16,
    listens: bool,
    user: u32,
    /// The socket's inode; 0 if no process holds it any more.
    inode: u64,
}

/// The users whose connections were seen: the ports of both ends with the id of the user, `None` if its owner has closed it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Strangers(BTreeMap<(u16, u16), Option<u32>>);

impl Strangers {
    /// Looks for connections to the ports on which these processes listen. Pass `closed_too` while none of these processes closes a
    /// connection: closed connections then belong to strangers too.
    pub fn look(&mut self, ranks: &[u32], closed_too: bool) {
        // Read the inodes before and after, because a rank may open or close a socket of its own meanwhile.
        let mut own = inodes(ranks);
        let sockets: Vec<_> = ["/proc/net/tcp", "/proc/net/tcp6"]
            .iter()
            .flat_map(|table| {
                fs::read_to_string(table).unwrap_or_default().lines().filter_map(read).collect::<Vec<_>>()
            })
            .collect();
        own.extend(inodes(ranks));
        self.add(&sockets, &own, closed_too);
    }

    fn add(&mut self, sockets: &[Socket], own: &BTreeSet<u64>, closed_too: bool) {
        let ports: BTreeSet<u16> = sockets
            .iter()
            .filter(|socket| socket.listens && own.contains(&socket.inode))
            .map(|socket| socket.port)
            .collect();
        for socket in sockets.iter().filter(|socket| !socket.listens && ports.contains(&socket.peer_port)) {
            let ends = (socket.port, socket.peer_port);
            match socket.inode {
                0 if closed_too => {
                    self.0.entry(ends).or_insert(None);
                }
                0 => {}
                inode if !own.contains(&inode) => {
                    self.0.insert(ends, Some(socket.user));
                }
                _ => {}
            }
        }
    }

    /// Whether no connection was seen.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Display for Strangers {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut counts = BTreeMap::<Option<u32>, usize>::new();
        for user in self.0.values() {
            *counts.entry(*user).or_default() += 1;
        }
        for (place, (user, count)) in counts.iter().rev().enumerate() {
            let separator = if place == 0 { "" } else { ", " };
            match user {
                Some(user) => write!(f, "{separator}{count} of user id {user}")?,
                None => write!(f, "{separator}{count} that were closed at once")?,
            }
        }
        Ok(())
    }
}

/// Reads a line of `/proc/net/tcp`; `None` for its header.
fn read(line: &str) -> Option<Socket> {
    let fields: Vec<_> = line.split_whitespace().collect();
    let [_, local, remote, state, _, _, _, user, _, inode, ..] = fields[..] else { return None };
    let port = |address: &str| u16::from_str_radix(address.rsplit_once(':')?.1, 16).ok();
    Some(Socket {
        port: port(local)?,
        peer_port: port(remote)?,
        listens: state == LISTENS,
        user: user.parse().ok()?,
        inode: inode.parse().ok()?,
    })
}

/// The inodes of all sockets that these processes hold.
fn inodes(processes: &[u32]) -> BTreeSet<u64> {
    let files = |process: &u32| fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let inode = |file: fs::DirEntry| {
        let target = fs::read_link(file.path()).ok()?.into_os_string().into_string().ok()?;
        target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    processes.iter().flat_map(files).filter_map(inode).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn connections_of_a_rank_are_its_own_and_those_of_another_process_are_named() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let _own = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let ranks = [std::process::id()];
        let mut strangers = Strangers::default();
        strangers.look(&ranks, false);
        assert!(strangers.is_empty(), "{strangers}");
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; echo there; read _");
        let mut child = Command::new("bash");
        let mut child = child.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
        strangers.look(&ranks, false);
        let user = rustix::process::geteuid().as_raw();
        assert_eq!(strangers.to_string(), format!("1 of user id {user}"));
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn a_connection_that_its_owner_has_closed_counts_only_while_no_rank_closes_any() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:A001 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 11 1 0 100 0 0 10 0
   1: 0100007F:A001 0100007F:B001 01 00000000:00000000 00:00000000 00000000  1000        0 12 1 0 20 4 30 10 -1
   2: 0100007F:B001 0100007F:A001 01 00000000:00000000 00:00000000 00000000  1000        0 13 1 0 20 4 30 10 -1
   3: 0100007F:B002 0100007F:A001 06 00000000:00000000 03:00000000 00000000     0        0 0 3 0
   4: 0000000000000000FFFF00000100007F:B003 0000000000000000FFFF00000100007F:A001 01 0:0 00:0 0  1001        0 77 1 0
   5: 0100007F:B004 0100007F:A002 01 00000000:00000000 00:00000000 00000000  1001        0 78 1 0 20 4 30 10 -1";
        let sockets: Vec<_> = table.lines().filter_map(read).collect();
        let own = BTreeSet::from([11, 12, 13]);
        let mut strangers = Strangers::default();
        strangers.add(&sockets, &own, false);
        assert_eq!(strangers.to_string(), "1 of user id 1001");
        strangers.add(&sockets, &own, true);
        assert_eq!(strangers.to_string(), "1 of user id 1001, 1 that were closed at once");
    }
}
