//! A client's session, which is made again when it has ended.
//!
//! **Owns** the session with its open files, and the lock that is reclaimed after a restart of the server. **Called by** all jobs of a
//! machine. **Invariants**: one connection attempt at a time; a lock that the server did not let the client reclaim is lost.

use super::super::client::Wants;
use super::super::export::PATH;
use super::expectations::{Expectations, To};
use super::locks::RANGE_LEN;
use io::sync::Semaphore;
use io::time::sleep;
use nfs::wire::Status;
use nfs_initiator::{
    Config, Error, File, FileHandle, LinkState, LockOptions, LockOwner, OpenOptions, Session,
};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// Pause between two attempts to connect, or to open a file.
const RETRY: Duration = Duration::from_millis(200);
/// Time limit of a call, and silence after which the lease is renewed. Together they are below the lease.
const CALL_MAX: Duration = Duration::from_secs(4);
const RENEW_EVERY: Duration = Duration::from_secs(2);
/// How files are opened.
const NEW: OpenOptions = OpenOptions {
    write: true,
    create: true,
};
/// An exclusive lock, which is refused at once if it is not free.
pub(super) const EXCLUSIVE: LockOptions = LockOptions {
    exclusive: true,
    reclaim: false,
};

/// A session that is established, with its open files.
pub(super) struct Live {
    pub(super) session: Rc<Session>,
    pub(super) home: FileHandle,
    /// The file that all clients write.
    pub(super) disk: File,
    /// The file of which they lock ranges.
    pub(super) locked: File,
}

/// A lock that this client has.
#[derive(Clone)]
pub(super) struct HeldLock {
    /// Number of the range.
    pub(super) range: usize,
    /// Number of the grant of that range.
    pub(super) grant: u64,
    pub(super) owner: Rc<LockOwner>,
    /// The locked file.
    pub(super) file: FileHandle,
}

/// See the module header.
pub(super) struct SimMount {
    who: usize,
    config: Config,
    pub(super) share: Rc<Expectations>,
    live: RefCell<Option<Rc<Live>>>,
    connecting: Semaphore,
    held: RefCell<Option<HeldLock>>,
    owners: Cell<u64>,
}

/// The bytes of a range of the locked file.
pub(super) fn bytes_of(range: usize) -> Range<u64> {
    let start = range as u64 * RANGE_LEN;
    start..start + RANGE_LEN
}

/// Whether an error ends the session: calls of it cannot succeed any more.
fn is_over(error: &Error) -> bool {
    match error.status() {
        Some(status) => matches!(
            status,
            Status::Badsession
                | Status::StaleClientid
                | Status::Expired
                | Status::BadStateid
                | Status::AdminRevoked
        ),
        None => true,
    }
}

/// Repeats an attempt as long as the server refuses it and the session lives.
pub(super) async fn patiently<T>(
    mut attempt: impl AsyncFnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    loop {
        match attempt().await {
            Err(error) if !is_over(&error) => sleep(RETRY).await,
            ended => return ended,
        }
    }
}

impl SimMount {
    pub(super) fn new(
        who: usize,
        (transport, addr): To,
        wants: &Wants,
        share: Rc<Expectations>,
    ) -> Self {
        let config = Config {
            transport,
            // For NVMe the choice of digests and queues decides this.
            remote_invalidation: wants.header_digest,
            minor: if wants.data_digest { 1 } else { 2 },
            slots: wants.depth,
            connections: wants.queues,
            owner: format!("host-{who}").into_bytes(),
            command_timeout: CALL_MAX,
            keep_alive: RENEW_EVERY,
            ..Config::new(addr)
        };
        SimMount {
            who,
            config,
            share,
            live: RefCell::default(),
            connecting: Semaphore::new(1),
            held: RefCell::default(),
            owners: Cell::new(0),
        }
    }

    /// An owner of locks with a name of its own.
    pub(super) fn new_owner(&self) -> LockOwner {
        self.owners.set(self.owners.get() + 1);
        LockOwner::new(format!("owner-{}", self.owners.get()).as_bytes())
    }

    /// The session; a new one if it has ended.
    pub(super) async fn live(&self) -> Rc<Live> {
        if let Some(live) = self.current() {
            return live;
        }
        let _one_at_a_time = self.connecting.acquire(1).await;
        loop {
            if let Some(live) = self.current() {
                return live;
            }
            match self.connect().await {
                Ok(live) => drop(self.live.replace(Some(Rc::new(live)))),
                Err(e) => {
                    tracing::debug!("no session: {e}");
                    sleep(RETRY).await;
                }
            }
        }
    }

    fn current(&self) -> Option<Rc<Live>> {
        let live = self.live.borrow();
        let is_live = |live: &&Rc<Live>| live.session.state() == LinkState::Live;
        live.as_ref().filter(is_live).cloned()
    }

    /// A call of this session failed. A session that the server does not know any more is given up.
    pub(super) fn failed(&self, of: &Rc<Live>, error: &Error) {
        let mut live = self.live.borrow_mut();
        if is_over(error) && live.as_ref().is_some_and(|live| Rc::ptr_eq(live, of)) {
            *live = None;
        }
    }

    /// The lock that the client has, if it was not lost.
    pub(super) fn held(&self) -> Option<HeldLock> {
        self.held.borrow().clone()
    }

    /// From now on the client has this lock, or none.
    pub(super) fn set_held(&self, held: Option<HeldLock>) {
        self.held.replace(held);
    }

    async fn connect(&self) -> Result<Live, Error> {
        let held = self.held();
        let config = Config {
            reclaims: held.is_some(),
            ..self.config.clone()
        };
        let session = Rc::new(Session::connect(config).await?);
        let mut reclaimed = None;
        if let Some(held) = held {
            reclaimed = self.reclaim(&session, held).await?;
            session.reclaimed().await?;
        }
        let home = patiently(async || session.walk(PATH).await).await?;
        let disk = patiently(async || session.open(&home, "disk", NEW).await).await?;
        let locked = match reclaimed {
            Some(file) => file,
            None => patiently(async || session.open(&home, "locked", NEW).await).await?,
        };
        Ok(Live {
            session,
            home,
            disk,
            locked,
        })
    }

    /// Asks for a lock that the client had. Returns the opened file; `None` if the lock is lost, because the server was not restarted
    /// or does not wait any more.
    async fn reclaim(&self, session: &Rc<Session>, held: HeldLock) -> Result<Option<File>, Error> {
        let began = self.share.epoch();
        let owner = self.new_owner();
        let how = LockOptions {
            reclaim: true,
            ..EXCLUSIVE
        };
        let asked = async || {
            let file = session.reclaim(&held.file).await?;
            file.lock(&owner, bytes_of(held.range), how).await?;
            Ok(file)
        };
        match asked().await {
            Ok(file) => {
                let (grant, session) = (held.grant, Rc::downgrade(session));
                let mut locks = self.share.locks.borrow_mut();
                let taken = locks.reclaimed(held.range, (self.who, began, session), grant);
                if let Err(what) = taken {
                    self.share.blame(what);
                }
                drop(locks);
                self.set_held(Some(HeldLock {
                    owner: Rc::new(owner),
                    ..held
                }));
                Ok(Some(file))
            }
            Err(error) if is_over(&error) => Err(error),
            Err(_) => {
                self.set_held(None);
                Ok(None)
            }
        }
    }
}
