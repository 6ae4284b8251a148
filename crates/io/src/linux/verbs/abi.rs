//! The interface of rdma-core that is used: structures and constants of `libibverbs` and `librdmacm`.
//!
//! Layouts: `infiniband/verbs.h` and `rdma/rdma_cma.h` of rdma-core, whose binary interface is stable since its version 15. Fields that are
//! not used are named `unused`. **Called by** the modules beside this one.

use libc::{c_char, c_int, c_uint, c_void, sockaddr_storage};
use std::mem::{offset_of, size_of};

/// `struct ibv_device`.
#[repr(C)]
pub(super) struct Device {
    unused_ops: [*mut c_void; 2],
    unused_node_type: c_int,
    unused_transport_type: c_int,
    pub(super) name: [c_char; 64],
}

/// `struct ibv_context` with its `struct ibv_context_ops`.
#[repr(C)]
pub(super) struct Context {
    pub(super) device: *mut Device,
    unused_before_poll: [*mut c_void; 11],
    // SAFETY: a type; each call says why it is sound.
    pub(super) poll_cq: Option<unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int>,
    // SAFETY: a type; each call says why it is sound.
    pub(super) req_notify_cq: Option<unsafe extern "C" fn(*mut Cq, c_int) -> c_int>,
    unused_before_shared: [*mut c_void; 7],
    // SAFETY: a type; each call says why it is sound.
    pub(super) post_srq_recv:
        Option<unsafe extern "C" fn(*mut Srq, *mut RecvWr, *mut *mut RecvWr) -> c_int>,
    unused_before_post: [*mut c_void; 4],
    pub(super) post_send:
        Option<unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int>,
    pub(super) post_recv:
        Option<unsafe extern "C" fn(*mut Qp, *mut RecvWr, *mut *mut RecvWr) -> c_int>,
    unused_after_post: [*mut c_void; 5],
    unused_cmd_fd: c_int,
    /// The descriptor of asynchronous events.
    pub(super) async_fd: c_int,
}

/// `struct ibv_async_event`.
#[repr(C)]
pub(super) struct AsyncEvent {
    /// A queue pair, another object, or, in the lowest four bytes, the number of a port.
    pub(super) element: u64,
    pub(super) event: c_int,
}

/// `struct ibv_pd`.
#[repr(C)]
pub(super) struct Pd {
    unused: *mut Context,
}

/// `struct ibv_mr`.
#[repr(C)]
pub(super) struct Mr {
    unused_context: *mut Context,
    unused_pd: *mut Pd,
    unused_addr: *mut c_void,
    unused_length: usize,
    unused_handle: u32,
    pub(super) lkey: u32,
    pub(super) rkey: u32,
}

/// `struct ibv_comp_channel`.
#[repr(C)]
pub(super) struct CompChannel {
    unused_context: *mut Context,
    pub(super) fd: c_int,
}

/// `struct ibv_cq`.
#[repr(C)]
pub(super) struct Cq {
    pub(super) context: *mut Context,
}

/// `struct ibv_qp`.
#[repr(C)]
pub(super) struct Qp {
    pub(super) context: *mut Context,
    unused_qp_context: *mut c_void,
    unused_pd: *mut Pd,
    unused_cqs: [*mut Cq; 2],
    unused_srq: *mut c_void,
    unused_handle: u32,
    pub(super) qp_num: u32,
}

/// `struct ibv_srq` as far as it is used.
#[repr(C)]
pub(super) struct Srq {
    pub(super) context: *mut Context,
}

/// `struct ibv_srq_attr`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct SrqAttr {
    pub(super) max_wr: u32,
    pub(super) max_sge: u32,
    pub(super) srq_limit: u32,
}

/// `struct ibv_srq_init_attr`.
#[repr(C)]
pub(super) struct SrqInitAttr {
    pub(super) srq_context: *mut c_void,
    pub(super) attr: SrqAttr,
}

/// `struct ibv_qp_cap`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct QpCap {
    pub(super) max_send_wr: u32,
    pub(super) max_recv_wr: u32,
    pub(super) max_send_sge: u32,
    pub(super) max_recv_sge: u32,
    pub(super) max_inline_data: u32,
}

/// `struct ibv_qp_init_attr`.
#[repr(C)]
pub(super) struct QpInitAttr {
    pub(super) qp_context: *mut c_void,
    pub(super) send_cq: *mut Cq,
    pub(super) recv_cq: *mut Cq,
    pub(super) srq: *mut Srq,
    pub(super) cap: QpCap,
    pub(super) qp_type: c_int,
    pub(super) sq_sig_all: c_int,
}

/// `struct ibv_qp_attr` as far as it is used.
#[repr(C)]
pub(super) struct QpAttr {
    unused_states: [c_int; 2],
    /// `enum ibv_mtu`: 1 is 256 bytes, and each step doubles it.
    pub(super) path_mtu: c_int,
    unused_mig_state: c_int,
    unused_numbers: [u32; 3],
    pub(super) dest_qp_num: u32,
    unused_access: c_uint,
    unused_cap: QpCap,
    unused_paths: [[u64; 4]; 2],
    unused_before_timer: [u8; 8],
    /// Code of the pause that a peer makes before it sends a message again that found no receive (IBA table 45).
    pub(super) min_rnr_timer: u8,
    unused_tail: [u8; 15],
    /// Room for fields that later versions may add.
    unused_room: [u64; 8],
}

impl QpAttr {
    /// Attributes to be filled in.
    pub(super) fn new() -> QpAttr {
        QpAttr {
            unused_states: [0; 2],
            path_mtu: 0,
            unused_mig_state: 0,
            unused_numbers: [0; 3],
            dest_qp_num: 0,
            unused_access: 0,
            unused_cap: QpCap::default(),
            unused_paths: [[0; 4]; 2],
            unused_before_timer: [0; 8],
            min_rnr_timer: 0,
            unused_tail: [0; 15],
            unused_room: [0; 8],
        }
    }
}

/// `struct ibv_sge`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Sge {
    pub(super) addr: u64,
    pub(super) length: u32,
    pub(super) lkey: u32,
}

/// `struct ibv_send_wr`: of the unions only the parts for SEND, WRITE and READ.
#[repr(C)]
pub(super) struct SendWr {
    pub(super) wr_id: u64,
    pub(super) next: *mut SendWr,
    pub(super) sg_list: *mut Sge,
    pub(super) num_sge: c_int,
    pub(super) opcode: c_int,
    pub(super) send_flags: c_uint,
    pub(super) invalidate_rkey: u32,
    pub(super) remote_addr: u64,
    pub(super) rkey: u32,
    unused_pad: u32,
    unused_atomic: [u64; 2],
    unused_srqn: u64,
    unused_bind: [u64; 6],
}

impl SendWr {
    /// A request of no bytes without flags.
    pub(super) fn new(wr_id: u64, opcode: c_int) -> SendWr {
        SendWr {
            wr_id,
            next: std::ptr::null_mut(),
            sg_list: std::ptr::null_mut(),
            num_sge: 0,
            opcode,
            send_flags: 0,
            invalidate_rkey: 0,
            remote_addr: 0,
            rkey: 0,
            unused_pad: 0,
            unused_atomic: [0; 2],
            unused_srqn: 0,
            unused_bind: [0; 6],
        }
    }
}

/// `struct ibv_recv_wr`.
#[repr(C)]
pub(super) struct RecvWr {
    pub(super) wr_id: u64,
    pub(super) next: *mut RecvWr,
    pub(super) sg_list: *mut Sge,
    pub(super) num_sge: c_int,
}

/// `struct ibv_wc`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Wc {
    pub(super) wr_id: u64,
    pub(super) status: c_int,
    pub(super) opcode: c_int,
    unused_vendor_err: u32,
    pub(super) byte_len: u32,
    pub(super) invalidated_rkey: u32,
    unused_qps: [u32; 2],
    pub(super) wc_flags: c_uint,
    unused_tail: [u16; 3],
}

/// `struct rdma_event_channel`.
#[repr(C)]
pub(super) struct EventChannel {
    pub(super) fd: c_int,
}

/// `struct rdma_cm_id` as far as it is used.
#[repr(C)]
pub(super) struct CmId {
    pub(super) verbs: *mut Context,
    unused_channel: *mut EventChannel,
    unused_context: *mut c_void,
    pub(super) qp: *mut Qp,
    pub(super) src: sockaddr_storage,
    pub(super) dst: sockaddr_storage,
}

/// `struct rdma_conn_param`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ConnParam {
    pub(super) private_data: *const c_void,
    pub(super) private_data_len: u8,
    pub(super) responder_resources: u8,
    pub(super) initiator_depth: u8,
    pub(super) flow_control: u8,
    pub(super) retry_count: u8,
    pub(super) rnr_retry_count: u8,
    pub(super) srq: u8,
    pub(super) qp_num: u32,
}

/// `struct rdma_cm_event`: of the union only the part for connections.
#[repr(C)]
pub(super) struct CmEvent {
    pub(super) id: *mut CmId,
    unused_listen_id: *mut CmId,
    pub(super) event: c_int,
    pub(super) status: c_int,
    pub(super) conn: ConnParam,
}

const _: () = assert!(offset_of!(Context, poll_cq) == 12 * size_of::<usize>());
const _: () = assert!(offset_of!(Context, post_srq_recv) == 21 * size_of::<usize>());
const _: () = assert!(offset_of!(Context, post_send) == 26 * size_of::<usize>());
const _: () = assert!(offset_of!(Context, unused_cmd_fd) == 33 * size_of::<usize>());
const _: () = assert!(offset_of!(Context, async_fd) == 33 * size_of::<usize>() + 4);
const _: () = assert!(size_of::<AsyncEvent>() == 16 && offset_of!(AsyncEvent, event) == 8);
const _: () = assert!(size_of::<SendWr>() == 128 && offset_of!(SendWr, remote_addr) == 40);
const _: () = assert!(size_of::<RecvWr>() == 32);
const _: () = assert!(size_of::<Wc>() == 48 && offset_of!(Wc, wc_flags) == 36);
const _: () = assert!(size_of::<QpInitAttr>() == 64);
const _: () = assert!(offset_of!(QpAttr, path_mtu) == 8 && offset_of!(QpAttr, dest_qp_num) == 28);
const _: () =
    assert!(offset_of!(QpAttr, unused_paths) == 56 && offset_of!(QpAttr, unused_room) == 144);
const _: () = assert!(offset_of!(QpAttr, min_rnr_timer) == 128);
const _: () = assert!(size_of::<SrqInitAttr>() == 24);
const _: () = assert!(size_of::<ConnParam>() == 24 && offset_of!(CmEvent, conn) == 24);

pub(super) const ACCESS_LOCAL_WRITE: c_int = 1;
pub(super) const ACCESS_REMOTE_WRITE: c_int = 1 << 1;
pub(super) const ACCESS_REMOTE_READ: c_int = 1 << 2;

pub(super) const QPT_RC: c_int = 2;

pub(super) const QP_PATH_MTU: c_int = 1 << 8;
pub(super) const QP_MIN_RNR_TIMER: c_int = 1 << 15;
pub(super) const QP_DEST_QPN: c_int = 1 << 20;

pub(super) const WR_RDMA_WRITE: c_int = 0;
pub(super) const WR_SEND: c_int = 2;
pub(super) const WR_RDMA_READ: c_int = 4;
pub(super) const WR_SEND_WITH_INV: c_int = 9;

pub(super) const SEND_SIGNALED: c_uint = 1 << 1;
pub(super) const SEND_INLINE: c_uint = 1 << 3;

pub(super) const SRQ_LIMIT: c_int = 1 << 1;

pub(super) const WC_SUCCESS: c_int = 0;
pub(super) const WC_REM_INV_REQ_ERR: c_int = 9;
pub(super) const WC_REM_ACCESS_ERR: c_int = 10;
pub(super) const WC_REM_OP_ERR: c_int = 11;
pub(super) const WC_RETRY_EXC_ERR: c_int = 12;
pub(super) const WC_RNR_RETRY_EXC_ERR: c_int = 13;

pub(super) const EVENT_CQ_ERR: c_int = 0;
pub(super) const EVENT_QP_FATAL: c_int = 1;
pub(super) const EVENT_QP_REQ_ERR: c_int = 2;
pub(super) const EVENT_QP_ACCESS_ERR: c_int = 3;
pub(super) const EVENT_PATH_MIG_ERR: c_int = 7;
pub(super) const EVENT_DEVICE_FATAL: c_int = 8;
pub(super) const EVENT_PORT_ACTIVE: c_int = 9;
pub(super) const EVENT_PORT_ERR: c_int = 10;
pub(super) const EVENT_SRQ_ERR: c_int = 14;
pub(super) const EVENT_SRQ_LIMIT_REACHED: c_int = 15;
pub(super) const EVENT_QP_LAST_WQE_REACHED: c_int = 16;

pub(super) const PS_TCP: c_int = 0x0106;

pub(super) const CM_ADDR_RESOLVED: c_int = 0;
pub(super) const CM_ADDR_ERROR: c_int = 1;
pub(super) const CM_ROUTE_RESOLVED: c_int = 2;
pub(super) const CM_ROUTE_ERROR: c_int = 3;
pub(super) const CM_CONNECT_REQUEST: c_int = 4;
pub(super) const CM_CONNECT_ERROR: c_int = 6;
pub(super) const CM_UNREACHABLE: c_int = 7;
pub(super) const CM_REJECTED: c_int = 8;
pub(super) const CM_ESTABLISHED: c_int = 9;
pub(super) const CM_DISCONNECTED: c_int = 10;
pub(super) const CM_DEVICE_REMOVAL: c_int = 11;
/// Status of a rejection by the peer's program (IBA 12.6.7.2, "Consumer Reject").
pub(super) const REJECTED_BY_CONSUMER: c_int = 28;
