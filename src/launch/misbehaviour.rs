//! Small programs that act as a worker and misbehave as the real one cannot be made to: they die, hang, babble.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A shell script named `multicard-worker` in `folder`.
///
/// A child writes it: a file that this process holds open for writing could be inherited by a process that another test is just
/// starting, and could then not be executed ("text file busy").
pub(super) fn script(folder: &Path, body: &str) -> PathBuf {
    let path = folder.join("multicard-worker");
    let mut writer = Command::new("sh")
        .args(["-c", "cat > \"$1\" && chmod +x \"$1\"", "sh"])
        .arg(&path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell starts");
    let mut stdin = writer.stdin.take().expect("a pipe");
    write!(stdin, "#!/bin/sh\n{body}\n").expect("the shell reads");
    drop(stdin);
    assert!(writer.wait().expect("the shell ends").success());
    path
}

/// A script that describes itself as a worker of this protocol version.
pub(super) fn describing(protocol_version: u32) -> String {
    format!(
        r#"echo '{{"path":"","version":"0.1.0","protocol_version":{protocol_version},"torch_version":"2.11.0","cuda":{{"state":"available"}}}}'"#
    )
}
