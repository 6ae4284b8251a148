//! Both ends of TLS without a socket: handshakes that succeed and fail, and bytes in arbitrary parts.

use io::sim::{Sim, SimConfig};
use proptest::prelude::*;
use testkit::certificates::{Authority, Signed, parties};
use tls::{Acceptor, ConfigError, Connector, Engine, Identity, TlsError};

const ALPN: &[u8] = b"sunrpc";

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

fn connector(ca: &Authority, identity: Option<&Signed>) -> Connector {
    let identity = identity.map(self::identity);
    Connector::new(ca.certificate.as_bytes(), identity, ALPN).expect("a configuration")
}

/// Moves the output of one end to the other, in parts of this many bytes, with no plain bytes in between.
fn transfer(from: &mut Engine, to: &mut Engine, part: usize) -> Result<usize, TlsError> {
    let mut output = Vec::new();
    from.take_output(&mut output);
    for mut bytes in output.chunks(part) {
        while !bytes.is_empty() {
            let taken = to.decrypt(bytes)?;
            assert!(taken > 0, "bytes of a handshake are taken");
            bytes = &bytes[taken..];
        }
    }
    Ok(output.len())
}

/// The handshake of both ends, in parts of this many bytes. The failure is that of the end named first: the client, or the server.
fn handshake(
    (client, server): (&mut Engine, &mut Engine),
    part: usize,
) -> Result<(), (bool, TlsError)> {
    loop {
        let sent = transfer(client, server, part).map_err(|e| (false, e))?;
        let answered = transfer(server, client, part).map_err(|e| (true, e))?;
        if sent + answered == 0 {
            return Ok(());
        }
    }
}

fn ends(connector: &Connector) -> (Engine, Engine) {
    let client = connector.engine("server.test").expect("a name");
    (client, acceptor().engine().expect("an engine"))
}

/// The clock is that of a runtime.
fn simulated<T: 'static>(test: impl FnOnce() -> T + 'static) -> T {
    Sim::new(1, SimConfig::default()).block_on(async move { test() })
}

#[test]
fn both_ends_agree_and_know_each_other() {
    simulated(|| {
        let w = parties();
        for (identity, peer) in [(None, None), (Some(&w.client), Some("client.test"))] {
            let (mut client, mut server) = ends(&connector(&w.ours, identity));
            assert_eq!(server.session(), None);
            handshake((&mut client, &mut server), 1000).expect("a handshake");
            let session = server.session().expect("agreed");
            assert_eq!((session.version, session.peer.as_deref()), ("1.3", peer));
            assert!(session.cipher.starts_with("TLS_"), "{}", session.cipher);
            let known = client.session().expect("agreed").peer;
            assert_eq!(known.as_deref(), Some("server.test"));
        }
    });
}

#[test]
fn strangers_are_refused() {
    simulated(|| {
        let w = parties();
        let (mut client, mut server) = ends(&connector(&w.ours, Some(&w.stranger)));
        let refused = handshake((&mut client, &mut server), 1000);
        assert!(matches!(refused, Err((false, TlsError::Protocol(_)))));
        // The client learns why.
        let told = transfer(&mut server, &mut client, 1000);
        assert!(matches!(told, Err(TlsError::Protocol(_))), "{told:?}");
        let (mut client, mut server) = ends(&connector(&w.other, None));
        let refused = handshake((&mut client, &mut server), 1000);
        assert!(matches!(refused, Err((true, TlsError::Protocol(_)))));
    });
}

#[test]
fn another_application_protocol_is_refused() {
    simulated(|| {
        let ca = parties().ours.certificate.as_bytes();
        let connector = Connector::new(ca, None, b"h2").expect("a configuration");
        let (mut client, mut server) = ends(&connector);
        let refused = handshake((&mut client, &mut server), 1000);
        assert!(matches!(refused, Err((false, TlsError::Protocol(_)))));
    });
}

#[test]
fn the_end_of_one_direction_is_seen() {
    simulated(|| {
        let (mut client, mut server) = ends(&connector(&parties().ours, None));
        handshake((&mut client, &mut server), 1000).expect("a handshake");
        client.close();
        transfer(&mut client, &mut server, 1000).expect("an end");
        assert!(server.is_closed() && server.read(&mut [0; 10]) == 0);
        assert_eq!(server.decrypt(b"more"), Ok(0));
    });
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let w = parties();
    let (good, other) = (identity(&w.server), identity(&w.client));
    let refused = |certificate, key, ca: Option<&[u8]>| {
        let identity = Identity { certificate, key };
        Acceptor::new(identity, ca, ALPN).expect_err("refused")
    };
    assert_eq!(refused(b"", good.key, None), ConfigError::Certificate);
    assert_eq!(refused(good.key, good.key, None), ConfigError::Certificate);
    assert_eq!(refused(good.certificate, b"x", None), ConfigError::Key);
    let mismatch = refused(good.certificate, other.key, None);
    assert!(matches!(mismatch, ConfigError::Mismatch(_)), "{mismatch}");
    let no_ca = refused(good.certificate, good.key, Some(b"nothing"));
    assert_eq!(no_ca, ConfigError::Certificate);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn bytes_arrive_as_they_were_sent(
        sizes in prop::collection::vec(1usize..40_000, 1..6),
        part in 1usize..20_000,
        room in 1usize..20_000,
    ) {
        let received = simulated(move || {
            let (mut client, mut server) = ends(&connector(&parties().ours, None));
            handshake((&mut client, &mut server), part).expect("a handshake");
            let mut sent = Vec::new();
            let mut wire = Vec::new();
            for (at, size) in sizes.into_iter().enumerate() {
                let bytes: Vec<u8> = (0..size).map(|i| (i + at) as u8).collect();
                client.encrypt(&bytes);
                client.take_output(&mut wire);
                sent.extend(bytes);
            }
            let mut received = Vec::new();
            let mut out = vec![0; room];
            for mut bytes in wire.chunks(part) {
                while !bytes.is_empty() {
                    bytes = &bytes[server.decrypt(bytes).expect("records")..];
                    loop {
                        let read = server.read(&mut out);
                        if read == 0 {
                            break;
                        }
                        received.extend_from_slice(&out[..read]);
                    }
                }
            }
            (sent, received)
        });
        prop_assert!(received.0 == received.1);
    }

    /// A hostile peer: any bytes, as the first ones or after a handshake, end the connection or wait for more; nothing panics.
    #[test]
    fn garbage_ends_a_connection(
        mut bytes in prop::collection::vec(any::<u8>(), 1..3000),
        is_record in any::<bool>(),
        is_established in any::<bool>(),
    ) {
        if is_record && bytes.len() > 5 {
            // The header of a record of a handshake, or of data.
            let len = (bytes.len() - 5) as u16;
            bytes[..3].copy_from_slice(&[if is_established { 23 } else { 22 }, 3, 3]);
            bytes[3..5].copy_from_slice(&len.to_be_bytes());
        }
        let read = simulated(move || {
            let (mut client, mut server) = ends(&connector(&parties().ours, None));
            if is_established {
                handshake((&mut client, &mut server), 1000).expect("a handshake");
            }
            let mut left = &bytes[..];
            while !left.is_empty() {
                match server.decrypt(left) {
                    Ok(taken) => left = &left[taken..],
                    Err(_) => break,
                }
            }
            let mut alert = Vec::new();
            server.take_output(&mut alert);
            server.read(&mut [0; 100])
        });
        prop_assert_eq!(read, 0);
    }
}
