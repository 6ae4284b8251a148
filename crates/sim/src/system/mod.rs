//! Scenarios `system`, `rdma`, `iscsi`, `iser`, `nfs`, `nfs_rdma`, `shards` and `fence`: a server over a disk, clients with initiators on
//! other machines, and faults.
//!
//! **Owns** the course of a run. All clients share one namespace, unit or file and one model, so every read is checked against the
//! writes of all clients.

mod client;
mod export;
mod fence;
mod guest;
mod nfs;
mod plan;
mod pooled;
mod protocol;
mod server;

use crate::Report;
use crate::model::{Model, Violation};
use crate::store::Wrap;
use ::nfs::service::NfsTransport;
use guest::Guest;
use io::rng::Prng;
use io::sim::{Node, network, remark};
use io::time::sleep;
use io::{spawn, timeout};
use iscsi::portal::IscsiTransport;
use nfs::Expectations;
use nvmf::controller::Transport;
use plan::{FullBelow, Plan, Trouble};
pub use protocol::Protocol;
use server::Server;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// Time limit of all clients after the faults have ended: reconnects, timeouts of commands, the slow disk.
const FINISH_MAX: Duration = Duration::from_secs(1800);

/// State of a run.
struct Run {
    protocol: Protocol,
    plan: Plan,
    rng: Prng,
    server: Rc<Server>,
    guest: Option<Guest>,
    clients: Vec<Node>,
    jobs: Vec<io::JoinHandle<()>>,
    model: Rc<RefCell<Model>>,
    /// What clients of NFS do beside reads and writes.
    expectations: Rc<Expectations>,
    crashes: u64,
}

/// Runs scenario `shards`: a server of several shards, over the protocol that the seed chooses; over NVMe/TCP also with a
/// guest.
pub async fn run_shards(seed: u64, wrap: Wrap) -> Result<Report, Violation> {
    let mut rng = Prng::new(seed ^ 0x5e57_5a00);
    let protocol = match rng.below(3) {
        0 => Protocol::Iscsi(IscsiTransport::Tcp),
        _ => Protocol::Nvme(Transport::Tcp),
    };
    let mut plan = Plan::new(&mut rng);
    plan.spread(&mut rng);
    let mut layout = Prng::new(seed ^ 0x4a1d_5a4d);
    if layout.chance(0.4) {
        plan.stripe(&mut layout);
    }
    plan.choose_classes(seed);
    course(plan, rng, wrap, protocol).await
}

/// Runs scenario `fence`: hosts that reserve the namespace, and a server that crashes.
pub async fn run_fence(seed: u64, wrap: Wrap) -> Result<Report, Violation> {
    fence::run(seed, wrap).await
}

/// Runs one seed inside the present simulation. Fails with the violation.
pub async fn run(seed: u64, wrap: Wrap, protocol: Protocol) -> Result<Report, Violation> {
    let mut rng = Prng::new(seed ^ 0x5e57_e300);
    let plan = Plan::new(&mut rng);
    course(plan, rng, wrap, protocol).await
}

/// Runs scenario `nfs` or `nfs_rdma`: clients of files.
pub async fn run_nfs(seed: u64, wrap: Wrap, transport: NfsTransport) -> Result<Report, Violation> {
    let mut rng = Prng::new(seed ^ 0x5e57_f500);
    let mut plan = Plan::new(&mut rng);
    plan.export(&mut rng, transport);
    if rng.chance(0.3) {
        plan.stripe(&mut rng);
    }
    plan.choose_classes(seed);
    course(plan, rng, wrap, Protocol::Nfs(transport)).await
}

async fn course(
    plan: Plan,
    mut rng: Prng,
    wrap: Wrap,
    protocol: Protocol,
) -> Result<Report, Violation> {
    let server = Rc::new(Server::new(&plan, wrap, protocol));
    let model = Rc::new(RefCell::new(Model::new(plan.block_size, plan.blocks)));
    let expectations = Rc::new(Expectations::new(&plan, model.clone()));
    server.start();
    let has_guest = plan.shards > 1 && matches!(protocol, Protocol::Nvme(_));
    let guest = has_guest.then(|| Guest::start(&server, &model, rng.u64()));
    let clients: Vec<Node> = plan.clients.iter().map(|_| Node::new()).collect();
    let mut run = Run {
        protocol,
        plan,
        rng,
        server,
        guest,
        clients,
        jobs: Vec::new(),
        model,
        expectations,
        crashes: 0,
    };
    for i in 0..run.clients.len() {
        network::set_link(run.server.node, run.clients[i], run.plan.clients[i].link);
        run.start_client(i);
    }
    for (after, trouble) in run.plan.troubles.clone() {
        sleep(after).await;
        run.cause(trouble).await;
        run.verdict()?;
    }
    run.finish().await?;
    let answered = run.model.borrow().answered;
    Ok(Report {
        answered,
        crashes: run.crashes,
        placements: pool::Placements::default(),
    })
}

impl Run {
    fn verdict(&self) -> Result<(), Violation> {
        self.model
            .borrow()
            .violation()
            .map_or(Ok(()), |v| Err(v.clone()))
    }

    fn start_client(&mut self, i: usize) {
        let (to, plan) = (self.server.address(), self.plan.clients[i].clone());
        let (node, seed) = (self.clients[i], self.rng.u64());
        let job = match self.protocol {
            Protocol::Nfs(transport) => node.spawn(nfs::work(
                i,
                (transport, to),
                plan,
                self.expectations.clone(),
                seed,
            )),
            protocol => {
                let model = self.model.clone();
                node.spawn(client::work(i, (protocol, to), plan, model, seed))
            }
        };
        self.jobs.push(job);
    }

    async fn cause(&mut self, trouble: Trouble) {
        remark(|| format!("trouble     {trouble:?}"));
        match trouble {
            Trouble::Partition { client, lasts } => {
                let (server, client) = (self.server.node, self.clients[client]);
                network::partition(server, client);
                spawn(async move {
                    sleep(lasts).await;
                    network::heal(server, client);
                });
            }
            Trouble::Reset { client } => {
                network::reset_connections(self.server.node, self.clients[client])
            }
            Trouble::ClientPowerCut { client, lasts } => {
                self.clients[client].power_cut();
                sleep(lasts).await;
                self.clients[client].power_on();
                self.start_client(client);
            }
            Trouble::ServerPowerCut { steps, lasts } => {
                self.server.node.power_cut_after(steps);
                sleep(Duration::from_millis(50)).await;
                if self.server.node.is_on() {
                    self.server.node.power_cut();
                }
                self.server_crashed(lasts).await;
            }
            Trouble::ServerKill { lasts } => {
                self.server.node.kill();
                self.server.ended();
                if self.plan.pool.is_some() {
                    // A pool has unflushed writes in the process's memory. For a raw disk, the kernel still has them.
                    self.model.borrow_mut().crash();
                }
                sleep(lasts).await;
                self.server.start();
            }
            Trouble::Stall { by } => self.server.disks[0].stall_next(by),
            Trouble::Errors { lasts } => {
                self.server.disks[0].error_rates(0.2, 0.2, 0.2);
                sleep(lasts).await;
                self.heal();
            }
            Trouble::Full { lasts } => {
                let disk = &self.server.disks[0];
                disk.set_space(Some(disk.used() / 2));
                sleep(lasts).await;
                self.heal();
            }
            Trouble::Members { count, lasts } => self.fail_members(count, lasts).await,
            Trouble::FullBelow(full) => self.fill_below(full).await,
            Trouble::Grow => {
                let disk = &self.server.disks[0];
                let bytes = disk.size() + 16 * u64::from(self.plan.disk.logical_block);
                disk.set_size(bytes);
                self.model
                    .borrow_mut()
                    .grow(bytes / u64::from(self.plan.disk.logical_block));
                self.server.refresh().await;
            }
            Trouble::Bounce { lasts } => self.server.bounce(lasts).await,
        }
    }

    fn heal(&self) {
        self.server.disks.iter().for_each(|disk| disk.heal());
    }

    /// Waits until the server serves: a pool is created on sound disks with enough space.
    async fn served(&self) {
        while self.server.life_number().is_none() {
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Makes the last members fail. So the same members fail each time: the others are complete.
    async fn fail_members(&mut self, count: usize, lasts: Duration) {
        self.served().await;
        for disk in self.server.disks.iter().rev().take(count) {
            disk.error_rates(0.2, 0.2, 0.1);
        }
        sleep(lasts).await;
        self.heal();
    }

    /// Fills the file system below the disks.
    async fn fill_below(&mut self, FullBelow { lasts, power_goes }: FullBelow) {
        self.served().await;
        for disk in &self.server.disks {
            disk.set_space(Some(disk.used()));
        }
        sleep(lasts).await;
        if power_goes {
            self.server.node.power_cut();
            self.server_crashed(lasts).await;
            sleep(lasts).await;
        }
        self.heal();
    }

    async fn server_crashed(&mut self, lasts: Duration) {
        self.crashes += 1;
        self.server.ended();
        self.model.borrow_mut().crash();
        sleep(lasts).await;
        self.server.node.power_on();
        self.server.start();
    }

    /// Ends all faults, lets all clients finish, cuts the power once more and reads the whole disk.
    async fn finish(&mut self) -> Result<(), Violation> {
        self.heal();
        let jobs = std::mem::take(&mut self.jobs);
        let all = async {
            for job in jobs {
                job.await;
            }
        };
        if timeout(FINISH_MAX, all).await.is_err() {
            let what = format!(
                "some client did not finish within {FINISH_MAX:?} after the trouble\n{}",
                self.server
            );
            self.model.borrow_mut().blame(what);
        }
        if let Some(guest) = self.guest.take() {
            guest.end(&self.server, &self.model).await;
        }
        self.verdict()?;
        self.server.node.power_cut();
        self.server_crashed(Duration::from_secs(1)).await;
        let to = self.server.address();
        let last = Node::new();
        let look = match self.protocol {
            Protocol::Nfs(transport) => {
                last.spawn(nfs::last_look((transport, to), self.expectations.clone()))
            }
            protocol => last.spawn(client::last_look((protocol, to), self.model.clone())),
        };
        if timeout(FINISH_MAX, look).await.is_err() {
            self.model
                .borrow_mut()
                .blame("the last look did not finish".into());
        }
        self.verdict()
    }
}
