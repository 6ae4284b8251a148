//! Kernel and firmware versions with known defects.
//!
//! **Owns** the tables. **Called by** the checks of kernels and disks. **Invariants**: each entry has a public reference; a
//! distribution may have repaired its kernel under the same version, so a finding says where to look.

/// A range of kernels with a defect.
pub(super) struct BadKernel {
    /// First version that has it.
    first: [u32; 3],
    /// First version without it.
    fixed: [u32; 3],
    /// The defect.
    pub(super) defect: &'static str,
    /// Where it is described.
    pub(super) reference: &'static str,
}

const KERNELS: &[BadKernel] = &[
    BadKernel {
        first: [6, 1, 64],
        fixed: [6, 1, 66],
        defect: "direct writes to files on ext4 may end at a wrong offset: pools on files are damaged",
        reference: "https://bugs.debian.org/1057843",
    },
    BadKernel {
        first: [6, 4, 0],
        fixed: [6, 6, 5],
        defect: "use after free in io_uring's buffer rings (CVE-2024-0582): a local user becomes root",
        reference: "https://www.openwall.com/lists/oss-security/2024/04/24/3",
    },
];

/// A firmware with a defect.
pub(super) struct BadFirmware {
    /// Part of the model's name.
    model: &'static str,
    /// Versions.
    versions: &'static [&'static str],
    /// The defect.
    pub(super) defect: &'static str,
    /// What mends it.
    pub(super) remedy: &'static str,
    /// Where it is described.
    pub(super) reference: &'static str,
}

const FIRMWARES: &[BadFirmware] = &[
    BadFirmware {
        model: "Samsung SSD 980 PRO",
        versions: &["3B2QGXA7"],
        defect: "the disk counts media errors and becomes read-only for ever",
        remedy: "update to firmware 5B2QGXA7",
        reference: "https://www.tomshardware.com/news/samsung-980-pro-ssd-failures-firmware-update",
    },
    BadFirmware {
        model: "Samsung SSD 990 PRO",
        versions: &["0B2QJXD7"],
        defect: "the disk counts its spare blocks down without wear, and then becomes read-only",
        remedy: "update to firmware 1B2QJXD7 or later",
        reference: "https://rossmanngroup.com/problems/samsung-990-pro-firmware-degradation",
    },
];

/// The version of a kernel in a text such as `6.1.0-18-amd64` or `Linux version 6.6.4 (…)`.
fn numbers(text: &str) -> Option<[u32; 3]> {
    let mut parts = text.splitn(3, '.');
    let first = parts.next()?.parse().ok()?;
    let second = parts.next()?;
    let digits = |t: &str| {
        let end = t.find(|c: char| !c.is_ascii_digit()).unwrap_or(t.len());
        t[..end].parse().ok()
    };
    let third = parts.next().and_then(digits).unwrap_or(0);
    Some([first, digits(second)?, third])
}

/// The version of a running kernel. Debian's release is `6.1.0-18-amd64` for every stable release of 6.1; its version text
/// ends with the real one, as in `Debian 6.1.76-1 (2024-02-01)`.
pub(super) fn version(release: &str, version: &str) -> Option<[u32; 3]> {
    let debian = version.split_once(" Debian ").map(|(_, rest)| rest);
    debian.and_then(numbers).or_else(|| numbers(release))
}

/// Known defects of a kernel.
pub(super) fn kernel(version: [u32; 3]) -> impl Iterator<Item = &'static BadKernel> {
    KERNELS
        .iter()
        .filter(move |k| (k.first..k.fixed).contains(&version))
}

/// The known defect of a firmware.
pub(super) fn firmware(model: &str, version: &str) -> Option<&'static BadFirmware> {
    FIRMWARES
        .iter()
        .find(|f| model.contains(f.model) && f.versions.contains(&version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(numbers("6.1.0-18-amd64"), Some([6, 1, 0]));
        assert_eq!(numbers("6.18-rc1"), Some([6, 18, 0]));
        assert_eq!(numbers("99999999999.1.1"), None);
        assert_eq!(numbers("x"), None);
        let text = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.64-1 (2023-11-30)";
        assert_eq!(version("6.1.0-14-amd64", text), Some([6, 1, 64]));
        assert_eq!(version("6.6.4", "#1 SMP"), Some([6, 6, 4]));
    }
}
