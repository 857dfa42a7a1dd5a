//! Two hosts on this machine: namespaces with networks and names of their own, and a wire between them that delays packets and loses
//! some. A program carries the packets from one TUN device to another, as many kernels lack netem.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Addresses on the wire.
const LAPTOP: &str = "10.77.0.1";
pub const NODE: &str = "10.77.0.2";
/// The wire's device on both hosts.
pub const DEVICE: &str = "wire";
/// While there is a file of this name in the scene, the wire loses every packet.
pub const CUT: &str = "cut";
/// What a packet takes in either direction, in seconds, and the share of packets that never arrive.
const DELAY_S: f64 = 0.04;
const LOSS: f64 = 0.005;

/// Keeps a host until its input ends.
const HOST: &str = r#"echo "$0" > /proc/sys/kernel/hostname && ip link set lo up && echo ready && exec cat"#;

const WIRE: &str = r#"
import ctypes, fcntl, heapq, os, random, select, struct, subprocess, sys, time

TUNSETIFF, TUN_WITHOUT_HEADER, NETWORK = 0x400454CA, 0x1001, 0x40000000
device, delay_s, loss, cut = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
libc = ctypes.CDLL(None, use_errno=True)

def end(host, here, there):
    with open(f"/proc/{host}/ns/net") as network:
        if libc.setns(network.fileno(), NETWORK):
            sys.exit(f"entering the network of process {host}: {os.strerror(ctypes.get_errno())}")
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", device.encode(), TUN_WITHOUT_HEADER))
    subprocess.run(["ip", "address", "add", here, "peer", there, "dev", device], check=True)
    subprocess.run(["ip", "link", "set", device, "up"], check=True)
    return tun

ends = [end(*sys.argv[5:8]), end(sys.argv[8], sys.argv[7], sys.argv[6])]
print("ready", flush=True)
under_way, number = [], 0
while True:
    patience = max(0, under_way[0][0] - time.monotonic()) if under_way else None
    ready = select.select([0, *ends], [], [], patience)[0]
    if 0 in ready:
        sys.exit()
    for tun in ready:
        packet = os.read(tun, 65536)
        if random.random() >= loss and not os.path.exists(cut):
            number += 1
            heapq.heappush(under_way, (time.monotonic() + delay_s, number, ends[tun == ends[0]], packet))
    while under_way and under_way[0][0] <= time.monotonic():
        _, _, tun, packet = heapq.heappop(under_way)
        try:
            os.write(tun, packet)
        except OSError:
            pass  # The device is down.
"#;

/// Two hosts with a wire between them, until they are dropped.
pub struct Hosts {
    laptop: Child,
    node: Child,
    wire: Child,
}

impl Hosts {
    /// Makes them; `cut` is the file that cuts the wire.
    ///
    /// # Errors
    /// The system lacks a program, or does not permit it.
    pub fn new(cut: &Path) -> Result<Self, String> {
        let host = |name: &str| {
            let mut host = Command::new("unshare");
            host.args(["--net", "--uts", "sh", "-c", HOST, name]);
            ready(host, "unshare")
        };
        let (laptop, node) = (host("laptop")?, host("node")?);
        let mut wire = Command::new("python3");
        wire.args(["-c", WIRE, DEVICE, &DELAY_S.to_string(), &LOSS.to_string()]).arg(cut);
        wire.args([&laptop.id().to_string(), LAPTOP, NODE, &node.id().to_string()]);
        Ok(Self { wire: ready(wire, "python3")?, laptop, node })
    }

    /// A program on the laptop.
    pub fn on_laptop(&self, program: impl AsRef<OsStr>) -> Command {
        on_host(self.laptop.id(), program)
    }

    /// A program on the node.
    pub fn on_node(&self, program: impl AsRef<OsStr>) -> Command {
        on_host(self.node.id(), program)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for child in [&mut self.wire, &mut self.laptop, &mut self.node] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A program on the host that a process is on.
pub fn on_host(process: u32, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["--net", "--uts", "--target", &process.to_string(), "--"]).arg(program);
    command
}

/// Starts a program that says when it is ready and lives until its input ends.
fn ready(mut command: Command, name: &str) -> Result<Child, String> {
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.map_err(|error| format!("{name}: {error}"))?;
    let mut text = String::new();
    let _ = BufReader::new(child.stdout.take().unwrap()).read_line(&mut text);
    if text.trim() == "ready" {
        return Ok(child);
    }
    let _ = child.wait();
    let mut why = String::new();
    let _ = child.stderr.take().unwrap().read_to_string(&mut why);
    Err(format!("{name}: {}", why.lines().last().unwrap_or("it ended without a message")))
}

/// Turns the laptop's end of the wire off or on.
pub fn turn(state: &str) {
    super::succeed(Command::new("ip").args(["link", "set", DEVICE, state]));
}

/// Bytes that have passed the wire in both directions, with the headers of TCP and IP, as the laptop counts them.
pub fn bytes_on_the_wire() -> u64 {
    let devices = std::fs::read_to_string("/proc/net/dev").unwrap();
    let wire = devices.lines().find_map(|line| line.trim().strip_prefix("wire:")).unwrap();
    let counts: Vec<u64> = wire.split_whitespace().map(|count| count.parse().unwrap()).collect();
    counts[0] + counts[8]
}
