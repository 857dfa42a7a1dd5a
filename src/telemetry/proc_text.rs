//! Parsers of files in `/proc` and `/sys`: pure functions that never panic.
//!
//! Single processes are read with the procfs crate. Its parsers of the files below are not used: they reject a file in which a line is
//! missing, as in containers, and they parse the whole file although one line is needed, ten times per second.

/// Clock ticks of all CPUs together since boot, from one reading of `/proc/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CpuTicks {
    /// Busy time, without stolen time and time waiting for disks.
    pub busy: u64,
    /// Stolen by a hypervisor.
    pub stolen: u64,
    /// Busy, stolen, idle and waiting ones.
    pub all: u64,
}

/// The ticks in `/proc/stat`. Guest time is part of user time.
pub(super) fn cpu_ticks(text: &str) -> Option<CpuTicks> {
    let line = text.lines().find(|line| line.starts_with("cpu "))?;
    let fields: Vec<u64> = line.split_ascii_whitespace().skip(1).map_while(|field| field.parse().ok()).collect();
    let sum = |places: &[usize]| places.iter().try_fold(0_u64, |sum, &place| sum.checked_add(*fields.get(place)?));
    // User, nice, system, irq, softirq; then stolen, idle, waiting for disks.
    let busy = sum(&[0, 1, 2, 5, 6])?;
    Some(CpuTicks { busy, stolen: sum(&[7])?, all: busy.checked_add(sum(&[3, 4, 7])?)? })
}

/// Number of CPUs in `/proc/stat`.
pub(super) fn cpu_count(text: &str) -> Option<u32> {
    let is_cpu =
        |line: &&str| line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    u32::try_from(text.lines().filter(is_cpu).count()).ok().filter(|count| *count > 0)
}

/// Runnable tasks: running or waiting for a CPU, from `/proc/loadavg`.
pub(super) fn runnable_tasks(text: &str) -> Option<u32> {
    text.split_ascii_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

/// A value of `/proc/meminfo`, such as `MemTotal`.
pub(super) fn meminfo_bytes(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    let mut words = rest.split_ascii_whitespace();
    let value: u64 = words.next()?.parse().ok()?;
    match words.next() {
        Some("kB") => value.checked_mul(1024),
        _ => Some(value),
    }
}

/// A value from a file of `key value` lines, such as `memory.stat` of a cgroup.
pub(super) fn keyed_value(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?.trim().parse().ok()
}

/// Bytes read and written by a disk since boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DiskCounters {
    pub name: String,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// The kernel counts 512-byte sectors here, regardless of the disk's sector size.
const SECTOR_BYTES: u64 = 512;

/// Whole disks in `/proc/diskstats`: without partitions and devices stacked on disks or memory, which would
/// count bytes twice or count bytes that reach no disk.
pub(super) fn disks(text: &str) -> Vec<DiskCounters> {
    let mut disks: Vec<DiskCounters> = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let sectors = |index: usize| fields.get(index)?.parse::<u64>().ok()?.checked_mul(SECTOR_BYTES);
        let (Some(&name), Some(read_bytes), Some(written_bytes)) = (fields.get(2), sectors(5), sectors(9)) else {
            continue;
        };
        if is_virtual(name) || disks.iter().any(|disk| is_partition_of(name, &disk.name)) {
            continue;
        }
        disks.push(DiskCounters { name: name.to_owned(), read_bytes, written_bytes });
    }
    disks
}

fn is_virtual(name: &str) -> bool {
    let stacked = ["loop", "ram", "zram", "dm-", "md", "sr", "fd", "bcache", "drbd"];
    // `nvme0c1n1` is one path to the disk `nvme0n1`.
    let path_of_nvme = name.strip_prefix("nvme").is_some_and(|rest| rest.contains('c'));
    path_of_nvme || stacked.iter().any(|prefix| name.starts_with(prefix))
}

/// The kernel names partitions `sda1`, and `nvme0n1p1` where the disk's name ends in a digit.
fn is_partition_of(name: &str, disk: &str) -> bool {
    let Some(rest) = name.strip_prefix(disk) else { return false };
    let number = if disk.ends_with(|c: char| c.is_ascii_digit()) { rest.strip_prefix('p') } else { Some(rest) };
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Count of the numbers in a list such as `0-3,8`.
pub(super) fn list_count(text: &str) -> Option<u32> {
    text.trim().split(',').try_fold(0_u32, |count, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        count.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

/// Whether a number is in a list such as `0-3,8`.
pub(super) fn list_has(text: &str, number: u32) -> bool {
    text.trim().split(',').any(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let ends = first.trim().parse::<u32>().ok().zip(last.trim().parse::<u32>().ok());
        ends.is_some_and(|(first, last)| (first..=last).contains(&number))
    })
}

/// The first value of `key` in `/proc/cpuinfo`.
pub(super) fn cpuinfo_value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

/// The name of the operating system in `/etc/os-release`.
pub(super) fn pretty_name(text: &str) -> Option<&str> {
    let value = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?.trim();
    Some(value.trim_matches(['"', '\'']))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DISKSTATS: &str = "\
   7       0 loop0 5 0 10 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 254       0 vda 18740 6705 6517426 61528 12474 88918 32181912 179374 0 30400 243513 4358 47 5623808 2551 199 58
 254       1 vda1 18000 6705 6517000 61528 12474 88918 32181000 179374 0 30400 243513 4358 47 5623808 2551 199 58
 259       0 nvme0n1 10 0 8 0 20 0 16 0 0 0 0 0 0 0 0
 259       1 nvme0n1p2 10 0 8 0 20 0 16 0 0 0 0 0 0 0 0
 259       2 nvme0n10 1 0 1 0 1 0 2 0 0 0 0 0 0 0 0
 259       3 nvme0c0n1 1 0 1 0 1 0 2 0 0 0 0 0 0 0 0
   8       0 sdaa 1 0 3 0 1 0 4 0 0 0 0
 253       0 dm-0 1 0 3 0 1 0 4 0 0 0 0
 253       0 zram0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
";

    #[test]
    fn only_whole_disks_are_counted_and_in_512_byte_sectors() {
        let disks = disks(DISKSTATS);
        let names: Vec<&str> = disks.iter().map(|disk| disk.name.as_str()).collect();
        assert_eq!(names, ["vda", "nvme0n1", "nvme0n10", "sdaa"]);
        assert_eq!((disks[0].read_bytes, disks[0].written_bytes), (6_517_426 * 512, 32_181_912 * 512));
    }

    #[test]
    fn idle_waiting_and_stolen_time_is_not_busy() {
        let text = "cpu  100 20 30 9999 888 4 5 777 60 0\ncpu0 1 1 1 1 1 1 1 1 0 0\nintr 5\n";
        let ticks = cpu_ticks(text).unwrap();
        assert_eq!((ticks.busy, ticks.stolen), (100 + 20 + 30 + 4 + 5, 777));
        assert!(ticks.all > ticks.busy + ticks.stolen);
        assert_eq!(cpu_ticks("cpu  100 20\n"), None);
        assert_eq!((cpu_count(text), cpu_count("cpu  1 2\n")), (Some(1), None));
        assert_eq!((runnable_tasks("4.48 3.93 4.37 5/167 28197\n"), runnable_tasks("4 3 2")), (Some(5), None));
    }

    #[test]
    fn memory_is_read_in_bytes_by_its_exact_key() {
        let text = "MemTotal:       16384 kB\nMemAvailable:    1024 kB\nHugePages_Total:       3\n";
        assert_eq!(meminfo_bytes(text, "MemTotal"), Some(16384 * 1024));
        assert_eq!(meminfo_bytes(text, "HugePages_Total"), Some(3));
        assert_eq!(meminfo_bytes(text, "Mem"), None);
        assert_eq!(keyed_value("anon 5\ninactive_file 77\n", "inactive_file"), Some(77));
    }

    #[test]
    fn lists_of_cpus_and_nodes_are_counted() {
        assert_eq!(list_count("0-3,8\n"), Some(5));
        assert_eq!(list_count("0"), Some(1));
        assert_eq!(list_count("3-1"), None);
        assert_eq!(list_count(""), None);
        assert!(list_has("0-3,8\n", 2) && list_has("0-3,8\n", 8));
        assert!(!list_has("0-3,8\n", 4) && !list_has("", 0));
    }

    #[test]
    fn names_are_read_without_quotes() {
        assert_eq!(pretty_name("NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n"), Some("Debian GNU/Linux 12"));
        assert_eq!(cpuinfo_value("processor\t: 0\nmodel name\t: AMD EPYC\n", "model name"), Some("AMD EPYC"));
    }

    /// Text near to the real one: the same words in any order, with numbers at and past the edges.
    fn near_text() -> impl Strategy<Value = String> {
        let words = [
            "cpu",
            "cpu ",
            " ",
            "\n",
            ":",
            ")",
            "(",
            "sda",
            "sda1",
            "nvme0n1p",
            "kB",
            "MemTotal:",
            "0-",
            ",",
            "-1",
            "é",
            "18446744073709551615",
            "18446744073709551616",
            "4294967295",
            "7",
            "R",
            "PRETTY_NAME=",
        ];
        proptest::collection::vec(
            prop_oneof![proptest::sample::select(words.to_vec()).prop_map(str::to_owned), ".{0,4}"],
            0..80,
        )
        .prop_map(|parts| parts.join(" "))
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in prop_oneof![near_text(), "(?s).{0,200}"]) {
            cpu_ticks(&text);
            cpu_count(&text);
            runnable_tasks(&text);
            meminfo_bytes(&text, "MemTotal");
            keyed_value(&text, "inactive_file");
            disks(&text);
            list_count(&text);
            list_has(&text, 7);
            cpuinfo_value(&text, "model name");
            pretty_name(&text);
        }
    }
}
