//! Receiver: whole records out of the byte stream.
//!
//! **Called by** the turns of a connection, which poll [`receive`]. **Invariants**: the length of a record is checked before
//! a byte of it is kept; a long record is received into a buffer that the ledger granted; a record must be complete by a deadline
//! that counts from its first byte.

use super::framing::ReplyTo;
use super::request::{Call, Record};
use super::{Connection, Core, upgrade};
use crate::dispatch;
use crate::limits::{REQUEST_MAX, SMALL_REQUEST_MAX, STAGING_LEN};
use crate::rpc;
use crate::rpc::Probe;
use crate::rpc::record::{Framing, MARK_LEN};
use crate::shared::counters::CloseReason;
use io::SharedBuf;
use io::buf::capacity_of;
use session::Hold;
use session::rate;
use session::staging::Staging;
use session::turn::until_drained;
use std::convert::Infallible;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use tls::Stream;

/// Bytes of the longest record: RPC headers are in [`crate::limits::OVERHEAD_MAX`].
pub(super) const RECORD_MAX: usize = REQUEST_MAX as usize;

/// Bytes of a transaction number.
pub(super) const XID_LEN: usize = 4;

type Result<T> = std::result::Result<T, CloseReason>;

/// Receives and executes until the connection ends.
pub(super) async fn receive(connection: &Rc<Connection<Stream>>) -> CloseReason {
    let why = match receive_all(connection).await {
        Ok(never) => match never {},
        Err(why) => why,
    };
    match connection.carrier.failure() {
        // A handshake has its own reason.
        Some(failure) if why != CloseReason::Handshake => {
            connection.core.borrow_mut().complaint = Some(failure.to_string());
            CloseReason::Tls
        }
        _ => why,
    }
}

async fn receive_all(connection: &Rc<Connection<Stream>>) -> Result<Infallible> {
    let mut staging = Staging::new(STAGING_LEN);
    loop {
        until_drained(&connection.core, Core::is_busy).await;
        let (record, hold) = next_record(connection, &mut staging).await?;
        if let Some(xid) = rpc::reply_number(&record) {
            answered(connection, xid, &record)?;
            continue;
        }
        if let Some(probe) = Probe::of(&record) {
            upgrade::probed(connection, probe, &mut staging).await?;
            continue;
        }
        let hold = match (&record, hold) {
            (Record::Small(bytes), _) => match dispatch::cost(bytes) {
                0 => None,
                bytes => Some(granted(connection, bytes).await),
            },
            (Record::Large(_), hold) => hold,
        };
        let call = Call {
            record,
            hold,
            reply_to: ReplyTo::Stream,
        };
        Core::execute(connection, call);
    }
}

/// A reply to a callback arrived. Errors: it is too long, or no callback waits for it.
fn answered(connection: &Connection<Stream>, xid: u32, record: &Record) -> Result<()> {
    let mut core = connection.core.borrow_mut();
    let waited = match record {
        Record::Small(bytes) => core.path.answered(xid, bytes[XID_LEN..].to_vec()),
        Record::Large(_) => false,
    };
    match waited {
        true => Ok(()),
        false => {
            core.complaint = Some("a record is a reply to no callback".into());
            Err(CloseReason::Protocol)
        }
    }
}

/// Waits for bytes of the shard's buffers.
async fn granted(connection: &Connection<Stream>, bytes: usize) -> Hold {
    poll_fn(|_| match connection.core.borrow_mut().link.hold(bytes) {
        Some(hold) => Poll::Ready(hold),
        None => Poll::Pending,
    })
    .await
}

/// Receives until the staging area has `len` bytes.
async fn staged(connection: &Connection<Stream>, staging: &mut Staging, len: usize) -> Result<()> {
    while staging.area().readable().len() < len {
        let received = staging
            .receive::<CloseReason>(&connection.carrier, len)
            .await?;
        connection.core.borrow_mut().arrived(received);
    }
    Ok(())
}

/// The next fragment begins.
async fn fragment(
    connection: &Connection<Stream>,
    staging: &mut Staging,
    framing: &mut Framing,
) -> Result<()> {
    staged(connection, staging, 1).await?;
    {
        let mut core = connection.core.borrow_mut();
        let timeout = core.shared.config.data_timeout;
        let due = rate::deadline(core.link.now(), timeout, RECORD_MAX);
        core.link.await_transfer(due);
    }
    staged(connection, staging, MARK_LEN).await?;
    let mut header = [0; MARK_LEN];
    header.copy_from_slice(&staging.area().readable()[..MARK_LEN]);
    staging.area().consume(MARK_LEN);
    framing.begin(header).map_err(|error| {
        connection.core.borrow_mut().complaint = Some(error.to_string());
        CloseReason::Protocol
    })
}

/// Receives a record. A long one comes with the bytes that the ledger granted for its buffer: data to be written is handed on as a
/// part of it.
async fn next_record(
    connection: &Connection<Stream>,
    staging: &mut Staging,
) -> Result<(Record, Option<Hold>)> {
    let mut framing = Framing::new(RECORD_MAX);
    fragment(connection, staging, &mut framing).await?;
    let len = framing.missing();
    let record = if framing.is_last() && len <= SMALL_REQUEST_MAX {
        staged(connection, staging, len).await?;
        let bytes = SharedBuf::from(&staging.area().readable()[..len]);
        staging.area().consume(len);
        (Record::Small(bytes), None)
    } else {
        let (buffer, hold) = large(connection, staging, framing).await?;
        (Record::Large(buffer), Some(hold))
    };
    connection.core.borrow_mut().link.set_transfer_due(None);
    Ok(record)
}

async fn large(
    connection: &Connection<Stream>,
    staging: &mut Staging,
    mut framing: Framing,
) -> Result<(SharedBuf, Hold)> {
    let capacity = match framing.is_last() {
        true => framing.missing(),
        false => RECORD_MAX,
    };
    let mut hold = granted(connection, capacity_of(capacity)).await;
    let mut buffer = io::pool().alloc(capacity).await;
    hold.to_peer(connection.core.borrow().link.now());
    let mut at = 0;
    loop {
        while framing.missing() > 0 {
            let waiting = staging.area().readable().len().min(framing.missing());
            if waiting > 0 {
                let bytes = &staging.area().readable()[..waiting];
                buffer[at..at + waiting].copy_from_slice(bytes);
                staging.area().consume(waiting);
                at += waiting;
                framing.arrived(waiting);
                continue;
            }
            let missing = framing.missing();
            let stream = &connection.carrier;
            let (received, back, into) = staging
                .receive_into::<CloseReason>(stream, buffer, at, missing)
                .await;
            buffer = back;
            connection.core.borrow_mut().arrived(received?);
            at += into;
            framing.arrived(into);
        }
        if framing.is_last() {
            break;
        }
        fragment(connection, staging, &mut framing).await?;
    }
    buffer.set_len(at.max(1));
    hold.to_backend();
    Ok((buffer.into(), hold))
}
