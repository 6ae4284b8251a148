//! Fabrics commands (Base 6): Connect, Property Get and Set, Disconnect.
//!
//! **Called by** the dispatcher. **Invariants**: a connection becomes a queue with one Connect and stays that queue;
//! a refused Connect names the parameter that is wrong (Base figure 382).

use super::Unavailable;
use super::association::{
    Association, Controller, ControllerKind, NotJoined, QueueHandle, Shutdown, TIMER,
};
use super::config::PortRole;
use super::connection::{Core, Queue};
use super::counters::{CloseReason, ConnectionState};
use super::io_commands::{Input, flush_all};
use super::limits::{ADMIN_DEPTH_MAX, READY_TIMEOUT_500MS};
use super::status::Completion;
use crate::wire::command::Sqe;
use crate::wire::fabrics::{
    CNTLID_DYNAMIC, CONNECT_DATA_LEN, Cap, Cc, Connect, ConnectAccepted, ConnectAttributes,
    ConnectData, ConnectFault, Csts, Property, VERSION_2_0, disconnect_record_format, property,
};
use crate::wire::nqn::Nqn;
use crate::wire::opcode::fabrics;
use crate::wire::status::Status;
use io::spawn;
use session::HostKey;
use session::signal::INFO;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Controller Ready Timeouts, 4 bytes (Base 3.1.3.20): what a host reads when CAP.CRMS says so.
const CRTO: u32 = 0x68;

/// A Connect that is refused.
struct Refusal {
    status: Status,
    result: u64,
    what: &'static str,
}

impl Refusal {
    fn parameter(fault: ConnectFault, what: &'static str) -> Refusal {
        Refusal {
            status: fault.status(),
            result: fault.to_result(),
            what,
        }
    }

    /// The host may try again later.
    fn busy(what: &'static str) -> Refusal {
        Refusal {
            status: Status::CONNECT_CONTROLLER_BUSY,
            result: 0,
            what,
        }
    }

    /// The same for a subsystem that does not exist and for one that is forbidden: the answer tells a stranger no names.
    fn hidden(what: &'static str) -> Refusal {
        Refusal::parameter(ConnectFault::data(ConnectData::SUBNQN_OFFSET), what)
    }

    fn status(status: Status, what: &'static str) -> Refusal {
        Refusal {
            status: status.dnr(),
            result: 0,
            what,
        }
    }
}

impl Core {
    /// Bytes that a fabrics command transfers from the host.
    pub(super) fn fabrics_data_len(sqe: &Sqe) -> usize {
        if sqe.fabrics_type() == fabrics::CONNECT {
            CONNECT_DATA_LEN
        } else {
            0
        }
    }

    /// Executes a fabrics command (Base figure 376).
    pub(super) fn fabrics_command(&mut self, sqe: &Sqe, input: &Input<'_>) {
        let cid = sqe.cid();
        let on_admin = self.queue.as_ref().map(|q| q.qid == 0);
        match (sqe.fabrics_type(), on_admin) {
            (fabrics::CONNECT, None) => self.connect(sqe, input.bytes()),
            // Base 6.3: once a queue exists, and for anything before it does.
            (_, None) | (fabrics::CONNECT, Some(_)) => {
                self.fail(sqe, Status::COMMAND_SEQUENCE_ERROR.dnr())
            }
            (fabrics::PROPERTY_GET, Some(true)) => self.property_get(sqe),
            (fabrics::PROPERTY_SET, Some(true)) => self.property_set(sqe),
            (fabrics::DISCONNECT, Some(true)) => {
                self.fail(sqe, Status::CONNECT_INVALID_QUEUE_TYPE.dnr())
            }
            (fabrics::DISCONNECT, Some(false)) if disconnect_record_format(sqe) != 0 => {
                self.fail(sqe, Status::CONNECT_INCOMPATIBLE_FORMAT.dnr());
            }
            (fabrics::DISCONNECT, Some(false)) => {
                // The host may connect this queue again as soon as it has the reply.
                if let Some(q) = &self.queue {
                    q.controller.remove_queue(q.qid, &q.handle);
                }
                self.complete(Completion::success(cid));
                self.end(CloseReason::Disconnect);
            }
            _ => self.fail(sqe, Status::INVALID_OPCODE.dnr()),
        }
    }

    /// Connect (Base 6.3).
    fn connect(&mut self, sqe: &Sqe, data: &[u8]) {
        let cid = sqe.cid();
        let wish = Connect::from_sqe(sqe);
        let made = match ConnectData::parse(data) {
            Err(_) => Err(Refusal::status(
                Status::DATA_SGL_LENGTH_INVALID,
                "data too short",
            )),
            Ok(_) if wish.record_format != 0 => Err(Refusal::status(
                Status::CONNECT_INCOMPATIBLE_FORMAT,
                "unknown record format",
            )),
            Ok(data) if wish.qid == 0 => self.connect_admin(&wish, &data),
            Ok(data) => self.connect_io(&wish, &data),
        };
        match made {
            Ok(controller) => {
                let cntlid = controller.cntlid;
                let io = wish.qid > 0;
                if io {
                    self.rules.capsule_data_max = self.target().config.in_capsule;
                }
                self.enter(match (io, controller.subsystem()) {
                    (true, _) => ConnectionState::Io,
                    (false, Some(_)) => ConnectionState::Admin,
                    (false, None) => ConnectionState::Discovery,
                });
                self.refresh_namespaces();
                controller.heard(self.now().as_nanos());
                let accepted = ConnectAccepted {
                    cntlid,
                    auth_required: 0,
                };
                self.complete(Completion::with_result(cid, accepted.to_result()));
                self.link.signal().raise(INFO | TIMER);
            }
            Err(refusal) => {
                let counters = &self.target().counters;
                counters.refused_connects.fetch_add(1, Ordering::Relaxed);
                if self.may_log() {
                    tracing::warn!(peer = %self.link.peer(), why = refusal.what, status = %refusal.status, "connect refused");
                }
                let mut failed = Completion::failed(cid, refusal.status);
                failed.result = refusal.result;
                self.complete(failed);
            }
        }
    }

    /// Makes this connection the admin queue of a new controller.
    fn connect_admin(
        &mut self,
        wish: &Connect,
        data: &ConnectData,
    ) -> Result<Arc<Controller>, Refusal> {
        let (subnqn, hostnqn) = data
            .names()
            .map_err(|(fault, _)| Refusal::parameter(fault, "not an NQN in the data"))?;
        if self.target().connections.is_draining() {
            return Err(Refusal::busy("shutting down"));
        }
        if data.cntlid.get() != CNTLID_DYNAMIC {
            let fault = ConnectFault::data(ConnectData::CNTLID_OFFSET);
            return Err(Refusal::parameter(
                fault,
                "only the dynamic controller model is offered",
            ));
        }
        if wish.sqsize == 0 || wish.sqsize >= ADMIN_DEPTH_MAX {
            let fault = ConnectFault::command(Connect::SQSIZE_OFFSET);
            return Err(Refusal::parameter(fault, "admin queue size out of range"));
        }
        let kind = if subnqn.is_discovery() {
            ControllerKind::Discovery
        } else if self.role == PortRole::DiscoveryOnly {
            return Err(Refusal::hidden("no subsystems on this port"));
        } else {
            let subsystem = self.target().subsystem(&subnqn);
            let subsystem = subsystem.ok_or(Refusal::hidden("no such subsystem"))?;
            if !subsystem.allows(&hostnqn) {
                return Err(self.forbidden());
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
        let kato_ms = self.grant_keep_alive(wish.kato_ms).ok_or(Refusal::status(
            Status::KEEP_ALIVE_INVALID,
            "keep alive timeout too long",
        ))?;
        let association = Association {
            kind,
            host_nqn: hostnqn,
            host_id: data.host_id,
            kato_ms,
            reconnects: 0,
        };
        let handle = Arc::new(self.handle(wish));
        let target = self.target().clone();
        let controller = target
            .add_controller(association, &subnqn, handle.clone(), self.link.place())
            .map_err(|why| match why {
                Unavailable::Full => Refusal::busy("too many controllers or connections"),
                Unavailable::Forbidden => self.forbidden(),
            })?;
        self.become_queue(wish, controller.clone(), handle);
        Ok(controller)
    }

    /// Makes this connection an I/O queue of a controller.
    fn connect_io(
        &mut self,
        wish: &Connect,
        data: &ConnectData,
    ) -> Result<Arc<Controller>, Refusal> {
        let (subnqn, hostnqn) = data
            .names()
            .map_err(|(fault, _)| Refusal::parameter(fault, "not an NQN in the data"))?;
        let in_data = |offset, what| Refusal::parameter(ConnectFault::data(offset), what);
        let controller = self
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
        if controller.host_id != data.host_id {
            return Err(in_data(
                ConnectData::HOSTID_OFFSET,
                "not the controller's host identifier",
            ));
        }
        if wish.sqsize == 0 || wish.sqsize >= self.target().config.queue_depth_max {
            let fault = ConnectFault::command(Connect::SQSIZE_OFFSET);
            return Err(Refusal::parameter(fault, "queue size out of range"));
        }
        let listed = subsystem.lists(&hostnqn);
        let handle = Arc::new(self.handle(wish));
        let mut state = controller.state();
        if wish.qid > state.features.io_queues {
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
        if self.link.place().established(listed, false).is_err() {
            controller.remove_queue(wish.qid, &handle);
            return Err(Refusal::busy("too many connections"));
        }
        self.become_queue(wish, controller.clone(), handle);
        Ok(controller)
    }

    /// The host is not on the subsystem's list: told to it as [`Refusal::hidden`], counted as what it is.
    fn forbidden(&self) -> Refusal {
        let counters = &self.target().counters;
        counters.forbidden_connects.fetch_add(1, Ordering::Relaxed);
        Refusal::hidden("host is not on the list")
    }

    fn handle(&self, wish: &Connect) -> QueueHandle {
        let size = wish.sqsize.saturating_add(1);
        QueueHandle::new(
            (wish.qid, size),
            (self.link.peer(), self.link.local()),
            self.rules.digests,
            self.link.signal().clone(),
        )
    }

    fn become_queue(
        &mut self,
        wish: &Connect,
        controller: Arc<Controller>,
        handle: Arc<QueueHandle>,
    ) {
        let address = self.link.peer().ip();
        self.link
            .account()
            .belongs_to(HostKey::named(controller.host_nqn.as_str(), address));
        self.queue = Some(Queue {
            controller,
            handle,
            qid: wish.qid,
            size: wish.sqsize.saturating_add(1),
            flow_control: !wish
                .attributes
                .contains(ConnectAttributes::NO_SQ_FLOW_CONTROL),
            head: 1,
        });
    }

    /// Property Get (Base 6.5).
    fn property_get(&mut self, sqe: &Sqe) {
        let wish = Property::from_sqe(sqe);
        let Some(q) = &self.queue else { return };
        let discovery = q.controller.subsystem().is_none();
        let state = q.controller.state();
        let value = match (wish.offset, wish.wide) {
            (property::CAP, Some(true)) => {
                Some(capabilities(self.target().config.queue_depth_max, discovery).bits())
            }
            (property::VS, Some(false)) => Some(u64::from(VERSION_2_0)),
            (property::CC, Some(false)) => Some(u64::from(state.cc.bits())),
            (property::CSTS, Some(false)) => Some(u64::from(state.csts.bits())),
            (CRTO, Some(false)) => Some(u64::from(READY_TIMEOUT_500MS)),
            _ => None,
        };
        drop(state);
        match value {
            Some(v) => self.complete(Completion::with_result(sqe.cid(), v)),
            None => self.fail(sqe, Status::INVALID_FIELD.dnr()),
        }
    }

    /// Property Set (Base 6.6): only CC can be written.
    fn property_set(&mut self, sqe: &Sqe) {
        let wish = Property::from_sqe(sqe);
        if wish.offset != property::CC || wish.wide != Some(false) {
            return self.fail(sqe, Status::INVALID_FIELD.dnr());
        }
        self.configure(Cc::from_bits_retain(wish.value as u32));
        self.complete(Completion::success(sqe.cid()));
    }

    /// A write to CC (Base 3.1.3.5): enables, resets, shuts down.
    fn configure(&mut self, new: Cc) {
        let Some(q) = &self.queue else { return };
        let controller = q.controller.clone();
        let mut state = controller.state();
        let old = std::mem::replace(&mut state.cc, new);
        let (was, is) = (old.contains(Cc::ENABLE), new.contains(Cc::ENABLE));
        if !was && is {
            state.csts = if is_sound(new, controller.subsystem().is_none()) {
                Csts::READY
            } else {
                Csts::FATAL
            };
        }
        if was && !is {
            // Base 3.7.2: a controller level reset deletes the I/O queues and forgets what waits.
            state.csts = Csts::empty();
            state.forget_shutdown();
            state.features =
                super::admin::features::Features::new(self.target().config.io_queues_max);
            drop(state);
            controller.write_cache.store(true, Ordering::Relaxed);
            controller.close_io(CloseReason::ControllerEnded);
            for cid in std::mem::take(&mut self.async_events) {
                self.cids.remove(cid);
            }
            state = controller.state();
        }
        if old.shn() == 0 && new.shn() != 0 {
            let shutdown = state.begin_shutdown();
            drop(state);
            self.shut_down(controller, shutdown);
        }
    }

    /// Base 3.6: everything acknowledged reaches the medium before the shutdown is complete. A controller flushes once at a
    /// time: what is asked for meanwhile begins when that has ended.
    fn shut_down(&self, controller: Arc<Controller>, mut shutdown: Shutdown) {
        let backends: Vec<_> = self.views().map(|v| v.ns.backend.clone()).collect();
        if backends.is_empty() {
            return controller.state().complete_shutdown(shutdown, None);
        }
        if !controller.state().begin_flush() {
            return;
        }
        drop(spawn(async move {
            loop {
                match flush_all(backends.clone()).await {
                    Ok(proof) => controller.state().complete_shutdown(shutdown, Some(proof)),
                    Err(e) => {
                        tracing::error!(host = %controller.host_nqn, error = %e,
                            "flush at controller shutdown failed: what the host wrote last may be lost");
                        controller.state().fail_shutdown(shutdown);
                    }
                }
                match controller.state().end_flush(shutdown) {
                    Some(later) => shutdown = later,
                    None => return,
                }
            }
        }));
    }
}

/// CAP (Base 3.1.3.1).
fn capabilities(queue_depth_max: u16, discovery: bool) -> Cap {
    let (depth, sets) = if discovery {
        (ADMIN_DEPTH_MAX, Cap::NVM_COMMAND_SET)
    } else {
        (queue_depth_max, Cap::NVM_COMMAND_SET | Cap::IO_COMMAND_SETS)
    };
    Cap::new(
        depth - 1,
        READY_TIMEOUT_500MS,
        Cap::CONTIGUOUS_QUEUES | Cap::READY_WITH_MEDIA | sets,
    )
}

/// Whether an enabling CC asks for what there is: entry sizes, page size, arbitration, command sets.
fn is_sound(cc: Cc, discovery: bool) -> bool {
    let entries = discovery || (cc.iosqes() == 6 && cc.iocqes() == 4);
    let sets = matches!(cc.css(), 0 | 6) || (discovery && cc.css() == 7);
    entries && sets && cc.mps() == 0 && cc.ams() == 0
}

/// The discovery subsystem's name, and a subsystem's, as logs show them.
pub(super) fn subsystem_name(controller: &Controller) -> Nqn {
    controller
        .subsystem()
        .map_or_else(Nqn::discovery, |s| s.nqn.clone())
}
