//! Fused Compare and Write (Base 3.4.2, NVM 3.1.1): two commands, adjacent in the queue, that act as one.
//!
//! **Called by** the dispatcher for every command of an I/O queue. **Invariants**: a half is never executed alone; when one
//! half fails the other is aborted (Aborted due to Failed Fused Command); a half without its neighbour is Aborted due to
//! Missing Fused Command; the replies leave in the order of the commands.

use super::command::Command;
use super::pairs::{FusedPairs, HalfState, Pair};
use super::phase::{QueueKind, Ready};
use super::request::{Blocks, IoRequest, Request};
use super::status::{Completion, of_storage};
use super::table::Awaiting;
use crate::wire::command::{Fuse, Nsid};
use crate::wire::status::Status;
use backend::{Durable, Lba, StorageError};
use io::IoBuf;

impl Ready<'_> {
    fn pairs(&mut self) -> Option<&mut FusedPairs> {
        match self.kind {
            QueueKind::Io { pairs, .. } => Some(pairs),
            QueueKind::Admin(_) => None,
        }
    }

    /// Brings a new command together with its neighbour. `None` if the command has been answered.
    #[inline]
    pub(super) fn pair_up(&mut self, command: Command) -> Option<Command> {
        let QueueKind::Io { pairs, .. } = &mut *self.kind else {
            return Some(command);
        };
        if !pairs.is_open() && command.fuse() == Fuse::Normal {
            return Some(command);
        }
        self.pair_up_fused(command)
    }

    fn pair_up_fused(&mut self, command: Command) -> Option<Command> {
        let (cid, fuse) = (command.cid(), command.fuse());
        let pairs = self.pairs()?;
        if pairs.is_open() {
            if fuse == Fuse::Second {
                pairs.join(cid);
                return Some(command);
            }
            if let Some(pair) = pairs.break_open() {
                self.execute_pair(pair);
            }
        }
        match fuse {
            Fuse::Normal => return Some(command),
            Fuse::First => {
                self.pairs()?.begin(cid);
                return Some(command);
            }
            Fuse::Second => self.fail(command, Status::ABORTED_MISSING_FUSED.dnr()),
            Fuse::Reserved => self.fail(command, Status::INVALID_FIELD.dnr()),
        }
        None
    }

    /// Ends a command that cannot be executed, and with it the pair it belongs to.
    pub(super) fn refuse_command(&mut self, command: Command, status: Status) {
        match self.pair_of(&command) {
            None => self.fail(command, status),
            Some(at) => self.park_half(at, command, |slot| HalfState::Refused { slot, status }),
        }
    }

    /// A half's data is here.
    pub(super) fn fused_command(&mut self, command: Command, data: IoBuf) {
        match self.pair_of(&command) {
            None => self.fail(command, Status::ABORTED_MISSING_FUSED.dnr()),
            Some(at) => self.park_half(at, command, |slot| HalfState::Ready { slot, data }),
        }
    }

    fn pair_of(&mut self, command: &Command) -> Option<usize> {
        if command.fuse() == Fuse::Normal {
            return None;
        }
        self.pairs()?.position(command.cid())
    }

    /// Parks a half whose state is known now, and executes or refuses its pair once no half is on its way.
    fn park_half(&mut self, at: usize, command: Command, state: impl FnOnce(usize) -> HalfState) {
        let cid = command.cid();
        let slot = self.exchange.table_mut().park(command, Awaiting::Fused);
        let ended = self
            .pairs()
            .and_then(|pairs| pairs.end_half(at, cid, state(slot)));
        if let Some(pair) = ended {
            self.execute_pair(pair);
        }
    }

    /// Executes or refuses a settled pair.
    fn execute_pair(&mut self, pair: Pair) {
        let Some(second) = pair.second else {
            return self.end_half(&pair.first.state, Status::ABORTED_MISSING_FUSED.dnr());
        };
        match (pair.first.state, second.state) {
            (
                HalfState::Ready {
                    slot: first_slot,
                    data: expected,
                },
                HalfState::Ready {
                    slot: second_slot,
                    data,
                },
            ) => self.compare_and_write((first_slot, expected), (second_slot, data)),
            (first, second) => {
                self.end_half(&first, Status::ABORTED_FAILED_FUSED.dnr());
                self.end_half(&second, Status::ABORTED_FAILED_FUSED.dnr());
            }
        }
    }

    /// Ends a half with its own status if it has one, else with `other`.
    fn end_half(&mut self, state: &HalfState, other: Status) {
        let (slot, status) = match state {
            HalfState::Pending => return,
            HalfState::Ready { slot, .. } => (*slot, other),
            HalfState::Refused { slot, status } => (*slot, *status),
        };
        if let Some(command) = self.unpark(slot) {
            self.fail(command, status);
        }
    }

    /// The namespace and the blocks of a parked half.
    fn blocks_of(&self, slot: usize) -> Option<(Nsid, Blocks)> {
        let command = &self.exchange.table().get(slot)?.command;
        match command.request() {
            Request::Io(IoRequest::Compare(blocks) | IoRequest::Write(blocks)) => {
                Some((command.nsid(), blocks))
            }
            _ => None,
        }
    }

    fn compare_and_write(
        &mut self,
        (first_slot, expected): (usize, IoBuf),
        (second_slot, data): (usize, IoBuf),
    ) {
        let (Some((compare_nsid, compare)), Some((nsid, write))) =
            (self.blocks_of(first_slot), self.blocks_of(second_slot))
        else {
            return;
        };
        let is_same =
            compare_nsid == nsid && compare.slba == write.slba && compare.count == write.count;
        let checked = if is_same {
            self.check_write(nsid, write)
        } else {
            Err(Status::INVALID_FIELD.dnr())
        };
        let view = match checked {
            Ok(checked) => checked.view,
            Err(status) => {
                for slot in [first_slot, second_slot] {
                    if let Some(command) = self.unpark(slot) {
                        self.fail(command, status);
                    }
                }
                return;
            }
        };
        // The slot of the second half is free for the whole execution.
        let Some(second) = self.unpark(second_slot) else {
            return;
        };
        let backend = view.ns.backend.clone();
        let is_durable = write.fua || !self.write_cache();
        let at = Lba(write.slba);
        self.wait_on(
            second,
            async move {
                backend.compare_and_write(at, expected, data).await?;
                if is_durable {
                    backend.flush().await.map(Some)
                } else {
                    Ok(None)
                }
            },
            move |ready, second, result: Result<Option<Durable>, StorageError>| {
                let Some(first) = ready.unpark(first_slot) else {
                    return second.abandon();
                };
                let (first_done, second_done) = outcomes(result);
                ready.complete(first, first_done);
                ready.complete(second, second_done);
            },
        );
    }
}

/// The completions of both halves.
fn outcomes(result: Result<Option<Durable>, StorageError>) -> (Completion, Completion) {
    match result {
        Ok(Some(proof)) => (Completion::SUCCESS, Completion::durable(proof)),
        Ok(None) => (Completion::SUCCESS, Completion::SUCCESS),
        Err(
            e @ (StorageError::Miscompare(_) | StorageError::MediaRead | StorageError::Corrupt),
        ) => (
            Completion::failed(of_storage(e)),
            Completion::failed(Status::ABORTED_FAILED_FUSED.dnr()),
        ),
        Err(e) => (Completion::SUCCESS, Completion::failed(of_storage(e))),
    }
}
