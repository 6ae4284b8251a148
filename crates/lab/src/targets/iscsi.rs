//! A logical unit over iSCSI or iSER, through the userspace initiator.
//!
//! **Owns** one session per job, with one connection, on the job's shard. **Invariants**: the congestion control is
//! set on every socket and read back, over TCP; requests that the target did not grant are in [`Transport::fallbacks`]; secrets
//! come from files that only their owner can read, and are never printed.

use super::iscsi_address::Iscsi;
use super::{CONGESTION, Facts, Session, Target, Transport, congestion_of, whole};
use crate::limits::BLOCK_SIZE_MAX;
use crate::{Error, Result};
use io::IoBuf;
use io::net::{TcpInfo, TcpOptions};
use iscsi::login::{Credential, Secret};
use iscsi::portal;
use iscsi::wire::IscsiName;
use iscsi_initiator::limits::QUEUE_DEPTH_MAX;
use iscsi_initiator::{Chap, Config, Proposal, Unit, WriteOptions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

/// Default name of this initiator.
const INITIATOR: &str = "iqn.2026-01.io.wirepool:lab";

/// A logical unit of a target.
#[derive(Clone)]
pub struct IscsiTarget {
    address: Iscsi,
    at: SocketAddr,
    chap: Option<Chap>,
    facts: Facts,
}

impl IscsiTarget {
    /// Connects to the unit once. Errors: `Target`; `Usage` or `File` for an unusable secret.
    pub async fn open(address: &Iscsi) -> Result<IscsiTarget> {
        let at = address.resolve()?;
        let description = match address.transport {
            portal::IscsiTransport::Tcp => "iSCSI, userspace initiator",
            portal::IscsiTransport::Iser => "iSER, userspace initiator",
        };
        let facts = Facts::remote(at, address.ram, description);
        let mut target = IscsiTarget {
            chap: chap(address)?,
            address: address.clone(),
            at,
            facts,
        };
        let probe = target.connect(1).await?;
        target.facts = probe.facts();
        probe.close().await;
        Ok(target)
    }

    fn config(&self, depth: u32) -> Result<Config> {
        let name = |text: &str| {
            IscsiName::new(text)
                .map_err(|e| Error::usage(format!("iSCSI name {text:?}"), e.to_string()))
        };
        let own = name(self.address.initiator.as_deref().unwrap_or(INITIATOR))?;
        let mut c = Config::new(self.at, name(&self.address.iqn)?, own);
        c.queue_depth = u16::try_from(depth)
            .unwrap_or(QUEUE_DEPTH_MAX)
            .min(QUEUE_DEPTH_MAX);
        c.transport = self.address.transport;
        c.chap = self.chap.clone();
        c.proposal = Proposal {
            header_digest: self.address.header_digest,
            data_digest: self.address.data_digest,
            immediate_data: self.address.immediate,
            initial_r2t: self.wants_r2t(),
            ..Proposal::default()
        };
        c.tcp = TcpOptions {
            congestion: Some(CONGESTION.into()),
            ..TcpOptions::default()
        };
        Ok(c)
    }

    /// Whether it is asked for that no data comes before an R2T. Over RDMA there is no other way.
    fn wants_r2t(&self) -> bool {
        self.address.initial_r2t || self.address.transport == portal::IscsiTransport::Iser
    }

    /// The properties of the session's connection, and fallbacks from the requested ones.
    fn transport(&self, session: &iscsi_initiator::Session, depth: u32) -> Transport {
        let link = session.link();
        let agreed = link.as_ref().map(|l| l.parameters).unwrap_or_default();
        let window = link.as_ref().map_or(0, |l| l.window);
        let granted = window.min(session.queue_depth().into());
        let mut fallbacks = Vec::new();
        if granted < depth {
            fallbacks.push(format!(
                "the window accepts {granted} commands, {depth} were requested"
            ));
        }
        for (what, wanted, got) in [
            (
                "header digests",
                self.address.header_digest,
                agreed.header_digest,
            ),
            ("data digests", self.address.data_digest, agreed.data_digest),
            (
                "immediate data",
                self.address.immediate,
                agreed.immediate_data,
            ),
            ("unsolicited data", !self.wants_r2t(), !agreed.initial_r2t),
        ] {
            if wanted && !got {
                fallbacks.push(format!("no {what}, although requested"));
            }
        }
        let is_tcp = self.address.transport == portal::IscsiTransport::Tcp;
        let over_tcp = |word: &str| if is_tcp { word } else { "" }.to_owned();
        Transport {
            kind: self.address.transport.word().into(),
            rdma: link.as_ref().and_then(|l| l.rdma.clone()),
            congestion: over_tcp(link.as_ref().map_or("", |l| &l.tcp.congestion)),
            congestion_wanted: over_tcp(CONGESTION),
            congestion_server: is_tcp.then(|| congestion_of(self.at)).flatten(),
            digests: (agreed.header_digest, agreed.data_digest),
            queues: 1,
            depth: granted,
            fallbacks,
        }
    }
}

/// The CHAP settings of an address, with the secrets from their files.
fn chap(address: &Iscsi) -> Result<Option<Chap>> {
    let credential = |(name, file): &(String, std::path::PathBuf)| {
        Ok::<_, Error>(Credential {
            name: name.clone(),
            secret: secret(file)?,
        })
    };
    let Some(own) = &address.chap else {
        return Ok(None);
    };
    let target = address.mutual.as_ref().map(credential).transpose()?;
    let mut chap = Chap::new(credential(own)?, target);
    if let Some(only) = address.algorithm {
        chap.algorithms = vec![only];
    }
    Ok(Some(chap))
}

/// The first line of a file that only its owner can read.
fn secret(file: &Path) -> Result<Secret> {
    let about = std::fs::metadata(file).map_err(Error::file(file))?;
    if about.permissions().mode() & 0o077 != 0 {
        let why = "others can read this secret: use chmod 600";
        return Err(Error::usage(file.display().to_string(), why));
    }
    let text = std::fs::read(file).map_err(Error::file(file))?;
    let line = text.split(|b| *b == b'\n').next().unwrap_or_default();
    if line.is_empty() {
        return Err(Error::contents(file, "no secret on the first line"));
    }
    Ok(Secret::new(line))
}

impl Target for IscsiTarget {
    type Session = IscsiSession;

    fn facts(&self) -> Facts {
        self.facts.clone()
    }

    async fn connect(&self, depth: u32) -> Result<IscsiSession> {
        let name = self.address.to_string();
        let session = iscsi_initiator::Session::connect(self.config(depth)?)
            .await
            .map_err(|e| Error::target(&name, e))?;
        let found = session.unit(self.address.lun).await;
        let unit = found.map_err(|e| Error::target(&name, e))?;
        let facts = Facts {
            size: unit.blocks() * u64::from(unit.block_size()),
            block_size: unit.block_size(),
            transfer_max: unit.transfer_max().min(BLOCK_SIZE_MAX),
            transport: Some(self.transport(&session, depth)),
            ..self.facts.clone()
        };
        Ok(IscsiSession {
            session,
            unit,
            facts,
        })
    }
}

/// A job's session and its unit.
pub struct IscsiSession {
    session: iscsi_initiator::Session,
    unit: Unit,
    facts: Facts,
}

impl IscsiSession {
    fn block(&self, offset: u64) -> u64 {
        offset / u64::from(self.unit.block_size())
    }

    /// One NOP-Out and its answer.
    pub(super) async fn keep_alive(&self) -> Result<()> {
        self.session.ping().await.map_err(answered)
    }

    /// Statistics of the session's connection, over TCP.
    pub(super) fn tcp(&self) -> Option<TcpInfo> {
        let link = self.session.link()?;
        link.rdma.is_none().then_some(link.tcp)
    }
}

fn answered(e: iscsi_initiator::Error) -> Error {
    Error::Status(e.to_string())
}

impl Session for IscsiSession {
    async fn read(&self, buf: IoBuf, offset: u64) -> (Result<()>, IoBuf) {
        let (r, buf) = self.unit.read(self.block(offset), buf).await;
        (r.map_err(answered), buf)
    }

    async fn write(&self, buf: IoBuf, offset: u64, durable: bool) -> (Result<()>, IoBuf) {
        let data = Arc::new(buf);
        let options = WriteOptions { fua: durable };
        let lba = self.block(offset);
        let r = self.unit.write(lba, data.clone(), options).await;
        (r.map_err(answered), whole(data).await)
    }

    async fn flush(&self) -> Result<()> {
        self.unit.flush().await.map_err(answered)
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }

    fn epoch(&self) -> u64 {
        let stats = self.session.stats();
        stats.reconnects + stats.resets
    }

    async fn close(self) {
        self.session.log_out().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_the_first_line_of_a_file_that_others_cannot_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("secret");
        std::fs::write(&file, "a secret of some length\nnot this\n").expect("written");
        let mode = |m| std::fs::Permissions::from_mode(m);
        std::fs::set_permissions(&file, mode(0o600)).expect("ours");
        assert_eq!(
            secret(&file).expect("readable"),
            Secret::new(*b"a secret of some length")
        );
        std::fs::set_permissions(&file, mode(0o644)).expect("ours");
        let e = secret(&file).expect_err("others can read it").to_string();
        assert!(e.contains("chmod 600"), "{e}");
        assert!(secret(&dir.path().join("none")).is_err());
    }
}
