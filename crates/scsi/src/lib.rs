//! A SCSI target device over `BlockBackend`: SAM-5, SPC-4, SBC-3.
//!
//! **Owns** logical units, nexuses, unit attentions, reservations, and the execution of every CDB. **Called by**
//! transports: [`Device::login`] for each nexus, [`Device::accept`] for each command before any data moves, then
//! [`Task::step`]. **Invariants**: independent of transports and sockets; payloads are not copied between
//! transport and backend; no length or index from a peer is used unchecked.

#![forbid(unsafe_code)]

mod accept;
mod attention;
mod cdb;
mod command;
mod commands;
mod config;
mod copy_result;
mod device;
pub mod limits;
mod lun;
mod nexus;
mod opcode;
mod place;
mod reservation;
mod sense;
mod status;
mod step;
mod task;
mod task_set;
mod unit;

pub use command::{Blocks, ByteCheck, Command, PageControl, Reporting, WriteSame};
pub use config::{DeviceConfig, DeviceError, TargetPort, UnitConfig};
pub use device::{Device, TaskManagement};
pub use lun::Lun;
pub use nexus::{InitiatorPort, Nexus, NexusId, TaskAborter};
pub use sense::{Asc, FieldPointer, Sense, SenseKey};
pub use session::reservation::{NoReservationStore, RegisteredClient, ReservationStore, Reserved};
pub use status::{Residual, Status};
pub use step::Step;
pub use task::{Cancel, ExpectedLength, Outcome, Task, Transfer};
pub use task_set::TaskAttribute;
