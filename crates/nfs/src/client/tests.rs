//! The rules of RFC 8881 about clients and sessions.

use super::{Begun, Bounds, Clients, Created, Grace, Principal, Session, Visitor};
use crate::export::{Protection, Security, Standing};
use crate::rpc::{AuthSys, Credential};
use crate::wire::channel::{
    CallbackSecurity, Channel, CreateSession, ExchangeId, Sequence, StateProtection,
};
use crate::wire::{SessionId, Status};
use io::time::Instant;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub(super) const LEASE: Duration = Duration::from_secs(90);
const COURTESY: Duration = Duration::from_secs(3600);
const UPDATE: u32 = 1 << 30;
pub(super) const CHANNEL: Channel = Channel {
    header_padding: 8,
    request_max: 4096,
    reply_max: u32::MAX,
    cached_max: 1024,
    operations_max: 8,
    slots: 4,
};

/// A host that an export names, beside hosts that it does not.
pub(super) const HOST: Visitor = visitor(1, Standing::Listed);

pub(super) const fn visitor(last: u8, standing: Standing) -> Visitor {
    Visitor {
        address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)),
        standing,
        is_reserving: true,
        protection: protected(Security::None),
    }
}

/// A connection of a client without a certificate.
pub(super) const fn protected(security: Security) -> Protection {
    Protection {
        security,
        identity: None,
    }
}

pub(super) fn principal(uid: u32) -> Principal {
    Principal::from(&Credential::Sys(AuthSys {
        stamp: 0,
        machine: Vec::new(),
        uid,
        gid: 0,
        groups: Vec::new(),
    }))
}

/// The time at which everything begins, the same for a whole test.
pub(super) fn start() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(io::time::now)
}

fn clients_of(clients_max: usize, slots_max: usize) -> Clients {
    let bounds = Bounds {
        lease: LEASE,
        courtesy: COURTESY,
        clients_max,
        sessions_max: 3,
        slots_max,
    };
    Clients::new(bounds)
}

pub(super) fn clients() -> Clients {
    clients_of(8, 1000)
}

pub(super) fn args(owner: &[u8], verifier: u8, flags: u32) -> ExchangeId<'_> {
    ExchangeId {
        verifier: [verifier; 8],
        owner,
        flags,
        protection: StateProtection::None,
        implementation: None,
    }
}

/// EXCHANGE_ID of owner "a".
fn exchange(
    clients: &mut Clients,
    verifier: u8,
    flags: u32,
    uid: u32,
) -> Result<super::Exchanged, Status> {
    clients.exchange_id(
        &args(b"a", verifier, flags),
        (principal(uid), &HOST),
        start(),
        |_| true,
    )
}

pub(super) fn create(clients: &mut Clients, client: u64, sequence: u32) -> Result<Created, Status> {
    create_with(clients, client, sequence, CHANNEL, start())
}

fn create_with(
    clients: &mut Clients,
    client: u64,
    sequence: u32,
    fore: Channel,
    now: Instant,
) -> Result<Created, Status> {
    let args = CreateSession {
        client,
        sequence,
        flags: 2,
        fore,
        back: CHANNEL,
        callback_program: 1,
        security: vec![CallbackSecurity::None],
    };
    clients.create_session(&args, (principal(1), 1, &HOST), now, |_| true)
}

/// A confirmed client of owner "a", verifier 1 and user 1, and its session.
pub(super) fn confirmed(clients: &mut Clients) -> (u64, SessionId) {
    let client = exchange(clients, 1, 0, 1).unwrap().client;
    (client, create(clients, client, 1).unwrap().session)
}

/// §18.35.4, cases 1 and 4: a new client owner, and one that was not confirmed.
#[test]
fn an_unconfirmed_record_is_replaced() {
    let mut clients = clients();
    let first = exchange(&mut clients, 1, 0, 1).unwrap();
    assert!(!first.is_confirmed && first.sequence == 1);
    let second = exchange(&mut clients, 1, 0, 2).unwrap();
    assert_ne!(first.client, second.client);
    let stale = create(&mut clients, first.client, 1);
    assert_eq!(stale, Err(Status::StaleClientid));
    // §18.36.4: the principal of EXCHANGE_ID confirms.
    let other = create(&mut clients, second.client, 1);
    assert_eq!(other, Err(Status::ClidInuse));
}

/// Case 2.
#[test]
fn a_repeated_exchange_finds_the_confirmed_record() {
    let mut clients = clients();
    let (client, _) = confirmed(&mut clients);
    let again = exchange(&mut clients, 1, 0, 1).unwrap();
    assert!(again.is_confirmed && again.client == client && again.sequence == 2);
}

/// Case 3.
#[test]
fn another_principal_may_not_take_an_owner_that_has_state() {
    let mut clients = clients();
    let (client, session) = confirmed(&mut clients);
    assert_eq!(exchange(&mut clients, 1, 0, 2), Err(Status::ClidInuse));
    let without_state = |clients: &mut Clients| {
        clients.exchange_id(&args(b"a", 1, 0), (principal(2), &HOST), start(), |_| false)
    };
    let taken = without_state(&mut clients).unwrap();
    assert_eq!(taken.removed, [client]);
    assert!(clients.session(&session).is_none());
}

/// Case 5.
#[test]
fn a_restarted_client_loses_its_state_when_it_confirms() {
    let mut clients = clients();
    let (before, session) = confirmed(&mut clients);
    let after = exchange(&mut clients, 2, 0, 1).unwrap();
    assert!(!after.is_confirmed && clients.session(&session).is_some());
    let created = create(&mut clients, after.client, 1).unwrap();
    assert_eq!(created.removed, [before]);
    assert!(clients.session(&session).is_none());
    // The replay does not name the removed client again.
    let replay = create(&mut clients, after.client, 1).unwrap();
    assert!(replay.removed.is_empty() && replay.session == created.session);
}

/// Cases 6 to 9.
#[test]
fn an_update_needs_the_same_confirmed_record() {
    let mut clients = clients();
    assert_eq!(exchange(&mut clients, 1, UPDATE, 1), Err(Status::Noent));
    let (client, _) = confirmed(&mut clients);
    let same = exchange(&mut clients, 1, UPDATE, 1).unwrap();
    assert_eq!((same.client, same.is_confirmed), (client, true));
    assert_eq!(exchange(&mut clients, 2, UPDATE, 1), Err(Status::NotSame));
    assert_eq!(exchange(&mut clients, 1, UPDATE, 2), Err(Status::Perm));
}

#[test]
fn flags_and_protections_without_support_are_refused() {
    let mut clients = clients();
    for bad in [1 << 31, 1 << 2, 1 << 3, 1 << 20] {
        assert_eq!(exchange(&mut clients, 1, bad, 1), Err(Status::Inval));
    }
    let mut secret = args(b"a", 1, 0);
    secret.protection = StateProtection::Secret;
    let refused = clients.exchange_id(&secret, (principal(1), &HOST), start(), |_| false);
    assert_eq!(refused, Err(Status::EncrAlgUnsupp));
}

/// §18.36.4.
#[test]
fn create_session_is_executed_once() {
    let mut clients = clients();
    assert_eq!(create(&mut clients, 99, 1), Err(Status::StaleClientid));
    let client = exchange(&mut clients, 1, 0, 1).unwrap().client;
    for bad in [0, 2] {
        let refused = create(&mut clients, client, bad);
        assert_eq!(refused, Err(Status::SeqMisordered));
    }
    let first = create(&mut clients, client, 1).unwrap();
    assert_eq!(create(&mut clients, client, 1), Ok(first.clone()));
    let second = create(&mut clients, client, 2).unwrap();
    assert_ne!(first.session, second.session);
    assert_eq!(create(&mut clients, client, 1), Err(Status::SeqMisordered));
    assert_eq!(clients.counts(), (1, 2, 8));
}

#[test]
fn callbacks_need_room_for_their_headers() {
    let mut clients = clients();
    let client = exchange(&mut clients, 1, 0, 1).unwrap().client;
    let args = CreateSession {
        client,
        sequence: 1,
        flags: 0,
        fore: CHANNEL,
        back: Channel {
            request_max: 10,
            ..CHANNEL
        },
        callback_program: 1,
        security: vec![CallbackSecurity::None],
    };
    let refused = clients.create_session(&args, (principal(1), 1, &HOST), start(), |_| true);
    assert_eq!(refused, Err(Status::Toosmall));
    assert_eq!(clients.counts(), (1, 0, 0));
}

#[test]
fn sessions_get_limits_of_ours() {
    let mut clients = clients();
    let client = exchange(&mut clients, 1, 0, 1).unwrap().client;
    let small = Channel {
        reply_max: 100,
        ..CHANNEL
    };
    let refused = create_with(&mut clients, client, 1, small, start());
    assert_eq!(refused, Err(Status::Toosmall));
    let large = Channel {
        slots: 5000,
        operations_max: 5000,
        cached_max: 1 << 20,
        ..CHANNEL
    };
    let fore = create_with(&mut clients, client, 1, large, start())
        .unwrap()
        .fore;
    assert_eq!(fore.slots, crate::limits::SESSION_SLOTS_MAX);
    assert_eq!(fore.operations_max, crate::limits::OPERATIONS_MAX);
    assert_eq!(fore.cached_max, crate::limits::CACHED_REPLY_MAX);
    assert_eq!((fore.request_max, fore.header_padding), (4096, 0));
}

#[test]
fn sessions_and_slots_are_bounded() {
    let mut clients = clients_of(8, 10);
    let client = exchange(&mut clients, 1, 0, 1).unwrap().client;
    for sequence in 1..=3 {
        let fore = create(&mut clients, client, sequence).unwrap().fore;
        assert_eq!(fore.slots, 1, "an eighth of the slots that are left");
    }
    assert_eq!(create(&mut clients, client, 4), Err(Status::Delay));
    let mut full = clients_of(8, 1);
    let (client, session) = confirmed(&mut full);
    assert_eq!(create(&mut full, client, 2), Err(Status::Delay));
    full.destroy_session(&session, &HOST).unwrap();
    assert!(create(&mut full, client, 2).is_ok());
}

#[test]
fn client_records_are_bounded_and_the_oldest_idle_one_goes() {
    let mut clients = clients_of(2, 100);
    let (client, _) = confirmed(&mut clients);
    let exchange = |clients: &mut Clients, owner: &[u8], now| {
        clients.exchange_id(&args(owner, 1, 0), (principal(1), &HOST), now, |_| true)
    };
    let b = exchange(&mut clients, b"b", start()).unwrap().client;
    let c = exchange(&mut clients, b"c", start()).unwrap();
    assert_eq!(c.removed, [b], "an unconfirmed record goes first");
    create(&mut clients, c.client, 1).unwrap();
    assert_eq!(exchange(&mut clients, b"d", start()), Err(Status::Delay));
    let later = start() + LEASE + Duration::from_secs(1);
    let d = exchange(&mut clients, b"d", later).unwrap();
    assert!(d.removed == [client] || d.removed == [c.client]);
}

/// §18.50, §18.37.
#[test]
fn a_client_with_sessions_or_state_is_not_destroyed() {
    let mut clients = clients();
    let (client, session) = confirmed(&mut clients);
    assert_eq!(
        clients.destroy_client(client, &HOST, false),
        Err(Status::ClientidBusy)
    );
    clients.destroy_session(&session, &HOST).unwrap();
    assert_eq!(
        clients.destroy_session(&session, &HOST),
        Err(Status::Badsession)
    );
    assert_eq!(
        clients.destroy_client(client, &HOST, true),
        Err(Status::ClientidBusy)
    );
    assert_eq!(clients.destroy_client(client, &HOST, false), Ok(()));
    assert_eq!(
        clients.destroy_client(client, &HOST, false),
        Err(Status::StaleClientid)
    );
    assert_eq!(clients.counts(), (0, 0, 0));
}

/// §8.3: state stays after the lease, as a courtesy, until it is in the way.
#[test]
fn an_expired_client_goes_when_it_is_in_the_way() {
    let mut clients = clients();
    let (client, session) = confirmed(&mut clients);
    assert!(!clients.expire(client, start() + LEASE));
    let late = start() + LEASE + Duration::from_secs(1);
    assert!(clients.sweep(late).is_empty());
    let session = clients.session(&session).unwrap();
    assert!(clients.expire(client, late) && session.is_gone());
    assert_eq!(begin(&session, 0, 1, 0), Err(Status::Badsession));
}

#[test]
fn courtesy_ends() {
    let mut clients = clients();
    let (client, _) = confirmed(&mut clients);
    let unconfirmed = exchange(&mut clients, 2, 0, 1).unwrap().client;
    let late = start() + LEASE + Duration::from_secs(1);
    assert_eq!(clients.sweep(late), [unconfirmed]);
    assert_eq!(clients.sweep(late + COURTESY), [client]);
}

/// §18.51.
#[test]
fn reclaim_is_completed_once() {
    let mut clients = clients();
    let (client, session) = confirmed(&mut clients);
    let session = clients.session(&session).unwrap();
    assert!(!session.has_reclaimed());
    assert_eq!(clients.reclaim_complete(client), Ok(()));
    assert!(session.has_reclaimed());
    assert_eq!(
        clients.reclaim_complete(client),
        Err(Status::CompleteAlready)
    );
}

/// §8.4.2.1.
#[test]
fn grace_ends_when_all_clients_have_reclaimed() {
    let end = start() + LEASE;
    let mut grace = Grace::new([b"a".to_vec(), b"b".to_vec()], end);
    assert!(grace.is_active(start()) && grace.may_reclaim(b"a", start()));
    assert!(!grace.may_reclaim(b"c", start()));
    assert!(!grace.is_active(end));
    grace.completed(b"a");
    assert!(grace.is_active(start()) && !grace.may_reclaim(b"a", start()));
    grace.completed(b"b");
    assert!(!grace.is_active(start()));
    assert!(!Grace::new([], end).is_active(start()));
}

fn session() -> Arc<Session> {
    let mut clients = clients();
    let (_, session) = confirmed(&mut clients);
    clients.session(&session).unwrap()
}

fn begin(session: &Session, slot: u32, sequence: u32, print: u64) -> Result<Begun, Status> {
    let args = Sequence {
        session: session.id(),
        sequence,
        slot,
        highest_slot: 3,
        cache_this: true,
    };
    session.begin(&args, print, start())
}

/// §2.10.6.1.
#[test]
fn a_slot_executes_each_sequence_number_once() {
    let session = session();
    let misordered = Err(Status::SeqMisordered);
    assert_eq!(begin(&session, 0, 0, 5), misordered);
    assert_eq!(begin(&session, 0, 2, 5), misordered);
    assert_eq!(begin(&session, 0, 1, 5), Ok(Begun::Execute));
    // §2.10.6.2: a retry of a request in progress.
    assert_eq!(begin(&session, 0, 1, 5), Err(Status::Delay));
    assert_eq!(begin(&session, 0, 2, 5), misordered);
    assert_eq!(
        begin(&session, 1, 1, 5),
        Ok(Begun::Execute),
        "slots are independent"
    );
    session.complete(0, Some([1, 2][..].into()), start());
    for _ in 0..2 {
        assert_eq!(
            begin(&session, 0, 1, 5),
            Ok(Begun::Replay([1, 2][..].into()))
        );
    }
    assert_eq!(begin(&session, 0, 1, 6), Err(Status::SeqFalseRetry));
    assert_eq!(begin(&session, 0, 3, 5), misordered);
    assert_eq!(begin(&session, 0, 2, 6), Ok(Begun::Execute));
    session.complete(0, None, start());
    assert_eq!(begin(&session, 0, 2, 6), Ok(Begun::Forgotten));
}

/// §18.46.3.
#[test]
fn slots_that_do_not_exist_are_refused() {
    let session = session();
    assert_eq!(begin(&session, 4, 1, 5), Err(Status::Badslot));
    let args = Sequence {
        session: session.id(),
        sequence: 1,
        slot: 0,
        highest_slot: 4,
        cache_this: false,
    };
    let refused = session.begin(&args, 5, start());
    assert_eq!(refused, Err(Status::BadHighSlot));
}

pub(super) fn exchange_by(
    clients: &mut Clients,
    owner: u8,
    visitor: &Visitor,
    now: Instant,
) -> Result<super::Exchanged, Status> {
    let owner = [owner];
    let exchange = args(&owner, 1, 0);
    clients.exchange_id(&exchange, (principal(1), visitor), now, |_| false)
}

fn create_by(
    clients: &mut Clients,
    client: u64,
    visitor: &Visitor,
    now: Instant,
) -> Result<Created, Status> {
    let args = CreateSession {
        client,
        sequence: 1,
        flags: 0,
        fore: CHANNEL,
        back: CHANNEL,
        callback_program: 1,
        security: vec![CallbackSecurity::None],
    };
    clients.create_session(&args, (principal(1), 1, visitor), now, |_| false)
}

/// Regression: 4,100 EXCHANGE_IDs evicted a client in courtesy, and its locks, before any unconfirmed record.
#[test]
fn unconfirmed_records_go_before_a_client_in_courtesy() {
    let mut clients = clients_of(4, 100);
    let (courtesy, _) = confirmed(&mut clients);
    let late = start() + LEASE + Duration::from_secs(1);
    let flood = visitor(2, Standing::Admitted);
    let mut removed = Vec::new();
    for owner in 0..9 {
        let exchanged = exchange_by(&mut clients, owner, &flood, late).unwrap();
        removed.extend(exchanged.removed);
    }
    assert_eq!(
        removed.len(),
        6,
        "three of nine have a place beside the client"
    );
    assert!(!removed.contains(&courtesy));
}

/// At a limit, a client without state is evicted: of the address with the most, the oldest.
#[test]
fn clients_without_state_make_way_by_address() {
    let mut clients = clients_of(8, 28);
    let honest = visitor(2, Standing::Admitted);
    let flood = visitor(3, Standing::Admitted);
    let old = exchange_by(&mut clients, 100, &honest, start())
        .unwrap()
        .client;
    create_by(&mut clients, old, &honest, start()).unwrap();
    let mut removed = Vec::new();
    for owner in 0..20 {
        let now = start() + Duration::from_secs(u64::from(owner));
        let exchanged = exchange_by(&mut clients, owner, &flood, now).unwrap();
        let created = create_by(&mut clients, exchanged.client, &flood, now).unwrap();
        removed.extend(exchanged.removed);
        removed.extend(created.removed);
    }
    assert!(!removed.contains(&old), "the flood evicts itself");
    assert!(clients.sessions_of(old).len() == 1 && clients.counts().2 <= 25);
    // Listed hosts have the places that are kept for them.
    let listed = exchange_by(&mut clients, 101, &HOST, start()).unwrap();
    assert!(listed.removed.is_empty());
    assert!(
        create_by(&mut clients, listed.client, &HOST, start())
            .unwrap()
            .removed
            .is_empty()
    );
}

/// A client with state and a valid lease is not evicted.
#[test]
fn state_with_a_valid_lease_stays() {
    let mut clients = clients_of(2, 4);
    let host = visitor(2, Standing::Listed);
    for owner in 0..2 {
        let exchanged = exchange_by(&mut clients, owner, &host, start()).unwrap();
        create_by(&mut clients, exchanged.client, &host, start()).unwrap();
    }
    let args = args(b"new", 1, 0);
    let with_state = |clients: &mut Clients, now| {
        clients.exchange_id(&args, (principal(1), &host), now, |_| true)
    };
    assert_eq!(with_state(&mut clients, start()), Err(Status::Delay));
    let late = start() + LEASE + Duration::from_secs(1);
    assert_eq!(with_state(&mut clients, late).unwrap().removed.len(), 1);
}

/// Regression: a record that was never confirmed was confirmed after its lease (pynfs EID9).
#[test]
fn an_unconfirmed_record_ends_with_its_lease() {
    let mut clients = clients();
    let client = exchange(&mut clients, 1, 0, 1).unwrap().client;
    let late = start() + LEASE + Duration::from_secs(1);
    let refused = create_with(&mut clients, client, 1, CHANNEL, late);
    assert_eq!(refused, Err(Status::StaleClientid));
    assert_eq!(clients.counts().0, 0);
}
