//! Bytes as PDUs: the decoder, every request, additional header segments and text. A parsed PDU must encode again.

use iscsi::wire::decode::{Decoded, Rules, decode};
use iscsi::wire::request::{Ahs, Request};
use iscsi::wire::text::{Pairs, binary, number};
use iscsi::wire::{Bhs, IscsiName};

fn rebuilt(r: &Request) -> Bhs {
    match r {
        Request::NopOut(r) => r.build(),
        Request::Scsi(r) => r.build(),
        Request::TaskManagement(r) => r.build(),
        Request::Login(r) => r.build(),
        Request::Text(r) => r.build(),
        Request::DataOut(r) => r.build(),
        Request::Logout(r) => r.build(),
        Request::Snack(r) => r.build(),
    }
}

pub fn run(input: &[u8]) {
    let Some((flags, bytes)) = input.split_first() else { return };
    let rules = Rules {
        header_digest: flags & 1 != 0,
        data_digest: flags & 2 != 0,
        data_max: 65536,
    };
    if let Ok(Decoded::Header(h)) = decode(bytes, &rules) {
        assert!(h.len <= bytes.len() && h.data_len <= rules.data_max);
        let _ = Ahs::parse(&bytes[48..48 + h.ahs_len]);
        if let Ok(r) = Request::parse(&h.bhs) {
            assert_eq!(Request::parse(&rebuilt(&r)), Ok(r));
        }
    }
    if let Ok(pairs) = Pairs::parse(bytes) {
        for (_, value) in pairs.iter() {
            let _ = (number(value), IscsiName::new(value));
            if let Some(b) = binary(value, 64) {
                assert!(b.len() <= 64);
            }
        }
    }
}
