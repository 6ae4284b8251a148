//! A whole system: a target over a raw disk, clients with initiators on other machines, and trouble between them.
//!
//! **Owns** the course of a run. All clients share one namespace and one model, so every read of one is checked
//! against the writes of all.

mod client;
mod plan;
mod server;

use crate::Report;
use crate::model::{Model, Violation};
use crate::store::Wrap;
use crate::workload::verify_all;
use io::rng::Prng;
use io::sim::{Node, SimDisk, network, remark};
use io::time::sleep;
use io::{spawn, timeout};
use plan::{Plan, Trouble};
use server::Server;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// How long all clients may take once the trouble is over: reconnects, time limits of commands, the slow disk.
const FINISH_MAX: Duration = Duration::from_secs(1800);
/// Blocks per read of the last look.
const VERIFY_BLOCKS: u64 = 32;

/// How clients reach the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// NVMe/TCP.
    Nvme,
    /// iSCSI.
    Iscsi,
}

/// What a run works with.
struct Run {
    protocol: Protocol,
    plan: Plan,
    rng: Prng,
    server: Server,
    disk: SimDisk,
    clients: Vec<Node>,
    jobs: Vec<io::JoinHandle<()>>,
    model: Rc<RefCell<Model>>,
    crashes: u64,
}

/// Runs inside the simulation that is running. Errors: what must not have happened.
pub async fn run(seed: u64, wrap: Wrap, protocol: Protocol) -> Result<Report, Violation> {
    let mut rng = Prng::new(seed ^ 0x5e57_e300);
    let plan = Plan::new(&mut rng);
    let server = Server::new(&plan, wrap, protocol);
    let disk = server.create_disk(&plan);
    let blocks = plan.disk.size / u64::from(plan.disk.logical_block);
    let model = Rc::new(RefCell::new(Model::new(plan.disk.logical_block, blocks)));
    server.start();
    let clients: Vec<Node> = plan.clients.iter().map(|_| Node::new()).collect();
    let mut run = Run {
        protocol,
        plan,
        rng,
        server,
        disk,
        clients,
        jobs: Vec::new(),
        model,
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
        let work = client::work(
            i,
            (self.protocol, self.server.address()),
            self.plan.clients[i].clone(),
            self.model.clone(),
            self.rng.u64(),
        );
        self.jobs.push(self.clients[i].spawn(work));
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
                sleep(lasts).await;
                self.server.start();
            }
            Trouble::Stall { by } => self.disk.stall_next(by),
            Trouble::Errors { lasts } => {
                self.disk.error_rates(0.2, 0.2, 0.2);
                sleep(lasts).await;
                self.disk.heal();
            }
            Trouble::Full { lasts } => {
                self.disk.set_space(Some(self.disk.used() / 2));
                sleep(lasts).await;
                self.disk.heal();
            }
            Trouble::Grow => {
                let bytes = self.disk.size() + 16 * u64::from(self.plan.disk.logical_block);
                self.disk.set_size(bytes);
                self.model
                    .borrow_mut()
                    .grow(bytes / u64::from(self.plan.disk.logical_block));
                self.server.refresh().await;
            }
            Trouble::Bounce { lasts } => self.server.bounce_namespace(lasts).await,
        }
    }

    async fn server_crashed(&mut self, lasts: Duration) {
        self.crashes += 1;
        self.model.borrow_mut().crash();
        sleep(lasts).await;
        self.server.node.power_on();
        self.server.start();
    }

    /// Ends the trouble, lets all clients finish, cuts the power once more and looks at everything.
    async fn finish(&mut self) -> Result<(), Violation> {
        self.disk.heal();
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
        self.verdict()?;
        self.server.node.power_cut();
        self.server_crashed(Duration::from_secs(1)).await;
        let (model, to) = (self.model.clone(), (self.protocol, self.server.address()));
        let last = Node::new();
        let look = last.spawn(async move {
            match client::connect(99, to, &client::Wants::default()).await {
                client::Connected::Nvme(remote, _controller) => {
                    verify_all(&remote, &model, VERIFY_BLOCKS).await;
                }
                client::Connected::Iscsi(remote, _session) => {
                    verify_all(&remote, &model, VERIFY_BLOCKS).await;
                }
            }
        });
        if timeout(FINISH_MAX, look).await.is_err() {
            self.model
                .borrow_mut()
                .blame("the last look did not finish".into());
        }
        self.verdict()
    }
}
