//! Procedures of version 3 for the tests' client.

use crate::client::Client;
use crate::fixture::{Fixture, simulated};
use backend::file::SetAttributes;
use nfs::rpc::Reply;
use nfs::v3::wire::{Arguments, At, CreateHow, Status, VERSION, mount};
use nfs::wire::PROGRAM;
use nfs::xdr::Reader;

/// `fattr3`. Times are in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) kind: u32,
    pub(crate) mode: u32,
    pub(crate) links: u32,
    pub(crate) owner: (u32, u32),
    pub(crate) size: u64,
    pub(crate) device: (u32, u32),
    pub(crate) fsid: u64,
    pub(crate) number: u64,
    pub(crate) accessed: u64,
    pub(crate) modified: u64,
    pub(crate) changed: u64,
}

/// `wcc_data`: size and times before, attributes after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) before: Option<(u64, u64, u64)>,
    pub(crate) after: Option<Attributes>,
}

/// The results of a procedure, read one after the other.
pub(crate) struct Results {
    bytes: Vec<u8>,
    at: usize,
    pub(crate) status: Status,
}

impl Results {
    pub(crate) fn new(bytes: Vec<u8>) -> Results {
        let mut results = Results {
            bytes,
            at: 0,
            status: Status::Ok,
        };
        results.status = Status::from_code(results.u32()).expect("a status");
        results
    }

    /// Of a call without a status.
    pub(crate) fn plain(bytes: Vec<u8>) -> Results {
        Results {
            bytes,
            at: 0,
            status: Status::Ok,
        }
    }

    fn read<T>(&mut self, read: impl FnOnce(&mut Reader<'_>) -> nfs::xdr::Result<T>) -> T {
        let mut reader = Reader::new(&self.bytes[self.at..]);
        let value = read(&mut reader).expect("a value");
        self.at = self.bytes.len() - reader.rest().len();
        value
    }

    pub(crate) fn u32(&mut self) -> u32 {
        self.read(|r| r.u32())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        self.read(|r| r.u64())
    }

    pub(crate) fn bool(&mut self) -> bool {
        self.read(|r| r.bool())
    }

    pub(crate) fn opaque(&mut self) -> Vec<u8> {
        self.read(|r| r.opaque(usize::MAX).map(<[u8]>::to_vec))
    }

    pub(crate) fn verifier(&mut self) -> [u8; 8] {
        self.read(|r| r.array())
    }

    fn time(&mut self) -> u64 {
        u64::from(self.u32()) * 1_000_000_000 + u64::from(self.u32())
    }

    pub(crate) fn attributes(&mut self) -> Attributes {
        let (kind, mode, links) = (self.u32(), self.u32(), self.u32());
        let (owner, size, _used) = ((self.u32(), self.u32()), self.u64(), self.u64());
        Attributes {
            kind,
            mode,
            links,
            owner,
            size,
            device: (self.u32(), self.u32()),
            fsid: self.u64(),
            number: self.u64(),
            accessed: self.time(),
            modified: self.time(),
            changed: self.time(),
        }
    }

    /// `post_op_attr`.
    pub(crate) fn after(&mut self) -> Option<Attributes> {
        self.bool().then(|| self.attributes())
    }

    pub(crate) fn change(&mut self) -> Change {
        let before = self.bool().then(|| (self.u64(), self.time(), self.time()));
        Change {
            before,
            after: self.after(),
        }
    }

    /// The result of a creation: handle, attributes, the directory's change.
    pub(crate) fn created(mut self) -> (Vec<u8>, Attributes, Change) {
        assert_eq!(self.status, Status::Ok);
        assert!(self.bool());
        let handle = self.opaque();
        let object = self.after().expect("attributes");
        let directory = self.change();
        self.ended();
        (handle, object, directory)
    }

    /// Nothing is left.
    pub(crate) fn ended(self) {
        assert_eq!(self.at, self.bytes.len(), "all was read");
    }
}

impl Client {
    pub(crate) fn encoded_v3(&mut self, arguments: &Arguments<'_>) -> Vec<u8> {
        let mut writer = self.call(PROGRAM, VERSION, arguments.number());
        arguments.encode_fields(&mut writer);
        writer.to_vec()
    }

    /// Executes a procedure.
    pub(crate) async fn v3(&mut self, arguments: &Arguments<'_>) -> Results {
        let record = self.encoded_v3(arguments);
        let (reply, bytes) = self.reply_to(record).await;
        assert_eq!(reply, Reply::Success);
        Results::new(bytes)
    }

    /// Executes a procedure that fails.
    pub(crate) async fn refused(&mut self, arguments: &Arguments<'_>) -> Status {
        let results = self.v3(arguments).await;
        assert_ne!(results.status, Status::Ok, "{arguments:?}");
        results.status
    }

    /// Executes a procedure of MOUNT.
    pub(crate) async fn mount(&mut self, arguments: &mount::Arguments<'_>) -> Results {
        let mut writer = self.call(mount::PROGRAM, mount::VERSION, arguments.number());
        arguments.encode_fields(&mut writer);
        let (reply, bytes) = self.reply_to(writer.to_vec()).await;
        assert_eq!(reply, Reply::Success);
        Results::plain(bytes)
    }

    /// The handle of a path, by MNT.
    pub(crate) async fn mounted(&mut self, path: &str) -> Result<Vec<u8>, u32> {
        let mut results = self.mount(&mount::Arguments::Mount(path.as_bytes())).await;
        match results.u32() {
            0 => {
                let handle = results.opaque();
                assert_eq!((results.u32(), results.u32(), results.u32()), (2, 1, 0));
                Ok(handle)
            }
            status => Err(status),
        }
    }

    pub(crate) async fn lookup_v3(
        &mut self,
        directory: &[u8],
        name: &str,
    ) -> (Vec<u8>, Attributes) {
        let mut results = self.v3(&Arguments::Lookup(at(directory, name))).await;
        assert_eq!(results.status, Status::Ok);
        let handle = results.opaque();
        let object = results.after().expect("attributes");
        assert_eq!(results.after().expect("the directory's attributes").kind, 2);
        results.ended();
        (handle, object)
    }

    pub(crate) async fn attributes_v3(&mut self, object: &[u8]) -> Attributes {
        let mut results = self.v3(&Arguments::GetAttr { object }).await;
        assert_eq!(results.status, Status::Ok);
        results.attributes()
    }

    /// A new file.
    pub(crate) async fn create_v3(&mut self, directory: &[u8], name: &str) -> Vec<u8> {
        let how = CreateHow::Guarded(mode(0o644));
        let create = Arguments::Create {
            at: at(directory, name),
            how,
        };
        self.v3(&create).await.created().0
    }
}

pub(crate) fn at<'a>(directory: &'a [u8], name: &'a str) -> At<'a> {
    At {
        directory,
        name: name.as_bytes(),
    }
}

pub(crate) fn mode(mode: u16) -> SetAttributes {
    SetAttributes {
        mode: Some(mode),
        ..SetAttributes::default()
    }
}

/// A client, and the root of the export.
pub(crate) async fn mounted(fixture: &Fixture) -> (Client, Vec<u8>) {
    let mut client = Client::connect(fixture.addr).await;
    let root = client.mounted("/tank/home").await.expect("it is exported");
    (client, root)
}

/// Runs a test with a mounted client.
pub(crate) fn with_mount<F: Future<Output = ()> + 'static>(
    test: impl FnOnce(Fixture, Client, Vec<u8>) -> F + 'static,
) {
    simulated(|| async move {
        let fixture = Fixture::new().await;
        let (client, root) = mounted(&fixture).await;
        test(fixture, client, root).await;
    });
}
