//! A device with two RAM disks, and hosts that send it CDBs.

use backend::memory::MemoryDisk;
use io::Payload;
use io::sim::{Sim, SimConfig};
use scsi::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use uuid::Uuid;

pub(crate) const BLOCK: usize = 512;
pub(crate) const BLOCKS: u64 = 8192;

/// Runs a test in the simulated world.
pub(crate) fn run(test: impl Future<Output = ()> + 'static) {
    Sim::new(1, SimConfig::default()).block_on(test);
}

/// The methods of a `BlockBackend` that a test's disk delegates to the inner disk.
macro_rules! pass_on {
    ($disk:ident) => {
        fn generation(&self) -> u64 {
            self.$disk.generation()
        }
        fn usage(&self) -> Reply<backend::Usage> {
            self.$disk.usage()
        }
        fn deallocate(&self, at: Extent) -> Reply<()> {
            self.$disk.deallocate(at)
        }
        fn compare(&self, at: Lba, expected: IoBuf) -> Reply<()> {
            self.$disk.compare(at, expected)
        }
        fn compare_and_write(&self, at: Lba, expected: IoBuf, data: IoBuf) -> Reply<()> {
            self.$disk.compare_and_write(at, expected, data)
        }
        fn refresh(&self) -> Reply<Geometry> {
            self.$disk.refresh()
        }
        fn resize(&self, blocks: u64) -> Reply<Geometry> {
            self.$disk.resize(blocks)
        }
    };
}
pub(crate) use pass_on;

/// Counts how often its tasks were aborted.
#[derive(Default)]
pub(crate) struct Aborts(pub(crate) AtomicUsize);

impl TaskAborter for Aborts {
    fn abort_tasks(&self, _lun: Option<Lun>, _task_aborted: bool) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Keeps reservations in memory, across devices.
#[derive(Default)]
pub(crate) struct Kept(pub(crate) Mutex<Option<Vec<u8>>>, pub(crate) AtomicUsize);

impl ReservationStore for Kept {
    fn load(&self) -> Option<Vec<u8>> {
        self.0.lock().expect("no panic").clone()
    }

    /// Fails the number of times in the second field, but stores the bytes anyway.
    fn save(&self, bytes: &[u8]) -> std::io::Result<()> {
        let one_less = |n: usize| n.checked_sub(1);
        let order = Ordering::SeqCst;
        let failed = self.1.fetch_update(order, order, one_less).is_ok();
        *self.0.lock().expect("no panic") = Some(bytes.to_vec());
        match failed {
            true => Err(std::io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

pub(crate) fn lun(n: u16) -> Lun {
    Lun::new(n).expect("a small number")
}

pub(crate) fn config() -> DeviceConfig {
    let port = |n| TargetPort {
        relative: n,
        portal_group: n,
        group: n,
    };
    DeviceConfig {
        name: "iqn.2026-11.org.example:disks".into(),
        vendor: "VENDOR".into(),
        product: "PRODUCT".into(),
        revision: "1".into(),
        ports: vec![port(1), port(2)],
    }
}

pub(crate) fn unit(n: u128) -> UnitConfig {
    UnitConfig {
        backend: Arc::new(
            MemoryDisk::new(BLOCKS * BLOCK as u64, BLOCK as u32).expect("a RAM disk"),
        ),
        uuid: Uuid::from_u128(0x1234_5678_9abc_4def_8123_4567_89ab_0000 + n),
        serial: format!("S{n}"),
        read_only: false,
        reservations: Arc::new(NoReservationStore),
        threshold_percent: Some(80),
    }
}

pub(crate) fn device() -> Arc<Device> {
    let device = Device::new(config()).expect("valid");
    device.add_unit(lun(0), unit(0)).expect("new");
    device.add_unit(lun(1), unit(1)).expect("new");
    device
}

/// One initiator's nexus.
pub(crate) struct Host {
    pub(crate) device: Arc<Device>,
    pub(crate) nexus: Arc<Nexus>,
    pub(crate) aborts: Arc<Aborts>,
    pub(crate) lun: [u8; 8],
}

pub(crate) fn host_at(device: &Arc<Device>, n: u8, port: u16) -> Host {
    let initiator = InitiatorPort::iscsi("iqn.2026-11.org.example:host", [0, 2, 0x3d, 0, 0, n]);
    let aborts = Arc::new(Aborts::default());
    let nexus = device.login(initiator, port, aborts.clone()).expect("room");
    Host {
        device: device.clone(),
        nexus,
        aborts,
        lun: [0; 8],
    }
}

/// A host that has received the initial unit attentions of a nexus.
pub(crate) async fn host(device: &Arc<Device>, n: u8) -> Host {
    let mut h = host_at(device, n, 1);
    for lun in device.luns() {
        h.lun = lun.to_bytes();
        assert_eq!(h.send(&[0; 6]).await.asc(), 0x2900);
    }
    h.lun = [0; 8];
    h
}

/// The end of a command.
pub(crate) struct Reply {
    pub(crate) status: Status,
    pub(crate) sense: Vec<u8>,
    pub(crate) data: Vec<u8>,
    pub(crate) residual: Residual,
}

impl Reply {
    /// Additional sense code and qualifier, of either format; 0 without sense data.
    pub(crate) fn asc(&self) -> u16 {
        let at = match self.sense.first() {
            Some(0x72) => 2,
            Some(_) => 12,
            None => return 0,
        };
        u16::from_be_bytes([self.sense[at], self.sense[at + 1]])
    }

    pub(crate) fn good(self) -> Vec<u8> {
        assert_eq!(self.status, Status::Good, "sense {:02x?}", self.sense);
        self.data
    }

    /// The sense key and code of a CHECK CONDITION.
    pub(crate) fn check(&self) -> (u8, u16) {
        assert_eq!(self.status, Status::CheckCondition);
        let key = if self.sense[0] == 0x72 {
            self.sense[1]
        } else {
            self.sense[2]
        };
        (key, self.asc())
    }
}

/// Runs a command to its end, with data from the host; collects the data of all chunks before the last one.
pub(crate) async fn steps(task: Task, data: &[u8], read: &mut Vec<u8>) -> Outcome {
    let (mut task, mut data) = (task, data);
    loop {
        let buf = match task.piece() {
            Transfer::Out(n) => {
                let (piece, rest) = data.split_at(n as usize);
                data = rest;
                let mut buf = io::pool().alloc(piece.len()).await;
                buf.copy_from_slice(piece);
                Some(buf)
            }
            Transfer::None | Transfer::In(_) => None,
        };
        match task.step(buf, Cancel::default()).await {
            Step::Moved(rest, piece) => {
                read.extend(bytes(&piece));
                task = rest;
            }
            Step::Ended(outcome) => return outcome,
        }
    }
}

pub(crate) fn bytes(payload: &Payload) -> Vec<u8> {
    let mut out = vec![0; payload.len()];
    payload.copy_to(&mut out);
    out
}

impl Host {
    /// A command without data from the host, with room for 64 KiB.
    pub(crate) async fn send(&self, cdb: &[u8]) -> Reply {
        self.exchange(
            cdb,
            &[],
            ExpectedLength {
                read: 65536,
                write: 0,
            },
        )
        .await
    }

    /// A command with data from the host.
    pub(crate) async fn put(&self, cdb: &[u8], data: &[u8]) -> Reply {
        self.exchange(
            cdb,
            data,
            ExpectedLength {
                read: 0,
                write: data.len() as u32,
            },
        )
        .await
    }

    pub(crate) async fn exchange(
        &self,
        cdb: &[u8],
        data: &[u8],
        expected: ExpectedLength,
    ) -> Reply {
        let mut read = Vec::new();
        let accepted =
            self.device
                .accept(&self.nexus, self.lun, cdb, TaskAttribute::Simple, expected);
        let outcome = match accepted {
            Err(outcome) => outcome,
            Ok(task) => steps(task, data, &mut read).await,
        };
        read.extend(bytes(&outcome.data_in));
        assert!(
            read.len() <= expected.read as usize,
            "more data than was expected"
        );
        assert_eq!(
            outcome.status == Status::CheckCondition,
            !outcome.sense.is_empty()
        );
        Reply {
            status: outcome.status,
            sense: outcome.sense,
            data: read,
            residual: outcome.residual,
        }
    }

    pub(crate) async fn read(&self, lba: u32, blocks: u16) -> Vec<u8> {
        self.exchange(
            &cdb10(0x28, 0, lba, blocks),
            &[],
            ExpectedLength {
                read: 1 << 22,
                write: 0,
            },
        )
        .await
        .good()
    }

    pub(crate) async fn write(&self, lba: u32, data: &[u8]) {
        self.put(&cdb10(0x2a, 0, lba, (data.len() / BLOCK) as u16), data)
            .await
            .good();
    }
}

pub(crate) fn cdb10(code: u8, flags: u8, lba: u32, count: u16) -> [u8; 10] {
    let mut cdb = [0; 10];
    (cdb[0], cdb[1]) = (code, flags);
    cdb[2..6].copy_from_slice(&lba.to_be_bytes());
    cdb[7..9].copy_from_slice(&count.to_be_bytes());
    cdb
}

pub(crate) fn cdb12(code: u8, flags: u8, lba: u32, count: u32) -> [u8; 12] {
    let mut cdb = [0; 12];
    (cdb[0], cdb[1]) = (code, flags);
    cdb[2..6].copy_from_slice(&lba.to_be_bytes());
    cdb[6..10].copy_from_slice(&count.to_be_bytes());
    cdb
}

pub(crate) fn cdb16(code: u8, flags: u8, lba: u64, count: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1]) = (code, flags);
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&count.to_be_bytes());
    cdb
}

/// COMPARE AND WRITE.
pub(crate) fn caw(lba: u64, blocks: u8) -> [u8; 16] {
    let mut cdb = cdb16(0x89, 0, lba, 0);
    cdb[13] = blocks;
    cdb
}

pub(crate) const ILLEGAL: u8 = 5;
pub(crate) const INVALID_CDB: (u8, u16) = (ILLEGAL, 0x2400);
pub(crate) const OUT_OF_RANGE: (u8, u16) = (ILLEGAL, 0x2100);
