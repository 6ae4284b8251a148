//! Discovery: reads the log page of a discovery controller, follows its referrals, and waits for changes (Base 3.1.2.3,
//! 5.16.1.23).

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::config::{Config, Reconnect};
use super::controller::Controller;
use super::error::{Error, Result};
use super::limits::{DISCOVERY_ATTEMPTS_MAX, DISCOVERY_ENTRIES_MAX, REFERRALS_MAX};
use io::net::address;
use nvmf::controller::Transport;
use nvmf::wire::FormatError;
use nvmf::wire::command::Nsid;
use nvmf::wire::features::AsyncEvent;
use nvmf::wire::log::{
    DiscoveryEntry, DiscoveryHeader, DiscoveryLog, GetLogPage, SubsystemType, TransportType, lid,
};
use nvmf::wire::nqn::{HostId, Nqn};
use nvmf::wire::text;

/// Length of the log page's header and of each entry, bytes.
const RECORD_LEN: u64 = 1024;

/// A connected discovery controller.
pub struct Discovery {
    controller: Controller,
}

impl Discovery {
    /// Connects to the discovery subsystem at `addr`. If `keep_alive` is not zero, the connection is persistent: changes are
    /// reported on it.
    ///
    /// # Errors
    /// As [`Controller::connect`].
    pub async fn connect(
        (transport, addr): (Transport, SocketAddr),
        hostnqn: Nqn,
        host_id: HostId,
        keep_alive: Duration,
    ) -> Result<Self> {
        let reconnect = if keep_alive.is_zero() {
            Reconnect::NEVER
        } else {
            Reconnect::default()
        };
        let config = Config {
            transport,
            io_queues: 0,
            keep_alive,
            reconnect,
            ..Config::new(addr, Nqn::discovery(), hostnqn, host_id)
        };
        Ok(Self {
            controller: Controller::connect(config).await?,
        })
    }

    /// The discovery controller.
    #[must_use]
    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Reads the whole log page, all entries of one generation.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the page has an unknown format or more entries than [`DISCOVERY_ENTRIES_MAX`];
    /// [`Error::NotReady`] if it changed during each attempt.
    pub async fn log(&self) -> Result<DiscoveryLog> {
        for _ in 0..DISCOVERY_ATTEMPTS_MAX {
            let before = self.header(true).await?;
            let count = before.record_count.get();
            if count > DISCOVERY_ENTRIES_MAX {
                return Err(FormatError::Field {
                    what: "discovery log page",
                    offset: 8,
                }
                .into());
            }
            let page = if count == 0 {
                Vec::new()
            } else {
                self.part(RECORD_LEN, count * RECORD_LEN, true).await?
            };
            // Reading the header last clears the event and proves that the page did not change.
            let after = self.header(false).await?;
            if before.generation == after.generation {
                let header = zerocopy::IntoBytes::as_bytes(&before);
                return Ok(DiscoveryLog::parse(&[header, &page].concat())?);
            }
        }
        Err(Error::NotReady("the discovery log page keeps changing"))
    }

    /// Waits until the log page changes. Needs a persistent connection.
    ///
    /// # Errors
    /// As [`Controller::next_event`].
    pub async fn changed(&self) -> Result<()> {
        while self.controller.next_event().await? != AsyncEvent::DISCOVERY_CHANGED {}
        Ok(())
    }

    /// Shuts the controller down and closes the connection.
    pub async fn shutdown(self) {
        self.controller.shutdown().await;
    }

    async fn header(&self, retain_event: bool) -> Result<DiscoveryHeader> {
        Ok(DiscoveryHeader::parse(
            &self.part(0, RECORD_LEN, retain_event).await?,
        )?)
    }

    async fn part(&self, offset: u64, len: u64, retain_event: bool) -> Result<Vec<u8>> {
        let get = GetLogPage {
            offset,
            retain_event,
            ..GetLogPage::new(lid::DISCOVERY, len)
        };
        self.controller.log_page(get, Nsid::NONE).await
    }
}

/// One way to reach a subsystem over TCP or RDMA, from a discovery log page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveredPath {
    /// The subsystem's name.
    pub subnqn: Nqn,
    /// Its transport.
    pub transport: Transport,
    /// Its address.
    pub addr: SocketAddr,
    /// Its type.
    pub subtype: SubsystemType,
    /// PORTID.
    pub portid: u16,
}

impl DiscoveredPath {
    /// Reads an entry. `None` for another transport or an invalid entry.
    #[must_use]
    pub fn from_entry(entry: &DiscoveryEntry) -> Option<Self> {
        let subtype = match entry.subtype {
            1 => SubsystemType::Referral,
            2 => SubsystemType::Nvm,
            3 => SubsystemType::CurrentDiscovery,
            _ => return None,
        };
        let ip: IpAddr = text::get(&entry.traddr).parse().ok()?;
        let port: u16 = text::get(&entry.trsvcid).parse().ok()?;
        let subnqn = entry.subnqn.parse().ok()?;
        let transport = match entry.trtype {
            t if t == TransportType::Tcp as u8 => Transport::Tcp,
            t if t == TransportType::Rdma as u8 => Transport::Rdma,
            _ => return None,
        };
        Some(Self {
            subnqn,
            transport,
            addr: address::canonical(SocketAddr::new(ip, port)),
            subtype,
            portid: entry.portid.get(),
        })
    }
}

/// Returns all subsystems that the discovery service at this address, or a service that it refers to, reports.
///
/// # Errors
/// Those of the first service. A referral that fails is logged and skipped.
pub async fn discover(
    at: (Transport, SocketAddr),
    hostnqn: &Nqn,
    host_id: HostId,
) -> Result<Vec<DiscoveredPath>> {
    let mut asked = vec![at];
    let mut paths = ask(at, hostnqn, host_id).await?;
    let mut next = 0;
    while next < paths.len() {
        let path = paths[next].clone();
        next += 1;
        let referral = (path.transport, path.addr);
        if path.subtype != SubsystemType::Referral || asked.contains(&referral) {
            continue;
        }
        if asked.len() == REFERRALS_MAX {
            tracing::warn!(limit = REFERRALS_MAX, "more referrals than are followed");
            break;
        }
        asked.push(referral);
        match ask(referral, hostnqn, host_id).await {
            Ok(more) => {
                for path in more {
                    if !paths.contains(&path) {
                        paths.push(path);
                    }
                }
            }
            Err(error) => {
                tracing::warn!(referral = %path.addr, %error, "discovery service does not answer")
            }
        }
    }
    paths.retain(|path| path.subtype == SubsystemType::Nvm);
    Ok(paths)
}

async fn ask(
    at: (Transport, SocketAddr),
    hostnqn: &Nqn,
    host_id: HostId,
) -> Result<Vec<DiscoveredPath>> {
    let discovery = Discovery::connect(at, hostnqn.clone(), host_id, Duration::ZERO).await?;
    let log = discovery.log().await?;
    discovery.shutdown().await;
    Ok(log
        .entries
        .iter()
        .filter_map(DiscoveredPath::from_entry)
        .collect())
}
