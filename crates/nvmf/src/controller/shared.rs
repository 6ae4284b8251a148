//! Shared state of a target: subsystems, controllers, ports, and the register of connections.
//!
//! **Owns** which subsystems and controllers exist. **Called by** the control calls of [`super::Target`] and by connections
//! when they connect and end. **Invariants**: access is decided under the lock that a change of access takes next, so a change
//! either precedes a new controller or sees it; the data path takes no lock.

use super::association::{Association, Controller, ControllerKind, ControllerQueue};
use super::config::{PortInfo, Referral, TargetConfig};
use super::counters::{CloseReason, ConnectionState, CounterSet};
use super::events::EventKind;
use super::limits::{CONTROLLERS_MAX, HOSTS_REMEMBERED_MAX};
use super::queue_handle::QueueHandle;
use super::subsystem::Subsystem;
use crate::wire::nqn::{HostId, Nqn};
use io::sync::lock;
use session::admission::{NoPlace, Place};
use session::connections::Connections;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// The state that all connections of a target share.
pub(crate) struct TargetShared {
    pub(crate) config: TargetConfig,
    pub(crate) counters: CounterSet,
    state: Mutex<Registry>,
    pub(crate) connections: Connections<ConnectionState, CloseReason>,
}

/// Subsystems, controllers and ports.
#[derive(Default)]
pub(crate) struct Registry {
    pub(crate) subsystems: BTreeMap<Nqn, Arc<Subsystem>>,
    controllers: BTreeMap<u16, Arc<Controller>>,
    last_cntlid: u16,
    pub(crate) ports: Vec<PortInfo>,
    pub(crate) referrals: Vec<Referral>,
    /// GENCTR of the discovery log.
    generation: u64,
    /// Connects of a host to a subsystem.
    connects: BTreeMap<(HostId, Nqn), u64>,
}

/// Why a controller cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unavailable {
    /// A limit of controllers or connections is reached.
    Full,
    /// The subsystem was removed, or the host taken off its list.
    Forbidden,
    /// The subsystem is not served over this transport.
    Transport,
}

impl From<NoPlace> for Unavailable {
    fn from(_: NoPlace) -> Unavailable {
        Unavailable::Full
    }
}

impl TargetShared {
    /// A target without subsystems.
    pub(crate) fn new(config: TargetConfig) -> TargetShared {
        let config = config.bounded();
        TargetShared {
            connections: Connections::new(config.admission()),
            config,
            counters: CounterSet::default(),
            state: Mutex::new(Registry {
                generation: 1,
                ..Registry::default()
            }),
        }
    }

    /// Locks the registry.
    pub(crate) fn registry(&self) -> MutexGuard<'_, Registry> {
        lock(&self.state)
    }

    /// A subsystem by name.
    pub(crate) fn subsystem(&self, nqn: &Nqn) -> Option<Arc<Subsystem>> {
        self.registry().subsystems.get(nqn).cloned()
    }

    /// A controller by its ID.
    pub(crate) fn controller(&self, cntlid: u16) -> Option<Arc<Controller>> {
        self.registry().controllers.get(&cntlid).cloned()
    }

    /// All controllers.
    pub(crate) fn controllers(&self) -> Vec<Arc<Controller>> {
        self.registry().controllers.values().cloned().collect()
    }

    /// The controllers of a subsystem; none of `None`.
    pub(crate) fn controllers_of_subsystem(
        &self,
        subsystem: Option<&Arc<Subsystem>>,
    ) -> Vec<Arc<Controller>> {
        let Some(subsystem) = subsystem else {
            return Vec::new();
        };
        let mut all = self.controllers();
        all.retain(|c| c.subsystem().is_some_and(|s| Arc::ptr_eq(s, subsystem)));
        all
    }

    /// IDs of the controllers of the subsystem of this name.
    pub(crate) fn controllers_of(&self, nqn: &Nqn) -> Vec<u16> {
        let subsystem = self.subsystem(nqn);
        self.controllers_of_subsystem(subsystem.as_ref())
            .iter()
            .map(|c| c.cntlid)
            .collect()
    }

    /// Tells the admission whether an access list exists.
    pub(crate) fn lists_changed(&self) {
        let state = self.registry();
        let listed = state.subsystems.values().any(|s| s.has_list());
        self.connections.admission.set_reserving(listed);
    }

    /// Makes a controller with its admin queue, and takes its place among the connections. Access is decided here, under the
    /// lock that a change of access takes next: either this call sees the change, or the change sees the new controller.
    /// Errors: `Full`, `Forbidden`, `Transport`.
    pub(crate) fn add_controller(
        &self,
        mut association: Association,
        subnqn: &Nqn,
        admin: Arc<QueueHandle>,
        place: &mut Place,
    ) -> std::result::Result<Arc<Controller>, Unavailable> {
        let mut state = self.registry();
        if state.controllers.len() >= usize::from(CONTROLLERS_MAX) {
            return Err(Unavailable::Full);
        }
        match &association.kind {
            ControllerKind::Discovery => place.discovery()?,
            ControllerKind::Io(subsystem) => {
                let current = state.subsystems.get(subnqn);
                if !current.is_some_and(|s| Arc::ptr_eq(s, subsystem)) {
                    return Err(Unavailable::Forbidden);
                }
                if !subsystem.allows(&association.host_nqn) {
                    return Err(Unavailable::Forbidden);
                }
                if !subsystem.serves(association.transport) {
                    return Err(Unavailable::Transport);
                }
                let listed = subsystem.lists(&association.host_nqn);
                let others = state.controllers.values();
                let others = others.filter(|c| c.subsystem().is_some()).count();
                let most = self.config.controllers_max;
                if !self.connections.admission.has_room(others, most, listed) {
                    return Err(Unavailable::Full);
                }
                place.established(listed, true)?;
            }
        }
        // IDs are not used again soon, so that a late I/O queue does not find the controller of another host.
        let mut cntlid = state.last_cntlid;
        loop {
            cntlid = if cntlid >= CONTROLLERS_MAX {
                1
            } else {
                cntlid + 1
            };
            if !state.controllers.contains_key(&cntlid) {
                break;
            }
        }
        state.last_cntlid = cntlid;
        let host = (association.host_id, subnqn.clone());
        if state.connects.len() >= HOSTS_REMEMBERED_MAX && !state.connects.contains_key(&host) {
            state.connects.pop_first();
        }
        let connects = state.connects.entry(host).or_default();
        association.reconnects = *connects;
        *connects += 1;
        let controller = Arc::new(Controller::new(
            cntlid,
            association,
            self.config.io_queues_max,
        ));
        controller.state().queues.insert(0, admin);
        state.controllers.insert(cntlid, controller.clone());
        Ok(controller)
    }

    /// A queue's connection has ended. The controller ends with its admin queue.
    pub(crate) fn queue_closed(&self, queue: &ControllerQueue, why: CloseReason) {
        let controller = queue.controller();
        queue.leave();
        if queue.is_admin() {
            self.registry().controllers.remove(&controller.cntlid);
            match why {
                // The I/O queues drain by themselves.
                CloseReason::Drained => controller.end(),
                CloseReason::KeepAlive | CloseReason::Administrator => controller.close_all(why),
                _ => controller.close_all(CloseReason::ControllerEnded),
            }
        }
    }

    /// Generation, ports, referrals and subsystems, for the discovery log.
    pub(crate) fn discovery(&self) -> (u64, Vec<PortInfo>, Vec<Referral>, Vec<Arc<Subsystem>>) {
        let s = self.registry();
        (
            s.generation,
            s.ports.clone(),
            s.referrals.clone(),
            s.subsystems.values().cloned().collect(),
        )
    }

    /// The discovery log changed: hosts that stay connected are told (Base 8.5.3).
    pub(crate) fn discovery_changed(&self) {
        self.registry().generation += 1;
        for c in self.controllers() {
            if matches!(c.kind, ControllerKind::Discovery) {
                c.raise(EventKind::DiscoveryChanged);
            }
        }
    }
}
