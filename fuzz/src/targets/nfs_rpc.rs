//! Bytes as RPC records with a COMPOUND, or with arguments of version 3 or MOUNT: framing, the call's header, every operation and
//! procedure; and the probe for TLS. An operation that was read must encode to bytes that are read as the same operation.

use nfs::rpc::record::{Framing, MARK_LEN};
use nfs::rpc::{Call, Probe, Reply};
use nfs::v3::wire as v3;
use nfs::wire::{Header, Op};
use nfs::xdr::{Reader, Writer, Xdr};

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

/// Arguments of version 3 and of MOUNT. They must encode to bytes that are read as the same arguments.
fn version3(procedure: u32, reader: &mut Reader<'_>) {
    let mut as_mount = *reader;
    if let Ok(Some(arguments)) = v3::Arguments::decode_fields(procedure, reader) {
        let mut writer = Writer::new();
        arguments.encode_fields(&mut writer);
        let bytes = writer.to_vec();
        let again = v3::Arguments::decode_fields(arguments.number(), &mut Reader::new(&bytes));
        assert_eq!(again, Ok(Some(arguments)));
    }
    if let Ok(Some(arguments)) = v3::mount::Arguments::decode_fields(procedure, &mut as_mount) {
        let mut writer = Writer::new();
        arguments.encode_fields(&mut writer);
        let bytes = writer.to_vec();
        let again = v3::mount::Arguments::decode_fields(procedure, &mut Reader::new(&bytes));
        assert_eq!(again, Ok(Some(arguments)));
    }
}

pub fn run(input: &[u8]) {
    let _ = Reply::decode(&mut Reader::new(input));
    let _ = Probe::is_allowed(input);
    compound(&mut Reader::new(input));
    if let Some((procedure, rest)) = input.split_first() {
        version3(u32::from(*procedure) % v3::procedure::COUNT, &mut Reader::new(rest));
    }
    for record in records(input) {
        if let Some(Probe::Start(xid)) = Probe::of(&record) {
            assert_eq!(record.first_chunk(), Some(&xid.to_be_bytes()));
        }
        let mut reader = Reader::new(&record);
        if let Ok(call) = Call::decode(&mut reader) {
            let mut ahead = reader;
            version3(call.procedure, &mut ahead);
            compound(&mut reader);
        }
    }
}
