//! Serves a file system in memory over NFS 4.1 and 3, for other people's clients and test suites.
//!
//! `memory_serve ADDRESS:PORT [LEASE_SECONDS [DIRECTORY]]`: exports `/export` to every host without squash, registers with rpcbind where one
//! runs, prints `serving ADDRESS:PORT`, with the port that the system gave if it was 0, and serves until it is killed.
//!
//! With a directory it has TLS, too: the exports `/tls` and `/mtls` demand it, and the directory gets what clients need: the authority `ca.pem`,
//! a certificate of it with its key (`client.pem`, `client.key`), and another authority with such a pair (`other.pem`, `stranger.*`).

use backend::file::memory::{MemoryFiles, MemoryOptions};
use io::net::TcpListener;
use io::{Runtime, RuntimeConfig};
use nfs::export::{ExportConfig, Hosts, Rule, Security, Squash};
use nfs::rpc::ALPN;
use nfs::rpcbind::SOCKET;
use nfs::service::{NfsTransport, Service, ServiceConfig};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use testkit::certificates::Authority;
use tls::{Acceptor, Identity};

/// The time between two looks for clients whose courtesy is over.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// The names by which clients know the server: those of a guest of QEMU for its host.
const NAMES: &[&str] = &["host", "10.0.2.2", "localhost", "127.0.0.1"];

/// Makes certificates. Those of clients go to the directory.
fn certificates(directory: &Path) -> Result<Acceptor, String> {
    let write = |name: &str, text: &str| {
        std::fs::write(directory.join(name), text).map_err(|e| format!("{name}: {e}"))
    };
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    write("ca.pem", &ours.certificate)?;
    write("other.pem", &other.certificate)?;
    for (authority, name) in [(&ours, "client"), (&other, "stranger")] {
        let signed = authority.sign(&[name]);
        write(&format!("{name}.pem"), &signed.certificate)?;
        write(&format!("{name}.key"), &signed.key)?;
    }
    let server = ours.sign(NAMES);
    let identity = Identity {
        certificate: server.certificate.as_bytes(),
        key: server.key.as_bytes(),
    };
    let acceptor = Acceptor::new(identity, Some(ours.certificate.as_bytes()), ALPN);
    acceptor.map_err(|e| e.to_string())
}

fn export(id: u32, path: &str, security: Security) -> ExportConfig {
    let rule = Rule {
        squash: Squash::None,
        security,
        ..Rule::read_write(Hosts::Any)
    };
    let options = MemoryOptions {
        filesystem: u64::from(id),
        ..MemoryOptions::default()
    };
    ExportConfig {
        id,
        path: path.into(),
        files: Arc::new(MemoryFiles::new(options)),
        rules: vec![rule],
    }
}

async fn serve(addr: SocketAddr, lease: Duration, tls: Option<PathBuf>) -> Result<(), String> {
    let mut handle_key = [0; 16];
    io::rng::fill(&mut handle_key);
    let service = Service::new(ServiceConfig {
        handle_key,
        lease,
        recall_timeout: lease,
        ..ServiceConfig::default()
    });
    let mut exports = vec![export(1, "/export", Security::None)];
    if let Some(directory) = tls {
        service.set_tls(Some(certificates(&directory)?));
        exports.push(export(2, "/tls", Security::Tls));
        exports.push(export(3, "/mtls", Security::MutualTls));
    }
    for export in exports {
        service.add_export(export).map_err(|e| e.to_string())?;
    }
    let listener = TcpListener::bind(addr).map_err(|e| e.to_string())?;
    service
        .register(
            Path::new(SOCKET),
            &[(listener.local_addr(), NfsTransport::Tcp)],
        )
        .await;
    println!("serving {}", listener.local_addr());
    let sweeping = service.clone();
    drop(io::spawn(async move {
        loop {
            io::time::sleep(SWEEP_EVERY).await;
            sweeping.sweep().await;
        }
    }));
    loop {
        if let Ok(stream) = listener.accept().await {
            let service = service.clone();
            drop(io::spawn(async move { service.serve(stream).await }));
        }
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let addr = words.first().and_then(|word| word.parse().ok());
    let lease = match words.get(1) {
        Some(word) => word.parse().ok(),
        None => Some(90),
    };
    let tls = words.get(2).map(PathBuf::from);
    let (Some(addr), Some(lease)) = (addr, lease) else {
        eprintln!("usage: memory_serve ADDRESS:PORT [LEASE_SECONDS [DIRECTORY]]");
        return ExitCode::FAILURE;
    };
    let runtime = match Runtime::new(RuntimeConfig::default()) {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(serve(addr, Duration::from_secs(lease), tls)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
