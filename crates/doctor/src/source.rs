//! The machine as a source of texts: files, directories, links and programs.
//!
//! **Owns** the reading. **Called by** [`crate::capture`]. **Invariants**: nothing is written; a file is read up to
//! [`FILE_BYTES_MAX`], a directory up to [`ENTRIES_MAX`]; a program has a time limit; no path leaves the root.

use crate::facts::Known;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest part of a file that is read. `/proc/interrupts` of a large machine has about 1 MiB.
pub const FILE_BYTES_MAX: u64 = 4 << 20;
/// Most entries of a directory that are read.
pub const ENTRIES_MAX: usize = 4096;
/// Longest run of a program.
const PROGRAM_WAIT_MAX: Duration = Duration::from_secs(2);
/// Time between two looks at a running program.
const PROGRAM_POLL: Duration = Duration::from_millis(2);

/// Why something could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unread {
    /// There is no such file or program.
    Missing(String),
    /// Any other reason, such as missing rights.
    Failed(String),
}

impl Unread {
    /// The reason.
    #[must_use]
    pub fn reason(&self) -> &str {
        match self {
            Unread::Missing(reason) | Unread::Failed(reason) => reason,
        }
    }

    fn of(path: &str, e: &std::io::Error) -> Unread {
        match e.kind() {
            ErrorKind::NotFound => Unread::Missing(format!("{path} does not exist")),
            ErrorKind::PermissionDenied => Unread::Failed(format!("no permission to read {path}")),
            _ => Unread::Failed(format!("{path} cannot be read: {e}")),
        }
    }
}

/// A result, or the reason why there is none.
pub type Read1<T> = Result<T, Unread>;

/// Owner and permissions of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The lowest nine bits of its mode.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// A machine, or a tree of files that stands for one in a test.
pub trait Source: Sync {
    /// The text of a file, without white space at its end.
    fn read(&self, path: &str) -> Read1<String>;
    /// The names in a directory, sorted.
    fn list(&self, path: &str) -> Read1<Vec<String>>;
    /// The path without links.
    fn resolve(&self, path: &str) -> Read1<String>;
    /// Owner and permissions of a file.
    fn stat(&self, path: &str) -> Read1<Stat>;
    /// The output of a program that succeeds, or that fails with an output on stdout.
    fn run(&self, program: &str, args: &[&str]) -> Read1<String>;
}

/// Forms of reading that captures share.
pub(crate) trait SourceExt: Source {
    /// A text.
    fn text(&self, path: &str) -> Known<String> {
        known(self.read(path))
    }

    /// A number, or another value with a text form.
    fn parse<T: std::str::FromStr>(&self, path: &str) -> Known<T> {
        match self.read(path) {
            Ok(text) => match text.parse() {
                Ok(value) => Known::Value(value),
                Err(_) => Known::unknown(format!("{path} has no valid value")),
            },
            Err(e) => Known::unknown(e.reason()),
        }
    }

    /// A value, or another one if the kernel does not have the file.
    fn parse_or<T: std::str::FromStr>(&self, path: &str, default: T) -> Known<T> {
        match self.read(path) {
            Err(Unread::Missing(_)) => Known::Value(default),
            _ => self.parse(path),
        }
    }

    /// Whether a file or directory exists.
    fn exists(&self, path: &str) -> bool {
        self.resolve(path).is_ok()
    }

    /// The names in a directory; none if it does not exist.
    fn list_or_empty(&self, path: &str) -> Known<Vec<String>> {
        match self.list(path) {
            Err(Unread::Missing(_)) => Known::Value(Vec::new()),
            other => known(other),
        }
    }

    /// The last part of the path that a link leads to.
    fn link_name(&self, path: &str) -> Option<String> {
        let target = self.resolve(path).ok()?;
        Some(target.rsplit('/').next().unwrap_or_default().to_owned())
    }
}

impl<S: Source + ?Sized> SourceExt for S {}

/// A result as a fact.
pub(crate) fn known<T>(read: Read1<T>) -> Known<T> {
    match read {
        Ok(value) => Known::Value(value),
        Err(e) => Known::unknown(e.reason()),
    }
}

/// A tree of files: this machine, or a directory that stands for one.
pub struct Host {
    root: PathBuf,
}

impl Host {
    /// This machine.
    #[must_use]
    pub fn this() -> Host {
        Host { root: "/".into() }
    }

    /// A directory that stands for a machine. It has no programs.
    #[must_use]
    pub fn below(root: &Path) -> Host {
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        Host { root }
    }

    fn path(&self, path: &str) -> PathBuf {
        let parts = Path::new(path).components();
        let parts = parts.filter(|c| matches!(c, Component::Normal(_)));
        self.root.join(parts.collect::<PathBuf>())
    }
}

impl Source for Host {
    fn read(&self, path: &str) -> Read1<String> {
        let mut bytes = Vec::new();
        File::open(self.path(path))
            .and_then(|f| f.take(FILE_BYTES_MAX).read_to_end(&mut bytes))
            .map_err(|e| Unread::of(path, &e))?;
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        text.truncate(text.trim_end().len());
        Ok(text)
    }

    fn list(&self, path: &str) -> Read1<Vec<String>> {
        let entries = std::fs::read_dir(self.path(path)).map_err(|e| Unread::of(path, &e))?;
        let name = |e: std::io::Result<std::fs::DirEntry>| Some(e.ok()?.file_name());
        let entries = entries.filter_map(name).take(ENTRIES_MAX);
        let mut names: Vec<String> = entries.map(|n| n.to_string_lossy().into_owned()).collect();
        names.sort();
        Ok(names)
    }

    fn resolve(&self, path: &str) -> Read1<String> {
        let full = self.path(path).canonicalize();
        let full = full.map_err(|e| Unread::of(path, &e))?;
        match full.strip_prefix(&self.root) {
            Ok(inner) => Ok(format!("/{}", inner.display())),
            Err(_) => Err(Unread::Failed(format!("{path} leads out of its tree"))),
        }
    }

    fn stat(&self, path: &str) -> Read1<Stat> {
        let found = std::fs::metadata(self.path(path)).map_err(|e| Unread::of(path, &e))?;
        Ok(Stat {
            mode: found.mode() & 0o777,
            uid: found.uid(),
            gid: found.gid(),
        })
    }

    fn run(&self, program: &str, args: &[&str]) -> Read1<String> {
        if self.root != Path::new("/") {
            return Err(Unread::Missing(format!("{program} is not installed")));
        }
        let child = Command::new(program)
            .args(args)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        match child {
            Ok(child) => output(program, child),
            Err(e) if e.kind() == ErrorKind::NotFound => {
                Err(Unread::Missing(format!("{program} is not installed")))
            }
            Err(e) => Err(Unread::Failed(format!("{program} does not start: {e}"))),
        }
    }
}

/// Reads a stream on a thread of its own, so that a program never waits for its reader.
fn read_all(stream: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(stream) = stream {
            // An error ends the output early; the parser of the output judges the rest.
            let _ = stream.take(FILE_BYTES_MAX).read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits for a program and its output.
fn output(program: &str, mut child: Child) -> Read1<String> {
    let stdout = read_all(child.stdout.take());
    let stderr = read_all(child.stderr.take());
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if start.elapsed() < PROGRAM_WAIT_MAX => std::thread::sleep(PROGRAM_POLL),
            _ => {
                // The process may have ended meanwhile.
                let _ = child.kill();
                let _ = child.wait();
                return Err(Unread::Failed(format!("{program} did not end in time")));
            }
        }
    };
    let text = stdout.join().unwrap_or_default();
    if status.success() || !text.trim().is_empty() {
        return Ok(text);
    }
    let error = stderr.join().unwrap_or_default();
    let error = error.trim().lines().last().unwrap_or("no message");
    Err(Unread::Failed(format!("{program} failed: {error}")))
}
