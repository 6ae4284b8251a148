//! Execution of one call of NFS: arguments, duplicate requests, reply.
//!
//! **Called by** the dispatch of calls. **Invariants**: see the parent module.

use super::duplicates::{Begun, Key};
use super::procedure::Procedure;
use super::wire::{Arguments, Status, procedure};
use crate::dispatch::{Outcome, Request};
use crate::limits::{REPLY_MAX, TRANSFER_MAX};
use crate::rpc::Reply;
use crate::xdr::{Reader, Writer};
use siphasher::sip::SipHasher13;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of a WRITE that its checksum covers; and its length. Other requests are covered whole.
const WRITE_CHECKED_LEN: usize = 512;

/// Executes one call. Errors: the procedure does not exist, or its arguments cannot be decoded.
pub(crate) async fn execute(request: Request<'_>) -> Result<Outcome, Reply> {
    let decoded = Arguments::decode_fields(request.procedure, &mut request.arguments.clone());
    let arguments = match decoded {
        Ok(Some(Arguments::Null)) => return Ok(outcome(request.out, false)),
        Ok(Some(arguments)) => arguments,
        Ok(None) => return Err(Reply::ProcedureUnavailable),
        Err(_) => return Err(Reply::GarbageArguments),
    };
    if !arguments.is_change() {
        return Ok(run(request, &arguments).await);
    }
    let shared = request.shared;
    let key = key_of(&request, &arguments);
    loop {
        let begun = shared.duplicates().begin(key, io::time::now());
        match begun {
            Begun::First => break,
            Begun::Done(reply) => {
                shared.counters.replays.fetch_add(1, Ordering::Relaxed);
                return Ok(outcome(writer_of(&reply), true));
            }
            // The first request is being executed. Its task ends without a reply only with the runtime.
            Begun::Running(first) => drop(first.await),
        }
    }
    let done = run(request, &arguments).await;
    let reply: Option<Arc<[u8]>> = done.reply.as_ref().map(|reply| reply.to_vec().into());
    let waiting = shared.duplicates().end(key, reply, io::time::now());
    drop(waiting);
    Ok(done)
}

fn outcome(reply: Writer, is_established: bool) -> Outcome {
    Outcome::new(Some(reply), is_established)
}

fn writer_of(reply: &[u8]) -> Writer {
    let mut writer = Writer::new();
    writer.fixed(reply);
    writer
}

/// A request's identity: a repetition has the same transaction number, procedure and bytes, and comes from the same host over an equally
/// protected connection.
fn key_of(request: &Request<'_>, arguments: &Arguments<'_>) -> Key {
    let bytes = request.arguments.rest();
    let covered = match arguments {
        Arguments::Write { .. } => bytes.len().min(WRITE_CHECKED_LEN),
        _ => bytes.len(),
    };
    let mut hasher = SipHasher13::new();
    request.credential.hash(&mut hasher);
    request.origin.protection.security.hash(&mut hasher);
    request.origin.is_privileged.hash(&mut hasher);
    hasher.write_usize(bytes.len());
    hasher.write(&bytes[..covered]);
    Key {
        peer: request.origin.peer.to_canonical(),
        xid: request.xid,
        procedure: request.procedure,
        checksum: hasher.finish(),
    }
}

async fn run(request: Request<'_>, arguments: &Arguments<'_>) -> Outcome {
    let counters = &request.shared.counters;
    let mut procedure = Procedure::new(
        request.shared,
        request.origin,
        (request.credential, request.rights),
        request.record,
        request.out,
        request.limits.read_max,
    );
    let status_at = procedure.out.mark();
    procedure.out.u32(Status::Ok.code());
    let body = procedure.out.mark();
    let status = match procedure.execute(arguments).await {
        Ok(()) => Status::Ok,
        Err(status) => {
            procedure.out.truncate(body);
            procedure.out.set_u32(status_at, status.code());
            procedure.write_failure(arguments).await;
            status
        }
    };
    counters.ended_v3(arguments.number(), status);
    outcome(procedure.out, procedure.is_established)
}

impl Procedure<'_> {
    // tidy: flat dispatch
    async fn execute(&mut self, arguments: &Arguments<'_>) -> Result<(), Status> {
        match arguments {
            Arguments::Null => Ok(()),
            Arguments::GetAttr { object } => self.getattr(object).await,
            Arguments::SetAttr { object, set, guard } => self.setattr(object, set, *guard).await,
            Arguments::Lookup(at) => self.lookup(at).await,
            Arguments::Access { object, wanted } => self.access(object, *wanted).await,
            Arguments::ReadLink { object } => self.readlink(object).await,
            Arguments::Read {
                file,
                offset,
                count,
            } => self.read(file, *offset, *count).await,
            Arguments::Write {
                file,
                offset,
                count,
                stable,
                data,
            } => match *count as usize == data.len() {
                true => self.write(file, *offset, *stable, data).await,
                false => Err(Status::Inval),
            },
            Arguments::Create { at, how } => self.create(at, how).await,
            Arguments::MkDir { at, set } => self.mkdir(at, set).await,
            Arguments::SymLink { at, set, path } => self.symlink(at, set, path).await,
            Arguments::MkNod { at, node } => self.mknod(at, node).await,
            Arguments::Remove(at) => self.remove(at).await,
            Arguments::RmDir(at) => self.rmdir(at).await,
            Arguments::Rename { from, to } => self.rename(from, to).await,
            Arguments::Link { object, to } => self.link(object, to).await,
            Arguments::ReadDir { .. } | Arguments::ReadDirPlus { .. } => {
                self.readdir(arguments).await
            }
            Arguments::FsStat { object } => self.fsstat(object).await,
            Arguments::FsInfo { object } => self.fsinfo(object).await,
            Arguments::PathConf { object } => self.pathconf(object).await,
            Arguments::Commit { file, .. } => self.commit(file).await,
        }
    }
}

/// Bytes of buffers for data that a request reads and writes, and for long lists.
pub(crate) fn cost(number: u32, reader: &mut Reader<'_>) -> usize {
    let is_cheap = !matches!(
        number,
        procedure::READ | procedure::WRITE | procedure::READDIR | procedure::READDIRPLUS
    );
    if is_cheap {
        return 0;
    }
    match Arguments::decode_fields(number, reader) {
        Ok(Some(Arguments::Read { count, .. })) => count.min(TRANSFER_MAX) as usize,
        Ok(Some(Arguments::Write { data, .. })) => data.len(),
        Ok(Some(
            Arguments::ReadDir { bytes_max, .. } | Arguments::ReadDirPlus { bytes_max, .. },
        )) => bytes_max.min(REPLY_MAX) as usize,
        _ => 0,
    }
}
