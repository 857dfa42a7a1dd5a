//! The processes of a recording that consists of several files, and their GPUs.

use std::collections::HashMap;

use super::facts::Facts;
use crate::trace::window::union;

/// Files with the same key are parts of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    rank: Option<i64>,
    pid: Option<i64>,
    /// The worker, unless the rank says which process it is.
    worker: Option<String>,
}

/// A process.
pub(super) struct Process {
    key: Key,
    /// Its number in the events file.
    pub id: i64,
    /// The time from the first to the last event of its files.
    extent: Option<(i64, i64)>,
    /// The recording's numbers of its GPUs, by its own numbers.
    gpus: HashMap<i64, i64>,
    /// The file that it was first seen in.
    file: String,
}

/// All processes of a recording.
#[derive(Default)]
pub(super) struct Ranks {
    all: Vec<Process>,
    /// For each GPU of the recording, the process that it belongs to.
    owners: HashMap<i64, usize>,
    notes: Vec<String>,
}

impl Ranks {
    /// The process of a file, whose first event starts at `start` on the recording's clock.
    pub fn process(&mut self, facts: &Facts, (file, worker): (&str, String), start: Option<i64>) -> usize {
        let key = Key { rank: facts.rank, pid: facts.pid, worker: facts.rank.is_none().then_some(worker) };
        let known = self.all.iter().rposition(|process| process.key == key);
        if let Some(place) = known {
            let process = &self.all[place];
            let overlaps = process.extent.zip(start).is_some_and(|((_, end), start)| start < end);
            if !overlaps {
                return place;
            }
            self.notes.push(format!(
                "{file} and {} say that they are of one process, {}, but cover the same time: they are shown as two",
                process.file,
                process.name()
            ));
        } else if let Some(other) = self.all.iter().find(|process| facts.pid.is_some() && process.key.pid == facts.pid)
        {
            self.notes
                .push(format!("{file} and {} have the same process number, but are of two processes", other.file));
        }
        // Linux numbers processes with 22 bits.
        let id = facts.pid.unwrap_or(0);
        let taken = |id: i64| self.all.iter().any(|process| process.id == id);
        let id = (0..=self.all.len() as i64).map(|n| id.wrapping_add(n << 32)).find(|id| !taken(*id)).unwrap_or(id);
        self.all.push(Process { key, id, extent: None, gpus: HashMap::new(), file: file.to_owned() });
        self.all.len() - 1
    }

    pub fn get(&self, place: usize) -> &Process {
        &self.all[place]
    }

    /// Adds the time that a file of a process covers, and its rank if only the end of the file states it.
    pub fn finish(&mut self, place: usize, extent: Option<(i64, i64)>, rank: Option<i64>) {
        let process = &mut self.all[place];
        process.extent = union(process.extent, extent);
        process.key.rank = process.key.rank.or(rank);
    }

    /// The recording's number of a process's GPU. Ranks on several machines, or with one visible GPU each, use the same numbers for
    /// different GPUs.
    pub fn gpu(&mut self, place: usize, device: i64) -> i64 {
        if let Some(gpu) = self.all[place].gpus.get(&device) {
            return *gpu;
        }
        let owner = self.owners.get(&device).copied();
        let gpu = match owner {
            None => device,
            Some(_) => (0..=self.owners.len() as i64).find(|gpu| !self.owners.contains_key(gpu)).unwrap_or(device),
        };
        if let Some(owner) = owner {
            let (name, other) = (self.all[place].name(), self.all[owner].name());
            self.notes
                .push(format!("GPU {device} of {name} is shown as GPU {gpu}, because {other} has a GPU {device}, too"));
        }
        self.owners.insert(gpu, place);
        self.all[place].gpus.insert(device, gpu);
        gpu
    }

    /// The GPUs that a process used: its own numbers and the recording's.
    pub fn gpus(&self, place: usize) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.all[place].gpus.iter().map(|(device, gpu)| (*device, *gpu))
    }

    /// The numbers and names of all processes.
    pub fn names(&self) -> Vec<(i64, String)> {
        let name = |(place, process): (usize, &Process)| {
            let name = process.name();
            let is_unique = self.all.iter().enumerate().all(|(other, one)| other == place || one.name() != name);
            (process.id, if is_unique { name } else { format!("{name} ({})", process.file) })
        };
        self.all.iter().enumerate().map(name).collect()
    }

    /// Notes on decisions about processes and GPUs, and on missing ranks.
    pub fn notes(&self, world_size: Option<i64>) -> Vec<String> {
        let mut notes = self.notes.clone();
        let mut ranks: Vec<i64> = self.all.iter().filter_map(|process| process.key.rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        if let Some(size) = world_size.filter(|size| !ranks.is_empty() && *size > ranks.len() as i64) {
            let list: Vec<String> = ranks.iter().take(8).map(i64::to_string).collect();
            let more = if ranks.len() > list.len() { ", …" } else { "" };
            notes.push(format!(
                "the run had {size} ranks, of which this recording has {}: {}{more}; open the folder with all ranks' traces to see who waits for \
                 whom",
                ranks.len(),
                list.join(", ")
            ));
        }
        notes
    }
}

impl Process {
    fn name(&self) -> String {
        match (self.key.rank, self.key.pid) {
            (Some(rank), _) => format!("rank {rank}"),
            (None, Some(pid)) => format!("process {pid}"),
            (None, None) => "process".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(rank: Option<i64>, pid: i64) -> Facts {
        Facts { rank, pid: Some(pid), ..Facts::default() }
    }

    #[test]
    fn files_of_one_rank_are_one_process_unless_they_cover_the_same_time() {
        let mut ranks = Ranks::default();
        let mut process_of = |rank, pid, file: &str, worker: &str, span: (i64, i64)| {
            let place = ranks.process(&facts(rank, pid), (file, worker.to_owned()), Some(span.0));
            ranks.finish(place, Some(span), None);
            ranks.get(place).id
        };
        assert_eq!(process_of(Some(0), 7, "a", "a", (0, 10)), 7);
        assert_eq!(process_of(Some(0), 7, "b", "b", (10, 20)), 7);
        assert_eq!(process_of(Some(1), 7, "c", "c", (0, 10)), 7 + (1 << 32));
        assert_eq!(process_of(Some(0), 7, "d", "d", (15, 25)), 7 + (2 << 32));
        assert_eq!(process_of(None, 9, "w.1", "w", (0, 10)), 9);
        assert_eq!(process_of(None, 9, "w.2", "w", (10, 20)), 9);
        assert_eq!(process_of(None, 9, "v.1", "v", (20, 30)), 9 + (1 << 32));
        let names: Vec<String> = ranks.names().into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["rank 0 (a)", "rank 1", "rank 0 (d)", "process 9 (w.1)", "process 9 (v.1)"]);
        let notes = ranks.notes(Some(4));
        assert!(notes.iter().any(|note| note.contains("c and a have the same process number")), "{notes:?}");
        assert!(notes.iter().any(|note| note.contains("d and a say") && note.contains("shown as two")), "{notes:?}");
        assert!(notes.iter().any(|note| note.contains("4 ranks") && note.contains("has 2: 0, 1;")), "{notes:?}");
    }

    #[test]
    fn ranks_that_call_their_gpus_the_same_get_gpus_of_their_own() {
        let mut ranks = Ranks::default();
        let places: Vec<usize> =
            (0..3).map(|rank| ranks.process(&facts(Some(rank), 10 + rank), ("f", String::new()), None)).collect();
        assert_eq!(places.iter().map(|place| ranks.gpu(*place, 0)).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!((ranks.gpu(places[1], 0), ranks.gpu(places[2], 5)), (1, 5));
        assert!(ranks.notes(None)[0].contains("GPU 0 of rank 1 is shown as GPU 1, because rank 0 has a GPU 0, too"));
    }
}
