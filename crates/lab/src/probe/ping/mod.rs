//! `wirepool ping`: TCP connect, keep-alive of the protocol, read of 4 KiB; one of each in a round.
//!
//! **Owns** a session with the target, which is made again after a failure. **Called by** the command line. **Invariants**: it only
//! reads; every request has a time limit; a request without an answer counts as lost, with the reason.

pub mod result;
pub(super) mod text;
pub(super) mod verdict;

use crate::probe::interrupt::Interrupt;
use crate::probe::rung::{Rung, timed};
use crate::probe::verdict::{Limit, Verdict};
use crate::targets::nvme_address::Transport;
use crate::targets::{Address, AnySession, AnyTarget, OpenAs, Session, Target};
use crate::{Error, Result};
use io::net::TcpStream;
use io::rng::Prng;
use nfs_initiator::NfsTransport;
use result::{Connection, Pinged, Round};
use std::net::SocketAddr;
use std::time::Duration;
use verdict::judge;

/// Rounds, times and limits.
#[derive(Debug, Clone)]
pub struct Ping {
    /// The target.
    pub address: Address,
    /// Rounds; none: until the user asks for the end.
    pub count: Option<u64>,
    /// Time from the start of a round to the start of the next one.
    pub interval: Duration,
    /// Time after which a request counts as lost.
    pub patience: Duration,
    /// Bytes of each read.
    pub size: u32,
}

/// Protocol, keep-alive and address of a remote target. Errors: `Usage` for a local one, `Target` for an unknown host.
fn remote(address: &Address) -> Result<(&'static str, &'static str, SocketAddr)> {
    match address {
        Address::Nvme(t) if t.transport == Transport::Rdma => Err(Error::usage(
            address.to_string(),
            "expected nvme-tcp://, iscsi:// or nfs://: ping measures TCP; name the same server with nvme-tcp://",
        )),
        Address::Nvme(t) => Ok(("NVMe/TCP", "Keep Alive", t.resolve()?)),
        Address::Iscsi(t) => Ok(("iSCSI", "NOP-Out", t.resolve()?)),
        Address::Nfs(t) if t.transport == NfsTransport::Rdma => Err(Error::usage(
            address.to_string(),
            "expected nvme-tcp://, iscsi:// or nfs://: ping measures TCP; name the same server with nfs://",
        )),
        Address::Nfs(t) => Ok(("NFS", "SEQUENCE", t.resolve()?)),
        Address::File { .. } | Address::Memory(_) => Err(Error::usage(
            address.to_string(),
            "expected nvme-tcp://, iscsi:// or nfs://; wirepool ioping measures local disks",
        )),
    }
}

/// Runs the rounds. `each` is called after each of them.
///
/// # Errors
/// `Usage` for a local target or a read that the target cannot do, `Target` for an unknown host. A target that does not answer is a
/// result.
pub(crate) async fn run(
    ping: Ping,
    interrupt: &Interrupt,
    mut each: impl FnMut(&Round),
) -> Result<Pinged> {
    let (protocol, keep_alive_name, at) = remote(&ping.address)?;
    let begun = io::time::now();
    let mut due = begun;
    let (mut tcp, mut keep_alive, mut read) = (Rung::default(), Rung::default(), Rung::default());
    let mut peer = Peer::new(&ping);
    let mut number = 0;
    while ping.count.is_none_or(|n| number < n) && !interrupt.is_set() {
        number += 1;
        let connect = async { TcpStream::connect(at).await.map_err(|e| e.to_string()) };
        let connected = timed(ping.patience, connect).await.map(|(time, _)| time);
        let (kept, got) = peer.round(connected.is_ok()).await?;
        let round = Round {
            number,
            tcp: connected,
            keep_alive: kept,
            read: got,
        };
        tcp.record(&round.tcp);
        keep_alive.record(&round.keep_alive);
        read.record(&round.read);
        each(&round);
        due = due + ping.interval;
        if ping.count != Some(number) {
            interrupt.sleep_until(due).await;
        }
    }
    let connection = peer.end().await;
    let mut result = Pinged {
        target: ping.address.to_string(),
        address: at,
        protocol: protocol.into(),
        keep_alive_name: keep_alive_name.into(),
        size: ping.size,
        seconds: begun.elapsed().as_secs_f64(),
        tcp: tcp.summary(),
        keep_alive: keep_alive.summary(),
        read: read.summary(),
        connection,
        verdict: Verdict::new(Limit::Mixed, ""),
    };
    result.verdict = judge(&result);
    Ok(result)
}

/// The session with the target.
struct Peer<'a> {
    ping: &'a Ping,
    session: Option<(AnySession, u64)>,
    places: Prng,
    /// Why the target refused the session: it is not asked again.
    refusal: Option<String>,
    was_open: bool,
}

type Times = (
    std::result::Result<Duration, String>,
    std::result::Result<Duration, String>,
);

impl<'a> Peer<'a> {
    fn new(ping: &'a Ping) -> Peer<'a> {
        Peer {
            ping,
            session: None,
            places: Prng::new(io::rng::u64()),
            refusal: None,
            was_open: false,
        }
    }

    /// One keep-alive and one read.
    async fn round(&mut self, is_reachable: bool) -> Result<Times> {
        if let Some(why) = &self.refusal {
            return Ok((Err(why.clone()), Err(why.clone())));
        }
        if self.session.is_none()
            && let Err(why) = self.open(is_reachable).await?
        {
            return Ok((Err(why.clone()), Err(why)));
        }
        let Some((session, places)) = &self.session else {
            unreachable!("it was just opened");
        };
        let patience = self.ping.patience;
        let keep_alive = async {
            let answer = session.keep_alive().await;
            answer.unwrap_or(Ok(())).map_err(|e| e.to_string())
        };
        let kept = timed(patience, keep_alive).await.map(|(time, ())| time);
        let offset = self.places.below(*places) * u64::from(self.ping.size);
        let buf = io::pool().alloc(self.ping.size as usize).await;
        let read = async { session.read(buf, offset).await.0.map_err(|e| e.to_string()) };
        let got = timed(patience, read).await.map(|(time, ())| time);
        if kept.is_err() || got.is_err() {
            self.session = None;
        }
        Ok((kept, got))
    }

    /// Makes the session; the inner error is the reason why there is none. Errors: `Usage`.
    async fn open(&mut self, is_reachable: bool) -> Result<std::result::Result<(), String>> {
        let address = &self.ping.address;
        let open = async {
            let target = AnyTarget::open(address, OpenAs::default()).await?;
            target.connect(1).await
        };
        let session = match io::timeout(self.ping.patience, open).await {
            Ok(Ok(session)) => session,
            Ok(Err(e @ Error::Usage { .. })) => return Err(e),
            Ok(Err(e)) => {
                // A server that restarts refuses for a moment; one that never had a session will refuse again.
                let why = reason(&e);
                if is_reachable && !self.was_open {
                    self.refusal = Some(why.clone());
                }
                return Ok(Err(why));
            }
            Err(_) => {
                let limit = crate::size::nanos(self.ping.patience.as_nanos() as f64);
                return Ok(Err(format!("no session within {limit}")));
            }
        };
        let facts = session.facts();
        let places = facts.size / u64::from(self.ping.size);
        if places == 0
            || self.ping.size > facts.transfer_max
            || !self.ping.size.is_multiple_of(facts.block_size)
        {
            let why = format!(
                "expected a multiple of {}, at most {}",
                facts.block_size,
                u64::from(facts.transfer_max).min(facts.size)
            );
            return Err(Error::usage(
                format!("reads of {} bytes", self.ping.size),
                why,
            ));
        }
        self.session = Some((session, places));
        self.was_open = true;
        Ok(Ok(()))
    }

    /// Ends the session. Returns the statistics of its connection.
    async fn end(self) -> Option<Connection> {
        let (session, _) = self.session?;
        let connection = session.tcp().map(Connection::from);
        // A server that does not answer the end of a session ends it by itself.
        let _ = io::timeout(self.ping.patience, session.close()).await;
        connection
    }
}

/// An error without the target's name, which is known.
fn reason(e: &Error) -> String {
    match e {
        Error::Target { why, .. } => why.clone(),
        other => other.to_string(),
    }
}
