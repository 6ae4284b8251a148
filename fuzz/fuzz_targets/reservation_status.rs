#![no_main]
//! The reservation status in both formats.

use libfuzzer_sys::fuzz_target;
use nvmf::wire::reservation::ReservationStatus;

fuzz_target!(|input: &[u8]| {
    for extended in [false, true] {
        if let Ok(status) = ReservationStatus::parse(input, extended) {
            assert_eq!(ReservationStatus::parse(&status.to_bytes(extended), extended), Ok(status));
        }
    }
});
