//! Targets that make use of what the RFCs leave to them.

use crate::initiator::fake::{Fake, Peer};
use crate::initiator::{BLOCK, config, connect, run};
use iscsi_initiator::{Config, Proposal, WriteOptions};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

const MODE_SENSE_10: u8 = 0x5a;
const WRITE_16: u8 = 0x8a;
const SYNCHRONIZE_CACHE_16: u8 = 0x91;
/// FUA in byte 1 of a write.
const FUA: u8 = 0x08;

#[test]
fn no_immediate_data_is_agreed_without_an_answer() {
    run(|| async {
        let fake = Fake::disk(false, |_, mut peer: Peer| async move {
            let (write, data) = peer.command().await.expect("a command");
            assert!(data.is_empty(), "{} bytes in the command", data.len());
            peer.collect(write.itt, 0, BLOCK).await;
            peer.respond(write.itt, 0, &[]).await;
        });
        let proposal = Proposal {
            immediate_data: false,
            ..Proposal::default()
        };
        let (session, unit) = connect(Config {
            proposal,
            ..config(&fake)
        })
        .await;
        assert!(!session.link().expect("connected").parameters.immediate_data);
        let data = Arc::new(io::pool().alloc(BLOCK).await);
        let written = unit.write(0, data, WriteOptions::default()).await;
        written.expect("after an R2T");
    });
}

/// Two writes with FUA to a unit whose MODE SENSE has these values of DPOFUA and WCE. Returns operation code and FUA of the commands.
async fn durable_writes(fua: bool, write_cache: bool) -> Vec<(u8, bool)> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let commands = seen.clone();
    let fake = Fake::disk(false, move |_, mut peer: Peer| {
        let commands = commands.clone();
        async move {
            while let Some((command, _)) = peer.command().await {
                let operation = command.cdb[0];
                let bit = operation == WRITE_16 && command.cdb[1] & FUA != 0;
                commands.borrow_mut().push((operation, bit));
                match operation {
                    MODE_SENSE_10 => {
                        let mut page = [0; 28];
                        page[1] = 26;
                        page[3] = if fua { 0x10 } else { 0 };
                        page[8..10].copy_from_slice(&[0x08, 18]);
                        page[10] = if write_cache { 0x04 } else { 0 };
                        peer.data(command.itt, 0, 0, &page, true).await;
                    }
                    _ => peer.respond(command.itt, 0, &[]).await,
                }
            }
        }
    });
    let (_session, unit) = connect(config(&fake)).await;
    for _ in 0..2 {
        let data = Arc::new(io::pool().alloc(BLOCK).await);
        let written = unit.write(0, data, WriteOptions { fua: true }).await;
        written.expect("durable");
    }
    seen.take()
}

#[test]
fn a_unit_without_fua_gets_a_flush_if_it_has_a_write_cache() {
    run(|| async {
        let (asked, plain, flush) = (
            (MODE_SENSE_10, false),
            (WRITE_16, false),
            (SYNCHRONIZE_CACHE_16, false),
        );
        let with_bit = (WRITE_16, true);
        for write_cache in [false, true] {
            assert_eq!(
                durable_writes(true, write_cache).await,
                [asked, with_bit, with_bit]
            );
        }
        assert_eq!(durable_writes(false, false).await, [asked, plain, plain]);
        assert_eq!(
            durable_writes(false, true).await,
            [asked, plain, flush, plain, flush]
        );
    });
}
