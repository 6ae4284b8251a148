//! The Identify Controller data structure (Base figure 275), CNS 01h.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::IDENTIFY_LEN;
use crate::wire::nqn::NqnField;
use crate::wire::{FormatError, layout, read_prefix};

/// A power state descriptor (Base figure 276), kept as bytes: a network target has one, all zero.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct PowerState(pub [u8; 32]);

/// Identify Controller: identity and capabilities.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct IdentifyController {
    /// VID: PCI vendor ID.
    pub vid: U16,
    /// SSVID: PCI subsystem vendor ID.
    pub ssvid: U16,
    /// SN: serial number, ASCII.
    pub sn: [u8; 20],
    /// MN: model number, ASCII.
    pub mn: [u8; 40],
    /// FR: firmware revision, ASCII.
    pub fr: [u8; 8],
    /// RAB: recommended arbitration burst, a power of two.
    pub rab: u8,
    /// IEEE: organizationally unique identifier.
    pub ieee: [u8; 3],
    /// CMIC: multi-path capabilities; bit 0 ports, 1 controllers, 3 ANA reporting.
    pub cmic: u8,
    /// MDTS: most data of a command, as a power of two of CAP.MPSMIN pages; 0 for no limit.
    pub mdts: u8,
    /// CNTLID: controller ID.
    pub cntlid: U16,
    /// VER: version.
    pub ver: U32,
    /// RTD3R: RTD3 resume latency.
    pub rtd3r: U32,
    /// RTD3E: RTD3 entry latency.
    pub rtd3e: U32,
    /// OAES: asynchronous events supported, in the bits of Asynchronous Event Configuration.
    pub oaes: U32,
    /// CTRATT: attributes; bit 0 128-bit host identifier, 6 TBKAS, 9 UUID list.
    pub ctratt: U32,
    /// RRLS: read recovery levels.
    pub rrls: U16,
    reserved102: [u8; 9],
    /// CNTRLTYPE: 1 I/O controller, 2 discovery, 3 administrative.
    pub cntrltype: u8,
    /// FGUID: FRU identifier.
    pub fguid: [u8; 16],
    /// CRDT1: command retry delay 1, in 100 ms.
    pub crdt1: U16,
    /// CRDT2.
    pub crdt2: U16,
    /// CRDT3.
    pub crdt3: U16,
    reserved134: [u8; 119],
    /// NVMSR: NVM subsystem report.
    pub nvmsr: u8,
    /// VWCI: VPD write cycle information.
    pub vwci: u8,
    /// MEC: management endpoint capabilities.
    pub mec: u8,
    /// OACS: optional admin commands.
    pub oacs: U16,
    /// ACL: most concurrent Aborts, 0's based.
    pub acl: u8,
    /// AERL: most concurrent Asynchronous Event Requests, 0's based.
    pub aerl: u8,
    /// FRMW: firmware updates.
    pub frmw: u8,
    /// LPA: log page attributes; bit 0 SMART per namespace, 1 effects log, 2 extended data.
    pub lpa: u8,
    /// ELPE: error log entries, 0's based.
    pub elpe: u8,
    /// NPSS: power states, 0's based.
    pub npss: u8,
    /// AVSCC: vendor specific command configuration.
    pub avscc: u8,
    /// APSTA: autonomous power state transitions.
    pub apsta: u8,
    /// WCTEMP: warning temperature, kelvin.
    pub wctemp: U16,
    /// CCTEMP: critical temperature, kelvin.
    pub cctemp: U16,
    /// MTFA: maximum time for firmware activation.
    pub mtfa: U16,
    /// HMPRE: host memory buffer preferred size.
    pub hmpre: U32,
    /// HMMIN: host memory buffer minimum size.
    pub hmmin: U32,
    /// TNVMCAP: total capacity in bytes.
    pub tnvmcap: [u8; 16],
    /// UNVMCAP: unallocated capacity in bytes.
    pub unvmcap: [u8; 16],
    /// RPMBS: replay protected memory blocks.
    pub rpmbs: U32,
    /// EDSTT: extended device self-test time.
    pub edstt: U16,
    /// DSTO: device self-test options.
    pub dsto: u8,
    /// FWUG: firmware update granularity.
    pub fwug: u8,
    /// KAS: keep alive granularity, in 100 ms; 0 if not supported.
    pub kas: U16,
    /// HCTMA: host controlled thermal management.
    pub hctma: U16,
    /// MNTMT: minimum thermal management temperature.
    pub mntmt: U16,
    /// MXTMT: maximum thermal management temperature.
    pub mxtmt: U16,
    /// SANICAP: sanitize capabilities.
    pub sanicap: U32,
    /// HMMINDS: host memory buffer minimum descriptor size.
    pub hmminds: U32,
    /// HMMAXD: host memory maximum descriptors.
    pub hmmaxd: U16,
    /// NSETIDMAX: NVM set identifier maximum.
    pub nsetidmax: U16,
    /// ENDGIDMAX: endurance group identifier maximum.
    pub endgidmax: U16,
    /// ANATT: ANA transition time, seconds.
    pub anatt: u8,
    /// ANACAP: which ANA states the controller reports.
    pub anacap: u8,
    /// ANAGRPMAX: largest ANA group ID.
    pub anagrpmax: U32,
    /// NANAGRPID: number of ANA groups.
    pub nanagrpid: U32,
    /// PELS: persistent event log size.
    pub pels: U32,
    /// DOMID: domain identifier.
    pub domid: U16,
    reserved358: [u8; 10],
    /// MEGCAP: max endurance group capacity.
    pub megcap: [u8; 16],
    reserved384: [u8; 128],
    /// SQES: submission queue entry size, required (3:0) and maximum (7:4), powers of two.
    pub sqes: u8,
    /// CQES: completion queue entry size, likewise.
    pub cqes: u8,
    /// MAXCMD: most outstanding commands per queue.
    pub maxcmd: U16,
    /// NN: largest namespace ID.
    pub nn: U32,
    /// ONCS: optional NVM commands; bit 0 compare, 2 dataset management, 3 write zeroes, 4 save
    /// and select in features, 5 reservations, 6 timestamp, 7 verify, 8 copy.
    pub oncs: U16,
    /// FUSES: fused operations; bit 0 compare and write.
    pub fuses: U16,
    /// FNA: format NVM attributes.
    pub fna: u8,
    /// VWC: volatile write cache; bit 0 present, 2:1 flush to all namespaces (2 no, 3 yes).
    pub vwc: u8,
    /// AWUN: atomic write unit normal, blocks, 0's based.
    pub awun: U16,
    /// AWUPF: atomic write unit power fail, blocks, 0's based.
    pub awupf: U16,
    /// ICSVSCC: I/O command set vendor specific command configuration.
    pub icsvscc: u8,
    /// NWPC: namespace write protection capabilities.
    pub nwpc: u8,
    /// ACWU: atomic compare and write unit, blocks, 0's based.
    pub acwu: U16,
    /// CDFS: copy descriptor formats supported, one bit each.
    pub cdfs: U16,
    /// SGLS: SGL support; bits 1:0 supported, 2 keyed, 20 offsets, 21 transport data block.
    pub sgls: U32,
    /// MNAN: most allowed namespaces.
    pub mnan: U32,
    /// MAXDNA: maximum domain namespace attachments.
    pub maxdna: [u8; 16],
    /// MAXCNA: maximum I/O controller namespace attachments.
    pub maxcna: U32,
    reserved564: [u8; 204],
    /// SUBNQN: the subsystem's name.
    pub subnqn: NqnField,
    reserved1024: [u8; 768],
    /// IOCCSZ: I/O queue command capsule size in 16 bytes, 4 or more.
    pub ioccsz: U32,
    /// IORCSZ: I/O queue response capsule size in 16 bytes, 1 or more.
    pub iorcsz: U32,
    /// ICDOFF: in-capsule data offset after the command, in 16 bytes.
    pub icdoff: U16,
    /// FCATT: fabrics attributes; bit 0 set for the static controller model.
    pub fcatt: u8,
    /// MSDBD: most SGL data block descriptors in a capsule.
    pub msdbd: u8,
    /// OFCS: optional fabrics commands; bit 0 Disconnect.
    pub ofcs: U16,
    /// DCTYPE: discovery controller type.
    pub dctype: u8,
    reserved1807: [u8; 241],
    /// PSD: power state descriptors.
    pub psd: [PowerState; 32],
    /// Vendor specific.
    pub vendor: [u8; 1024],
}
layout!(IdentifyController, IDENTIFY_LEN,
    vid @ 0, ssvid @ 2, sn @ 4, mn @ 24, fr @ 64, rab @ 72, ieee @ 73, cmic @ 76, mdts @ 77, cntlid @ 78, ver @ 80,
    rtd3r @ 84, rtd3e @ 88, oaes @ 92, ctratt @ 96, rrls @ 100, cntrltype @ 111, fguid @ 112, crdt1 @ 128,
    crdt2 @ 130, crdt3 @ 132, nvmsr @ 253, vwci @ 254, mec @ 255, oacs @ 256, acl @ 258, aerl @ 259, frmw @ 260,
    lpa @ 261, elpe @ 262, npss @ 263, avscc @ 264, apsta @ 265, wctemp @ 266, cctemp @ 268, mtfa @ 270,
    hmpre @ 272, hmmin @ 276, tnvmcap @ 280, unvmcap @ 296, rpmbs @ 312, edstt @ 316, dsto @ 318, fwug @ 319,
    kas @ 320, hctma @ 322, mntmt @ 324, mxtmt @ 326, sanicap @ 328, hmminds @ 332, hmmaxd @ 336, nsetidmax @ 338,
    endgidmax @ 340, anatt @ 342, anacap @ 343, anagrpmax @ 344, nanagrpid @ 348, pels @ 352, domid @ 356,
    megcap @ 368, sqes @ 512, cqes @ 513, maxcmd @ 514, nn @ 516, oncs @ 520, fuses @ 522, fna @ 524, vwc @ 525,
    awun @ 526, awupf @ 528, icsvscc @ 530, nwpc @ 531, acwu @ 532, cdfs @ 534, sgls @ 536, mnan @ 540,
    maxdna @ 544, maxcna @ 560, subnqn @ 768, ioccsz @ 1792, iorcsz @ 1796, icdoff @ 1800, fcatt @ 1802,
    msdbd @ 1803, ofcs @ 1804, dctype @ 1806, psd @ 2048, vendor @ 3072);

impl IdentifyController {
    /// Reads the structure.
    ///
    /// # Errors
    /// [`FormatError::Short`] with fewer than 4096 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        read_prefix("identify controller", bytes)
    }

    /// Bytes of in-capsule data that an I/O command capsule may carry: IOCCSZ less the command.
    #[must_use]
    pub fn in_capsule_data_max(&self) -> u32 {
        self.ioccsz.get().saturating_mul(16).saturating_sub(64)
    }
}
