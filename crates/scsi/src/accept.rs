//! Acceptance of a command: every check that needs no data.
//!
//! **Called by** transports, once per command ([`Device::accept`]). **Invariants**: a command that is accepted has a transfer
//! within the limits, and a place in the task set of its unit.

use crate::command::Command;
use crate::device::Device;
use crate::lun::Lun;
use crate::nexus::Nexus;
use crate::sense::{Asc, Sense};
use crate::status::{Refusal, Residual};
use crate::task::{ExpectedLength, Outcome, Task, Transfer};
use crate::task_set::TaskAttribute;
use std::sync::Arc;

impl Device {
    /// Checks a command before any data moves. Errors: the outcome of a command that is refused at once.
    pub fn accept(
        self: &Arc<Device>,
        nexus: &Arc<Nexus>,
        lun: [u8; 8],
        cdb: &[u8],
        attribute: TaskAttribute,
        expected: ExpectedLength,
    ) -> Result<Task, Outcome> {
        let unit = Lun::parse(lun).and_then(|lun| self.unit(lun));
        let descriptor = unit.as_ref().is_some_and(|u| u.descriptor_sense());
        let nothing_moved = Residual::of(0, expected.read.max(expected.write));
        let refuse = |r: Refusal| Outcome::refused(r, descriptor, nothing_moved);
        let command = Command::parse(cdb);
        if let Some(unit) = &unit {
            self.notice_geometry(unit);
            let reports = command.as_ref().map_or(true, Command::reports_attentions);
            if let Some(asc) = reports.then(|| nexus.attentions.take(unit.lun.0)).flatten() {
                return Err(refuse(Sense::attention(asc).into()));
            }
        }
        let command = match command {
            Ok(c) if unit.is_some() || c.needs_no_unit() => c,
            Ok(_) => {
                return Err(refuse(
                    Sense::illegal(Asc::LOGICAL_UNIT_NOT_SUPPORTED).into(),
                ));
            }
            Err(sense) => return Err(refuse(sense.into())),
        };
        if attribute == TaskAttribute::Aca {
            return Err(refuse(
                Sense::illegal(Asc::INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT).into(),
            ));
        }
        let task = Task {
            device: self.clone(),
            nexus: nexus.clone(),
            unit,
            command,
            expected,
            transfer: Transfer::None,
            wanted: 0,
            done: 0,
            place: None,
        };
        let transfer = crate::commands::check(&task).map_err(refuse)?;
        let wanted = match transfer {
            Transfer::Out(n) => n,
            Transfer::None | Transfer::In(_) => 0,
        };
        if expected.write < wanted && task.command.may_be_cut() {
            return Ok(task.cut(wanted).placed(attribute));
        }
        let asc = if expected.write < wanted {
            Some(Asc::INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT)
        } else if expected.write > wanted && task.command.is_exact() {
            Some(Asc::INVALID_FIELD_IN_CDB)
        } else {
            None
        };
        if let Some(asc) = asc {
            let residual = Residual::of(u64::from(wanted), expected.write);
            return Err(Outcome::refused(
                Sense::illegal(asc).into(),
                descriptor,
                residual,
            ));
        }
        let task = Task {
            transfer,
            wanted,
            ..task
        };
        Ok(task.placed(attribute))
    }
}
