//! The creation of a session: client ID, session, connections (§18.34 to §18.36, §18.51).
//!
//! **Called by** [`super::session`]. **Invariants**: the values that the server grants are checked: it grants at least one slot,
//! and never more than was asked for.

use super::channel::Channel;
use super::config::Config;
use super::error::{ProtocolError, Result};
use super::limits::{CACHED_MAX, OPERATIONS_MAX, REPLY_MAX, REQUEST_MAX};
use nfs::wire::channel::{
    BindConnection, CallbackSecurity, Channel as Extent, CreateSession, ExchangeId, Sequence,
    StateProtection,
};
use nfs::wire::{Op, SessionId, Verifier, operation};

/// `CDFC4_FORE`: the connection carries requests only.
const FORE: u32 = 1;
/// The program of callbacks, which never come.
const CALLBACK_PROGRAM: u32 = 0x4000_0000;
/// The least bytes that a READ or WRITE may have.
const MESSAGE_MIN: u32 = 4096;

/// A session that was created.
pub(super) struct Established {
    pub(super) channels: Vec<Channel>,
    pub(super) client: u64,
    pub(super) session: SessionId,
    pub(super) granted: Extent,
    /// The sequence number of slot 0.
    pub(super) sequence: u32,
}

async fn connect(config: &Config) -> Result<Channel> {
    Channel::of(config).await
}

fn wanted(config: &Config) -> Extent {
    Extent {
        header_padding: 0,
        request_max: REQUEST_MAX,
        reply_max: REPLY_MAX,
        cached_max: CACHED_MAX,
        operations_max: OPERATIONS_MAX,
        slots: config.slots.into(),
    }
}

/// Whether the server grants enough, and not more than was asked for.
fn is_usable(granted: &Extent, wanted: &Extent) -> bool {
    (1..=wanted.slots).contains(&granted.slots)
        && (MESSAGE_MIN..=wanted.request_max).contains(&granted.request_max)
        && (MESSAGE_MIN..=wanted.reply_max).contains(&granted.reply_max)
        && granted.operations_max >= 4
}

/// Connects, and creates a session.
pub(super) async fn establish(config: &Config) -> Result<Established> {
    let mut first = connect(config).await?;
    let (client, sequence) = exchange(&mut first, config).await?;
    let create = CreateSession {
        client,
        sequence,
        flags: 0,
        fore: wanted(config),
        back: Extent {
            slots: 1,
            request_max: MESSAGE_MIN,
            reply_max: MESSAGE_MIN,
            ..wanted(config)
        },
        callback_program: CALLBACK_PROGRAM,
        security: vec![CallbackSecurity::None],
    };
    let create = Op::CreateSession(Box::new(create));
    let mut results = first.compound(config.minor, &[create]).await?;
    results.ok(operation::CREATE_SESSION)?;
    let session: SessionId = results.array()?;
    results.skip(8)?;
    let granted = results.value::<Extent>()?;
    if !is_usable(&granted, &wanted(config)) {
        return Err(ProtocolError::Limit("the granted session is out of range").into());
    }
    let mut established = Established {
        channels: vec![first],
        client,
        session,
        granted,
        sequence: 0,
    };
    if !config.reclaims {
        reclaim_nothing(&mut established, config).await?;
    }
    for _ in 1..config.connections {
        let mut next = connect(config).await?;
        bind(&mut next, session, config).await?;
        established.channels.push(next);
    }
    Ok(established)
}

async fn exchange(channel: &mut Channel, config: &Config) -> Result<(u64, u32)> {
    let mut verifier: Verifier = [0; 8];
    io::rng::fill(&mut verifier);
    let exchange = ExchangeId {
        verifier,
        owner: &config.owner,
        flags: 0,
        protection: StateProtection::None,
        implementation: None,
    };
    let exchange = Op::ExchangeId(Box::new(exchange));
    let mut results = channel.compound(config.minor, &[exchange]).await?;
    results.ok(operation::EXCHANGE_ID)?;
    Ok((results.u64()?, results.u32()?))
}

/// RECLAIM_COMPLETE: a new client has nothing from before the server's start.
async fn reclaim_nothing(established: &mut Established, config: &Config) -> Result<()> {
    established.sequence += 1;
    let sequence = Sequence {
        session: established.session,
        sequence: established.sequence,
        slot: 0,
        highest_slot: 0,
        cache_this: false,
    };
    let operations = [
        Op::Sequence(sequence),
        Op::ReclaimComplete { one_fs: false },
    ];
    let channel = &mut established.channels[0];
    let mut results = channel.compound(config.minor, &operations).await?;
    results.ok(operation::SEQUENCE)?;
    results.skip(16 + 5 * 4)?;
    results.ok(operation::RECLAIM_COMPLETE)
}

async fn bind(channel: &mut Channel, session: SessionId, config: &Config) -> Result<()> {
    let bind = BindConnection {
        session,
        direction: FORE,
        use_rdma: false,
    };
    let operations = [Op::BindConnection(bind)];
    let mut results = channel.compound(config.minor, &operations).await?;
    results.ok(operation::BIND_CONN_TO_SESSION)
}

/// Makes the server forget a client that has no session any more. Best effort.
pub(super) async fn forget(config: &Config, client: u64) -> Result<()> {
    let mut channel = connect(config).await?;
    let operations = [Op::DestroyClientId(client)];
    let mut results = channel.compound(config.minor, &operations).await?;
    results.ok(operation::DESTROY_CLIENTID)
}
