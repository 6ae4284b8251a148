//! SEQUENCE: the session of a COMPOUND, the reply cache, and limits of replies (§2.10.6, §18.46).
//!
//! **Called by** the execution of a COMPOUND, at its begin and its end, and around operations. **Invariants**: an operation that
//! changes something begins only if its result fits into the reply and, if the reply must be kept, into the cache.

use super::context::Compound;
use crate::client::{BackState, Begun, Session};
use crate::wire::callback::ReferringCall;
use crate::wire::channel::Sequence;
use crate::wire::{Header, Op, Status, operation};
use crate::xdr::{Mark, Reader};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::sync::Arc;

/// Bytes of a request that its fingerprint covers; and its length.
const FINGERPRINT_LEN: usize = 512;
/// Most bytes of the result of an operation that changes something.
const CHANGE_RESULT_MAX: usize = 160;

/// `SEQ4_STATUS_CB_PATH_DOWN`, `…_CB_PATH_DOWN_SESSION`, `…_BACKCHANNEL_FAULT`.
const CB_PATH_DOWN: u32 = 1;
const CB_PATH_DOWN_SESSION: u32 = 0x200;
const BACKCHANNEL_FAULT: u32 = 0x400;

/// Bytes of the results of a COMPOUND with nothing but SEQUENCE, without the tag.
const SEQUENCE_RESULT_LEN: usize = 12 + 8 + 16 + 5 * 4;

/// A slot that executes a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    number: u32,
    keeps_reply: bool,
}

/// The outcome of SEQUENCE.
pub(super) enum Sequenced {
    /// The rest is executed; the result of SEQUENCE is written.
    Execute(Slot),
    /// The results of the first execution.
    Replay(Arc<[u8]>),
    /// The results are complete: the status, and the number of results.
    Answered(Status, u32),
}

/// The SEQUENCE with which a COMPOUND begins, if it does. Reads nothing.
pub(super) fn first(header: &Header<'_>, reader: &Reader<'_>) -> Option<Sequence> {
    let mut ahead = *reader;
    match Op::decode(&mut ahead) {
        Ok((_, Ok(Op::Sequence(args)))) if header.operations > 0 => Some(args),
        _ => None,
    }
}

/// A hash of a request, without its RPC header.
fn fingerprint(header: &Header<'_>, operations: &[u8], credential_print: u64) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write_u64(credential_print);
    hasher.write_u32(header.operations);
    hasher.write(header.tag);
    hasher.write_usize(operations.len());
    hasher.write(&operations[..operations.len().min(FINGERPRINT_LEN)]);
    hasher.finish()
}

impl Compound<'_> {
    /// Executes SEQUENCE, which `reader` has not passed.
    pub(super) fn sequence(
        &mut self,
        args: &Sequence,
        header: &Header<'_>,
        reader: &Reader<'_>,
    ) -> Sequenced {
        let begun = self.begin_slot(args, header, reader);
        let status = begun.as_ref().err().copied().unwrap_or(Status::Ok);
        let counters = &self.context.shared.counters;
        counters.ended(operation::SEQUENCE, status);
        if let Ok(Begun::Replay(reply)) = &begun {
            counters
                .replays
                .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            return Sequenced::Replay(reply.clone());
        }
        self.out.u32(operation::SEQUENCE);
        self.out.u32(status.code());
        if status != Status::Ok {
            return Sequenced::Answered(status, 1);
        }
        let session = self.context.session.as_ref();
        let (highest, target) = session.map_or((0, 0), |s| s.highest_slots(args));
        self.out.fixed(&args.session);
        let flags = self.status_flags();
        for word in [args.sequence, args.slot, highest, target, flags] {
            self.out.u32(word);
        }
        match begun {
            Ok(Begun::Execute) => Sequenced::Execute(Slot {
                number: args.slot,
                keeps_reply: args.cache_this,
            }),
            // §18.46.3: the error is that of the next operation.
            _ => {
                let mut ahead = *reader;
                let _ = Op::decode(&mut ahead);
                let next = Op::decode(&mut ahead).map_or(operation::ILLEGAL, |(n, _)| n);
                self.out.u32(next);
                self.out.u32(Status::RetryUncachedRep.code());
                Sequenced::Answered(Status::RetryUncachedRep, 2)
            }
        }
    }

    /// `sr_status_flags` (§18.46.3).
    fn status_flags(&self) -> u32 {
        let Some(session) = &self.context.session else {
            return 0;
        };
        let revoked = session.revoked_flags();
        let back = match session.back().state() {
            BackState::Unwanted | BackState::Untried | BackState::Working => 0,
            BackState::Failed => BACKCHANNEL_FAULT,
            BackState::Down => {
                let all = self.context.shared.clients().sessions_of(session.client());
                let is_up = |session: &Arc<Session>| {
                    matches!(
                        session.back().state(),
                        BackState::Untried | BackState::Working
                    )
                };
                match all.iter().any(is_up) {
                    true => CB_PATH_DOWN_SESSION,
                    false => CB_PATH_DOWN_SESSION | CB_PATH_DOWN,
                }
            }
        };
        revoked | back
    }

    fn begin_slot(
        &mut self,
        args: &Sequence,
        header: &Header<'_>,
        reader: &Reader<'_>,
    ) -> Result<Begun, Status> {
        let session = self.context.shared.sessions.get(&args.session);
        let (tree, peer) = (&self.context.tree, self.context.peer);
        let standing = self
            .context
            .path
            .standing(tree.change, || tree.standing(peer));
        let protection = &self.context.protection;
        let session = session.filter(|s| s.admits(peer, standing, protection));
        let session = session.ok_or(Status::Badsession)?;
        if self.record.len() > session.fore().request_max as usize {
            return Err(Status::ReqTooBig);
        }
        if header.operations > session.fore().operations_max {
            return Err(Status::TooManyOps);
        }
        let shortest = SEQUENCE_RESULT_LEN + header.tag.len();
        if args.cache_this && shortest > session.fore().cached_max as usize {
            return Err(Status::RepTooBigToCache);
        }
        let print = fingerprint(header, reader.rest(), self.context.credential_print());
        let begun = session.begin(args, print, io::time::now())?;
        self.context.cached_max = args.cache_this.then(|| session.fore().cached_max as usize);
        self.context.request = Some(ReferringCall {
            session: args.session,
            sequence: args.sequence,
            slot: args.slot,
        });
        self.context.session = Some(session);
        Ok(begun)
    }

    /// The COMPOUND was executed: its results, which begin at `results`, are kept if they must be.
    pub(super) fn complete(&mut self, slot: Slot, results: Mark, operations: u32) {
        let Some(session) = &self.context.session else {
            return;
        };
        let len = self.out.len_since(results);
        let is_kept = slot.keeps_reply || operations == 1;
        let fits = len <= (session.fore().cached_max as usize).max(CHANGE_RESULT_MAX);
        let reply = (is_kept && fits).then(|| {
            let all = self.out.to_vec();
            Arc::from(&all[all.len() - len..])
        });
        session.complete(slot.number, reply, io::time::now());
    }

    /// Longest reply of the session that the connection can carry, bytes.
    fn reply_max(&self, session: &Session) -> usize {
        let most = session.fore().reply_max as usize;
        most.min(self.limits.reply_max)
    }

    /// Bytes that the results may still take, without the RPC header.
    pub(super) fn room(&self, results: Mark) -> usize {
        let Some(session) = &self.context.session else {
            return usize::MAX;
        };
        let most = self.reply_max(session);
        let most = self
            .context
            .cached_max
            .map_or(most, |cached| cached.min(most));
        most.saturating_sub(self.out.len_since(results))
    }

    /// Whether the results fit (§2.10.6.4). Errors: `RepTooBig`, `RepTooBigToCache`.
    pub(super) fn fits(&self, results: Mark) -> Result<(), Status> {
        self.fits_with(results, 0)
    }

    /// Whether the result of an operation that changes something will fit. Errors: `RepTooBig`, `RepTooBigToCache`.
    pub(super) fn fits_change(&self, results: Mark) -> Result<(), Status> {
        self.fits_with(results, CHANGE_RESULT_MAX)
    }

    fn fits_with(&self, results: Mark, more: usize) -> Result<(), Status> {
        let Some(session) = &self.context.session else {
            return Ok(());
        };
        let len = self.out.len_since(results) + more;
        if self.out.len() + more > self.reply_max(session) {
            return Err(Status::RepTooBig);
        }
        match self.context.cached_max {
            Some(most) if len > most => Err(Status::RepTooBigToCache),
            _ => Ok(()),
        }
    }
}
