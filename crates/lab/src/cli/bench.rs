//! `wirepool bench run`, `matrix` and `compare`.

use super::args::{CompareArgs, GridArgs, HowArgs, MatrixArgs, OutputArgs, RunArgs};
use super::coordinator::block_on;
use super::output;
use crate::engine::Setup;
use crate::plan::{self, Contender, Plan, Report};
use crate::stats::process::machine_memory;
use crate::targets::nvme_address::Transport;
use crate::targets::{Address, AnyTarget, OpenAs};
use crate::terminal::{Teller, fill};
use crate::validity::Thresholds;
use crate::workload::{Sync, Workload};
use crate::{Error, Result};
use std::time::Duration;

/// Default modes of a matrix.
const MATRIX_MODES: [&str; 2] = ["randread", "randwrite"];
const MATRIX_POINTS: [(u32, u32); 6] = [(1, 1), (8, 1), (32, 1), (1, 8), (8, 8), (32, 32)];
const MATRIX_SIZES: [u32; 1] = [4096];

pub(super) fn run(args: RunArgs) -> Result<()> {
    let w = args.workload.workload()?;
    go(
        format!("{w}"),
        vec![args.target],
        vec![w],
        true,
        args.how,
        &args.output,
    )
}

pub(super) fn matrix(args: MatrixArgs) -> Result<()> {
    let base = args.workload.workload()?;
    let all = grid(
        &base,
        &args.grid,
        (&MATRIX_MODES, &MATRIX_POINTS, &MATRIX_SIZES),
    )?;
    go(
        "Matrix".into(),
        args.targets,
        all,
        true,
        args.how,
        &args.output,
    )
}

pub(super) fn compare(args: CompareArgs) -> Result<()> {
    let base = args.workload.workload()?;
    let all = grid(
        &base,
        &args.grid,
        (
            &[base.mode()],
            &[(base.depth, base.jobs)],
            &[base.block_size],
        ),
    )?;
    go(
        "Comparison".into(),
        args.targets,
        all,
        !args.sequential,
        args.how,
        &args.output,
    )
}

/// Every combination; `or` has the defaults.
fn grid(
    base: &Workload,
    g: &GridArgs,
    or: (&[&str], &[(u32, u32)], &[u32]),
) -> Result<Vec<Workload>> {
    let named: Vec<&str> = g.modes.iter().map(String::as_str).collect();
    let modes = if named.is_empty() { or.0 } else { &named };
    let points = if g.points.is_empty() { or.1 } else { &g.points };
    let sizes = if g.sizes.is_empty() { or.2 } else { &g.sizes };
    let mut all = plan::matrix(base, modes, points, sizes)?;
    if g.sync {
        let durable: Vec<_> = all.iter().filter(|w| w.writes()).cloned().collect();
        all.extend(durable.into_iter().map(|w| Workload {
            sync: Sync::Fua,
            ..w
        }));
    }
    Ok(all)
}

fn go(
    title: String,
    targets: Vec<Address>,
    workloads: Vec<Workload>,
    interleaved: bool,
    how: HowArgs,
    output: &OutputArgs,
) -> Result<()> {
    let report =
        block_on(async move { measure(title, targets, workloads, interleaved, how).await })?;
    output::deliver(&report, output)
}

pub(super) async fn measure(
    title: String,
    targets: Vec<Address>,
    workloads: Vec<Workload>,
    interleaved: bool,
    how: HowArgs,
) -> Result<Report> {
    let writable = how.precondition || workloads.iter().any(Workload::writes);
    if writable && !how.overwrite {
        targets
            .iter()
            .try_for_each(|t| check_overwrite(t, how.create.is_some()))?;
    }
    let setup = Setup {
        cpus: how.cpus.clone(),
        spin: Duration::from_micros(how.spin_us),
        server_pid: how.server_pid,
        ..Setup::default()
    };
    let mut teller = Teller::stderr();
    let mut contenders = Vec::new();
    for address in &targets {
        let target = AnyTarget::open(
            address,
            OpenAs {
                writable,
                create: how.create,
            },
        )
        .await?;
        if how.precondition {
            fill(
                &target,
                &address.to_string(),
                region(&workloads),
                &setup,
                &teller,
            )
            .await?;
        }
        contenders.push(Contender {
            label: short(address),
            address: address.to_string(),
            target,
        });
    }
    distinguish(&mut contenders);
    let plan = Plan {
        title,
        contenders,
        workloads,
        rounds: how.rounds,
        interleaved,
        force: how.force,
        thresholds: Thresholds::for_memory(machine_memory()),
        setup,
    };
    let report = plan.execute(&mut teller).await;
    teller.done();
    report
}

/// Errors: `Usage` if existing data would be overwritten without confirmation.
pub(super) fn check_overwrite(address: &Address, create: bool) -> Result<()> {
    let harmless = match address {
        Address::Memory(_) => true,
        Address::File { path, .. } => create && !path.exists(),
        Address::Nvme(_) | Address::Iscsi(_) | Address::Nfs(_) => false,
    };
    if harmless {
        return Ok(());
    }
    Err(Error::usage(
        address.to_string(),
        "writing would overwrite its data: use --overwrite to confirm",
    ))
}

/// The part of a target that any workload uses; `None` for all of it.
fn region(workloads: &[Workload]) -> Option<u64> {
    workloads
        .iter()
        .map(|w| w.region)
        .max_by_key(|r| r.unwrap_or(u64::MAX))
        .flatten()
}

/// A name that fits a column.
fn short(address: &Address) -> String {
    match address {
        Address::File { path, .. } => path
            .file_name()
            .map_or_else(|| address.to_string(), |n| n.to_string_lossy().into()),
        Address::Memory(_) => address.to_string(),
        Address::Nvme(t) => format!(
            "{}{} ns {}",
            match t.transport {
                Transport::Tcp => "",
                Transport::Rdma => "rdma ",
            },
            t.nqn.rsplit(':').next().unwrap_or(&t.nqn),
            t.nsid
        ),
        Address::Nfs(t) => format!("nfs {}", t.parts().1),
        Address::Iscsi(t) => format!(
            "iscsi {} lun {}",
            t.iqn.rsplit(':').next().unwrap_or(&t.iqn),
            t.lun
        ),
    }
}

/// Uses full addresses if two labels are equal.
fn distinguish(contenders: &mut [Contender]) {
    let labels: std::collections::BTreeSet<_> =
        contenders.iter().map(|c| c.label.clone()).collect();
    if labels.len() < contenders.len() {
        contenders
            .iter_mut()
            .for_each(|c| c.label.clone_from(&c.address));
    }
}
