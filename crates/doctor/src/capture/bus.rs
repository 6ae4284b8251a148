//! Capture of the place of a device: its NUMA node and PCIe link.
//!
//! **Called by** the captures of interfaces and disks.

use crate::facts::{Known, Pcie};
use crate::source::Source;

/// NUMA node of a device; none on a machine with one node.
pub(super) fn node(source: &dyn Source, place: &str) -> Known<Option<u32>> {
    let node = above(source, place, "numa_node");
    Known::Value(node.and_then(|n| n.parse::<i64>().ok()?.try_into().ok()))
}

/// A file of a device, or of the nearest device above it.
fn above(source: &dyn Source, place: &str, file: &str) -> Option<String> {
    let mut place = place;
    while place.starts_with("/sys/devices/") {
        if let Ok(text) = source.read(&format!("{place}/{file}")) {
            return Some(text);
        }
        place = place.rsplit_once('/')?.0;
    }
    None
}

/// The PCIe link of a device, or of the nearest one above it that has one.
pub(super) fn pcie(source: &dyn Source, device: &str) -> Known<Option<Pcie>> {
    // Such as `8.0 GT/s PCIe`; `Unknown` in virtual machines.
    let speed = |file: &str| {
        let text = above(source, device, file)?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    };
    let width = |file: &str| above(source, device, file)?.parse::<u32>().ok();
    let (Some(speed_now), Some(speed_max)) = (speed("current_link_speed"), speed("max_link_speed"))
    else {
        return Known::Value(None);
    };
    let (Some(width_now), Some(width_max)) = (width("current_link_width"), width("max_link_width"))
    else {
        return Known::Value(None);
    };
    // 0 and 255 stand for no link.
    if [0, 255].contains(&width_now) || [0, 255].contains(&width_max) {
        return Known::Value(None);
    }
    let is_pci = |part: &&str| part.len() == 12 && part.ends_with(|c: char| c.is_ascii_digit());
    Known::Value(Some(Pcie {
        address: device
            .rsplit('/')
            .find(is_pci)
            .unwrap_or_default()
            .to_owned(),
        speed: speed_now,
        speed_max,
        width: width_now,
        width_max,
    }))
}
