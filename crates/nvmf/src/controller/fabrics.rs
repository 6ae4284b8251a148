//! Fabrics commands of a queue (Base 6): properties and Disconnect.
//!
//! **Called by** the dispatcher. **Invariants**: properties belong to the admin queue, Disconnect to I/O queues; a shutdown is
//! complete when a flush has made all acknowledged writes durable.

use super::association::{Controller, Shutdown};
use super::command::Command;
use super::counters::CloseReason;
use super::features::Features;
use super::io_commands::flush_all;
use super::limits::{ADMIN_DEPTH_MAX, READY_TIMEOUT_500MS};
use super::phase::Ready;
use super::request::FabricsRequest;
use super::status::Completion;
use crate::wire::fabrics::{Cap, Cc, Csts, Property, VERSION_2_0, property};
use crate::wire::status::Status;
use io::spawn;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Controller Ready Timeouts, 4 bytes (Base 3.1.3.20): the host reads it when CAP.CRMS has it.
const CRTO: u32 = 0x68;

impl Ready<'_> {
    /// Executes a fabrics command (Base figure 376).
    pub(super) fn fabrics_command(&mut self, command: Command, request: FabricsRequest) {
        match (request, self.queue.is_admin()) {
            // Base 6.3: once a queue exists.
            (FabricsRequest::Connect(_), _) => {
                self.fail(command, Status::COMMAND_SEQUENCE_ERROR.dnr());
            }
            (FabricsRequest::PropertyGet(asked), true) => self.property_get(command, asked),
            (FabricsRequest::PropertySet(asked), true) => self.property_set(command, asked),
            (FabricsRequest::Disconnect { .. }, true) => {
                self.fail(command, Status::CONNECT_INVALID_QUEUE_TYPE.dnr());
            }
            (FabricsRequest::Disconnect { record_format }, false) if record_format != 0 => {
                self.fail(command, Status::CONNECT_INCOMPATIBLE_FORMAT.dnr());
            }
            (FabricsRequest::Disconnect { .. }, false) => {
                // The host may connect this queue again as soon as it has the reply.
                self.queue.leave();
                self.complete(command, Completion::SUCCESS);
                self.common.link.end(CloseReason::Disconnect);
            }
            (FabricsRequest::PropertyGet(_) | FabricsRequest::PropertySet(_), false)
            | (FabricsRequest::Unknown, _) => self.fail(command, Status::INVALID_OPCODE.dnr()),
        }
    }

    /// Most entries of an I/O queue of this controller.
    pub(super) fn queue_depth_max(&self) -> u16 {
        self.target().config.queue_depth(self.common.transport())
    }

    /// Property Get (Base 6.5).
    fn property_get(&mut self, command: Command, asked: Property) {
        let controller = self.queue.controller();
        let discovery = controller.subsystem().is_none();
        let state = controller.state();
        let value = match (asked.offset, asked.wide) {
            (property::CAP, Some(true)) => {
                Some(capabilities(self.queue_depth_max(), discovery).bits())
            }
            (property::VS, Some(false)) => Some(u64::from(VERSION_2_0)),
            (property::CC, Some(false)) => Some(u64::from(state.cc.bits())),
            (property::CSTS, Some(false)) => Some(u64::from(state.csts.bits())),
            (CRTO, Some(false)) => Some(u64::from(READY_TIMEOUT_500MS)),
            _ => None,
        };
        drop(state);
        match value {
            Some(v) => self.complete(command, Completion::with_result(v)),
            None => self.fail(command, Status::INVALID_FIELD.dnr()),
        }
    }

    /// Property Set (Base 6.6): only CC can be written.
    fn property_set(&mut self, command: Command, asked: Property) {
        if asked.offset != property::CC || asked.wide != Some(false) {
            return self.fail(command, Status::INVALID_FIELD.dnr());
        }
        self.configure(Cc::from_bits_retain(asked.value as u32));
        self.complete(command, Completion::SUCCESS);
    }

    /// A write to CC (Base 3.1.3.5): enables, resets, shuts down.
    fn configure(&mut self, new: Cc) {
        let controller = self.queue.controller();
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
            // Base 3.7.2: a controller level reset deletes the I/O queues and forgets the requests that wait.
            state.csts = Csts::empty();
            state.forget_shutdown();
            state.features = Features::new(self.target().config.io_queues_max);
            drop(state);
            controller.write_cache.store(true, Ordering::Relaxed);
            controller.close_io(CloseReason::ControllerEnded);
            self.forget_event_requests();
            state = controller.state();
        }
        if old.shn() == 0 && new.shn() != 0 {
            let shutdown = state.begin_shutdown();
            drop(state);
            self.shut_down(controller.clone(), shutdown);
        }
    }

    /// Base 3.6: all acknowledged writes reach the medium before the shutdown is complete. A controller has one flush at a
    /// time: a shutdown that the host asks for meanwhile flushes after it.
    fn shut_down(&self, controller: Arc<Controller>, mut shutdown: Shutdown) {
        let backends: Vec<_> = self.views.iter().map(|v| v.ns.backend.clone()).collect();
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
                            "flush at controller shutdown failed: the last writes of the host may be lost");
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

/// Whether an enabling CC asks for values that the controller has: entry sizes, page size, arbitration, command sets.
fn is_sound(cc: Cc, discovery: bool) -> bool {
    let entries = discovery || (cc.iosqes() == 6 && cc.iocqes() == 4);
    let sets = matches!(cc.css(), 0 | 6) || (discovery && cc.css() == 7);
    entries && sets && cc.mps() == 0 && cc.ams() == 0
}
