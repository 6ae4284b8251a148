//! Task management functions (§11.5, §4.2.3.3; SAM-5 7).
//!
//! **Called by** the full feature phase, in the order of delivery. **Invariants**: the response goes out when every task
//! that it speaks of has ended, also on other connections and shards; the device hears of a function after that.

use super::connection::{Core, Member};
use super::counters::CloseReason;
use super::entry::Entry;
use super::session::{AbortOrder, SessionKind};
use super::window::Verdict;
use crate::wire::request::{TaskFunction, TaskManagement};
use crate::wire::response::{RejectReason, TaskResult, task_response};
use crate::wire::{Bhs, Itt};
use io::spawn;
use io::sync::oneshot;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Core {
    /// A request for a function.
    pub(super) fn task_management(&mut self, bhs: &Bhs, r: &TaskManagement) {
        let counters = &self.target().counters;
        counters.task_management.fetch_add(1, Ordering::Relaxed);
        if self.by_itt.contains_key(&r.itt) || r.itt == Itt::NONE {
            return self.reject(RejectReason::TASK_IN_PROGRESS, bhs);
        }
        let Some(m) = self.member.clone() else { return };
        let SessionKind::Normal { entry, .. } = &m.session.kind else {
            return;
        };
        let lun = scsi::Lun::parse(r.lun.0).filter(|l| entry.device.luns().contains(l));
        match r.function() {
            Some(TaskFunction::AbortTask) => self.abort_task(&m, r),
            Some(
                f @ (TaskFunction::AbortTaskSet
                | TaskFunction::ClearTaskSet
                | TaskFunction::LogicalUnitReset),
            ) => match lun {
                Some(lun) => self.abort_many(&m, entry, r, f, Some(lun)),
                None => self.respond_task(r.itt, TaskResult::NoLun),
            },
            Some(f @ (TaskFunction::TargetWarmReset | TaskFunction::TargetColdReset)) => {
                self.abort_many(&m, entry, r, f, None);
            }
            // Tasks move between connections at error recovery level 2.
            Some(TaskFunction::TaskReassign) => {
                self.respond_task(r.itt, TaskResult::AllegianceReassignment);
            }
            // There is no ACA: NACA is refused.
            Some(TaskFunction::ClearAca) | None => {
                self.respond_task(r.itt, TaskResult::NotSupported);
            }
        }
    }

    fn respond_task(&mut self, itt: Itt, result: TaskResult) {
        let mut bhs = task_response(itt, result);
        self.stamp_status(&mut bhs);
        self.send_status(bhs, &[]);
    }

    /// ABORT TASK: one task of this connection (§11.5.5).
    fn abort_task(&mut self, m: &Member, r: &TaskManagement) {
        let Some(slot) = self.by_itt.get(&r.referenced).copied() else {
            // It may be on its way: then its number is used up, and it will be ignored when it comes.
            let on_its_way = r.ref_cmd_sn.is_before(r.cmd_sn)
                && matches!(
                    m.session.arrived(r.ref_cmd_sn),
                    Verdict::Deliver { .. } | Verdict::Hold
                );
            if on_its_way {
                m.session.command_ended();
                return self.respond_task(r.itt, TaskResult::Complete);
            }
            return self.respond_task(r.itt, TaskResult::NoTask);
        };
        let (barrier, ended) = oneshot::channel();
        let order = AbortOrder {
            lun: None,
            task_aborted: false,
            except: None,
            barrier: Some(Arc::new(barrier)),
        };
        self.abort(slot, &order);
        drop(order);
        self.respond_when(r.itt, ended, |_| {});
    }

    /// The functions over many tasks.
    fn abort_many(
        &mut self,
        m: &Member,
        entry: &Arc<Entry>,
        r: &TaskManagement,
        function: TaskFunction,
        lun: Option<scsi::Lun>,
    ) {
        let (barrier, ended) = oneshot::channel();
        m.session.connections.order(&AbortOrder {
            lun,
            task_aborted: false,
            except: Some(r.itt),
            barrier: Some(Arc::new(barrier)),
        });
        self.abort_ordered();
        let (session, entry, wire_lun) = (m.session.clone(), entry.clone(), r.lun.0);
        let target = self.target().clone();
        self.respond_when(r.itt, ended, move |core| {
            let SessionKind::Normal { nexus, .. } = &session.kind else {
                return;
            };
            let function = match function {
                TaskFunction::AbortTaskSet => scsi::TaskManagement::AbortTaskSet,
                TaskFunction::ClearTaskSet => scsi::TaskManagement::ClearTaskSet,
                TaskFunction::LogicalUnitReset => scsi::TaskManagement::LogicalUnitReset,
                TaskFunction::TargetColdReset => {
                    // Every session ends; this one when the response has gone out.
                    for other in target.sessions_of(&entry) {
                        if !Arc::ptr_eq(&other, &session) {
                            other.connections.close(CloseReason::Reset);
                        }
                    }
                    core.close_session_after_output(CloseReason::Reset);
                    scsi::TaskManagement::TargetReset
                }
                _ => scsi::TaskManagement::TargetReset,
            };
            // The unit was there when the function was asked for; without it there is nothing to reset.
            let _ = entry.device.task_management(nexus, function, wire_lun);
        });
    }

    /// Responds when the barrier is gone.
    fn respond_when(
        &mut self,
        itt: Itt,
        mut ended: oneshot::Receiver<()>,
        then: impl FnOnce(&mut Core) + 'static,
    ) {
        let me = self.me.clone();
        let finish = move |core: &mut Core, then: Box<dyn FnOnce(&mut Core)>| {
            core.respond_task(itt, TaskResult::Complete);
            then(core);
        };
        let then: Box<dyn FnOnce(&mut Core)> = Box::new(then);
        let waker = self.link.waker().clone();
        let polled =
            std::pin::Pin::new(&mut ended).poll(&mut std::task::Context::from_waker(&waker));
        if polled.is_ready() {
            return finish(self, then);
        }
        drop(spawn(async move {
            ended.await;
            if let Some(conn) = me.upgrade() {
                let mut core = conn.core.borrow_mut();
                if core.member.is_some() {
                    finish(&mut core, then);
                    core.link.waker().wake_by_ref();
                }
            }
        }));
    }

    fn close_session_after_output(&mut self, why: CloseReason) {
        if let Some(m) = self.member.clone() {
            for c in m.session.connections.all() {
                if c.cid != m.handle.cid {
                    c.signal.close(why);
                }
            }
            self.close_after_output(why);
        }
    }
}
