//! Connect (Base 6.3): a connection becomes a queue.
//!
//! **Called by** the dispatcher, before there is a queue. **Invariants**: a connection becomes a queue with one Connect and stays
//! that queue; a refused Connect names the parameter that is wrong (Base figure 382).

use super::association::{Association, ControllerKind, ControllerQueue, NotJoined};
use super::command::Command;
use super::config::PortRole;
use super::exchange::Exchange;
use super::features::grant_keep_alive;
use super::framing::AnyFraming;
use super::limits::ADMIN_DEPTH_MAX;
use super::phase::Core;
use super::queue_handle::{QueueHandle, TIMER};
use super::shared::Unavailable;
use super::status::Completion;
use crate::wire::fabrics::{
    CNTLID_DYNAMIC, Connect, ConnectAccepted, ConnectAttributes, ConnectData, ConnectFault,
};
use crate::wire::nqn::Nqn;
use crate::wire::pdu::Digests;
use crate::wire::status::Status;
use session::HostKey;
use session::refused::{RefusalReason, RefusedHost};
use session::signal::INFO;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A Connect that is refused.
struct Refusal {
    status: Status,
    /// DW1:DW0.
    result: u64,
    /// The reason, for the log.
    why: &'static str,
}

impl Refusal {
    fn parameter(fault: ConnectFault, why: &'static str) -> Refusal {
        Refusal {
            status: fault.status(),
            result: fault.to_result(),
            why,
        }
    }

    /// A limit is reached; the host may try again later.
    fn busy(why: &'static str) -> Refusal {
        Refusal {
            status: Status::CONNECT_CONTROLLER_BUSY,
            result: 0,
            why,
        }
    }

    /// The subsystem does not exist or is forbidden. The answer is the same, so that strangers learn no names.
    fn hidden(why: &'static str) -> Refusal {
        Refusal::parameter(ConnectFault::data(ConnectData::SUBNQN_OFFSET), why)
    }

    fn status(status: Status, why: &'static str) -> Refusal {
        Refusal {
            status: status.dnr(),
            result: 0,
            why,
        }
    }
}

impl Core {
    /// Connect (Base 6.3).
    pub(super) fn connect(&mut self, command: Command, asked: Connect, data: &[u8]) {
        let made = match ConnectData::parse(data) {
            Err(_) => Err(Refusal::status(
                Status::DATA_SGL_LENGTH_INVALID,
                "data too short",
            )),
            Ok(_) if asked.record_format != 0 => Err(Refusal::status(
                Status::CONNECT_INCOMPATIBLE_FORMAT,
                "unknown record format",
            )),
            Ok(_) if !self.is_announced(&asked) => Err(Refusal::parameter(
                ConnectFault::command(Connect::QID_OFFSET),
                "not the queue of the connection request",
            )),
            Ok(data) if asked.qid == 0 => self.connect_admin(&asked, &data),
            Ok(data) => self.connect_io(&asked, &data),
        };
        match made {
            Ok(queue) => self.accept(command, &asked, queue),
            Err(refusal) => self.refuse(command, &refusal, data),
        }
    }

    /// The connection becomes `queue`, and its Connect succeeds.
    fn accept(&mut self, command: Command, asked: &Connect, queue: ControllerQueue) {
        let address = self.common.link.peer().ip();
        let host = HostKey::named(queue.controller().host_nqn.as_str(), address);
        self.common.link.account().belongs_to(host);
        let attributes = asked.attributes;
        let flow_control = !attributes.contains(ConnectAttributes::NO_SQ_FLOW_CONTROL);
        let config = &self.common.target().config;
        let in_capsule = config.in_capsule(self.common.transport());
        let unsent_max = 2 * config.connection_budget;
        if let Some((exchange, _)) = self.exchange_mut() {
            exchange.become_queue(asked.sqsize.saturating_add(1), flow_control);
            if !queue.is_admin() {
                exchange.become_io_queue(in_capsule, unsent_max);
            }
        }
        self.become_queue(queue);
        let Some(mut ready) = self.ready() else {
            return command.abandon();
        };
        ready.refresh_namespaces();
        let controller = ready.queue.controller();
        controller.heard(ready.now().as_nanos());
        let accepted = ConnectAccepted {
            cntlid: controller.cntlid,
            auth_required: 0,
        };
        ready.complete(command, Completion::with_result(accepted.to_result()));
        self.common.link.signal().raise(INFO | TIMER);
    }

    fn refuse(&mut self, command: Command, refusal: &Refusal, data: &[u8]) {
        let counters = &self.common.target().counters;
        counters.refused_connects.fetch_add(1, Ordering::Relaxed);
        if self.common.may_log() {
            let names = ConnectData::parse(data).ok().and_then(|d| d.names().ok());
            let name = |nqn: Option<&Nqn>| nqn.map_or("unknown", Nqn::as_str).to_owned();
            let subsystem = name(names.as_ref().map(|(subsystem, _)| subsystem));
            let host = name(names.as_ref().map(|(_, host)| host));
            tracing::warn!(peer = %self.common.link.peer(), host, subsystem, why = refusal.why, status = %refusal.status, "connect refused");
        }
        let done = Completion::failed_with(refusal.status, refusal.result);
        self.complete(command, done);
    }

    /// Makes this connection the admin queue of a new controller.
    fn connect_admin(
        &mut self,
        asked: &Connect,
        data: &ConnectData,
    ) -> Result<ControllerQueue, Refusal> {
        let (subnqn, hostnqn) = data
            .names()
            .map_err(|(fault, _)| Refusal::parameter(fault, "not an NQN in the data"))?;
        if self.common.target().connections.is_draining() {
            return Err(Refusal::busy("shutting down"));
        }
        if data.cntlid.get() != CNTLID_DYNAMIC {
            let fault = ConnectFault::data(ConnectData::CNTLID_OFFSET);
            return Err(Refusal::parameter(
                fault,
                "only the dynamic controller model is offered",
            ));
        }
        if asked.sqsize == 0 || asked.sqsize >= ADMIN_DEPTH_MAX {
            let fault = ConnectFault::command(Connect::SQSIZE_OFFSET);
            return Err(Refusal::parameter(fault, "admin queue size out of range"));
        }
        let kind = if subnqn.is_discovery() {
            ControllerKind::Discovery
        } else if self.common.role() == PortRole::DiscoveryOnly {
            return Err(Refusal::hidden("no subsystems on this port"));
        } else {
            let subsystem = self.common.target().subsystem(&subnqn);
            let subsystem = subsystem.ok_or(Refusal::hidden("no such subsystem"))?;
            if !subsystem.allows(&hostnqn) {
                return Err(self.forbidden(&hostnqn, &subnqn));
            }
            if !subsystem.serves(self.common.transport()) {
                return Err(self.wrong_transport(&hostnqn, &subnqn));
            }
            // Base 5.27.1.25: a host identifier of zero names no host.
            if data.host_id.is_zero() {
                let fault = ConnectFault::data(ConnectData::HOSTID_OFFSET);
                return Err(Refusal::parameter(fault, "host identifier is zero"));
            }
            if subsystem.is_held() {
                return Err(Refusal::busy("its namespaces are being opened"));
            }
            ControllerKind::Io(subsystem)
        };
        let longest = self.common.target().config.keep_alive_max;
        let kato_ms = grant_keep_alive(asked.kato_ms, longest).ok_or(Refusal::status(
            Status::KEEP_ALIVE_INVALID,
            "keep alive timeout too long",
        ))?;
        let association = Association {
            kind,
            transport: self.common.transport(),
            host_nqn: hostnqn.clone(),
            host_id: data.host_id,
            kato_ms,
            reconnects: 0,
        };
        let handle = Arc::new(self.handle(asked));
        let target = self.common.target().clone();
        let controller = target
            .add_controller(
                association,
                &subnqn,
                handle.clone(),
                self.common.link.place(),
            )
            .map_err(|why| match why {
                Unavailable::Full => Refusal::busy("too many controllers or connections"),
                Unavailable::Forbidden => self.forbidden(&hostnqn, &subnqn),
                Unavailable::Transport => self.wrong_transport(&hostnqn, &subnqn),
            })?;
        Ok(ControllerQueue::new(controller, handle))
    }

    /// Makes this connection an I/O queue of a controller.
    fn connect_io(
        &mut self,
        asked: &Connect,
        data: &ConnectData,
    ) -> Result<ControllerQueue, Refusal> {
        let (subnqn, hostnqn) = data
            .names()
            .map_err(|(fault, _)| Refusal::parameter(fault, "not an NQN in the data"))?;
        let in_data = |offset, what| Refusal::parameter(ConnectFault::data(offset), what);
        let controller = self
            .common
            .target()
            .controller(data.cntlid.get())
            .ok_or_else(|| in_data(ConnectData::CNTLID_OFFSET, "no such controller"))?;
        let Some(subsystem) = controller.subsystem() else {
            let fault = ConnectFault::command(Connect::QID_OFFSET);
            return Err(Refusal::parameter(
                fault,
                "a discovery controller has no I/O queues",
            ));
        };
        if subsystem.nqn != subnqn {
            return Err(in_data(
                ConnectData::SUBNQN_OFFSET,
                "not the controller's subsystem",
            ));
        }
        if controller.host_nqn != hostnqn {
            return Err(in_data(
                ConnectData::HOSTNQN_OFFSET,
                "not the controller's host",
            ));
        }
        if controller.transport != self.common.transport() {
            return Err(in_data(
                ConnectData::CNTLID_OFFSET,
                "a controller of another transport",
            ));
        }
        if controller.host_id != data.host_id {
            return Err(in_data(
                ConnectData::HOSTID_OFFSET,
                "not the controller's host identifier",
            ));
        }
        if asked.sqsize == 0 || asked.sqsize >= self.queue_depth_max() {
            let fault = ConnectFault::command(Connect::SQSIZE_OFFSET);
            return Err(Refusal::parameter(fault, "queue size out of range"));
        }
        let listed = subsystem.lists(&hostnqn);
        let handle = Arc::new(self.handle(asked));
        let mut state = controller.state();
        if asked.qid > state.features.io_queues() {
            let fault = ConnectFault::command(Connect::QID_OFFSET);
            return Err(Refusal::parameter(fault, "more queues than granted"));
        }
        state.join(handle.clone()).map_err(|why| match why {
            NotJoined::Ending => in_data(ConnectData::CNTLID_OFFSET, "the controller is ending"),
            NotJoined::NotReady => {
                Refusal::status(Status::COMMAND_SEQUENCE_ERROR, "controller not enabled")
            }
            NotJoined::Taken => {
                Refusal::status(Status::COMMAND_SEQUENCE_ERROR, "queue exists already")
            }
        })?;
        drop(state);
        if self.common.link.place().established(listed, false).is_err() {
            controller.remove_queue(asked.qid, &handle);
            return Err(Refusal::busy("too many connections"));
        }
        Ok(ControllerQueue::new(controller, handle))
    }

    /// The host is not on the subsystem's list: answered as [`Refusal::hidden`], counted as forbidden and remembered.
    fn forbidden(&self, host: &Nqn, subsystem: &Nqn) -> Refusal {
        let target = self.common.target();
        let counters = &target.counters;
        counters.forbidden_connects.fetch_add(1, Ordering::Relaxed);
        self.note_refused(host, subsystem, RefusalReason::NotListed);
        Refusal::hidden("host is not on the list")
    }

    /// The subsystem is not served over this transport: no port of the transport has it, so the answer is [`Refusal::hidden`].
    fn wrong_transport(&self, host: &Nqn, subsystem: &Nqn) -> Refusal {
        self.note_refused(host, subsystem, RefusalReason::Transport);
        Refusal::hidden("the subsystem is not served over this transport")
    }

    fn note_refused(&self, host: &Nqn, subsystem: &Nqn, reason: RefusalReason) {
        let host = RefusedHost {
            name: host.as_str().to_owned(),
            address: self.common.link.peer().ip(),
            export: subsystem.as_str().to_owned(),
        };
        let refused = &self.common.target().connections.refused;
        refused.note(host, reason);
    }

    /// Most entries of an I/O queue.
    fn queue_depth_max(&self) -> u16 {
        let config = &self.common.target().config;
        config.queue_depth(self.common.transport())
    }

    /// Whether a Connect names the queue for which the connection was made. A connection over TCP was made for any.
    fn is_announced(&self, asked: &Connect) -> bool {
        match self.exchange().map(Exchange::framing) {
            Some(AnyFraming::Rdma(rdma)) => rdma.announced(asked.qid, asked.sqsize),
            Some(AnyFraming::Tcp(_)) | None => true,
        }
    }

    /// The queue's handle for the control plane and other queues.
    fn handle(&self, asked: &Connect) -> QueueHandle {
        let size = asked.sqsize.saturating_add(1);
        let link = &self.common.link;
        let digests = self
            .exchange()
            .map_or(Digests::default(), |x| x.framing().digests());
        QueueHandle::new(
            (asked.qid, size),
            (link.peer(), link.local()),
            digests,
            link.signal().clone(),
        )
    }
}
