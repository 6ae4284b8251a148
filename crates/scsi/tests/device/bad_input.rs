//! Malformed commands: each has an outcome, returns at most the expected data, and releases every buffer.

use crate::fixture::*;
use proptest::prelude::*;
use scsi::{ExpectedLength, Residual};

/// CDBs that are mostly malformed: a known operation code and random bytes.
fn cdbs() -> impl Strategy<Value = Vec<u8>> {
    let code = prop::sample::select((0..=255u8).collect::<Vec<_>>());
    (
        code,
        prop::collection::vec(
            prop_oneof![Just(0u8), Just(1), Just(0xff), any::<u8>()],
            0..20,
        ),
    )
        .prop_map(|(code, rest)| {
            let mut cdb = vec![code];
            cdb.extend(rest);
            cdb
        })
}

proptest! {
    #[test]
    fn any_command_ends(
        commands in prop::collection::vec((cdbs(), prop::collection::vec(any::<u8>(), 0..2048), any::<bool>()), 1..20)
    ) {
        run(async move {
            let d = device();
            let h = host(&d, 1).await;
            for (cdb, mut data, exact) in commands {
                data.resize(8192, 0);
                let write = if exact { list_len(&cdb) } else { data.len() as u32 };
                let expected = ExpectedLength { read: 4096, write };
                data.resize((write as usize).max(2 << 20), 0);
                let r = h.exchange(&cdb, &data, expected).await;
                if let Residual::Underflow(n) = r.residual {
                    assert!(n <= expected.read.max(expected.write));
                }
            }
            assert_eq!(io::pool().stats().used, 0, "a buffer did not come back");
        });
    }
}

/// The length that a 6 or 10 byte CDB asks for.
fn list_len(cdb: &[u8]) -> u32 {
    match cdb {
        [code, _, _, _, len, ..] if code >> 5 == 0 => (*len).into(),
        [_, _, _, _, _, _, _, a, b, ..] => u16::from_be_bytes([*a, *b]).into(),
        _ => 512,
    }
}
