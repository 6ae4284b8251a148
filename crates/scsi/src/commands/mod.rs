//! Execution of commands.
//!
//! **Owns** the checks before a command and the dispatch. **Called by** [`crate::Device::accept`] and
//! [`crate::Task::step`]. **Invariants**: access state, reservations, write protection, range and transfer limits
//! are checked before the backend is called, and again after waiting for data.

mod block;
mod common;
mod copy;
mod copy_results;
mod inquiry;
mod log;
mod mode;
mod provision;
mod report;
mod reserve;
mod verify;
mod vpd;

use crate::command::{Blocks, ByteCheck, Command};
use crate::device::AccessState;
use crate::limits::{
    COMPARE_AND_WRITE_BYTES_MAX, PARAMETER_LIST_MAX, TRANSFER_BYTES_MAX, WRITE_SAME_BLOCKS_MAX,
};
use crate::sense::{Asc, Sense, SenseKey};
use crate::status::Refusal;
use crate::task::{Cancel, Task, Transfer};
use crate::unit::Unit;
use backend::Geometry;
use common::{Result, check_range, check_writable, nothing, reply};
use io::{IoBuf, Payload};

/// The reservations that conflict with a command (SPC-4 table 64, SBC-3 table 13).
enum Conflict {
    /// None.
    Never,
    /// Only RESERVE by another nexus.
    WhileReserved,
    /// The command needs read access.
    Read,
    /// The command needs write access.
    Write,
}

fn conflict_of(command: &Command) -> Conflict {
    match command {
        Command::Inquiry { .. }
        | Command::ReportLuns { .. }
        | Command::RequestSense { .. }
        | Command::LogSense { .. }
        | Command::ReadCapacity10
        | Command::ReadCapacity16 { .. }
        | Command::GetLbaStatus { .. }
        | Command::Reserve
        | Command::Release
        | Command::PreventAllowMediumRemoval { prevent: 0 }
        | Command::StartStopUnit {
            start: true,
            power: 0,
            ..
        } => Conflict::Never,
        Command::TestUnitReady
        | Command::PersistentReserveIn { .. }
        | Command::PersistentReserveOut { .. }
        | Command::ReportTargetPortGroups { .. } => Conflict::WhileReserved,
        Command::Read(_)
        | Command::Verify(..)
        | Command::PreFetch { .. }
        | Command::ReadDefectData { .. }
        | Command::ModeSense { .. }
        | Command::ReceiveDiagnosticResults { .. }
        | Command::ReceiveCopyResults { .. }
        | Command::ReportTaskManagement { .. }
        | Command::ReportSupportedOpcodes { .. } => Conflict::Read,
        Command::Write(_)
        | Command::WriteAndVerify(..)
        | Command::OrWrite(_)
        | Command::CompareAndWrite(_)
        | Command::WriteSame(_)
        | Command::Unmap { .. }
        | Command::SynchronizeCache { .. }
        | Command::ModeSelect { .. }
        | Command::ExtendedCopy { .. }
        | Command::SetTargetPortGroups { .. }
        | Command::StartStopUnit { .. }
        | Command::PreventAllowMediumRemoval { .. }
        | Command::SendDiagnostic { .. } => Conflict::Write,
    }
}

/// Whether a command works in the standby and unavailable states (SPC-4 5.15.2.4.4).
fn works_in_standby(command: &Command) -> bool {
    matches!(
        command,
        Command::Inquiry { .. }
            | Command::ReportLuns { .. }
            | Command::RequestSense { .. }
            | Command::LogSense { .. }
            | Command::ModeSense { .. }
            | Command::ModeSelect { .. }
            | Command::PersistentReserveIn { .. }
            | Command::PersistentReserveOut { .. }
            | Command::ReceiveDiagnosticResults { .. }
            | Command::SendDiagnostic { .. }
            | Command::ReportSupportedOpcodes { .. }
            | Command::ReportTaskManagement { .. }
            | Command::ReportTargetPortGroups { .. }
            | Command::SetTargetPortGroups { .. }
    )
}

/// Whether a command changes user data.
fn changes_data(command: &Command) -> bool {
    matches!(
        command,
        Command::Write(_)
            | Command::WriteAndVerify(..)
            | Command::OrWrite(_)
            | Command::CompareAndWrite(_)
            | Command::WriteSame(_)
            | Command::Unmap { .. }
    )
}

/// Makes all checks that need no data, and returns the data transfer of the command.
pub(crate) fn check(task: &Task) -> Result<Transfer> {
    let command = &task.command;
    if let Some(unit) = &task.unit {
        check_state(task)?;
        let access = unit.access(&task.nexus);
        let allowed = match conflict_of(command) {
            Conflict::Never => true,
            Conflict::WhileReserved => !access.reserved,
            Conflict::Read => access.read,
            Conflict::Write => access.write,
        };
        if !allowed {
            return Err(Refusal::Conflict);
        }
        if !provision::is_thin(&unit.geometry()) {
            check_not_provisioning(command)?;
        }
        if changes_data(command) {
            check_writable(unit)?;
        }
    }
    transfer_of(task.unit.as_deref(), command)
}

fn check_state(task: &Task) -> Result<()> {
    let asc = match task.device.access_state(&task.nexus) {
        AccessState::ActiveOptimized | AccessState::ActiveNonOptimized => return Ok(()),
        AccessState::Standby => Asc::TARGET_PORT_IN_STANDBY_STATE,
        AccessState::Unavailable => Asc::TARGET_PORT_IN_UNAVAILABLE_STATE,
    };
    if works_in_standby(&task.command) {
        return Ok(());
    }
    Err(Sense::new(SenseKey::NotReady, asc).into())
}

/// Refuses commands of units without logical block provisioning management (SBC-3 5.27, 5.43).
fn check_not_provisioning(command: &Command) -> Result<()> {
    match command {
        Command::Unmap { .. } => Err(Sense::illegal(Asc::INVALID_OPCODE).into()),
        Command::WriteSame(same) if same.unmap => Err(Sense::field_in_cdb(1, Some(3)).into()),
        _ => Ok(()),
    }
}

/// Checks a range of blocks that one buffer must hold. Errors: also INVALID FIELD IN CDB, beyond the limit.
fn check_blocks(g: &Geometry, at: &Blocks, limit: u32) -> Result<u32> {
    check_range(g, at.lba, at.count.into())?;
    let bytes = u64::from(at.count) * u64::from(g.block_size);
    if bytes > u64::from(limit) {
        return Err(Sense::illegal(Asc::INVALID_FIELD_IN_CDB).into());
    }
    Ok(bytes as u32)
}

fn out(bytes: u32) -> Transfer {
    if bytes == 0 {
        Transfer::None
    } else {
        Transfer::Out(bytes)
    }
}

/// A parameter list of `list` bytes.
fn list_of(list: u32) -> Result<Transfer> {
    if list > PARAMETER_LIST_MAX {
        return Err(Sense::illegal(Asc::PARAMETER_LIST_LENGTH_ERROR).into());
    }
    Ok(out(list))
}

// tidy: flat dispatch
fn transfer_of(unit: Option<&Unit>, command: &Command) -> Result<Transfer> {
    let g = unit.map(Unit::geometry);
    let g = g.as_ref();
    let blocks = |at: &Blocks, limit| g.map_or(Ok(0), |g| check_blocks(g, at, limit));
    Ok(match command {
        Command::Read(at) => Transfer::In(blocks(at, TRANSFER_BYTES_MAX)?),
        Command::Write(at) | Command::WriteAndVerify(at, _) | Command::OrWrite(at) => {
            out(blocks(at, TRANSFER_BYTES_MAX)?)
        }
        Command::CompareAndWrite(at) => out(2 * blocks(at, COMPARE_AND_WRITE_BYTES_MAX)?),
        Command::Verify(at, ByteCheck::All) => out(blocks(at, TRANSFER_BYTES_MAX)?),
        Command::Verify(at, check) => {
            let g = g.ok_or(Refusal::Busy)?;
            check_range(g, at.lba, at.count.into())?;
            let one = *check == ByteCheck::One && at.count > 0;
            out(if one { g.block_size } else { 0 })
        }
        Command::WriteSame(same) => {
            let g = g.ok_or(Refusal::Busy)?;
            check_range(g, same.at.lba, same.at.count.into())?;
            // WSNZ: zero blocks do not mean the rest of the unit.
            if same.at.count == 0 || same.at.count > WRITE_SAME_BLOCKS_MAX {
                return Err(Sense::illegal(Asc::INVALID_FIELD_IN_CDB).into());
            }
            out(if same.no_data { 0 } else { g.block_size })
        }
        Command::SynchronizeCache { at, .. } | Command::PreFetch { at, .. } => {
            let g = g.ok_or(Refusal::Busy)?;
            check_range(g, at.lba, at.count.into())?;
            Transfer::None
        }
        Command::Unmap { list, .. }
        | Command::ModeSelect { list, .. }
        | Command::PersistentReserveOut { list, .. }
        | Command::ExtendedCopy { list, .. }
        | Command::SetTargetPortGroups { list }
        | Command::SendDiagnostic { list, .. } => list_of(*list)?,
        Command::ReadCapacity10 => Transfer::In(8),
        Command::RequestSense { allocation, .. }
        | Command::Inquiry { allocation, .. }
        | Command::ReportLuns { allocation, .. }
        | Command::ReadCapacity16 { allocation }
        | Command::GetLbaStatus { allocation, .. }
        | Command::ReadDefectData { allocation, .. }
        | Command::ModeSense { allocation, .. }
        | Command::LogSense { allocation, .. }
        | Command::PersistentReserveIn { allocation, .. }
        | Command::ReceiveCopyResults { allocation, .. }
        | Command::ReportSupportedOpcodes { allocation, .. }
        | Command::ReportTaskManagement { allocation, .. }
        | Command::ReportTargetPortGroups { allocation, .. }
        | Command::ReceiveDiagnosticResults { allocation, .. } => Transfer::In(*allocation),
        Command::TestUnitReady
        | Command::Reserve
        | Command::Release
        | Command::StartStopUnit { .. }
        | Command::PreventAllowMediumRemoval { .. } => Transfer::None,
    })
}

/// Executes a command whose data is here.
// tidy: flat dispatch
pub(crate) async fn execute(task: &Task, data: Option<IoBuf>, cancel: &Cancel) -> Result<Payload> {
    let (device, nexus) = (&task.device, &task.nexus);
    let Some(unit) = &task.unit else {
        return match task.command {
            Command::Inquiry { page, allocation } => {
                inquiry::without_unit(device, page, allocation)
            }
            Command::ReportLuns { select, allocation } => report::luns(task, select, allocation),
            Command::RequestSense {
                descriptor,
                allocation,
            } => {
                let sense = Sense::illegal(Asc::LOGICAL_UNIT_NOT_SUPPORTED);
                reply(sense.encode(descriptor), allocation)
            }
            _ => Err(Sense::illegal(Asc::LOGICAL_UNIT_NOT_SUPPORTED).into()),
        };
    };
    let data = match (task.piece(), data) {
        (Transfer::Out(n), Some(data)) if data.len() == n as usize => {
            check(task)?;
            Some(data)
        }
        (Transfer::Out(_), _) => {
            return Err(Sense::illegal(Asc::INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT).into());
        }
        (Transfer::None | Transfer::In(_), _) => None,
    };
    let list = data.as_deref().unwrap_or_default();
    match task.command_of_piece() {
        // SPC-4 6.47
        Command::TestUnitReady => nothing(),
        Command::RequestSense {
            descriptor,
            allocation,
        } => log::request_sense(task, unit, descriptor, allocation),
        Command::Inquiry {
            page: None,
            allocation,
        } => inquiry::standard(device, allocation),
        Command::Inquiry {
            page: Some(page),
            allocation,
        } => vpd::page(task, unit, page, allocation),
        Command::ReportLuns { select, allocation } => report::luns(task, select, allocation),
        Command::Read(at) => block::read(unit, at).await,
        Command::Write(at) => block::write(unit, at, data).await,
        Command::WriteAndVerify(at, check) => verify::write_and_verify(unit, at, check, data).await,
        Command::Verify(at, check) => verify::verify(unit, at, check, data, cancel).await,
        Command::OrWrite(at) => block::or_write(unit, at, data, cancel).await,
        Command::CompareAndWrite(at) => block::compare_and_write(unit, at, data).await,
        Command::WriteSame(same) => provision::write_same(unit, same, data, cancel).await,
        Command::Unmap { anchor, .. } => provision::unmap(unit, anchor, list, cancel).await,
        Command::SynchronizeCache { immediate, .. } => block::synchronize(unit, immediate).await,
        Command::PreFetch { at, immediate } => block::pre_fetch(unit, at, immediate, cancel).await,
        Command::ReadCapacity10 => provision::read_capacity_10(unit),
        Command::ReadCapacity16 { allocation } => provision::read_capacity_16(unit, allocation),
        Command::GetLbaStatus { lba, allocation } => {
            provision::lba_status(unit, lba, allocation, cancel).await
        }
        Command::ReadDefectData {
            long,
            format,
            allocation,
        } => log::defect_data(long, format, allocation),
        Command::ModeSense { .. } => mode::sense(unit, &task.command),
        Command::ModeSelect { .. } => mode::select(task, unit, list).await,
        Command::LogSense { .. } => log::sense(unit, &task.command).await,
        Command::PersistentReserveIn { action, allocation } => {
            reserve::report(unit, action, allocation)
        }
        Command::PersistentReserveOut { .. } => reserve::change(task, unit, list).await,
        Command::Reserve => reserve::reserve(unit, nexus),
        Command::Release => reserve::release(unit, nexus),
        Command::ExtendedCopy { lid4, .. } => {
            copy::extended_copy(task, unit, lid4, list, cancel).await
        }
        Command::ReceiveCopyResults {
            action,
            list_id,
            allocation,
        } => copy_results::results(task, unit, action, list_id, allocation),
        Command::ReportSupportedOpcodes {
            timeouts,
            what,
            allocation,
        } => report::opcodes(unit, timeouts, what, allocation),
        Command::ReportTaskManagement {
            extended,
            allocation,
        } => report::task_management(extended, allocation),
        Command::ReportTargetPortGroups {
            extended,
            allocation,
        } => report::target_port_groups(device, extended, allocation),
        Command::SetTargetPortGroups { .. } => report::set_target_port_groups(task, list),
        Command::StartStopUnit { .. } => log::start_stop(unit, &task.command).await,
        Command::PreventAllowMediumRemoval { prevent } => log::prevent(unit, nexus, prevent),
        Command::ReceiveDiagnosticResults { page, allocation } => {
            log::diagnostic_results(page, allocation)
        }
        Command::SendDiagnostic {
            self_test, code, ..
        } => log::send_diagnostic(self_test, code, list),
    }
}
