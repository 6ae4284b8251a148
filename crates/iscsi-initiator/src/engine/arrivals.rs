//! Received PDUs: the engine checks headers, assigns data to tasks, and ends tasks.
//!
//! **Called by** the receiver. **Invariants**: those of [`super`]; any error ends the connection.

use super::Engine;
use crate::error::{Error, ProtocolError, Result};
use crate::limits::{CONTROL_DATA_MAX, NOP_REPLIES_MAX};
use crate::sense::Sense;
use crate::state::Event;
use crate::tasks::{self, Data, Ended};
use iscsi::wire::decode::Header;
use iscsi::wire::response::{R2t, RejectReason, Residual};
use iscsi::wire::{Bhs, Itt, Opcode, Ttt};
use std::time::Duration;

/// Result of checking one PDU.
type Checked<T> = std::result::Result<T, ProtocolError>;

/// The kind of PDU that a header begins.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// A Data-In, whose data belongs to a task.
    Data(DataIn),
    /// Any other PDU. Pass it to [`Engine::control`] with its data.
    Control,
}

/// A checked Data-In. Its data fills a range of a task's buffer.
#[derive(Debug)]
pub(crate) struct DataIn {
    pub(crate) index: u16,
    pub(crate) start: usize,
    pub(crate) end: usize,
    ended: Option<Ended>,
}

impl Engine {
    /// Checks a header. Returns where its data belongs.
    pub(crate) fn header(&mut self, header: &Header) -> Result<Arrival> {
        self.heard += 1;
        if header.bhs.opcode() == Some(Opcode::DataIn) {
            return Ok(Arrival::Data(self.data_in(&header.bhs)?));
        }
        if header.data_len > CONTROL_DATA_MAX {
            return Err(ProtocolError::Limit("a PDU with more data than it can have").into());
        }
        Ok(Arrival::Control)
    }

    /// Data-In (§11.7).
    fn data_in(&mut self, bhs: &Bhs) -> Checked<DataIn> {
        const STATUS: u8 = iscsi::wire::response::DataIn::STATUS;
        let index = tasks::find(&self.tasks, bhs.itt())?;
        let (data_sn, offset, len) = (bhs.u32_at(36), bhs.u32_at(40), bhs.data_len());
        let slot = self.tasks.get_mut(index);
        if !matches!(slot.data, Data::In(_)) {
            return Err(ProtocolError::Transfer("data for a task that reads none"));
        }
        if data_sn != slot.command.next_sn {
            return Err(ProtocolError::SerialNumber("DataSN"));
        }
        if offset != slot.moved || len > slot.data_len - slot.moved {
            let why = "data outside of the task's, or out of order";
            return Err(ProtocolError::Transfer(why));
        }
        let has_status = bhs.flags() & STATUS != 0;
        if has_status && !bhs.is_final() || len == 0 && !has_status {
            let why = "a Data-In with neither data nor an end";
            return Err(ProtocolError::Unexpected(why));
        }
        slot.command.next_sn = slot.command.next_sn.wrapping_add(1);
        slot.moved += len;
        let mut ended = None;
        if has_status {
            self.status_sn(bhs)?;
            ended = Some(Ended {
                status: bhs.0[3],
                sense: Sense::default(),
                residual: Residual::parse(bhs),
            });
        }
        self.window(bhs);
        Ok(DataIn {
            index,
            start: offset as usize,
            end: (offset + len) as usize,
            ended,
        })
    }

    /// Called when all data of a Data-In is in the task's buffer.
    pub(crate) fn data_done(&mut self, data: &DataIn) -> Result<()> {
        match data.ended {
            Some(ended) => self.ended(data.index, ended),
            None => Ok(()),
        }
    }

    /// The slot of the task that a PDU ends, if it ends one.
    pub(crate) fn ended_by(&self, bhs: &Bhs, data: &[u8]) -> Option<u16> {
        let task = match bhs.opcode() {
            Some(Opcode::ScsiResponse) => bhs.itt(),
            Some(Opcode::TaskResponse) => {
                let (_, task) = self.aborts.iter().find(|(itt, _)| *itt == bhs.itt())?;
                *task
            }
            Some(Opcode::Reject) => Bhs(*data.first_chunk()?).itt(),
            _ => return None,
        };
        tasks::find(&self.tasks, task).ok()
    }

    /// Handles a PDU of a connection over iSER, where data and requests for it are no PDUs. An error ends the connection.
    pub(crate) fn iser_pdu(&mut self, bhs: &Bhs, data: &[u8]) -> Result<()> {
        self.heard += 1;
        match bhs.opcode() {
            Some(Opcode::DataIn | Opcode::R2t) => {
                return Err(ProtocolError::Unexpected("a Data-In or an R2T over iSER").into());
            }
            Some(Opcode::ScsiResponse) => {
                let index = tasks::find(&self.tasks, bhs.itt())?;
                let slot = self.tasks.get_mut(index);
                // The target does not tell how much it moved, but how much it did not.
                slot.moved = match Residual::parse(bhs) {
                    Residual::Underflow(n) => slot.data_len.saturating_sub(n),
                    Residual::None | Residual::Overflow(_) => slot.data_len,
                };
            }
            _ => {}
        }
        self.control(bhs, data)
    }

    /// Handles a PDU other than Data-In. An error ends the connection.
    pub(crate) fn control(&mut self, bhs: &Bhs, data: &[u8]) -> Result<()> {
        let has_status = match bhs.opcode() {
            Some(Opcode::R2t) => false,
            Some(Opcode::NopIn) => bhs.itt() != Itt::NONE,
            _ => true,
        };
        if has_status {
            self.status_sn(bhs)?;
        }
        self.window(bhs);
        match bhs.opcode() {
            Some(Opcode::ScsiResponse) => self.response(bhs, data),
            Some(Opcode::R2t) => Ok(self.ready_to_transfer(&R2t::parse(bhs))?),
            Some(Opcode::NopIn) => self.nop_in(bhs),
            Some(Opcode::TaskResponse) => self.task_response(bhs),
            Some(Opcode::AsyncMessage) => self.async_message(bhs, data),
            Some(Opcode::Reject) => self.rejected(bhs, data),
            Some(Opcode::LogoutResponse) if self.logout == Some(bhs.itt()) => Err(Error::Closed),
            _ => Err(ProtocolError::Unexpected("a PDU that nobody asked for").into()),
        }
    }

    /// A PDU with a status must have the next StatSN (§4.2.2.2).
    fn status_sn(&mut self, bhs: &Bhs) -> Checked<()> {
        if bhs.sn() != self.exp_stat_sn {
            return Err(ProtocolError::SerialNumber("StatSN"));
        }
        self.exp_stat_sn = self.exp_stat_sn.next();
        Ok(())
    }

    /// ExpCmdSN and MaxCmdSN (§4.2.2.1). The window never shrinks; an invalid pair is ignored.
    fn window(&mut self, bhs: &Bhs) {
        let (exp, max) = (bhs.exp_sn(), bhs.max_cmd_sn());
        if !max.next().is_before(exp) && self.max_cmd_sn.is_before(max) {
            self.max_cmd_sn = max;
            self.window = self.window.max(max.next().since(exp));
            self.send_waiting();
        }
    }

    /// SCSI Response (§11.4).
    fn response(&mut self, bhs: &Bhs, data: &[u8]) -> Result<()> {
        let index = tasks::find(&self.tasks, bhs.itt())?;
        // §11.4.3: any response code but 0 is a target failure.
        if bhs.0[2] != 0 {
            self.completed += 1;
            tasks::finish(&mut self.tasks, index, Err(Error::Aborted));
            return Ok(());
        }
        let sense = data.split_first_chunk::<2>().map(|(len, rest)| {
            let len = usize::from(u16::from_be_bytes(*len));
            Sense::parse(&rest[..len.min(rest.len())])
        });
        let ended = Ended {
            status: bhs.0[3],
            sense: sense.unwrap_or_default(),
            residual: Residual::parse(bhs),
        };
        self.ended(index, ended)
    }

    fn ended(&mut self, index: u16, ended: Ended) -> Result<()> {
        let slot = self.tasks.get(index);
        let all = slot.moved == slot.data_len && ended.residual == Residual::None;
        if slot.is_whole() && ended.status == 0 && !all {
            return Err(ProtocolError::Transfer("success without all of the task's data").into());
        }
        self.completed += 1;
        tasks::finish(&mut self.tasks, index, Ok(ended));
        Ok(())
    }

    /// R2T (§11.8): puts all requested data into the batch.
    fn ready_to_transfer(&mut self, r2t: &R2t) -> Checked<()> {
        let batch_number = self.batch_number;
        let index = tasks::find(&self.tasks, r2t.itt)?;
        let slot = self.tasks.get_mut(index);
        if slot.data.outgoing().is_none() {
            return Err(ProtocolError::Transfer(
                "an R2T for a task that writes nothing",
            ));
        }
        if r2t.r2t_sn != slot.command.next_sn {
            return Err(ProtocolError::SerialNumber("R2TSN"));
        }
        if r2t.offset != slot.moved || r2t.len == 0 || r2t.len > slot.data_len - slot.moved {
            let why = "an R2T outside of the task's data, or out of order";
            return Err(ProtocolError::Transfer(why));
        }
        if r2t.len > self.parameters.max_burst {
            return Err(ProtocolError::Limit("an R2T for more than MaxBurstLength"));
        }
        if r2t.ttt == Ttt::NONE {
            return Err(ProtocolError::Unexpected("an R2T without a tag"));
        }
        // R2Ts that one batch answers were outstanding together: the target had received none of their data.
        let (batch_of_last, count) = slot.r2t_batch;
        let outstanding = if batch_of_last == batch_number {
            count + 1
        } else {
            1
        };
        if outstanding > u64::from(self.parameters.max_outstanding_r2t) {
            return Err(ProtocolError::Limit(
                "more R2Ts outstanding than MaxOutstandingR2T",
            ));
        }
        slot.r2t_batch = (batch_number, outstanding);
        slot.command.next_sn = slot.command.next_sn.wrapping_add(1);
        slot.moved = r2t.offset + r2t.len;
        self.data_out(index, r2t.itt, r2t.ttt, r2t.offset, r2t.offset + r2t.len);
        Ok(())
    }

    /// NOP-In (§11.19): the answer to our ping, or a ping of the target.
    fn nop_in(&mut self, bhs: &Bhs) -> Result<()> {
        if bhs.itt() != Itt::NONE {
            if self.echo.answered(bhs.itt()) {
                return Ok(());
            }
            if self.ping != Some(bhs.itt()) {
                return Err(ProtocolError::NoTask.into());
            }
            self.ping = None;
            return Ok(());
        }
        if bhs.ttt() == Ttt::NONE {
            return Ok(());
        }
        self.nop_replies += 1;
        if self.nop_replies > NOP_REPLIES_MAX {
            return Err(ProtocolError::Limit("a flood of pings").into());
        }
        self.nop_out(Itt::NONE, bhs.ttt(), bhs.lun());
        Ok(())
    }

    /// Task Management Function Response (§11.6).
    fn task_response(&mut self, bhs: &Bhs) -> Result<()> {
        let known = self.aborts.iter().position(|(itt, _)| *itt == bhs.itt());
        let Some(at) = known else {
            return Err(ProtocolError::NoTask.into());
        };
        let (_, task) = self.aborts.swap_remove(at);
        let Ok(index) = tasks::find(&self.tasks, task) else {
            // The task was answered meanwhile.
            return Ok(());
        };
        match bhs.0[2] {
            // Aborted, or no such task: the target will not answer it.
            0 | 1 => {
                tasks::finish(&mut self.tasks, index, Err(Error::Timeout));
                Ok(())
            }
            _ => Err(Error::Timeout),
        }
    }

    /// Asynchronous Message (§11.9).
    fn async_message(&mut self, bhs: &Bhs, data: &[u8]) -> Result<()> {
        match bhs.0[36] {
            0 => {
                let sense = data.get(2..).unwrap_or_default();
                self.tell(Event::Scsi(bhs.lun(), Sense::parse(sense)));
            }
            1 => {
                let seconds = bhs.u16_at(42);
                self.leave_within = Some(Duration::from_secs(seconds.into()));
                self.tell(Event::LogoutRequested);
            }
            2 | 3 => {
                self.tell(Event::Dropped);
                return Err(Error::Disconnected);
            }
            // The target asks to negotiate parameters: a new login does that.
            4 => self.leave_within = Some(Duration::ZERO),
            code => self.tell(Event::Other(code)),
        }
        Ok(())
    }

    /// Reject (§11.17): the rejected request fails. The connection ends, because the request's CmdSN may stay a gap for ever.
    fn rejected(&mut self, bhs: &Bhs, data: &[u8]) -> Result<()> {
        let reason = RejectReason(bhs.0[2]);
        let refused = data.first_chunk().map(|b| Bhs(*b).itt());
        if let Some(Ok(index)) = refused.map(|itt| tasks::find(&self.tasks, itt)) {
            tasks::finish(&mut self.tasks, index, Err(Error::Rejected(reason)));
        }
        Err(Error::Rejected(reason))
    }
}
