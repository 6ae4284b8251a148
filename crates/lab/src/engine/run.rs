//! One run: starts the jobs, opens the window, and adds up their reports.
//!
//! **Owns** the shards of the jobs. **Called by** plans, preconditioning and the suite. **Invariants**: all jobs begin at the
//! same time; the first error ends the run.

use super::job::Job;
use super::observe::Observed;
use super::result::{JobReport, Run};
use super::window::Window;
use crate::limits::POOL_SLACK;
use crate::size::size;
use crate::stats::process::Usage;
use crate::targets::{Facts, Session, Target};
use crate::workload::Workload;
use crate::{Error, Result};
use io::runtime::{Shard, ShardConfig};
use io::sync::oneshot;
use io::time::now;
use io::{Error as IoError, RuntimeConfig};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Placement of jobs, and observed processes.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// Processors for the jobs, in turn; empty: the kernel chooses.
    pub cpus: Vec<usize>,
    /// How long a job's ring spins before it sleeps.
    pub spin: Duration,
    /// The process that serves the target, if it is on this machine.
    pub server_pid: Option<u32>,
    /// All jobs on the calling thread's runtime: what the simulator needs.
    pub inline: bool,
    /// Counts completed bytes, for progress output.
    pub meter: Option<Arc<AtomicU64>>,
}

struct Member {
    ready: oneshot::Receiver<Result<Facts>>,
    go: oneshot::Sender<Window>,
    report: oneshot::Receiver<Result<JobReport>>,
}

/// Runs `w` against `target`. Errors: `Usage` if they do not fit, otherwise the first failure of any job.
pub async fn run<T: Target>(target: &T, w: &Workload, setup: &Setup) -> Result<Run> {
    let facts = target.facts();
    let region = w.check(facts.size, facts.block_size)?;
    if w.block_size > facts.transfer_max {
        let why = format!(
            "the target takes at most {} at once",
            size(facts.transfer_max.into())
        );
        return Err(Error::usage(format!("block size {}", w.block_size), why));
    }
    let (mut shards, mut members) = (Vec::new(), Vec::new());
    for index in 0..w.jobs {
        let shard = if setup.inline {
            Shard::here()
        } else {
            Shard::start(shard_config(w, setup, &facts, index))?
        };
        members.push(enlist(&shard, target, w, setup, (index, region))?);
        shards.push(shard);
    }
    let result = measure(members, w, setup).await;
    for shard in shards {
        shard.stop();
    }
    result
}

fn enlist<T: Target>(
    shard: &Shard,
    target: &T,
    w: &Workload,
    setup: &Setup,
    (index, region): (u32, u64),
) -> Result<Member> {
    let (ready_tx, ready) = oneshot::channel();
    let (go, go_rx) = oneshot::channel::<Window>();
    let (report_tx, report) = oneshot::channel();
    let (target, w, meter) = (target.clone(), w.clone(), setup.meter.clone());
    shard.spawn(move || async move {
        let session = match target.connect(w.depth).await {
            Ok(s) => s,
            Err(e) => return ready_tx.send(Err(e)),
        };
        ready_tx.send(Ok(session.facts()));
        if let Some(window) = go_rx.await {
            report_tx.send(Job::run(session, &w, index, region, window, meter).await);
        } else {
            session.close().await;
        }
    })?;
    Ok(Member { ready, go, report })
}

fn shard_config(w: &Workload, setup: &Setup, facts: &Facts, index: u32) -> ShardConfig {
    let slot = (w.block_size as usize)
        .next_power_of_two()
        .max(io::limits::BUF_ALIGN);
    let buffer_limit = 2 * slot * w.depth as usize + POOL_SLACK;
    let cpu = (!setup.cpus.is_empty()).then(|| setup.cpus[index as usize % setup.cpus.len()]);
    let runtime = RuntimeConfig {
        spin_max: setup.spin,
        buffer_limit,
        transfers_max: transfers_max(facts),
    };
    ShardConfig {
        name: format!("job-{index}"),
        cpu,
        runtime,
    }
}

/// Most disk transfers of a job that one system call submits. A raw disk gets each at once, as from fio, and does not look slower
/// than it is; a pool in this process collects them as it does in a server.
fn transfers_max(facts: &Facts) -> usize {
    match facts.caches {
        0 => 1,
        _ => RuntimeConfig::default().transfers_max,
    }
}

async fn measure(members: Vec<Member>, w: &Workload, setup: &Setup) -> Result<Run> {
    let mut facts = None;
    let mut started = Vec::new();
    for member in members {
        let found = member.ready.await.ok_or(Error::Io(IoError::Cancelled))??;
        facts.get_or_insert(found);
        started.push((member.go, member.report));
    }
    let facts = facts.ok_or_else(|| Error::usage("jobs 0", "expected at least one"))?;
    // Far enough ahead for every job to start in time.
    let begin = now() + Duration::from_millis(2);
    let from = begin + w.ramp;
    let window = Window {
        begin,
        from,
        until: from + w.runtime,
    };
    let server = setup
        .server_pid
        .map(|pid| Observed::start(window, move || Usage::of(pid)));
    let own = Observed::start(window, || Usage::of(std::process::id()));
    let mut reports = Vec::new();
    for (go, report) in started {
        go.send(window);
        reports.push(report);
    }
    let mut run = Run::new(w, facts);
    let mut ended = from;
    let mut failed = None;
    for report in reports {
        match report
            .await
            .ok_or(Error::Io(IoError::Cancelled))
            .and_then(|r| r)
        {
            Ok(r) => {
                ended = ended.max(r.ended);
                run.add(r);
            }
            Err(e) => failed = failed.or(Some(e)),
        }
    }
    if let Some(e) = failed {
        return Err(e);
    }
    let least = if w.bytes.is_some() {
        Duration::ZERO
    } else {
        w.runtime
    };
    run.elapsed = ended.since(from).max(least);
    run.server = server.and_then(|s| s.finish()).and_then(used);
    run.own = own.finish().and_then(used);
    Ok(run)
}

fn used((before, after): (Option<Usage>, Option<Usage>)) -> Option<Usage> {
    Some(after?.since(before?))
}
