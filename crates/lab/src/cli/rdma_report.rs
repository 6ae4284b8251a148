//! `wirepool bench rdma-report`.

use super::args::HowArgs;
use super::bench::measure;
use super::coordinator::block_on;
use super::rdma_report_args::RdmaReportArgs;
use crate::plan::Machine;
use crate::probe::Interrupt;
use crate::probe::network::run::{Probe, run};
use crate::rdma_report::{RdmaFacts, RdmaReport, render};
use crate::targets::address_text::resolve;
use crate::targets::nvme_address::{Nvme, Transport};
use crate::targets::{Address, AnyTarget, OpenAs};
use crate::terminal::print;
use crate::workload::Workload;
use crate::{Error, Result};
use std::time::Duration;

/// Workloads: block size and depth of random reads.
const WORKLOADS: [(u32, u32); 4] = [(4096, 1), (4096, 32), (128 << 10, 1), (128 << 10, 8)];

/// Makes the report. Errors: `Usage` for addresses that are not of NVMe; other troubles are in the report.
pub(super) fn rdma_report(args: RdmaReportArgs) -> Result<()> {
    let addresses = match &args.target {
        Some(target) => both(target, args.tcp.as_ref())?,
        None => Vec::new(),
    };
    let json = args.json;
    let report = block_on(async move { make(args, addresses).await })?;
    print(&match json {
        true => io::printable::json(&format!("{:#}\n", report.json())).into_owned(),
        false => render(&report),
    })
}

/// The namespace over TCP and over RDMA, in this order.
fn both(target: &Address, tcp: Option<&Address>) -> Result<Vec<Nvme>> {
    let nvme = |address: &Address| match address {
        Address::Nvme(t) => Ok(t.clone()),
        other => Err(Error::usage(
            other.to_string(),
            "expected nvme-rdma://HOST:PORT/NQN or nvme-tcp://HOST:PORT/NQN",
        )),
    };
    let target = nvme(target)?;
    let over = |t: Nvme, transport| Nvme {
        transport,
        header_digest: false,
        data_digest: false,
        ..t
    };
    let tcp = match tcp {
        Some(address) => nvme(address)?,
        None => target.clone(),
    };
    Ok(vec![
        over(tcp, Transport::Tcp),
        over(target, Transport::Rdma),
    ])
}

async fn make(args: RdmaReportArgs, addresses: Vec<Nvme>) -> Result<RdmaReport> {
    let mut report = RdmaReport {
        machine: Machine::here(),
        at_ms: io::time::wall_clock_ms(),
        rdma: RdmaFacts::here(),
        probe: None,
        bench: None,
        missing: Vec::new(),
    };
    match &args.probe {
        Some(host) => match probe(host, args.probe_time).await {
            Ok(probed) => report.probe = Some(probed),
            Err(e) => report.missing.push(format!("verbs beside TCP: {e}")),
        },
        None => report.missing.push(
            "verbs beside TCP: name a machine that runs `wirepool probe serve` with --probe".into(),
        ),
    }
    if addresses.is_empty() {
        let why = "NVMe/RDMA beside NVMe/TCP: name a namespace, nvme-rdma://HOST:PORT/NQN";
        report.missing.push(why.into());
        return Ok(report);
    }
    let mut targets = Vec::new();
    for t in addresses {
        let name = t.transport.name();
        let address = Address::Nvme(t);
        match AnyTarget::open(&address, OpenAs::default()).await {
            Ok(_) => targets.push(address),
            Err(e) => report.missing.push(format!("NVMe/{name}: {e}")),
        }
    }
    if targets.is_empty() {
        return Ok(report);
    }
    let title = "NVMe/TCP and NVMe/RDMA".to_owned();
    let how = HowArgs::rounds(args.rounds);
    match measure(title, targets, workloads(args.time)?, true, how).await {
        Ok(bench) => {
            let has_server = bench.rows.iter().any(|row| row.server_us().is_some());
            if !has_server {
                let why = "processor time of the server: no process on this machine serves the target; run the report on the server, too";
                report.missing.push(why.into());
            }
            report.bench = Some(bench);
        }
        Err(e) => report
            .missing
            .push(format!("NVMe/RDMA beside NVMe/TCP: {e}")),
    }
    Ok(report)
}

fn workloads(runtime: Duration) -> Result<Vec<Workload>> {
    let all = WORKLOADS.iter().map(|(block_size, depth)| {
        Workload {
            block_size: *block_size,
            depth: *depth,
            runtime,
            ..Workload::default()
        }
        .with_mode("randread")
    });
    all.collect()
}

async fn probe(host: &str, time: Duration) -> Result<crate::probe::network::result::Probed> {
    let probe = Probe {
        address: resolve(host)?,
        time,
        streams: 4,
        message: 64,
        congestion: None,
        rdma: true,
    };
    run(probe, &Interrupt::default(), |part| eprintln!("{part}")).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        text.parse().expect("an address")
    }

    #[test]
    fn one_address_is_measured_over_both_transports() {
        let names = |target: &str, tcp: Option<&str>| {
            let tcp = tcp.map(address);
            let all = both(&address(target), tcp.as_ref()).expect("of NVMe");
            all.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let (tcp, rdma) = ("nvme-tcp://h:1/n?ns=2", "nvme-rdma://h:1/n?ns=2");
        assert_eq!(names(rdma, None), [tcp, rdma]);
        assert_eq!(names("nvme-tcp://h:1/n?ns=2&hdgst=1", None), [tcp, rdma]);
        let other = "nvme-tcp://h:2/n?ns=2";
        assert_eq!(names(rdma, Some(other)), [other, rdma]);
        let e = both(&address("mem:1M"), None).expect_err("it is no NVMe");
        assert!(e.to_string().contains("expected nvme-rdma://"), "{e}");
    }

    /// The parts of a report that fail are named, and the report is made.
    #[test]
    fn parts_that_cannot_be_measured_are_named() {
        let args = RdmaReportArgs {
            target: None,
            tcp: None,
            probe: Some("127.0.0.1:1".into()),
            time: Duration::from_millis(10),
            probe_time: Duration::from_millis(10),
            rounds: 1,
            json: false,
        };
        let targets = both(&address("nvme-rdma://127.0.0.1:1/nqn.x:y"), None).expect("of NVMe");
        let report = block_on(make(args, targets)).expect("a report");
        assert!(report.probe.is_none() && report.bench.is_none());
        let missing = report.missing.join("\n");
        for part in ["verbs beside TCP: ", "NVMe/TCP: ", "NVMe/RDMA: "] {
            assert!(missing.contains(part), "{part}: {missing}");
        }
        assert!(!report.machine.kernel.is_empty());
    }
}
