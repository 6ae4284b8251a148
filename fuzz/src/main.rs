#![no_main]
#![forbid(unsafe_code)]
//! The fuzz targets, one program: each is a module of `targets` with a function `run`, and WIREPOOL_FUZZ_TARGET names the one that runs.
//! With a program for each, every one would be linked, and compile its share of the product. `xtask/fuzz.sh` runs all of them.

mod pdu;
mod sealed;

use std::sync::LazyLock;

macro_rules! targets {
    ($($name:ident,)*) => {
        mod targets {
            $(pub mod $name;)*
        }
        const TARGETS: &[(&str, fn(&[u8]))] = &[$((stringify!($name), targets::$name::run)),*];
    };
}

targets! {
    ana_log,
    command_fields,
    connect_data,
    copy_ranges,
    discovery_log,
    dsm_ranges,
    identify,
    iscsi_initiator,
    iscsi_login,
    iscsi_pdu,
    iscsi_session,
    nfs_rdma,
    nfs_rpc,
    pdu_decode_controller_to_host,
    pdu_decode_host_to_controller,
    pool_cache_device,
    pool_dataset,
    pool_dead_list,
    pool_filesystem,
    pool_journal,
    pool_label,
    pool_node,
    pool_record,
    pool_space,
    pool_spare,
    pool_uberblock,
    rdma_private_data,
    reservation_status,
    scsi_command,
    target_session,
    tls_certificate,
}

static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("WIREPOOL_FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    let (_, run) = found.unwrap_or_else(|| panic!("WIREPOOL_FUZZ_TARGET={name}: no such target"));
    *run
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| TARGET(input));
