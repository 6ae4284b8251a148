//! Requests of both kinds of session: pings, text, logout; and messages that the target sends by itself.
//!
//! **Called by** both kinds of full feature phase, in the order of CmdSN. **Invariants**: ping data and text are bounded; there is
//! one text exchange at a time.

use super::{Member, Ping, exp_stat_sn};
use crate::limits::PING_DATA_MAX;
use crate::portal::counters::CloseReason;
use crate::portal::session::{AbortOrder, SessionKind};
use crate::portal::text_exchange::TextStep;
use crate::portal::transport::PortalTransport;
use crate::wire::request::{LogoutRequest, NopOut, Request, TextRequest};
use crate::wire::response::{
    AsyncEvent, RejectReason, async_message, logout_response, nop_in, text_response,
};
use crate::wire::text::{Pairs, Text, number};
use crate::wire::{Bhs, Itt, Lun, Ttt};

impl Member {
    /// Takes the acknowledgment that a request carries.
    pub(crate) fn acknowledged_by(&mut self, request: &Request) {
        if let Some(sn) = exp_stat_sn(request) {
            self.acknowledged(sn);
        }
    }

    /// Performs a request that both kinds of session know; others are rejected (§4.3: a discovery session has text and logout,
    /// and no session has a login in full feature phase).
    pub(crate) fn perform(
        &mut self,
        transport: &mut PortalTransport,
        bhs: &Bhs,
        request: &Request,
        data: &[u8],
    ) {
        match request {
            Request::NopOut(r) => self.nop_out(transport, r, data),
            Request::Text(r) => self.text_request(transport, bhs, r, data),
            Request::Logout(r) => self.logout(transport, r),
            _ => self.reject(transport, RejectReason::PROTOCOL_ERROR, bhs),
        }
    }

    /// NOP-Out (§11.18): a ping, or the answer to ours.
    fn nop_out(&mut self, transport: &mut PortalTransport, r: &NopOut, data: &[u8]) {
        if r.itt == Itt::NONE {
            return;
        }
        let mut bhs = nop_in(r.itt, Ttt::NONE, r.lun);
        transport.stamp_status(&mut bhs);
        let longest = PING_DATA_MAX.min(transport.data_max(self.parameters.max_send_data));
        self.send_status(transport, bhs, &data[..data.len().min(longest)]);
    }

    /// Asks a silent initiator for an answer (§11.19).
    pub(crate) fn send_ping(&mut self, transport: &mut PortalTransport) {
        let ttt = self.new_tag();
        let mut bhs = nop_in(Itt::NONE, ttt, Lun::default());
        transport.stamp_next(&mut bhs);
        transport.send(bhs, &[]);
        self.ping = Ping::Sent(transport.now());
    }

    /// Text Request (§11.10).
    fn text_request(
        &mut self,
        transport: &mut PortalTransport,
        bhs: &Bhs,
        r: &TextRequest,
        data: &[u8],
    ) {
        match self.text.request(r, data) {
            Err(reason) => self.reject(transport, reason, bhs),
            Ok(TextStep::More) => {
                let ttt = self.new_tag();
                let mut response = text_response(r.itt, false, false, ttt);
                transport.stamp_status(&mut response);
                self.send_status(transport, response, &[]);
            }
            Ok(TextStep::Whole(pairs)) => {
                let answer = self.answer(transport, &pairs);
                self.send_text(transport, r, answer);
            }
            Ok(TextStep::Rest(rest)) => self.send_text(transport, r, rest),
        }
    }

    fn answer(&mut self, transport: &PortalTransport, pairs: &Pairs) -> Vec<u8> {
        let mut out = Text::new();
        for (key, value) in pairs.iter() {
            match key {
                "SendTargets" => self.send_targets(transport, value, &mut out),
                // §13.12: may be declared anew.
                "MaxRecvDataSegmentLength" => match number(value) {
                    Some(n @ 512..=0xff_ffff) => self.parameters.max_send_data = n as u32,
                    _ => out.put(key, "Reject"),
                },
                _ => out.put(key, "NotUnderstood"),
            }
        }
        out.into_bytes()
    }

    /// SendTargets (appendix C): all targets in a discovery session, its own target in a normal session.
    fn send_targets(&self, transport: &PortalTransport, value: &str, out: &mut Text) {
        let (session, shared) = (&self.session, transport.shared());
        let own = session.target();
        let all = match (&session.kind, value) {
            (SessionKind::Discovery, "All") => shared.targets_for(&session.initiator),
            (SessionKind::Normal { .. }, "All") => return out.put("SendTargets", "Reject"),
            (_, name) => {
                let mut all = shared.targets_for(&session.initiator);
                all.retain(|e| e.name.as_str() == name || name.is_empty() && own == Some(&e.name));
                all
            }
        };
        for entry in all {
            out.put("TargetName", entry.name.as_str());
            for address in shared.addresses_of(&entry, transport.link().local(), transport.kind()) {
                out.put("TargetAddress", &address);
            }
        }
    }

    /// Sends a response's text in parts that the initiator takes (§6.2).
    fn send_text(&mut self, transport: &mut PortalTransport, r: &TextRequest, mut text: Vec<u8>) {
        let longest = transport.data_max(self.parameters.max_send_data);
        let more = text.len() > longest;
        let rest = more.then(|| text.split_off(longest));
        let mut ttt = Ttt::NONE;
        if let Some(rest) = rest {
            ttt = self.new_tag();
            self.text.keep_rest(ttt, rest);
        } else if !r.last {
            ttt = self.new_tag();
        }
        let mut bhs = text_response(r.itt, r.last && !more, more, ttt);
        transport.stamp_status(&mut bhs);
        self.send_status(transport, bhs, &text);
    }

    /// Logout (§11.14).
    fn logout(&mut self, transport: &mut PortalTransport, r: &LogoutRequest) {
        let p = self.parameters;
        let own = r.reason == 0 || r.cid == self.handle.cid;
        let result = match r.reason {
            0 => {
                self.session.connections.order(&AbortOrder {
                    lun: None,
                    task_aborted: false,
                    except: None,
                    barrier: None,
                });
                self.close_others(CloseReason::Logout);
                0
            }
            1 if own => 0,
            1 => match self.session.connection(r.cid) {
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
        transport.stamp_status(&mut bhs);
        self.send_status(transport, bhs, &[]);
        if own && result == 0 {
            transport.close_after_output(CloseReason::Logout);
        }
    }

    /// Closes the other connections of the session.
    pub(crate) fn close_others(&self, why: CloseReason) {
        for c in self.session.connections.all() {
            if c.cid != self.handle.cid {
                c.signal.close(why);
            }
        }
    }

    /// Sends an asynchronous message (§11.9).
    pub(crate) fn tell(&mut self, transport: &mut PortalTransport, event: AsyncEvent) {
        let mut bhs = async_message(event);
        transport.stamp_status(&mut bhs);
        self.send_status(transport, bhs, &[]);
    }
}
