//! Requests to the login state machine: an accepted initiator was authenticated, and every login ends.

use iscsi::limits::LOGIN_PDUS_MAX;
use iscsi::login::{
    Admission, Applicant, ChapPolicy, Credential, Login, Offer, Realm, Refusal, Secret, Then,
};
use iscsi::wire::request::LoginRequest;
use iscsi::wire::{Bhs, IscsiName, Opcode};
use std::cell::Cell;

struct Gate {
    chap: bool,
    proven: Cell<bool>,
}

impl Realm for Gate {
    fn admit(&self, _: &Applicant) -> Result<Admission, Refusal> {
        let credential = || Credential { name: "u".into(), secret: Secret::new(*b"s") };
        Ok(Admission {
            chap: self.chap.then(|| ChapPolicy { initiator: credential(), target: None }),
            portal_group: Some(1),
            alias: None,
            joined: None,
        })
    }

    fn is_throttled(&self, _: &IscsiName) -> bool {
        false
    }

    fn proven(&self, _: &IscsiName, right: bool) {
        self.proven.set(right);
    }

    fn random(&self, out: &mut [u8]) {
        out.fill(7);
    }
}

pub fn run(input: &[u8]) {
    let Some((first, mut rest)) = input.split_first() else { return };
    let gate = Gate { chap: first & 1 != 0, proven: Cell::new(false) };
    let mut login = Login::new(Offer::default());
    let mut steps = 0;
    while let Some(([flags, len], tail)) = rest.split_first_chunk() {
        let (piece, next) = tail.split_at(usize::from(*len).min(tail.len()));
        rest = next;
        let mut bhs = Bhs::new(Opcode::LoginRequest);
        bhs.0[1] = *flags;
        let mut data = Vec::new();
        if steps == 0 && first & 2 != 0 {
            data.extend(b"InitiatorName=iqn.2026-11.f:i\0TargetName=iqn.2026-11.f:t\0");
        }
        data.extend(piece);
        let step = login.request(&LoginRequest::parse(&bhs), &data, &gate);
        steps += 1;
        assert!(steps <= LOGIN_PDUS_MAX + 1, "a login without end");
        match step.then {
            Then::Continue => {}
            Then::Finish(_) => return assert!(!gate.chap || gate.proven.get()),
            Then::Close => return,
        }
    }
}
