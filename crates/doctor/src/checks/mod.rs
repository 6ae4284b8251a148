//! Checks: pure functions from facts to findings.
//!
//! **Owns** the list of all checks. **Called by** `wirepool doctor`, and by the test that compares docs/doctor.md with the list.
//! **Invariants**: a check reads facts only through [`Judge::know`], so that a missing fact is listed as not checked; it
//! has one severity (a worse or harmless case has another), one risk and one reason.

pub use member::SLOW_JOURNAL_US;

mod class;
mod client_block;
mod client_nfs;
mod cpu;
mod disk;
mod health;
mod irq;
mod kernel;
mod limits;
mod member;
mod nic;
mod pitfalls;
pub(crate) mod rdma;
mod served;
mod session;
mod tcp;

use crate::check::{Check, Judge, Side};
use crate::facts::Facts;
use crate::report::Report;
use std::fmt::Write;

/// All checks, by area.
pub const AREAS: &[(&str, &[Check])] = &[
    ("Server, pools and exports", served::CHECKS),
    ("Kernel", kernel::CHECKS),
    ("Limits of the server's process", limits::CHECKS),
    ("Processors", cpu::CHECKS),
    ("Network interfaces", nic::CHECKS),
    ("Interrupts and NUMA", irq::CHECKS),
    ("TCP", tcp::CHECKS),
    ("Sessions and paths", session::CHECKS),
    ("Disks", disk::CHECKS),
    ("Health of disks", health::CHECKS),
    ("Disks of pools", member::CHECKS),
    ("Device classes of pools", class::CHECKS),
    ("RDMA: software", rdma::software::CHECKS),
    ("RDMA: ports", rdma::link::CHECKS),
    ("RDMA: RoCE", rdma::roce::CHECKS),
    ("NFS client", client_nfs::CHECKS),
    ("NVMe and iSCSI client", client_block::CHECKS),
];

/// All checks.
pub fn all() -> impl Iterator<Item = &'static Check> {
    AREAS.iter().flat_map(|(_, checks)| checks.iter())
}

/// The checks of RDMA.
pub fn rdma_checks() -> impl Iterator<Item = &'static Check> {
    let areas = AREAS.iter().filter(|(area, _)| area.starts_with("RDMA"));
    areas.flat_map(|(_, checks)| checks.iter())
}

/// Makes the checks for a server's machine or, with `is_client`, for a client's. Findings are sorted, the worst first.
#[must_use]
pub fn judge(facts: &Facts, is_client: bool) -> Report {
    let mut report = judge_by(all(), facts, is_client);
    if facts.rdma.ports.value().is_some_and(Vec::is_empty) {
        let text = "RDMA: this machine has no RDMA device, and its checks have nothing to look at";
        report.remarks.push(text.to_owned());
    }
    report
}

/// As [`judge`], with some of the checks.
pub(crate) fn judge_by(
    checks: impl Iterator<Item = &'static Check>,
    facts: &Facts,
    is_client: bool,
) -> Report {
    let other = match is_client {
        true => Side::Server,
        false => Side::Client,
    };
    let mut report = Report::default();
    for check in checks.filter(|c| c.side != other) {
        report.checks += 1;
        (check.judge)(facts, &mut Judge::new(check, &mut report));
    }
    report
        .findings
        .sort_by_key(|f| std::cmp::Reverse(f.severity));
    report
}

/// The table of all checks in docs/doctor.md.
#[must_use]
pub fn table() -> String {
    let mut out = String::new();
    for (area, checks) in AREAS {
        let _ = writeln!(
            out,
            "### {area}\n\n| check | for | severity | finds | why it matters | risk of mending |\n|---|---|---|---|---|---|"
        );
        for c in *checks {
            let side = match c.side {
                Side::Server => "server",
                Side::Client => "client",
                Side::Both => "both",
            };
            let _ = writeln!(
                out,
                "| `{}` | {side} | {} | {} | {} | {} |",
                c.id, c.severity, c.finds, c.why, c.risk
            );
        }
        out.push('\n');
    }
    out
}
