//! Requests to the server while the load runs.
//!
//! **Called by** disturbances. **Invariants**: the load's thread never waits for the control socket.

use crate::client::Client;
use drill::{Error, Result};
use server::api::Call;
use std::sync::Arc;

/// Sends a request from a helper thread. Errors: `Disturbance` with the server's message.
pub(super) async fn request<C: Call>(client: &Arc<Client>, call: C) -> Result<C::Reply> {
    let client = client.clone();
    let asked = io::blocking(move || client.ask(&call)).await;
    let asked = asked.map_err(|e| Error::Disturbance(e.to_string()))?;
    asked.map_err(|e| Error::Disturbance(format!("{e:#}")))
}
