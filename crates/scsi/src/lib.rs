//! A SCSI target device over `BlockBackend`: SAM-5, SPC-4, SBC-3.
//!
//! **Owns** logical units, nexuses, unit attentions, reservations, and the execution of every CDB. **Called by**
//! transports: [`Device::login`] for each nexus, [`Device::accept`] for each command before any data moves, then
//! [`Task::execute`]. **Invariants**: independent of transports and sockets; payloads are not copied between
//! transport and backend; no length or index from a peer is used unchecked.

#![forbid(unsafe_code)]

mod attention;
mod cdb;
mod command;
mod commands;
mod device;
pub mod limits;
mod nexus;
mod opcode;
mod reservation;
mod sense;
mod status;
mod task;
mod task_set;
mod unit;

pub use command::{Blocks, ByteCheck, Command, PageControl, Reporting, WriteSame};
pub use device::{Device, DeviceConfig, DeviceError, TargetPort, UnitConfig};
pub use nexus::{InitiatorPort, Nexus, NexusId, TaskAborter};
pub use sense::{Asc, FieldPointer, Sense, SenseKey};
pub use session::reservation::{NoReservationStore, ReservationStore};
pub use status::{Residual, Status};
pub use task::{
    Cancel, ExpectedLength, Outcome, Step, Task, TaskAttribute, TaskManagement, Transfer,
};
pub use unit::Lun;
