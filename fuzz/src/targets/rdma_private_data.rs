//! Private data of the connection manager over RDMA: what is accepted encodes to the same bytes.

use nvmf::wire::rdma::{CmAccept, CmReject, CmRequest};
use zerocopy::IntoBytes;

pub fn run(input: &[u8]) {
    if let Ok(request) = CmRequest::parse(input) {
        assert_eq!(request.as_bytes(), &input[..32]);
        assert_eq!(request.record_format.get(), 0);
    }
    if let Some(accept) = CmAccept::parse(input) {
        assert_eq!(accept.as_bytes(), &input[..32]);
    }
    if let Some(status) = CmReject::parse(input) {
        assert_eq!(CmReject::new(status).as_bytes(), &input[..4]);
    }
}
