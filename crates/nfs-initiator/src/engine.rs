//! A session without I/O: slots and their sequence numbers, calls to be sent, replies (§2.10.6).
//!
//! **Owns** the table of outstanding calls ([`initiator::slots`]), of which the slots are the session's slots, and the batch of
//! each connection. **Called by** the connections. **Invariants**: a slot has one call at a time, and its sequence number
//! advances with each call; a call is sent once; the transaction number of a call is its tag.

use super::error::{Error, ProtocolError, Result};
use super::reply::{self, Expected, HEAD_MAX, ReadData};
use super::results::Results;
use initiator::slots::{self, Data, Replay, Request};
use io::sync::Permit;
use io::{IoBuf, Payload, SendBatch};
use nfs::rpc::Call;
use nfs::rpc::record::{MARK_LEN, mark};
use nfs::service::NfsTransport;
use nfs::wire::channel::Sequence;
use nfs::wire::{Op, PROC_COMPOUND, PROGRAM, SessionId, VERSION};
use nfs::xdr::{Reader, Writer, padding};

use super::config::Config;

/// Bits of a transaction number above the slot's index.
const GENERATION_BITS: u32 = 22;

/// The NFS part of an outstanding call.
#[derive(Debug, Default)]
pub(super) struct CallParts {
    /// The operations behind SEQUENCE, encoded. The data of a WRITE comes behind them.
    pub(super) operations: Vec<u8>,
    /// Their number.
    pub(super) count: u32,
    /// Memory for a long reply over RDMA.
    pub(super) reply: Option<IoBuf>,
}

/// A call that a connection over RDMA has to send.
pub(super) struct Message {
    /// Its slot.
    pub(super) index: u16,
    /// Its transaction number.
    pub(super) xid: u32,
    /// The call, without the data of a WRITE.
    pub(super) record: Vec<u8>,
}

/// Calls of one connection that were not sent.
enum Unsent {
    Stream(SendBatch),
    Messages(Vec<Message>),
}

/// The answer to a call.
#[derive(Debug)]
pub(super) enum Answer {
    /// The results behind the one of SEQUENCE.
    Results(Results),
    /// Data was read into the call's buffer; whether the file ends with it.
    Read { is_end: bool },
}

/// A call that has ended.
pub(super) type Finished = slots::Finished<Result<Answer>>;
/// All calls of a session.
pub(super) type Calls = slots::Slots<CallParts, Result<Answer>>;

/// What the beginning of a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// More bytes are needed to tell.
    More,
    /// Data of a READ, for the call in this slot. The offset counts from the start of the record.
    Data(u16, ReadData),
    /// A reply that is handled as a whole.
    Whole,
}

/// See the module header.
pub(super) struct Engine {
    pub(super) calls: Calls,
    sequences: Vec<u32>,
    session: SessionId,
    highest_slot: u32,
    /// The header of each call behind the transaction number, up to the COMPOUND's minor version.
    head: Vec<u8>,
    unsent: Vec<Unsent>,
    tick: u32,
    /// Calls that were submitted.
    pub(super) submitted: u64,
    /// `sr_status_flags` of the last SEQUENCE.
    pub(super) flags: u32,
}

/// Bytes of an encoded SEQUENCE, with the operation's number.
const SEQUENCE_LEN: usize = 4 + 16 + 4 * 4;

impl Engine {
    /// The engine of a session with this many slots; slot 0 has had `sequence` requests.
    pub(super) fn new(config: &Config, session: SessionId, slots: u16, sequence: u32) -> Engine {
        let mut writer = Writer::new();
        Call {
            xid: 0,
            program: PROGRAM,
            version: VERSION,
            procedure: PROC_COMPOUND,
            credential: config.credential(),
        }
        .encode(&mut writer);
        // The tag is empty.
        writer.u32(0);
        writer.u32(config.minor);
        let mut sequences = vec![0; slots.into()];
        sequences[0] = sequence;
        Engine {
            calls: Calls::new(slots, GENERATION_BITS),
            sequences,
            session,
            highest_slot: u32::from(slots) - 1,
            head: writer.to_vec()[4..].to_vec(),
            unsent: (0..config.connections)
                .map(|_| match config.transport {
                    NfsTransport::Tcp => Unsent::Stream(SendBatch::new()),
                    NfsTransport::Rdma => Unsent::Messages(Vec::new()),
                })
                .collect(),
            tick: 0,
            submitted: 0,
            flags: 0,
        }
    }

    /// Puts a call into a free slot and into the batch of a connection. Returns slot and connection.
    pub(super) fn submit(&mut self, entry: CallParts, data: Data, permit: Permit) -> (u16, usize) {
        let request = Request {
            command: entry,
            data,
            replay: Replay::Never,
            whole: false,
        };
        let index = self.calls.insert(request, permit);
        let xid = self.calls.send(index, self.tick).expect("it is new");
        let sequence = &mut self.sequences[usize::from(index)];
        *sequence = sequence.wrapping_add(1);
        self.submitted += 1;
        let connection = usize::from(index) % self.unsent.len();
        self.encode(index, xid, connection);
        (index, connection)
    }

    fn encode(&mut self, index: u16, xid: u32, connection: usize) {
        let call = self.calls.get_mut(index);
        let operations = std::mem::take(&mut call.command.operations);
        let payload = match &call.data {
            Data::Out(buf) => Some(Payload::shared(buf.clone())),
            _ => None,
        };
        let data_len = payload.as_ref().map_or(0, Payload::len);
        let pad = padding(data_len);
        let own = 4 + self.head.len() + 4 + SEQUENCE_LEN + operations.len();
        let sequence = Sequence {
            session: self.session,
            sequence: self.sequences[usize::from(index)],
            slot: index.into(),
            highest_slot: self.highest_slot,
            cache_this: false,
        };
        let count = call.command.count + 1;
        let mut encoded = Writer::new();
        Op::Sequence(sequence).encode(&mut encoded);
        let batch = match &mut self.unsent[connection] {
            Unsent::Stream(batch) => batch,
            Unsent::Messages(messages) => {
                let encoded = encoded.to_vec();
                let (xid_bytes, count) = (xid.to_be_bytes(), count.to_be_bytes());
                let parts = [&xid_bytes[..], &self.head, &count, &encoded, &operations];
                messages.push(Message {
                    index,
                    xid,
                    record: parts.concat(),
                });
                return;
            }
        };
        batch.put(&mark(own + data_len + pad));
        batch.put(&xid.to_be_bytes());
        batch.put(&self.head);
        batch.put(&count.to_be_bytes());
        batch.put(&encoded.to_vec());
        batch.put(&operations);
        if let Some(payload) = payload {
            batch.put_payload(payload);
            batch.put(&[0; 3][..pad]);
        }
    }

    /// Swaps an empty batch for the one of a connection. Returns whether there is something to send.
    pub(super) fn swap_batch(&mut self, connection: usize, batch: &mut SendBatch) -> bool {
        if let Unsent::Stream(unsent) = &mut self.unsent[connection] {
            std::mem::swap(unsent, batch);
        }
        !batch.is_empty()
    }

    /// Takes the calls that a connection over RDMA has to send.
    pub(super) fn take_messages(&mut self, connection: usize) -> Vec<Message> {
        match &mut self.unsent[connection] {
            Unsent::Stream(_) => Vec::new(),
            Unsent::Messages(messages) => std::mem::take(messages),
        }
    }

    fn expected(&self, index: u16) -> Expected {
        Expected {
            session: self.session,
            slot: index.into(),
            sequence: self.sequences[usize::from(index)],
        }
    }

    fn find(&self, record: &[u8]) -> Result<u16> {
        self.find_call(Reader::new(record).u32()?)
    }

    /// The slot of the call with this transaction number. Errors: there is none.
    pub(super) fn find_call(&self, xid: u32) -> Result<u16> {
        let found = self.calls.find(xid).ok_or(ProtocolError::NoCall)?;
        Ok(found)
    }

    /// Looks at the beginning of a record of `len` bytes. Errors end the session.
    pub(super) fn arrival(&self, beginning: &[u8], len: usize) -> Result<Arrival> {
        if beginning.len() < MARK_LEN {
            return match beginning.len() == len {
                true => Err(ProtocolError::NoCall.into()),
                false => Ok(Arrival::More),
            };
        }
        let index = self.find(beginning)?;
        let Data::In(buf) = &self.calls.get(index).data else {
            return Ok(Arrival::Whole);
        };
        let found = reply::read_data(&beginning[4..], &self.expected(index));
        let data = match found {
            Ok(Some(data)) => data,
            Ok(None) if beginning.len() < len.min(HEAD_MAX) => return Ok(Arrival::More),
            // It failed, or is malformed: found out again with the whole record.
            Ok(None) | Err(_) => return Ok(Arrival::Whole),
        };
        let data = ReadData {
            start: data.start + 4,
            ..data
        };
        let is_fit =
            data.len <= buf.len() && data.len + padding(data.len) == len.saturating_sub(data.start);
        match is_fit {
            true => Ok(Arrival::Data(index, data)),
            false => Err(ProtocolError::Transfer("data of a READ does not fit its reply").into()),
        }
    }

    /// Handles a whole record. Errors end the session.
    pub(super) fn reply(&mut self, record: &[u8]) -> Result<()> {
        let index = self.find(record)?;
        let body = &record[4..];
        let expected = self.expected(index);
        if let Data::In(_) = &self.calls.get(index).data
            && let Arrival::Data(_, data) = self.arrival(record, record.len())?
        {
            let Data::In(buf) = &mut self.calls.get_mut(index).data else {
                unreachable!("it was just seen");
            };
            buf[..data.len].copy_from_slice(&record[data.start..data.start + data.len]);
            self.read_done(index, &data);
            return Ok(());
        }
        let answer = match reply::results(body, &expected) {
            Ok((results, sequenced)) => {
                self.flags = sequenced.flags;
                Ok(Answer::Results(results))
            }
            Err(error @ Error::Protocol(_)) => return Err(error),
            Err(error) => Err(error),
        };
        self.finish(index, answer);
        Ok(())
    }

    /// Handles a record whose READ data, `written` bytes, was placed into the call's buffer. Without, it is a whole record. Errors end
    /// the session.
    pub(super) fn reply_apart(&mut self, record: &[u8], written: Option<usize>) -> Result<()> {
        let index = self.find(record)?;
        let Data::In(buf) = &self.calls.get(index).data else {
            return self.reply(record);
        };
        let most = buf.len();
        // A READ that failed is found out with the whole record.
        let Ok(Some(data)) = reply::read_data(&record[4..], &self.expected(index)) else {
            return self.reply(record);
        };
        let is_fit = written == Some(data.len) && data.len <= most;
        if !is_fit || data.start + 4 != record.len() {
            let why = "data of a READ is not in the memory of its call";
            return Err(ProtocolError::Transfer(why).into());
        }
        self.read_done(index, &data);
        Ok(())
    }

    /// All data of a READ is in its buffer.
    pub(super) fn read_done(&mut self, index: u16, data: &ReadData) {
        let is_end = data.is_end;
        self.calls.get_mut(index).moved = u32::try_from(data.len).expect("it fits its buffer");
        self.finish(index, Ok(Answer::Read { is_end }));
    }

    fn finish(&mut self, index: u16, result: Result<Answer>) {
        if let Some(waker) = self.calls.finish(index, result) {
            waker.wake();
        }
    }

    /// The session ended: every call fails.
    pub(super) fn end(&mut self, cause: &Error) {
        for waker in self.calls.disconnect(false, |_| Err(cause.clone())) {
            waker.wake();
        }
    }

    /// Time passes. Returns whether no call is older than `ticks`.
    pub(super) fn tick(&mut self, ticks: u32) -> bool {
        self.tick = self.tick.wrapping_add(1);
        !self.calls.has_expired(self.tick, ticks, |_| true)
    }
}
