//! The rules about hosts that act for a client: numbers, protection, addresses (decision 0329).

use super::tests::{
    CHANNEL, HOST, LEASE, args, clients, confirmed, create, exchange_by, principal, protected,
    start, visitor,
};
use super::{Clients, Visitor};
use crate::export::{Protection, Security, Standing};
use crate::wire::channel::{CallbackSecurity, CreateSession};
use crate::wire::{SessionId, Status};
use std::time::Duration;

/// §2.10.8.3: a number is the right to act for its client.
#[test]
fn numbers_of_clients_and_sessions_cannot_be_guessed() {
    let mut clients = clients();
    let (client, first) = confirmed(&mut clients);
    let second = create(&mut clients, client, 2).unwrap().session;
    let random = |session: &SessionId| u64::from_be_bytes(session[8..].try_into().unwrap());
    assert!(random(&first).abs_diff(random(&second)) > 1 << 20);
    let other = exchange_by(&mut clients, 9, &HOST, start()).unwrap().client;
    assert!(client.abs_diff(other) > 1 << 20);
    assert!((client & 0xffff_ffff).abs_diff(other & 0xffff_ffff) > 1);
}

/// Regression: the principal of the first CREATE_SESSION was demanded of its repetition, although a confirmed client has sessions of all its
/// principals (pynfs CSESS10). The kept reply has the session's ID, so it is still for the client's own host only.
#[test]
fn a_kept_session_is_for_the_host_of_its_client() {
    let mut clients = clients();
    let tls = Visitor {
        protection: protected(Security::Tls),
        ..HOST
    };
    let by = (principal(1), &tls);
    let client = clients.exchange_id(&args(b"a", 1, 0), by, start(), |_| true);
    let create = CreateSession {
        client: client.unwrap().client,
        sequence: 1,
        flags: 2,
        fore: CHANNEL,
        back: CHANNEL,
        callback_program: 1,
        security: vec![CallbackSecurity::None],
    };
    let mut ask = |uid, visitor: &Visitor| {
        let by = (principal(uid), 1, visitor);
        let created = clients.create_session(&create, by, start(), |_| true);
        created.map(|created| created.session)
    };
    assert_eq!(ask(2, &tls), Err(Status::ClidInuse), "it is not confirmed");
    let session = ask(1, &tls).unwrap();
    assert_eq!((ask(1, &tls), ask(2, &tls)), (Ok(session), Ok(session)));
    let stranger = Visitor {
        standing: Standing::Stranger,
        ..visitor(3, Standing::Stranger)
    };
    for other in [HOST, stranger] {
        assert_eq!(ask(1, &other), Err(Status::StaleClientid));
    }
}

/// A client that came over TLS is not replaced, and its session not used, over a connection without.
#[test]
fn a_protected_client_is_only_used_over_protected_connections() {
    let mut clients = clients();
    let secure = Visitor {
        protection: protected(Security::MutualTls),
        ..HOST
    };
    let plain = HOST;
    let by = |visitor, verifier| (args(b"a", verifier, 0), (principal(1), visitor));
    let (first, at) = by(&secure, 1);
    let client = clients
        .exchange_id(&first, at, start(), |_| true)
        .unwrap()
        .client;
    let create = CreateSession {
        client,
        sequence: 1,
        flags: 0,
        fore: CHANNEL,
        back: CHANNEL,
        callback_program: 1,
        security: Vec::new(),
    };
    let created = clients.create_session(&create, (principal(1), 1, &secure), start(), |_| true);
    let session = created.unwrap().session;
    let (again, at) = by(&plain, 2);
    let replaced = clients.exchange_id(&again, at, start(), |_| false);
    assert_eq!(replaced, Err(Status::ClidInuse));
    let refused = clients.destroy_session(&session, &HOST);
    assert_eq!(refused, Err(Status::Badsession));
    assert!(clients.session_for(&session, &HOST).is_none());
    assert_eq!(clients.destroy_session(&session, &secure), Ok(()));
    let (again, at) = by(&secure, 2);
    assert!(clients.exchange_id(&again, at, start(), |_| false).is_ok());
}

/// A host with a certificate of another owner, or without one, does nothing for the client of a certificate, although it knows every number.
#[test]
fn a_client_belongs_to_the_owner_of_its_certificate() {
    let mut clients = clients();
    let of = |name: &[u8], last| Visitor {
        protection: Protection {
            security: Security::MutualTls,
            identity: Some(name.into()),
        },
        ..visitor(last, Standing::Listed)
    };
    let ask = |clients: &mut Clients, visitor: &Visitor, verifier, now| {
        let exchanged = clients.exchange_id(
            &args(b"a", verifier, 0),
            (principal(1), visitor),
            now,
            |_| true,
        );
        exchanged.map(|exchanged| (exchanged.client, exchanged.is_confirmed))
    };
    let open = |clients: &mut Clients, visitor: &Visitor, client, sequence| {
        let create = CreateSession {
            client,
            sequence,
            flags: 0,
            fore: CHANNEL,
            back: CHANNEL,
            callback_program: 1,
            security: Vec::new(),
        };
        let by = (principal(1), 1, visitor);
        clients.create_session(&create, by, start(), |_| true)
    };
    let (own, moved, other) = (of(b"one", 1), of(b"one", 2), of(b"two", 1));
    let plain = HOST;
    let client = ask(&mut clients, &own, 1, start()).unwrap().0;
    let session = open(&mut clients, &own, client, 1).unwrap().session;
    for stranger in [&other, &plain] {
        let refused = open(&mut clients, stranger, client, 2);
        assert_eq!(refused, Err(Status::StaleClientid));
        assert_eq!(
            ask(&mut clients, stranger, 2, start()),
            Err(Status::ClidInuse)
        );
        let refused = clients.destroy_session(&session, stranger);
        assert_eq!(refused, Err(Status::Badsession));
        let refused = clients.destroy_client(client, stranger, false);
        assert_eq!(refused, Err(Status::StaleClientid));
        assert!(clients.session_for(&session, stranger).is_none());
    }
    assert_eq!(
        ask(&mut clients, &other, 1, start()),
        Err(Status::ClidInuse)
    );
    // The owner itself comes from another address.
    assert!(clients.session_for(&session, &moved).is_some());
    open(&mut clients, &moved, client, 2).expect("a second session");
    assert!(!ask(&mut clients, &moved, 2, start()).unwrap().1);
    // The right verifier over a plain connection shows that it is the same host, but does not keep the lease.
    let later = start() + LEASE;
    assert_eq!(ask(&mut clients, &plain, 1, later), Ok((client, true)));
    let late = later + Duration::from_secs(1);
    assert!(
        !ask(&mut clients, &plain, 1, late).unwrap().1,
        "a new record"
    );
}

/// Regression: an admitted host that gave the name of another host's client took its record over, and the client lost its state at once.
#[test]
fn a_living_client_is_not_taken_over_from_another_address() {
    let mut clients = clients();
    let (client, session) = confirmed(&mut clients);
    let elsewhere = visitor(2, Standing::Listed);
    let ask = |clients: &mut Clients, visitor: &Visitor, verifier, now, has_state: bool| {
        let exchanged = clients.exchange_id(
            &args(b"a", verifier, 0),
            (principal(1), visitor),
            now,
            |_| has_state,
        );
        exchanged.map(|exchanged| (exchanged.client, exchanged.is_confirmed))
    };
    let refused = ask(&mut clients, &elsewhere, 2, start(), true);
    assert_eq!(refused, Err(Status::Delay));
    // A client that has the verifier only changed its address, and one without state loses nothing.
    let same = ask(&mut clients, &elsewhere, 1, start(), true);
    assert_eq!(same, Ok((client, true)));
    assert!(!ask(&mut clients, &elsewhere, 2, start(), false).unwrap().1);
    assert!(
        !ask(&mut clients, &HOST, 3, start(), true).unwrap().1,
        "it restarted"
    );
    // With its lease the old incarnation ends, so a host that restarted at another address waits for that long.
    let late = start() + LEASE + Duration::from_secs(1);
    assert!(!ask(&mut clients, &elsewhere, 2, late, true).unwrap().1);
    assert!(
        clients.session_for(&session, &HOST).is_some(),
        "until the new one confirms"
    );
}
