//! PDUs as an initiator receives them.

use nvmf::wire::pdu::Receiver;

pub fn run(input: &[u8]) {
    crate::pdu::check(input, Receiver::Host);
}
