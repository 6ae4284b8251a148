//! A server that answers the creation of a session as it should. A script answers the calls after it.

use io::net::{TcpListener, TcpStream};
use io::{Payload, RecvBuf, SendBatch, spawn};
use nfs::rpc::record::{Framing, MARK_LEN, mark};
use nfs::rpc::{Call, Reply};
use nfs::wire::channel::Channel;
use nfs::wire::{Header, Op, operation};
use nfs::xdr::{Reader, Writer, Xdr};
use std::net::SocketAddr;

pub(crate) const SESSION: [u8; 16] = [9; 16];

/// One connection.
pub(crate) struct Peer {
    stream: TcpStream,
    staging: Option<RecvBuf>,
}

/// A call as it arrived.
pub(crate) struct Called {
    pub(crate) xid: u32,
    /// Slot and sequence number of its SEQUENCE.
    pub(crate) slot: (u32, u32),
}

/// Runs `script` on each connection, after a session was created.
pub(crate) fn start<F: Future<Output = ()> + 'static>(
    granted_slots: u32,
    script: impl Fn(Peer) -> F + Clone + 'static,
) -> SocketAddr {
    let any = "127.0.0.1:0".parse().expect("an address");
    let listener = TcpListener::bind(any).expect("bind");
    let addr = listener.local_addr();
    drop(spawn(async move {
        while let Ok(stream) = listener.accept().await {
            let script = script.clone();
            drop(spawn(async move {
                let mut peer = Peer {
                    stream,
                    staging: Some(RecvBuf::new(1 << 20)),
                };
                if peer.create_session(granted_slots).await {
                    script(peer).await;
                }
            }));
        }
    }));
    addr
}

/// The head of a reply to a call, up to the number of results.
pub(crate) fn reply(xid: u32, status: u32, results: u32) -> Writer {
    let mut writer = Writer::new();
    Reply::Success.encode(xid, &mut writer);
    writer.u32(status);
    writer.opaque(b"");
    writer.u32(results);
    writer
}

/// The result of SEQUENCE.
pub(crate) fn sequenced(writer: &mut Writer, (slot, sequence): (u32, u32)) {
    writer.u32(operation::SEQUENCE);
    writer.u32(0);
    writer.fixed(&SESSION);
    [sequence, slot, 0, 0, 0]
        .iter()
        .for_each(|w| writer.u32(*w));
}

impl Peer {
    async fn take(&mut self, len: usize) -> Option<Vec<u8>> {
        loop {
            let mut staging = self.staging.take()?;
            if staging.readable().len() >= len {
                let bytes = staging.readable()[..len].to_vec();
                staging.consume(len);
                self.staging = Some(staging);
                return Some(bytes);
            }
            staging.make_room(len);
            let (received, back) = self.stream.recv(staging).await;
            self.staging = Some(back);
            if received.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    /// The next call; `None` if the client closed the connection.
    pub(crate) async fn called(&mut self) -> Option<Called> {
        let mut framing = Framing::new(2 << 20);
        let header = self.take(MARK_LEN).await?;
        framing.begin(header.try_into().ok()?).ok()?;
        let record = self.take(framing.missing()).await?;
        let mut reader = Reader::new(&record);
        let call = Call::decode(&mut reader).expect("a call");
        Header::decode(&mut reader).expect("a COMPOUND");
        let first = Op::decode(&mut reader).expect("an operation").1;
        let slot = match first {
            Ok(Op::Sequence(s)) => (s.slot, s.sequence),
            _ => (0, 0),
        };
        let xid = call.xid;
        Some(Called { xid, slot })
    }

    pub(crate) async fn send_bytes(&mut self, bytes: Vec<u8>) {
        let mut batch = SendBatch::new();
        batch.put_payload(Payload::from(bytes));
        // The client may have closed the connection.
        let _ = self.stream.send(batch).await;
    }

    /// Sends a record of one fragment.
    pub(crate) async fn send(&mut self, record: Writer) {
        let record = record.to_vec();
        let bytes = [&mark(record.len())[..], &record].concat();
        self.send_bytes(bytes).await;
    }

    async fn create_session(&mut self, slots: u32) -> bool {
        let Some(call) = self.called().await else {
            return false;
        };
        let mut exchanged = reply(call.xid, 0, 1);
        exchanged.u32(operation::EXCHANGE_ID);
        exchanged.u32(0);
        exchanged.u64(5);
        [1, 0, 0].iter().for_each(|w| exchanged.u32(*w));
        self.send(exchanged).await;
        let Some(call) = self.called().await else {
            return false;
        };
        let mut created = reply(call.xid, 0, 1);
        created.u32(operation::CREATE_SESSION);
        created.u32(0);
        created.fixed(&SESSION);
        created.u64(0);
        let channel = Channel {
            header_padding: 0,
            request_max: 64 << 10,
            reply_max: 64 << 10,
            cached_max: 0,
            operations_max: 16,
            slots,
        };
        channel.encode(&mut created);
        channel.encode(&mut created);
        self.send(created).await;
        let Some(call) = self.called().await else {
            return false;
        };
        let mut complete = reply(call.xid, 0, 2);
        sequenced(&mut complete, call.slot);
        complete.u32(operation::RECLAIM_COMPLETE);
        complete.u32(0);
        self.send(complete).await;
        true
    }
}
