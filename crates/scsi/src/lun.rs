//! Logical unit numbers (SAM-5 4.7).
//!
//! **Called by** transports, which read them from commands, and by the device.

use crate::limits::LUN_MAX;

/// A logical unit number: 0 to 16383.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lun(pub(crate) u16);

impl Lun {
    /// A LUN of the flat space addressing method; `None` above 16383.
    #[must_use]
    pub fn new(number: u16) -> Option<Lun> {
        (number <= LUN_MAX).then_some(Lun(number))
    }

    /// Reads the eight bytes of a LUN (SAM-5 4.7): peripheral device addressing on bus 0, or flat space. `None` for
    /// other methods and levels.
    #[must_use]
    pub fn parse(bytes: [u8; 8]) -> Option<Lun> {
        if bytes[2..] != [0; 6] {
            return None;
        }
        match bytes[0] >> 6 {
            0 if bytes[0] == 0 => Some(Lun(u16::from(bytes[1]))),
            1 => Some(Lun(u16::from_be_bytes([bytes[0] & 0x3f, bytes[1]]))),
            _ => None,
        }
    }

    /// The number.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }

    /// The eight bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 8] {
        let method = if self.0 < 256 { 0 } else { 0x4000 };
        let [a, b] = (self.0 | method).to_be_bytes();
        [a, b, 0, 0, 0, 0, 0, 0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn luns_survive_a_round_trip_and_other_methods_are_refused() {
        for n in [0, 1, 255, 256, LUN_MAX] {
            let lun = Lun::new(n).expect("in range");
            assert_eq!(Lun::parse(lun.to_bytes()), Some(lun));
        }
        assert_eq!(Lun::new(LUN_MAX + 1), None);
        assert_eq!(Lun::parse([0x40, 7, 0, 0, 0, 0, 0, 0]), Some(Lun(7)));
        for other in [
            [0xc1, 1, 0, 0, 0, 0, 0, 0],
            [0, 1, 0, 1, 0, 0, 0, 0],
            [1, 1, 0, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(Lun::parse(other), None);
        }
    }
}
