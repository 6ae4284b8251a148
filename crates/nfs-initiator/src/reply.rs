//! Replies to calls of a session, without I/O.
//!
//! **Called by** the engine. **Invariants**: the result of SEQUENCE must be of the session, slot and request that were sent.

use super::error::{Error, ProtocolError, Result};
use super::results::{Results, head, succeeded};
use nfs::limits::HANDLE_LEN_MAX;
use nfs::rpc::Reply;
use nfs::wire::{SessionId, operation};
use nfs::xdr::{Reader, XdrError};

/// The request that a reply must be of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected {
    pub(super) session: SessionId,
    pub(super) slot: u32,
    pub(super) sequence: u32,
}

/// Result of SEQUENCE that the client uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sequenced {
    /// `sr_status_flags`.
    pub(super) flags: u32,
}

/// The data of a successful READ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadData {
    /// Its first byte in the record.
    pub(super) start: usize,
    /// Bytes.
    pub(super) len: usize,
    /// Whether the file ends with it.
    pub(super) is_end: bool,
}

/// Whether the reply to a call is an answer of the session, or the reason why the call failed.
fn begin(reader: &mut Reader<'_>, expected: &Expected) -> Result<(u32, u32, Sequenced)> {
    match Reply::decode_body(reader)? {
        Reply::Success => {}
        refused => return Err(Error::Refused(refused)),
    }
    let (code, count) = head(reader)?;
    if count == 0 {
        let failed = Results::behind_head(code, 0, Vec::new())?.ok(operation::SEQUENCE);
        return Err(failed
            .err()
            .unwrap_or(Error::Protocol(ProtocolError::Sequence)));
    }
    succeeded(reader, operation::SEQUENCE)?;
    let found = Expected {
        session: reader.array()?,
        sequence: reader.u32()?,
        slot: reader.u32()?,
    };
    let is_same = found.session == expected.session
        && (found.slot, found.sequence) == (expected.slot, expected.sequence);
    if !is_same {
        return Err(ProtocolError::Sequence.into());
    }
    reader.take(8)?;
    let flags = reader.u32()?;
    Ok((code, count - 1, Sequenced { flags }))
}

/// The results of a call, behind the one of SEQUENCE; `body` is the record behind the transaction number.
pub(super) fn results(body: &[u8], expected: &Expected) -> Result<(Results, Sequenced)> {
    let mut reader = Reader::new(body);
    let (code, count, sequenced) = begin(&mut reader, expected)?;
    let results = Results::behind_head(code, count, reader.rest().to_vec())?;
    Ok((results, sequenced))
}

/// The place of a READ's data in its record, of which `body` is the beginning, behind the transaction number. `None` if `body` is
/// too short to tell. Errors: the READ failed, or its reply is malformed.
pub(super) fn read_data(body: &[u8], expected: &Expected) -> Result<Option<ReadData>> {
    match locate(body, expected) {
        Ok(data) => Ok(Some(data)),
        Err(Error::Protocol(ProtocolError::Xdr(XdrError::Short))) => Ok(None),
        Err(error) => Err(error),
    }
}

fn locate(body: &[u8], expected: &Expected) -> Result<ReadData> {
    let mut reader = Reader::new(body);
    begin(&mut reader, expected)?;
    succeeded(&mut reader, operation::PUTFH)?;
    succeeded(&mut reader, operation::READ)?;
    let is_end = reader.bool()?;
    let len = reader.u32()? as usize;
    Ok(ReadData {
        start: body.len() - reader.rest().len(),
        len,
        is_end,
    })
}

/// Bytes in which the head of a READ's reply lies, with the longest verifier and tag.
pub(super) const HEAD_MAX: usize =
    4 * 32 + nfs::limits::AUTH_LEN_MAX + nfs::limits::TAG_MAX + HANDLE_LEN_MAX;
