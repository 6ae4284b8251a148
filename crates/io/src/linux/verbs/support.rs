//! The reasons why this machine has no RDMA for programs.
//!
//! **Called by** [`crate::rdma::support`].

use super::channel::CmChannel;
use super::library::load;
use crate::Error;
use crate::rdma::NoRdma;
use std::path::Path;

/// The connection manager's file for programs.
const CM_DEVICE: &str = "/dev/infiniband/rdma_cm";
/// The directory with an entry for each device.
const DEVICES: &str = "/sys/class/infiniband";

/// See [`crate::rdma::support`].
pub(crate) fn support() -> std::result::Result<(), NoRdma> {
    let library = load()?;
    match CmChannel::open_with(library) {
        Ok(_) => Ok(()),
        Err(e) => Err(reason(e, Path::new(DEVICES), Path::new(CM_DEVICE))),
    }
}

/// The reason for a refused channel: of a missing device and a missing module, the kernel reports only that something is missing.
fn reason(error: Error, devices: &Path, cm_device: &Path) -> NoRdma {
    let has_device = std::fs::read_dir(devices).is_ok_and(|mut all| all.next().is_some());
    match error {
        Error::Denied(_) => NoRdma::Denied,
        _ if !has_device => NoRdma::NoDevice,
        _ if !cm_device.exists() => NoRdma::NoModule,
        other => NoRdma::Other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_device_is_no_missing_module() {
        let dir = tempfile::tempdir().expect("a directory");
        let (devices, cm_device) = (dir.path().join("infiniband"), dir.path().join("rdma_cm"));
        let why = |error| reason(error, &devices, &cm_device);
        let gone = Error::Gone(libc::ENODEV);
        assert_eq!(why(gone), NoRdma::NoDevice);
        std::fs::create_dir_all(devices.join("mlx5_0")).expect("made");
        assert_eq!(why(gone), NoRdma::NoModule);
        assert_eq!(why(Error::Denied(libc::EACCES)), NoRdma::Denied);
        std::fs::write(&cm_device, "").expect("made");
        assert_eq!(why(gone), NoRdma::Other(gone));
    }
}
