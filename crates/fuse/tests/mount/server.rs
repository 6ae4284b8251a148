//! A mount for a test, and a server in a process of its own.

use backend::file::memory::{MemoryFiles, MemoryOptions};
use fuse::{Mount, MountOptions, Operation, Unmount};
use io::RuntimeConfig;
use io::runtime::{Shard, ShardConfig};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, mpsc};
use tempfile::TempDir;

/// Whether this machine can mount; prints a line if not.
pub(crate) fn can_mount() -> bool {
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let Err(e) = device else { return true };
    assert!(
        std::env::var_os("WIREPOOL_FUSE").is_none(),
        "WIREPOOL_FUSE is set, and /dev/fuse: {e}"
    );
    eprintln!("SKIPPED: /dev/fuse: {e}: this test of the FUSE mount has not run");
    false
}

/// A file system in memory, its shards, and a directory for its mount. Fields are dropped in this order.
pub(crate) struct Served {
    pub(crate) mount: Arc<Mount>,
    pub(crate) files: MemoryFiles,
    shards: Vec<Shard>,
    dir: TempDir,
}

pub(crate) fn shards(count: usize) -> Vec<Shard> {
    let start = |index| {
        Shard::start(ShardConfig {
            name: format!("shard-{index}"),
            cpu: None,
            runtime: RuntimeConfig::default(),
        })
        .unwrap()
    };
    (0..count).map(start).collect()
}

pub(crate) fn memory_files(on: &Shard) -> MemoryFiles {
    files_with(on, MemoryOptions::default())
}

fn files_with(on: &Shard, options: MemoryOptions) -> MemoryFiles {
    let (tx, rx) = mpsc::channel();
    on.spawn(move || async move {
        tx.send(MemoryFiles::new(options)).unwrap();
    })
    .unwrap();
    rx.recv().unwrap()
}

impl Served {
    /// A mount with these options. `None` if this machine cannot mount.
    pub(crate) fn with(options: &MountOptions) -> Option<Self> {
        Self::with_files(options, MemoryOptions::default())
    }

    /// A mount with these options of a file system with its own. `None` if this machine cannot mount.
    pub(crate) fn with_files(options: &MountOptions, of_files: MemoryOptions) -> Option<Self> {
        can_mount().then(|| {
            let shards = shards(2);
            let files = files_with(&shards[0], of_files);
            let dir = tempfile::tempdir().unwrap();
            let mount = Mount::start(Arc::new(files.clone()), dir.path(), options, &shards);
            Self {
                mount: Arc::new(mount.unwrap()),
                files,
                shards,
                dir,
            }
        })
    }

    /// A mount with the default options.
    pub(crate) fn start() -> Option<Self> {
        Self::with(&MountOptions::default())
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// Mounts the same file system again, at the same place.
    pub(crate) fn mount_again(&mut self) {
        let files = Arc::new(self.files.clone());
        let options = MountOptions::default();
        let mount = Mount::start(files, self.dir.path(), &options, &self.shards);
        self.mount = Arc::new(mount.unwrap());
    }

    /// Operations of a kind that ended.
    pub(crate) fn count(&self, of: Operation) -> u64 {
        let ended = self.mount.totals().operations.ended;
        ended.iter().find(|(kind, _)| *kind == of).unwrap().1
    }

    /// Unmounts, which must work.
    pub(crate) fn end(self) {
        self.mount.unmount(Unmount::IfIdle).unwrap();
        assert!(std::fs::read_dir(self.path()).unwrap().next().is_none());
        self.shards.iter().for_each(Shard::stop);
    }
}

/// The example `memory_mount` in a process of its own. Killed when dropped.
pub(crate) struct Process {
    pub(crate) child: Child,
    /// Its first line.
    pub(crate) said: String,
    /// Kept open: it writes more when it ends.
    _output: BufReader<ChildStdout>,
}

impl Process {
    /// Starts it; `user` other than 0 needs setpriv(1).
    pub(crate) fn start(at: &Path, user: u32, options: &[&str]) -> Self {
        let program = example();
        let mut command = match user {
            0 => Command::new(program),
            user => {
                let mut command = Command::new("setpriv");
                command
                    .arg(format!("--reuid={user}"))
                    .arg(format!("--regid={user}"))
                    .arg("--clear-groups")
                    .arg(program);
                command
            }
        };
        let mut child = command
            .arg(at)
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut said).unwrap();
        if said.is_empty() {
            let mut stderr = BufReader::new(child.stderr.take().unwrap());
            stderr.read_line(&mut said).unwrap();
        }
        Self {
            child,
            said,
            _output: lines,
        }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program of the example, which `cargo test` and `cargo nextest run` build beside the tests.
pub(crate) fn example() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let build = own.parent().unwrap().parent().unwrap();
    let program = build.join("examples/memory_mount");
    assert!(
        program.exists(),
        "{}: build it with: cargo build -p wirepool-fuse --examples",
        program.display()
    );
    program
}

/// Runs a program, which must succeed. Returns its output.
pub(crate) fn run(program: &str, words: &[&str], at: &Path) -> String {
    let done = Command::new(program)
        .args(words)
        .current_dir(at)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|e| panic!("{program}: {e}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        done.status.success(),
        "{program} {words:?}: {}{}",
        text(&done.stdout),
        text(&done.stderr)
    );
    text(&done.stdout)
}

/// Whether a program is installed; prints a line if not.
pub(crate) fn has(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output()
        .is_ok_and(|o| o.status.success());
    if !found {
        eprintln!("SKIPPED: {program} is not installed: a part of this test has not run");
    }
    found
}
