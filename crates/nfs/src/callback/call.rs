//! One call: a slot, a connection, a reply (§2.10.6, §20.9).
//!
//! **Owns** [`call`] and [`probe`]. **Invariants**: a call is sent again only on another connection and only after its own one
//! ended, with the same bytes (§2.10.6.2); its slot is held by a task that lives until the reply comes or the session ends, so
//! that a late reply frees the slot although nobody waits for the result any more.

use crate::client::{BackEnd, BackSlot, CallbackPath, CallbackProgram, Session};
use crate::rpc::{Call, Credential, Reply};
use crate::shared::counters::CallbackCounters;
use crate::wire::Status;
use crate::wire::callback::{
    CALLBACK_VERSION, CB_SEQUENCE, CallbackHeader, CallbackOp, CallbackResults, CallbackSequence,
    PROC_CB_COMPOUND, PROC_CB_NULL, ReferringCall,
};
use crate::wire::channel::CallbackSecurity;
use crate::xdr::{Reader, Writer, Xdr};
use io::sync::oneshot::{self, Sender};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Most bytes of the RPC header of a call.
const HEADER_MAX: usize = 512;

/// The result of the operation behind CB_SEQUENCE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Its status.
    pub(crate) status: Status,
    /// The rest of the reply: the body of the result.
    pub(crate) body: Vec<u8>,
}

/// A reply as it matters for the channel.
enum Read {
    /// The slot was used: the result.
    Executed(Answer, u32),
    /// The slot was not used, for this reason.
    NotExecuted(Status),
    /// Slot or session are not the client's.
    Disagreement,
    /// RPC refused the call, or the bytes are no result.
    Garbage,
}

/// Calls a client, and waits for the result for at most `limit`. `None` if there is none: no slot is free, no connection is there,
/// the client did not answer in time, or with garbage.
pub(crate) async fn call(
    session: &Arc<Session>,
    counters: &Arc<CallbackCounters>,
    op: &CallbackOp<'_>,
    referring: Vec<ReferringCall>,
    limit: Duration,
) -> Option<Answer> {
    let back = session.back();
    let program = back.program().filter(|_| back.is_possible())?;
    let path = back.path()?;
    let slot = back.begin()?;
    let body = encoded(session, &slot, op, referring);
    if body.len() + HEADER_MAX > back.limits().request_max as usize {
        back.end(&slot, BackEnd::NotExecuted);
        return None;
    }
    counters.calls.fetch_add(1, Ordering::Relaxed);
    let (sender, receiver) = oneshot::channel();
    let task = Task {
        session: session.clone(),
        program,
        number: op.number(),
        slot,
        body,
        limit,
    };
    drop(io::spawn(async move { task.run(path, sender).await }));
    let answer = io::timeout(limit, receiver).await.ok().flatten();
    if answer.is_none() {
        counters.failures.fetch_add(1, Ordering::Relaxed);
    }
    answer
}

/// Everything behind the RPC header.
fn encoded(
    session: &Session,
    slot: &BackSlot,
    op: &CallbackOp<'_>,
    referring: Vec<ReferringCall>,
) -> Vec<u8> {
    let mut writer = Writer::new();
    CallbackHeader {
        minor: session.back().minor(),
        operations: 2,
    }
    .encode(&mut writer);
    CallbackOp::Sequence(CallbackSequence {
        session: session.id(),
        sequence: slot.sequence,
        slot: slot.number,
        highest_slot: slot.highest,
        cache_this: false,
        referring,
    })
    .encode(&mut writer);
    op.encode(&mut writer);
    writer.to_vec()
}

fn header(program: &CallbackProgram, procedure: u32, xid: u32) -> Writer {
    let mut writer = Writer::new();
    Call {
        xid,
        program: program.program,
        version: CALLBACK_VERSION,
        procedure,
        credential: match &program.security {
            CallbackSecurity::Sys(sys) => Credential::Sys(sys.clone()),
            CallbackSecurity::None | CallbackSecurity::Gss => Credential::None,
        },
    }
    .encode(&mut writer);
    writer
}

/// A call that holds a slot.
struct Task {
    session: Arc<Session>,
    program: CallbackProgram,
    number: u32,
    slot: BackSlot,
    body: Vec<u8>,
    limit: Duration,
}

impl Task {
    async fn run(self, mut path: Arc<CallbackPath>, answer: Sender<Answer>) {
        let back = self.session.back();
        loop {
            let encode = |xid| {
                let mut record = header(&self.program, PROC_CB_COMPOUND, xid);
                record.fixed(&self.body);
                record.to_vec()
            };
            match path.call(encode) {
                Some(mut receiver) => {
                    let reply = match io::timeout(self.limit, &mut receiver).await {
                        Ok(reply) => reply,
                        Err(_) => {
                            path.missed();
                            receiver.await
                        }
                    };
                    if let Some(reply) = reply {
                        return self.answered(&path, &reply, answer);
                    }
                }
                None if path.is_closed() => {}
                // Too many calls wait on the connection.
                None => return back.end(&self.slot, BackEnd::NotExecuted),
            }
            let next = match back.path() {
                Some(other) => Some(other),
                None => back.next_path().await,
            };
            match next {
                Some(other) => path = other,
                None => return back.end(&self.slot, BackEnd::Unknown),
            }
        }
    }

    /// A reply came: the slot is free again, unless the reply leaves that open.
    fn answered(&self, path: &CallbackPath, reply: &[u8], answer: Sender<Answer>) {
        let back = self.session.back();
        match self.read(reply) {
            Read::Executed(result, target) => {
                back.end(&self.slot, BackEnd::Executed);
                back.set_target(target);
                answer.send(result);
            }
            Read::NotExecuted(status) => {
                back.end(&self.slot, BackEnd::NotExecuted);
                let body = Vec::new();
                answer.send(Answer { status, body });
            }
            Read::Disagreement => {
                back.end(&self.slot, BackEnd::Unknown);
                back.fail();
            }
            Read::Garbage => {
                back.end(&self.slot, BackEnd::Unknown);
                path.missed();
            }
        }
    }

    fn read(&self, reply: &[u8]) -> Read {
        let Some(results) = success(reply) else {
            return Read::Garbage;
        };
        self.read_results(results).unwrap_or(Read::Garbage)
    }

    fn read_results(&self, reader: Reader<'_>) -> crate::xdr::Result<Read> {
        let mut results = CallbackResults::new(reader)?;
        match results.next(CB_SEQUENCE)? {
            Status::Ok => {}
            Status::Badsession | Status::Badslot | Status::BadHighSlot | Status::SeqMisordered => {
                return Ok(Read::Disagreement);
            }
            status => return Ok(Read::NotExecuted(status)),
        }
        let (session, sequence, slot, target) = results.sequence()?;
        if (session, sequence, slot) != (self.session.id(), self.slot.sequence, self.slot.number) {
            return Ok(Read::Garbage);
        }
        let status = results.next(self.number)?;
        let body = results.rest().to_vec();
        Ok(Read::Executed(Answer { status, body }, target))
    }
}

/// The results in a reply that RPC accepted. `reply` begins behind the transaction number.
fn success(reply: &[u8]) -> Option<Reader<'_>> {
    let mut reader = Reader::new(reply);
    match Reply::decode_body(&mut reader) {
        Ok(Reply::Success) => Some(reader),
        _ => None,
    }
}

/// Tries a connection with CB_NULL. The path is answering, or silent, afterwards.
pub(crate) async fn probe(session: &Session, path: &CallbackPath, limit: Duration) {
    let Some(program) = session.back().program() else {
        return;
    };
    let called = path.call(|xid| header(&program, PROC_CB_NULL, xid).to_vec());
    let Some(receiver) = called else {
        return;
    };
    let reply = io::timeout(limit, receiver).await.ok().flatten();
    if reply.is_none_or(|reply| success(&reply).is_none()) {
        path.missed();
    }
}
