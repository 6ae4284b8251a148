//! A text exchange (§6.2, §11.10): requests and responses that are longer than one PDU.
//!
//! **Owns** the text of both directions. **Called by** [`super::member`]. **Invariants**: there is one exchange at a time; its
//! request is at most [`TEXT_LEN_MAX`] bytes.

use crate::limits::TEXT_LEN_MAX;
use crate::wire::Ttt;
use crate::wire::request::TextRequest;
use crate::wire::response::RejectReason;
use crate::wire::text::Pairs;

/// A text exchange.
#[derive(Default)]
pub(crate) struct TextExchange {
    /// Text of requests that announced more text.
    request: Vec<u8>,
    /// The part of the response that did not fit into a PDU, and the tag that asks for it.
    rest: Option<(Ttt, Vec<u8>)>,
}

/// How an exchange goes on after a request.
pub(crate) enum TextStep {
    /// The initiator will send more text.
    More,
    /// The request is whole.
    Whole(Pairs),
    /// The next part of the response is to be sent.
    Rest(Vec<u8>),
}

impl TextExchange {
    /// Takes a request with its data segment. Errors: the reason to reject it for.
    pub(crate) fn request(
        &mut self,
        r: &TextRequest,
        data: &[u8],
    ) -> Result<TextStep, RejectReason> {
        if r.ttt != Ttt::NONE && !r.more && data.is_empty() {
            return match self.rest.take() {
                Some((ttt, rest)) if ttt == r.ttt => Ok(TextStep::Rest(rest)),
                _ => Err(RejectReason::INVALID_PDU_FIELD),
            };
        }
        if r.ttt == Ttt::NONE {
            // §11.10.4: a new exchange ends the one before.
            *self = TextExchange::default();
        }
        if self.request.len() + data.len() > TEXT_LEN_MAX {
            *self = TextExchange::default();
            return Err(RejectReason::NEGOTIATION_RESET);
        }
        self.request.extend_from_slice(data);
        if r.more {
            return Ok(TextStep::More);
        }
        match Pairs::parse(&std::mem::take(&mut self.request)) {
            Ok(pairs) => Ok(TextStep::Whole(pairs)),
            Err(_) => Err(RejectReason::PROTOCOL_ERROR),
        }
    }

    /// Keeps the rest of a response until the initiator asks for it with `ttt`.
    pub(crate) fn keep_rest(&mut self, ttt: Ttt, rest: Vec<u8>) {
        self.rest = Some((ttt, rest));
    }
}
