//! Addresses of sessions on other machines: `ssh://[USER@]HOST[:PORT]/PATH[?multicard=PROGRAM]`.

use std::fmt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::foreign;
use crate::store;

const SCHEME: &str = "ssh://";
/// The folder of copies in the user's cache.
const COPIES: &str = "multicard/nodes";
/// The program on the node if the address names none: ssh searches for it on the `PATH` there.
const PROGRAM: &str = "multicard";

/// The address of a session on another machine. Paths that start with `/~/` are relative to the home folder there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    user: Option<String>,
    host: String,
    port: Option<u16>,
    path: String,
    program: Option<String>,
}

impl Address {
    /// Parses a session argument; `None` if it is a path on this machine.
    ///
    /// # Errors
    /// The part after `ssh://` is malformed.
    pub fn parse(argument: &Path) -> Result<Option<Self>, String> {
        let Some(rest) = argument.to_str().and_then(|text| text.strip_prefix(SCHEME)) else { return Ok(None) };
        let bad = |why: &str| {
            format!(
                "{SCHEME}{rest}: {why}; write ssh://[user@]host[:port]/path, where /~/path leads from the home folder"
            )
        };
        let (rest, program) = match rest.split_once('?') {
            None => (rest, None),
            Some((rest, query)) => match query.strip_prefix("multicard=") {
                Some(program) if !program.is_empty() => (rest, Some(program.to_owned())),
                _ => return Err(bad("only multicard=PROGRAM is allowed after ?")),
            },
        };
        let (place, path) = rest.split_once('/').ok_or_else(|| bad("the path is missing"))?;
        let (user, place) = match place.rsplit_once('@') {
            Some((user, place)) => (Some(user.to_owned()), place),
            None => (None, place),
        };
        let (host, port) = match place.rsplit_once(':') {
            // The colons of an IPv6 address are in brackets.
            Some((host, port)) if !port.ends_with(']') => {
                (host, Some(port.parse().map_err(|_| bad("the port is not a number from 0 to 65535"))?))
            }
            _ => (place, None),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if !is_plain(host) || !user.as_deref().is_none_or(is_plain) {
            return Err(bad("the host or the user is missing or is not a valid name"));
        }
        let path = path.trim_end_matches('/');
        if path.split('/').any(|part| [".", ".."].contains(&part)) || path == "~" {
            return Err(bad(
                "the path cannot be the folder of a session: it must not contain . or .., or be the home folder",
            ));
        }
        let path = if path.starts_with("~/") { path.to_owned() } else { format!("/{path}") };
        if path == "/" || path.contains(char::is_control) {
            return Err(bad("the path is missing"));
        }
        Ok(Some(Self { user, host: host.to_owned(), port, path, program }))
    }

    /// The address of a session argument: either the argument is an address, or it is a folder on this machine that contains a copy. If a
    /// folder names an origin but is not in the place where the copy of that origin would be, somebody else made the folder, and its origin
    /// is ignored: others must not decide where this user logs in.
    ///
    /// # Errors
    /// Those of [`Address::parse`].
    pub fn of(argument: &Path) -> Result<Option<Self>, String> {
        match store::origin(argument) {
            Some(origin) => {
                let is_same = |copy: &Path| copy.canonicalize().ok() == argument.canonicalize().ok();
                let address = Self::parse(Path::new(&origin))?;
                Ok(address.filter(|address| address.copy_folder().is_ok_and(|copy| is_same(&copy))))
            }
            None => Self::parse(argument),
        }
    }

    /// The machine, as the user writes it: `host`.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The session's name, which is the name of its folder.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The destination for ssh: `user@host`.
    pub(super) fn place(&self) -> String {
        self.user.as_ref().map_or_else(|| self.host.clone(), |user| format!("{user}@{}", self.host))
    }

    pub(super) fn port(&self) -> Option<u16> {
        self.port
    }

    /// The program on the node.
    pub fn program(&self) -> &str {
        self.program.as_deref().unwrap_or(PROGRAM)
    }

    /// The line to type so that a command acts on the session on its machine: `ssh node rm -r runs/study`.
    pub fn session_command(&self, command: &str) -> String {
        self.login(&format!("{command} {}", typed(self.path.strip_prefix("~/").unwrap_or(&self.path))))
    }

    /// The line to type to rename the session on its machine.
    pub fn renaming(&self, name: &str) -> String {
        let path = self.path.strip_prefix("~/").unwrap_or(&self.path);
        let folder = path.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
        format!("{} {}", self.session_command("mv"), typed(&format!("{folder}{name}")))
    }

    /// The line to type to run `multicard` on the other machine: `ssh node multicard data make digits`.
    pub fn multicard_command(&self, arguments: &str) -> String {
        self.login(&format!("{} {arguments}", typed(self.program())))
    }

    fn login(&self, command: &str) -> String {
        let port = self.port.map_or(String::new(), |port| format!("-p {port} "));
        format!("ssh {port}{} {command}", self.place())
    }

    /// The command line for the shell that ssh starts on the node.
    pub(super) fn command(&self) -> String {
        format!("exec {} relay {}", quoted(self.program()), quoted(&self.path))
    }

    /// The folder of the session's copy in the user's cache: `multicard/nodes/<host>-<hash of the address>/<name>`.
    ///
    /// # Errors
    /// There is no home folder.
    pub fn copy_folder(&self) -> Result<PathBuf, String> {
        let hash = Sha256::digest(Self { program: None, ..self.clone() }.to_string().as_bytes());
        let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let plain = |c: char| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '_' };
        let host: String = self.host.chars().map(plain).collect();
        Ok(foreign::cache_folder()?.join(COPIES).join(format!("{host}-{hash}")).join(self.name()))
    }
}

/// Whether a name is safe as a host or a user for ssh. A leading dash would make it an option, and the user's configuration may pass it to
/// a shell: `ProxyCommand … %h`.
fn is_plain(name: &str) -> bool {
    let harms = |c: char| c.is_whitespace() || c.is_control() || "'`\"\\$;&<>|(){}*?!#".contains(c);
    !name.is_empty() && !name.starts_with('-') && !name.contains(harms)
}

/// The machine of the session that a folder is a copy of, judged only by the folder's path; see [`Address::copy_folder`].
pub fn host_of_copy(folder: &Path) -> Option<&str> {
    let node = folder.parent()?;
    let is_copy = node.parent()?.ends_with(COPIES);
    let (host, _) = node.file_name()?.to_str().filter(|_| is_copy)?.rsplit_once('-')?;
    Some(host)
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{SCHEME}")?;
        if let Some(user) = &self.user {
            write!(out, "{user}@")?;
        }
        if self.host.contains(':') { write!(out, "[{}]", self.host) } else { write!(out, "{}", self.host) }?;
        if let Some(port) = self.port {
            write!(out, ":{port}")?;
        }
        write!(out, "{}{}", if self.path.starts_with('/') { "" } else { "/" }, self.path)?;
        self.program.as_ref().map_or(Ok(()), |program| write!(out, "?multicard={program}"))
    }
}

/// A word of a command that is typed on this machine and parsed again by a shell on the node.
fn typed(word: &str) -> String {
    let is_plain = word.chars().all(|c| c.is_alphanumeric() || "/._-+,:@".contains(c));
    if is_plain { word.to_owned() } else { quoted(&quoted(word)) }
}

/// A word in quotes for a POSIX shell.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A word quoted for a POSIX shell, if it contains special characters.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:%+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { quoted(word) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<Address>, String> {
        Address::parse(Path::new(text))
    }

    #[test]
    fn addresses_are_read_and_written_alike_and_paths_are_no_addresses() {
        for text in ["ssh://node/runs/study", "ssh://me@node:2222/a b/it's", "ssh://[::1]:22/x", "ssh://node/~/study"] {
            assert_eq!(parse(text).unwrap().unwrap().to_string(), text);
        }
        assert_eq!(parse("study").unwrap(), None);
        assert_eq!(parse("/home/me/ssh:/x").unwrap(), None);
        let full = parse("ssh://me@node:2222/~/runs/it's/?multicard=/opt/multicard").unwrap().unwrap();
        assert_eq!((full.place().as_str(), full.port(), full.name()), ("me@node", Some(2222), "it's"));
        assert_eq!(full.command(), r"exec '/opt/multicard' relay '~/runs/it'\''s'");
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_form_of_one() {
        for text in [
            "ssh://node",
            "ssh://node/",
            "ssh:///x",
            "ssh://-oProxyCommand=x/y",
            "ssh://a b/x",
            "ssh://n:x/y",
            "ssh://$(touch x)/y",
            "ssh://a;b@node/y",
            "ssh://node/runs/..",
            "ssh://node/~/../x",
            "ssh://node/~/",
            "ssh://n/x?y=1",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("ssh://[user@]host[:port]/path"), "{text}: {error}");
        }
    }

    #[test]
    fn a_folder_of_others_that_names_an_origin_is_no_copy() {
        let folder = tempfile::tempdir().unwrap();
        store::set_origin(folder.path(), "ssh://their-host/~/x").unwrap();
        assert_eq!(Address::of(folder.path()).unwrap(), None);
    }

    #[test]
    fn commands_to_type_name_the_session_as_a_login_finds_it() {
        let address = parse("ssh://me@node:2222/~/runs/study?multicard=/opt/multicard").unwrap().unwrap();
        assert_eq!(address.session_command("rm -r"), "ssh -p 2222 me@node rm -r runs/study");
        assert_eq!(address.renaming("other"), "ssh -p 2222 me@node mv runs/study runs/other");
        assert_eq!(
            address.multicard_command("data make digits"),
            "ssh -p 2222 me@node /opt/multicard data make digits"
        );
        let odd = parse("ssh://node/my runs/it's").unwrap().unwrap().session_command("printf %s");
        let mut shell = std::process::Command::new("sh");
        // Two shells read it, as with ssh.
        let read = shell.args(["-c", &odd.replace("ssh node", r#"f() { sh -c "$*"; }; f"#)]).output().unwrap();
        assert_eq!(String::from_utf8(read.stdout).unwrap(), "/my runs/it's", "{odd}");
    }

    #[test]
    fn another_program_has_the_same_copy_and_another_path_another_one() {
        let copy_folder_of = |text: &str| parse(text).unwrap().unwrap().copy_folder().unwrap();
        assert_eq!(copy_folder_of("ssh://node/a"), copy_folder_of("ssh://node/a?multicard=/x"));
        assert_ne!(copy_folder_of("ssh://node/a"), copy_folder_of("ssh://me@node/a"));
        assert!(copy_folder_of("ssh://node/b/a").ends_with("a"));
        assert_eq!(host_of_copy(&copy_folder_of("ssh://me@gpu-7.lab/b/a")), Some("gpu-7.lab"));
        assert_eq!(host_of_copy(Path::new("/home/me/runs/a")), None);
    }
}
