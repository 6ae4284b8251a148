//! Health logs of disks: pages that a disk keeps about itself, read through the kernel's pass-through commands.
//!
//! **Owns** the commands. **Called by** the server, on a thread that may block. **Invariants**: only commands that read a log
//! are sent; a disk is opened for reading, not exclusively, so that a pool may have it open; the kernel aborts a command
//! after [`WAIT_MAX`]. NVM Express Base Specification 2.0, "Get Log Page"; ATA/ATAPI Command Set 4, "READ LOG EXT"; SAT-4,
//! "ATA PASS-THROUGH (16)".

use std::fs::{File, Metadata, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use crate::{Error, Result};

/// Time limit of a command.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Bytes of a log page.
const PAGE: usize = 512;

/// A page of a log.
pub type LogPage = [u8; PAGE];

/// `_IOWR('N', 0x41, struct nvme_passthru_cmd)` of linux/nvme_ioctl.h.
const NVME_ADMIN: libc::c_ulong = 0xc048_4e41;
/// SG_IO of scsi/sg.h.
const SG_IO: libc::c_ulong = 0x2285;

/// A command of NVMe, as linux/nvme_ioctl.h lays it out.
#[repr(C)]
#[derive(Default)]
struct NvmeCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    words_2_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_len: u32,
    data_len: u32,
    words_10_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

/// A command of SCSI, as scsi/sg.h lays it out.
#[repr(C)]
struct SgCommand {
    interface: i32,
    direction: i32,
    command_len: u8,
    sense_len: u8,
    segments: u16,
    data_len: u32,
    data: *mut libc::c_void,
    command: *mut u8,
    sense: *mut u8,
    timeout_ms: u32,
    flags: u32,
    pack_id: i32,
    user: *mut libc::c_void,
    status: u8,
    masked_status: u8,
    message_status: u8,
    sense_written: u8,
    host_status: u16,
    driver_status: u16,
    residual: i32,
    duration: u32,
    info: u32,
}

const _: () = assert!(size_of::<NvmeCommand>() == 72);
const _: () = assert!(!cfg!(target_pointer_width = "64") || size_of::<SgCommand>() == 88);

/// The way to a disk's health logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthSource {
    /// An NVMe controller.
    Nvme,
    /// A disk of the SCSI layer, which may be an ATA disk.
    Scsi,
}

/// A block device that may have health logs.
#[derive(Debug)]
pub struct HealthDevice {
    file: File,
    source: HealthSource,
}

/// Why a path has no health logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoHealth {
    /// It is a file.
    File,
    /// It is a block device of this name, of a kind without health logs.
    Kind(String),
    /// It could not be opened.
    Failed(Error),
}

impl HealthDevice {
    /// Opens the disk at `path`. Blocks.
    ///
    /// # Errors
    /// See [`NoHealth`].
    pub fn open(path: &Path) -> std::result::Result<HealthDevice, NoHealth> {
        let meta = std::fs::metadata(path).map_err(failed)?;
        let source = kind_of(&meta)?;
        // a device that is being probed or has no medium must not block the open
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let file = opened.map_err(failed)?;
        Ok(HealthDevice { file, source })
    }

    /// The disk of an open file.
    ///
    /// # Errors
    /// See [`NoHealth`].
    pub fn of(file: File) -> std::result::Result<HealthDevice, NoHealth> {
        let source = kind_of(&file.metadata().map_err(failed)?)?;
        Ok(HealthDevice { file, source })
    }

    /// The open file, for a process that may do more.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The way to its logs.
    #[must_use]
    pub fn source(&self) -> HealthSource {
        self.source
    }

    /// The first 512 bytes of a log of the NVMe controller. Blocks.
    ///
    /// # Errors
    /// `Denied` without CAP_SYS_ADMIN; `Unsupported` if the controller has no such log.
    pub fn nvme_log(&self, log: u8) -> Result<LogPage> {
        const GET_LOG_PAGE: u8 = 0x02;
        /// The whole controller.
        const ALL: u32 = u32::MAX;
        let mut page = [0u8; PAGE];
        let mut command = NvmeCommand {
            opcode: GET_LOG_PAGE,
            namespace: ALL,
            address: page.as_mut_ptr() as u64,
            data_len: PAGE as u32,
            words_10_15: [(PAGE as u32 / 4 - 1) << 16 | u32::from(log), 0, 0, 0, 0, 0],
            timeout_ms: WAIT_MAX.as_millis() as u32,
            ..NvmeCommand::default()
        };
        let fd = self.file.as_raw_fd();
        // SAFETY: the kernel reads and writes the local command, and writes at most `data_len` bytes to `page`.
        match unsafe { libc::ioctl(fd, NVME_ADMIN as _, &raw mut command) } {
            0 => Ok(page),
            n if n < 0 => Err(std::io::Error::last_os_error().into()),
            // a status of the controller
            _ => Err(Error::Unsupported(libc::EOPNOTSUPP)),
        }
    }

    /// A page of an ATA disk's log. Blocks.
    ///
    /// # Errors
    /// `Denied`; `Unsupported` if it is no ATA disk, or has no such page.
    pub fn ata_log(&self, log: u8, page_number: u8) -> Result<LogPage> {
        let mut page = [0u8; PAGE];
        let (mut command, mut sense) = (read_log(log, page_number), [0u8; 32]);
        let mut sg = SgCommand {
            interface: i32::from(b'S'),
            // SG_DXFER_FROM_DEV
            direction: -3,
            command_len: command.len() as u8,
            sense_len: sense.len() as u8,
            segments: 0,
            data_len: PAGE as u32,
            data: page.as_mut_ptr().cast(),
            command: command.as_mut_ptr(),
            sense: sense.as_mut_ptr(),
            timeout_ms: WAIT_MAX.as_millis() as u32,
            flags: 0,
            pack_id: 0,
            user: std::ptr::null_mut(),
            status: 0,
            masked_status: 0,
            message_status: 0,
            sense_written: 0,
            host_status: 0,
            driver_status: 0,
            residual: 0,
            duration: 0,
            info: 0,
        };
        let fd = self.file.as_raw_fd();
        // SAFETY: all pointers are to local buffers of the lengths given, which live until the call returns.
        if unsafe { libc::ioctl(fd, SG_IO as _, &raw mut sg) } != 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        let is_good = sg.status == 0 && sg.host_status == 0 && sg.driver_status == 0;
        match is_good && sg.residual == 0 {
            true => Ok(page),
            false => Err(Error::Unsupported(libc::EOPNOTSUPP)),
        }
    }
}

fn failed(e: std::io::Error) -> NoHealth {
    NoHealth::Failed(e.into())
}

/// The way to the logs of a file with this metadata.
fn kind_of(meta: &Metadata) -> std::result::Result<HealthSource, NoHealth> {
    if !meta.file_type().is_block_device() {
        return Err(NoHealth::File);
    }
    let (major, minor) = (libc::major(meta.rdev()), libc::minor(meta.rdev()));
    let link = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}")).map_err(failed)?;
    source_of(&link).map_err(NoHealth::Kind)
}

/// ATA PASS-THROUGH (16) with READ LOG EXT of one page.
fn read_log(log: u8, page: u8) -> [u8; 16] {
    /// PIO data-in, 48 bits.
    const PROTOCOL: u8 = 4 << 1 | 1;
    /// From the device, in blocks, as many as the sector count says.
    const TRANSFER: u8 = 1 << 3 | 1 << 2 | 2;
    const READ_LOG_EXT: u8 = 0x2f;
    let mut command = [0; 16];
    command[0] = 0x85;
    command[1] = PROTOCOL;
    command[2] = TRANSFER;
    command[6] = 1;
    command[8] = log;
    command[10] = page;
    command[14] = READ_LOG_EXT;
    command
}

/// The way to the logs of the block device that this link of `/sys/dev/block` names. Errors: its name, if its kind has none.
fn source_of(link: &Path) -> std::result::Result<HealthSource, String> {
    // a partition lies below its disk
    let mut parts = link.iter().map(|part| part.to_string_lossy());
    match parts.clone().find(|part| is_disk(part)) {
        Some(disk) if disk.starts_with("nvme") => Ok(HealthSource::Nvme),
        Some(_) => Ok(HealthSource::Scsi),
        None => Err(parts.next_back().unwrap_or_default().into_owned()),
    }
}

/// Whether this is the name of a namespace of NVMe, or of a SCSI disk.
fn is_disk(name: &str) -> bool {
    let is_number = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let is_namespace = |rest: &str| {
        let parts = rest.split_once('n');
        parts.is_some_and(|(controller, number)| {
            // nvme0c1n2 is a path to nvme0n2
            controller.split('c').all(is_number) && is_number(number)
        })
    };
    let is_sd = |rest: &str| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_lowercase());
    name.strip_prefix("nvme").is_some_and(is_namespace)
        || name.strip_prefix("sd").is_some_and(is_sd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_the_logs_follows_from_the_device() {
        let nvme = "../../devices/pci0000:00/0000:00:03.0/nvme/nvme0/nvme0n1";
        for (link, expected) in [
            (nvme, Ok(HealthSource::Nvme)),
            (&format!("{nvme}/nvme0n1p2"), Ok(HealthSource::Nvme)),
            (
                "../../devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1",
                Ok(HealthSource::Nvme),
            ),
            (
                "../../devices/pci0000:00/ata1/host0/target0:0:0/0:0:0:0/block/sda/sda1",
                Ok(HealthSource::Scsi),
            ),
            (
                "../../devices/pci0000:00/0000:00:04.0/virtio1/block/vda",
                Err("vda".to_owned()),
            ),
            ("../../devices/virtual/block/dm-0", Err("dm-0".to_owned())),
            ("../../devices/virtual/block/loop3", Err("loop3".to_owned())),
        ] {
            assert_eq!(source_of(Path::new(link)), expected, "{link}");
        }
    }

    #[test]
    fn a_file_and_a_missing_device_have_no_logs() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let opened = HealthDevice::open(file.path());
        assert_eq!(opened.expect_err("a file"), NoHealth::File);
        let opened = HealthDevice::open(Path::new("/dev/no-such-disk"));
        assert_eq!(
            opened.expect_err("absent"),
            NoHealth::Failed(Error::NotFound)
        );
    }

    /// Bytes of SAT-4, table "ATA PASS-THROUGH (16)": device statistics, page 7.
    #[test]
    fn the_command_for_an_ata_log_is_as_specified() {
        let expected = [0x85, 9, 14, 0, 0, 0, 1, 0, 4, 0, 7, 0, 0, 0, 0x2f, 0];
        assert_eq!(read_log(4, 7), expected);
    }
}
