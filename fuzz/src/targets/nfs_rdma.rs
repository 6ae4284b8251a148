//! Bytes as a message of RPC-over-RDMA: a header that was read must encode to bytes that are read as the same header, and each byte of a call comes
//! from one place; private data of the connection manager must encode to bytes that are read as the same properties.

use nfs::rpc::rdma::assembly::Assembly;
use nfs::rpc::rdma::private::Properties;
use nfs::rpc::rdma::{RdmaHeader, Kind};
use nfs::xdr::Reader;

pub fn run(input: &[u8]) {
    let properties = Properties::parse(input);
    assert_eq!(Properties::parse(&properties.build()), properties);
    let mut reader = Reader::new(input);
    let Ok(header) = RdmaHeader::decode(&mut reader) else { return };
    let inline = reader.rest().len();
    assert_eq!(RdmaHeader::decode(&mut Reader::new(&header.encode())).as_ref(), Ok(&header));
    let (Kind::Inline(chunks) | Kind::Chunked(chunks)) = &header.kind else { return };
    let Ok(call) = Assembly::of(chunks, inline) else { return };
    let copied = call.inline.iter().map(|part| (part.at, part.len));
    let read = call.reads.iter().map(|(at, segment)| (*at, segment.len as usize));
    let mut parts: Vec<_> = copied.chain(read).chain(call.pads.iter().copied()).collect();
    parts.sort_unstable();
    let end = parts.iter().fold(0, |end, (at, len)| {
        assert_eq!(*at, end);
        end + len
    });
    assert_eq!(end, call.len);
    assert!(call.inline.iter().all(|part| part.from + part.len <= inline));
}
