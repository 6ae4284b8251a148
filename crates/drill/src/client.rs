//! The drill's initiator: NVMe/TCP in user space, through the relay.
//!
//! **Owns** its time limits. **Called by** the drill. **Invariants**: broken connections are restored for as long as the drill
//! may last, and unanswered commands are repeated, as Linux does.

use crate::error::Result;
use crate::timeline::{Layer, Timeline};
use lab::targets::nvme::{NvmeSession, NvmeTarget, Patience};
use lab::targets::nvme_address::{Nvme, Transport};
use lab::targets::{Session, Target};
use nvmf_initiator::{LinkState, Reconnect};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Keep-alive timeout: the default of Linux.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Time limit of one attempt to connect.
const CONNECT: Duration = Duration::from_secs(3);
/// Attempts are made more often than Linux makes them (every 10 s), so that a drill shows the server's part of the time.
const RECONNECT: Reconnect = Reconnect {
    delay_min: Duration::from_millis(100),
    delay_max: Duration::from_secs(1),
    ctrl_loss_timeout: Duration::from_secs(600),
};

/// What the initiator connects to.
#[derive(Debug, Clone)]
pub struct Client {
    /// The relay.
    pub at: SocketAddr,
    /// The subsystem.
    pub nqn: String,
    /// The namespace.
    pub nsid: u32,
    /// The drill's host.
    pub host_nqn: String,
}

impl Client {
    /// The initiator's time limits, for people.
    #[must_use]
    pub fn patience() -> String {
        format!(
            "NVMe/TCP initiator in user space, keep-alive {} s, reconnects every {} to {} s",
            KEEP_ALIVE.as_secs(),
            RECONNECT.delay_min.as_secs_f64(),
            RECONNECT.delay_max.as_secs_f64()
        )
    }
}

/// Connects, with room for `depth` commands.
///
/// # Errors
/// `Target` if the server refuses or does not answer.
pub async fn connect(client: &Client, depth: u32) -> Result<NvmeSession> {
    let (at, nqn) = (client.at.to_string(), client.nqn.clone());
    let address = Nvme {
        host_nqn: Some(client.host_nqn.clone()),
        ..Nvme::new(Transport::Tcp, at, nqn, client.nsid)
    };
    let patience = Patience {
        keep_alive: KEEP_ALIVE,
        connect: CONNECT,
        reconnect: RECONNECT,
    };
    let target = NvmeTarget::open(&address).await?.with_patience(patience);
    Ok(target.connect(depth).await?)
}

/// Notes each change of the connections' state in the timeline.
pub(crate) struct Watcher {
    last: LinkState,
    epoch: u64,
}

impl Watcher {
    pub(crate) fn new() -> Watcher {
        Watcher {
            last: LinkState::Live,
            epoch: 0,
        }
    }

    pub(crate) fn look(&mut self, state: LinkState, epoch: u64, timeline: &Timeline) {
        if state == self.last && epoch == self.epoch {
            return;
        }
        (self.last, self.epoch) = (state, epoch);
        let text = match state {
            LinkState::Connecting => "connecting".to_owned(),
            LinkState::Live => {
                format!("connected again ({epoch} reconnections), unanswered commands repeated")
            }
            LinkState::Reconnecting => "the connection broke, reconnecting".to_owned(),
            LinkState::Lost => "gave up reconnecting".to_owned(),
            LinkState::Closed => "closed".to_owned(),
        };
        timeline.note(Layer::Initiator, text);
    }
}

/// A session whose connections' state can be watched.
pub trait Watched: Session {
    /// State of its connections.
    fn state(&self) -> LinkState;
}

impl Watched for NvmeSession {
    fn state(&self) -> LinkState {
        NvmeSession::state(self)
    }
}

/// Watches a session until the task is aborted.
pub(crate) async fn watch<S: Watched>(
    load: std::rc::Rc<crate::load::Load<S>>,
    timeline: Arc<Timeline>,
) {
    let mut watcher = Watcher::new();
    loop {
        let session = load.session();
        watcher.look(session.state(), session.epoch(), &timeline);
        io::time::sleep(crate::limits::POLL).await;
    }
}
