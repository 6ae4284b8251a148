//! Framing: the form that RPC records have on a connection's carrier, as records of a byte stream or as messages of RPC-over-RDMA.
//!
//! **Called by** the core of a connection, for each reply and each callback. **Invariants**: payload is sent from its own buffer, unless it fits
//! into a message.

use super::rdma::{RdmaFraming, ReplyMemory};
use crate::limits::CALLBACKS_MAX;
use crate::rpc::record::mark;
use crate::transport::NfsTransport;
use crate::xdr::{Part, Writer};
use io::Payload;
use session::output::Output;

/// Bytes of a reply that are copied into the output; longer parts are sent from their own memory.
const COPY_MAX: usize = 2048;

/// The form of records on one connection.
pub(super) enum AnyFraming {
    /// Records of a byte stream.
    Stream,
    /// Messages of RPC-over-RDMA.
    Rdma(Box<RdmaFraming>),
}

/// Where the reply to a call goes.
pub(super) enum ReplyTo {
    /// Into the byte stream.
    Stream,
    /// Into a message, and into memory of the client.
    Rdma(Box<ReplyMemory>),
}

impl AnyFraming {
    /// The transport.
    pub(super) fn transport(&self) -> NfsTransport {
        match self {
            AnyFraming::Stream => NfsTransport::Tcp,
            AnyFraming::Rdma(_) => NfsTransport::Rdma,
        }
    }

    /// Whether no call is on its way through the framing.
    pub(super) fn is_idle(&self) -> bool {
        match self {
            AnyFraming::Stream => true,
            AnyFraming::Rdma(rdma) => rdma.is_idle(),
        }
    }

    /// Longest reply that can be sent there, bytes.
    pub(super) fn reply_max(&self, to: &ReplyTo) -> usize {
        match (self, to) {
            (AnyFraming::Rdma(rdma), ReplyTo::Rdma(memory)) => rdma.reply_max(memory),
            _ => usize::MAX,
        }
    }

    /// Longest callback, bytes.
    pub(super) fn call_max(&self) -> usize {
        match self {
            AnyFraming::Stream => usize::MAX,
            AnyFraming::Rdma(rdma) => rdma.call_max(),
        }
    }

    /// Callbacks that may be sent now.
    pub(super) fn calls_allowed(&self) -> usize {
        match self {
            AnyFraming::Stream => CALLBACKS_MAX,
            AnyFraming::Rdma(rdma) => rdma.calls_allowed(),
        }
    }

    /// Adds a callback.
    pub(super) fn put_call(&mut self, output: &mut Output, record: Vec<u8>) {
        match self {
            AnyFraming::Stream => {
                output.put(&mark(record.len()));
                output.put(&record);
            }
            AnyFraming::Rdma(rdma) => rdma.put_call(output, &record),
        }
    }

    /// Adds a reply. Errors: it does not fit, and the client was told (`ERR_CHUNK`).
    pub(super) fn put_reply(
        &mut self,
        output: &mut Output,
        reply: Writer,
        to: ReplyTo,
    ) -> Result<(), &'static str> {
        match (self, to) {
            (AnyFraming::Rdma(rdma), ReplyTo::Rdma(memory)) => {
                rdma.put_reply(output, reply, &memory)
            }
            _ => {
                put_record(output, reply);
                Ok(())
            }
        }
    }
}

fn put_record(output: &mut Output, reply: Writer) {
    output.put(&mark(reply.len()));
    reply.into_parts(|part| match part {
        Part::Bytes(bytes) if bytes.len() > COPY_MAX => {
            output.put_payload(Payload::from(bytes.to_vec()));
        }
        Part::Bytes(bytes) => output.put(bytes),
        Part::Payload(payload) | Part::Item(payload) => output.put_payload(payload),
    });
}
