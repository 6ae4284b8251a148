#![no_main]
//! Bytes as RPC records with a COMPOUND: framing, the call's header, every operation. An operation that was read must encode to
//! bytes that are read as the same operation.

use libfuzzer_sys::fuzz_target;
use nfs::rpc::record::{Framing, MARK_LEN};
use nfs::rpc::{Call, Reply};
use nfs::wire::{Header, Op};
use nfs::xdr::{Reader, Writer};

const RECORD_MAX: usize = 4096;

fn records(mut input: &[u8]) -> Vec<Vec<u8>> {
    let mut framing = Framing::new(RECORD_MAX);
    let (mut all, mut record) = (Vec::new(), Vec::new());
    while let Some((header, rest)) = input.split_first_chunk::<MARK_LEN>() {
        if framing.begin(*header).is_err() {
            break;
        }
        let arrived = framing.missing().min(rest.len());
        record.extend_from_slice(&rest[..arrived]);
        input = &rest[arrived..];
        if framing.arrived(arrived) {
            assert!(record.len() <= RECORD_MAX);
            all.push(std::mem::take(&mut record));
            framing.reset();
        } else if framing.missing() > 0 {
            break;
        }
    }
    all
}

fn compound(reader: &mut Reader<'_>) {
    let Ok(header) = Header::decode(reader) else { return };
    for _ in 0..header.operations {
        let Ok((_, Ok(op))) = Op::decode(reader) else { return };
        let mut writer = Writer::new();
        op.encode(&mut writer);
        let bytes = writer.to_vec();
        if !format!("{op:?}").contains("has_unknown: true") {
            let again = Op::decode(&mut Reader::new(&bytes));
            assert_eq!(again, Ok((op.number(), Ok(op))));
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let _ = Reply::decode(&mut Reader::new(input));
    compound(&mut Reader::new(input));
    for record in records(input) {
        let mut reader = Reader::new(&record);
        if Call::decode(&mut reader).is_ok() {
            compound(&mut reader);
        }
    }
});
