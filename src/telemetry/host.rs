//! Reads the host and the ranks' processes from `/proc`, with counters as rates since the last sample.

use std::path::PathBuf;
use std::time::Instant;

use procfs_core::FromRead;
use procfs_core::process::{Stat, StatM};

use super::cgroup::{self, MemoryLimit};
use super::proc_text::{self, DiskCounters};
use super::roots::{Roots, read_text};
use crate::protocol::{HostSample, RankSample};

/// Rate of a counter between two readings, per second; `None` if it decreased or no time passed.
fn rate(before: (Instant, u64), now: (Instant, u64)) -> Option<f64> {
    let elapsed_s = now.0.saturating_duration_since(before.0).as_secs_f64();
    let rise = now.1.checked_sub(before.1)?;
    (elapsed_s > 0.0).then(|| rise as f64 / elapsed_s)
}

/// CPUs that a counter of ticks rose by since it was read before.
fn cpus(before: &mut Option<(Instant, u64)>, ticks: Option<u64>) -> Option<f64> {
    let now = (Instant::now(), ticks?);
    Some(rate(before.replace(now)?, now)? / ticks_per_second())
}

fn ticks_per_second() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

/// Reads the host. Rates are available from the second reading on.
#[derive(Debug)]
pub(super) struct HostReader {
    roots: Roots,
    memory_limit: Option<MemoryLimit>,
    busy_before: Option<(Instant, u64)>,
    stolen_before: Option<(Instant, u64)>,
    disks_before: Option<(Instant, Vec<DiskCounters>)>,
}

impl HostReader {
    pub fn new(roots: Roots) -> Self {
        let total_bytes = memory_total_bytes(&roots);
        let memory_limit = cgroup::memory_limit(&roots)
            .filter(|limit| total_bytes.is_none_or(|total_bytes| limit.limit_bytes < total_bytes));
        Self { roots, memory_limit, busy_before: None, stolen_before: None, disks_before: None }
    }

    /// Drops the counters, so that no rate covers a time without samples.
    pub fn forget(&mut self) {
        (self.busy_before, self.stolen_before, self.disks_before) = (None, None, None);
    }

    /// Reads the host. Memory is that of the cgroup if its limit is below the machine's memory.
    pub fn read(&mut self) -> HostSample {
        let (disk_read_bytes_per_s, disk_write_bytes_per_s) = self.disk_rates();
        let stat = read_text(&self.roots.proc.join("stat")).unwrap_or_default();
        let load = read_text(&self.roots.proc.join("loadavg"));
        HostSample {
            cpus: proc_text::cpu_count(&stat),
            cpus_busy: cpus(&mut self.busy_before, proc_text::busy_ticks(&stat)),
            stolen_cpus: cpus(&mut self.stolen_before, proc_text::stolen_ticks(&stat)),
            runnable: load.as_deref().and_then(proc_text::runnable_tasks),
            memory_used_bytes: self.memory_used_bytes(),
            disk_read_bytes_per_s,
            disk_write_bytes_per_s,
        }
    }

    fn memory_used_bytes(&self) -> Option<u64> {
        if let Some(limit) = &self.memory_limit {
            return limit.used_bytes();
        }
        let text = read_text(&self.roots.proc.join("meminfo"))?;
        let available = proc_text::meminfo_bytes(&text, "MemAvailable")?;
        proc_text::meminfo_bytes(&text, "MemTotal")?.checked_sub(available)
    }

    /// Bytes read and written per second by disks present in both readings.
    fn disk_rates(&mut self) -> (Option<f64>, Option<f64>) {
        let Some(text) = read_text(&self.roots.proc.join("diskstats")) else { return (None, None) };
        let (now, disks) = (Instant::now(), proc_text::disks(&text));
        if disks.is_empty() {
            return (None, None);
        }
        let before = self.disks_before.replace((now, disks.clone()));
        let Some((then, before)) = before else { return (None, None) };
        let risen = |count: fn(&DiskCounters) -> u64| {
            let sum = disks.iter().try_fold(0_u64, |sum, disk| {
                let old = before.iter().find(|old| old.name == disk.name).map_or(count(disk), count);
                sum.checked_add(count(disk).checked_sub(old)?)
            })?;
            rate((then, 0), (now, sum))
        };
        (risen(|disk| disk.read_bytes), risen(|disk| disk.written_bytes))
    }
}

/// Memory of the machine, in bytes.
pub(super) fn memory_total_bytes(roots: &Roots) -> Option<u64> {
    proc_text::meminfo_bytes(&read_text(&roots.proc.join("meminfo"))?, "MemTotal")
}

/// Reads the process of a rank. A later process with the same id is ignored.
#[derive(Debug)]
pub(super) struct RankReader {
    pub rank: u32,
    pub pid: u32,
    folder: PathBuf,
    start_ticks: Option<u64>,
    cpu_before: Option<(Instant, u64)>,
}

impl RankReader {
    pub fn new(roots: &Roots, rank: u32, pid: u32) -> Self {
        Self { rank, pid, folder: roots.proc.join(pid.to_string()), start_ticks: None, cpu_before: None }
    }

    /// Reads memory and CPU usage; the kernel counts CPU time in steps of 10 ms. All values are `None` once the process has
    /// ended.
    pub fn read(&mut self) -> RankSample {
        let (resident_bytes, cpus_busy) = self.values().unwrap_or_default();
        RankSample { rank: self.rank, resident_bytes, cpus_busy }
    }

    fn values(&mut self) -> Option<(Option<u64>, Option<f64>)> {
        let stat = Stat::from_file(self.folder.join("stat")).ok()?;
        let now = (Instant::now(), stat.utime.checked_add(stat.stime)?);
        // Zombies and dead processes have no values.
        let has_ended = matches!(stat.state, 'Z' | 'X');
        if has_ended || *self.start_ticks.get_or_insert(stat.starttime) != stat.starttime {
            return None;
        }
        // `statm` has all pages; `stat` lacks those that threads have not yet added to the count.
        let pages = StatM::from_file(self.folder.join("statm")).ok().map(|memory| memory.resident);
        let resident_bytes = pages.and_then(|pages| pages.checked_mul(rustix::param::page_size() as u64));
        let cpus_busy = self.cpu_before.replace(now).and_then(|before| rate(before, now));
        Some((resident_bytes, cpus_busy.map(|ticks_per_s| ticks_per_s / ticks_per_second())))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;

    fn stat(start_ticks: u64, state: &str) -> String {
        format!(
            "42 (a b) c) {state} 1 42 42 0 -1 0 0 0 0 0 250 50 0 0 20 0 4 0 {start_ticks} 1000 200 {}",
            "0 ".repeat(28)
        )
    }

    #[test]
    fn another_process_with_the_ranks_id_is_not_the_rank() {
        let folder = tempfile::tempdir().unwrap();
        let process = folder.path().join("proc/42");
        fs::create_dir_all(&process).unwrap();
        fs::write(process.join("statm"), "900 100 0 0 0 0 0").unwrap();
        fs::write(process.join("stat"), stat(777, "S")).unwrap();
        let mut rank = RankReader::new(&Roots::below(folder.path()), 3, 42);
        assert_eq!(rank.read().resident_bytes, Some(100 * rustix::param::page_size() as u64));
        for other in [stat(778, "S"), stat(777, "Z"), "cut".to_owned()] {
            fs::write(process.join("stat"), other).unwrap();
            assert_eq!(rank.read(), RankSample { rank: 3, ..RankSample::default() });
        }
    }

    #[test]
    fn a_real_child_is_seen_with_its_memory_until_it_ends() {
        let mut child = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
        let mut rank = RankReader::new(&Roots::default(), 0, child.id());
        let first = rank.read();
        let second = rank.read();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(first.resident_bytes.is_some_and(|bytes| bytes > 0));
        assert_eq!(first.cpus_busy, None);
        assert!(second.cpus_busy.is_some_and(|cpus| cpus >= 0.0));
        assert_eq!(rank.read(), RankSample::default());
    }

    #[test]
    fn the_host_has_rates_from_the_second_reading_on() {
        let mut host = HostReader::new(Roots::default());
        let first = host.read();
        assert_eq!((first.cpus_busy, first.disk_read_bytes_per_s), (None, None));
        assert!(first.memory_used_bytes.is_some_and(|bytes| bytes > 0));
        assert!(host.read().cpus_busy.is_some_and(|cpus| cpus >= 0.0));
        host.forget();
        assert_eq!(host.read().cpus_busy, None);
    }

    #[test]
    fn a_new_disk_does_not_count_its_earlier_traffic() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("proc")).unwrap();
        let write = |text: &str| fs::write(folder.path().join("proc/diskstats"), text).unwrap();
        let mut host = HostReader::new(Roots::below(folder.path()));
        write("8 0 sda 1 0 10 0 1 0 20 0 0 0 0\n");
        assert_eq!(host.read().disk_read_bytes_per_s, None);
        write("8 0 sda 1 0 10 0 1 0 20 0 0 0 0\n8 16 sdb 1 0 99999 0 1 0 99999 0 0 0 0\n");
        assert_eq!(host.read().disk_read_bytes_per_s, Some(0.0));
        write("8 0 sda 1 0 11 0 1 0 20 0 0 0 0\n8 16 sdb 1 0 99999 0 1 0 99998 0 0 0 0\n");
        let sample = host.read();
        assert!(sample.disk_read_bytes_per_s.is_some_and(|rate| rate > 0.0));
        assert_eq!(sample.disk_write_bytes_per_s, None);
    }

    #[test]
    fn a_rate_is_the_increase_per_second_and_never_negative() {
        let start = Instant::now();
        let later = start + Duration::from_millis(500);
        assert_eq!(rate((start, 100), (later, 150)), Some(100.0));
        assert_eq!(rate((start, 100), (later, 99)), None);
        assert_eq!(rate((start, 100), (start, 150)), None);
    }
}
