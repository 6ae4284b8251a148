//! REPORT LUNS, REPORT SUPPORTED OPERATION CODES and TASK MANAGEMENT FUNCTIONS, target port groups.
//!
//! SPC-4 6.33, 6.35, 6.36, 6.37, 6.45.

use super::common::{Result, nothing, reply};
use super::provision::is_thin;
use crate::command::Reporting;
use crate::device::{AccessState, Device};
use crate::limits::TARGET_PORTS_MAX;
use crate::opcode::{self, Opcode, op};
use crate::sense::{Asc, Sense};
use crate::task::Task;
use crate::unit::Unit;
use io::Payload;

/// Length of a command timeouts descriptor, bytes.
const TIMEOUTS_LEN: usize = 12;
/// ATS, ATSS, CTSS, LURS, TRS: functions that a transport passes on or implements.
const TASK_MANAGEMENT_FUNCTIONS: u8 = 0xda;
/// AO_SUP, AN_SUP, S_SUP, U_SUP.
const SUPPORTED_STATES: u8 = 0x0f;
/// STATUS CODE: altered by SET TARGET PORT GROUPS.
const ALTERED_BY_COMMAND: u8 = 1;

/// REPORT LUNS; there are no well known logical units.
pub(super) fn luns(task: &Task, select: u8, allocation: u32) -> Result<Payload> {
    let luns = match select {
        0x00 | 0x02 => task.device.luns(),
        0x01 => Vec::new(),
        _ => return Err(Sense::field_in_cdb(2, None).into()),
    };
    task.nexus.attentions.clear(Asc::REPORTED_LUNS_CHANGED);
    let mut out = (luns.len() as u32 * 8).to_be_bytes().to_vec();
    out.extend([0; 4]);
    out.extend(luns.iter().flat_map(|lun| lun.to_bytes()));
    reply(out, allocation)
}

fn timeouts(out: &mut Vec<u8>, opcode: &Opcode) {
    out.extend([0, TIMEOUTS_LEN as u8 - 2, 0, 0]);
    // NOMINAL COMMAND PROCESSING TIMEOUT: not reported.
    out.extend([0; 4]);
    out.extend(opcode.timeout_s.to_be_bytes());
}

/// Whether a unit has a command of the table.
fn has(unit: &Unit, o: &Opcode) -> bool {
    o.code() != op::UNMAP || is_thin(&unit.geometry())
}

fn all_opcodes(unit: &Unit, with_timeouts: bool) -> Vec<u8> {
    let mut out = vec![0; 4];
    for o in opcode::OPCODES.iter().filter(|o| has(unit, o)) {
        let flags = u8::from(with_timeouts) << 1 | u8::from(o.action.is_some());
        let action = u16::from(o.action.unwrap_or(0)).to_be_bytes();
        out.extend([o.code(), 0, action[0], action[1], 0, flags]);
        out.extend((o.len() as u16).to_be_bytes());
        if with_timeouts {
            timeouts(&mut out, o);
        }
    }
    let len = (out.len() - 4) as u32;
    out[..4].copy_from_slice(&len.to_be_bytes());
    out
}

/// One command: SUPPORT 3 (as in the standard) with its usage data, or 1 (not supported).
fn one_opcode(opcode: Option<&Opcode>, with_timeouts: bool) -> Vec<u8> {
    let Some(o) = opcode else {
        return vec![0, 1, 0, 0];
    };
    let mut out = vec![0, 3 | u8::from(with_timeouts) << 7];
    out.extend((o.len() as u16).to_be_bytes());
    let usage = out.len();
    out.extend(o.usage);
    if let Some(action) = o.action {
        out[usage + 1] = out[usage + 1] & 0xe0 | action;
    }
    if with_timeouts {
        timeouts(&mut out, o);
    }
    out
}

pub(super) fn opcodes(
    unit: &Unit,
    with_timeouts: bool,
    what: Reporting,
    allocation: u32,
) -> Result<Payload> {
    let has_actions = |code| opcode::of_code(code).any(|o| o.action.is_some());
    let plain = |code| opcode::of_code(code).find(|o| o.action.is_none());
    let with_action =
        |code, action: u16| opcode::of_code(code).find(|o| o.action.map(u16::from) == Some(action));
    let found = match what {
        Reporting::All => return reply(all_opcodes(unit, with_timeouts), allocation),
        Reporting::Opcode(code) if has_actions(code) => {
            return Err(Sense::field_in_cdb(2, Some(2)).into());
        }
        Reporting::Opcode(code) => plain(code),
        Reporting::OpcodeAndAction(code, _) if plain(code).is_some() => {
            return Err(Sense::field_in_cdb(2, Some(2)).into());
        }
        Reporting::OpcodeAndAction(code, action) => with_action(code, action),
        Reporting::Either(code, action) if has_actions(code) => with_action(code, action),
        Reporting::Either(code, action) => plain(code).filter(|_| action == 0),
    };
    let found = found.filter(|o| has(unit, o));
    reply(one_opcode(found, with_timeouts), allocation)
}

pub(super) fn task_management(extended: bool, allocation: u32) -> Result<Payload> {
    let mut out = vec![TASK_MANAGEMENT_FUNCTIONS, 0, 0, 0];
    if extended {
        out[3] = 12;
        out.resize(16, 0);
    }
    reply(out, allocation)
}

pub(super) fn target_port_groups(
    device: &Device,
    extended: bool,
    allocation: u32,
) -> Result<Payload> {
    let ports = device.ports();
    let mut groups: Vec<u16> = ports.ports.iter().map(|p| p.group).collect();
    groups.sort_unstable();
    groups.dedup();
    let mut out = vec![0; 4];
    if extended {
        // RETURN DATA FORMAT 1, no implicit transition time.
        out.extend([0x10, 0, 0, 0]);
    }
    for group in groups {
        let members: Vec<u16> = ports
            .ports
            .iter()
            .filter(|p| p.group == group)
            .map(|p| p.relative)
            .collect();
        let altered = if ports.states.contains_key(&group) {
            ALTERED_BY_COMMAND
        } else {
            0
        };
        out.extend([ports.state(group) as u8, SUPPORTED_STATES]);
        out.extend(group.to_be_bytes());
        out.extend([0, altered, 0, members.len() as u8]);
        out.extend(
            members
                .iter()
                .flat_map(|m| [[0, 0], m.to_be_bytes()].concat()),
        );
    }
    let len = (out.len() - 4) as u32;
    out[..4].copy_from_slice(&len.to_be_bytes());
    reply(out, allocation)
}

/// SET TARGET PORT GROUPS: all descriptors are checked before the first one changes a state.
pub(super) fn set_target_port_groups(task: &Task, list: &[u8]) -> Result<Payload> {
    if list.is_empty() {
        return nothing();
    }
    let Some(descriptors) = list
        .get(4..)
        .filter(|d| d.len() % 4 == 0 && d.len() / 4 <= TARGET_PORTS_MAX)
    else {
        return Err(Sense::illegal(Asc::PARAMETER_LIST_LENGTH_ERROR).into());
    };
    let mut states = Vec::new();
    {
        let ports = task.device.ports();
        for (i, d) in descriptors.chunks_exact(4).enumerate() {
            let group = u16::from_be_bytes([d[2], d[3]]);
            let state = AccessState::from_code(d[0] & 0x0f)
                .ok_or(Sense::field_in_list(4 + 4 * i, Some(3)))?;
            if !ports.ports.iter().any(|p| p.group == group) {
                return Err(Sense::field_in_list(6 + 4 * i, None).into());
            }
            states.push((group, state));
        }
    }
    task.device.set_access_states(&states, task.nexus.id);
    nothing()
}
