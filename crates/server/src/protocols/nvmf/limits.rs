//! The named limits of exports over NVMe.

/// Most subsystems in one configuration.
pub(super) const SUBSYSTEMS_MAX: usize = 1024;
/// Highest namespace identifier, which clients may take for the number of namespaces.
pub(super) const NSID_MAX: u32 = 1024;
/// Longest serial number, bytes (Identify Controller, SN).
pub(super) const SERIAL_LEN_MAX: usize = 20;
