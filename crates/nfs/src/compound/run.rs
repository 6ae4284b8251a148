//! Execution of one call: COMPOUND header, operations, reply.
//!
//! **Owns** [`execute`]. **Called by** the dispatch of calls. **Invariants**: see the parent module.

use super::context::{Compound, Context};
use super::sequence::{self, Sequenced};
use crate::dispatch::{Outcome, Request};
use crate::limits::OPERATIONS_MAX;
use crate::rpc::Reply;
use crate::wire::{
    Header, MINOR_VERSIONS, Minor2, Op, PROC_COMPOUND, PROC_NULL, Status, operation,
};
use crate::xdr::{Mark, Reader, Xdr};
use session::latency::CommandKind;

/// Executes one call. Errors: the procedure does not exist, or its header cannot be decoded.
pub(crate) async fn execute(request: Request<'_>) -> Result<Outcome, Reply> {
    let mut reader = request.arguments;
    match request.procedure {
        PROC_NULL => {
            return Ok(Outcome::new(Some(request.out), false));
        }
        PROC_COMPOUND => {}
        _ => return Err(Reply::ProcedureUnavailable),
    }
    let header = Header::decode(&mut reader).map_err(|_| Reply::GarbageArguments)?;
    let mut compound = Compound {
        context: Context::new(
            request.shared,
            (request.origin, request.path),
            (request.credential, request.rights),
        ),
        out: request.out,
        record: request.record,
        limits: request.limits,
        minor: header.minor,
    };
    compound.run(&header, &mut reader).await;
    request.shared.wake_lockers();
    let session = compound.context.session.as_ref();
    Ok(Outcome {
        is_established: session.is_some() || compound.context.made_session,
        client: session.map(|session| (session.client(), header.minor)),
        kind: compound.context.kind,
        reply: Some(compound.out),
    })
}

/// The places in a reply that are filled in at its end.
#[derive(Clone, Copy)]
struct Places {
    status: Mark,
    count: Mark,
}

impl Compound<'_> {
    async fn run(&mut self, header: &Header<'_>, reader: &mut Reader<'_>) {
        let results = self.out.mark();
        let places = self.begin(header);
        if !MINOR_VERSIONS.contains(&header.minor) {
            return self
                .out
                .set_u32(places.status, Status::MinorVersMismatch.code());
        }
        let mut remaining = header.operations;
        let mut done = 0;
        let mut sequenced = None;
        if let Some(sequence) = sequence::first(header, reader) {
            match self.sequence(&sequence, header, reader) {
                Sequenced::Execute(slot) => {
                    sequenced = Some(slot);
                    // It was read by `first`.
                    let _ = Op::decode(reader);
                    (remaining, done) = (remaining - 1, 1);
                    self.out.set_u32(places.count, done);
                }
                Sequenced::Replay(reply) => {
                    self.out.truncate(results);
                    return self.out.fixed(&reply);
                }
                Sequenced::Answered(status, count) => {
                    self.out.set_u32(places.status, status.code());
                    return self.out.set_u32(places.count, count);
                }
            }
        }
        let mut status = Status::Ok;
        while remaining > 0 && status == Status::Ok {
            remaining -= 1;
            done += 1;
            let position = (done, header.operations);
            status = self.step(reader, position, results).await;
            self.out.set_u32(places.count, done);
        }
        self.out.set_u32(places.status, status.code());
        if let Some(slot) = sequenced {
            self.complete(slot, results, done);
        }
    }

    /// Writes the header of the results.
    fn begin(&mut self, header: &Header<'_>) -> Places {
        let status = self.out.mark();
        self.out.u32(Status::Ok.code());
        self.out.opaque(header.tag);
        let count = self.out.mark();
        self.out.u32(0);
        Places { status, count }
    }

    /// Decodes and executes one operation, and writes its result. `position`: its number, and that of the last one.
    async fn step(
        &mut self,
        reader: &mut Reader<'_>,
        position: (u32, u32),
        results: Mark,
    ) -> Status {
        let (number, decoded) = match Op::decode(reader) {
            // An operation of a later minor version (RFC 8178, section 8.2): its arguments do not matter.
            Ok((number, _)) if number > operation::last(self.minor) => {
                (number, Ok(Op::Illegal(number)))
            }
            Ok(decoded) => decoded,
            Err(e) => (operation::ILLEGAL, Err(e)),
        };
        let shown = match decoded {
            Ok(Op::Illegal(_)) => operation::ILLEGAL,
            _ => number,
        };
        self.out.u32(shown);
        let status_at = self.out.mark();
        self.out.u32(Status::Ok.code());
        let body = self.out.mark();
        let mut status = match decoded {
            Err(_) => Status::Badxdr,
            Ok(op) => match self.allowed(&op, position) {
                Err(status) => status,
                Ok(()) => match self.execute(op, results).await {
                    Ok(()) => self
                        .check_security(number, position, reader)
                        .and_then(|()| self.fits(results))
                        .err()
                        .unwrap_or(Status::Ok),
                    Err(status) => status,
                },
            },
        };
        if status != Status::Ok {
            self.out.truncate(body);
            self.out.set_u32(status_at, status.code());
            self.failure_body(number, status);
            // A refused lock names its owner, who may have a long name. Nothing was changed.
            if status == Status::Denied
                && let Err(too_big) = self.fits(results)
            {
                status = too_big;
                self.out.truncate(body);
                self.out.set_u32(status_at, status.code());
            }
        }
        self.context.shared.counters.ended(number, status);
        self.context.kind = match number {
            operation::READ => CommandKind::Read,
            operation::WRITE => CommandKind::Write,
            operation::COMMIT => CommandKind::Flush,
            _ => self.context.kind,
        };
        status
    }

    /// Whether the file handle that an operation has set may be used over the connection (§2.6.3.1.1). `rest` begins with the next operation.
    /// Errors: `Wrongsec`.
    fn check_security(
        &self,
        number: u32,
        (done, count): (u32, u32),
        rest: &Reader<'_>,
    ) -> Result<(), Status> {
        use operation::*;
        match number {
            LOOKUP | LOOKUPP => {}
            PUTFH | PUTPUBFH | PUTROOTFH | RESTOREFH => {
                // These operations either set another file handle, check the present one themselves, or say which protection it needs.
                let is_lenient = |next| {
                    matches!(
                        next,
                        LOOKUP
                            | LOOKUPP
                            | OPEN
                            | PUTFH
                            | PUTPUBFH
                            | PUTROOTFH
                            | RESTOREFH
                            | SECINFO
                            | SECINFO_NO_NAME
                    )
                };
                if done == count || rest.clone().u32().is_ok_and(is_lenient) {
                    return Ok(());
                }
            }
            _ => return Ok(()),
        }
        Ok(self.context.check_security(self.context.current()?)?)
    }

    /// Whether an operation may stand here (§2.10.6, §15.1.3). Errors: `OpNotInSession`, `NotOnlyOp`, `SequencePos`,
    /// `TooManyOps`.
    fn allowed(&self, op: &Op<'_>, (number, count): (u32, u32)) -> Result<(), Status> {
        let is_alone = count == 1;
        let in_session = self.context.session.is_some();
        match op {
            Op::Sequence(_) => Err(Status::SequencePos),
            Op::Illegal(_) => Ok(()),
            Op::BindConnection(_) if !is_alone => Err(Status::NotOnlyOp),
            Op::DestroySession(id) => {
                let is_own = self.context.session.as_ref().is_some_and(|s| s.id() == *id);
                match in_session && (!is_own || number == count) || is_alone {
                    true => Ok(()),
                    false => Err(Status::NotOnlyOp),
                }
            }
            Op::ExchangeId(_)
            | Op::CreateSession(_)
            | Op::DestroyClientId(_)
            | Op::BindConnection(_) => match in_session || is_alone {
                true => Ok(()),
                false => Err(Status::NotOnlyOp),
            },
            _ if !in_session => Err(Status::OpNotInSession),
            _ if count > OPERATIONS_MAX => Err(Status::TooManyOps),
            _ => Ok(()),
        }
    }

    /// The bodies that results of failures have.
    fn failure_body(&mut self, number: u32, status: Status) {
        match (number, status) {
            (operation::SETATTR, _) => {
                std::mem::take(&mut self.context.partly_set).encode(&mut self.out);
            }
            (operation::LOCK | operation::LOCKT, Status::Denied) => self.write_denied(),
            _ => {}
        }
    }

    // tidy: flat dispatch
    async fn execute(&mut self, op: Op<'_>, results: Mark) -> Result<(), Status> {
        match op {
            Op::Access(wanted) => self.access(wanted).await,
            Op::BackchannelCtl(args) => self.backchannel_ctl(&args),
            Op::BindConnection(args) => self.bind_connection(&args),
            Op::Close { stateid } => self.close(&stateid),
            Op::Commit { .. } => self.commit().await,
            Op::Create {
                kind,
                name,
                attributes,
            } => {
                self.fits_change(results)?;
                self.create(&kind, name, &attributes).await
            }
            Op::CreateSession(args) => self.create_session(&args),
            Op::DelegReturn { stateid } => self.delegreturn(&stateid),
            Op::DestroyClientId(client) => self.destroy_client(client).await,
            Op::DestroySession(session) => self.destroy_session(&session),
            Op::ExchangeId(args) => self.exchange_id(&args),
            Op::FreeStateid(stateid) => self.free_stateid(&stateid),
            Op::GetAttr(wanted) => self.getattr(&wanted).await,
            Op::GetFh => self.getfh(),
            Op::Link { name } => {
                self.fits_change(results)?;
                self.link(name).await
            }
            Op::Lock(args) => {
                self.fits_change(results)?;
                self.lock(&args).await
            }
            Op::LockT {
                kind,
                offset,
                length,
                owner,
            } => self.lockt(kind, (offset, length), &owner).await,
            Op::LockU {
                stateid,
                offset,
                length,
            } => self.locku(&stateid, (offset, length)).await,
            Op::Lookup { name } => self.lookup(name).await,
            Op::LookupP => self.lookupp().await,
            Op::NVerify(attrs) => self.verify(&attrs, Status::Same).await,
            Op::Open(args) => {
                self.fits_change(results)?;
                self.open(&args).await
            }
            Op::OpenDowngrade {
                stateid,
                access,
                deny,
            } => self.open_downgrade(&stateid, access, deny),
            Op::PutFh(handle) => self.putfh(handle),
            Op::PutPubFh | Op::PutRootFh => self.putrootfh(),
            Op::Read {
                stateid,
                offset,
                count,
            } => self.read(&stateid, offset, count).await,
            Op::ReadDir(args) => {
                let room = self.room(results);
                self.readdir(&args, room).await
            }
            Op::ReadLink => self.readlink().await,
            Op::ReclaimComplete { one_fs } => self.reclaim_complete(one_fs),
            Op::Remove { name } => {
                self.fits_change(results)?;
                self.remove(name).await
            }
            Op::Rename { old, new } => {
                self.fits_change(results)?;
                self.rename(old, new).await
            }
            Op::RestoreFh => self.restorefh(),
            Op::SaveFh => self.savefh(),
            Op::SecInfo { name } => self.secinfo(name).await,
            Op::SecInfoNoName { style } => self.secinfo_no_name(style).await,
            Op::Sequence(_) => Err(Status::SequencePos),
            Op::SetAttr {
                stateid,
                attributes,
            } => {
                self.fits_change(results)?;
                self.setattr(&stateid, &attributes).await
            }
            Op::TestStateid(all) => self.test_stateid(&all),
            Op::Verify(attrs) => self.verify(&attrs, Status::NotSame).await,
            Op::Write {
                stateid,
                offset,
                stable,
                data,
            } => {
                self.fits_change(results)?;
                self.write(&stateid, offset, stable, data).await
            }
            Op::Minor2(op) => self.execute_minor2(*op, results).await,
            Op::Unsupported(_) => Err(Status::Notsupp),
            Op::Illegal(_) => Err(Status::OpIllegal),
        }
    }

    async fn execute_minor2(&mut self, op: Minor2<'_>, results: Mark) -> Result<(), Status> {
        match op {
            Minor2::Allocate(span) => {
                self.fits_change(results)?;
                self.allocate(&span).await
            }
            Minor2::Copy(args) => {
                self.fits_change(results)?;
                self.copy(&args).await
            }
            Minor2::Deallocate(span) => {
                self.fits_change(results)?;
                self.deallocate(&span).await
            }
            Minor2::GetXattr { name } => self.getxattr(name).await,
            Minor2::IoAdvise { span, .. } => self.io_advise(&span),
            Minor2::ListXattrs { cookie, bytes_max } => {
                let room = self.room(results);
                self.listxattrs(cookie, bytes_max, room).await
            }
            Minor2::ReadPlus {
                stateid,
                offset,
                count,
            } => {
                let room = self.room(results);
                self.read_plus((&stateid, offset, count), room).await
            }
            Minor2::RemoveXattr { name } => {
                self.fits_change(results)?;
                self.removexattr(name).await
            }
            Minor2::Seek {
                stateid,
                offset,
                what,
            } => self.seek(&stateid, offset, what).await,
            Minor2::SetXattr {
                option,
                name,
                value,
            } => {
                self.fits_change(results)?;
                self.setxattr(option, name, value).await
            }
        }
    }
}
