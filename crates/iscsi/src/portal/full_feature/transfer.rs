//! Data from the initiator: unsolicited, and solicited with R2Ts (§4.2.4.2, §11.7, §11.8).
//!
//! **Called by** the receiver and by commands that move on. **Invariants**: an R2T is sent only when its buffer is there and fits
//! the connection's budget; no offset of a Data-Out makes a byte be written outside of its command's buffer; a sequence ends
//! with its F bit, and a command with an error ends only after that (§7.8).

use super::FullFeature;
use super::command::{Command, INCORRECT_AMOUNT_OF_DATA, PROTOCOL_SERVICE_CRC_ERROR};
use super::next::Next;
use super::sequence::{Fit, Sequence};
use crate::limits::RECOVERY_R2T_MAX;
use crate::portal::early::Early;
use crate::portal::incoming::Destination;
use crate::portal::retained::Run;
use crate::portal::transport::Transport;
use crate::wire::request::DataOut;
use crate::wire::response::{R2t, RejectReason};
use crate::wire::{Bhs, Ttt};
use io::IoBuf;
use session::{Hold, rate};
use std::sync::atomic::Ordering;

impl Command {
    /// The next range that an R2T asks for: offset and length. Lost data comes first. `None` if all data of the piece was asked
    /// for, or too much was lost.
    fn next_range(&mut self, burst: u32) -> Option<(u32, u32)> {
        while let Some((at, len)) = self.missing.pop() {
            if at < self.end {
                self.recoveries += 1;
                if self.recoveries > RECOVERY_R2T_MAX {
                    self.failure = Some(PROTOCOL_SERVICE_CRC_ERROR);
                    return None;
                }
                return Some((at, len.min(self.end - at)));
            }
        }
        if self.asked >= self.end {
            return None;
        }
        let at = self.asked;
        let len = burst.min(self.end - at);
        self.asked += len;
        Some((at, len))
    }
}

impl FullFeature {
    /// The header of a Data-Out is here. Returns where its data belongs.
    pub(super) fn data_header(
        &mut self,
        transport: &mut Transport,
        bhs: &Bhs,
        pdu: DataOut,
        len: u32,
    ) -> (Destination, Next) {
        self.member.acknowledged(pdu.exp_stat_sn);
        let recovers = self.member.recovers();
        let found = self.commands.find(pdu.itt);
        let Some((slot, c)) = found.and_then(|slot| Some((slot, self.commands.get_mut(slot)?)))
        else {
            // Its task was aborted, or refused before all of its data had arrived.
            let counters = &transport.shared().counters;
            counters.discarded_data.fetch_add(1, Ordering::Relaxed);
            return (Destination::Nothing, Next::Idle);
        };
        let Some(s) = c.sequence(pdu.ttt) else {
            transport.complain("a Data-Out that nothing asked for");
            self.reject_and_close(transport, RejectReason::PROTOCOL_ERROR, bhs);
            return (Destination::Nothing, Next::Idle);
        };
        let failure = match s.fit(&pdu, len, recovers) {
            Fit::Next => None,
            Fit::AfterLoss(at, lost) => {
                c.missing.push((at, lost));
                None
            }
            Fit::Beyond => Some(INCORRECT_AMOUNT_OF_DATA),
            Fit::OutOfOrder => Some(PROTOCOL_SERVICE_CRC_ERROR),
        };
        if failure.is_none() {
            let at = (pdu.offset - c.base) as usize;
            return (Destination::DataOut { slot, at, pdu }, Next::Idle);
        }
        c.failure = c.failure.or(failure);
        let next = match pdu.last {
            true => self.sequence_ended(transport, slot, pdu.ttt),
            false => Next::Idle,
        };
        (Destination::Nothing, next)
    }

    /// A Data-Out with `len` bytes of data is here, whole; `intact` if its digest matched.
    pub(crate) fn data_arrived(
        &mut self,
        transport: &mut Transport,
        slot: usize,
        pdu: &DataOut,
        len: u32,
        intact: bool,
    ) -> Next {
        let Some(c) = self.commands.get_mut(slot) else {
            return Next::Idle;
        };
        if !intact {
            c.missing.push((pdu.offset, len));
        }
        if let Some(s) = c.sequence(pdu.ttt) {
            s.arrived(pdu, len);
        }
        match pdu.last {
            true => self.sequence_ended(transport, slot, pdu.ttt),
            false => Next::Idle,
        }
    }

    /// The F bit of a sequence was seen.
    fn sequence_ended(&mut self, transport: &mut Transport, slot: usize, ttt: Ttt) -> Next {
        let recovers = self.member.recovers();
        let Some(c) = self.commands.get_mut(slot) else {
            return Next::Idle;
        };
        let Some(i) = c.sequences.iter().position(|s| s.ttt() == ttt) else {
            return Next::Idle;
        };
        let s = c.sequences.remove(i);
        if c.sequences.is_empty() && !c.is_before_its_turn() {
            c.due = None;
        }
        if s.is_unsolicited() {
            // Data that did not arrive unsolicited is asked for.
            c.asked = c.asked.max(s.at());
        } else if let Some(rest) = s.rest() {
            if recovers {
                c.missing.push(rest);
            } else {
                c.failure = c.failure.or(Some(INCORRECT_AMOUNT_OF_DATA));
            }
        }
        self.proceed(transport, slot)
    }

    /// Sends R2Ts up to the negotiated number; lost data comes first (§7.8).
    pub(super) fn ask(&mut self, transport: &mut Transport, slot: usize) {
        let most = usize::from(self.member.parameters().max_outstanding_r2t);
        let burst = self.member.parameters().max_burst;
        loop {
            let Some(c) = self.commands.get_mut(slot) else {
                return;
            };
            if c.failure.is_some() || c.sequences.len() >= most {
                return;
            }
            // Unsolicited data arrives first, so that nothing is asked for twice.
            if c.sequences.iter().any(Sequence::is_unsolicited) {
                return;
            }
            let Some((at, len)) = c.next_range(burst) else {
                return;
            };
            self.send_r2t(transport, slot, at, len);
        }
    }

    fn send_r2t(&mut self, transport: &mut Transport, slot: usize, at: u32, len: u32) {
        let ttt = self.member.new_tag();
        let pause = transport.shared().config.data_timeout;
        let now = transport.now();
        let due = rate::deadline(now, pause, transport.link().account().held());
        let Some(c) = self.commands.get_mut(slot) else {
            return;
        };
        let r2t = R2t {
            lun: c.request.lun,
            itt: c.request.itt,
            ttt,
            r2t_sn: c.r2t_sn,
            offset: at,
            len,
        };
        c.r2t_sn += 1;
        let due = *c.due.get_or_insert(due);
        if let Some(hold) = &mut c.hold {
            hold.to_peer(now);
        }
        c.sequences.push(Sequence::solicited(r2t));
        transport.link_mut().await_transfer(due);
        send_r2t(transport, &r2t);
    }

    /// Gives a command the buffer that was reserved for its unsolicited data.
    pub(super) fn take_early(&mut self, transport: &Transport, slot: usize, early: Early) {
        let now = transport.now();
        let Some(c) = self.commands.get_mut(slot) else {
            return;
        };
        match early {
            Early::Whole(buf, mut hold) => {
                hold.to_peer(now);
                c.buf = Some(buf);
                c.hold = Some(hold);
            }
            Early::Part(buf, mut hold) => {
                hold.to_peer(now);
                c.early = Some(Early::Part(buf, hold));
            }
            Early::Outside { .. } => c.early = Some(early),
        }
    }

    /// Gives a command its buffer, and copies its early data into it.
    pub(super) fn give_buffer(&mut self, slot: usize, mut buf: IoBuf, hold: Hold) {
        if let Some(c) = self.commands.get_mut(slot) {
            if let Some(early) = c.early.take() {
                let n = early.bytes().len().min(buf.len());
                buf[..n].copy_from_slice(&early.bytes()[..n]);
            }
            c.buf = Some(buf);
            c.hold = Some(hold);
        }
    }

    /// Copies data from the staging area; bytes beyond the buffer are dropped.
    pub(crate) fn put_data(&mut self, transport: &Transport, slot: usize, at: usize, data: &[u8]) {
        transport.link().data_received(data.len());
        let Some(c) = self.commands.get_mut(slot) else {
            return;
        };
        let whole = match &mut c.early {
            // The sequence was checked to end within FirstBurstLength.
            Some(early) => early.bytes_mut(),
            None => c.buf.as_deref_mut().unwrap_or_default(),
        };
        if let Some(room) = whole.get_mut(at..) {
            let n = room.len().min(data.len());
            room[..n].copy_from_slice(&data[..n]);
        }
    }

    /// Lends a command's buffer to the socket. Returns it with the bytes that fit from `at` on; `None` if none fits.
    pub(crate) fn lend_buffer(&mut self, slot: usize, at: usize) -> Option<(IoBuf, usize)> {
        let c = self.commands.get_mut(slot)?;
        let room = c.buf.as_ref()?.len().checked_sub(at).filter(|n| *n > 0)?;
        Some((c.buf.take()?, room))
    }

    /// Takes a lent buffer back, after the socket has put `n` bytes into it.
    pub(crate) fn return_buffer(
        &mut self,
        transport: &Transport,
        slot: usize,
        buf: IoBuf,
        n: usize,
    ) {
        transport.link().data_received(n);
        if let Some(c) = self.commands.get_mut(slot) {
            c.buf = Some(buf);
        }
    }

    /// A command waits for data that it has a deadline for.
    pub(crate) fn await_data(&mut self, transport: &mut Transport, slot: usize) {
        if let Some(due) = self.commands.get(slot).and_then(|c| c.due) {
            transport.link_mut().await_transfer(due);
        }
    }

    /// Sends the outstanding R2Ts of a task again whose numbers are in the run (§11.16.1). Returns whether there were any.
    pub(super) fn repeat_r2ts(&self, transport: &mut Transport, slot: usize, run: Run) -> bool {
        let Some(c) = self.commands.get(slot) else {
            return false;
        };
        let outstanding = c.sequences.iter().filter_map(Sequence::r2t);
        let mut any = false;
        for r2t in outstanding.filter(|r| run.has(r.r2t_sn)) {
            send_r2t(transport, &r2t);
            any = true;
        }
        any
    }
}

fn send_r2t(transport: &mut Transport, r2t: &R2t) {
    let mut bhs = r2t.build();
    transport.stamp_next(&mut bhs);
    transport.send(bhs, &[]);
}
