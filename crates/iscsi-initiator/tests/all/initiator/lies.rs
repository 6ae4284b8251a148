//! Targets that violate the protocol: each violation ends the connection with an error that names it, and no command
//! succeeds.

use crate::initiator::fake::{Fake, Peer};
use crate::initiator::{BLOCK, config, connect, run};
use iscsi::wire::decode::DecodeError;
use iscsi::wire::request::ScsiCommand;
use iscsi::wire::response::{
    RejectReason, ScsiResponse, TaskResult, logout_response, nop_in, reject, task_response,
    text_response,
};
use iscsi::wire::{Bhs, Itt, Lun, Opcode, Sn, Ttt};
use iscsi_initiator::{Error, ProtocolError, WriteOptions};
use std::pin::Pin;
use std::sync::Arc;

/// Blocks of the command that is answered wrongly.
const LEN: usize = 32 * BLOCK;

type Lying = Pin<Box<dyn Future<Output = ()>>>;
type Lie = fn(Peer, ScsiCommand) -> Lying;

/// Runs a violation in answer to a read or a write, and checks the error that the caller gets.
fn told(write: bool, digests: bool, lie: Lie, expected: &Error) {
    let expected = expected.clone();
    run(move || {
        let expected = expected.clone();
        async move {
            let fake = Fake::disk(digests, move |_, mut peer| async move {
                if let Some((command, _)) = peer.command().await {
                    lie(peer, command).await;
                }
            });
            let (_session, unit) = connect(config(&fake)).await;
            let buf = io::pool().alloc(LEN).await;
            let got = if write {
                unit.write(0, Arc::new(buf), WriteOptions::default()).await
            } else {
                unit.read(0, buf).await.0
            };
            assert_eq!(got, Err(expected));
        }
    });
}

/// A script that violates the protocol and then keeps the connection open.
macro_rules! lie {
    (|$peer:ident, $c:ident| $body:expr) => {
        |mut $peer, $c| {
            Box::pin(async move {
                $body;
                // Keep the connection open: its end must not hide that the initiator accepted the violation.
                while $peer.recv().await.is_some() {}
            })
        }
    };
}

fn reads(lie: Lie, expected: impl Into<Error>) {
    told(false, false, lie, &expected.into());
}

fn writes(lie: Lie, expected: impl Into<Error>) {
    told(true, false, lie, &expected.into());
}

const OUT_OF_ORDER: ProtocolError =
    ProtocolError::Transfer("data outside of the task's, or out of order");
const R2T_OUTSIDE: ProtocolError =
    ProtocolError::Transfer("an R2T outside of the task's data, or out of order");
const INCOMPLETE: ProtocolError = ProtocolError::Transfer("success without all of the task's data");
const NOBODY_ASKED: ProtocolError = ProtocolError::Unexpected("a PDU that nobody asked for");

#[test]
fn answers_without_a_task() {
    reads(
        lie!(|p, c| p.respond(Itt(c.itt.0 ^ 1 << 12), 0, &[]).await),
        ProtocolError::NoTask,
    );
    reads(
        lie!(|p, c| p.respond(Itt(c.itt.0 + 1), 0, &[]).await),
        ProtocolError::NoTask,
    );
    reads(
        lie!(|p, _c| p.respond(Itt::NONE, 0, &[]).await),
        ProtocolError::NoTask,
    );
    reads(
        lie!(|p, c| p.data(Itt(c.itt.0 ^ 1), 0, 0, &[0; 512], false).await),
        ProtocolError::NoTask,
    );
    reads(
        lie!(|p, c| p.r2t(Itt(c.itt.0 ^ 1), 0, 0, 512).await),
        ProtocolError::NoTask,
    );
    reads(
        lie!(|p, _c| p
            .send(nop_in(Itt(99), Ttt::NONE, Lun::default()), &[])
            .await),
        ProtocolError::NoTask,
    );
    reads(
        lie!(|p, c| p
            .send(task_response(c.itt, TaskResult::Complete), &[])
            .await),
        ProtocolError::NoTask,
    );
}

#[test]
fn data_that_does_not_fit() {
    reads(
        lie!(|p, c| p.data(c.itt, 0, 0, &[0; LEN + 512], true).await),
        OUT_OF_ORDER,
    );
    reads(
        lie!(|p, c| p.data(c.itt, 0, 512, &[0; 512], false).await),
        OUT_OF_ORDER,
    );
    reads(
        lie!(|p, c| p.data(c.itt, 0, usize::MAX >> 33, &[0; 512], false).await),
        OUT_OF_ORDER,
    );
    reads(
        lie!(|p, c| {
            p.data(c.itt, 0, 0, &[0; 512], false).await;
            p.data(c.itt, 1, 0, &[0; 512], false).await
        }),
        OUT_OF_ORDER,
    );
    reads(
        lie!(|p, c| {
            p.data(c.itt, 0, 0, &[0; LEN], false).await;
            p.data(c.itt, 1, LEN, &[0; 4], true).await
        }),
        OUT_OF_ORDER,
    );
    reads(
        lie!(|p, c| p.data(c.itt, 0, 0, &[], false).await),
        ProtocolError::Unexpected("a Data-In with neither data nor an end"),
    );
    writes(
        lie!(|p, c| p.data(c.itt, 0, 0, &[0; 512], true).await),
        ProtocolError::Transfer("data for a task that reads none"),
    );
}

#[test]
fn success_without_the_data() {
    reads(lie!(|p, c| p.respond(c.itt, 0, &[]).await), INCOMPLETE);
    reads(
        lie!(|p, c| p.data(c.itt, 0, 0, &[0; 512], true).await),
        INCOMPLETE,
    );
    writes(lie!(|p, c| p.respond(c.itt, 0, &[]).await), INCOMPLETE);
}

#[test]
fn serial_numbers_that_jump() {
    let data_sn = ProtocolError::SerialNumber("DataSN");
    reads(
        lie!(|p, c| p.data(c.itt, 1, 0, &[0; 512], false).await),
        data_sn,
    );
    reads(
        lie!(|p, c| {
            p.data(c.itt, 0, 0, &[0; 512], false).await;
            p.data(c.itt, 2, 512, &[0; 512], false).await
        }),
        data_sn,
    );
    let stat_sn = ProtocolError::SerialNumber("StatSN");
    reads(
        lie!(|p, c| {
            p.stat_sn = p.stat_sn.plus(1);
            p.respond(c.itt, 2, &[]).await
        }),
        stat_sn,
    );
    reads(
        lie!(|p, c| {
            p.stat_sn = Sn(p.stat_sn.0.wrapping_sub(1));
            p.data(c.itt, 0, 0, &[0; LEN], true).await
        }),
        stat_sn,
    );
    let r2t_sn = ProtocolError::SerialNumber("R2TSN");
    writes(lie!(|p, c| p.r2t(c.itt, 1, 1024, 512).await), r2t_sn);
}

#[test]
fn requests_beyond_the_data_of_a_write() {
    // The command carried 1024 bytes of immediate data.
    writes(lie!(|p, c| p.r2t(c.itt, 0, 0, 512).await), R2T_OUTSIDE);
    writes(lie!(|p, c| p.r2t(c.itt, 0, 1024, 0).await), R2T_OUTSIDE);
    writes(
        lie!(|p, c| p.r2t(c.itt, 0, 1024, LEN - 1023).await),
        R2T_OUTSIDE,
    );
    writes(lie!(|p, c| p.r2t(c.itt, 0, LEN, 512).await), R2T_OUTSIDE);
    writes(
        lie!(|p, c| p.r2t(c.itt, 0, usize::MAX >> 32, 512).await),
        R2T_OUTSIDE,
    );
    writes(
        lie!(|p, c| p.r2t(c.itt, 0, 1024, 8193).await),
        ProtocolError::Limit("an R2T for more than MaxBurstLength"),
    );
    reads(
        lie!(|p, c| p.r2t(c.itt, 0, 0, 512).await),
        ProtocolError::Transfer("an R2T for a task that writes nothing"),
    );
    writes(
        lie!(|p, c| {
            let mut all = Vec::new();
            for n in 0..30usize {
                let r2t = iscsi::wire::response::R2t {
                    lun: Lun::default(),
                    itt: c.itt,
                    ttt: Ttt(n as u32),
                    r2t_sn: n as u32,
                    offset: (1024 + n * 512) as u32,
                    len: 512,
                };
                let mut bhs = r2t.build();
                bhs.set_window(p.exp_cmd_sn, p.exp_cmd_sn.plus(31));
                all.extend(p.encode(bhs, &[]));
            }
            p.send_bytes(all).await
        }),
        ProtocolError::Limit("more R2Ts outstanding than MaxOutstandingR2T"),
    );
}

#[test]
fn pdus_that_have_no_place() {
    for opcode in [Opcode::LoginResponse, Opcode::NopOut, Opcode::DataOut] {
        let lies: Lie = match opcode {
            Opcode::LoginResponse => {
                lie!(|p, _c| p.send(Bhs::new(Opcode::LoginResponse), &[]).await)
            }
            Opcode::NopOut => lie!(|p, _c| p.send(Bhs::new(Opcode::NopOut), &[]).await),
            _ => lie!(|p, _c| p.send(Bhs::new(Opcode::DataOut), &[]).await),
        };
        reads(lies, NOBODY_ASKED);
    }
    reads(
        lie!(|p, _c| p
            .send(text_response(Itt(1), true, false, Ttt::NONE), &[])
            .await),
        NOBODY_ASKED,
    );
    reads(
        lie!(|p, c| p.send(logout_response(c.itt, 0, 0, 0), &[]).await),
        NOBODY_ASKED,
    );
    reads(
        lie!(|p, _c| {
            let mut unknown = Bhs::new(Opcode::NopIn);
            unknown.0[0] = 0x3e;
            p.send(unknown, &[]).await
        }),
        NOBODY_ASKED,
    );
    let limit = ProtocolError::Limit("a PDU with more data than it can have");
    reads(lie!(|p, c| p.respond(c.itt, 2, &[0x70; 1100]).await), limit);
    let long = DecodeError::DataTooLong {
        len: 0xff_fffc,
        max: 256 << 10,
    };
    reads(
        lie!(|p, c| {
            let mut bhs = ScsiResponse {
                status: 2,
                itt: c.itt,
                exp_data_sn: 0,
                residual: iscsi::wire::response::Residual::None,
            }
            .build();
            bhs.set_data_len(0xff_fffc);
            p.send_bytes(bhs.0.to_vec()).await
        }),
        ProtocolError::Decode(long),
    );
}

#[test]
fn floods_and_rejects() {
    reads(
        lie!(|p, _c| {
            let mut all = Vec::new();
            for n in 0..200 {
                let mut ping = nop_in(Itt::NONE, Ttt(n), Lun::default());
                ping.set_window(p.exp_cmd_sn, p.exp_cmd_sn.plus(31));
                all.extend(p.encode(ping, &[]));
            }
            p.send_bytes(all).await
        }),
        ProtocolError::Limit("a flood of pings"),
    );
    let reason = RejectReason::INVALID_PDU_FIELD;
    reads(
        lie!(|p, c| p
            .send(reject(RejectReason::INVALID_PDU_FIELD), &c.build().0)
            .await),
        Error::Rejected(reason),
    );
    reads(
        lie!(|p, _c| p
            .send(reject(RejectReason::INVALID_PDU_FIELD), &[1, 2])
            .await),
        Error::Rejected(reason),
    );
}

#[test]
fn damaged_digests() {
    let header = Error::Protocol(DecodeError::HeaderDigest.into());
    let damaged: Lie = lie!(|p, c| {
        p.damage_header = true;
        p.data(c.itt, 0, 0, &[0; LEN], true).await
    });
    told(false, true, damaged, &header);
    let damaged: Lie = lie!(|p, c| {
        p.damage_data = true;
        p.data(c.itt, 0, 0, &[0; LEN], true).await
    });
    told(false, true, damaged, &Error::DataDigest);
    let damaged: Lie = lie!(|p, c| {
        p.damage_data = true;
        p.respond(c.itt, 2, &[0x70; 18]).await
    });
    told(false, true, damaged, &Error::DataDigest);
}

#[test]
fn a_connection_that_ends_in_the_middle() {
    let half: Lie = |mut p, c| {
        Box::pin(async move {
            let pdu = iscsi::wire::response::DataIn {
                last: false,
                status: None,
                itt: c.itt,
                data_sn: 0,
                offset: 0,
                len: LEN as u32,
            };
            let bytes = p.encode(pdu.build(), &[0; LEN]);
            p.send_bytes(bytes[..LEN / 2].to_vec()).await;
        })
    };
    told(false, false, half, &Error::Disconnected);
}
