//! Reads from NCCL's log which interface and which transport it chose for the network between nodes.

use std::fs;
use std::path::Path;

/// The largest part of NCCL's log that is read.
const MOST_BYTES: usize = 1 << 20;
/// The words after which NCCL names the network and its devices: `NCCL INFO Using network IB`, `NCCL INFO NET/Socket :
/// Using [0]eth0:10.0.0.1<0>`.
const NETWORK: &str = "Using network ";
const TRANSPORT: &str = "NCCL INFO NET/";

/// The network of this process, from the log that NCCL wrote into this folder; `None` if there is no log.
pub fn of_this_process(folder: &Path) -> Option<String> {
    let end = format!("-{}.log", std::process::id());
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let start = format!("nccl-{}", host.split('.').next().unwrap_or_default());
    let is_own = |name: &str| name.starts_with(&start) && name.ends_with(&end);
    let entries = fs::read_dir(folder).ok()?.flatten();
    let own = entries
        .map(|entry| entry.path())
        .find(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_own))?;
    let text = fs::read(own).ok()?;
    named(&String::from_utf8_lossy(&text[..text.len().min(MOST_BYTES)]))
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
mod tests {
    use super::*;

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
