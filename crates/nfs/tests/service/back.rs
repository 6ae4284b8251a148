//! The client's end of a back channel.

use crate::client::{Client, FORE};
use crate::fixture::Fixture;
use nfs::rpc::{AuthSys, Call, Credential, Reply};
use nfs::wire::callback::{
    CALLBACK_VERSION, CallbackHeader, CallbackOp, CallbackSequence, PROC_CB_COMPOUND, PROC_CB_NULL,
};
use nfs::wire::channel::BindConnection;
use nfs::wire::{Op, Status, operation};
use nfs::xdr::Xdr;
use nfs::xdr::{Reader, Writer};
use std::time::Duration;

pub(crate) const PROGRAM_OF_CALLBACKS: u32 = 0x4000_0007;

/// The user that callbacks come from.
pub(crate) fn callback_user() -> AuthSys {
    AuthSys {
        stamp: 3,
        machine: b"calls".to_vec(),
        uid: 17,
        gid: 19,
        groups: vec![],
    }
}

/// A callback that arrived.
pub(crate) struct Callback {
    xid: u32,
    pub(crate) sequence: CallbackSequence,
    /// The operation behind CB_SEQUENCE, encoded.
    op: Vec<u8>,
}

impl Callback {
    fn of(record: &[u8]) -> Self {
        let mut reader = Reader::new(record);
        let call = Call::decode(&mut reader).expect("a call");
        let is_ours = (call.program, call.version, call.procedure);
        assert_eq!(
            is_ours,
            (PROGRAM_OF_CALLBACKS, CALLBACK_VERSION, PROC_CB_COMPOUND)
        );
        assert_eq!(call.credential, Credential::Sys(callback_user()));
        let header = CallbackHeader::decode(&mut reader).expect("a header");
        assert!((1..=2).contains(&header.minor));
        assert_eq!(header.operations, 2);
        let Ok(CallbackOp::Sequence(sequence)) = CallbackOp::decode(&mut reader) else {
            panic!("a callback begins with CB_SEQUENCE");
        };
        let op = reader.rest().to_vec();
        Self {
            xid: call.xid,
            sequence,
            op,
        }
    }

    pub(crate) fn op(&self) -> CallbackOp<'_> {
        CallbackOp::decode(&mut Reader::new(&self.op)).expect("an operation")
    }
}

impl Client {
    /// A client whose session has a back channel that was tried.
    pub(crate) async fn with_back_channel(fixture: &Fixture, owner: &str) -> Client {
        Self::with_back_channel_of(fixture, owner, 1).await
    }

    /// The same, of this minor version.
    pub(crate) async fn with_back_channel_of(fixture: &Fixture, owner: &str, minor: u32) -> Client {
        let mut client = Client::connect(fixture.addr).await;
        client.minor = minor;
        client.establish_back(owner).await;
        client
    }

    /// Creates a session with a back channel that was tried.
    pub(crate) async fn establish_back(&mut self, owner: &str) {
        let client = self;
        let flags = client.create_session(owner.as_bytes(), FORE, 2).await;
        assert_eq!(flags, 2, "the back channel was granted");
        let mut results = client.run(&[Op::ReclaimComplete { one_fs: false }]).await;
        results.ok(operation::RECLAIM_COMPLETE);
        client.answer_null().await;
    }

    /// Takes CB_NULL, and answers it.
    pub(crate) async fn answer_null(&mut self) {
        let record = self.next_call(30).await.expect("CB_NULL");
        let mut reader = Reader::new(&record);
        let call = Call::decode(&mut reader).expect("a call");
        assert_eq!(call.procedure, PROC_CB_NULL);
        let mut writer = Writer::new();
        Reply::Success.encode(call.xid, &mut writer);
        self.send(writer.to_vec()).await;
        // The reply is looked at before the next request.
        io::time::sleep(Duration::from_millis(10)).await;
    }

    /// A call arrived while a reply was awaited.
    pub(crate) async fn called(&mut self, record: Vec<u8>) {
        self.callbacks.push_back(record);
    }

    /// The next call of the server; `None` if none comes within a number of seconds.
    pub(crate) async fn next_call(&mut self, seconds: u64) -> Option<Vec<u8>> {
        if let Some(record) = self.callbacks.pop_front() {
            return Some(record);
        }
        let received = io::timeout(Duration::from_secs(seconds), self.receive()).await;
        Some(received.ok()?.expect("the connection is there"))
    }

    /// The next callback, which must come.
    pub(crate) async fn callback(&mut self) -> Callback {
        Callback::of(&self.next_call(60).await.expect("a callback"))
    }

    /// Whether no callback comes within ten seconds.
    pub(crate) async fn is_left_alone(&mut self) -> bool {
        io::time::sleep(Duration::from_secs(10)).await;
        self.run(&[]).await;
        self.callbacks.is_empty()
    }

    /// Answers with this status of the operation, and the body of its result.
    pub(crate) async fn answer(&mut self, callback: &Callback, status: Status, body: &[u8]) {
        let sequence = &callback.sequence;
        let number = callback.op().number();
        let mut writer = Writer::new();
        Reply::Success.encode(callback.xid, &mut writer);
        writer.u32(status.code());
        writer.opaque(b"");
        writer.count(2);
        writer.u32(nfs::wire::callback::CB_SEQUENCE);
        writer.u32(0);
        writer.fixed(&sequence.session);
        for word in [
            sequence.sequence,
            sequence.slot,
            7,
            7,
            number,
            status.code(),
        ] {
            writer.u32(word);
        }
        writer.fixed(body);
        self.send(writer.to_vec()).await;
        io::time::sleep(Duration::from_millis(10)).await;
    }

    /// Answers a callback with a status of CB_SEQUENCE.
    pub(crate) async fn refuse(&mut self, callback: &Callback, status: Status) {
        let mut writer = Writer::new();
        Reply::Success.encode(callback.xid, &mut writer);
        writer.u32(status.code());
        writer.opaque(b"");
        for word in [1, nfs::wire::callback::CB_SEQUENCE, status.code()] {
            writer.u32(word);
        }
        self.send(writer.to_vec()).await;
        io::time::sleep(Duration::from_millis(10)).await;
    }

    /// Binds this connection to the session. Returns the direction that the server granted.
    pub(crate) async fn bind(&mut self, direction: u32) -> Result<u32, Status> {
        let bind = Op::BindConnection(BindConnection {
            session: self.session,
            direction,
            use_rdma: false,
        });
        let mut results = self.compound(&[bind]).await;
        if results.status != Status::Ok {
            return Err(results.status);
        }
        results.ok(operation::BIND_CONN_TO_SESSION);
        results.skip(16);
        Ok(results.u32())
    }
}
