//! RPC-with-TLS (RFC 9289): sessions inside of TLS, rules that demand it, peers that break it.

use crate::client::{Client, FORE};
use crate::fixture::{Fixture, HOME, all_rights, config, export, open, simulated};
use crate::v3::client::Results;
use io::net::TcpStream;
use io::{Payload, RecvBuf, SendBatch};
use nfs::export::{Rule, Security};
use nfs::rpc::{ALPN, AUTH_TLS, AuthStat, Probe, Reply};
use nfs::service::{CloseReason, ServiceConfig};
use nfs::v3::wire::{Arguments, Status as Status3};
use nfs::wire::channel::BindConnection;
use nfs::wire::files::{CreateHow, ReadDir};
use nfs::wire::{Attrs, Bitmap, Op, PROGRAM, Stateid, Status, VERSION, operation};
use nfs::xdr::{Reader, Writer};
use std::time::Duration;
use testkit::certificates::{Authority, Signed, parties};
use tls::{Acceptor, Connector, Identity, TlsError};

fn identity(signed: &Signed) -> Identity<'_> {
    Identity {
        certificate: signed.certificate.as_bytes(),
        key: signed.key.as_bytes(),
    }
}

fn acceptor() -> Acceptor {
    let w = parties();
    let ca = Some(w.ours.certificate.as_bytes());
    Acceptor::new(identity(&w.server), ca, ALPN).expect("a configuration")
}

fn connector(ca: &Authority, signed: Option<&Signed>) -> Connector {
    let signed = signed.map(identity);
    Connector::new(ca.certificate.as_bytes(), signed, ALPN).expect("a configuration")
}

fn anonymous() -> Connector {
    connector(&parties().ours, None)
}

/// `/tank/home` for all connections, `/tls` and `/mtls` for those with TLS, and with a certificate.
async fn fixture() -> Fixture {
    let fixture = Fixture::with(config()).await;
    fixture.service.set_tls(Some(acceptor()));
    for (id, path, security) in [
        (2, "/tls", Security::Tls),
        (3, "/mtls", Security::MutualTls),
    ] {
        let rule = Rule {
            security,
            ..all_rights()
        };
        let added = fixture.service.add_export(export(id, path, rule));
        added.expect("a new export");
    }
    fixture
}

/// A client with a session inside of TLS.
async fn secured(fixture: &Fixture, connector: &Connector, owner: &str) -> Client {
    let mut client = Client::connect(fixture.addr).await;
    client.secure(connector).await.expect("a handshake");
    client.establish(owner.as_bytes(), FORE).await;
    let mut results = client.run(&[Op::ReclaimComplete { one_fs: false }]).await;
    results.ok(operation::RECLAIM_COMPLETE);
    client
}

/// Whether the server closes the connection within a minute; bytes that it sends before are dropped.
async fn ends(stream: &TcpStream) -> bool {
    let mut staging = RecvBuf::new(4096);
    let end = io::timeout(Duration::from_secs(60), async {
        loop {
            let (received, back) = stream.recv(staging).await;
            if received.unwrap_or(0) == 0 {
                return;
            }
            staging = back;
            let len = staging.readable().len();
            staging.consume(len);
        }
    });
    end.await.is_ok()
}

async fn send_plain(client: &Client, bytes: &[u8]) {
    let mut batch = SendBatch::new();
    batch.put_payload(Payload::from(bytes.to_vec()));
    let _ = client.stream().tcp().send(batch).await;
}

fn write<'a>(stateid: Stateid, data: &'a [u8]) -> Op<'a> {
    Op::Write {
        stateid,
        offset: 0,
        stable: 2,
        data,
    }
}

#[test]
fn files_are_used_inside_of_tls() {
    simulated(|| async {
        let fixture = fixture().await;
        let mut client = secured(&fixture, &anonymous(), "a").await;
        let create = CreateHow::Unchecked(Attrs {
            mask: Default::default(),
            values: &[],
        });
        let mut results = client.at(HOME, &[open("f", Some(create))]).await;
        let stateid = results.open();
        // Longer than a staging area, a record of TLS, and what is encrypted at a time.
        let data: Vec<u8> = (0..700_000u32).map(|i| (i / 3) as u8).collect();
        let mut path = HOME.to_vec();
        path.push("f");
        let written = client.at(&path, &[write(stateid, &data)]).await;
        assert_eq!(written.status, Status::Ok);
        let read = Op::Read {
            stateid,
            offset: 0,
            count: 1 << 20,
        };
        let mut results = client.at(&path, &[read]).await;
        results.ok(operation::READ);
        assert_eq!(results.u32(), 1);
        assert!(results.opaque() == data);
        let infos = fixture.service.clients();
        let session = infos[0].connections[0].tls.clone().expect("TLS");
        assert_eq!((session.version, session.peer), ("1.3", None));
        let counters = fixture.service.counters();
        assert_eq!((counters.handshakes, counters.handshake_failures), (1, 0));
    });
}

#[test]
fn connections_without_tls_go_on() {
    simulated(|| async {
        let fixture = fixture().await;
        let mut client = fixture.client("a").await;
        assert_eq!(client.at(HOME, &[]).await.status, Status::Ok);
        assert_eq!(fixture.service.clients()[0].connections[0].tls, None);
    });
}

#[test]
fn a_certificate_stands_for_a_privileged_port() {
    simulated(|| async {
        let fixture = fixture().await;
        let rule = Rule {
            needs_privileged_port: true,
            ..all_rights()
        };
        let set = fixture.service.set_rules("/tank/home", vec![rule]);
        set.expect("it is there");
        let certified = connector(&parties().ours, Some(&parties().client));
        let mut mutual = secured(&fixture, &certified, "mutual").await;
        assert_eq!(mutual.at(HOME, &[]).await.status, Status::Ok);
        let mut tls = secured(&fixture, &anonymous(), "tls").await;
        let look = [
            Op::PutRootFh,
            Op::Lookup { name: b"tank" },
            Op::Lookup { name: b"home" },
        ];
        assert_eq!(tls.run(&look).await.status, Status::Perm);
    });
}

#[test]
fn exports_refuse_connections_that_are_not_protected_as_they_demand() {
    simulated(|| async {
        let fixture = fixture().await;
        let certified = connector(&parties().ours, Some(&parties().client));
        let mut plain = fixture.client("plain").await;
        let mut tls = secured(&fixture, &anonymous(), "tls").await;
        let mut mutual = secured(&fixture, &certified, "mutual").await;
        for (client, wrong) in [
            (&mut plain, &["tls", "mtls"][..]),
            (&mut tls, &["mtls"]),
            (&mut mutual, &[]),
        ] {
            for name in ["tls", "mtls"] {
                let look = [
                    Op::PutRootFh,
                    Op::Lookup {
                        name: name.as_bytes(),
                    },
                    Op::GetFh,
                ];
                let status = client.run(&look).await.status;
                let expected = match wrong.contains(&name) {
                    true => Status::Wrongsec,
                    false => Status::Ok,
                };
                assert_eq!(status, expected, "{name}");
                // The client asks what it may use.
                let ask = [
                    Op::PutRootFh,
                    Op::SecInfo {
                        name: name.as_bytes(),
                    },
                ];
                assert_eq!(client.run(&ask).await.status, Status::Ok, "{name}");
            }
        }
        let names = fixture.service.clients().into_iter().map(|client| {
            let session = client.connections[0].tls.clone();
            session.and_then(|session| session.peer)
        });
        let names: Vec<_> = names.collect();
        assert!(names.contains(&Some("client.test".to_owned())), "{names:?}");
    });
}

#[test]
fn a_handle_of_a_protected_export_is_useless_without_tls() {
    simulated(|| async {
        let fixture = fixture().await;
        let mut tls = secured(&fixture, &anonymous(), "tls").await;
        let mut results = tls.at(&["tls"], &[Op::GetFh]).await;
        results.ok(operation::GETFH);
        let handle = results.opaque();
        let mut plain = fixture.client("plain").await;
        let put = || Op::PutFh(&handle);
        let getattr = || Op::GetAttr(Default::default());
        let lookup = Op::Lookup { name: b"f" };
        // §2.6.3.1.1: the operation that uses the handle, or the one that sets it for others.
        for (operations, failed, status) in [
            (vec![put(), getattr()], operation::PUTFH, Status::Wrongsec),
            (vec![put(), lookup], operation::LOOKUP, Status::Wrongsec),
            (
                vec![put(), open("f", None)],
                operation::OPEN,
                Status::Wrongsec,
            ),
            (
                vec![put(), Op::SaveFh, getattr()],
                operation::PUTFH,
                Status::Wrongsec,
            ),
            (
                vec![put(), Op::PutRootFh, getattr()],
                operation::GETATTR,
                Status::Ok,
            ),
            (
                vec![put(), Op::SecInfoNoName { style: 0 }],
                operation::SECINFO_NO_NAME,
                Status::Ok,
            ),
            (vec![put()], operation::PUTFH, Status::Ok),
        ] {
            let mut results = plain.run(&operations).await;
            assert_eq!(results.status, status, "{operations:?}");
            for _ in 2..results.count {
                results.u32();
                assert_eq!(results.u32(), 0);
            }
            assert_eq!(results.u32(), failed, "{operations:?}");
        }
        assert_eq!(tls.run(&[put(), getattr()]).await.status, Status::Ok);
        // The directory above lists the names, without attributes.
        let list = |words: &[u32]| {
            let args = ReadDir {
                cookie: 0,
                verifier: [0; 8],
                names_max: 4096,
                bytes_max: 4096,
                attributes: Bitmap::of(words),
            };
            [Op::PutRootFh, Op::ReadDir(args)]
        };
        const RDATTR_ERROR: u32 = 11;
        const FILEID: u32 = 20;
        assert_eq!(plain.run(&list(&[FILEID])).await.status, Status::Wrongsec);
        let mut listed = plain.run(&list(&[RDATTR_ERROR, FILEID])).await;
        listed.ok(operation::PUTROOTFH);
        listed.ok(operation::READDIR);
        listed.skip(8 + 4 + 8);
        assert_eq!(listed.opaque(), b"mtls");
        assert_eq!(listed.bitmap(), Bitmap::of(&[RDATTR_ERROR]));
        assert_eq!((listed.u32(), listed.u32()), (4, Status::Wrongsec.code()));
    });
}

#[test]
fn version_3_refuses_them_as_well() {
    simulated(|| async {
        let fixture = fixture().await;
        let mut plain = Client::connect(fixture.addr).await;
        // Linux asks for the root without TLS, and for everything else with it.
        let root = plain.mounted("/tls").await.expect("the root");
        const ACCESS: u32 = 13;
        assert_eq!(plain.mounted("/tls/directory").await, Err(ACCESS));
        let ask = Arguments::FsInfo { object: &root };
        assert_eq!(plain.refused(&ask).await, Status3::Access);
        let mut tls = Client::connect(fixture.addr).await;
        tls.secure(&anonymous()).await.expect("a handshake");
        let info: Results = tls.v3(&ask).await;
        assert_eq!(info.status, Status3::Ok);
        assert_eq!(tls.mounted("/tls").await, Ok(root));
    });
}

#[test]
fn strangers_are_refused_and_told() {
    simulated(|| async {
        let fixture = fixture().await;
        let stranger = connector(&parties().ours, Some(&parties().stranger));
        let mut client = Client::connect(fixture.addr).await;
        // In TLS 1.3 a client ends its handshake before the server has seen its certificate.
        if client.secure(&stranger).await.is_ok() {
            assert_eq!(client.receive().await, None);
            let told = client.stream().failure();
            assert!(matches!(told, Some(TlsError::Protocol(_))), "{told:?}");
        }
        let mut client = Client::connect(fixture.addr).await;
        let distrusting = connector(&parties().other, None);
        let refused = client.secure(&distrusting).await;
        assert!(matches!(refused, Err(TlsError::Protocol(_))), "{refused:?}");
        client.stream().close().await;
        io::time::sleep(Duration::from_secs(5)).await;
        let counters = fixture.service.counters();
        assert_eq!((counters.handshakes, counters.handshake_failures), (0, 2));
        assert_eq!(counters.connections.closed_for(CloseReason::Handshake), 2);
    });
}

/// Sends a call with the flavour AUTH_TLS. Returns the outcome.
async fn ask_badly(client: &mut Client, procedure: u32, body: &[u8]) -> Reply {
    let mut call = Writer::new();
    let words = [77, 0, 2, PROGRAM, VERSION, procedure, AUTH_TLS];
    words.iter().for_each(|word| call.u32(*word));
    call.opaque(body);
    [0, 0].iter().for_each(|word| call.u32(*word));
    client.send(call.to_vec()).await;
    let reply = client.receive().await.expect("a reply");
    Reply::decode(&mut Reader::new(&reply)).expect("a reply").1
}

#[test]
fn probes_in_a_wrong_place_are_refused_and_the_connection_goes_on() {
    simulated(|| async {
        let fixture = fixture().await;
        let refused = Reply::AuthError(AuthStat::BadCredential);
        let mut client = Client::connect(fixture.addr).await;
        assert_eq!(ask_badly(&mut client, 1, b"").await, refused);
        assert_eq!(ask_badly(&mut client, 0, b"body").await, refused);
        client.secure(&anonymous()).await.expect("a handshake");
        assert!(!client.probe().await, "a connection has TLS once");
        client.establish(b"a", FORE).await;
        let mut plain = fixture.client("b").await;
        assert!(!plain.probe().await, "a session is used");
        assert_eq!(plain.at(HOME, &[]).await.status, Status::Ok);
        let counters = fixture.service.counters();
        assert_eq!((counters.handshakes, counters.probes_refused), (1, 4));
    });
}

#[test]
fn without_a_certificate_there_is_no_tls() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = Client::connect(fixture.addr).await;
        assert!(!client.probe().await);
        client.establish(b"a", FORE).await;
        // A certificate that comes later counts for later connections.
        fixture.service.set_tls(Some(acceptor()));
        let mut client = secured(&fixture, &anonymous(), "b").await;
        fixture.service.set_tls(None);
        assert_eq!(client.at(HOME, &[]).await.status, Status::Ok);
    });
}

#[test]
fn bytes_before_the_reply_to_a_probe_end_the_connection() {
    simulated(|| async {
        let fixture = fixture().await;
        let client = Client::connect(fixture.addr).await;
        let mut probe = Writer::new();
        Probe::encode(1, PROGRAM, VERSION, &mut probe);
        let probe = probe.to_vec();
        let mut bytes = nfs::rpc::record::mark(probe.len()).to_vec();
        bytes.extend(probe);
        bytes.extend([22, 3, 1]);
        client.send_bytes(bytes).await;
        assert!(ends(client.stream().tcp()).await);
        io::time::sleep(Duration::from_secs(5)).await;
        let counters = fixture.service.counters();
        assert_eq!(counters.connections.closed_for(CloseReason::Handshake), 1);
    });
}

#[test]
fn handshakes_that_fail_end_their_connections_and_no_others() {
    simulated(|| async {
        let fixture = Fixture::with(ServiceConfig {
            handshake_timeout: Duration::from_secs(20),
            ..config()
        })
        .await;
        fixture.service.set_tls(Some(acceptor()));
        let mut honest = secured(&fixture, &anonymous(), "honest").await;
        // No handshake, half of a record, a record of garbage, a plain request.
        for bytes in [
            &b""[..],
            &[22, 3, 1, 1, 0, 1],
            &[22, 3, 1, 0, 4, 9, 9, 9, 9],
            &[0; 200],
        ] {
            let mut client = Client::connect(fixture.addr).await;
            assert!(client.probe().await);
            send_plain(&client, bytes).await;
            assert!(ends(client.stream().tcp()).await, "{bytes:?}");
        }
        // The end of the network.
        let mut client = Client::connect(fixture.addr).await;
        assert!(client.probe().await);
        client.stream().tcp().shutdown();
        assert_eq!(honest.at(HOME, &[]).await.status, Status::Ok);
        io::time::sleep(Duration::from_secs(5)).await;
        let counters = fixture.service.counters();
        assert_eq!((counters.handshakes, counters.handshake_failures), (1, 5));
        assert_eq!(
            counters
                .connections
                .closed_for(CloseReason::HandshakeTimeout),
            2
        );
        assert_eq!(counters.connections.closed_for(CloseReason::Handshake), 3);
    });
}

#[test]
fn a_connection_without_a_session_after_its_handshake_ends() {
    simulated(|| async {
        let fixture = fixture().await;
        let mut client = Client::connect(fixture.addr).await;
        client.secure(&anonymous()).await.expect("a handshake");
        let closed = io::timeout(Duration::from_secs(60), client.receive()).await;
        assert_eq!(closed.expect("closed by the deadline"), None);
        assert_eq!(
            client.stream().failure(),
            None,
            "the server says that it ends"
        );
        let counters = fixture.service.counters();
        assert_eq!(counters.connections.closed_for(CloseReason::NoSession), 1);
    });
}

#[test]
fn forged_records_end_a_connection() {
    simulated(|| async {
        let fixture = fixture().await;
        let client = secured(&fixture, &anonymous(), "a").await;
        let mut forged = vec![23, 3, 3, 0, 40];
        forged.extend([7; 40]);
        send_plain(&client, &forged).await;
        assert!(ends(client.stream().tcp()).await);
        io::time::sleep(Duration::from_secs(5)).await;
        let counters = fixture.service.counters();
        assert_eq!(counters.connections.closed_for(CloseReason::Tls), 1);
        assert_eq!(counters.handshake_failures, 0);
    });
}

/// A session that a client with a certificate had made was used, bound and destroyed by another client with a certificate, over its own
/// connection.
#[test]
fn a_session_is_of_the_owner_of_the_certificate() {
    simulated(|| async {
        let fixture = fixture().await;
        let ca = &parties().ours;
        let own = connector(ca, Some(&parties().client));
        let mut client = secured(&fixture, &own, "one").await;
        let renewed = connector(ca, Some(&ca.sign(&["client.test"])));
        let other = connector(ca, Some(&ca.sign(&["other.test"])));
        for (connector, wanted) in [(&other, Status::Badsession), (&renewed, Status::Ok)] {
            let mut taker = Client::connect(fixture.addr).await;
            taker.secure(connector).await.expect("a handshake");
            (taker.id, taker.session, taker.sequence) =
                (client.id, client.session, client.sequence);
            let sequence = taker.next_sequence(false);
            assert_eq!(taker.compound(&[sequence]).await.status, wanted);
            let bind = Op::BindConnection(BindConnection {
                session: client.session,
                direction: 1,
                use_rdma: false,
            });
            assert_eq!(taker.compound(&[bind]).await.status, wanted);
            if wanted != Status::Ok {
                let destroy = Op::DestroySession(client.session);
                assert_eq!(taker.compound(&[destroy]).await.status, wanted);
                assert_eq!(client.run(&[]).await.status, Status::Ok);
            }
        }
    });
}
