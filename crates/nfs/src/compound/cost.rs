//! The memory that a request needs, before it is executed.
//!
//! **Called by** connections, which hold these bytes of the shard's buffers until the reply was sent. **Invariants**: nothing takes
//! effect here.

use crate::limits::{REPLY_MAX, TRANSFER_MAX};
use crate::wire::{Header, Minor2, Op};
use crate::xdr::{Reader, Xdr};
use backend::file::{XATTR_NAMES_MAX, XATTR_VALUE_MAX};

/// Bytes of buffers for data that a request reads and writes, and for long lists.
pub(crate) fn cost(reader: &mut Reader<'_>) -> usize {
    let header = Header::decode(reader);
    let operations = header.map_or(0, |header| header.operations);
    let (mut results, mut writes) = (0usize, 0usize);
    for _ in 0..operations {
        let Ok((_, Ok(op))) = Op::decode(reader) else {
            break;
        };
        match op {
            Op::Read { count, .. } => results += count.min(TRANSFER_MAX) as usize,
            Op::ReadDir(args) => results += args.bytes_max.min(REPLY_MAX) as usize,
            Op::Write { data, .. } => writes += data.len(),
            Op::Minor2(op) => match *op {
                Minor2::ReadPlus { count, .. } => results += count.min(TRANSFER_MAX) as usize,
                Minor2::GetXattr { .. } => results += XATTR_VALUE_MAX,
                Minor2::ListXattrs { bytes_max, .. } => {
                    results += (bytes_max as usize).min(XATTR_NAMES_MAX);
                }
                Minor2::SetXattr { value, .. } => writes += value.len(),
                _ => {}
            },
            _ => {}
        }
    }
    // A COMPOUND ends with the operation whose result no longer fits.
    results.min((REPLY_MAX + TRANSFER_MAX) as usize) + writes
}
