//! Cases of kernel, limits and processors.

use crate::{Case, cases};

#[rustfmt::skip]
pub(crate) fn cases() -> Vec<Case> {
    cases! {
        "kernel-old": {"/kernel/release": "5.15.0-91-generic"} / {"/kernel/release": "6.1.0"};
        "kernel-pitfall": {"/kernel/version": "#1 SMP Debian 6.1.64-1 (2023-11-30)"}
            / {"/kernel/version": "#1 SMP Debian 6.1.66-1 (2023-12-09)"};
        "kernel-pitfall": {"/kernel/release": "6.6.4", "/kernel/version": "#1 SMP"}
            / {"/kernel/release": "6.6.5", "/kernel/version": "#1 SMP"};
        "zfs-pitfall": {"/kernel/zfs": "2.2.1-1"} / {"/kernel/zfs": "2.2.2-1"};
        "io-uring-disabled": {"/kernel/io_uring_disabled": 2} / {"/kernel/io_uring_disabled": 1};
        "io-uring-disabled": {"/kernel/io_uring_disabled": 1, "/process/is_privileged": false}
            / {"/kernel/io_uring_disabled": 0, "/process/is_privileged": false};
        "numa-balancing": {"/kernel/numa_balancing": 1}
            / {"/kernel/numa_balancing": 1, "/cpu/nodes": [{"node": 0, "cpus": [0]}]};
        "rival-target": {"/kernel/modules": ["nvmet_tcp", "ib_uverbs", "rdma_cm", "rdma_ucm"]}
            / {"/kernel/modules": ["nvmet", "ib_uverbs", "rdma_cm", "rdma_ucm"]};
        "clock-source": {"/clock/source": "hpet"} / {"/clock/source": "kvm-clock"};
        "clock-unsynchronised": {"/clock/is_synchronised": false} / {"/clock/is_synchronised": true};
        "memlock": {"/process/memlock": 8388608} / {"/process/memlock": 536870912};
        "open-files": {"/process/open_files": 1024} / {"/process/open_files": 4352};
        "cgroup-memory": {"/process/cgroup/memory_max": 1073741824} / {"/process/cgroup/memory_max": 8589934592u64};
        "cgroup-cpu": {"/process/cgroup/cpu_max": 2.0, "/process/cgroup/throttled": 5}
            / {"/process/cgroup/cpu_max": 2.0, "/process/cgroup/throttled": 0};
        "server-swapped": {"/process/swapped": 4096} / {"/process/swapped": 0};
        "memory-low": {"/memory/available": 3221225472u64} / {"/memory/available": 3758096384u64};
        "cpu-governor": {"/cpu/frequency/3/governor": "powersave"} / {"/cpu/frequency": []};
        "cpu-idle-states": {"/cpu/idle/2/is_disabled": false} / {"/cpu/idle/2/latency_us": 50, "/cpu/idle/2/is_disabled": false};
        "cpu-frequency-limit": {"/cpu/frequency/0/limit_khz": 2000000} / {"/cpu/frequency/0/limit_khz": 3600000};
        "cpu-steal": {"/cpu/steal_percent": 7.5} / {"/cpu/steal_percent": 1.9};
    }
}
