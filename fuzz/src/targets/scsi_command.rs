//! Random CDBs with random data, on a small device: each ends with an outcome, and releases its buffers.
//!
//! Each command is a byte for the length of its CDB, the CDB, a byte for the length of its data, the data. Commands
//! alternate between two nexuses, at the first or second logical unit.

use io::sim::{Sim, SimConfig};
use scsi::{
    Cancel, Device, DeviceConfig, ExpectedLength, InitiatorPort, Lun, NoReservationStore, Step, TargetPort, Task,
    TaskAborter, TaskAttribute, Transfer, UnitConfig,
};
use std::sync::Arc;

struct Ignore;

impl TaskAborter for Ignore {
    fn abort_tasks(&self, _lun: Option<Lun>, _task_aborted: bool) {}
}

fn device() -> Arc<Device> {
    let port = TargetPort { relative: 1, portal_group: 1, group: 1 };
    let device = Device::new(DeviceConfig {
        name: "iqn.2026-11.org.example:fuzz".into(),
        vendor: "V".into(),
        product: "P".into(),
        revision: "1".into(),
        ports: vec![port],
    })
    .expect("valid");
    for n in 0..2u16 {
        let unit = UnitConfig {
            backend: Arc::new(backend::memory::MemoryDisk::new(1 << 20, 512).expect("a RAM disk")),
            uuid: uuid::Uuid::from_u128(n.into()),
            serial: "S".into(),
            read_only: false,
            reservations: Arc::new(NoReservationStore),
            threshold_percent: Some(50),
        };
        device.add_unit(Lun::new(n).expect("small"), unit).expect("new");
    }
    device
}

async fn execute(task: Task, data: &[u8]) {
    let (mut task, mut read) = (task, 0);
    loop {
        let buf = match task.piece() {
            Transfer::Out(n) => {
                let mut buf = io::pool().alloc(n as usize).await;
                for (b, d) in buf.iter_mut().zip(data.iter().chain(std::iter::repeat(&0))) {
                    *b = *d;
                }
                Some(buf)
            }
            Transfer::None | Transfer::In(_) => None,
        };
        match task.step(buf, Cancel::default()).await {
            Step::Moved(rest, piece) => (task, read) = (rest, read + piece.len()),
            Step::Ended(outcome) => {
                assert!(read + outcome.data_in.len() <= 4096);
                return;
            }
        }
    }
}

async fn commands(input: Vec<u8>) {
    let device = device();
    let login = |n| device.login(InitiatorPort::iscsi("iqn.x", [n; 6]), 1, Arc::new(Ignore)).expect("room");
    let nexuses = [login(0), login(1)];
    let mut rest = &input[..];
    let mut turn = 0;
    while let Some((head, tail)) = rest.split_first() {
        let (cdb, tail) = tail.split_at(usize::from(head & 31).min(tail.len()));
        let (len, tail) = tail.split_first().unwrap_or((&0, &[]));
        let (data, tail) = tail.split_at(usize::from(*len).min(tail.len()));
        rest = tail;
        let write = if head & 64 == 0 { data.len() as u32 } else { 1 << 21 };
        let expected = ExpectedLength { read: 4096, write };
        let lun = [0, head >> 7, 0, 0, 0, 0, 0, 0];
        turn ^= usize::from(head >> 5 & 1);
        if let Ok(task) = device.accept(&nexuses[turn], lun, cdb, TaskAttribute::Simple, expected) {
            execute(task, data).await;
        }
    }
    assert_eq!(io::pool().stats().used, 0, "a buffer did not come back");
}

pub fn run(input: &[u8]) {
    let input = input.to_vec();
    Sim::new(1, SimConfig::default()).block_on(commands(input));
}
