//! CB_COMPOUND (§20): calls of the server over the back channel, and their results.
//!
//! **Owns** [`CallbackOp`], [`CallbackSequence`] and [`CallbackResults`]. **Called by** the server, which encodes calls and decodes results, and by
//! clients, which do the opposite. **Invariants**: as in [`super::compound`]; the results of a callback are read one by one, and
//! a result of another operation than the expected one is an error.

use super::Status;
use super::types::{Bitmap, Owner, SessionId, Stateid};
use crate::limits::{HANDLE_LEN_MAX, REFERRING_CALLS_MAX, TAG_MAX};
use crate::xdr::{
    Bytes, Codec, Reader, Result, Writer, Xdr, XdrError, xdr_enum, xdr_struct, xdr_union,
};

/// Version of the program of callbacks.
pub const CALLBACK_VERSION: u32 = 1;
/// Procedure CB_NULL.
pub const PROC_CB_NULL: u32 = 0;
/// Procedure CB_COMPOUND.
pub const PROC_CB_COMPOUND: u32 = 1;

/// CB_GETATTR.
pub const CB_GETATTR: u32 = 3;
/// CB_RECALL.
pub const CB_RECALL: u32 = 4;
/// CB_RECALL_ANY.
pub const CB_RECALL_ANY: u32 = 8;
/// CB_RECALL_SLOT.
pub const CB_RECALL_SLOT: u32 = 10;
/// CB_SEQUENCE.
pub const CB_SEQUENCE: u32 = 11;
/// CB_NOTIFY_LOCK.
pub const CB_NOTIFY_LOCK: u32 = 13;

/// A request of the client whose reply it must have seen before it handles a callback (§2.10.6.3).
pub use filestate::Origin as ReferringCall;

xdr_struct! {
    /// CB_SEQUENCE (§20.9).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CallbackSequence {
        /// The session.
        pub session: SessionId,
        /// The slot's sequence number.
        pub sequence: u32,
        /// The slot of the back channel.
        pub slot: u32,
        /// The highest slot that the server uses.
        pub highest_slot: u32,
        /// Whether the client must keep its reply for a retry.
        pub cache_this: bool,
        /// Requests whose replies come first.
        pub referring: Vec<ReferringCall> as BySession,
    }
}

/// A list of sessions with a list of calls each (`referring_call_list4`).
#[derive(Debug)]
pub struct BySession;

impl Codec<'_, Vec<ReferringCall>> for BySession {
    fn decode(reader: &mut Reader<'_>) -> Result<Vec<ReferringCall>> {
        let mut all = Vec::new();
        for _ in 0..reader.count(REFERRING_CALLS_MAX, 20)? {
            let session = reader.array()?;
            for _ in 0..reader.count(REFERRING_CALLS_MAX, 8)? {
                all.push(ReferringCall {
                    session,
                    sequence: reader.u32()?,
                    slot: reader.u32()?,
                });
            }
        }
        Ok(all)
    }

    fn encode(all: &Vec<ReferringCall>, writer: &mut Writer) {
        writer.count(all.len());
        for call in all {
            writer.fixed(&call.session);
            writer.count(1);
            writer.u32(call.sequence);
            writer.u32(call.slot);
        }
    }
}

xdr_enum! {
    /// An operation of a CB_COMPOUND with its arguments. Names are the specification's.
    #[derive(Debug, Clone, PartialEq, Eq)]
    #[allow(missing_docs)] // the fields have the names of the specification
    pub enum CallbackOp<'a> {
        GetAttr { handle: &'a [u8] as Bytes<HANDLE_LEN_MAX>, wanted: Bitmap } = CB_GETATTR,
        NotifyLock { handle: &'a [u8] as Bytes<HANDLE_LEN_MAX>, owner: Owner<'a> } = CB_NOTIFY_LOCK,
        Recall { stateid: Stateid, truncate: bool, handle: &'a [u8] as Bytes<HANDLE_LEN_MAX> } = CB_RECALL,
        RecallAny { objects_to_keep: u32, types: Bitmap } = CB_RECALL_ANY,
        RecallSlot { target_highest: u32 } = CB_RECALL_SLOT,
        Sequence(args: CallbackSequence) = CB_SEQUENCE,
    }
}
xdr_union!(['a] CallbackOp<'a>);

/// The header of a CB_COMPOUND.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallbackHeader {
    /// Minor version: that of the session.
    pub minor: u32,
    /// Number of operations.
    pub operations: u32,
}

impl<'a> Xdr<'a> for CallbackHeader {
    fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        reader.opaque(TAG_MAX)?;
        let minor = reader.u32()?;
        // `callback_ident`, of NFS 4.0.
        reader.u32()?;
        Ok(Self {
            minor,
            operations: reader.u32()?,
        })
    }

    /// With an empty tag.
    fn encode(&self, writer: &mut Writer) {
        for word in [0, self.minor, 0, self.operations] {
            writer.u32(word);
        }
    }
}

/// The results of a CB_COMPOUND, read one after the other.
#[derive(Debug, Clone)]
pub struct CallbackResults<'a> {
    reader: Reader<'a>,
}

impl<'a> CallbackResults<'a> {
    /// Reads the header. Errors: those of the encoding.
    pub fn new(mut reader: Reader<'a>) -> Result<Self> {
        reader.u32()?;
        reader.opaque(TAG_MAX)?;
        reader.u32()?;
        Ok(Self { reader })
    }

    /// The status of the next result; `Serverfault` stands for every status that only clients send. Errors: `Value` if it is
    /// the result of another operation.
    pub fn next(&mut self, number: u32) -> Result<Status> {
        if self.reader.u32()? != number {
            return Err(XdrError::Value);
        }
        let status = Status::from_code(self.reader.u32()?);
        Ok(status.unwrap_or(Status::Serverfault))
    }

    /// The body of a result of CB_SEQUENCE with `Ok`: the session, sequence number and slot, and the highest slot that the
    /// client wants to be used.
    pub fn sequence(&mut self) -> Result<(SessionId, u32, u32, u32)> {
        let reader = &mut self.reader;
        let session = reader.array()?;
        let (sequence, slot) = (reader.u32()?, reader.u32()?);
        reader.u32()?;
        Ok((session, sequence, slot, reader.u32()?))
    }

    /// Bytes that were not read.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.reader.rest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATEID: Stateid = Stateid {
        seqid: 1,
        other: [2; 12],
    };

    fn every_operation() -> Vec<CallbackOp<'static>> {
        let owner = Owner {
            client: 3,
            name: b"lock",
        };
        let handle = &[4; 48][..];
        let call = ReferringCall {
            session: [5; 16],
            sequence: 6,
            slot: 7,
        };
        let wanted = Bitmap::of(&[3, 4]);
        vec![
            CallbackOp::GetAttr { handle, wanted },
            CallbackOp::NotifyLock { handle, owner },
            CallbackOp::Recall {
                stateid: STATEID,
                truncate: true,
                handle,
            },
            CallbackOp::RecallAny {
                objects_to_keep: 8,
                types: Bitmap::of(&[0, 1]),
            },
            CallbackOp::RecallSlot { target_highest: 9 },
            CallbackOp::Sequence(CallbackSequence {
                session: [1; 16],
                sequence: 2,
                slot: 3,
                highest_slot: 4,
                cache_this: false,
                referring: vec![call, call],
            }),
        ]
    }

    #[test]
    fn every_callback_is_read_as_it_was_written() {
        for op in every_operation() {
            let mut writer = Writer::new();
            op.encode(&mut writer);
            let bytes = writer.to_vec();
            let mut reader = Reader::new(&bytes);
            assert_eq!(CallbackOp::decode(&mut reader), Ok(op));
            assert!(reader.is_empty());
            for cut in 0..bytes.len() {
                assert!(CallbackOp::decode(&mut Reader::new(&bytes[..cut])).is_err());
            }
        }
    }

    #[test]
    fn results_of_another_operation_are_refused() {
        let mut writer = Writer::new();
        [0, 0, 1, CB_RECALL, 0].iter().for_each(|w| writer.u32(*w));
        let bytes = writer.to_vec();
        let mut results = CallbackResults::new(Reader::new(&bytes)).unwrap();
        assert_eq!(results.clone().next(CB_SEQUENCE), Err(XdrError::Value));
        assert_eq!(results.next(CB_RECALL), Ok(Status::Ok));
        assert_eq!(results.next(CB_RECALL), Err(XdrError::Short));
    }
}
