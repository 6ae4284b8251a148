//! An initiator whose PDUs the tests choose, valid or not.

use io::net::TcpStream;
use io::{Payload, RecvBuf, SendBatch};
use iscsi::wire::bhs::{BHS_LEN, padding};
use iscsi::wire::request::{
    DataOut, LoginRequest, LogoutRequest, NopOut, ScsiCommand, TaskAttribute, TaskManagement,
    TextRequest,
};
use iscsi::wire::response::{LoginResponse, LoginStatus, R2t, Residual};
use iscsi::wire::text::{Pairs, Text};
use iscsi::wire::{Bhs, Isid, Itt, Lun, Opcode, Sn, Ttt};
use session::digest::{Crc32c, crc32c};
use std::net::SocketAddr;

pub(crate) const INITIATOR: &str = "iqn.2026-11.test:initiator";

pub(crate) struct Initiator {
    stream: TcpStream,
    staging: Option<RecvBuf>,
    pub(crate) header_digest: bool,
    pub(crate) data_digest: bool,
    pub(crate) isid: Isid,
    pub(crate) tsih: u16,
    pub(crate) cid: u16,
    pub(crate) cmd_sn: Sn,
    pub(crate) exp_stat_sn: Sn,
    pub(crate) next_itt: u32,
    pub(crate) immediate_max: usize,
    pub(crate) segment_max: usize,
    /// Damage the digest of the next data segment.
    pub(crate) damage: bool,
    pub(crate) r2ts: Vec<R2t>,
}

/// How a command ended.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    pub(crate) status: u8,
    pub(crate) sense: Vec<u8>,
    pub(crate) data: Vec<u8>,
    pub(crate) residual: Residual,
}

impl Ended {
    /// Sense key, ASC and ASCQ of fixed or descriptor sense.
    pub(crate) fn sense(&self) -> (u8, u8, u8) {
        match self.sense[0] & 0x7f {
            0x72 => (self.sense[1] & 15, self.sense[2], self.sense[3]),
            _ => (self.sense[2] & 15, self.sense[12], self.sense[13]),
        }
    }
}

pub(crate) fn text(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut t = Text::new();
    for (k, v) in pairs {
        t.put(k, v);
    }
    t.into_bytes()
}

impl Initiator {
    pub(crate) async fn connect(addr: SocketAddr) -> Initiator {
        Initiator::try_connect(addr)
            .await
            .expect("the target listens")
    }

    /// A TCP connection, if the target's machine takes one.
    pub(crate) async fn try_connect(addr: SocketAddr) -> Option<Initiator> {
        Some(Initiator {
            stream: TcpStream::connect(addr).await.ok()?,
            staging: Some(RecvBuf::new(1 << 20)),
            header_digest: false,
            data_digest: false,
            isid: Isid([0x80, 1, 2, 3, 4, 5]),
            tsih: 0,
            cid: 0,
            cmd_sn: Sn(0xffff_fff0),
            exp_stat_sn: Sn(0),
            next_itt: 1,
            immediate_max: 0,
            segment_max: 8192,
            damage: false,
            r2ts: Vec::new(),
        })
    }

    pub(crate) async fn send_bytes(&mut self, bytes: Vec<u8>) -> bool {
        let mut batch = SendBatch::new();
        batch.put_payload(Payload::from(bytes));
        self.stream.send(batch).await.0.is_ok()
    }

    pub(crate) fn encode(&mut self, mut bhs: Bhs, data: &[u8]) -> Vec<u8> {
        bhs.set_data_len(data.len() as u32);
        let mut out = bhs.0.to_vec();
        if self.header_digest {
            out.extend(crc32c(&bhs.0).to_le_bytes());
        }
        out.extend(data);
        let pad = &[0; 3][..padding(data.len() as u32)];
        out.extend(pad);
        if self.data_digest && !data.is_empty() {
            let mut d = Crc32c::new();
            d.update(data);
            d.update(pad);
            let wrong = u32::from(std::mem::take(&mut self.damage));
            out.extend((d.value() ^ wrong).to_le_bytes());
        }
        out
    }

    pub(crate) async fn send(&mut self, bhs: Bhs, data: &[u8]) -> bool {
        let bytes = self.encode(bhs, data);
        self.send_bytes(bytes).await
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

    /// The next PDU; none at the end of the stream.
    pub(crate) async fn recv(&mut self) -> Option<(Bhs, Vec<u8>)> {
        let header = BHS_LEN + if self.header_digest { 4 } else { 0 };
        if !self.need(header).await {
            return None;
        }
        let staging = self.staging.as_mut().expect("there");
        let bhs = Bhs(*staging.readable().first_chunk().expect("enough"));
        if self.header_digest {
            let digest = u32::from_le_bytes(*staging.readable()[48..].first_chunk().expect("4"));
            assert_eq!(digest, crc32c(&bhs.0), "header digest");
        }
        staging.consume(header);
        let len = bhs.data_len();
        let digest = if self.data_digest && len > 0 { 4 } else { 0 };
        let padded = len as usize + padding(len);
        if !self.need(padded + digest).await {
            return None;
        }
        let staging = self.staging.as_mut().expect("there");
        let data = staging.readable()[..len as usize].to_vec();
        if digest > 0 {
            let sent = u32::from_le_bytes(*staging.readable()[padded..].first_chunk().expect("4"));
            assert_eq!(sent, crc32c(&staging.readable()[..padded]), "data digest");
        }
        staging.consume(padded + digest);
        self.heard(&bhs);
        Some((bhs, data))
    }

    fn heard(&mut self, bhs: &Bhs) {
        let carries = match bhs.opcode() {
            Some(Opcode::DataIn) => bhs.flags() & 1 != 0,
            Some(Opcode::R2t) => false,
            Some(Opcode::NopIn) => bhs.itt() != Itt::NONE,
            _ => true,
        };
        if carries {
            self.exp_stat_sn = bhs.sn().next();
        }
    }

    pub(crate) async fn expect(&mut self, opcode: Opcode) -> (Bhs, Vec<u8>) {
        let (bhs, data) = self.recv().await.expect("an answer");
        assert_eq!(bhs.opcode(), Some(opcode), "{bhs:?}");
        (bhs, data)
    }

    pub(crate) fn login_request(&self, csg: u8, nsg: Option<u8>) -> LoginRequest {
        LoginRequest {
            transit: nsg.is_some(),
            more: false,
            csg,
            nsg: nsg.unwrap_or(0),
            version_min: 0,
            isid: self.isid,
            tsih: self.tsih,
            itt: Itt(0),
            cid: self.cid,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
        }
    }

    pub(crate) async fn login_step(
        &mut self,
        request: LoginRequest,
        data: &[u8],
    ) -> (LoginResponse, Pairs) {
        self.send(request.build(), data).await;
        let (bhs, data) = self.expect(Opcode::LoginResponse).await;
        (
            LoginResponse::parse(&bhs),
            Pairs::parse(&data).expect("text"),
        )
    }

    /// One request that asks for full feature phase.
    pub(crate) async fn try_login(
        &mut self,
        target: &str,
        keys: &[(&str, &str)],
    ) -> (LoginResponse, Pairs) {
        let names = [("InitiatorName", INITIATOR), ("TargetName", target)];
        let data = text(&[&names, keys].concat());
        let (response, pairs) = self.login_step(self.login_request(1, Some(3)), &data).await;
        self.agreed(&response, &pairs);
        (response, pairs)
    }

    pub(crate) fn agreed(&mut self, response: &LoginResponse, pairs: &Pairs) {
        self.header_digest = pairs.get("HeaderDigest") == Some("CRC32C");
        self.data_digest = pairs.get("DataDigest") == Some("CRC32C");
        self.tsih = response.tsih;
    }

    pub(crate) async fn login(&mut self, target: &str, keys: &[(&str, &str)]) {
        let (response, _) = self.try_login(target, keys).await;
        assert_eq!(response.status, LoginStatus::SUCCESS);
        assert!(response.transit && response.tsih != 0);
    }

    pub(crate) fn itt(&mut self) -> Itt {
        self.next_itt += 1;
        Itt(self.next_itt)
    }

    pub(crate) fn command(&mut self, cdb: &[u8], expected_len: u32, write: bool) -> ScsiCommand {
        let mut whole = [0; 16];
        whole[..cdb.len()].copy_from_slice(cdb);
        let c = ScsiCommand {
            immediate: false,
            last: true,
            read: !write && expected_len > 0,
            write,
            attribute: TaskAttribute::Simple,
            lun: Lun::default(),
            itt: self.itt(),
            expected_len,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
            cdb: whole,
        };
        self.cmd_sn = self.cmd_sn.next();
        c
    }

    /// Receives until a command has ended; R2Ts are answered from `data`.
    pub(crate) async fn finish(&mut self, data: &[u8]) -> Ended {
        let mut ended = Ended::default();
        loop {
            let (bhs, segment) = self.recv().await.expect("an answer");
            match bhs.opcode() {
                Some(Opcode::R2t) => {
                    let r2t = R2t::parse(&bhs);
                    self.r2ts.push(r2t);
                    self.answer(&r2t, data).await;
                }
                Some(Opcode::DataIn) => {
                    assert_eq!(bhs.u32_at(40) as usize, ended.data.len(), "in order");
                    ended.data.extend(segment);
                    if bhs.flags() & 1 != 0 {
                        ended.residual = Residual::parse(&bhs);
                        return ended;
                    }
                }
                Some(Opcode::ScsiResponse) => {
                    ended.status = bhs.0[3];
                    ended.residual = Residual::parse(&bhs);
                    ended.sense = segment.get(2..).unwrap_or_default().to_vec();
                    return ended;
                }
                Some(Opcode::Reject) => {}
                other => panic!("{other:?} while a command is under way"),
            }
        }
    }

    pub(crate) async fn answer(&mut self, r2t: &R2t, data: &[u8]) {
        let (from, to) = (r2t.offset as usize, (r2t.offset + r2t.len) as usize);
        self.data_out(r2t.itt, r2t.ttt, from, &data[from..to]).await;
    }

    /// A sequence of Data-Out PDUs.
    pub(crate) async fn data_out(&mut self, itt: Itt, ttt: Ttt, from: usize, data: &[u8]) {
        let chunks = data.chunks(self.segment_max).count();
        let mut at = from;
        for (n, chunk) in data.chunks(self.segment_max).enumerate() {
            let d = DataOut {
                last: n + 1 == chunks,
                lun: Lun::default(),
                itt,
                ttt,
                exp_stat_sn: self.exp_stat_sn,
                data_sn: n as u32,
                offset: at as u32,
            };
            self.send(d.build(), chunk).await;
            at += chunk.len();
        }
    }

    pub(crate) async fn read(&mut self, lba: u32, blocks: u16) -> Ended {
        let c = self.command(&rw10(0x28, lba, blocks), u32::from(blocks) * 512, false);
        self.send(c.build(), &[]).await;
        self.finish(&[]).await
    }

    /// WRITE(10) with up to `immediate_max` bytes of immediate data, and unsolicited data up to `first_burst`.
    pub(crate) async fn write(&mut self, lba: u32, data: &[u8], first_burst: usize) -> Ended {
        let blocks = (data.len() / 512) as u16;
        let mut c = self.command(&rw10(0x2a, lba, blocks), data.len() as u32, true);
        let immediate = self.immediate_max.min(data.len());
        let unsolicited = first_burst.min(data.len()).max(immediate);
        c.last = unsolicited == immediate;
        self.send(c.build(), &data[..immediate]).await;
        if !c.last {
            self.data_out(c.itt, Ttt::NONE, immediate, &data[immediate..unsolicited])
                .await;
        }
        self.finish(data).await
    }

    pub(crate) async fn clear_attentions(&mut self) {
        for _ in 0..8 {
            let c = self.command(&[0; 6], 0, false);
            self.send(c.build(), &[]).await;
            if self.finish(&[]).await.status == 0 {
                return;
            }
        }
        panic!("unit attentions without end");
    }

    pub(crate) async fn ping(&mut self, data: &[u8]) -> Vec<u8> {
        let nop = NopOut {
            immediate: true,
            lun: Lun::default(),
            itt: self.itt(),
            ttt: Ttt::NONE,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
        };
        self.send(nop.build(), data).await;
        self.expect(Opcode::NopIn).await.1
    }

    pub(crate) fn text_request(&mut self, ttt: Ttt, more: bool) -> TextRequest {
        TextRequest {
            immediate: true,
            last: !more,
            more,
            lun: Lun::default(),
            itt: Itt(0x7e),
            ttt,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
        }
    }

    pub(crate) async fn task_management(&mut self, function: u8, referenced: Itt, sn: Sn) -> u8 {
        let r = TaskManagement {
            immediate: true,
            function,
            lun: Lun::default(),
            itt: self.itt(),
            referenced,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
            ref_cmd_sn: sn,
        };
        self.send(r.build(), &[]).await;
        self.expect(Opcode::TaskResponse).await.0.0[2]
    }

    pub(crate) async fn logout(&mut self, reason: u8, cid: u16) -> u8 {
        let r = LogoutRequest {
            immediate: true,
            reason,
            itt: self.itt(),
            cid,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
        };
        self.send(r.build(), &[]).await;
        self.expect(Opcode::LogoutResponse).await.0.0[2]
    }
}

/// READ(10) or WRITE(10).
pub(crate) fn rw10(opcode: u8, lba: u32, blocks: u16) -> Vec<u8> {
    let mut cdb = vec![opcode, 0];
    cdb.extend(lba.to_be_bytes());
    cdb.push(0);
    cdb.extend(blocks.to_be_bytes());
    cdb.push(0);
    cdb
}

/// Bytes that depend on their offset and on `seed`.
pub(crate) fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|i| (i as u64).wrapping_mul(0x9e37_79b9).to_le_bytes()[1] ^ seed)
        .collect()
}
