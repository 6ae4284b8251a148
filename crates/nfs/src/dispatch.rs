//! RPC calls: which program and version a record is for.
//!
//! **Owns** [`execute`] and [`Outcome`]. **Called by** connections, with one whole record. **Invariants**: a call that is refused
//! here has taken no effect, and is counted.

use crate::access::Origin;
use crate::client::CallbackPath;
use crate::compound;
use crate::rpc::{Call, CallError, Credential, Reply};
use crate::shared::Shared;
use crate::shared::counters::Refusal;
use crate::v3::{self, wire::mount};
use crate::wire::{PROGRAM, VERSION};
use crate::xdr::{Reader, Writer};
use io::SharedBuf;
use session::latency::CommandKind;
use std::sync::Arc;

/// The limits of a reply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplyLimits {
    /// Most bytes that one READ returns.
    pub(crate) read_max: u32,
    /// Most bytes of the reply that the connection can carry.
    pub(crate) reply_max: usize,
}

/// A call that is being executed.
pub(crate) struct Request<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) origin: Origin,
    /// The connection, as it may be used for callbacks.
    pub(crate) path: &'a Arc<CallbackPath>,
    pub(crate) credential: &'a Credential,
    /// The credential that decides about rights.
    pub(crate) rights: &'a Credential,
    /// Transaction number.
    pub(crate) xid: u32,
    pub(crate) procedure: u32,
    /// The arguments.
    pub(crate) arguments: Reader<'a>,
    /// The whole record.
    pub(crate) record: &'a SharedBuf,
    pub(crate) limits: ReplyLimits,
    /// The reply, which has its RPC header.
    pub(crate) out: Writer,
}

/// The result of a call.
pub(crate) struct Outcome {
    /// The reply, with its RPC header; `None` for bytes that are no call.
    pub(crate) reply: Option<Writer>,
    /// Whether the client used a session or a file handle.
    pub(crate) is_established: bool,
    /// The client of the session, and the minor version.
    pub(crate) client: Option<(u64, u32)>,
    /// The kind of the request, for latencies.
    pub(crate) kind: CommandKind,
}

impl Outcome {
    /// The result of a call without a session.
    pub(crate) fn new(reply: Option<Writer>, is_established: bool) -> Self {
        Self {
            reply,
            is_established,
            client: None,
            kind: CommandKind::Other,
        }
    }
}

/// Executes one record of a connection, given by its origin and its path for callbacks.
pub(crate) async fn execute(
    shared: &Arc<Shared>,
    (origin, path): (Origin, &Arc<CallbackPath>),
    record: &SharedBuf,
    limits: ReplyLimits,
) -> Outcome {
    let mut reader = Reader::new(record);
    let call = match Call::decode(&mut reader) {
        Ok(call) => call,
        Err(CallError::Refused(xid, reply)) => return refused(shared, xid, reply),
        Err(CallError::NoCall) => {
            return Outcome::new(None, false);
        }
    };
    let mut out = Writer::new();
    Reply::Success.encode(call.xid, &mut out);
    let rights = shared.identity.rights(&call.credential).await;
    let peer = (origin.peer, origin.transport);
    let request = Request {
        shared,
        origin,
        path,
        credential: &call.credential,
        rights: &rights,
        xid: call.xid,
        procedure: call.procedure,
        arguments: reader,
        record,
        limits,
        out,
    };
    let executed = match (call.program, call.version) {
        (PROGRAM, VERSION) => compound::execute(request).await,
        (PROGRAM, v3::wire::VERSION) => v3::execute(request).await,
        (PROGRAM, _) => Err(Reply::ProgramMismatch(v3::wire::VERSION, VERSION)),
        (mount::PROGRAM, mount::VERSION) => v3::execute_mount(request).await,
        (mount::PROGRAM, _) => Err(Reply::ProgramMismatch(mount::VERSION, mount::VERSION)),
        (_, _) => Err(Reply::ProgramUnavailable),
    };
    let is_refused = executed.is_err();
    let outcome = executed.unwrap_or_else(|reply| refused(shared, call.xid, reply));
    // Clients of version 4 are counted by their connections.
    if (call.program, call.version) != (PROGRAM, VERSION) {
        let sent = outcome.reply.as_ref().map_or(0, Writer::len);
        let bytes = (record.len(), sent);
        let now = io::time::now();
        shared.hosts().called(peer, bytes, is_refused, now);
    }
    outcome
}

fn refused(shared: &Shared, xid: u32, reply: Reply) -> Outcome {
    if let Some(reason) = Refusal::of(reply) {
        shared.counters.refused.add(reason);
    }
    let mut out = Writer::new();
    reply.encode(xid, &mut out);
    Outcome::new(Some(out), false)
}

/// Bytes of buffers for data that a request reads and writes, and for long lists. Nothing takes effect here.
pub(crate) fn cost(record: &[u8]) -> usize {
    let mut reader = Reader::new(record);
    let Ok(call) = Call::decode(&mut reader) else {
        return 0;
    };
    match (call.program, call.version) {
        (PROGRAM, VERSION) => compound::cost(&mut reader),
        (PROGRAM, v3::wire::VERSION) => v3::cost(call.procedure, &mut reader),
        (_, _) => 0,
    }
}
