//! Command descriptor blocks: bytes to [`Command`], sans-I/O.
//!
//! **Called by** [`crate::Device::accept`]. **Invariants**: the length of a CDB is checked against its opcode before
//! a field is read; checks that need the unit's geometry are in `commands`. SPC-4 clause 6, SBC-3 clause 5.

use crate::command::{Blocks, ByteCheck, Command, PageControl, Reporting, WriteSame};
use crate::opcode::{self, op, sa};
use crate::sense::{Asc, Sense};

/// Reads big-endian fields; the CDB's length was checked, a byte beyond it reads as zero.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u8(&self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(0)
    }

    fn bit(&self, at: usize, bit: u8) -> bool {
        self.u8(at) >> bit & 1 == 1
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.u8(at), self.u8(at + 1)])
    }

    fn u24(&self, at: usize) -> u32 {
        u32::from_be_bytes([0, self.u8(at), self.u8(at + 1), self.u8(at + 2)])
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from(self.u16(at)) << 16 | u32::from(self.u16(at + 2))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from(self.u32(at)) << 32 | u64::from(self.u32(at + 4))
    }

    /// LOGICAL BLOCK ADDRESS and a length in a CDB of 10, 12 or 16 bytes; bit 3 of byte 1 is FUA where there is one.
    fn blocks(&self) -> Blocks {
        let fua = self.bit(1, 3);
        let (lba, count) = match self.u8(0) >> 5 {
            1 | 2 => (u64::from(self.u32(2)), u32::from(self.u16(7))),
            5 => (u64::from(self.u32(2)), self.u32(6)),
            _ => (self.u64(2), self.u32(10)),
        };
        Blocks { lba, count, fua }
    }

    fn plain_blocks(&self) -> Blocks {
        Blocks {
            fua: false,
            ..self.blocks()
        }
    }

    /// READ(6) and WRITE(6): a length of 0 is 256 blocks.
    fn blocks6(&self) -> Blocks {
        let count = match self.u8(4) {
            0 => 256,
            n => u32::from(n),
        };
        Blocks {
            lba: u64::from(self.u24(1) & 0x1f_ffff),
            count,
            fua: false,
        }
    }

    /// RDPROTECT, WRPROTECT, VRPROTECT and ORPROTECT must be zero: no unit is formatted with protection.
    fn unprotected(&self) -> Result<(), Sense> {
        if self.u8(1) >> 5 == 0 {
            Ok(())
        } else {
            Err(Sense::field_in_cdb(1, Some(7)))
        }
    }

    fn byte_check(&self) -> Result<ByteCheck, Sense> {
        match self.u8(1) >> 1 & 3 {
            0 => Ok(ByteCheck::None),
            1 => Ok(ByteCheck::All),
            3 => Ok(ByteCheck::One),
            _ => Err(Sense::field_in_cdb(1, Some(2))),
        }
    }

    fn page_control(&self) -> PageControl {
        match self.u8(2) >> 6 {
            0 => PageControl::Current,
            1 => PageControl::Changeable,
            2 => PageControl::Default,
            _ => PageControl::Saved,
        }
    }
}

impl Command {
    /// Reads a CDB. Errors: INVALID COMMAND OPERATION CODE, or INVALID FIELD IN CDB with the field.
    // tidy: flat dispatch
    pub fn parse(cdb: &[u8]) -> Result<Command, Sense> {
        let f = Fields(cdb);
        let code = f.u8(0);
        let info = opcode::find(cdb)?;
        if cdb.len() < info.len() {
            return Err(Sense::field_in_cdb(cdb.len() as u16, None));
        }
        // NACA (SAM-5 5.2): not supported.
        if f.bit(info.len() - 1, 2) {
            return Err(Sense::field_in_cdb(info.len() as u16 - 1, Some(2)));
        }
        let action = f.u8(1) & 0x1f;
        Ok(match code {
            // SPC-4 6.47
            op::TEST_UNIT_READY => Command::TestUnitReady,
            // SPC-4 6.39
            op::REQUEST_SENSE => Command::RequestSense {
                descriptor: f.bit(1, 0),
                allocation: f.u8(4).into(),
            },
            // SPC-4 6.6
            op::INQUIRY => inquiry(&f)?,
            // SPC-4 6.33
            op::REPORT_LUNS => Command::ReportLuns {
                select: f.u8(2),
                allocation: f.u32(6),
            },
            // SBC-3 5.11 to 5.15
            op::READ_6 => Command::Read(f.blocks6()),
            op::READ_10 | op::READ_12 | op::READ_16 => {
                f.unprotected()?;
                Command::Read(f.blocks())
            }
            // SBC-3 5.32 to 5.36
            op::WRITE_6 => Command::Write(f.blocks6()),
            op::WRITE_10 | op::WRITE_12 | op::WRITE_16 => {
                f.unprotected()?;
                Command::Write(f.blocks())
            }
            // SBC-3 5.38 to 5.41
            op::WRITE_AND_VERIFY_10 | op::WRITE_AND_VERIFY_12 | op::WRITE_AND_VERIFY_16 => {
                f.unprotected()?;
                let check = match f.byte_check()? {
                    ByteCheck::One => return Err(Sense::field_in_cdb(1, Some(2))),
                    check => check,
                };
                Command::WriteAndVerify(f.plain_blocks(), check)
            }
            // SBC-3 5.28 to 5.31
            op::VERIFY_10 | op::VERIFY_12 | op::VERIFY_16 => {
                f.unprotected()?;
                Command::Verify(f.plain_blocks(), f.byte_check()?)
            }
            // SBC-3 5.8
            op::ORWRITE_16 => {
                f.unprotected()?;
                Command::OrWrite(f.blocks())
            }
            // SBC-3 5.2
            op::COMPARE_AND_WRITE => {
                f.unprotected()?;
                let count = u32::from(f.u8(13));
                Command::CompareAndWrite(Blocks {
                    count,
                    ..f.blocks()
                })
            }
            // SBC-3 5.43, 5.44
            op::WRITE_SAME_10 | op::WRITE_SAME_16 => write_same(&f)?,
            // SBC-3 5.27
            op::UNMAP => Command::Unmap {
                anchor: f.bit(1, 0),
                list: f.u16(7).into(),
            },
            // SBC-3 5.25, 5.26
            op::SYNCHRONIZE_CACHE_10 | op::SYNCHRONIZE_CACHE_16 => Command::SynchronizeCache {
                at: f.plain_blocks(),
                immediate: f.bit(1, 1),
            },
            // SBC-3 5.9, 5.10
            op::PRE_FETCH_10 | op::PRE_FETCH_16 => Command::PreFetch {
                at: f.plain_blocks(),
                immediate: f.bit(1, 1),
            },
            // SBC-3 5.16
            op::READ_CAPACITY_10 => read_capacity_10(&f)?,
            // SBC-3 5.17, 5.5
            op::SERVICE_ACTION_IN_16 if action == sa::READ_CAPACITY_16 => Command::ReadCapacity16 {
                allocation: f.u32(10),
            },
            op::SERVICE_ACTION_IN_16 => Command::GetLbaStatus {
                lba: f.u64(2),
                allocation: f.u32(10),
            },
            // SBC-3 5.18, 5.19
            op::READ_DEFECT_DATA_10 => Command::ReadDefectData {
                long: false,
                format: f.u8(2) & 0x1f,
                allocation: f.u16(7).into(),
            },
            op::READ_DEFECT_DATA_12 => Command::ReadDefectData {
                long: true,
                format: f.u8(1) & 0x1f,
                allocation: f.u32(6),
            },
            // SPC-4 6.11 to 6.14
            op::MODE_SENSE_6 | op::MODE_SENSE_10 => mode_sense(&f),
            op::MODE_SELECT_6 | op::MODE_SELECT_10 => mode_select(&f),
            // SPC-4 6.8
            op::LOG_SENSE => {
                // SP: nothing is saved.
                if f.bit(1, 0) {
                    return Err(Sense::field_in_cdb(1, Some(0)));
                }
                Command::LogSense {
                    control: f.page_control(),
                    page: f.u8(2) & 0x3f,
                    subpage: f.u8(3),
                    pointer: f.u16(5),
                    allocation: f.u16(7).into(),
                }
            }
            // SPC-4 6.15, 6.16
            op::PERSISTENT_RESERVE_IN => Command::PersistentReserveIn {
                action,
                allocation: f.u16(7).into(),
            },
            op::PERSISTENT_RESERVE_OUT => Command::PersistentReserveOut {
                action,
                scope: f.u8(2) >> 4,
                kind: f.u8(2) & 0xf,
                list: f.u32(5),
            },
            // SPC-2 7.21, 7.16
            op::RESERVE_6 | op::RESERVE_10 => {
                whole_unit(&f)?;
                Command::Reserve
            }
            op::RELEASE_6 | op::RELEASE_10 => {
                whole_unit(&f)?;
                Command::Release
            }
            // SPC-4 6.4, 6.5
            op::EXTENDED_COPY => Command::ExtendedCopy {
                lid4: action == sa::EXTENDED_COPY_LID4,
                list: f.u32(10),
            },
            // SPC-4 6.20 to 6.26
            op::RECEIVE_COPY_RESULTS => {
                let lid4 = action == sa::RECEIVE_COPY_STATUS_LID4;
                let list_id = if lid4 { f.u32(2) } else { f.u8(2).into() };
                Command::ReceiveCopyResults {
                    action,
                    list_id,
                    allocation: f.u32(10),
                }
            }
            op::MAINTENANCE_IN => maintenance_in(&f, action)?,
            // SPC-4 6.45
            op::MAINTENANCE_OUT => Command::SetTargetPortGroups { list: f.u32(6) },
            // SBC-3 5.24
            op::START_STOP_UNIT => Command::StartStopUnit {
                immediate: f.bit(1, 0),
                power: f.u8(4) >> 4,
                no_flush: f.bit(4, 2),
                load_eject: f.bit(4, 1),
                start: f.bit(4, 0),
            },
            // SPC-4 6.18
            op::PREVENT_ALLOW_MEDIUM_REMOVAL => Command::PreventAllowMediumRemoval {
                prevent: f.u8(4) & 3,
            },
            // SPC-4 6.27, 6.42
            op::RECEIVE_DIAGNOSTIC_RESULTS => Command::ReceiveDiagnosticResults {
                page: f.bit(1, 0).then(|| f.u8(2)),
                allocation: f.u16(3).into(),
            },
            op::SEND_DIAGNOSTIC => Command::SendDiagnostic {
                self_test: f.bit(1, 2),
                code: f.u8(1) >> 5,
                list: f.u16(3).into(),
            },
            _ => return Err(Sense::illegal(Asc::INVALID_OPCODE)),
        })
    }
}

fn inquiry(f: &Fields<'_>) -> Result<Command, Sense> {
    let evpd = f.bit(1, 0);
    // CMDDT is obsolete; a page code without EVPD is invalid.
    if f.bit(1, 1) {
        return Err(Sense::field_in_cdb(1, Some(1)));
    }
    if !evpd && f.u8(2) != 0 {
        return Err(Sense::field_in_cdb(2, None));
    }
    Ok(Command::Inquiry {
        page: evpd.then(|| f.u8(2)),
        allocation: f.u16(3).into(),
    })
}

fn write_same(f: &Fields<'_>) -> Result<Command, Sense> {
    f.unprotected()?;
    let long = f.u8(0) == op::WRITE_SAME_16;
    let same = WriteSame {
        at: f.plain_blocks(),
        anchor: f.bit(1, 4),
        unmap: f.bit(1, 3),
        no_data: long && f.bit(1, 0),
    };
    // LBDATA and PBDATA are obsolete.
    if f.u8(1) >> 1 & 3 != 0 {
        return Err(Sense::field_in_cdb(1, Some(2)));
    }
    // ANCHOR needs UNMAP, and no unit has anchored blocks (ANC_SUP is 0).
    if same.anchor {
        return Err(Sense::field_in_cdb(1, Some(4)));
    }
    Ok(Command::WriteSame(same))
}

fn read_capacity_10(f: &Fields<'_>) -> Result<Command, Sense> {
    // PMI is obsolete, and without it the LBA must be zero.
    if f.bit(8, 0) {
        return Err(Sense::field_in_cdb(8, Some(0)));
    }
    if f.u32(2) != 0 {
        return Err(Sense::field_in_cdb(2, None));
    }
    Ok(Command::ReadCapacity10)
}

fn mode_sense(f: &Fields<'_>) -> Command {
    let long = f.u8(0) == op::MODE_SENSE_10;
    Command::ModeSense {
        long,
        no_descriptors: f.bit(1, 3),
        llbaa: long && f.bit(1, 4),
        control: f.page_control(),
        page: f.u8(2) & 0x3f,
        subpage: f.u8(3),
        allocation: if long {
            f.u16(7).into()
        } else {
            f.u8(4).into()
        },
    }
}

fn mode_select(f: &Fields<'_>) -> Command {
    let long = f.u8(0) == op::MODE_SELECT_10;
    Command::ModeSelect {
        long,
        page_format: f.bit(1, 4),
        save: f.bit(1, 0),
        list: if long {
            f.u16(7).into()
        } else {
            f.u8(4).into()
        },
    }
}

/// RESERVE and RELEASE: neither for a third party nor for extents.
fn whole_unit(f: &Fields<'_>) -> Result<(), Sense> {
    if f.u8(1) & 0x1f == 0 {
        Ok(())
    } else {
        Err(Sense::field_in_cdb(1, Some(4)))
    }
}

fn maintenance_in(f: &Fields<'_>, action: u8) -> Result<Command, Sense> {
    let allocation = f.u32(6);
    Ok(match action {
        // SPC-4 6.37
        sa::REPORT_TARGET_PORT_GROUPS => match f.u8(1) >> 5 {
            format @ 0..=1 => Command::ReportTargetPortGroups {
                extended: format == 1,
                allocation,
            },
            _ => return Err(Sense::field_in_cdb(1, Some(7))),
        },
        // SPC-4 6.35
        sa::REPORT_SUPPORTED_OPCODES => {
            let (code, action) = (f.u8(3), f.u16(4));
            let what = match f.u8(2) & 7 {
                0 => Reporting::All,
                1 => Reporting::Opcode(code),
                2 => Reporting::OpcodeAndAction(code, action),
                3 => Reporting::Either(code, action),
                _ => return Err(Sense::field_in_cdb(2, Some(2))),
            };
            Command::ReportSupportedOpcodes {
                timeouts: f.bit(2, 7),
                what,
                allocation,
            }
        }
        // SPC-4 6.36
        _ => Command::ReportTaskManagement {
            extended: f.bit(2, 7),
            allocation,
        },
    })
}
