//! iSCSI in the configuration: portal groups, targets and their logical units.
//!
//! **Owns** `[iscsi]` and `[[target]]`. **Called by** the check of the configuration. **Invariants**: a disk has at
//! most one export, a namespace or a LUN; secrets are not in the file.

use super::check::{CONNECTIONS_DEFAULT, Checker};
use super::schema::{RawGroup, RawIscsi, RawLun, RawTarget};
use super::{Config, ConfigError, DiskConfig, NamespaceConfig, PoolConfig, SubsystemConfig};
use crate::limits::{
    CONNECTIONS_MAX, HOSTS_MAX, LISTENERS_MAX, LUN_MAX, PORTAL_GROUPS_MAX, TARGET_TEXT_LEN_MAX,
    TARGETS_MAX, THRESHOLD_PERCENT,
};
use iscsi::portal::{Acl, Redirect};
use iscsi::wire::IscsiName;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use toml::Spanned;
use uuid::Uuid;

type Result<T> = std::result::Result<T, ConfigError>;

/// Tag of the portal group that `[iscsi] listen` makes.
const FIRST_GROUP: u16 = 1;
/// A domain that ICANN reserved for private use in that month, so that nobody can own it (`docs/decisions/0200`).
const NAMING_AUTHORITY_DEFAULT: &str = "iqn.2024-08.internal.wirepool";

/// `[iscsi]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IscsiConfig {
    /// The portal groups; without one iSCSI is off.
    pub groups: Vec<PortalGroup>,
    /// Maximum number of connections.
    pub connections_max: usize,
    /// Prefix of generated target names: `iqn.YYYY-MM.DOMAIN` (RFC 7143 4.2.7.4).
    pub naming_authority: String,
    /// CHAP names of discovery sessions.
    pub discovery_chap: Option<ChapNames>,
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
    /// Listening addresses, at least one.
    pub listen: Vec<SocketAddr>,
    /// Addresses that discovery returns instead.
    pub advertise: Vec<SocketAddr>,
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

/// The export of a disk.
#[derive(Debug, Clone, Copy)]
pub enum ExportedAs<'a> {
    /// A namespace of a subsystem.
    Namespace(&'a SubsystemConfig, &'a NamespaceConfig),
    /// A logical unit of a target.
    Lun(&'a TargetConfig, &'a LunConfig),
}

impl fmt::Display for ExportedAs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExportedAs::Namespace(s, n) => write!(f, "{} namespace {}", s.nqn, n.nsid),
            ExportedAs::Lun(t, l) => write!(f, "{} LUN {}", t.iqn, l.lun),
        }
    }
}

impl ExportedAs<'_> {
    /// The command that removes the export.
    #[must_use]
    pub fn removal(&self) -> String {
        match self {
            ExportedAs::Namespace(s, n) => {
                format!("wirepool export remove {} --nsid {}", s.nqn, n.nsid)
            }
            ExportedAs::Lun(t, l) => format!("wirepool export remove {} --lun {}", t.iqn, l.lun),
        }
    }

    /// The name of the disk.
    #[must_use]
    pub fn disk(&self) -> &str {
        match self {
            ExportedAs::Namespace(_, n) => &n.disk,
            ExportedAs::Lun(_, l) => &l.disk,
        }
    }
}

impl Config {
    /// The target of that name.
    #[must_use]
    pub fn target(&self, iqn: &IscsiName) -> Option<&TargetConfig> {
        self.targets.iter().find(|t| t.iqn == *iqn)
    }

    /// The logical unit that a disk is exported as.
    #[must_use]
    pub fn lun_of(&self, disk: &str) -> Option<(&TargetConfig, &LunConfig)> {
        self.targets
            .iter()
            .find_map(|t| t.luns.iter().find(|l| l.disk == disk).map(|l| (t, l)))
    }

    /// The export of a disk.
    #[must_use]
    pub fn exported_as(&self, disk: &str) -> Option<ExportedAs<'_>> {
        self.exports().find(|e| e.disk() == disk)
    }

    /// Every namespace and every logical unit.
    pub fn exports(&self) -> impl Iterator<Item = ExportedAs<'_>> {
        let namespaces = self.subsystems.iter().flat_map(|s| {
            let one = move |n| ExportedAs::Namespace(s, n);
            s.namespaces.iter().map(one)
        });
        let luns = self
            .targets
            .iter()
            .flat_map(|t| t.luns.iter().map(move |l| ExportedAs::Lun(t, l)));
        namespaces.chain(luns)
    }
}

impl TargetConfig {
    /// The logical unit of that number.
    #[must_use]
    pub fn lun(&self, lun: u16) -> Option<&LunConfig> {
        self.luns.iter().find(|l| l.lun == lun)
    }
}

impl Checker<'_> {
    pub(super) fn iscsi(&self, raw: RawIscsi) -> Result<IscsiConfig> {
        let listen = self.addresses(raw.listen)?;
        let advertise = self.addresses(raw.advertise)?;
        let mut groups = Vec::new();
        if !listen.is_empty() {
            groups.push(PortalGroup {
                tag: FIRST_GROUP,
                listen,
                advertise,
            });
        }
        for g in raw.group {
            if groups.len() == PORTAL_GROUPS_MAX {
                let message = format!("expected at most {PORTAL_GROUPS_MAX} portal groups");
                return self.fail(g.span(), message);
            }
            groups.push(self.group(g.into_inner(), &groups)?);
        }
        Ok(IscsiConfig {
            groups,
            connections_max: self.number(
                raw.connections_max.as_ref(),
                CONNECTIONS_DEFAULT,
                1..=CONNECTIONS_MAX as u64,
            )? as usize,
            naming_authority: self.naming_authority(raw.naming_authority)?,
            discovery_chap: self.chap_names(raw.discovery_chap, raw.discovery_chap_mutual)?,
        })
    }

    fn naming_authority(&self, raw: Option<Spanned<String>>) -> Result<String> {
        let Some(raw) = raw else {
            return Ok(NAMING_AUTHORITY_DEFAULT.to_owned());
        };
        // The longest identity that is appended.
        let example = format!("{}:{}", raw.get_ref(), Uuid::nil());
        let whole = !raw.get_ref().contains(':') && IscsiName::new(&example).is_ok();
        if !whole || !is_naming_authority(raw.get_ref()) {
            let message = "expected \"iqn.\", year and month from which on a domain was yours, and the domain reversed, \
                           such as \"iqn.2026-01.org.example\"";
            return self.fail(raw.span(), message);
        }
        Ok(raw.into_inner())
    }

    fn chap_names(
        &self,
        initiator: Option<Spanned<String>>,
        target: Option<Spanned<String>>,
    ) -> Result<Option<ChapNames>> {
        let target = target
            .map(|t| {
                let span = t.span();
                self.target_text(t).map(|text| (text, span))
            })
            .transpose()?;
        match (initiator, target) {
            (Some(i), target) => Ok(Some(ChapNames {
                initiator: self.target_text(i)?,
                target: target.map(|(text, _)| text),
            })),
            (None, Some((_, span))) => {
                let message = "mutual CHAP needs CHAP of the initiators: `chap` is missing";
                self.fail(span, message)
            }
            (None, None) => Ok(None),
        }
    }

    fn moved(&self, to: Option<Spanned<String>>, permanently: bool) -> Result<Option<Redirect>> {
        let Some(to) = to else { return Ok(None) };
        if !is_portal(to.get_ref()) {
            let message =
                "expected where it is now, such as \"192.0.2.7:3260\" or \"storage.example.org\"";
            return self.fail(to.span(), message);
        }
        Ok(Some(Redirect {
            address: to.into_inner(),
            permanently,
        }))
    }

    fn group(&self, g: RawGroup, others: &[PortalGroup]) -> Result<PortalGroup> {
        let least = u64::from(FIRST_GROUP) + 1;
        let tag = self.number(Some(&g.tag), least, least..=u64::from(u16::MAX))? as u16;
        if others.iter().any(|o| o.tag == tag) {
            return self.fail(g.tag.span(), format!("there is another portal group {tag}"));
        }
        let span = g.listen.span();
        let listen = self.addresses(Some(g.listen))?;
        if listen.is_empty() {
            return self.fail(span, format!("expected 1 to {LISTENERS_MAX} addresses"));
        }
        let taken = |a: &&SocketAddr| a.port() != 0 && others.iter().any(|o| o.listen.contains(a));
        if let Some(twice) = listen.iter().find(taken) {
            return self.fail(span, format!("another portal group has {twice} already"));
        }
        Ok(PortalGroup {
            tag,
            listen,
            advertise: self.addresses(g.advertise)?,
        })
    }

    pub(super) fn targets(
        &self,
        raw: Vec<Spanned<RawTarget>>,
        iscsi: &IscsiConfig,
        media: (&[DiskConfig], &[PoolConfig]),
        subsystems: &[SubsystemConfig],
    ) -> Result<Vec<TargetConfig>> {
        let mut targets: Vec<TargetConfig> = Vec::new();
        let mut exported: BTreeMap<String, String> = BTreeMap::new();
        for s in subsystems {
            for n in &s.namespaces {
                exported.insert(n.disk.clone(), ExportedAs::Namespace(s, n).to_string());
            }
        }
        for t in raw {
            if targets.len() == TARGETS_MAX {
                return self.fail(t.span(), format!("expected at most {TARGETS_MAX} targets"));
            }
            let t = t.into_inner();
            let iqn = self.iscsi_name(&t.iqn)?;
            if targets.iter().any(|o| o.iqn == iqn) {
                let message = format!("there is another target named {iqn}");
                return self.fail(t.iqn.span(), message);
            }
            let mut luns: Vec<LunConfig> = Vec::new();
            for l in t.lun {
                let (lun_span, disk_span) = (l.get_ref().lun.span(), l.get_ref().disk.span());
                let l = self.lun(l.into_inner(), &iqn, media)?;
                if luns.iter().any(|o| o.lun == l.lun) {
                    return self.fail(lun_span, format!("the target has another LUN {}", l.lun));
                }
                let words = format!("{iqn} LUN {}", l.lun);
                if let Some(by) = exported.insert(l.disk.clone(), words) {
                    let message = format!("the disk {:?} is exported as {by} already", l.disk);
                    return self.fail(disk_span, message);
                }
                luns.push(l);
            }
            targets.push(TargetConfig {
                alias: t.alias.map(|a| self.target_text(a)).transpose()?,
                portal_group: self.portal_group(t.portal_group.as_ref(), iscsi)?,
                initiators: self.initiators(&t.initiators)?,
                chap: self.chap_names(t.chap, t.chap_mutual)?,
                moved: self.moved(t.moved_to, t.moved_permanently)?,
                iqn,
                luns,
            });
        }
        Ok(targets)
    }

    fn lun(
        &self,
        l: RawLun,
        iqn: &IscsiName,
        (disks, pools): (&[DiskConfig], &[PoolConfig]),
    ) -> Result<LunConfig> {
        let lun = self.number(Some(&l.lun), 0, 0..=u64::from(LUN_MAX))? as u16;
        self.disk_name(&l.disk, disks, pools)?;
        let disk = l.disk.into_inner();
        Ok(LunConfig {
            lun,
            uuid: self.uuid(l.uuid.as_ref(), || format!("{iqn}\n{lun}\n{disk}"))?,
            disk,
            read_only: l.read_only,
            threshold: match &l.threshold {
                Some(t) => Some(self.number(Some(t), 0, THRESHOLD_PERCENT)? as u8),
                None => None,
            },
        })
    }

    fn portal_group(&self, tag: Option<&Spanned<u64>>, iscsi: &IscsiConfig) -> Result<u16> {
        let default = u64::from(FIRST_GROUP);
        let number = self.number(tag, default, 1..=u64::from(u16::MAX))? as u16;
        match tag {
            // Targets are allowed without portals.
            Some(t) if number != FIRST_GROUP && !iscsi.groups.iter().any(|g| g.tag == number) => {
                self.fail(t.span(), format!("there is no portal group {number}"))
            }
            _ => Ok(number),
        }
    }

    fn iscsi_name(&self, text: &Spanned<String>) -> Result<IscsiName> {
        IscsiName::new(text.get_ref()).or_else(|e| {
            let message = "expected a name such as \"iqn.2026-01.org.example:disk1\"";
            self.fail(text.span(), format!("{message}: {e}"))
        })
    }

    fn target_text(&self, text: Spanned<String>) -> Result<String> {
        if is_target_text(text.get_ref()) {
            return Ok(text.into_inner());
        }
        let message = format!("expected 1 to {TARGET_TEXT_LEN_MAX} printable ASCII characters");
        self.fail(text.span(), message)
    }

    fn initiators(&self, list: &[Spanned<String>]) -> Result<Acl> {
        let mut names = BTreeSet::new();
        for i in list {
            if i.get_ref() == "any" {
                if list.len() > 1 {
                    let message = "\"any\" already allows every initiator: remove the other names";
                    return self.fail(i.span(), message);
                }
                return Ok(Acl::Any);
            }
            if names.len() == HOSTS_MAX {
                return self.fail(i.span(), format!("expected at most {HOSTS_MAX} initiators"));
            }
            if !names.insert(self.iscsi_name(i)?) {
                return self.fail(i.span(), format!("{} is there twice", i.get_ref()));
            }
        }
        Ok(Acl::List(names))
    }
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
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-');
    (1..=TARGET_TEXT_LEN_MAX).contains(&host.len()) && host.bytes().all(plain) && port_fits
}

/// Whether it is valid as an alias or a CHAP name.
fn is_target_text(text: &str) -> bool {
    (1..=TARGET_TEXT_LEN_MAX).contains(&text.len())
        && text.bytes().all(|b| (b' '..=b'~').contains(&b))
}
