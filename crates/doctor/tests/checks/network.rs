//! Cases of network interfaces, interrupts, TCP and sessions.

use crate::{Case, cases};

#[rustfmt::skip]
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = nics();
    cases.extend(tcp());
    cases
}

#[rustfmt::skip]
fn nics() -> Vec<Case> {
    cases! {
        "nic-duplex": {"/nics/2/duplex": "half"} / {"/nics/2/duplex": "half", "/nics/2/is_up": false};
        "nic-speed": {"/nics/0/speed_mbps": 10000} / {"/nics/0/speed_mbps": 10000, "/nics/0/speed_max_mbps": null};
        "nic-mtu-stack": {"/nics/3/mtu": 9000} / {"/nics/3/mtu": 1400};
        "nic-mtu-standard": {"/nics/0/mtu": 1500} / {"/nics/0/mtu": 1500, "/nics/0/speed_mbps": 1000};
        "nic-rings": {"/nics/0/ring/rx": 512} / {"/nics/0/ring/rx": 512, "/nics/0/ring/rx_max": 512};
        "nic-coalescing": {"/nics/0/coalesce": {"is_adaptive_rx": false, "rx_usecs": 100}}
            / {"/nics/0/coalesce": {"is_adaptive_rx": true, "rx_usecs": 100}};
        "nic-offloads": {"/nics/0/offloads/tcp-segmentation-offload": false} / {"/nics/0/offloads": {}};
        "nic-lro": {"/nics/2/offloads/large-receive-offload": true} / {"/nics/0/offloads/large-receive-offload": true};
        "nic-queues": {"/nics/0/channels/rx": 2} / {"/nics/0/channels": {"rx": 2, "rx_max": 2}};
        "nic-lost-packets": {"/nics/0/counters/rx_missed": 2000} / {"/nics/0/counters/rx_missed": 900};
        "nic-crc-errors": {"/nics/1/counters/rx_crc_errors": 1} / {"/nics/1/counters/rx_dropped": 1};
        "nic-link-flaps": {"/nics/1/counters/carrier_down": 11} / {"/nics/1/counters/carrier_down": 10};
        "irq-one-cpu": {"/nics/0/irqs": [{"irq": 1, "count": 90000, "cpus": [0]}, {"irq": 2, "count": 90000, "cpus": [0]},
                {"irq": 3, "count": 90000, "cpus": [0]}]}
            / {"/nics/0/irqs": [{"irq": 1, "count": 90000, "cpus": [0]}, {"irq": 2, "count": 90000, "cpus": [1]},
                {"irq": 3, "count": 90, "cpus": [0]}]};
        "irq-numa": {"/nics/0/irqs/1/cpus": [5]} / {"/nics/0/irqs/1/cpus": [0, 5]};
        "shard-numa": {"/process/cpus": [4, 5]} / {"/process/cpus": [3, 4]};
        "disk-numa": {"/disks/0/node": 1, "/disks/1/node": 1} / {"/disks/0/node": 1};
        "path-mtu": {"/probes/paths/0/path_mtu": 1500} / {"/probes/paths": [{"address": "10.0.0.7", "link_mtu": 1500, "path_mtu": 1500}]};
        "session-mss": {"/server/sessions/0/queues/1/mss": 1448} / {"/server/sessions/0/queues/1/mss": 8920};
        "session-retransmits": {"/server/sessions/0/queues/1/retransmits": 1000} / {"/server/sessions/0/queues/1/retransmits": 100};
        "session-rtt": {"/server/sessions/1/queues/0/rtt_us": 1500} / {"/server/sessions/0/queues/0/rtt_us": 1500};
        "session-rtt": {"/server/sessions/1/queues/0/rtt_us": 1500}
            / {"/server/sessions/1/queues/0/rtt_us": 40000, "/server/sessions/1/queues/0/bytes_out": 100000};
        "session-congestion": {"/server/sessions/0/queues/0/congestion": "bbr"} / {"/server/sessions": []};
        "session-keep-alive": {"/server/sessions/0/keep_alive_ms": 0} / {"/server/sessions/1/keep_alive_ms": 0};
        "session-reconnects": {"/server/sessions/0/reconnects": 7} / {"/server/sessions/0/reconnects": 6};
        "session-depth": {"/server/sessions/0/depth": 16} / {"/server/sessions/0/depth": 32};
        "session-errors": {"/server/sessions/1/errors": 101} / {"/server/sessions/0/errors": 101};
    }
}

#[rustfmt::skip]
fn tcp() -> Vec<Case> {
    cases! {
        "tcp-congestion": {"/tcp/congestion": "bbr"} / {"/tcp/congestion": "dctcp"};
        "tcp-cubic-missing": {"/tcp/available": ["reno", "bbr"]} / {"/tcp/available": ["bbr", "cubic"]};
        "tcp-receive-buffer": {"/tcp/receive_max": 212992} / {"/tcp/receive_max": 4194304};
        "tcp-send-buffer": {"/tcp/send_max": 212992} / {"/tcp/send_max": 4194304};
        "tcp-window-scaling": {"/tcp/window_scaling": 0} / {"/tcp/window_scaling": 1};
        "tcp-sack": {"/tcp/sack": 0} / {"/tcp/sack": 1};
        "tcp-slow-start-idle": {"/tcp/slow_start_after_idle": 1} / {"/tcp/slow_start_after_idle": 0};
        "tcp-listen-overflow": {"/tcp/listen_overflows": 1, "/tcp/somaxconn": 128} / {"/tcp/listen_overflows": 1};
        "softnet-dropped": {"/tcp/softnet_dropped": 1} / {"/tcp/softnet_dropped": 0};
        "softnet-squeezed": {"/tcp/softnet_squeezed": 200000} / {"/tcp/softnet_squeezed": 90000};
        "conntrack-full": {"/tcp/conntrack/count": 262000} / {"/tcp/conntrack": null};
    }
}
