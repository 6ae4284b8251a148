//! Standard INQUIRY data (SPC-4 6.6.2).

use super::common::{Result, ascii, reply};
use super::vpd;
use crate::device::Device;
use crate::sense::Sense;
use io::Payload;

/// Length of standard INQUIRY data with version descriptors, bytes.
const STANDARD_LEN: usize = 96;
/// PERIPHERAL QUALIFIER 011b, PERIPHERAL DEVICE TYPE 1Fh: there is no logical unit.
const NO_UNIT: u8 = 0x7f;
/// VERSION: SPC-4.
const VERSION: u8 = 6;
/// HISUP and RESPONSE DATA FORMAT 2.
const RESPONSE_FORMAT: u8 = 0x12;
/// TPGS 11b (implicit and explicit asymmetric access), 3PC.
const FEATURES_5: u8 = 0x38;
/// MULTIP.
const FEATURES_6: u8 = 0x10;
/// CMDQUE.
const FEATURES_7: u8 = 0x02;
/// SAM-5, SPC-4, SBC-3, iSCSI (SPC-4 annex D), no version claimed.
const VERSION_DESCRIPTORS: [u16; 4] = [0x00a0, 0x0460, 0x04c0, 0x0960];

fn data(device: &Device, peripheral: u8) -> Vec<u8> {
    let mut out = vec![0; STANDARD_LEN];
    out[0] = peripheral;
    out[2] = VERSION;
    out[3] = RESPONSE_FORMAT;
    out[4] = (STANDARD_LEN - 5) as u8;
    out[5] = FEATURES_5;
    out[6] = FEATURES_6;
    out[7] = FEATURES_7;
    ascii(&mut out[8..16], &device.config.vendor);
    ascii(&mut out[16..32], &device.config.product);
    ascii(&mut out[32..36], &device.config.revision);
    for (at, descriptor) in VERSION_DESCRIPTORS.iter().enumerate() {
        out[58 + 2 * at..60 + 2 * at].copy_from_slice(&descriptor.to_be_bytes());
    }
    out
}

pub(super) fn standard(device: &Device, allocation: u32) -> Result<Payload> {
    reply(data(device, 0), allocation)
}

/// INQUIRY to a LUN that has no logical unit: the standard data and the list of pages, which has only itself.
pub(super) fn without_unit(device: &Device, page: Option<u8>, allocation: u32) -> Result<Payload> {
    match page {
        None => reply(data(device, NO_UNIT), allocation),
        Some(vpd::SUPPORTED_PAGES) => reply(
            vec![NO_UNIT, vpd::SUPPORTED_PAGES, 0, 1, vpd::SUPPORTED_PAGES],
            allocation,
        ),
        Some(_) => Err(Sense::field_in_cdb(2, None).into()),
    }
}
