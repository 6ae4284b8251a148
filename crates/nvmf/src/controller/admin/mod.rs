//! Commands of the admin queue (Base 5), of I/O and of discovery controllers.
//!
//! **Called by** a connection whose queue is an admin queue. **Invariants**: nothing here waits but for a backend's
//! usage; an unknown opcode is Invalid Opcode, an unknown page, structure or feature is Invalid Field.

mod abort;
pub(crate) mod async_event;
pub(crate) mod features;
mod identify;
mod log_page;

use super::connection::Core;
use super::io_commands::Input;
use super::status::Completion;
use crate::wire::command::Sqe;
use crate::wire::opcode::admin;
use crate::wire::status::Status;

impl Core {
    /// How many bytes an admin command transfers from the host.
    pub(super) fn admin_data_len(sqe: &Sqe) -> usize {
        match sqe.opcode {
            admin::SET_FEATURES => features::data_len(sqe.feature_id()),
            _ => 0,
        }
    }

    /// Executes an admin command (Base figure 138).
    pub(super) fn admin_command(&mut self, sqe: &Sqe, input: &Input<'_>) {
        let cid = sqe.cid();
        let Some(queue) = &self.queue else { return };
        let controller = queue.controller.clone();
        let io = controller.subsystem().is_some();
        match sqe.opcode {
            // Base 5.16
            admin::GET_LOG_PAGE => self.get_log_page(sqe, &controller),
            // Base 5.17
            admin::IDENTIFY => self.identify(sqe, &controller),
            // Base 5.1
            admin::ABORT if io => self.abort(sqe, &controller),
            // Base 5.27
            admin::SET_FEATURES => self.set_features(sqe, input.bytes(), &controller),
            // Base 5.15
            admin::GET_FEATURES => self.get_features(sqe, &controller),
            // Base 5.2
            admin::ASYNC_EVENT_REQUEST => self.async_event_request(cid),
            // Base 5.18
            admin::KEEP_ALIVE => self.complete(Completion::success(cid)),
            _ => self.complete(Completion::failed(cid, Status::INVALID_OPCODE.dnr())),
        }
    }
}
