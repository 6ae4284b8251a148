//! The handle of a session: connect, calls, end.
//!
//! **Owns** the tasks that watch time limits and renew the lease. **Called by** users of the initiator. **Invariants**: the
//! session ends when its handle is dropped; a call that the server asks to repeat later is repeated a bounded number of times.

use super::channel::ChannelLink;
use super::config::Config;
use super::connection::{AnyLink, ConnectionShared, Outgoing};
use super::engine::{Answer, CallParts, Engine, Finished};
use super::error::{Error, Result};
use super::establish::{Established, establish, forget};
use super::limits::{
    CLOSE_TIMEOUT, DELAY_PAUSE, DELAYS_MAX, OPERATIONS_MAX, REPLY_MAX, TIMEOUT_TICKS, TRANSFER_MAX,
    XATTR_REPLY_MAX,
};
use super::rdma::receiver as rdma;
use super::receiver;
use super::results::Results;
use initiator::inbound::STAGING_WIDE;
use initiator::outbound;
use initiator::slots::Data;
use initiator::{LinkState, LiveTasks, within};
use io::net::TcpInfo;
use io::rdma::RdmaInfo;
use io::spawn;
use io::sync::{Notify, Semaphore};
use io::{IoBuf, RecvBuf};
use nfs::service::NfsTransport;
use nfs::wire::channel::Channel as Extent;
use nfs::wire::{Minor2, Op, SessionId, Status, operation};
use nfs::xdr::Writer;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Bytes of a request or reply beyond the data of its WRITE or READ, at most.
const OVERHEAD: u32 = 1024;

/// A session with a server. Clones share it; it ends when the last one is dropped.
#[derive(Clone)]
pub struct Session(Rc<Inner>);

struct Inner {
    shared: Rc<ConnectionShared>,
    config: Config,
    client: u64,
    session: SessionId,
    granted: Extent,
    _tasks: LiveTasks,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.end(Error::Closed);
    }
}

impl Session {
    /// Connects and creates a session. Makes one attempt.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Timeout`], [`Error::Refused`], [`Error::Status`] or [`Error::Protocol`].
    pub async fn connect(config: Config) -> Result<Session> {
        let config = config.clamped();
        let limit = config.connect_timeout;
        let established = within(limit, Error::Timeout, establish(&config)).await?;
        Ok(Self::start(config, established))
    }

    fn start(config: Config, established: Established) -> Session {
        let Established {
            channels,
            client,
            session,
            granted,
            sequence,
        } = established;
        let slots = u16::try_from(granted.slots)
            .expect("the server grants at most the slots of the request");
        let (mut links, mut stagings) = (Vec::new(), Vec::new());
        for channel in channels {
            let (link, staging) = match channel.link {
                ChannelLink::Tcp(stream, staging) => (AnyLink::Tcp(Rc::new(stream)), Some(staging)),
                ChannelLink::Rdma(link) => (AnyLink::Rdma(Rc::new(link)), None),
            };
            links.push(link);
            stagings.push(staging);
        }
        let shared = Rc::new(ConnectionShared {
            engine: RefCell::new(Engine::new(&config, session, slots, sequence)),
            permits: Semaphore::new(slots.into()),
            state: Cell::new(LinkState::Live),
            cause: RefCell::default(),
            send_wanted: links.iter().map(|_| Notify::new()).collect(),
            links,
        });
        for (connection, staging) in stagings.into_iter().enumerate() {
            match (&shared.links[connection], staging) {
                (AnyLink::Rdma(link), _) => {
                    let (shared, link) = (shared.clone(), link.clone());
                    drop(spawn(rdma::run(shared.clone(), link.clone(), connection)));
                    drop(spawn(rdma::send(shared, link, connection)));
                }
                (AnyLink::Tcp(stream), staging) => {
                    let staging = staging.unwrap_or_else(|| RecvBuf::new(STAGING_WIDE));
                    let stream = stream.clone();
                    drop(spawn(receiver::run(
                        shared.clone(),
                        stream.clone(),
                        staging,
                    )));
                    let outbox = Outgoing {
                        shared: shared.clone(),
                        connection,
                    };
                    drop(spawn(async move { outbound::run(&outbox, &stream).await }));
                }
            }
        }
        let mut tasks = vec![spawn(watch_timeouts(shared.clone(), config.clone()))];
        if !config.keep_alive.is_zero() {
            tasks.push(spawn(keep_alive(shared.clone(), config.clone())));
        }
        Session(Rc::new(Inner {
            shared,
            config,
            client,
            session,
            granted,
            _tasks: LiveTasks::new(tasks),
        }))
    }

    /// The session's state.
    #[must_use]
    pub fn state(&self) -> LinkState {
        self.0.shared.state.get()
    }

    /// Slots that the server granted: calls that may be outstanding.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.0.granted.slots
    }

    /// Connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.0.shared.links.len()
    }

    /// Largest READ and WRITE of the session, bytes.
    #[must_use]
    pub fn transfer_max(&self) -> u32 {
        let granted = self.0.granted.request_max.min(self.0.granted.reply_max);
        granted.saturating_sub(OVERHEAD).min(TRANSFER_MAX)
    }

    /// `sr_status_flags` of the last reply: state that was revoked, or a lease that ran out.
    #[must_use]
    pub fn status_flags(&self) -> u32 {
        self.0.shared.engine.borrow().flags
    }

    /// TCP statistics of the kernel, of each connection over TCP.
    #[must_use]
    pub fn links(&self) -> Vec<TcpInfo> {
        let tcp = |link: &AnyLink| match link {
            AnyLink::Tcp(stream) => Some(stream.info().unwrap_or_default()),
            AnyLink::Rdma(_) => None,
        };
        self.0.shared.links.iter().filter_map(tcp).collect()
    }

    /// Numbers of the queue pair of each connection over RDMA.
    #[must_use]
    pub fn queue_pairs(&self) -> Vec<RdmaInfo> {
        let rdma = |link: &AnyLink| match link {
            AnyLink::Tcp(_) => None,
            AnyLink::Rdma(link) => Some(link.info()),
        };
        self.0.shared.links.iter().filter_map(rdma).collect()
    }

    /// Longest result of READDIR to ask for, bytes.
    pub(super) fn reply_max(&self) -> u32 {
        self.0.granted.reply_max.saturating_sub(OVERHEAD)
    }

    pub(super) fn client(&self) -> u64 {
        self.0.client
    }

    /// Executes operations in the session, behind a SEQUENCE. Repeats them while the server asks for that.
    ///
    /// # Errors
    /// [`Error::Invalid`] for too many operations, and errors of the connection and of SEQUENCE. Statuses of operations are in
    /// the results.
    pub async fn call(&self, operations: &[Op<'_>]) -> Result<Results> {
        if operations.len() >= OPERATIONS_MAX.min(self.0.granted.operations_max) as usize {
            return Err(Error::Invalid("too many operations"));
        }
        let mut delays = 0;
        loop {
            let done = self.submit(operations, Data::None).await;
            let is_delayed = match &done.result {
                Ok(Answer::Results(results)) => results.status == Status::Delay,
                Ok(Answer::Read { .. }) => false,
                Err(error) => error.status() == Some(Status::Delay),
            };
            if !is_delayed || delays == DELAYS_MAX {
                return match done.result? {
                    Answer::Results(results) => Ok(results),
                    Answer::Read { .. } => unreachable!("a call without a buffer reads nothing"),
                };
            }
            delays += 1;
            io::time::sleep(DELAY_PAUSE).await;
        }
    }

    /// The client has reclaimed everything (RECLAIM_COMPLETE): from now on it may open and lock. Needs
    /// [`Config::reclaims`](crate::Config::reclaims).
    ///
    /// # Errors
    /// [`Error::Status`], and errors of the connection.
    pub async fn reclaimed(&self) -> Result<()> {
        let mut results = self.call(&[Op::ReclaimComplete { one_fs: false }]).await?;
        results.ok(operation::RECLAIM_COMPLETE)
    }

    /// Executes operations once; the data of a READ or WRITE belongs to the last one.
    pub(super) async fn submit(&self, operations: &[Op<'_>], data: Data) -> Finished {
        let mut writer = Writer::new();
        operations.iter().for_each(|op| op.encode(&mut writer));
        let reply = match self.0.config.transport {
            NfsTransport::Tcp => 0,
            NfsTransport::Rdma => operations.iter().map(long_reply).sum(),
        };
        let reply = match reply {
            0 => None,
            len => Some(io::pool().alloc(len).await),
        };
        self.execute_with(writer, operations.len(), (data, reply))
            .await
    }

    /// The same with encoded operations.
    pub(super) async fn execute(&self, operations: Writer, count: usize, data: Data) -> Finished {
        self.execute_with(operations, count, (data, None)).await
    }

    async fn execute_with(
        &self,
        operations: Writer,
        count: usize,
        (data, reply): (Data, Option<IoBuf>),
    ) -> Finished {
        let entry = CallParts {
            operations: operations.to_vec(),
            count: u32::try_from(count).expect("a COMPOUND is short"),
            reply,
        };
        self.0.shared.execute(entry, data).await
    }

    /// Destroys session and client at the server, and closes the connections. Other calls fail with [`Error::Closed`].
    pub async fn close(self) {
        let end = async {
            self.call(&[Op::DestroySession(self.0.session)]).await?;
            forget(&self.0.config, self.0.client).await
        };
        // The server forgets a silent client by itself, when its lease is over.
        let _ = within(CLOSE_TIMEOUT, Error::Timeout, end).await;
        self.0.shared.end(Error::Closed);
    }
}

/// Bytes that the result of an operation may take beyond those of a message.
fn long_reply(op: &Op<'_>) -> usize {
    let len = match op {
        Op::ReadDir(args) => args.bytes_max.saturating_add(OVERHEAD),
        Op::Minor2(op) => match **op {
            Minor2::GetXattr { .. } | Minor2::ListXattrs { .. } => XATTR_REPLY_MAX,
            Minor2::ReadPlus { count, .. } => count.saturating_add(OVERHEAD),
            _ => 0,
        },
        _ => 0,
    };
    len.min(REPLY_MAX) as usize
}

/// Ends the session if a call has no answer in time.
async fn watch_timeouts(shared: Rc<ConnectionShared>, config: Config) {
    let period = config.command_timeout / TIMEOUT_TICKS;
    while !shared.is_ending() {
        io::time::sleep(period).await;
        // A call that was sent right after a tick is less than one tick old at the next one.
        if !shared.engine.borrow_mut().tick(TIMEOUT_TICKS + 1) {
            return shared.end(Error::Timeout);
        }
    }
}

/// Renews the lease of a silent client.
async fn keep_alive(shared: Rc<ConnectionShared>, config: Config) {
    let mut seen = 0;
    while !shared.is_ending() {
        io::time::sleep(config.keep_alive).await;
        let now = shared.engine.borrow().submitted;
        if std::mem::replace(&mut seen, now) == now {
            // A failure ends the session, or is found by the next call.
            let _ = shared.execute(CallParts::default(), Data::None).await;
            seen = shared.engine.borrow().submitted;
        }
    }
}
