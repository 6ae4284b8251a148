//! The back channel of one session: its slots, its connections, and its state as the client sees it (§2.10.3, §2.10.6).
//!
//! **Owns** [`BackChannel`] and [`BackSlots`]. **Called by** operations that set it up, by callbacks, and by SEQUENCE. **Invariants**:
//! a slot has one call at a time, with the sequence number behind that of its last call; a slot whose call has no known end is
//! not used for another call (§2.10.6.2): once all slots are, the channel has failed, and the client must make a new session.

use super::path::CallbackPath;
use crate::limits::{BACK_PATHS_MAX, BACK_SLOTS_MAX};
use crate::wire::channel::{CallbackSecurity, Channel};
use io::sync::lock;
use io::sync::oneshot::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};

/// Operations of a callback: CB_SEQUENCE, and another one.
const OPERATIONS: u32 = 2;

/// The state of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Its last call was answered, or there was none.
    Free,
    /// A call is under way.
    Calling,
    /// The end of its last call will never be known.
    Lost,
}

/// The place of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackSlot {
    /// The slot.
    pub number: u32,
    /// The sequence number of the call.
    pub sequence: u32,
    /// The highest slot with a call.
    pub highest: u32,
}

/// How a call ended for its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackEnd {
    /// The client executed CB_SEQUENCE.
    Executed,
    /// The call was not sent, or the client refused it without using the slot.
    NotExecuted,
    /// The connections ended, and no other one came.
    Unknown,
}

/// The slots of a back channel.
#[derive(Debug)]
pub struct BackSlots {
    slots: Vec<(Use, u32)>,
    /// Number of slots that the client wants to be used.
    target: usize,
}

impl BackSlots {
    /// `count` free slots.
    #[must_use]
    pub fn new(count: u32) -> Self {
        Self {
            slots: vec![(Use::Free, 0); count as usize],
            target: count as usize,
        }
    }

    /// A call begins on the lowest free slot, if there is one.
    pub fn begin(&mut self) -> Option<BackSlot> {
        let within = self.slots.iter().take(self.target);
        let at = within
            .into_iter()
            .position(|(usage, _)| *usage == Use::Free)?;
        let slot = &mut self.slots[at];
        *slot = (Use::Calling, slot.1.wrapping_add(1));
        let sequence = slot.1;
        let calling = self
            .slots
            .iter()
            .rposition(|(usage, _)| *usage == Use::Calling);
        Some(BackSlot {
            number: at as u32,
            sequence,
            highest: calling.unwrap_or(at) as u32,
        })
    }

    /// A call ended.
    pub fn end(&mut self, slot: &BackSlot, end: BackEnd) {
        let Some((usage, sequence)) = self.slots.get_mut(slot.number as usize) else {
            return;
        };
        (*usage, *sequence) = match end {
            BackEnd::Executed => (Use::Free, slot.sequence),
            BackEnd::NotExecuted => (Use::Free, slot.sequence.wrapping_sub(1)),
            BackEnd::Unknown => (Use::Lost, slot.sequence),
        };
    }

    /// The highest slot that the client wants to be used.
    pub fn set_target(&mut self, highest: u32) {
        self.target = (highest as usize).saturating_add(1).min(self.slots.len());
    }

    /// Whether no slot can be used again.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.slots.iter().all(|(usage, _)| *usage == Use::Lost)
    }
}

/// The program and the credential of callbacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallbackProgram {
    /// Program number.
    pub program: u32,
    /// Credential: AUTH_NONE or AUTH_SYS.
    pub security: CallbackSecurity,
}

impl CallbackProgram {
    /// The program with the first credential that is supported. `None` if none is.
    #[must_use]
    pub fn of(program: u32, security: &[CallbackSecurity]) -> Option<Self> {
        let security = security
            .iter()
            .find(|one| **one != CallbackSecurity::Gss)?
            .clone();
        Some(Self { program, security })
    }
}

/// The state of a back channel, as SEQUENCE shows it (§18.46.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackState {
    /// The client never asked for one.
    Unwanted,
    /// No connection carries callbacks.
    Down,
    /// There is a connection; whether the client answers is not known.
    Untried,
    /// The client answers.
    Working,
    /// The sequence numbers of all slots are lost.
    Failed,
}

#[derive(Debug)]
struct State {
    program: Option<CallbackProgram>,
    is_wanted: bool,
    has_failed: bool,
    slots: BackSlots,
    paths: Vec<Arc<CallbackPath>>,
    /// Calls that wait for the next connection.
    waiting: Vec<Sender<Arc<CallbackPath>>>,
}

/// The back channel of a session.
#[derive(Debug)]
pub struct BackChannel {
    limits: Channel,
    minor: u32,
    state: Mutex<State>,
}

impl BackChannel {
    /// A channel without connections, for calls of this minor version.
    pub(super) fn new(limits: Channel, minor: u32, program: Option<CallbackProgram>) -> Self {
        Self {
            limits,
            minor,
            state: Mutex::new(State {
                program,
                is_wanted: false,
                has_failed: false,
                slots: BackSlots::new(limits.slots.min(BACK_SLOTS_MAX)),
                paths: Vec::new(),
                waiting: Vec::new(),
            }),
        }
    }

    /// The limits that were granted.
    pub fn limits(&self) -> &Channel {
        &self.limits
    }

    /// The minor version of calls.
    pub fn minor(&self) -> u32 {
        self.minor
    }

    /// Whether callbacks are possible: the client named a credential that is supported, and calls fit.
    pub fn is_possible(&self) -> bool {
        self.limits.operations_max >= OPERATIONS
            && self.limits.slots > 0
            && lock(&self.state).program.is_some()
    }

    /// Program and credential.
    pub fn program(&self) -> Option<CallbackProgram> {
        lock(&self.state).program.clone()
    }

    /// Replaces program and credential (BACKCHANNEL_CTL).
    pub fn set_program(&self, program: CallbackProgram) {
        lock(&self.state).program = Some(program);
    }

    /// A connection may carry callbacks. The oldest one goes at [`BACK_PATHS_MAX`].
    pub fn bind(&self, path: &Arc<CallbackPath>) {
        path.revive();
        let mut state = lock(&self.state);
        state.is_wanted = true;
        state
            .paths
            .retain(|other| !other.is_closed() && !Arc::ptr_eq(other, path));
        if state.paths.len() >= BACK_PATHS_MAX {
            state.paths.remove(0);
        }
        state.paths.push(path.clone());
        for waiting in std::mem::take(&mut state.waiting) {
            waiting.send(path.clone());
        }
    }

    /// A connection may carry requests only.
    pub fn unbind(&self, path: &Arc<CallbackPath>) {
        let mut state = lock(&self.state);
        state.paths.retain(|other| !Arc::ptr_eq(other, path));
    }

    /// The connection for the next call: one on which the client answers, else any that is not known to be silent.
    pub fn path(&self) -> Option<Arc<CallbackPath>> {
        let state = lock(&self.state);
        let usable = || state.paths.iter().filter(|path| path.is_usable());
        let answering = usable().find(|path| path.is_answering());
        answering.or_else(|| usable().next()).cloned()
    }

    /// The next connection that the client binds; `None` if the session ends before.
    pub fn next_path(&self) -> Receiver<Arc<CallbackPath>> {
        let (sender, receiver) = oneshot::channel();
        lock(&self.state).waiting.push(sender);
        receiver
    }

    /// The session ended: no connection will come.
    pub(super) fn destroy(&self) {
        let mut state = lock(&self.state);
        state.paths.clear();
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
    }

    /// A call begins; `None` if all slots have calls.
    pub fn begin(&self) -> Option<BackSlot> {
        lock(&self.state).slots.begin()
    }

    /// A call ended.
    pub fn end(&self, slot: &BackSlot, end: BackEnd) {
        lock(&self.state).slots.end(slot, end);
    }

    /// The client wants slots up to this one to be used.
    pub fn set_target(&self, highest: u32) {
        lock(&self.state).slots.set_target(highest);
    }

    /// The client and the server disagree about slots: no call can be made any more.
    pub fn fail(&self) {
        lock(&self.state).has_failed = true;
    }

    /// Its state.
    pub fn state(&self) -> BackState {
        let state = lock(&self.state);
        if !state.is_wanted {
            return BackState::Unwanted;
        }
        if state.has_failed || state.slots.is_lost() {
            return BackState::Failed;
        }
        let mut usable = state
            .paths
            .iter()
            .filter(|path| path.is_usable())
            .peekable();
        match (
            usable.peek().is_some(),
            usable.any(|path| path.is_answering()),
        ) {
            (false, _) => BackState::Down,
            (true, false) => BackState::Untried,
            (true, true) => BackState::Working,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_used_one_call_at_a_time() {
        let mut slots = BackSlots::new(2);
        let first = slots.begin().unwrap();
        assert_eq!((first.number, first.sequence, first.highest), (0, 1, 0));
        let second = slots.begin().unwrap();
        assert_eq!((second.number, second.sequence, second.highest), (1, 1, 1));
        assert_eq!(slots.begin(), None);
        slots.end(&first, BackEnd::Executed);
        let third = slots.begin().unwrap();
        assert_eq!((third.number, third.sequence, third.highest), (0, 2, 1));
        slots.end(&third, BackEnd::NotExecuted);
        assert_eq!(slots.begin().map(|slot| slot.sequence), Some(2));
    }

    #[test]
    fn a_slot_whose_call_is_lost_is_not_used_again() {
        let mut slots = BackSlots::new(2);
        let (first, second) = (slots.begin().unwrap(), slots.begin().unwrap());
        slots.end(&first, BackEnd::Unknown);
        assert!(slots.begin().is_none() && !slots.is_lost());
        slots.end(&second, BackEnd::Executed);
        assert_eq!(slots.begin().map(|slot| slot.number), Some(1));
        slots.end(&second, BackEnd::Unknown);
        assert!(slots.is_lost());
    }

    #[test]
    fn the_client_may_want_fewer_slots() {
        let mut slots = BackSlots::new(4);
        slots.set_target(0);
        let only = slots.begin().unwrap();
        assert_eq!(slots.begin(), None);
        slots.set_target(u32::MAX);
        assert_eq!(slots.begin().map(|slot| slot.number), Some(1));
        slots.end(&only, BackEnd::Executed);
        assert_eq!(slots.begin().map(|slot| slot.sequence), Some(2));
    }

    #[test]
    fn the_state_follows_the_connections() {
        let limits = Channel {
            header_padding: 0,
            request_max: 4096,
            reply_max: 4096,
            cached_max: 0,
            operations_max: 2,
            slots: 1,
        };
        let program = CallbackProgram::of(7, &[CallbackSecurity::Gss, CallbackSecurity::None]);
        let back = BackChannel::new(limits, 1, program);
        assert!(back.is_possible());
        assert_eq!(back.state(), BackState::Unwanted);
        let path = Arc::new(CallbackPath::new(|| {}));
        back.bind(&path);
        assert_eq!(back.state(), BackState::Untried);
        let _call = path.call(|_| Vec::new());
        path.answered(1, Vec::new());
        assert_eq!(back.state(), BackState::Working);
        path.missed();
        assert_eq!(
            (back.state(), back.path().is_some()),
            (BackState::Down, false)
        );
        let other = Arc::new(CallbackPath::new(|| {}));
        back.bind(&other);
        assert_eq!(back.state(), BackState::Untried);
        other.close();
        assert_eq!(back.state(), BackState::Down);
        back.bind(&path);
        let slot = back.begin().unwrap();
        back.end(&slot, BackEnd::Unknown);
        assert_eq!(back.state(), BackState::Failed);
        assert_eq!(CallbackProgram::of(7, &[CallbackSecurity::Gss]), None);
    }
}
