//! 64 bad initiators beside a good one: buffers that the bad ones hold do not change the good one's latency.

use crate::fixture::{Fixture, target_config_with};
use crate::initiator::{Initiator, rw10, text};
use backend::BlockBackend;
use io::sim::Node;
use io::time::sleep;
use iscsi::portal::{CloseReason, Config};
use iscsi::wire::response::{LoginStatus, R2t};
use iscsi::wire::{Isid, Opcode};
use std::sync::Arc;
use std::time::Duration;
use testkit::fairness::{self, BAD_HOSTS, BLOCK, HELD, disk};

/// Sessions of each bad initiator.
const BAD_SESSIONS: u8 = 2;
/// Commands of each session, none of which it lets end.
const BAD_DEPTH: usize = 100;

/// How a bad initiator holds buffers.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    /// Reads whose data it does not receive.
    Reads,
    /// Writes whose data it does not send.
    Writes,
    /// Writes whose data comes four bytes at a time.
    Drip,
    /// Writes whose immediate data is one byte short.
    Immediate,
}

#[derive(Debug, Clone, Copy)]
struct Attack {
    way: Way,
    one_address: bool,
    /// Bytes of each of their commands.
    len: u32,
}

/// A session under this name.
async fn log_in(fx: &Fixture, who: u8, session: u8) -> Option<Initiator> {
    let mut i = fx.connect().await;
    i.isid = Isid([0x80, 1, 2, 3, who, session]);
    let initiator = format!("iqn.2026-11.test:bad{who}");
    let pairs = [
        ("InitiatorName", initiator.as_str()),
        ("TargetName", crate::fixture::DISK),
        ("ImmediateData", "Yes"),
        ("InitialR2T", "Yes"),
    ];
    let request = i.login_request(1, Some(3));
    let (response, pairs) = i.login_step(request, &text(&pairs)).await;
    i.agreed(&response, &pairs);
    if response.status != LoginStatus::SUCCESS {
        return None;
    }
    i.clear_attentions().await;
    Some(i)
}

/// Sends commands and lets none of them end, until the target closes the connection.
async fn hold(mut i: Initiator, attack: Attack) {
    let blocks = (attack.len / BLOCK) as u16;
    let writes = attack.way != Way::Reads;
    let opcode = if writes { 0x2a } else { 0x28 };
    let immediate = match attack.way {
        Way::Immediate => attack.len.min(8192) as usize,
        _ => 0,
    };
    let mut bytes = Vec::new();
    for _ in 0..BAD_DEPTH {
        let c = i.command(&rw10(opcode, 0, blocks), attack.len, writes);
        bytes.extend(i.encode(c.build(), &vec![0; immediate]));
    }
    if attack.way == Way::Immediate {
        bytes.pop();
    }
    i.send_bytes(bytes).await;
    match attack.way {
        // The target's output fills the socket, and is not received.
        Way::Reads => sleep(HELD).await,
        Way::Writes | Way::Immediate => while i.recv().await.is_some() {},
        Way::Drip => drip(i, attack.len).await,
    }
}

/// Answers one R2T, four bytes at a time.
async fn drip(mut i: Initiator, len: u32) {
    let r2t = loop {
        match i.recv().await {
            Some((bhs, _)) if bhs.opcode() == Some(Opcode::R2t) => break R2t::parse(&bhs),
            Some(_) => {}
            None => return,
        }
    };
    let d = iscsi::wire::request::DataOut {
        last: true,
        lun: r2t.lun,
        itt: r2t.itt,
        ttt: r2t.ttt,
        exp_stat_sn: i.exp_stat_sn,
        data_sn: 0,
        offset: r2t.offset,
    };
    let whole = i.encode(d.build(), &vec![0; r2t.len.min(len) as usize]);
    for piece in whole.chunks(4) {
        sleep(Duration::from_millis(200)).await;
        if !i.send_bytes(piece.to_vec()).await {
            return;
        }
    }
}

/// A bad initiator. It reconnects when a connection is closed.
async fn attack_from(fx: Arc<Fixture>, who: u8, attack: Attack) {
    loop {
        let mut sessions = Vec::new();
        for n in 0..BAD_SESSIONS {
            if let Some(i) = log_in(&fx, who, n).await {
                sessions.push(io::spawn(hold(i, attack)));
            }
        }
        for s in sessions {
            s.await;
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// The 99th percentile of the latency of reads and of writes of this size, µs.
async fn p99(i: &mut Initiator, len: u32) -> [u64; 2] {
    let data = vec![0x5a; len as usize];
    fairness::p99(async |writes| {
        let ended = match writes {
            false => i.read(0, (len / BLOCK) as u16).await,
            true => i.write(0, &data, 0).await,
        };
        assert_eq!(ended.status, 0, "{ended:?}");
    })
    .await
}

async fn serve() -> Fixture {
    serve_with(Config::default()).await
}

/// A target on a disk whose reads take time and buffers.
pub(crate) async fn serve_with(config: Config) -> Fixture {
    let machine = Node::new();
    let opened = machine.spawn(disk(machine));
    let disk: Arc<dyn BlockBackend> = Arc::new(opened.await.expect("not killed"));
    let served = target_config_with(crate::fixture::DISK, disk);
    Fixture::on(machine, config, served).await
}

fn good_initiator_is_as_fast_as_alone(attack: Attack, len: u32) {
    fairness::run(11, async move {
        let fx = Arc::new(serve().await);
        let good = Node::new().spawn({
            let fx = fx.clone();
            async move {
                let mut i = fx.session(&[]).await;
                i.segment_max = 256 << 10;
                let alone = p99(&mut i, len).await;
                let together = Node::new();
                for who in 0..BAD_HOSTS {
                    let machine = if attack.one_address {
                        together
                    } else {
                        Node::new()
                    };
                    drop(machine.spawn(attack_from(fx.clone(), who, attack)));
                }
                sleep(Duration::from_secs(1)).await;
                fairness::compare(&attack, len, alone, p99(&mut i, len).await);
            }
        });
        fairness::finish(good).await;
        assert_eq!(fx.target.counters().closed_for(CloseReason::Protocol), 0);
    });
}

fn all_ways(one_address: bool, good: u32) {
    for way in [Way::Reads, Way::Writes, Way::Drip, Way::Immediate] {
        let len = 1 << 20;
        let attack = Attack {
            way,
            one_address,
            len,
        };
        good_initiator_is_as_fast_as_alone(attack, good);
    }
}

#[test]
fn small_commands_beside_bad_initiators_at_many_addresses() {
    all_ways(false, 4096);
}

#[test]
fn large_commands_beside_bad_initiators_at_many_addresses() {
    all_ways(false, 1 << 20);
}

#[test]
fn large_commands_beside_bad_initiators_at_one_address() {
    all_ways(true, 1 << 20);
}
