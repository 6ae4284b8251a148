//! Checks of processors.
//!
//! **Called by** [`super`]. **Invariants**: those of [`super`]; a virtual machine without frequency and idle drivers is left
//! alone.

use crate::check::{Check, Judge, Side};
use crate::facts::Facts;
use crate::report::Severity;
use crate::step::Step;

/// Time to leave an idle state that costs more than a request over a fast network, µs.
const IDLE_LATENCY_US: u64 = 50;
/// Share of time taken by the hypervisor that shows in latencies, percent.
const STEAL_PERCENT: f64 = 2.0;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "cpu-governor",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "a frequency governor other than performance",
        why: "A storage server sleeps between requests; the governor then keeps it slow when the next one arrives.",
        risk: "More power while the machine is idle.",
        judge: governor,
    },
    Check {
        id: "cpu-idle-states",
        side: Side::Both,
        severity: Severity::Note,
        finds: "enabled idle states that take more than 50 µs to leave",
        why: "At queue depth 1 the processor sleeps during each request; waking up is part of its time.",
        risk: "More power while the machine is idle.",
        judge: idle,
    },
    Check {
        id: "cpu-frequency-limit",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "a frequency limit below the processor's own",
        why: "Some tool or power profile slows the machine down.",
        risk: "More power and heat.",
        judge: frequency,
    },
    Check {
        id: "cpu-steal",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "a hypervisor that took more than 2 % of the processors' time",
        why: "While another guest runs, requests wait; measurements jump.",
        risk: "None from looking.",
        judge: steal,
    },
];

fn governor(facts: &Facts, j: &mut Judge) {
    let cpus = j.know("", &facts.cpu.frequency).into_iter().flatten();
    let mut slow = Vec::new();
    for cpu in cpus {
        let name = format!("cpu{}", cpu.cpu);
        if let Some(g) = j.know(&name, &cpu.governor).filter(|g| *g != "performance") {
            slow.push((cpu.cpu, g));
        }
    }
    let Some((_, name)) = slow.first() else {
        return;
    };
    let evidence = format!("governor {name} on {} processors", slow.len());
    let path = |cpu: &u32| format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
    let mut steps: Vec<Step> = slow
        .iter()
        .map(|(cpu, _)| Step::set(path(cpu), "performance"))
        .collect();
    let line = "w- /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor - - - - performance";
    steps.push(Step::file(
        "/etc/tmpfiles.d/90-wirepool-governor.conf",
        &[line],
    ));
    j.find("processors", evidence, steps);
}

fn idle(facts: &Facts, j: &mut Judge) {
    let states = j.know("", &facts.cpu.idle).into_iter().flatten();
    let deep: Vec<String> = states
        .filter(|s| !s.is_disabled && s.latency_us > IDLE_LATENCY_US)
        .map(|s| format!("{} ({} µs)", s.name, s.latency_us))
        .collect();
    if !deep.is_empty() {
        let limit = IDLE_LATENCY_US.to_string();
        let steps = vec![
            Step::run(&["cpupower", "idle-set", "-D", &limit]),
            Step::advice(
                "for every boot: kernel parameter intel_idle.max_cstate=1, or tuned-adm profile latency-performance",
            ),
        ];
        j.find("processors", format!("enabled: {}", deep.join(", ")), steps);
    }
}

fn frequency(facts: &Facts, j: &mut Judge) {
    let cpus = j.know("", &facts.cpu.frequency).into_iter().flatten();
    let mut limited = Vec::new();
    for cpu in cpus {
        let name = format!("cpu{}", cpu.cpu);
        let (Some(max), Some(limit)) = (j.know(&name, &cpu.max_khz), j.know(&name, &cpu.limit_khz))
        else {
            continue;
        };
        if limit < max {
            limited.push((cpu.cpu, *limit, *max));
        }
    }
    let Some((_, limit, max)) = limited.first() else {
        return;
    };
    let evidence = format!(
        "limit {} MHz of {} MHz on {} processors",
        limit / 1000,
        max / 1000,
        limited.len()
    );
    let path = |cpu: &u32| format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_max_freq");
    let steps = limited
        .iter()
        .map(|(cpu, _, max)| Step::set(path(cpu), max));
    let steps = steps.chain([Step::advice(
        "find the power profile or tool that sets the limit",
    )]);
    let steps = steps.collect();
    j.find("processors", evidence, steps);
}

fn steal(facts: &Facts, j: &mut Judge) {
    let Some(percent) = j.know("", &facts.cpu.steal_percent) else {
        return;
    };
    if *percent > STEAL_PERCENT {
        let text = "give the guest processors of its own, or move it to a host with free ones";
        j.find(
            "processors",
            format!("{percent:.1} % of the time since boot"),
            vec![Step::advice(text)],
        );
    }
}
