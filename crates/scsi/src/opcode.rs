//! The table of supported commands.
//!
//! **Owns** operation codes, service actions and CDB usage data. **Called by** the parser and by REPORT SUPPORTED
//! OPERATION CODES, so that both agree. SPC-4 6.35.

use crate::sense::{Asc, Sense};

/// Operation codes.
#[allow(missing_docs)]
pub(crate) mod op {
    pub(crate) const TEST_UNIT_READY: u8 = 0x00;
    pub(crate) const REQUEST_SENSE: u8 = 0x03;
    pub(crate) const READ_6: u8 = 0x08;
    pub(crate) const WRITE_6: u8 = 0x0a;
    pub(crate) const INQUIRY: u8 = 0x12;
    pub(crate) const MODE_SELECT_6: u8 = 0x15;
    pub(crate) const RESERVE_6: u8 = 0x16;
    pub(crate) const RELEASE_6: u8 = 0x17;
    pub(crate) const MODE_SENSE_6: u8 = 0x1a;
    pub(crate) const START_STOP_UNIT: u8 = 0x1b;
    pub(crate) const RECEIVE_DIAGNOSTIC_RESULTS: u8 = 0x1c;
    pub(crate) const SEND_DIAGNOSTIC: u8 = 0x1d;
    pub(crate) const PREVENT_ALLOW_MEDIUM_REMOVAL: u8 = 0x1e;
    pub(crate) const READ_CAPACITY_10: u8 = 0x25;
    pub(crate) const READ_10: u8 = 0x28;
    pub(crate) const WRITE_10: u8 = 0x2a;
    pub(crate) const WRITE_AND_VERIFY_10: u8 = 0x2e;
    pub(crate) const VERIFY_10: u8 = 0x2f;
    pub(crate) const PRE_FETCH_10: u8 = 0x34;
    pub(crate) const SYNCHRONIZE_CACHE_10: u8 = 0x35;
    pub(crate) const READ_DEFECT_DATA_10: u8 = 0x37;
    pub(crate) const WRITE_SAME_10: u8 = 0x41;
    pub(crate) const UNMAP: u8 = 0x42;
    pub(crate) const LOG_SENSE: u8 = 0x4d;
    pub(crate) const MODE_SELECT_10: u8 = 0x55;
    pub(crate) const RESERVE_10: u8 = 0x56;
    pub(crate) const RELEASE_10: u8 = 0x57;
    pub(crate) const MODE_SENSE_10: u8 = 0x5a;
    pub(crate) const PERSISTENT_RESERVE_IN: u8 = 0x5e;
    pub(crate) const PERSISTENT_RESERVE_OUT: u8 = 0x5f;
    pub(crate) const EXTENDED_COPY: u8 = 0x83;
    pub(crate) const RECEIVE_COPY_RESULTS: u8 = 0x84;
    pub(crate) const READ_16: u8 = 0x88;
    pub(crate) const COMPARE_AND_WRITE: u8 = 0x89;
    pub(crate) const WRITE_16: u8 = 0x8a;
    pub(crate) const ORWRITE_16: u8 = 0x8b;
    pub(crate) const WRITE_AND_VERIFY_16: u8 = 0x8e;
    pub(crate) const VERIFY_16: u8 = 0x8f;
    pub(crate) const PRE_FETCH_16: u8 = 0x90;
    pub(crate) const SYNCHRONIZE_CACHE_16: u8 = 0x91;
    pub(crate) const WRITE_SAME_16: u8 = 0x93;
    pub(crate) const SERVICE_ACTION_IN_16: u8 = 0x9e;
    pub(crate) const REPORT_LUNS: u8 = 0xa0;
    pub(crate) const MAINTENANCE_IN: u8 = 0xa3;
    pub(crate) const MAINTENANCE_OUT: u8 = 0xa4;
    pub(crate) const READ_12: u8 = 0xa8;
    pub(crate) const WRITE_12: u8 = 0xaa;
    pub(crate) const WRITE_AND_VERIFY_12: u8 = 0xae;
    pub(crate) const VERIFY_12: u8 = 0xaf;
    pub(crate) const READ_DEFECT_DATA_12: u8 = 0xb7;
}

/// Service actions.
#[allow(missing_docs)]
pub(crate) mod sa {
    pub(crate) const READ_CAPACITY_16: u8 = 0x10;
    pub(crate) const GET_LBA_STATUS: u8 = 0x12;
    pub(crate) const REPORT_TARGET_PORT_GROUPS: u8 = 0x0a;
    pub(crate) const SET_TARGET_PORT_GROUPS: u8 = 0x0a;
    pub(crate) const REPORT_SUPPORTED_OPCODES: u8 = 0x0c;
    pub(crate) const REPORT_TASK_MANAGEMENT: u8 = 0x0d;
    pub(crate) const EXTENDED_COPY_LID1: u8 = 0x00;
    pub(crate) const EXTENDED_COPY_LID4: u8 = 0x01;
    pub(crate) const RECEIVE_COPY_STATUS_LID1: u8 = 0x00;
    pub(crate) const RECEIVE_COPY_DATA_LID1: u8 = 0x01;
    pub(crate) const RECEIVE_COPY_OPERATING_PARAMETERS: u8 = 0x03;
    pub(crate) const RECEIVE_COPY_FAILURE_DETAILS_LID1: u8 = 0x04;
    pub(crate) const RECEIVE_COPY_STATUS_LID4: u8 = 0x05;
}

/// A supported command.
#[derive(Debug)]
pub(crate) struct Opcode {
    pub(crate) action: Option<u8>,
    /// CDB USAGE DATA: the operation code, then the bits that are used; as long as the CDB.
    pub(crate) usage: &'static [u8],
    /// RECOMMENDED COMMAND TIMEOUT, seconds; 0 for none.
    pub(crate) timeout_s: u32,
}

impl Opcode {
    pub(crate) fn code(&self) -> u8 {
        self.usage[0]
    }

    /// CDB length, bytes.
    pub(crate) fn len(&self) -> usize {
        self.usage.len()
    }
}

const fn plain(usage: &'static [u8]) -> Opcode {
    Opcode {
        action: None,
        usage,
        timeout_s: 30,
    }
}

const fn with_action(action: u8, usage: &'static [u8]) -> Opcode {
    Opcode {
        action: Some(action),
        usage,
        timeout_s: 30,
    }
}

const fn slow(usage: &'static [u8]) -> Opcode {
    Opcode {
        action: None,
        usage,
        timeout_s: 60,
    }
}

/// Every supported command, by operation code and service action. The CONTROL byte's only bit is NACA, which must
/// be zero.
#[rustfmt::skip]
pub(crate) const OPCODES: &[Opcode] = &[
    plain(&[0x00, 0, 0, 0, 0, 4]),
    plain(&[0x03, 1, 0, 0, 0xff, 4]),
    plain(&[0x08, 0x1f, 0xff, 0xff, 0xff, 4]),
    plain(&[0x0a, 0x1f, 0xff, 0xff, 0xff, 4]),
    plain(&[0x12, 1, 0xff, 0xff, 0xff, 4]),
    plain(&[0x15, 0x11, 0, 0, 0xff, 4]),
    plain(&[0x16, 0, 0, 0, 0, 4]),
    plain(&[0x17, 0, 0, 0, 0, 4]),
    plain(&[0x1a, 0x08, 0xff, 0xff, 0xff, 4]),
    slow(&[0x1b, 0x01, 0, 0x0f, 0xf7, 4]),
    plain(&[0x1c, 0x01, 0xff, 0xff, 0xff, 4]),
    plain(&[0x1d, 0xf4, 0, 0xff, 0xff, 4]),
    plain(&[0x1e, 0, 0, 0, 0x03, 4]),
    plain(&[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 4]),
    plain(&[0x28, 0x18, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 4]),
    plain(&[0x2a, 0x18, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 4]),
    plain(&[0x2e, 0x12, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 4]),
    slow(&[0x2f, 0x16, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 4]),
    plain(&[0x34, 0x02, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 4]),
    slow(&[0x35, 0x02, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 4]),
    plain(&[0x37, 0, 0x1f, 0, 0, 0, 0, 0xff, 0xff, 4]),
    slow(&[0x41, 0x08, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 4]),
    slow(&[0x42, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 4]),
    plain(&[0x4d, 0, 0xff, 0xff, 0, 0xff, 0xff, 0xff, 0xff, 4]),
    plain(&[0x55, 0x11, 0, 0, 0, 0, 0, 0xff, 0xff, 4]),
    plain(&[0x56, 0, 0, 0, 0, 0, 0, 0, 0, 4]),
    plain(&[0x57, 0, 0, 0, 0, 0, 0, 0, 0, 4]),
    plain(&[0x5a, 0x18, 0xff, 0xff, 0, 0, 0, 0xff, 0xff, 4]),
    with_action(0, &[0x5e, 0x1f, 0, 0, 0, 0, 0, 0xff, 0xff, 4]),
    with_action(1, &[0x5e, 0x1f, 0, 0, 0, 0, 0, 0xff, 0xff, 4]),
    with_action(2, &[0x5e, 0x1f, 0, 0, 0, 0, 0, 0xff, 0xff, 4]),
    with_action(3, &[0x5e, 0x1f, 0, 0, 0, 0, 0, 0xff, 0xff, 4]),
    with_action(0, &[0x5f, 0x1f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 4]),
    with_action(1, &[0x5f, 0x1f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 4]),
    with_action(2, &[0x5f, 0x1f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 4]),
    with_action(3, &[0x5f, 0x1f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 4]),
    with_action(4, &[0x5f, 0x1f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 4]),
    with_action(5, &[0x5f, 0x1f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 4]),
    with_action(6, &[0x5f, 0x1f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 4]),
    with_action(7, &[0x5f, 0x1f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 4]),
    with_action(sa::EXTENDED_COPY_LID1, &[0x83, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 4]),
    with_action(sa::EXTENDED_COPY_LID4, &[0x83, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 4]),
    with_action(sa::RECEIVE_COPY_STATUS_LID1, &[0x84, 0x1f, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 4]),
    with_action(sa::RECEIVE_COPY_DATA_LID1, &[0x84, 0x1f, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 4]),
    with_action(sa::RECEIVE_COPY_OPERATING_PARAMETERS, &[0x84, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 4]),
    with_action(sa::RECEIVE_COPY_FAILURE_DETAILS_LID1, &[0x84, 0x1f, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 4]),
    with_action(sa::RECEIVE_COPY_STATUS_LID4, &[0x84, 0x1f, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 4]),
    plain(&[0x88, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 4]),
    plain(&[0x89, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0xff, 0, 4]),
    plain(&[0x8a, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 4]),
    plain(&[0x8b, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 4]),
    plain(&[0x8e, 0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 4]),
    slow(&[0x8f, 0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 4]),
    plain(&[0x90, 0x02, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 4]),
    slow(&[0x91, 0x02, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 4]),
    slow(&[0x93, 0x09, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 4]),
    with_action(sa::READ_CAPACITY_16, &[0x9e, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 4]),
    with_action(sa::GET_LBA_STATUS, &[0x9e, 0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 4]),
    plain(&[0xa0, 0, 0xff, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 4]),
    with_action(sa::REPORT_TARGET_PORT_GROUPS, &[0xa3, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 4]),
    with_action(sa::REPORT_SUPPORTED_OPCODES, &[0xa3, 0x1f, 0x87, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 4]),
    with_action(sa::REPORT_TASK_MANAGEMENT, &[0xa3, 0x1f, 0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 4]),
    with_action(sa::SET_TARGET_PORT_GROUPS, &[0xa4, 0x1f, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 4]),
    plain(&[0xa8, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 4]),
    plain(&[0xaa, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 4]),
    plain(&[0xae, 0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 4]),
    slow(&[0xaf, 0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 4]),
    plain(&[0xb7, 0x1f, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 4]),
];

/// The supported commands of an operation code.
pub(crate) fn of_code(code: u8) -> impl Iterator<Item = &'static Opcode> {
    OPCODES.iter().filter(move |o| o.code() == code)
}

/// The table entry of a CDB. Errors: INVALID COMMAND OPERATION CODE; INVALID FIELD IN CDB for an unknown service
/// action of a known code.
pub(crate) fn find(cdb: &[u8]) -> Result<&'static Opcode, Sense> {
    let invalid = Sense::illegal(Asc::INVALID_OPCODE);
    let code = *cdb.first().ok_or(invalid)?;
    let action = cdb.get(1).map_or(0, |b| b & 0x1f);
    let mut known = of_code(code).peekable();
    known.peek().ok_or(invalid)?;
    known
        .find(|o| o.action.is_none_or(|a| a == action))
        .ok_or(Sense::field_in_cdb(1, Some(4)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Command;

    #[test]
    fn every_command_in_the_table_is_parsed_and_no_other() {
        let mut cdb = [0; 16];
        for code in 0..=255u8 {
            for action in 0..32 {
                (cdb[0], cdb[1]) = (code, action);
                let invalid = Command::parse(&cdb).is_err_and(|s| s.asc == Asc::INVALID_OPCODE);
                assert_eq!(
                    invalid,
                    of_code(code).next().is_none(),
                    "{code:#x}/{action:#x}"
                );
            }
        }
        for o in OPCODES {
            (cdb[0], cdb[1]) = (o.code(), o.action.unwrap_or(0));
            assert!(Command::parse(&cdb[..o.len()]).is_ok(), "{o:?}");
            assert!(
                Command::parse(&cdb[..o.len() - 1]).is_err(),
                "{o:?} cut short"
            );
            cdb[o.len() - 1] = 4;
            assert!(Command::parse(&cdb).is_err(), "{o:?} with NACA");
            cdb = [0; 16];
        }
    }

    #[test]
    fn the_table_is_in_order_without_doubles() {
        assert!(OPCODES.is_sorted_by_key(|o| (o.code(), o.action)));
        for pair in OPCODES.windows(2) {
            assert!((pair[0].code(), pair[0].action) != (pair[1].code(), pair[1].action));
        }
    }
}
