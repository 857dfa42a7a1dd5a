//! Reads the host and the ranks' processes from `/proc`, with counters as rates since the last sample.

use std::path::PathBuf;
use std::time::Instant;

use procfs_core::FromRead;
use procfs_core::process::{Stat, StatM};

use super::cgroup::{self, MemoryLimit};
use super::proc_text::{self, CpuTicks, DiskCounters};
use super::roots::{Roots, read_text};
use crate::protocol::{HostSample, RankSample};

/// Rate of a counter between two readings, per second; `None` if it decreased or no time passed.
fn rate(before: (Instant, u64), now: (Instant, u64)) -> Option<f64> {
    let elapsed_s = now.0.saturating_duration_since(before.0).as_secs_f64();
    let rise = now.1.checked_sub(before.1)?;
    (elapsed_s > 0.0).then(|| rise as f64 / elapsed_s)
}

/// The fewest clock ticks of each CPU between two readings of a counter of ticks. A reading that follows sooner is joined with the next one:
/// the step of a counter would be a large part of the rate.
const FEWEST_TICKS: f64 = 5.0;

fn ticks_per_second() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

/// Reads the host. Rates are available from the second reading on.
#[derive(Debug)]
pub(super) struct HostReader {
    roots: Roots,
    memory_limit: Option<MemoryLimit>,
    ticks_before: Option<CpuTicks>,
    disks_before: Option<(Instant, Vec<DiskCounters>)>,
}

impl HostReader {
    pub fn new(roots: Roots) -> Self {
        let total_bytes = memory_total_bytes(&roots);
        let memory_limit = cgroup::memory_limit(&roots)
            .filter(|limit| total_bytes.is_none_or(|total_bytes| limit.limit_bytes < total_bytes));
        Self { roots, memory_limit, ticks_before: None, disks_before: None }
    }

    /// Drops the counters, so that no rate covers a time without samples.
    pub fn forget(&mut self) {
        (self.ticks_before, self.disks_before) = (None, None);
    }

    /// Reads the host. Memory is that of the cgroup if its limit is below the machine's memory.
    pub fn read(&mut self) -> HostSample {
        let (disk_read_bytes_per_s, disk_write_bytes_per_s) = self.disk_rates();
        let stat = read_text(&self.roots.proc.join("stat")).unwrap_or_default();
        let (cpus_busy, stolen_cpus) = self.cpus_since(&stat).unzip();
        let load = read_text(&self.roots.proc.join("loadavg"));
        HostSample {
            cpus: proc_text::cpu_count(&stat),
            cpus_busy,
            stolen_cpus,
            runnable: load.as_deref().and_then(proc_text::runnable_tasks),
            memory_used_bytes: self.memory_used_bytes(),
            disk_read_bytes_per_s,
            disk_write_bytes_per_s,
        }
    }

    /// The busy and the stolen CPUs since the reading before: their shares of all ticks, which are read at the same moment. By a clock, which
    /// is read at another moment, more CPUs than the machine has could seem busy.
    fn cpus_since(&mut self, stat: &str) -> Option<(f64, f64)> {
        let (now, cpus) = proc_text::cpu_ticks(stat).zip(proc_text::cpu_count(stat))?;
        let cpus = f64::from(cpus);
        let rise = |before: u64, now: u64| now.checked_sub(before).map(|rise| rise as f64);
        let all = self.ticks_before.and_then(|before| rise(before.all, now.all));
        if all.is_some_and(|all| all < FEWEST_TICKS * cpus) {
            return None;
        }
        let before = self.ticks_before.replace(now)?;
        // The kernel may take back some ticks of waiting for disks.
        let share = |rise: f64| Some((cpus * rise / all?).min(cpus));
        Some((share(rise(before.busy, now.busy)?)?, share(rise(before.stolen, now.stolen)?)?))
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
        let asked = Instant::now();
        let stat = Stat::from_file(self.folder.join("stat")).ok()?;
        let took_s = asked.elapsed().as_secs_f64();
        // Zombies and dead processes have no values.
        let has_ended = matches!(stat.state, 'Z' | 'X');
        if has_ended || *self.start_ticks.get_or_insert(stat.starttime) != stat.starttime {
            return None;
        }
        // `statm` has all pages; `stat` lacks those that threads have not yet added to the count.
        let pages = StatM::from_file(self.folder.join("statm")).ok().map(|memory| memory.resident);
        let resident_bytes = pages.and_then(|pages| pages.checked_mul(rustix::param::page_size() as u64));
        let ticks = stat.utime.checked_add(stat.stime)?;
        // During a slow reading, the counter is read much later than the clock.
        let cpus_busy = if took_s * ticks_per_second() > 1.0 { None } else { self.cpus_since((asked, ticks)) };
        Some((resident_bytes, cpus_busy))
    }

    /// CPUs kept busy since the reading before, which gives the counter at a moment.
    fn cpus_since(&mut self, now: (Instant, u64)) -> Option<f64> {
        let elapsed_s = |before: (Instant, u64)| now.0.saturating_duration_since(before.0).as_secs_f64();
        if self.cpu_before.is_some_and(|before| elapsed_s(before) * ticks_per_second() < FEWEST_TICKS) {
            return None;
        }
        Some(rate(self.cpu_before.replace(now)?, now)? / ticks_per_second())
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

    /// Reads until there is a value: readings that follow each other too soon have none.
    fn until_some(mut read: impl FnMut() -> Option<f64>) -> f64 {
        let start = Instant::now();
        loop {
            if let Some(value) = read() {
                return value;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "no reading has a value");
            std::thread::yield_now();
        }
    }

    #[test]
    fn no_more_cpus_are_busy_than_the_machine_has_however_soon_readings_follow_each_other() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("proc")).unwrap();
        let mut host = HostReader::new(Roots::below(folder.path()));
        let mut read = |busy: u64, idle: u64, stolen: u64| {
            let text = format!("cpu  {busy} 0 0 {idle} 0 0 0 {stolen} 0 0\ncpu0 0 0 0 0\ncpu1 0 0 0 0\n");
            fs::write(folder.path().join("proc/stat"), text).unwrap();
            let sample = host.read();
            (sample.cpus_busy, sample.stolen_cpus)
        };
        assert_eq!(read(1_000, 1_000, 0), (None, None));
        // These readings follow each other in less than a millisecond.
        assert_eq!(read(1_020, 1_000, 0), (Some(2.0), Some(0.0)));
        assert_eq!(read(1_024, 1_002, 2), (None, None), "eight ticks of two CPUs are too few");
        assert_eq!(read(1_030, 1_005, 5), (Some(1.0), Some(0.5)), "they are joined with the next ones");
        assert_eq!(read(10, 10, 0), (None, None), "the counters started again");
        assert_eq!(read(20, 20, 0), (Some(1.0), Some(0.0)));
    }

    #[test]
    fn the_cpu_time_of_a_rank_is_not_divided_by_a_time_too_short_for_the_steps_of_its_counter() {
        let mut rank = RankReader::new(&Roots::default(), 0, 1);
        let start = Instant::now();
        let ticks = |s: f64| (s * ticks_per_second()).round() as u64;
        assert_eq!(rank.cpus_since((start, 0)), None);
        assert_eq!(rank.cpus_since((start + Duration::from_millis(1), ticks(0.1))), None);
        assert_eq!(rank.cpus_since((start + Duration::from_millis(200), ticks(0.2))), Some(1.0));
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
        let cpus_busy = until_some(|| rank.read().cpus_busy);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(first.resident_bytes.is_some_and(|bytes| bytes > 0));
        assert_eq!(first.cpus_busy, None);
        assert!(cpus_busy >= 0.0);
        assert_eq!(rank.read(), RankSample::default());
    }

    #[test]
    fn the_host_has_rates_from_the_second_reading_on() {
        let mut host = HostReader::new(Roots::default());
        let first = host.read();
        assert_eq!((first.cpus_busy, first.disk_read_bytes_per_s), (None, None));
        assert!(first.memory_used_bytes.is_some_and(|bytes| bytes > 0));
        let cpus = f64::from(first.cpus.unwrap());
        assert!((0.0..=cpus).contains(&until_some(|| host.read().cpus_busy)));
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
