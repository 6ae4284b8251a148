//! Namespace views: the namespaces of a controller as one connection sees them.
//!
//! **Owns** the list of namespaces and the access of the connection's host. **Called by** the commands. **Invariants**: the
//! data path takes no lock while neither the namespaces nor their reservations change.

use super::namespace::Namespace;
use super::reservation::Access;
use super::subsystem::Subsystem;
use crate::wire::command::Nsid;
use crate::wire::nqn::HostId;
use crate::wire::status::Status;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// A namespace as one connection sees it.
pub(crate) struct NamespaceView {
    pub(crate) ns: Arc<Namespace>,
    host: HostId,
    epoch: Cell<u64>,
    access: Cell<Access>,
}

impl NamespaceView {
    /// The view of `host`.
    pub(crate) fn new(ns: Arc<Namespace>, host: HostId) -> NamespaceView {
        NamespaceView {
            ns,
            host,
            epoch: Cell::new(0),
            access: Cell::new(Access::FULL),
        }
    }

    /// The access that the reservations give this connection's host now.
    #[inline]
    pub(crate) fn access(&self) -> Access {
        let epoch = self.ns.epoch();
        if epoch != self.epoch.get() {
            // Read before the lock is taken: a later change is seen as a new epoch.
            self.access.set(self.ns.reservations().access(self.host));
            self.epoch.set(epoch);
        }
        self.access.get()
    }
}

/// The namespaces of one controller, as one connection sees them.
#[derive(Default)]
pub(crate) struct NamespaceViews {
    /// By namespace ID, from 1 on.
    views: Vec<Option<Rc<NamespaceView>>>,
    generation: u64,
}

impl NamespaceViews {
    /// The view of a namespace. Errors: Invalid Namespace.
    #[inline]
    pub(crate) fn get(&self, nsid: Nsid) -> Result<Rc<NamespaceView>, Status> {
        let index = (nsid.0 as usize).wrapping_sub(1);
        match self.views.get(index) {
            Some(Some(view)) => Ok(view.clone()),
            _ => Err(Status::INVALID_NAMESPACE.dnr()),
        }
    }

    /// All views, by namespace ID.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Rc<NamespaceView>> {
        self.views.iter().flatten()
    }

    /// Brings the views up to date with the subsystem, for `host`. Costs one atomic while its namespaces do not change.
    pub(crate) fn refresh(&mut self, subsystem: &Subsystem, host: HostId) {
        let generation = subsystem.generation();
        if generation == self.generation {
            return;
        }
        let now = subsystem.namespaces();
        let len = now.keys().next_back().map_or(0, |id| *id as usize);
        let mut views: Vec<Option<Rc<NamespaceView>>> = vec![None; len];
        for (id, ns) in now.iter() {
            let slot = &mut views[*id as usize - 1];
            let known = self.views.get(*id as usize - 1).and_then(Option::as_ref);
            *slot = match known {
                Some(v) if Arc::ptr_eq(&v.ns, ns) => Some(v.clone()),
                _ => Some(Rc::new(NamespaceView::new(ns.clone(), host))),
            };
        }
        self.views = views;
        self.generation = generation;
    }
}
