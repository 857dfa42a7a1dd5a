//! `multicard` as the supervisor of ranks that are any programs: no worker and no libtorch is needed.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use multicard::plan::{Data, Levels, Shape, image};
use multicard::protocol::{Exit, GROUP_LOG, GroupEvent, GroupLine, Job, RankPlace};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Long enough for a slow machine; reaching it is a failure.
const DEADLINE: Duration = Duration::from_secs(120);

/// Each rank leaves a mark where the ranks meet, waits for those of the others, and says in the run's folder where that was.
const MEET: &str = r#"
cd "$(dirname "$1")"
: > "$MULTICARD_MEETING/mark-$2"
until [ -e "$MULTICARD_MEETING/mark-0" ] && [ -e "$MULTICARD_MEETING/mark-1" ]; do sleep 0.01; done
stat -c '%a %n' "$MULTICARD_MEETING" > "meeting-$2"
"#;

/// A job whose ranks run a program.
struct Group {
    folder: TempDir,
    child: Child,
}

impl Group {
    fn start(places: Vec<RankPlace>, program: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let runtime = folder.path().join("runtime");
        fs::create_dir(&runtime).unwrap();
        Self::start_in(folder, &runtime, places, program)
    }

    fn start_in(folder: TempDir, runtime: &Path, places: Vec<RankPlace>, program: &[&str]) -> Self {
        write_job(folder.path(), &job(folder.path(), places));
        let mut command = Command::new(env!("CARGO_BIN_EXE_multicard"));
        command.arg("group").arg(folder.path().join("job.json")).args(program).env("XDG_RUNTIME_DIR", runtime);
        let errors = fs::File::create(folder.path().join("stderr.log")).unwrap();
        let child = command.stdin(Stdio::null()).stderr(errors).spawn().unwrap();
        Self { folder, child }
    }

    fn end(&mut self) -> ExitStatus {
        wait_for("the supervisor ends", || self.child.try_wait().unwrap())
    }

    fn events(&self) -> Vec<GroupEvent> {
        let text = fs::read_to_string(self.folder.path().join(GROUP_LOG)).unwrap_or_default();
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str::<GroupLine>(line).unwrap().event).collect()
    }

    /// The processes of the ranks, once all have been started.
    fn ranks(&self, count: usize) -> Vec<u32> {
        let pid = |event: &GroupEvent| if let GroupEvent::RankStarted { pid, .. } = event { Some(*pid) } else { None };
        wait_for("the ranks are started", || {
            let pids: Vec<_> = self.events().iter().filter_map(pid).collect();
            (pids.len() == count).then_some(pids)
        })
    }

    /// How each rank's process ended, and whether it was asked to.
    fn ends(&self) -> Vec<(u32, Exit, bool)> {
        let end = |event: &GroupEvent| match event {
            GroupEvent::RankExited { rank, exit, told_to, .. } => Some((*rank, *exit, *told_to)),
            _ => None,
        };
        let mut ends: Vec<_> = self.events().iter().filter_map(end).collect();
        ends.sort_by_key(|(rank, ..)| *rank);
        ends
    }

    fn stderr(&self) -> String {
        fs::read_to_string(self.folder.path().join("stderr.log")).unwrap()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its ranks die with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn job(folder: &Path, ranks: Vec<RankPlace>) -> Job {
    let shape = Shape { processes: ranks.len() as u32, ..Shape::default() };
    let empty = Job::new(image::KEY.into(), Levels::default(), shape, Data::of_set("digits"));
    Job { run: "run".into(), folder: folder.to_owned(), ranks, ..empty }
}

fn write_job(folder: &Path, job: &Job) {
    fs::write(folder.join("job.json"), serde_json::to_vec(job).unwrap()).unwrap();
}

fn places(count: u32) -> Vec<RankPlace> {
    (0..count).map(|rank| RankPlace::on_cpu(rank, 1)).collect()
}

fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(begin.elapsed() < DEADLINE, "waited in vain until {what}");
        sleep(Duration::from_millis(5));
    }
}

/// Whether a process runs: one that has ended and was not waited for does not.
fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with(['Z', 'X']))
}

fn names(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn ranks_of_any_program_meet_where_only_their_user_can_and_leave_nothing() {
    let mut group = Group::start(places(2), &["sh", "-c", MEET, "sh", "{job}", "{rank}"]);
    assert!(group.end().success(), "{}", group.stderr());
    assert_eq!(group.ends(), [(0, Exit::Code(0), false), (1, Exit::Code(0), false)]);
    let message = [0, 1].map(|rank| fs::read_to_string(group.folder.path().join(format!("meeting-{rank}"))).unwrap());
    let runtime = group.folder.path().join("runtime");
    assert!(message[0].starts_with(&format!("700 {}/multicard-ranks-", runtime.display())), "{message:?}");
    assert_eq!(message[0], message[1]);
    assert_eq!(names(&runtime), Vec::<String>::new());
}

#[test]
fn a_runtime_folder_that_others_can_write_is_passed_over() {
    let folder = TempDir::new().unwrap();
    let open = folder.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let mut group = Group::start_in(folder, &open, places(2), &["sh", "-c", MEET, "sh", "{job}", "{rank}"]);
    assert!(group.end().success(), "{}", group.stderr());
    let message = fs::read_to_string(group.folder.path().join("meeting-0")).unwrap();
    assert!(message.starts_with("700 /") && !message.contains("/open/"), "{message}");
}

#[test]
fn a_rank_that_ends_badly_ends_the_others_with_everything_told_apart() {
    let body = "[ $2 = 0 ] && exec sleep 600; exit 3";
    let mut group = Group::start(places(2), &["sh", "-c", body, "sh", "{job}", "{rank}"]);
    assert_eq!(group.end().code(), Some(1), "{}", group.stderr());
    assert_eq!(group.ends(), [(0, Exit::Signal(15), true), (1, Exit::Code(3), false)]);
}

#[test]
fn a_rank_that_ignores_the_request_to_end_is_killed() {
    let body = "trap '' TERM; : > \"$(dirname \"$1\")/deaf\"; while :; do sleep 0.01; done";
    let mut group = Group::start(places(1), &["sh", "-c", body, "sh", "{job}"]);
    wait_for("the rank is deaf", || group.folder.path().join("deaf").exists().then_some(()));
    kill_process(Pid::from_child(&group.child), Signal::TERM).unwrap();
    assert_eq!(group.end().code(), Some(1), "{}", group.stderr());
    assert_eq!(group.ends(), [(0, Exit::Signal(9), true)]);
    assert!(group.events().contains(&GroupEvent::Interrupted { signal: 15 }), "{:?}", group.events());
}

#[test]
fn a_killed_supervisor_takes_its_ranks_with_it_and_the_next_one_clears_away_where_they_met() {
    let runtime = TempDir::new().unwrap();
    let runtime = runtime.path();
    let mut killed = Group::start_in(TempDir::new().unwrap(), runtime, places(2), &["sleep", "600"]);
    let ranks = killed.ranks(2);
    assert!(ranks.iter().all(|rank| runs(*rank)));
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    wait_for("its ranks are dead", || (!ranks.iter().any(|rank| runs(*rank))).then_some(()));
    let left = names(runtime);
    assert_eq!(left.len(), 1, "{left:?}");
    let mut next = Group::start_in(TempDir::new().unwrap(), runtime, places(2), &["sleep", "600"]);
    let ranks = next.ranks(2);
    let now = names(runtime);
    assert!(now.len() == 1 && now != left, "{now:?}");
    // It ends its ranks when it is asked to end.
    kill_process(Pid::from_child(&next.child), Signal::INT).unwrap();
    assert_eq!(next.end().code(), Some(1));
    assert!(!ranks.iter().any(|rank| runs(*rank)) && names(runtime).is_empty());
}

#[test]
fn a_rank_whose_supervisor_is_gone_does_not_begin() {
    let begin = |supervisor: u32| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_multicard"));
        command.args(["rank", &supervisor.to_string(), "echo", "begun", "--format", "json"]).output().unwrap()
    };
    let output = begin(std::process::id());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "begun --format json\n");
    let output = begin(1);
    assert!(!output.status.success() && output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("supervisor 1 that started this rank is gone"));
}

#[test]
fn ranks_are_bound_to_their_cpus_and_one_that_cannot_be_ends_the_run() {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let cpu = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).unwrap() as u32;
    let bound = |cpus: Vec<u32>| vec![RankPlace { cpus, ..RankPlace::on_cpu(0, 1) }];
    let body = "grep Cpus_allowed_list /proc/self/status > \"$(dirname \"$1\")/cpus\"";
    let mut group = Group::start(bound(vec![cpu]), &["sh", "-c", body, "sh", "{job}"]);
    assert!(group.end().success(), "{}", group.stderr());
    let seen = fs::read_to_string(group.folder.path().join("cpus")).unwrap();
    assert_eq!(seen, format!("Cpus_allowed_list:\t{cpu}\n"));
    let mut group = Group::start([bound(vec![1_000_000]), places(2)].concat(), &["sleep", "600"]);
    assert_eq!(group.end().code(), Some(1), "{}", group.stderr());
    let [GroupEvent::RankNotStarted { rank: 0, reason }] = &group.events()[..] else { panic!("{:?}", group.events()) };
    assert!(reason.contains("cannot bind to CPUs [1000000]"), "{reason}");
}

#[test]
fn a_bad_program_and_bad_jobs_are_named() {
    let mut group = Group::start(places(1), &["/nowhere/program", "{job}"]);
    assert_eq!(group.end().code(), Some(1));
    assert!(group.stderr().contains("cannot execute /nowhere/program: No such file"), "{}", group.stderr());
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("job.json");
    let refusal = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_multicard"));
        let output = command.arg("group").arg(&path).arg("true").output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let text = refusal();
    assert!(text.contains("cannot read the job") && text.contains("No such file"), "{text}");
    fs::write(&path, "{}").unwrap();
    assert!(refusal().contains("is malformed: missing field"), "{}", refusal());
    write_job(folder.path(), &Job { version: 99, ..job(folder.path(), places(1)) });
    assert!(refusal().contains("uses protocol 99, this multicard uses"), "{}", refusal());
    write_job(folder.path(), &job(&folder.path().join("missing"), places(1)));
    assert!(refusal().contains(&format!("cannot write {GROUP_LOG} in")), "{}", refusal());
}

#[test]
fn an_output_without_end_is_cut_in_its_middle_and_keeps_its_first_and_last_words() {
    let folder = TempDir::new().unwrap();
    write_job(folder.path(), &job(folder.path(), vec![RankPlace::on_cpu(0, 1)]));
    let path = folder.path().join("group.out");
    let out = fs::File::options().read(true).append(true).create(true).open(&path).unwrap();
    let script = "echo first words; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo last words";
    let mut command = Command::new(env!("CARGO_BIN_EXE_multicard"));
    command.arg("group").arg(folder.path().join("job.json")).args(["sh", "-c", script]);
    assert!(command.stdin(Stdio::null()).stdout(out).status().unwrap().success());
    let kept = fs::read(&path).unwrap();
    assert!(kept.len() < 66 << 20, "{} bytes", kept.len());
    assert!(kept.starts_with(b"first words\n") && kept.ends_with(b"last words\n"));
    let note = b"[multicard left out ";
    assert_eq!(kept.windows(note.len()).filter(|window| window == note).count(), 1);
}
