//! Operations on clients and sessions (§18.33 to §18.37, §18.50, §18.51).

use super::context::Compound;
use crate::limits::CONNECTION_REQUESTS_MAX;
use crate::wire::channel::{BindConnection, CreateSession, ExchangeId};
use crate::wire::{SessionId, Status};

/// `EXCHGID4_FLAG_USE_NON_PNFS`.
const USE_NON_PNFS: u32 = 0x0001_0000;
/// `EXCHGID4_FLAG_CONFIRMED_R`.
const CONFIRMED: u32 = 0x8000_0000;
/// `CDFC4_FORE` and `CDFS4_FORE`.
const FORE: u32 = 1;
/// `CDFC4_FORE_OR_BOTH`.
const FORE_OR_BOTH: u32 = 3;

impl Compound<'_> {
    /// EXCHANGE_ID (§18.35).
    pub(super) fn exchange_id(&mut self, args: &ExchangeId<'_>) -> Result<(), Status> {
        let shared = self.context.shared;
        let principal = self.context.principal();
        let now = io::time::now();
        let exchanged = shared
            .clients()
            .exchange_id(args, principal, now, |id| shared.states().has_state(id))?;
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

    /// CREATE_SESSION (§18.36). No flag is granted: there is no persistent reply cache, and nothing to call a client back for.
    pub(super) fn create_session(&mut self, args: &CreateSession) -> Result<(), Status> {
        let shared = self.context.shared;
        let principal = self.context.principal();
        let created = shared
            .clients()
            .create_session(args, principal, io::time::now())?;
        shared.forget(&created.removed);
        self.context.made_session = true;
        self.out.fixed(&created.session);
        self.out.u32(created.sequence);
        self.out.u32(0);
        created.fore.encode(&mut self.out);
        let mut back = created.back;
        back.slots = back.slots.min(CONNECTION_REQUESTS_MAX as u32);
        back.encode(&mut self.out);
        Ok(())
    }

    /// DESTROY_SESSION (§18.37).
    pub(super) fn destroy_session(&mut self, session: &SessionId) -> Result<(), Status> {
        self.context.shared.clients().destroy_session(session)
    }

    /// DESTROY_CLIENTID (§18.50). The next start waits for no client that has unmounted everything.
    pub(super) async fn destroy_client(&mut self, client: u64) -> Result<(), Status> {
        let shared = self.context.shared;
        let has_state = shared.states().has_state(client);
        shared.clients().destroy_client(client, has_state)?;
        shared.forget(&[client]);
        // A failure is logged, and tried again before anybody is granted state.
        let _ = shared.settle().await;
        Ok(())
    }

    /// BIND_CONN_TO_SESSION (§18.34). A connection carries requests of any session; the back channel is never used.
    pub(super) fn bind_connection(&mut self, args: &BindConnection) -> Result<(), Status> {
        let session = self.context.shared.clients().session(&args.session);
        session.ok_or(Status::Badsession)?;
        match args.direction {
            FORE | FORE_OR_BOTH => {}
            _ => return Err(Status::Inval),
        }
        self.out.fixed(&args.session);
        self.out.u32(FORE);
        self.out.bool(false);
        Ok(())
    }

    /// BACKCHANNEL_CTL (§18.33): nothing is called back, so nothing is kept.
    pub(super) fn backchannel_ctl(&mut self) -> Result<(), Status> {
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
