//! Data from the initiator: unsolicited, and solicited with R2Ts (§4.2.4.2, §11.7, §11.8) or, over iSER, by READs (RFC 7145, section 7.3.6).
//!
//! **Called by** the receiver and by commands that move on. **Invariants**: an R2T is sent only when its buffer is there and fits
//! the connection's budget; no offset of a Data-Out makes a byte be written outside of its command's buffer; a sequence ends
//! with its F bit, and a command with an error ends only after that (§7.8); a buffer that a READ fills is with the device until the READ has
//! ended.

use super::FullFeature;
use super::command::check_condition;
use super::next::Next;
use crate::portal::incoming::Destination;
use crate::portal::retained::Run;
use crate::portal::transport::PortalTransport;
use crate::wire::request::DataOut;
use crate::wire::response::{R2t, RejectReason};
use crate::wire::{Bhs, Ttt};
use io::IoBuf;
use session::rate;
use std::sync::atomic::Ordering;

impl FullFeature {
    /// The header of a Data-Out is here. Returns where its data belongs.
    pub(super) fn data_header(
        &mut self,
        transport: &mut PortalTransport,
        bhs: &Bhs,
        pdu: DataOut,
        len: u32,
    ) -> (Destination, Next) {
        self.member.acknowledged(pdu.exp_stat_sn);
        if transport.is_iser() && pdu.ttt != Ttt::NONE {
            transport.complain("a solicited Data-Out over iSER");
            self.reject_and_close(transport, RejectReason::PROTOCOL_ERROR, bhs);
            return (Destination::Nothing, Next::Idle);
        }
        let recovers = self.member.recovers();
        let found = self.commands.find(pdu.itt);
        let Some((slot, c)) = found.and_then(|slot| Some((slot, self.commands.get_mut(slot)?)))
        else {
            // Its task was aborted, or refused before all of its data had arrived.
            let counters = &transport.shared().counters;
            counters.discarded_data.fetch_add(1, Ordering::Relaxed);
            return (Destination::Nothing, Next::Idle);
        };
        let at = match c.data.announced(&pdu, len, recovers) {
            Some(Ok(at)) => at,
            Some(Err(error)) => {
                c.fail(error);
                let next = match pdu.last {
                    true => self.sequence_ended(transport, slot, pdu.ttt),
                    false => Next::Idle,
                };
                return (Destination::Nothing, next);
            }
            None => {
                transport.complain("a Data-Out that nothing asked for");
                self.reject_and_close(transport, RejectReason::PROTOCOL_ERROR, bhs);
                return (Destination::Nothing, Next::Idle);
            }
        };
        (Destination::DataOut { slot, at, pdu }, Next::Idle)
    }

    /// A Data-Out with `len` bytes of data is here, whole; `intact` if its digest matched.
    pub(crate) fn data_arrived(
        &mut self,
        transport: &mut PortalTransport,
        slot: usize,
        pdu: &DataOut,
        len: u32,
        intact: bool,
    ) -> Next {
        let Some(c) = self.commands.get_mut(slot) else {
            return Next::Idle;
        };
        c.data.arrived(pdu, len, intact);
        match pdu.last {
            true => self.sequence_ended(transport, slot, pdu.ttt),
            false => Next::Idle,
        }
    }

    /// The F bit of a sequence was seen.
    fn sequence_ended(&mut self, transport: &mut PortalTransport, slot: usize, ttt: Ttt) -> Next {
        let recovers = self.member.recovers();
        let Some(c) = self.commands.get_mut(slot) else {
            return Next::Idle;
        };
        match c.data.sequence_ended(ttt, recovers) {
            None => return Next::Idle,
            Some(Ok(())) => {}
            Some(Err(error)) => c.fail(error),
        }
        if !c.is_before_its_turn() {
            c.data.end_wait_if_settled();
        }
        self.proceed(transport, slot)
    }

    /// Sends R2Ts up to the negotiated number; lost data comes first (§7.8). Over iSER one READ brings the rest of the piece.
    pub(super) fn ask(&mut self, transport: &mut PortalTransport, slot: usize) {
        let p = self.member.parameters();
        let (most, burst) = match transport.is_iser() {
            true => (1, u32::MAX),
            false => (usize::from(p.max_outstanding_r2t), p.max_burst),
        };
        loop {
            let Some(c) = self.commands.get_mut(slot) else {
                return;
            };
            if c.is_failed() {
                return;
            }
            match c.data.next_range(most, burst) {
                Some(Ok(range)) => self.send_r2t(transport, slot, range),
                Some(Err(error)) => return c.fail(error),
                None => return,
            }
        }
    }

    fn send_r2t(&mut self, transport: &mut PortalTransport, slot: usize, range: (u32, u32)) {
        let ttt = self.member.new_tag();
        let pause = transport.shared().config.data_timeout;
        let now = transport.now();
        let due = rate::deadline(now, pause, transport.link().account().held());
        let Some(c) = self.commands.get_mut(slot) else {
            return;
        };
        let (r2t, due) = c.data.ask(&c.request, ttt, range, (now, due));
        transport.link_mut().await_transfer(due);
        if !transport.is_iser() {
            return send_r2t(transport, &r2t);
        }
        // The command was checked to name memory for this.
        if let (Some(from), Some((into, offset))) = (c.memory.write, c.data.lend_to_read(&r2t)) {
            transport.read(slot, into, (from, offset));
        }
    }

    /// A READ has brought the rest of a command's piece into its buffer.
    pub(crate) fn data_read(
        &mut self,
        transport: &mut PortalTransport,
        slot: usize,
        buf: IoBuf,
    ) -> Next {
        let Some(c) = self.commands.get_mut(slot) else {
            return Next::Idle;
        };
        let bytes = c.data.read_ended(buf);
        transport.link().data_received(bytes);
        transport.link_mut().tally().received(bytes);
        if c.aborted.is_some() {
            self.finish(transport, slot, check_condition(0x0b, (0, 0), 0));
            transport.link_mut().set_transfer_due(self.first_due());
            return Next::Idle;
        }
        c.data.end_wait_if_settled();
        self.proceed(transport, slot)
    }

    /// Copies data from the staging area; bytes beyond the buffer are dropped.
    pub(crate) fn put_data(
        &mut self,
        transport: &PortalTransport,
        slot: usize,
        at: usize,
        data: &[u8],
    ) {
        transport.link().data_received(data.len());
        if let Some(c) = self.commands.get_mut(slot) {
            c.data.put(at, data);
        }
    }

    /// Lends a command's buffer to the socket. Returns it with the bytes that fit from `at` on; `None` if none fits.
    pub(crate) fn lend_buffer(&mut self, slot: usize, at: usize) -> Option<(IoBuf, usize)> {
        self.commands.get_mut(slot)?.data.lend(at)
    }

    /// Takes a lent buffer back, after the socket has put `n` bytes into it.
    pub(crate) fn return_buffer(
        &mut self,
        transport: &PortalTransport,
        slot: usize,
        buf: IoBuf,
        n: usize,
    ) {
        transport.link().data_received(n);
        if let Some(c) = self.commands.get_mut(slot) {
            c.data.put_back(buf);
        }
    }

    /// A command waits for data that it has a deadline for.
    pub(crate) fn await_data(&mut self, transport: &mut PortalTransport, slot: usize) {
        if let Some(due) = self.commands.get(slot).and_then(|c| c.data.due()) {
            transport.link_mut().await_transfer(due);
        }
    }

    /// Sends the outstanding R2Ts of a task again whose numbers are in the run (§11.16.1). Returns whether there were any.
    pub(super) fn repeat_r2ts(
        &self,
        transport: &mut PortalTransport,
        slot: usize,
        run: Run,
    ) -> bool {
        let Some(c) = self.commands.get(slot) else {
            return false;
        };
        let mut any = false;
        for r2t in c.data.r2ts().filter(|r| run.has(r.r2t_sn)) {
            send_r2t(transport, &r2t);
            any = true;
        }
        any
    }
}

fn send_r2t(transport: &mut PortalTransport, r2t: &R2t) {
    let mut bhs = r2t.build();
    transport.stamp_next(&mut bhs);
    transport.send(bhs, &[]);
}
