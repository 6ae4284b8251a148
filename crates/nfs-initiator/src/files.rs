//! Files: OPEN, READ, WRITE, COMMIT, SETATTR of the size, CLOSE (§18.16, §18.22, §18.32, §18.3, §18.30, §18.2).
//!
//! **Called by** users of a session. **Invariants**: a WRITE's reply never promises less than was asked for; a write verifier that
//! changed is counted ([`File::verifier_changes`]): data that was not committed may be lost then (§18.32.3).

use super::attributes::{Attributes, OPENED, STAT};
use super::engine::{Answer, Finished};
use super::error::{ProtocolError, Result};
use super::limits::{DELAY_PAUSE, DELAYS_MAX};
use super::results::Results;
use super::session::Session;
use initiator::slots::Data;
use io::IoBuf;
use nfs::limits::HANDLE_LEN_MAX;
use nfs::wire::attribute::{MODE, SIZE};
use nfs::wire::files::{Claim, CreateHow, Open};
use nfs::wire::types::{BOTH, READ};
use nfs::wire::{Attrs, Bitmap, Op, Owner, Stateid, Status, Verifier, operation};
use nfs::xdr::{Writer, Xdr};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// `OPEN4_SHARE_ACCESS_WANT_NO_DELEG` (§18.16.3).
const NO_DELEGATION: u32 = 0x400;
/// `OPEN4_SHARE_DENY_NONE`.
const DENY_NONE: u32 = 0;
/// `OPEN_DELEGATE_NONE`, and `OPEN_DELEGATE_NONE_EXT`.
const DELEGATE_NONE: u32 = 0;
const DELEGATE_NONE_EXT: u32 = 3;
/// The name of the only open owner.
const OPEN_OWNER: &[u8] = b"wirepool";

/// A file handle.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileHandle(pub(super) Vec<u8>);

impl FileHandle {
    /// A file handle that is known already; `None` if it is too long for one.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<FileHandle> {
        (bytes.len() <= HANDLE_LEN_MAX).then(|| FileHandle(bytes.to_vec()))
    }
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenOptions {
    /// Whether it will be written.
    pub write: bool,
    /// Whether it is created if it does not exist, for its owner only.
    pub create: bool,
}

/// The promise of a WRITE (`stable_how4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stable {
    /// UNSTABLE4: durable after a COMMIT.
    Unstable = 0,
    /// DATA_SYNC4: the data is durable.
    Data = 1,
    /// FILE_SYNC4: data and attributes are durable.
    File = 2,
}

/// An open file. It is closed by [`File::close`], or with the client's lease.
pub struct File {
    pub(super) session: Session,
    pub(super) handle: FileHandle,
    pub(super) stateid: Stateid,
    verifier: RefCell<Option<Verifier>>,
    changes: Cell<u64>,
    /// Attributes when it was opened.
    pub attributes: Attributes,
}

/// Runs an attempt until its status is not NFS4ERR_DELAY, a bounded number of times.
async fn patient(mut attempt: impl AsyncFnMut() -> Result<()>) -> Result<()> {
    for _ in 0..DELAYS_MAX {
        match attempt().await {
            Err(error) if error.status() == Some(Status::Delay) => {}
            ended => return ended,
        }
        io::time::sleep(DELAY_PAUSE).await;
    }
    attempt().await
}

fn results(done: Finished) -> (Result<Results>, Data) {
    let results = done.result.and_then(|answer| match answer {
        Answer::Results(results) => Ok(results),
        Answer::Read { .. } => Err(ProtocolError::Transfer("data of a READ, not asked for").into()),
    });
    (results, done.data)
}

impl Session {
    /// Opens the file `name` in a directory.
    ///
    /// # Errors
    /// [`crate::Error::Status`] with the operation that failed, and errors of the connection.
    pub async fn open(&self, dir: &FileHandle, name: &str, how: OpenOptions) -> Result<File> {
        let mut values = Writer::new();
        values.u32(0o600);
        let values = values.to_vec();
        let attributes = Attrs {
            mask: Bitmap::of(&[MODE]),
            values: &values,
        };
        let open = Open {
            seqid: 0,
            access: NO_DELEGATION | if how.write { BOTH } else { READ },
            deny: DENY_NONE,
            owner: self.open_owner(),
            create: how.create.then_some(CreateHow::Unchecked(attributes)),
            claim: Claim::Name(name.as_bytes()),
        };
        self.open_with(dir, open).await
    }

    /// Opens a file again for writing that this client had open before the server restarted (CLAIM_PREVIOUS). Needs
    /// [`Config::reclaims`](crate::Config::reclaims).
    ///
    /// # Errors
    /// [`crate::Error::Status`] with `NoGrace` or `ReclaimBad` if the server does not know that it was open or has given up waiting;
    /// errors of the connection.
    pub async fn reclaim(&self, file: &FileHandle) -> Result<File> {
        let open = Open {
            seqid: 0,
            access: NO_DELEGATION | BOTH,
            deny: DENY_NONE,
            owner: self.open_owner(),
            create: None,
            claim: Claim::Previous(DELEGATE_NONE),
        };
        self.open_with(file, open).await
    }

    fn open_owner(&self) -> Owner<'static> {
        Owner {
            client: self.client(),
            name: OPEN_OWNER,
        }
    }

    /// OPEN with `at` as the current object.
    async fn open_with(&self, at: &FileHandle, open: Open<'_>) -> Result<File> {
        let operations = [
            Op::PutFh(&at.0),
            Op::Open(Box::new(open)),
            Op::GetFh,
            Op::GetAttr(OPENED),
        ];
        let mut results = self.call(&operations).await?;
        results.ok(operation::PUTFH)?;
        results.ok(operation::OPEN)?;
        let stateid = results.stateid()?;
        // Change information, and flags of the result.
        results.skip(4 + 8 + 8 + 4)?;
        results.bitmap()?;
        match results.u32()? {
            DELEGATE_NONE => {}
            DELEGATE_NONE_EXT => no_delegation(&mut results)?,
            _ => return Err(ProtocolError::Limit("a delegation without a back channel").into()),
        }
        results.ok(operation::GETFH)?;
        let handle = FileHandle(results.handle()?);
        results.ok(operation::GETATTR)?;
        let attributes = results.read(Attributes::decode)?;
        Ok(File {
            session: self.clone(),
            handle,
            stateid,
            verifier: RefCell::new(None),
            changes: Cell::new(0),
            attributes,
        })
    }

    /// The attributes of an object, as `stat` needs them.
    ///
    /// # Errors
    /// [`crate::Error::Status`], and errors of the connection.
    pub async fn attributes(&self, handle: &FileHandle) -> Result<Attributes> {
        let operations = [Op::PutFh(&handle.0), Op::GetAttr(STAT)];
        let mut results = self.call(&operations).await?;
        results.ok(operation::PUTFH)?;
        results.ok(operation::GETATTR)?;
        results.read(Attributes::decode)
    }
}

/// Passes over the reason why there is no delegation (§18.16.2).
fn no_delegation(results: &mut Results) -> Result<()> {
    const CONTENTION: u32 = 1;
    const RESOURCE: u32 = 2;
    let why = results.u32()?;
    if matches!(why, CONTENTION | RESOURCE) {
        results.u32()?;
    }
    Ok(())
}

impl File {
    /// Its file handle.
    #[must_use]
    pub fn handle(&self) -> &FileHandle {
        &self.handle
    }

    /// How often the server's write verifier changed: data that was not committed may be lost.
    #[must_use]
    pub fn verifier_changes(&self) -> u64 {
        self.changes.get()
    }

    /// The write verifier of the last WRITE or COMMIT; `None` before the first one.
    #[must_use]
    pub fn verifier(&self) -> Option<Verifier> {
        *self.verifier.borrow()
    }

    /// Fills `buf` from `offset` on. Returns the bytes that were read, fewer at the end of the file.
    ///
    /// # Errors
    /// [`crate::Error::Status`], and errors of the connection.
    pub async fn read(&self, offset: u64, buf: IoBuf) -> (Result<usize>, IoBuf) {
        let len = buf.len();
        let mut held = Some(buf);
        let mut received = 0;
        let ended = patient(async || {
            let buf = held.take().expect("it comes back with each attempt");
            let operations = [
                Op::PutFh(&self.handle.0),
                Op::Read {
                    stateid: self.stateid,
                    offset,
                    count: u32::try_from(len).expect("buffers are short"),
                },
            ];
            let done = self.session.submit(&operations, Data::In(buf)).await;
            held = Some(match done.data {
                Data::In(buf) => buf,
                // The connection broke while data was received into it.
                Data::None | Data::Out(_) | Data::Small(_) => io::pool().alloc(len).await,
            });
            received = done.received as usize;
            match done.result? {
                Answer::Read { is_end } if received == len || is_end => Ok(()),
                Answer::Read { .. } if received > 0 => Ok(()),
                Answer::Read { .. } => {
                    Err(ProtocolError::Transfer("a READ without data before the end").into())
                }
                Answer::Results(mut results) => {
                    results.ok(operation::PUTFH)?;
                    results.ok(operation::READ)?;
                    Err(ProtocolError::Transfer("a READ without data").into())
                }
            }
        })
        .await;
        let buf = held.expect("it comes back with each attempt");
        (ended.map(|()| received), buf)
    }

    /// Writes `data` at `offset`. Returns the bytes that were written.
    ///
    /// # Errors
    /// [`crate::Error::Status`], and errors of the connection; [`crate::Error::Protocol`] if the server promises less than `stable`.
    pub async fn write(&self, offset: u64, data: Arc<IoBuf>, stable: Stable) -> Result<usize> {
        let mut written = 0;
        patient(async || {
            let mut operations = Writer::new();
            Op::PutFh(&self.handle.0).encode(&mut operations);
            // WRITE up to the length of its data, which is sent from its own buffer.
            operations.u32(operation::WRITE);
            self.stateid.encode(&mut operations);
            operations.u64(offset);
            operations.u32(stable as u32);
            operations.count(data.len());
            let out = Data::Out(data.clone());
            let (results, _) = results(self.session.execute(operations, 2, out).await);
            let mut results = results?;
            results.ok(operation::PUTFH)?;
            results.ok(operation::WRITE)?;
            written = results.u32()? as usize;
            let committed = results.u32()?;
            self.verified(results.array()?);
            if written == 0 && !data.is_empty() || written > data.len() {
                return Err(ProtocolError::Transfer("the length of a WRITE").into());
            }
            match committed >= stable as u32 {
                true => Ok(()),
                false => Err(ProtocolError::Transfer("a WRITE is less durable than asked").into()),
            }
        })
        .await?;
        Ok(written)
    }

    /// Makes every write durable that was answered before.
    ///
    /// # Errors
    /// [`crate::Error::Status`], and errors of the connection.
    pub async fn commit(&self) -> Result<()> {
        let operations = [
            Op::PutFh(&self.handle.0),
            Op::Commit {
                offset: 0,
                count: 0,
            },
        ];
        let mut results = self.session.call(&operations).await?;
        results.ok(operation::PUTFH)?;
        results.ok(operation::COMMIT)?;
        self.verified(results.array()?);
        Ok(())
    }

    /// Sets the size, bytes.
    ///
    /// # Errors
    /// [`crate::Error::Status`], and errors of the connection.
    pub async fn set_size(&mut self, size: u64) -> Result<()> {
        let mut values = Writer::new();
        values.u64(size);
        let values = values.to_vec();
        let attributes = Attrs {
            mask: Bitmap::of(&[SIZE]),
            values: &values,
        };
        let operations = [
            Op::PutFh(&self.handle.0),
            Op::SetAttr {
                stateid: self.stateid,
                attributes,
            },
        ];
        let mut results = self.session.call(&operations).await?;
        results.ok(operation::PUTFH)?;
        results.ok(operation::SETATTR)?;
        self.attributes.size = size;
        Ok(())
    }

    /// Closes it.
    ///
    /// # Errors
    /// [`crate::Error::Status`], and errors of the connection.
    pub async fn close(self) -> Result<()> {
        let operations = [
            Op::PutFh(&self.handle.0),
            Op::Close {
                stateid: self.stateid,
            },
        ];
        let mut results = self.session.call(&operations).await?;
        results.ok(operation::PUTFH)?;
        results.ok(operation::CLOSE)
    }

    /// A reply had this write verifier.
    fn verified(&self, verifier: Verifier) {
        let before = self.verifier.borrow_mut().replace(verifier);
        if before.is_some_and(|before| before != verifier) {
            self.changes.set(self.changes.get() + 1);
        }
    }
}
