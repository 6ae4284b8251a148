//! PDUs as a target receives them.

use nvmf::wire::pdu::Receiver;

pub fn run(input: &[u8]) {
    crate::pdu::check(input, Receiver::Controller);
}
