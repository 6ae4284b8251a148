//! What initiators ask for in full feature phase beside SCSI commands: pings, text, logout; and what the target tells
//! them by itself.
//!
//! **Called by** the receiver, in the order of arrival. **Invariants**: what is not immediate is delivered in the order of
//! CmdSN; a text exchange is bounded and there is one at a time.

use super::connection::Core;
use super::counters::{CloseReason, ConnectionState};
use super::session::SessionKind;
use super::window::Verdict;
use crate::limits::{PING_DATA_MAX, TEXT_LEN_MAX};
use crate::wire::request::{LogoutRequest, NopOut, Request, TextRequest};
use crate::wire::response::{
    AsyncEvent, RejectReason, async_message, logout_response, nop_in, text_response,
};
use crate::wire::text::{Pairs, Text, number};
use crate::wire::{Bhs, Itt, Lun, Sn, Ttt};
use std::sync::atomic::Ordering;

/// What came before its turn.
pub(super) enum Held {
    /// A SCSI command, by its slot.
    Command(usize),
    /// Anything else.
    Other(Bhs, Request, Vec<u8>),
}

/// A text exchange (§6.2, §11.10) under way.
#[derive(Default)]
pub(super) struct TextExchange {
    /// Text of requests that said that more follows.
    request: Vec<u8>,
    /// The response's text, as far as it did not fit, and the tag to ask for the rest with.
    rest: Option<(Ttt, Vec<u8>)>,
}

/// CmdSN of a request that has one and is not immediate.
fn ordered_sn(request: &Request) -> Option<Sn> {
    let (immediate, sn) = match request {
        Request::NopOut(r) => (r.immediate, r.cmd_sn),
        Request::TaskManagement(r) => (r.immediate, r.cmd_sn),
        Request::Text(r) => (r.immediate, r.cmd_sn),
        Request::Logout(r) => (r.immediate, r.cmd_sn),
        Request::Scsi(_) | Request::Login(_) | Request::DataOut(_) | Request::Snack(_) => {
            return None;
        }
    };
    (!immediate).then_some(sn)
}

fn exp_stat_sn(request: &Request) -> Option<Sn> {
    Some(match request {
        Request::NopOut(r) => r.exp_stat_sn,
        Request::TaskManagement(r) => r.exp_stat_sn,
        Request::Text(r) => r.exp_stat_sn,
        Request::Logout(r) => r.exp_stat_sn,
        // Its field acknowledges nothing while a status is missing.
        Request::Snack(_) | Request::Scsi(_) | Request::Login(_) | Request::DataOut(_) => {
            return None;
        }
    })
}

impl Core {
    /// A request is here, whole.
    pub(super) fn request(&mut self, bhs: &Bhs, request: Request, data: Vec<u8>) {
        if self.state() == ConnectionState::Draining {
            return;
        }
        let Some(m) = &self.member else { return };
        if let Some(sn) = ordered_sn(&request) {
            match m.session.arrived(sn) {
                Verdict::Deliver { .. } => {
                    m.session.command_ended();
                }
                Verdict::Hold => {
                    self.held.insert(sn.0, Held::Other(*bhs, request, data));
                    return;
                }
                Verdict::Ignore => {
                    let counters = &self.target().counters;
                    counters.ignored_commands.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            }
        }
        self.perform(bhs, &request, &data);
    }

    /// Delivers what had come early and can follow now.
    pub(super) fn release_held(&mut self) {
        let Some(m) = self.member.clone() else { return };
        let (exp, _) = m.session.edges();
        let mut due: Vec<Sn> = self
            .held
            .keys()
            .map(|sn| Sn(*sn))
            .filter(|sn| sn.is_before(exp))
            .collect();
        due.sort_by_key(|sn| std::cmp::Reverse(exp.since(*sn)));
        for sn in due {
            match self.held.remove(&sn.0) {
                Some(Held::Command(slot)) => self.deliver(slot),
                Some(Held::Other(bhs, request, data)) => {
                    m.session.command_ended();
                    self.perform(&bhs, &request, &data);
                }
                None => {}
            }
        }
    }

    fn perform(&mut self, bhs: &Bhs, request: &Request, data: &[u8]) {
        if let Some(sn) = exp_stat_sn(request) {
            self.acknowledged(sn);
        }
        let discovery = self.state() == ConnectionState::Discovery;
        match request {
            Request::NopOut(r) => self.nop_out(r, data),
            Request::Text(r) => self.text_request(bhs, r, data),
            Request::Logout(r) => self.logout(r),
            Request::TaskManagement(r) if !discovery => self.task_management(bhs, r),
            Request::Snack(r) if !discovery => self.snack(bhs, r),
            // §4.3: nothing else in a discovery session; no login in full feature phase.
            _ => self.reject(RejectReason::PROTOCOL_ERROR, bhs),
        }
    }

    /// NOP-Out (§11.18): a ping, or the answer to ours.
    fn nop_out(&mut self, r: &NopOut, data: &[u8]) {
        if r.itt == Itt::NONE {
            return;
        }
        let mut bhs = nop_in(r.itt, Ttt::NONE, r.lun);
        self.stamp_status(&mut bhs);
        let longest = PING_DATA_MAX.min(self.parameters.max_send_data as usize);
        self.send_status(bhs, &data[..data.len().min(longest)]);
    }

    /// Asks a silent initiator whether it is there (§11.19).
    pub(super) fn ping(&mut self) {
        let ttt = Ttt(self.next_ttt);
        self.next_ttt = (self.next_ttt + 1) % Ttt::NONE.0;
        let mut bhs = nop_in(Itt::NONE, ttt, Lun::default());
        self.stamp_next(&mut bhs);
        self.send(bhs, &[]);
        self.nop_sent_at = Some(self.now());
    }

    /// Text Request (§11.10).
    fn text_request(&mut self, bhs: &Bhs, r: &TextRequest, data: &[u8]) {
        if r.ttt != Ttt::NONE && !r.more && data.is_empty() {
            return self.text_goes_on(bhs, r);
        }
        if r.ttt == Ttt::NONE {
            // §11.10.4: a new exchange ends the one before.
            self.text = TextExchange::default();
        }
        if self.text.request.len() + data.len() > TEXT_LEN_MAX {
            self.text = TextExchange::default();
            return self.reject(RejectReason::NEGOTIATION_RESET, bhs);
        }
        self.text.request.extend_from_slice(data);
        if r.more {
            let ttt = self.text_tag();
            let mut response = text_response(r.itt, false, false, ttt);
            self.stamp_status(&mut response);
            return self.send_status(response, &[]);
        }
        let Ok(pairs) = Pairs::parse(&std::mem::take(&mut self.text.request)) else {
            return self.reject(RejectReason::PROTOCOL_ERROR, bhs);
        };
        let mut out = Text::new();
        for (key, value) in pairs.iter() {
            self.text_key(key, value, &mut out);
        }
        self.send_text(r, out.into_bytes());
    }

    fn text_tag(&mut self) -> Ttt {
        let ttt = Ttt(self.next_ttt);
        self.next_ttt = (self.next_ttt + 1) % Ttt::NONE.0;
        ttt
    }

    fn text_key(&mut self, key: &str, value: &str, out: &mut Text) {
        match key {
            "SendTargets" => self.send_targets(value, out),
            // §13.12: may be declared anew.
            "MaxRecvDataSegmentLength" => match number(value) {
                Some(n @ 512..=0xff_ffff) => self.parameters.max_send_data = n as u32,
                _ => out.put(key, "Reject"),
            },
            _ => out.put(key, "NotUnderstood"),
        }
    }

    /// SendTargets (appendix C): all targets in a discovery session, one's own in a normal one.
    fn send_targets(&mut self, value: &str, out: &mut Text) {
        let Some(m) = &self.member else { return };
        let target = self.target();
        let own = m.session.target();
        let all = match (&m.session.kind, value) {
            (SessionKind::Discovery, "All") => target.targets_for(&m.session.initiator),
            (SessionKind::Normal { .. }, "All") => return out.put("SendTargets", "Reject"),
            (_, name) => {
                let mut all = target.targets_for(&m.session.initiator);
                all.retain(|e| e.name.as_str() == name || name.is_empty() && own == Some(&e.name));
                all
            }
        };
        for entry in all {
            out.put("TargetName", entry.name.as_str());
            for address in target.addresses_of(&entry, self.link.local()) {
                out.put("TargetAddress", &address);
            }
        }
    }

    fn text_goes_on(&mut self, bhs: &Bhs, r: &TextRequest) {
        match self.text.rest.take() {
            Some((ttt, rest)) if ttt == r.ttt => self.send_text(r, rest),
            _ => self.reject(RejectReason::INVALID_PDU_FIELD, bhs),
        }
    }

    /// Sends as much of a response's text as the initiator takes at once (§6.2).
    fn send_text(&mut self, r: &TextRequest, mut text: Vec<u8>) {
        let longest = self.parameters.max_send_data as usize;
        let more = text.len() > longest;
        let rest = more.then(|| text.split_off(longest));
        let mut ttt = Ttt::NONE;
        if let Some(rest) = rest {
            ttt = self.text_tag();
            self.text.rest = Some((ttt, rest));
        } else if !r.last {
            ttt = self.text_tag();
        }
        let mut bhs = text_response(r.itt, r.last && !more, more, ttt);
        self.stamp_status(&mut bhs);
        self.send_status(bhs, &text);
    }

    /// Logout (§11.14).
    fn logout(&mut self, r: &LogoutRequest) {
        let Some(m) = self.member.clone() else { return };
        let p = self.parameters;
        let own = r.reason == 0 || r.cid == m.handle.cid;
        let result = match r.reason {
            0 => {
                m.session.connections.order(&super::session::AbortOrder {
                    lun: None,
                    task_aborted: false,
                    except: None,
                    barrier: None,
                });
                for c in m.session.connections.all() {
                    if c.cid != m.handle.cid {
                        c.signal.close(CloseReason::Logout);
                    }
                }
                0
            }
            1 if own => 0,
            1 => match m.session.connection(r.cid) {
                Some(c) => {
                    c.signal.close(CloseReason::Logout);
                    0
                }
                None => 1,
            },
            // Removing a connection for recovery belongs to error recovery level 2.
            _ => 2,
        };
        let mut bhs = logout_response(r.itt, result, p.time2wait_s, p.time2retain_s);
        self.stamp_status(&mut bhs);
        self.send_status(bhs, &[]);
        if own && result == 0 {
            self.close_after_output(CloseReason::Logout);
        }
    }

    /// Tells the initiator something (§11.9).
    pub(super) fn tell(&mut self, event: AsyncEvent) {
        let mut bhs = async_message(event);
        self.stamp_status(&mut bhs);
        self.send_status(bhs, &[]);
    }

    /// The target shuts down: the initiator is asked to log out.
    pub(super) fn drain(&mut self) {
        match self.state() {
            ConnectionState::FullFeature => {
                let linger = self.target().config.linger.as_secs();
                self.tell(AsyncEvent::LogoutRequest(linger.clamp(1, 65535) as u16));
                self.logout_asked_at = Some(self.now());
                self.enter(ConnectionState::LogoutRequested);
            }
            ConnectionState::Login | ConnectionState::Reinstating | ConnectionState::Discovery => {
                self.end(CloseReason::Drained);
            }
            ConnectionState::LogoutRequested
            | ConnectionState::Draining
            | ConnectionState::Closing => {}
        }
    }

    /// Somebody else ends the connection; the initiator hears of it where that is not its own doing.
    pub(super) fn told_to_close(&mut self, why: CloseReason) {
        // A connection that is evicted is not waited for.
        if self.state() == ConnectionState::Closing && why != CloseReason::Limit {
            return;
        }
        let tells = matches!(why, CloseReason::Administrator | CloseReason::Reset);
        if tells && self.member.is_some() {
            self.tell(AsyncEvent::SessionDropped);
            return self.close_after_output(why);
        }
        self.end(why);
    }
}
