//! How an nsys is found, followed, stopped and believed. The nsys here is a script: what it exports is a real report
//! cut down, what it says is in nsys' form.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::executable;
use crate::trace::tests::golden_report;
use crate::trace::{Window, import};

/// A folder with a report and an nsys that runs `script`; `$7` is the output, `$8` the report.
fn with_nsys(script: &str) -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let nsys = folder.path().join("nsys");
    executable::write(&nsys, format!("#!/bin/sh\n{script}\n"));
    let report = folder.path().join("run.nsys-rep");
    fs::write(&report, golden_report("single_100")).unwrap();
    (folder, nsys, report)
}

fn go_on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn an_export_is_private_told_in_percent_and_removed_after_use() {
    let (folder, nsys, report) =
        with_nsys("printf '[1/1] [==50%%  ] x'; sleep 0.2; printf '[=100%%]'; cp \"$8\" \"$7\"; ls \"$8\" >&2");
    let mut notices = Vec::new();
    let exported = export_with(&nsys, &report, &mut |progress| {
        notices.push(progress.fraction);
        ControlFlow::Continue(())
    })
    .unwrap();
    let path = exported.file();
    assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(notices.contains(&0.5), "{notices:?}");
    assert!(!import(&path, &Window::default(), &mut go_on).unwrap().api.is_empty());
    drop(exported);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn a_failure_is_told_in_nsys_own_words_and_leaves_nothing() {
    let (folder, nsys, report) = with_nsys("echo 'Failed to open report: unknown format' >&2; exit 3");
    let message = export_with(&nsys, &report, &mut go_on).err().unwrap().to_string();
    assert!(message.contains("run.nsys-rep") && message.contains("exit status: 3"), "{message}");
    assert!(message.contains("Failed to open report: unknown format"), "{message}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn an_nsys_that_exports_nothing_is_a_failure() {
    let (_folder, nsys, report) = with_nsys("exit 0");
    let message = export_with(&nsys, &report, &mut go_on).err().unwrap().to_string();
    assert!(message.contains("it said nothing"), "{message}");
}

#[test]
fn a_stop_ends_nsys_and_what_it_started() {
    let (folder, nsys, report) = with_nsys("echo $$ > \"$8.pid\"; sleep 600 & sleep 600");
    let pid = folder.path().join("run.nsys-rep.pid");
    let stopped = export_with(&nsys, &report, &mut |_| {
        if fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n')) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert!(matches!(stopped, Err(TraceError::Cancelled)));
    let group: i32 = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    let group = Pid::from_raw(group).unwrap();
    // What was killed is gone as soon as init has waited for it.
    while rustix::process::test_kill_process_group(group).is_ok() {
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
}

#[test]
fn a_missing_nsys_is_told_with_what_to_do() {
    let error = TraceError::NoNsys { file: "r.nsys-rep".into(), looked: "it is not on PATH".into() }.to_string();
    assert!(error.contains("set MULTICARD_NSYS") && error.contains("nsys export --type sqlite"), "{error}");
}

#[test]
fn percents_are_read_out_of_bars() {
    assert_eq!(last_percent("[1/1] [====50%    ] x.sqlite"), Some(50.0));
    assert_eq!(last_percent("[0%] … [=7%]"), Some(7.0));
    assert_eq!(last_percent("é100%"), Some(100.0));
    assert_eq!(last_percent("1000%"), None);
    assert_eq!(last_percent("% "), None);
    assert_eq!(last_percent("none"), None);
}

#[test]
fn a_kept_export_is_its_owners_and_holds_what_is_imported_and_nothing_private() {
    let (folder, nsys, report) = with_nsys("cp \"$8\" \"$7\"");
    let whole = import(&report, &Window::default(), &mut go_on).unwrap();
    Connection::open(&report)
        .unwrap()
        .execute_batch(
            "CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT);
             INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ENVIRONMENT', 'TOKEN=SECRET-token');
             INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PARAM_INPUT_FILE', '/home/SECRET-user/run.nsys-rep');
             CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT);
             INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('Hostname', 'SECRET-host');
             CREATE TABLE ProcessStreams (globalPid INTEGER, filenameId INTEGER, contentId INTEGER);
             INSERT INTO ProcessStreams VALUES (1, 900001, 900002);
             INSERT INTO StringIds VALUES (900001, '/tmp/SECRET-file'), (900002, 'SECRET-output'),
                (900003, 'PATH=/bin' || char(0) || 'TOKEN=SECRET-token');",
        )
        .unwrap();
    let exported = export_with(&nsys, &report, &mut go_on).unwrap();
    let kept = folder.path().join("trace.sqlite");
    exported.keep(&kept).unwrap();
    drop(exported);
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    let bytes = fs::read(&kept).unwrap();
    assert!(!bytes.windows(6).any(|window| window == b"SECRET"));
    assert_eq!(import(&kept, &Window::default(), &mut go_on).unwrap(), whole);
}
