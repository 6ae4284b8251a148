//! The transport header of a message, and errors of the transport (RFC 8166, sections 4.2 to 4.5).
//!
//! **Owns** [`RdmaHeader`]. **Called by** both ends, for each message. **Invariants**: RDMA_MSGP and unknown procedures are refused; a call is in its
//! message or in a chunk, never in both.

use super::chunks::{ChunkError, Chunks};
use crate::xdr::{Reader, Writer, XdrError};
use thiserror::Error;

/// The version of RPC-over-RDMA.
pub const RPC_RDMA_VERSION: u32 = 1;
/// Bytes of the header of a message without chunks.
pub const HEADER_MIN: usize = 28;

/// `rdma_proc`.
const MSG: u32 = 0;
const NOMSG: u32 = 1;
const DONE: u32 = 3;
const ERROR: u32 = 4;
/// `rpcrdma1_errcode`.
const ERR_VERS: u32 = 1;
const ERR_CHUNK: u32 = 2;

/// An error of the transport, by which a call ends without an RPC reply (RFC 8166, section 4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// ERR_VERS: another version of the transport.
    Version,
    /// ERR_CHUNK: the chunks cannot be used, or the reply does not fit those of its call.
    Chunk,
}

/// The procedure of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// RDMA_MSG: the RPC message follows the header, without the parts that are in chunks.
    Inline(Chunks),
    /// RDMA_NOMSG: the RPC message is in a chunk.
    Chunked(Chunks),
    /// RDMA_DONE, which has no meaning any longer.
    Done,
    /// RDMA_ERROR.
    Error(Fault),
}

/// The header of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RdmaHeader {
    /// Transaction number, that of the RPC message.
    pub xid: u32,
    /// Calls that the sender asks for, or grants, in the direction of the message.
    pub credits: u32,
    /// The procedure.
    pub kind: Kind,
}

/// Why bytes are no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// They end before the lists of chunks begin.
    #[error("a message that is shorter than a header of RPC-over-RDMA")]
    Short,
    /// The message with this transaction number has another version.
    #[error("a message of another version of RPC-over-RDMA")]
    Version(u32),
    /// The message with this transaction number has an unknown procedure, or RDMA_MSGP.
    #[error("a message with an unknown procedure of RPC-over-RDMA")]
    Procedure(u32),
    /// The message with this transaction number has lists of chunks that cannot be used.
    #[error("{1}")]
    Chunks(u32, ChunkError),
}

impl RdmaHeader {
    /// Reads a header; the rest of the message follows in `reader`.
    pub fn decode(reader: &mut Reader<'_>) -> Result<RdmaHeader, HeaderError> {
        let short = |_: XdrError| HeaderError::Short;
        let xid = reader.u32().map_err(short)?;
        let version = reader.u32().map_err(short)?;
        let credits = reader.u32().map_err(short)?;
        let procedure = reader.u32().map_err(short)?;
        if version != RPC_RDMA_VERSION {
            return Err(HeaderError::Version(xid));
        }
        let in_lists = |error| HeaderError::Chunks(xid, error);
        let kind = match procedure {
            MSG => {
                let chunks = Chunks::decode(reader).map_err(in_lists)?;
                if chunks.has_message() {
                    return Err(in_lists(ChunkError::TwoMessages));
                }
                Kind::Inline(chunks)
            }
            NOMSG => Kind::Chunked(Chunks::decode(reader).map_err(in_lists)?),
            DONE => Kind::Done,
            ERROR => Kind::Error(match reader.u32().map_err(short)? {
                ERR_VERS => Fault::Version,
                ERR_CHUNK => Fault::Chunk,
                _ => return Err(HeaderError::Procedure(xid)),
            }),
            _ => return Err(HeaderError::Procedure(xid)),
        };
        Ok(RdmaHeader { xid, credits, kind })
    }

    /// The header as bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        let mut begin = |procedure| {
            for word in [self.xid, RPC_RDMA_VERSION, self.credits, procedure] {
                writer.u32(word);
            }
        };
        match &self.kind {
            Kind::Inline(chunks) => {
                begin(MSG);
                chunks.encode(&mut writer);
            }
            Kind::Chunked(chunks) => {
                begin(NOMSG);
                chunks.encode(&mut writer);
            }
            Kind::Done => begin(DONE),
            Kind::Error(Fault::Version) => {
                begin(ERROR);
                // The lowest and the highest version that exist here.
                for word in [ERR_VERS, RPC_RDMA_VERSION, RPC_RDMA_VERSION] {
                    writer.u32(word);
                }
            }
            Kind::Error(Fault::Chunk) => {
                begin(ERROR);
                writer.u32(ERR_CHUNK);
            }
        }
        writer.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::rdma::chunks::{ReadChunk, Segment};
    use proptest::prelude::*;

    fn decoded(bytes: &[u8]) -> Result<RdmaHeader, HeaderError> {
        RdmaHeader::decode(&mut Reader::new(bytes))
    }

    fn words(all: &[u32]) -> Vec<u8> {
        all.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn a_message_without_chunks_has_the_shortest_header() {
        let header = RdmaHeader {
            xid: 7,
            credits: 64,
            kind: Kind::Inline(Chunks::default()),
        };
        assert_eq!(header.encode(), words(&[7, 1, 64, 0, 0, 0, 0]));
        assert_eq!(header.encode().len(), HEADER_MIN);
    }

    #[test]
    fn procedures_and_versions_that_do_not_exist_are_refused() {
        assert_eq!(decoded(&words(&[7, 1, 64])), Err(HeaderError::Short));
        let other = decoded(&words(&[7, 2, 64, 0, 0, 0, 0]));
        assert_eq!(other, Err(HeaderError::Version(7)));
        for procedure in [2, 5, u32::MAX] {
            let bad = decoded(&words(&[7, 1, 64, procedure, 0, 0, 0]));
            assert_eq!(bad, Err(HeaderError::Procedure(7)), "{procedure}");
        }
        let done = decoded(&words(&[7, 1, 64, 3])).map(|h| h.kind);
        assert_eq!(done, Ok(Kind::Done));
    }

    #[test]
    fn a_call_is_in_one_place() {
        // A read chunk at position 0 beside a message in the message.
        let both = [7, 1, 64, 0, 1, 0, 5, 100, 0, 0, 0, 0, 0];
        let refused = Err(HeaderError::Chunks(7, ChunkError::TwoMessages));
        assert_eq!(decoded(&words(&both)), refused);
    }

    fn segments() -> impl Strategy<Value = Vec<Segment>> {
        let segment = (any::<u32>(), any::<u32>(), any::<u64>());
        let segment = segment.prop_map(|(key, len, address)| Segment { key, len, address });
        prop::collection::vec(segment, 1..4)
    }

    fn kinds() -> impl Strategy<Value = Kind> {
        let reads = (1..1000_u32, 1..5000_u32).prop_map(|(place, len)| {
            let segment = Segment {
                key: 5,
                len,
                address: 9,
            };
            vec![ReadChunk {
                position: 4 * place,
                segments: vec![segment],
            }]
        });
        let lists = (
            prop_oneof![Just(Vec::new()), reads],
            prop::collection::vec(segments(), 0..4),
            prop::option::of(segments()),
        );
        let chunks = lists
            .prop_map(|(reads, writes, reply)| Chunks {
                reads,
                writes,
                reply,
            })
            .boxed();
        prop_oneof![
            chunks.clone().prop_map(Kind::Inline),
            chunks.prop_map(Kind::Chunked),
            Just(Kind::Done),
            Just(Kind::Error(Fault::Version)),
            Just(Kind::Error(Fault::Chunk)),
        ]
    }

    proptest! {
        #[test]
        fn every_header_is_read_as_it_was_written(
            (xid, credits) in any::<(u32, u32)>(),
            kind in kinds(),
        ) {
            let header = RdmaHeader { xid, credits, kind };
            prop_assert_eq!(decoded(&header.encode()), Ok(header));
        }
    }
}
