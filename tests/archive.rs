//! Sessions that travel as one file: what comes out is what went in, and an archive that is not whole or not honest is refused.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::io::{Cursor, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use multicard::store::{
    ArchiveError, LeftOut, Reader, Store, export_session, import_session, number_of, verify_archive,
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

mod seeded;

use seeded::{command, files, multicard, records, session, tables, text, with_mounts};

fn export(session: &Path, out: &Path) -> Result<LeftOut, ArchiveError> {
    export_session(session, out, &mut |_, _| ControlFlow::Continue(()))
}

fn import(archive: &Path, session: &Path) -> Result<(), ArchiveError> {
    import_session(archive, session, &mut |_, _| ControlFlow::Continue(()))
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The entries of an archive.
fn entries(archive: &Path) -> Vec<(String, Vec<u8>)> {
    let mut zip = ZipArchive::new(File::open(archive).unwrap()).unwrap();
    let count = zip.len();
    let entry = |at| {
        let mut entry = zip.by_index(at).unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        (entry.name().unwrap().into_owned(), bytes)
    };
    (0..count).map(entry).collect()
}

/// An archive of these entries.
fn pack(entries: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn seeds_archive(folder: &Path) -> PathBuf {
    let out = folder.join("seeds.zip");
    export(session().path(), &out).unwrap();
    out
}

#[test]
fn a_session_comes_back_as_it_went_with_the_same_tables_to_the_byte() {
    let (home, from) = (TempDir::new().unwrap(), session());
    let before = tables(home.path(), from.path());
    let (archive, to) = (home.path().join("a.zip"), home.path().join("copies/a"));
    let paths = [from.path(), &archive, &to].map(|path| path.display().to_string());
    let exported = multicard(home.path(), &["session", "export", &paths[0], "--out", &paths[1]]);
    assert!(exported.status.success(), "{}", text(&exported.stderr));
    assert!(!entries(&archive).iter().any(|(name, _)| name.contains("sqlite") || name.contains("lock")));
    let imported = multicard(home.path(), &["session", "import", &paths[1], "--session", &paths[2]]);
    assert!(imported.status.success(), "{}", text(&imported.stderr));
    assert_eq!(tables(home.path(), &to), before);
    assert_eq!(records(&to), records(from.path()));
    let again = home.path().join("b.zip");
    export(&to, &again).unwrap();
    let logs =
        |archive: &Path| entries(archive).into_iter().filter(|(name, _)| name != "manifest.json").collect::<Vec<_>>();
    assert_eq!(logs(&again), logs(&archive));
    assert_eq!(names(&home.path().join("copies")), ["a"]);
}

#[test]
fn without_a_folder_a_session_is_imported_under_its_archives_name() {
    let home = TempDir::new().unwrap();
    let archive = seeds_archive(home.path());
    let imported = multicard(home.path(), &["session", "import", archive.to_str().unwrap()]);
    assert!(imported.status.success(), "{}", text(&imported.stderr));
    assert_eq!(names(&home.path().join("data/multicard/sessions")), ["seeds"]);
}

#[test]
fn a_recording_that_may_hold_an_environment_stays_behind_and_is_told() {
    let (home, from) = (TempDir::new().unwrap(), session());
    let run = names(&from.path().join("runs")).remove(0);
    let recording = from.path().join("runs").join(run).join("trace.nsys-rep");
    fs::write(&recording, "TOKEN=SECRET").unwrap();
    let exporting = recording.with_file_name(".multicard-export-7-0");
    fs::create_dir(&exporting).unwrap();
    fs::write(exporting.join("report.sqlite"), "TOKEN=SECRET").unwrap();
    let archive = home.path().join("a.zip");
    let paths = [from.path(), &archive].map(|path| path.display().to_string());
    let exported = multicard(home.path(), &["session", "export", &paths[0], "--out", &paths[1]]);
    assert!(exported.status.success(), "{}", text(&exported.stderr));
    assert!(text(&exported.stderr).contains("1 recording of Nsight Systems"), "{}", text(&exported.stderr));
    let secret = |bytes: &[u8]| bytes.windows(6).any(|window| window == b"SECRET");
    assert!(!entries(&archive).iter().any(|(name, bytes)| name.ends_with(".nsys-rep") || secret(bytes)));
    assert_eq!(export(from.path(), &home.path().join("b.zip")).unwrap(), LeftOut { recordings: 1, outputs: 0 });
}

#[test]
fn an_anonymous_archive_holds_neither_the_machines_name_nor_paths_and_the_same_numbers() {
    let (home, from) = (TempDir::new().unwrap(), session());
    let (host, user) = ("secrethost17", "/home/secretuser/data of mine");
    let path = from.path().join("session.toml");
    fs::write(&path, fs::read_to_string(&path).unwrap().replacen("\"node\"", &format!("\"{host}\""), 1)).unwrap();
    let run = from.path().join("runs").join(names(&from.path().join("runs")).remove(0));
    let job = fs::read_to_string(run.join("job.json")).unwrap();
    let mut job: serde_json::Value = serde_json::from_str(&job).unwrap();
    job["data_folder"] = user.into();
    fs::write(run.join("job.json"), job.to_string()).unwrap();
    let id = run.file_name().unwrap().to_str().unwrap();
    let warning = format!(
        "{{\"run\":\"{id}\",\"rank\":0,\"time_s\":1,\"event\":\"warning\",\"message\":\"on {host}: {user}/a.png, /srv/secretshare/b.png\"}}\n"
    );
    let log = run.join("rank-0.jsonl");
    fs::write(&log, fs::read_to_string(&log).unwrap() + &warning + "secretuser in a line that cannot be read\n")
        .unwrap();
    fs::write(run.join("stderr.log"), format!("{host} {user}")).unwrap();
    let archive = home.path().join("a.zip");
    let paths = [from.path(), &archive].map(|path| path.display().to_string());
    let exported = multicard(home.path(), &["session", "export", &paths[0], "--out", &paths[1], "--anonymous"]);
    assert!(exported.status.success(), "{}", text(&exported.stderr));
    assert!(text(&exported.stderr).contains("that may hold names or paths left out"), "{}", text(&exported.stderr));
    let all = entries(&archive).into_iter().map(|(name, bytes)| name.into_bytes().into_iter().chain(bytes).collect());
    for bytes in all.chain([fs::read(&archive).unwrap()]) {
        let bytes: Vec<u8> = bytes;
        for secret in [host, "secretuser", "secretshare", from.path().to_str().unwrap(), "/home/"] {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{secret}: {}", String::from_utf8_lossy(&bytes));
        }
    }
    let to = home.path().join("to");
    import(&archive, &to).unwrap();
    let numbers = |session: &Path| {
        let all = records(session).into_iter();
        all.map(|run| {
            (
                number_of(&run.run).to_owned(),
                run.levels.clone(),
                run.ranks.iter().map(|rank| (rank.steps.clone(), rank.readings.clone())).collect::<Vec<_>>(),
                run.telemetry,
            )
        })
        .collect::<Vec<_>>()
    };
    assert_eq!(numbers(&to), numbers(from.path()));
}

/// A process that is being started shares all open files, and with them their locks, until it executes its program.
#[test]
fn a_session_that_was_imported_opens_at_once_while_other_threads_start_processes() {
    let folder = TempDir::new().unwrap();
    let archive = seeds_archive(folder.path());
    let is_over = AtomicBool::new(false);
    let opened: Vec<Result<usize, String>> = thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    Command::new("true").status().unwrap();
                }
            });
        }
        let open = |number: u32| {
            let session = folder.path().join(number.to_string());
            import(&archive, &session).map_err(|error| error.to_string())?;
            let runs = Reader::open(&session).and_then(|reader| reader.runs()).map_err(|error| error.to_string())?;
            Store::open(&session).map(|_| runs.len()).map_err(|error| error.to_string())
        };
        let opened = (0..20).map(open).collect();
        is_over.store(true, Ordering::Relaxed);
        opened
    });
    let runs = records(session().path()).len();
    assert_eq!(opened, vec![Ok(runs); 20]);
}

#[test]
fn nothing_is_overwritten() {
    let (folder, from) = (TempDir::new().unwrap(), session());
    let archive = seeds_archive(folder.path());
    assert!(matches!(export(from.path(), &archive), Err(ArchiveError::Exists { .. })));
    assert!(matches!(import(&archive, from.path()), Err(ArchiveError::Exists { .. })));
    assert!(matches!(export(from.path(), &folder.path().join("a.tar")), Err(ArchiveError::Name { .. })));
    assert!(matches!(export(folder.path(), &folder.path().join("b.zip")), Err(ArchiveError::Store(_))));
    assert_eq!(names(folder.path()), ["seeds.zip"]);
}

#[test]
fn an_archive_in_the_folder_of_its_own_session_is_refused_with_what_to_do_however_the_folder_is_written() {
    let (home, from) = (TempDir::new().unwrap(), session());
    std::os::unix::fs::symlink(from.path(), home.path().join("link")).unwrap();
    let before = files(from.path());
    let folder = from.path().display().to_string();
    for out in [format!("{folder}/a.zip"), format!("{folder}/runs/../runs/a.zip"), "link/a.zip".to_owned()] {
        for options in [vec![], vec!["--anonymous"]] {
            let mut export = command(home.path());
            export.args(["session", "export", &folder, "--out", &out]).args(options).current_dir(home.path());
            let refused = export.output().unwrap();
            let expected = format!("{out}: this is in the folder of the session itself, {folder}, ");
            assert_eq!(refused.status.code(), Some(2), "{out}");
            assert!(text(&refused.stderr).contains(&expected), "{}", text(&refused.stderr));
            assert!(text(&refused.stderr).contains("choose a place outside"), "{}", text(&refused.stderr));
        }
    }
    let mut inside = command(home.path());
    let refused = inside.args(["session", "export", ".", "--out", "a.zip"]).current_dir(from.path()).output().unwrap();
    assert!(text(&refused.stderr).contains("choose a place outside"), "{}", text(&refused.stderr));
    assert_eq!(files(from.path()), before);
}

#[test]
fn whoever_stops_it_finds_nothing_left() {
    let (folder, from) = (TempDir::new().unwrap(), session());
    let archive = seeds_archive(folder.path());
    let stop_at = |share: u64| {
        move |done: u64, total: u64| {
            if done * 4 > total * share { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    };
    for share in 0..4 {
        let (out, to) = (folder.path().join("out.zip"), folder.path().join("to"));
        assert!(matches!(export_session(from.path(), &out, &mut stop_at(share)), Err(ArchiveError::Cancelled)));
        assert!(matches!(import_session(&archive, &to, &mut stop_at(share)), Err(ArchiveError::Cancelled)));
        assert_eq!(names(folder.path()), ["seeds.zip"]);
    }
}

#[test]
fn an_interrupt_ends_an_export_with_130_and_leaves_nothing() {
    let (home, from) = (TempDir::new().unwrap(), session());
    // Long enough to be interrupted: text that does not compress to nothing.
    let noise: Vec<u8> = (0..60_000_000_u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect();
    fs::write(from.path().join("runs/noise.bin"), noise).unwrap();
    let out = home.path().join("out");
    fs::create_dir(&out).unwrap();
    let mut child = command(home.path())
        .args(["session", "export", from.path().to_str().unwrap(), "--out", out.join("a.zip").to_str().unwrap()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while names(&out).is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "it ended without a file");
        thread::sleep(std::time::Duration::from_millis(1));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(names(&out), [""; 0]);
}

#[test]
fn a_disk_that_is_full_during_an_export_is_one_message_that_names_the_archive() {
    let (home, from) = (TempDir::new().unwrap(), session());
    let disk = home.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let mut noise = 7_u64;
    let mut next = || {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        noise as u8
    };
    let noise: Vec<u8> = (0..1_000_000).map(|_| next()).collect();
    fs::write(from.path().join("runs/noise.bin"), noise).unwrap();
    let script = "mount -t tmpfs -o size=64k none \"$1\"
        \"$0\" session export \"$2\" --out \"$1/a.zip\" || echo \"exit $?\"
        ls -A \"$1\"";
    let Some(output) = with_mounts(home.path(), script, &[&disk, from.path()]) else { return };
    let stderr = text(&output.stderr);
    assert_eq!(text(&output.stdout), "exit 2\n", "{stderr}");
    let expected = format!("multicard: writing {}: No space left on device", disk.join("a.zip").display());
    assert!(stderr.starts_with(&expected) && stderr.lines().count() == 1, "{stderr}");
}

#[test]
fn what_a_killed_import_left_is_cleared_by_the_next() {
    let folder = TempDir::new().unwrap();
    let archive = seeds_archive(folder.path());
    let left = folder.path().join(".to.importing");
    fs::create_dir_all(left.join("runs/old")).unwrap();
    fs::write(left.join("runs/old/rank-0.jsonl"), "half").unwrap();
    fs::write(left.join("session.toml"), "half").unwrap();
    import(&archive, &folder.path().join("to")).unwrap();
    assert_eq!(names(folder.path()), ["seeds.zip", "to"]);
    assert_eq!(records(&folder.path().join("to")), records(session().path()));
}

#[test]
fn an_archive_cut_off_anywhere_is_refused() {
    let folder = TempDir::new().unwrap();
    let whole = fs::read(seeds_archive(folder.path())).unwrap();
    assert!(verify_archive(Cursor::new(&whole[..]), Path::new("whole.zip")).unwrap() > 8);
    for end in (0..whole.len()).rev() {
        let error = verify_archive(Cursor::new(&whole[..end]), Path::new("cut.zip")).unwrap_err().to_string();
        assert!(error.starts_with("cut.zip: "), "{end}: {error}");
    }
}

#[test]
fn a_changed_byte_in_a_log_is_found() {
    let folder = TempDir::new().unwrap();
    let mut kept = entries(&seeds_archive(folder.path()));
    let log = kept.iter_mut().find(|(name, _)| name.ends_with("rank-0.jsonl")).unwrap();
    let digit = log.1.iter_mut().find(|byte| **byte == b'2').unwrap();
    *digit = b'3';
    let error = verify_archive(Cursor::new(pack(&kept)), Path::new("changed.zip")).unwrap_err().to_string();
    assert!(error.contains("rank-0.jsonl") && error.contains("SHA-256"), "{error}");
}

/// Malicious archive: its name, its bytes and a word of the error.
type Harm = (&'static str, Vec<u8>, &'static str);

fn harmful(kept: &[(String, Vec<u8>)]) -> Vec<Harm> {
    let manifest = kept.iter().position(|(name, _)| name == "manifest.json").unwrap();
    let with = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut kept = kept.to_vec();
        let mut value: serde_json::Value = serde_json::from_slice(&kept[manifest].1).unwrap();
        change(&mut value);
        kept[manifest].1 = serde_json::to_vec(&value).unwrap();
        kept
    };
    let renamed = |to: &'static str| {
        let mut changed = with(&|value| value["files"][0]["path"] = to.into());
        let first: serde_json::Value = serde_json::from_slice(&kept[manifest].1).unwrap();
        let first = first["files"][0]["path"].as_str().unwrap().to_owned();
        changed.iter_mut().find(|(name, _)| *name == first).unwrap().0 = to.to_owned();
        pack(&changed)
    };
    let more = |name: &str| pack(&[kept, &[(name.to_owned(), b"x".to_vec())]].concat());
    let link = {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in kept {
            zip.start_file(name, SimpleFileOptions::default()).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.add_symlink("runs/link", "/etc/passwd", SimpleFileOptions::default()).unwrap();
        zip.finish().unwrap().into_inner()
    };
    let twice = {
        // The writer refuses a second entry of one name, so its name is changed afterwards.
        let mut bytes = more("runs/aaaa");
        let stored = pack(&[(String::from("x"), Vec::new())]);
        assert!(!stored.is_empty());
        let (from, to) = (b"runs/aaaa", b"manifest.");
        let at: Vec<usize> = (0..bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
        at.iter().for_each(|at| bytes[*at..*at + from.len()].copy_from_slice(to));
        bytes
    };
    let also_listed = |path: Option<&str>| {
        pack(&with(&|value| {
            let mut entry = value["files"][0].clone();
            if let Some(path) = path {
                entry["path"] = path.into();
            }
            value["files"].as_array_mut().unwrap().push(entry);
        }))
    };
    vec![
        ("traversal", renamed("../../escaped"), "leads out"),
        ("absolute", renamed("/tmp/escaped"), "leads out"),
        ("backslash", renamed("..\\escaped"), "leads out"),
        ("dot", renamed("runs/./x"), "leads out"),
        ("index", renamed("session.sqlite"), "not one of a session's logs"),
        ("unlisted", more("runs/extra"), "not listed in its manifest"),
        ("unlisted traversal", more("../escaped"), "not listed in its manifest"),
        ("folder", more("runs/folder/"), "folder or a link"),
        ("link", link, "folder or a link"),
        ("unlisted twin", twice, "not listed in its manifest"),
        ("listed twice", also_listed(None), "listed twice"),
        ("missing", also_listed(Some("runs/absent")), "missing"),
        ("file as folder", also_listed(Some("session.toml/x")), "inside another entry that is a file"),
        ("longer", pack(&with(&|value| value["files"][0]["bytes"] = 1.into())), "the manifest's 1"),
        ("newer", pack(&with(&|value| value["version"] = 9.into())), "version 9 is newer"),
        ("no manifest", pack(&kept[..manifest]), "no manifest.json"),
        (
            "no session",
            pack(&[("manifest.json".to_owned(), br#"{"version":1,"program":"","created":"","files":[]}"#.to_vec())]),
            "no session.toml",
        ),
        ("no zip", b"this is no archive".to_vec(), "not a whole ZIP archive"),
    ]
}

#[test]
fn archives_made_to_harm_are_refused_by_name_and_leave_nothing() {
    let folder = TempDir::new().unwrap();
    let kept = entries(&seeds_archive(folder.path()));
    for (what, bytes, expected) in harmful(&kept) {
        let inside = folder.path().join("inside");
        fs::create_dir_all(&inside).unwrap();
        let archive = folder.path().join("harm.zip");
        fs::write(&archive, &bytes).unwrap();
        let error = import(&archive, &inside.join("to")).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("harm.zip"), "{what}: {error}");
        assert_eq!(names(&inside), [""; 0], "{what}");
        assert_eq!(names(folder.path()), ["harm.zip", "inside", "seeds.zip"], "{what}");
    }
}

#[test]
fn a_bomb_does_not_unfold_beyond_what_it_says() {
    let folder = TempDir::new().unwrap();
    let mut kept = entries(&seeds_archive(folder.path()));
    let at = kept.iter().position(|(name, _)| name.ends_with("samples.jsonl")).unwrap();
    let entries = kept[at].1.len() as u32;
    // It says what the manifest says, and unfolds to 64 MiB.
    kept[at].1 = vec![b' '; 64 << 20];
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in &kept {
        zip.start_file(name, SimpleFileOptions::default().compression_method(CompressionMethod::Deflated)).unwrap();
        zip.write_all(bytes).unwrap();
    }
    let mut bytes = zip.finish().unwrap().into_inner();
    let (from, to) = ((64_u32 << 20).to_le_bytes(), entries.to_le_bytes());
    let places: Vec<usize> = (0..bytes.len() - 4).filter(|at| bytes[*at..*at + 4] == from).collect();
    assert!(places.len() >= 2, "the local and the central header say the length");
    places.iter().for_each(|at| bytes[*at..*at + 4].copy_from_slice(&to));
    let error = verify_archive(Cursor::new(bytes), Path::new("bomb.zip")).unwrap_err().to_string();
    assert!(error.contains("bomb.zip"), "{error}");
}

#[test]
fn a_link_in_a_session_is_named_and_not_followed() {
    let (folder, from) = (TempDir::new().unwrap(), session());
    std::os::unix::fs::symlink("/etc/passwd", from.path().join("runs/link")).unwrap();
    let error = export(from.path(), &folder.path().join("a.zip")).unwrap_err().to_string();
    assert!(error.contains("runs/link"), "{error}");
    assert_eq!(names(folder.path()), [""; 0]);
    assert!(files(from.path()).len() > 8);
}

#[test]
fn an_archive_that_unpacks_to_far_more_than_its_size_is_refused_before_it_is_unpacked() {
    let folder = TempDir::new().unwrap();
    let mut kept = entries(&seeds_archive(folder.path()));
    let zeros = vec![0; 96 << 20];
    let sum: String = sha2::Digest::finalize(sha2::Digest::chain_update(<sha2::Sha256 as sha2::Digest>::new(), &zeros))
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let manifest = kept.iter_mut().find(|(name, _)| name == "manifest.json").unwrap();
    let mut value: serde_json::Value = serde_json::from_slice(&manifest.1).unwrap();
    let entry = serde_json::json!({ "path": "runs/zeros", "bytes": zeros.len(), "sha256": sum });
    value["files"].as_array_mut().unwrap().push(entry);
    manifest.1 = serde_json::to_vec(&value).unwrap();
    kept.push(("runs/zeros".to_owned(), zeros));
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in &kept {
        zip.start_file(name, SimpleFileOptions::default().compression_method(CompressionMethod::Deflated)).unwrap();
        zip.write_all(bytes).unwrap();
    }
    let bytes = zip.finish().unwrap().into_inner();
    let error = verify_archive(Cursor::new(bytes), Path::new("bomb.zip")).unwrap_err().to_string();
    assert!(error.contains("more than 200 times as many"), "{error}");
}

#[test]
fn an_import_of_many_empty_files_can_be_stopped_between_any_two() {
    let folder = TempDir::new().unwrap();
    let from = session();
    (0..50).for_each(|number| fs::write(from.path().join(format!("runs/empty-{number}")), "").unwrap());
    let archive = folder.path().join("many.zip");
    export(from.path(), &archive).unwrap();
    let total = verify_archive(File::open(&archive).unwrap(), &archive).unwrap();
    let mut asked = 0;
    import_session(&archive, &folder.path().join("all"), &mut |_, _| {
        asked += 1;
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(asked >= total, "asked {asked} times for {total} files");
}
