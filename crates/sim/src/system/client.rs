//! A client machine: connects until it succeeds, then runs its jobs.

use super::plan::ClientPlan;
use super::protocol::Protocol;
use super::server::{LUN, NSID, iscsi_target, subsystem};
use crate::access::Access;
use crate::model::Model;
use crate::remote::{Remote, failure};
use crate::remote_unit::{self, RemoteUnit};
use crate::workload::{Job, verify_all};
use io::spawn;
use io::time::sleep;
use iscsi::portal::IscsiTransport;
use iscsi::wire::IscsiName;
use iscsi_initiator as unit_initiator;
use nvmf::wire::command::Nsid;
use nvmf::wire::nqn::{HostId, Nqn};
use nvmf::wire::pdu::Digests;
use nvmf_initiator::{Config, Controller, Offer, Transport};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Parameters of a client's connection.
#[derive(Debug, Clone)]
pub(super) struct Wants {
    pub(super) queues: u16,
    pub(super) depth: u16,
    pub(super) header_digest: bool,
    pub(super) data_digest: bool,
    pub(super) max_r2t: u32,
}

impl Default for Wants {
    fn default() -> Self {
        Wants {
            queues: 1,
            depth: 32,
            header_digest: false,
            data_digest: false,
            max_r2t: 1,
        }
    }
}

/// Blocks per read of the final check.
pub(super) const VERIFY_BLOCKS: u64 = 32;
/// Number of the host that reads the whole disk at the end.
pub(super) const LAST_HOST: usize = 99;

/// The name of host number `who`.
pub(super) fn host(who: usize) -> Nqn {
    Nqn::new(&format!("nqn.2026-01.example:host-{who}")).expect("a valid name")
}

/// Pause between two attempts to connect.
const RETRY: Duration = Duration::from_millis(200);

/// A connected disk, with the handle that keeps it connected.
pub(super) enum Connected {
    Nvme(Remote, Controller),
    Iscsi(RemoteUnit, unit_initiator::Session),
}

/// Connects as host number `who`. Repeats the attempt until it succeeds.
pub(super) async fn connect(
    who: usize,
    (protocol, addr): (Protocol, SocketAddr),
    wants: &Wants,
) -> Connected {
    match protocol {
        Protocol::Nvme(transport) => connect_nvme(who, (transport, addr), wants).await,
        Protocol::Iscsi(transport) => connect_iscsi(who, (transport, addr), wants).await,
        Protocol::Nfs(_) => unreachable!("its clients mount"),
    }
}

async fn connect_iscsi(
    who: usize,
    (transport, addr): (IscsiTransport, SocketAddr),
    wants: &Wants,
) -> Connected {
    let me = IscsiName::new(&format!("iqn.2026-01.example:host-{who}")).expect("a valid name");
    let config = unit_initiator::Config {
        transport,
        queue_depth: wants.depth,
        proposal: unit_initiator::Proposal {
            header_digest: wants.header_digest,
            data_digest: wants.data_digest,
            // For NVMe the choice of queues and R2Ts decides this: whether writes wait for a request for their data.
            initial_r2t: wants.queues.is_multiple_of(2),
            immediate_data: wants.max_r2t.is_multiple_of(2),
            max_outstanding_r2t: wants.max_r2t as u16,
            max_recv_data: 4096 * u32::from(wants.queues),
            first_burst: 8192,
            max_burst: 16384,
        },
        ..unit_initiator::Config::new(addr, iscsi_target(), me)
    };
    loop {
        if let Ok(session) = unit_initiator::Session::connect(config.clone()).await {
            match session.unit(LUN).await {
                Ok(unit) => return Connected::Iscsi(RemoteUnit(Rc::new(unit)), session),
                Err(e) => tracing::debug!("no unit: {:?}", remote_unit::failure(&e)),
            }
            session.log_out().await;
        }
        sleep(RETRY).await;
    }
}

async fn connect_nvme(
    who: usize,
    (transport, addr): (Transport, SocketAddr),
    wants: &Wants,
) -> Connected {
    let host = host(who);
    let id = HostId([1 + who as u8; 16]);
    let config = Config {
        transport,
        io_queues: wants.queues,
        queue_depth: wants.depth,
        offer: Offer {
            digests: Digests {
                header: wants.header_digest,
                data: wants.data_digest,
            },
            max_r2t: wants.max_r2t,
            ..Offer::default()
        },
        ..Config::new(addr, subsystem(), host, id)
    };
    loop {
        if let Ok(controller) = Controller::connect(config.clone()).await {
            match controller.namespace(Nsid(NSID)).await {
                Ok(ns) => {
                    return Connected::Nvme(Remote(Rc::new(ns)), controller);
                }
                Err(e) => tracing::debug!("no namespace: {:?}", failure(&e)),
            }
        }
        sleep(RETRY).await;
    }
}

/// Runs a client from its start to its end.
pub(super) async fn work(
    who: usize,
    to: (Protocol, SocketAddr),
    plan: ClientPlan,
    model: Rc<RefCell<Model>>,
    seed: u64,
) {
    match connect(who, to, &plan.wants).await {
        Connected::Nvme(remote, _controller) => run_jobs(remote, plan, model, seed).await,
        Connected::Iscsi(remote, _session) => run_jobs(remote, plan, model, seed).await,
    }
}

/// Reads the whole disk, when all other clients have ended.
pub(super) async fn last_look(to: (Protocol, SocketAddr), model: Rc<RefCell<Model>>) {
    match connect(LAST_HOST, to, &Wants::default()).await {
        Connected::Nvme(remote, _controller) => verify_all(&remote, &model, VERIFY_BLOCKS).await,
        Connected::Iscsi(remote, _session) => verify_all(&remote, &model, VERIFY_BLOCKS).await,
    }
}

/// Runs the jobs of a client.
pub(super) async fn run_jobs<A: Access + Clone + 'static>(
    access: A,
    plan: ClientPlan,
    model: Rc<RefCell<Model>>,
    seed: u64,
) {
    let jobs: Vec<_> = (0..plan.jobs)
        .map(|i| {
            let access = access.clone();
            spawn(
                Job::new(
                    access,
                    model.clone(),
                    seed.wrapping_add(i),
                    plan.profile.clone(),
                )
                .run(),
            )
        })
        .collect();
    for job in jobs {
        job.await;
    }
}
