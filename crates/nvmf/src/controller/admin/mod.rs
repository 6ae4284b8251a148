//! Commands of the admin queue (Base 5), of I/O and of discovery controllers.
//!
//! **Called by** the dispatcher of an admin queue. **Invariants**: a command waits for nothing but the backend's usage and the
//! saving of reservations; an unknown opcode is Invalid Opcode, an unknown page, structure or feature is Invalid Field.

mod abort;
mod features;
mod identify;
mod log_page;

use super::command::Command;
use super::phase::Ready;
use super::request::AdminRequest;
use super::status::Completion;
use crate::wire::status::Status;

impl Ready<'_> {
    /// Executes an admin command (Base figure 138).
    pub(super) fn admin_command(&mut self, command: Command, request: AdminRequest, data: &[u8]) {
        let controller = self.queue.controller();
        let io = controller.subsystem().is_some();
        match request {
            AdminRequest::GetLogPage(want) => self.get_log_page(command, want, controller),
            AdminRequest::Identify(wanted) => self.identify(command, wanted, controller),
            AdminRequest::Abort { sqid, cid } if io => {
                self.abort(command, sqid, cid, controller);
            }
            AdminRequest::SetFeatures(set) => self.set_features(command, set, data, controller),
            AdminRequest::GetFeatures(get) => self.get_features(command, get, controller),
            AdminRequest::AsyncEvent => self.async_event_request(command),
            AdminRequest::KeepAlive => self.complete(command, Completion::SUCCESS),
            AdminRequest::Abort { .. } | AdminRequest::Unknown => {
                self.fail(command, Status::INVALID_OPCODE.dnr());
            }
        }
    }
}
