//! Fused Compare and Write (Base 3.4.2, NVM 3.1.1): two commands, adjacent in the queue, that act as one.
//!
//! **Owns** the pairs of a connection until they are executed. **Called by** the dispatcher for every command.
//! **Invariants**: a half is never executed alone; when one half fails the other is aborted (Aborted due to Failed
//! Fused Command); a half without its neighbour is Aborted due to Missing Fused Command; the replies leave in the
//! order of the commands.

use super::connection::Core;
use super::status::{Completion, of_storage};
use super::transfer::Stage;
use crate::wire::command::{Cid, Fuse, IoFlags, Sqe};
use crate::wire::opcode::{FABRICS, io as nvm};
use crate::wire::status::Status;
use backend::{Durable, Lba, StorageError};
use io::IoBuf;

/// A pair, from the arrival of its first half on.
pub(super) struct Pair {
    first: Half,
    second: Option<Half>,
    /// The command after the first half was not the second.
    missing: bool,
}

struct Half {
    sqe: Sqe,
    state: HalfState,
}

enum HalfState {
    /// Its data is on its way.
    Pending,
    /// Its data is here; the command is parked in this slot.
    Ready { slot: usize, data: IoBuf },
    /// It cannot be executed; parked likewise until the pair is complete.
    Refused { slot: usize, status: Status },
}

impl Half {
    fn new(sqe: &Sqe) -> Half {
        Half {
            sqe: *sqe,
            state: HalfState::Pending,
        }
    }

    fn is_settled(&self) -> bool {
        !matches!(self.state, HalfState::Pending)
    }

    fn slot(&self) -> Option<usize> {
        match self.state {
            HalfState::Pending => None,
            HalfState::Ready { slot, .. } | HalfState::Refused { slot, .. } => Some(slot),
        }
    }
}

impl Pair {
    fn is_settled(&self) -> bool {
        self.first.is_settled()
            && (self.missing || self.second.as_ref().is_some_and(Half::is_settled))
    }

    fn half(&mut self, cid: Cid) -> Option<&mut Half> {
        let second = self.second.iter_mut();
        std::iter::once(&mut self.first)
            .chain(second)
            .find(|h| h.sqe.cid() == cid && !h.is_settled())
    }
}

impl Core {
    /// Brings a new command together with its neighbour. False if the command has been answered.
    pub(super) fn pair_up(&mut self, sqe: &Sqe) -> bool {
        let io = self.queue.as_ref().is_some_and(|q| q.qid > 0);
        let fuse = if io && sqe.opcode != FABRICS {
            sqe.fuse()
        } else {
            Fuse::Normal
        };
        let open = self
            .pairs
            .last()
            .is_some_and(|p| p.second.is_none() && !p.missing);
        if !open && fuse == Fuse::Normal {
            return true;
        }
        let last = self.pairs.len().wrapping_sub(1);
        if open && fuse == Fuse::Second {
            self.pairs[last].second = Some(Half::new(sqe));
            return true;
        }
        if open {
            self.pairs[last].missing = true;
            let current = self.current.aside();
            self.settle(last);
            self.current = current;
        }
        match fuse {
            Fuse::First => self.pairs.push(Pair {
                first: Half::new(sqe),
                second: None,
                missing: false,
            }),
            Fuse::Second => {
                self.fail(sqe, Status::ABORTED_MISSING_FUSED.dnr());
                return false;
            }
            Fuse::Reserved => {
                self.fail(sqe, Status::INVALID_FIELD.dnr());
                return false;
            }
            Fuse::Normal => {}
        }
        true
    }

    /// Ends a command that cannot be executed, and with it the pair it belongs to.
    pub(super) fn refuse_command(&mut self, sqe: &Sqe, status: Status) {
        match self.pair_of(sqe) {
            None => self.fail(sqe, status),
            Some(at) => {
                let slot = self.park(sqe, Stage::Fused);
                if let Some(half) = self.pairs[at].half(sqe.cid()) {
                    half.state = HalfState::Refused { slot, status };
                }
                self.settle(at);
            }
        }
    }

    /// A half's data is here.
    pub(super) fn fused_command(&mut self, sqe: &Sqe, data: IoBuf) {
        let Some(at) = self.pair_of(sqe) else {
            return self.fail(sqe, Status::ABORTED_MISSING_FUSED.dnr());
        };
        let slot = self.park(sqe, Stage::Fused);
        if let Some(half) = self.pairs[at].half(sqe.cid()) {
            half.state = HalfState::Ready { slot, data };
        }
        self.settle(at);
    }

    fn pair_of(&mut self, sqe: &Sqe) -> Option<usize> {
        let io = self.queue.as_ref().is_some_and(|q| q.qid > 0);
        if !io || sqe.opcode == FABRICS || sqe.fuse() == Fuse::Normal {
            return None;
        }
        self.pairs
            .iter_mut()
            .position(|p| p.half(sqe.cid()).is_some())
    }

    /// Executes or refuses a pair once nothing of it is on its way.
    fn settle(&mut self, at: usize) {
        if !self.pairs[at].is_settled() {
            return;
        }
        let Pair {
            first,
            second,
            missing,
        } = self.pairs.remove(at);
        let Some(second) = second else {
            debug_assert!(
                missing,
                "only a pair without its second half is settled without it"
            );
            return self.end_half(&first, Status::ABORTED_MISSING_FUSED.dnr());
        };
        match (first, second) {
            (
                Half {
                    sqe: compare,
                    state:
                        HalfState::Ready {
                            slot: a,
                            data: expected,
                        },
                },
                Half {
                    sqe: write,
                    state: HalfState::Ready { slot: b, data },
                },
            ) => self.compare_and_write((&compare, a, expected), (&write, b, data)),
            (first, second) => {
                self.end_half(&first, Status::ABORTED_FAILED_FUSED.dnr());
                self.end_half(&second, Status::ABORTED_FAILED_FUSED.dnr());
            }
        }
    }

    /// Ends a half with its own status if it has one, else with `other`.
    fn end_half(&mut self, half: &Half, other: Status) {
        let status = match half.state {
            HalfState::Refused { status, .. } => status,
            HalfState::Ready { .. } | HalfState::Pending => other,
        };
        if let Some(slot) = half.slot()
            && self.unpark(slot).is_some()
        {
            self.fail(&half.sqe, status);
        }
    }

    fn compare_and_write(
        &mut self,
        (compare, first_slot, expected): (&Sqe, usize, IoBuf),
        (write, second_slot, data): (&Sqe, usize, IoBuf),
    ) {
        let same = compare.nsid() == write.nsid()
            && compare.slba() == write.slba()
            && compare.block_count() == write.block_count();
        let checked = if same {
            self.check_write(write)
        } else {
            Err(Status::INVALID_FIELD.dnr())
        };
        let view = match checked {
            Ok((view, _, _)) => view,
            Err(status) => {
                for (slot, sqe) in [(first_slot, compare), (second_slot, write)] {
                    if self.unpark(slot).is_some() {
                        self.fail(sqe, status);
                    }
                }
                return;
            }
        };
        let backend = view.ns.backend.clone();
        let stable = write.io_flags().contains(IoFlags::FUA) || !self.write_cache();
        let at = Lba(write.slba());
        let (compare, write) = (*compare, *write);
        // The second half's slot makes way for the one of the whole execution.
        if self.unpark(second_slot).is_none() {
            return;
        }
        self.wait_on(
            &write,
            async move {
                backend.compare_and_write(at, expected, data).await?;
                if stable {
                    backend.flush().await.map(Some)
                } else {
                    Ok(None)
                }
            },
            move |core, result: Result<Option<Durable>, StorageError>| {
                let second = core.current.aside();
                if core.unpark(first_slot).is_none() {
                    return;
                }
                let (first_done, second_done) = outcomes(compare.cid(), write.cid(), result);
                core.complete(first_done);
                core.current = second;
                core.complete(second_done);
            },
        );
    }
}

/// The replies to both halves.
fn outcomes(
    first: Cid,
    second: Cid,
    result: Result<Option<Durable>, StorageError>,
) -> (Completion, Completion) {
    let failed_first = |e| {
        let aborted = Completion::failed(second, Status::ABORTED_FAILED_FUSED.dnr());
        (Completion::failed(first, of_storage(e)), aborted)
    };
    match result {
        Ok(Some(proof)) => (
            Completion::success(first),
            Completion::durable(second, proof),
        ),
        Ok(None) => (Completion::success(first), Completion::success(second)),
        Err(
            e @ (StorageError::Miscompare(_) | StorageError::MediaRead | StorageError::Corrupt),
        ) => failed_first(e),
        Err(e) => (
            Completion::success(first),
            Completion::failed(second, of_storage(e)),
        ),
    }
}

/// Which opcode each half must have.
pub(super) fn is_fusable(sqe: &Sqe) -> bool {
    match sqe.fuse() {
        Fuse::Normal => true,
        Fuse::First => sqe.opcode == nvm::COMPARE,
        Fuse::Second => sqe.opcode == nvm::WRITE,
        Fuse::Reserved => false,
    }
}
