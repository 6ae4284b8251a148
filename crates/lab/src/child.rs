//! Child processes and temporary files that end with this process, also when the user interrupts it ([`on_interrupt`]).
//!
//! **Owns** the list of both. **Called by** the demo and the suite. **Invariants**: a child is asked to end (SIGTERM), and killed only if
//! it does not; a tethered child, which may ignore SIGTERM, is killed, and the kernel kills it if this process ends.

use crate::limits::{CHILD_START_MAX, CHILD_STOP_MAX};
use crate::{Error, Result};
use io::sync::lock;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Interval at which a starting or ending child is polled.
const POLL: Duration = Duration::from_millis(20);
/// Ends a child with its parent.
const TETHER: &str = "setpriv";
/// Where Debian installs programs for administrators, who have these directories in their PATH.
const SBIN: [&str; 2] = ["/usr/sbin", "/sbin"];
/// Lines of a log that an error quotes.
const QUOTED_LINES: usize = 10;

/// Children and files to remove after an interruption.
#[derive(Default)]
struct Mess {
    children: Vec<u32>,
    paths: Vec<PathBuf>,
}

/// Exit code of this process after an interruption.
static INTERRUPTED: AtomicI32 = AtomicI32::new(130);

/// Makes an interruption the expected end, from now on.
pub fn interrupt_is_the_end() {
    INTERRUPTED.store(0, Ordering::SeqCst);
}

static MESS: Mutex<Mess> = Mutex::new(Mess {
    children: Vec::new(),
    paths: Vec::new(),
});

fn with_mess<T>(f: impl FnOnce(&mut Mess) -> T) -> T {
    f(&mut lock(&MESS))
}

/// Makes SIGINT and SIGTERM end our children, remove our files and end this process. Errors: `Io` if signals cannot
/// be handled.
pub fn on_interrupt() -> Result<()> {
    crate::signals::on_each(|| {
        clean_up();
        std::process::exit(INTERRUPTED.load(Ordering::SeqCst));
    })
}

fn clean_up() {
    let mess = with_mess(std::mem::take);
    for pid in &mess.children {
        io::linux::terminate(*pid);
    }
    let deadline = Instant::now() + CHILD_STOP_MAX;
    let alive = |pid: &u32| crate::stats::process::is_running(*pid);
    while mess.children.iter().any(alive) && Instant::now() < deadline {
        std::thread::sleep(POLL);
    }
    mess.paths.iter().for_each(|p| remove(p));
}

fn remove(path: &Path) {
    // A missing path is removed already.
    let _ = if path.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
}

/// Default directory of large files: next to the build output, in a checkout.
#[must_use]
pub fn scratch_parent() -> PathBuf {
    if Path::new("target").is_dir() {
        "target/demo".into()
    } else {
        std::env::temp_dir()
    }
}

/// A file or directory that is removed with this value, or after an interruption.
pub struct Scratch(
    /// Its path.
    pub PathBuf,
);

impl Scratch {
    /// Creates a private directory under `parent`. Errors: `File`.
    pub fn directory(parent: &Path) -> Result<Scratch> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("wirepool-{}-{serial}", std::process::id()));
        fs::create_dir_all(&path).map_err(Error::file(&path))?;
        // A server resolves relative paths against the directory of its configuration.
        let path = path.canonicalize().map_err(Error::file(&path))?;
        with_mess(|m| m.paths.push(path.clone()));
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.0);
        with_mess(|m| m.paths.retain(|p| p != &self.0));
    }
}

/// The path of an installed program.
#[must_use]
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(SBIN.map(PathBuf::from));
    places.map(|dir| dir.join(name)).find(|p| p.exists())
}

/// Those of these programs that are not installed.
pub fn missing(names: &[&'static str]) -> Vec<&'static str> {
    let is_missing = |name: &&&str| find(name).is_none();
    names.iter().filter(is_missing).copied().collect()
}

/// Runs a program to its end. Returns its standard output. Errors: `Program` with its standard error.
pub fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command.output().map_err(|e| Error::program(&name, e))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    let args: Vec<_> = command.get_args().map(|a| a.to_string_lossy()).collect();
    let said = String::from_utf8_lossy(&out.stderr);
    let why = format!("{}: {}", args.join(" "), said.trim());
    Err(Error::program(&name, why))
}

/// A command that runs on these processors; on all if none are given.
#[must_use]
pub fn pinned(program: &Path, cpus: &str) -> Command {
    if cpus.is_empty() {
        return Command::new(program);
    }
    let mut command = Command::new("taskset");
    command.args(["-c", cpus]).arg(program);
    command
}

/// A child process, which ends with this value.
pub struct Child {
    process: std::process::Child,
    name: String,
    log: PathBuf,
    is_tethered: bool,
}

impl Child {
    /// Starts a child with its output in `log`, and without the terminal's signals. Errors: `File`, `Program`.
    pub fn start(program: &Path, args: &[String], cpus: &str, log: &Path) -> Result<Child> {
        let out = File::create(log).map_err(Error::file(log))?;
        let err = out.try_clone().map_err(Error::file(log))?;
        let name = program.display().to_string();
        let process = pinned(program, cpus)
            .args(args)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .process_group(0)
            .spawn()
            .map_err(|e| Error::program(&name, e))?;
        with_mess(|m| m.children.push(process.id()));
        Ok(Child {
            process,
            name,
            log: log.into(),
            is_tethered: false,
        })
    }

    /// Starts an installed program as a tethered child. Errors: `File`, `Program`.
    pub fn tethered(program: &str, args: &[String], cpus: &str, log: &Path) -> Result<Child> {
        let path = find(program).ok_or_else(|| Error::program(program, "not installed"))?;
        let tether = [
            "--pdeathsig".into(),
            "KILL".into(),
            path.display().to_string(),
        ];
        let args = [&tether, args].concat();
        let mut child = Child::start(Path::new(TETHER), &args, cpus, log)?;
        with_mess(|m| m.children.retain(|c| *c != child.pid()));
        child.name = program.into();
        child.is_tethered = true;
        Ok(child)
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Waits until `is_up` succeeds. Errors: `Program` with the last error and the end of the log, if the child ends or takes too long.
    pub async fn until(&mut self, mut is_up: impl AsyncFnMut() -> Result<()>) -> Result<()> {
        let deadline = Instant::now() + CHILD_START_MAX;
        while let Err(why) = is_up().await {
            let ended = self.process.try_wait().ok().flatten();
            if ended.is_none() && Instant::now() < deadline {
                io::time::sleep(POLL).await;
                continue;
            }
            let why = ended.map_or(why.to_string(), |status| format!("ended: {status}"));
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(QUOTED_LINES)..].join("\n");
            return Err(Error::program(&self.name, format!("{why}\n{tail}")));
        }
        Ok(())
    }

    /// Waits until the child ends.
    pub fn wait(&mut self) {
        let _ = self.process.wait();
    }

    /// Ends the child and waits. Errors: `Program` if it failed.
    pub fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        let pid = self.pid();
        let deadline = if self.is_tethered {
            Instant::now()
        } else {
            io::linux::terminate(pid);
            Instant::now() + CHILD_STOP_MAX
        };
        let failed = |why: String| Err(Error::program(&self.name, why));
        let ended = loop {
            match self.process.try_wait() {
                Ok(Some(status)) if status.success() => break Ok(()),
                Ok(Some(status)) => break failed(status.to_string()),
                Ok(None) if Instant::now() < deadline => std::thread::sleep(POLL),
                Ok(None) => {
                    let _ = self.process.kill();
                    let _ = self.process.wait();
                    break match self.is_tethered {
                        true => Ok(()),
                        false => failed("did not exit on SIGTERM, and was killed".into()),
                    };
                }
                Err(e) => break failed(e.to_string()),
            }
        };
        with_mess(|m| m.children.retain(|c| *c != pid));
        ended
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            let _ = self.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_goes_with_its_value() {
        let dir = tempfile::tempdir().expect("a directory");
        let s = Scratch::directory(dir.path()).expect("made");
        fs::write(s.0.join("file"), "x").expect("written");
        let path = s.0.clone();
        drop(s);
        assert!(!path.exists());
    }

    #[test]
    fn a_child_ends_when_asked_and_its_output_is_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let log = dir.path().join("log");
        let script = "trap 'exit 0' TERM; echo here; while :; do sleep 0.01; done".to_owned();
        let args = ["-c".into(), script];
        let child = Child::start(Path::new("/bin/sh"), &args, "", &log).expect("spawned");
        while !fs::read_to_string(&log).expect("the log").contains("here") {
            std::thread::sleep(POLL);
        }
        child.stop().expect("it ends well");
    }
}
