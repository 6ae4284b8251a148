//! The initiator's half of CHAP (§12.1.3, RFC 1994).
//!
//! **Called by** [`super::login`]. **Invariants**: our secret never answers a challenge that we sent; a login fails if the
//! target must authenticate itself and does not.

use super::config::Chap;
use super::error::{Error, Result};
use super::limits::CHAP_CHALLENGE_MAX;
use iscsi::limits::CHAP_CHALLENGE_LEN;
use iscsi::wire::text::{Pairs, Text, binary, number, to_hex};
use subtle::ConstantTimeEq;

/// Longest response of a target, bytes.
const RESPONSE_MAX: usize = 64;

/// CHAP_A: the offered digests.
pub(super) fn offer(chap: &Chap) -> String {
    let numbers = chap.algorithms.iter().map(|a| (*a as u8).to_string());
    numbers.collect::<Vec<_>>().join(",")
}

/// The expected response of the target to our challenge.
pub(super) struct Expected {
    response: Vec<u8>,
    name: String,
}

fn failed<T>(why: &'static str) -> Result<T> {
    Err(Error::Authentication(why))
}

/// Answers the target's challenge in `pairs`. With mutual authentication, `random` becomes our challenge.
pub(super) fn answer(
    chap: &Chap,
    pairs: &Pairs,
    random: [u8; CHAP_CHALLENGE_LEN + 1],
    out: &mut Text,
) -> Result<Option<Expected>> {
    let algorithm = pairs
        .get("CHAP_A")
        .and_then(number)
        .and_then(|n| chap.algorithms.iter().find(|a| **a as u64 == n));
    let Some(algorithm) = algorithm else {
        return failed("the target chose a digest that was not offered");
    };
    let identifier = pairs.get("CHAP_I").and_then(number);
    let challenge = pairs
        .get("CHAP_C")
        .and_then(|c| binary(c, CHAP_CHALLENGE_MAX));
    let (Some(identifier @ 0..=255), Some(challenge)) = (identifier, challenge) else {
        return failed("the target sent no usable challenge");
    };
    let own = &chap.initiator;
    out.put("CHAP_N", &own.name);
    out.put(
        "CHAP_R",
        &to_hex(&algorithm.response(identifier as u8, &own.secret, &challenge)),
    );
    let Some(target) = &chap.target else {
        return Ok(None);
    };
    // §12.1.3: with one secret for both directions, the target could return our own answer.
    if target.secret == own.secret {
        return failed("both directions have the same secret");
    }
    let [identifier, bytes @ ..] = random;
    if challenge == bytes {
        return failed("the target sent our own challenge");
    }
    out.put("CHAP_I", &identifier.to_string());
    out.put("CHAP_C", &to_hex(&bytes));
    Ok(Some(Expected {
        response: algorithm.response(identifier, &target.secret, &bytes),
        name: target.name.clone(),
    }))
}

impl Expected {
    /// Checks the target's response to our challenge.
    pub(super) fn check(&self, pairs: &Pairs) -> Result<()> {
        let name = pairs.get("CHAP_N").unwrap_or_default();
        let response = pairs.get("CHAP_R").and_then(|r| binary(r, RESPONSE_MAX));
        let right = name.as_bytes().ct_eq(self.name.as_bytes())
            & response.unwrap_or_default().ct_eq(&self.response);
        if bool::from(right) {
            return Ok(());
        }
        failed("the target did not prove itself")
    }
}
