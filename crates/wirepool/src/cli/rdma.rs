//! Command line: RDMA.

use clap::Subcommand;

/// Commands about RDMA.
#[derive(Subcommand)]
pub(crate) enum RdmaCommand {
    Setup(crate::rdma_setup_command::RdmaSetupArgs),
}
