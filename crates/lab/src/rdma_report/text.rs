//! The report as text.

use super::{Port, RdmaReport};
use crate::probe::network::render as probe_text;
use crate::report::table::{self, blank};
use crate::size::{digits, utc};
use io::printable::printable;
use std::fmt::Write;

/// Said where a device is emulated by the kernel.
const EMULATED: &str = "\nA device here is emulated by the kernel (rxe, siw): its speed proves nothing about hardware.\n";

/// The report: machine, devices, verbs beside TCP, NVMe/RDMA beside NVMe/TCP, missing parts.
#[must_use]
pub fn render(r: &RdmaReport) -> String {
    let m = &r.machine;
    let mut out = format!(
        "RDMA report of {}, wirepool {}\n\nmachine    {} × {}, {} GiB, Linux {}\n",
        utc(r.at_ms),
        env!("CARGO_PKG_VERSION"),
        m.processors,
        m.processor,
        m.memory >> 30,
        m.kernel
    );
    let core = r.rdma.rdma_core.as_deref().unwrap_or("of unknown version");
    let _ = match &r.rdma.reason {
        None => writeln!(
            out,
            "rdma-core  {core}, providers {}",
            r.rdma.providers.join(" ")
        ),
        Some(why) => writeln!(out, "programs   cannot use RDMA: {}", printable(why)),
    };
    match r.rdma.ports.is_empty() {
        true => out.push_str("devices    none\n"),
        false => {
            let _ = writeln!(out, "\n{}", ports(&r.rdma.ports));
        }
    }
    if r.is_emulated() {
        out.push_str(EMULATED);
    }
    if let Some(p) = &r.probe {
        out.push_str(&probe_text(p));
    }
    if let Some(bench) = &r.bench {
        let _ = write!(out, "\n{}", table::render(bench, false));
    }
    if !r.missing.is_empty() {
        out.push_str("\nnot in this report:\n");
    }
    for missing in &r.missing {
        let _ = writeln!(out, "  {}", printable(missing));
    }
    out
}

fn ports(all: &[Port]) -> String {
    let header = [
        "port",
        "driver",
        "type",
        "firmware",
        "state",
        "rate",
        "link",
        "GIDs",
        "interface",
        "MTU",
        "PCIe",
    ];
    let mut t = blank(&header, header.len() - 1);
    let or_dash = |text: &str| match text.is_empty() {
        true => "–".to_owned(),
        false => printable(text).into_owned(),
    };
    let known = |text: &Option<String>| or_dash(text.as_deref().unwrap_or_default());
    for p in all {
        let port = &p.summary;
        t.add_row([
            or_dash(&port.name()),
            or_dash(&p.driver),
            or_dash(&p.kind),
            or_dash(&p.firmware),
            known(&port.state),
            port.rate_gbps
                .map_or("–".into(), |gbps| format!("{} Gb/s", digits(gbps))),
            known(&port.link_layer),
            or_dash(&port.gid_types.join(", ")),
            or_dash(&port.interface),
            p.mtu.map_or("–".into(), |mtu| mtu.to_string()),
            or_dash(&p.pcie),
        ]);
    }
    t.to_string()
}

#[cfg(test)]
mod tests {
    use super::super::tests::facts;
    use super::*;
    use crate::plan::Machine;
    use crate::probe::samples;

    fn report() -> RdmaReport {
        RdmaReport {
            machine: Machine {
                processor: "Some CPU".into(),
                processors: 8,
                memory: 64 << 30,
                kernel: "6.1.0".into(),
                load: 0.0,
            },
            at_ms: 0,
            rdma: facts(),
            probe: Some(samples::probed()),
            bench: Some(crate::report::html::tests::sample()),
            missing: vec!["NVMe/RDMA: refused\x1b[2J".into()],
        }
    }

    #[test]
    fn all_parts_are_in_text_and_json() {
        let mut r = report();
        let text = render(&r);
        for word in [
            "1970-01-01",
            "8 × Some CPU, 64 GiB, Linux 6.1.0",
            "rdma-core  44.0, providers mlx5",
            "mlx5_0/1",
            "14.32.1010",
            "25.0 Gb/s",
            "IB/RoCE v1, RoCE v2",
            "9000",
            "8 GT/s x8",
            "messages of 64 bytes",
            "not in this report:",
        ] {
            assert!(text.contains(word), "{word} is not in\n{text}");
        }
        assert!(!text.contains("proves nothing") && !text.contains('\x1b'));
        let json = r.json();
        assert_eq!(json["rdma"]["ports"][0]["rate_gbps"], 25.0);
        assert_eq!(json["kernel"], "6.1.0");
        assert!(json["probe"]["latency"]["p50_ns"].is_u64());
        assert!(json["bench"]["wirepool"]["rows"].is_array());

        r.rdma.ports[0].driver = "rxe".into();
        assert!(render(&r).contains("proves nothing about hardware"));
        r.rdma.ports.clear();
        r.rdma.reason = Some("rdma-core is not installed".into());
        let text = render(&r);
        assert!(text.contains("cannot use RDMA: rdma-core is not installed"));
        assert!(text.contains("devices    none"));
    }
}
