//! Async Event Request (Base 5.2): which events wait, and which the host has been told of.
//!
//! **Owns** one small state per kind of event. **Called by** the controller when something happens, by the admin
//! queue when a request can be answered, and by Get Log Page, which clears. **Invariants**: after an event was
//! reported, the next of its kind is held back until the host has read the log page.

use crate::controller::admin::features::Features;
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

    /// The bit of Asynchronous Event Configuration that lets it through; reservation notices have a mask of
    /// their own.
    fn wanted_by(self, features: &Features) -> bool {
        let bit = match self {
            EventKind::NamespaceChanged => AsyncEventConfig::NAMESPACE_ATTRIBUTE,
            EventKind::AnaChanged => AsyncEventConfig::ANA_CHANGE,
            EventKind::DiscoveryChanged => AsyncEventConfig::DISCOVERY_CHANGE,
            EventKind::ReservationNotice => return true,
        };
        features.async_events.contains(bit)
    }
}

/// Where a kind of event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum EventState {
    /// Nothing has happened since the host last looked.
    #[default]
    Idle,
    /// It happened; the host is to be told with the next request.
    Pending,
    /// The host was told and has not read the log page.
    Reported,
}

/// The events of one controller.
#[derive(Default)]
pub(crate) struct Events([EventState; 4]);

impl Events {
    /// Something happened. True if there is something new to tell.
    pub(crate) fn raise(&mut self, kind: EventKind) -> bool {
        let state = &mut self.0[kind as usize];
        if *state == EventState::Idle {
            *state = EventState::Pending;
        }
        *state == EventState::Pending
    }

    /// The next event to answer a request with.
    pub(crate) fn take(&mut self, features: &Features) -> Option<AsyncEvent> {
        let kind = EventKind::ALL
            .into_iter()
            .find(|k| self.0[*k as usize] == EventState::Pending && k.wanted_by(features))?;
        self.0[kind as usize] = EventState::Reported;
        Some(kind.event())
    }

    /// The host has read the log page. `more` keeps the event up.
    pub(crate) fn cleared(&mut self, kind: EventKind, more: bool) {
        self.0[kind as usize] = if more {
            EventState::Pending
        } else {
            EventState::Idle
        };
    }
}
