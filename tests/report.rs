//! The report of a session as one page of HTML: whole without any other file, and dead to names that would act.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use multicard::plan::{Data, Level, Levels, Mode, Node, RunState, Tracer, image};
use multicard::protocol::{Environment, Placement};
use multicard::store::{Decision, Store};
use tempfile::TempDir;

mod seeded;

use seeded::{multicard_at_home, printed};

/// What would act on a page that does not write it as text.
const HOSTILE: &str = "<script>alert(1)<img src=x onerror=alert(2)> \"' & `x`";

fn started(run: &str, rank: u32) -> String {
    let device = r#""device":{"name":"cpu","gpu_uuid":null},"world_size":1,"seed":1"#;
    let event = format!(r#""event":"started","protocol_version":1,"pid":7,"torch_version":"2.11.0",{device}"#);
    format!("{{\"run\":\"{run}\",\"rank\":{rank},\"time_s\":17.5,{event}}}\n")
}

fn steps(run: &str, scale: f64) -> String {
    let step = |step: u32| {
        let times =
            format!(r#""duration_s":{},"load_wait_s":0.01,"loss":2.5"#, scale * (0.1 + 0.001 * f64::from(step)));
        let counts = format!(r#""epoch":1,"step":{step},"steps":12,"images":8,"warm_up":{}"#, step < 3);
        format!("{{\"run\":\"{run}\",\"rank\":0,\"time_s\":17.5,\"event\":\"step\",{counts},{times}}}\n")
    };
    (1..=12).map(step).collect()
}

/// A session whose name, machine, plan, levels, warnings, facts and studies are hostile.
fn hostile_session(home: &Path) -> PathBuf {
    let node: Node = serde_json::from_value(serde_json::json!({
        "hostname": "secret-host", "system": "Linux", "cpu_model": HOSTILE, "cpus": 2, "memory_bytes": 1_u64 << 34,
        "numa_nodes": 1, "driver": null, "no_gpu_reason": "no driver", "gpus": [], "nsys": {"Err": "none"},
        "worker": {"Err": "none"},
    }))
    .unwrap();
    let folder = home.join(HOSTILE);
    let store = Store::create(&folder, &node).unwrap();
    let toml = format!("# {HOSTILE}\n# </pre></details><script>alert(3)</script>\nversion = 1\n");
    let name = HOSTILE.to_owned();
    store.decide(Decision::PlanAdded { plan: "p1".to_owned(), name, toml, workloads: Vec::new() }).unwrap();
    let study =
        serde_json::json!({ "form": "bars", "about": HOSTILE, "measure": "step_time_s", "colour": "optimizer_impl" });
    store.decide(Decision::StudySaved { name: HOSTILE.to_owned(), study }).unwrap();
    for (nth, (level, repeat)) in [(HOSTILE, 1), (HOSTILE, 2), ("plain", 1), ("plain", 2)].into_iter().enumerate() {
        let run = format!("r{nth}");
        store
            .decide(Decision::RunQueued {
                run: run.clone(),
                plan: "p1".to_owned(),
                cell: format!("c-{}", level.len()),
                workload: image::KEY.into(),
                levels: Levels::new(vec![("optimizer_impl", Level::text(level)), ("gpus", Level::Integer(1))]),
                data: Data::of_set("digits"),
                repeat,
                tracer: Tracer::Off,
                mode: Mode::Full,
                seed: 1,
            })
            .unwrap();
        let mut environment = Environment::default();
        environment.set("kernel", Some(HOSTILE));
        environment.set("hostname", Some("secret-host"));
        store
            .decide(Decision::RunPlaced {
                run: run.clone(),
                placement: Placement { ranks: Vec::new(), links: String::new() },
                beside: Vec::new(),
                warnings: vec![HOSTILE.to_owned()],
                environment: Some(environment),
            })
            .unwrap();
        store.decide(Decision::RunStarted { run: run.clone(), pid: 1 << 30, process_start: 1 }).unwrap();
        fs::create_dir_all(store.run_folder(&run)).unwrap();
        let scale = if level == "plain" { 1.0 } else { 1.4 + 0.01 * f64::from(repeat) };
        let end =
            format!("{{\"run\":\"{run}\",\"rank\":0,\"time_s\":17.5,\"event\":\"finished\",\"duration_s\":9.0}}\n");
        fs::write(store.run_folder(&run).join("rank-0.jsonl"), started(&run, 0) + &steps(&run, scale) + &end).unwrap();
        store
            .decide(Decision::RunEnded { run, state: RunState::Finished, reason: None, duration_s: Some(9.0) })
            .unwrap();
    }
    folder
}

/// The elements of a page by name, each with its attributes as they are written; script and style are passed over.
fn elements(page: &str) -> Vec<(String, String)> {
    let mut elements = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        // A quoted attribute may hold the end of an element.
        let (mut end, mut quote) = (0, None);
        for (place, letter) in rest.char_indices() {
            end = place;
            match (quote, letter) {
                (None, '>') => break,
                (None, '"' | '\'') => quote = Some(letter),
                (Some(open), _) if open == letter => quote = None,
                _ => {}
            }
        }
        let element = &rest[..end];
        rest = &rest[end + 1..];
        let (name, attributes) = element.split_once(char::is_whitespace).unwrap_or((element, ""));
        if ["script", "style"].contains(&name) {
            let close = format!("</{name}>");
            rest = &rest[rest.find(&close).unwrap() + close.len()..];
        }
        elements.push((name.to_lowercase(), attributes.to_owned()));
    }
    elements
}

#[test]
fn the_page_is_whole_in_one_file_and_hostile_names_are_text_in_it() {
    let home = TempDir::new().unwrap();
    let session = hostile_session(home.path());
    let file = home.path().join("report.html");
    let output =
        multicard_at_home(home.path(), &["report", session.to_str().unwrap(), "--out", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", printed(&output));
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2, "the session and the page");
    let page = fs::read_to_string(&file).unwrap();

    let elements = elements(&page);
    let count = |name: &str| elements.iter().filter(|(own, _)| own == name).count();
    assert_eq!((count("script"), count("style"), count("img"), count("link"), count("iframe")), (1, 1, 0, 0, 0));
    for (name, attributes) in &elements {
        let lower = attributes.to_lowercase();
        let outside_quotes: String = lower.split('"').step_by(2).collect();
        assert!(!outside_quotes.contains("onerror") && !outside_quotes.contains("onclick"), "{name} {attributes}");
        assert!(!lower.contains("src=\"") && !lower.contains("href=\"http"), "{name} {attributes}");
    }
    // Names of the kinds of hosts are in the addresses of XML alone.
    assert!(!page.contains("http://") && !page.contains("https://"), "nothing of another place is asked for");
    assert!(page.contains("default-src 'none'") && page.contains("script-src 'sha256-"));
    assert!(!page.contains("secret-host"), "reports are published: the machine's name stays out");

    let shown = "&lt;script&gt;alert(1)&lt;img src=x onerror=alert(2)&gt;";
    assert!(page.contains(&format!("<title>Session {shown}")), "its title is the session's name");
    assert!(page.matches(shown).count() > 12, "names are shown as they are: {}", page.matches(shown).count());
    assert!(page.contains("&lt;/pre&gt;&lt;/details&gt;&lt;script&gt;alert(3)"), "the plan's file stays in its fold");
    let svg = page.split("<svg ").nth(1).unwrap().split("</svg>").next().unwrap();
    assert!(svg.contains("<text "), "figures are inline, their text is text");
}

#[test]
fn the_page_says_what_was_run_how_it_was_measured_and_what_must_be_known() {
    let home = TempDir::new().unwrap();
    let session = hostile_session(home.path());
    let out = home.path().join("report");
    let output = multicard_at_home(home.path(), &["report", session.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    assert!(output.status.success(), "{}", printed(&output));
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    for part in [
        "4 of 4 runs finished; only these are in the values.",
        ">What was run</h2>",
        ">Conditions of the machine</h2>",
        ">Methods</h2>",
        "<th>State</th>",
        "Student's t on logarithms",
        "prefers-color-scheme: dark",
        "@media print",
        "aria-sort",
    ] {
        assert!(page.contains(part), "{part} is not in the page");
    }
    let readme = fs::read_to_string(out.join("README.md")).unwrap();
    assert!(readme.contains("(figures/times.svg)") && readme.contains("[CSV](tables/times.csv)"), "{readme}");
    assert!(readme.contains("[plan p1: \\<script>") && out.join("plans/p1.toml").is_file(), "{readme}");
    // Everything that the page shows as a figure is drawn in it.
    assert_eq!(page.matches("<svg ").count(), fs::read_dir(out.join("figures")).unwrap().count() / 3);
}

#[test]
fn a_study_whose_name_is_too_long_for_a_file_is_in_the_report() {
    let home = TempDir::new().unwrap();
    let session = hostile_session(home.path());
    let saved = |name: &str| {
        let study = r#"{"form":"bars","measure":"step_time_s","colour":"optimizer_impl"}"#;
        format!("{{\"time_s\":18.0,\"decision\":\"study_saved\",\"name\":\"{name}\",\"study\":{study}}}\n")
    };
    let names = ["größer".repeat(33), "größer".repeat(33) + "s"];
    let journal = session.join("journal.jsonl");
    let lines = fs::read_to_string(&journal).unwrap() + &names.each_ref().map(|name| saved(name)).concat();
    fs::write(&journal, lines).unwrap();
    let out = home.path().join("report");
    let output = multicard_at_home(home.path(), &["report", session.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    assert!(output.status.success(), "{}", printed(&output));
    let figures = fs::read_dir(out.join("figures")).unwrap().map(|file| file.unwrap().file_name());
    let long = figures.filter(|name| name.to_str().unwrap().starts_with("größergrößer"));
    assert_eq!(long.count(), 6, "each of the two has its own three files");
    assert!(fs::read_to_string(out.join("README.md")).unwrap().contains(&names[1]), "the whole name is its heading");
}

#[test]
fn every_element_of_the_page_is_closed() {
    let home = TempDir::new().unwrap();
    let session = hostile_session(home.path());
    let file = home.path().join("report.html");
    let output =
        multicard_at_home(home.path(), &["report", session.to_str().unwrap(), "--out", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", printed(&output));
    let mut open: Vec<String> = Vec::new();
    for (name, attributes) in elements(&fs::read_to_string(&file).unwrap()) {
        match name.strip_prefix('/') {
            Some(closed) => assert_eq!(open.pop().as_deref(), Some(closed)),
            None if attributes.ends_with('/') || ["!doctype", "meta", "script", "style"].contains(&name.as_str()) => {}
            None => open.push(name),
        }
    }
    assert_eq!(open, Vec::<String>::new());
}

#[test]
fn a_reproduction_writes_through_no_link() {
    let home = TempDir::new().unwrap();
    let session = hostile_session(home.path());
    let (out, precious) = (home.path().join("reproduction"), home.path().join("precious.txt"));
    fs::create_dir(&out).unwrap();
    fs::write(&precious, "precious\n").unwrap();
    for name in ["figures", "reproduction.md", "reproduction.html", "reproduction.tex"] {
        symlink(&precious, out.join(name)).unwrap();
        let arguments = ["papers", "--report", session.to_str().unwrap(), "--out", out.to_str().unwrap()];
        let output = multicard_at_home(home.path(), &arguments);
        let (code, refusal) = (output.status.code(), printed(&output));
        assert!(code == Some(2) && refusal.contains(&format!("{name} is a link")), "{name}: {refusal}");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious\n", "{name}");
        fs::remove_file(out.join(name)).unwrap();
    }
}

#[test]
fn a_report_writes_through_no_link_and_replaces_no_figure_of_another_writer() {
    let home = TempDir::new().unwrap();
    let session = hostile_session(home.path());
    let (out, precious) = (home.path().join("report"), home.path().join("precious.txt"));
    let written = || {
        let arguments = ["report", session.to_str().unwrap(), "--out", out.to_str().unwrap()];
        let output = multicard_at_home(home.path(), &arguments);
        (output.status.code(), printed(&output))
    };
    assert_eq!(written().0, Some(0));
    fs::write(&precious, "precious\n").unwrap();
    for name in ["tables/times.csv", "figures/times.svg", "plans/p1.toml", "README.md", "report.html"] {
        let place = out.join(name);
        let own = fs::read(&place).unwrap();
        fs::remove_file(&place).unwrap();
        symlink(&precious, &place).unwrap();
        let (code, message) = written();
        assert!(code == Some(2) && message.contains(name) && message.contains("is a link"), "{name}: {message}");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious\n", "{name}");
        fs::remove_file(&place).unwrap();
        fs::write(&place, own).unwrap();
    }
    fs::rename(out.join("tables"), home.path().join("elsewhere")).unwrap();
    symlink(home.path().join("elsewhere"), out.join("tables")).unwrap();
    let (code, message) = written();
    assert!(code == Some(2) && message.contains("tables is a link"), "{message}");
    fs::remove_file(out.join("tables")).unwrap();
    // A drawing of another program stays, and a table of an earlier report is replaced.
    assert_eq!(written().0, Some(0));
    fs::write(out.join("tables/times.csv"), "a,b\n").unwrap();
    assert_eq!(written().0, Some(0));
    assert_ne!(fs::read_to_string(out.join("tables/times.csv")).unwrap(), "a,b\n");
    fs::write(out.join("figures/times.svg"), "<svg xmlns=\"http://www.w3.org/2000/svg\"/>").unwrap();
    let (code, message) = written();
    assert!(code == Some(2) && message.contains("times.svg exists, and multicard did not write it"), "{message}");
}

#[test]
fn a_name_that_is_neither_clearly_a_page_nor_a_folder_is_refused() {
    let home = TempDir::new().unwrap();
    let session = hostile_session(home.path());
    fs::create_dir(home.path().join("folder.html")).unwrap();
    for (name, expected) in [(".html", "the name is an ending alone"), ("folder.html", "this is a folder")] {
        let out = home.path().join(name);
        let arguments = ["report", session.to_str().unwrap(), "--out", out.to_str().unwrap()];
        let output = multicard_at_home(home.path(), &arguments);
        assert!(output.status.code() == Some(2) && printed(&output).contains(expected), "{}", printed(&output));
    }
    assert!(!home.path().join(".html").exists());
}
