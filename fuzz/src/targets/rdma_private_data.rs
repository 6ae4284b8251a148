//! Private data of the connection manager over RDMA: fields are where the specification puts them, and statuses encode to the same code.

use nvmf::wire::rdma::{CmAccept, CmReject, CmRequest};

pub fn run(input: &[u8]) {
    let field = |at: usize| u16::from_le_bytes([input[at], input[at + 1]]);
    if let Ok(request) = CmRequest::parse(input) {
        assert_eq!((request.record_format.get(), field(0)), (0, 0));
        assert_eq!((request.qid.get(), request.hrqsize.get()), (field(2), field(4)));
        assert_eq!((request.hsqsize.get(), request.cntlid.get()), (field(6), field(8)));
    }
    if let Some(accept) = CmAccept::parse(input) {
        assert_eq!((field(0), accept.crqsize.get()), (0, field(2)));
    }
    if let Some(status) = CmReject::parse(input) {
        assert_eq!((field(0), CmReject::new(status).status.get()), (0, field(2)));
    }
}
