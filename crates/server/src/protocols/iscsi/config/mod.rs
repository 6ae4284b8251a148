//! iSCSI in the configuration: portal groups, targets and their logical units.
//!
//! **Owns** `[iscsi]` and `[[target]]`. **Called by** the check of the configuration. **Invariants**: those of the
//! configuration; secrets are not in the file.

use crate::config::checker::{Checker, RawAddresses, Result};
use crate::config::exports::{ExportedAs, Exports, ProtocolConfig};
use crate::limits::LISTENERS_MAX;
use crate::protocols::iscsi::limits::{
    LUN_MAX, LUNS_MAX, PORTAL_GROUPS_MAX, TARGET_TEXT_LEN_MAX, TARGETS_MAX, THRESHOLD_PERCENT,
};
use io::net::Endpoint;
use io::net::address::host_name;
use iscsi::portal::{Acl, Redirect};
use iscsi::wire::IscsiName;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use toml::Spanned;
use uuid::Uuid;

mod edit;

pub use edit::{DiscoveryEdit, TargetChange, TargetEdit};

/// The setting of listening addresses.
pub(super) const LISTEN: &str = "[iscsi] listen";
/// The setting of listening addresses for RDMA (iSER).
pub(super) const LISTEN_RDMA: &str = "[iscsi] listen_rdma";
/// Directory of CHAP secrets in the state directory.
pub(super) const SECRETS: &str = "chap";
/// Tag of the portal group that `[iscsi] listen` and `listen_rdma` make.
const FIRST_GROUP: u16 = 1;
/// A domain that ICANN reserved for private use in that month, so that nobody can own it (`docs/decisions/0200`).
const NAMING_AUTHORITY_DEFAULT: &str = "iqn.2024-08.internal.wirepool";

/// `[iscsi]` and `[[target]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The portal groups; without one iSCSI is off.
    pub groups: Vec<PortalGroup>,
    /// Maximum number of connections.
    pub connections_max: usize,
    /// Prefix of generated target names: `iqn.YYYY-MM.DOMAIN` (RFC 7143 4.2.7.4).
    pub naming_authority: String,
    /// CHAP names of discovery sessions.
    pub discovery_chap: Option<ChapNames>,
    /// The targets, in the order they are exported.
    pub targets: Vec<TargetConfig>,
}

/// CHAP names; the secrets are in the state directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChapNames {
    /// Name of the initiators.
    pub initiator: String,
    /// Name of this server, for mutual CHAP.
    pub target: Option<String>,
}

/// A portal group: addresses that serve the same targets. `[iscsi]` is the first, `[[iscsi.group]]` are others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortalGroup {
    /// Its tag.
    pub tag: u16,
    /// Listening addresses over TCP. The first group has one here or in `listen_rdma`, other groups have one here.
    pub listen: Vec<SocketAddr>,
    /// Listening addresses over RDMA (iSER).
    pub listen_rdma: Vec<SocketAddr>,
    /// Addresses that discovery over TCP returns instead.
    pub advertise: Vec<Endpoint>,
}

/// `[[target]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetConfig {
    /// Its name, unique.
    pub iqn: IscsiName,
    /// Its alias.
    pub alias: Option<String>,
    /// Tag of the portal group that serves it.
    pub portal_group: u16,
    /// Initiators that may log in.
    pub initiators: Acl,
    /// CHAP names, if CHAP is on.
    pub chap: Option<ChapNames>,
    /// The address to which logins are redirected.
    pub moved: Option<Redirect>,
    /// Its logical units.
    pub luns: Vec<LunConfig>,
}

/// `[[target.lun]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LunConfig {
    /// Its number, unique in the target.
    pub lun: u16,
    /// The name of its disk.
    pub disk: String,
    /// Its UUID. If the file has none it is made of the target's name, the number and the disk's name.
    pub uuid: Uuid,
    /// Refuse writes.
    pub read_only: bool,
    /// Used space, percent of the unit's or its pool's, at which initiators are warned.
    pub threshold: Option<u8>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawSection {
    listen: RawAddresses,
    listen_rdma: RawAddresses,
    advertise: RawAddresses,
    connections_max: Option<Spanned<u64>>,
    naming_authority: Option<Spanned<String>>,
    discovery_chap: Option<Spanned<String>>,
    discovery_chap_mutual: Option<Spanned<String>>,
    #[serde(default)]
    group: Vec<Spanned<RawGroup>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGroup {
    tag: Spanned<u64>,
    listen: Spanned<Vec<Spanned<String>>>,
    listen_rdma: RawAddresses,
    advertise: RawAddresses,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawExport {
    iqn: Spanned<String>,
    alias: Option<Spanned<String>>,
    portal_group: Option<Spanned<u64>>,
    #[serde(default)]
    initiators: Vec<Spanned<String>>,
    chap: Option<Spanned<String>>,
    chap_mutual: Option<Spanned<String>>,
    moved_to: Option<Spanned<String>>,
    #[serde(default)]
    moved_permanently: bool,
    #[serde(default)]
    lun: Vec<Spanned<RawLun>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLun {
    lun: Spanned<u64>,
    disk: Spanned<String>,
    uuid: Option<Spanned<String>>,
    #[serde(default)]
    read_only: bool,
    threshold: Option<Spanned<u64>>,
}

impl Settings {
    /// The target of that name.
    #[must_use]
    pub fn target(&self, iqn: &IscsiName) -> Option<&TargetConfig> {
        self.targets.iter().find(|t| t.iqn == *iqn)
    }

    /// The logical unit that a disk is exported as.
    #[must_use]
    pub fn lun_of(&self, disk: &str) -> Option<(&TargetConfig, &LunConfig)> {
        self.luns().find(|(_, l)| l.disk == disk)
    }

    fn luns(&self) -> impl Iterator<Item = (&TargetConfig, &LunConfig)> {
        self.targets
            .iter()
            .flat_map(move |t| t.luns.iter().map(move |l| (t, l)))
    }
}

impl ProtocolConfig for Settings {
    fn connections(&self) -> usize {
        match self.groups.is_empty() {
            true => 0,
            false => self.connections_max,
        }
    }

    fn directories(&self) -> &'static [&'static str] {
        &[SECRETS]
    }

    fn listening(&self) -> Vec<(&'static str, SocketAddr)> {
        let all = self.groups.iter().flat_map(|g| &g.listen);
        all.map(|a| (LISTEN, *a)).collect()
    }

    fn listening_rdma(&self) -> Vec<(&'static str, SocketAddr)> {
        let all = self.groups.iter().flat_map(|g| &g.listen_rdma);
        all.map(|a| (LISTEN_RDMA, *a)).collect()
    }

    /// A connection over RDMA has a channel for events and one for completions.
    fn descriptors_of_connection(&self) -> usize {
        1 + usize::from(!self.listening_rdma().is_empty())
    }

    fn told(&self) -> Vec<Endpoint> {
        let all = self.groups.iter().flat_map(|g| &g.advertise);
        all.cloned().collect()
    }

    fn exported_disks(&self) -> Vec<&str> {
        self.luns().map(|(_, l)| &*l.disk).collect()
    }

    fn exported_as(&self, disk: &str) -> Option<ExportedAs> {
        let (t, l) = self.lun_of(disk)?;
        Some(exported_as(&t.iqn, l.lun))
    }
}

impl TargetConfig {
    /// The logical unit of that number.
    #[must_use]
    pub fn lun(&self, lun: u16) -> Option<&LunConfig> {
        self.luns.iter().find(|l| l.lun == lun)
    }
}

/// A logical unit in messages.
pub(crate) fn exported_as(iqn: &IscsiName, lun: u16) -> ExportedAs {
    ExportedAs {
        name: format!("{iqn} LUN {lun}"),
        removal: format!("wirepool export remove {iqn} --lun {lun}"),
    }
}

/// The checked sections.
pub(crate) fn check(
    c: &Checker<'_>,
    raw: RawSection,
    targets: Vec<Spanned<RawExport>>,
    exports: &mut Exports<'_>,
) -> Result<Settings> {
    let listen = c.addresses(raw.listen)?;
    let listen_rdma = c.addresses(raw.listen_rdma)?;
    let advertise = c.endpoints(raw.advertise)?;
    let mut groups = Vec::new();
    if !(listen.is_empty() && listen_rdma.is_empty()) {
        groups.push(PortalGroup {
            tag: FIRST_GROUP,
            listen,
            listen_rdma,
            advertise,
        });
    }
    for g in raw.group {
        if groups.len() == PORTAL_GROUPS_MAX {
            let message = format!("expected at most {PORTAL_GROUPS_MAX} portal groups");
            return c.fail(g.span(), message);
        }
        groups.push(check_group(c, g.into_inner(), &groups)?);
    }
    Ok(Settings {
        connections_max: c.connections(raw.connections_max.as_ref())?,
        naming_authority: check_naming_authority(c, raw.naming_authority)?,
        discovery_chap: check_chap_names(c, raw.discovery_chap, raw.discovery_chap_mutual)?,
        targets: check_targets(c, targets, &groups, exports)?,
        groups,
    })
}

fn check_targets(
    c: &Checker<'_>,
    raw: Vec<Spanned<RawExport>>,
    groups: &[PortalGroup],
    exports: &mut Exports<'_>,
) -> Result<Vec<TargetConfig>> {
    let mut targets: Vec<TargetConfig> = Vec::new();
    let mut named = BTreeSet::new();
    for t in raw {
        if targets.len() == TARGETS_MAX {
            return c.fail(t.span(), format!("expected at most {TARGETS_MAX} targets"));
        }
        let t = t.into_inner();
        let iqn = check_name(c, &t.iqn)?;
        if !named.insert(iqn.clone()) {
            let message = format!("there is another target named {iqn}");
            return c.fail(t.iqn.span(), message);
        }
        let mut luns: Vec<LunConfig> = Vec::new();
        for l in t.lun {
            let l = l.into_inner();
            let lun = check_lun(c, &l, &iqn, exports)?;
            if luns.len() == LUNS_MAX {
                return c.fail(l.lun.span(), format!("expected at most {LUNS_MAX} LUNs"));
            }
            if luns.iter().any(|o| o.lun == lun.lun) {
                let message = format!("the target has another LUN {}", lun.lun);
                return c.fail(l.lun.span(), message);
            }
            exports.add(c, &l.disk, exported_as(&iqn, lun.lun))?;
            luns.push(lun);
        }
        let initiators = c.access_list(&t.initiators, "initiator", |i| check_name(c, i))?;
        targets.push(TargetConfig {
            alias: t.alias.map(|a| target_text(c, a)).transpose()?,
            portal_group: check_portal_group(c, t.portal_group.as_ref(), groups)?,
            initiators: initiators.map_or(Acl::Any, Acl::List),
            chap: check_chap_names(c, t.chap, t.chap_mutual)?,
            moved: check_moved(c, t.moved_to, t.moved_permanently)?,
            iqn,
            luns,
        });
    }
    Ok(targets)
}

fn check_lun(
    c: &Checker<'_>,
    l: &RawLun,
    iqn: &IscsiName,
    exports: &Exports<'_>,
) -> Result<LunConfig> {
    let lun = c.number(Some(&l.lun), 0, 0..=u64::from(LUN_MAX))? as u16;
    exports.check_disk(c, &l.disk)?;
    let disk = l.disk.get_ref().clone();
    let percent = |t: &Spanned<u64>| c.number(Some(t), 0, THRESHOLD_PERCENT);
    Ok(LunConfig {
        lun,
        uuid: c.uuid(l.uuid.as_ref(), || format!("{iqn}\n{lun}\n{disk}"))?,
        disk,
        read_only: l.read_only,
        threshold: l
            .threshold
            .as_ref()
            .map(percent)
            .transpose()?
            .map(|p| p as u8),
    })
}

fn check_naming_authority(c: &Checker<'_>, raw: Option<Spanned<String>>) -> Result<String> {
    let Some(raw) = raw else {
        return Ok(NAMING_AUTHORITY_DEFAULT.to_owned());
    };
    // The longest identity that is appended.
    let example = format!("{}:{}", raw.get_ref(), Uuid::nil());
    let whole = !raw.get_ref().contains(':') && IscsiName::new(&example).is_ok();
    if !whole || !is_naming_authority(raw.get_ref()) {
        let message = "expected \"iqn.\", year and month from which on a domain was yours, and the domain reversed, \
                       such as \"iqn.2026-01.org.example\"";
        return c.fail(raw.span(), message);
    }
    Ok(raw.into_inner())
}

fn check_chap_names(
    c: &Checker<'_>,
    initiator: Option<Spanned<String>>,
    target: Option<Spanned<String>>,
) -> Result<Option<ChapNames>> {
    let target = target
        .map(|t| {
            let span = t.span();
            target_text(c, t).map(|text| (text, span))
        })
        .transpose()?;
    match (initiator, target) {
        (Some(i), target) => Ok(Some(ChapNames {
            initiator: target_text(c, i)?,
            target: target.map(|(text, _)| text),
        })),
        (None, Some((_, span))) => {
            let message = "mutual CHAP needs CHAP of the initiators: `chap` is missing";
            c.fail(span, message)
        }
        (None, None) => Ok(None),
    }
}

fn check_moved(
    c: &Checker<'_>,
    to: Option<Spanned<String>>,
    permanently: bool,
) -> Result<Option<Redirect>> {
    let Some(to) = to else { return Ok(None) };
    if !is_portal(to.get_ref()) {
        let message =
            "expected where it is now, such as \"192.0.2.7:3260\" or \"storage.example.org\"";
        return c.fail(to.span(), message);
    }
    Ok(Some(Redirect {
        address: to.into_inner(),
        permanently,
    }))
}

fn check_group(c: &Checker<'_>, g: RawGroup, others: &[PortalGroup]) -> Result<PortalGroup> {
    let least = u64::from(FIRST_GROUP) + 1;
    let tag = c.number(Some(&g.tag), least, least..=u64::from(u16::MAX))? as u16;
    if others.iter().any(|o| o.tag == tag) {
        return c.fail(g.tag.span(), format!("there is another portal group {tag}"));
    }
    let span = g.listen.span();
    let listen = c.addresses(Some(g.listen))?;
    if listen.is_empty() {
        return c.fail(span, format!("expected 1 to {LISTENERS_MAX} addresses"));
    }
    let rdma_span = g.listen_rdma.as_ref().map(Spanned::span);
    let listen_rdma = c.addresses(g.listen_rdma)?;
    let taken = |a: &&SocketAddr| a.port() != 0 && others.iter().any(|o| o.listen.contains(a));
    let taken_rdma =
        |a: &&SocketAddr| a.port() != 0 && others.iter().any(|o| o.listen_rdma.contains(a));
    if let Some(twice) = listen.iter().find(taken) {
        return c.fail(span, format!("another portal group has {twice} already"));
    }
    if let Some(twice) = listen_rdma.iter().find(taken_rdma) {
        let span = rdma_span.unwrap_or(span);
        return c.fail(span, format!("another portal group has {twice} already"));
    }
    Ok(PortalGroup {
        tag,
        listen,
        listen_rdma,
        advertise: c.endpoints(g.advertise)?,
    })
}

fn check_portal_group(
    c: &Checker<'_>,
    tag: Option<&Spanned<u64>>,
    groups: &[PortalGroup],
) -> Result<u16> {
    let default = u64::from(FIRST_GROUP);
    let number = c.number(tag, default, 1..=u64::from(u16::MAX))? as u16;
    match tag {
        // Targets are allowed without portals.
        Some(t) if number != FIRST_GROUP && !groups.iter().any(|g| g.tag == number) => {
            c.fail(t.span(), format!("there is no portal group {number}"))
        }
        _ => Ok(number),
    }
}

fn check_name(c: &Checker<'_>, text: &Spanned<String>) -> Result<IscsiName> {
    IscsiName::new(text.get_ref()).or_else(|e| {
        let message = "expected a name such as \"iqn.2026-01.org.example:disk1\"";
        c.fail(text.span(), format!("{message}: {e}"))
    })
}

/// An alias or a CHAP name.
fn target_text(c: &Checker<'_>, text: Spanned<String>) -> Result<String> {
    c.printable(text, TARGET_TEXT_LEN_MAX)
}

/// Whether it is `iqn.YYYY-MM.` with a domain.
fn is_naming_authority(text: &str) -> bool {
    let Some((date, domain)) = text
        .strip_prefix("iqn.")
        .and_then(|rest| rest.split_once('.'))
    else {
        return false;
    };
    let month = |m: &str| m.len() == 2 && m.parse().is_ok_and(|m: u8| (1..=12).contains(&m));
    let year = |y: &str| y.len() == 4 && y.bytes().all(|b| b.is_ascii_digit());
    !domain.is_empty()
        && date
            .split_once('-')
            .is_some_and(|(y, m)| year(y) && month(m))
}

/// Whether it is a TargetAddress without a portal group (RFC 7143 13.8): an address or a name, with an optional port.
fn is_portal(text: &str) -> bool {
    let port = |p: &str| p.parse().is_ok_and(|p: u16| p != 0);
    if let Some(rest) = text.strip_prefix('[') {
        let Some((address, port_text)) = rest.split_once(']') else {
            return false;
        };
        let port_fits = port_text.is_empty() || port_text.strip_prefix(':').is_some_and(port);
        return address.parse::<Ipv6Addr>().is_ok() && port_fits;
    }
    let (host, port_fits) = match text.split_once(':') {
        Some((host, p)) => (host, port(p)),
        None => (text, true),
    };
    let is_host = host.parse::<Ipv4Addr>().is_ok() || host_name(host).is_ok();
    is_host && host.len() <= TARGET_TEXT_LEN_MAX && port_fits
}
