//! The named limits of this crate.

/// Largest transfer of user data by one command, bytes. Block Limits VPD page, MAXIMUM TRANSFER LENGTH.
pub const TRANSFER_BYTES_MAX: u32 = 16 << 20;
/// Bytes of a transfer that move at once: one buffer.
pub const PIECE_BYTES_MAX: u32 = io::limits::BUF_LEN_MAX as u32;
/// Optimal transfer length, bytes. Block Limits VPD page, OPTIMAL TRANSFER LENGTH.
pub const TRANSFER_BYTES_OPTIMAL: u32 = 1 << 20;
/// Largest parameter list of a command, bytes.
pub const PARAMETER_LIST_MAX: u32 = 8192;
/// Largest extent of one COMPARE AND WRITE, bytes; its two halves are copied to separate buffers.
pub const COMPARE_AND_WRITE_BYTES_MAX: u32 = 64 << 10;
/// Blocks of one WRITE SAME. Block Limits VPD page, MAXIMUM WRITE SAME LENGTH.
pub const WRITE_SAME_BLOCKS_MAX: u32 = 0xffff;
/// Bytes that WRITE SAME writes at once when its block is not zero.
pub const WRITE_SAME_STEP_BYTES: u32 = 1 << 20;
/// Blocks in all that one UNMAP may name.
pub const UNMAP_BLOCKS_MAX: u32 = 1 << 20;
/// Descriptors in one UNMAP.
pub const UNMAP_DESCRIPTORS_MAX: u32 = 256;
/// Descriptors of one GET LBA STATUS.
pub const LBA_STATUS_DESCRIPTORS_MAX: usize = 256;
/// Calls of the backend for one GET LBA STATUS.
pub const LBA_STATUS_LOOKS_MAX: usize = 64;
/// Bytes that VERIFY and PRE-FETCH read at once.
pub const READ_STEP_BYTES: u32 = 1 << 20;
/// Logical units of one device. Each nexus may have unit attention conditions of each unit, about 100 bytes together.
pub const UNITS_MAX: usize = 1024;
/// Highest LUN: the flat space addressing method has 14 bits.
pub const LUN_MAX: u16 = 0x3fff;
/// Target ports of one device.
pub const TARGET_PORTS_MAX: usize = 64;
/// Nexuses of one device.
pub const NEXUSES_MAX: usize = 4096;
/// Unit attention conditions kept for one nexus and logical unit; a new one replaces the oldest.
pub const UNIT_ATTENTIONS_MAX: usize = 8;
/// Registrants of one logical unit.
pub const REGISTRANTS_MAX: usize = 128;
/// Longest initiator port name, bytes (an iSCSI name has 223 at most).
pub const INITIATOR_NAME_MAX: usize = 223;
/// Target descriptors of one EXTENDED COPY.
pub const COPY_TARGETS_MAX: usize = 8;
/// Segment descriptors of one EXTENDED COPY.
pub const COPY_SEGMENTS_MAX: usize = 16;
/// Bytes that one segment descriptor may copy: all that its sixteen bits can name in blocks of 4096 bytes.
/// RECEIVE COPY RESULTS, MAXIMUM SEGMENT LENGTH.
pub const COPY_SEGMENT_BYTES_MAX: u32 = 256 << 20;
/// Bytes that a copy holds in memory: one chunk.
pub const COPY_STEP_BYTES: u32 = 1 << 20;
/// Chunks that the copies of one shard move at the same time. Further copies wait in order, so that they take at most
/// twice this number of chunks of memory, however many initiators copy.
pub const COPY_STEPS_AT_ONCE: usize = 8;
/// Results of EXTENDED COPY kept per logical unit for RECEIVE COPY RESULTS; a new one replaces the oldest.
pub const COPY_RESULTS_MAX: usize = 32;
