//! The `wirepool` command.
//!
//! **Owns** the command line. Every subcommand is a thin client of the control API (`server::api`), except
//! subcommands that work without a server. **Invariants**: results go to stdout, everything else to stderr; exit
//! codes are 0 for success, 1 for refused or failed, 2 for a wrong command line; every command with a table has
//! `--json`.

#![forbid(unsafe_code)]

mod advise;
mod ask;
mod cli;
mod client;
mod client_config_command;
mod columns;
mod commands;
mod console_command;
mod doctor_command;
mod drills;
mod filesystems;
mod inspect;
mod inspect_text;
mod layout;
mod members;
mod notify;
mod pages;
mod pools;
mod protocols;
mod rdma_setup_command;
mod rdma_status_command;
mod records;
mod rehearsal;
mod reservation_command;
mod serve;
mod setup;
mod snapshots;
mod surroundings;
mod tables;
mod top;
mod why;

use anyhow::Context;
use ask::print;
use clap::Parser;
use cli::rdma::RdmaCommand;
use cli::{ApiCommand, Cli, Command, MonitoringCommand};
use std::io::Write;
use std::os::fd::AsFd;
use std::process::ExitCode;

/// The C library's allocator slows down with the age of a pool's heap (`docs/decisions/0126`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Files for Prometheus and Grafana.
fn monitoring(command: MonitoringCommand) -> String {
    match command {
        MonitoringCommand::PrometheusRules => server::alert_rules(),
        MonitoringCommand::GrafanaDashboard => format!("{:#}\n", server::grafana_dashboard()),
        MonitoringCommand::Metrics => server::metrics_page(),
    }
}

/// Answers a server's questions for health logs until the unit is stopped. Its socket is the standard input, as systemd passes it.
fn disk_health() -> anyhow::Result<()> {
    let socket = std::io::stdin().as_fd().try_clone_to_owned()?;
    server::wear::serve_health(&socket.into()).context(
        "standard input is no listening Unix socket; systemctl start wirepool-health.socket",
    )
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Serve(args) => serve::run(&args, cli.control),
        Command::Bench(args) => {
            return lab::cli::run(*args, || surroundings::examine(cli.control));
        }
        Command::Demo(args) => return lab::cli::demo(args),
        Command::Ping(args) => return lab::cli::ping(&args, cli.json),
        Command::Ioping(args) => return lab::cli::ioping(&args, cli.json),
        Command::Probe(args) => return lab::cli::probe(&args, cli.json),
        Command::Inspect(args) => match inspect::run(args, cli.json) {
            Ok(code) => return code,
            Err(e) => Err(e),
        },
        Command::Doctor(args) => match doctor_command::run(*args, cli.control, cli.json) {
            Ok(code) => return code,
            Err(e) => Err(e),
        },
        Command::Rdma(RdmaCommand::Status) => {
            rdma_status_command::run(cli.control, cli.json).and_then(|text| print(&text))
        }
        Command::Rdma(RdmaCommand::Setup(args)) => {
            rdma_setup_command::run(&args, cli.control, cli.json)
        }
        Command::Drill(args) => match drills::run(*args, cli.control, cli.json) {
            Ok(code) => return code,
            Err(e) => Err(e),
        },
        Command::Api(ApiCommand::Describe) => {
            print(&ask::exact(&format!("{:#}", server::openapi())))
        }
        Command::Monitoring(command) => print(&monitoring(command)),
        Command::Generate { dir } => pages::generate(&dir),
        Command::DiskHealth => disk_health(),
        Command::Control(command) => {
            commands::run(command, cli.control, cli.json).and_then(|text| print(&text))
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            // The reader of stderr may have exited; the error cannot be reported then.
            let text = format!("{e:#}");
            let text = io::printable::printable_lines(&text);
            let _ = writeln!(std::io::stderr(), "wirepool: {text}");
            ExitCode::FAILURE
        }
    }
}
