//! The reservation status in both formats.

use nvmf::wire::reservation::ReservationStatus;

pub fn run(input: &[u8]) {
    for extended in [false, true] {
        if let Ok(status) = ReservationStatus::parse(input, extended) {
            assert_eq!(ReservationStatus::parse(&status.to_bytes(extended), extended), Ok(status));
        }
    }
}
