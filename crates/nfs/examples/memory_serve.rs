//! Serves a file system in memory over NFS 4.1 and 3, for other people's clients and test suites.
//!
//! `memory_serve ADDRESS:PORT [LEASE_SECONDS]`: exports `/export` to every host without squash, registers with rpcbind where one runs,
//! prints `serving ADDRESS:PORT`, with the port that the system gave if it was 0, and serves until it is killed.

use backend::file::memory::{MemoryFiles, MemoryOptions};
use io::net::TcpListener;
use io::{Runtime, RuntimeConfig};
use nfs::export::{ExportConfig, Hosts, Rule, Squash};
use nfs::rpcbind::SOCKET;
use nfs::service::{Service, ServiceConfig};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// The time between two looks for clients whose courtesy is over.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

async fn serve(addr: SocketAddr, lease: Duration) -> Result<(), String> {
    let mut handle_key = [0; 16];
    io::rng::fill(&mut handle_key);
    let service = Service::new(ServiceConfig {
        handle_key,
        lease,
        recall_timeout: lease,
        ..ServiceConfig::default()
    });
    let rule = Rule {
        squash: Squash::None,
        ..Rule::read_write(Hosts::Any)
    };
    let export = ExportConfig {
        id: 1,
        path: "/export".into(),
        files: Arc::new(MemoryFiles::new(MemoryOptions::default())),
        rules: vec![rule],
    };
    service.add_export(export).map_err(|e| e.to_string())?;
    let listener = TcpListener::bind(addr).map_err(|e| e.to_string())?;
    service
        .register(Path::new(SOCKET), &[listener.local_addr()])
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
    let (Some(addr), Some(lease)) = (addr, lease) else {
        eprintln!("usage: memory_serve ADDRESS:PORT [LEASE_SECONDS]");
        return ExitCode::FAILURE;
    };
    let runtime = match Runtime::new(RuntimeConfig::default()) {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(serve(addr, Duration::from_secs(lease))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
