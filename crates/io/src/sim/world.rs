//! The simulated world: entry points for the driver and the handles of sockets and disks.

use super::core::{Core, Holder};
use super::disk::Disks;
use super::event::{Event, nanos};
use super::net::Net;
use super::verbs::Verbs;
use super::{DiskId, SimConfig, SocketId};
use crate::Result;
use crate::disk::{DiskInfo, OpenOptions};
use crate::net::{TcpInfo, TcpOptions};
use crate::runtime::{Completion, NodeId, Op, OpTable};
use std::cell::Cell;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// Readings of the clock within one turn of the executor after which the run panics as a livelock: a task spins.
const READS_MAX: u64 = 1 << 23;

/// The state of the world that all simulated nodes share.
pub struct World {
    pub(super) core: Core,
    pub(super) net: Net,
    pub(super) disks: Disks,
    pub(super) verbs: Verbs,
    crashed: Vec<NodeId>,
    /// Readings of the clock since the driver was entered last.
    reads: Cell<u64>,
}

impl World {
    pub(super) fn new(seed: u64, config: SimConfig) -> World {
        let core = Core::new(seed, config);
        World {
            core,
            net: Net::default(),
            disks: Disks::default(),
            verbs: Verbs::default(),
            crashed: Vec::new(),
            reads: Cell::new(0),
        }
    }

    /// The present time.
    pub(super) fn clock(&self) -> u64 {
        self.core.clock + self.reads.get() * nanos(self.core.config.read_cost)
    }

    /// Reads the clock for a task, which takes the task the time of a reading.
    pub(super) fn read_clock(&self) -> u64 {
        self.reads.set(self.reads.get() + 1);
        assert!(
            self.reads.get() < READS_MAX,
            "livelock: a task reads the clock {READS_MAX} times without an await"
        );
        self.clock()
    }

    pub(super) fn random(&mut self, out: &mut [u8]) {
        self.core.entropy.fill(out);
    }

    pub(super) fn choose(&mut self, n: usize) -> usize {
        self.core.schedule.below(n as u64) as usize
    }

    pub(super) fn take_crashed(&mut self) -> Vec<NodeId> {
        std::mem::take(&mut self.crashed)
    }

    /// Removes `node` from the list of crashed nodes: its tasks were dropped already.
    pub(super) fn forget_crash(&mut self, node: NodeId) {
        self.crashed.retain(|n| *n != node);
    }

    /// Starts an operation.
    pub(super) fn start(&mut self, key: usize, ops: &mut OpTable) {
        let core = &mut self.core;
        let socket = match ops.get_mut(key) {
            Op::Accept { socket, .. } | Op::Connect { socket, .. } => Some(socket.sim().id()),
            Op::Recv { socket, .. } | Op::Send { socket, .. } => Some(socket.sim().id()),
            Op::Readable { .. } => unreachable!("a simulated world has no descriptors"),
            Op::Read { .. } | Op::Write { .. } | Op::Flush { .. } | Op::Zero { .. } => None,
        };
        if let Some(id) = socket {
            core.trace
                .note(core.clock, "socket op", key as u64, u64::from(id.0));
            core.pending.insert(key, Holder::Socket(id));
            self.net.start(core, key, id, ops);
            return;
        }
        if let Some(node) = self.disks.start(core, key, ops.get_mut(key)) {
            self.power_cut(node);
        }
    }

    /// Cancels operation `key`, which no task awaits any longer.
    pub(super) fn cancel(&mut self, key: usize) {
        match self.core.pending.get(&key) {
            Some(Holder::Socket(id)) => {
                self.net.cancel(*id, key);
                self.core.end_later(key);
            }
            Some(Holder::Disk { serial }) => {
                let serial = *serial;
                self.disks.cancel(&mut self.core, serial);
            }
            None => {}
        }
    }

    /// Handles events until an operation completes, at most for `timeout`.
    pub(super) fn advance(
        &mut self,
        timeout: Option<Duration>,
        ops: &mut OpTable,
        done: &mut Vec<Completion>,
    ) {
        let turn = nanos(self.core.config.turn_cost);
        self.core.clock = self.clock();
        self.reads.set(0);
        let until = timeout.map(|t| self.core.clock.saturating_add(nanos(t).max(turn)));
        self.core.clock += turn;
        loop {
            while let Some(event) = self.core.take_due() {
                self.happen(event, ops);
            }
            let is_woken = std::mem::take(&mut self.core.woken);
            if is_woken || !self.core.ready.is_empty() || !self.crashed.is_empty() {
                break;
            }
            let next = match (self.core.next_at(), until) {
                (Some(at), Some(until)) => at.min(until),
                (Some(at), None) => at,
                (None, Some(until)) => until,
                (None, None) => panic!(
                    "deadlock: no task can run, no event is to come, {} operations wait for ever",
                    self.core.pending.len()
                ),
            };
            self.core.clock = self.core.clock.max(next);
            self.check_livelock();
            if until.is_some_and(|u| self.core.clock >= u)
                && self.core.next_at().is_none_or(|at| at > next)
            {
                break;
            }
        }
        done.append(&mut self.core.ready);
    }

    fn check_livelock(&self) {
        let c = &self.core;
        assert!(
            c.clock < nanos(c.config.time_max),
            "livelock: the run does not end in {:?}",
            c.config.time_max
        );
        assert!(
            c.happened < c.config.events_max,
            "livelock: the run does not end in {} events",
            c.happened
        );
    }

    fn happen(&mut self, event: Event, ops: &mut OpTable) {
        match event {
            Event::Net(e) => self.net.happen(&mut self.core, e, ops),
            Event::Disk(e) => {
                if let Some(node) = self.disks.happen(&mut self.core, e, ops) {
                    self.power_cut(node);
                }
            }
            Event::Verbs(e) => self.verbs.happen(&mut self.core, &self.net.links, e),
            Event::End { key } => self.core.complete(key, -libc::ECANCELED),
        }
    }

    /// Cuts the power of a node: its sockets vanish without notice to their peers, and its disks lose unflushed writes as the
    /// seed decides. Its tasks are dropped before any of them runs again.
    pub(super) fn power_cut(&mut self, node: NodeId) {
        let power = &mut self.core.nodes[node as usize];
        if power.off {
            return;
        }
        power.off = true;
        power.cut_after = None;
        self.core
            .trace
            .note(self.core.clock, "power cut", u64::from(node), 0);
        self.net.power_cut(&mut self.core, node);
        self.disks.power_cut(&mut self.core, node);
        self.verbs.power_cut(node);
        self.crashed.push(node);
    }

    pub(super) fn power_on(&mut self, node: NodeId) {
        self.core.nodes[node as usize].off = false;
        self.core
            .trace
            .note(self.core.clock, "power on", u64::from(node), 0);
        self.unblock();
    }

    /// Called when links healed or nodes returned: what waits for them goes on.
    pub(super) fn unblock(&mut self) {
        self.net.unblock(&mut self.core);
        self.verbs.unblock(&mut self.core, &self.net.links);
    }

    pub(super) fn listen(
        &mut self,
        node: NodeId,
        addr: SocketAddr,
    ) -> Result<(SocketId, SocketAddr)> {
        self.net.listen(node, addr)
    }

    pub(super) fn new_socket(&mut self, node: NodeId) -> SocketId {
        self.net.new_socket(node)
    }

    pub(super) fn addresses(&self, id: SocketId) -> Result<(SocketAddr, SocketAddr)> {
        self.net.addresses(id)
    }

    pub(super) fn bind_privileged(&mut self, id: SocketId) -> Result<()> {
        self.net.bind_privileged(id)
    }

    pub(super) fn set_options(&mut self, id: SocketId, options: &TcpOptions) {
        self.net.set_options(&mut self.core, id, options);
    }

    pub(super) fn tcp_info(&self, id: SocketId) -> Result<TcpInfo> {
        self.net.info(&self.core, id)
    }

    pub(super) fn close(&mut self, id: SocketId) {
        self.net.close(&mut self.core, id);
    }

    pub(super) fn shutdown(&mut self, id: SocketId) {
        self.net.shutdown(&mut self.core, id);
    }

    pub(super) fn open_disk(
        &mut self,
        node: NodeId,
        path: &Path,
        o: &OpenOptions,
    ) -> Result<(DiskId, DiskInfo)> {
        self.disks.open(node, path, o)
    }

    pub(super) fn close_disk(&mut self, id: DiskId) {
        self.disks.close(id);
    }

    pub(super) fn disk_size(&mut self, id: DiskId) -> Result<u64> {
        self.disks.size(id)
    }

    pub(super) fn disk_used(&mut self, id: DiskId) -> Result<u64> {
        self.disks.used(id)
    }

    pub(super) fn reserve_disk(&mut self, id: DiskId, offset: u64, len: u64) -> Result<()> {
        self.disks.reserve(id, offset, len)
    }

    pub(super) fn resize_disk(&mut self, id: DiskId, size: u64) -> Result<()> {
        self.disks.resize(id, size)
    }
}
