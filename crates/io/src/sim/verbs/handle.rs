//! Handles of simulated listeners and queue pairs.
//!
//! **Called by** [`crate::rdma`]. **Invariants**: `sim/absent.rs` has the same interface for a build without the feature `sim`; a dropped
//! handle closes its listener or queue pair.

use super::message::{CmMessage, ListenerId, QueuePairId, SharedId};
use super::table::Verbs;
use crate::Result;
use crate::rdma::{
    ConnectError, Exposed, Memory, NoRdma, QueuePairConfig, Raised, RdmaInfo, ReceiveBuffer,
    WorkRequest,
};
use crate::runtime::{NodeId, current, try_current};
use crate::sim::core::Core;
use crate::sim::net::Links;
use std::net::SocketAddr;
use std::ops::Deref;
use std::task::{Context, Poll};

/// A simulated listener.
pub(crate) struct SimulatedVerbsListener(ListenerId);

/// A message in a receive of a shared queue.
struct SimulatedReceive {
    of: SharedId,
    bytes: Vec<u8>,
}

impl Deref for SimulatedReceive {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for SimulatedReceive {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        on_devices(|v, _, _, _| v.post_shared(self.of, bytes));
    }
}

/// One end of a simulated connection.
pub(crate) struct SimulatedEndpoint {
    id: QueuePairId,
    local: SocketAddr,
    peer: SocketAddr,
}

/// Runs `call` on the devices of the world; `None` outside of a simulation.
fn on_devices<T>(call: impl FnOnce(&mut Verbs, &mut Core, &Links, NodeId) -> T) -> Option<T> {
    let rt = try_current()?;
    let node = rt.tasks.node();
    let mut driver = rt.driver.borrow_mut();
    let world = driver.sim()?;
    Some(call(
        &mut world.verbs,
        &mut world.core,
        &world.net.links,
        node,
    ))
}

/// Runs `call` on the devices of the world. Panics outside of a simulation, where there is no handle.
fn in_world<T>(call: impl FnOnce(&mut Verbs, &mut Core, &Links) -> T) -> T {
    let rt = current();
    let mut driver = rt.driver.borrow_mut();
    let world = driver.sim().expect("a simulated endpoint has a world");
    call(&mut world.verbs, &mut world.core, &world.net.links)
}

impl SimulatedVerbsListener {
    pub(crate) fn support() -> Option<std::result::Result<(), NoRdma>> {
        on_devices(|v, _, _, node| match v.removed.contains(&node) {
            true => Err(NoRdma::NoDevice),
            false => Ok(()),
        })
    }

    pub(crate) fn listen(addr: SocketAddr) -> Option<Result<(SimulatedVerbsListener, SocketAddr)>> {
        let listening = on_devices(|v, _, _, node| v.listen(node, addr))?;
        Some(listening.map(|(id, local)| (SimulatedVerbsListener(id), local)))
    }

    pub(crate) fn poll_arrived(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(SimulatedEndpoint, Vec<u8>)>> {
        in_world(|v, _, _| {
            v.poll_arrived(self.0, cx)
                .map_ok(|(id, private)| (SimulatedEndpoint::of(v, id), private))
        })
    }
}

impl Drop for SimulatedVerbsListener {
    fn drop(&mut self) {
        on_devices(|v, core, links, _| v.close_listener(core, links, self.0));
    }
}

impl SimulatedEndpoint {
    /// The handle of a queue pair, which has no other handle.
    fn of(verbs: &Verbs, id: QueuePairId) -> SimulatedEndpoint {
        let queue_pair = &verbs.queue_pairs[&id];
        SimulatedEndpoint {
            id,
            local: queue_pair.local,
            peer: queue_pair.remote,
        }
    }

    pub(crate) fn connect(
        addr: SocketAddr,
        config: QueuePairConfig,
        private: &[u8],
    ) -> Option<Result<SimulatedEndpoint>> {
        on_devices(|v, core, links, node| {
            let id = v.connect(core, links, (node, addr), config, private)?;
            Ok(SimulatedEndpoint::of(v, id))
        })
    }

    pub(crate) fn poll_connected(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<std::result::Result<Vec<u8>, ConnectError>> {
        in_world(|v, _, _| v.poll_connected(self.id, cx))
    }

    pub(crate) fn accept(&self, config: QueuePairConfig, private: &[u8]) -> Result<()> {
        in_world(|v, core, links| v.accept(core, links, self.id, config, private))
    }

    pub(crate) fn poll_established(&self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        in_world(|v, _, _| v.poll_established(self.id, cx))
    }

    pub(crate) fn reject(&self, private: &[u8]) {
        let said = CmMessage::Rejected(private.to_vec());
        on_devices(|v, core, links, _| v.reject(core, links, self.id, said));
    }

    pub(crate) fn addresses(&self) -> (SocketAddr, SocketAddr) {
        (self.local, self.peer)
    }

    pub(crate) fn info(&self) -> RdmaInfo {
        in_world(|v, _, _| v.info(self.id))
    }

    pub(crate) fn post(&self, chain: &mut Vec<WorkRequest>) {
        in_world(|v, core, links| v.post(core, links, self.id, chain));
    }

    pub(crate) fn post_receive(&self, buffer: Vec<u8>) {
        on_devices(|v, _, _, _| v.post_receive(self.id, buffer));
    }

    pub(crate) fn expose(&self, memory: Memory) -> std::result::Result<Exposed, Memory> {
        in_world(|v, core, _| v.expose(core, self.id, memory))
    }

    pub(crate) fn poll_event(&self, cx: &mut Context<'_>) -> Poll<Raised> {
        let (event, shared) = in_world(|v, _, _| {
            let shared = v.queue_pairs.get(&self.id).and_then(|q| q.shared());
            (v.poll_event(self.id, cx), shared)
        });
        // The devices have the bytes; the receive that returns when it is dropped is made outside of them.
        event.map(|event| match (event, shared) {
            (Ok((ReceiveBuffer::Heap(bytes), withdrawn)), Some(of)) => {
                let receive = SimulatedReceive { of, bytes };
                Ok((ReceiveBuffer::Shared(Box::new(receive)), withdrawn))
            }
            (event, _) => event,
        })
    }

    pub(crate) fn disconnect(&self) {
        in_world(|v, core, links| v.disconnect(core, links, self.id));
    }
}

impl Drop for SimulatedEndpoint {
    fn drop(&mut self) {
        on_devices(|v, core, links, _| v.close(core, links, self.id));
    }
}
