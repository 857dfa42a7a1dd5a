//! A rebuilt index equals the live one, whatever was logged in whatever order.

use proptest::prelude::*;

use super::fixture::*;
use crate::plan::RunState;
use crate::protocol::{Event, EventLine, Evidence, FailureKind, Phase, Sample};
use crate::store::{JournalLine, Reader, Store, rebuild};

#[derive(Clone, Debug)]
enum Deed {
    Say(EventLine),
    /// A rank logs an event that the store does not receive.
    Miss(EventLine),
    /// The store receives a rank's whole log again.
    Repeat(usize),
    Sample(String, Sample),
    Start(String),
    End(String, RunState),
    Flush,
    Reopen,
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![any::<f64>().prop_filter("JSON has finite numbers only", |x| x.is_finite()), 0.0..10.0]
}

fn possible() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(f64::MIN_POSITIVE), 0.0..1e9]
}

fn count() -> impl Strategy<Value = u64> {
    0..u64::MAX / 2
}

fn event() -> impl Strategy<Value = Event> {
    use Phase::{Evaluate, Load, Start, Steady, WarmUp};
    let phases = prop::sample::select(vec![Start, Load, WarmUp, Steady, Steady, Evaluate]);
    let step = (1_u32..3, 1_u64..20, possible(), possible(), number(), any::<u32>(), any::<bool>());
    let epoch_and_step = (prop::option::of(1_u32..4), prop::option::of(1_u64..20));
    prop_oneof![
        1 => Just(started_of(3)),
        1 => Just(Event::Model { name: "m".to_owned() }),
        1 => phases.prop_map(phase),
        1 => Just(Event::StepsWithdrawn),
        1 => step.prop_map(|(epoch, step, duration_s, load_wait_s, loss, units, warm_up)| Event::Step {
            epoch,
            step,
            steps: 20,
            duration_s,
            load_wait_s,
            loss,
            units,
            warm_up,
            traced: step % 3 == 0
        }),
        3 => ("[a-c]", number(), epoch_and_step).prop_map(|(key, value, (epoch, step))| Event::Reading {
            key: key.into(),
            value,
            epoch,
            step
        }),
        1 => ("[a-c]", any::<bool>()).prop_map(|(seen, in_effect)| {
            let (factor, asked) = ("tf32".to_owned(), "off".to_owned());
            Event::Evidence(Evidence { factor, asked, seen, in_effect })
        }),
        1 => "\\PC{0,8}".prop_map(|message| Event::Warning { message }),
        1 => possible().prop_map(|duration_s| Event::Finished { duration_s }),
        1 => "\\PC{0,8}".prop_map(|message| Event::Failed { kind: FailureKind::Peer, message }),
    ]
}

fn run() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["r1".to_owned(), "r2".to_owned(), "unknown".to_owned()])
}

fn event_line() -> impl Strategy<Value = EventLine> {
    (run(), 0_u32..3, 0.0..20.0, event()).prop_map(|(run, rank, time_s, event)| line(&run, rank, time_s, event))
}

fn some_sample() -> impl Strategy<Value = Sample> {
    let gpu = (prop::option::of(count()), prop::option::of(possible()), prop::option::of(0_u32..2), 0_usize..3);
    (0.0..20.0, prop::option::of(possible()), prop::collection::vec(gpu, 0..3)).prop_map(|(time_s, hole_s, gpus)| {
        let gpus = gpus.into_iter().enumerate().map(|(index, (memory, energy, foreign, reasons))| {
            let mut gpu = sample(0.0, 0.0, &["power", "heat"][..reasons.min(2)]).gpus.remove(0);
            gpu.uuid = format!("GPU-{index}");
            (gpu.memory_used_bytes, gpu.energy_j, gpu.foreign_processes) = (memory, energy, foreign);
            gpu
        });
        Sample { time_s, hole_s, gpus: gpus.collect(), ..Sample::default() }
    })
}

fn deed() -> impl Strategy<Value = Deed> {
    let state = prop::sample::select(vec![RunState::Finished, RunState::Failed, RunState::TimedOut]);
    prop_oneof![
        20 => event_line().prop_map(Deed::Say),
        2 => event_line().prop_map(Deed::Miss),
        2 => any::<usize>().prop_map(Deed::Repeat),
        8 => (run(), some_sample()).prop_map(|(run, sample)| Deed::Sample(run, sample)),
        1 => run().prop_map(Deed::Start),
        1 => (run(), state).prop_map(|(run, state)| Deed::End(run, state)),
        1 => Just(Deed::Flush),
        1 => Just(Deed::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn a_rebuilt_index_equals_the_live_one(deeds in prop::collection::vec(deed(), 0..80)) {
        let (folder, mut store) = session_of_r1();
        store.decide(plan_added()).unwrap();
        store.decide(queued("r2")).unwrap();
        let mut lines: Vec<EventLine> = Vec::new();
        let mut missed = false;
        let mut finished: Vec<String> = Vec::new();
        for deed in deeds {
            match deed {
                // The log of a finished run is what it was.
                Deed::Say(line) | Deed::Miss(line) if finished.contains(&line.run) => {}
                Deed::Say(line) => {
                    log(folder.path(), &line);
                    lines.push(line.clone());
                    store.event(line).unwrap();
                }
                Deed::Miss(line) => {
                    log(folder.path(), &line);
                    lines.push(line);
                    missed = true;
                }
                Deed::Repeat(which) => {
                    let Some(repeated) = lines.get(which.checked_rem(lines.len()).unwrap_or(0)) else { continue };
                    let run_and_rank = (repeated.run.clone(), repeated.rank);
                    for line in lines.iter().filter(|line| (&line.run, line.rank) == (&run_and_rank.0, run_and_rank.1)) {
                        store.event(line.clone()).unwrap();
                    }
                }
                Deed::Sample(run, sample) => store.sample(&run, sample).unwrap(),
                Deed::Start(run) => store.decide(run_started(&run)).unwrap(),
                Deed::End(run, state) => {
                    store.decide(ended(&run, state)).unwrap();
                    finished.extend((state == RunState::Finished).then_some(run));
                }
                Deed::Flush => store.flush().unwrap(),
                Deed::Reopen => {
                    drop(store);
                    store = Store::open(folder.path()).unwrap();
                    missed = false;
                }
            }
        }
        if missed {
            drop(store);
            store = Store::open(folder.path()).unwrap();
        }
        store.flush().unwrap();
        let live = everything(&store.reader().unwrap());
        drop(store);
        let report = rebuild(folder.path(), &mut |_, _| {}).unwrap();
        prop_assert_eq!(report.damaged, Vec::<String>::new());
        prop_assert_eq!((report.runs, report.events), (2, lines.len() as u64));
        prop_assert_eq!(everything(&Reader::open(folder.path()).unwrap()), live);
    }
}

#[test]
fn an_event_that_comes_after_its_runs_end_replaces_nothing_that_its_log_holds_later() {
    let (folder, store) = session_of_r1();
    let failed = |message: &str| {
        let event = Event::Failed { kind: FailureKind::Peer, message: message.to_owned() };
        line("r1", 0, 1.0, event)
    };
    log(folder.path(), &failed("first"));
    log(folder.path(), &failed("last"));
    store.decide(ended("r1", RunState::Failed)).unwrap();
    store.event(failed("first")).unwrap();
    store.flush().unwrap();
    let live = everything(&store.reader().unwrap());
    assert_eq!(live[0].ranks[0].failure, Some((FailureKind::Peer, "last".to_owned())));
    log(folder.path(), &failed("later"));
    store.event(failed("later")).unwrap();
    store.flush().unwrap();
    let live = everything(&store.reader().unwrap());
    assert_eq!(live[0].ranks[0].failure, Some((FailureKind::Peer, "later".to_owned())));
}

#[test]
fn an_index_is_made_again_if_another_journal_has_taken_the_place_of_the_one_that_it_was_made_from() {
    let (folder, _) = session_of_a_finished_run();
    let journal = folder.path().join("journal.jsonl");
    let text = std::fs::read_to_string(&journal).unwrap();
    let other = text.replace("\"c1\"", "\"c2\"");
    assert!(other != text && other.len() == text.len());
    let cells = |reader: &Reader| -> Vec<String> {
        assert_eq!(reader.damage().unwrap(), Vec::<String>::new());
        reader.runs().unwrap().into_iter().map(|run| run.cell).collect()
    };
    std::fs::write(&journal, &other).unwrap();
    assert_eq!(cells(&Reader::open(folder.path()).unwrap()), ["c2"], "as long");
    std::fs::write(&journal, &text).unwrap();
    let store = Store::open(folder.path()).unwrap();
    assert_eq!(cells(&store.reader().unwrap()), ["c1"], "a writer looks too");
    drop(store);
    let queued = JournalLine { time_s: 1.8e9, decision: queued("r2"), logs: Vec::new() };
    std::fs::write(&journal, other + &serde_json::to_string(&queued).unwrap() + "\n").unwrap();
    assert_eq!(cells(&Reader::open(folder.path()).unwrap()), ["c2", "c1"], "longer");
}

#[test]
fn an_index_whose_journal_has_grown_is_kept_and_catches_up() {
    let (folder, _) = session_of_a_finished_run();
    drop(Store::open(folder.path()).unwrap());
    let queued = JournalLine { time_s: 1.8e9, decision: queued("r2"), logs: Vec::new() };
    append(folder.path(), "journal.jsonl", &(serde_json::to_string(&queued).unwrap() + "\n"));
    let store = Store::open(folder.path()).unwrap();
    assert_eq!((store.found().runs, store.found().events), (2, 0), "only the journal was read");
    assert_eq!(store.reader().unwrap().runs().unwrap().len(), 2);
}

#[test]
fn progress_is_told_up_to_the_last_byte() {
    let (folder, store) = session_of_r1();
    say(&store, "r1", 0, 1.0, step(1));
    drop(store);
    let mut notices = Vec::new();
    rebuild(folder.path(), &mut |done, total| notices.push((done, total))).unwrap();
    assert!(notices.is_sorted());
    let (done, total) = *notices.last().unwrap();
    let bytes = |path| std::fs::metadata(folder.path().join(path)).unwrap().len();
    assert_eq!((done, total), (total, bytes("journal.jsonl") + bytes("runs/r1/rank-0.jsonl")));
}

#[test]
fn starts_keep_their_numbers_when_an_index_catches_up_with_its_journal() {
    let (folder, store) = session();
    store.decide(plan_added()).unwrap();
    for run in ["r1", "r2", "r3"] {
        store.decide(queued(run)).unwrap();
        store.decide(run_started(run)).unwrap();
    }
    drop(store);
    let index = crate::store::index_path(folder.path());
    let behind = std::fs::read(&index).unwrap();
    let store = Store::open(folder.path()).unwrap();
    store.decide(ended("r3", RunState::Failed)).unwrap();
    drop(store);
    // The workbench was killed before the index had the last decision.
    std::fs::write(&index, behind).unwrap();
    let orders = || -> Vec<Option<u32>> {
        let runs = Reader::open(folder.path()).unwrap().runs().unwrap();
        runs.iter().map(|run| run.start_order).collect()
    };
    assert_eq!(orders(), [Some(1), Some(2), Some(3)]);
    rebuild(folder.path(), &mut |_, _| {}).unwrap();
    assert_eq!(orders(), [Some(1), Some(2), Some(3)]);
}
