//! A server process of the test's own, the command line against it, and a client.

use nvmf::wire::nqn::{HostId, Nqn};
use nvmf_initiator::{Config, Controller};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

const BINARY: &str = env!("CARGO_BIN_EXE_wirepool");
pub(crate) const NQN: &str = "nqn.2026-01.org.example:a";
pub(crate) const HOST: &str =
    "nqn.2014-08.org.nvmexpress:uuid:5c1e6f1c-0000-4000-8000-000000000001";

/// The start of every configuration: nothing outside of its directory, ports of the kernel's choice.
pub(crate) const BASE: &str = r#"
[server]
control = "c.sock"
shards = 2
buffer_mib = 4
[nvmf]
listen = ["127.0.0.1:0"]
"#;

/// A RAM disk that every host may use.
pub(crate) const RAM: &str = r#"
[[disk]]
name = "ram"
kind = "mem"
size = "16M"
[[subsystem]]
nqn = "nqn.2026-01.org.example:a"
hosts = ["any"]
[[subsystem.namespace]]
nsid = 1
disk = "ram"
"#;

/// A directory with a configuration in it.
pub(crate) struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new(config: &str) -> Place {
        let place = Place {
            dir: tempfile::tempdir().expect("a directory"),
        };
        fs::write(place.config(), config).expect("write the configuration");
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.path("w.toml")
    }

    pub(crate) fn text(&self) -> String {
        fs::read_to_string(self.config()).expect("read the configuration")
    }

    /// `wirepool serve` that is expected to end by itself.
    pub(crate) fn serve_fails(&self) -> String {
        let output = serve(&self.config(), "").output().expect("run");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).expect("text")
    }

    /// The offline reader finds nothing wrong with a pool of these disks, which a server may be about to let go.
    pub(crate) fn inspect_sound(&self, disks: &[&str]) {
        loop {
            let output = run(self.dir.path(), &[&["inspect", "verify"], disks].concat());
            let error = String::from_utf8_lossy(&output.stderr);
            if error.contains("is in use") {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            }
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{text}{error}");
            return;
        }
    }

    /// Waits until a server's log has `text`; returns the log.
    pub(crate) fn wait_for_log(&self, text: &str) -> String {
        loop {
            let log = fs::read_to_string(self.path("log")).unwrap_or_default();
            if log.contains(text) {
                return log;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn start(&self) -> Server {
        self.start_after("")
    }

    /// Starts the server after a line of shell, such as a `ulimit`.
    pub(crate) fn start_after(&self, shell: &str) -> Server {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.path("log"))
            .expect("a log");
        let mut child = serve(&self.config(), shell)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("start the server");
        let stdout = child.stdout.take().expect("piped");
        let mut server = Server {
            child,
            io: Vec::new(),
            iscsi: Vec::new(),
            nfs: Vec::new(),
            metrics: None,
            console: None,
            dir: self.dir.path().to_path_buf(),
        };
        for line in BufReader::new(stdout).lines() {
            let line = line.expect("text");
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["ready"] => return server,
                ["ready", "io", address] => server.io.push(address.parse().expect("an address")),
                ["ready", "iscsi", address] => {
                    server.iscsi.push(address.parse().expect("an address"));
                }
                ["ready", "nfs", address] => {
                    server.nfs.push(address.parse().expect("an address"));
                }
                ["ready", "metrics", address] => server.metrics = address.parse().ok(),
                ["ready", "console", address] => server.console = address.parse().ok(),
                ["ready", "control" | "discovery", _] => {}
                _ => panic!("what is {line:?}?"),
            }
        }
        panic!("the server ended: {}", server.log());
    }
}

fn serve(config: &Path, shell: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            &format!("{shell}\nexec \"$0\" \"$@\""),
            BINARY,
            "serve",
            "--print-ready",
            "--config",
        ])
        .arg(config)
        .env_remove("WIREPOOL_CONTROL")
        .env_remove("RUST_LOG")
        .stdin(Stdio::null());
    command
}

/// A running server; killed with this value.
pub(crate) struct Server {
    child: Child,
    pub(crate) io: Vec<SocketAddr>,
    pub(crate) iscsi: Vec<SocketAddr>,
    pub(crate) nfs: Vec<SocketAddr>,
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) console: Option<SocketAddr>,
    dir: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// A command against this server.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        run(&self.dir, args)
    }

    /// A command that succeeds; what it prints.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// A command that is refused; what it says.
    pub(crate) fn refused(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        assert!(output.stdout.is_empty(), "{args:?}: {output:?}");
        String::from_utf8(output.stderr).expect("text")
    }

    /// A command's answer.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let text = self.ok(&[args, &["--json"]].concat());
        serde_json::from_str(&text).expect("JSON")
    }

    /// Asks again until the answer is what is waited for; the test's own time limit ends it otherwise.
    pub(crate) fn wait_for(&self, args: &[&str], right: impl Fn(&Value) -> bool) -> Value {
        loop {
            let answer = self.json(args);
            if right(&answer) {
                return answer;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// SIGTERM; how it ended.
    pub(crate) fn terminate(self) -> ExitStatus {
        self.signal("TERM");
        self.wait()
    }

    /// Waits for the end of a server that was asked to end.
    pub(crate) fn wait(mut self) -> ExitStatus {
        self.child.wait().expect("wait")
    }

    /// Runs a program in the network namespace of the server.
    pub(crate) fn in_its_network(&self, program: &[&str]) {
        let target = self.child.id().to_string();
        let enter = ["--net", "--target", &target];
        let status = Command::new("nsenter").args(enter).args(program).status();
        assert!(status.is_ok_and(|s| s.success()), "{program:?}");
    }

    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(
            Command::new("sh")
                .args(["-c", &kill])
                .status()
                .expect("kill")
                .success()
        );
    }

    /// Resident memory, bytes.
    pub(crate) fn resident(&self) -> u64 {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("alive");
        let line = status
            .lines()
            .find_map(|l| l.strip_prefix("VmRSS:"))
            .expect("told");
        line.trim()
            .trim_end_matches(" kB")
            .parse::<u64>()
            .expect("a number")
            << 10
    }

    /// How to connect as `HOST`.
    pub(crate) fn client(&self) -> Config {
        let name = |text: &str| text.parse::<Nqn>().expect("valid");
        Config::new(self.io[0], name(NQN), name(HOST), HostId([7; 16]))
    }
}

pub(crate) fn run(dir: &Path, args: &[&str]) -> Output {
    Command::new(BINARY)
        .args(args)
        .current_dir(dir)
        .env("WIREPOOL_CONTROL", dir.join("c.sock"))
        .stdin(Stdio::null())
        .output()
        .expect("run")
}

/// Runs a client on a runtime of its own.
pub(crate) fn client<T: 'static>(work: impl Future<Output = T> + 'static) -> T {
    let runtime = io::Runtime::new(io::RuntimeConfig::default()).expect("a runtime");
    runtime.block_on(work)
}

pub(crate) async fn connect(config: Config) -> Controller {
    Controller::connect(config).await.expect("connect")
}
