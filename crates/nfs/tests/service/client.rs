//! A client whose requests the tests choose, valid or not.

use crate::back::{PROGRAM_OF_CALLBACKS, callback_user};
use crate::rdma_link::RdmaLink;
use io::net::TcpStream;
use io::{Payload, RecvBuf, SendBatch};
use nfs::rpc::record::{Framing, MARK_LEN, mark};
use nfs::rpc::{AuthSys, Call, Credential, Probe, Reply, reply_number};
use nfs::wire::channel::{
    CallbackSecurity, Channel, CreateSession, ExchangeId, Sequence, StateProtection,
};
use nfs::wire::{Bitmap, Header, Op, PROC_COMPOUND, PROGRAM, Stateid, Status, VERSION, operation};
use nfs::xdr::Xdr;
use nfs::xdr::{Reader, Writer};
use session::carrier::ByteStream;
use std::collections::VecDeque;
use std::net::SocketAddr;
use tls::{Connector, Session, Stream, TlsError};

pub(crate) const FORE: Channel = Channel {
    header_padding: 0,
    request_max: 2 << 20,
    reply_max: 2 << 20,
    cached_max: 4096,
    operations_max: 64,
    slots: 8,
};

/// The connection of a client.
enum Link {
    Tcp(Box<Stream>),
    Rdma(RdmaLink),
}

pub(crate) struct Client {
    link: Link,
    staging: Option<RecvBuf>,
    xid: u32,
    pub(crate) uid: u32,
    pub(crate) id: u64,
    pub(crate) session: [u8; 16],
    /// The sequence number of slot 0.
    pub(crate) sequence: u32,
    /// Minor version.
    pub(crate) minor: u32,
    /// Callbacks that arrived and were not looked at.
    pub(crate) callbacks: VecDeque<Vec<u8>>,
    /// `sr_status_flags` of the last SEQUENCE, and the highest slot that the server wants to be used.
    pub(crate) flags: u32,
    pub(crate) target: u32,
    /// Limits of callbacks that it asks for.
    pub(crate) back: Channel,
}

/// The results of a COMPOUND, read one after the other.
pub(crate) struct Results {
    pub(crate) status: Status,
    pub(crate) count: u32,
    bytes: Vec<u8>,
    at: usize,
}

impl Results {
    /// The results of a COMPOUND, behind the RPC header.
    pub(crate) fn of(bytes: Vec<u8>) -> Results {
        let mut results = Results {
            status: Status::Ok,
            count: 0,
            bytes,
            at: 0,
        };
        results.status = Status::from_code(results.u32()).expect("a status");
        assert_eq!(results.opaque(), b"test");
        results.count = results.u32();
        results
    }

    /// Bytes that were not read.
    pub(crate) fn rest(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn read<T>(&mut self, read: impl FnOnce(&mut Reader<'_>) -> T) -> T {
        let mut reader = Reader::new(&self.bytes[self.at..]);
        let value = read(&mut reader);
        self.at = self.bytes.len() - reader.rest().len();
        value
    }

    pub(crate) fn u32(&mut self) -> u32 {
        self.read(|r| r.u32().expect("a number"))
    }

    pub(crate) fn u64(&mut self) -> u64 {
        self.read(|r| r.u64().expect("a number"))
    }

    pub(crate) fn skip(&mut self, bytes: usize) {
        self.read(|r| r.take(bytes).map(drop).expect("bytes"));
    }

    pub(crate) fn opaque(&mut self) -> Vec<u8> {
        self.read(|r| r.opaque(usize::MAX).expect("bytes").to_vec())
    }

    pub(crate) fn bitmap(&mut self) -> Bitmap {
        self.read(|r| Bitmap::decode(r).expect("a bitmap"))
    }

    pub(crate) fn stateid(&mut self) -> Stateid {
        self.read(|r| Stateid::decode(r).expect("a stateid"))
    }

    /// The next result is of this operation and has this status.
    pub(crate) fn has(&mut self, number: u32, status: Status) {
        let found = (self.u32(), Status::from_code(self.u32()));
        assert_eq!(found, (number, Some(status)));
    }

    pub(crate) fn ok(&mut self, number: u32) {
        self.has(number, Status::Ok);
    }

    /// The result of SEQUENCE: the target of slots, and the flags.
    pub(crate) fn sequence(&mut self) -> (u32, u32) {
        self.ok(operation::SEQUENCE);
        self.skip(16 + 3 * 4);
        (self.u32(), self.u32())
    }

    /// The result of OPEN: the stateid.
    pub(crate) fn open(&mut self) -> Stateid {
        let (stateid, delegation) = self.open_wishing();
        assert_eq!(delegation, 0, "no delegation");
        stateid
    }

    /// The result of OPEN up to the type of delegation, which is returned, too.
    pub(crate) fn open_wishing(&mut self) -> (Stateid, u32) {
        self.ok(operation::OPEN);
        let stateid = self.stateid();
        self.skip(4 + 8 + 8 + 4);
        self.bitmap();
        (stateid, self.u32())
    }
}

impl Client {
    pub(crate) async fn connect(addr: SocketAddr) -> Client {
        let stream = TcpStream::connect(addr).await;
        Client::over(Link::Tcp(Box::new(Stream::new(
            stream.expect("the server listens"),
        ))))
    }

    /// From a privileged port.
    pub(crate) async fn connect_privileged(addr: SocketAddr) -> Client {
        let stream = TcpStream::connect_privileged(addr).await;
        let stream = stream.expect("the server listens");
        assert!(stream.local_addr().port() < 1024);
        Client::over(Link::Tcp(Box::new(Stream::new(stream))))
    }

    /// Over RDMA.
    pub(crate) fn over_rdma(link: RdmaLink) -> Client {
        Client::over(Link::Rdma(link))
    }

    /// The byte stream of a connection over TCP.
    pub(crate) fn stream(&self) -> &Stream {
        match &self.link {
            Link::Tcp(stream) => stream,
            Link::Rdma(_) => panic!("the connection is over RDMA"),
        }
    }

    /// The link of a connection over RDMA.
    pub(crate) fn rdma(&mut self) -> &mut RdmaLink {
        match &mut self.link {
            Link::Rdma(link) => link,
            Link::Tcp(_) => panic!("the connection is over TCP"),
        }
    }

    fn over(link: Link) -> Client {
        Client {
            link,
            staging: Some(RecvBuf::new(2 << 20)),
            xid: 1,
            uid: 0,
            id: 0,
            session: [0; 16],
            sequence: 0,
            minor: 1,
            callbacks: VecDeque::new(),
            flags: 0,
            target: 0,
            back: FORE,
        }
    }

    /// Asks for TLS. Returns whether the server allows it.
    pub(crate) async fn probe(&mut self) -> bool {
        self.xid += 1;
        let mut probe = Writer::new();
        Probe::encode(self.xid, PROGRAM, VERSION, &mut probe);
        self.send(probe.to_vec()).await;
        let reply = self.receive().await.expect("a reply");
        Probe::is_allowed(&reply).expect("a reply")
    }

    /// Asks for TLS, and begins it.
    pub(crate) async fn secure(&mut self, connector: &Connector) -> Result<Session, TlsError> {
        assert!(self.probe().await, "the server allows TLS");
        let engine = connector.engine("server.test").expect("a name");
        self.stream().start(engine).await
    }

    /// A client with a session that has reclaimed everything.
    pub(crate) async fn with_session(addr: SocketAddr, owner: &[u8]) -> Client {
        let mut client = Client::connect(addr).await;
        client.establish(owner, FORE).await;
        let mut results = client.run(&[Op::ReclaimComplete { one_fs: false }]).await;
        results.ok(operation::RECLAIM_COMPLETE);
        client
    }

    pub(crate) async fn exchange(&mut self, owner: &[u8]) -> u32 {
        let exchange = ExchangeId {
            verifier: [1; 8],
            owner,
            flags: 0,
            protection: StateProtection::None,
            implementation: None,
        };
        let mut results = self.compound(&[Op::ExchangeId(Box::new(exchange))]).await;
        results.ok(operation::EXCHANGE_ID);
        self.id = results.u64();
        results.u32()
    }

    pub(crate) async fn establish(&mut self, owner: &[u8], fore: Channel) {
        self.create_session(owner, fore, 0).await;
    }

    /// Creates client and session. Returns the flags that the server granted.
    pub(crate) async fn create_session(&mut self, owner: &[u8], fore: Channel, flags: u32) -> u32 {
        let sequence = self.exchange(owner).await;
        let create = CreateSession {
            client: self.id,
            sequence,
            flags,
            fore,
            back: self.back,
            callback_program: PROGRAM_OF_CALLBACKS,
            security: vec![CallbackSecurity::Sys(callback_user())],
        };
        let mut results = self.compound(&[Op::CreateSession(Box::new(create))]).await;
        results.ok(operation::CREATE_SESSION);
        self.session = results.read(|r| r.array().expect("a session ID"));
        self.sequence = 0;
        results.u32();
        results.u32()
    }

    pub(crate) async fn send_bytes(&self, bytes: Vec<u8>) {
        let mut batch = SendBatch::new();
        batch.put_payload(Payload::from(bytes));
        // A connection that the server closed is found by the next receive.
        let _ = self.stream().send(batch).await;
    }

    pub(crate) fn call(&mut self, program: u32, version: u32, procedure: u32) -> Writer {
        self.xid += 1;
        let credential = Credential::Sys(AuthSys {
            stamp: 0,
            machine: b"test".to_vec(),
            uid: self.uid,
            gid: self.uid,
            groups: vec![],
        });
        let mut writer = Writer::new();
        Call {
            xid: self.xid,
            program,
            version,
            procedure,
            credential,
        }
        .encode(&mut writer);
        writer
    }

    pub(crate) async fn send(&self, record: Vec<u8>) {
        if let Link::Rdma(link) = &self.link {
            return link.send(record).await;
        }
        let mut bytes = mark(record.len()).to_vec();
        bytes.extend(record);
        self.send_bytes(bytes).await;
    }

    /// The next record; `None` if the server closed the connection.
    pub(crate) async fn receive(&mut self) -> Option<Vec<u8>> {
        if let Link::Rdma(link) = &mut self.link {
            return link.receive().await;
        }
        let mut framing = Framing::new(4 << 20);
        let mut record = Vec::new();
        loop {
            let header = self.take(MARK_LEN).await?;
            framing
                .begin(header.try_into().expect("4 bytes"))
                .expect("short");
            let len = framing.missing();
            record.extend(self.take(len).await?);
            if framing.arrived(len) {
                return Some(record);
            }
        }
    }

    async fn take(&mut self, len: usize) -> Option<Vec<u8>> {
        loop {
            let mut staging = self.staging.take().expect("one receive at a time");
            if staging.readable().len() >= len {
                let bytes = staging.readable()[..len].to_vec();
                staging.consume(len);
                self.staging = Some(staging);
                return Some(bytes);
            }
            staging.make_room(len);
            let (received, back) = self.stream().recv(staging).await;
            self.staging = Some(back);
            if received.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    /// Sends a call, and receives its reply: the outcome, and the results.
    pub(crate) async fn reply_to(&mut self, record: Vec<u8>) -> (Reply, Vec<u8>) {
        self.send(record).await;
        let record = loop {
            let record = self.receive().await.expect("a reply");
            match reply_number(&record) {
                Some(_) => break record,
                None => self.called(record).await,
            }
        };
        let mut reader = Reader::new(&record);
        let (xid, reply) = Reply::decode(&mut reader).expect("a reply");
        assert_eq!(xid, self.xid);
        (reply, reader.rest().to_vec())
    }

    pub(crate) fn encoded(&mut self, minor: u32, operations: &[Op<'_>]) -> Vec<u8> {
        let mut writer = self.call(PROGRAM, VERSION, PROC_COMPOUND);
        Header {
            tag: b"test",
            minor,
            operations: operations.len() as u32,
        }
        .encode(&mut writer);
        operations.iter().for_each(|op| op.encode(&mut writer));
        writer.to_vec()
    }

    /// Executes a COMPOUND as it is.
    pub(crate) async fn compound(&mut self, operations: &[Op<'_>]) -> Results {
        let record = self.encoded(self.minor, operations);
        self.results_of(record).await
    }

    pub(crate) async fn results_of(&mut self, record: Vec<u8>) -> Results {
        let (reply, bytes) = self.reply_to(record).await;
        assert_eq!(reply, Reply::Success);
        Results::of(bytes)
    }

    pub(crate) fn next_sequence(&mut self, cache_this: bool) -> Op<'static> {
        self.sequence += 1;
        Op::Sequence(Sequence {
            session: self.session,
            sequence: self.sequence,
            slot: 0,
            highest_slot: 0,
            cache_this,
        })
    }

    /// Executes a COMPOUND in the session, on slot 0. The result of SEQUENCE is read.
    pub(crate) async fn run(&mut self, operations: &[Op<'_>]) -> Results {
        let mut all = vec![self.next_sequence(false)];
        all.extend_from_slice(operations);
        let mut results = self.compound(&all).await;
        (self.target, self.flags) = results.sequence();
        results
    }

    /// Executes a COMPOUND on the object of a path. The results up to the last LOOKUP are read.
    pub(crate) async fn at(&mut self, path: &[&str], operations: &[Op<'_>]) -> Results {
        let mut all = vec![Op::PutRootFh];
        let names = path.iter().map(|name| Op::Lookup {
            name: name.as_bytes(),
        });
        all.extend(names);
        all.extend_from_slice(operations);
        let mut results = self.run(&all).await;
        results.ok(operation::PUTROOTFH);
        path.iter().for_each(|_| results.ok(operation::LOOKUP));
        results
    }
}
