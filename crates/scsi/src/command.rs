//! Commands with their fields, as transports and `commands` see them.
//!
//! **Called by** the parser, which makes them. **Invariants**: a value has only the fields of a CDB; checks that need
//! the unit's geometry are in `commands`. SPC-4 clause 6, SBC-3 clause 5.

/// Blocks that a command reads, writes or checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocks {
    /// LOGICAL BLOCK ADDRESS.
    pub lba: u64,
    /// TRANSFER LENGTH, ALLOCATION LENGTH or NUMBER OF LOGICAL BLOCKS, blocks.
    pub count: u32,
    /// FUA: on stable storage before the status.
    pub fua: bool,
}

/// BYTCHK (SBC-3 5.36): the comparison that VERIFY makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteCheck {
    /// No comparison: it only reads.
    None,
    /// Every block with the data.
    All,
    /// Every block with the one block of data.
    One,
}

/// WRITE SAME (SBC-3 5.46, 5.47).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteSame {
    /// The extent.
    pub at: Blocks,
    /// UNMAP: the blocks may be deallocated.
    pub unmap: bool,
    /// ANCHOR.
    pub anchor: bool,
    /// NDOB: no data, zeroes.
    pub no_data: bool,
}

/// MODE SENSE and LOG SENSE page control (SPC-4 6.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PageControl {
    Current,
    Changeable,
    Default,
    Saved,
}

/// The form in which REPORT SUPPORTED OPERATION CODES names a command (SPC-4 6.35).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Reporting {
    All,
    Opcode(u8),
    OpcodeAndAction(u8, u16),
    /// Format 3: either of the two, as the opcode needs.
    Either(u8, u16),
}

/// A command with its fields. `allocation` is ALLOCATION LENGTH, `list` is PARAMETER LIST LENGTH, both in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Command {
    TestUnitReady,
    RequestSense {
        descriptor: bool,
        allocation: u32,
    },
    Inquiry {
        page: Option<u8>,
        allocation: u32,
    },
    ReportLuns {
        select: u8,
        allocation: u32,
    },
    Read(Blocks),
    Write(Blocks),
    WriteAndVerify(Blocks, ByteCheck),
    Verify(Blocks, ByteCheck),
    OrWrite(Blocks),
    CompareAndWrite(Blocks),
    WriteSame(WriteSame),
    Unmap {
        anchor: bool,
        list: u32,
    },
    SynchronizeCache {
        at: Blocks,
        immediate: bool,
    },
    PreFetch {
        at: Blocks,
        immediate: bool,
    },
    ReadCapacity10,
    ReadCapacity16 {
        allocation: u32,
    },
    GetLbaStatus {
        lba: u64,
        allocation: u32,
    },
    ReadDefectData {
        long: bool,
        format: u8,
        allocation: u32,
    },
    ModeSense {
        long: bool,
        no_descriptors: bool,
        llbaa: bool,
        control: PageControl,
        page: u8,
        subpage: u8,
        allocation: u32,
    },
    ModeSelect {
        long: bool,
        page_format: bool,
        save: bool,
        list: u32,
    },
    LogSense {
        control: PageControl,
        page: u8,
        subpage: u8,
        pointer: u16,
        allocation: u32,
    },
    PersistentReserveIn {
        action: u8,
        allocation: u32,
    },
    PersistentReserveOut {
        action: u8,
        scope: u8,
        kind: u8,
        list: u32,
    },
    Reserve,
    Release,
    ExtendedCopy {
        lid4: bool,
        list: u32,
    },
    ReceiveCopyResults {
        action: u8,
        list_id: u32,
        allocation: u32,
    },
    ReportSupportedOpcodes {
        timeouts: bool,
        what: Reporting,
        allocation: u32,
    },
    ReportTaskManagement {
        extended: bool,
        allocation: u32,
    },
    ReportTargetPortGroups {
        extended: bool,
        allocation: u32,
    },
    SetTargetPortGroups {
        list: u32,
    },
    StartStopUnit {
        immediate: bool,
        power: u8,
        no_flush: bool,
        load_eject: bool,
        start: bool,
    },
    PreventAllowMediumRemoval {
        prevent: u8,
    },
    ReceiveDiagnosticResults {
        page: Option<u8>,
        allocation: u32,
    },
    SendDiagnostic {
        self_test: bool,
        code: u8,
        list: u32,
    },
}

impl Command {
    /// Whether a pending unit attention condition is reported instead of executing it (SAM-5 5.14.1).
    pub(crate) fn reports_attentions(&self) -> bool {
        !self.needs_no_unit()
    }

    /// Whether a LUN without a logical unit answers it (SPC-4 5.11).
    pub(crate) fn needs_no_unit(&self) -> bool {
        matches!(
            self,
            Command::Inquiry { .. } | Command::ReportLuns { .. } | Command::RequestSense { .. }
        )
    }

    /// Whether it writes a part if the initiator sends less data than the CDB requires.
    pub(crate) fn may_be_cut(&self) -> bool {
        matches!(self, Command::Write(_) | Command::WriteAndVerify(..))
    }

    /// Limits it to its first `blocks` blocks.
    pub(crate) fn cut(&mut self, blocks: u32) {
        if let Command::Write(at) | Command::WriteAndVerify(at, _) = self {
            at.count = blocks;
        }
    }

    /// The same command for `blocks` blocks that begin `skip` blocks after its first one; `None` for commands that
    /// cannot be divided.
    pub(crate) fn part(&self, skip: u32, blocks: u32) -> Option<Command> {
        let part = |at: Blocks| Blocks {
            lba: at.lba + u64::from(skip),
            count: blocks,
            ..at
        };
        match *self {
            Command::Read(at) => Some(Command::Read(part(at))),
            Command::Write(at) => Some(Command::Write(part(at))),
            Command::WriteAndVerify(at, check) => Some(Command::WriteAndVerify(part(at), check)),
            Command::OrWrite(at) => Some(Command::OrWrite(part(at))),
            Command::Verify(at, ByteCheck::All) => Some(Command::Verify(part(at), ByteCheck::All)),
            _ => None,
        }
    }

    /// Whether the data must be exactly as long as the CDB requires; other commands ignore the rest.
    pub(crate) fn is_exact(&self) -> bool {
        matches!(self, Command::WriteSame(_) | Command::CompareAndWrite(_))
    }
}
