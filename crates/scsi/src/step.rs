//! Steps of an accepted command at the backend.
//!
//! **Called by** transports, with all data of the step ([`Task::step`]). **Invariants**: a command of several steps is checked again
//! before each; its outcome has the residual of the whole command.

use crate::sense::{Sense, SenseKey};
use crate::status::{Refusal, Residual, Status};
use crate::task::{Cancel, Outcome, Task, Transfer};
use io::{IoBuf, Payload};

/// Result of a step of a command.
pub enum Step {
    /// A chunk was transferred, with its data for the initiator; the task continues with its next [`Task::piece`].
    Moved(Task, Payload),
    /// The command has ended.
    Ended(Outcome),
}

impl Task {
    /// Executes the command, or a chunk of it, with its data: a buffer of exactly the length of [`Task::piece`], or
    /// none. Keep the future until it ends, even if `cancel` was used.
    pub async fn step(mut self, data_out: Option<IoBuf>, cancel: Cancel) -> Step {
        match crate::commands::execute(&self, data_out, &cancel).await {
            Err(refusal) => Step::Ended(self.refused(refusal)),
            Ok(data) => {
                let room = self.expected.read.saturating_sub(self.done) as usize;
                let (end, moved) = match (self.transfer, self.piece()) {
                    (Transfer::Out(whole), Transfer::Out(n)) => (whole, n),
                    (Transfer::In(whole), Transfer::In(n)) => (whole.min(self.expected.read), n),
                    _ => (0, 0),
                };
                let is_last = self.command.part(0, 0).is_none() || self.done + moved >= end;
                let returned = data.len();
                let data = data.sub(0, returned.min(room));
                if is_last {
                    return Step::Ended(self.good(data, returned));
                }
                self.done += moved;
                Step::Moved(self, data)
            }
        }
    }

    /// Difference between the CDB's and the initiator's length, if `read` bytes were to be read.
    fn residual(&self, read: u64) -> Residual {
        match self.wanted {
            0 => Residual::of(read, self.expected.read.max(self.expected.write)),
            wanted => Residual::of(wanted.into(), self.expected.write),
        }
    }

    /// The outcome of a command whose last chunk returned `returned` bytes, of which `data` fits.
    fn good(&self, data: Payload, returned: usize) -> Outcome {
        let read = match (self.transfer, self.piece()) {
            (Transfer::In(whole), Transfer::In(n)) if n < whole => u64::from(whole),
            _ => returned as u64,
        };
        Outcome {
            data_in: data,
            ..Outcome::status(Status::Good, self.residual(read))
        }
    }

    /// The outcome of a refused command.
    fn refused(&self, refusal: Refusal) -> Outcome {
        let refusal = match refusal {
            // The offset of a miscompare counts from the start of the command's data.
            Refusal::Sense(s) if s.key == SenseKey::Miscompare => Refusal::Sense(Sense {
                information: s.information.map(|at| at + u64::from(self.done)),
                ..s
            }),
            other => other,
        };
        let descriptor = self.unit.as_ref().is_some_and(|u| u.descriptor_sense());
        Outcome::refused(refusal, descriptor, self.residual(self.done.into()))
    }
}
