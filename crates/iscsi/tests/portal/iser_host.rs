//! A small scripted initiator over RDMA: it sends exactly the messages that a test wants, and exposes exactly the memory.

use crate::fixture::DISK;
use crate::initiator::{INITIATOR, text};
use io::rdma::{
    Ending, Memory, QueuePair, QueuePairConfig, QueuePairEvent, Received, Verb, WorkRequest,
};
use iscsi::wire::iser::{Advertised, Capabilities, ISER_HEADER_LEN, IserHeader};
use iscsi::wire::request::{LoginRequest, NopOut, ScsiCommand, TaskAttribute, TaskManagement};
use iscsi::wire::response::{LoginResponse, LoginStatus};
use iscsi::wire::{Bhs, Isid, Itt, Lun, Opcode, Sn, Ttt};
use std::net::SocketAddr;

/// Bytes of data that Linux has receives for in full feature phase.
pub(crate) const DATA_MAX: usize = 128;

/// The sizes of its queue pair.
pub(crate) fn sizes() -> QueuePairConfig {
    QueuePairConfig {
        receives: 160,
        receive_len: 76 + 8192,
        ..QueuePairConfig::default()
    }
}

pub(crate) struct IserHost {
    pub(crate) queue_pair: QueuePair,
    pub(crate) cmd_sn: Sn,
    pub(crate) exp_stat_sn: Sn,
    pub(crate) next_itt: u32,
}

/// A PDU that arrived.
pub(crate) struct Pdu {
    pub(crate) bhs: Bhs,
    pub(crate) data: Vec<u8>,
    /// Memory that its message withdrew.
    pub(crate) withdrawn: Option<Memory>,
}

impl IserHost {
    /// A connection, without a login.
    pub(crate) async fn open(
        addr: SocketAddr,
        invalidates: bool,
        config: QueuePairConfig,
    ) -> IserHost {
        let able = Capabilities { invalidates };
        let connected = QueuePair::connect(addr, config, &able.build()).await;
        let (queue_pair, private) = connected.expect("it is accepted");
        assert_eq!(Capabilities::parse(&private), able);
        IserHost {
            queue_pair,
            cmd_sn: Sn(1),
            exp_stat_sn: Sn(0),
            next_itt: 1,
        }
    }

    /// A session with the disk, in one step; its unit attentions have been reported.
    pub(crate) async fn session(addr: SocketAddr, invalidates: bool, isid: u8) -> IserHost {
        let mut h = IserHost::open(addr, invalidates, sizes()).await;
        h.login(isid).await;
        loop {
            let c = h.command(&[0; 6], 0, Way::None);
            h.pdu(IserHeader::default(), c.build(), &[]);
            if h.expect(Opcode::ScsiResponse).await.bhs.0[3] == 0 {
                return h;
            }
        }
    }

    pub(crate) async fn login(&mut self, isid: u8) {
        let keys = text(&[
            ("InitiatorName", INITIATOR),
            ("TargetName", DISK),
            ("SessionType", "Normal"),
            ("HeaderDigest", "None"),
            ("RDMAExtensions", "Yes"),
            ("InitiatorRecvDataSegmentLength", "262144"),
            ("TargetRecvDataSegmentLength", "262144"),
            ("ImmediateData", "Yes"),
            ("InitialR2T", "No"),
        ]);
        let request = LoginRequest {
            transit: true,
            more: false,
            csg: 1,
            nsg: 3,
            version_min: 0,
            isid: Isid([0x80, 0, 0, 0, 0, isid]),
            tsih: 0,
            itt: Itt(0),
            cid: 0,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
        };
        self.pdu(IserHeader::default(), request.build(), &keys);
        let answer = self.receive().await;
        let response = LoginResponse::parse(&answer.bhs);
        assert_eq!(response.status, LoginStatus::SUCCESS);
        let shown = String::from_utf8_lossy(&answer.data).replace('\0', " ");
        for key in ["RDMAExtensions=Yes", "TargetRecvDataSegmentLength=8192"] {
            assert!(shown.contains(key), "{shown}");
        }
        assert!(!shown.contains(" MaxRecvDataSegmentLength"), "{shown}");
    }

    /// Sends a message.
    pub(crate) fn message(&self, head: Vec<u8>) {
        let work = Verb::Send {
            head,
            data: None,
            invalidate: None,
        };
        self.queue_pair
            .post(&mut vec![WorkRequest { tag: None, work }]);
    }

    /// Sends a PDU.
    pub(crate) fn pdu(&self, memory: IserHeader, mut bhs: Bhs, data: &[u8]) {
        bhs.set_data_len(data.len() as u32);
        self.message([&memory.build()[..], &bhs.0, data].concat());
    }

    /// The next message.
    async fn received(&self) -> Received {
        loop {
            match self.queue_pair.event().await {
                QueuePairEvent::Received(message) => return message,
                QueuePairEvent::Ended(why) => panic!("the connection ended: {why}"),
                QueuePairEvent::Done { .. } | QueuePairEvent::Released { .. } => {}
            }
        }
    }

    /// The next PDU, of any length.
    pub(crate) async fn receive(&mut self) -> Pdu {
        let mut message = self.received().await;
        let (memory, pdu) = IserHeader::parse(&message).expect("a PDU");
        assert_eq!(memory, IserHeader::default(), "a target names no memory");
        let bhs = Bhs(*pdu.first_chunk().expect("a header"));
        let data = pdu[48..][..bhs.data_len() as usize].to_vec();
        assert!(message.len() - ISER_HEADER_LEN - 48 - data.len() < 4);
        self.exp_stat_sn = bhs.sn().next();
        Pdu {
            bhs,
            data,
            withdrawn: message.withdrawn.take().map(|(_, memory)| memory),
        }
    }

    /// The next PDU of full feature phase, which is of this kind.
    pub(crate) async fn expect(&mut self, opcode: Opcode) -> Pdu {
        let pdu = self.receive().await;
        assert_eq!(pdu.bhs.opcode(), Some(opcode), "{:?}", pdu.bhs);
        assert!(pdu.data.len() <= DATA_MAX, "Linux has no receive for it");
        pdu
    }

    pub(crate) fn tag(&mut self) -> Itt {
        self.next_itt += 1;
        Itt(self.next_itt)
    }

    /// A command with `len` bytes of data.
    pub(crate) fn command(&mut self, bytes: &[u8], len: u32, way: Way) -> ScsiCommand {
        let mut cdb = [0; 16];
        cdb[..bytes.len()].copy_from_slice(bytes);
        let command = ScsiCommand {
            immediate: false,
            last: true,
            read: way == Way::Read,
            write: way == Way::Write,
            attribute: TaskAttribute::Simple,
            lun: Lun::default(),
            itt: self.tag(),
            expected_len: len,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
            cdb,
        };
        self.cmd_sn = self.cmd_sn.next();
        command
    }

    /// An immediate ping.
    pub(crate) fn ping(&mut self) -> Bhs {
        let nop = NopOut {
            immediate: true,
            lun: Lun::default(),
            itt: self.tag(),
            ttt: Ttt::NONE,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
        };
        nop.build()
    }

    /// ABORT TASK of a command.
    pub(crate) fn abort(&mut self, command: &ScsiCommand) -> Bhs {
        let request = TaskManagement {
            immediate: true,
            function: 1,
            lun: command.lun,
            itt: self.tag(),
            referenced: command.itt,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
            ref_cmd_sn: command.cmd_sn,
        };
        request.build()
    }

    /// Gives the target access to memory.
    pub(crate) fn expose(&self, memory: Memory) -> Advertised {
        let at = self.queue_pair.expose(memory).expect("it is connected").at;
        Advertised {
            key: at.key.0,
            address: at.address,
        }
    }

    /// Why the connection ended.
    pub(crate) async fn ended(&self) -> Ending {
        loop {
            if let QueuePairEvent::Ended(why) = self.queue_pair.event().await {
                return why;
            }
        }
    }
}

/// Direction of a command's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    None,
    Read,
    Write,
}

/// The header of a command that reads into this memory.
pub(crate) fn reads(memory: Advertised) -> IserHeader {
    IserHeader {
        read: Some(memory),
        write: None,
    }
}

/// The header of a command whose data is to be read from this memory.
pub(crate) fn writes(memory: Advertised) -> IserHeader {
    IserHeader {
        read: None,
        write: Some(memory),
    }
}
