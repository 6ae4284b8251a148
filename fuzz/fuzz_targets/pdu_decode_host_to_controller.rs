#![no_main]
//! PDUs as a target receives them.

mod pdu;

use libfuzzer_sys::fuzz_target;
use nvmf::wire::pdu::Receiver;

fuzz_target!(|input: &[u8]| pdu::check(input, Receiver::Controller));
