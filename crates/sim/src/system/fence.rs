//! Scenario `fence`: persistent reservations (NVMe Base 8.19). Hosts register, reserve, preempt, read and write, one after
//! the other.
//!
//! **Owns** the course of the scenario and the rules that it checks. **Called by** `run`. **Invariants** that it checks: each
//! command succeeds or fails with a reservation conflict, as the registrations and the reservation of earlier commands
//! demand; with persistence through power loss both survive the server's crashes, without it neither does.

use super::client::{self, Connected, Wants, connect};
use super::plan::Plan;
use super::protocol::Protocol;
use super::server::Server;
use crate::Report;
use crate::model::Violation;
use crate::store::Wrap;
use io::rng::Prng;
use io::sim::{Node, remark};
use io::time::sleep;
use nvmf::wire::reservation::{
    AcquireAction, PersistChange, RegisterAction, ReleaseAction, ReservationType,
};
use nvmf::wire::status::Status;
use nvmf_initiator::{Controller, Error, Namespace, Transport, WriteOptions};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Number of hosts.
const HOSTS: usize = 3;
/// Most commands of a run.
const COMMANDS_MAX: u64 = 60;
/// Mean number of commands between two crashes of the server.
const CRASH_EVERY: u64 = 8;

const KINDS: [ReservationType; 4] = [
    ReservationType::WriteExclusive,
    ReservationType::ExclusiveAccess,
    ReservationType::WriteExclusiveRegistrants,
    ReservationType::ExclusiveAccessRegistrants,
];

/// Registrations and the reservation that result from the answered commands.
#[derive(Debug, Default)]
struct Rules {
    /// The key of each registered host.
    keys: [Option<u64>; HOSTS],
    holder: Option<(usize, ReservationType)>,
    persist: bool,
}

impl Rules {
    /// Whether a host may read, or write (Base figure 457, NVM figure 22).
    fn may_access(&self, who: usize, writes: bool) -> bool {
        let Some((holder, kind)) = self.holder else {
            return true;
        };
        let is_registered = self.keys[who].is_some();
        match kind {
            ReservationType::WriteExclusive => !writes || who == holder,
            ReservationType::ExclusiveAccess => who == holder,
            ReservationType::WriteExclusiveRegistrants => !writes || is_registered,
            _ => is_registered,
        }
    }

    fn unregister(&mut self, who: usize) {
        self.keys[who] = None;
        if self.holder.is_some_and(|(holder, _)| holder == who) {
            self.holder = None;
        }
    }

    fn crash(&mut self) {
        if !self.persist {
            *self = Rules::default();
        }
    }
}

/// A host and its connection.
struct Host {
    node: Node,
    namespace: Rc<Namespace>,
    _controller: Controller,
}

/// A host's command, with the result that the rules demand.
#[derive(Debug, Clone, Copy)]
enum Command {
    Register(u64),
    Unregister(u64),
    Acquire(u64, ReservationType),
    Preempt(u64, u64, ReservationType),
    Release(u64, ReservationType),
    Read,
    Write,
}

/// Chooses a command of a host and applies it to the rules. Returns the command, and whether it must succeed.
fn choose(rules: &mut Rules, who: usize, persist: bool, rng: &mut Prng) -> (Command, bool) {
    let kind = KINDS[rng.below(KINDS.len() as u64) as usize];
    let other = (who + 1 + rng.below(HOSTS as u64 - 1) as usize) % HOSTS;
    match (rng.below(10), rules.keys[who], rules.keys[other]) {
        (0 | 1, None, _) => {
            let key = 1 + rng.below(1 << 32);
            rules.keys[who] = Some(key);
            rules.persist |= persist;
            (Command::Register(key), true)
        }
        (0, Some(key), _) => {
            rules.unregister(who);
            (Command::Unregister(key), true)
        }
        (1 | 2, Some(key), _) if rules.holder.is_none() => {
            rules.holder = Some((who, kind));
            (Command::Acquire(key, kind), true)
        }
        (1, Some(key), _) if rules.holder.is_some_and(|(holder, _)| holder != who) => {
            (Command::Acquire(key, kind), false)
        }
        (2, Some(key), _) if rules.holder.is_some_and(|(holder, _)| holder == who) => {
            let (_, kind) = rules.holder.take().expect("it was just seen");
            (Command::Release(key, kind), true)
        }
        (3, Some(key), Some(victim)) => {
            let was_holder = rules.holder.is_some_and(|(holder, _)| holder == other);
            rules.unregister(other);
            if was_holder {
                rules.holder = Some((who, kind));
            }
            (Command::Preempt(key, victim, kind), true)
        }
        (3, None, Some(victim)) => (Command::Preempt(1, victim, kind), false),
        (4 | 5, ..) => (Command::Read, rules.may_access(who, false)),
        _ => (Command::Write, rules.may_access(who, true)),
    }
}

impl Host {
    async fn connect(who: usize, node: Node, server: &Server) -> Host {
        let to = (Protocol::Nvme(Transport::Tcp), server.address());
        let connected = node.spawn(async move { connect(who, to, &Wants::default()).await });
        match connected.await {
            Some(Connected::Nvme(remote, controller)) => Host {
                node,
                namespace: remote.0,
                _controller: controller,
            },
            _ => unreachable!("it was asked for over NVMe, and its machine is on"),
        }
    }

    async fn give(&self, command: Command, persist: bool) -> Result<(), Error> {
        let ns = self.namespace.clone();
        let given = self.node.spawn(async move {
            let keep = match persist {
                true => PersistChange::On,
                false => PersistChange::Keep,
            };
            match command {
                Command::Register(key) => {
                    let action = RegisterAction::Register;
                    ns.reservation_register(action, None, key, keep).await
                }
                Command::Unregister(key) => {
                    let action = RegisterAction::Unregister;
                    let keep = PersistChange::Keep;
                    ns.reservation_register(action, Some(key), 0, keep).await
                }
                Command::Acquire(key, kind) => {
                    let action = AcquireAction::Acquire;
                    ns.reservation_acquire(action, kind, key, 0).await
                }
                Command::Preempt(key, victim, kind) => {
                    let action = AcquireAction::Preempt;
                    ns.reservation_acquire(action, kind, key, victim).await
                }
                Command::Release(key, kind) => {
                    let action = ReleaseAction::Release;
                    ns.reservation_release(action, Some(kind), key).await
                }
                Command::Read => {
                    let buf = io::pool().alloc(ns.block_size() as usize).await;
                    ns.read(0, buf).await.0
                }
                Command::Write => {
                    let buf = io::pool().alloc(ns.block_size() as usize).await;
                    ns.write(0, Arc::new(buf), WriteOptions::default()).await
                }
            }
        });
        given.await.expect("its machine is on")
    }
}

/// Runs one seed inside the present simulation. Fails with the violation.
pub(super) async fn run(seed: u64, wrap: Wrap) -> Result<Report, Violation> {
    let mut rng = Prng::new(seed ^ 0x5e57_fe00);
    let plan = Plan::new(&mut rng);
    let server = Server::new(&plan, wrap, Protocol::Nvme(Transport::Tcp));
    server.start();
    let nodes: Vec<Node> = (0..HOSTS).map(|_| Node::new()).collect();
    let mut hosts: Vec<Option<Host>> = nodes.iter().map(|_| None).collect();
    let persist = rng.chance(0.7);
    let mut rules = Rules::default();
    let mut report = Report {
        answered: 0,
        crashes: 0,
        placements: pool::Placements::default(),
    };
    for _ in 0..rng.below(COMMANDS_MAX) {
        let who = rng.below(HOSTS as u64) as usize;
        if hosts[who].is_none() {
            hosts[who] = Some(Host::connect(who, nodes[who], &server).await);
        }
        let (command, is_allowed) = choose(&mut rules, who, persist, &mut rng);
        remark(|| format!("{} gives {command:?}", client::host(who)));
        let host = hosts[who].as_ref().expect("it is connected");
        let done = match host.give(command, persist).await {
            Ok(()) => true,
            Err(Error::Refused(status)) if status.is(Status::RESERVATION_CONFLICT) => false,
            Err(e) => {
                let what = format!("host {who}: {command:?} failed without a reason: {e}");
                return Err(Violation(what));
            }
        };
        report.answered += 1;
        if done != is_allowed {
            let what = match done {
                true => "was carried out",
                false => "was refused",
            };
            return Err(Violation(format!(
                "host {who}: {command:?} {what}, although {rules:?}"
            )));
        }
        if rng.below(CRASH_EVERY) == 0 {
            hosts.iter_mut().for_each(|host| *host = None);
            match rng.chance(0.5) {
                true => server.node.kill(),
                false => {
                    server.node.power_cut();
                    server.node.power_on();
                }
            }
            server.ended();
            sleep(Duration::from_millis(rng.below(1000))).await;
            server.start();
            rules.crash();
            report.crashes += 1;
        }
    }
    Ok(report)
}
