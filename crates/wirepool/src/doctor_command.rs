//! `wirepool doctor`: judges the settings of this machine.
//!
//! **Owns** its arguments, and the server's state as facts. **Called by** `main`. **Invariants**: nothing is changed; exit code 0
//! without a finding of severity warning or more, else 1.

use crate::ask::{exact, print};
use crate::client::{Client, NoAnswer};
use anyhow::{Context, Result};
use clap::Args;
use doctor::capture::{self, probe};
use doctor::facts::{self, Facts, Known};
use doctor::source::Host;
use server::api::{GetStatus, ListSessions, ShowSession};
use server::doctor_facts;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const EXAMPLES: &str = "\
Examples:
  wirepool doctor                          this machine, with the running server if there is one
  wirepool doctor 10.0.0.7                 also the path MTU to a client
  wirepool doctor --probe /srv             also durable writes in a directory (a file is made and removed)
  wirepool doctor --client                 on a client: NFS mounts, NVMe and iSCSI sessions
  wirepool doctor --fix-script > mend.sh   a script to read first; nothing runs
  wirepool doctor --save facts.json        then, on another machine: wirepool doctor --facts facts.json

Checks that lack a value (no root, no program) are listed as not checked. docs/doctor.md has all checks.

Exit codes: 0 no finding of severity warning or more, 1 findings or failed, 2 wrong command line.";

/// Examine this machine's settings for storage. Nothing is changed.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Doctor {
    /// Clients or servers; the path MTU to each is probed.
    #[arg(value_name = "ADDRESS", conflicts_with = "facts")]
    addresses: Vec<IpAddr>,
    /// This machine is a client: make the checks for clients instead of those for servers.
    #[arg(long)]
    client: bool,
    /// Print a shell script that mends the findings, to be read first.
    #[arg(long)]
    fix_script: bool,
    /// Measure durable writes in this directory; may be given several times.
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "facts")]
    probe: Vec<PathBuf>,
    /// Judge the facts in this file instead of this machine.
    #[arg(long, value_name = "FILE")]
    facts: Option<PathBuf>,
    /// Also save the facts into this file.
    #[arg(long, value_name = "FILE", conflicts_with = "facts")]
    save: Option<PathBuf>,
}

/// Examines and prints.
pub(crate) fn run(args: Doctor, control: Option<PathBuf>, json: bool) -> Result<ExitCode> {
    let facts = match &args.facts {
        Some(path) => read(path)?,
        None => examine(&args, control),
    };
    if let Some(path) = &args.save {
        let text = serde_json::to_string_pretty(&facts)?;
        std::fs::write(path, text + "\n").with_context(|| path.display().to_string())?;
    }
    let report = doctor::checks::judge(&facts, args.client);
    if args.fix_script {
        print(&doctor::script::script(&report))?;
    } else if json {
        print(&exact(&serde_json::to_string_pretty(&report)?))?;
    } else {
        print(&report.text())?;
    }
    Ok(match report.is_bad() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// The report of this machine as a server, without probes.
pub(crate) fn report(control: Option<PathBuf>) -> doctor::report::Report {
    doctor::checks::judge(&captured(control), false)
}

fn read(path: &PathBuf) -> Result<Facts> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let facts: Facts = serde_json::from_str(&text)
        .with_context(|| format!("{} has no facts of `doctor --save`", path.display()))?;
    anyhow::ensure!(
        facts.format == facts::FORMAT,
        "{} has format {}, this program reads {}",
        path.display(),
        facts.format,
        facts::FORMAT
    );
    Ok(facts)
}

fn examine(args: &Doctor, control: Option<PathBuf>) -> Facts {
    let host = Host::this();
    let mut facts = match args.client {
        true => {
            let reason = "not asked for: this machine is examined as a client";
            capture::capture(&host, Known::unknown(reason))
        }
        false => captured(control),
    };
    if !args.addresses.is_empty() {
        let probes = args.addresses.iter().map(|a| probe::path(&host, *a));
        facts.probes.paths = Known::Value(probes.collect());
    }
    if !args.probe.is_empty() {
        let probes = args.probe.iter().map(|d| probe::flushes(&host, d));
        facts.probes.flushes = Known::Value(probes.collect());
    }
    facts
}

/// Longest wait for each answer of the server.
const SERVER_WAIT_MAX: Duration = Duration::from_secs(2);

/// The facts of this machine and of its server.
fn captured(control: Option<PathBuf>) -> Facts {
    let answer = server(control);
    let silence = answer.as_ref().err();
    let silence = silence.and_then(|e| e.downcast_ref::<NoAnswer>());
    let silence = silence.map(|silence| facts::Silence {
        socket: silence.socket.display().to_string(),
        waited_ms: u64::try_from(silence.waited.as_millis()).unwrap_or(u64::MAX),
    });
    let mut facts = capture::capture(&Host::this(), known(answer));
    facts.silence = Known::Value(silence);
    facts
}

/// The running server's state, or the reason why it is not known.
pub(crate) fn known_server(control: Option<PathBuf>) -> Known<facts::Server> {
    known(server(control))
}

fn known(answer: Result<facts::Server>) -> Known<facts::Server> {
    match answer {
        Ok(server) => Known::Value(server),
        Err(e) if e.is::<NoAnswer>() => Known::unknown(e.to_string()),
        Err(e) => Known::unknown(format!("no running server was found ({})", e.root_cause())),
    }
}

/// The running server's state. Errors: as [`Client::ask`].
fn server(control: Option<PathBuf>) -> Result<facts::Server> {
    let client = Client::new(control, true).waiting(SERVER_WAIT_MAX);
    let status = client.ask(&GetStatus {})?;
    let sessions = client.ask(&ListSessions {})?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = now.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX));
    let queues = |id| match client.ask(&ShowSession { id }) {
        Ok(session) => Ok(session.queues),
        Err(e) => Err(format!("the session is not known any more ({e:#})")),
    };
    Ok(doctor_facts(&status, &sessions, now_ms, queues))
}
