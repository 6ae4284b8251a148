//! Capture of the facts of a machine.
//!
//! **Owns** the order of reading. **Called by** `wirepool doctor`. **Invariants**: it reads, and changes nothing; contents of files
//! and outputs of programs may be anything, and at worst become a fact that is not known.

mod bus;
mod client;
mod disk;
mod machine;
mod net;
mod parse;
mod place;
pub mod probe;
mod rdma;
mod service;

use crate::facts::{FORMAT, Facts, Known, Probes, Process, RdmaPort, Server};
use crate::source::Source;

/// Reads the facts of the RDMA checks only: without disks, TCP and probes.
#[must_use]
pub fn capture_rdma(source: &dyn Source, server: Known<Server>) -> Facts {
    let process = process(source, &server);
    Facts {
        format: FORMAT,
        kernel: machine::kernel(source),
        nics: net::nics(source),
        rdma: rdma::rdma(source),
        service: service::service(source, &process),
        process,
        server,
        ..Facts::default()
    }
}

/// The process of a server.
fn process(source: &dyn Source, server: &Known<Server>) -> Known<Process> {
    match server {
        Known::Value(server) => Known::Value(machine::process(source, server.pid)),
        Known::Unknown { unknown } => Known::unknown(unknown),
    }
}

/// Reads the facts about ports of RDMA devices only.
#[must_use]
pub fn rdma_ports(source: &dyn Source) -> Known<Vec<RdmaPort>> {
    rdma::all_ports(source)
}

/// Reads all facts. `server` has what the control API reported, or the reason why there is nothing.
#[must_use]
pub fn capture(source: &dyn Source, server: Known<Server>) -> Facts {
    let process = process(source, &server);
    let server = server.map(|mut server| {
        for member in &mut server.members {
            member.disk = place::disk_of(source, &member.path);
        }
        for cache in &mut server.caches {
            cache.disk = place::disk_of(source, &cache.path);
        }
        server
    });
    Facts {
        format: FORMAT,
        kernel: machine::kernel(source),
        cpu: machine::cpu(source),
        memory: machine::memory(source),
        clock: machine::clock(source),
        tcp: net::tcp(source),
        nics: net::nics(source),
        disks: disk::disks(source),
        rdma: rdma::rdma(source),
        service: service::service(source, &process),
        process,
        server,
        silence: Known::Value(None),
        probes: Probes {
            paths: Known::unknown("not asked for: give the ADDRESS of a client or server"),
            flushes: Known::unknown("not asked for: give --probe DIRECTORY"),
        },
        nfs_mounts: client::nfs_mounts(source),
        nvme_controllers: client::nvme_controllers(source),
        nvme_boot: client::nvme_boot(source),
        iscsi_sessions: client::iscsi_sessions(source),
    }
}
