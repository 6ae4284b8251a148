//! Command line: RDMA.

use clap::Subcommand;

/// Commands about RDMA.
#[derive(Subcommand)]
pub(crate) enum RdmaCommand {
    /// Show RDMA devices, their ports and GIDs, and whether programs and the server can use them.
    Status,
    Setup(crate::rdma_setup_command::RdmaSetupArgs),
}
