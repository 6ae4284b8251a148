//! Asynchronous events of one controller (Base 5.2).
//!
//! **Owns** the state of each kind of event. **Called by** the controller when an event occurs, by the admin queue when it
//! answers an Async Event Request, and by Get Log Page, which clears the event of its page. **Invariants**: after an event
//! was reported, the next event of its kind is held back until the host has read the log page.

use crate::wire::features::{AsyncEvent, AsyncEventConfig};

/// Kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// A namespace was added, removed or changed.
    NamespaceChanged,
    /// An ANA group changed its state.
    AnaChanged,
    /// The discovery log page changed.
    DiscoveryChanged,
    /// There is a reservation notification.
    ReservationNotice,
}

impl EventKind {
    pub(crate) const ALL: [EventKind; 4] = [
        EventKind::NamespaceChanged,
        EventKind::AnaChanged,
        EventKind::DiscoveryChanged,
        EventKind::ReservationNotice,
    ];

    fn event(self) -> AsyncEvent {
        match self {
            EventKind::NamespaceChanged => AsyncEvent::NAMESPACE_CHANGED,
            EventKind::AnaChanged => AsyncEvent::ANA_CHANGED,
            EventKind::DiscoveryChanged => AsyncEvent::DISCOVERY_CHANGED,
            EventKind::ReservationNotice => AsyncEvent::RESERVATION_NOTICE,
        }
    }

    /// Whether the host asked for events of this kind. Reservation notices are not in Asynchronous Event Configuration: they
    /// have a mask for each namespace.
    fn is_wanted(self, wanted: AsyncEventConfig) -> bool {
        let bit = match self {
            EventKind::NamespaceChanged => AsyncEventConfig::NAMESPACE_ATTRIBUTE,
            EventKind::AnaChanged => AsyncEventConfig::ANA_CHANGE,
            EventKind::DiscoveryChanged => AsyncEventConfig::DISCOVERY_CHANGE,
            EventKind::ReservationNotice => return true,
        };
        wanted.contains(bit)
    }
}

/// The state of a kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum EventState {
    /// No event has occurred since the host last read the log page.
    #[default]
    Idle,
    /// An event has occurred; the next Async Event Request is answered with it.
    Pending,
    /// A request was answered with it, and the host has not read the log page.
    Reported,
}

/// The events of one controller.
#[derive(Default)]
pub(crate) struct Events([EventState; 4]);

impl Events {
    /// An event has occurred. Returns whether the host is still to be told.
    pub(crate) fn raise(&mut self, kind: EventKind) -> bool {
        let state = &mut self.0[kind as usize];
        if *state == EventState::Idle {
            *state = EventState::Pending;
        }
        *state == EventState::Pending
    }

    /// The event to answer a request with; `None` while no event that the host wants is pending.
    pub(crate) fn take(&mut self, wanted: AsyncEventConfig) -> Option<AsyncEvent> {
        let kind = EventKind::ALL
            .into_iter()
            .find(|k| self.0[*k as usize] == EventState::Pending && k.is_wanted(wanted))?;
        self.0[kind as usize] = EventState::Reported;
        Some(kind.event())
    }

    /// The host has read the log page. `more`: the page has entries that the host has not read.
    pub(crate) fn cleared(&mut self, kind: EventKind, more: bool) {
        self.0[kind as usize] = if more {
            EventState::Pending
        } else {
            EventState::Idle
        };
    }
}
