//! The named limits of exports over iSCSI.

use std::ops::RangeInclusive;

/// Most targets in one configuration.
pub(super) const TARGETS_MAX: usize = 1024;
/// Highest LUN; LUNs are numbered from 0. Those from 256 on have the flat space addressing method (SAM-5 4.7.7.3).
pub(super) const LUN_MAX: u16 = scsi::limits::LUN_MAX;
/// Most logical units of one target.
pub(super) const LUNS_MAX: usize = scsi::limits::UNITS_MAX;
/// Thin provisioning thresholds, percent of the space.
pub(super) const THRESHOLD_PERCENT: RangeInclusive<u64> = 1..=99;
/// Most portal groups.
pub(super) const PORTAL_GROUPS_MAX: usize = 64;
/// Longest alias of a target and longest name for CHAP, bytes.
pub(super) const TARGET_TEXT_LEN_MAX: usize = 255;
/// Shortest and longest CHAP secret, bytes: less than 96 bits is refused (RFC 7143 9.2.1).
pub(super) const CHAP_SECRET_LEN: RangeInclusive<usize> = 12..=255;
