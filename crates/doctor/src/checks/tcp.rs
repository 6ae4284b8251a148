//! Checks of TCP settings.
//!
//! **Called by** [`super`]. **Invariants**: those of [`super`].

use crate::check::{Check, Judge, Side};
use crate::facts::{Facts, Known};
use crate::report::Severity;
use crate::step::Step;

/// Largest socket buffer that is too small for 10 Gb/s and 1 ms, bytes.
const BUFFER_MIN: u64 = 4 << 20;
/// Share of the connection table that is nearly full, percent.
const CONNTRACK_PERCENT: u64 = 80;
/// Squeezes of a million packets that are too many.
const SQUEEZED_OF_MILLION: u64 = 1000;

/// Connections that may wait at a listening socket: all hosts of a rack connect at once after its switch restarts.
const SOMAXCONN: u64 = 4096;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "tcp-congestion",
        side: Side::Client,
        severity: Severity::Warning,
        finds: "a default congestion control other than cubic, dctcp or reno",
        why: "The server sends under cubic (decision 0204); a client's writes go out under its own default. BBR paces them by \
              estimates that are wrong at tens of microseconds.",
        risk: "Only new connections change; it applies to all traffic of the machine.",
        judge: congestion,
    },
    Check {
        id: "tcp-cubic-missing",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "a kernel without cubic",
        why: "The server asks for cubic on each connection, and otherwise gets the default, which may pace storage traffic.",
        risk: "None.",
        judge: cubic_missing,
    },
    Check {
        id: "tcp-receive-buffer",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "a largest receive buffer below 4 MiB",
        why: "One connection cannot have more bytes in flight than the buffer: 10 Gb/s at 1 ms are 1.2 MiB, and half of a buffer is \
              bookkeeping.",
        risk: "More memory for connections that need it.",
        judge: receive_buffer,
    },
    Check {
        id: "tcp-send-buffer",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "a largest send buffer below 4 MiB",
        why: "The same for sending: reads of the server, writes of the client.",
        risk: "More memory for connections that need it.",
        judge: send_buffer,
    },
    Check {
        id: "tcp-window-scaling",
        side: Side::Both,
        severity: Severity::Critical,
        finds: "window scaling that is off",
        why: "Without it a connection has at most 64 KiB in flight: 0.5 Gb/s at 1 ms.",
        risk: "None; only new connections change.",
        judge: window_scaling,
    },
    Check {
        id: "tcp-sack",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "selective acknowledgements that are off",
        why: "One lost packet then makes TCP send everything after it again.",
        risk: "None; only new connections change.",
        judge: sack,
    },
    Check {
        id: "tcp-slow-start-idle",
        side: Side::Both,
        severity: Severity::Note,
        finds: "slow start after an idle connection",
        why: "Storage connections pause often. After each pause the first large read or write starts slowly again.",
        risk: "Bursts after a pause; harmless in a local network.",
        judge: slow_start,
    },
    Check {
        id: "tcp-listen-overflow",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "connections that were dropped because a listening socket was full",
        why: "After a cut all clients reconnect at once; a dropped attempt is repeated after a second or more.",
        risk: "None.",
        judge: listen_overflow,
    },
    Check {
        id: "softnet-dropped",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "packets that were dropped because a processor's queue was full",
        why: "Each is a lost packet for TCP.",
        risk: "A little more memory.",
        judge: softnet_dropped,
    },
    Check {
        id: "softnet-squeezed",
        side: Side::Both,
        severity: Severity::Note,
        finds: "receiving that often stops because its budget is used up",
        why: "Packets wait for the next turn of the processor, which adds latency under load.",
        risk: "Other work on that processor waits longer.",
        judge: softnet_squeezed,
    },
    Check {
        id: "conntrack-full",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "a firewall's connection table that is more than 80 % full",
        why: "When it is full, new connections are dropped silently, also reconnects of clients.",
        risk: "More kernel memory; storage ports can be left out of tracking instead.",
        judge: conntrack,
    },
];

fn congestion(facts: &Facts, j: &mut Judge) {
    let Some(name) = j.know("", &facts.tcp.congestion) else {
        return;
    };
    if !["cubic", "dctcp", "reno"].contains(&name.as_str()) {
        let key = "net.ipv4.tcp_congestion_control";
        let steps = Step::sysctl(j.check(), key, "cubic");
        j.find(key, format!("{name} is the default"), steps);
    }
}

fn cubic_missing(facts: &Facts, j: &mut Judge) {
    let Some(names) = j.know("", &facts.tcp.available) else {
        return;
    };
    if !names.iter().any(|n| n == "cubic") {
        let steps = vec![
            Step::run(&["modprobe", "tcp_cubic"]),
            Step::file("/etc/modules-load.d/wirepool-cubic.conf", &["tcp_cubic"]),
        ];
        let evidence = format!("available: {}", names.join(" "));
        j.find("net.ipv4.tcp_available_congestion_control", evidence, steps);
    }
}

fn buffer(j: &mut Judge, max: &Known<u64>, key: &str, value: &str) {
    if let Some(max) = j.know("", max).filter(|m| **m < BUFFER_MIN) {
        let steps = Step::sysctl(j.check(), key, value);
        j.find(key, format!("at most {max} bytes"), steps);
    }
}

fn receive_buffer(facts: &Facts, j: &mut Judge) {
    let key = "net.ipv4.tcp_rmem";
    buffer(j, &facts.tcp.receive_max, key, "4096 131072 16777216");
}

fn send_buffer(facts: &Facts, j: &mut Judge) {
    let key = "net.ipv4.tcp_wmem";
    buffer(j, &facts.tcp.send_max, key, "4096 65536 16777216");
}

/// A switch that should have another value.
fn switch(j: &mut Judge, value: &Known<u32>, key: &str, bad: u32, good: u32) {
    if j.know("", value) == Some(&bad) {
        let steps = Step::sysctl(j.check(), key, &good.to_string());
        j.find(key, format!("{key} = {bad}"), steps);
    }
}

fn window_scaling(facts: &Facts, j: &mut Judge) {
    let value = &facts.tcp.window_scaling;
    switch(j, value, "net.ipv4.tcp_window_scaling", 0, 1);
}

fn sack(facts: &Facts, j: &mut Judge) {
    switch(j, &facts.tcp.sack, "net.ipv4.tcp_sack", 0, 1);
}

fn slow_start(facts: &Facts, j: &mut Judge) {
    let value = &facts.tcp.slow_start_after_idle;
    switch(j, value, "net.ipv4.tcp_slow_start_after_idle", 1, 0);
}

fn listen_overflow(facts: &Facts, j: &mut Judge) {
    let most = j.know("", &facts.tcp.somaxconn).copied();
    let Some(n) = j.know("", &facts.tcp.listen_overflows) else {
        return;
    };
    // the count is of all time since boot: with this limit there is nothing left to set
    if *n > 0 && most.is_some_and(|most| most < SOMAXCONN) {
        let steps = Step::sysctl(j.check(), "net.core.somaxconn", &SOMAXCONN.to_string());
        j.find("TCP", format!("{n} connections dropped since boot"), steps);
    }
}

fn softnet_dropped(facts: &Facts, j: &mut Judge) {
    if let Some(n) = j.know("", &facts.tcp.softnet_dropped).filter(|n| **n > 0) {
        let steps = Step::sysctl(j.check(), "net.core.netdev_max_backlog", "16384");
        let evidence = format!("{n} packets dropped since boot (softnet_stat)");
        j.find("TCP", evidence, steps);
    }
}

fn softnet_squeezed(facts: &Facts, j: &mut Judge) {
    let (Some(n), Some(packets)) = (
        j.know("", &facts.tcp.softnet_squeezed),
        j.know("", &facts.tcp.softnet_packets),
    ) else {
        return;
    };
    if n.saturating_mul(1_000_000) > packets.saturating_mul(SQUEEZED_OF_MILLION) {
        let steps = Step::sysctl(j.check(), "net.core.netdev_budget", "600");
        let evidence = format!("{n} times for {packets} packets since boot (softnet_stat)");
        j.find("TCP", evidence, steps);
    }
}

fn conntrack(facts: &Facts, j: &mut Judge) {
    let Some(table) = j.know_if_any("", &facts.tcp.conntrack) else {
        return;
    };
    if table.count.saturating_mul(100) > table.max.saturating_mul(CONNTRACK_PERCENT) {
        let evidence = format!("{} of {} entries", table.count, table.max);
        let max = (table.max.saturating_mul(4)).to_string();
        let steps = Step::sysctl(j.check(), "net.netfilter.nf_conntrack_max", &max);
        j.find("nf_conntrack", evidence, steps);
    }
}
