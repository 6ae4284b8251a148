//! Data of one command from its initiator: arrived, asked for, lost.
//!
//! **Owns** the buffer of the present piece and the sequences that are not complete. **Called by** the files of the full feature phase.
//! **Invariants**: no offset of a Data-Out makes a byte be written outside of the buffer; only lost data is asked for twice.

use super::sequence::{Fit, Sequence};
use crate::limits::RECOVERY_R2T_MAX;
use crate::portal::early::Early;
use crate::wire::Ttt;
use crate::wire::request::{DataOut, ScsiCommand};
use crate::wire::response::R2t;
use io::IoBuf;
use io::time::Instant;
use session::Hold;

/// ASC and ASCQ of an error of the transport (§11.4.7.2), with sense key ABORTED COMMAND.
pub(super) type TransportError = (u8, u8);

pub(super) const UNEXPECTED_UNSOLICITED_DATA: TransportError = (0x0c, 0x0c);
const INCORRECT_AMOUNT_OF_DATA: TransportError = (0x0c, 0x0d);
const PROTOCOL_SERVICE_CRC_ERROR: TransportError = (0x47, 0x05);

/// Data of one command from its initiator. Offsets and lengths are bytes.
pub(super) struct WriteData {
    /// Buffer for bytes `base` to `end`: the piece that the device wants now.
    buf: Option<IoBuf>,
    base: u32,
    end: u32,
    /// Ledger bytes of one piece, also of a command that reads.
    hold: Option<Hold>,
    /// Data that arrived before there was a buffer for it.
    early: Option<Early>,
    /// Each byte before this one has arrived, was asked for, or is in `missing`.
    asked: u32,
    /// Sequences of Data-Out PDUs that are not complete.
    sequences: Vec<Sequence>,
    /// Ranges of lost data: offset and length.
    missing: Vec<(u32, u32)>,
    r2t_sn: u32,
    /// Where solicited data begins; none before it was asked for.
    solicited_from: Option<u32>,
    /// The first byte of the piece that the READ fills which has the buffer; none without a READ.
    reading: Option<usize>,
    /// R2Ts that were sent for lost data.
    recoveries: u32,
    /// When the data that is awaited must be here; parts of it that arrive do not move this.
    due: Option<Instant>,
}

impl WriteData {
    /// The data of a command that has `immediate` bytes of immediate data.
    pub(super) fn new(immediate: u32) -> WriteData {
        WriteData {
            buf: None,
            base: 0,
            end: 0,
            hold: None,
            early: None,
            asked: immediate,
            sequences: Vec::new(),
            missing: Vec::new(),
            r2t_sn: 0,
            solicited_from: None,
            reading: None,
            recoveries: 0,
            due: None,
        }
    }

    /// Unsolicited Data-Out PDUs follow, up to byte `end`.
    pub(super) fn await_unsolicited(&mut self, end: u32) {
        self.sequences.push(Sequence::unsolicited(self.asked, end));
    }

    /// Whether no sequence is incomplete.
    pub(super) fn is_settled(&self) -> bool {
        self.sequences.is_empty()
    }

    /// When the data that is awaited must be here.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Data is awaited until `due`.
    pub(super) fn set_due(&mut self, due: Instant) {
        self.due = Some(due);
    }

    /// No sequence is awaited any longer, if all are complete.
    pub(super) fn end_wait_if_settled(&mut self) {
        if self.is_settled() {
            self.due = None;
        }
    }

    /// The device wants the next `len` bytes.
    pub(super) fn begin_piece(&mut self, len: u32) {
        self.base = self.end;
        self.end += len;
    }

    /// Whether the device has wanted data.
    pub(super) fn has_piece(&self) -> bool {
        self.end > 0
    }

    /// Whether the piece has its buffer.
    pub(super) fn has_buffer(&self) -> bool {
        self.buf.is_some()
    }

    /// Takes the ledger bytes of a piece that needs no data from the initiator.
    pub(super) fn set_hold(&mut self, hold: Hold) {
        self.hold = Some(hold);
    }

    /// Takes the piece out, for the device: its data, if it has any, and its ledger bytes.
    pub(super) fn take_piece(&mut self) -> (Option<IoBuf>, Option<Hold>) {
        self.due = None;
        let mut buf = self.buf.take();
        if let Some(b) = &mut buf {
            b.set_len((self.end - self.base) as usize);
        }
        let mut hold = self.hold.take();
        if let Some(hold) = &mut hold {
            hold.to_backend();
        }
        (buf.filter(|_| self.end > self.base), hold)
    }

    /// Gives the buffer back: only the data that has arrived is kept, in what `copy` makes of it.
    pub(super) fn set_aside(&mut self, copy: impl FnOnce(&[u8]) -> Early) {
        let asked = self.asked as usize;
        if let (Some(buf), hold) = (self.buf.take(), self.hold.take()) {
            self.early = Some(copy(&buf[..asked.min(buf.len())]));
            drop((buf, hold));
        }
    }

    /// Takes the buffer that was reserved for unsolicited data.
    pub(super) fn take_early(&mut self, early: Early, now: Instant) {
        match early {
            Early::Whole(buf, mut hold) => {
                hold.to_peer(now);
                self.buf = Some(buf);
                self.hold = Some(hold);
            }
            Early::Part(buf, mut hold) => {
                hold.to_peer(now);
                self.early = Some(Early::Part(buf, hold));
            }
            Early::Outside { .. } => self.early = Some(early),
        }
    }

    /// Takes the buffer of the piece, and copies early data into it.
    pub(super) fn give_buffer(&mut self, mut buf: IoBuf, hold: Hold) {
        if let Some(early) = self.early.take() {
            let n = early.bytes().len().min(buf.len());
            buf[..n].copy_from_slice(&early.bytes()[..n]);
        }
        self.buf = Some(buf);
        self.hold = Some(hold);
    }

    /// Copies data to position `at` of the piece; bytes beyond the buffer are dropped.
    pub(super) fn put(&mut self, at: usize, data: &[u8]) {
        let whole = match &mut self.early {
            // The sequence was checked to end within FirstBurstLength.
            Some(early) => early.bytes_mut(),
            None => self.buf.as_deref_mut().unwrap_or_default(),
        };
        if let Some(room) = whole.get_mut(at..) {
            let n = room.len().min(data.len());
            room[..n].copy_from_slice(&data[..n]);
        }
    }

    /// Lends the buffer to the socket. Returns it with the bytes that fit from `at` on; `None` if none fits.
    pub(super) fn lend(&mut self, at: usize) -> Option<(IoBuf, usize)> {
        let room = self
            .buf
            .as_ref()?
            .len()
            .checked_sub(at)
            .filter(|n| *n > 0)?;
        Some((self.buf.take()?, room))
    }

    /// Lends the buffer to the READ that brings the data which `r2t` asks for, the rest of the piece. Returns it with the position of the data in
    /// it, and with the offset of the data in the initiator's memory, which has the solicited data only.
    pub(super) fn lend_to_read(&mut self, r2t: &R2t) -> Option<((IoBuf, usize), u32)> {
        let mut buf = self.buf.take()?;
        buf.set_len((self.end - self.base) as usize);
        let at = (r2t.offset - self.base) as usize;
        self.reading = Some(at);
        Some(((buf, at), r2t.offset - self.solicited_from?))
    }

    /// Whether a READ has the buffer.
    pub(super) fn is_reading(&self) -> bool {
        self.reading.is_some()
    }

    /// The READ has ended: all data of the piece is here. Returns the bytes that it brought.
    pub(super) fn read_ended(&mut self, buf: IoBuf) -> usize {
        let at = self.reading.take().unwrap_or(buf.len());
        let bytes = buf.len() - at;
        self.sequences.clear();
        self.buf = Some(buf);
        bytes
    }

    /// Takes a lent buffer back.
    pub(super) fn put_back(&mut self, buf: IoBuf) {
        self.buf = Some(buf);
    }

    /// The header of a Data-Out with `len` bytes is here. Returns the position of its data in the piece; `None` if nothing asked for
    /// it. Errors: the data must not be taken.
    pub(super) fn announced(
        &mut self,
        pdu: &DataOut,
        len: u32,
        recovers: bool,
    ) -> Option<Result<usize, TransportError>> {
        match self.sequence(pdu.ttt)?.fit(pdu, len, recovers) {
            Fit::Next => {}
            Fit::AfterLoss(at, lost) => self.missing.push((at, lost)),
            Fit::Beyond => return Some(Err(INCORRECT_AMOUNT_OF_DATA)),
            Fit::OutOfOrder => return Some(Err(PROTOCOL_SERVICE_CRC_ERROR)),
        }
        Some(Ok((pdu.offset - self.base) as usize))
    }

    /// A Data-Out with `len` bytes is here, whole; `intact` if its digest matched.
    pub(super) fn arrived(&mut self, pdu: &DataOut, len: u32, intact: bool) {
        if !intact {
            self.missing.push((pdu.offset, len));
        }
        if let Some(s) = self.sequence(pdu.ttt) {
            s.arrived(pdu, len);
        }
    }

    /// The F bit of a sequence was seen. `None` if there is no such sequence. Errors: solicited data is missing, and lost data is not
    /// asked for again (`recovers`).
    pub(super) fn sequence_ended(
        &mut self,
        ttt: Ttt,
        recovers: bool,
    ) -> Option<Result<(), TransportError>> {
        let i = self.sequences.iter().position(|s| s.ttt() == ttt)?;
        let s = self.sequences.remove(i);
        if s.is_unsolicited() {
            // Data that did not arrive unsolicited is asked for.
            self.asked = self.asked.max(s.at());
        } else if let Some(rest) = s.rest() {
            if !recovers {
                return Some(Err(INCORRECT_AMOUNT_OF_DATA));
            }
            self.missing.push(rest);
        }
        Some(Ok(()))
    }

    /// The next range that an R2T asks for, at most `burst` bytes, while fewer than `most` sequences are incomplete: offset and length. Lost
    /// data comes first (§7.8). `None` if all data of the piece was asked for, or unsolicited data is on its way. Errors: too much
    /// was lost.
    pub(super) fn next_range(
        &mut self,
        most: usize,
        burst: u32,
    ) -> Option<Result<(u32, u32), TransportError>> {
        // Unsolicited data arrives first, so that nothing is asked for twice.
        let is_open = self.sequences.len() >= most;
        if is_open || self.sequences.iter().any(Sequence::is_unsolicited) {
            return None;
        }
        while let Some((at, len)) = self.missing.pop() {
            if at < self.end {
                self.recoveries += 1;
                if self.recoveries > RECOVERY_R2T_MAX {
                    return Some(Err(PROTOCOL_SERVICE_CRC_ERROR));
                }
                return Some(Ok((at, len.min(self.end - at))));
            }
        }
        if self.asked >= self.end {
            return None;
        }
        let at = self.asked;
        let len = burst.min(self.end - at);
        self.asked += len;
        Some(Ok((at, len)))
    }

    /// The R2T with this tag for a range of the data of `request`; its data must be here by `due`, or by an earlier deadline, which is
    /// returned.
    pub(super) fn ask(
        &mut self,
        request: &ScsiCommand,
        ttt: Ttt,
        (offset, len): (u32, u32),
        (now, due): (Instant, Instant),
    ) -> (R2t, Instant) {
        let r2t = R2t {
            lun: request.lun,
            itt: request.itt,
            ttt,
            r2t_sn: self.r2t_sn,
            offset,
            len,
        };
        self.r2t_sn += 1;
        self.solicited_from.get_or_insert(offset);
        if let Some(hold) = &mut self.hold {
            hold.to_peer(now);
        }
        self.sequences.push(Sequence::solicited(r2t));
        (r2t, *self.due.get_or_insert(due))
    }

    /// The R2Ts whose data is not here.
    pub(super) fn r2ts(&self) -> impl Iterator<Item = R2t> {
        self.sequences.iter().filter_map(Sequence::r2t)
    }

    fn sequence(&mut self, ttt: Ttt) -> Option<&mut Sequence> {
        self.sequences.iter_mut().find(|s| s.ttt() == ttt)
    }
}
