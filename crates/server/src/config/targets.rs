//! iSCSI in the configuration: portal groups, targets and their logical units.
//!
//! **Owns** the meaning of `[iscsi]` and `[[target]]`. **Called by** the check of the whole. **Invariants**: a disk has
//! one export at most, a namespace or a LUN; secrets are not in the file.

use super::check::{CONNECTIONS_DEFAULT, Checker};
use super::schema::{RawGroup, RawIscsi, RawLun, RawTarget};
use super::{Config, ConfigError, DiskConfig, NamespaceConfig, PoolConfig, SubsystemConfig};
use crate::limits::{
    CONNECTIONS_MAX, HOSTS_MAX, LISTENERS_MAX, LUN_MAX, PORTAL_GROUPS_MAX, TARGET_TEXT_LEN_MAX,
    TARGETS_MAX,
};
use iscsi::target::Acl;
use iscsi::wire::IscsiName;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use toml::Spanned;
use uuid::Uuid;

type Result<T> = std::result::Result<T, ConfigError>;

/// Tag of the portal group that `[iscsi] listen` makes.
const FIRST_GROUP: u16 = 1;

/// `[iscsi]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IscsiConfig {
    /// The portal groups; without one iSCSI is off.
    pub groups: Vec<PortalGroup>,
    /// Most connections at a time.
    pub connections_max: usize,
}

/// `[iscsi]` itself for the first, `[[iscsi.group]]` for others: addresses that serve the same targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortalGroup {
    /// Its tag.
    pub tag: u16,
    /// Addresses to listen on, one at least.
    pub listen: Vec<SocketAddr>,
    /// Addresses that discovery names instead.
    pub advertise: Vec<SocketAddr>,
}

/// `[[target]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetConfig {
    /// Its name, unique.
    pub iqn: IscsiName,
    /// Its name for people.
    pub alias: Option<String>,
    /// Tag of the portal group that serves it.
    pub portal_group: u16,
    /// Who may log in.
    pub initiators: Acl,
    /// The name with which initiators prove themselves; the secret is in the state directory.
    pub chap: Option<String>,
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
}

/// What a disk is exported as.
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
    /// The command that takes the export back.
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

    /// What a disk is exported as.
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
        })
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
                chap: t.chap.map(|c| self.target_text(c)).transpose()?,
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
        })
    }

    fn portal_group(&self, tag: Option<&Spanned<u64>>, iscsi: &IscsiConfig) -> Result<u16> {
        let default = u64::from(FIRST_GROUP);
        let number = self.number(tag, default, 1..=u64::from(u16::MAX))? as u16;
        match tag {
            // A target may be there before iSCSI is on.
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
                    let message = "\"any\" stands alone: it already lets every initiator in";
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

/// Whether it can be an alias or a name for CHAP.
fn is_target_text(text: &str) -> bool {
    (1..=TARGET_TEXT_LEN_MAX).contains(&text.len())
        && text.bytes().all(|b| (b' '..=b'~').contains(&b))
}
