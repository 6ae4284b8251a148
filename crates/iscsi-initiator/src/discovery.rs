//! Discovery: asks a portal for its targets (SendTargets, appendix C).
//!
//! **Called by** users of the initiator. **Invariants**: text, PDUs, targets and addresses have named limits, so that an
//! endless answer ends the discovery.

use super::channel::{Channel, Way};
use super::config::{Chap, Proposal, random_isid};
use super::error::{Error, ProtocolError, Result};
use super::iser::IserSizes;
use super::limits::{DISCOVERY_PDUS_MAX, DISCOVERY_TARGETS_MAX, DISCOVERY_TEXT_MAX};
use super::login::{FIRST_CMD_SN, LoggedIn, Purpose};
use initiator::within;
use io::net::TcpOptions;
use iscsi::limits::KEY_LEN_MAX;
use iscsi::portal::IscsiTransport;
use iscsi::wire::request::{LogoutRequest, NopOut, TextRequest};
use iscsi::wire::text::Text;
use iscsi::wire::{Bhs, IscsiName, Itt, Lun, Opcode, Sn, Ttt};
use std::net::SocketAddr;
use std::time::Duration;

/// A target that a portal reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveredTarget {
    /// Its name.
    pub name: IscsiName,
    /// TargetAddress values: `address:port,portal-group-tag`. Empty: the target is at the queried portal.
    pub addresses: Vec<String>,
}

impl DiscoveredTarget {
    /// The addresses that are numeric; `portal` if the target has no TargetAddress.
    #[must_use]
    pub fn portals(&self, portal: SocketAddr) -> Vec<SocketAddr> {
        if self.addresses.is_empty() {
            return vec![portal];
        }
        let read = |a: &String| super::channel::target_address(a);
        self.addresses.iter().filter_map(read).collect()
    }
}

/// Task tags of the text request, and of the logout.
const TEXT: Itt = Itt(1);
const LOGOUT: Itt = Itt(2);

struct Exchange {
    channel: Channel,
    exp_stat_sn: Sn,
    text: Vec<u8>,
}

/// Returns all targets of the portal at `addr`, within the time `limit`.
///
/// # Errors
/// Those of a login; [`Error::Protocol`] and [`Error::Malformed`].
pub async fn discover(
    addr: SocketAddr,
    initiator: &IscsiName,
    chap: Option<Chap>,
    limit: Duration,
) -> Result<Vec<DiscoveredTarget>> {
    discover_over((IscsiTransport::Tcp, addr), initiator, chap, limit).await
}

/// [`discover`] over any transport.
///
/// # Errors
/// Those of [`discover`].
pub async fn discover_over(
    (transport, addr): (IscsiTransport, SocketAddr),
    initiator: &IscsiName,
    chap: Option<Chap>,
    limit: Duration,
) -> Result<Vec<DiscoveredTarget>> {
    let purpose = Purpose {
        initiator: initiator.clone(),
        target: None,
        isid: random_isid(),
        chap,
        proposal: Proposal {
            max_recv_data: 64 << 10,
            ..Proposal::default()
        },
        transport,
    };
    within(limit, Error::Timeout, async {
        let way = match transport {
            IscsiTransport::Tcp => Way::Tcp(TcpOptions::default()),
            IscsiTransport::Iser => Way::Iser(IserSizes::DISCOVERY),
        };
        let (channel, session) = Channel::log_in(addr, &purpose, &way).await?;
        Exchange::new(channel, &session).run().await
    })
    .await
}

impl Exchange {
    fn new(channel: Channel, session: &LoggedIn) -> Exchange {
        Exchange {
            channel,
            exp_stat_sn: session.exp_stat_sn,
            text: Vec::new(),
        }
    }

    async fn run(mut self) -> Result<Vec<DiscoveredTarget>> {
        let mut out = Text::new();
        out.put("SendTargets", "All");
        self.ask(Ttt::NONE, &out.into_bytes()).await?;
        for _ in 0..DISCOVERY_PDUS_MAX {
            let (bhs, data) = self.channel.receive().await?;
            if self.take(&bhs, &data).await? {
                let targets = parse(&self.text)?;
                self.log_out().await;
                return Ok(targets);
            }
        }
        Err(ProtocolError::Limit("a discovery without end").into())
    }

    async fn ask(&self, ttt: Ttt, text: &[u8]) -> Result<()> {
        let request = TextRequest {
            immediate: true,
            last: true,
            more: false,
            lun: Lun::default(),
            itt: TEXT,
            ttt,
            cmd_sn: FIRST_CMD_SN,
            exp_stat_sn: self.exp_stat_sn,
        };
        self.channel.send(request.build(), text).await
    }

    /// Handles one PDU. `Ok(true)`: the text is complete.
    async fn take(&mut self, bhs: &Bhs, data: &[u8]) -> Result<bool> {
        match bhs.opcode() {
            Some(Opcode::TextResponse) if bhs.itt() == TEXT => {}
            Some(Opcode::NopIn) if bhs.itt() == Itt::NONE => {
                if bhs.ttt() != Ttt::NONE {
                    self.answer_ping(bhs).await?;
                }
                return Ok(false);
            }
            Some(Opcode::AsyncMessage) => return Err(Error::Disconnected),
            Some(Opcode::Reject) => {
                let reason = iscsi::wire::response::RejectReason(bhs.0[2]);
                return Err(Error::Rejected(reason));
            }
            _ => return Err(ProtocolError::Unexpected("a PDU that nobody asked for").into()),
        }
        if bhs.sn() != self.exp_stat_sn {
            return Err(ProtocolError::SerialNumber("StatSN").into());
        }
        self.exp_stat_sn = self.exp_stat_sn.next();
        if self.text.len() + data.len() > DISCOVERY_TEXT_MAX {
            return Err(ProtocolError::Limit("a discovery text without end").into());
        }
        self.text.extend_from_slice(data);
        if bhs.is_final() {
            return Ok(true);
        }
        if bhs.ttt() == Ttt::NONE {
            return Err(ProtocolError::Unexpected("text to come, and no tag to ask with").into());
        }
        self.ask(bhs.ttt(), &[]).await?;
        Ok(false)
    }

    async fn answer_ping(&self, bhs: &Bhs) -> Result<()> {
        let nop = NopOut {
            immediate: true,
            lun: bhs.lun(),
            itt: Itt::NONE,
            ttt: bhs.ttt(),
            cmd_sn: FIRST_CMD_SN,
            exp_stat_sn: self.exp_stat_sn,
        };
        self.channel.send(nop.build(), &[]).await
    }

    /// Logs out. The target's answer is ignored.
    async fn log_out(&mut self) {
        let request = LogoutRequest {
            immediate: true,
            reason: 0,
            itt: LOGOUT,
            cid: 0,
            cmd_sn: FIRST_CMD_SN,
            exp_stat_sn: self.exp_stat_sn,
        };
        if self.channel.send(request.build(), &[]).await.is_ok() {
            let _ = self.channel.receive().await;
        }
    }
}

/// Decodes each TargetName and the TargetAddresses behind it (appendix C).
fn parse(text: &[u8]) -> Result<Vec<DiscoveredTarget>> {
    const WHAT: &str = "the targets of a discovery";
    let mut targets: Vec<DiscoveredTarget> = Vec::new();
    for pair in text.split(|b| *b == 0).filter(|p| !p.is_empty()) {
        let pair = std::str::from_utf8(pair).map_err(|_| Error::Malformed(WHAT))?;
        let (key, value) = pair.split_once('=').ok_or(Error::Malformed(WHAT))?;
        match (key, targets.last_mut()) {
            ("TargetName", _) => {
                let name = IscsiName::new(value).map_err(|_| Error::Malformed(WHAT))?;
                targets.push(DiscoveredTarget {
                    name,
                    addresses: Vec::new(),
                });
            }
            ("TargetAddress", Some(target)) => target.addresses.push(value.to_owned()),
            ("TargetAddress", None) => return Err(Error::Malformed(WHAT)),
            _ if key.len() > KEY_LEN_MAX => return Err(Error::Malformed(WHAT)),
            // Keys of vendors are ignored.
            _ => {}
        }
        let addresses = targets.last().map_or(0, |t| t.addresses.len());
        if targets.len() > DISCOVERY_TARGETS_MAX || addresses > DISCOVERY_TARGETS_MAX {
            return Err(ProtocolError::Limit("more targets than are read").into());
        }
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_and_their_addresses() {
        let text = b"TargetName=iqn.2026-11.a:1\0TargetAddress=10.0.0.1:3260,1\0\
            TargetAddress=[fe80::1]:3261,2\0TargetAddress=disks.example,3\0X-y=1\0\
            TargetName=iqn.2026-11.a:2\0";
        let all = parse(text).expect("well formed");
        assert_eq!(all.len(), 2);
        let portal: SocketAddr = "10.0.0.9:3260".parse().expect("an address");
        let shown: Vec<String> = all[0]
            .portals(portal)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(shown, ["10.0.0.1:3260", "[fe80::1]:3261"]);
        assert_eq!(all[1].portals(portal), [portal]);
        for bad in [
            &b"TargetAddress=1.2.3.4\0"[..],
            b"TargetName=x\0",
            b"x\0",
            b"a=\xff\0",
        ] {
            assert!(parse(bad).is_err());
        }
        let many = b"TargetName=iqn.2026-11.a:1\0".repeat(DISCOVERY_TARGETS_MAX + 1);
        assert!(parse(&many).is_err());
    }
}
