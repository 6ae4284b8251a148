//! A client machine: connects until it succeeds, then runs its jobs.

use super::plan::ClientPlan;
use super::server::{NSID, subsystem};
use crate::model::Model;
use crate::remote::{Remote, failure};
use crate::workload::Job;
use io::spawn;
use io::time::sleep;
use nvmf::initiator::{Config, Controller, Offer};
use nvmf::wire::command::Nsid;
use nvmf::wire::nqn::{HostId, Nqn};
use nvmf::wire::pdu::Digests;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// How a client connects.
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

/// Between two attempts.
const RETRY: Duration = Duration::from_millis(200);

/// A connected namespace and what keeps it connected.
pub(super) struct Connected {
    pub(super) remote: Remote,
    _controller: Controller,
}

/// Connects as host number `who`, however long it takes.
pub(super) async fn connect(who: usize, addr: SocketAddr, wants: &Wants) -> Connected {
    let host = Nqn::new(&format!("nqn.2026-01.example:host-{who}")).expect("a valid name");
    let id = HostId([1 + who as u8; 16]);
    let config = Config {
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
                    return Connected {
                        remote: Remote(Rc::new(ns)),
                        _controller: controller,
                    };
                }
                Err(e) => tracing::debug!("no namespace: {:?}", failure(&e)),
            }
        }
        sleep(RETRY).await;
    }
}

/// The client's whole life.
pub(super) async fn work(
    who: usize,
    addr: SocketAddr,
    plan: ClientPlan,
    model: Rc<RefCell<Model>>,
    seed: u64,
) {
    let connected = connect(who, addr, &plan.wants).await;
    let jobs: Vec<_> = (0..plan.jobs)
        .map(|i| {
            let access = connected.remote.clone();
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
