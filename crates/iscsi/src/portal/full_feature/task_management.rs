//! Task management functions (§11.5, §4.2.3.3; SAM-5 7).
//!
//! **Called by** `requests`, in the order of CmdSN. **Invariants**: the response is sent when every task of the function has ended,
//! also on other connections and shards; the device performs the function after that.

use super::FullFeature;
use super::next::{Aborting, DevicePart, Next};
use crate::portal::counters::CloseReason;
use crate::portal::session::AbortOrder;
use crate::portal::transport::PortalTransport;
use crate::portal::window::Verdict;
use crate::wire::request::{TaskFunction, TaskManagement};
use crate::wire::response::{RejectReason, TaskResult, task_response};
use crate::wire::{Bhs, Itt};
use io::sync::oneshot;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl FullFeature {
    /// Performs a function.
    pub(super) fn task_management(
        &mut self,
        transport: &mut PortalTransport,
        bhs: &Bhs,
        r: &TaskManagement,
    ) -> Next {
        let counters = &transport.shared().counters;
        counters.task_management.fetch_add(1, Ordering::Relaxed);
        if self.commands.find(r.itt).is_some() || r.itt == Itt::NONE {
            self.member
                .reject(transport, RejectReason::TASK_IN_PROGRESS, bhs);
            return Next::Idle;
        }
        let result = match r.function() {
            Some(TaskFunction::AbortTask) => return self.abort_task(transport, r),
            Some(TaskFunction::AbortTaskSet) => {
                return self.abort_unit(transport, r, scsi::TaskManagement::AbortTaskSet);
            }
            Some(TaskFunction::ClearTaskSet) => {
                return self.abort_unit(transport, r, scsi::TaskManagement::ClearTaskSet);
            }
            Some(TaskFunction::LogicalUnitReset) => {
                return self.abort_unit(transport, r, scsi::TaskManagement::LogicalUnitReset);
            }
            Some(TaskFunction::TargetWarmReset) => {
                let reset = scsi::TaskManagement::TargetReset;
                let then = DevicePart::Function(reset, r.lun.0);
                return self.abort_many(transport, r, None, then);
            }
            Some(TaskFunction::TargetColdReset) => {
                return self.abort_many(transport, r, None, DevicePart::ColdReset(r.lun.0));
            }
            // Tasks move between connections at error recovery level 2.
            Some(TaskFunction::TaskReassign) => TaskResult::AllegianceReassignment,
            // There is no ACA: NACA is refused.
            Some(TaskFunction::ClearAca) | None => TaskResult::NotSupported,
        };
        self.respond_task(transport, r.itt, result);
        Next::Idle
    }

    fn respond_task(&mut self, transport: &mut PortalTransport, itt: Itt, result: TaskResult) {
        let mut bhs = task_response(itt, result);
        transport.stamp_status(&mut bhs);
        self.member.send_status(transport, bhs, &[]);
    }

    /// ABORT TASK: one task of this connection (§11.5.5).
    fn abort_task(&mut self, transport: &mut PortalTransport, r: &TaskManagement) -> Next {
        let Some(slot) = self.commands.find(r.referenced) else {
            // It may arrive later: its CmdSN is used up here, and the command is ignored then.
            let session = self.member.session();
            let is_on_its_way = r.ref_cmd_sn.is_before(r.cmd_sn)
                && matches!(
                    session.arrived(r.ref_cmd_sn),
                    Verdict::Deliver { .. } | Verdict::Hold
                );
            let result = match is_on_its_way {
                true => TaskResult::Complete,
                false => TaskResult::NoTask,
            };
            if is_on_its_way {
                session.command_ended();
            }
            self.respond_task(transport, r.itt, result);
            return Next::Idle;
        };
        let (barrier, ended) = oneshot::channel();
        let order = AbortOrder {
            lun: None,
            task_aborted: false,
            except: None,
            barrier: Some(Arc::new(barrier)),
        };
        self.abort(transport, slot, &order);
        Next::AwaitTasks(Box::new(Aborting {
            itt: r.itt,
            ended,
            then: DevicePart::None,
        }))
    }

    /// A function over the tasks of one logical unit.
    fn abort_unit(
        &mut self,
        transport: &mut PortalTransport,
        r: &TaskManagement,
        function: scsi::TaskManagement,
    ) -> Next {
        let luns = self.entry.device.luns();
        let Some(lun) = scsi::Lun::parse(r.lun.0).filter(|l| luns.contains(l)) else {
            self.respond_task(transport, r.itt, TaskResult::NoLun);
            return Next::Idle;
        };
        let then = DevicePart::Function(function, r.lun.0);
        self.abort_many(transport, r, Some(lun), then)
    }

    /// A function over many tasks of the session.
    fn abort_many(
        &mut self,
        transport: &mut PortalTransport,
        r: &TaskManagement,
        lun: Option<scsi::Lun>,
        then: DevicePart,
    ) -> Next {
        let (barrier, ended) = oneshot::channel();
        self.member.session().connections.order(&AbortOrder {
            lun,
            task_aborted: false,
            except: Some(r.itt),
            barrier: Some(Arc::new(barrier)),
        });
        self.abort_ordered(transport);
        Next::AwaitTasks(Box::new(Aborting {
            itt: r.itt,
            ended,
            then,
        }))
    }

    /// The tasks of a function have ended: answers it, then does the device's part.
    pub(crate) fn tasks_ended(
        &mut self,
        transport: &mut PortalTransport,
        itt: Itt,
        then: DevicePart,
    ) {
        self.respond_task(transport, itt, TaskResult::Complete);
        let (function, lun) = match then {
            DevicePart::None => return,
            DevicePart::Function(function, lun) => (function, lun),
            DevicePart::ColdReset(lun) => {
                self.end_all_sessions(transport);
                (scsi::TaskManagement::TargetReset, lun)
            }
        };
        // The unit was there when the function was asked for; without it there is nothing to reset.
        let _ = (self.entry.device).task_management(&self.nexus, function, lun);
    }

    /// Ends every session with the target; this one when the response has left.
    fn end_all_sessions(&mut self, transport: &mut PortalTransport) {
        let session = self.member.session();
        for other in transport.shared().sessions_of(&self.entry) {
            if !Arc::ptr_eq(&other, session) {
                other.connections.close(CloseReason::Reset);
            }
        }
        self.member.close_others(CloseReason::Reset);
        transport.close_after_output(CloseReason::Reset);
    }
}
