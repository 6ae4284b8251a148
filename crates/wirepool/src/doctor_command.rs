//! `wirepool doctor`: judges the settings of this machine.
//!
//! **Owns** its arguments, and the server's state as facts. **Called by** `main`. **Invariants**: nothing is changed; exit code 0
//! without a finding of severity warning or more, else 1.

use crate::ask::{exact, print};
use crate::client::Client;
use anyhow::{Context, Result};
use clap::Args;
use doctor::capture::{self, probe};
use doctor::facts::{self, Facts, Known};
use doctor::source::Host;
use server::api::{
    GetStatus, ListSessions, Pool, SessionSummary, ShowSession, Side, SideTimes, Status,
};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Most sessions whose connections are asked for, so that a large server is judged within a few seconds.
const SESSIONS_MAX: usize = 200;

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
    let facts = capture::capture(&Host::this(), server(&Client::new(control, true)));
    doctor::checks::judge(&facts, false)
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
    let server = match args.client {
        true => Known::unknown("not asked for: this machine is examined as a client"),
        false => server(&Client::new(control, true)),
    };
    let mut facts = capture::capture(&host, server);
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

/// The running server's state, or the reason why it is not known.
fn server(client: &Client) -> Known<facts::Server> {
    let reason = |e: anyhow::Error| {
        let cause = e.root_cause();
        Known::unknown(format!("no running server was found ({cause})"))
    };
    let status = match client.ask(&GetStatus {}) {
        Ok(status) => status,
        Err(e) => return reason(e),
    };
    let sessions = match client.ask(&ListSessions {}) {
        Ok(sessions) => sessions,
        Err(e) => return reason(e),
    };
    let all = sessions.iter().enumerate();
    let sessions = all.map(|(i, s)| session(client, i, s)).collect();
    Known::Value(facts::Server {
        sessions,
        ..of_status(&status)
    })
}

fn of_status(status: &Status) -> facts::Server {
    let buffers = status.shards.iter().map(|s| s.buffer_limit as u64);
    facts::Server {
        pid: status.pid,
        shards: status.shards.len(),
        buffer_limit: buffers.sum(),
        cache_limit: status.pools.iter().map(|p| p.record_cache.limit).sum(),
        connections_max: status.connections_max as u64,
        listen: status.listen.iter().map(|l| l.address).collect(),
        sessions: Vec::new(),
        members: status.pools.iter().flat_map(members).collect(),
    }
}

fn members(pool: &Pool) -> Vec<facts::Member> {
    let vdevs = pool.vdevs.iter();
    let sides = vdevs.flat_map(|v| v.sides.iter().map(|s| (v.name.as_str(), s)));
    sides.map(|(vdev, side)| member(pool, vdev, side)).collect()
}

fn member(pool: &Pool, vdev: &str, side: &Side) -> facts::Member {
    let path = side.path.as_ref().or(side.was.as_ref());
    facts::Member {
        pool: pool.name.clone(),
        vdev: vdev.to_owned(),
        path: path.map_or(String::new(), |p| p.display().to_string()),
        state: side.state.clone(),
        disk: Known::default(),
        read_errors: side.read_errors,
        write_errors: side.write_errors,
        checksum_errors: side.checksum_errors,
        is_autotrim_on: Known::Value(pool.autotrim),
        reads: times(&side.read_times),
        writes: times(&side.write_times),
        flushes: times(&side.flush_times),
    }
}

fn times(t: &SideTimes) -> facts::Times {
    facts::Times {
        count: t.count,
        p50_us: t.p50_us,
        p99_us: t.p99_us,
    }
}

fn session(client: &Client, index: usize, s: &SessionSummary) -> facts::Session {
    let queues = match index < SESSIONS_MAX {
        true => match client.ask(&ShowSession { id: s.id }) {
            Ok(session) => Known::Value(session.queues.iter().map(queue).collect()),
            Err(e) => Known::unknown(format!("the session is not known any more ({e:#})")),
        },
        false => Known::unknown(format!("only {SESSIONS_MAX} sessions are asked for")),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = now.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX));
    facts::Session {
        id: s.id,
        protocol: s.protocol.clone(),
        host: s.host_nqn.clone(),
        depth: s.depth,
        keep_alive_ms: s.keep_alive_timeout_ms,
        reconnects: s.reconnects,
        age_s: now_ms.saturating_sub(s.connected_at_ms) / 1000,
        errors: s.errors,
        commands: s.commands,
        queues,
    }
}

fn queue(q: &server::api::Queue) -> facts::Queue {
    facts::Queue {
        qid: q.qid,
        local: q.local,
        peer: q.peer,
        mss: q.mss,
        rtt_us: q.rtt_us,
        retransmits: u64::from(q.retransmits),
        bytes_out: q.bytes_out,
        congestion: q.congestion.clone(),
    }
}
