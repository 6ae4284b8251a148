//! Sense data (SPC-4 4.5), in the fixed and in the descriptor format.

/// Sense keys (SPC-4 4.5.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum SenseKey {
    NoSense = 0x0,
    RecoveredError = 0x1,
    NotReady = 0x2,
    MediumError = 0x3,
    HardwareError = 0x4,
    IllegalRequest = 0x5,
    UnitAttention = 0x6,
    DataProtect = 0x7,
    CopyAborted = 0xa,
    AbortedCommand = 0xb,
    Miscompare = 0xe,
}

/// Additional sense code (high byte) and its qualifier (low byte), SPC-4 annex F.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asc(pub u16);

#[allow(missing_docs)]
impl Asc {
    pub const NO_SENSE: Asc = Asc(0x0000);
    pub const OPERATION_IN_PROGRESS: Asc = Asc(0x0016);
    pub const NOT_READY_BECOMING_READY: Asc = Asc(0x0401);
    pub const INITIALIZING_COMMAND_REQUIRED: Asc = Asc(0x0402);
    pub const TARGET_PORT_IN_STANDBY_STATE: Asc = Asc(0x040b);
    pub const TARGET_PORT_IN_UNAVAILABLE_STATE: Asc = Asc(0x040c);
    pub const WRITE_ERROR: Asc = Asc(0x0c00);
    pub const THIRD_PARTY_DEVICE_FAILURE: Asc = Asc(0x0d01);
    pub const COPY_TARGET_DEVICE_NOT_REACHABLE: Asc = Asc(0x0d02);
    pub const INCORRECT_COPY_TARGET_DEVICE_TYPE: Asc = Asc(0x0d03);
    pub const INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT: Asc = Asc(0x0e03);
    pub const UNRECOVERED_READ_ERROR: Asc = Asc(0x1100);
    pub const READ_ERROR_DATA_LOST: Asc = Asc(0x1104);
    pub const PARAMETER_LIST_LENGTH_ERROR: Asc = Asc(0x1a00);
    pub const MISCOMPARE_DURING_VERIFY: Asc = Asc(0x1d00);
    pub const INVALID_OPCODE: Asc = Asc(0x2000);
    pub const LBA_OUT_OF_RANGE: Asc = Asc(0x2100);
    pub const INVALID_FIELD_IN_CDB: Asc = Asc(0x2400);
    pub const LOGICAL_UNIT_NOT_SUPPORTED: Asc = Asc(0x2500);
    pub const INVALID_FIELD_IN_PARAMETER_LIST: Asc = Asc(0x2600);
    pub const PARAMETER_NOT_SUPPORTED: Asc = Asc(0x2601);
    pub const PARAMETER_VALUE_INVALID: Asc = Asc(0x2602);
    pub const INVALID_RELEASE_OF_PERSISTENT_RESERVATION: Asc = Asc(0x2604);
    pub const TOO_MANY_TARGET_DESCRIPTORS: Asc = Asc(0x2606);
    pub const UNSUPPORTED_TARGET_DESCRIPTOR_TYPE: Asc = Asc(0x2607);
    pub const TOO_MANY_SEGMENT_DESCRIPTORS: Asc = Asc(0x2608);
    pub const UNSUPPORTED_SEGMENT_DESCRIPTOR_TYPE: Asc = Asc(0x2609);
    pub const INLINE_DATA_LENGTH_EXCEEDED: Asc = Asc(0x260b);
    pub const WRITE_PROTECTED: Asc = Asc(0x2700);
    pub const SOFTWARE_WRITE_PROTECTED: Asc = Asc(0x2702);
    pub const SPACE_ALLOCATION_FAILED: Asc = Asc(0x2707);
    pub const POWER_ON_OR_RESET: Asc = Asc(0x2900);
    pub const BUS_DEVICE_RESET: Asc = Asc(0x2903);
    pub const NEXUS_LOSS: Asc = Asc(0x2907);
    pub const MODE_PARAMETERS_CHANGED: Asc = Asc(0x2a01);
    pub const RESERVATIONS_PREEMPTED: Asc = Asc(0x2a03);
    pub const RESERVATIONS_RELEASED: Asc = Asc(0x2a04);
    pub const REGISTRATIONS_PREEMPTED: Asc = Asc(0x2a05);
    pub const ASYMMETRIC_ACCESS_STATE_CHANGED: Asc = Asc(0x2a06);
    pub const CAPACITY_CHANGED: Asc = Asc(0x2a09);
    pub const COMMAND_SEQUENCE_ERROR: Asc = Asc(0x2c00);
    pub const COMMANDS_CLEARED_BY_ANOTHER_INITIATOR: Asc = Asc(0x2f00);
    pub const THIN_PROVISIONING_THRESHOLD_REACHED: Asc = Asc(0x3807);
    pub const SAVING_PARAMETERS_NOT_SUPPORTED: Asc = Asc(0x3900);
    pub const REPORTED_LUNS_CHANGED: Asc = Asc(0x3f0e);
    pub const INTERNAL_TARGET_FAILURE: Asc = Asc(0x4400);
    pub const MEDIUM_REMOVAL_PREVENTED: Asc = Asc(0x5302);
    pub const INSUFFICIENT_REGISTRATION_RESOURCES: Asc = Asc(0x5504);
    pub const INSUFFICIENT_RESOURCES: Asc = Asc(0x5503);
}

/// The field for which a request was refused (SPC-4 4.5.2.4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldPointer {
    /// In the CDB, else in the parameter list.
    pub in_cdb: bool,
    /// The first byte of the field.
    pub byte: u16,
    /// The left-most bit of the field, if it does not fill its bytes.
    pub bit: Option<u8>,
}

/// Sense data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sense {
    /// The sense key.
    pub key: SenseKey,
    /// The additional sense code.
    pub asc: Asc,
    /// INFORMATION: an offset or LBA, depending on the additional sense code.
    pub information: Option<u64>,
    /// COMMAND-SPECIFIC INFORMATION.
    pub command_specific: Option<u64>,
    /// The invalid field.
    pub field: Option<FieldPointer>,
}

/// Length of fixed format sense data without vendor bytes.
const FIXED_LEN: usize = 18;

impl Sense {
    /// Sense data without information.
    #[must_use]
    pub const fn new(key: SenseKey, asc: Asc) -> Sense {
        Sense {
            key,
            asc,
            information: None,
            command_specific: None,
            field: None,
        }
    }

    /// NO SENSE.
    #[must_use]
    pub const fn none() -> Sense {
        Sense::new(SenseKey::NoSense, Asc::NO_SENSE)
    }

    /// ILLEGAL REQUEST.
    #[must_use]
    pub const fn illegal(asc: Asc) -> Sense {
        Sense::new(SenseKey::IllegalRequest, asc)
    }

    /// UNIT ATTENTION.
    #[must_use]
    pub const fn attention(asc: Asc) -> Sense {
        Sense::new(SenseKey::UnitAttention, asc)
    }

    /// INVALID FIELD IN CDB, at a byte and, for a field of less than whole bytes, its left-most bit.
    #[must_use]
    pub const fn field_in_cdb(byte: u16, bit: Option<u8>) -> Sense {
        Sense {
            field: Some(FieldPointer {
                in_cdb: true,
                byte,
                bit,
            }),
            ..Sense::illegal(Asc::INVALID_FIELD_IN_CDB)
        }
    }

    /// INVALID FIELD IN PARAMETER LIST, likewise.
    #[must_use]
    pub fn field_in_list(byte: usize, bit: Option<u8>) -> Sense {
        Sense {
            field: Some(FieldPointer {
                in_cdb: false,
                byte: u16::try_from(byte).unwrap_or(u16::MAX),
                bit,
            }),
            ..Sense::illegal(Asc::INVALID_FIELD_IN_PARAMETER_LIST)
        }
    }

    /// With INFORMATION.
    #[must_use]
    pub const fn with_information(self, information: u64) -> Sense {
        Sense {
            information: Some(information),
            ..self
        }
    }

    /// The sense-key specific bytes; zero without a field pointer.
    fn key_specific(&self) -> [u8; 3] {
        let Some(f) = self.field else { return [0; 3] };
        let bit = f.bit.map_or(0, |b| 0x08 | b & 7);
        let [high, low] = f.byte.to_be_bytes();
        [0x80 | u8::from(f.in_cdb) << 6 | bit, high, low]
    }

    /// Fixed format (SPC-4 4.5.3). INFORMATION that needs more than four bytes is left out.
    #[must_use]
    pub fn fixed(&self) -> Vec<u8> {
        let mut out = vec![0; FIXED_LEN];
        out[0] = 0x70;
        out[2] = self.key as u8;
        if let Some(information) = self.information.and_then(|i| u32::try_from(i).ok()) {
            out[0] |= 0x80;
            out[3..7].copy_from_slice(&information.to_be_bytes());
        }
        out[7] = (FIXED_LEN - 8) as u8;
        if let Some(specific) = self.command_specific.and_then(|i| u32::try_from(i).ok()) {
            out[8..12].copy_from_slice(&specific.to_be_bytes());
        }
        out[12..14].copy_from_slice(&self.asc.0.to_be_bytes());
        out[15..18].copy_from_slice(&self.key_specific());
        out
    }

    /// Descriptor format (SPC-4 4.5.2).
    #[must_use]
    pub fn descriptor(&self) -> Vec<u8> {
        let [asc, ascq] = self.asc.0.to_be_bytes();
        let mut out = vec![0x72, self.key as u8, asc, ascq, 0, 0, 0, 0];
        if let Some(information) = self.information {
            out.extend([0x00, 0x0a, 0x80, 0]);
            out.extend(information.to_be_bytes());
        }
        if let Some(specific) = self.command_specific {
            out.extend([0x01, 0x0a, 0, 0]);
            out.extend(specific.to_be_bytes());
        }
        if self.field.is_some() {
            out.extend([0x02, 0x06, 0, 0]);
            out.extend(self.key_specific());
            out.push(0);
        }
        out[7] = (out.len() - 8) as u8;
        out
    }

    /// In the format of the control mode page's D_SENSE bit.
    #[must_use]
    pub fn encode(&self, descriptor_format: bool) -> Vec<u8> {
        if descriptor_format {
            self.descriptor()
        } else {
            self.fixed()
        }
    }
}
