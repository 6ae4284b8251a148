//! Operations on clients and sessions (§18.33 to §18.37, §18.50, §18.51).

use super::context::Compound;
use crate::callback;
use crate::client::{CallbackProgram, Session};
use crate::export::Standing;
use crate::wire::channel::{BackchannelCtl, BindConnection, CreateSession, ExchangeId};
use crate::wire::{SessionId, Status};
use crate::xdr::Xdr;
use std::sync::Arc;

/// `EXCHGID4_FLAG_USE_NON_PNFS`.
const USE_NON_PNFS: u32 = 0x0001_0000;
/// `EXCHGID4_FLAG_CONFIRMED_R`.
const CONFIRMED: u32 = 0x8000_0000;
/// `CDFC4_FORE` and `CDFS4_FORE`.
const FORE: u32 = 1;
/// `CDFC4_BACK` and `CDFS4_BACK`.
const BACK: u32 = 2;
/// `CDFC4_FORE_OR_BOTH`, and `CDFS4_BOTH`.
const FORE_OR_BOTH: u32 = 3;
/// `CDFC4_BACK_OR_BOTH`.
const BACK_OR_BOTH: u32 = 7;

impl Compound<'_> {
    /// EXCHANGE_ID (§18.35).
    pub(super) fn exchange_id(&mut self, args: &ExchangeId<'_>) -> Result<(), Status> {
        let shared = self.context.shared;
        let visitor = self.context.visitor();
        if visitor.standing == Standing::Stranger {
            shared.note_refused(visitor.address, String::new());
        }
        let by = (self.context.principal(), &visitor);
        let now = io::time::now();
        let exchanged = shared
            .clients()
            .exchange_id(args, by, now, |id| shared.states.has_state(id))?;
        shared.forget(&exchanged.removed);
        let confirmed = if exchanged.is_confirmed { CONFIRMED } else { 0 };
        self.out.u64(exchanged.client);
        self.out.u32(exchanged.sequence);
        self.out.u32(USE_NON_PNFS | confirmed);
        // SP4_NONE.
        self.out.u32(0);
        self.out.u64(0);
        self.out.opaque(shared.config.server.as_bytes());
        self.out.opaque(shared.config.server.as_bytes());
        self.out.count(0);
        Ok(())
    }

    /// CREATE_SESSION (§18.36). The reply cache does not survive a restart, so no session is persistent.
    pub(super) fn create_session(&mut self, args: &CreateSession) -> Result<(), Status> {
        let shared = self.context.shared;
        let visitor = self.context.visitor();
        let by = (self.context.principal(), self.minor, &visitor);
        let now = io::time::now();
        let created = shared
            .clients()
            .create_session(args, by, now, |id| shared.states.has_state(id))?;
        shared.forget(&created.removed);
        self.context.made_session = true;
        callback::recall_slots(self.context.shared);
        if created.flags != 0 {
            self.bind_back(&created.session);
        }
        self.out.fixed(&created.session);
        self.out.u32(created.sequence);
        self.out.u32(created.flags);
        created.fore.encode(&mut self.out);
        created.back.encode(&mut self.out);
        Ok(())
    }

    /// The connection carries callbacks of this session from now on, and is tried at once.
    fn bind_back(&self, session: &SessionId) {
        let shared = self.context.shared;
        let session = shared.clients().session(session);
        if let Some(session) = session {
            let path = self.context.path.clone();
            session.back().bind(&path);
            let limit = shared.config.callback_timeout;
            drop(io::spawn(async move {
                callback::probe(&session, &path, limit).await;
            }));
        }
    }

    /// DESTROY_SESSION (§18.37).
    pub(super) fn destroy_session(&mut self, session: &SessionId) -> Result<(), Status> {
        let visitor = self.context.visitor();
        let mut clients = self.context.shared.clients();
        clients.destroy_session(session, &visitor)
    }

    /// DESTROY_CLIENTID (§18.50). The next start waits for no client that has unmounted everything.
    pub(super) async fn destroy_client(&mut self, client: u64) -> Result<(), Status> {
        let shared = self.context.shared;
        let has_state = shared.states.has_state(client);
        let visitor = self.context.visitor();
        shared
            .clients()
            .destroy_client(client, &visitor, has_state)?;
        shared.forget(&[client]);
        // A failure is logged, and tried again before anybody is granted state.
        let _ = shared.store_records().await;
        Ok(())
    }

    /// BIND_CONN_TO_SESSION (§18.34). A connection carries requests of any session, also if it is bound for callbacks only.
    pub(super) fn bind_connection(&mut self, args: &BindConnection) -> Result<(), Status> {
        let session = self.bound_session(&args.session)?;
        let may_call = session.back().is_possible();
        let direction = match args.direction {
            FORE => FORE,
            BACK if may_call => BACK,
            FORE_OR_BOTH | BACK_OR_BOTH if may_call => FORE_OR_BOTH,
            FORE_OR_BOTH => FORE,
            _ => return Err(Status::Inval),
        };
        match direction {
            FORE => session.back().unbind(self.context.path),
            _ => self.bind_back(&args.session),
        }
        self.context.made_session = true;
        self.out.fixed(&args.session);
        self.out.u32(direction);
        self.out.bool(false);
        Ok(())
    }

    fn bound_session(&self, id: &SessionId) -> Result<Arc<Session>, Status> {
        let visitor = self.context.visitor();
        let session = self.context.shared.clients().session_for(id, &visitor);
        session.ok_or(Status::Badsession)
    }

    /// BACKCHANNEL_CTL (§18.33). Errors: `Noent` if no credential that the client accepts is supported.
    pub(super) fn backchannel_ctl(&mut self, args: &BackchannelCtl) -> Result<(), Status> {
        let session = self.context.session.as_ref();
        let session = session.ok_or(Status::OpNotInSession)?;
        let program = CallbackProgram::of(args.program, &args.security);
        session.back().set_program(program.ok_or(Status::Noent)?);
        Ok(())
    }

    /// RECLAIM_COMPLETE (§18.51).
    pub(super) fn reclaim_complete(&mut self, one_fs: bool) -> Result<(), Status> {
        let shared = self.context.shared;
        if one_fs {
            // No file system moved here, so there is nothing to reclaim for one of them.
            return self.context.current().map(drop);
        }
        let client = self.context.client()?;
        let owner = {
            let clients = shared.clients();
            clients.reclaim_complete(client)?;
            clients.owner(client).map(<[u8]>::to_vec)
        };
        if let Some(owner) = owner {
            shared.reclaimed(&owner);
        }
        Ok(())
    }
}
