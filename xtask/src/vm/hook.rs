//! Requests of a guest to this host: `vmctl host REQUEST` inside, one line each way.
//!
//! **Owns** the Unix socket that `vmlab --hook` is pointed at. **Called by** `vm`. **Invariants**: requests are
//! served one at a time, in order; the answer is `ok`, `ok TEXT` or `failed: TEXT`, one line, in which the text's own
//! line ends are unit separators (`vmctl` turns them back).
//!
//! | request | effect |
//! |---|---|
//! | `cli WORDS…` | `wirepool WORDS…` against the server; answers its output. `@DIR` stands for the run's directory |
//! | `kill`, `start` | SIGKILL the server; start it again with the same configuration and port |
//! | `stop` | SIGTERM it; answers how it ended |
//! | `usage` | answers `fds N rss_kib N threads N` of the server |
//! | `write FILE TEXT` | creates FILE in the run's directory, one line, readable by its owner only: a secret |
//! | `allocated FILE` | answers the KiB that FILE in the run's directory takes |

use super::server::Server;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Separates the lines of an answer, since an answer is one line.
const LINE_END: &str = "\x1f";

/// The listening socket; its thread ends with the process.
pub(super) struct Hook {
    path: PathBuf,
    server: Arc<Mutex<Server>>,
}

impl Hook {
    /// Listen on `path` and answer from then on.
    pub(super) fn listen(path: &Path, server: Arc<Mutex<Server>>) -> Result<Self> {
        let listener =
            UnixListener::bind(path).with_context(|| format!("listen on {}", path.display()))?;
        let shared = Arc::clone(&server);
        thread::Builder::new()
            .name("vm-hook".into())
            .spawn(move || {
                for stream in listener.incoming().flatten() {
                    if let Err(e) = answer(stream, &shared) {
                        eprintln!("vm hook: {e:#}");
                    }
                }
            })?;
        Ok(Self {
            path: path.into(),
            server,
        })
    }

    /// Where it listens.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Hook {
    /// The thread keeps its share of the server, so the process is ended here.
    fn drop(&mut self) {
        let _ = self
            .server
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .kill();
    }
}

fn answer(mut stream: UnixStream, server: &Mutex<Server>) -> Result<()> {
    let mut line = String::new();
    BufReader::new(stream.try_clone()?).read_line(&mut line)?;
    let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
    let reply = match perform(line.trim(), &mut server) {
        Ok(text) => format!("ok {}", text.trim_end()),
        Err(e) => format!("failed: {e:#}"),
    };
    writeln!(stream, "{}", reply.trim_end().replace('\n', LINE_END))?;
    Ok(())
}

fn perform(line: &str, server: &mut Server) -> Result<String> {
    let mut words = line.split_whitespace();
    let verb = words.next().context("an empty request")?;
    match verb {
        "cli" => {
            let dir = server
                .dir()
                .to_str()
                .context("the run's directory is UTF-8")?;
            let args: Vec<String> = words.map(|w| w.replace("@DIR", dir)).collect();
            server.cli(&args)
        }
        "kill" => server.kill().map(|()| String::new()),
        "start" => server.start_again().map(|()| String::new()),
        "stop" => server.stop().map(|status| status.to_string()),
        "usage" => server
            .usage()
            .map(|u| format!("fds {} rss_kib {} threads {}", u.fds, u.rss_kib, u.threads)),
        "write" => {
            let name = words.next().context("write FILE TEXT")?;
            let text: Vec<&str> = words.collect();
            server.write(name, &text.join(" ")).map(|()| String::new())
        }
        "allocated" => server
            .allocated_kib(words.next().context("allocated FILE")?)
            .map(|kib| kib.to_string()),
        _ => bail!("no such request: {line}"),
    }
}
