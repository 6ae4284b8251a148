//! The served file system: the process of example `memory_serve`.
//!
//! **Owns** the process. **Called by** a run, and the checks with a stock Linux kernel. **Invariants**: it listens on loopback, on a port that the system gave; it is
//! ended here, by its id, also when a run fails.

use crate::{program, repo};
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running `memory_serve`.
pub(crate) struct Server {
    child: Child,
    addr: String,
}

/// Builds the programs that serve.
///
/// # Errors
/// The build failed.
pub fn build() -> Result<()> {
    program::build(&["--bins", "--example", "memory_serve"])
}

impl Server {
    /// Starts it with a lease of `lease_s` seconds, and with TLS if there is a directory for certificates.
    pub(crate) fn start(lease_s: &str, certificates: Option<&Path>) -> Result<Self> {
        let program = repo::target().join("debug/examples/memory_serve");
        let make = "build it with: cargo build -p wirepool-nfs --examples";
        ensure!(program.exists(), "{}: {make}", program.display());
        let mut child = Command::new(program)
            .args(["127.0.0.1:0", lease_s])
            .args(certificates)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let says = child.stdout.take().context("its output");
        let mut server = Self {
            child,
            addr: String::new(),
        };
        let mut line = String::new();
        BufReader::new(says?).read_line(&mut line)?;
        let addr = line.strip_prefix("serving ");
        server.addr = addr
            .with_context(|| format!("the server said: {line}"))?
            .trim()
            .to_owned();
        Ok(server)
    }

    /// Address and port.
    pub(crate) fn addr(&self) -> &str {
        &self.addr
    }

    /// Fails if it has ended by itself.
    pub(crate) fn must_run(&mut self) -> Result<()> {
        program::must_run(&mut self.child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
