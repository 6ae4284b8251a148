//! What disks say about their own wear.
//!
//! **Called by** the monitor, on a thread that may block. **Invariants**: bytes of a disk are checked before they are used; a
//! value that the disk does not have is none, never zero. NVM Express Base Specification 2.0, "SMART / Health Information";
//! OCP Datacenter NVMe SSD Specification 2.0, log C0h; ATA/ATAPI Command Set 4, "Device Statistics log".

use crate::api::DiskHealth;
use io::linux::{HealthDevice, HealthSource, LogPage, NoHealth};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;

/// SMART / Health Information of NVMe.
const NVME_HEALTH: u8 = 0x02;
/// The log of OCP's specification.
const OCP_HEALTH: u8 = 0xc0;
/// Bytes of a data unit of NVMe.
const DATA_UNIT: u64 = 512_000;
/// The device statistics of ATA, and their pages.
const ATA_STATISTICS: u8 = 0x04;
const ATA_GENERAL: u8 = 1;
const ATA_SOLID_STATE: u8 = 7;
/// Bytes of a logical sector as ATA's statistics count them; disks with other sectors are rare, and count these too.
const ATA_SECTOR: u64 = 512;

/// Why a log was not read.
#[derive(Debug)]
struct Unread {
    log: &'static str,
    error: io::Error,
}

/// A disk whose log this process may not read.
pub(super) struct Denied {
    pub(super) device: HealthDevice,
    /// The log, for people.
    pub(super) log: &'static str,
}

/// Asks the disk at `path`. Blocks.
pub(super) fn read(path: &Path) -> Result<DiskHealth, Denied> {
    HealthDevice::open(path).map_or_else(unopened, ask)
}

/// Asks the disk of an open file. Blocks.
pub(super) fn of(file: File) -> DiskHealth {
    let asked = HealthDevice::of(file).map_or_else(unopened, ask);
    asked.unwrap_or_else(|denied| unknown(format!("{}: permission denied", denied.log)))
}

fn ask(device: HealthDevice) -> Result<DiskHealth, Denied> {
    let read = match device.source() {
        HealthSource::Nvme => nvme(&device),
        HealthSource::Scsi => ata(&device),
    };
    match read {
        Ok(health) => Ok(health),
        Err(Unread {
            log,
            error: io::Error::Denied(_),
        }) => Err(Denied { device, log }),
        Err(Unread { log, error }) => Ok(unknown(format!("{log}: {error}"))),
    }
}

fn unopened(reason: NoHealth) -> Result<DiskHealth, Denied> {
    Ok(unknown(match reason {
        NoHealth::File => "a file: the disk below it is not asked".to_owned(),
        NoHealth::Kind(name) => format!("{name} is neither an NVMe nor a SCSI disk"),
        NoHealth::Failed(e) => format!("cannot be opened: {e}"),
    }))
}

/// Nothing is known, for this reason.
pub(super) fn unknown(reason: String) -> DiskHealth {
    DiskHealth {
        unknown: Some(reason),
        ..DiskHealth::default()
    }
}

fn nvme(device: &HealthDevice) -> Result<DiskHealth, Unread> {
    const LOG: &str = "NVMe health log";
    let page = device.nvme_log(NVME_HEALTH);
    let page = page.map_err(|error| Unread { log: LOG, error })?;
    let media_written = device.nvme_log(OCP_HEALTH).ok().and_then(|p| ocp(&p));
    Ok(DiskHealth {
        media_written,
        ..nvme_health(&page)
    })
}

/// A number of 128 bits; u64::MAX if it is larger.
fn wide(page: &LogPage, at: usize) -> u64 {
    let bytes = page[at..at + 16].try_into().expect("16 bytes");
    u64::try_from(u128::from_le_bytes(bytes)).unwrap_or(u64::MAX)
}

fn nvme_health(page: &LogPage) -> DiskHealth {
    DiskHealth {
        source: Some("nvme".into()),
        unknown: None,
        host_written: Some(wide(page, 48).saturating_mul(DATA_UNIT)),
        media_written: None,
        percentage_used: Some(page[5].into()),
        power_on_hours: Some(wide(page, 128)),
        rated_bytes: None,
    }
}

/// Bytes written to the medium, if the page is that of OCP's specification.
fn ocp(page: &LogPage) -> Option<u64> {
    const GUID: [u8; 16] = 0xafd5_14c9_7c6f_4f9c_a4f2_bfea_2810_afc5_u128.to_le_bytes();
    (page[496..512] == GUID).then(|| wide(page, 0))
}

fn ata(device: &HealthDevice) -> Result<DiskHealth, Unread> {
    const LOG: &str = "ATA device statistics";
    let unread = |error| Unread { log: LOG, error };
    let page = |number| device.ata_log(ATA_STATISTICS, number);
    let general = page(ATA_GENERAL).map_err(unread)?;
    let solid_state = page(ATA_SOLID_STATE).ok();
    let health = ata_health(&general, solid_state.as_ref());
    health.ok_or_else(|| unread(io::Error::from_errno(Errno::OPNOTSUPP.raw_os_error())))
}

/// Bytes of a statistic that the disk supports and has a value for.
fn statistic(page: &LogPage, at: usize) -> Option<u64> {
    /// Supported, and valid.
    const FLAGS: u8 = 0xc0;
    let bytes: [u8; 8] = page[at..at + 8].try_into().expect("8 bytes");
    let value = u64::from_le_bytes(bytes) & 0x0000_ffff_ffff_ffff;
    (bytes[7] & FLAGS == FLAGS).then_some(value)
}

/// The health of an ATA disk; none if a page is not the page that was asked for.
fn ata_health(general: &LogPage, solid_state: Option<&LogPage>) -> Option<DiskHealth> {
    if general[2] != ATA_GENERAL {
        return None;
    }
    let used = solid_state.filter(|p| p[2] == ATA_SOLID_STATE);
    Some(DiskHealth {
        source: Some("ata".into()),
        unknown: None,
        host_written: statistic(general, 24).map(|n| n.saturating_mul(ATA_SECTOR)),
        media_written: None,
        percentage_used: used.and_then(|p| statistic(p, 8)).map(|v| v & 0xff),
        power_on_hours: statistic(general, 16).map(|v| v & 0xffff_ffff),
        rated_bytes: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(page: &mut LogPage, at: usize, bytes: &[u8]) {
        page[at..at + bytes.len()].copy_from_slice(bytes);
    }

    #[test]
    fn the_health_log_of_nvme_is_read() {
        let mut page = [0; 512];
        page[5] = 103;
        put(&mut page, 48, &2_000_000u128.to_le_bytes());
        put(&mut page, 128, &9000u128.to_le_bytes());
        let health = nvme_health(&page);
        assert_eq!(health.host_written, Some(1_024_000_000_000));
        assert_eq!(health.percentage_used, Some(103));
        assert_eq!(health.power_on_hours, Some(9000));
        put(&mut page, 48, &[0xff; 16]);
        assert_eq!(nvme_health(&page).host_written, Some(u64::MAX));
    }

    #[test]
    fn a_vendors_page_counts_only_with_ocps_guid() {
        let mut page = [0; 512];
        put(&mut page, 0, &5_000_000u128.to_le_bytes());
        assert_eq!(ocp(&page), None);
        // from byte 496 on
        let guid = [
            0xc5, 0xaf, 0x10, 0x28, 0xea, 0xbf, 0xf2, 0xa4, 0x9c, 0x4f, 0x6f, 0x7c, 0xc9, 0x14,
            0xd5, 0xaf,
        ];
        put(&mut page, 496, &guid);
        assert_eq!(ocp(&page), Some(5_000_000));
    }

    #[test]
    fn the_statistics_of_ata_are_read_with_their_flags() {
        let (mut general, mut solid_state) = ([0; 512], [0; 512]);
        general[2] = 1;
        put(&mut general, 16, &[0x10, 0x27, 0, 0, 0, 0, 0, 0xc0]);
        put(&mut general, 24, &[0, 0, 0, 0x80, 0, 0, 0, 0xc0]);
        solid_state[2] = 7;
        put(&mut solid_state, 8, &[42, 0, 0, 0, 0, 0, 0, 0xc0]);
        let health = ata_health(&general, Some(&solid_state)).expect("a page");
        assert_eq!(health.power_on_hours, Some(10_000));
        assert_eq!(health.host_written, Some(0x8000_0000 * 512));
        assert_eq!(health.percentage_used, Some(42));
        // supported, but without a value
        general[31] = 0x80;
        let health = ata_health(&general, None).expect("a page");
        assert_eq!((health.host_written, health.percentage_used), (None, None));
        general[2] = 0;
        assert_eq!(ata_health(&general, None), None);
    }

    #[test]
    fn a_file_says_that_nothing_is_known() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let Ok(health) = read(file.path()) else {
            panic!("no log is read of a file");
        };
        assert_eq!(health.host_written, None);
        assert!(health.unknown.is_some_and(|u| u.contains("a file")));
    }
}
