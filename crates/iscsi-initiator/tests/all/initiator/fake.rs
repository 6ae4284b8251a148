//! A target that answers the login and shows a disk. A script serves the rest of the connection.

use io::net::{TcpListener, TcpStream};
use io::{Payload, RecvBuf, SendBatch, spawn};
use iscsi::wire::bhs::{BHS_LEN, padding};
use iscsi::wire::request::{LoginRequest, ScsiCommand, TaskManagement};
use iscsi::wire::response::{DataIn, LoginResponse, LoginStatus, R2t, Residual, ScsiResponse};
use iscsi::wire::text::Text;
use iscsi::wire::{Bhs, Itt, Lun, Opcode, Sn, Ttt};
use session::digest::{Crc32c, crc32c};
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;

/// Blocks of the disk.
const BLOCKS: u64 = 8192;

/// See the module header.
pub(crate) struct Fake {
    pub(crate) addr: SocketAddr,
    pub(crate) digests: bool,
    pub(crate) connections: Rc<Cell<usize>>,
}

/// One connection.
pub(crate) struct Peer {
    stream: TcpStream,
    staging: Option<RecvBuf>,
    digests: bool,
    /// Whether digests are in use.
    full_feature: bool,
    /// Damage the header digest, or the data digest, of the next PDU.
    pub(crate) damage_header: bool,
    pub(crate) damage_data: bool,
    pub(crate) stat_sn: Sn,
    pub(crate) exp_cmd_sn: Sn,
    pub(crate) login: Option<LoginRequest>,
}

impl Fake {
    /// Runs `script` on every connection; it gets the connection's number.
    pub(crate) fn start<F: Future<Output = ()> + 'static>(
        digests: bool,
        script: impl Fn(usize, Peer) -> F + 'static,
    ) -> Fake {
        let any = "127.0.0.1:0".parse().expect("an address");
        let listener = TcpListener::bind(any).expect("bind");
        let connections = Rc::new(Cell::new(0));
        let (addr, count) = (listener.local_addr(), connections.clone());
        drop(spawn(async move {
            while let Ok(stream) = listener.accept().await {
                let n = count.get();
                count.set(n + 1);
                drop(spawn(script(n, Peer::new(stream, digests))));
            }
        }));
        Fake {
            addr,
            digests,
            connections,
        }
    }

    /// Like `start`, but answers the login and the disk's set-up commands first.
    pub(crate) fn disk<F: Future<Output = ()> + 'static>(
        digests: bool,
        script: impl Fn(usize, Peer) -> F + Clone + 'static,
    ) -> Fake {
        Fake::start(digests, move |n, mut peer| {
            let script = script.clone();
            async move {
                peer.log_in().await;
                if n == 0 {
                    peer.show_disk().await;
                }
                script(n, peer).await;
            }
        })
    }
}

impl Peer {
    fn new(stream: TcpStream, digests: bool) -> Peer {
        Peer {
            stream,
            staging: Some(RecvBuf::new(1 << 20)),
            digests,
            full_feature: false,
            damage_header: false,
            damage_data: false,
            stat_sn: Sn(0xffff_fffe),
            exp_cmd_sn: Sn(1),
            login: None,
        }
    }

    /// This end's address.
    pub(crate) fn local(&self) -> SocketAddr {
        self.stream.local_addr()
    }

    pub(crate) async fn send_bytes(&mut self, bytes: Vec<u8>) {
        let mut batch = SendBatch::new();
        batch.put_payload(Payload::from(bytes));
        // The initiator may have closed the connection.
        let _ = self.stream.send(batch).await;
    }

    /// Encodes a PDU.
    pub(crate) fn encode(&mut self, mut bhs: Bhs, data: &[u8]) -> Vec<u8> {
        bhs.set_data_len(data.len() as u32);
        let on = self.digests && self.full_feature;
        let mut out = bhs.0.to_vec();
        if on {
            let wrong = u32::from(std::mem::take(&mut self.damage_header));
            out.extend((crc32c(&bhs.0) ^ wrong).to_le_bytes());
        }
        out.extend(data);
        let pad = &[0; 3][..padding(data.len() as u32)];
        out.extend(pad);
        if on && !data.is_empty() {
            let mut digest = Crc32c::new();
            digest.update(data);
            digest.update(pad);
            let wrong = u32::from(std::mem::take(&mut self.damage_data));
            out.extend((digest.value() ^ wrong).to_le_bytes());
        }
        out
    }

    /// Sends a PDU with the next StatSN. A PDU with a status consumes the number.
    pub(crate) async fn send(&mut self, mut bhs: Bhs, data: &[u8]) {
        let counts = match bhs.opcode() {
            Some(Opcode::DataIn) => bhs.flags() & DataIn::STATUS != 0,
            Some(Opcode::R2t) => false,
            Some(Opcode::NopIn) => bhs.itt() != Itt::NONE,
            _ => true,
        };
        bhs.set_stat_sn(self.stat_sn);
        if counts {
            self.stat_sn = self.stat_sn.next();
        }
        bhs.set_window(self.exp_cmd_sn, self.exp_cmd_sn.plus(31));
        let bytes = self.encode(bhs, data);
        self.send_bytes(bytes).await;
    }

    async fn need(&mut self, n: usize) -> bool {
        loop {
            let mut staging = self.staging.take().expect("back after each receive");
            if staging.readable().len() >= n {
                self.staging = Some(staging);
                return true;
            }
            staging.make_room(n);
            let (result, back) = self.stream.recv(staging).await;
            self.staging = Some(back);
            if !matches!(result, Ok(1..)) {
                return false;
            }
        }
    }

    /// Receives the next PDU; `None` at the end of the stream.
    pub(crate) async fn recv(&mut self) -> Option<(Bhs, Vec<u8>)> {
        let digest = if self.digests && self.full_feature {
            4
        } else {
            0
        };
        if !self.need(BHS_LEN + digest).await {
            return None;
        }
        let staging = self.staging.as_mut().expect("there");
        let bhs = Bhs(*staging.readable().first_chunk().expect("enough"));
        if digest > 0 {
            let sent = u32::from_le_bytes(*staging.readable()[48..].first_chunk().expect("4"));
            assert_eq!(sent, crc32c(&bhs.0), "header digest");
        }
        staging.consume(BHS_LEN + digest);
        let len = bhs.data_len() as usize;
        let padded = len.next_multiple_of(4);
        let trailer = if len > 0 { digest } else { 0 };
        if !self.need(padded + trailer).await {
            return None;
        }
        let staging = self.staging.as_mut().expect("there");
        let data = staging.readable()[..len].to_vec();
        if trailer > 0 {
            let sent = u32::from_le_bytes(*staging.readable()[padded..].first_chunk().expect("4"));
            assert_eq!(sent, crc32c(&staging.readable()[..padded]), "data digest");
        }
        staging.consume(padded + trailer);
        if !bhs.is_immediate() && bhs.opcode() != Some(Opcode::DataOut) {
            assert_eq!(bhs.sn(), self.exp_cmd_sn, "CmdSN in order: {bhs:?}");
            self.exp_cmd_sn = self.exp_cmd_sn.next();
        }
        Some((bhs, data))
    }

    /// Receives the next login request and its text.
    pub(crate) async fn login_request(&mut self) -> Option<(LoginRequest, Vec<u8>)> {
        let (bhs, data) = self.recv().await?;
        assert_eq!(bhs.opcode(), Some(Opcode::LoginRequest));
        let request = LoginRequest::parse(&bhs);
        self.login = Some(request);
        Some((request, data))
    }

    /// Returns a response that accepts a login request.
    pub(crate) fn login_response(&self) -> LoginResponse {
        let r = self.login.expect("a request was received");
        LoginResponse {
            transit: r.transit,
            csg: r.csg,
            nsg: r.nsg,
            isid: r.isid,
            tsih: if r.nsg == 3 { 7 } else { 0 },
            itt: r.itt,
            status: LoginStatus::SUCCESS,
        }
    }

    /// Answers both stages of a login. `ImmediateData=No` gets no answer: the result does not depend on the target (RFC 7143, 6.2.2).
    pub(crate) async fn log_in(&mut self) {
        let digest = if self.digests { "CRC32C" } else { "None" };
        let keys = [
            ("HeaderDigest", digest),
            ("DataDigest", digest),
            ("MaxRecvDataSegmentLength", "4096"),
            ("InitialR2T", "Yes"),
            ("ImmediateData", "Yes"),
            ("MaxBurstLength", "8192"),
            ("FirstBurstLength", "1024"),
            ("MaxOutstandingR2T", "2"),
            ("DefaultTime2Wait", "0"),
        ];
        for _ in 0..2 {
            let Some((r, asked)) = self.login_request().await else {
                return;
            };
            let no_immediate = asked.split(|b| *b == 0).any(|p| p == b"ImmediateData=No");
            let is_answered = |key: &str| key != "ImmediateData" || !no_immediate;
            let mut text = Text::new();
            if r.csg == 1 {
                let answers = keys.iter().filter(|(key, _)| is_answered(key));
                answers.for_each(|(k, v)| text.put(k, v));
            }
            let response = self.login_response().build();
            self.send(response, &text.into_bytes()).await;
        }
        self.full_feature = true;
    }

    /// Receives the next SCSI command with its immediate data; `None` when the initiator logs out. Answers pings.
    pub(crate) async fn command(&mut self) -> Option<(ScsiCommand, Vec<u8>)> {
        loop {
            let (bhs, data) = self.recv().await?;
            match iscsi::wire::request::Request::parse(&bhs).expect("well formed") {
                iscsi::wire::request::Request::Scsi(c) => return Some((c, data)),
                iscsi::wire::request::Request::NopOut(n) => {
                    let pong = iscsi::wire::response::nop_in(n.itt, Ttt::NONE, n.lun);
                    self.send(pong, &[]).await;
                }
                iscsi::wire::request::Request::Logout(_) => return None,
                other => panic!("{other:?} instead of a command"),
            }
        }
    }

    /// Receives the next task management request.
    pub(crate) async fn task_management(&mut self) -> TaskManagement {
        let (bhs, _) = self.recv().await.expect("a request");
        match iscsi::wire::request::Request::parse(&bhs).expect("well formed") {
            iscsi::wire::request::Request::TaskManagement(t) => t,
            other => panic!("{other:?} instead of task management"),
        }
    }

    pub(crate) async fn respond(&mut self, itt: Itt, status: u8, sense: &[u8]) {
        let response = ScsiResponse {
            status,
            itt,
            exp_data_sn: 0,
            residual: Residual::None,
        };
        let mut data = Vec::new();
        if !sense.is_empty() {
            data.extend((sense.len() as u16).to_be_bytes());
            data.extend(sense);
        }
        self.send(response.build(), &data).await;
    }

    /// Sends a Data-In; with `last` it ends the command with GOOD.
    pub(crate) async fn data(
        &mut self,
        itt: Itt,
        data_sn: u32,
        offset: usize,
        data: &[u8],
        last: bool,
    ) {
        let pdu = DataIn {
            last,
            status: last.then_some((0, Residual::None)),
            itt,
            data_sn,
            offset: offset as u32,
            len: data.len() as u32,
        };
        self.send(pdu.build(), data).await;
    }

    pub(crate) async fn r2t(&mut self, itt: Itt, r2t_sn: u32, offset: usize, len: usize) {
        let r2t = R2t {
            lun: Lun::default(),
            itt,
            ttt: Ttt(r2t_sn),
            r2t_sn,
            offset: offset as u32,
            len: len as u32,
        };
        self.send(r2t.build(), &[]).await;
    }

    /// Answers the commands that an initiator sends before its first read or write.
    pub(crate) async fn show_disk(&mut self) {
        let mut inquiry = vec![0; 36];
        inquiry[8..16].copy_from_slice(b"FAKE    ");
        let mut capacity = vec![0; 32];
        capacity[..8].copy_from_slice(&(BLOCKS - 1).to_be_bytes());
        capacity[8..12].copy_from_slice(&512u32.to_be_bytes());
        for _ in 0..3 {
            let Some((c, _)) = self.command().await else {
                return;
            };
            match (c.cdb[0], c.cdb[1]) {
                (0x12, 0) => self.data(c.itt, 0, 0, &inquiry, true).await,
                (0x9e, _) => self.data(c.itt, 0, 0, &capacity, true).await,
                _ => {
                    self.respond(c.itt, 2, &[0x72, 5, 0x24, 0, 0, 0, 0, 0])
                        .await
                }
            }
        }
    }

    /// Serves reads and writes until the initiator closes. Returns their number.
    pub(crate) async fn serve(&mut self) -> usize {
        let mut served = 0;
        loop {
            let Some((bhs, data)) = self.recv().await else {
                return served;
            };
            match bhs.opcode() {
                Some(Opcode::ScsiCommand) => {}
                Some(Opcode::LogoutRequest) => {
                    let bye = iscsi::wire::response::logout_response(bhs.itt(), 0, 0, 0);
                    self.send(bye, &[]).await;
                    return served;
                }
                Some(Opcode::NopOut) => {
                    if bhs.itt() != Itt::NONE {
                        let pong = iscsi::wire::response::nop_in(bhs.itt(), Ttt::NONE, bhs.lun());
                        self.send(pong, &[]).await;
                    }
                    continue;
                }
                other => panic!("{other:?} while serving"),
            }
            served += 1;
            let (itt, len) = (bhs.itt(), bhs.u32_at(20) as usize);
            match bhs.0[32] {
                0x88 => self.data(itt, 0, 0, &vec![0x5a; len], true).await,
                _ => {
                    self.collect(itt, data.len(), len).await;
                    self.respond(itt, 0, &[]).await;
                }
            }
        }
    }

    /// Requests the missing data of a write, and receives it.
    pub(crate) async fn collect(&mut self, itt: Itt, from: usize, to: usize) {
        let (mut at, mut r2t_sn) = (from, 0);
        while at < to {
            let len = (to - at).min(8192);
            self.r2t(itt, r2t_sn, at, len).await;
            let end = at + len;
            while at < end {
                let (bhs, data) = self.recv().await.expect("the data that was asked for");
                assert_eq!(bhs.opcode(), Some(Opcode::DataOut));
                assert_eq!((bhs.itt(), bhs.ttt()), (itt, Ttt(r2t_sn)));
                assert_eq!(bhs.u32_at(40) as usize, at, "in order");
                at += data.len();
                assert_eq!(bhs.is_final(), at == end, "F ends the sequence");
            }
            r2t_sn += 1;
        }
    }
}
