//! Commands and their data, under every combination of negotiated parameters.

use crate::pair::{
    BLOCK, BLOCKS, config, connect, pattern, read, run, run_simulated, serve, target,
};
use io::IoBuf;
use iscsi::login::Offer;
use iscsi::portal::Config as Settings;
use iscsi_initiator::{Config, Error, Proposal, WriteOptions};
use std::rc::Rc;
use std::sync::Arc;

/// Writes and reads back data of all sizes, at the queue depth of `config`.
pub(super) async fn move_data(config: Config) {
    let (session, unit) = connect(config).await;
    let unit = Rc::new(unit);
    let sizes = [1, 2, 7, 8, 16, 63, 128, 129, 512, 1024, 2048];
    let mut lba = 0;
    let mut jobs = Vec::new();
    for (i, blocks) in sizes.into_iter().enumerate() {
        let (unit, at) = (unit.clone(), lba);
        jobs.push(io::spawn(async move {
            let data = pattern(blocks * BLOCK, i as u64).await;
            let fua = i % 2 == 0;
            let written = unit.write(at, data.clone(), WriteOptions { fua }).await;
            written.expect("write");
            assert!(read(&unit, at, data.len()).await[..] == data[..]);
        }));
        lba += blocks as u64;
    }
    for job in jobs {
        job.await;
    }
    for (i, blocks) in sizes.into_iter().enumerate() {
        let data = pattern(blocks * BLOCK, 100 + i as u64).await;
        unit.write(i as u64, data.clone(), WriteOptions::default())
            .await
            .expect("write");
        assert!(read(&unit, i as u64, data.len()).await[..] == data[..]);
    }
    unit.flush().await.expect("flush");
    session.log_out().await;
}

fn proposals() -> Vec<Proposal> {
    let mut all = Vec::new();
    for bits in 0..16 {
        all.push(Proposal {
            header_digest: bits & 1 != 0,
            data_digest: bits & 2 != 0,
            initial_r2t: bits & 4 != 0,
            immediate_data: bits & 8 != 0,
            ..Proposal::default()
        });
    }
    all
}

#[test]
fn data_arrives_with_every_combination_of_digests_and_r2ts() {
    for proposal in proposals() {
        run_simulated(move || {
            let proposal = proposal.clone();
            async move {
                // Small limits of the target, so that sequences and bursts have several parts.
                let offer = Offer {
                    max_recv_data: 8192,
                    max_burst: 40_000,
                    first_burst: 20_000,
                    max_outstanding_r2t: 2,
                    ..Offer::default()
                };
                let target = target(Settings {
                    offer,
                    ..Settings::default()
                });
                let proposal = Proposal {
                    max_recv_data: 5000,
                    ..proposal
                };
                let c = Config {
                    proposal,
                    queue_depth: 7,
                    ..config(serve(&target))
                };
                move_data(c).await;
            }
        });
    }
}

#[test]
fn data_arrives_over_loopback_with_the_usual_limits() {
    for digests in [false, true] {
        run(move || async move {
            let target = target(Settings::default());
            let proposal = Proposal {
                header_digest: digests,
                data_digest: digests,
                ..Proposal::default()
            };
            move_data(Config {
                proposal,
                ..config(serve(&target))
            })
            .await;
        });
    }
}

#[test]
fn the_negotiated_parameters_are_reported() {
    run(|| async {
        let offer = Offer {
            header_digest: true,
            data_digest: false,
            max_burst: 100_000,
            ..Offer::default()
        };
        let target = target(Settings {
            offer,
            ..Settings::default()
        });
        let proposal = Proposal {
            header_digest: true,
            data_digest: true,
            immediate_data: false,
            ..Proposal::default()
        };
        let (session, _unit) = connect(Config {
            proposal,
            ..config(serve(&target))
        })
        .await;
        let link = session.link().expect("connected");
        let p = link.parameters;
        assert!(p.header_digest && !p.data_digest && !p.immediate_data && !p.initial_r2t);
        assert_eq!((p.max_burst, p.first_burst), (100_000, 100_000));
        assert_eq!((p.max_send_data, p.max_recv_data), (256 << 10, 256 << 10));
        assert_eq!(
            (link.alias.as_deref(), link.portal_group),
            (Some("a disk"), Some(1))
        );
        assert_eq!((link.window, link.tsih != 0), (128, true));
    });
}

#[test]
fn more_commands_than_the_window_wait_their_turn() {
    run(|| async {
        let target = target(Settings {
            command_window: 4,
            ..Settings::default()
        });
        let (session, unit) = connect(Config {
            queue_depth: 64,
            ..config(serve(&target))
        })
        .await;
        assert_eq!(session.link().expect("connected").window, 4);
        let unit = Rc::new(unit);
        let jobs: Vec<_> = (0..64)
            .map(|i| {
                let unit = unit.clone();
                io::spawn(async move {
                    let data = pattern(8 * BLOCK, i).await;
                    let options = WriteOptions::default();
                    unit.write(i * 8, data.clone(), options)
                        .await
                        .expect("write");
                    assert!(read(&unit, i * 8, data.len()).await[..] == data[..]);
                })
            })
            .collect();
        for job in jobs {
            job.await;
        }
        assert!(session.stats().completed >= 128);
    });
}

#[test]
fn units_report_their_properties() {
    run(|| async {
        let target = target(Settings::default());
        let (session, unit) = connect(config(serve(&target))).await;
        assert_eq!((unit.blocks(), unit.block_size()), (BLOCKS, BLOCK as u32));
        assert_eq!(session.report_luns().await.expect("answered"), [unit.lun()]);
        assert_eq!(unit.identity().await.expect("answered").vendor, "WIREPOOL");
        assert_eq!(unit.characteristics().await.expect("B1").rotation_rate, 1);
        assert!(unit.provisioning().await.expect("B2").unmap);
        let named = unit.designators().await.expect("83");
        assert!(
            named.iter().any(|d| d.kind == 3 && d.bytes.len() == 8),
            "{named:?}"
        );
        let caching = unit.caching().await.expect("caching page");
        assert!(caching.fua && !caching.write_protected);
        assert!(unit.limits().transfer_max > 0 && unit.limits().unmap_blocks_max > 0);
        unit.test_ready().await.expect("ready");
        assert!(
            matches!(session.unit(9).await, Err(Error::Invalid(_))),
            "no such unit"
        );
    });
}

#[test]
fn blocks_are_given_back_zeroed_compared_and_swapped() {
    run(|| async {
        let target = target(Settings::default());
        let (_session, unit) = connect(config(serve(&target))).await;
        let options = WriteOptions { fua: true };
        let (a, b) = (pattern(8 * BLOCK, 1).await, pattern(8 * BLOCK, 2).await);
        let zero = |buf: IoBuf| buf.iter().all(|b| *b == 0);
        for lba in [0, 8, 16] {
            unit.write(lba, a.clone(), options).await.expect("write");
        }
        unit.unmap(&[(0, 8), (16, 4)]).await.expect("unmap");
        assert!(zero(read(&unit, 0, 8 * BLOCK).await));
        assert!(zero(read(&unit, 16, 4 * BLOCK).await));
        unit.compare(8, a.clone()).await.expect("the same");
        let differs = unit.compare(8, b.clone()).await;
        assert!(matches!(differs, Err(Error::Miscompare(_))), "{differs:?}");
        let swap = |from: Arc<IoBuf>, to: Arc<IoBuf>| {
            let unit = &unit;
            async move { unit.compare_and_write(8, &from, &to, options).await }
        };
        swap(a.clone(), b.clone()).await.expect("swapped");
        let again = swap(a.clone(), b.clone()).await;
        assert!(matches!(again, Err(Error::Miscompare(_))), "{again:?}");
        assert!(read(&unit, 8, 8 * BLOCK).await[..] == b[..]);
        unit.write_zeroes(8, 4, true).await.expect("write same");
        assert!(zero(read(&unit, 8, 4 * BLOCK).await));
    });
}

#[test]
fn a_refused_command_is_an_error_and_the_session_continues() {
    run(|| async {
        let target = target(Settings::default());
        let (session, unit) = connect(config(serve(&target))).await;
        let data = pattern(BLOCK, 1).await;
        let options = WriteOptions::default();
        let beyond = unit.write(BLOCKS, data.clone(), options).await;
        assert!(
            matches!(beyond, Err(Error::Refused(s)) if s.asc == 0x2100),
            "{beyond:?}"
        );
        let (beyond, buf) = unit.read(u64::MAX, io::pool().alloc(BLOCK).await).await;
        assert!(matches!(beyond, Err(Error::Refused(_))), "{beyond:?}");
        assert_eq!(buf.len(), BLOCK, "the buffer comes back");
        let odd = unit.write(0, pattern(BLOCK - 1, 1).await, options).await;
        assert!(matches!(odd, Err(Error::Invalid(_))), "{odd:?}");
        unit.write(0, data.clone(), options).await.expect("write");
        assert!(read(&unit, 0, BLOCK).await[..] == data[..]);
        assert_eq!(session.stats().reconnects, 0);
    });
}
