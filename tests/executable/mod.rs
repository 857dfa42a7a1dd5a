//! Programs that tests write and then start.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a file that can be executed, such as a script.
///
/// A child process writes it: a file that this process holds open for writing could be inherited by a process that another
/// thread is starting, and could then not be executed ("text file busy").
pub fn write(path: &Path, text: impl AsRef<[u8]>) {
    let mut writer = Command::new("sh")
        .args(["-c", "cat > \"$1\" && chmod +x \"$1\"", "sh"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell starts");
    writer.stdin.take().expect("a pipe").write_all(text.as_ref()).expect("the shell reads");
    assert!(writer.wait().expect("the shell ends").success());
}
