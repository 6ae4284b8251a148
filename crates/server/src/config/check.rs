//! Check of the configuration: names resolve, values are within limits, nothing occurs twice.

use super::schema::{RawConfig, RawDisk, RawKind, RawNamespace, RawNvmf, RawServer, RawSubsystem};
use super::{
    Config, ConfigError, DiskConfig, HostList, Medium, NamespaceConfig, NvmfConfig, PoolConfig,
    ServerConfig, SubsystemConfig,
};
use crate::limits::{
    BUFFER_MIB, CONNECTIONS_MAX, DISK_NAME_LEN_MAX, DISK_SIZE_MAX, DISK_SIZE_MIN, DISKS_MAX,
    HOSTS_MAX, LISTENERS_MAX, NSID_MAX, SERIAL_LEN_MAX, SHARDS_MAX, SOCKET_PATH_LEN_MAX,
    SPIN_US_MAX, SUBSYSTEMS_MAX,
};
use crate::size::ByteSize;
use nvmf::wire::nqn::Nqn;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;
use uuid::Uuid;

type Result<T> = std::result::Result<T, ConfigError>;

/// Default of `nvmf.connections_max` and `iscsi.connections_max`.
pub(super) const CONNECTIONS_DEFAULT: u64 = 4096;
/// Default of `server.buffer_mib`.
const BUFFER_MIB_DEFAULT: u64 = 64;
/// Default of `server.spin_us`.
const SPIN_US_DEFAULT: u64 = 50;
/// The namespace of UUIDs that are computed from names (version 5).
pub(crate) const UUID_SPACE: Uuid = Uuid::from_u128(0x7f6f_8a3c_52f1_4c0e_9d2a_7769_7265_706f);

/// A random UUID (version 4).
pub(crate) fn random_uuid() -> Uuid {
    let mut random = [0; 16];
    io::rng::fill(&mut random);
    uuid::Builder::from_random_bytes(random).into_uuid()
}

pub(super) struct Checker<'a> {
    text: &'a str,
    path: &'a Path,
}

pub(super) fn check(raw: RawConfig, text: &str, path: &Path) -> Result<Config> {
    let c = Checker { text, path };
    let disks = c.disks(raw.disk)?;
    let pools = c.pools(raw.pool, &disks)?;
    let subsystems = c.subsystems(raw.subsystem, &disks, &pools)?;
    let iscsi = c.iscsi(raw.iscsi)?;
    let targets = c.targets(raw.target, &iscsi, (&disks, &pools), &subsystems)?;
    let metrics = raw.metrics.listen.map(|a| c.address(&a)).transpose()?;
    Ok(Config {
        server: c.server(raw.server)?,
        nvmf: c.nvmf(raw.nvmf)?,
        iscsi,
        metrics,
        disks,
        pools,
        subsystems,
        targets,
    })
}

/// The default control socket: `/run/wirepool/control.sock` for root, else in `$XDG_RUNTIME_DIR`.
#[must_use]
pub fn default_control() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|d| !d.is_empty()) {
        Some(dir) if !io::linux::is_root() => PathBuf::from(dir).join("wirepool/control.sock"),
        _ => PathBuf::from("/run/wirepool/control.sock"),
    }
}

/// Whether `name` can name a disk.
fn valid_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=DISK_NAME_LEN_MAX).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(plain)
}

impl Checker<'_> {
    pub(super) fn fail<T>(&self, span: Range<usize>, message: impl Into<String>) -> Result<T> {
        Err(ConfigError::at(self.path, self.text, span, message))
    }

    /// Resolves a relative path against the file's directory, so that it does not depend on the working directory.
    pub(super) fn resolve(&self, path: &Path) -> PathBuf {
        let base = self.path.parent().unwrap_or(Path::new(""));
        base.join(path)
    }

    pub(super) fn number(
        &self,
        value: Option<&Spanned<u64>>,
        default: u64,
        allowed: RangeInclusive<u64>,
    ) -> Result<u64> {
        let Some(v) = value else { return Ok(default) };
        if !allowed.contains(v.get_ref()) {
            let (min, max) = allowed.into_inner();
            return self.fail(
                v.span(),
                format!(
                    "expected a number from {min} to {max}, found {}",
                    v.get_ref()
                ),
            );
        }
        Ok(*v.get_ref())
    }

    fn server(&self, raw: RawServer) -> Result<ServerConfig> {
        let shards = self.number(raw.shards.as_ref(), 0, 0..=SHARDS_MAX as u64)?;
        let buffer_mib = self.number(raw.buffer_mib.as_ref(), BUFFER_MIB_DEFAULT, BUFFER_MIB)?;
        let spin_us = self.number(raw.spin_us.as_ref(), SPIN_US_DEFAULT, 0..=SPIN_US_MAX)?;
        let control = match raw.control {
            Some(c) => {
                let path = self.resolve(c.get_ref());
                if path.as_os_str().len() > SOCKET_PATH_LEN_MAX {
                    return self.fail(
                        c.span(),
                        format!("expected a path of at most {SOCKET_PATH_LEN_MAX} bytes"),
                    );
                }
                path
            }
            None => default_control(),
        };
        let state_dir = match raw.state_dir {
            Some(d) => self.resolve(&d),
            None => self.path.with_extension("state"),
        };
        Ok(ServerConfig {
            shards: shards as usize,
            control,
            state_dir,
            spin: Duration::from_micros(spin_us),
            buffer_limit: (buffer_mib << 20) as usize,
            congestion: self.congestion(raw.congestion.as_ref())?,
        })
    }

    fn nvmf(&self, raw: RawNvmf) -> Result<NvmfConfig> {
        let listen = match raw.listen {
            Some(list) => self.addresses(Some(list))?,
            None => vec![SocketAddr::from(([127, 0, 0, 1], 4420))],
        };
        let discovery = self.addresses(raw.discovery)?;
        Ok(NvmfConfig {
            listen,
            discovery,
            advertise: self.addresses(raw.advertise)?,
            referrals: self.addresses(raw.referrals)?,
            connections_max: self.number(
                raw.connections_max.as_ref(),
                CONNECTIONS_DEFAULT,
                1..=CONNECTIONS_MAX as u64,
            )? as usize,
        })
    }

    pub(super) fn addresses(
        &self,
        list: Option<Spanned<Vec<Spanned<String>>>>,
    ) -> Result<Vec<SocketAddr>> {
        let Some(list) = list else {
            return Ok(Vec::new());
        };
        if list.get_ref().len() > LISTENERS_MAX {
            return self.fail(
                list.span(),
                format!("expected at most {LISTENERS_MAX} addresses"),
            );
        }
        let mut out = Vec::new();
        for a in list.get_ref() {
            let address = self.address(a)?;
            if address.port() != 0 && out.contains(&address) {
                return self.fail(a.span(), format!("{address} is there twice"));
            }
            out.push(address);
        }
        Ok(out)
    }

    fn address(&self, text: &Spanned<String>) -> Result<SocketAddr> {
        text.get_ref().parse().or_else(|_| {
            let message =
                "expected an address and a port such as \"192.0.2.1:4420\" or \"[::]:4420\"";
            self.fail(
                text.span(),
                format!("{message}, found {:?}", text.get_ref()),
            )
        })
    }

    fn nqn(&self, text: &Spanned<String>) -> Result<Nqn> {
        Nqn::new(text.get_ref()).or_else(|e| {
            let message = "expected a name such as \"nqn.2026-01.org.example:disk1\"";
            self.fail(text.span(), format!("{message}: {e}"))
        })
    }

    fn disks(&self, raw: Vec<Spanned<RawDisk>>) -> Result<Vec<DiskConfig>> {
        let mut disks: Vec<DiskConfig> = Vec::new();
        for d in raw {
            let span = d.span();
            if disks.len() == DISKS_MAX {
                return self.fail(span, format!("expected at most {DISKS_MAX} disks"));
            }
            let d = d.into_inner();
            let name_span = d.name.span();
            let path_span = d.path.as_ref().map_or(span.clone(), Spanned::span);
            let disk = self.disk(d, span)?;
            if disks.iter().any(|o| o.name == disk.name) {
                return self.fail(
                    name_span,
                    format!("there is another disk named {:?}", disk.name),
                );
            }
            let same = |o: &&DiskConfig| {
                o.medium.path().is_some() && o.medium.path() == disk.medium.path()
            };
            if let Some(other) = disks.iter().find(same) {
                return self.fail(
                    path_span,
                    format!("the disk {:?} has this path already", other.name),
                );
            }
            disks.push(disk);
        }
        Ok(disks)
    }

    fn disk(&self, d: RawDisk, whole: Range<usize>) -> Result<DiskConfig> {
        if !valid_name(d.name.get_ref()) {
            return self.fail(
                d.name.span(),
                format!(
                    "expected a name of letters, digits, '.', '_' and '-', at most {DISK_NAME_LEN_MAX}, found {:?}",
                    d.name.get_ref()
                ),
            );
        }
        if let Some(b) = &d.block_size
            && !matches!(b.get_ref(), 512 | 4096)
        {
            return self.fail(
                b.span(),
                format!("expected 512 or 4096, found {}", b.get_ref()),
            );
        }
        let kind = *d.kind.get_ref();
        if let Some(b) = &d.buffered
            && kind != RawKind::File
        {
            return self.fail(b.span(), "only a disk of kind \"file\" can be buffered");
        }
        let medium = match kind {
            RawKind::File => Medium::File {
                path: self.disk_path(&d, &whole)?,
                create: d.size.as_ref().map(|s| self.disk_size(&d, s)).transpose()?,
                buffered: d.buffered.as_ref().is_some_and(|b| *b.get_ref()),
            },
            RawKind::Block => {
                if let Some(s) = &d.size {
                    return self.fail(s.span(), "a block device has its own size: leave this out");
                }
                Medium::Block {
                    path: self.disk_path(&d, &whole)?,
                }
            }
            RawKind::Mem => Medium::Memory {
                size: self.ram_size(&d, &whole)?,
            },
            RawKind::Null => Medium::Null {
                size: self.ram_size(&d, &whole)?,
            },
        };
        Ok(DiskConfig {
            name: d.name.into_inner(),
            medium,
            block_size: d.block_size.map(|b| *b.get_ref() as u32),
            read_only: d.read_only,
        })
    }

    fn disk_path(&self, d: &RawDisk, whole: &Range<usize>) -> Result<PathBuf> {
        match &d.path {
            Some(p) if p.get_ref().as_os_str().is_empty() => self.fail(p.span(), "expected a path"),
            Some(p) => Ok(self.resolve(p.get_ref())),
            None => self.fail(
                whole.clone(),
                format!("the disk {:?} needs a path", d.name.get_ref()),
            ),
        }
    }

    fn ram_size(&self, d: &RawDisk, whole: &Range<usize>) -> Result<ByteSize> {
        if let Some(p) = &d.path {
            return self.fail(p.span(), "this kind of disk has no path");
        }
        match &d.size {
            Some(s) => self.disk_size(d, s),
            None => self.fail(
                whole.clone(),
                format!(
                    "the disk {:?} needs a size such as \"4G\"",
                    d.name.get_ref()
                ),
            ),
        }
    }

    fn disk_size(&self, d: &RawDisk, size: &Spanned<ByteSize>) -> Result<ByteSize> {
        let bytes = size.get_ref().0;
        if !(DISK_SIZE_MIN..=DISK_SIZE_MAX).contains(&bytes) {
            let (min, max) = (ByteSize(DISK_SIZE_MIN), ByteSize(DISK_SIZE_MAX));
            return self.fail(
                size.span(),
                format!(
                    "expected a size from {min} to {max}, found {}",
                    size.get_ref()
                ),
            );
        }
        let block = d.block_size.as_ref().map_or(512, |b| *b.get_ref());
        if !bytes.is_multiple_of(block) {
            return self.fail(
                size.span(),
                format!("expected a multiple of the block size ({block}), found {bytes}"),
            );
        }
        Ok(*size.get_ref())
    }

    fn subsystems(
        &self,
        raw: Vec<Spanned<RawSubsystem>>,
        disks: &[DiskConfig],
        pools: &[PoolConfig],
    ) -> Result<Vec<SubsystemConfig>> {
        let mut subsystems: Vec<SubsystemConfig> = Vec::new();
        let mut exported: BTreeMap<String, String> = BTreeMap::new();
        for s in raw {
            if subsystems.len() == SUBSYSTEMS_MAX {
                return self.fail(
                    s.span(),
                    format!("expected at most {SUBSYSTEMS_MAX} subsystems"),
                );
            }
            let s = s.into_inner();
            let nqn = self.nqn(&s.nqn)?;
            if nqn.is_discovery() {
                return self.fail(s.nqn.span(), "this name is the discovery service's own");
            }
            if subsystems.iter().any(|o| o.nqn == nqn) {
                return self.fail(
                    s.nqn.span(),
                    format!("there is another subsystem named {nqn}"),
                );
            }
            let mut namespaces: Vec<NamespaceConfig> = Vec::new();
            for n in s.namespace {
                let nsid_span = n.get_ref().nsid.span();
                let disk_span = n.get_ref().disk.span();
                let n = self.namespace(n.into_inner(), &nqn, disks, pools)?;
                if namespaces.iter().any(|o| o.nsid == n.nsid) {
                    return self.fail(
                        nsid_span,
                        format!("the subsystem has another namespace {}", n.nsid),
                    );
                }
                if let Some(by) =
                    exported.insert(n.disk.clone(), format!("{nqn} namespace {}", n.nsid))
                {
                    return self.fail(
                        disk_span,
                        format!("the disk {:?} is exported as {by} already", n.disk),
                    );
                }
                namespaces.push(n);
            }
            let serial = self.serial(s.serial, &nqn)?;
            subsystems.push(SubsystemConfig {
                serial,
                hosts: self.hosts(&s.hosts)?,
                nqn,
                namespaces,
            });
        }
        Ok(subsystems)
    }

    fn serial(&self, serial: Option<Spanned<String>>, nqn: &Nqn) -> Result<String> {
        let Some(s) = serial else {
            let id = Uuid::new_v5(&UUID_SPACE, nqn.as_str().as_bytes())
                .simple()
                .to_string();
            return Ok(format!("WP{}", &id.to_uppercase()[..SERIAL_LEN_MAX - 2]));
        };
        let fits = (1..=SERIAL_LEN_MAX).contains(&s.get_ref().len());
        if !fits || !s.get_ref().bytes().all(|b| (b' '..=b'~').contains(&b)) {
            return self.fail(
                s.span(),
                format!("expected 1 to {SERIAL_LEN_MAX} printable ASCII characters"),
            );
        }
        Ok(s.into_inner())
    }

    fn hosts(&self, list: &[Spanned<String>]) -> Result<HostList> {
        let mut names = BTreeSet::new();
        for h in list {
            if h.get_ref() == "any" {
                if list.len() > 1 {
                    return self.fail(
                        h.span(),
                        "\"any\" already allows every host: remove the other names",
                    );
                }
                return Ok(HostList::Any);
            }
            if names.len() == HOSTS_MAX {
                return self.fail(h.span(), format!("expected at most {HOSTS_MAX} hosts"));
            }
            if !names.insert(self.nqn(h)?) {
                return self.fail(h.span(), format!("{} is there twice", h.get_ref()));
            }
        }
        Ok(HostList::Listed(names))
    }

    fn namespace(
        &self,
        n: RawNamespace,
        nqn: &Nqn,
        disks: &[DiskConfig],
        pools: &[PoolConfig],
    ) -> Result<NamespaceConfig> {
        let nsid = self.number(Some(&n.nsid), 1, 1..=u64::from(NSID_MAX))? as u32;
        self.disk_name(&n.disk, disks, pools)?;
        let disk = n.disk.get_ref();
        let uuid = self.uuid(n.uuid.as_ref(), || format!("{nqn}\n{nsid}\n{disk}"))?;
        Ok(NamespaceConfig {
            nsid,
            disk: n.disk.into_inner(),
            uuid,
        })
    }

    /// Checks that a disk exists, or that a volume's pool does.
    pub(super) fn disk_name(
        &self,
        name: &Spanned<String>,
        disks: &[DiskConfig],
        pools: &[PoolConfig],
    ) -> Result<()> {
        let disk = name.get_ref();
        if disk.contains('/') {
            return self.volume(name, pools);
        }
        if disks.iter().any(|d| d.name == *disk) {
            return Ok(());
        }
        let known: Vec<_> = disks.iter().map(|d| d.name.as_str()).collect();
        let known = if known.is_empty() {
            "there are none".into()
        } else {
            format!("there are {}", known.join(", "))
        };
        self.fail(
            name.span(),
            format!("expected the name of a disk ({known}), found {disk:?}"),
        )
    }

    /// The configured UUID, or one computed from names.
    pub(super) fn uuid(
        &self,
        text: Option<&Spanned<String>>,
        of: impl FnOnce() -> String,
    ) -> Result<Uuid> {
        let Some(u) = text else {
            return Ok(Uuid::new_v5(&UUID_SPACE, of().as_bytes()));
        };
        match Uuid::try_parse(u.get_ref()) {
            Ok(id) if !id.is_nil() => Ok(id),
            _ => self.fail(
                u.span(),
                format!("expected a UUID that is not zero, found {:?}", u.get_ref()),
            ),
        }
    }
}
