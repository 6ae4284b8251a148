//! NVMe/TCP: connections of the target over TCP.
//!
//! | module | owns |
//! |---|---|
//! | [`framing`] | the form of PDUs, and everything that goes to the host |
//! | `transfer` | data that R2Ts asked for |
//! | `receive` | from bytes to commands |
//!
//! **Owns** a connection from its accepted stream to its end. **Called by** [`super::Target::serve`]. **Invariants**: one task per
//! connection polls receiver, sender and timer, so that a turn is one wake-up. Controllers, queues, commands and their fairness know
//! no transport: another one is another folder beside this.
//!
//! Sections: TCP 3.3 (queue model), 3.4 (connection states), 3.5 (errors).

mod framing;
mod receive;
mod transfer;

pub(super) use framing::Framing;

use super::common::Common;
use super::config::{PortRole, Transport};
use super::connection::ended;
use super::counters::ConnectionState;
use super::phase::Connection;
use super::shared::TargetShared;
use io::net::TcpStream;
use receive::receive;
use session::stream::transmit;
use session::turn;
use std::sync::Arc;

/// Serves one connection until it ends.
pub(super) async fn serve(target: Arc<TargetShared>, stream: TcpStream, role: PortRole) {
    let stall = target.config.stall_timeout;
    let admitted = target
        .connections
        .admit(&stream, ConnectionState::AwaitIcReq, stall);
    let Some(admitted) = admitted.await else {
        return;
    };
    target.counters.admitted(Transport::Tcp);
    let (link, key) = admitted.into_link(&stream, target.config.connection_budget);
    let conn = Connection::new(Common::new(target.clone(), (Transport::Tcp, role), link));
    let sent = transmit(conn.core(), &stream);
    let why = turn::run(conn.core(), &stream, receive(&conn, &stream), sent).await;
    stream.shutdown();
    ended(&target, &conn, key, why);
}
