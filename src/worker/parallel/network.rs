//! Reads from NCCL's log which interface and which transport it chose for the network between nodes.

use std::fs::{self, File};
use std::io::Read;

use multicard::protocol::hostname;

/// The largest part of NCCL's log that is read.
const MOST_BYTES: u64 = 1 << 20;
/// The variable that names NCCL's log. The supervisor sets it, unless the user has set it.
const LOG_VARIABLE: &str = "NCCL_DEBUG_FILE";
/// The words after which NCCL names the network and its devices: `NCCL INFO Using network IB`, `NCCL INFO NET/Socket :
/// Using [0]eth0:10.0.0.1<0>`.
const NETWORK: &str = "Using network ";
const TRANSPORT: &str = "NCCL INFO NET/";

/// The network of this process, from the log that NCCL wrote; `None` if there is no log, or if it names no network.
pub fn of_this_process() -> Option<String> {
    let pattern = std::env::var(LOG_VARIABLE).ok()?;
    let host = hostname();
    // NCCL leaves out the domain.
    of_log(&pattern, host.split('.').next().unwrap_or_default(), std::process::id())
}

/// The network that a process on a host chose, from the log whose path NCCL makes from `pattern`.
fn of_log(pattern: &str, host: &str, process: u32) -> Option<String> {
    let path = expanded(pattern, host, process);
    // A user may name a terminal or a pipe, which would have to be waited for.
    if !fs::metadata(&path).ok()?.is_file() {
        return None;
    }
    let mut text = Vec::new();
    File::open(&path).ok()?.take(MOST_BYTES).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    // Without the process in its name, the file may be that of several processes.
    let is_alone = pattern.contains("%p");
    let own = format!("{host}:{process}:");
    let lines: Vec<&str> = text.lines().filter(|line| is_alone || line.contains(&own)).collect();
    named(&lines.join("\n"))
}

/// The path that NCCL makes from a pattern: `%h` is the host, `%p` the process, `%%` a percent sign.
fn expanded(pattern: &str, host: &str, process: u32) -> String {
    let (mut path, mut letters) = (String::new(), pattern.chars());
    while let Some(letter) = letters.next() {
        if letter != '%' {
            path.push(letter);
            continue;
        }
        match letters.next() {
            Some('h') => path += host,
            Some('p') => path += &process.to_string(),
            Some('%') => path.push('%'),
            other => path.extend(std::iter::once('%').chain(other)),
        }
    }
    path
}

/// The network and its devices, from the lines of a log.
fn named(log: &str) -> Option<String> {
    let network = log.lines().find_map(|line| Some(line.split_once(NETWORK)?.1.trim()));
    let chosen = |line: &str| {
        let (transport, rest) = line.split_once(TRANSPORT)?.1.split_once(':')?;
        let devices = rest.trim().strip_prefix("Using ")?;
        Some((transport.trim().to_owned(), devices.trim().to_owned()))
    };
    let mut transports = log.lines().filter_map(chosen);
    // NCCL also names transports that it does not use.
    let used = transports.find(|(transport, _)| network.is_none_or(|network| network == transport));
    match (network, used) {
        (_, Some((transport, devices))) => Some(format!("{transport} through {devices}")),
        (Some(network), None) => Some(network.to_owned()),
        (None, None) => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_network_is_read_from_the_log_that_the_user_names() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let log = |process: u32| {
            let start = format!("n1:{process}:9 [0] NCCL INFO");
            format!("{start} NET/Socket : Using [0]eth{process}:10.0.0.1<0>\n{start} Using network Socket\n")
        };
        let of_7 = Some("Socket through [0]eth7:10.0.0.1<0>".to_owned());
        fs::write(at("100%-n1-7.log"), log(7)).unwrap();
        assert_eq!(of_log(&at("100%%-%h-%p.log"), "n1", 7), of_7);
        // All processes write one file.
        fs::write(at("nccl.log"), log(6) + &log(7)).unwrap();
        assert_eq!(of_log(&at("nccl.log"), "n1", 7), of_7);
        assert_eq!(of_log(&at("nccl.log"), "n1", 8), None);
        assert_eq!(of_log(&at("missing.log"), "n1", 7), None);
        assert_eq!(of_log(&at(""), "n1", 7), None, "it is a folder");
    }

    #[test]
    fn the_network_that_nccl_uses_is_named_with_its_devices() {
        let log = "n1:7:7 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>\n\
                   n1:7:9 [0] NCCL INFO NET/IB : No device found.\n\
                   n1:7:9 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>\n\
                   n1:7:9 [0] NCCL INFO Using network Socket\n";
        assert_eq!(named(log).as_deref(), Some("Socket through [0]eth0:10.0.0.1<0>"));
        let log = "n1:7:9 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB ib0:10.0.0.1<0>\n\
                   n1:7:9 [0] NCCL INFO Using network IB\n";
        assert_eq!(named(log).as_deref(), Some("IB through [0]mlx5_0:1/IB [RO]; OOB ib0:10.0.0.1<0>"));
        assert_eq!(named("n1 NCCL INFO Using network AWS Libfabric\n").as_deref(), Some("AWS Libfabric"));
        assert_eq!(named("n1:7:9 [0] NCCL INFO comm 0x1 rank 0\n"), None);
    }
}
